# SPDX-License-Identifier: Apache-2.0
"""What any kind of fabric does: it is built, its hypervisors' shims are set, and a controller is connected."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.testbed.virtual import userspace
from sdngcc.testbed.virtual.kernel_shim import shim_client
from sdngcc.testbed.virtual.lossy import loss_filter
from sdngcc.testbed.virtual.namespaces import network_namespace
from sdngcc.testbed.virtual.network import Network
from sdngcc.testbed.virtual.openvswitch import OpenVSwitch
from sdngcc.testbed.virtual.processes import run

# Bits of a device's number that are the kernel's index.
INDEX_BITS = 16
# Longest wait between two attempts of a bridge to reach the controller, ms.
BACKOFF_MS = 1000


@dataclass(frozen=True)
class Installation:
    """An Open vSwitch and the hypervisors whose bridges it has."""

    name: str
    """The hypervisor's, when it has this Open vSwitch for itself; else empty."""
    switch: OpenVSwitch
    hypervisors: Tuple[str, ...]
    namespace: str = ""
    """File of its network namespace; empty: the machine's own."""
    root: str = ""
    """Its root folder, as the machine's own namespace of mounts sees it."""


# How a complaint begins that is none here: uplinks have their fq below an HTB, which is the wire.
UNFIT = "the queuing discipline of its device"


def refused_of(installation: Any) -> List[str]:
    """Return what an ovs-vswitchd complains of in its database, ``shim-error``, with the place of each."""
    found = []
    for table, columns in (("Open_vSwitch", "statistics"), ("Interface", "name,status")):
        rows = json.loads(installation.switch.vsctl("--format=json", f"--columns={columns}", "list", table))["data"]
        for *name, (_, pairs) in rows:
            status = dict(pairs)
            error = status.get("shim-error", "")
            if status.get("shim_qdisc") == "unfit":
                error = error.partition(UNFIT)[0].strip()
            if error:
                place = " ".join(str(one) for one in (installation.name, table, *name) if one)
                found.append(f"{place}: {error}")
    return found


def set_words(table: str, row: str, column: str, values: Dict[str, str]) -> List[str]:
    """Return ovs-vsctl's words that set keys of a map."""
    return ["--", "set", table, row, *(f"{column}:{key}={value}" for key, value in values.items())]


def controller_words(bridge: str, targets: Sequence[str]) -> List[str]:
    """Return ovs-vsctl's words that let a bridge be controlled by all targets, and by nobody else."""
    rows = [f"@{bridge}-{number}" for number in range(len(targets))]
    words: List[str] = []
    for row, target in zip(rows, targets):
        words += ["--", f"--id={row}", "create", "Controller", f"target=\"{target}\"", f"max_backoff={BACKOFF_MS}"]
    return [*words, "--", "set", "Bridge", bridge, "protocols=OpenFlow13", "fail_mode=secure",
            f"controller={','.join(rows)}"]


def police_words(device: str, edge: Dict[str, Any], vm: str) -> List[str]:
    """Return ovs-vsctl's words that police what a VM sends into its port; a kilobit has 1000 bits."""
    return ["--", "set", "Interface", device, f"ingress_policing_rate={edge['rate_bps'][vm] // 1000}",
            f"ingress_policing_burst={edge['burst_bits'][vm] // 1000}"]


def queue_words(uplink: str, edge: Dict[str, Any], vms: Sequence[str]) -> List[str]:
    """Return ovs-vsctl's words that give an uplink a queue of HTB for each VM, numbered from 1."""
    words = ["--", "set", "Port", uplink, "qos=@qos", "--", "--id=@qos", "create", "QoS", "type=linux-htb",
             f"other-config:max-rate={edge['uplink_bps']}",
             *(f"queues:{number}=@queue{number}" for number in range(1, len(vms) + 1))]
    for number, vm in enumerate(vms, 1):
        most = edge["uplink_bps"] if edge["kind"] == "borrow" else edge["rate_bps"][vm]
        words += ["--", f"--id=@queue{number}", "create", "Queue", f"other-config:min-rate={edge['rate_bps'][vm]}",
                  f"other-config:max-rate={most}"]
    return words


