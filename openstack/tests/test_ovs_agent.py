# SPDX-License-Identifier: Apache-2.0
"""The real neutron-openvswitch-agent with the extension, a real Open vSwitch without devices, and a made-up server."""

import copy
import uuid

import pytest

from .hosts import INSTALLED, TESTS, Process, Switch, Watch, free_port, wait_for, write_settings

pytestmark = [
    pytest.mark.release,
    pytest.mark.xdist_group("neutron"),
    pytest.mark.skipif(not INSTALLED, reason="Open vSwitch is not installed"),
]
HOST = "compute-1"
ANYTHING = "0.0.0.0/0 ::/0"
PROJECT = "00000000-0000-4000-8000-000000000000"  # as ovs_agent.py has it
FAST, SLOW, OWN, FIRST, SECOND = (str(uuid.UUID(int=number)) for number in range(1, 6))
NETWORK, LIMITED_NETWORK = (str(uuid.UUID(int=number)) for number in (11, 12))


def egress(kind, rule=100, **values):
    return {"type": kind, "id": str(uuid.UUID(int=rule)), "direction": "egress", **values}


def limit(kbps, rule=101, direction="egress"):
    return egress("bandwidth_limit", rule, max_kbps=kbps, max_burst_kbps=0) | {"direction": direction}


def guarantee(kbps, rule=102):
    return egress("minimum_bandwidth", rule, min_kbps=kbps)


class Cloud:
    """One compute node, and what its server knows, which is told anew to an agent that starts again."""

    def __init__(self, folder, python, extensions):
        self.folder, self.python, self.extensions = folder, python, extensions
        self.switch = Switch(folder)
        self.switch.add_bridge("br-phys")
        self.settings = {
            "DEFAULT": {"transport_url": "fake://", "host": HOST, "debug": "true", "state_path": folder,
                        "rpc_response_timeout": 120},
            "oslo_concurrency": {"lock_path": folder / "locks"},
            "agent": {"extensions": "sdngcc"},
            "AGENT": {"polling_interval": 1, "root_helper": "", "minimize_polling": "true"},
            "OVS": {"ovsdb_connection": self.switch.remote, "bridge_mappings": "physnet:br-phys",
                    "datapath_type": "netdev", "of_listen_port": free_port(), "of_connect_timeout": 120},
            "SECURITYGROUP": {"firewall_driver": "noop"},
        }
        self.known = {}
        self.numbers = iter(range(1000, 100_000))
        self.agent = None

    def launch(self, name, settings):
        write_settings(self.folder / f"{name}.conf", settings)
        return Process(self.folder, name, self.python, self.extensions, TESTS / "ovs_agent.py", "--config-file",
                       self.folder / f"{name}.conf", "--log-file", self.folder / f"{name}.log")

    def start(self):
        self.agent = self.launch("agent", self.settings)
        for (method, _), values in self.known.items():
            self.agent.call(method, **values)
        self.agent.call("serve")

    def kill(self):
        if self.agent is not None:
            self.agent.kill()
            self.agent = None

    def tell(self, method, **values):
        """Make or change something; a refusal is returned, and changes nothing."""
        refused = self.agent.call(method, **values) if self.agent is not None else None
        if refused is None:
            self.known[method, values["id"]] = copy.deepcopy(values)
        return refused

    def vm(self, name, number=None, network=NETWORK, bridge="br-int", plugged=True, also=(), **values):
        """Make a port, plug it in (see Switch.plug() for bridge and also), and return what the server was told."""
        number = number or next(self.numbers)
        # Neutron names the ports of trunks by the first digits.
        told = {"id": str(uuid.UUID(int=number << 96 | number)), "network_id": network, "host": HOST,
                "mac": f"fa:16:3e:00:00:{number % 256:02x}",
                "addresses": [f"10.0.{number // 256}.{number % 256}"], **values}
        self.tell("port", **told)
        if plugged:
            self.switch.plug(name, told["id"], told["mac"], bridge, also)
        return told

    def change(self, port, **values):
        port.update(values)
        self.tell("port", **port)

    def until(self, name, expected, **more):
        """Wait until an interface has these keys of the shim, addresses and tenant aside unless they are named."""
        expected = {key.replace("_", "-"): value for key, value in (expected | more).items()}

        def reached():
            found = self.switch.shim(name)
            for key in {"addresses", "tenant"} - expected.keys() if found is not None else ():
                found.pop(key, None)
            return found == expected

        wait_for(reached, lambda: f"{name}: {self.switch.shim(name)} instead of {expected}; {self.agent.last_words()}")

    def until_bound(self, port):
        wait_for(lambda: port["id"] in self.agent.call("devices_up"), self.agent.last_words)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    from sdngcc.testbed.neutron import neutron_environment

    folder = tmp_path_factory.mktemp("neutron")
    made = Cloud(folder, *neutron_environment())
    try:
        made.start()
        made.tell("policy", id=FAST, rules=[limit(500_000), guarantee(200_000)])
        made.tell("policy", id=SLOW, rules=[limit(1000)])
        made.tell("network", id=NETWORK)
        made.tell("network", id=LIMITED_NETWORK, qos_policy_id=SLOW)
        yield made
    finally:
        made.kill()
        made.switch.stop()


