# SPDX-License-Identifier: Apache-2.0
"""Levels of marked ports: whose excess it is, who is told, and when."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.rates.division import Congestion, Notice, Source
from sdngcc.controller.rates.levels import FOLLOWED_NS, HALF_LIFE_NS, HEEDED_NS, LOOK_NS, Levels, with_levels

C = 125_000_000
T = 5_000_000
POINT, OTHER = (0x11, 3), (0x12, 4)
SECOND = 1_000_000_000


def source(number, sent, limit=None, weight=1, elsewhere=0, guarantee=0):
    """Return a machine that sends up to its limit unless that is given."""
    limit = sent + elsewhere if limit is None else limit
    return Source((1, number), sent, weight, sent > 0, sent + elsewhere, limit, guarantee)


def marked(*sources, point=POINT, carried=C, marks=100, interval_ns=T):
    return Congestion(point, marks, interval_ns, sources, carried)


def levels(capacity=math.inf):
    return Levels(lambda point: capacity, T)


def told(found):
    return {vm[1]: rate for vm, (rate, _) in found.items()}


def test_a_newcomer_at_line_rate_and_those_before_it_are_told_the_same():
    sources = [source(number, C // 3) for number in range(3)] + [source(3, C)]
    assert told(levels().decide([marked(*sources)], SECOND)) == dict.fromkeys(range(4), C // 4)


def test_levels_are_by_weight():
    sources = [source(0, C, weight=1), source(1, C, weight=3)]
    assert told(levels().decide([marked(*sources)], SECOND)) == {0: C // 4, 1: 3 * C // 4}


def test_who_sends_little_keeps_that_and_is_told_nothing():
    small = [source(number, C // 500, limit=C) for number in range(10, 40)]
    found = told(levels().decide([marked(source(0, C), source(1, C), *small)], SECOND))
    assert found == pytest.approx(dict.fromkeys((0, 1), (C - 30 * (C // 500)) / 2), abs=1)


def test_a_guarantee_is_taken_off_what_others_have():
    sources = [source(0, C, guarantee=C // 2), source(1, C), source(2, C)]
    assert told(levels().decide([marked(*sources)], SECOND)) == {0: C // 4, 1: C // 4, 2: C // 4}


def test_what_a_machine_sends_elsewhere_is_added():
    sources = [source(0, C // 2, elsewhere=C // 5), source(1, C)]
    assert told(levels().decide([marked(*sources)], SECOND)) == {0: C // 2 + C // 5, 1: C // 2}


def test_of_two_ports_the_lower_level_is_told():
    both = [marked(source(0, C), source(1, C)), marked(source(0, C), source(2, C), source(3, C), point=OTHER)]
    assert told(levels().decide(both, SECOND))[0] == round(C / 3)


@pytest.mark.parametrize("carried, capacity, level", [
    (0, math.inf, None), (0, C, C // 2), (C, math.inf, C // 2), (C, C // 2, C // 4), (C // 2, C, C // 4)])  # fmt: skip
def test_capacity_is_the_least_of_what_is_measured_and_what_is_set(carried, capacity, level):
    found = told(levels(capacity).decide([marked(source(0, C), source(1, C), carried=carried)], SECOND))
    assert found == ({} if level is None else {0: level, 1: level})


def test_what_others_send_is_left_to_them():
    known, found = levels(), {}
    for number in range(200):
        again = known.decide([marked(source(0, 2 * C // 5, limit=C), source(1, C // 5))], SECOND + number * T)
        found.update(told(again))
    assert found == pytest.approx({0: 0.3 * C, 1: 0.3 * C}, rel=0.05)


def test_what_others_send_is_doubted_without_readings():
    known, now = levels(), SECOND
    for number in range(200):
        now = SECOND + number * T
        known.decide([marked(source(0, 2 * C // 5, limit=C), source(1, C // 5))], now)
    found = {}
    for _ in range(4 * HALF_LIFE_NS // LOOK_NS):
        now += LOOK_NS
        kept = [source(number, round(0.3 * C)) for number in range(2)]
        found.update(told(known.decide([marked(*kept, carried=0)], now)))
    assert found == pytest.approx({0: 0.4875 * C, 1: 0.4875 * C}, rel=0.03), "0.4 C of others, halved four times"


def test_nothing_is_told_where_somebody_else_fills_the_port():
    assert levels().decide([marked(source(0, C // 5), source(1, C // 5))], SECOND) == {}


def test_messages_are_few():
    known = levels()
    even = [source(0, C // 2), source(1, C // 2)]
    assert told(known.decide([marked(*even)], SECOND)) == {0: C // 2, 1: C // 2}
    assert known.decide([marked(*even)], SECOND + T) == {}
    assert told(known.decide([marked(even[0], source(1, C))], SECOND + 2 * T)) == {1: C // 2}, "above its level"
    three = [*even, source(2, C)]
    assert told(known.decide([marked(*three)], SECOND + 3 * T)) == dict.fromkeys(range(3), round(C / 3)), "moved"
    late = SECOND + 4 * T + HEEDED_NS // 2
    assert set(told(known.decide([marked(*[source(n, C // 3) for n in range(3)])], late))) == {0, 1, 2}, "late"


def test_when_marks_cease_those_below_the_level_are_told_that_it_rose():
    known, now = levels(), SECOND
    known.decide([marked(*[source(number, C) for number in range(4)])], now)
    assert known.to_look_at(now) == [] and known.to_look_at(now + LOOK_NS) == [POINT]
    now += LOOK_NS
    stay = [source(0, C // 4), source(1, C // 4), source(2, 0, limit=C // 4), source(3, 0, limit=C // 4)]
    quiet = marked(*stay, marks=0, carried=0)
    assert told(known.decide([quiet], now)) == {0: C // 2, 1: C // 2}
    assert known.to_look_at(now + FOLLOWED_NS) == []


def test_without_marks_nobody_is_told_to_send_less():
    known = levels()
    known.decide([marked(source(0, C // 2), source(1, C // 2))], SECOND)
    above = marked(source(0, C // 2 + C // 50), source(1, C // 2), source(2, C // 5), marks=0, carried=0)
    found = known.decide([above], SECOND + LOOK_NS)
    assert all(rate > one.limit for one in above.sources for vm, (rate, _) in found.items() if vm == one.vm)


def test_a_port_that_is_gone_is_forgotten():
    known = levels()
    known.decide([marked(source(0, C), source(1, C))], SECOND)
    known.forget(*POINT)
    assert known.to_look_at(SECOND + LOOK_NS) == []
    assert known.decide([marked(source(0, C), source(1, C), carried=0)], SECOND + T) == {}


def test_levels_go_beside_marks_or_alone():
    of_marks = [Notice((1, 2), 5, T, 3, POINT)]
    found = with_levels(of_marks, {(1, 2): (10_000, OTHER), (1, 1): (20_000, OTHER)})
    assert [(one.vm, one.marks, one.level, one.point) for one in found] == [
        ((1, 1), 0, 20_000, OTHER), ((1, 2), 5, 10_000, POINT)]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 2 * C), st.integers(1, 2 * C), st.integers(1, 100)), min_size=1, max_size=20))
def test_levels_fill_the_port_and_no_more(drawn):
    """Whoever wants more at the level, and the others at what they send or their level, are what the port carries."""
    sources = [source(n, sent, max(sent, limit), weight) for n, (sent, limit, weight) in enumerate(drawn)]
    found = told(levels(C).decide([marked(*sources, carried=0)], SECOND))
    units = {found[one.vm[1]] / one.weight for one in sources if one.vm[1] in found}
    if not units:
        return
    unit = max(units)
    assert min(units) == pytest.approx(unit, rel=0.01, abs=126)
    assert sum(min(one.sent_rate, one.weight * unit) for one in sources) <= C * 1.001 + 20 * 126
    assert all(one.vm[1] in found for one in sources if one.sent_rate > 1.02 * one.weight * unit + 126)