class Fabric(ABC):
    """The network of a job, from its switches' start to the reading of its counters."""

    controller_address = "127.0.0.1"
    """Where controllers listen for bridges."""
    keys_column = "other_config"
    """Column of Interface where the VMs' keys of the shim are written."""

    def __init__(self, job: Dict[str, Any], out: Path) -> None:
        """Remember the job, and the folder of raw samples, where logs are kept."""
        self.job, self.out = job, out
        self.network: Network
        self.installations: List[Installation] = []

    @abstractmethod
    def build(self) -> Network:
        """Start Open vSwitch, build the network and return it."""

    @abstractmethod
    def uplinks(self, installation: Installation) -> List[str]:
        """Return the names of its Interfaces that are uplinks."""

    @abstractmethod
    def connect(self, targets: Sequence[str]) -> None:
        """Connect what controllers are to see of the network to all of these targets."""

    @abstractmethod
    def datapaths(self) -> List[str]:
        """Return the datapath ids of the bridges that connect() connects, 16 hex digits each."""

    @abstractmethod
    def controller_settings(self) -> Dict[str, str]:
        """Return the controller's settings that follow from the network, as its environment has them."""

    def configure(self) -> None:
        """Set the shims and check that they obey, as the job says; RuntimeError when one does not."""
        if self.job["shim"]:
            self.configure_shim()
            self.check_law()
        if self.job["edge"]:
            self.limit_vms()

    def bridges(self) -> Dict[str, Any]:
        """Return what bridges hold that are not the controller's to change; nothing where there are none."""
        return {}

    def configure_shim(self) -> None:
        """Tell each Open vSwitch what its ports are to the shim, and the shim's settings."""
        topo, shim = self.network.topo, self.job["shim"]
        for installation in self.installations:
            words: List[str] = []
            for device in self.uplinks(installation):
                words += set_words("Interface", device, "other_config", shim["uplink"])
            for vm in [*topo.vms, *topo.receivers]:
                hypervisor = topo.nodeInfo(vm)["hypervisor"]
                if hypervisor in installation.hypervisors:
                    device = f"{hypervisor}-{vm}"
                    words += set_words("Interface", device, "external_ids", self.identity(vm))
                    words += set_words("Interface", device, self.keys_column,
                                       {"shim-role": "vm", **shim["vms"].get(vm, {})})
            installation.switch.vsctl(*words, *set_words("Open_vSwitch", ".", "other_config", shim["settings"]))

    def limit_vms(self) -> None:
        """Let each Open vSwitch hold the VMs that send at rates of their own, by what it has for that itself."""
        edge, topo = self.job["edge"], self.network.topo
        for installation in self.installations:
            for hypervisor in installation.hypervisors:
                vms = [vm for vm in topo.vms if topo.nodeInfo(vm)["hypervisor"] == hypervisor]
                if not vms:
                    continue
                if edge["kind"] == "police":
                    words = [word for vm in vms for word in police_words(f"{hypervisor}-{vm}", edge, vm)]
                    installation.switch.vsctl(*words)
                else:
                    installation.switch.vsctl(*queue_words(topo.hypervisors[hypervisor], edge, vms))
                    for number, vm in enumerate(vms, 1):
                        installation.switch.ofctl("add-flow", hypervisor,
                                                  f"in_port={hypervisor}-{vm},actions=set_queue:{number},NORMAL")

    def identity(self, vm: str) -> Dict[str, str]:
        """Return the keys of Interface:external_ids that tell whose interface it is."""
        return {"iface-id": vm}

    def change_loss(self, law: str, before: float, percent: float) -> None:
        """Lose that part, in percent, of a law's feedback that hypervisors get by their uplinks, instead of before."""
        for installation in self.installations:
            for name in installation.hypervisors:
                device = self.network.topo.hypervisors[name]
                commands = [["qdisc", "del", "dev", device, "clsact"]] if before else []
                if percent:
                    commands += loss_filter(device, percent, law, self.job["loss_of"] == "marks")
                for command in commands:
                    run([*installation.switch.within, "tc", *command])

    def check_law(self) -> None:
        """Raise RuntimeError unless each datapath's shim runs the law it was told to, and has all of its VMs."""
        wanted = self.job["shim"]["settings"]["shim-law"]
        for installation in self.installations:
            if self.job["userspace"]:
                law = userspace.law(installation.switch)
            else:
                with network_namespace(installation.namespace), shim_client() as client:
                    law = client.settings_get().law
                    limited = {port.name for port in client.ports() if port.role == "vm"}
                topo = self.network.topo
                wanting = sorted({f"{host}-{vm}" for vm in (*topo.vms, *topo.receivers)
                                  for host in [topo.nodeInfo(vm)["hypervisor"]]
                                  if host in installation.hypervisors} - limited)
                if wanting:
                    told = installation.switch.vsctl("get", "Interface", wanting[0], "status").strip()
                    raise RuntimeError(f"the shim does not have {', '.join(wanting)}; {wanting[0]}:status {told}")
            if law != wanted:
                status = installation.switch.vsctl("get", "Open_vSwitch", ".", "status").strip()
                raise RuntimeError(f"{installation.name or 'all'}: shim-law={wanted} is not in force, "
                                   f"{law or 'no law'} is; Open_vSwitch:status {status}")

    def queues(self) -> List[Dict[str, Any]]:
        """Return all queuing disciplines with their counters, as ``tc -s -j`` tells them."""
        namespaces: List[Sequence[str]] = [(), *(one.switch.within for one in self.installations if one.name)]
        return [queue for within in namespaces
                for queue in json.loads(run([*within, "tc", "-s", "-j", "qdisc", "show"]))]

    def devices(self) -> Dict[str, int]:
        """Return a number for each network device, which limiters.txt has; the kernel's index, as far as it is unique.

        Those of a hypervisor with a namespace of its own are told apart by its number above the 16 lower bits.
        """
        found = {}
        for number, (host, folder) in enumerate(self._device_folders()):
            for device in folder.iterdir():
                named = not host or device.name.startswith(host)
                found[device.name if named else f"{host}-{device.name}"] = (
                    number << INDEX_BITS | int((device / "ifindex").read_text()))
        return found

    def _device_folders(self) -> List[Tuple[str, Path]]:
        """Return the folder of devices of the machine's own namespace and of each hypervisor that has one."""
        return [("", Path("/sys/class/net")),
                *((one.name, Path(f"{one.root}/sys/class/net")) for one in self.installations if one.name)]

    def join_limiters(self) -> None:
        """Make limiters.txt of the files of hypervisors with namespaces of their own, if there are any."""
        lines: List[Tuple[int, str]] = []
        head = ""
        for number, installation in enumerate((one for one in self.installations if one.name), 1):
            head, *rows = (self.out / f"limiters-{installation.name}.txt").read_text().splitlines()
            for row in rows:
                t_ns, vm, uplink, *rest = row.split()
                indexes = [str(number << INDEX_BITS | int(index)) for index in (vm, uplink)]
                lines.append((int(t_ns), " ".join([t_ns, *indexes, *rest])))
        if head:
            (self.out / "limiters.txt").write_text("\n".join([head, *(line for _, line in sorted(lines)), ""]))

    def refusals(self) -> List[str]:
        """Return what ovs-vswitchd did not obey of the shims' keys."""
        return [text for installation in self.installations for text in refused_of(installation)]

    def shim_counters(self) -> Dict[str, Any]:
        """Return the shims' counters, summed over ports: drops and refusals by reason, messages accepted; and knobs."""
        total: Dict[str, int] = {}
        by_port: Dict[str, Dict[str, int]] = {}
        knobs: Dict[str, int] = {}
        for installation in self.installations:
            if self.job["userspace"]:
                ports, knobs = userspace.counters(installation.switch), userspace.knobs(installation.switch)
            else:
                with network_namespace(installation.namespace), shim_client() as client:
                    ports = {port.name: port.stats for port in client.ports()}
                    knobs = {name: knob.value for name, knob in client.settings_get().knobs.items()}
            for port, stats in ports.items():
                # Tunnels of all hypervisors have one name.
                named = port.startswith(installation.name)
                by_port[port if named else f"{installation.name}-{port}"] = stats
                for name, count in stats.items():
                    total[name] = total.get(name, 0) + count
        return {"counters": total, "by_port": by_port, "knobs": knobs}
