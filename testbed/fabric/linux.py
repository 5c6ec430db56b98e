# SPDX-License-Identifier: Apache-2.0
"""The fabric that no controller sees: its switches are plain Linux bridges, and hypervisors are hosts of their own.

    hypervisor hv1, a namespace                          the machine's own namespace
    +---------------------------------------------+     +-----------------------------------+
    | VM -- hv1-vm1 |               |             |     |                                   |
    |               | its bridges   | hv1-up -----|-----|-- tor1-hv1 | Linux bridge tor1 .. |
    | ovsdb-server, ovs-vswitchd, br-sdngcc       |     |                                   |
    |                               mgmt0 --------|-----|-- mgmt-hv1 | Linux bridge mgmt    |-- controller
    +---------------------------------------------+     +-----------------------------------+

The controller speaks to each hypervisor by br-sdngcc, a bridge without ports, over a network of management, and reads
its database by a socket in the file system. Who owns the bridges that have VMs is the cloud's matter.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Sequence

from mininet.node import Switch

from sdngcc.testbed.fabric.base import Fabric, Installation, controller_words
from sdngcc.testbed.fabric.cloud import Cloud, add_bridge, make_cloud
from sdngcc.testbed.virtual.network import Network, build_network, make_topology, shared_batch
from sdngcc.testbed.virtual.openvswitch import FOLDER, VSWITCHD_UPTIME_S, OpenVSwitch
from sdngcc.testbed.virtual.processes import run, sleep_until
from sdngcc.topologies.links import Batch
from sdngcc.topologies.shaping import covered_uplink

# A hypervisor's files, as the machine's own namespace sees them: below its name.
HOSTS = Path("/run/hosts")
# The bridge by which the controller speaks to a hypervisor.
OWN_BRIDGE = "br-sdngcc"
# The network of management: the controllers' address and its prefix length; the others' end in the hypervisor's number.
MANAGEMENT, MANAGEMENT_PREFIX = "172.31.255.254", 16
# What the underlay carries where VMs' packets are in tunnels, bytes of IP.
UNDERLAY_MTU = 1600
# The graph of the fabric for the controllers.
UNDERLAY_FILE = Path("/run/underlay.json")


class LinuxBridge(Switch):
    """A switch of the fabric: a bridge of Linux, whose ports send in their shapes."""

    def __init__(self, name: str, **params: Any) -> None:
        """Make it; see mininet.node.Switch for the parameters."""
        self.made = False
        super().__init__(name, **params)
        self.made = True

    def startShell(self, mnopts: Any = None) -> None:
        """Start none: commands run where the agent runs."""
        self.pid = 1

    def cmd(self, *args: Any, **params: Any) -> str:
        """Run a command and return what it said, errors too; none before all is made: Mininet would bring up lo."""
        return _output(" ".join(str(arg) for arg in args).split()) if self.made else ""

    def start(self, controllers: Any) -> None:
        """Make the bridge of the ports that there are."""
        batch = shared_batch()
        batch.add(1, "ip", "link", "add", self.name, "type", "bridge", "forward_delay", "0", "stp_state", "0")
        for port in self.ports:
            if port.name != "lo":
                batch.add(1, "ip", "link", "set", port.name, "master", self.name)
                port.config(**port.params)
        batch.add(1, "ip", "link", "set", self.name, "up")

    def terminate(self) -> None:
        """Nothing to end."""


class Hypervisor(Switch):
    """A host: a namespace of the network and of mounts, with an Open vSwitch of its own.

    files are Open vSwitch's programs by name, preload what ovs-vswitchd has loaded first; number tells it from other
    hypervisors, cloud says what bridges it has.
    """

    def __init__(self, name: str, files: Dict[str, str], number: int, cloud: Cloud, preload: str,
                 **params: Any) -> None:
        self.number, self.cloud = number, cloud
        self.folder = HOSTS / name
        super().__init__(name, **{**params, "inNamespace": True})
        self.switch = OpenVSwitch(files, ("mnexec", "-a", str(self.pid)), preload)

    def startShell(self, mnopts: Any = None) -> None:
        """Make the namespaces, and /run/openvswitch in them this host's own."""
        self.folder.mkdir(parents=True)
        # The process that holds the namespaces tells when they are ready.
        commands = [f"mount --bind {self.folder} {FOLDER}",
                    *(f"echo 1 >/proc/sys/net/ipv6/conf/{key}/disable_ipv6" for key in ("all", "default")),
                    "echo ready", "exec sleep infinity"]
        self.holder = subprocess.Popen(["mnexec", "-n", "sh", "-c", " && ".join(commands)], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, text=True)
        self.pid = self.holder.pid
        assert self.holder.stdout is not None
        if self.holder.stdout.readline() != "ready\n":
            raise RuntimeError(f"{self.name}: its namespaces cannot be made")

    def cmd(self, *args: Any, **params: Any) -> str:
        """Run a command in the host and return what it said, errors too."""
        return _output(["mnexec", "-a", str(self.pid), *" ".join(str(arg) for arg in args).split()])

    def start(self, controllers: Any) -> None:
        """Join the network of management, start Open vSwitch, and make the bridges, the controller's own included."""
        batch, far = shared_batch(), f"mgmt-{self.name}"
        batch.add(1, "ip", "link", "add", far, "type", "veth", "peer", "name", "mgmt0", "netns", str(self.pid))
        batch.add(1, "ip", "link", "set", far, "master", "mgmt", "up")
        batch.add(self.pid, "ip", "addr", "add", f"172.31.0.{self.number}/{MANAGEMENT_PREFIX}", "dev", "mgmt0")
        batch.add(self.pid, "ip", "link", "set", "mgmt0", "up")
        batch.add(self.pid, "ip", "link", "set", "lo", "up")
        self.switch.start()
        self.switch.vsctl(*self.cloud.bridge_words(self), *add_bridge(OWN_BRIDGE, [], "secure"),
                          f"other_config:datapath-id={self.dpid}")
        for port in self.ports:
            port.config(**port.params)

    @property
    def vms(self) -> List[str]:
        """Names of the VMs that it has."""
        return [port.name[len(self.name) + 1:] for port in self.ports if port.name != f"{self.name}-up"]

    def run(self, *argv: str) -> str:
        """Run a program in the host to its end and return its output; RuntimeError when it fails."""
        return run([*self.switch.within, *argv])

    def terminate(self) -> None:
        """Nothing to end."""


