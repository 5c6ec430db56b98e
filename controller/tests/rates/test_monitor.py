# SPDX-License-Identifier: Apache-2.0
"""Poll schedules without drift."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.rates.monitor import FACTOR_MAX, FAR_NS, LOST_NS, NAP_NS, Monitor

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


def test_a_stall_of_this_process_is_no_switchs_lateness():
    """Its answer came in time, and is read after the turns that the stall delayed."""
    monitor, now = Monitor(T, 0), 0
    monitor.add(1, 0)
    monitor.set_idle(1, False, 0)
    for stall in (T // 2, 3 * T, 1_200_000_000, 5_000_000_000, T):
        for _ in range(3):
            now = monitor.next_ns()
            assert asked(monitor, now) == [1]
            now = monitor.next_ns() + stall
            assert asked(monitor, now) == [], "it owes an answer"
            monitor.answered(1, 1, now + 1)
    poll = monitor.polls[1]
    assert poll.factor == 1 and poll.lost == 0 and poll.reply_max_ns <= 2 * T


def test_stale_answer_is_ignored():
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    asked(monitor, monitor.next_ns(), xid=7)
    assert monitor.answered(1, 6, T) is None
    assert monitor.polls[1].xid == 7


_STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "idle", "busy", "answer", *["wait"] * 5]), st.integers(1, 3)),
    max_size=60,
)


@settings(max_examples=300)
@given(_STEPS, st.sampled_from([T // 7, T, 30 * T, 450 * T]))
def test_who_is_due_is_what_looking_at_every_switch_finds(steps, wait):
    monitor, now = Monitor(T, 0), 1
    for dpid in (1, 2, 3):
        monitor.add(dpid, now)
        monitor.set_idle(dpid, False, now)
    for xid, (step, dpid) in enumerate(steps, 1):
        polls = monitor.polls
        if step == "add":
            monitor.add(dpid, now)
        elif step == "remove":
            monitor.remove(dpid)
        elif step in ("idle", "busy"):
            monitor.set_idle(dpid, step == "idle", now)
        elif step == "answer" and dpid in polls:
            monitor.answered(dpid, polls[dpid].xid, now)
        elif step == "wait":
            now += dpid * wait
            due = {one for one, poll in polls.items() if poll.due_ns <= now}
            ran = now - monitor.stalled_ns - max(0, now - monitor.next_ns())
            lost = {one for one in due if polls[one].xid and ran - polls[one].asked_ns > LOST_NS}
            waiting = {one for one in due if polls[one].xid} - lost
            assert sorted(asked(monitor, now, xid)) == sorted(due - waiting)
            assert all(poll.due_ns > now for poll in polls.values())
        assert monitor.next_ns() == min((poll.due_ns for poll in polls.values()), default=FAR_NS)
        assert monitor.outstanding() == any(poll.xid and not poll.idle and poll.factor == 1 for poll in polls.values())
