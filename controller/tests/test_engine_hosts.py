# SPDX-License-Identifier: Apache-2.0
"""The engine where it does not forward: who is found, who is told, and that nothing is written."""

import pytest

from sdngcc.controller.network import conversations
from sdngcc.controller.network.conversations import ELSEWHERE, machine_key
from sdngcc.controller.network.directory import CloudPort, Trunk, allowed_of
from sdngcc.controller.settings import Settings, SettingsError
from sdngcc.controller.wire import message, openflow
from sdngcc.controller.wire.packets import mapped

from .fabric import ip, mac, vm_reading
from .hosts import READ_ONLY, UPLINK, Cloud

A, B, C = 0xA, 0xB, 0xC
VM1, VM2, VM3, VM4 = (A, 11, 1), (A, 12, 2), (B, 11, 3), (C, 11, 4)

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


@pytest.fixture
def cloud(tmp_path):
    """Machines 1 and 2 at host A, 3 at B, 4 at C, below one switch as far as anybody says."""
    return make(tmp_path)


def make(tmp_path, **settings):
    cloud = Cloud(tmp_path, **settings)
    cloud.add(A, vms=(11, 12))
    cloud.add(B, vms=(11,))
    cloud.add(C, vms=(11,))
    return cloud


def send(cloud, vm, rate):
    cloud.hosts[vm[0]].vms[vm[1]] = vm_reading(vm[1], rate)._replace(uplink=UPLINK)


def talk(cloud, *pairs, marks=0, periods=4):
    for _ in range(periods):
        for source, target in pairs:
            cloud.exchange(source, target, marks)
        cloud.run(0.005)


def told(cloud, vm):
    found = [one for index, one in cloud.hosts[vm[0]].told if index == vm[1]]
    cloud.hosts[vm[0]].told = [one for one in cloud.hosts[vm[0]].told if one[0] != vm[1]]
    return found


def test_nothing_is_written_and_nothing_is_heard(cloud):
    talk(cloud, (VM1, VM3), (VM2, VM4), marks=10)
    cloud.run(6)
    for host in cloud.hosts.values():
        assert set(host.seen) <= set(READ_ONLY) and openflow.OFPT_SET_ASYNC in host.seen
    with pytest.raises(RuntimeError):
        cloud.engine.outbox.put_owned(A, b"")
    cloud.engine.packet_in(A, 1, bytes(60))
    assert cloud.engine.counters["packet_ins_unasked"] == 1


def test_marks_reach_who_sent_through_the_port(cloud):
    send(cloud, VM1, 10**6)
    talk(cloud, (VM1, VM3), (VM2, VM4))
    assert not told(cloud, VM1)
    talk(cloud, (VM1, VM3), marks=8)
    messages = told(cloud, VM1)
    assert sum(one.marks for one in messages) == 4 * 8
    assert {one.type for one in messages} == {message.TYPE_MARKS}
    assert messages[0].vm == bytes(16), "its device is named, not an address that it claims"
    assert messages[0].peer[-4:] == b"\x0a\x00\x00\x03"
    assert not told(cloud, VM2) and not told(cloud, VM3)


def test_all_who_send_to_a_marked_host_share_by_their_bytes(cloud):
    send(cloud, VM1, 3 * 10**6)
    send(cloud, VM4, 10**6)
    talk(cloud, (VM1, VM3), (VM4, VM3))
    talk(cloud, (VM1, VM3), (VM4, VM3), marks=10)
    ones, fours = (sum(one.marks for one in told(cloud, vm)) for vm in (VM1, VM4))
    assert ones + fours == pytest.approx(80, abs=2) and ones == pytest.approx(60, abs=2)


def test_a_machine_is_found_in_its_own_network_only(cloud):
    """Two tenants use address 1 and 3: VLAN 10's machines are 11 at A and 11 at B, VLAN 20's 12 at A and 11 at C."""
    other, target = (A, 12, 1), (C, 11, 3)
    for _ in range(4):
        cloud.exchange(VM1, VM3, vlan=10)
        cloud.exchange(other, target, vlan=20)
        cloud.run(0.005)
    cloud.exchange(other, target, marks=5, vlan=20)
    cloud.run(0.005)
    assert sum(one.marks for one in told(cloud, other)) == 5
    assert not told(cloud, VM1)