class LinuxFabric(Fabric):
    """Linux bridges, and hypervisors that are hosts."""

    controller_address = MANAGEMENT

    def __init__(self, job: Dict[str, Any], out: Path) -> None:
        """Remember the job."""
        super().__init__(job, out)
        self.cloud = make_cloud(job, out)
        self.keys_column = self.cloud.keys_column

    def build(self) -> Network:
        """Build the network, with an Open vSwitch in each hypervisor, and return it."""
        run(["ip", "link", "add", "mgmt", "type", "bridge", "forward_delay", "0", "stp_state", "0"])
        run(["ip", "addr", "add", f"{MANAGEMENT}/{MANAGEMENT_PREFIX}", "dev", "mgmt"])
        run(["ip", "link", "set", "mgmt", "up"])
        sleep_until(VSWITCHD_UPTIME_S)
        topo = make_topology(self.job)
        self.cloud.address(topo)
        self.network = build_network(self.job, topo, self._make_switch)
        hosts = self.hosts
        self.installations = [Installation(host.name, host.switch, (host.name,), f"/proc/{host.pid}/ns/net",
                                           f"/proc/{host.pid}/root") for host in hosts]
        if self.cloud.tunnels:
            self._widen()
        UNDERLAY_FILE.write_text(json.dumps(underlay(topo, self.job["topology"]["parameters"]["link_mbps"])))
        return self.network

    @property
    def hosts(self) -> List[Hypervisor]:
        """The hypervisors."""
        return [node for node in self.network.mininet.switches if isinstance(node, Hypervisor)]

    def _make_switch(self, name: str, kind: str, dpid: str, **params: Any) -> Switch:
        if kind == "fabric":
            return LinuxBridge(name, dpid=dpid, **params)
        return Hypervisor(name, self.job["ovs"], int(dpid, 16), self.cloud, self.job["loop_clock"], dpid=dpid, **params)

    def _widen(self) -> None:
        """Let the underlay carry packets in tunnels, and give its hosts addresses."""
        topo = self.network.topo
        batch = Batch()
        pids = {host.name: host.pid for host in self.hosts}
        for info in _links(topo):
            for node, device in ((info["node1"], info["intfName1"]), (info["node2"], info["intfName2"])):
                batch.add(pids.get(node, 1), "ip", "link", "set", device, "mtu", str(UNDERLAY_MTU))
        for host in self.hosts:
            uplink = f"{host.name}-up"
            batch.add(host.pid, "ip", "addr", "add", f"{self.cloud.tunnel_address(host)}/16", "dev", uplink)
            for command in covered_uplink(uplink, self.job["topology"]["parameters"]["link_mbps"]):
                batch.add(host.pid, "tc", *command)
        batch.run(run)

    def uplinks(self, installation: Installation) -> List[str]:
        """Return the Interfaces that are its uplinks: the device to the fabric, unless tunnels stand for it."""
        return [] if self.cloud.tunnels else [f"{installation.name}-up"]

    def identity(self, vm: str) -> Dict[str, str]:
        """Return what the cloud writes into external_ids of a VM's interface."""
        info = self.network.topo.nodeInfo(vm)
        return {"iface-id": self.cloud.port_id(vm), "attached-mac": f"\"{info['mac']}\"", "iface-status": "active"}

    def configure(self) -> None:
        """Set the shims, and let the cloud's agents have the bridges."""
        super().configure()
        self.cloud.start(self.network, self.hosts)

    def connect(self, targets: Sequence[str]) -> None:
        """Connect each hypervisor's bridge for the controllers to them."""
        for host in self.hosts:
            host.switch.vsctl(*controller_words(OWN_BRIDGE, targets))

    def datapaths(self) -> List[str]:
        """Return the datapath ids of the hypervisors' bridges for the controllers."""
        return [host.dpid for host in self.hosts]

    def bridges(self) -> Dict[str, Any]:
        """Return what the bridges of a cloud's agents hold now; nothing where there are none."""
        return self.cloud.bridges(self.hosts) if self.job["cloud"]["agent"] != "none" else {}

    def controller_settings(self) -> Dict[str, str]:
        """Return that others forward, what the fabric is like, and where the databases are."""
        return {"SDNGCC_CONTROLLER_FORWARDING": "none", "SDNGCC_CONTROLLER_UNDERLAY_FILE": str(UNDERLAY_FILE),
                "SDNGCC_CONTROLLER_OVSDB": ",".join(f"unix:{host.folder}/db.sock" for host in self.hosts)}


def underlay(topo: Any, mbps: float) -> Dict[str, Any]:
    """Return the graph of a topology's fabric as the controller's ``underlay_file`` has it; links carry mbps each."""
    kinds = {name: topo.nodeInfo(name)["kind"] for name in topo.switches()}
    return {
        "switches": {name: {} for name, kind in kinds.items() if kind == "fabric"},
        "hosts": {name: {"datapath": [topo.nodeInfo(name)["dpid"]]} for name, kind in kinds.items()
                  if kind == "hypervisor"},
        "links": [{"ends": [f"{info['node1']}:{info['intfName1']}", f"{info['node2']}:{info['intfName2']}"],
                   "mbps": mbps} for info in _links(topo)],
    }


def _links(topo: Any) -> List[Dict[str, Any]]:
    """Return what a topology knows of its links that have no VM at an end."""
    return [info for _, _, info in topo.links(withInfo=True)
            if topo.isSwitch(info["node1"]) and topo.isSwitch(info["node2"])]


def _output(argv: Sequence[str]) -> str:
    """Run a program and return what it said, errors too."""
    done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.stdout
