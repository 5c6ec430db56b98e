# SPDX-License-Identifier: Apache-2.0
"""The job's network inside the virtual machine: a Mininet of hypervisors, VMs and fabric switches."""

from __future__ import annotations

import subprocess
from typing import Any, Dict, List, Sequence, Tuple

from mininet.net import Mininet
from mininet.node import Host, OVSSwitch

from sdngcc.testbed.lossy import loss_filter
from sdngcc.topologies import TOPOLOGIES
from sdngcc.topologies.fabric import FabricTopo

# Receive and send buffers of guests' TCP, bytes: minimum, default, maximum.
TCP_BUFFERS = "4096 131072 6291456"

# Longest wait between two attempts of a bridge to reach the controller, ms.
BACKOFF_MS = 1000


def run(argv: Sequence[str]) -> str:
    """Run a program to its end and return its output; RuntimeError with all it said when it fails."""
    done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


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


class Bridge(OVSSwitch):
    """An Open vSwitch bridge without the shell Mininet keeps for every switch."""

    def __init__(self, name: str, kind: str = "", **params: Any) -> None:
        """kind is hypervisor or fabric."""
        self.kind = kind
        super().__init__(name, **{**params, "batch": True})

    def startShell(self, mnopts: Any = None) -> None:
        """Start none: commands run where the agent runs."""
        self.pid = 1

    def cmd(self, *args: Any, **params: Any) -> str:
        """Run a command and return what it said, errors too."""
        argv = " ".join(str(arg) for arg in args).split()
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        return done.stdout

    def terminate(self) -> None:
        """Nothing to end."""


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


def _set(table: str, row: str, column: str, values: Dict[str, str]) -> List[str]:
    """Return ovs-vsctl's words that set keys of a map."""
    return ["--", "set", table, row, *(f"{column}:{key}={value}" for key, value in values.items())]


def configure_shim(topo: FabricTopo, shim: Dict[str, Any]) -> None:
    """Tell Open vSwitch what each port is to the shim, and the shim's settings."""
    argv = ["ovs-vsctl"]
    for device in topo.hypervisors.values():
        argv += _set("Interface", device, "other_config", shim["uplink"])
    for vm in [*topo.vms, *topo.receivers]:
        device = f"{topo.nodeInfo(vm)['hypervisor']}-{vm}"
        argv += _set("Interface", device, "external_ids", {"iface-id": vm})
        argv += _set("Interface", device, "other_config", {"shim-role": "vm", **shim["vms"].get(vm, {})})
    run([*argv, *_set("Open_vSwitch", ".", "other_config", shim["settings"])])


def change_loss(topo: FabricTopo, law: str, before: float, percent: float) -> None:
    """Lose that part, in percent, of a law's feedback that reaches a hypervisor over its uplink, instead of before."""
    bleach = law == "vcc" and percent == 100
    for name, device in topo.hypervisors.items():
        if before and not (law == "vcc" and before == 100):
            run(["tc", "qdisc", "del", "dev", device, "clsact"])
        if law == "vcc" and before == 100:
            run(["ovs-ofctl", "del-flows", name, f"ip,in_port={device}"])
        if bleach:
            run(["ovs-ofctl", "add-flow", name, f"ip,in_port={device},nw_ecn=3,actions=mod_nw_ecn:2,NORMAL"])
        elif percent:
            for command in loss_filter(device, percent, law):
                run(["tc", *command])


def export_samples(topo: FabricTopo, sampling: int) -> Dict[str, str]:
    """Let every bridge export one packet in so many by sFlow; return the controller's setting that names them."""
    run(["ip", "link", "set", "lo", "up"])
    argv = ["ovs-vsctl", "--", "--id=@samples", "create", "sflow", "agent=lo", "target=\"127.0.0.1:6343\"",
            "header=64", f"sampling={sampling}", "polling=1"]
    for name in topo.switches():
        argv += ["--", "set", "Bridge", name, "sflow=@samples"]
    run(argv)
    agents = ",".join(f"127.0.0.1={topo.nodeInfo(name)['dpid']}" for name in topo.switches())
    return {"SDNGCC_CONTROLLER_SFLOW_AGENTS": agents}


def connect_controllers(topo: FabricTopo, targets: Sequence[str]) -> None:
    """Point every bridge to all controllers; without any it forwards what it knows and nothing else."""
    argv = ["ovs-vsctl"]
    for name in topo.switches():
        rows = [f"@{name}-{number}" for number in range(len(targets))]
        for row, target in zip(rows, targets):
            argv += ["--", f"--id={row}", "create", "Controller", f"target=\"{target}\"", f"max_backoff={BACKOFF_MS}"]
        argv += ["--", "set", "Bridge", name, "protocols=OpenFlow13", "fail_mode=secure",
                 f"controller={','.join(rows)}"]
    run(argv)


def unconnected(topo: FabricTopo) -> int:
    """Return how many connections of bridges to controllers are missing."""
    return run(["ovs-vsctl", "--columns=is_connected", "--format=csv", "--no-headings", "list", "Controller"]
               ).count("false")


def build_network(job: Dict[str, Any]) -> Network:
    """Build and start the job's topology."""
    for key, value in {"net/core/wmem_max": "16777216", "net/core/rmem_max": "16777216",
                       "net/ipv4/tcp_rmem": TCP_BUFFERS, "net/ipv4/tcp_wmem": TCP_BUFFERS,
                       "net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"}.items():
        with open(f"/proc/sys/{key}", "w", encoding="ascii") as file:
            file.write(value)
    Mininet.inited = True  # its limits and checks are ours
    OVSSwitch.OVSVersion = "3.1"
    topo = TOPOLOGIES[job["topology"]["name"]](**job["topology"]["parameters"])
    mininet = Mininet(topo=topo, switch=Bridge, host=Guest, controller=None, build=False)
    for name in topo.switches():
        topo.nodeInfo(name)["failMode"] = "standalone"
    mininet.build()
    mininet.start()
    ecn: Dict[str, bool] = {}
    for flow in job["flows"]:
        ecn[flow["vm"]] = ecn.get(flow["vm"], False) or flow.get("ecn", False)
    for name in topo.hosts():
        commands = ["sysctl -q -w net.ipv4.tcp_no_metrics_save=1"]
        if name in ecn:
            commands.append(f"sysctl -q -w net.ipv4.tcp_ecn={int(ecn[name])}")
        if not job["guest"]["gso"]:
            commands.append(f"ip link set {name}-eth0 gso_max_segs 1")
        if not job["guest"]["backpressure"]:
            # TCP allows itself a millisecond's packets below it, and all of the network is below it here. A packet
            # that netem delays no longer counts for its socket, like one that a guest's driver has sent.
            commands.append(f"tc qdisc replace dev {name}-eth0 root netem delay 1us limit 100000")
        mininet[name].cmd("; ".join(commands))
    return Network(mininet, topo)
