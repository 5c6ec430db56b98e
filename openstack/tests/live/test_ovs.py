# SPDX-License-Identifier: Apache-2.0
"""Debian's neutron-openvswitch-agent with the extension: real server, RabbitMQ, MariaDB and Open vSwitch."""

import os
import time

import pytest

from .cloud import HOST, Cloud, run, wait_for

pytestmark = pytest.mark.skipif("SDNGCC_LIVE" not in os.environ, reason="made by make check-openstack")

FAST = {"min_rate": "200000000", "max_rate": "500000000", "weight": "2"}
SLOW = {"max_rate": "1000000"}


@pytest.fixture(scope="module")
def cloud():
    made = Cloud("openvswitch", drivers="port_security,qos")
    made.net = made.network("net", "10.0.0.0/24")
    made.fast = made.policy("fast", bandwidth_limit={"max_kbps": 500_000}, minimum_bandwidth={"min_kbps": 200_000})
    made.slow = made.policy("slow", bandwidth_limit={"max_kbps": 1000})
    made.start()
    yield made
    made.stop()


def test_a_port_gets_its_network_and_its_keys(cloud):
    port = cloud.port(cloud.net, "a", qos_policy_id=cloud.fast["id"])
    cloud.plug("tap-a", port)
    cloud.until("tap-a", **FAST)
    cloud.until_wired(port)
    assert cloud.tag("tap-a") not in ("[]", "4095")
    assert "TypeError" not in cloud.log(cloud.agent)


def test_policies_change_and_go(cloud):
    own = cloud.policy("own", bandwidth_limit={"max_kbps": 10_000})
    port = cloud.port(cloud.net, "b", qos_policy_id=own["id"])
    cloud.plug("tap-b", port)
    cloud.until("tap-b", max_rate="10000000")
    cloud.call("PUT", own["bandwidth_limit"], {"bandwidth_limit_rule": {"max_kbps": 20_000}})
    cloud.until("tap-b", max_rate="20000000")
    cloud.change(port, qos_policy_id=None)
    cloud.until("tap-b")
    cloud.call("PUT", f"/v2.0/networks/{cloud.net['id']}", {"network": {"qos_policy_id": cloud.slow["id"]}})
    cloud.until("tap-b", **SLOW)
    cloud.call("PUT", f"/v2.0/networks/{cloud.net['id']}", {"network": {"qos_policy_id": None}})
    cloud.until("tap-b")


def test_a_guarantee_in_use_is_changed_by_another_policy_only(cloud):
    port = cloud.port(cloud.net, "c", qos_policy_id=cloud.fast["id"])
    cloud.plug("tap-c", port)
    cloud.until("tap-c", **FAST)
    rule = {"minimum_bandwidth_rule": {"min_kbps": 300_000}}
    for refused in (cloud.refused("PUT", cloud.fast["minimum_bandwidth"], rule),
                    cloud.refused("DELETE", cloud.fast["minimum_bandwidth"])):
        assert refused[0] == 501
        assert "Cannot update QoS policies/rules backed by resources tracked in Placement" in refused[1]
    faster = cloud.policy("faster", bandwidth_limit={"max_kbps": 500_000}, minimum_bandwidth={"min_kbps": 300_000})
    cloud.change(port, qos_policy_id=faster["id"])
    cloud.until("tap-c", **{**FAST, "min_rate": "300000000", "weight": "3"})
    # A network's policy is swapped in the same way.
    cloud.change(port, qos_policy_id=None)
    for policy, keys in ((cloud.fast, FAST), (faster, {**FAST, "min_rate": "300000000", "weight": "3"}), (None, {})):
        cloud.call("PUT", f"/v2.0/networks/{cloud.net['id']}",
                   {"network": {"qos_policy_id": policy and policy["id"]}})
        cloud.until("tap-c", **keys)


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


def test_a_vm_that_migrates_to_this_host_has_its_keys_when_its_binding_is_activated(cloud):
    columns = [f"`{one}`" for one in cloud.sql("SELECT column_name FROM information_schema.columns WHERE table_name = "
                                        "'agents' AND table_schema = 'neutron'").split() if one not in ("id", "host")]
    # The source needs an agent that is alive; a row in the database is one.
    cloud.sql(f"INSERT INTO agents (id, host, {', '.join(columns)}) SELECT UUID(), 'compute-0', {', '.join(columns)} "
              f"FROM agents WHERE host = '{HOST}' LIMIT 1")
    port = cloud.port(cloud.net, "e", qos_policy_id=cloud.fast["id"], **{"binding:host_id": "compute-0"})
    path = f"/v2.0/ports/{port['id']}/bindings"
    cloud.call("POST", path, {"binding": {"host": HOST}})
    cloud.plug("tap-e", port)
    wait_for(lambda: port["id"] in cloud.log(cloud.agent), lambda: "the agent does not see the port")
    assert cloud.shim("tap-e") == {}
    cloud.call("PUT", f"{path}/{HOST}/activate")
    cloud.until("tap-e", **FAST)
    cloud.call("DELETE", f"{path}/compute-0")
    cloud.change(port, **{"binding:host_id": HOST})
    cloud.until_wired(port)
    cloud.until("tap-e", **FAST)


