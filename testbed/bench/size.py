# SPDX-License-Identifier: Apache-2.0
"""How long the controller is busy at a stretch in a large network: the engine in process, switches that never answer.

The network is a leaf-spine one: hypervisor bridges with VMs below leaves, leaves below all spines, and VMs that each
send to five others of their VLAN. Each row is something that happens to it. What is taken is the longest CPU time for
which one call of the engine holds everything else up, the CPU time of all calls until nothing is left to be done, and
the messages that leave. Garbage collection is part of it (controller/garbage.py); looking through all memory has a row
of its own, for it happens when that has grown by half.
"""

import argparse
import dataclasses
import functools
import json
import pathlib
import random
import struct
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from sdngcc.controller.cluster.owner import Owner
from sdngcc.controller.engine import Engine
from sdngcc.controller.garbage import Collector
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.wire import experimenter, packets

PORTS = 48
TARGETS = 5  # of each VM
NETWORK_VMS = 20  # of one tenant network
TENANT_VMS = 20
BENEATH = 5  # of the VMs one where others forward: a pair's way over all spines takes much memory there
_SENT = 1_000_000  # bytes/s of each VM
_HOUSEKEEPING_S = 2.5
_FIRST_VM_PORT = 3

Hop = Tuple[int, int]


@dataclasses.dataclass
class Row:
    """What one event cost; times in ms."""

    name: str
    longest_ms: float
    total_ms: float
    calls: int
    messages: int


