# SPDX-License-Identifier: Apache-2.0
"""The file of the network beneath changes while the controller runs."""

import os
import random

import pytest

from sdngcc.configuration import SettingsError
from sdngcc.controller.network import underlay, underlay_process
from sdngcc.controller.network.topology import Topology
from sdngcc.controller.network.underlay import FIRST_PORT, MBPS, Change, Graph
from sdngcc.controller.network.underlay_file import UnderlayFile
from sdngcc.controller.network.underlay_process import Assembly
from sdngcc.controller.settings import Settings

from ..test_engine_hosts import A, B, make

FILE = """
switches: {leaf1: {}, leaf2: {}, spine1: {datapath: "f1"}, spine2: {datapath: "f2"}}
hosts: {one: {datapath: "a"}, two: {datapath: "b"}, three: {datapath: "c"}}
links:
  - {ends: ["one:eth0", "leaf1:1"], mbps: 1000}
  - {ends: ["two:eth0", "leaf1:2"], mbps: 1000}
  - {ends: ["three:eth0", "leaf2:1"], mbps: 1000}
  - {ends: ["leaf1:up1", "spine1:1"], mbps: 4000}
  - {ends: ["leaf2:up1", "spine1:2"], mbps: 4000}
"""
MORE = FILE + """\
  - {ends: ["leaf1:up2", "spine2:1"], mbps: 4000}
  - {ends: ["leaf2:up2", "spine2:2"], mbps: 4000}
"""
HOSTS = (0xA, 0xB, 0xC)


def replaced(path, text):
    """Put a file in the place of another."""
    scratch = path.with_suffix(".new")
    scratch.write_text(text)
    os.replace(scratch, path)
    return path


@pytest.fixture
def path(tmp_path):
    return replaced(tmp_path / "underlay.yaml", FILE)


def read(path, text):
    return underlay.read(replaced(path, text))


@pytest.fixture
def graph(path):
    made = Graph(underlay.read(path), Topology())
    for dpid in HOSTS:
        assert made.add_host(dpid)
    return made


def fresh(path, text):
    """Return the links and rates of a graph that knew no other file."""
    made = Graph(read(path, text), Topology())
    for dpid in HOSTS:
        made.add_host(dpid)
    return made._topology.links(), made.rates


def replace(graph, underlay):
    """Take another file as a whole; return what it changed."""
    change = Change()
    for _ in graph.replace(underlay, change):
        pass
    return change


CHANGES = [
    MORE,
    FILE.replace("mbps: 1000", "mbps: 2000"),
    FILE.replace("leaf2:1", "leaf1:9"),
    FILE.replace("one:eth0", "one:eth1"),
    FILE.replace(', three: {datapath: "c"}', "").replace('  - {ends: ["three:eth0", "leaf2:1"], mbps: 1000}\n', ""),
    FILE.replace("spine2: {datapath: \"f2\"}", "spine3: {}"),
    FILE.replace(", mbps: 4000", ""),
    FILE.replace('one: {datapath: "a"}, two: {datapath: "b"}', 'one: {datapath: "b"}, two: {datapath: "a"}'),
    "switches: {}\nhosts: {}\nlinks: []\n",
]


@pytest.mark.parametrize("text", CHANGES)
def test_after_a_change_the_graph_is_as_if_there_had_been_no_other_file(path, graph, text):
    replace(graph, read(path, text))
    assert (graph._topology.links(), graph.rates) == fresh(path, text)
    replace(graph, read(path, FILE))
    assert (graph._topology.links(), graph.rates) == fresh(path, FILE)


@pytest.mark.parametrize("text", CHANGES)
@pytest.mark.parametrize("seed", range(5))
def test_hosts_may_come_and_go_while_a_file_is_taken(path, graph, text, seed):
    """Whatever happens between the steps, the graph is in the end what the file and the hosts that are there make."""
    chance, there = random.Random(seed), set(HOSTS)
    for _ in graph.replace(read(path, text), Change()):
        if chance.random() < 0.3:
            dpid = chance.choice(HOSTS)
            if dpid in there:
                there.remove(dpid)
                if not graph.remove_host(dpid):
                    graph._topology.remove_switch(dpid)
            else:
                there.add(dpid)
                graph.add_host(dpid)
    made = Graph(read(path, text), Topology())
    for dpid in there:
        made.add_host(dpid)
    assert graph._topology.links() == made._topology.links()
    assert {hop: graph.rates[hop] for ends in made._topology.links() for hop in ends if hop in graph.rates} == {
        hop: made.rates[hop] for ends in made._topology.links() for hop in ends if hop in made.rates
    }


def test_what_both_files_say_alike_stays(path, graph):
    topology = graph._topology
    targets = [node for node in topology.ports]
    for target in targets:
        for dpid in targets:
            topology.ways(dpid, (target, 1))
        topology.update(target)
    version = topology.version
    assert replace(graph, read(path, "# the same\n" + FILE)) == Change()
    assert topology.version == version and not topology.targets()
    change = replace(graph, read(path, FILE.replace("mbps: 1000", "mbps: 2000", 1)))
    assert change.lost == [] and set(change.rates.values()) == {2000 * MBPS} and len(change.rates) == 2
    assert topology.version == version
    # A host's cable is moved to another leaf: ways to it change, and its own; those between others do not.
    change = replace(graph, read(path, FILE.replace("leaf2:1", "leaf1:9")))
    leaf2 = underlay.node_id("leaf2")
    assert (0xC, next(iter(topology.ports[0xC]))) in change.lost and (leaf2, 1) in change.lost
    assert 0xA not in topology.update(0xB) and 0xB not in topology.update(0xA)
    assert topology.update(0xC)


