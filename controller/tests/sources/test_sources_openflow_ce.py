# SPDX-License-Identifier: Apache-2.0
"""CE counted at the next hop is attributed to the port that set it, once."""

import pytest

from sdngcc.controller.forwarding.installer import COOKIE, COUNTING
from sdngcc.controller.network.topology import Topology
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.sources.openflow_ce import OpenFlowCe
from sdngcc.controller.wire.openflow import FlowStatistics

from ..fabric import ipv4, mac
from ..test_engine import CORE, H1, H3, PLACES, T1, T2, build, talk

MS = 1_000_000
LEAVES, IPV6, REST = 1 << 32, 1 << 33, 1 << 34


def source(refresh=True):
    topology = Topology()
    topology.add_link((1, 2), (7, 3), 0)
    made = OpenFlowCe(topology, 5 * MS, 500 * MS, refresh)
    made.prepare(7, [3])
    return made


def reply(at_ms, arrived=0, arrived6=0, rest=0, age_ms=None, left=0, cookies=()):
    age = (at_ms if age_ms is None else age_ms) * MS
    counted = {3: arrived, 3 | IPV6: arrived6, 3 | LEAVES: left, 3 | LEAVES | IPV6: 0, REST: rest}
    return [
        FlowStatistics(COOKIE | COUNTING | cookie, packets, 0, age)
        for cookie, packets in counted.items()
        if not cookies or cookie in cookies
    ]


def test_first_reading_is_a_baseline_then_both_families_add_up():
    ce = source()
    assert ce.take_flows(7, reply(1, 100, 10), True, 1 * MS) == []
    assert ce.take_flows(7, reply(6, 104, 13), True, 6 * MS) == [PortMarks((1, 2), 7, 5 * MS)]
    assert ce.take_flows(7, reply(11, 104, 13), True, 11 * MS) == []


def test_parts_of_a_reply_are_one_reading():
    ce = source()
    ce.take_flows(7, reply(1), True, 1 * MS)
    whole = reply(6, 4, 3)
    assert ce.take_flows(7, whole[:2], False, 6 * MS) == []
    assert ce.take_flows(7, whole[2:], True, 6 * MS) == [PortMarks((1, 2), 7, 5 * MS)]
    assert not ce.faults


def test_counters_that_stand_still_make_the_interval_longer():
    ce = source(refresh=False)
    ce.take_flows(7, reply(0), True, 0)
    ce.take_flows(7, reply(100, rest=50), True, 100 * MS)  # no CE, but refreshed
    for at_ms in range(105, 600, 5):
        assert ce.take_flows(7, reply(at_ms, rest=50), True, at_ms * MS) == []
    assert ce.take_flows(7, reply(600, 200, rest=900), True, 600 * MS) == [PortMarks((1, 2), 200, 500 * MS)]
    for at_ms in range(605, 3000, 5):
        assert ce.take_flows(7, reply(at_ms, 200, rest=900), True, at_ms * MS) == []
    assert ce.take_flows(7, reply(3000, 230, rest=990), True, 3000 * MS) == [PortMarks((1, 2), 30, 500 * MS)]
    assert ce.take_flows(7, reply(7000, 630, rest=990), True, 7000 * MS) == [PortMarks((1, 2), 100, 1000 * MS)]


def test_reset_and_missing_flows_are_told_apart():
    ce = source()
    ce.take_flows(7, reply(100, 50), True, 100 * MS)
    assert ce.take_flows(7, reply(105, 20), True, 105 * MS) == [] and ce.resets == 1
    assert ce.take_flows(7, reply(110, 90, age_ms=2), True, 110 * MS) == [] and ce.resets == 6  # all five are new
    assert ce.take_flows(7, reply(115, cookies=(3, REST)), True, 115 * MS) == []
    assert ce.faults == {"flows_missing": 3}
    size = len(source().request(7, 1))
    assert len(ce.request(7, 1)) > size and len(ce.request(7, 1)) == size  # added again, once


def test_lost_ce_is_owed_for_a_while_only():
    topology = Topology()
    topology.add_link((7, 3), (8, 1), 0)
    ce = OpenFlowCe(topology, 5 * MS, 500 * MS, True)
    ce.prepare(7, [3])
    ce.prepare(8, [1])

    def far(at_ms, arrived):
        cookies = {1: arrived, 1 | IPV6: 0, 1 | LEAVES: 0, 1 | LEAVES | IPV6: 0, REST: 0}
        counts = [FlowStatistics(COOKIE | COUNTING | one, n, 0, at_ms * MS) for one, n in cookies.items()]
        return ce.take_flows(8, counts, True, at_ms * MS)

    ce.take_flows(7, reply(0), True, 0)
    far(0, 0)
    ce.take_flows(7, reply(5, left=40), True, 5 * MS)
    assert far(6, 30) == []  # all had it before
    assert far(8, 45) == [PortMarks((7, 3), 5, 2 * MS)]  # ten more had it before
    ce.take_flows(7, reply(10, left=70), True, 10 * MS)  # 30 that were dropped
    assert far(30, 75) == [PortMarks((7, 3), 13, 10 * MS)]  # 30 over 22 ms, scaled to 10 ms


@pytest.mark.parametrize("congested", [(T1, 9), (CORE, 2), (T2, 1)])
def test_only_the_port_that_set_ce_has_marks(tmp_path, congested):
    fabric = build(tmp_path, mark_source="openflow-ce", ce_refresh=True)
    fabric.connect()
    for source_vm in (11, 12):
        talk(fabric, source_vm, 31)
    fabric.run(2)
    fabric.switches[congested[0]].congested = {congested[1]}
    seen = []
    original = fabric.engine.rounds.marked
    fabric.engine.rounds.marked = lambda fresh, now: (seen.extend(fresh), original(fresh, now))
    before = fabric.packet_ins
    for _ in range(20):
        for _ in range(6):
            fabric.inject(*PLACES[11], ipv4(11, 31))
        fabric.run(0.005)
    fabric.run(0.02)
    assert fabric.packet_ins == before  # forwarding is unchanged
    assert sum(one.marks for one in seen if one.point == congested) == 120
    strays = [one for one in seen if one.point != congested]
    # A counter read before the one it is to be taken off: less than a period's packets a hop, and once.
    assert sum(one.marks for one in strays) <= 6 * 2
    assert fabric.engine.switches[H1].vms[2].marks > 0
    assert mac(31) in fabric.engine.relations.hosts
    shown = fabric.engine.source.readings(H3)
    assert shown[1].ce_arrived == 120 and shown[2].marks is None


def test_marks_of_another_source_do_not_stay(tmp_path):
    fabric = build(tmp_path, mark_source="openflow-ce")
    fabric.connect()
    talk(fabric, 11, 31)
    plain = build(tmp_path)
    for dpid, switch in plain.switches.items():
        switch.flows = fabric.switches[dpid].flows
    plain.connect()
    assert {flow.table for switch in plain.switches.values() for flow in switch.flows} == {0}
    assert not any(flow.cookie & COUNTING for switch in plain.switches.values() for flow in switch.flows)
