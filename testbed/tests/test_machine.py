# SPDX-License-Identifier: Apache-2.0
"""What is done before a machine starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdngcc.testbed.machine import compile_sources
from sdngcc.testbed.virtual.agent import Failure, check_memory, tcp_counters


def test_sources_are_compiled_wherever_the_project_lies(tmp_path: Path) -> None:
    root = tmp_path / ".hidden" / "build" / "tests"
    for name in ("a.py", "controller/b.py", ".venv/c.py", "controller/tests/d.py", "results/e.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n", encoding="ascii")
    compile_sources(root)
    assert {path.name.split(".")[0] for path in root.rglob("*.pyc")} == {"a", "b"}


NETSTAT = "TcpExt: SyncookiesSent TCPMemoryPressures TCPTimeouts\nTcpExt: 0 {} 3\nIpExt: InOctets\nIpExt: 7\n"


def test_a_run_in_which_vms_felt_each_others_memory_fails() -> None:
    check_memory("vm1", NETSTAT.format(0))
    with pytest.raises(Failure, match="vm20 was short of memory 11 times"):
        check_memory("vm20", NETSTAT.format(11))


def test_segments_are_counted_by_name() -> None:
    text = "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 40 2\nUdp: InDatagrams\nUdp: 9\n"
    assert tcp_counters(text) == {"out_segs": 40, "retrans_segs": 2}
