# SPDX-License-Identifier: Apache-2.0
"""Poll schedules without drift."""

from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.monitor import FACTOR_MAX, NAP_NS, Monitor

T = 5_000_000


def asked(monitor, now, xid=1):
    turn, _ = monitor.due(now)
    for dpid in turn:
        monitor.asked(dpid, xid, now)
    return turn


@given(st.lists(st.integers(0, T - 1), min_size=1, max_size=100))
def test_late_wake_ups_never_move_the_schedule(lateness):
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    monitor.set_idle(1, False, 0)
    first = NAP_NS // T + 1
    for turn, late in enumerate(lateness, first):
        assert monitor.next_ns() == turn * T
        assert asked(monitor, turn * T + late) == [1]
        monitor.answered(1, 1, turn * T + late)


def test_never_two_requests_outstanding_then_backing_off():
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    monitor.set_idle(1, False, 0)
    first = monitor.next_ns()
    assert asked(monitor, first) == [1]
    notes = []
    for turn in range(1, 4):
        due, said = monitor.due(first + turn * T)
        assert due == []
        notes += said
    assert monitor.polls[1].factor == 2 and "polled every 10 ms instead of 5 ms" in notes[0]
    assert not monitor.outstanding()


def test_backing_off_ends_somewhere_and_an_answer_is_waited_for_2_s():
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    monitor.set_idle(1, False, 0)
    now, requests = T, 0
    while now < 20_000_000_000:
        requests += len(asked(monitor, now))
        now = monitor.next_ns()
    assert monitor.polls[1].factor <= FACTOR_MAX
    assert requests <= 10


def test_stale_answer_is_ignored():
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    asked(monitor, monitor.next_ns(), xid=7)
    assert monitor.answered(1, 6, T) is None
    assert monitor.polls[1].xid == 7