@pytest.mark.parametrize("broken", [
    "sdngcc_neutron.l2_policies", "sdngcc_neutron.l2_qos_driver", "sdngcc_neutron.config:register",
    "sdngcc_neutron.l2_policies:PolicyFollower.initialize", "sdngcc_neutron.l2_policies:PolicyFollower.handle_port",
    "sdngcc_neutron.l2_policies:PolicyFollower.delete_port", "sdngcc_neutron.l2_policies:PolicyFollower._take_policy",
    "sdngcc_neutron.l2_policies:_runs_here", "sdngcc_neutron.interfaces:Interfaces._apply",
    "sdngcc_neutron.l2_qos_driver:ShimQosDriver.update_bandwidth_limit",
])
def test_whatever_fails_ports_are_wired(cloud, broken):
    before = len(cloud.log(cloud.agent))
    with cloud.broken(broken, mended=False):
        own = cloud.policy("own", bandwidth_limit={"max_kbps": 10_000})
        first = cloud.port(cloud.net, "f1", qos_policy_id=own["id"])
        cloud.plug("tap-f1", first)
        cloud.until_wired(first)
        assert cloud.tag("tap-f1") not in ("[]", "4095")
        cloud.call("PUT", own["bandwidth_limit"], {"bandwidth_limit_rule": {"max_kbps": 20_000}})
        cloud.call("DELETE", f"/v2.0/ports/{first['id']}")
        wait_for(lambda: "injected by a test" in cloud.log(cloud.agent)[before:],
                 lambda: cloud.log(cloud.agent)[before:][-3000:])
        # The agent goes on with others.
        second = cloud.port(cloud.net, "f2")
        cloud.plug("tap-f2", second)
        cloud.until_wired(second)
        said = cloud.log(cloud.agent)[before:]
        assert "Agent out of sync with plugin" not in said.split("injected by a test", 1)[1]
        assert "What to do: /usr/share/doc/python3-sdn-gcc-neutron" in said
    cloud.call("DELETE", f"/v2.0/ports/{second['id']}")
    run("ovs-vsctl", "--if-exists", "del-port", "tap-f1", "--", "--if-exists", "del-port", "tap-f2")


def test_beside_neutrons_own_extension_it_does_nothing(cloud):
    cloud.write_agent_settings("qos,sdngcc")
    before = len(cloud.log(cloud.agent))
    cloud.start()
    try:
        port = cloud.port(cloud.net, "g", qos_policy_id=cloud.slow["id"])
        cloud.plug("tap-g", port)
        cloud.until_wired(port)
        assert "sdngcc does nothing until qos is taken out of the list" in cloud.log(cloud.agent)[before:]
        # Neutron's policer, in kbit/s.
        wait_for(lambda: run("ovs-vsctl", "get", "Interface", "tap-g", "ingress_policing_rate") == "1000",
                 lambda: "no policer")
        assert cloud.shim("tap-g") == {}
    finally:
        cloud.write_agent_settings("sdngcc")
        cloud.start()
    cloud.until("tap-g", **SLOW)
    assert run("ovs-vsctl", "get", "Interface", "tap-g", "ingress_policing_rate") == "0"


def test_a_setting_out_of_range_leaves_policies_to_neutron(cloud):
    cloud.write_agent_settings("sdngcc", weight_unit_kbps=-1)
    before = len(cloud.log(cloud.agent))
    cloud.start()
    try:
        port = cloud.port(cloud.net, "h", qos_policy_id=cloud.slow["id"])
        cloud.plug("tap-h", port)
        cloud.until_wired(port)
        wait_for(lambda: run("ovs-vsctl", "get", "Interface", "tap-h", "ingress_policing_rate") == "1000",
                 lambda: "no policer")
        assert "weight_unit_kbps" in cloud.log(cloud.agent)[before:]
    finally:
        cloud.write_agent_settings("sdngcc")
        cloud.start()


def test_the_agents_idle_afterwards(cloud):
    before = len(cloud.log(cloud.agent))
    time.sleep(5)
    assert "out of sync" not in cloud.log(cloud.agent)[before:]
