# SPDX-License-Identifier: Apache-2.0
"""What a fabric of Linux bridges tells the controller, and how its hypervisors' samples become those of one machine."""

import contextlib
import json
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from sdngcc.controller.network import underlay as controller_underlay
from sdngcc.testbed import collect
from sdngcc.testbed.fabric.base import Installation, controller_words, police_words, queue_words
from sdngcc.testbed.fabric.cloud import make_cloud
from sdngcc.testbed.fabric.linux import LinuxFabric, underlay
from sdngcc.testbed.virtual.openvswitch import OpenVSwitch
from sdngcc.topologies import TOPOLOGIES

HEAD = "t_ns vm uplink rate share sent_rate drops active congested"


@pytest.fixture
def fabric(tmp_path):
    """Return a fabric of two hypervisors whose devices are files."""
    made = LinuxFabric({"fabric": "linux", "cloud": {"agent": "none", "network": "flat"}}, tmp_path)
    for host, devices in (("hv1", {"hv1-vm1": 5, "lo": 1}), ("hv2", {"hv2-vm2": 5, "lo": 1})):
        for device, index in devices.items():
            folder = tmp_path / host / "sys/class/net" / device
            folder.mkdir(parents=True)
            (folder / "ifindex").write_text(f"{index}\n")
        made.installations.append(Installation(host, OpenVSwitch({}), (host,), root=str(tmp_path / host)))
    return made


@pytest.mark.parametrize("name, links", [("dumbbell", 5), ("star", 5), ("racks", 7), ("parking-lot", 7)])
def test_the_underlay_has_each_switch_host_and_link_once(name, links, tmp_path):
    topo = TOPOLOGIES[name](senders=4, receivers=1)
    graph = underlay(topo, 1000)
    assert set(graph["hosts"]) == set(topo.hypervisors)
    assert graph["switches"].keys() | graph["hosts"].keys() == set(topo.switches())
    assert len(graph["links"]) == links
    ends = [end for link in graph["links"] for end in link["ends"]]
    assert len(set(ends)) == 2 * links and f"{topo.bottleneck.partition('-')[0]}:{topo.bottleneck}" in ends
    assert {link["mbps"] for link in graph["links"]} == {1000}
    (tmp_path / "underlay.json").write_text(json.dumps(graph))
    read = controller_underlay.read(tmp_path / "underlay.json")
    assert read.switches.keys() == graph["switches"].keys() and len(read.links) == links
    assert sorted(read.hosts.values()) == sorted(topo.hypervisors)
    assert {link.rate for link in read.links} == {125_000_000}
    assert graph["hosts"]["hv1" if "hv1" in graph["hosts"] else "hv101"]["datapath"] == ["0000000000000001"]


def test_tenants_use_the_same_addresses(tmp_path):
    topo = TOPOLOGIES["dumbbell"](senders=4, receivers=2)
    cloud = make_cloud({"cloud": {"agent": "ovn", "network": "geneve"}}, tmp_path)
    cloud.address(topo)
    vms = [*topo.vms, *topo.receivers]
    assert [topo.nodeInfo(vm)["ip"] for vm in vms] == [
        "10.0.0.1/16", "10.0.0.1/16", "10.0.0.2/16", "10.0.0.2/16", "10.0.1.1/16", "10.0.1.1/16"]
    assert [cloud.tenant(topo, vm) for vm in vms] == [0, 1, 0, 1, 0, 1]
    assert len({cloud.port_id(vm)[:11] for vm in vms}) == len(vms)


def test_devices_of_hypervisors_have_numbers_of_their_own(fabric):
    devices = fabric.devices()
    assert (devices["hv1-vm1"], devices["hv2-vm2"]) == (1 << 16 | 5, 2 << 16 | 5)
    assert devices["hv1-lo"] == 1 << 16 | 1
    assert devices["lo"] < 1 << 16


