# SPDX-License-Identifier: Apache-2.0
"""Debian's neutron-openvswitch-agent with the extension: real server, RabbitMQ, MariaDB and Open vSwitch."""

import contextlib
import os
import time

import pytest

from . import policies
from .cloud import FAST, HOST, SLOW, Cloud, Tail, run, wait_for

pytestmark = pytest.mark.skipif("SDNGCC_LIVE" not in os.environ, reason="made by make check-openstack")


@pytest.fixture(scope="module")
def cloud():
    made = Cloud("openvswitch", drivers="port_security,qos")
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


class TestPolicies(policies.Policies):
    """What holds with both mechanisms."""


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
    with cloud.broken(broken, mended=False) as said:
        own = cloud.policy("own", bandwidth_limit={"max_kbps": 10_000})
        first = cloud.port(cloud.net, "f1", qos_policy_id=own["id"])
        cloud.plug("tap-f1", first)
        cloud.until_wired(first)
        assert cloud.tag("tap-f1") not in ("[]", "4095")
        cloud.call("PUT", own["bandwidth_limit"], {"bandwidth_limit_rule": {"max_kbps": 20_000}})
        cloud.call("DELETE", f"/v2.0/ports/{first['id']}")
        said.until_fault()
        # The agent goes on with others.
        second = cloud.port(cloud.net, "f2")
        cloud.plug("tap-f2", second)
        cloud.until_wired(second)
        assert "Agent out of sync with plugin" not in str(said).split("injected by a test", 1)[1]
    cloud.call("DELETE", f"/v2.0/ports/{second['id']}")
    run("ovs-vsctl", "--if-exists", "del-port", "tap-f1", "--", "--if-exists", "del-port", "tap-f2")


@contextlib.contextmanager
def left_to_neutron(cloud, name, extensions, **settings):
    """Start the agent with settings by which Neutron's policer limits a new port; yield what is logged meanwhile."""
    cloud.write_agent_settings(extensions, **settings)
    said = Tail(cloud, cloud.agent)
    cloud.start()
    try:
        port = cloud.port(cloud.net, name, qos_policy_id=cloud.slow["id"])
        cloud.plug(f"tap-{name}", port)
        cloud.until_wired(port)
        wait_for(lambda: policer(f"tap-{name}") == "1000", lambda: "no policer")
        yield said
    finally:
        cloud.write_agent_settings("sdngcc")
        cloud.start()


def policer(tap):
    """Return what Neutron's policer lets pass, in kbit/s; "0": there is none."""
    return run("ovs-vsctl", "get", "Interface", tap, "ingress_policing_rate")


def test_beside_neutrons_own_extension_it_does_nothing(cloud):
    with left_to_neutron(cloud, "g", "qos,sdngcc") as said:
        assert "sdngcc does nothing until qos is taken out of the list" in said
        assert cloud.shim("tap-g") == {}
    cloud.until("tap-g", **SLOW)
    assert policer("tap-g") == "0"


def test_a_setting_out_of_range_leaves_policies_to_neutron(cloud):
    with left_to_neutron(cloud, "h", "sdngcc", weight_unit_kbps=-1) as said:
        assert "weight_unit_kbps" in said


def test_the_agents_idle_afterwards(cloud):
    said = Tail(cloud, cloud.agent)
    time.sleep(5)
    assert "out of sync" not in said
