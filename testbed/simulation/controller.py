# SPDX-License-Identifier: Apache-2.0
"""The controller's decisions in a simulation: what ports and shims counted goes in, messages to shims come out.

The objects that decide are the controller's own: marks are read by sources/openflow.py, divided by division.py, levels
are levels.py's, explicit rates explicit.py's. What they usually have from OpenFlow they have from the simulator here:
counters of ports, state of VMs, and which part of what a VM sends goes through a port, which attribution.py would work
out of counters of conversations and of the network's graph. Each switch is a datapath, each VM a port of its host's.

Left out is what is the wire's and the clock's: polls, rounds, deadlines. All that a period shows is known at once, at
its end, and what follows is on its way without delay; the simulators add theirs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, cast

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import Answer, SwitchRecord, VmRecord
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.capacity import Marked
from sdngcc.controller.rates.division import Congestion, Divider, Notice, Source
from sdngcc.controller.rates.explicit import ExplicitRates
from sdngcc.controller.rates.levels import Levels, with_levels
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.openflow import OpenFlowMarks
from sdngcc.controller.wire.experimenter import PORT_MARKS, VM_ACTIVE, Reply
from sdngcc.controller.wire.message import TYPE_LEVEL, TYPE_MARKS, TYPE_RATE, Message, encode_v1

# Entries of the replies, as the patched ovs-vswitchd writes them (docs/protocol.md).
MARKS_ENTRY = struct.Struct("!IIQQQQII")
STATE_ENTRY = struct.Struct("!IIIIQQQQQQQQIIQ")
RED = 1  # kind of queue
SENDER, EPOCH = 77, 1000
# Datapaths of hosts; a switch's is its number.
HOSTS = 1 << 32


@dataclass(frozen=True)
class PortCount:
    """What a port with fresh marks counted since the start."""

    point: Hop
    marks: int
    packets: int
    bytes: int
    drops: int
    backlog_bytes: int
    backlog_packets: int


@dataclass(frozen=True)
class VmState:
    """What a shim tells of a VM; rates in bytes/s."""

    number: int
    weight: int
    active: bool
    rate: int
    share: int
    sent_rate: int
    tx_bytes: int
    tx_packets: int
    drops: int


@dataclass
class Step:
    """What a period showed."""

    time_ns: int
    ports: List[PortCount] = field(default_factory=list)
    """With fresh marks."""
    parts: Dict[Hop, Dict[int, float]] = field(default_factory=dict)
    """Of what each VM sends, 0 to 1, through ports that marked lately."""
    vms: List[VmState] = field(default_factory=list)
    """That ever sent."""


class _Measured:
    """Attribution by what the simulator measured: the part that ExplicitRates asks for."""

    def __init__(self) -> None:
        self._routes: Dict[Hop, Dict[Hop, float]] = {}

    def take(self, parts: Mapping[Hop, Mapping[int, float]], places: Sequence[Hop]) -> None:
        """Take which part of what each VM sends goes through which port."""
        self._routes = {}
        for point, shares in parts.items():
            for vm, part in shares.items():
                self._routes.setdefault(places[vm], {})[point] = part

    def routes(self, place: Hop) -> Dict[Hop, float]:
        """Return the ports that a VM's packets leave by, each with the part of its bytes."""
        return self._routes.get(place, {})