def test_overlays_are_told_apart_by_their_key(cloud):
    other, target = (A, 12, 1), (C, 11, 3)
    for _ in range(4):
        cloud.exchange(VM1, VM3, tunnel=7)
        cloud.exchange(other, target, tunnel=8)
        cloud.run(0.005)
    cloud.exchange(VM1, VM3, marks=5, tunnel=7)
    cloud.run(0.005)
    assert sum(one.marks for one in told(cloud, VM1)) == 5
    assert not told(cloud, other)


def test_an_address_stays_with_who_had_it_first(cloud):
    talk(cloud, (VM1, VM3))
    cloud.hosts[C].talk(11, 1, 3, tx_bytes=1500, tx_packets=1)
    cloud.run(0.005)
    assert cloud.engine.counters["addresses_claimed_twice"] == 1
    talk(cloud, (VM1, VM3), marks=5, periods=1)
    assert told(cloud, VM1)


def test_a_machine_keeps_the_addresses_that_it_used_last(cloud):
    for address in range(100, 200):
        cloud.hosts[A].talk(11, 1, 3, tx_packets=1, tx_bytes=60)
        cloud.hosts[A].talk(11, address, 3, tx_packets=1, tx_bytes=60)
        cloud.run(0.005)
    owners = cloud.engine.hosting.hosts.conversations._owners
    assert len(owners) == 64 and ((0, 0), mapped(ip(1))) in owners and ((0, 0), mapped(ip(199))) in owners
    assert ((0, 0), mapped(ip(100))) not in owners


def test_pairs_of_a_machine_are_bounded_and_counted(cloud):
    assert cloud.engine.relations._pairs_a_source == 1024
    cloud.engine.relations._pairs_a_source = 1
    talk(cloud, (VM1, VM3))
    assert not cloud.engine.counters["pairs_refused"]
    talk(cloud, (VM1, VM3), (VM1, VM4), (VM2, VM4))
    assert cloud.engine.counters["pairs_refused"] >= 1
    assert len(cloud.engine.relations.targets(machine_key((A, 11)))) == 1
    assert len(cloud.engine.relations.targets(machine_key((A, 12)))) == 1, "another machine has its own part"


def test_marks_from_strangers_are_counted(cloud):
    cloud.hosts[B].talk(11, 3, 99)
    cloud.run(0.005)
    cloud.hosts[B].talk(11, 3, 99, rx_packets=10, rx_marks=4, rx_bytes=9000)
    cloud.run(0.005)
    assert cloud.engine.source.faults["strangers"] == 4


def test_names_come_from_the_database_whichever_is_first(cloud):
    talk(cloud, (VM1, VM3))
    cloud.devices((A, "tap1", 11, 0x77), (A, "eth0", UPLINK, 0))
    cloud.engine.set_interfaces({(A, "tap1"): "id-of-one"})
    vm = cloud.engine.switches[A].vms[11]
    assert (vm.id, vm.name) == ("id-of-one", "tap1")
    cloud.run(0.01)
    assert cloud.engine.relations.hosts_at((A, 11))[0].ethernet == mac(0x77)
    assert cloud.engine.switches[B].vms[11].id == "000000000000000b:11"


def test_another_bridge_of_a_host_stands_by_and_takes_over(cloud):
    cloud.add(0xA2, boot=cloud.hosts[A].boot, vms=(11, 12))
    assert not cloud.engine.switches[0xA2].vms and cloud.engine.switches[A].vms
    cloud.hosts[0xA2].peers = cloud.hosts[A].peers
    cloud.engine.switch_down(A)
    cloud.run(1.1)
    assert set(cloud.engine.switches[0xA2].vms) == {11, 12}


def test_hosts_that_come_and_go_leave_no_ports_behind(cloud):
    ports = cloud.engine.topology.ports
    [core] = cloud.engine.hosting.hosts.graph.fabric
    before = dict(ports[core])
    for dpid in range(0x100, 0x110):
        cloud.add(dpid, vms=(11,))
        cloud.engine.switch_down(dpid)
        cloud.run(0.01)
        assert dpid not in ports and dict(ports[core]) == before
    cloud.add(0x200, vms=(11,))
    assert len(ports[core]) == len(before) + 1 and cloud.engine.topology.link_count() == len(before) + 1


def test_a_machine_that_is_gone_is_forgotten(cloud):
    talk(cloud, (VM1, VM3))
    assert cloud.engine.relations.pair_count() == 1
    del cloud.hosts[A].vms[11]
    cloud.run(1.1)
    assert cloud.engine.relations.pair_count() == 0
    assert not cloud.engine.relations.hosts_at((A, 11))


