# SPDX-License-Identifier: Apache-2.0
"""Debian's ML2/OVN with both parts: real server, neutron-ovn-agent where Debian has one, OVN and Open vSwitch."""

import os

import pytest

from . import policies
from .cloud import FAST, ML2, NEUTRON, SLOW, Cloud, Tail, is_service, run, services

pytestmark = pytest.mark.skipif("SDNGCC_LIVE" not in os.environ, reason="made by make check-openstack")
has_agent = pytest.mark.skipif(not is_service("neutron-ovn-agent"), reason="this Neutron has no agent for OVN")

CLOSED = "tcp:127.0.0.1:6699"


class OvnCloud(Cloud):
    """With OVN as mechanism."""

    def __init__(self):
        super().__init__("ovn")
        self.vlan = self.network("vlan", "10.1.0.0/24", **{
            "provider:network_type": "vlan", "provider:physical_network": "physnet", "provider:segmentation_id": 100})

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
    cloud.leave("tap-a", port)


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
class TestPolicies(policies.Policies):
    """What holds with both mechanisms."""


@has_agent
def test_a_policy_that_is_taken_away_leaves_nothing_to_the_shim(cloud):
    port = cloud.port(cloud.net, "b", qos_policy_id=cloud.fast["id"])
    assert cloud.left_to_shim(port) == ["sdngcc:max_kbps=500000", "sdngcc:min_kbps=200000"]
    cloud.change(port, qos_policy_id=None)
    assert cloud.left_to_shim(port) == []


@has_agent
@pytest.mark.parametrize("broken", [
    "sdngcc_neutron.ovn_ports", "sdngcc_neutron.ovn_ports:Ports.initialize",
    "sdngcc_neutron.ovn_ports:Ports.interface_events", "sdngcc_neutron.ovn_ports:Ports.connect",
    "sdngcc_neutron.ovn_ports:Ports.is_here", "sdngcc_neutron.ovn_ports:InterfaceEvent.concerns",
    "sdngcc_neutron.ovn_ports:PortEvent.look", "sdngcc_neutron.interfaces:Interfaces._apply",
])
def test_whatever_fails_in_the_agent_it_goes_on(cloud, broken):
    with cloud.broken(broken) as said:
        port = cloud.port(cloud.net, "f", qos_policy_id=cloud.slow["id"])
        cloud.plug("tap-f", port)
        cloud.until_wired(port)
        cloud.change(port, qos_policy_id=cloud.fast["id"])
        said.until_fault()
        assert "OVN Neutron Agent started" in said
        assert run("systemctl", "show", "--property=NRestarts", cloud.agent) == "NRestarts=0"
    cloud.until("tap-f", **FAST)
    cloud.leave("tap-f", port)


@pytest.mark.parametrize("broken", [
    "sdngcc_neutron.ovn_qos", "sdngcc_neutron.ovn_qos:exchange", "sdngcc_neutron.ovn_qos:ShimQosClient._split",
    "sdngcc_neutron.ovn_qos:SetLimitsCommand.__init__",
])
def test_whatever_fails_in_the_server_ports_are_made_and_ovn_limits(cloud, broken):
    with cloud.broken(broken, server=True, mended=False) as said:
        port = cloud.port(cloud.net, "g", qos_policy_id=cloud.slow["id"])
        cloud.plug("tap-g", port)
        cloud.until_wired(port)
        assert cloud.limits() == ["rate=1000"]
        if is_service("neutron-ovn-agent"):
            said.until_fault()
            # The agent reads what OVN has.
            cloud.until("tap-g", **SLOW)
        cloud.leave("tap-g", port)


@has_agent
def test_ports_that_ovn_limited_are_the_shims_once_the_database_is_repaired(cloud):
    with cloud.broken("sdngcc_neutron.ovn_qos", server=True):
        port = cloud.port(cloud.net, "h", qos_policy_id=cloud.fast["id"])
        cloud.plug("tap-h", port)
        cloud.until_wired(port)
    assert cloud.limits() == ["rate=500000"] and cloud.left_to_shim(port) == []
    run("runuser", "--user", "neutron", "--", "neutron-ovn-db-sync-util", "--config-file", NEUTRON / "neutron.conf",
        "--config-file", ML2 / "ml2_conf.ini", "--ovn-neutron_sync_mode", "repair")
    assert cloud.limits() == []
    assert cloud.left_to_shim(port) == ["sdngcc:max_kbps=500000", "sdngcc:min_kbps=200000"]
    cloud.until("tap-h", **FAST)
    cloud.leave("tap-h", port)


@has_agent
def test_a_northbound_database_that_does_not_answer_keeps_no_agent_waiting(cloud):
    cloud.write_agent_settings("sdngcc", ovn_nb_connection=CLOSED)
    said = Tail(cloud, cloud.agent)
    services("restart", cloud.agent)
    try:
        said.until("OVN Neutron Agent started")
        assert f"Waiting for OVN's northbound database at {CLOSED}" in said
    finally:
        cloud.write_agent_settings("sdngcc")
        cloud.start()
