# SPDX-License-Identifier: Apache-2.0
"""Explicit rates by path: what machines are told under ``by_path``, where their bridge answers HOST_PATHS.

Each port of the fabric that this controller owns tells by itself what each machine may send through it to each
destination (paths/ports.py); the machine's shim keeps to the lowest rate that any port on the way told lately.  So
controllers need not agree on anything, and who takes a port over begins with what he measures.  The teller of a path's
rate is the port, whoever owns it.  At a machine's own uplink, and at its tenant's cap, what counts is all that it
sends: its rate as a whole, told by whoever owns its bridge.

Machines of other bridges are told one rate as a whole, which explicit.py finds for all of these in the network.  Here
they take part in the sharing of ports: held by the port that bounds their rate, elsewhere with what they send.
"""

import functools
import hashlib
from typing import Callable, Mapping, NamedTuple, Optional

import numpy as np

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.capacity import Marked
from sdngcc.controller.rates.division import Notice
from sdngcc.controller.rates.paths.entries import ALL, CAPS, Entries
from sdngcc.controller.rates.paths.filling import levels
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.rates.paths.ports import MARGIN, Ports, Told
from sdngcc.controller.rates.paths.readings import BINDING, TIMEOUT_NS, Readings
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire.experimenter import PATH_LIMITED, VmReading
from sdngcc.controller.wire.message import RATE_MAX, RATE_MIN


class PathRate(NamedTuple):
    """What a port tells of one path."""

    point: Hop
    name: Prefix
    rate: int  # bytes/s
    weight_total: int  # of all machines that send by the port


class PathMarks(NamedTuple):
    """What is told of one path whose packets were marked."""

    point: Hop  # the port that most of the marks came from
    name: Prefix
    marks: int
    interval_ns: int  # time over which they were counted
    weight_total: int  # such that the steps of all paths of the machine through the port are one machine's


class Telling(NamedTuple):
    """What a machine is told."""

    pair: Pair  # one of the machine's, behind the port that what it is told of the whole is about
    vm: Hop
    whole: Optional[Notice]  # of all that it sends
    paths: tuple[PathRate, ...] = ()
    marks: tuple[PathMarks, ...] = ()  # in place of these


@functools.lru_cache(1 << 16)
def teller(point: Hop) -> int:
    """Return the number by which shims know a port: 64 bits, not 0."""
    text = point[0].to_bytes(8, "big") + point[1].to_bytes(4, "big")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") or 1


