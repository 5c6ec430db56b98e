# SPDX-License-Identifier: Apache-2.0
"""The engine on two racks and a core switch, in memory."""

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdngcc.controller.engine import Engine
from sdngcc.controller.forwarding.forwarder import REPEATED, UNKNOWN_A_SECOND
from sdngcc.controller.forwarding.installer import PRIORITY_PAIR
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import experimenter, message

from .fabric import Fabric, arp, ipv4, mac, port_reading, vm_reading

KEY = bytes(range(16))
H1, H2, H3, T1, T2, CORE = 1, 2, 3, 0x11, 0x12, 0x21
# Machine number -> (hypervisor bridge, port).
PLACES = {11: (H1, 2), 12: (H1, 3), 21: (H2, 2), 22: (H2, 3), 31: (H3, 2)}


def build(tmp_path, owner=None, **changes):
    """Two racks: H1 and H2 under T1, H3 under T2, T1 and T2 under CORE; port 1 of a hypervisor is its uplink."""
    key_file = tmp_path / "key"
    key_file.write_text(KEY.hex())
    fabric = Fabric()
    for dpid in (H1, H2, H3):
        fabric.add_switch(dpid, {1: f"up{dpid}", 2: f"vm{dpid}a", 3: f"vm{dpid}b"})
    fabric.add_switch(T1, {1: "t1-h1", 2: "t1-h2", 9: "t1-core"})
    fabric.add_switch(T2, {1: "t2-h3", 9: "t2-core"})
    fabric.add_switch(CORE, {1: "core-t1", 2: "core-t2"})
    for near, far in (
        ((H1, 1), (T1, 1)),
        ((H2, 1), (T1, 2)),
        ((H3, 1), (T2, 1)),
        ((T1, 9), (CORE, 1)),
        ((T2, 9), (CORE, 2)),
    ):
        fabric.wire(near, far)
    for dpid, port in PLACES.values():
        fabric.switches[dpid].vms[port] = vm_reading(port)
    for dpid in (T1, T2, CORE):
        fabric.switches[dpid].marks = {port: port_reading(port) for port in fabric.switches[dpid].ports}
    chosen = Settings(key_file=key_file, **changes)
    fabric.engine = Engine(chosen, fabric.clock, epoch=1000, owner=owner)
    return fabric


def talk(fabric, source, target):
    fabric.inject(*PLACES[source], arp(source, target))
    fabric.inject(*PLACES[target], arp(target, source))
    fabric.inject(*PLACES[source], ipv4(source, target))


def connected(tmp_path, **changes):
    fabric = build(tmp_path, **changes)
    fabric.connect()
    fabric.delivered.clear()
    return fabric


def notices(fabric):
    """Return the control messages delivered, decoded, by machine place, and clear the list."""
    found = {}
    for place, frame in fabric.delivered:
        if frame[12:14] == b"\x08\x00" and frame[23] == 253:
            found[place] = message.decode_v1(frame[34:], KEY)
    fabric.delivered.clear()
    return found


def test_links_hypervisors_and_polls(tmp_path):
    fabric = connected(tmp_path)
    engine = fabric.engine
    assert len(engine.topology.links()) == 5
    assert {dpid for dpid, switch in engine.switches.items() if switch.hypervisor} == {H1, H2, H3}
    before = len(fabric.switches[T1].requests)
    fabric.run(1.0)
    assert len(fabric.switches[T1].requests) - before in range(200, 204)  # 200 polls and VM_STATE
    assert len(fabric.switches[H1].requests) < 10


@pytest.mark.parametrize("source", PLACES)
def test_every_pair_reaches_its_destination_once_the_flows_stand(tmp_path, source):
    fabric = connected(tmp_path)
    for target in PLACES:
        if target == source:
            continue
        talk(fabric, source, target)
        fabric.delivered.clear()
        before = fabric.packet_ins
        fabric.inject(*PLACES[source], ipv4(source, target))
        assert fabric.delivered == [(PLACES[target], ipv4(source, target))]
        assert fabric.packet_ins == before