FAST_KEYS = {"min_rate": "200000000", "max_rate": "500000000", "weight": "2"}
SLOW_KEYS = {"max_rate": "1000000"}


def test_a_policy_becomes_keys_that_the_binding_leaves_alone(cloud):
    port = cloud.vm("tap-a", 0xA, qos_policy_id=FAST,
                    also=["other_config:shim-weight=7", "ingress_policing_rate=4000"])
    cloud.until_bound(port)
    cloud.until("tap-a", FAST_KEYS, addresses="10.0.0.10 fe80::f816:3eff:fe00:a", tenant=PROJECT)
    row = cloud.switch.interfaces()["tap-a"]
    # What the agent does to other_config is why the keys are not there.
    assert row["other_config"] == {}
    # What Neutron's own extension had left is gone, and nothing of the kind is made.
    assert row["ingress_policing_rate"] == 0
    assert cloud.switch.qos_types() == []
    assert row["external_ids"]["iface-id"] == port["id"]


def test_a_policy_changes_while_it_is_in_use(cloud):
    cloud.tell("policy", id=OWN, rules=[limit(10_000)])
    cloud.vm("tap-b1", qos_policy_id=OWN)
    cloud.vm("tap-b2", qos_policy_id=OWN)
    for name in ("tap-b1", "tap-b2"):
        cloud.until(name, {"max_rate": "10000000"})
    cloud.tell("policy", id=OWN, rules=[limit(20_000)])
    for name in ("tap-b1", "tap-b2"):
        cloud.until(name, {"max_rate": "20000000"})
    cloud.tell("policy", id=OWN, rules=[])
    for name in ("tap-b1", "tap-b2"):
        cloud.until(name, {})


def test_a_guarantee_in_use_is_changed_by_another_policy_only(cloud):
    cloud.tell("policy", id=FIRST, rules=[limit(20_000), guarantee(5_000)])
    cloud.tell("policy", id=SECOND, rules=[limit(20_000), guarantee(15_000)])
    port = cloud.vm("tap-b3", qos_policy_id=FIRST)
    cloud.until("tap-b3", {"max_rate": "20000000", "min_rate": "5000000", "weight": "1"})
    for rules in ([limit(20_000), guarantee(15_000)], [limit(20_000)]):
        assert cloud.tell("policy", id=FIRST, rules=rules)[0] == 501
    cloud.change(port, qos_policy_id=SECOND)
    cloud.until("tap-b3", {"max_rate": "20000000", "min_rate": "15000000", "weight": "1"})


def test_a_port_gets_another_policy_and_then_none(cloud):
    port = cloud.vm("tap-c", qos_policy_id=FAST)
    cloud.until("tap-c", FAST_KEYS)
    cloud.change(port, qos_policy_id=SLOW)
    cloud.until("tap-c", SLOW_KEYS)
    cloud.change(port, qos_policy_id=None)
    cloud.until("tap-c", {})


def test_a_network_has_a_policy_for_ports_that_have_none(cloud):
    port = cloud.vm("tap-d", network=LIMITED_NETWORK, vlan=200)
    cloud.until("tap-d", SLOW_KEYS)
    cloud.change(port, qos_policy_id=FAST)
    cloud.until("tap-d", FAST_KEYS)
    cloud.change(port, qos_policy_id=None)
    cloud.until("tap-d", SLOW_KEYS)
    cloud.tell("network", id=LIMITED_NETWORK, qos_policy_id=FAST)
    cloud.until("tap-d", FAST_KEYS)
    cloud.tell("network", id=LIMITED_NETWORK, qos_policy_id=SLOW)
    cloud.until("tap-d", SLOW_KEYS)


