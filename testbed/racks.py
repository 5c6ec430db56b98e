# SPDX-License-Identifier: Apache-2.0
"""Runs one job on the machines of an inventory: what agent.py does in the virtual machine, by ssh and in real time.

    host                                                          switch
    +---------------------------------------------------+        +-----------------------+
    | VM, a namespace -- sdngcc-vm1 | bridge   | uplink |--------| ... device with RED --|-- hosts of receivers
    |                               | sdngcc0  |        |        +-----------------------+
    +---------------------------------------------------+

Hosts need Open vSwitch with this project's patches, one variant of the shim, iproute2 and Linux 5.16 or later; the
generator is copied there. Bridge, VMs and folder are taken away in the end. Every machine has a clock of its own: its
difference to this one's is measured, times are told in each one's own and read back in this one's.

``python -m sdngcc.testbed.racks JOB`` is the program that does it; it tells its progress as the agent does.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.testbed.fabric.base import INDEX_BITS, Fabric, Installation, controller_words
from sdngcc.testbed.fabric.cloud import add_bridge
from sdngcc.testbed.fabric.linux import OWN_BRIDGE
from sdngcc.testbed.inventory import SWITCH, Inventory
from sdngcc.testbed.machine import Progress, Timing, watch_job
from sdngcc.testbed.virtual.agent import Agent, Failure, note, tcp_counters
from sdngcc.testbed.virtual.network import TCP_BUFFERS
from sdngcc.testbed.virtual.openvswitch import OpenVSwitch
from sdngcc.topologies.shaping import FQ, LEAF_HANDLE, Shape, tc_commands

# The bridge that hosts get, and what the names of VMs' devices and namespaces begin with.
BRIDGE, PREFIX = "sdngcc0", "sdngcc-"
# Programs that hosts must have.
PROGRAMS = ("ip", "tc", "ping", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
# What the controller is told to be behind the bottleneck, where that leads to several hosts.
BEHIND = "behind"
# What stands for the generator's place on the machine where it runs.
GENERATOR = "{generator}"
# Time in which all programs are started everywhere, seconds.
LEAD_S = 5.0
# Words before a time of this machine's clock, and before a file, among the generator's.
TIMES, FILES = ("--start", "--stop", "--connect", "--end"), ("--out", "--limiters")
# Readings of another machine's clock; that with the shortest way counts.
CLOCK_READINGS = 20
# The most that a reading may take, seconds: beyond it times of machines cannot be compared.
CLOCK_WAY_S = 0.05
# Seconds after which a machine that does not answer is given up.
REACH_S = 15
# What vswitchd gets to put settings in force, and its database to hear of counters, seconds.
SETTLE_S, STATISTICS_S = 2.0, 6.0
# What a run that is given up gets to take away what it made, seconds.
REMOVE_S = 60.0


class Reach:
    """The way to the machines of an inventory."""

    def __init__(self, inventory: Inventory, folder: Path) -> None:
        """folder is where ssh keeps the sockets of its connections, which all commands to a machine share."""
        self.inventory, self.folder = inventory, folder

    def words(self, name: str, argv: Sequence[str]) -> List[str]:
        """Return the command here that runs argv on a machine as root."""
        machine, ssh = self.inventory.machine(name), self.inventory.ssh
        if self.inventory.reach:
            before = [word.format(name=name, address=machine.address) for word in self.inventory.reach]
            return [*before, *argv]
        identity = ["-i", ssh.identity] if ssh.identity else []
        return ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={REACH_S}", "-o", "ControlMaster=auto",
                "-o", f"ControlPath={self.folder}/%C", "-o", "ControlPersist=60", "-p", str(ssh.port), *identity,
                "-l", ssh.user, machine.address, "--", shlex.join(argv)]

    def close(self, name: str) -> None:
        """End the connection to a machine that stays open, if there is one."""
        if not self.inventory.reach:
            words = self.words(name, [])
            subprocess.run([*words[:1], "-O", "exit", *words[1:-2]], check=False, stdin=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

    def database(self, name: str) -> str:
        """Return the path here of the socket of a host's database."""
        path = self.inventory.database.format(name=name, address=self.inventory.machine(name).address)
        if self.inventory.reach:
            return path
        here = self.folder / f"{name}.db"
        words = self.words(name, [])
        # The connection that is open forwards it.
        subprocess.run([*words[:1], "-O", "forward", "-L", f"{here}:{path}", *words[1:-2]], check=True,
                       stdin=subprocess.DEVNULL)
        return str(here)

    def run(self, name: str, argv: Sequence[str], data: bytes = b"") -> str:
        """Run a program on a machine to its end and return its output; RuntimeError names both when it fails."""
        done = subprocess.run(self.words(name, argv), input=data, capture_output=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            raise RuntimeError(f"{name}: {shlex.join(argv)}: exit {done.returncode}: {said}")
        return done.stdout.decode("utf-8", "replace")

    def script(self, name: str, text: str) -> str:
        """Run lines of shell on a machine; the first that fails ends them with RuntimeError."""
        return self.run(name, ["sh", "-e"], text.encode())

    def clock(self, name: str, generator: str) -> int:
        """Return by how many ns a machine's clock is ahead of this one's; RuntimeError if that cannot be told well."""
        best = (float("inf"), 0)
        with subprocess.Popen(self.words(name, [generator, "clock"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              bufsize=0) as process:
            assert process.stdin is not None and process.stdout is not None
            for _ in range(CLOCK_READINGS):
                before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                process.stdin.write(b"\n")
                line = process.stdout.readline()
                after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                if not line:
                    raise RuntimeError(f"{name}: its clock cannot be read")
                best = min(best, (after - before, int(line) - (before + after) // 2))
            process.stdin.close()
        if best[0] > CLOCK_WAY_S * 1e9:
            raise RuntimeError(f"{name}: a reading of its clock takes {best[0] / 1e6:.0f} ms; at most "
                               f"{CLOCK_WAY_S * 1000:.0f} are allowed")
        return best[1]


class RemoteSwitch(OpenVSwitch):
    """The Open vSwitch of a host, which runs there already."""

    def __init__(self, reach: Reach, host: str) -> None:
        super().__init__({})
        self.reach, self.host = reach, host

    def _run(self, program: str, *words: str) -> str:
        return self.reach.run(self.host, [program, *words])


class RackTopo:
    """Who is where, as topologies tell it."""

    def __init__(self, inventory: Inventory, job: Dict[str, Any]) -> None:
        """Place the VMs that a job has on hosts."""
        parameters = job["topology"]["parameters"]
        self.vms = [f"vm{number + 1}" for number in range(parameters["senders"])]
        self.receivers = [f"rx{number + 1}" for number in range(parameters["receivers"])]
        self.bottleneck = inventory.switch.device
        self.host_of = {vm: inventory.sender_of(index) for index, vm in enumerate(self.vms)}
        self.host_of.update((vm, inventory.receiver_of(index)) for index, vm in enumerate(self.receivers))
        self.hypervisors = {host: inventory.hosts[host].uplink for host in dict.fromkeys(self.host_of.values())}
        self.addresses = {vm: inventory.address_of(number) for number, vm in enumerate(self.host_of, 1)}
        self.macs = {vm: f"02:5d:cc:00:00:{number:02x}" for number, vm in enumerate(self.host_of, 1)}
        self.datapaths = {host: f"{number:016x}" for number, host in enumerate(self.hypervisors, 1)}

    def nodeInfo(self, vm: str) -> Dict[str, str]:
        """Return the host of a VM."""
        return {"hypervisor": self.host_of[vm]}


class RackNetwork:
    """The network, as the agent sees it."""

    def __init__(self, reach: Reach, topo: RackTopo) -> None:
        """Remember who is where."""
        self.reach, self.topo = reach, topo

    def ip(self, vm: str) -> str:
        """Return a VM's address."""
        return self.topo.addresses[vm].partition("/")[0]

    def warm_up(self, pairs: Sequence[Tuple[str, str]]) -> None:
        """Ping from each first to each second VM; RuntimeError if one is not reached."""
        for one, other in dict.fromkeys(pairs):
            self.reach.run(self.topo.host_of[one], [*inside(one), "ping", "-c", "3", "-i", "0.2", "-W", "2", "-q",
                                                    self.ip(other)])


def inside(vm: str) -> List[str]:
    """Return the words before a command that is to run in a VM, on its host."""
    return ["ip", "netns", "exec", f"{PREFIX}{vm}"]


class RackFabric(Fabric):
    """Hosts with a bridge each; what is between them is there already."""

    def __init__(self, job: Dict[str, Any], out: Path, reach: Reach) -> None:
        """Remember the job and the way to its machines."""
        super().__init__(job, out)
        self.reach = reach
        self.inventory = reach.inventory
        self.controller_address = self.inventory.controller or ""
        self.topo = RackTopo(self.inventory, job)
        self.made: List[str] = []

    def build(self) -> Any:
        """Look whether all machines are as they must be, then make bridges and VMs."""
        self.installations = [Installation(host, RemoteSwitch(self.reach, host), (host,))
                              for host in self.topo.hypervisors]
        for host, uplink in self.topo.hypervisors.items():
            self.inspect(host, uplink)
        self.inspect_switch()
        for host, uplink in self.topo.hypervisors.items():
            self.build_host(host, uplink)
        network: Any = RackNetwork(self.reach, self.topo)
        self.network = network
        return network

    def inspect(self, host: str, uplink: str) -> None:
        """Refuse a host that lacks something, or whose uplink is in use; RuntimeError says what."""
        reach = self.reach
        asked = "".join(f"command -v {one} >/dev/null || echo {one}\n" for one in PROGRAMS)
        missing = reach.script(host, asked).split()
        if missing:
            raise RuntimeError(f"{host}: {', '.join(missing)} is missing")
        devices = json.loads(reach.run(host, ["ip", "-json", "addr", "show"]))
        found = next((device for device in devices if device["ifname"] == uplink), None)
        if found is None:
            names = ", ".join(device["ifname"] for device in devices)
            raise RuntimeError(f"{host}: uplink: there is no device {uplink}; there are {names}")
        addresses = [one["local"] for one in found["addr_info"] if one["scope"] == "global"]
        if addresses:
            raise RuntimeError(f"{host}: uplink: {uplink} has the address {addresses[0]}, and would lose it; "
                               "use one without")
        if "master" in found:
            raise RuntimeError(f"{host}: uplink: {uplink} belongs to {found['master']} already")
        settings = reach.run(host, ["ovs-vsctl", "get", "Open_vSwitch", ".", "other_config"])
        if "shim-" in settings:
            raise RuntimeError(f"{host}: its Open vSwitch has settings of the shim already, {settings.strip()}; they "
                               "would be lost")

    def inspect_switch(self) -> None:
        """Refuse a switch whose queue cannot be read; RuntimeError says why."""
        switch = self.inventory.switch
        queues = json.loads(self.reach.run(SWITCH, ["tc", "-json", "qdisc", "show", "dev", switch.device]))
        kinds = {queue["handle"]: queue["kind"] for queue in queues}
        if kinds.get(f"{switch.handle:x}:") != "red":
            raise RuntimeError(f"switch: {switch.device} has no RED queue with handle {switch.handle} "
                               f"({switch.handle:x}:); it has {kinds}")

    def copy_generator(self, name: str) -> None:
        """Make a machine's folder, which must not be there, and put the generator into it."""
        folder = self.inventory.folder_of(name)
        self.reach.script(name, f"mkdir -p {self.inventory.folder}\nmkdir {folder}\n")
        self.made.append(name)
        self.reach.run(name, ["sh", "-c", f"cat >{folder}/generator && chmod 755 {folder}/generator"],
                       Path(self.job["local_generator"]).read_bytes())

    def build_host(self, host: str, uplink: str) -> None:
        """Copy the generator, make bridge and VMs, and let the uplink obey departure times."""
        gso = self.job["guest"]["gso"]
        self.copy_generator(host)
        shape = (tc_commands(uplink, Shape("uplink", rate_mbps=self.inventory.link_mbps)) if self.inventory.shape else
                 [["qdisc", "replace", "dev", uplink, "root", "handle", f"{LEAF_HANDLE:x}:", *FQ]])
        lines = [f"ovs-vsctl --may-exist add-br {BRIDGE} -- set Bridge {BRIDGE} fail_mode=standalone "
                 f"-- --may-exist add-port {BRIDGE} {uplink}", f"ip link set {uplink} up",
                 *(f"tc {shlex.join(words)}" for words in shape)]
        ecn = {flow["vm"]: 0 for flow in self.job["flows"]}
        for flow in self.job["flows"]:
            ecn[flow["vm"]] |= int(flow.get("ecn", False))
        for vm in [vm for vm, where in self.topo.host_of.items() if where == host]:
            within = " ".join(inside(vm))
            device = f"{host}-{vm}"
            lines += [
                f"ip netns add {PREFIX}{vm}",
                f"ip link add {device} type veth peer name eth0 address {self.topo.macs[vm]} netns {PREFIX}{vm}",
                f"ip link set {device} up",
                f"ip -n {PREFIX}{vm} link set lo up",
                f"ip -n {PREFIX}{vm} link set eth0 {'' if gso else 'gso_max_segs 1 '}up",
                f"ip -n {PREFIX}{vm} addr add {self.topo.addresses[vm]} dev eth0",
                f"{within} sysctl -qw net.ipv4.tcp_no_metrics_save=1 net.ipv6.conf.all.disable_ipv6=1 "
                f"'net.ipv4.tcp_rmem={TCP_BUFFERS}' 'net.ipv4.tcp_wmem={TCP_BUFFERS}'"
                + (f" net.ipv4.tcp_ecn={ecn[vm]}" if vm in ecn else ""),
                f"ovs-vsctl add-port {BRIDGE} {device}",
            ]
        self.reach.script(host, "\n".join(lines) + "\n")

    def remove(self) -> None:
        """Take away what was made on machines; complaints go to standard error."""
        for name in self.made:
            folder = self.inventory.folder_of(name)
            # What still sends does not hear that its connection has ended.
            lines = [f"for process in /proc/[0-9]*; do [ \"$(readlink $process/exe)\" != {folder}/generator ] || "
                     "kill -KILL ${process#/proc/} || true; done",
                     f"rm -rf {folder}", f"rmdir {self.inventory.folder} 2>/dev/null || true"]
            if name != SWITCH:
                lines += [f"ip netns del {PREFIX}{vm} 2>/dev/null || true"
                          for vm, host in self.topo.host_of.items() if host == name]
                settings = " ".join(self.job["shim"]["settings"] if self.job["shim"] else ["shim-law"])
                lines += [f"ovs-vsctl --if-exists del-br {OWN_BRIDGE} -- --if-exists del-br {BRIDGE} "
                          f"-- remove Open_vSwitch . other_config {settings}",
                          f"tc qdisc del dev {self.topo.hypervisors[name]} root 2>/dev/null || true",
                          f"rm -f {self.job['key_file']}"]
            try:
                self.reach.script(name, "\n".join([*lines, ""]))
            except RuntimeError as error:
                print(f"not taken away: {error}", file=sys.stderr, flush=True)

    def configure_shim(self) -> None:
        """Set the shims, and give them the key of reports."""
        for host in self.topo.hypervisors:
            self.reach.run(host, ["sh", "-c", f"umask 077 && cat >{self.job['key_file']}"],
                           f"{self.job['key']}\n".encode())
        super().configure_shim()

    def check_law(self) -> None:
        """Raise RuntimeError unless each host's shim runs the law it was told to."""
        wanted = self.job["shim"]["settings"]["shim-law"]
        time.sleep(SETTLE_S)
        for installation in self.installations:
            shown = installation.switch.appctl("shim/show")
            law = next((line.split()[-1] for line in shown.splitlines() if line.split()[:1] == ["law"]), "no law")
            if law != wanted:
                raise RuntimeError(f"{installation.name}: shim-law={wanted} is not in force, {law} is: {shown.strip()}")

    def uplinks(self, installation: Installation) -> List[str]:
        """Return the device to the fabric."""
        return [self.topo.hypervisors[installation.name]]

    def identity(self, vm: str) -> Dict[str, str]:
        """Return what a cloud's agent would write into external_ids of a VM's interface."""
        return {"iface-id": vm, "attached-mac": f"\"{self.topo.macs[vm]}\"", "iface-status": "active"}

    def connect(self, targets: Sequence[str]) -> None:
        """Give each host a bridge without ports that is connected to the controller."""
        for installation in self.installations:
            installation.switch.vsctl(*add_bridge(OWN_BRIDGE, [], "secure"), "--", "set", "Bridge", OWN_BRIDGE,
                                      f"other_config:datapath-id={self.topo.datapaths[installation.name]}",
                                      *controller_words(OWN_BRIDGE, targets))

    def datapaths(self) -> List[str]:
        """Return the datapath ids of the hosts' bridges for the controller."""
        return [self.topo.datapaths[installation.name] for installation in self.installations]

    def controller_settings(self) -> Dict[str, str]:
        """Return that others forward, what the fabric is like, and where the databases are."""
        folder = self.reach.folder
        (folder / "underlay.json").write_text(json.dumps(self.underlay()))
        (folder / "key").touch(0o600)
        (folder / "key").write_text(f"{self.job['key']}\n")
        return {"SDNGCC_CONTROLLER_FORWARDING": "none",
                "SDNGCC_CONTROLLER_UNDERLAY_FILE": str(folder / "underlay.json"),
                "SDNGCC_CONTROLLER_KEY_FILE": str(folder / "key"),
                "SDNGCC_CONTROLLER_TENANT_FILE": str(folder / "tenants.json"),
                "SDNGCC_CONTROLLER_OVSDB": ",".join(f"unix:{self.reach.database(host)}"
                                                    for host in self.topo.hypervisors)}

    def underlay(self) -> Dict[str, Any]:
        """Return the graph of the fabric as the controller's underlay_file has it."""
        topo, mbps = self.topo, self.inventory.link_mbps
        receivers = {topo.host_of[vm] for vm in topo.receivers}
        far = f"{SWITCH}:{topo.bottleneck}"
        links = [(f"{host}:{uplink}", f"{SWITCH}:{host}") for host, uplink in topo.hypervisors.items()
                 if host not in receivers]
        if len(receivers) > 1:
            # What is behind the bottleneck leads to each of them.
            links.append((far, f"{BEHIND}:{SWITCH}"))
        links += [(far if len(receivers) == 1 else f"{BEHIND}:{host}", f"{host}:{topo.hypervisors[host]}")
                  for host in sorted(receivers)]
        return {"switches": {name: {} for name in ([SWITCH, BEHIND] if len(receivers) > 1 else [SWITCH])},
                "hosts": {host: {"datapath": [dpid]} for host, dpid in topo.datapaths.items()},
                "links": [{"ends": list(ends), "mbps": mbps} for ends in links]}

    def queues(self) -> List[Dict[str, Any]]:
        """Return the queuing disciplines of the switch's port and of all uplinks with their counters."""
        places = {SWITCH: self.inventory.switch.device, **self.topo.hypervisors}
        return [{**queue, "dev": device if name == SWITCH else f"{name}-{device}"}
                for name, device in places.items()
                for queue in json.loads(self.reach.run(name, ["tc", "-s", "-j", "qdisc", "show", "dev", device]))]

    def devices(self) -> Dict[str, int]:
        """Return a number for each device of hosts, as join_limiters() makes them."""
        found = {}
        for number, host in enumerate(self.topo.hypervisors, 1):
            # What is below /sys need not be of the host's own network.
            for link in json.loads(self.reach.run(host, ["ip", "-json", "link", "show"])):
                device, index = link["ifname"], link["ifindex"]
                found[device if device.startswith(host) else f"{host}-{device}"] = number << INDEX_BITS | index
        return found

    def shim_counters(self) -> Dict[str, Any]:
        """Return the shims' counters by port and summed, as the hosts' databases have them; knobs are not known."""
        total: Dict[str, int] = {}
        by_port: Dict[str, Dict[str, int]] = {}
        for installation in self.installations:
            rows = installation.switch.vsctl("--format=json", "--columns=name,statistics", "list", "Interface")
            for name, (_, pairs) in json.loads(rows)["data"]:
                stats = {key[len("shim_"):]: count for key, count in pairs if key.startswith("shim_")}
                if stats:
                    by_port[name if name.startswith(installation.name) else f"{installation.name}-{name}"] = stats
                for key, count in stats.items():
                    total[key] = total.get(key, 0) + count
        return {"counters": total, "by_port": by_port, "knobs": {}}


class RackAgent(Agent):
    """The agent whose programs run elsewhere."""

    lead_s = LEAD_S

    def __init__(self, job: Dict[str, Any], out: Path) -> None:
        """Remember the job; its inventory says where."""
        inventory = Inventory(**job["inventory"])
        self.inventory = inventory
        self.reach = Reach(inventory, Path(job["sockets"]))
        sampling = {**job["sampling"], "handle": inventory.switch.handle}
        super().__init__({**job, "generator": GENERATOR, "sampling": sampling,
                          "local_generator": job["generator"]}, out)
        self.fabric = self.racks = RackFabric(self.job, out, self.reach)
        self.offsets: Dict[str, int] = {}
        self.files: List[Tuple[str, str]] = []

    def host_of(self, node: str) -> str:
        """Return the machine on which a node's programs run; none is the switch's."""
        return self.racks.topo.host_of.get(node, node) if node else SWITCH

    def spawn(self, node: str, argv: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        """Start a program in a VM, on a host, or on the switch when node is empty; its output is kept as a log.

        Times among its words become those of the machine's clock, and files are made there.
        """
        machine = self.host_of(node)
        folder = self.inventory.folder_of(machine)
        words = list(inside(node)) if node in self.racks.topo.host_of else []
        for before, word in zip(["", *argv], argv):
            if word == GENERATOR:
                word = f"{folder}/generator"
            elif before in TIMES:
                word = str(int(word) + self.offsets[machine])
            elif before in FILES:
                self.files.append((machine, Path(word).name))
                word = f"{folder}/{Path(word).name}"
            words.append(word)
        with open(self.out / f"{name}.log", "wb") as log:
            process = subprocess.Popen(self.reach.words(machine, words), stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def prepare(self) -> None:
        """Make bridges and VMs, set the shims, look at the clocks, until every VM reaches its receiver."""
        note("looking at the machines, building bridges and VMs")
        self.network = self.fabric.build()
        self.fabric.configure()
        self.racks.copy_generator(SWITCH)
        self.offsets = {name: self.reach.clock(name, f"{self.inventory.folder_of(name)}/generator")
                        for name in (SWITCH, *self.racks.topo.hypervisors)}
        if self.job["controller"]:
            note("starting the controller")
            self.start_controllers()
        self.warm_up()

    def collect(self) -> None:
        """Bring the files here, in this machine's time, and write what only the hosts know."""
        for machine, name in self.files:
            text = self.reach.run(machine, ["cat", f"{self.inventory.folder_of(machine)}/{name}"])
            (self.out / name).write_text(in_our_time(text, self.offsets[machine]))
        topo = self.racks.topo
        queues = self.racks.queues()
        meta: Dict[str, Any] = {
            "start_s": self.start_s,
            "devices": self.racks.devices(),
            "marking": {queue["dev"]: queue for queue in queues if queue["kind"] == "red"},
            "drops": {queue["dev"]: queue["drops"] for queue in queues if queue.get("drops")},
            "tcp": {vm: tcp_counters(self.read_network(vm, "snmp")) for vm in topo.vms},
            "clocks_ns": self.offsets,
        }
        if self.job["shim"]:
            time.sleep(STATISTICS_S)
            meta["shim"] = self.fabric.shim_counters()
            if refusals := self.fabric.refusals():
                raise Failure("the shims refused settings of this run: " + "; ".join(refusals))
            self.fabric.join_limiters()
        (self.out / "meta.json").write_text(json.dumps(meta, indent=1, sort_keys=True))

    def read_network(self, vm: str, name: str) -> str:
        """Return a file of /proc/net as a VM sees it."""
        return self.reach.run(self.racks.topo.host_of[vm], [*inside(vm), "cat", f"/proc/net/{name}"])

    def remove(self) -> None:
        """End what still runs, and take away what was made."""
        for process in [*self.processes, *self.servers, *self.controllers]:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.racks.remove()
        for machine in (SWITCH, *self.racks.topo.hypervisors):
            self.reach.close(machine)


def in_our_time(text: str, offset_ns: int) -> str:
    """Return a file of samples with the times of its first column as this machine's clock has them."""
    head, *rows = text.splitlines()
    if head.split()[:1] not in (["t_ns"], ["due_ns"]):
        return text
    moved = []
    for row in rows:
        first, space, rest = row.partition(" ")
        moved.append(f"{int(first) - offset_ns}{space}{rest}")
    return "\n".join([head, *moved, ""])


def run_on(inventory: Inventory, job: Dict[str, Any], out: Path, limit_s: float,
           progress: Optional[Progress] = None) -> Timing:
    """Run a job on an inventory's machines; raw samples and console.log are left in out.

    progress is called with the seconds since the start and a text. Raises MachineError when the job fails or limit_s
    pass; what was made on the machines is taken away then, too.
    """
    started = time.clock_gettime(time.CLOCK_MONOTONIC)

    def show(now_s: float, text: str) -> None:
        if progress is not None:
            progress(now_s - started, text)

    out.mkdir(parents=True, exist_ok=True)
    # The path of a socket has 108 bytes at most.
    with tempfile.TemporaryDirectory(prefix="sdngcc-") as sockets:
        content = {**job, "inventory": inventory.model_dump(mode="json"), "sockets": sockets}
        (out / "job.json").write_text(json.dumps(content, indent=1, sort_keys=True))
        argv = [sys.executable, "-m", "sdngcc.testbed.racks", str(out / "job.json")]
        return watch_job(argv, out, limit_s, show, leave_s=REMOVE_S)


def _leave(number: int, frame: Any) -> None:
    """Let what was made be taken away."""
    raise SystemExit(f"ended by signal {number}")


def main() -> int:
    """Run the job named by the first argument; 0 when all went well."""
    path = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, _leave)
    agent = RackAgent(json.loads(path.read_text()), path.parent)
    code = 0
    try:
        agent.main()
    except Exception as error:
        traceback.print_exc()
        print(f"sdngcc-failure {error}", flush=True)
        code = 1
    finally:
        agent.remove()
    print(f"sdngcc-exit {code}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
