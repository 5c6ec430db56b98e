# SPDX-License-Identifier: Apache-2.0
"""Whose node and whose bridge it is: decisions without sockets."""

import types

import pytest

from sdngcc.controller.databases.nodes import BRIDGES_MAX, Arrival, Holder, Nodes
from sdngcc.controller.framework.allowlist import AllowList, read
from sdngcc.controller.framework.certificates import Identity

ONE, TWO = Identity(["compute-1"]), Identity(["compute-2"])


class Client:
    """A database of some bridges, as far as Nodes looks at it."""

    def __init__(self, name):
        self.name, self.ready, self.is_connected, self.dpids = name, True, True, frozenset()
        self.health = types.SimpleNamespace(since_ns=0)
        self.has()

    def has(self, *dpids):
        rows = {number: types.SimpleNamespace(datapath_id=[f"{dpid:016x}"]) for number, dpid in enumerate(dpids)}
        self.version, self.whole = (0, self.version[1] + 1 if hasattr(self, "version") else 0), True
        self.idl = types.SimpleNamespace(tables={"Bridge": types.SimpleNamespace(rows=rows)})


class World:
    def __init__(self, allowed=None, limit=100):
        self.holders = {}
        self.nodes = Nodes(allowed or AllowList(), self.holders.get, Client, limit)

    def come(self, name, identity=ONE, *dpids):
        answer = self.nodes.arrive(name, identity, "10.0.0.1:1")
        if answer.arrival is Arrival.NEW:
            self.nodes.by_name[name].client.has(*dpids)
        return answer

    def believed(self, name):
        return set(self.nodes.by_name[name].client.dpids)

    def settle(self):
        return [(node.name, dpid) for node, dpid, _ in self.nodes.settle().refused]


@pytest.fixture
def world():
    return World()


def test_a_name_belongs_to_the_certificate_it_came_by_until_it_is_forgotten(world):
    assert world.come("a").arrival is Arrival.NEW
    answer = world.come("a", TWO)
    assert answer.arrival is Arrival.REFUSED and "connected" in answer.why and 'certificate "compute-1"' in answer.why
    world.nodes.by_name["a"].client.is_connected = False
    answer = world.come("a", TWO)
    assert answer.arrival is Arrival.REFUSED and "gone now" in answer.why
    assert world.come("a", None).arrival is Arrival.REFUSED
    assert world.come("a").arrival is Arrival.RESUMED
    world.nodes.forget(world.nodes.by_name["a"])
    assert world.come("a", TWO).arrival is Arrival.NEW
    assert world.nodes.conflicts == 3


def test_a_second_connection_waits_and_a_third_is_refused(world):
    world.come("a")
    node = world.nodes.by_name["a"]
    assert world.come("a").arrival is Arrival.DOUBTED
    assert world.come("a").arrival is Arrival.REFUSED
    assert "10.0.0.1:1 and answers" in world.nodes.keep(node, "10.0.0.2:1")
    assert world.come("a").arrival is Arrival.DOUBTED
    world.nodes.resume(node, "10.0.0.2:1")
    assert (node.address, node.connections, node.waiting) == ("10.0.0.2:1", 2, False)


def test_who_comes_first_keeps_a_bridge_until_it_has_it_no_more(world):
    world.come("a", ONE, 1, 2)
    world.come("b", TWO, 2, 3)
    assert world.settle() == [("b", 2)]
    assert world.believed("a") == {1, 2} and world.believed("b") == {3}
    assert "bridge of node a" in world.nodes.by_name["b"].refused[2]
    assert world.settle() == []  # it is told once
    world.nodes.by_name["a"].client.has(1)
    world.settle()
    assert world.believed("a") == {1} and world.believed("b") == {2, 3}
    assert world.nodes.by_name["b"].refused == {}
    # One that is gone keeps what it had; one that is being read, too.
    client = world.nodes.by_name["b"].client
    client.ready = False
    client.has()
    world.settle()
    assert world.believed("b") == {2, 3}


