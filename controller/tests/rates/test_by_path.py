# SPDX-License-Identifier: Apache-2.0
"""Rates by path from switches' answers to messages obeyed by shims: rounds, attribution, ports, notifier together."""

import pytest

from sdngcc.controller.rates.by_path import teller
from sdngcc.controller.tests.fabric import arp, ip, ipv4, mac, port_reading, vm_reading
from sdngcc.controller.tests.hosts import Cloud
from sdngcc.controller.tests.rates.shims import Shims
from sdngcc.controller.tests.test_engine import CORE, H1, H2, H3, KEY, PLACES, T1, T2, build
from sdngcc.controller.wire.experimenter import PATH_LIMITED, PathReading
from sdngcc.controller.wire.packets import mapped

SHARE = 125_000_000  # bytes/s: what an uplink carries for each machine
MB = 10**6
NEAR, FAR = (T2, 1), (T1, 9)  # the ports to H3, and from one rack to the other
PORTS = {(T1, 1): SHARE, (T1, 2): SHARE, FAR: 10 * SHARE, NEAR: 60 * MB, (CORE, 2): 10 * SHARE}


def make(tmp_path, ports=PORTS, by_path=(H1, H2, H3), **settings):
    """Return shims on two racks: H1 and H2 under T1, H3 under T2; machine 31 is behind a port of 60 MB/s."""
    fabric = build(
        tmp_path, decision="maxmin", by_path=True, **{"headroom_percent": 0, **settings},
        capacities=tuple(f"{dpid:x}/{port}={rate * 8 // 10**6}" for (dpid, port), rate in ports.items()),
    )  # fmt: skip
    for dpid, port in ports:
        fabric.switches[dpid].ports.setdefault(port, f"port{port}")
        fabric.switches[dpid].marks.setdefault(port, port_reading(port))
    for dpid in by_path:
        fabric.switches[dpid].by_path = True
    fabric.connect()
    shims = Shims(fabric, KEY, dict(ports), SHARE)
    shims.places = dict(PLACES)
    return shims


def want(shims, *pairs, rate=200 * MB):
    for pair in pairs:
        meet(shims, *pair)
        shims.wants[pair] = rate
    shims.fabric.run(0.001)


def meet(shims, source, target):
    """Let two hosts talk, as test_engine.talk() does for those of PLACES."""
    for one, frame in ((source, arp(source, target)), (target, arp(target, source)), (source, ipv4(source, target))):
        shims.fabric.inject(*shims.places[one], frame)


def sent(shims, *pairs):
    return [round(shims.sent[pair] / MB, 1) for pair in pairs]


def test_nothing_is_decided_where_nobody_sends(tmp_path):
    shims = make(tmp_path)
    for switch in shims.fabric.switches.values():
        switch.vms.clear()
    shims.fabric.run(0.02)
    shims.fabric.engine.switches.clear()
    assert not len(shims.fabric.engine.rounds.paths.decide({}, shims.fabric.now_ns))


def test_who_is_held_at_one_port_is_free_at_others(tmp_path):
    shims = make(tmp_path)
    want(shims, (11, 31), (11, 21), (21, 31), (22, 31))
    shims.run(40)
    # A third of the port each, and 11 has the rest of what it may send for 21.
    assert sent(shims, (11, 31), (21, 31), (22, 31)) == pytest.approx([20, 20, 20], rel=0.02)
    assert sent(shims, (11, 21)) == pytest.approx([105], rel=0.02)
    assert 0.97 * 60 * MB <= shims.load[NEAR] <= 1.001 * 60 * MB


def test_a_machine_with_more_destinations_has_no_more(tmp_path):
    shims = make(tmp_path)
    shims.places[32] = (H3, 3)
    want(shims, (11, 31), (11, 32), (21, 31))
    shims.run(40)
    assert shims.through(NEAR) == pytest.approx({(H1, 2): 30 * MB, (H2, 2): 30 * MB}, rel=0.02)


def test_weights_and_guarantees_count_at_each_port(tmp_path):
    shims = make(tmp_path)
    shims.shims[H1, 2].weight = 3
    want(shims, (11, 31), (21, 31))
    shims.run(40)
    assert sent(shims, (11, 31), (21, 31)) == pytest.approx([45, 15], rel=0.02)
    shims.shims[H2, 2].low = 40 * MB
    shims.run(40)
    assert sent(shims, (11, 31), (21, 31)) == pytest.approx([20, 40], rel=0.02)


def test_who_comes_has_his_part_soon_and_who_goes_leaves_it(tmp_path):
    shims = make(tmp_path)
    want(shims, (11, 31), (21, 31))
    shims.run(40)
    want(shims, (22, 31))
    shims.run(6)
    assert sent(shims, (11, 31), (21, 31), (22, 31)) == pytest.approx([20, 20, 20], rel=0.02)
    del shims.wants[21, 31]
    shims.run(8)
    assert sent(shims, (11, 31), (22, 31)) == pytest.approx([30, 30], rel=0.02)


