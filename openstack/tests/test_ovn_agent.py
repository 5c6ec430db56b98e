# SPDX-License-Identifier: Apache-2.0
"""The real neutron-ovn-agent with the extension, beside a real ovn-controller, ovn-northd and Open vSwitch."""

import json
import os
import shutil
import subprocess
import uuid

import pytest

from sdngcc.testbed.programs import data

from .hosts import INSTALLED, PATIENCE_S, QUIET, TESTS, Database, Process, Switch, Watch, wait_for, write_settings

SCHEMAS = data("ovn")
OVN = SCHEMAS.joinpath("ovn-nb.ovsschema").exists() and all(map(shutil.which, ("ovn-controller", "ovn-northd")))

pytestmark = [
    pytest.mark.release,
    pytest.mark.xdist_group("neutron"),
    pytest.mark.skipif(not (INSTALLED and OVN), reason="Open vSwitch or OVN is not installed"),
]
ANYTHING = "0.0.0.0/0 ::/0"
FAST, CEILING, OWN = (str(uuid.UUID(int=number)) for number in (1, 2, 3))
OVERLAY, PROVIDER = (str(uuid.UUID(int=number)) for number in (11, 12))
FAST_KEYS = {"min_rate": "200000000", "max_rate": "500000000", "weight": "2"}
CEILING_KEYS = {"max_rate": "1000000"}


def rule(kind, number, direction="egress", **values):
    return {"type": kind, "id": str(uuid.UUID(int=100 + number)), "direction": direction, **values}


def limit(kbps, direction="egress"):
    return rule("bandwidth_limit", 1 if direction == "egress" else 2, direction, max_kbps=kbps, max_burst_kbps=0)


def guarantee(kbps):
    return rule("minimum_bandwidth", 3, min_kbps=kbps)


