# SPDX-License-Identifier: Apache-2.0
"""An operator is told when marks come too seldom for what is decided by them."""

import collections
import logging
import pathlib

import pytest

from sdngcc.controller.network.topology import Topology
from sdngcc.controller.rates.capacity import Capacity, Marked
from sdngcc.controller.rates.staleness import USABLE_NS, Staleness
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import SOURCES

MS = 1_000_000


@pytest.fixture
def source():
    return SOURCES["openflow"].make(Settings(notify=False), Topology())


def hear(source, dpid, every_ms, until_ms=2000):
    for moment in range(0, until_ms + 1, every_ms):
        source.news.heard(dpid, moment * MS)


@pytest.mark.parametrize(("decision", "usable_ms", "beyond_ms"), [("marks", 100, 200), ("maxmin", 1000, 2000)])
def test_each_decision_has_its_bound(source, decision, usable_ms, beyond_ms):
    staleness = Staleness(source, decision, collections.Counter())
    hear(source, 1, usable_ms)
    hear(source, 2, beyond_ms)
    assert [one.dpid for one in staleness.stale(2000 * MS)] == [2]
    assert staleness.measured_ns(2000 * MS) == beyond_ms * MS
    assert usable_ms * MS < staleness.usable_ns < beyond_ms * MS


def test_the_log_hears_once_of_each_change(source, caplog):
    counters = collections.Counter()
    caplog.set_level(logging.INFO, "sdngcc")
    staleness = Staleness(source, "marks", counters)
    hear(source, 0xF1, 5, 1000)
    for moment in range(1000, 3000, 100):
        staleness.check(moment * MS)
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "switch 00000000000000f1 have ceased" in caplog.text and counters["marks_stale"] == 1
    [stale] = staleness.stale(3000 * MS)
    assert stale.silent and stale.interval_ns == 2000 * MS
    source.news.heard(0xF1, 3000 * MS)
    staleness.check(3000 * MS)
    assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]


def test_seldom_is_told_from_silent(source, caplog):
    counters = collections.Counter()
    staleness = Staleness(source, "marks", counters)
    hear(source, 0xF1, 400, 4000)
    staleness.check(4000 * MS)
    assert "come every 400 ms, which is too seldom for decision marks: every 150 ms" in caplog.text
    staleness.check(6000 * MS)
    assert "have ceased, for 2000 ms: shims return" in caplog.text
    assert len(caplog.records) == 2 and counters["marks_stale"] == 1


def test_a_switch_that_is_gone_is_not_stale(source):
    counters = collections.Counter()
    staleness = Staleness(source, "marks", counters)
    hear(source, 1, 5, 100)
    source.news.forget(1)
    assert staleness.stale(10**12) == [] and staleness.measured_ns(10**12) == 0


def test_what_is_allowed_does_not_rise_while_nothing_is_heard():
    """An engine that hears no marks any more passes no time: silence of a source is no sign of room."""
    capacity = Capacity(1e8, 0.0)
    for _ in range(10):
        capacity.update(capacity.allowed, Marked(330, 5 * MS), 5 * MS)
    low = capacity.update(0.5e8, Marked(0, 0), 0)
    for _ in range(1000):
        assert capacity.update(0.5e8, Marked(0, 0), 0) == low
    assert capacity.update(0.5e8, Marked(0, 0), 5 * MS) > low


def test_bounds_are_those_of_the_docs():
    text = (pathlib.Path(__file__).parents[3] / "docs/controller.md").read_text()
    for decision, bound_ns in USABLE_NS.items():
        assert f"| {decision} | {bound_ns // MS} ms |" in text
