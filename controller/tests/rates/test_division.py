# SPDX-License-Identifier: Apache-2.0
"""Division of marks: nothing lost, nothing made, nobody favoured in the long run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.rates.division import Congestion, Divider, Source, marks_before_drops, weight_total

POINT = (0x11, 3)
INF = float("inf")
RATES = st.lists(st.integers(0, 10**11), min_size=1, max_size=40)
MARKS = st.lists(st.integers(1, 10**6), min_size=1, max_size=20)


def sources(rates):
    return [Source((1, port), rate) for port, rate in enumerate(rates)]


@given(st.sampled_from(["bytes", "equal"]), RATES, MARKS)
def test_marks_are_conserved(division, rates, series):
    divider = Divider(division)
    for marks in series:
        given_out = divider.divide(Congestion(POINT, marks, 5_000_000, sources(rates)))
        assert sum(given_out.values()) == marks
        assert all(part >= 0 for part in given_out.values())


@given(RATES, RATES, st.integers(1, 1000))
def test_marks_are_conserved_when_sources_change(first, second, marks):
    divider = Divider("bytes")
    divider.divide(Congestion(POINT, marks, 1, sources(first)))
    assert sum(divider.divide(Congestion(POINT, marks, 1, sources(second))).values()) == marks


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=8), st.integers(1, 7))
def test_rounding_evens_out(rates, marks):
    divider, total = Divider("bytes"), dict.fromkeys(range(len(rates)), 0)
    turns = 200
    for _ in range(turns):
        for (_, port), part in divider.divide(Congestion(POINT, marks, 1, sources(rates))).items():
            total[port] += part
    for port, rate in enumerate(rates):
        assert abs(total[port] - turns * marks * rate / sum(rates)) < 2


def test_bytes_is_in_proportion_to_what_was_sent():
    parts = Divider("bytes").divide(Congestion(POINT, 100, 1, sources([10, 30, 60])))
    assert list(parts.values()) == [10, 30, 60]


def test_equal_is_the_papers():
    parts = Divider("equal").divide(Congestion(POINT, 99, 1, sources([10, 30, 60])))
    assert list(parts.values()) == [33, 33, 33]


def test_bytes_without_any_rate_known_is_equal():
    assert list(Divider("bytes").divide(Congestion(POINT, 8, 1, sources([0, 0]))).values()) == [4, 4]


def test_bytes_without_any_rate_known_spares_the_inactive():
    some = [Source((1, 1), active=False), Source((1, 2)), Source((1, 3))]
    assert list(Divider("bytes").divide(Congestion(POINT, 8, 1, some)).values()) == [0, 4, 4]


def test_without_sources_nobody_is_told():
    assert Divider("bytes").notices([Congestion(POINT, 8, 1, [])]) == []


def test_unknown_division_is_refused():
    with pytest.raises(ValueError, match='"fair" is not known'):
        Divider("fair")


@given(st.lists(st.tuples(RATES, st.integers(1, 1000)), min_size=1, max_size=5))
def test_one_notice_a_machine_whatever_the_number_of_ports(ports):
    congestions = [
        Congestion((0x11, number), marks, number + 1, sources(rates)) for number, (rates, marks) in enumerate(ports)
    ]
    notices = Divider("bytes").notices(congestions)
    assert len({notice.vm for notice in notices}) == len(notices)
    assert sum(notice.marks for notice in notices) == sum(marks for _, marks in ports)
    assert all(notice.interval_ns == notice.point[1] + 1 for notice in notices)


def test_weights_of_the_active_count():
    one, two, three = (Source((1, port), 1, weight) for port, weight in ((1, 1), (2, 2), (3, 4)))
    idle = Source((1, 4), 0, 8, active=False)
    assert weight_total([one, two, three, idle]) == 7
    assert weight_total([idle]) == 8


@pytest.mark.parametrize(
    "rates, capacity, before",
    [([100, 200], 100, 30), ([60, 60], 100, 12), ([50, 50], 100, 10), ([10], 100, 10), ([], 100, 10), ([100], INF, 10),
     ([2**64], 1, 2**32 - 1)],
)
def test_marks_of_what_a_port_dropped_are_added(rates, capacity, before):
    assert marks_before_drops(10, rates, capacity) == before