class Decisions:
    """The controller of a simulated network.

    ``places`` are the VMs', as (datapath of the host, port); ``addresses`` theirs, 16 bytes each, and ``limits`` their
    guarantees and ceilings, bytes/s. decision is "marks" or "maxmin". ``capacities`` has all ports that can mark, with
    what their switches would say, bytes/s. ``start_ns``, above 0, is a period before the first step.
    """

    def __init__(self, decision: str, period_ns: int, division: str, levels: bool, shim_period_ns: int, key: bytes,
                 places: Sequence[Hop], addresses: Sequence[bytes], capacities: Mapping[Hop, int],
                 limits: Sequence[Tuple[int, int]], start_ns: int) -> None:
        settings = Settings(decision=cast(Any, decision), division=cast(Any, division), period_us=period_ns // 1000,
                            notify=False)
        self._places, self._addresses, self._key = list(places), list(addresses), key
        self._numbers = {place: number for number, place in enumerate(places)}
        self._limits = list(limits)
        self._sequence = 0
        self._marks = OpenFlowMarks(period_ns)
        self._divider = Divider(division)
        self._hosts: Dict[int, SwitchRecord] = {}
        self._measured = _Measured()
        self._records: List[VmRecord] = []
        for number, (dpid, port) in enumerate(places):
            host = self._hosts.setdefault(dpid, SwitchRecord(dpid, 0, hypervisor=True))
            record = host.vms[port] = VmRecord((dpid, port), str(number), str(number))
            self._records.append(record)
        self._explicit = ExplicitRates(settings, self._hosts, cast(Attribution, self._measured), lambda dpid: True)
        self._switches: Dict[int, List[bytes]] = {}
        for point, capacity in sorted(capacities.items()):
            self._explicit.set_speed(point, capacity)
            self._switches.setdefault(point[0], []).append(MARKS_ENTRY.pack(point[1], RED, 0, 0, 0, 0, 0, 0))
        # The first reading of a port is where counting begins.
        for dpid, entries in self._switches.items():
            self._marks.take(dpid, Reply(PORT_MARKS, 1, 1, start_ns, entries))
        self._levels: Optional[Levels] = None
        if decision == "marks" and levels:
            self._levels = Levels(self._explicit.set_capacity, shim_period_ns)
        self._decision = decision
        self.told = 0
        """Messages sent."""
        self.marks = 0
        """Marks that were divided."""

    def _read(self, step: Step) -> None:
        """Give the records what their shims tell."""
        for state in step.vms:
            dpid, port = self._places[state.number]
            low, high = self._limits[state.number]
            entry = STATE_ENTRY.pack(port, 0, state.weight, VM_ACTIVE if state.active else 0, state.rate, state.share,
                                     low, high, state.sent_rate, state.tx_bytes, state.tx_packets, state.drops, 0, 0, 0)
            record = self._records[state.number]
            record.answer, record.row = Answer(entry, step.time_ns, step.time_ns), 0

    def _fresh(self, step: Step) -> Dict[Hop, Tuple[int, int, float]]:
        """Return new marks of ports, with the time over which they were counted and what the port carried."""
        entries: Dict[int, List[bytes]] = {dpid: [] for dpid in self._switches}
        for one in step.ports:
            entries.setdefault(one.point[0], []).append(MARKS_ENTRY.pack(
                one.point[1], RED, one.marks, one.packets, one.bytes, one.drops, min(one.backlog_bytes, 2**32 - 1),
                one.backlog_packets))
        found = {}
        for dpid, packed in entries.items():
            for fresh in self._marks.take(dpid, Reply(PORT_MARKS, 1, 1, step.time_ns, packed)):
                found[fresh.point] = (fresh.marks, fresh.interval_ns, fresh.carried)
        return found

    def _congestion(self, point: Hop, fresh: Tuple[int, int, float], parts: Mapping[int, float]) -> Congestion:
        sources = []
        for number in sorted(parts, key=lambda one: self._places[one]):
            vm = self._records[number]
            if vm.reading is not None:
                through = round(vm.sent_rate * parts[number])
                rate = vm.sent_rate if self._divider.division == "sent" else through
                sources.append(Source(vm.place, rate, vm.weight, vm.active, vm.sent_rate, vm.reading.rate,
                                      vm.reading.min_rate))
        marks, interval_ns, carried = fresh
        return Congestion(point, marks, interval_ns, sources, carried)

    def decide(self, step: Step) -> List[Tuple[int, bytes]]:
        """Return what VMs are told after a period: the number of each and a message, 96 bytes."""
        self._read(step)
        fresh = self._fresh(step)
        self.marks += sum(marks for marks, _, _ in fresh.values())
        if self._decision == "maxmin":
            self._measured.take(step.parts, self._places)
            marked = {point: Marked(marks, interval_ns) for point, (marks, interval_ns, _) in fresh.items()}
            return self._messages(self._explicit.decide(marked, step.time_ns))
        looked = self._levels.to_look_at(step.time_ns) if self._levels else []
        congestions = [self._congestion(point, fresh.get(point, (0, 0, 0.0)), step.parts.get(point, {}))
                       for point in sorted({*fresh, *looked})]
        notices = self._divider.notices([one for one in congestions if one.marks])
        if self._levels:
            notices = with_levels(notices, self._levels.decide(congestions, step.time_ns))
        return self._messages(notices)

    def _messages(self, notices: Sequence[Notice]) -> List[Tuple[int, bytes]]:
        """Return the messages of notices; a level has one of its own."""
        told = []
        for notice in notices:
            kinds = [(TYPE_LEVEL, notice.level, 0)] if notice.level else []
            if notice.rate or notice.marks:
                kinds.append((TYPE_RATE if notice.rate else TYPE_MARKS, notice.rate, notice.marks))
            for kind, rate, marks in kinds:
                self._sequence += 1
                number = self._numbers[notice.vm]
                told.append((number, encode_v1(Message(
                    vm=self._addresses[number], peer=self._addresses[number], marks=marks,
                    interval_ns=notice.interval_ns if marks else 0, rate=rate, weight_total=notice.weight_total,
                    point_datapath=notice.point[0], point_port=notice.point[1], sender=SENDER, epoch=EPOCH,
                    sequence=self._sequence, type=kind), self._key)))
        self.told += len(told)
        return told
