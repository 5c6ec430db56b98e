# SPDX-License-Identifier: Apache-2.0
"""Two ways between two leaves: the one a flow takes is known, and only machines on it are told of its marks."""

import pytest

from sdngcc.controller.engine import Engine
from sdngcc.controller.settings import Settings

from ..fabric import Fabric, arp, ipv4, mac, port_reading, vm_reading
from ..test_engine import KEY, notices

H1, H2, L1, L2, S1, S2 = 1, 2, 0x11, 0x12, 0x21, 0x22
SENDERS, RECEIVERS = range(11, 17), range(21, 24)
PLACES = {number: (H1, number - 9) for number in SENDERS} | {number: (H2, number - 19) for number in RECEIVERS}
UP1, UP2 = (L1, 5), (L1, 6)  # leaf 1 to the spines


def build(tmp_path, **changes):
    """H1 under L1 and H2 under L2; both leaves under S1 and S2."""
    key_file = tmp_path / "key"
    key_file.write_text(KEY.hex())
    fabric = Fabric()
    for dpid in (H1, H2):
        fabric.add_switch(dpid, {number: f"h{dpid}-{number}" for number in range(1, 8)})
    for dpid in (L1, L2):
        fabric.add_switch(dpid, {1: f"l{dpid}-h", 5: f"l{dpid}-s1", 6: f"l{dpid}-s2"})
    for dpid in (S1, S2):
        fabric.add_switch(dpid, {1: f"s{dpid}-l1", 2: f"s{dpid}-l2"})
    for near, far in (((H1, 1), (L1, 1)), ((H2, 1), (L2, 1)), ((L1, 5), (S1, 1)), ((L1, 6), (S2, 1)),
                      ((L2, 5), (S1, 2)), ((L2, 6), (S2, 2))):  # fmt: skip
        fabric.wire(near, far)
    for dpid, port in PLACES.values():
        fabric.switches[dpid].vms[port] = vm_reading(port, 10_000_000)
    for dpid in (L1, L2, S1, S2):
        fabric.switches[dpid].marks = {port: port_reading(port) for port in fabric.switches[dpid].ports}
    chosen = Settings(key_file=key_file, **changes)
    fabric.engine = Engine(chosen, fabric.clock, epoch=1000)
    fabric.connect()
    return fabric


def talk(fabric, source, target):
    fabric.inject(*PLACES[source], arp(source, target))
    fabric.inject(*PLACES[target], arp(target, source))
    fabric.inject(*PLACES[source], ipv4(source, target))
    fabric.delivered.clear()


def way(fabric, source, target, port=0):
    """Return the uplink of leaf 1 that a packet really takes."""
    taken = []
    transmit, fabric.transmit = fabric.transmit, lambda dpid, out, frame: (
        taken.append((dpid, out)), transmit(dpid, out, frame)
    )  # fmt: skip
    before = fabric.packet_ins
    fabric.inject(*PLACES[source], ipv4(source, target, port=port))
    fabric.transmit = transmit
    assert fabric.packet_ins == before
    return next(hop for hop in taken if hop in (UP1, UP2))


def told(fabric, point):
    fabric.delivered.clear()
    fabric.switches[point[0]].add_marks(point[1], 600)
    fabric.run(0.02)
    return set(notices(fabric))


@pytest.mark.parametrize("multipath", ["destination", "pair"])
def test_only_machines_on_the_marked_way_are_told(tmp_path, multipath):
    fabric = build(tmp_path, multipath=multipath)
    ways = {UP1: set(), UP2: set()}
    for source in SENDERS:
        target = RECEIVERS[source % len(RECEIVERS)]
        talk(fabric, source, target)
        ways[way(fabric, source, target)].add(PLACES[source])
    assert all(ways.values())
    fabric.run(1.0)
    assert told(fabric, UP1) == ways[UP1]
    assert told(fabric, UP2) == ways[UP2]