class Cloud:
    """One compute node of an OVN cloud; driver: whether the server has our extension driver."""

    def __init__(self, folder, python, extensions, driver):
        self.folder, self.python, self.extensions = folder, python, extensions
        self.switch = Switch(folder)
        self.north = Database(folder, "north", SCHEMAS / "ovn-nb.ovsschema")
        self.south = Database(folder, "south", SCHEMAS / "ovn-sb.ovsschema")
        switch, north, south = self.switch, self.north, self.south
        switch.add_bridge("br-phys")
        switch.vsctl("add-port", "br-phys", "eth-phys")
        switch.vsctl("set", "Open_vSwitch", ".", "external_ids:system-id=chassis-1", "external_ids:hostname=compute-1",
                     f'external_ids:ovn-remote="{south.remote}"', "external_ids:ovn-encap-type=geneve",
                     "external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge-mappings=physnet:br-phys",
                     "external_ids:ovn-bridge-datapath-type=netdev")
        self.environment = {**os.environ, "OVS_RUNDIR": str(folder), "OVN_RUNDIR": str(folder)}
        # With --monitor, as ovn-ctl runs it: ovn-controller 23.03 sometimes dies by a signal when all begins at once.
        self.ovn = {
            name: subprocess.Popen([name, *words, *QUIET, "--pidfile", "--monitor", f"--log-file={folder}/{name}.log"],
                                   env=self.environment)
            for name, words in (("ovn-northd", [f"--ovnnb-db={north.remote}", f"--ovnsb-db={south.remote}"]),
                                ("ovn-controller", [switch.remote]))}
        wait_for(lambda: "chassis-1" in self.ctl("sbctl", south, "--bare", "--columns=name", "list", "Chassis_Private"),
                 lambda: (folder / "ovn-controller.log").read_text()[-2000:])
        self.server = Process(folder, "server", python, extensions, TESTS / "ovn_server.py", north.remote,
                              *(["sdngcc"] if driver else []))
        write_settings(folder / "agent.conf", {
            "DEFAULT": {"host": "compute-1", "debug": "true", "state_path": folder},
            "oslo_concurrency": {"lock_path": folder / "locks"},
            "agent": {"extensions": "sdngcc"},
            "AGENT": {"root_helper": ""},
            "ovs": {"ovsdb_connection": switch.remote},
            "ovn": {"ovn_nb_connection": north.remote, "ovn_sb_connection": south.remote},
        })
        self.agent = None
        self.numbers = iter(range(1000, 100_000))

    def start(self):
        """Start the agent."""
        self.agent = Process(self.folder, "agent", self.python, self.extensions,
                             self.python.parent / "neutron-ovn-agent", "--config-file", self.folder / "agent.conf",
                             "--log-file", self.folder / "agent.log")

    def ctl(self, program, database, *words):
        done = subprocess.run([f"ovn-{program}", f"--db={database.remote}", *words], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def control(self, daemon, *words):
        subprocess.run(["ovn-appctl", "-t", daemon, *words], check=True, env=self.environment, timeout=PATIENCE_S)

    def vm(self, name, number=None, network=OVERLAY, plugged=True, **values):
        """Make a port, plug it in, and return what the server was told."""
        number = number or next(self.numbers)
        told = {"id": str(uuid.UUID(int=number)), "network_id": network, "mac": f"fa:16:3e:00:00:{number % 256:02x}",
                "addresses": [f"10.0.{number // 256}.{number % 256}"], **values}
        self.server.call("port", **told)
        if plugged:
            self.switch.plug(name, told["id"], told["mac"])
        return told

    def change(self, port, **values):
        port.update(values)
        self.server.call("port", **port)

    def until(self, name, expected, **more):
        """Wait until an interface has these keys of the shim, addresses and tenant aside unless they are named."""
        expected = {key.replace("_", "-"): value for key, value in (expected | more).items()}

        def reached():
            found = self.switch.shim(name)
            for key in {"addresses", "tenant"} - expected.keys() if found is not None else ():
                found.pop(key, None)
            return found == expected

        wait_for(reached, lambda: f"{name}: {self.switch.shim(name)} instead of {expected}; {self.agent.last_words()}")

    def until_installed(self, name):
        """Wait until ovn-controller has installed the flows of a port."""
        wait_for(lambda: self.switch.interfaces()[name]["external_ids"].get("ovn-installed") == "true",
                 lambda: (self.folder / "ovn-controller.log").read_text()[-2000:])

    def meters(self):
        """Return the meters of br-int."""
        done = subprocess.run(["ovs-ofctl", "-OOpenFlow15", "dump-meters", f"unix:{self.folder}/br-int.mgmt"],
                              check=True, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout.count("meter=")

    def has_queues(self):
        """Tell whether ovn-controller is to make HTB queues; there is no device here that could have any."""
        return "qos_min_rate" in self.ctl("sbctl", self.south, "--columns=options", "list", "Port_Binding")

    def settled(self):
        """Wait until ovn-controller has done what the northbound database says."""
        self.ctl("nbctl", self.north, "--wait=hv", f"--timeout={PATIENCE_S:.0f}", "sync")

    def stop(self):
        for process in (self.agent, self.server):
            if process is not None:
                process.kill()
        for name, process in self.ovn.items():
            self.control(name, "exit")
            process.wait(PATIENCE_S)
        self.switch.stop()
        self.north.stop()
        self.south.stop()


def cloud_fixture(driver):
    """Return a fixture that makes a cloud for all tests of the module."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory):
        from sdngcc.testbed.neutron import neutron_environment

        folder = tmp_path_factory.mktemp("ovn")
        cloud = Cloud(folder, *neutron_environment(), driver)
        try:
            cloud.server.call("network", id=OVERLAY, kind="geneve")
            cloud.server.call("network", id=PROVIDER, kind="vlan")
            cloud.server.call("policy", id=FAST, rules=[limit(500_000), guarantee(200_000)])
            cloud.server.call("policy", id=CEILING, rules=[limit(1000)])
            cloud.start()
            yield cloud
        finally:
            cloud.stop()

    return made


cloud = cloud_fixture(driver=True)
plain = cloud_fixture(driver=False)


def test_with_the_servers_part_a_policy_is_the_shims_alone(cloud):
    cloud.vm("tap-a", 0xA, qos_policy_id=FAST)
    cloud.vm("tap-p", 0xB, network=PROVIDER, qos_policy_id=FAST)
    cloud.until("tap-a", FAST_KEYS, addresses="10.0.0.10 fe80::f816:3eff:fe00:a",
                tenant="00000000000040008000000000000000")
    cloud.until("tap-p", FAST_KEYS, addresses="10.0.0.11 fe80::f816:3eff:fe00:b")
    for name in ("tap-a", "tap-p"):
        cloud.until_installed(name)
    cloud.settled()
    assert cloud.ctl("nbctl", cloud.north, "--bare", "--columns=bandwidth", "list", "QoS").strip() == ""
    assert cloud.meters() == 0
    assert not cloud.has_queues()


def test_a_policy_changes_while_it_is_in_use(cloud):
    cloud.server.call("policy", id=OWN, rules=[limit(10_000)])
    port = cloud.vm("tap-c", qos_policy_id=OWN)
    cloud.until("tap-c", {"max_rate": "10000000"})
    cloud.server.call("policy", id=OWN, rules=[limit(20_000)])
    cloud.until("tap-c", {"max_rate": "20000000"})
    assert cloud.server.call("policy", id=OWN, rules=[limit(20_000), guarantee(5_000)])[0] == 501
    cloud.change(port, qos_policy_id=FAST)
    cloud.until("tap-c", FAST_KEYS)
    cloud.change(port, addresses=["10.0.9.9"])
    cloud.until("tap-c", FAST_KEYS, addresses=f"10.0.9.9 fe80::f816:3eff:fe00:{int(port['mac'][-2:], 16):x}")
    cloud.change(port, qos_policy_id=None)
    cloud.until("tap-c", {})


def test_what_the_shim_does_not_do_stays_with_ovn(cloud):
    cloud.server.call("policy", id=OWN, rules=[
        limit(3000), limit(7000, "ingress"), {"type": "dscp_marking", "id": str(uuid.UUID(int=104)), "dscp_mark": 26}])
    port = cloud.vm("tap-d", qos_policy_id=OWN)
    cloud.until("tap-d", {"max_rate": "3000000"})
    rows = json.loads(cloud.ctl("nbctl", cloud.north, "--format=json", "--columns=direction,bandwidth,action", "list",
                                "QoS"))["data"]
    assert sorted((row[0], dict(row[1][1]), dict(row[2][1])) for row in rows) == [
        ("from-lport", {}, {"dscp": 26}), ("to-lport", {"rate": 7000}, {})]
    cloud.until_installed("tap-d")
    wait_for(lambda: cloud.meters() == 1, lambda: f"{cloud.meters()} meters")
    cloud.change(port, qos_policy_id=None)
    cloud.until("tap-d", {})
    cloud.settled()
    wait_for(lambda: cloud.meters() == 0, lambda: f"{cloud.meters()} meters")


def test_addresses_follow_the_port(cloud):
    port = cloud.vm("tap-e", 0x1E, addresses=["10.0.0.30", "2001:db8::30"])
    own = "fe80::f816:3eff:fe00:1e"
    cloud.until("tap-e", {}, addresses=f"10.0.0.30 2001:db8::30 {own}")
    cloud.change(port, pairs=[[port["mac"], "10.9.0.7/24"], ["02:00:00:00:00:01", "10.0.0.200"]])
    cloud.until("tap-e", {}, addresses=f"10.0.0.30 10.0.0.200 10.9.0.0/24 2001:db8::30 fe80::ff:fe00:1 {own}")
    cloud.change(port, pairs=[], security=False)
    cloud.until("tap-e", {}, addresses=ANYTHING)


def test_a_port_that_changes_at_the_same_time_as_its_policy_has_the_new_one(cloud):
    """Neutron's client writes all external_ids of a logical port as they were when it read them."""
    cloud.server.call("policy", id=OWN, rules=[limit(10_000)])
    port = cloud.vm("tap-l", qos_policy_id=OWN)
    cloud.until("tap-l", {"max_rate": "10000000"})
    for rules, keys in (([limit(20_000)], {"max_rate": "20000000"}), ([], {}),
                        ([limit(30_000)], {"max_rate": "30000000"})):
        cloud.change(port, meanwhile=[OWN, rules])
        text = cloud.ctl("nbctl", cloud.north, "get", "Logical_Switch_Port", port["id"], "external_ids")
        assert ("sdngcc:max_kbps" in text) is bool(keys)
        cloud.until("tap-l", keys)
    # And when the port gets another policy in the same transaction.
    cloud.change(port, qos_policy_id=FAST, meanwhile=[OWN, []])
    cloud.until("tap-l", FAST_KEYS)
    cloud.change(port, qos_policy_id=None, meanwhile=[OWN, [limit(10_000)]])
    cloud.until("tap-l", {})


def test_metadata_ports_are_left_alone(cloud):
    cloud.vm("tap-meta", owner="network:distributed", qos_policy_id=FAST)
    cloud.until("tap-meta", {"role": "none"})


def test_a_trunks_subports_share_the_interface_of_the_parent(cloud):
    parent = cloud.vm("tap-f", 0x40, qos_policy_id=FAST)
    subport = cloud.vm("", 0x41, plugged=False, parent=parent["id"], tag=7, owner="trunk:subport", qos_policy_id=FAST)
    both = "10.0.0.64 10.0.0.65 fe80::f816:3eff:fe00:40 fe80::f816:3eff:fe00:41"
    doubled = {"min_rate": "400000000", "max_rate": "1000000000", "weight": "4"}
    cloud.until("tap-f", doubled, addresses=both)
    cloud.switch.vsctl("del-port", "tap-f")
    cloud.switch.plug("tap-f2", parent["id"], parent["mac"])
    cloud.until("tap-f2", doubled, addresses=both)
    # An agent that starts finds the subport by its parent; in between the interface keeps what it has.
    cloud.agent.kill()
    watch = Watch(cloud.switch, "tap-f2")
    cloud.vm("tap-f3", qos_policy_id=FAST)
    cloud.start()
    cloud.until("tap-f3", FAST_KEYS)
    keys = {f"shim-{key}" for key in ("addresses", "max-rate", "min-rate", "weight", "tenant")}
    assert [{key: row.get(key) for key in keys} for row in watch.stop()] == [
        {key: watch.seen[0][key] for key in keys}] * len(watch.seen)
    cloud.change(subport, qos_policy_id=None)
    cloud.until("tap-f2", {"min_rate": "200000000", "weight": "2"}, addresses=both)
    cloud.server.call("delete_port", id=subport["id"])
    cloud.until("tap-f2", FAST_KEYS, addresses="10.0.0.64 fe80::f816:3eff:fe00:40")


def test_ports_go(cloud):
    port = cloud.vm("tap-g", qos_policy_id=FAST)
    cloud.until("tap-g", FAST_KEYS)
    cloud.server.call("delete_port", id=port["id"])
    wait_for(lambda: cloud.switch.shim("tap-g") == {}, lambda: str(cloud.switch.shim("tap-g")))
    # An interface that stops being a port's, as when a VM leaves, has no keys left.
    other = cloud.vm("tap-h", qos_policy_id=FAST)
    cloud.until("tap-h", FAST_KEYS)
    cloud.switch.vsctl("remove", "Interface", "tap-h", "external_ids", "iface-id")
    wait_for(lambda: cloud.switch.shim("tap-h") == {}, lambda: str(cloud.switch.shim("tap-h")))
    cloud.switch.vsctl("set", "Interface", "tap-h", f"external_ids:iface-id={other['id']}")
    cloud.until("tap-h", FAST_KEYS)


def test_keys_of_a_port_that_was_deleted_while_no_agent_ran_go(cloud):
    port = cloud.vm("tap-k", qos_policy_id=FAST)
    cloud.until("tap-k", FAST_KEYS)
    cloud.agent.kill()
    cloud.server.call("delete_port", id=port["id"])
    cloud.start()
    wait_for(lambda: cloud.switch.shim("tap-k") == {}, lambda: str(cloud.switch.shim("tap-k")))


def test_keys_that_somebody_takes_away_come_back(cloud):
    cloud.vm("tap-i", qos_policy_id=FAST)
    cloud.until("tap-i", FAST_KEYS)
    cloud.switch.vsctl("remove", "Interface", "tap-i", "external_ids", "shim-max-rate")
    cloud.until("tap-i", FAST_KEYS)


def test_keys_survive_a_restart_of_agent_and_ovn_controller(cloud):
    port = cloud.vm("tap-j", qos_policy_id=FAST)
    cloud.until("tap-j", FAST_KEYS)
    before = cloud.switch.shim("tap-j")
    cloud.until_installed("tap-j")
    cloud.agent.kill()
    cloud.control("ovn-controller", "recompute")
    cloud.settled()
    assert cloud.switch.shim("tap-j") == before
    # What changed while no agent ran is seen by the next one.
    cloud.change(port, qos_policy_id=CEILING)
    cloud.start()
    cloud.until("tap-j", CEILING_KEYS)


def test_without_the_servers_part_the_keys_are_there_and_so_is_the_meter(plain):
    plain.vm("tap-a", qos_policy_id=CEILING)
    plain.until("tap-a", CEILING_KEYS)
    plain.until_installed("tap-a")
    wait_for(lambda: plain.meters() == 1, lambda: f"{plain.meters()} meters")
    # On a provider network a guarantee stands in options of the port, from which OVN makes HTB.
    plain.vm("tap-p", network=PROVIDER, qos_policy_id=FAST)
    plain.until("tap-p", FAST_KEYS)
    wait_for(plain.has_queues, lambda: "no queue")
    # On an overlay the northbound database does not tell of guarantees.
    plain.vm("tap-o", qos_policy_id=FAST)
    plain.until("tap-o", {"max_rate": "500000000"})


def test_the_servers_part_takes_meters_away_when_the_database_is_repaired(plain):
    plain.vm("tap-b", qos_policy_id=FAST)
    plain.until("tap-b", {"max_rate": "500000000"})
    wait_for(lambda: plain.meters() > 0, lambda: "no meter")
    ports = plain.server
    later = Process(plain.folder, "later", plain.python, plain.extensions, TESTS / "ovn_server.py", plain.north.remote,
                    "sdngcc")
    try:
        later.call("policy", id=FAST, rules=[limit(500_000), guarantee(200_000)])
        later.call("policy", id=CEILING, rules=[limit(1000)])
        later.call("take", **ports.call("give"))
        later.call("repair")
    finally:
        later.kill()
    plain.until("tap-b", FAST_KEYS)
    plain.settled()
    wait_for(lambda: plain.meters() == 0, lambda: f"{plain.meters()} meters")
    assert not plain.has_queues()
