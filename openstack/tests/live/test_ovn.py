# SPDX-License-Identifier: Apache-2.0
"""Debian's ML2/OVN with both parts: real server, neutron-ovn-agent where Debian has one, OVN and Open vSwitch."""

import os

import pytest

from .cloud import Cloud, is_service, run, services, wait_for

pytestmark = pytest.mark.skipif("SDNGCC_LIVE" not in os.environ, reason="made by make check-openstack")
has_agent = pytest.mark.skipif(not is_service("neutron-ovn-agent"), reason="this Neutron has no agent for OVN")

FAST = {"min_rate": "200000000", "max_rate": "500000000", "weight": "2"}
SLOW = {"max_rate": "1000000"}
CLOSED = "tcp:127.0.0.1:6699"


class OvnCloud(Cloud):
    """With OVN as mechanism."""

    def __init__(self):
        super().__init__("ovn")
        self.net = self.network("net", "10.0.0.0/24")
        self.vlan = self.network("vlan", "10.1.0.0/24", **{
            "provider:network_type": "vlan", "provider:physical_network": "physnet", "provider:segmentation_id": 100})
        self.fast = self.policy("fast", bandwidth_limit={"max_kbps": 500_000}, minimum_bandwidth={"min_kbps": 200_000})
        self.slow = self.policy("slow", bandwidth_limit={"max_kbps": 1000})

    def limits(self):
        """Return the bandwidths of OVN's own rows of QoS."""
        return run("ovn-nbctl", "--bare", "--columns=bandwidth", "find", "QoS", "direction=from-lport").split()

    def left_to_shim(self, port):
        """Return what the server left for the shim in a logical port."""
        text = run("ovn-nbctl", "--bare", "--columns=external_ids", "list", "Logical_Switch_Port", port["id"])
        return sorted(one for one in text.replace('"', "").split() if one.startswith("sdngcc:"))


@pytest.fixture(scope="module")
def cloud():
    made = OvnCloud()
    if is_service("neutron-ovn-agent"):
        made.start()
    yield made
    made.stop()


@pytest.mark.skipif(is_service("neutron-ovn-agent"), reason="this Neutron has an agent for OVN")
def test_without_an_agent_that_could_limit_the_servers_part_leaves_limits_to_ovn(cloud):
    port = cloud.port(cloud.net, "a", qos_policy_id=cloud.slow["id"])
    cloud.plug("tap-a", port)
    cloud.until_wired(port)
    assert cloud.limits() == ["rate=1000"]
    assert cloud.left_to_shim(port) == []
    assert "has no agent for OVN that takes extensions, so no shim would limit" in cloud.log(cloud.api)
    cloud.call("DELETE", f"/v2.0/ports/{port['id']}")
    run("ovs-vsctl", "del-port", "tap-a")


@has_agent
def test_both_parts_make_a_policy_the_shims_alone(cloud):
    for tap, network in (("tap-a", cloud.net), ("tap-v", cloud.vlan)):
        port = cloud.port(network, tap, qos_policy_id=cloud.fast["id"])
        cloud.plug(tap, port)
        cloud.until(tap, **FAST)
        cloud.until_wired(port)
        assert cloud.left_to_shim(port) == ["sdngcc:max_kbps=500000", "sdngcc:min_kbps=200000"]
    assert cloud.limits() == []
    assert "qos_m" not in run("ovn-nbctl", "--bare", "--columns=options", "list", "Logical_Switch_Port")
    assert "TypeError" not in cloud.log(cloud.agent)


@has_agent
def test_policies_change_and_go(cloud):
    own = cloud.policy("own", bandwidth_limit={"max_kbps": 10_000})
    port = cloud.port(cloud.net, "b", qos_policy_id=own["id"])
    cloud.plug("tap-b", port)
    cloud.until("tap-b", max_rate="10000000")
    cloud.call("PUT", own["bandwidth_limit"], {"bandwidth_limit_rule": {"max_kbps": 20_000}})
    cloud.until("tap-b", max_rate="20000000")
    cloud.change(port, qos_policy_id=cloud.fast["id"])
    cloud.until("tap-b", **FAST)
    cloud.change(port, qos_policy_id=None)
    cloud.until("tap-b")
    assert cloud.left_to_shim(port) == []


