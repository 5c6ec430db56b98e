# SPDX-License-Identifier: Apache-2.0
"""A cloud of one node on this Debian: Neutron, RabbitMQ, MariaDB, Open vSwitch and OVN, as services."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

from . import faults

HOST = "compute-1"
PROJECT = "0123456789abcdef0123456789abcdef"
URL = "http://127.0.0.1:9696"
PATIENCE_S = 120
NEUTRON = pathlib.Path("/etc/neutron")
LOGS = pathlib.Path("/var/log/neutron")
ML2 = NEUTRON / "plugins/ml2"
OVN = ("ovn-host", "ovn-controller", "ovn-central", "ovn-northd", "ovn-ovsdb-server-nb", "ovn-ovsdb-server-sb")
SERVERS = ("neutron-api", "neutron-rpc-server", "neutron-ovn-maintenance-worker", "neutron-periodic-workers")
WHOLE_SERVER = "neutron-server"
PYTHON = os.environ.get("SDNGCC_LIVE", "")
"""The interpreter that Neutron runs with."""
NORTH, SOUTH = "tcp:127.0.0.1:6641", "tcp:127.0.0.1:6642"

# What interfaces have by the two policies that every cloud has, addresses and tenant aside.
FAST = {"min_rate": "200000000", "max_rate": "500000000", "weight": "2"}
SLOW = {"max_rate": "1000000"}


def run(*words, check=True):
    """Run a command and return what it wrote."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 or not check, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.strip()


def wait_for(condition, what):
    """Return what a condition gives once it is true; fail with what() when patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def is_service(name):
    """Tell whether this Debian has a service."""
    return pathlib.Path(f"/lib/systemd/system/{name}.service").exists()


def write(path, settings):
    """Write a file of settings: options by group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line for group, options in settings.items() for line in (
        f"[{group}]", *(f"{name} = {value}" for name, value in options.items()))) + "\n")
    path.chmod(0o644)


def services(verb, *names):
    """Start, stop or restart services; what systemd cannot start at once it can a moment later."""
    for last in (False, False, True):
        done = subprocess.run(["systemctl", verb, *names], capture_output=True, text=True, timeout=2 * PATIENCE_S)
        if done.returncode == 0:
            return
        assert not last, done.stderr
        time.sleep(2)


class Tail:
    """What a service writes to its log from now on."""

    def __init__(self, cloud, service):
        self._cloud, self._service = cloud, service
        self._began = len(cloud.log(service))

    def __str__(self):
        return self._cloud.log(self._service)[self._began:]

    def __repr__(self):
        return str(self)[-3000:]

    def __contains__(self, text):
        return text in str(self)

    def until(self, text):
        """Wait until a text is there."""
        wait_for(lambda: text in self, lambda: f"no {text!r}: {self!r}")

    def until_fault(self):
        """Wait until a fault of a test is reported, with what to do."""
        self.until("injected by a test")
        assert "What to do: /usr/share/doc/python3-sdn-gcc-neutron" in self