def test_what_an_uplink_does_not_need_for_one_machine_another_has(tmp_path):
    shims = make(tmp_path)
    shims.shims[H1, 2].share = shims.shims[H1, 3].share = SHARE // 2
    want(shims, (11, 31), (12, 21), (21, 31), (22, 31))
    shims.run(40)
    assert sent(shims, (11, 31)) == pytest.approx([20], rel=0.02)
    # Machine 12 is told more than its share.
    assert sent(shims, (12, 21)) == pytest.approx([105], rel=0.03)


def test_who_lent_of_a_full_line_gets_it_back(tmp_path):
    shims = make(tmp_path, {**PORTS, (CORE, 5): 20 * MB}, headroom_percent=1)
    shims.places[41] = (CORE, 5)
    shims.shims[H1, 2].share = shims.shims[H1, 3].share = SHARE // 2
    shims.lines[H1] = SHARE
    shims.meek.add(11)
    want(shims, (11, 41), (11, 31), (12, 21), (21, 31))
    shims.run(40)
    assert sent(shims, (11, 41), (11, 31)) == pytest.approx([20, 30], rel=0.03)
    assert sent(shims, (12, 21)) == pytest.approx([74], rel=0.02)
    # Machine 11 may send 30 more, but what it was lent machine 12 fills the line.
    del shims.wants[21, 31]
    shims.run(60)
    assert sent(shims, (12, 21)) == pytest.approx([62], rel=0.02)
    assert sent(shims, (11, 41), (11, 31)) == pytest.approx([20, 42], rel=0.03)


def test_ceilings_that_fill_an_uplink_leave_nothing_free(tmp_path):
    shims = make(tmp_path, {**PORTS, (T1, 2): 10 * SHARE}, headroom_percent=1)
    for port in (2, 3):
        shims.shims[H1, port].share = shims.shims[H1, port].high = SHARE // 2
    want(shims, (11, 21), (12, 22))
    shims.run(40)
    assert sent(shims, (11, 21), (12, 22)) == pytest.approx([62.5, 62.5], rel=0.001)


def test_bridges_that_know_no_paths_take_part_and_are_told_one_rate(tmp_path):
    shims = make(tmp_path, by_path=(H1,))
    want(shims, (11, 31), (11, 21), (22, 31))
    shims.run(60)
    assert sent(shims, (11, 31), (22, 31)) == pytest.approx([30, 30], rel=0.03)
    assert sent(shims, (11, 21)) == pytest.approx([95], rel=0.03)
    assert shims.shims[H2, 3].paths == {} and shims.shims[H2, 3].messages
    assert shims.fabric.engine.switches[H2].paths is False


def test_a_port_that_is_lost_holds_nobody(tmp_path):
    shims = make(tmp_path)
    want(shims, (11, 31), (11, 21), (21, 31))
    shims.run(40)
    engine = shims.fabric.engine
    engine.switch_down(T2)
    del shims.wants[11, 31], shims.wants[21, 31], shims.capacities[NEAR]
    shims.run(60)
    assert sent(shims, (11, 21)) == pytest.approx([125], rel=0.01)
    assert all(port[0] != T2 for port in engine.rounds.paths.ports.table.ports.of)
    for dpid in (H1, H2, H3):
        engine.switch_down(dpid)
    shims.fabric.run(0.02)
    assert not engine.rounds.paths.entries.members and not engine.rounds.paths.ports.table.ports.of


class Owner:
    """Whoever owns some switches; all are owned when they connect."""

    shared = False

    def __init__(self):
        self.owned = {H1, H2, H3, T1, T2, CORE}

    def owns(self, dpid):
        return dpid in self.owned

    def is_live(self):
        return True


def test_only_owners_of_ports_tell_and_who_takes_one_over_goes_on(tmp_path):
    owner = Owner()
    shims = make(tmp_path, owner=owner)
    owner.owned -= {T2}
    want(shims, (11, 31), (21, 31), (22, 31))
    shims.run(40)
    assert not any(shim.paths for shim in shims.shims.values())
    owner.owned |= {T2}
    shims.run(6)
    assert sent(shims, (11, 31), (21, 31), (22, 31)) == pytest.approx([20, 20, 20], rel=0.02)
    assert teller(NEAR) in next(iter(shims.shims[H1, 2].paths.values()))
    owner.owned -= {T2}
    shims.run(45)
    assert not any(shim.rates(shims.fabric.now_ns) for shim in shims.shims.values())


def many(shims, count):
    """Let machine 11 send to so many hosts behind machine 31's and two more ports of H3, and 21 to one."""
    engine = shims.fabric.engine
    for port in range(4, 7):
        engine.port_changed(H3, port, f"tap{port}", bytes(6), True)
    shims.fabric.switches[H3].vms.update({port: vm_reading(port, flags=0) for port in range(2, 7)})
    for number in range(256, 256 + count):
        place = shims.places[number] = (H3, 2 + number % 5)
        engine.relations.learn_host(mac(number), place, mapped(ip(number)), shims.fabric.now_ns)
        engine.relations.learn_pair(mac(11), mac(number), shims.fabric.now_ns)
        shims.wants[11, number] = 5 * MB