class PathRates:
    """Rates by path of all machines.

    ``owns(dpid)`` tells for which switches' ports this controller speaks, ``is_silent(dpid)`` of which no marks are
    heard any more, ``capacity(port)`` what a port carries, bytes/s, infinite if nobody knows, ``bottleneck(machine)``
    which port bounds one that is told a rate as a whole.
    """

    def __init__(
        self,
        settings: Settings,
        switches: dict[int, SwitchRecord],
        attribution: Attribution,
        relations: Relations,
        tenants: Tenants,
        owns: Callable[[int], bool],
        is_silent: Callable[[int], bool],
        capacity: Callable[[Hop], float],
        bottleneck: Callable[[Hop], Optional[Hop]],
    ) -> None:
        self._headroom = settings.headroom_percent / 100
        self.ports = Ports(self._headroom, is_silent)
        self.entries = Entries(self.ports.table, switches, attribution, relations, tenants, owns)
        self._owns = owns
        self._attribution = attribution
        self._tenants = tenants
        self._capacity = capacity
        self._bottleneck = bottleneck

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone or came anew, or a whole switch."""
        for hop in [hop for hop in self.ports.table.ports.of if hop[0] == dpid and port in (None, hop[1])]:
            self.ports.forget(hop)

    def decide(self, marks: Mapping[Hop, Marked], now_ns: int) -> list[Telling]:
        """Take the marks of a period, and the machines' readings, and return who is to be told what."""
        entries, members = self.entries, self.entries.members
        entries.follow()
        self._set_ports()
        lows = self._lows()
        readings = Readings(self.ports, self._attribution.shares)
        for place, member in members.items():
            if not member.by_path:
                member.bottleneck = self._bottleneck(place)
            readings.take(place, member, lows[place], now_ns)
        readings.give()
        wholes: dict[Hop, Notice] = {}
        paths: dict[Hop, list[PathRate]] = {}
        for told in self.ports.decide(marks, now_ns):
            weights = round(told.weights)
            if isinstance(told.peer, Prefix):
                paths.setdefault(told.vm, []).append(PathRate(told.port, told.peer, told.rate, weights))
            elif self._tells_whole(told):
                heads = members[told.vm].heads
                heads[told.port] = (told.rate, now_ns)
                rate = min(rate for rate, at_ns in heads.values() if now_ns - at_ns < TIMEOUT_NS)
                uplink = min(hop for hop in members[told.vm].whole if hop[0] == told.vm[0])
                wholes[told.vm] = Notice(told.vm, 0, 0, weights, uplink, rate)
        return [
            Telling(pair, place, wholes.get(place), tuple(paths.get(place, ())))
            for place in dict.fromkeys((*paths, *wholes))
            if (pair := members[place].pair) is not None
        ]

    def taken(self) -> dict[Hop, float]:
        """Return what machines that are told by path send through ports, bytes/s, as last read."""
        table, found = self.ports.table, dict[Hop, float]()
        rows = table.rows
        for number, sent in zip(rows.numbers.tolist(), (rows.parts * rows.sent).tolist()):
            entry = table.entries.names[number]
            if entry is not None and entry.peer != ALL:
                found[entry.port] = found.get(entry.port, 0.0) + sent
        return found

    def _tells_whole(self, told: Told) -> bool:
        """Tell whether a machine is to be told what a port says of all that it sends."""
        return self.entries.members[told.vm].by_path and self._owns(told.vm[0])

    def _set_ports(self) -> None:
        """Say what ports may carry."""
        uplinks: dict[Hop, list[VmReading]] = {}
        for place, member in self.entries.members.items():
            for hop in member.whole:
                if hop[0] == place[0] and member.vm.reading is not None:
                    uplinks.setdefault(hop, []).append(member.vm.reading)
        for hop, readings in uplinks.items():
            self.ports.set_allowed(hop, max(self._lendable(readings), RATE_MIN))
        for hop, rate in self.entries.caps().items():
            self.ports.set_allowed(hop, max(rate, RATE_MIN))
        for hop in self.ports.table.ports.of:
            if hop not in uplinks and hop[0] != CAPS:
                self.ports.set_capacity(hop, self._capacity(hop))

    def _lendable(self, readings: list[VmReading]) -> float:
        """Return what machines of an uplink may send in all, bytes/s.

        The shares E(i) add up to what an uplink carries, or to the ceilings of all.  Its queue marks nothing.  Where
        one has more than his share for others send less, a line that is full would keep these below what they are
        told: they seem to want no more, and he is told that he may have it.  What is left free lets the queue end.
        """
        total = float(sum(reading.share for reading in readings))
        lent = len(readings) > 1 and any(reading.share < (reading.max_rate or RATE_MAX) for reading in readings)
        return total * (1 - self._headroom) if lent else total

    def _lows(self) -> dict[Hop, float]:
        """Return the guarantee of each member, bytes/s, with its part of its tenant's."""
        members = self.entries.members
        lows = {
            place: float(member.vm.reading.min_rate if member.vm.reading else 0) for place, member in members.items()
        }
        guaranteed = {name: tenant.low for name, tenant in self._tenants.shares.items() if tenant.low}
        for name, low in guaranteed.items():
            places = [place for place, tenant in self.entries.tenants.items() if tenant == name and place in members]
            if places:
                weights = np.array([max(1, members[place].vm.weight) for place in places], float)
                own = np.array([lows[place] for place in places])
                high = np.maximum(own, [_can_use(members[place].vm) for place in places])
                level = levels(weights, own, high, np.zeros(1, np.intp), np.array([low]))
                lows.update(zip(places, np.clip(weights * level, own, high).tolist()))
        return lows


def _can_use(vm: VmRecord) -> float:
    """Return what a machine can use, bytes/s; RATE_MAX if that is not known."""
    assert vm.reading is not None
    held = vm.reading.sent_rate >= BINDING * vm.reading.rate or any(path.flags & PATH_LIMITED for path in vm.paths)
    return float(RATE_MAX) if held else MARGIN * vm.reading.sent_rate