def test_first_packet_is_not_lost(tmp_path):
    fabric = connected(tmp_path)
    fabric.inject(*PLACES[11], arp(11, 31))
    assert {place for place, _ in fabric.delivered} == set(PLACES.values()) - {PLACES[11]} | {(H3, 3)}
    fabric.delivered.clear()
    fabric.inject(*PLACES[31], arp(31, 11))
    assert [place for place, _ in fabric.delivered] == [PLACES[11]]
    fabric.delivered.clear()
    fabric.inject(*PLACES[11], ipv4(11, 31))
    assert fabric.delivered == [(PLACES[31], ipv4(11, 31))]


def test_packets_that_left_before_their_flow_was_there_bring_no_flow_again(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    source = fabric.switches[PLACES[11][0]]
    kept = list(source.flows)
    fabric.delivered.clear()
    source.flows = [flow for flow in kept if flow.priority == 0]
    for _ in range(100):
        fabric.inject(*PLACES[11], ipv4(11, 31))
    assert fabric.delivered == [(PLACES[31], ipv4(11, 31))] * REPEATED
    assert fabric.engine.forwarder.counters["packet_in_repeated"] == 100 - REPEATED
    assert all(flow.priority == 0 for flow in source.flows)
    fabric.run(0.3)
    fabric.inject(*PLACES[11], ipv4(11, 31))
    assert any(flow.priority == PRIORITY_PAIR for flow in source.flows)


def test_marks_are_divided_by_bytes_over_three_hops(tmp_path):
    fabric = connected(tmp_path)
    for source in (11, 12, 21):
        talk(fabric, source, 31)
    fabric.switches[H1].vms = {2: vm_reading(2, 30_000_000, weight=2), 3: vm_reading(3, 10_000_000)}
    fabric.switches[H2].vms[2] = vm_reading(2, 60_000_000, weight=4)
    fabric.run(1.0)
    fabric.delivered.clear()
    fabric.switches[T2].add_marks(1, 100)
    fabric.run(0.0049)
    fabric.run(0.0002)
    told = notices(fabric)
    assert {place: got.marks for place, got in told.items()} == {PLACES[11]: 30, PLACES[12]: 10, PLACES[21]: 60}
    assert all(got.weight_total == 7 and (got.point_datapath, got.point_port) == (T2, 1) for got in told.values())
    assert all(got.interval_ns == 5_000_000 for got in told.values())
    assert told[PLACES[11]].sequence == 1 and told[PLACES[11]].epoch == 1000


@pytest.mark.parametrize("levels", [True, False])
def test_levels_are_told_before_marks_where_a_queue_stood(tmp_path, levels):
    fabric = connected(tmp_path, levels=levels)
    for source in (11, 12):
        talk(fabric, source, 31)
    fabric.switches[H1].vms = {port: vm_reading(port, 90_000_000) for port in (2, 3)}
    fabric.run(1.0)
    port = fabric.switches[T2].marks
    for _ in range(2):
        fabric.delivered.clear()
        port[1] = port[1]._replace(bytes=port[1].bytes + 625_000, backlog_bytes=50_000)
        fabric.switches[T2].add_marks(1, 100)
        fabric.run(0.005)
    sent = [message.decode_v1(frame[34:], KEY) for place, frame in fabric.delivered if place == PLACES[11]]
    kinds = [message.TYPE_LEVEL] * levels + [message.TYPE_MARKS]
    assert [one.type for one in sent] == kinds and sent[-1].marks == 50
    if levels:
        assert (sent[0].rate, sent[0].marks, sent[0].interval_ns) == (62_500_000, 0, 0)
        assert (sent[0].point_datapath, sent[0].point_port, sent[0].weight_total) == (T2, 1, 2)
        fabric.delivered.clear()
        fabric.switches[H1].vms[3] = vm_reading(3, 0)
        fabric.switches[H1].vms[2] = vm_reading(2, 60_000_000)._replace(rate=62_500_000)
        fabric.run(0.03)
        assert notices(fabric)[PLACES[11]].rate == 125_000_000, "what 12 left"


def test_answers_of_several_bridges_are_taken_by_the_end_of_their_round(tmp_path):
    fabric = connected(tmp_path)
    for source, target in ((11, 31), (12, 31), (21, 31), (31, 11)):
        talk(fabric, source, target)
    switches = fabric.engine.switches
    fabric.engine.port_changed(H2, 7, "tap7", bytes(6), True)

    fabric.run(1.0)
    first, others = {2: vm_reading(2, 3_000_000), 3: vm_reading(3, 1_000_000)}, {2: vm_reading(2, 6_000_000)}
    # The same machines as before; another weight; a machine less, and a new one in its place; none of a third bridge.
    for weight, third in ((1, 3), (5, 3), (5, 7), (1, 7)):
        fabric.switches[H3].silent = weight == 1 and third == 7
        fabric.switches[H1].vms = first
        fabric.switches[H2].vms = {2: others[2]._replace(weight=weight), third: vm_reading(third, 500_000)}
        for dpid in (T1, T2):
            fabric.switches[dpid].add_marks(1, 100)
        fabric.run(0.01)
        assert {port: vm.sent_rate for port, vm in switches[H1].vms.items()} == {2: 3_000_000, 3: 1_000_000}
        assert {port: (vm.sent_rate, vm.weight) for port, vm in switches[H2].vms.items()} == {
            2: (6_000_000, weight), third: (500_000, 1)
        }


def test_an_answer_that_was_put_off_brings_no_machine_back(tmp_path):
    fabric = connected(tmp_path, round_deadline_us=5000)
    for source in (11, 21):
        talk(fabric, source, 31)
    fabric.run(1.0)
    fabric.switches[H2].silent = True
    fabric.switches[H1].vms = {2: vm_reading(2, 3_000_000), 3: vm_reading(3, 1_000_000)}
    fabric.switches[T2].add_marks(1, 100)
    fabric.run(0.0051)
    engine = fabric.engine
    assert engine.switches[H1].vms[2].sent_rate == 0, "its answer waits for that of the other bridge"
    engine.port_removed(H1, 3)
    fabric.run(0.01)
    assert list(engine.switches[H1].vms) == [2] and engine.switches[H1].vms[2].sent_rate == 3_000_000


def test_two_congested_ports_give_one_message_a_machine(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    talk(fabric, 11, 21)
    talk(fabric, 12, 31)
    fabric.switches[H1].vms = {2: vm_reading(2, 10_000_000), 3: vm_reading(3, 10_000_000)}
    fabric.run(1.0)
    fabric.delivered.clear()
    fabric.switches[T1].add_marks(2, 8)  # towards H2: 11 alone
    fabric.switches[CORE].add_marks(2, 20)  # towards T2: 11 and 12
    fabric.run(0.006)
    sent = [frame for _, frame in fabric.delivered if frame[23] == 253]
    told = notices(fabric)
    assert len(sent) == 2
    # Half of what 11 sends goes to each destination as far as is known yet: 5 of 15 MB/s at the core.
    assert told[PLACES[11]].marks == 8 + 7 and told[PLACES[12]].marks == 13
    assert (told[PLACES[11]].point_datapath, told[PLACES[11]].point_port) == (T1, 2)


def test_marks_of_a_hypervisor_are_shown_not_acted_on(tmp_path):
    fabric = build(tmp_path)
    fabric.switches[H1].marks[1] = port_reading(1, kinds=2)
    fabric.connect()
    talk(fabric, 11, 31)
    fabric.run(1.0)
    fabric.switches[H1].add_marks(1, 500)
    fabric.run(2.0)
    assert fabric.engine.source.readings(H1)[1].marks == 500
    assert fabric.engine.counters["notices"] == 0


def test_equal_division_asks_no_hypervisor(tmp_path):
    fabric = connected(tmp_path, division="equal")
    talk(fabric, 11, 31)
    talk(fabric, 21, 31)
    fabric.run(1.0)
    fabric.delivered.clear()
    before = len(fabric.switches[H1].requests)
    fabric.switches[CORE].add_marks(2, 11)
    fabric.run(0.006)
    told = notices(fabric)
    assert sorted(got.marks for got in told.values()) == [5, 6]
    assert len(fabric.switches[H1].requests) == before


def test_silent_hypervisor_costs_the_deadline_only(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    talk(fabric, 21, 31)
    fabric.switches[H1].vms[2] = vm_reading(2, 40_000_000)
    fabric.switches[H2].vms[2] = vm_reading(2, 40_000_000)
    fabric.run(1.0)
    fabric.delivered.clear()
    fabric.switches[H2].silent = True
    fabric.switches[T2].add_marks(1, 10)
    fabric.run(0.01)
    assert sorted(got.marks for got in notices(fabric).values()) == [5, 5]
    assert fabric.engine.counters["round_deadlines"] == 1


def test_a_machine_cannot_have_control_messages_forwarded(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    talk(fabric, 31, 11)
    fabric.run(11)
    for switch in fabric.switches.values():
        for flow in switch.flows:
            if flow.report:
                fabric.engine.flow_removed(flow.cookie, 0)
        switch.flows = [flow for flow in switch.flows if not flow.report]
    fabric.delivered.clear()
    fabric.inject(*PLACES[11], ipv4(11, 31, protocol=253))
    assert not fabric.delivered
    assert fabric.engine.forwarder.counters["control_refused"] == 1


def test_restarted_controller_finds_a_receiver_that_never_sends(tmp_path):
    fabric = connected(tmp_path)
    fabric.inject(*PLACES[11], ipv4(11, 31))
    asked = [frame for place, frame in fabric.delivered if place == PLACES[31]]
    assert ipv4(11, 31) in asked and any(frame.startswith(arp(11, 31)) for frame in asked)
    fabric.inject(*PLACES[31], arp(31, 11)[:20] + b"\x00\x02" + arp(31, 11)[22:])
    fabric.delivered.clear()
    fabric.inject(*PLACES[11], ipv4(11, 31))
    assert fabric.delivered == [(PLACES[31], ipv4(11, 31))]
    assert fabric.engine.relations.targets(mac(11)) == [mac(31)]


def test_sequence_that_ran_out_takes_a_new_epoch(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.run(1.0)
    fabric.engine.notifier.numbering.sequence = 0xFFFFFFFF
    fabric.delivered.clear()
    fabric.switches[T2].add_marks(1, 5)
    fabric.run(0.01)
    [told] = notices(fabric).values()
    assert told.sequence == 1 and told.epoch > 1000


def test_idle_flow_ends_the_relation(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    flow = fabric.switches[H1].find_pair_flow(mac(11), mac(31))
    assert flow is not None and flow.idle_s == 10 and flow.report
    assert fabric.engine.relations.targets(mac(11)) == [mac(31)]
    fabric.engine.flow_removed(flow.cookie, 0)
    assert fabric.engine.relations.targets(mac(11)) == []


def test_switch_that_knows_no_experimenter_is_left_alone(tmp_path):
    fabric = build(tmp_path)
    fabric.switches[CORE].supported = False
    fabric.connect()
    fabric.run(2.0)
    assert len(fabric.switches[CORE].requests) == 2
    assert fabric.engine.switches[CORE].marks is False


def test_slow_switch_is_backed_off_and_comes_back(tmp_path, caplog):
    fabric = connected(tmp_path)
    fabric.run(1.0)
    fabric.switches[T1].silent = True
    fabric.run(0.5)
    assert fabric.engine.monitor.polls[T1].factor > 1
    assert "is slow" in caplog.text
    fabric.switches[T1].silent = False
    fabric.run(8)
    assert fabric.engine.monitor.polls[T1].factor == 1
    assert fabric.engine.monitor.polls[T1].lost == 1


def test_a_controller_that_is_late_all_the_time_asks_and_tells_as_often_as_it_can(tmp_path):
    """It has a processor for a moment every 40 ms, eight periods: what it missed meanwhile is not made up for."""
    fabric = connected(tmp_path)
    for source in (11, 21):
        talk(fabric, source, 31)
    fabric.switches[H1].vms[2] = vm_reading(2, 30_000_000)
    fabric.switches[H2].vms[2] = vm_reading(2, 10_000_000)
    fabric.run(1.0)
    before, told = len(fabric.switches[T2].requests), []
    fabric.delivered.clear()
    for _ in range(25):
        fabric.now_ns += 40_000_000
        fabric.switches[T2].add_marks(1, 100)
        fabric.engine.tick()
        fabric.settle()
        told.append(notices(fabric))
    engine = fabric.engine
    # Once a second a bridge is asked for its machines, too.
    assert len(fabric.switches[T2].requests) - before in range(24, 29)
    assert all(told[5:]), "each time somebody is told"
    # The rate of marks is kept, of two periods at most: three quarters of 100 in 40 ms.
    assert {got[PLACES[11]].interval_ns for got in told} == {10_000_000}
    assert sum(got[PLACES[11]].marks for got in told) == pytest.approx(25 * 75 / 4, abs=1)
    assert engine.poll_counts()["late_max_us"] >= 35_000 and engine.poll_counts()["lost"] == 0
    assert all(poll.factor == 1 for poll in engine.monitor.polls.values()), "no switch is taken for slow"


@pytest.mark.parametrize("period_us", [500, 5000, 20_000])
def test_what_can_wait_is_sent_between_polls(tmp_path, period_us):
    fabric = connected(tmp_path, period_us=period_us)
    fabric.run(1.0)
    period_ns = fabric.engine.monitor.period_ns
    sent, send = {}, fabric.send

    def note(dpid, data):
        kind = "lldp" if data[1] == 13 else experimenter.decode_request(data)[1]
        sent.setdefault((fabric.now_ns - fabric.engine.started_ns) % period_ns, set()).add(kind)
        send(dpid, data)

    fabric.send = note
    fabric.run(6.0)
    assert sent == {0: {experimenter.PORT_MARKS}, period_ns // 2: {experimenter.VM_STATE, "lldp"}}


def test_restarted_switch_gives_a_baseline_not_marks(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.run(1.0)
    fabric.switches[T2].boot += 1
    fabric.switches[T2].add_marks(1, 500)
    fabric.run(0.1)
    assert fabric.engine.counters["notices"] == 0
    assert fabric.engine.source.restarts == 1


def test_link_loss_moves_paths(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    assert fabric.engine.attribution.pairs_behind((CORE, 2))
    fabric.engine.port_changed(CORE, 2, "core-t2", bytes(6), False)
    fabric.settle()
    assert not fabric.engine.attribution.pairs_behind((CORE, 2))
    assert fabric.switches[H1].find_pair_flow(mac(11), mac(31)) is None


def test_switch_that_leaves_takes_its_hosts_along(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.engine.switch_down(H3)
    assert mac(31) not in fabric.engine.relations.hosts
    assert len(fabric.engine.topology.links()) == 4


def back(fabric, dpid, **ports):
    """Let a switch that restarted without flows connect again."""
    switch = fabric.switches[dpid]
    switch.flows, switch.ports = [], {number: ports.get(name, name) for number, name in switch.ports.items()}
    fabric.engine.switch_up(dpid, {number: (name, bytes(6), True) for number, name in switch.ports.items()})
    fabric.settle()
    fabric.run(0.5)
    fabric.delivered.clear()


def test_switch_that_comes_back_has_its_hosts_there_still(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    addresses = dict(fabric.engine.relations.hosts[mac(31)].addresses)
    for dpid in (H1, H3):
        fabric.engine.switch_down(dpid)
    fabric.run(2.0)
    back(fabric, H1)
    back(fabric, H3)
    assert fabric.engine.relations.hosts[mac(31)].addresses == addresses
    # Its first packet reaches nobody else, and the second one needs no controller.
    fabric.inject(*PLACES[11], ipv4(11, 31))
    assert fabric.delivered == [(PLACES[31], ipv4(11, 31))]
    assert fabric.switches[H1].find_pair_flow(mac(11), mac(31)) is not None
    assert fabric.engine.forwarder.counters["host_recalled"] == 2


def test_host_that_moved_while_its_switch_was_away_stays_where_it_is(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.engine.switch_down(H3)
    fabric.inject(*PLACES[22], arp(31, 11))
    back(fabric, H3)
    assert fabric.engine.relations.hosts[mac(31)].place == PLACES[22]


def test_host_behind_another_port_by_name_or_of_long_ago_is_not_recalled(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.engine.switch_down(H3)
    back(fabric, H3, vm3a="other")
    assert mac(31) not in fabric.engine.relations.hosts
    talk(fabric, 11, 31)
    fabric.engine.switch_down(H3)
    fabric.run(61.0)
    back(fabric, H3)
    assert mac(31) not in fabric.engine.relations.hosts


def test_a_port_may_have_so_many_packets_put_out_everywhere_in_a_second(tmp_path):
    fabric = connected(tmp_path)
    sent = 2 * UNKNOWN_A_SECOND
    for _ in range(sent):
        fabric.inject(*PLACES[11], ipv4(11, 31))
        fabric.run(0.0001)
    assert sum(place == PLACES[31] for place, _ in fabric.delivered) == UNKNOWN_A_SECOND + 1  # and the question
    assert fabric.engine.forwarder.counters["unknown_over_budget"] == sent - UNKNOWN_A_SECOND


def test_trace_counts_notices(tmp_path):
    trace = tmp_path / "trace.jsonl"
    fabric = connected(tmp_path, trace_file=trace)
    talk(fabric, 11, 31)
    fabric.run(1.0)
    fabric.switches[T2].add_marks(1, 10)
    fabric.run(2.0)
    lines = trace.read_text().splitlines()
    assert sum('"event": "notice"' in line for line in lines) == 1
    assert sum('"event": "polls"' in line for line in lines) >= 2


def test_version_0_carries_marks_alone(tmp_path):
    fabric = connected(tmp_path, message_version="v0")
    talk(fabric, 11, 31)
    fabric.run(1.0)
    fabric.delivered.clear()
    fabric.switches[T2].add_marks(1, 9)
    fabric.run(0.01)
    [(place, frame)] = [one for one in fabric.delivered if one[1][23] == 253]
    assert place == PLACES[11]
    assert struct.unpack("!H", frame[34:]) == (9,)


def test_machine_with_ipv6_only_is_told_by_ipv6(tmp_path):
    fabric = connected(tmp_path)
    one, two = (b"\xfd" + bytes(13) + struct.pack("!H", number) for number in (11, 31))

    def ipv6(source, target, from_mac, to_mac):
        return to_mac + from_mac + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, 8, 17, 64) + source + target + bytes(8)

    fabric.inject(*PLACES[31], ipv6(two, one, mac(31), mac(11)))
    fabric.inject(*PLACES[11], ipv6(one, two, mac(11), mac(31)))
    fabric.run(1.0)
    fabric.delivered.clear()
    fabric.switches[T2].add_marks(1, 5)
    fabric.run(0.01)
    [frame] = [frame for place, frame in fabric.delivered if place == PLACES[11]]
    told = message.decode_v1(frame[54:], KEY)
    assert told.vm == bytes(16) and one == frame[38:54] and told.peer == two == frame[22:38] and told.marks == 5


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("packet_in"), st.sampled_from([H1, H3, T1, 99]), st.integers(0, 12), st.binary(max_size=80)),
        st.tuples(st.just("multipart"), st.sampled_from([H1, T1, 99]), st.binary(max_size=150)),
        st.tuples(st.just("flow_removed"), st.integers(0, 2**64 - 1), st.integers(0, 3)),
        st.tuples(st.just("error"), st.sampled_from([H1, T1, 99]), st.integers(0, 300), st.just(1), st.just(3)),
        st.tuples(st.just("port_removed"), st.sampled_from([H1, T1, 99]), st.integers(0, 12)),
        st.tuples(
            st.just("port_changed"), st.sampled_from([H1, T1, 99]), st.integers(0, 12), st.just("x"), st.just(bytes(6)),
            st.booleans(),
        ),
        st.tuples(st.just("switch_down"), st.sampled_from([H1, T1, 99])),
    ),
    max_size=30,
)  # fmt: skip


@given(EVENTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_no_event_ends_the_controller(tmp_path, events):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    for name, *arguments in events:
        getattr(fabric.engine, name)(*arguments)
        fabric.settle()
    fabric.run(0.02)


def test_links_are_looked_for_in_time_however_seldom_switches_are_polled(tmp_path):
    fabric = connected(tmp_path, period_us=1_000_000, lldp_period_ms=100)
    fabric.run(3.0)
    assert fabric.engine.topology.peer(T1, 9) == (CORE, 1)
    assert fabric.engine.tick() > fabric.now_ns


def test_one_sequence_counts_the_messages_to_all_machines(tmp_path):
    fabric = connected(tmp_path)
    for source in (11, 12, 21):
        talk(fabric, source, 31)
    fabric.run(1.0)
    fabric.delivered.clear()
    for number in (1, 4):
        fabric.switches[T2].add_marks(1, 300)
        fabric.run(0.01)
        assert sorted(told.sequence for told in notices(fabric).values()) == [number, number + 1, number + 2]
        fabric.delivered.clear()


def test_an_epoch_that_a_machine_refuses_is_raised(tmp_path):
    fabric = connected(tmp_path)
    for source in (11, 21):
        talk(fabric, source, 31)
    fabric.run(1.0)
    counts = {PLACES[11]: [0, 0], PLACES[21]: [0, 0]}  # accepted, refused
    needed = {PLACES[11]: 1020, PLACES[21]: 1}
    seen = []
    for _ in range(40):
        fabric.delivered.clear()
        fabric.switches[T2].add_marks(1, 100)
        fabric.run(0.01)
        told = notices(fabric)
        seen.append(tuple(told[place].epoch for place in counts))
        for place, count in counts.items():
            count[told[place].epoch < needed[place]] += 1
            vms = fabric.switches[place[0]].vms
            vms[place[1]] = vms[place[1]]._replace(messages=count[0], refused=count[1])
    assert [epochs[0] for epochs in seen if epochs[1] == 1000][-1] == 1032, "the other was told with it too early"
    assert seen[-1] == (1032, 1032) and counts[PLACES[21]][1] == 0
    assert fabric.engine.counters["epoch_raised"] == 1 and fabric.engine.notifier.numbering.epoch == 1032


def test_a_reply_that_nobody_asked_for_is_counted_and_not_believed(tmp_path):
    fabric = connected(tmp_path)
    before = {dpid: dict(switch.vms) for dpid, switch in fabric.engine.switches.items()}
    entry = experimenter.encode_vm_state(vm_reading(77))
    for exp_type, entries in ((experimenter.HOST_VMS, [entry]), (experimenter.HOST_PEERS, [])):
        fabric.engine.multipart(H1, experimenter.encode_reply(1, exp_type, 1, 1, 1, entries))
    assert {dpid: dict(switch.vms) for dpid, switch in fabric.engine.switches.items()} == before
    assert fabric.engine.counters["reply_unasked"] == 2 and not fabric.engine.counters["internal_errors"]