@pytest.mark.parametrize("count", [40, 200])
def test_one_with_many_destinations_has_what_one_with_one_has(tmp_path, count):
    shims = make(tmp_path)
    want(shims, (21, 31), (11, 22))
    many(shims, count)
    shims.run(60)
    assert shims.through(NEAR) == pytest.approx({(H1, 2): 30 * MB, (H2, 2): 30 * MB}, rel=0.03)
    assert sent(shims, (11, 22)) == pytest.approx([95], rel=0.05)
    assert len(shims.shims[H1, 2].paths) <= 96
    # Half of them go, and the others have it all.
    for number in range(256, 256 + count // 2):
        del shims.wants[11, number]
        shims.fabric.engine.relations.forget_pair(mac(11), mac(number))
    shims.run(60)
    assert shims.through(NEAR) == pytest.approx({(H1, 2): 30 * MB, (H2, 2): 30 * MB}, rel=0.03)


def test_a_destination_without_an_address_is_bound_with_the_rest(tmp_path):
    shims = make(tmp_path)
    want(shims, (11, 31), (21, 31))
    shims.run(10)
    assert set(shims.shims[H1, 2].paths) == {(mapped(ip(31)), 128)}
    for address in list(shims.fabric.engine.relations.hosts[mac(31)].addresses):
        shims.fabric.engine.relations.forget_address(mac(31), address)
    shims.run(60)
    assert set(shims.shims[H1, 2].paths) == {(bytes(16), 0)}
    assert sent(shims, (11, 31), (21, 31)) == pytest.approx([30, 30], rel=0.02)


def test_tenants_share_by_weight_and_caps_hold(tmp_path):
    shims = make(tmp_path)
    tenants = shims.fabric.engine.tenants
    tenants.set_names({(H1, "vm1a"): "red", (H2, "vm2a"): "blue", (H2, "vm2b"): "blue"})
    tenants.set_policies({"red": {"weight": 1}, "blue": {"weight": 1}})
    want(shims, (11, 31), (21, 31), (22, 31))
    shims.run(40)
    assert sent(shims, (11, 31), (21, 31), (22, 31)) == pytest.approx([30, 15, 15], rel=0.02)
    tenants.set_policies({"red": {"weight": 1}, "blue": {"weight": 1, "max": 80 * 10**6}})
    shims.run(80)
    assert sent(shims, (11, 31), (21, 31), (22, 31)) == pytest.approx([50, 5, 5], rel=0.03)
    tenants.set_policies({"red": {"min": 400 * 10**6}})
    shims.run(80)
    assert sent(shims, (11, 31)) == pytest.approx([50], rel=0.03)


def test_hosts_that_others_forward_for_are_told_by_path(tmp_path):
    underlay = tmp_path / "underlay.yaml"
    underlay.write_text(UNDERLAY)
    cloud = Cloud(tmp_path, decision="maxmin", by_path=True, underlay_file=str(underlay), headroom_percent=0)
    for dpid, vms in ((0xA, (11, 12)), (0xB, (11,)), (0xC, (11,))):
        cloud.add(dpid, vms=vms, by_path=True)
    one, other, target, free = (0xA, 11, 1), (0xC, 11, 4), (0xB, 11, 3), (0xA, 12, 2)
    for _ in range(60):
        for vm in (one, other):
            cloud.exchange(vm, target)
            cloud.hosts[vm[0]].vms[vm[1]] = vm_reading(vm[1], 60 * MB)._replace(uplink=2)
        cloud.run(0.005)
    told = [one for index, one in cloud.hosts[0xA].told_by_path if index == 11]
    entries = [entry for text in told for entry in text.entries if entry.teller == teller((0xF2, 1))]
    assert entries[-1].prefix == mapped(ip(3)) and entries[-1].bits == 128
    assert entries[-1].rate == pytest.approx(6.25 * MB, rel=0.01)
    assert not [one for index, one in cloud.hosts[0xA].told_by_path if index == free[1]]
    cloud.hosts[0xA].paths = [PathReading(11, PATH_LIMITED, mapped(ip(3)), 128, 0, 0, 6_250_000, 6_250_000, 1, 1, 0)]
    cloud.run(0.01)
    index = cloud.engine.rounds.paths.entries.index
    entry = cloud.engine.rounds.paths.entries.members[0xA, 11].parts[mapped(ip(3)), 128].entries[0xF2, 1]
    rows = cloud.engine.rounds.paths.ports.table.rows
    assert index.entry_parts[entry] >= 0 and rows.sent[rows.numbers == entry] == [6_250_000]


UNDERLAY = """
switches:
  leaf1: {}
  leaf2: {datapath: "00000000000000f2"}
hosts:
  one: {datapath: "a"}
  two: {datapath: ["b"]}
  three: {datapath: "c"}
links:
  - {ends: [one, leaf1], mbps: 1000}
  - {ends: [two, "leaf2:1"], mbps: 100}
  - {ends: [three, "leaf2:2"], mbps: 1000}
  - {ends: [leaf1, leaf2], mbps: 500}
"""