def test_addresses_follow_the_port(cloud):
    port = cloud.vm("tap-e", 0x1E, addresses=["10.0.0.30", "2001:db8::30"])
    own = "fe80::f816:3eff:fe00:1e"
    cloud.until("tap-e", {}, addresses=f"10.0.0.30 2001:db8::30 {own}")
    cloud.change(port, pairs=[[port["mac"], "10.9.0.7/24"], ["02:00:00:00:00:01", "10.0.0.200"]])
    cloud.until("tap-e", {}, addresses=f"10.0.0.30 10.0.0.200 10.9.0.0/24 2001:db8::30 fe80::ff:fe00:1 {own}")
    cloud.change(port, pairs=[], security=False)
    cloud.until("tap-e", {}, addresses=ANYTHING)
    cloud.change(port, security=True, addresses=["10.0.0.31"])
    cloud.until("tap-e", {}, addresses=f"10.0.0.31 {own}")


def test_routers_and_dhcp_servers_are_left_alone(cloud):
    cloud.vm("qr-f", owner="network:router_interface", qos_policy_id=FAST)
    cloud.until("qr-f", {"role": "none"})
    cloud.vm("tap-dhcp", owner="network:dhcp", network=LIMITED_NETWORK, vlan=200)
    cloud.until("tap-dhcp", {"role": "none"})


def test_what_the_shim_does_not_do_stays_with_neutron(cloud):
    cloud.tell("policy", id=OWN, rules=[
        limit(3000, direction="egress"), limit(7000, rule=103, direction="ingress"),
        {"type": "dscp_marking", "id": str(uuid.UUID(int=104)), "dscp_mark": 26}])
    port = cloud.vm("tap-g", qos_policy_id=OWN)
    cloud.until("tap-g", {"max_rate": "3000000"})
    # What the VM receives is shaped at its own interface; 26 << 2 is the DSCP mark in the TOS field.
    wait_for(lambda: cloud.switch.vsctl("get", "Port", "tap-g", "qos") != "[]", cloud.agent.last_words)
    wait_for(lambda: "nw_tos=104" in cloud.switch.flows("br-int") or "set_field:26" in cloud.switch.flows("br-int"),
             lambda: cloud.switch.flows("br-int"))
    assert cloud.switch.interfaces()["tap-g"]["ingress_policing_rate"] == 0
    cloud.change(port, qos_policy_id=None)
    wait_for(lambda: cloud.switch.vsctl("get", "Port", "tap-g", "qos") == "[]", cloud.agent.last_words)


def test_a_port_that_goes_takes_its_keys_along(cloud):
    port = cloud.vm("tap-h", qos_policy_id=FAST)
    cloud.until("tap-h", FAST_KEYS)
    cloud.switch.vsctl("del-port", "tap-h")
    wait_for(lambda: port["id"] not in cloud.agent.call("devices_up"), cloud.agent.last_words)
    cloud.switch.plug("tap-h2", port["id"], port["mac"])
    cloud.until("tap-h2", FAST_KEYS)
    cloud.known.pop(("port", port["id"]))
    cloud.agent.call("delete_port", id=port["id"])
    # The VM is still plugged in, on Neutron's dead VLAN.
    wait_for(lambda: cloud.switch.shim("tap-h2") == {}, lambda: str(cloud.switch.shim("tap-h2")))


def test_a_vm_migrates_to_this_host(cloud):
    port = cloud.vm("tap-i", host="compute-0", inactive_host=HOST, qos_policy_id=FAST)
    wait_for(lambda: f"Device {port['id']} has no active binding in host" in cloud.agent.log.read_text(),
             cloud.agent.last_words)
    assert cloud.switch.shim("tap-i") == {}
    # The agent takes the port for one that leaves until Nova has removed the source's binding.
    cloud.change(port, host=HOST, inactive_host="compute-0")
    cloud.until("tap-i", FAST_KEYS)
    cloud.change(port, inactive_host=None)
    cloud.until_bound(port)
    cloud.until("tap-i", FAST_KEYS)


def test_a_vm_migrates_from_this_host(cloud):
    port = cloud.vm("tap-j", qos_policy_id=FAST)
    cloud.until("tap-j", FAST_KEYS)
    cloud.change(port, inactive_host="compute-2")
    cloud.change(port, host="compute-2", inactive_host=HOST)
    wait_for(lambda: "tap-j" not in cloud.switch.interfaces(), cloud.agent.last_words)


