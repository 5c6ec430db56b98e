# SPDX-License-Identifier: Apache-2.0
"""The job's network inside the virtual machine: a Mininet of hypervisors, VMs and fabric switches."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

from mininet.net import Mininet
from mininet.node import Host

from sdngcc.topologies import TOPOLOGIES
from sdngcc.topologies.fabric import FabricTopo

# Receive and send buffers of guests' TCP, bytes: minimum, default, maximum.
TCP_BUFFERS = "4096 131072 6291456"


class Guest(Host):
    """A VM: a Mininet host that configures its one interface in one call."""

    def config(self, ip: str = "", mac: str = "", **params: Any) -> Dict[str, Any]:
        """Give the interface its address (the device was made with its MAC); Mininet calls this once."""
        self.ip = ip.split("/")[0]
        self.cmd(f"ip link set lo up; ip addr add {ip} dev {self.defaultIntf()}")
        return {}

    def IP(self, intf: Any = None) -> str:
        """Return the VM's address; Mininet's own would ask ifconfig."""
        return self.ip


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
            output = self.mininet[one].cmd(f"ping -c 1 -W 1 {self.ip(other)} || ping -c 3 -i 0.2 -W 2 {self.ip(other)}")
            if " 0% packet loss" not in output:
                raise RuntimeError(f"{one} does not reach {other}: {output.strip()}")


def make_topology(job: Dict[str, Any]) -> FabricTopo:
    """Return the job's topology, of which nothing stands yet."""
    topo: FabricTopo = TOPOLOGIES[job["topology"]["name"]](**job["topology"]["parameters"])
    return topo


def build_network(job: Dict[str, Any], topo: FabricTopo, switch: Callable[..., Any]) -> Network:
    """Build and start a topology; switch makes its switches, called with their names and parameters."""
    for key, value in {"net/core/wmem_max": "16777216", "net/core/rmem_max": "16777216",
                       # ovs-vswitchd's one socket for all that its own datapath sends, until the fabric has sent it on.
                       **({"net/core/wmem_default": "16777216"} if job["userspace"] else {}),
                       "net/ipv4/tcp_rmem": TCP_BUFFERS, "net/ipv4/tcp_wmem": TCP_BUFFERS,
                       "net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"}.items():
        with open(f"/proc/sys/{key}", "w", encoding="ascii") as file:
            file.write(value)
    Mininet.inited = True  # its limits and checks are ours
    mininet = Mininet(topo=topo, switch=switch, host=Guest, controller=None, build=False)
    mininet.build()
    mininet.start()
    ecn: Dict[str, bool] = {}
    for flow in job["flows"]:
        ecn[flow["vm"]] = ecn.get(flow["vm"], False) or flow.get("ecn", False)
    for name in topo.hosts():
        commands = ["sysctl -q -w net.ipv4.tcp_no_metrics_save=1"]
        asks = 3 if job["guest"]["accecn"] else 1
        if name in ecn:
            commands.append(f"sysctl -q -w net.ipv4.tcp_ecn={asks if ecn[name] else 0}")
        elif asks == 3:
            commands.append("sysctl -q -w net.ipv4.tcp_ecn=5")  # receivers accept either
        if job["userspace"]:
            commands.append(f"ethtool -K {name}-eth0 tx off")  # Open vSwitch's sockets see no checksum else
        if not job["guest"]["gso"]:
            commands.append(f"ip link set {name}-eth0 gso_max_segs 1")
        if not job["guest"]["backpressure"]:
            # TCP allows itself a millisecond's packets below it, and all of the network is below it here. A packet
            # that netem delays no longer counts for its socket, like one that a guest's driver has sent.
            commands.append(f"tc qdisc replace dev {name}-eth0 root netem delay 1us limit 100000")
        mininet[name].cmd("; ".join(commands))
    return Network(mininet, topo)
