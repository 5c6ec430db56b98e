# SPDX-License-Identifier: Apache-2.0
"""What one machine, or one switch, can do to the state of others: nothing."""

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdngcc.controller.forwarding.forwarder import QUESTIONS_A_PORT
from sdngcc.controller.network.relations import ADDRESSES_A_HOST, PAIRS_A_PORT, Learned, Relations
from sdngcc.controller.wire import packets
from sdngcc.controller.wire.packets import mapped

from ..fabric import arp, ip, ipv4, mac
from ..test_engine import H1, H2, PLACES, T1, connected, talk

ATTACKER = PLACES[21]


def claims(sender, address, target):
    """Return an ARP request by which a machine claims an address."""
    body = b"\x00\x01\x08\x00\x06\x04\x00\x01" + sender + address + bytes(6) + target
    return b"\xff" * 6 + sender + b"\x08\x06" + body


MACHINES = st.sampled_from([mac(number) for number in (11, 31, 21, 77)]) | st.binary(min_size=6, max_size=6)
ADDRESSES = st.sampled_from([ip(number) for number in (11, 31, 21)]) | st.binary(min_size=4, max_size=4)
ATTACKS = st.lists(
    st.one_of(
        st.builds(claims, MACHINES, ADDRESSES, ADDRESSES),
        st.builds(lambda dst, src, a, b: dst + src + ipv4(1, 1)[12:26] + a + b + bytes(8),
                  MACHINES, MACHINES, ADDRESSES, ADDRESSES),
        st.binary(min_size=14, max_size=90),
        st.builds(lambda dpid, port: packets.lldp_frame(dpid, port, bytes(16)),
                  st.sampled_from([H1, T1, 99]), st.integers(1, 9)),
    ),
    max_size=80,
)  # fmt: skip