def test_ports_without_a_number_keep_theirs_whatever_else_the_file_says(path):
    before, after = (underlay.read(replaced(path, text)) for text in (FILE, MORE.replace("links:\n", "links:\n"
        '  - {ends: ["one:eth9", "leaf2:7"]}\n  - {ends: [two, leaf2]}\n  - {ends: [two, leaf2]}\n')))  # fmt: skip
    numbers = [{(end.node, end.name): end.port for link in one.links for end in link.ends} for one in (before, after)]
    assert numbers[0].items() <= numbers[1].items()
    assert min(number for (node, name), number in numbers[1].items() if not name.isdecimal()) >= FIRST_PORT
    assert ("two", "to leaf2") in numbers[1] and ("two", "to leaf2 (2)") in numbers[1]
    assert len({(node, number) for (node, _), number in numbers[1].items()}) == len(numbers[1])


def test_a_host_that_loses_its_place_is_told_and_gets_it_back(path, graph):
    gone = FILE.replace('three: {datapath: "c"}', 'three: {datapath: "d"}')
    assert replace(graph, read(path, gone)).homeless == [0xC] and graph.uplinks(0xC) == ()
    assert replace(graph, read(path, FILE)).homeless == [] and len(graph.uplinks(0xC)) == 1


def test_the_file_is_followed_and_one_that_cannot_be_used_is_refused_by_name(path, caplog):
    file, taken = UnderlayFile(path), []
    file.follow(taken.append)
    assert not taken and file.fault is None
    replaced(path, MORE)
    file.follow(taken.append)
    file.follow(taken.append)
    assert [len(one.links) for one in taken] == [7] and (file.changes, file.refused) == (1, 0)
    replaced(path, FILE + "  - {ends: [x, y]}\n")
    for _ in range(3):
        file.follow(taken.append)
    assert f"underlay_file {path}" in file.fault and '"x" is neither' in file.fault
    assert (len(taken), file.changes, file.refused) == (1, 1, 1)
    assert sum("the graph as it was stays in force" in text for text in caplog.messages) == 1
    path.unlink()
    for _ in range(3):
        file.follow(taken.append)
    assert "No such file" in file.fault and file.refused == 2
    replaced(path, FILE)
    file.follow(taken.append)
    assert file.fault is None and len(taken) == 2


def test_another_file_that_settings_name_is_read_next(path, tmp_path):
    file, taken = UnderlayFile(path), []
    other = replaced(tmp_path / "other.yaml", MORE)
    chosen = Settings(forwarding="none", notify=False, underlay_file=other)
    file.prepare(chosen)()
    file.follow(taken.append)
    assert [len(one.links) for one in taken] == [7]
    file.prepare(chosen)()
    file.follow(taken.append)
    assert len(taken) == 1


def test_a_running_controller_takes_a_changed_file_but_for_what_is_connected(path, tmp_path, caplog):
    cloud = make(tmp_path, underlay_file=str(path))
    engine, file = cloud.engine, UnderlayFile(path)
    links = engine.topology.link_count()
    assert links == 5
    replaced(path, MORE)
    file.follow(engine.set_underlay)
    assert engine.topology.link_count() == 7 and file.fault is None
    assert engine.rounds.explicit.speeds[0xF2, 1] == 4000 * MBPS
    replaced(path, FILE.replace('spine2: {datapath: "f2"}', f'spine2: {{datapath: "{B:x}"}}')
             .replace('two: {datapath: "b"}, ', "").replace('  - {ends: ["two:eth0", "leaf1:2"], mbps: 1000}\n', ""))
    file.follow(engine.set_underlay)
    assert f"datapath {B:016x} is connected as a host" in file.fault and str(path) in file.fault
    assert engine.topology.link_count() == 7
    replaced(path, FILE)
    file.follow(engine.set_underlay)
    assert engine.topology.link_count() == 5 and engine.topology.ports[A]
    cloud.run(0.02)


def test_a_file_read_by_nobody_yet_is_an_error_at_the_start(tmp_path):
    with pytest.raises(SettingsError, match="underlay_file"):
        underlay.read(tmp_path / "nowhere.yaml")


def test_a_process_tells_what_it_read_in_parts_or_what_is_wrong(path, monkeypatch):
    assert underlay_process.read(path) == underlay.read(path)
    found = read(path, MORE)
    monkeypatch.setattr(underlay_process, "CHUNK", 2)
    assembly, lines = Assembly(), list(underlay_process.lines_of(found))
    assert len(lines) == 2 + 2 + 4 + 1 and [assembly.take(line) for line in lines] == [None] * 8 + [found]
    replaced(path, FILE + "  - {ends: [x, y]}\n")
    with pytest.raises(SettingsError, match=f'underlay_file {path}: .*"x" is neither'):
        underlay_process.read(path)
    path.unlink()
    with pytest.raises(SettingsError, match="No such file"):
        underlay_process.read(path)


def test_a_process_tries_a_file_and_tells_no_more_than_whether_it_can_be_used(path, monkeypatch):
    heard = []
    take = Assembly.take
    monkeypatch.setattr(Assembly, "take", lambda self, line: heard.append(line) or take(self, line))
    underlay_process.check(path)
    assert len(heard) == 1
    replaced(path, FILE + "  - {ends: [x, y]}\n")
    with pytest.raises(SettingsError, match=f'underlay_file {path}: .*"x" is neither'):
        underlay_process.check(path)


@pytest.mark.parametrize("use", [underlay_process.read, underlay_process.check])
def test_a_process_that_ends_is_told(path, monkeypatch, use):
    monkeypatch.setattr(underlay_process, "MODULE", "sdngcc.no_such_module")
    with pytest.raises(SettingsError, match="ended"):
        use(path)
