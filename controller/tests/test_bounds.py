# SPDX-License-Identifier: Apache-2.0
"""What a switch may cost the controller: bounded before it is kept, checked before it is believed. Costs are counts."""

import collections
import struct
import sys

import pytest

from sdngcc.controller import budget, work
from sdngcc.controller.cluster.adopt import FLOWS_MAX, Adoption
from sdngcc.controller.engine import Engine
from sdngcc.controller.network import discovery
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.base import PortMarks
from sdngcc.controller.sources.openflow import OpenFlowMarks
from sdngcc.controller.sources.plausible import BURST_FRAMES, frames_max
from sdngcc.controller.wire import experimenter, openflow
from sdngcc.controller.work import Backlog

from .fabric import Fabric, port_reading, vm_reading

T = 5_000_000
WIDE, SMALL = 0xA1, 0xA2


def lines(function):
    """Return how many lines of Python a call takes."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
    return count


def fabric(ports, **chosen):
    """Return a fabric of one switch with so many ports, and a small one."""
    made = Fabric()
    made.engine = Engine(Settings(notify=False, **chosen), made.clock, epoch=1)
    made.add_switch(WIDE, {number: f"p{number}" for number in range(1, ports + 1)})
    made.add_switch(SMALL, {1: "p1", 2: "p2"})
    made.connect()
    return made


def flap(engine):
    """Let a port come under other names, and go."""
    for step in range(20):
        engine.port_changed(WIDE, 3, f"x{step}", bytes(6), True)
        engine.port_removed(WIDE, 3)
        engine.outbox.drain()


SOURCES = [
    {}, {"mark_source": "openflow-ce"}, {"mark_source": "sflow", "sflow_agents": ("10.0.0.1=a1",)},
    {"mark_delay_ms": 10}, {"decision": "maxmin"}, {"levels": True, "division": "bytes"},
    {"by_path": True, "division": "bytes"},
]  # fmt: skip


@pytest.mark.parametrize("chosen", SOURCES, ids=str)
def test_a_port_that_changes_costs_the_same_whatever_the_switch_has(chosen):
    costs = []
    for ports in (8, 500):
        engine = fabric(ports, **chosen).engine
        for number in range(1, ports + 1):
            engine.port_speed(WIDE, number, 1_250_000_000)
            engine.rounds.explicit.set_speed((0xB0, number), 1_250_000_000)  # what others have costs nothing either
            engine.marked([PortMarks((WIDE, number), 1, T)], engine.clock())
        flap(engine)
        costs.append(lines(lambda one=engine: flap(one)))
    assert costs[1] < 1.1 * costs[0], costs


def test_frames_of_a_wide_switch_go_in_slices_and_in_turn_with_others():
    one = fabric(500)
    engine = one.engine
    engine.outbox.drain()
    engine.discovery.send(WIDE)
    engine.discovery.send(SMALL)
    sizes, order = [], []
    for _ in engine.discovery._take_turns():
        for dpid, data in engine.outbox.drain():
            sizes.append(sum(1 for _ in openflow.xids(data)))
            order.append(dpid)
    assert max(sizes) == discovery.SLICE_PORTS and sum(sizes) >= 500
    assert SMALL in order[:3], "it does not wait for the other's ports"


def test_frames_of_many_ports_are_put_together_in_steps_by_their_number():
    costs = []
    for ports in (100, 1600):
        engine = fabric(ports).engine
        engine.discovery.send(WIDE)
        costs.append(lines(lambda one=engine: collections.deque(one.discovery._take_turns(), 0)) / ports)
    assert costs[1] < 1.5 * costs[0]


def reply(xid, kind, entries, more=False, now_ns=1):
    return experimenter.encode_reply(xid, kind, 1, 77, now_ns, entries, more)


def states(*ports):
    return [experimenter.encode_vm_state(vm_reading(port)) for port in ports]


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("xid", [0, 12345])
def test_machines_that_nobody_asked_for_are_not_taken_nor_kept(xid, more):
    engine = fabric(2).engine
    for number in range(300):
        data = reply(xid, experimenter.VM_STATE, states(*range(number * 600, number * 600 + 600)), more)
        assert not engine.multipart(SMALL, data)
    assert engine.counters["reply_unasked"] == 300 and not engine.switches[SMALL].vms
    assert not engine._assembler._begun


@pytest.mark.parametrize("kind", list(experimenter.ENTRIES_MAX))
def test_no_reply_is_taken_of_which_nobody_asked(kind):
    for forwarding in ({}, {"forwarding": "none", "ovsdb": ("tcp:127.0.0.1:1",)}):
        engine = fabric(2, **forwarding).engine
        assert not engine.multipart(SMALL, reply(99999, kind, []))
        assert engine.counters["reply_unasked"] == 1


def asked_state(engine, dpid=SMALL):
    """Ask a bridge for its machines; return the transaction."""
    engine.switches[dpid].state_xid = 0
    engine.machines.ask(dpid, engine.clock())
    engine.outbox.drain()
    return engine.switches[dpid].state_xid


def test_machines_are_taken_at_ports_that_exist_only():
    engine = fabric(2).engine
    xid = asked_state(engine)
    assert engine.multipart(SMALL, reply(xid, experimenter.VM_STATE, states(2, 7, 9, openflow.OFPP_LOCAL)))
    assert set(engine.switches[SMALL].vms) == {2, openflow.OFPP_LOCAL} and engine.counters["vm_ports_unknown"] == 2
    assert not engine.multipart(SMALL, reply(xid, experimenter.VM_STATE, states(1))), "it is answered already"


def test_an_answer_has_no_more_machines_than_the_switch_has_ports_for():
    engine = fabric(2).engine
    most = experimenter.UPLINKS_MAX * 3
    xid = asked_state(engine)
    assert engine.multipart(SMALL, reply(xid, experimenter.VM_STATE, states(*[1] * most), more=True))
    assert engine.multipart(SMALL, reply(xid, experimenter.VM_STATE, states(1), more=True))
    assert engine.counters["reply_malformed"] == 1 and not engine._assembler._begun
    # What is left of that answer was not asked for.
    assert not engine.multipart(SMALL, reply(xid, experimenter.VM_STATE, states(1)))
    assert not engine.switches[SMALL].vms and engine.counters["reply_unasked"] == 1


def test_parts_without_entries_end_an_answer_and_parts_are_counted_once_each():
    engine = fabric(2).engine
    xid = asked_state(engine)
    engine.multipart(SMALL, reply(xid, experimenter.VM_STATE, [], more=True))
    assert engine.counters["reply_malformed"] == 1 and not engine._assembler._begun
    assembler, costs = experimenter.Assembler(), []
    data = reply(5, experimenter.HOST_PEERS, [bytes(112)], more=True)
    for _ in range(3):
        costs.append(lines(lambda: [assembler.feed(1, data) for _ in range(1000)]))
    assert costs[2] <= costs[0] + 10, "a part costs the same, however many came before"
    with pytest.raises(experimenter.ReplyError, match="more than 65536 entries"):
        for _ in range(70_000):
            assembler.feed(1, data)


def test_a_long_answer_is_followed_by_a_rest():
    one = fabric(1000)
    engine = one.engine
    xid = asked_state(engine, WIDE)
    engine.multipart(WIDE, reply(xid, experimenter.VM_STATE, states(*range(1, 601))))
    assert not engine.machines._ask_states(engine.switches[WIDE], engine.clock())
    one.now_ns += budget.rest_ns(600)
    assert engine.machines._ask_states(engine.switches[WIDE], engine.clock()) and budget.rest_ns(512) == 0


def test_a_switch_that_tells_of_thousands_of_ports_is_polled_less_often():
    one = fabric(3000)
    engine = one.engine
    polls = engine.monitor.polls
    for count, rests in ((2000, False), (3000, True)):
        one.switches[WIDE].marks = {number: port_reading(number) for number in range(1, count + 1)}
        xid = polls[WIDE].xid = 4711
        entries = [experimenter.encode_port_marks(port_reading(number)) for number in range(1, count + 1)]
        for first in range(0, count, 1000):
            part = entries[first : first + 1000]
            engine.multipart(WIDE, reply(xid, experimenter.PORT_MARKS, part, more=first + 1000 < count))
        assert (polls[WIDE].due_ns >= one.now_ns + budget.rest_ns(count, budget.POLL_FREE)) and polls[WIDE].xid == 0
        assert (polls[WIDE].due_ns > one.now_ns + 90_000_000) is rests


def marks_of(readings, **changes):
    """Return a source that took a baseline and further readings, and the marks it found."""
    source = OpenFlowMarks(T)
    for number, reading in enumerate(readings):
        entries = [experimenter.encode_port_marks(reading)]
        found = source.take(1, experimenter.Reply(experimenter.PORT_MARKS, 1, 5, (number + 1) * T, entries))
    return source, found


@pytest.mark.parametrize(
    ("marks", "counted", "believed"),
    [
        (2**64 - 11, {}, False),
        (11, {}, False),
        (11, {"packets": 11}, True),
        (11, {"packets": 10}, False),
        (11, {"packets": 5, "drops": 4, "backlog_packets": 2}, True),
        (11, {"drops": 2**32 - 1}, True),
    ],
)
def test_marks_are_held_against_the_ports_own_packets(marks, counted, believed):
    base = port_reading(3)._replace(packets=0)
    source, found = marks_of([base, base._replace(marks=marks, **counted)])
    assert bool(found) is believed and source.faults["marks_beyond_packets"] == (not believed)


def test_marks_of_packets_that_were_counted_a_little_later_are_believed():
    base = port_reading(3)._replace(packets=0)
    source, found = marks_of([base, base._replace(marks=10, packets=20), base._replace(marks=35, packets=40)])
    assert [one.marks for one in found] == [25]
    # A port whose counter wrapped has sent packets.
    high = base._replace(packets=2**32 - 5)
    assert marks_of([high, high._replace(marks=9, packets=5)])[1]


def test_marks_of_ports_that_a_switch_has_not_are_not_kept():
    engine = fabric(2).engine
    for port in (2, 900):
        entries = [experimenter.encode_port_marks(port_reading(port))]
        engine.source.take(SMALL, experimenter.Reply(experimenter.PORT_MARKS, 1, 5, T, entries))
    assert set(engine.source.readings(SMALL)) == {2} and engine.source.faults["port_unknown"] == 1


def test_no_port_is_believed_to_mark_more_than_its_line_carries(caplog):
    one = fabric(2, capacities=("a2/1=100",))
    engine = one.engine
    engine.port_speed(SMALL, 2, 1_250_000)  # a tap tells 10 Mb/s, and may carry more
    limit = BURST_FRAMES + 744  # 100 Mb/s in frames of 84 bytes
    for port, marks, believed in ((1, limit, True), (1, limit + 1, False), (2, BURST_FRAMES + 7440, True),
                                  (2, BURST_FRAMES + 7441, False), (1, 2**64 - 11, False)):  # fmt: skip
        before = engine.counters["marks"]
        engine.marked([PortMarks((SMALL, port), marks, T)], engine.clock())
        assert (engine.counters["marks"] > before) is believed
    assert engine.counters["marks_refused"] == 3 and "18446744073709551605 marks in 5 ms are refused" in caplog.text
    assert frames_max(T) < 1 << 32, "as many as a message can tell"


def charge(meter, count, now_ns, size=80):
    """Let a connection send messages, each when it may; return the time then, ns."""
    for _ in range(count):
        now_ns += meter.charge(size, now_ns)
    return now_ns


def test_a_connection_takes_its_own_part_and_of_what_is_shared():
    shared = budget.shared()
    meter = budget.Meter(shared)
    start = budget.SECOND_NS
    assert charge(meter, budget.OWN_BURST + budget.SHARED_BURST, start) == start
    end = charge(meter, 10_000, start)
    assert 10_000 / (end - start) * 1e9 <= 1.05 * (budget.OWN_RATE + budget.SHARED_RATE)
    # Another one, which sends little, has its own part whatever this one takes.
    other = budget.Meter(shared)
    assert charge(other, 100, end) == end


def test_what_is_over_a_connections_part_is_charged_too():
    shared = budget.Budget(1, 1, 0)
    shared.spend(1000, 0)
    start = 10 * budget.SECOND_NS
    end = charge(budget.Meter(shared), budget.OWN_BURST + 2000, start)
    assert 2000 / (end - start) * 1e9 <= 1.05 * budget.OWN_RATE


def test_large_messages_cost_more_and_who_wants_too_much_is_known():
    meter = budget.Meter(budget.shared())
    end = charge(meter, 10, budget.SECOND_NS, size=65_535)
    assert meter.steps == 640 and end > budget.SECOND_NS
    assert not meter.is_spent
    while end < (budget.PATIENCE_S + 2) * budget.SECOND_NS:
        end = charge(meter, 1000, end)
    assert meter.is_spent
    quiet = budget.Meter(budget.shared())
    for second in range(2, 40, 2):
        charge(quiet, 300, second * budget.SECOND_NS)
    assert not quiet.is_spent, "bursts with pauses are no more than its part"


def test_a_stall_of_the_process_makes_no_switch_slow_or_silent(caplog):
    one = fabric(2)
    for switch in one.switches.values():
        switch.marks = {1: port_reading(1)}
    one.run(2)
    one.engine.tick()  # polls are on their way
    for _ in range(3):
        one.now_ns += 1_200_000_000
        one.run(0.5)
    engine = one.engine
    assert engine.counters["stalls"] == 3 and "stood still for 1" in caplog.text
    assert engine.counters["marks_stale"] == 0 and engine.poll_counts()["lost"] == 0
    assert all(poll.factor == 1 for poll in engine.monitor.polls.values())
    assert not any("is slow" in record.getMessage() or "ceased" in record.getMessage() for record in caplog.records)


def flows(count, more=False, xid=1):
    """Return a part of flow statistics with so many entries."""
    entry = struct.pack("!HBxII12xQQQ", 56, 0, 1, 0, 5, 1, 2) + openflow.match()
    body = entry[:56] * count
    return struct.pack("!BBHIHH4x", 4, openflow.OFPT_MULTIPART_REPLY, 16 + len(body), xid, 1, int(more)) + body


def test_statistics_are_read_part_by_part_and_have_an_end():
    one = fabric(2)
    engine = one.engine
    counters = engine.pair_bytes
    for parts, empty in ((1, True), (300, False)):
        counters.want(SMALL, one.now_ns)
        counters.asked(SMALL, 77, one.now_ns)
        data = flows(0 if empty else 1100, more=True, xid=77)
        costs = [lines(lambda part=data: engine.multipart(SMALL, part)) for _ in range(parts)]
        assert counters._switches[SMALL].told in (None, {}), "nothing is kept of flows that are not ours"
        assert costs[-1] <= 1.5 * max(costs[:10])
        assert not counters.owes(SMALL, 77)
        assert not engine.multipart(SMALL, flows(1, xid=77)), "what is left was not asked for"
    assert engine.counters["reply_malformed"] == 2


def test_replies_too_short_to_be_asked_for_are_not():
    engine = fabric(2).engine
    short = struct.pack("!BBHIHH4x", 4, openflow.OFPT_MULTIPART_REPLY, 16, 1, 0xFFFF, 1)
    assert not engine.multipart(SMALL, short) and engine.counters["reply_unasked"] == 1


def test_flows_read_back_have_an_end():
    backlog = Backlog(lambda: 0)
    adoption = Adoption(None, None, None, backlog)
    for data, count in ((flows(0, more=True), 1), (flows(1100, more=True), FLOWS_MAX // 1100 + 1)):
        adoption.request(SMALL, 1)
        with pytest.raises(openflow.MessageError, match="forgotten"):
            for _ in range(count):
                assert adoption.feed(SMALL, data, 0)
        adoption.refuse(SMALL, 1)
        assert not adoption.feed(SMALL, data, 0) and not backlog


STEP_LINES = 3000  # of Python that one step of an answer may take; a tenth of the period has some 5,000


def peer(number):
    """Return what a host tells of a conversation."""
    remote, own = bytes(12) + number.to_bytes(4, "big"), bytes(15) + b"\x01"
    return experimenter.PeerReading(5 + number % 8, 0, 0, remote, own, bytes(16), 0, 0, 0, 0, 0, 0)


def test_marks_of_thousands_of_ports_are_taken_in_steps_and_all_of_them(monkeypatch):
    monkeypatch.setattr(work, "SLICE_NS", -1)  # a step in a turn
    one = fabric(4000)
    engine = one.engine
    taken = []
    monkeypatch.setattr(engine.rounds, "marked", lambda fresh, now: taken.extend(fresh))
    for marks in (0, 7):
        xid = engine.monitor.polls[WIDE].xid = 4711 + marks
        readings = [port_reading(number)._replace(marks=marks, packets=marks) for number in range(1, 4001)]
        entries = [experimenter.encode_port_marks(reading) for reading in readings]
        parts = [reply(xid, experimenter.PORT_MARKS, entries[first : first + 1000], first < 3000, now_ns=T + marks)
                 for first in range(0, 4000, 1000)]  # fmt: skip
        costs = [lines(lambda part=part: engine.multipart(WIDE, part)) for part in parts]
        assert engine.monitor.polls[WIDE].xid == 0 and not engine.multipart(WIDE, parts[0]), "it is answered"
        while engine.backlog:
            costs.append(lines(engine.backlog.run))
        assert len(costs) > 100 and max(costs) < STEP_LINES, max(costs)
    assert len(taken) == 4000 and {fresh.marks for fresh in taken} == {7}


def test_conversations_by_the_thousands_are_taken_in_steps_and_a_host_is_asked_again_afterwards(monkeypatch):
    monkeypatch.setattr(work, "SLICE_NS", -1)
    engine = fabric(2, forwarding="none", ovsdb=("tcp:127.0.0.1:1",)).engine
    hosts = engine.hosting.hosts
    for boot, gone in ((77, False), (78, True)):
        hosts._owed[SMALL] = (4711, engine.clock())
        entries = [experimenter.encode_peer(peer(number)) for number in range(8000)]
        parts = [experimenter.encode_reply(4711, experimenter.HOST_PEERS, 1, boot, T, entries[first : first + 500],
                                           first < 7500) for first in range(0, 8000, 500)]  # fmt: skip
        costs = [lines(lambda part=part: engine.multipart(SMALL, part)) for part in parts]
        assert not hosts.owes(SMALL, 4711) and SMALL in hosts._owed
        while engine.backlog:
            if gone and len(costs) > 100:
                hosts.conversations.forget(SMALL)
            costs.append(lines(engine.backlog.run))
        assert max(costs) < STEP_LINES, max(costs)
        assert len(costs) < 110 if gone else len(costs) > 400
        assert SMALL not in hosts._owed
    assert SMALL not in hosts.conversations._hosts


def test_a_switch_rests_after_an_answer_in_proportion_to_its_length():
    assert budget.poll_rest_ns(budget.POLL_SMALL) == 0
    for entries in (budget.POLL_SMALL + 1, 2000, 4096):
        assert budget.poll_rest_ns(entries) >= 20_000 * entries
