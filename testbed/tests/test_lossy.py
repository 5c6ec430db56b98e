# SPDX-License-Identifier: Apache-2.0
"""Lost feedback: the filter takes feedback and nothing else, and the controller's losses follow each other."""

import struct

import pytest

from sdngcc.controller.rates.batch import Telling, gather
from sdngcc.controller.rates.notifier import Notifier
from sdngcc.testbed.virtual.lossy import LossyNotices, loss_filter

ETHERNET = bytes(12)
TCP_FLAGS = {"ACK": 0x10, "ECE": 0x40, "SYN": 0x02}


def packet(protocol, flags=0, ethertype=0x0800, ecn=0):
    """Return an Ethernet frame with an IPv4 header and a TCP header's worth of payload."""
    ip = struct.pack("!BBHHHBBH8x", 0x45, 0xFC | ecn, 40, 0, 0, 64, protocol, 0)
    return ETHERNET + struct.pack("!H", ethertype) + ip + bytes(13) + bytes([flags]) + bytes(6)


def tcp(*flags):
    """Return a TCP segment with those flags."""
    return packet(6, sum(TCP_FLAGS[flag] for flag in flags))


def matches(percent, law, frame, number, marks_alone=False):
    """Run the classic BPF program of the filter on a frame; number is what its random number is."""
    words = loss_filter("up", percent, law, marks_alone)[1]
    count, *lines = words[words.index("bytecode") + 1].split(",")
    program = [tuple(map(int, line.split())) for line in lines]
    assert len(program) == int(count)
    at, value = 0, 0
    while True:
        code, yes, no, k = program[at]
        if code == 0x06:  # ret
            return bool(k)
        if code == 0x20:  # ld of the kernel's random number
            assert k == 2**32 - 4096 + 56
            value = number
        elif code in (0x28, 0x30):  # ldh, ldb
            value = int.from_bytes(frame[k:k + (2 if code == 0x28 else 1)], "big")
        elif code == 0x54:  # and
            value &= k
        else:  # jeq, jge
            at += yes if (value == k if code == 0x15 else value >= k) else no
        at += 1


@pytest.mark.parametrize("law, frame, lost", [
    ("eyeq", packet(253), True), ("eyeq", tcp("ACK", "ECE"), False), ("eyeq", packet(253, ethertype=0x86DD), False),
    ("vcc", tcp("ACK", "ECE"), True), ("vcc", tcp("ACK"), False), ("vcc", tcp("SYN", "ECE"), False),
    ("vcc", packet(17, TCP_FLAGS["ECE"]), False), ("vcc", packet(253), False)])
def test_the_filter_takes_feedback_only(law, frame, lost):
    assert matches(90, law, frame, 2**31) is lost


@pytest.mark.parametrize("percent, marks_alone", [(100, False), (60, True)])
def test_marks_are_lost_without_their_packets(percent, marks_alone):
    assert [matches(percent, "vcc", packet(6, ecn=ecn), 2**31, marks_alone) for ecn in range(4)] == [
        False, False, False, True]
    assert not matches(percent, "vcc", packet(6, ethertype=0x86DD, ecn=3), 2**31, marks_alone)
    words = loss_filter("up", percent, "vcc", marks_alone)[1]
    assert "pedit" in words and "drop" not in words
    assert "drop" in loss_filter("up", 60, "vcc")[1] and "drop" in loss_filter("up", 100, "eyeq")[1]


@pytest.mark.parametrize("percent, number, lost", [
    (10, 2**32 // 10 - 9, True), (10, 2**32 // 10 + 9, False), (50, 2**31 + 9, False), (100, 2**32 - 2, True)])
def test_the_filter_takes_its_part(percent, number, lost):
    assert matches(percent, "scc", packet(253), number) is lost


def test_losses_of_notices_follow_each_other(monkeypatch):
    monkeypatch.setattr(Notifier, "address", lambda self, batch: batch)
    loss = LossyNotices(iter([100.0, 50.0, 0.0]), 1)
    loss.install()
    rates, batch = [], gather([Telling((b"a", b"b"), (1, 2), None)] * 1000)
    for _ in range(4):
        rates.append(1 - len(Notifier.address(None, batch)) / 1000)
        loss.next()
    assert rates == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=0.05)