def test_pairs_to_one_destination_take_both_ways(tmp_path):
    fabric = build(tmp_path, multipath="pair")
    for source in SENDERS:
        talk(fabric, source, 21)
    assert {way(fabric, source, 21) for source in SENDERS} == {UP1, UP2}
    fabric = build(tmp_path)
    for source in SENDERS:
        talk(fabric, source, 21)
    assert len({way(fabric, source, 21) for source in SENDERS}) == 1


def test_flows_of_a_pair_take_both_ways_and_are_measured(tmp_path):
    fabric = build(tmp_path, multipath="flow")
    for source in (11, 12):
        talk(fabric, source, 21)
    ports = {hop: next(n for n in range(100) if way(fabric, 11, 21, n) == hop) for hop in (UP1, UP2)}
    talk(fabric, 13, 21)
    taken = way(fabric, 13, 21)
    assert taken in (UP1, UP2)
    attribution = fabric.engine.attribution
    attribution.through(UP1)
    fabric.run(0.3)
    for _ in range(3):
        for port, count in ((ports[UP1], 3), (ports[UP2], 1)):
            for _ in range(count * 50):
                fabric.inject(*PLACES[11], ipv4(11, 21, port=port))
        for _ in range(100):
            fabric.inject(*PLACES[12], ipv4(12, 21, port=ports[UP2]))
            fabric.inject(*PLACES[13], ipv4(13, 21))
        attribution.through(UP1)
        fabric.run(0.3)
    kept = way(fabric, 12, 21, ports[UP2])
    through = {point: attribution.through(point) for point in (UP1, UP2)}
    assert through[UP1][PLACES[11]] == pytest.approx(7_500_000, rel=0.1)
    assert through[UP2][PLACES[11]] == pytest.approx(2_500_000, rel=0.2)
    assert through[kept][PLACES[12]] == pytest.approx(10_000_000, rel=0.03)
    assert through[taken][PLACES[13]] == pytest.approx(10_000_000, rel=0.03)
    other = UP1 if kept == UP2 else UP2
    notified = told(fabric, other)
    assert PLACES[11] in notified and (PLACES[12] not in notified or through[other][PLACES[12]] > 0)


def test_switch_without_select_groups_chooses_by_pair(tmp_path):
    fabric = build(tmp_path, multipath="flow")
    fabric.switches[L1].group_support = False
    for source in SENDERS:
        talk(fabric, source, 21)
    for source in SENDERS:
        talk(fabric, source, 21)
        fabric.inject(*PLACES[21], ipv4(21, source))
    assert {way(fabric, source, 21) for source in SENDERS} == {UP1, UP2}
    assert all(way(fabric, 11, 21, 1) == way(fabric, 11, 21, port) for port in range(20))
    assert not fabric.switches[L1].groups and fabric.switches[L2].groups
    assert fabric.engine.switches[L1].marks


@pytest.mark.parametrize("multipath", ["pair", "flow"])
def test_silent_pairs_leave_no_flows_or_groups(tmp_path, multipath):
    fabric = build(tmp_path, multipath=multipath)
    talk(fabric, 11, 21)
    assert fabric.switches[L1].find_pair_flow(mac(11), mac(21))
    flow = fabric.switches[H1].find_pair_flow(mac(11), mac(21))
    fabric.switches[H1].flows.remove(flow)
    fabric.engine.flow_removed(flow.cookie, 0)
    fabric.settle()
    assert not fabric.switches[L1].groups
    assert not [flow for flow in fabric.switches[L1].flows if 4 in flow.fields]
    talk(fabric, 11, 21)
    way(fabric, 11, 21)


@pytest.mark.parametrize("multipath", ["destination", "pair", "flow"])
def test_lost_link_moves_all_to_the_other_way(tmp_path, multipath):
    fabric = build(tmp_path, multipath=multipath)
    for source in SENDERS:
        talk(fabric, source, 21)
    fabric.engine.port_changed(L1, 5, "l11-s1", bytes(6), False)
    fabric.engine.port_changed(S1, 1, "s21-l1", bytes(6), False)
    fabric.settle()
    for source in SENDERS:
        talk(fabric, source, 21)
        assert way(fabric, source, 21) == UP2
        assert fabric.engine.attribution.routes(PLACES[source]).get(UP1) is None
    assert not fabric.switches[L1].groups