@given(ATTACKS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_whatever_a_machine_sends_others_keep_what_they_have(tmp_path, frames):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.inject(*PLACES[31], ipv4(31, 11))  # a host that sends nothing for long can be taken for another
    fabric.run(2.0)
    engine, bridge = fabric.engine, fabric.switches[H1]
    links = engine.topology.links()
    for frame in frames:
        engine.packet_in(*ATTACKER, frame)
        fabric.settle()
    relations = engine.relations
    assert relations.hosts[mac(11)].place == PLACES[11]
    assert relations.targets(mac(11)) == [mac(31)]
    assert bridge.find_pair_flow(mac(11), mac(31)) is not None
    assert mac(11) in relations.owners[mapped(ip(11))]
    assert relations.hosts[mac(11)].address(True) == mapped(ip(11))
    assert engine.topology.links() == links
    # And the way to the one attacked still works.
    fabric.delivered.clear()
    fabric.inject(*PLACES[22], arp(22, 11))
    assert any(place == PLACES[11] for place, _ in fabric.delivered)


def test_a_host_moves_when_it_is_silent_or_its_port_is_gone(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.run(2.0)
    engine = fabric.engine
    fabric.inject(*PLACES[22], arp(11, 31))
    assert engine.relations.hosts[mac(11)].place == PLACES[11]
    assert engine.forwarder.counters["host_move_refused"] == 1
    engine.port_removed(*PLACES[11])
    fabric.inject(*PLACES[22], arp(11, 31))
    assert engine.relations.hosts[mac(11)].place == PLACES[22]
    # Of the other, which sent nothing but an answer, no flow is left after the idle timeout.
    fabric.inject(*PLACES[12], arp(31, 11))
    assert engine.relations.hosts[mac(31)].place == PLACES[12]


def test_a_flood_at_one_port_leaves_the_others_their_packet_ins(tmp_path):
    fabric = connected(tmp_path, packet_ins_a_second=50)
    engine, counters = fabric.engine, fabric.engine.forwarder.counters
    for number in range(500):
        engine.packet_in(*ATTACKER, arp(1000 + number, 11))
    assert counters["packet_in_over_budget"] == 450
    assert len(engine.relations.hosts_at(ATTACKER)) <= 64
    talk(fabric, 11, 31)
    assert engine.relations.targets(mac(11)) == [mac(31)]


def test_machines_and_pairs_beyond_a_ports_bounds_are_dropped_and_counted(tmp_path):
    fabric = connected(tmp_path, packet_ins_a_second=100_000, switch_packet_ins_a_second=100_000)
    engine, counters = fabric.engine, fabric.engine.forwarder.counters
    engine.relations._pairs_a_source = 1
    for number in range(70):
        fabric.inject(*ATTACKER, arp(1000 + number, 11))
    assert len(engine.relations.hosts_at(ATTACKER)) == 64 and counters["host_refused"] >= 6
    assert not counters["pair_refused"]
    talk(fabric, 11, 31)
    talk(fabric, 11, 12)
    assert counters["pair_refused"] >= 1 and len(engine.relations.targets(mac(11))) == 1
    assert fabric.switches[H1].find_pair_flow(mac(11), mac(12)) is None


def test_a_flood_of_one_switch_is_cut_and_ports_it_never_had_take_no_memory(tmp_path):
    fabric = connected(tmp_path, switch_packet_ins_a_second=100)
    engine, counters = fabric.engine, fabric.engine.forwarder.counters
    for number in range(1000):
        engine.packet_in(H2, 100 + number, arp(21, 11))
    assert counters["packet_in_malformed"] == 1000 and len(engine.forwarder._budget) < 20
    for _ in range(500):
        engine.packet_in(H2, 1, ipv4(77, 78))  # by its uplink, which has no share of its own
    assert counters["packet_in_over_budget"] >= 400
    talk(fabric, 11, 31)
    assert engine.relations.targets(mac(11)) == [mac(31)]


def test_questions_are_bounded_by_port(tmp_path):
    fabric = connected(tmp_path, packet_ins_a_second=100_000)
    engine = fabric.engine
    for number in range(2 * QUESTIONS_A_PORT):
        engine.packet_in(*ATTACKER, claims(mac(21), ip(21), struct.pack("!I", 0x0A010000 + number)))
    assert len(engine.forwarder._asked[ATTACKER]) == QUESTIONS_A_PORT
    fabric.inject(*PLACES[12], arp(12, 11))
    assert (mac(12), mapped(ip(11))) in engine.forwarder._asked[PLACES[12]]


def test_pairs_are_bounded_by_port():
    relations = Relations()
    for host in range(8):
        relations.learn_host(mac(host), (1, 2), None, 0)
    relations.learn_host(mac(99), (1, 3), None, 0)
    taken = [relations.learn_pair(mac(host), mac(1000 + n), 0) for host in range(8) for n in range(1024)]
    assert sum(taken) == PAIRS_A_PORT
    assert relations.learn_pair(mac(99), mac(0), 0)


def test_all_who_claim_an_address_are_asked(tmp_path):
    fabric = connected(tmp_path)
    talk(fabric, 11, 31)
    fabric.run(4.0)
    fabric.inject(*ATTACKER, claims(mac(21), ip(11), ip(12)))
    fabric.delivered.clear()
    fabric.inject(*PLACES[22], arp(22, 11))
    asked = {place for place, frame in fabric.delivered if frame == arp(22, 11)}
    assert {PLACES[11], ATTACKER} <= asked
    assert fabric.engine.relations.owner(mapped(ip(11))) == mac(11)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 3), st.integers(0, 300)), max_size=400))
@settings(deadline=None, max_examples=30)
def test_tables_stay_within_their_bounds(learned):
    relations = Relations()
    for host, port, address in learned:
        outcome = relations.learn_host(mac(host), (1, port), mapped(ip(address)), 0)
        assert outcome in Learned
    for port in (1, 2, 3):
        assert len(relations.hosts_at((1, port))) <= 64
    assert all(len(host.addresses) <= ADDRESSES_A_HOST for host in relations.hosts.values())
    claimed = {(address, who) for address, names in relations.owners.items() for who in names}
    assert claimed == {(address, host.mac) for host in relations.hosts.values() for address in host.addresses}


@pytest.mark.parametrize("port", [2, 3])
def test_a_machines_port_is_never_the_end_of_a_link(tmp_path, port):
    fabric = connected(tmp_path)
    engine = fabric.engine
    before = engine.topology.links()
    genuine = packets.lldp_frame(H1, port, engine.discovery.key)  # what the port itself was sent, passed on
    engine.packet_in(T1, 9, genuine)
    engine.packet_in(*ATTACKER, packets.lldp_frame(T1, 1, engine.discovery.key))
    assert engine.topology.links() == before
