# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the user-space datapath: its frames, what it reads and what it makes of its samples."""

import struct

import pytest

from sdngcc.testbed.bench import userspace

STATS = """main thread:
  packets received: 7
pmd thread numa_id 0 core_id 0:
  packets received: 1102880
  packet recirculations: 0
"""


@pytest.mark.parametrize("size", [60, 1514])
def test_frames_are_ipv4_with_right_lengths_and_checksum(size):
    frame = userspace.frame(5, size)
    assert len(frame) == size and frame[12:14] == b"\x08\x00" and frame[14] == 0x45
    total = sum(struct.unpack("!10H", frame[14:34]))
    assert (total & 0xffff) + (total >> 16) == 0xffff
    assert struct.unpack("!H", frame[16:18])[0] == size - 14 and struct.unpack("!H", frame[38:40])[0] == size - 34
    assert frame != userspace.frame(6, size)


def test_the_file_has_all_frames(tmp_path):
    userspace.write_frames(tmp_path / "in.pcap", 100)
    assert (tmp_path / "in.pcap").stat().st_size == 24 + userspace.FRAMES * 116


def test_only_pmd_threads_count():
    assert userspace.packets_received(STATS) == 1102880
    with pytest.raises(userspace.BenchError, match="no PMD thread runs: main thread"):
        userspace.packets_received("main thread:\n  packets received: 7\n")


def test_ratios_are_taken_within_a_round():
    rounds = [{"no law": 100.0, "static, police": 110.0}, {"no law": 300.0, "static, police": 330.0},
              {"no law": 100.0, "static, police": 150.0}]
    law = userspace.summarize(rounds)[1]
    assert law == {"turn": "static, police", "ns": 150.0, "ratio": 1.1, "ratio_low": 1.1, "ratio_high": 1.5}


def test_it_says_what_is_not_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(userspace.os, "geteuid", lambda: 0)
    assert userspace.main(["--folder", str(tmp_path)]) == 2
    assert "ovs-vswitchd-dpdk is not there" in capsys.readouterr().err
    monkeypatch.setattr(userspace.os, "geteuid", lambda: 1000)
    assert userspace.main(["--folder", str(tmp_path)]) == 2
    assert "needs root" in capsys.readouterr().err