@has_agent
def test_a_guarantee_in_use_is_changed_by_another_policy_only(cloud):
    port = cloud.port(cloud.net, "c", qos_policy_id=cloud.fast["id"])
    cloud.plug("tap-c", port)
    cloud.until("tap-c", **FAST)
    refused = cloud.refused("PUT", cloud.fast["minimum_bandwidth"], {"minimum_bandwidth_rule": {"min_kbps": 300_000}})
    assert refused[0] == 501
    faster = cloud.policy("faster", bandwidth_limit={"max_kbps": 500_000}, minimum_bandwidth={"min_kbps": 300_000})
    cloud.change(port, qos_policy_id=faster["id"])
    cloud.until("tap-c", **{**FAST, "min_rate": "300000000", "weight": "3"})


@has_agent
def test_keys_survive_a_restart_and_those_of_ports_deleted_meanwhile_go(cloud):
    kept, gone = (cloud.port(cloud.net, name, qos_policy_id=cloud.fast["id"]) for name in ("d1", "d2"))
    cloud.plug("tap-d1", kept)
    cloud.plug("tap-d2", gone)
    cloud.until("tap-d1", **FAST)
    cloud.until("tap-d2", **FAST)
    cloud.stop_agent()
    cloud.call("DELETE", f"/v2.0/ports/{gone['id']}")
    assert cloud.shim("tap-d2")
    cloud.start()
    cloud.until("tap-d2")
    cloud.until("tap-d1", **FAST)


@has_agent
@pytest.mark.parametrize("broken", [
    "sdngcc_neutron.ovn_ports", "sdngcc_neutron.ovn_ports:Ports.initialize",
    "sdngcc_neutron.ovn_ports:Ports.interface_events", "sdngcc_neutron.ovn_ports:Ports.connect",
    "sdngcc_neutron.ovn_ports:Ports.is_here", "sdngcc_neutron.ovn_ports:InterfaceEvent.concerns",
    "sdngcc_neutron.ovn_ports:PortEvent.look", "sdngcc_neutron.interfaces:Interfaces._apply",
])
def test_whatever_fails_in_the_agent_it_goes_on(cloud, broken):
    before = len(cloud.log(cloud.agent))
    with cloud.broken(broken):
        port = cloud.port(cloud.net, "f", qos_policy_id=cloud.slow["id"])
        cloud.plug("tap-f", port)
        cloud.until_wired(port)
        cloud.change(port, qos_policy_id=cloud.fast["id"])
        wait_for(lambda: "injected by a test" in cloud.log(cloud.agent)[before:],
                 lambda: cloud.log(cloud.agent)[before:][-3000:])
        assert "What to do: /usr/share/doc/python3-sdn-gcc-neutron" in cloud.log(cloud.agent)[before:]
        assert "OVN Neutron Agent started" in cloud.log(cloud.agent)[before:]
        assert run("systemctl", "show", "--property=NRestarts", cloud.agent) == "NRestarts=0"
    cloud.until("tap-f", **FAST)
    cloud.call("DELETE", f"/v2.0/ports/{port['id']}")
    run("ovs-vsctl", "del-port", "tap-f")


@pytest.mark.parametrize("broken", [
    "sdngcc_neutron.ovn_qos", "sdngcc_neutron.ovn_qos:exchange", "sdngcc_neutron.ovn_qos:ShimQosClient._split",
    "sdngcc_neutron.ovn_qos:SetLimitsCommand.__init__",
])
def test_whatever_fails_in_the_server_ports_are_made_and_ovn_limits(cloud, broken):
    before = len(cloud.log(cloud.api))
    with cloud.broken(broken, server=True, mended=False):
        port = cloud.port(cloud.net, "g", qos_policy_id=cloud.slow["id"])
        cloud.plug("tap-g", port)
        cloud.until_wired(port)
        assert cloud.limits() == ["rate=1000"]
        if is_service("neutron-ovn-agent"):
            assert "injected by a test" in cloud.log(cloud.api)[before:]
            # The agent reads what OVN has.
            cloud.until("tap-g", **SLOW)
        cloud.call("DELETE", f"/v2.0/ports/{port['id']}")
    run("ovs-vsctl", "del-port", "tap-g")


@has_agent
def test_a_northbound_database_that_does_not_answer_keeps_no_agent_waiting(cloud):
    cloud.write_agent_settings("sdngcc", ovn_nb_connection=CLOSED)
    before = len(cloud.log(cloud.agent))
    services("restart", cloud.agent)
    try:
        wait_for(lambda: "OVN Neutron Agent started" in cloud.log(cloud.agent)[before:],
                 lambda: cloud.log(cloud.agent)[before:][-3000:])
        assert f"Waiting for OVN's northbound database at {CLOSED}" in cloud.log(cloud.agent)[before:]
    finally:
        cloud.write_agent_settings("sdngcc")
        cloud.start()
