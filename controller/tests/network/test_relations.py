# SPDX-License-Identifier: Apache-2.0
"""Who talks to whom, over which ports; two racks, several paths, ageing and bounds."""

from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.counters import PairBytes, SplitBytes
from sdngcc.controller.network.paths import Paths
from sdngcc.controller.network.relations import ADDRESSES_A_HOST, Learned, Relations
from sdngcc.controller.network.topology import Port, Topology
from sdngcc.controller.wire.packets import mapped

from ..fabric import ip, mac


def leaf_spine(spines=2):
    """Hypervisors 1 and 2 under leaf 11, hypervisor 3 under leaf 12, leaves under all spines (21, 22, ...)."""
    topology = Topology()
    for dpid in (1, 2, 3, 11, 12, *range(21, 21 + spines)):
        topology.add_switch(dpid, {number: Port(str(number), bytes(6), True, 0) for number in range(1, 9)})
    topology.add_link((1, 1), (11, 1), 0)
    topology.add_link((2, 1), (11, 2), 0)
    topology.add_link((3, 1), (12, 1), 0)
    for spine in range(spines):
        topology.add_link((11, 5 + spine), (21 + spine, 1), 0)
        topology.add_link((12, 5 + spine), (21 + spine, 2), 0)
    return topology


def populated():
    relations = Relations()
    for number, place in ((11, (1, 2)), (12, (1, 3)), (21, (2, 2)), (31, (3, 2)), (32, (3, 3))):
        relations.learn_host(mac(number), place, mapped(ip(number)), 0)
    return relations


def sources_behind(relations, topology, hop):
    """Return the sources whose frames leave by a port, each with its destinations there."""
    counters = PairBytes(10**8, 0, 0, lambda number: None), SplitBytes(10**8, lambda dpid, number: None)
    attribution = Attribution(relations, Paths(relations, topology), *counters, {}, lambda: 0)
    found: dict = {}
    for source, target in attribution.pairs_behind(hop):
        found.setdefault(source, set()).add(target)
    return found


def test_same_switch_two_and_three_hops():
    topology, relations = leaf_spine(1), populated()
    relations.learn_pair(mac(11), mac(12), 0)
    relations.learn_pair(mac(11), mac(21), 0)
    relations.learn_pair(mac(21), mac(31), 0)
    behind = lambda hop: sources_behind(relations, topology, hop)  # noqa: E731
    assert behind((1, 3)) == {mac(11): {mac(12)}}
    assert behind((1, 1)) == {mac(11): {mac(21)}}
    assert behind((11, 2)) == {mac(11): {mac(21)}}
    for hop in ((2, 1), (11, 5), (21, 2), (12, 1), (3, 2)):
        assert behind(hop) == {mac(21): {mac(31)}}
    assert behind((12, 5)) == {}


def test_a_source_has_several_destinations():
    topology, relations = leaf_spine(1), populated()
    for target in (21, 31, 32):
        relations.learn_pair(mac(11), mac(target), 0)
    assert sources_behind(relations, topology, (12, 1)) == {mac(11): {mac(31), mac(32)}}
    relations.forget_pair(mac(11), mac(31))
    assert sources_behind(relations, topology, (12, 1)) == {mac(11): {mac(32)}}


@given(st.integers(0, 2000))
def test_each_destination_has_one_way_among_equal_ones(number):
    topology, relations = leaf_spine(2), populated()
    relations.learn_host(mac(5000 + number), (3, 4), None, 0)
    relations.learn_pair(mac(11), mac(5000 + number), 0)
    relations.learn_pair(mac(21), mac(5000 + number), 0)
    used = [spine for spine in (21, 22) if sources_behind(relations, topology, (spine, 2))]
    assert len(used) == 1
    assert set(sources_behind(relations, topology, (used[0], 2))) == {mac(11), mac(21)}
    assert sources_behind(relations, topology, (11, used[0] - 16))


def test_equal_ways_are_both_used():
    paths = Paths(populated(), leaf_spine(2))
    ways = {port for number in range(64) for port in paths.ports(11, (3, 2), (mac(11), mac(number)))}
    assert ways == {5, 6}


def test_lost_link_moves_paths_to_the_other_spine():
    topology, relations = leaf_spine(2), populated()
    relations.learn_pair(mac(11), mac(31), 0)
    used = next(spine for spine in (21, 22) if sources_behind(relations, topology, (spine, 2)))
    topology.remove_port(used, 2)
    other = 43 - used
    assert sources_behind(relations, topology, (other, 2)) == {mac(11): {mac(31)}}
    assert sources_behind(relations, topology, (used, 2)) == {}