def test_a_switch_is_connected_by_its_nodes_certificate_or_by_none(world):
    world.come("a", ONE, 1)
    world.settle()
    assert world.nodes.refuses_switch(ONE, 1) is None and world.nodes.refuses_switch(TWO, 2) is None
    assert world.nodes.refuses_switch(None, 1) is None  # without TLS nothing tells one from another
    assert 'allowed is certificate "compute-1"' in world.nodes.refuses_switch(TWO, 1)
    world.nodes.forget(world.nodes.by_name["a"])
    assert world.nodes.refuses_switch(TWO, 1) is None


def test_a_database_is_not_believed_about_a_switch_of_another_certificate(world):
    world.holders[1] = Holder(TWO, "10.0.0.2:1")
    world.come("a", ONE, 1)
    assert world.settle() == [("a", 1)]
    assert 'from 10.0.0.2:1, by certificate "compute-2"' in world.nodes.by_name["a"].refused[1]
    del world.holders[1]
    world.settle()
    assert world.believed("a") == {1}
    world.holders[1] = Holder(ONE, "10.0.0.1:2")
    world.nodes.by_name["a"].client.has(1, 4)
    world.settle()
    assert world.believed("a") == {1, 4}


def test_bridges_and_nodes_are_bounded():
    world = World(limit=2)
    world.come("a", ONE, *range(BRIDGES_MAX + 5))
    world.settle()
    assert len(world.believed("a")) == BRIDGES_MAX and len(world.nodes.by_name["a"].refused) == 5
    world.come("b", TWO)
    assert world.come("c").arrival is Arrival.REFUSED
    for name, since in (("a", 5), ("b", 4)):
        client = world.nodes.by_name[name].client
        client.is_connected, client.health.since_ns = False, since
    answer = world.come("c")
    assert answer.arrival is Arrival.NEW and answer.forgotten.name == "b"


def lines(tmp_path, text):
    file = tmp_path / "admitted"
    file.write_text(text)
    return AllowList(read(file))


def test_a_list_says_what_a_certificate_may_speak_for(tmp_path):
    world = World(lines(tmp_path, "compute-1 1 00:00:00:00:00:00:00:02 # two bridges\n\nleaf-* any\nleaf-9 9\n"))
    allowed = world.nodes.allowed
    assert allowed.refuses(ONE) is None
    assert allowed.refuses(TWO) == (
        'no line of admit_file fits its certificate "compute-2"; allowed: compute-1, leaf-*, leaf-9'
    )
    assert "no name" in allowed.refuses(None)
    world.come("a", ONE, 1, 3)
    assert world.settle() == [("a", 3)]
    assert world.believed("a") == {1}
    leaf, ninth = Identity(["leaf-1"]), Identity(["other", "leaf-9"])  # the second by its second name
    assert [dpid for dpid in (1, 2, 5, 9) if allowed.refuses_switch(leaf, dpid) is None] == [5]
    assert [dpid for dpid in (1, 2, 5, 9) if allowed.refuses_switch(ninth, dpid) is None] == [5, 9]
    assert allowed.refuses_switch(ONE, 3).endswith("admit_file allows it: 0000000000000001, 0000000000000002")
    assert allowed.refuses(Identity(["xleaf-1"])) is not None  # a whole name has to fit


def test_a_list_that_changes_is_applied_to_the_nodes_there_are(tmp_path):
    world = World(lines(tmp_path, "compute-1 1 2\n"))
    world.come("a", ONE, 1, 2)
    world.settle()
    world.nodes.allowed._replace(lines(tmp_path, "compute-1 2\n")._entries)
    assert world.settle() == [("a", 1)] and world.believed("a") == {2}
    world.nodes.allowed._replace([])
    assert [(node.name, why) for node, why in world.nodes.refused_now()] == [
        ("a", 'no line of admit_file fits its certificate "compute-1"; allowed: none')
    ]
