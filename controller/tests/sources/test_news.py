# SPDX-License-Identifier: Apache-2.0
"""How often news comes is measured; a source that is delayed tells nothing sooner."""

import pytest

from sdngcc.controller.network.topology import Topology
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import SOURCES, DelayedMarks, PortMarks
from sdngcc.controller.sources.news import News

MS = 1_000_000
DPID = 0xF1


def test_the_interval_is_that_of_most_news():
    news = News()
    assert news.interval_ns(DPID, 0) is None
    moments = [0, 100, 200, 300, 900, 1000, 1100, 1200]
    for moment in moments:
        news.heard(DPID, moment * MS)
    assert news.interval_ns(DPID, 1200 * MS) == 100 * MS
    assert not news.is_silent(DPID, 1500 * MS) and news.is_silent(DPID, 1501 * MS)
    assert news.interval_ns(DPID, 1900 * MS) == 700 * MS
    news.heard(DPID, 1900 * MS)
    assert news.interval_ns(DPID, 1900 * MS) == 100 * MS


def test_silence_while_this_process_stood_still_is_none():
    news = News()
    for moment in range(20):
        news.heard(DPID, moment * 5 * MS)
    now = (95 + 1200) * MS
    assert news.is_silent(DPID, now)
    news.forgive(1200 * MS)
    assert not news.is_silent(DPID, now) and news.interval_ns(DPID, now) == 5 * MS
    news.heard(DPID, now + 5 * MS)
    assert news.interval_ns(DPID, now + 5 * MS) == 5 * MS
    assert news.is_silent(DPID, now + 25 * MS)


def test_a_source_that_becomes_slow_is_seen_so():
    news = News()
    for moment in range(100):
        news.heard(DPID, moment * 5 * MS)
    for moment in range(20):
        news.heard(DPID, 1000 * MS + moment * 200 * MS)
    assert news.interval_ns(DPID, 4800 * MS) == 200 * MS


def test_marks_tell_that_counters_stand_still_between_answers():
    news = News()
    for moment in range(20):
        news.heard(DPID, moment * 5 * MS)
    news.counted(DPID, 500 * MS)
    assert news.interval_ns(DPID, 95 * MS) == 500 * MS
    news.counted(7, MS)  # of a switch never heard of


def test_a_switch_that_is_forgotten_is_expected_no_more():
    news = News()
    news.heard(DPID, 0)
    news.heard(DPID, 5 * MS)
    news.forget(DPID)
    assert news.switches() == [] and not news.is_silent(DPID, 10**12) and news.interval_ns(DPID, 10**12) is None


def delayed(delay_ms=100):
    settings = Settings(notify=False)
    return DelayedMarks(SOURCES["openflow"].make(settings, Topology()), delay_ms * MS)


class Counted:
    """An inner source whose marks are given."""

    def __init__(self, source):
        self.source = source
        source._inner.take_in_steps = lambda dpid, marks: iter([[PortMarks((dpid, 3), marks, 5 * MS)]] if marks else [])

    def poll(self, now_ms, marks):
        self.source.answered(DPID, now_ms * MS)
        return self.source.take(DPID, marks)


def test_marks_are_known_one_delay_after_they_were_sampled():
    source = delayed()
    inner = Counted(source)
    for moment in range(0, 100, 5):
        assert inner.poll(moment, 2) == []
    assert source.sample(100 * MS) == []  # sampled now, known a delay later
    for moment in range(100, 200, 5):
        assert inner.poll(moment, 1) == []
    assert source.sample(200 * MS) == [PortMarks((DPID, 3), 40, 100 * MS)]
    assert source.sample(300 * MS) == [PortMarks((DPID, 3), 20, 100 * MS)]
    assert source.sample(400 * MS) == []


def test_news_of_a_delayed_source_comes_with_its_marks():
    source = delayed()
    inner = Counted(source)
    for number in range(1, 6):
        inner.poll(number * 100 - 50, 0)
        source.sample(number * 100 * MS)
    assert source.news.interval_ns(DPID, 500 * MS) == 100 * MS
    assert source.freshness_ns == 200 * MS
    for number in range(6, 12):
        source.sample(number * 100 * MS)
    assert source.news.is_silent(DPID, 1100 * MS)


def test_what_is_kept_back_of_a_lost_port_is_forgotten():
    source = delayed()
    inner = Counted(source)
    inner.poll(5, 9)
    source.forget(DPID, 4)
    source.sample(100 * MS)
    source.forget(DPID, 3)
    assert source.sample(200 * MS) == []


def test_the_delayed_source_delivers_by_itself(monkeypatch):
    """Its collector sleeps until the delay is over, whatever the clock does between."""
    source = delayed()
    inner = Counted(source)
    now, told = [0], []

    class Done(Exception):
        pass

    def sleep(seconds):
        now[0] += round(seconds * 1e9)
        inner.poll(now[0] // MS, 3)
        if now[0] >= 400 * MS:
            raise Done

    monkeypatch.setattr("sdngcc.controller.sources.delayed.time.sleep", sleep)
    [deliver] = source.collectors(lambda fresh: told.append((now[0] // MS, fresh)), lambda: now[0])
    with pytest.raises(Done):
        deliver()
    assert told[0] == (100, []) and [moment for moment, _ in told] == [100, 200, 300]
    assert told[1][1] == [PortMarks((DPID, 3), 3, 100 * MS)]