class Trunk:
    """A VM whose interface carries a parent port and a subport."""

    def __init__(self, cloud, number, **parent):
        self.cloud, self.name, self.id = cloud, f"tap-t{number}", str(uuid.UUID(int=number << 96))
        bridge = f"tbr-{self.id}"[:14]
        cloud.switch.add_bridge(bridge)
        self.parent = cloud.vm(self.name, number, plugged=False, **parent)
        self.first = cloud.vm("", number + 1, network=LIMITED_NETWORK, plugged=False, vlan=200, owner="trunk:subport",
                              qos_policy_id=FAST)
        self.second = cloud.vm("", number + 2, network=LIMITED_NETWORK, plugged=False, vlan=200, owner="trunk:subport")
        cloud.tell("trunk", id=self.id, port_id=self.parent["id"], subports=[[self.first["id"], 7]])
        cloud.switch.plug(self.name, self.parent["id"], self.parent["mac"], bridge)

    def addresses(self, *ports):
        macs = sorted(int(port["mac"][-2:], 16) for port in ports)
        addresses = sorted((port["addresses"][0] for port in ports), key=lambda one: [int(n) for n in one.split(".")])
        return " ".join([*addresses, *(f"fe80::f816:3eff:fe00:{mac:x}" for mac in macs)])


def test_a_trunk_is_limited_at_the_interface_that_carries_it(cloud):
    trunk = Trunk(cloud, 0x40, qos_policy_id=FAST)
    cloud.until(trunk.name, {"min_rate": "400000000", "max_rate": "1000000000", "weight": "4"},
                addresses=trunk.addresses(trunk.parent, trunk.first))
    # The patch ports between the bridges are no ports of the datapath.
    for name, row in cloud.switch.interfaces().items():
        if row["type"] == "patch":
            assert cloud.switch.shim(name) == {}, name
    cloud.agent.call("subport", trunk_id=trunk.id, port_id=trunk.second["id"], vlan=8)
    cloud.until(trunk.name, {"min_rate": "400000000", "max_rate": "1001000000", "weight": "4"},
                addresses=trunk.addresses(trunk.parent, trunk.first, trunk.second))
    cloud.agent.call("subport", trunk_id=trunk.id, port_id=trunk.first["id"], vlan=7, gone=True)
    cloud.until(trunk.name, {"min_rate": "200000000", "max_rate": "501000000", "weight": "2"},
                addresses=trunk.addresses(trunk.parent, trunk.second))
    cloud.change(trunk.second, qos_policy_id=FAST)
    cloud.until(trunk.name, {"min_rate": "400000000", "max_rate": "1000000000", "weight": "4"},
                addresses=trunk.addresses(trunk.parent, trunk.second))
    cloud.known.pop(("trunk", trunk.id))
    cloud.switch.vsctl("del-port", trunk.name)


def test_keys_survive_a_restart_of_the_agent(cloud):
    port = cloud.vm("tap-k", qos_policy_id=FAST)
    trunk = Trunk(cloud, 0x60)
    cloud.until("tap-k", FAST_KEYS)
    everything = trunk.addresses(trunk.parent, trunk.first)
    cloud.until(trunk.name, {"min_rate": "200000000", "weight": "2"}, addresses=everything)
    cloud.until_bound(port)
    before = [cloud.switch.shim(name) for name in ("tap-k", trunk.name)]
    cloud.kill()
    watches = [Watch(cloud.switch, name) for name in ("tap-k", trunk.name)]
    # What changed while no agent ran is seen by the next one.
    cloud.vm("tap-l", qos_policy_id=SLOW)
    cloud.start()
    cloud.until_bound(port)
    cloud.until_bound(trunk.first)
    cloud.until("tap-l", SLOW_KEYS)
    cloud.until(trunk.name, {"min_rate": "200000000", "weight": "2"}, addresses=everything)
    # A trunk's ports are told one by one: in between it loses no address and gets no lower ceiling.
    for watch, keys in zip(watches, before):
        for seen in watch.stop():
            assert {key[5:]: value for key, value in seen.items() if key.startswith("shim-")} == keys


def test_keys_of_a_port_that_was_deleted_while_no_agent_ran_go(cloud):
    port = cloud.vm("tap-m", qos_policy_id=FAST)
    cloud.until("tap-m", FAST_KEYS)
    cloud.kill()
    cloud.known.pop(("port", port["id"]))
    cloud.start()
    wait_for(lambda: cloud.switch.shim("tap-m") == {}, lambda: str(cloud.switch.shim("tap-m")))


def test_beside_neutrons_own_extension_it_does_nothing(cloud):
    cloud.kill()
    both = cloud.launch("both", {**cloud.settings, "agent": {"extensions": "qos,sdngcc"}})
    try:
        both.call("serve")
        wait_for(lambda: both.log.exists()
                 and "sdngcc does nothing until qos is taken out of the list" in both.log.read_text()
                 and "rpc_loop - iteration:1 started" in both.log.read_text(), both.last_words)
    finally:
        both.kill()
