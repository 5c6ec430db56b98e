# SPDX-License-Identifier: Apache-2.0
"""Marks by the experimenter multipart of the patched ovs-vswitchd (OpenFlow 1.3).

A request names the generation of counters it saw last, a reply holds only the ports that moved since.  Told
apart:

- first reading of a port, and the first after the switch restarted (another boot id): a baseline, no marks;
- a counter that went back or changed its kinds of queue: a reset, counted, a new baseline;
- a port without any mark counter: no reading at all, never zero marks;
- more marks than packets that were sent, were dropped or wait: none (``marks_beyond_packets``), a new baseline;
- a port that the switch has not (``port_unknown``).

Wraps of the kernel's 32-bit counters are dealt with in the switch, whose counters have 64 bits.
"""

import dataclasses
from typing import Iterator, NamedTuple, Optional

from sdngcc.controller import budget
from sdngcc.controller.network.topology import Topology
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.base import MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.plausible import PassedPackets
from sdngcc.controller.wire import experimenter
from sdngcc.controller.wire.experimenter import KINDS, PortReading, Reply
from sdngcc.controller.wire.openflow import OFPP_LOCAL


@dataclasses.dataclass
class _Switch:
    generation: int = 0
    boot: int = 0
    time_ns: int = 0  # of the last reply, clock of the switch; 0: none
    ports: dict[int, PortReading] = dataclasses.field(default_factory=dict)
    passed: dict[int, PassedPackets] = dataclasses.field(default_factory=dict)
    moved_ns: dict[int, int] = dataclasses.field(default_factory=dict)  # when a port was last in a reply, same clock


class Times(NamedTuple):
    """When a switch read its counters, ns; its own clock."""

    last_ns: int  # for the reply before; 0: there was none
    now_ns: int
    elapsed_ns: int  # between the two, as far as is known
    interval_ns: int  # that marks are told of


class OpenFlowMarks(MarkSource):
    """Marks by the experimenter multipart of the patched ovs-vswitchd.

    ``period_ns`` is T_i.  An interval is never reported longer than two of them: after a longer one (a switch
    that was slow, or a controller that was held up) the marks are scaled down with it, which keeps their rate.
    """

    name = "openflow"
    asks_for = experimenter.PORT_MARKS
    semantics = Semantics.SET_HERE

    def __init__(self, period_ns: int, topology: Optional[Topology] = None) -> None:
        """Of switches in ``topology`` only marks of their ports are taken."""
        super().__init__()
        self.period_ns = period_ns
        self._topology = topology or Topology()
        self._switches: dict[int, _Switch] = {}

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "OpenFlowMarks":
        """Return a source by settings."""
        return cls(settings.period_us * 1000, topology)

    @property
    def freshness_ns(self) -> int:
        """Return 0: the switch reads its queues when it is asked."""
        return 0

    def request(self, dpid: int, xid: int) -> bytes:
        """Return a PORT_MARKS request that names the last generation seen."""
        known = self._switches.get(dpid)
        generation, boot = (known.generation, known.boot) if known else (0, 0)
        return experimenter.marks_request(xid, generation, boot)

    def take_in_steps(self, dpid: int, reply: Reply) -> Iterator[list[PortMarks]]:
        """Yield the new marks in a PORT_MARKS reply, some ports at a time, and remember its counters."""
        switch = self._switches.setdefault(dpid, _Switch())
        if switch.boot != reply.boot:
            if switch.boot:
                self.restarts += 1
            switch.boot = reply.boot
            switch.ports.clear()
            switch.passed.clear()
            switch.moved_ns.clear()
            switch.time_ns = 0
        elapsed = max(reply.time_ns - switch.time_ns, 1) if switch.time_ns else self.period_ns
        interval = min(elapsed, 2 * self.period_ns)
        last_ns, switch.generation, switch.time_ns = switch.time_ns, reply.generation, reply.time_ns
        for readings in experimenter.slices(reply, budget.SLICE_ENTRIES):
            yield self._take_readings(dpid, switch, readings, Times(last_ns, reply.time_ns, elapsed, interval))

    def _take_readings(
        self, dpid: int, switch: _Switch, readings: list[PortReading], times: Times
    ) -> list[PortMarks]:
        """Return the new marks in some of a reply's entries."""
        fresh = []
        ports = self._topology.ports.get(dpid)
        for reading in readings:
            if ports is not None and reading.port not in ports and reading.port != OFPP_LOCAL:
                self.faults["port_unknown"] += 1
                continue
            before = switch.ports.get(reading.port)
            follows = switch.moved_ns.get(reading.port) == times.last_ns != 0
            switch.ports[reading.port], switch.moved_ns[reading.port] = reading, times.now_ns
            if before is None or not reading.kinds:
                continue
            if before.kinds != reading.kinds or reading.marks < before.marks:
                self.resets += 1
                continue
            passed = switch.passed.setdefault(reading.port, PassedPackets())
            if not passed.explain(reading.marks - before.marks, _passed(before, reading)):
                self.faults["marks_beyond_packets"] += 1
            elif reading.marks > before.marks:
                new = max(1, (reading.marks - before.marks) * times.interval_ns // times.elapsed_ns)
                # A port that is in two replies on end marked before this interval and in it.
                stood = follows and before.backlog_bytes and reading.backlog_bytes
                carried = max(0, reading.bytes - before.bytes) * 1e9 / times.elapsed_ns if stood else 0.0
                fresh.append(PortMarks((dpid, reading.port), new, times.interval_ns, carried))
        return fresh

    def counted(self, dpid: int) -> bool:
        """Tell whether any port of a switch has a mark counter."""
        known = self._switches.get(dpid)
        return known is not None and any(reading.kinds for reading in known.ports.values())

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return the last reading of each port of a switch."""
        known = self._switches.get(dpid)
        return {number: _shown(reading) for number, reading in (known.ports.items() if known else ())}

    def reading(self, dpid: int, port: int) -> Optional[Reading]:
        """Return the last reading of a port."""
        known = self._switches.get(dpid)
        found = None if known is None else known.ports.get(port)
        return None if found is None else _shown(found)

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port, or a switch: its next reading is a baseline."""
        if port is None:
            self._switches.pop(dpid, None)
        elif dpid in self._switches:
            self._switches[dpid].ports.pop(port, None)
            self._switches[dpid].moved_ns.pop(port, None)
            self._switches[dpid].passed.pop(port, None)


def _shown(reading: PortReading) -> Reading:
    """Return a reading without what it does not tell."""
    return Reading(
        reading.marks if reading.kinds else None,
        tuple(name for bit, name in KINDS.items() if reading.kinds & bit),
        reading.packets,
        reading.bytes,
        reading.drops,
        reading.backlog_bytes,
        reading.backlog_packets,
    )


def _passed(before: PortReading, now: PortReading) -> int:
    """Return how many packets can have been marked between two readings: each was sent, was dropped or waits."""
    sent, dropped = ((after - earlier) % (1 << 32) if after < earlier else after - earlier
                     for earlier, after in ((before.packets, now.packets), (before.drops, now.drops)))  # fmt: skip
    return sent + dropped + before.backlog_packets + now.backlog_packets
