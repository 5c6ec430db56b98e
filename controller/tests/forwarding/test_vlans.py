# SPDX-License-Identifier: Apache-2.0
"""VLANs are kept apart: who hears a broadcast, whose questions are answered, who gets flows, what frames bear."""

import pytest

from sdngcc.controller.network.vlans import VLANS_A_PORT, Vlans
from sdngcc.controller.wire.packets import parse_frame, retagged

from ..fabric import arp, ipv4, mac
from ..test_engine import H1, H2, H3, PLACES, connected, talk

TAGS = {(H1, "vm1a"): 10, (H2, "vm2a"): 10, (H1, "vm1b"): 20, (H3, "vm3a"): 20}  # 11 and 21, 12 and 31; not 22
SILENT = (H3, 3)  # a port without a tag from which nothing was heard


@pytest.fixture
def fabric(tmp_path):
    fabric = connected(tmp_path)
    fabric.engine.set_vlans(TAGS)
    return fabric


def reached(fabric, source, frame):
    """Return who gets a frame that a machine sends, by place."""
    fabric.delivered.clear()
    fabric.inject(*PLACES[source], frame)
    fabric.run(0.01)
    return dict(fabric.delivered)


def test_a_broadcast_stays_in_its_vlan(fabric):
    assert set(reached(fabric, 11, arp(11, 99))) == {PLACES[21]}
    assert set(reached(fabric, 12, arp(12, 99))) == {PLACES[31]}
    assert set(reached(fabric, 22, arp(22, 99))) == {SILENT}


def test_machines_of_one_vlan_talk_by_flows(fabric):
    talk(fabric, 11, 21)
    before = fabric.packet_ins
    assert reached(fabric, 11, ipv4(11, 21)) == {PLACES[21]: ipv4(11, 21)} and fabric.packet_ins == before


@pytest.mark.parametrize("source, target", [(11, 12), (11, 31), (11, 22), (22, 11)])
def test_machines_of_different_vlans_do_not_talk(fabric, source, target):
    for machine in PLACES:
        reached(fabric, machine, arp(machine, 99))
    assert reached(fabric, source, ipv4(source, target)) == {}
    assert not fabric.engine.relations.talks(mac(source), mac(target))
    assert fabric.engine.forwarder.counters["vlan_apart"] == 1
    assert PLACES[target] not in reached(fabric, source, arp(source, target))


def test_an_access_port_takes_no_tagged_frames(fabric):
    talk(fabric, 11, 21)
    talk(fabric, 12, 31)
    for vlan in (10, 20):
        assert reached(fabric, 11, retagged(ipv4(11, 21), vlan)) == {}
        assert reached(fabric, 11, retagged(arp(11, 31), vlan)) == {}
    assert fabric.engine.forwarder.counters["vlan_refused"] == 4


def test_a_port_without_a_tag_takes_part_in_vlans_it_sends_in(fabric):
    assert set(reached(fabric, 22, retagged(arp(22, 99), 10))) == {PLACES[11], PLACES[21]}
    assert reached(fabric, 11, arp(11, 99)) == {PLACES[21]: arp(11, 99), PLACES[22]: retagged(arp(11, 99), 10)}
    for _ in range(2):  # by packet-out, then by flow
        assert reached(fabric, 11, ipv4(11, 22)) == {PLACES[22]: retagged(ipv4(11, 22), 10)}
        assert reached(fabric, 22, retagged(ipv4(22, 11), 10)) == {PLACES[11]: ipv4(22, 11)}
    assert reached(fabric, 22, retagged(ipv4(22, 12), 10)).keys() <= {PLACES[11], PLACES[21]}
    assert reached(fabric, 22, ipv4(22, 11)) == {}


def test_one_pair_in_two_vlans_has_a_flow_in_each(fabric):
    fabric.engine.set_vlans({})
    for vlan in (0, 10, 20):
        for source in (22, 31):
            reached(fabric, source, retagged(arp(source, 99), vlan))
        for _ in range(2):
            before = fabric.packet_ins
            frame = retagged(ipv4(22, 31), vlan)
            assert reached(fabric, 22, frame) == {PLACES[31]: frame}
        assert fabric.packet_ins == before
    flows = [flow for flow in fabric.switches[H2].flows if flow.fields.get(4) == mac(22)]
    assert len(flows) == 3 and len({flow.cookie for flow in flows}) == 3
    for flow in flows:
        assert fabric.engine.relations.talks(mac(22), mac(31))
        fabric.engine.flow_removed(flow.cookie, 0)
    assert not fabric.engine.relations.talks(mac(22), mac(31))


def test_a_port_that_changes_its_vlan_loses_what_was_learned_there(fabric):
    talk(fabric, 11, 21)
    fabric.engine.set_vlans({**TAGS, (H1, "vm1a"): 20})
    fabric.run(0.01)
    assert not fabric.switches[H1].find_pair_flow(mac(11), mac(21))
    assert not fabric.switches[H2].find_pair_flow(mac(21), mac(11))
    assert set(reached(fabric, 11, arp(11, 99))) == {PLACES[12], PLACES[31]}


def test_vlans_of_a_port_are_bounded_and_forgotten():
    vlans = Vlans()
    assert [vlans.enter((1, 2), vlan) for vlan in range(1, VLANS_A_PORT + 2)] == [*range(1, VLANS_A_PORT + 1), None]
    assert list(vlans.members(5)) == [(1, [2])]
    vlans.forget(1)
    assert not list(vlans.members(5)) and not vlans.carries((1, 2), 5) and vlans.carries((1, 2), 0)
    vlans.set_tags(1, {2: 7})
    vlans.forget(1, 2)
    assert vlans.tag((1, 2)) is None and not list(vlans.members(7))


def test_headers_are_read_and_changed():
    plain = ipv4(1, 2)
    tagged = retagged(plain, 300)
    frame = parse_frame(tagged, 253)
    assert frame is not None and frame.vlan == 300 and frame.ethertype == 0x800
    assert retagged(tagged, 0) == plain and retagged(retagged(tagged, 7), 300) == tagged
    assert parse_frame(plain, 253).vlan == 0 and parse_frame(tagged[:15], 253) is None


def test_a_port_that_comes_after_its_row_is_in_its_vlan(fabric):
    engine, (dpid, number) = fabric.engine, PLACES[11]
    port = engine.topology.ports[dpid][number]
    assert engine.vlans.tag((dpid, number)) == 10
    engine.port_removed(dpid, number)
    engine.set_vlans(TAGS)  # OVSDB tells the same as before
    engine.port_changed(dpid, number, port.name, port.mac, True)
    assert engine.vlans.tag((dpid, number)) == 10