def test_links_expire():
    topology = leaf_spine(1)
    topology.add_link((1, 1), (11, 1), 100)
    assert len(topology.expire_links(50)) == 8
    assert topology.links() == [((1, 1), (11, 1))]


def test_pairs_age():
    relations = populated()
    relations.learn_pair(mac(11), mac(31), 10)
    relations.learn_pair(mac(11), mac(32), 20)
    assert relations.heard_ns(mac(11), mac(31)) == 10
    relations.learn_pair(mac(11), mac(31), 30)
    assert relations.heard_ns(mac(11), mac(31)) == 30 and relations.heard_ns(mac(31), mac(11)) is None


def test_nothing_is_kept_of_ports_whose_hosts_left():
    relations = Relations()
    for place in ((1, 2), (1, 3), (2, 2)):
        relations.learn_host(mac(1), place, None, 0)
        relations.learn_pair(mac(1), mac(2), 0)
        assert dict(relations._pairs_at) == {place: 1}
        relations.forget_pair(mac(1), mac(2))
        relations.learn_host(mac(2), place, None, 0)
    relations.forget_place(1)
    relations.forget_place(2)
    assert not relations._pairs_at and not relations._hosts_at and not relations.hosts


def test_hosts_of_a_port_are_bounded():
    relations = Relations(hosts_a_port=3)
    learned = [relations.learn_host(mac(number), (1, 2), None, 0) for number in range(5)]
    assert learned == [Learned.NEW] * 3 + [Learned.REFUSED] * 2
    assert relations.learn_host(mac(4), (1, 3), None, 0) is Learned.NEW


def test_pairs_of_a_source_are_bounded():
    relations = Relations(pairs_a_source=2)
    assert [relations.learn_pair(mac(1), mac(number), 0) for number in (2, 3, 4, 2)] == [True, True, False, True]


def test_addresses_of_a_host_are_bounded_and_the_oldest_goes():
    relations = Relations()
    for number in range(ADDRESSES_A_HOST + 4):
        relations.learn_host(mac(1), (1, 2), mapped(ip(number)), number)
    host = relations.hosts[mac(1)]
    assert len(host.addresses) == ADDRESSES_A_HOST == len(relations.owners)
    assert host.address(ipv4=True) == mapped(ip(ADDRESSES_A_HOST + 3))
    assert host.address(ipv4=False) is None


def test_claiming_anothers_address_does_not_take_it_from_him():
    relations = populated()
    relations.learn_host(mac(12), (1, 3), mapped(ip(11)), 5)
    assert relations.hosts[mac(11)].address(ipv4=True) == mapped(ip(11))


def test_moved_host_and_forgotten_switch():
    relations = populated()
    assert relations.learn_host(mac(11), (2, 5), None, 1) is Learned.MOVED
    assert relations.hosts[mac(11)].place == (2, 5)
    assert [host.mac for host in relations.hosts_at((1, 3))] == [mac(12)]
    assert relations.forget_place(3) == [mac(31), mac(32)]
    assert mapped(ip(31)) not in relations.owners


def walk(relations, topology, source, target):
    """Return the hops from source to target, one switch after the other."""
    dpid, place = relations.hosts[source].place[0], relations.hosts[target].place
    hops = []
    while True:
        ways = topology.ways(dpid, place)
        port = ways[0] if len(ways) == 1 else topology.choose(dpid, ways, target)
        hops.append((dpid, port))
        if dpid == place[0]:
            return hops
        dpid = topology.peer(dpid, port)[0]


PAIRS = st.lists(st.tuples(st.sampled_from([11, 12, 21]), st.sampled_from([21, 31, 32])), max_size=30)


@given(PAIRS, PAIRS)
def test_index_agrees_with_walking_every_path(learned, forgotten):
    topology, relations = leaf_spine(2), populated()
    for source, target in learned:
        relations.learn_pair(mac(source), mac(target), 0)
    for source, target in forgotten:
        relations.forget_pair(mac(source), mac(target))
    for hop in ((11, 5), (11, 6), (21, 2), (22, 2), (12, 1), (3, 2), (3, 3)):
        walked: dict = {}
        for source, target in set(learned) - set(forgotten):
            if hop in walk(relations, topology, mac(source), mac(target)):
                walked.setdefault(mac(source), set()).add(mac(target))
        assert sources_behind(relations, topology, hop) == walked
