# SPDX-License-Identifier: Apache-2.0
"""The benchmark of a large network, on a small one: each row happens, and leaves nothing undone."""

import time

import pytest

from sdngcc.testbed.bench import beneath, size


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
    assert len(rows) == 15 and all(row.calls and row.longest_ms <= row.total_ms for row in rows.values())
    assert rows["broadcast in a VLAN of 20 VMs"].messages <= 16 < rows["broadcast to all ports without a tag"].messages
    assert rows["link down"].messages and rows["new pair, attribution after it"].messages
    assert rows["sdngcc round, marks at one port"].messages > 1
    assert rows["watched for a second, all VMs move"].calls > 2 * 60 / 20


def test_every_change_of_the_file_beneath_happens(tmp_path):
    site = beneath.Beneath(tmp_path, 20, 60)
    site.build()
    attribution, fabric = site.engine.attribution, set(site.spines)
    pairs = site.engine.relations.pairs()
    assert len(pairs) == 60 * size.TARGETS and any(hop[0] in fabric for pair in pairs for hop in attribution.way(pair))
    rows = beneath.rows(site)
    assert len(rows) == 4 and all(row.calls and row.longest_ms <= row.total_ms for row in rows)
    switches = {*site.leaves, *site.spines}

    def cabling(links):
        """Return links without the ports of hosts, which the graph numbers itself."""
        return {frozenset(end if end[0] in switches else end[0] for end in ends) for ends in links}

    assert cabling(site.engine.topology.links()) == cabling(beneath.moved(site)) != cabling(site.links)