class Site:
    """A network of ``switches`` switches with ``vms`` VMs, around an engine; ``more`` are further settings."""

    def __init__(
        self, folder: pathlib.Path, switches: int, vms: int, owner: Optional[Owner] = None, **more: Any
    ) -> None:
        spines = max(2, switches // 50)
        leaves = max(2, switches // 25)
        self.spines = [0x2000 + number for number in range(spines)]
        self.leaves = [0x1000 + number for number in range(leaves)]
        self.bridges = [1 + number for number in range(switches - spines - leaves)]
        self.links: List[Tuple[Hop, Hop]] = []
        for number, bridge in enumerate(self.bridges):
            self.links.append(((bridge, 1), (self.leaves[number % leaves], 1 + number // leaves)))
        for up, spine in enumerate(self.spines):
            self.links += [((leaf, PORTS - up), (spine, 1 + down)) for down, leaf in enumerate(self.leaves)]
        self.places = [
            (self.bridges[number % len(self.bridges)], _FIRST_VM_PORT + number // len(self.bridges))
            for number in range(vms)
        ]
        self.messages = 0
        self.collector = Collector()
        self.calls: List[float] = []
        self._paused_ns: Optional[int] = None
        self._skipped_ns = 0
        key = folder / "key"
        key.touch(0o600)
        key.write_text("00" * 16)
        settings = Settings(
            key_file=key,
            settle_ms=0,
            lldp_period_ms=60_000,
            relation_idle_s=3600,
            packet_ins_a_second=1_000_000,
            switch_packet_ins_a_second=1_000_000,
            **more,
        )
        self.engine = Engine(settings, self.clock, epoch=1, owner=owner)

    def clock(self) -> int:
        """Return the site's time, ns: the machine's, less what pauses took."""
        return (self._paused_ns or time.monotonic_ns()) - self._skipped_ns

    def pause(self) -> None:
        """Let time stand still while the network is built."""
        self._paused_ns = time.monotonic_ns()

    def go_on(self) -> None:
        """Let time pass again."""
        assert self._paused_ns is not None
        self._skipped_ns += time.monotonic_ns() - self._paused_ns
        self._paused_ns = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the engine and note how long it took."""
        before = time.thread_time()
        result = function(*arguments)
        self.collector.run()
        self.calls.append(time.thread_time() - before)
        self.messages += len(self.engine.outbox.drain())
        return result

    def work_off(self, least_s: float = 0.0) -> None:
        """Call the engine as its clock asks for until nothing is left to be done, at least for a time."""
        until = time.monotonic() + least_s
        while time.monotonic() < until or self._backlog():
            wake = self.call(self.engine.tick)
            if not self._backlog():
                time.sleep(max(0.0, min((wake - self.clock()) / 1e9, until - time.monotonic())))

    def _backlog(self) -> int:
        return len(self.engine.backlog)

    def row(self, name: str, *steps: Callable[[], Any], least_s: float = 0.0) -> Row:
        """Measure an event: its steps one after the other, and the ticks that finish what they began."""
        self.calls.clear()
        self.messages = 0
        for step in steps:
            self.call(step)
        self.work_off(least_s)
        longest, total = max(self.calls), sum(self.calls)
        return Row(name, longest * 1e3, total * 1e3, len(self.calls), self.messages)

    # The network

    def connect(self, dpid: int) -> None:
        """Let a switch connect."""
        ports = {number: (f"p{number}", struct.pack("!IH", dpid, number), True) for number in range(1, PORTS + 1)}
        self.engine.switch_up(dpid, ports)

    def find_links(self, *only: int) -> List[Callable[[], None]]:
        """Return the packet-ins that show links: all, or those of some switches, one a direction."""
        key = self.engine.discovery.key
        found: List[Callable[[], None]] = []
        for ends in self.links:
            if not only or ends[0][0] in only or ends[1][0] in only:
                for near, far in (ends, ends[::-1]):
                    frame = packets.lldp_frame(*near, key)
                    found.append(functools.partial(self.engine.packet_in, *far, frame))
        return found

    def answer_state(self, dpid: int) -> None:
        """Let a bridge tell its machines' state."""
        switch = self.engine.switches[dpid]
        readings = [
            experimenter.VmReading(port, 1, 1, experimenter.VM_ACTIVE, 10**8, 10**8, 0, 0, _SENT, *[0] * 6)
            for port in self._vm_ports.get(dpid, ())
        ]
        entries = [experimenter.encode_vm_state(reading) for reading in readings]
        reply = experimenter.encode_reply(switch.state_xid, experimenter.VM_STATE, 1, 1, self.clock(), entries)
        self.engine.multipart(dpid, reply)

    def build(self) -> None:
        """Connect all switches, find links and VMs, and let each VM talk to its destinations."""
        self._vm_ports: Dict[int, List[int]] = {}
        for dpid, port in self.places:
            self._vm_ports.setdefault(dpid, []).append(port)
        self.pause()
        for dpid in [*self.bridges, *self.leaves, *self.spines]:
            self.connect(dpid)
        for show in self.find_links():
            show()
        for dpid in self.bridges:
            self.answer_state(dpid)
        count = max(1, len(self.places) // NETWORK_VMS)
        self.engine.set_vlans({(dpid, f"p{port}"): 1 + n % count for n, (dpid, port) in enumerate(self.places)})
        chance = random.Random(1)
        self.pairs = [
            (number, target)
            for number in range(len(self.places))
            for target in chance.sample([n for n in range(number % count, len(self.places), count) if n != number],
                                        TARGETS)
        ]  # fmt: skip
        # Switches settle while there are no pairs to look through; nothing is asked that nobody would answer.
        self.call(self.engine.timers.run, self.clock())
        while self._backlog():
            self.call(self.engine.backlog.run)
        self.talk()
        self.go_on()

    def talk(self) -> None:
        """Let each VM be heard, and send one packet to each of its destinations that it has no flow to."""
        paused = self._paused_ns is not None
        if not paused:
            self.pause()
        for number, place in enumerate(self.places):
            if not self.knows(number):
                self.engine.packet_in(*place, frame(number, number))
        for source, target in self.pairs:
            if not self.engine.flows.has_edge((mac(source), mac(target))):
                self.engine.packet_in(*self.places[source], frame(source, target))
                self.collector.run()
        self.engine.outbox.drain()
        if not paused:
            self.go_on()

    def knows(self, number: int) -> bool:
        """Tell whether a VM was heard."""
        return mac(number) in self.engine.relations.hosts

    def port_down(self, end: Hop) -> None:
        """Let a port go down."""
        self.engine.port_changed(*end, f"p{end[1]}", struct.pack("!IH", *end), False)

    def port_up(self, end: Hop) -> None:
        """Let a port come up."""
        self.engine.port_changed(*end, f"p{end[1]}", struct.pack("!IH", *end), True)

    def busiest(self) -> Hop:
        """Return the port of the first spine that leads to the first leaf, where traffic of many VMs leaves."""
        return self.spines[0], 1

    def round(self, marks: int) -> None:
        """Let marks come at one port."""
        self.engine.marked([PortMarks(self.busiest(), marks, 5_000_000)], self.clock())


def mac(number: int) -> bytes:
    """Return a VM's Ethernet address."""
    return b"\x02\x00" + struct.pack("!I", number)


def _ip(number: int) -> bytes:
    return b"\x0a" + struct.pack("!I", number)[1:]


def frame(source: int, target: int) -> bytes:
    """Return an IPv4 packet from one VM to another."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, 17, 0) + _ip(source) + _ip(target)
    return mac(target) + mac(source) + b"\x08\x00" + head + bytes(8)


def question(source: int, target: int) -> bytes:
    """Return the broadcast by which a VM asks for an address nobody has."""
    body = b"\x00\x01\x08\x00\x06\x04\x00\x01" + mac(source) + _ip(source) + bytes(6) + _ip(target)
    return b"\xff" * 6 + mac(source) + b"\x08\x06" + body


def measure(switches: int, vms: int, folder: pathlib.Path) -> List[Row]:
    """Build the network and return its rows."""
    site = Site(folder, switches, vms)
    site.build()
    site.work_off(1.0)
    engine, leaf = site.engine, site.leaves[0]
    link = next(ends for ends in site.links if ends == ((leaf, PORTS), (site.spines[0], 1)))
    source, known = 0, set(site.pairs)
    stranger = next(n for n in range(vms // NETWORK_VMS, vms, vms // NETWORK_VMS) if (source, n) not in known)
    rows = [site.row("garbage collection, all of it", site.collector.run_whole)]

    def add(name: str, *steps: Callable[[], Any], least_s: float = 0.0) -> None:
        rows.append(site.row(name, *steps, least_s=least_s))
        site.talk()

    add("broadcast in a VLAN of 20 VMs", lambda: engine.packet_in(*site.places[source], question(source, 0xFFFFFF)))
    host = (site.bridges[0], PORTS - 1)
    add("broadcast to all ports without a tag", lambda: engine.packet_in(*host, question(0xFFFF00, 0xFFFFFF)))

    def pair() -> None:
        engine.packet_in(*site.places[source], frame(source, stranger))
        engine.attribution.through(site.busiest())

    engine.attribution.through(site.busiest())
    add("new pair, attribution after it", pair)

    def answers() -> List[Callable[[], None]]:
        machines = engine.attribution.machines_behind(site.busiest())
        return [functools.partial(site.answer_state, dpid) for dpid in sorted({place[0] for place in machines})]

    add("sdngcc round, marks at one port", lambda: site.round(1000), *answers())
    add("housekeeping, 2.5 s of ticks", least_s=_HOUSEKEEPING_S)
    add("link down", lambda: site.port_down(link[0]), lambda: site.port_down(link[1]))
    add("link up", lambda: site.port_up(link[0]), lambda: site.port_up(link[1]), *site.find_links(leaf, link[1][0]))
    add("leaf disconnects", lambda: engine.switch_down(leaf))
    add("leaf reconnects", lambda: site.connect(leaf), *site.find_links(leaf))
    explicit = engine.rounds.explicit
    add("maxmin: one decision", lambda: explicit.decide({}, site.clock()))
    machines = [vm for switch in engine.switches.values() for vm in switch.vms.values()]
    names = {(vm.place[0], vm.name): f"tenant{number % (vms // TENANT_VMS)}" for number, vm in enumerate(machines)}
    engine.tenants.set_names(names)
    engine.tenants.set_policies({name: {"weight": 1} for name in names.values()})
    add(f"maxmin: the same, tenants of {TENANT_VMS} VMs", lambda: explicit.decide({}, site.clock()))
    from sdngcc.testbed.bench import watched  # which has its network from here

    return rows + watched.rows(site)


def report(rows: List[Row]) -> None:
    """Print the rows."""
    print(f"{'':36} {'longest, ms':>12} {'in all, ms':>12} {'messages':>9}")
    for row in rows:
        print(f"{row.name:36} {row.longest_ms:12.1f} {row.total_ms:12.1f} {row.messages:9}")


def main() -> None:
    """Measure, print a table, write results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--switches", type=int, default=1000)
    parser.add_argument("--vms", type=int, default=20_000)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    from sdngcc.testbed.bench import beneath  # which has its network from here

    with tempfile.TemporaryDirectory() as name:
        rows = measure(chosen.switches, chosen.vms, pathlib.Path(name))
        rows += beneath.measure(chosen.switches, chosen.vms // BENEATH, pathlib.Path(name))
    (chosen.out / "size.json").write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    report(rows)


if __name__ == "__main__":
    main()