class Cloud:
    """The cloud; mechanism: of ML2, "openvswitch" or "ovn"."""

    def __init__(self, mechanism, extensions="sdngcc", drivers="port_security,qos,sdngcc"):
        self.mechanism = mechanism
        self.agent = {"openvswitch": "neutron-openvswitch-agent", "ovn": "neutron-ovn-agent"}[mechanism]
        self.servers = [name for name in SERVERS if is_service(name)]
        if mechanism == "ovn" and not is_service(self.agent):
            self.servers = [self._whole_server()]
        self.api = self.servers[0]
        self.break_nothing()
        self.stop()
        self._write_settings(drivers)
        self.write_agent_settings(extensions)
        self._make_bridges()
        self._make_database()
        self.start_server()
        self.net = self.network("net", "10.0.0.0/24")
        self.fast = self.policy("fast", bandwidth_limit={"max_kbps": 500_000}, minimum_bandwidth={"min_kbps": 200_000})
        self.slow = self.policy("slow", bandwidth_limit={"max_kbps": 1000})

    def _whole_server(self):
        """Make a service of neutron-server: Neutron 21's ML2/OVN does not answer below uwsgi."""
        pathlib.Path(f"/etc/systemd/system/{WHOLE_SERVER}.service").write_text(
            f"[Service]\nUser=neutron\nTimeoutStopSec=5\nExecStart=/usr/bin/{WHOLE_SERVER} "
            f"--config-file {NEUTRON}/neutron.conf --config-file {ML2}/ml2_conf.ini "
            f"--log-file {LOGS}/{WHOLE_SERVER}.log\n")
        run("systemctl", "daemon-reload")
        return WHOLE_SERVER

    def _write_settings(self, drivers):
        write(NEUTRON / "neutron.conf", {
            "DEFAULT": {"auth_strategy": "noauth", "core_plugin": "ml2",
                        # ML2/OVN asks for routers' addresses when a network's policy changes.
                        "service_plugins": "qos,trunk,ovn-router" if self.mechanism == "ovn" else "qos,trunk",
                        "transport_url": "rabbit://neutron:neutron@127.0.0.1:5672/", "host": HOST, "debug": "true",
                        "api_workers": 1, "rpc_workers": 1, "notify_nova_on_port_status_changes": "false",
                        "notify_nova_on_port_data_changes": "false", "dhcp_agent_notification": "false",
                        "agent_down_time": 100_000, "report_interval": 5},
            "agent": {"root_helper": "sudo neutron-rootwrap /etc/neutron/rootwrap.conf"},
            "database": {"connection": "mysql+pymysql://neutron:neutron@127.0.0.1/neutron"},
            "oslo_concurrency": {"lock_path": "/var/lock/neutron"},
            "oslo_policy": {"policy_file": NEUTRON / "policy.yaml"},
        })
        # What is Nova's to ask, with Keystone's role "service": there is no Keystone here.
        rules = ("get_port_binding", "create_port_binding", "delete_port_binding", "activate")
        (NEUTRON / "policy.yaml").write_text("".join(f'"{name}": ""\n' for name in rules))
        write(ML2 / "ml2_conf.ini", {
            "ml2": {"type_drivers": "flat,vlan,geneve", "mechanism_drivers": self.mechanism,
                    "tenant_network_types": "geneve" if self.mechanism == "ovn" else "vlan",
                    "extension_drivers": drivers},
            "ml2_type_vlan": {"network_vlan_ranges": "physnet:100:199"},
            "ml2_type_geneve": {"vni_ranges": "1:1000", "max_header_size": 38},
            "ovn": {"ovn_nb_connection": NORTH, "ovn_sb_connection": SOUTH,
                    # Ten seconds after it has started this server writes what ports had then, deleted ones too.
                    **({"neutron_sync_mode": "off"} if self.api == WHOLE_SERVER else {})},
        })
        # Debian 12's API tells agents what changed in a green thread, which only uwsgi's first thread drives.
        uwsgi = NEUTRON / "neutron-api-uwsgi.ini"
        uwsgi.write_text(re.sub("(?m)^processes = .*", "processes = 1", re.sub(
            "(?m)^threads = .*", "threads = 1", uwsgi.read_text())))

    def write_agent_settings(self, extensions, **more):
        """Write what the agent reads; more: options of group sdngcc, or by name of their group."""
        if self.mechanism == "ovn":
            # Debian's service of the OVN agent reads the file of the other one.
            write(ML2 / "openvswitch_agent.ini", {
                "agent": {"extensions": extensions}, "ovs": {"ovsdb_connection": "unix:/run/openvswitch/db.sock"},
                "ovn": {"ovn_nb_connection": NORTH, "ovn_sb_connection": SOUTH, **more}})
        else:
            write(ML2 / "openvswitch_agent.ini", {
                "ovs": {"bridge_mappings": "physnet:br-phys", "datapath_type": "netdev"},
                "agent": {"extensions": extensions, "polling_interval": 1},
                "securitygroup": {"firewall_driver": "noop"},
                "sdngcc": more})

    def _make_bridges(self):
        for bridge in run("ovs-vsctl", "list-br").split():
            run("ovs-vsctl", "del-br", bridge)
        for bridge in ("br-int", "br-phys"):
            run("ovs-vsctl", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev",
                "fail_mode=secure")
        if self.mechanism != "ovn":
            return
        for path in pathlib.Path("/var/lib/ovn").glob("*.db"):
            path.unlink()
        services("start", "ovn-central")
        for name in ("nb", "sb"):
            wait_for(pathlib.Path(f"/run/ovn/ovn{name}_db.sock").exists, lambda: "no ovsdb-server for OVN")
        for program, remote in (("ovn-nbctl", NORTH), ("ovn-sbctl", SOUTH)):
            run(program, "--timeout=60", "set-connection", f"ptcp:{remote.split(':')[2]}:127.0.0.1")
        run("ovs-vsctl", "set", "Open_vSwitch", ".", f"external_ids:hostname={HOST}",
            f'external_ids:ovn-remote="{SOUTH}"', "external_ids:ovn-encap-type=geneve",
            "external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge-mappings=physnet:br-phys",
            "external_ids:ovn-bridge-datapath-type=netdev", "external_ids:ovn-cms-options=enable-chassis-as-gw")
        # The agent runs as user neutron.
        os.chmod("/run/openvswitch/db.sock", 0o777)
        services("start", "ovn-host")
        wait_for(lambda: HOST in run("ovn-sbctl", "--bare", "--columns=hostname", "list", "Chassis", check=False),
                 lambda: "no chassis")

    def _make_database(self):
        run("rabbitmqctl", "add_user", "neutron", "neutron", check=False)
        run("rabbitmqctl", "set_permissions", "neutron", ".*", ".*", ".*")
        run("mysql", "-e", "DROP DATABASE IF EXISTS neutron; CREATE DATABASE neutron; "
            "GRANT ALL ON neutron.* TO neutron@localhost IDENTIFIED BY 'neutron'; "
            "GRANT ALL ON neutron.* TO neutron@'127.0.0.1' IDENTIFIED BY 'neutron'")
        # What neutron-db-manage makes in minutes, by hundreds of steps.
        run(PYTHON, "-c", "import sqlalchemy; from neutron.db.migration.models import head; "
            "head.get_metadata().create_all(sqlalchemy.create_engine("
            "'mysql+pymysql://neutron:neutron@127.0.0.1/neutron'))")

    def sql(self, statement):
        """Run a statement in Neutron's database."""
        return run("mysql", "-N", "neutron", "-e", statement)

    def start_server(self):
        """Start the server, and wait until it answers."""
        services("restart", *self.servers)
        wait_for(self._answers, lambda: self.log(self.api)[-3000:] + run("systemctl", "status", self.api, check=False))

    def _answers(self):
        try:
            return self.call("GET", "/v2.0/networks")
        except OSError:
            return False

    def start(self):
        """Start the agent, and wait until it follows what the server says."""
        said = Tail(self, self.agent)
        services("restart", self.agent)
        ready = {"openvswitch": "rpc_loop - iteration:1 started", "ovn": "OVN Neutron Agent started"}
        said.until(ready[self.mechanism])
        wait_for(self.alive, lambda: f"{self.agent} is not alive")

    def alive(self):
        """Tell whether the server takes an agent of the mechanism's kind on this host for alive."""
        kinds = {"openvswitch": ("Open vSwitch agent",),
                 "ovn": ("OVN Controller agent", "OVN Controller Gateway agent")}
        return [one for one in self.call("GET", "/v2.0/agents")["agents"]
                if one["host"] == HOST and one["agent_type"] in kinds[self.mechanism] and one["alive"]]

    def stop_agent(self):
        """Stop the agent."""
        services("stop", self.agent)

    def stop(self):
        """Stop all of Neutron and OVN."""
        agents = [name for name in ("neutron-openvswitch-agent", "neutron-ovn-agent") if is_service(name)]
        services("stop", *agents, *filter(is_service, SERVERS), *filter(is_service, OVN))
        run("systemctl", "stop", WHOLE_SERVER, check=False)
        run("systemctl", "reset-failed", check=False)

    def log(self, service):
        """Return what a service has written to its log."""
        path = LOGS / f"{service}.log"
        return path.read_text(errors="replace") if path.exists() else run("journalctl", "-u", service, check=False)

    # What fails.

    @contextlib.contextmanager
    def broken(self, *names, server=False, mended=True):
        """Have functions of the extensions raise in the agent, or the server, which is started anew; see faults.

        mended: start it once more without faults at the end. Yields what is logged meanwhile.
        """
        said = Tail(self, self.api if server else self.agent)
        faults.FAULTS.write_text("\n".join(names))
        try:
            self.start_server() if server else self.start()
            yield said
        finally:
            self.break_nothing()
            if mended:
                self.start_server() if server else self.start()

    def break_nothing(self):
        """Have nothing raise in what is started from now on."""
        faults.FAULTS.unlink(missing_ok=True)
        site = pathlib.Path(run(PYTHON, "-c", "import neutron; print(neutron.__path__[0])")).parent
        shutil.copy(faults.__file__, site / "sdngcc_faults.py")
        site.joinpath("sdngcc_faults.pth").write_text("import sdngcc_faults; sdngcc_faults.install()\n")

    # Neutron's API.

    def call(self, method, path, body=None):
        """Ask Neutron; raises HTTPError."""
        request = urllib.request.Request(URL + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read() or b"{}")

    def refused(self, method, path, body=None):
        """Return the status and text of Neutron's refusal."""
        try:
            self.call(method, path, body)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        raise AssertionError(f"{method} {path} is not refused")

    def make(self, kind, path=None, **values):
        """Make something of Neutron's."""
        return self.call("POST", path or f"/v2.0/{kind}s", {kind: {"project_id": PROJECT, **values}})[kind]

    def network(self, name, cidr, **more):
        """Make a network with a subnet."""
        made = self.make("network", name=name, **more)
        self.make("subnet", network_id=made["id"], cidr=cidr, ip_version=4, enable_dhcp=False)
        return made

    def policy(self, name, **rules):
        """Make a policy of rules by type; each is named by its type in what is returned."""
        made = self.make("policy", "/v2.0/qos/policies", name=name)
        for kind, values in rules.items():
            rule = self.call("POST", f"/v2.0/qos/policies/{made['id']}/{kind}_rules", {f"{kind}_rule": values})
            made[kind] = f"/v2.0/qos/policies/{made['id']}/{kind}_rules/{rule[f'{kind}_rule']['id']}"
        return made

    def port(self, network, name, **more):
        """Make a VM's port of this host."""
        return self.make("port", network_id=network["id"], name=name, device_owner="compute:nova", device_id=name,
                         **{"binding:host_id": HOST, **more})

    def change(self, port, **values):
        """Change a port."""
        return self.call("PUT", f"/v2.0/ports/{port['id']}", {"port": values})["port"]

    def change_network(self, **values):
        """Change the network that the cloud begins with."""
        self.call("PUT", f"/v2.0/networks/{self.net['id']}", {"network": values})

    def leave(self, tap, port):
        """Delete a port and unplug its VM."""
        self.call("DELETE", f"/v2.0/ports/{port['id']}")
        run("ovs-vsctl", "--if-exists", "del-port", tap)

    # This host's Open vSwitch.

    def plug(self, tap, port):
        """Plug a VM in as Nova does."""
        bridge = port["binding:vif_details"].get("bridge_name", "br-int")
        if bridge != "br-int":
            run("ovs-vsctl", "--may-exist", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev")
        run("ovs-vsctl", "--may-exist", "add-port", bridge, tap, "--", "set", "Interface", tap,
            f"external_ids:iface-id={port['id']}", f'external_ids:attached-mac="{port["mac_address"]}"',
            "external_ids:iface-status=active")

    def shim(self, tap):
        """Return the shim's keys of an interface, without their prefix, addresses and tenant."""
        return {key[len("shim-"):]: value for key, value in self.external_ids(tap).items()
                if key.startswith("shim-") and key not in ("shim-addresses", "shim-tenant")}

    def external_ids(self, tap):
        """Return external_ids of an interface."""
        text = run("ovs-vsctl", "--format=json", "--columns=external_ids", "list", "Interface", tap)
        return dict(json.loads(text)["data"][0][0][1])

    def until(self, tap, **keys):
        """Wait until an interface has these keys, addresses and tenant aside."""
        expected = {key.replace("_", "-"): value for key, value in keys.items()}

        def reached():
            # And it only does when it is asked the next time: green threads stand still between two requests.
            self.call("GET", "/v2.0/networks")
            return self.shim(tap) == expected

        wait_for(reached,
                 lambda: f"{tap}: {self.shim(tap)} instead of {expected}; {self.log(self.agent)[-3000:]}")

    def until_wired(self, port):
        """Wait until a port has its network."""
        wait_for(lambda: self.call("GET", f"/v2.0/ports/{port['id']}")["port"]["status"] == "ACTIVE",
                 lambda: f"port {port['id']} is not wired; {self.log(self.agent)[-3000:]}")

    def tag(self, tap):
        """Return the VLAN of a port on br-int; the OVS agent's dead one is 4095."""
        return run("ovs-vsctl", "get", "Port", tap, "tag")


class Trunk:
    """A VM whose interface carries a parent and its subports."""

    def __init__(self, cloud, name):
        self.cloud, self.name, self.tap = cloud, name, f"tap-{name}"
        self.parent = cloud.make("port", network_id=cloud.net["id"], name=name)
        self.network = cloud.network(f"{name}-subports", "10.2.0.0/24")
        self.id = None
        self._vlans = iter(range(101, 200))

    def port(self, name, **more):
        """Make a port that is to be a subport."""
        return self.cloud.make("port", network_id=self.network["id"], name=name, **more)

    def make(self, *ports, **parent):
        """Make the trunk of ports and plug its VM in, as Nova does; parent: values of the parent's."""
        self.id = self.cloud.make("trunk", port_id=self.parent["id"], sub_ports=[*map(self._subport, ports)])["id"]
        self.parent = self.cloud.change(self.parent, device_owner="compute:nova", device_id=self.name,
                                        **{"binding:host_id": HOST, **parent})
        self.cloud.plug(self.tap, self.parent)

    def _subport(self, port):
        return {"port_id": port["id"], "segmentation_type": "vlan", "segmentation_id": next(self._vlans)}

    def add(self, port):
        """Add a subport."""
        self.cloud.call("PUT", f"/v2.0/trunks/{self.id}/add_subports", {"sub_ports": [self._subport(port)]})

    def remove(self, port):
        """Remove a subport."""
        self.cloud.call("PUT", f"/v2.0/trunks/{self.id}/remove_subports", {"sub_ports": [{"port_id": port["id"]}]})

    def until_addresses(self, *ports):
        """Wait until the VM may send from the addresses of the parent and of these subports only."""
        expected = sorted(one["ip_address"] for port in (self.parent, *ports) for one in port["fixed_ips"])

        def found():
            given = self.cloud.external_ids(self.tap).get("shim-addresses", "").split()
            return sorted(one for one in given if not one.startswith("fe80:"))

        wait_for(lambda: found() == expected, lambda: f"{self.tap}: {found()} instead of {expected}")

    def leave(self):
        """Unplug the VM, and delete the trunk and its parent."""
        run("ovs-vsctl", "del-port", self.tap)
        self.cloud.change(self.parent, **{"binding:host_id": "", "device_owner": "", "device_id": ""})
        self.cloud.call("DELETE", f"/v2.0/trunks/{self.id}")
        self.cloud.call("DELETE", f"/v2.0/ports/{self.parent['id']}")