def test_a_silent_pair_is_forgotten(cloud):
    talk(cloud, (VM1, VM3))
    cloud.run(11)
    assert cloud.engine.relations.pair_count() == 0


def test_a_host_that_reboots_begins_with_a_baseline(cloud):
    talk(cloud, (VM1, VM3), marks=3)
    told(cloud, VM1)
    cloud.hosts[B].boot += 1
    cloud.hosts[B].peers.clear()
    cloud.hosts[B].talk(11, 3, 1, rx_packets=1000, rx_marks=500, rx_bytes=1_500_000)
    cloud.run(0.02)
    assert not told(cloud, VM1)


def test_marks_are_blamed_on_the_port_that_the_marked_share(tmp_path):
    path = tmp_path / "underlay.yaml"
    path.write_text(UNDERLAY)
    cloud = make(tmp_path, underlay_file=str(path))
    send(cloud, VM1, 10**6)
    talk(cloud, (VM1, VM3), (VM2, VM4), periods=10)
    for _ in range(20):
        cloud.exchange(VM1, VM3, 10)
        cloud.exchange(VM2, VM4)
        cloud.run(0.005)
    late = told(cloud, VM1)[-5:]
    assert {(one.point_datapath, one.point_port) for one in late} == {(0xF2, 1)}
    told(cloud, VM2)
    send(cloud, VM2, 10**6)
    for _ in range(40):
        cloud.exchange(VM1, VM3, 10)
        cloud.exchange(VM2, VM4, 10)
        cloud.run(0.005)
    leaf1 = cloud.engine.hosting.hosts.graph.fabric - {0xF2}
    assert {one.point_datapath for one in told(cloud, VM1)[-5:] + told(cloud, VM2)[-5:]} == leaf1


@pytest.mark.parametrize("division, rate, factor", [
    ("bytes", 10**6, 1), ("bytes", 12_500_000, 1), ("bytes", 37_500_000, 3),
    # Where what goes through a port is not looked at, what machines send elsewhere must not count.
    ("equal", 37_500_000, 1), ("sent", 37_500_000, 1)])
def test_marks_of_what_a_full_link_dropped_count_too(tmp_path, division, rate, factor):
    """Receivers see what comes through: of three times a link of 100 Mb/s a third."""
    path = tmp_path / "underlay.yaml"
    path.write_text(UNDERLAY)
    cloud = make(tmp_path, underlay_file=str(path), division=division)
    send(cloud, VM1, rate)
    talk(cloud, (VM1, VM3))
    told(cloud, VM1)
    talk(cloud, (VM1, VM3), marks=8)
    assert sum(one.marks for one in told(cloud, VM1)) == factor * 4 * 8


def test_max_min_rates_follow_from_the_file_s_links(tmp_path):
    path = tmp_path / "underlay.yaml"
    path.write_text(UNDERLAY)
    cloud = make(tmp_path, underlay_file=str(path), decision="maxmin")
    for vm in (VM1, VM4):
        send(cloud, vm, 10**8)
    talk(cloud, (VM1, VM3), (VM4, VM3), periods=20)
    for vm in (VM1, VM4):
        last = told(cloud, vm)[-1]
        assert last.type == message.TYPE_RATE
        assert last.rate == pytest.approx(0.99 * 100 * 125_000 / 2, rel=0.01)


def test_a_host_that_the_file_does_not_know_is_told_of(tmp_path):
    path = tmp_path / "underlay.yaml"
    path.write_text(UNDERLAY)
    cloud = make(tmp_path, underlay_file=str(path))
    cloud.add(0xD, vms=(11,))
    assert cloud.engine.counters["hosts_without_place"] == 1


