# SPDX-License-Identifier: Apache-2.0
"""The job's network inside the virtual machine: a Mininet of hypervisors, VMs and fabric switches."""

from __future__ import annotations

import functools
import subprocess
from typing import Any, Callable, Dict, List, Sequence, Tuple

from mininet.net import Mininet
from mininet.node import Host

from sdngcc.testbed.virtual.namespaces import bring_up, network_namespace, reaches
from sdngcc.testbed.virtual.processes import run
from sdngcc.topologies import TOPOLOGIES
from sdngcc.topologies.fabric import FabricTopo
from sdngcc.topologies.links import Batch, ShapedLink

# Receive and send buffers of guests' TCP, bytes: minimum, default, maximum.
TCP_BUFFERS = "4096 131072 6291456"


class Guest(Host):
    """A VM: a Mininet host whose shell is started only when somebody asks for a command.

    Every process costs wall time, in the virtual machine more than elsewhere.
    """

    def __init__(self, name: str, device_words: Sequence[str] = (), **params: Any) -> None:
        """device_words are words of ``ip link add`` for its device; see mininet.node.Node for the other parameters."""
        self.device_words = device_words
        super().__init__(name, **params)

    @classmethod
    def setup(cls) -> None:
        """Look for no programs: the testbed has looked for all it needs."""

    def startShell(self, mnopts: Any = None) -> None:
        """Make the namespaces, and a process that holds them."""
        self.holder = subprocess.Popen(["mnexec", "-n", "-p", "sleep", "infinity"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE)
        assert self.holder.stdout is not None
        if not self.holder.stdout.readline():
            raise RuntimeError(f"{self.name}: its namespaces cannot be made")
        self.pid = self.holder.pid

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:
        """Let the shell begin with a command."""
        self._open_shell()
        super().sendCmd(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> str:
        """Let the shell run a command and return what it said."""
        self._open_shell()
        output: str = super().cmd(*args, **kwargs)
        return output

    def _open_shell(self) -> None:
        if self.shell is None:
            pid, self.inNamespace = self.pid, False
            super().startShell(f"-cda{pid}")
            self.pid, self.inNamespace = pid, True

    def config(self, ip: str = "", mac: str = "", **params: Any) -> Dict[str, Any]:
        """Give the interface its address (the device was made with its MAC); Mininet calls this once."""
        self.ip, _, prefix = ip.partition("/")
        with network_namespace(f"/proc/{self.pid}/ns/net"):
            bring_up("lo")
            bring_up(str(self.defaultIntf()), self.ip, int(prefix))
        return {}

    def IP(self, intf: Any = None) -> str:
        """Return the VM's address; Mininet's own would ask ifconfig."""
        return self.ip

    def set_tcp(self, settings: Dict[str, int]) -> None:
        """Set the VM's TCP by names in /proc/sys/net/ipv4."""
        with network_namespace(f"/proc/{self.pid}/ns/net"):
            for name, value in settings.items():
                set_network(f"ipv4/{name}", str(value))


class QuickMininet(Mininet):
    """Mininet whose links are made, and given their shapes, by few processes."""

    def buildFromTopo(self, topo: Any = None) -> None:
        """Make the nodes, then all links together."""
        super().buildFromTopo(topo)
        shared_batch().run(run)

    def start(self) -> None:
        """Start the switches, then let all ports send in their shapes."""
        super().start()
        shared_batch().run(run)


def shared_batch() -> Batch:
    """Return what gathers commands while a network is built."""
    if ShapedLink.batch is None:
        raise RuntimeError("no network is being built")
    return ShapedLink.batch


def set_network(key: str, value: str) -> None:
    """Set a key below /proc/sys/net for this thread's network namespace."""
    with open(f"/proc/sys/net/{key}", "w", encoding="ascii") as file:
        file.write(value)


class Network:
    """The network once it stands."""

    def __init__(self, mininet: Mininet, topo: FabricTopo) -> None:
        """Remember what build_network() made."""
        self.mininet = mininet
        self.topo = topo

    def pid(self, vm: str) -> int:
        """Return the process whose network namespace is the VM's."""
        return int(self.mininet[vm].pid)

    def ip(self, vm: str) -> str:
        """Return the VM's address."""
        return str(self.mininet[vm].IP())

    def warm_up(self, pairs: List[Tuple[str, str]]) -> None:
        """Ping from each first to each second VM, so that addresses are known; RuntimeError if one is not reached."""
        for one, other in dict.fromkeys(pairs):
            with network_namespace(f"/proc/{self.pid(one)}/ns/net"):
                if not reaches(self.ip(other)):
                    raise RuntimeError(f"{one} does not reach {other}")


def make_topology(job: Dict[str, Any]) -> FabricTopo:
    """Return the job's topology, of which nothing stands yet."""
    topo: FabricTopo = TOPOLOGIES[job["topology"]["name"]](**job["topology"]["parameters"])
    return topo


def build_network(job: Dict[str, Any], topo: FabricTopo, switch: Callable[..., Any]) -> Network:
    """Build and start a topology; switch makes its switches, called with their names and parameters."""
    ShapedLink.batch = Batch()
    try:
        return _build_network(job, topo, switch)
    finally:
        ShapedLink.batch = None


def _build_network(job: Dict[str, Any], topo: FabricTopo, switch: Callable[..., Any]) -> Network:
    for key, value in {"core/wmem_max": "16777216", "core/rmem_max": "16777216",
                       # ovs-vswitchd's one socket for all that its own datapath sends, until the fabric has sent it on.
                       **({"core/wmem_default": "16777216"} if job["userspace"] else {}),
                       "ipv4/tcp_rmem": TCP_BUFFERS, "ipv4/tcp_wmem": TCP_BUFFERS,
                       "ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"}.items():
        set_network(key, value)
    Mininet.inited = True  # its limits and checks are ours
    guest = functools.partial(Guest, device_words=() if job["guest"]["gso"] else ("gso_max_segs", "1"))
    mininet = QuickMininet(topo=topo, switch=switch, host=guest, controller=None, build=False)
    mininet.build()
    mininet.start()
    ecn: Dict[str, bool] = {}
    for flow in job["flows"]:
        ecn[flow["vm"]] = ecn.get(flow["vm"], False) or flow.get("ecn", False)
    asks = 3 if job["guest"]["accecn"] else 1
    for name in topo.hosts():
        settings = {"tcp_no_metrics_save": 1}
        if not job["guest"]["rack_tlp"]:
            settings.update(tcp_recovery=0, tcp_early_retrans=0)
        if name in ecn:
            settings["tcp_ecn"] = asks if ecn[name] else 0
        elif asks == 3:
            settings["tcp_ecn"] = 5  # receivers accept either
        mininet[name].set_tcp(settings)
        _adapt_device(job, name, mininet[name].pid)
    shared_batch().run(run)
    return Network(mininet, topo)


def _adapt_device(job: Dict[str, Any], vm: str, pid: int) -> None:
    """Let a VM's device hand packets on as the job's guests do."""
    device = f"{vm}-eth0"
    if job["userspace"]:
        run(["mnexec", "-a", str(pid), "ethtool", "-K", device, "tx", "off"])  # Open vSwitch's sockets see no checksum
    if not job["guest"]["backpressure"]:
        # TCP allows itself a millisecond's packets below it, and all of the network is below it here. A packet
        # that netem delays no longer counts for its socket, like one that a guest's driver has sent.
        shared_batch().add(pid, "tc", "qdisc", "replace", "dev", device, "root", "netem", "delay", "1us", "limit",
                           "100000")
