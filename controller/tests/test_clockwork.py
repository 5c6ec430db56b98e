# SPDX-License-Identifier: Apache-2.0
"""What waits for its time or its turn: timers, schedules, slices of long work, the garbage collector, the outbox."""

import gc
import itertools

from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller import garbage, work
from sdngcc.controller.garbage import Collector
from sdngcc.controller.outbox import Outbox, Outgoing, transactions
from sdngcc.controller.schedule import Schedule
from sdngcc.controller.timers import FAR_NS, Timers

from .fabric import ipv4, mac
from .test_engine import H1, H2, PLACES, T2, connected, notices, talk


def test_timers_are_called_in_order_and_not_once_cancelled():
    called, timers = [], Timers(lambda: 0)
    timers.arm(2e-9, lambda: called.append("late"))
    timers.arm(1e-9, lambda: called.append("early"))
    timers.arm(0, lambda: called.append("never"))()
    assert timers.next_ns() == 1
    timers.run(1)
    assert called == ["early"]
    timers.run(5)
    assert called == ["early", "late"] and timers.next_ns() == FAR_NS


@given(st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(0, 50))), max_size=40))
def test_a_schedule_returns_each_item_at_its_last_time(steps):
    schedule, due = Schedule[int](), {}
    for item, time_ns in steps:
        if time_ns is None:
            schedule.drop(item)
            due.pop(item, None)
        else:
            schedule.put(item, time_ns)
            due[item] = time_ns
        assert schedule.next_ns() == min(due.values(), default=FAR_NS)
    taken = list(iter(lambda: schedule.pop(25), None))
    assert sorted(taken) == sorted(item for item, time_ns in due.items() if time_ns <= 25)
    assert [due[item] for item in taken] == sorted(due[item] for item in taken)


def test_long_work_is_done_in_slices_and_what_is_urgent_comes_between():
    clock = itertools.count(0, work.SLICE_NS // 4)
    backlog, done = work.Backlog(lambda: next(clock)), []

    def task(name, steps):
        for step in range(steps):
            done.append(f"{name}{step}")
            yield

    backlog.add(task("a", 6))
    backlog.add(task("b", 1))
    backlog.run()
    assert done == ["a0", "a1", "a2", "a3"] and len(backlog) == 2
    backlog.add_first(task("c", 1))
    backlog.run()
    assert done[4:] == ["c0", "a4", "a5"] or done[4:] == ["c0", "a4"]
    while backlog:
        backlog.run()
    assert done[-1] == "b0"


def test_a_task_that_fails_is_gone_and_the_rest_goes_on():
    backlog, done = work.Backlog(lambda: 0), []

    def bad():
        yield
        raise ValueError("bad")

    def good():
        done.append(1)
        yield

    backlog.add(bad())
    backlog.add(good())
    for _ in range(2):
        try:
            backlog.run()
        except ValueError:
            continue
    assert done == [1] and not backlog


def test_cycles_among_new_objects_are_collected_and_the_rest_is_set_aside(monkeypatch):
    collector = Collector()
    try:
        collector.run()
        assert not gc.isenabled()
        collector.run_whole()
        kept = [[number] for number in range(1000)]
        cycle = [[]]
        cycle[0].append(cycle)
        del cycle
        collector.run()
        assert gc.get_freeze_count() >= len(kept) and collector.whole == 1
        monkeypatch.setattr(garbage, "LOOK_EVERY", 1)
        collector._limit = 0
        kept += [[number] for number in range(1000)]
        collector.run()
        assert collector.whole == 2
    finally:
        gc.unfreeze()
        gc.enable()


class Other:
    """Acts for switch 1 only, and for none once it is dead."""

    shared, live = True, True

    def owns(self, dpid):
        return self.live and dpid == 1

    def is_live(self):
        return self.live


def test_the_outbox_takes_what_this_controller_may_send():
    owner = Other()
    outbox = Outbox(owner)
    for dpid in (1, 2):
        outbox.put(dpid, b"request")
        outbox.put_owned(dpid, b"flow")
        outbox.put_notice(dpid, b"notice")
    expected = [(1, b"request"), (1, b"flow"), (1, b"notice"), (2, b"request"), (2, b"notice")]
    assert outbox.drain() == [Outgoing(*one) for one in expected]
    owner.live = False
    outbox.put_notice(1, b"notice")
    assert outbox.drain() == []
    assert list(itertools.islice(transactions(), 3)) == [1, 2, 3]


def test_nothing_is_awaited_of_a_switch_that_could_not_be_asked(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    talk(fabric, 21, 31)
    fabric.run(1.0)
    fabric.delivered.clear()
    send = fabric.send
    fabric.send = lambda dpid, data: fabric.engine.unsent(dpid, data) if dpid == H2 else send(dpid, data)
    fabric.switches[T2].add_marks(1, 10)
    fabric.run(0.0055)
    assert notices(fabric)[PLACES[11]].marks == 5
    assert fabric.engine.counters["round_deadlines"] == 0 and fabric.engine.counters["send_failed"] > 0
    assert not fabric.engine.switches[H2].state_xid and H1 in fabric.engine.switches


def test_an_unsent_poll_is_put_again_in_its_next_turn(tmp_path):
    fabric = connected(tmp_path)
    send, polls = fabric.send, fabric.engine.monitor.polls[T2]
    fabric.send = lambda dpid, data: fabric.engine.unsent(dpid, data) if dpid == T2 else send(dpid, data)
    fabric.run(0.05)
    assert not polls.xid and not polls.misses
    fabric.send, before = send, len(fabric.switches[T2].requests)
    fabric.run(0.05)
    assert len(fabric.switches[T2].requests) - before in (9, 10, 11)


def test_a_pair_without_a_flow_is_forgotten_when_it_was_silent_and_a_host_later(tmp_path):
    fabric = connected(tmp_path, relation_idle_s=2, host_idle_s=5)
    talk(fabric, 11, 31)
    relations = fabric.engine.relations
    fabric.run(2.5)
    assert relations.pair_count() == 1  # its flow is there
    fabric.inject(*PLACES[21], ipv4(21, 31))
    [flow] = [flow for flow in fabric.switches[H2].flows if flow.report]
    fabric.engine.flow_removed(flow.cookie, 2)  # told late, of a flow before this one
    assert fabric.engine.flows.has_edge((mac(21), mac(31)))
    fabric.run(2.1)
    fabric.engine.packet_in(*PLACES[21], ipv4(21, 31))  # heard again, and its flow is deleted by somebody
    fabric.engine.flows.find_edge(flow.cookie & 0xFFFFFFFF)[1].since_ns = 0
    fabric.engine.flow_removed(flow.cookie, 2)
    fabric.run(1.9)
    assert relations.talks(mac(21), mac(31))
    fabric.run(0.2)
    assert not relations.talks(mac(21), mac(31)) and relations.talks(mac(11), mac(31))
    [flow] = [flow for flow in fabric.switches[H1].flows if flow.report]
    fabric.engine.flow_removed(flow.cookie, 0)
    assert relations.pair_count() == 0 and relations.hosts
    fabric.run(6.0)
    assert not relations.hosts


def test_questions_are_forgotten_when_they_are_old(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    assert fabric.engine.forwarder._asked
    fabric.run(4.0)
    assert not fabric.engine.forwarder._asked and not fabric.engine.forwarder._questions