@pytest.mark.parametrize("source", ["sonic", "sflow-rt", "openflow"])
def test_other_sources_learn_who_talks_to_whom_from_hosts_too(tmp_path, source):
    more = {"sonic_redis": ("127.0.0.1:1=f2",), "sflow_agents": ("127.0.0.1=f2",)}
    cloud = make(tmp_path, mark_source=source, **more)
    talk(cloud, (VM1, VM3), periods=100)
    assert cloud.engine.relations.pair_count() == 1


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"mark_source": "shim"}, "mark_source shim needs forwarding none"),
        ({"forwarding": "none", "mark_source": "openflow-ce"}, "openflow-ce does not go with forwarding none"),
        ({"forwarding": "none", "message_version": "v0"}, "v0 does not go with forwarding none"),
        ({"underlay_file": "x"}, "underlay_file needs forwarding none"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        Settings(notify=False, **settings)


@pytest.mark.parametrize(
    "text, fault",
    [
        ("switches: {a: {}}\nlinks: [{ends: [a, b]}]", '"b" is neither among the switches'),
        ("switches: {a: {}, b: {}}\nlinks: [{ends: [a, b]}, {ends: ['a:1', 'b:1']}, {ends: ['a:1', b]}]", "two links"),
        ("switches: {a: {}}\nhosts: {a: {datapath: '1'}}", "as a switch and as a host"),
        ("hosts: {a: {datapath: '1'}, b: {datapath: '1'}}", "is given to a and to b"),
        ("hosts: {a: {datapath: 1}}", "quote it"),
        ("hosts: {a: {datapath: []}}", "hosts.a.datapath"),
        ("switches: {a: {}}\nlinks: [{ends: [a, 'a:2']}]", "to itself"),
        ("switches: {a: {speed: 1}}", "switches.a.speed"),
        ("links: [{ends: [a, b], mbps: -1}]", "links.0.mbps"),
        ("links: {", "settings file"),
    ],
)
def test_a_bad_underlay_file_is_refused_by_name(tmp_path, text, fault):
    path = tmp_path / "underlay.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=fault) as caught:
        Cloud(tmp_path, underlay_file=str(path))
    assert str(path) in str(caught.value)


class Part:
    """Owns all or nothing, as the test says."""

    shared = True

    def __init__(self):
        self.owned = True

    def owns(self, dpid):
        return self.owned

    def is_live(self):
        return True


def test_of_a_cluster_only_who_acts_tells_and_the_others_know_the_same(tmp_path):
    part = Part()
    cloud = make(tmp_path, owner=part)
    send(cloud, VM1, 10**6)
    part.owned = False
    talk(cloud, (VM1, VM3), marks=8)
    assert not told(cloud, VM1)
    part.owned = True
    talk(cloud, (VM1, VM3), marks=8, periods=1)
    assert sum(one.marks for one in told(cloud, VM1)) == 8


# What a database of the cloud says of machines


def name(cloud, *machines):
    """Let OVSDB know devices: (host, index, port's id)."""
    cloud.devices(*((dpid, f"tap{index}", index, index) for dpid, index, _ in machines))
    cloud.engine.set_interfaces({(dpid, f"tap{index}"): port for dpid, index, port in machines})
    cloud.run(1.1)


def cloud_port(port, number, key, mac_number=77):
    return CloudPort(
        port, segments=((0, key),), addresses=(mapped(ip(number)),), macs=(mac(mac_number),), tenant=f"project-{key}"
    )


def pairs(cloud):
    return {(cloud.engine.relations.hosts[source].place, target) for source, target in cloud.engine.relations.pairs()}


def test_a_machine_that_never_spoke_is_found_by_what_the_cloud_says(cloud):
    name(cloud, (A, 11, "a"), (B, 11, "b"))
    for _ in range(2):
        cloud.hosts[A].talk(11, 1, 9, tunnel=5, tx_bytes=1500, tx_packets=1)
        cloud.run(0.2)
    assert (A, 11) in {source for source, target in pairs(cloud) if target == ELSEWHERE}
    cloud.engine.directory.take("ovn", cloud_port("b", 9, 5))
    cloud.run(1.1)
    cloud.hosts[A].talk(11, 1, 9, tunnel=5, tx_bytes=1500, tx_packets=1)
    cloud.run(0.2)
    assert ((A, 11), machine_key((B, 11))) in pairs(cloud)


def test_an_address_is_the_machines_that_the_cloud_names_whoever_claimed_it_first(cloud):
    name(cloud, (A, 12, "thief"), (B, 11, "owner"))
    cloud.hosts[A].talk(12, 3, 1, tunnel=5, tx_bytes=1500, tx_packets=1)
    cloud.run(0.2)
    thief, owner = (cloud.engine.relations.hosts.get(machine_key(place)) for place in ((A, 12), (B, 11)))
    assert mapped(ip(3)) in thief.addresses and owner is None
    cloud.engine.directory.take("ovn", cloud_port("owner", 3, 5))
    cloud.run(1.1)
    assert mapped(ip(3)) not in thief.addresses
    cloud.hosts[A].talk(12, 3, 1, tunnel=5, tx_bytes=1500, tx_packets=1)
    cloud.hosts[A].talk(11, 1, 3, tunnel=5, tx_bytes=1500, tx_packets=1)
    cloud.run(0.2)
    cloud.hosts[A].talk(11, 1, 3, tunnel=5, tx_bytes=1500, tx_packets=1)
    cloud.run(0.2)
    assert ((A, 11), machine_key((B, 11))) in pairs(cloud)
    assert cloud.engine.counters["addresses_claimed_twice"] >= 1


def test_tenants_with_the_same_addresses_stay_apart(cloud):
    name(cloud, (A, 11, "a5"), (A, 12, "a6"), (B, 11, "b5"), (C, 11, "b6"))
    for port, number, key in (("a5", 1, 5), ("a6", 1, 6), ("b5", 2, 5), ("b6", 2, 6)):
        cloud.engine.directory.take("ovn", cloud_port(port, number, key))
    cloud.run(1.1)
    for _ in range(2):
        for vm, key in ((11, 5), (12, 6)):
            cloud.hosts[A].talk(vm, 1, 2, tunnel=key, tx_bytes=1500, tx_packets=1)
        cloud.run(0.2)
    assert pairs(cloud) == {((A, 11), machine_key((B, 11))), ((A, 12), machine_key((C, 11)))}
    assert cloud.engine.counters["addresses_claimed_twice"] == 0


def test_the_clouds_ethernet_address_goes_before_ovsdbs(cloud):
    name(cloud, (A, 11, "a"))
    cloud.engine.directory.take("ovn", cloud_port("a", 1, 5))
    cloud.run(1.1)
    assert cloud.engine.relations.hosts[machine_key((A, 11))].ethernet == mac(77)


def test_a_port_at_two_hosts_is_the_firsts_until_that_is_gone(cloud):
    name(cloud, (A, 11, "p"), (B, 11, "p"))
    cloud.engine.directory.take("ovn", cloud_port("p", 1, 5))
    cloud.run(2.2)
    assert cloud.engine.counters["addresses_claimed_twice"] == 1
    first = cloud.engine.relations.owner(mapped(ip(1)))
    there = A if first == machine_key((A, 11)) else B
    left = B if there == A else A
    del cloud.hosts[there].vms[11]
    name(cloud, (left, 11, "p"))
    cloud.run(1.1)
    other = machine_key((left, 11))
    assert cloud.engine.relations.owner(mapped(ip(1))) == other != first


def test_what_the_cloud_no_longer_says_is_no_longer_believed(cloud):
    name(cloud, (A, 11, "a"))
    cloud.engine.directory.take("ovn", cloud_port("a", 1, 5))
    cloud.run(1.1)
    cloud.engine.directory.take("ovn", cloud_port("a", 2, 5))
    cloud.run(1.1)
    host = cloud.engine.relations.hosts[machine_key((A, 11))]
    assert list(host.addresses) == [mapped(ip(2))]
    cloud.engine.directory.drop("ovn", "a")
    cloud.run(1.1)
    assert not host.addresses


def converse(cloud, dpid, vm, local, remote, key=5, vlan=0):
    """Let a VM be heard twice: the first reading is a baseline."""
    for _ in range(2):
        cloud.hosts[dpid].talk(vm, local, remote, vlan, key, tx_bytes=1500, tx_packets=1)
        cloud.run(0.2)


def test_what_is_known_of_subports_is_the_machines_that_has_the_parent_port(cloud):
    name(cloud, (A, 11, "a"), (B, 11, "parent"))
    cloud.engine.directory.take("neutron", cloud_port("parent", 8, 5))
    cloud.engine.directory.take("neutron", cloud_port("sub", 9, 6)._replace(trunk=Trunk("parent", 30)))
    cloud.run(1.1)
    converse(cloud, A, 11, 1, 9, key=6)
    assert ((A, 11), machine_key((B, 11))) in pairs(cloud)
    cloud.engine.directory.drop("neutron", "sub")
    cloud.run(1.1)
    assert list(cloud.engine.relations.hosts[machine_key((B, 11))].addresses) == [mapped(ip(8))]


def test_a_subport_is_known_though_nothing_is_of_its_parent(cloud):
    name(cloud, (B, 11, "parent"))
    cloud.engine.directory.take("neutron", cloud_port("sub", 9, 6)._replace(trunk=Trunk("parent", 30)))
    cloud.run(1.1)
    assert list(cloud.engine.relations.hosts[machine_key((B, 11))].addresses) == [mapped(ip(9))]


def virtual(port, number, key=5):
    return cloud_port(port, number, key)._replace(allowed=(allowed_of("10.0.0.100/31"),))


def owner_of(cloud, number, key=5, vlan=0):
    return cloud.engine.hosting.hosts.conversations._owners.get(((vlan, key), mapped(ip(number))))


def test_an_address_that_several_may_use_is_the_ones_that_sent_from_it_last(cloud):
    assert ip(100) == bytes([10, 0, 0, 100])
    name(cloud, (A, 11, "a"), (B, 11, "b"), (C, 11, "c"))
    for port, number in (("a", 1), ("b", 2)):
        cloud.engine.directory.take("ovn", virtual(port, number))
    cloud.run(1.1)
    converse(cloud, A, 11, 100, 50)
    assert owner_of(cloud, 100) == (A, 11)
    converse(cloud, B, 11, 100, 50)
    assert owner_of(cloud, 100) == (B, 11)
    converse(cloud, C, 11, 3, 100)
    assert ((C, 11), machine_key((B, 11))) in pairs(cloud)
    # What the former one still receives there, and what its host tells anew, says nothing.
    cloud.hosts[A].talk(11, 100, 50, 0, 5, rx_bytes=1500, rx_packets=1)
    cloud.run(0.2)
    cloud.hosts[A].boot += 1
    cloud.run(1.1)
    assert owner_of(cloud, 100) == (B, 11) and cloud.engine.counters["addresses_moved"] == 1


def test_who_is_not_allowed_an_address_gives_way_to_who_is_and_never_takes_it(cloud):
    name(cloud, (A, 11, "a"), (B, 11, "thief"))
    cloud.engine.directory.take("ovn", virtual("a", 1))
    cloud.run(1.1)
    converse(cloud, B, 11, 101, 50)
    assert owner_of(cloud, 101) == (B, 11)
    converse(cloud, A, 11, 101, 50)
    assert owner_of(cloud, 101) == (A, 11)
    converse(cloud, B, 11, 101, 50)
    assert owner_of(cloud, 101) == (A, 11) and cloud.engine.counters["addresses_claimed_twice"] >= 1


def test_an_allowed_range_takes_no_address_that_the_cloud_gives_to_another(cloud):
    name(cloud, (A, 11, "a"), (B, 11, "b"))
    cloud.engine.directory.take("ovn", cloud_port("a", 1, 5))
    cloud.engine.directory.take("ovn", cloud_port("b", 2, 5)._replace(allowed=(allowed_of("0.0.0.0/0"),)))
    cloud.run(1.1)
    converse(cloud, B, 11, 1, 50)
    assert owner_of(cloud, 1) == (A, 11)


def test_a_floating_address_goes_with_its_port(cloud):
    name(cloud, (A, 11, "a"), (B, 11, "b"))
    floating = (((200, 0), mapped(ip(77))),)
    cloud.engine.directory.take("ovn", cloud_port("a", 1, 5)._replace(floating=floating))
    cloud.engine.directory.take("ovn", cloud_port("b", 2, 5))
    cloud.run(1.1)
    assert owner_of(cloud, 77, 0, 200) == (A, 11)
    cloud.engine.directory.take("ovn", cloud_port("a", 1, 5))
    cloud.engine.directory.take("ovn", cloud_port("b", 2, 5)._replace(floating=floating))
    cloud.run(1.1)
    converse(cloud, A, 11, 77, 50, key=0, vlan=200)
    assert owner_of(cloud, 77, 0, 200) == (B, 11)


def test_what_the_cloud_says_of_one_machine_is_bounded(cloud, monkeypatch):
    monkeypatch.setattr(conversations, "KNOWN_MAX", 3)
    name(cloud, (A, 11, "a"))
    cloud.engine.directory.take("ovn", cloud_port("a", 1, 5))
    for number in range(10, 20):
        subport = cloud_port(f"s{number}", number, 6)._replace(trunk=Trunk("a", number))
        cloud.engine.directory.take("ovn", subport)
    cloud.run(1.1)
    assert [number for number in range(20) if owner_of(cloud, number) or owner_of(cloud, number, 6)] == [1, 10, 11]