def test_limiters_of_hypervisors_become_one_table_in_order_of_time(fabric, tmp_path):
    (tmp_path / "limiters-hv1.txt").write_text(f"{HEAD}\n100 5 3 1000000 9 0 0 1 0\n300 5 3 2000000 9 0 0 1 0\n")
    (tmp_path / "limiters-hv2.txt").write_text(f"{HEAD}\n200 5 3 3000000 9 0 0 1 0\n")
    fabric.join_limiters()
    lines = (tmp_path / "limiters.txt").read_text().splitlines()
    assert lines == [HEAD, "100 65541 65539 1000000 9 0 0 1 0", "200 131077 131075 3000000 9 0 0 1 0",
                     "300 65541 65539 2000000 9 0 0 1 0"]
    (tmp_path / "meta.json").write_text(json.dumps({"start_s": 0, "devices": fabric.devices()}))
    assert [mbps for _, mbps in collect.limits_mbps(tmp_path, "vm1")] == [8.0, 16.0]
    assert [mbps for _, mbps in collect.limits_mbps(tmp_path, "vm2")] == [24.0]


def test_a_bridge_is_controlled_by_all_controllers_and_nobody_else():
    words = controller_words("tor1", ["tcp:127.0.0.1:6653", "tcp:127.0.0.1:6654"])
    assert words.count("create") == 2 and words[-1] == "controller=@tor1-0,@tor1-1"
    assert "fail_mode=secure" in words


EDGE = {"kind": "htb", "rate_bps": {"vm1": 250_000_000, "vm2": 20_000_000}, "uplink_bps": 10**9,
        "burst_bits": {"vm1": 200_000_000, "vm2": 16_000_000}}


@pytest.mark.parametrize("kind, most", [("htb", ("250000000", "20000000")), ("borrow", ("1000000000", "1000000000"))])
def test_an_uplink_has_a_queue_for_each_vm(kind, most):
    text = " ".join(queue_words("hv1-up", {**EDGE, "kind": kind}, ["vm1", "vm2"]))
    assert "set Port hv1-up qos=@qos -- --id=@qos create QoS type=linux-htb other-config:max-rate=1000000000" in text
    for number, (least, limit) in enumerate(zip(("250000000", "20000000"), most), 1):
        assert f"queues:{number}=@queue{number}" in text
        assert (f"--id=@queue{number} create Queue other-config:min-rate={least} other-config:max-rate={limit}"
                in text)


def test_a_port_is_policed_in_kilobits():
    assert police_words("hv1-vm2", EDGE, "vm2") == [
        "--", "set", "Interface", "hv1-vm2", "ingress_policing_rate=20000", "ingress_policing_burst=16000"]


def test_a_vm_that_the_shim_refused_fails_the_run(fabric, monkeypatch):
    """The client of netlink is made up: it says which ports the shim has."""
    nodes = {"vm1": {"hypervisor": "hv1"}, "vm2": {"hypervisor": "hv2"}, "rx1": {"hypervisor": "hv2"}}
    fabric.network = SimpleNamespace(topo=SimpleNamespace(vms=["vm1", "vm2"], receivers=["rx1"], nodeInfo=nodes.get))
    fabric.job.update(shim={"settings": {"shim-law": "eyeq"}}, userspace=False)
    client = MagicMock()
    client.__enter__.return_value = client
    client.settings_get.return_value.law = "eyeq"
    client.ports.return_value = [SimpleNamespace(name="hv1-vm1", role="vm"), SimpleNamespace(name="hv2-vm2", role="vm"),
                                 SimpleNamespace(name="hv2-rx1", role="vm")]
    monkeypatch.setattr("sdngcc.shim.netlink.ShimClient", lambda: client)
    monkeypatch.setattr("sdngcc.testbed.fabric.base.network_namespace", lambda name: contextlib.nullcontext())
    monkeypatch.setattr(OpenVSwitch, "vsctl", lambda self, *words: "{shim=\"min-rate: too much\"}")
    fabric.check_law()
    client.ports.return_value[2].role = "uplink"
    with pytest.raises(RuntimeError, match="does not have hv2-rx1.*min-rate: too much"):
        fabric.check_law()
