# SPDX-License-Identifier: Apache-2.0
"""Tests inventories of real machines: what is refused, who runs where, and the commands that reach a machine."""

import pytest
import yaml
from click.testing import CliRunner

from sdngcc.main import main
from sdngcc.testbed.build import ROOT
from sdngcc.testbed.inventory import Inventory, InventoryError, check_run, read_inventory, settings_for
from sdngcc.testbed.parameters import parse_settings
from sdngcc.testbed.racks import RackFabric, RackTopo, Reach, in_our_time
from sdngcc.testbed.workload import Program, Workload

PAPER = ROOT / "testbed" / "inventories" / "paper.yaml"
GOOD = {"link_mbps": 100, "switch": {"address": "sw", "device": "swp1"}, "senders": ["a", "b"], "receivers": ["c"],
        "hosts": {name: {"address": f"192.0.2.{number}", "uplink": "eth1"} for number, name in enumerate("abc", 1)}}


def refused(tmp_path, **changes):
    path = tmp_path / "racks.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **changes}))
    with pytest.raises(InventoryError) as caught:
        read_inventory(path)
    return str(caught.value)


def test_the_papers_racks_are_an_example():
    inventory = read_inventory(PAPER)
    assert len(inventory.hosts) == 28 and len(inventory.senders) == 21 and len(inventory.receivers) == 7
    topo = RackTopo(inventory, {"topology": {"parameters": {"senders": 42, "receivers": 7}}})
    assert [topo.host_of[vm] for vm in ("vm1", "vm2", "vm3", "vm4", "vm22", "rx7")] == [
        "r1s1", "r2s1", "r3s1", "r1s2", "r1s1", "r4s7"]
    assert topo.addresses["vm1"] == "10.200.0.1/16" and len(set(topo.addresses.values())) == 49


@pytest.mark.parametrize("changes, words", [
    ({"link_mbps": 1}, ["link_mbps=1", "greater than or equal to 10"]),
    ({"switch": {"address": "sw"}}, ["switch.device", "required"]),
    ({"senders": ["a", "z"]}, ["senders: there is no host 'z'", "a, b, c"]),
    ({"senders": ["a", "a"]}, ["senders: a host is named twice"]),
    ({"receivers": ["c", "a"]}, ["host 'a' sends and receives"]),
    ({"mtu": 9000}, ["mtu=9000", "not permitted"]),
    ({"network": "10.0.0.0/25"}, ["network", "10.0.0.0/25 has fewer than 256 addresses"]),
    ({"network": "10.0.0.7/16"}, ["network", "host bits"]),
    ({"folder": "tmp; rm"}, ["folder='tmp; rm'"]),
    ({"reach": ["sh"]}, ["reach: no word has {name} or {address}"]),
    ({"hosts": {**GOOD["hosts"], "c": {"address": "-oProxyCommand=x", "uplink": "eth1"}}},
     ["hosts.c.address='-oProxyCommand=x'", "begins with no '-'"]),
    ({"hosts": {**GOOD["hosts"], "c": {"address": "192.0.2.1", "uplink": "eth1"}}}, ["192.0.2.1 is that of two hosts"]),
    ({"hosts": {**GOOD["hosts"], "c": {"address": "192.0.2.9", "uplink": "eth1:0"}}}, ["hosts.c.uplink='eth1:0'"]),
    ({"hosts": {**GOOD["hosts"], "c d": GOOD["hosts"]["c"]}}, ["host 'c d': a name is 1 to 10 letters"]),
    ({"hosts": {**GOOD["hosts"], "switch": {"address": "x", "uplink": "e"}}}, ["host 'switch'"]),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(tmp_path, changes, words):
    said = refused(tmp_path, **changes)
    assert "racks.yaml" in said
    for word in words:
        assert word in said, said


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(InventoryError, match="No such file"):
        read_inventory(tmp_path / "none.yaml")
    for text in ("- a\n", "", "a: [\n", "1: 2\n"):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(InventoryError, match="bad.yaml"):
            read_inventory(tmp_path / "bad.yaml")


def test_what_runs_on_real_machines():
    inventory = Inventory(**GOOD)

    def check(*settings, workload=None):
        check_run(inventory, parse_settings(settings_for(inventory, settings), {"law": "static"}), workload)

    check("senders=6", "competitor=udp")
    for setting, word in (("rtt_us=500", "rtt_us=500"), ("fabric=openflow", "fabric=linux"),
                          ("law=sdngcc", "must have .controller"), ("link_mbps=1000", "link_mbps=100"),
                          ("topology=star", "topology=star")):
        with pytest.raises(InventoryError, match=word):
            check(setting)
    check_run(Inventory(**GOOD, controller="192.0.2.9"), parse_settings(["fabric=linux"], {"law": "sdngcc"}), None)
    work = Workload()
    work.program(Program("memcached", "vm1", ("memcached",)))
    with pytest.raises(InventoryError, match="memcached"):
        check(workload=work)


def test_commands_that_reach_a_machine(tmp_path):
    words = Reach(Inventory(**GOOD), tmp_path).words("b", ["ip", "link", "set", "a b"])
    assert words[0] == "ssh" and words[-3:] == ["192.0.2.2", "--", "ip link set 'a b'"]
    assert ["-p", "22"] == words[words.index("-p"):words.index("-p") + 2] and "BatchMode=yes" in words
    near = Inventory(**GOOD, reach=["nsenter", "--net=/run/netns/{name}"])
    assert Reach(near, tmp_path).words("switch", ["true"]) == ["nsenter", "--net=/run/netns/switch", "true"]


def test_the_controller_is_told_of_the_fabric(tmp_path):
    job = {"topology": {"parameters": {"senders": 2, "receivers": 1}}}
    graph = RackFabric(job, tmp_path, Reach(Inventory(**GOOD), tmp_path)).underlay()
    assert graph["switches"] == {"switch": {}} and len(graph["hosts"]) == 3
    assert [link["ends"] for link in graph["links"]] == [["a:eth1", "switch:a"], ["b:eth1", "switch:b"],
                                                         ["switch:swp1", "c:eth1"]]
    job = {"topology": {"parameters": {"senders": 21, "receivers": 7}}}
    graph = RackFabric(job, tmp_path, Reach(read_inventory(PAPER), tmp_path)).underlay()
    assert ["switch:swp4", "behind:switch"] in [link["ends"] for link in graph["links"]] and len(graph["links"]) == 29


def test_times_of_samples_become_ours():
    assert in_our_time("t_ns bytes\n1500 3\n1600 4\n", 500) == "t_ns bytes\n1000 3\n1100 4\n"
    assert in_our_time("5001 1 2 3\n", 500) == "5001 1 2 3\n"


def test_the_command_refuses_before_it_builds(tmp_path):
    done = CliRunner().invoke(main, ["testbed", "run", "share", "--inventory", str(PAPER), "--set", "law=maxmin"])
    assert done.exit_code == 2 and "law=maxmin: the inventory must have 'controller'" in done.output
