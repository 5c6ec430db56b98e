# SPDX-License-Identifier: Apache-2.0
"""The benchmark of a large network, on a small one: each row happens, and leaves nothing undone."""

import time

import pytest

from sdngcc.testbed.bench import size


class ProcessorTime:
    """A clock that goes while this process computes or sleeps, so that what else the machine does delays nothing."""

    def __init__(self):
        self.slept_ns = 0
        self.thread_time = time.thread_time

    def monotonic_ns(self):
        return time.process_time_ns() + self.slept_ns

    def monotonic(self):
        return self.monotonic_ns() / 1e9

    def sleep(self, seconds):
        self.slept_ns += round(seconds * 1e9)


@pytest.fixture(autouse=True)
def processor_time(monkeypatch):
    monkeypatch.setattr(size, "time", ProcessorTime())


def test_every_row_happens(tmp_path, monkeypatch):
    monkeypatch.setattr(size, "_HOUSEKEEPING_S", 0.05)
    rows = {row.name: row for row in size.measure(20, 60, tmp_path)}
    assert len(rows) == 12 and all(row.calls and row.longest_ms <= row.total_ms for row in rows.values())
    assert rows["broadcast in a VLAN of 20 VMs"].messages <= 16 < rows["broadcast to all ports without a tag"].messages
    assert rows["link down"].messages and rows["new pair, attribution after it"].messages
    assert rows["sdngcc round, marks at one port"].messages > 1
