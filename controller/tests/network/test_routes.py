# SPDX-License-Identifier: Apache-2.0
"""Ways that follow changes of the graph are those that are found from scratch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.network import routes
from sdngcc.controller.network.topology import Port, Topology

SWITCHES = range(1, 9)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["link", "link", "link", "down", "remove", "up", "expire", "ask"]),
        st.tuples(st.sampled_from(SWITCHES), st.integers(1, 4)),
        st.tuples(st.sampled_from(SWITCHES), st.integers(1, 4)),
    ),
    max_size=60,
)


def switch(topology, dpid):
    topology.add_switch(dpid, {number: Port(str(number), bytes(6), True, 0) for number in range(1, 5)})


def expected(topology, target):
    """Return the ports on shortest ways from every switch to one, found from scratch."""
    away, level = {target: 0}, {target}
    while level:
        ends = [ends for link in topology.links() for ends in (link, link[::-1])]
        level = {far[0] for near, far in ends if near[0] in level and far[0] not in away}
        away.update(dict.fromkeys(level, max(away.values()) + 1))
    ways = {dpid: [] for dpid in topology.ports}
    for one, other in topology.links():
        for near, far in ((one, other), (other, one)):
            if near[0] in away and away[far[0]] == away[near[0]] - 1:
                ways[near[0]].append(near[1])
    return {dpid: tuple(sorted(ports)) for dpid, ports in ways.items() if dpid != target}


@pytest.mark.parametrize("many", [0, 2, 64])
@given(steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_ways_after_any_changes_are_those_of_the_graph_as_it_is(many, steps):
    before, routes.MANY = routes.MANY, many
    try:
        follow(steps)
    finally:
        routes.MANY = before


def follow(steps):
    topology = Topology()
    for dpid in SWITCHES:
        switch(topology, dpid)
    told = {}  # target -> switch -> ways as known to who was told of all moves
    for now, (step, near, far) in enumerate(steps):
        if step == "link" and near[0] in topology.ports and far[0] in topology.ports and near != far:
            topology.add_link(near, far, now)
        elif step == "down" and near[0] in topology.ports:
            topology.set_port(*near, Port("x", bytes(6), False, 0))
        elif step == "remove":
            topology.remove_switch(near[0])
            told.pop(near[0], None)
        elif step == "up" and near[0] not in topology.ports:
            switch(topology, near[0])
        elif step == "expire":
            topology.expire_links(now - 8)
        elif step == "ask" and near[0] in topology.ports:
            for dpid in topology.ports:
                if dpid != near[0]:
                    told.setdefault(near[0], {})[dpid] = topology.ways(dpid, (near[0], 9))
        if now % 3 == 0:
            for target in topology.targets():
                for dpid in topology.update(target):
                    told[target][dpid] = topology.ways(dpid, (target, 9))
            topology.forget_changes()
            for target, ways in told.items():
                right = expected(topology, target)
                assert {dpid: known for dpid, known in ways.items() if dpid in right} == {
                    dpid: right[dpid] for dpid in ways if dpid in right
                }
    for target in topology.ports:
        assert {dpid: topology.ways(dpid, (target, 9)) for dpid in topology.ports if dpid != target} == expected(
            topology, target
        )


def test_moved_switches_are_told_nearest_first_and_once():
    topology = Topology()
    for dpid in SWITCHES:
        switch(topology, dpid)
    for dpid in range(1, 6):  # a ring of six
        topology.add_link((dpid, 1), (dpid + 1, 2), 0)
    topology.add_link((6, 1), (1, 2), 0)
    for dpid in range(2, 7):
        topology.ways(dpid, (1, 9))
    assert topology.remove_port(2, 2) == [(2, 2), (1, 1)]
    assert topology.targets() == [1]
    assert topology.update(1) == [4, 3, 2]
    assert topology.update(1) == [] and topology.targets() == []


@given(st.sets(st.integers(1, 48), min_size=2, max_size=24), st.binary(min_size=6, max_size=12), st.data())
def test_a_lost_way_moves_nobody_who_did_not_take_it(ways, key, data):
    chosen = Topology.choose(7, sorted(ways), key)
    lost = data.draw(st.sampled_from(sorted(ways)))
    after = Topology.choose(7, sorted(ways - {lost}), key)
    assert chosen in ways and after in ways - {lost}
    assert lost == chosen or after == chosen


def test_keys_are_spread_evenly_over_ways():
    ways = list(range(29, 49))
    taken = [Topology.choose(0x1000, ways, b"\x02\x00" + number.to_bytes(4, "big")) for number in range(10_000)]
    assert all(400 < taken.count(port) < 600 for port in ways)
