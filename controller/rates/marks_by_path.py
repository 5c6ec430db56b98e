# SPDX-License-Identifier: Apache-2.0
"""Marks by path: under ``decision: marks`` with ``by_path``, what a port marks is told of what goes through that port.

Marks are divided by the bytes that each part of what machines send brings to the port.  A *part* is what goes to a
destination or an aggregate of them (paths/naming.py); of machines whose bridge does not answer HOST_PATHS it is all.
A shim that is told marks of a part cuts that alone.

Shims raise each part that was cut by a step in proportion to w / W.  A machine of weight w would have a step for each
of its parts behind the port, and so as many shares as it has destinations there.  Of each it is told

    W * X / x    W: the weights of all machines that send by the port, X: what this one sends by it, x: its largest part

Where cuts, in proportion to a part's x_e, and steps hold each other, a greedy part has x_e = s * w * x / (W * X), so
that X = s * w / W with x_e = x: by weight, whatever the number of parts, and however small others are.  Of greedy parts
of one machine the larger are cut more, so they become equal.  Messages have whole numbers: what rounding adds to steps
the next messages take off.
"""

import math
from typing import Mapping, NamedTuple, Optional, Sequence

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.topology import Hop, forget_place
from sdngcc.controller.rates.batch import PathMarks, Telling, teller
from sdngcc.controller.rates.division import Congestion, Notice, portions, weight_total
from sdngcc.controller.rates.paths.naming import REST, Prefix, names
from sdngcc.controller.wire.experimenter import PathReading, path_readings
from sdngcc.controller.wire.message import SCOPE_DESTINATION

WHOLE = Prefix(b"", 0)  # all that a machine sends
Part = tuple[Hop, Prefix]  # of what a machine sends


class _Share(NamedTuple):
    """What a port tells of a part."""

    congestion: Congestion
    marks: int
    weight_total: int


class _Parts:
    """What one machine sends, by name; ``paths`` are those of destinations in its shim."""

    def __init__(
        self, vm: VmRecord, paths: Sequence[PathReading], attribution: Attribution, relations: Relations
    ) -> None:
        place = vm.place
        self.ways = attribution.ways(place)
        self._shares = attribution.shares(place)
        self._of: dict[Prefix, dict[Pair, float]] = {}  # pairs, each with the part of it that has the name
        addresses = {pair: _addresses(pair, relations) for pair in self.ways}
        known = names({one: frozenset(self.ways[pair]) for pair, some in addresses.items() for one in some})
        for pair, some in addresses.items():
            for name in [known[one] for one in some] or [REST]:
                pairs = self._of.setdefault(name, {})
                pairs[pair] = pairs.get(pair, 0.0) + 1 / max(1, len(some))
        self._sent = self._rates(vm, paths)

    def through(self, point: Hop) -> dict[Prefix, float]:
        """Return what goes through a port, bytes/s."""
        found: dict[Prefix, float] = {}
        for name, pairs in self._of.items():
            crossing = {pair: part for pair, part in pairs.items() if point in self.ways[pair]}
            if crossing:
                total = sum(self._weight(pair, part) for pair, part in pairs.items())
                inside = sum(self._weight(pair, part) * self.ways[pair][point] for pair, part in crossing.items())
                found[name] = self._sent[name] * inside / total if total > 0 else 0.0
        return found

    def _weight(self, pair: Pair, part: float) -> float:
        return part * self._shares.get(pair, 0.0)

    def _rates(self, vm: VmRecord, paths: Sequence[PathReading]) -> dict[Prefix, float]:
        """Return what goes to each name, bytes/s: as its path counts; of the rest by proportion as switches count."""
        counted: dict[Prefix, float] = {}
        for path in paths:
            name = self._name(Prefix(path.prefix, path.bits))
            if name in self._of:
                counted[name] = counted.get(name, 0.0) + path.sent_rate
        parts = {name: sum(self._weight(*one) for one in pairs.items()) for name, pairs in self._of.items()}
        left = max(0.0, vm.sent_rate - sum(counted.values()))
        total = sum(part for name, part in parts.items() if name not in counted)
        return {name: counted.get(name, left * part / total if total > 0 else 0.0) for name, part in parts.items()}

    def _name(self, prefix: Prefix) -> Prefix:
        """Return the name that a path in a shim belongs to: its own or the longest around it."""
        if prefix in self._of or not prefix.bits:
            return prefix
        around = [name for name in self._of if 0 < name.bits < prefix.bits and name.covers(prefix.first)]
        return max(around, key=lambda name: name.bits, default=prefix)


def _addresses(pair: Pair, relations: Relations) -> list[bytes]:
    host = relations.hosts.get(pair[1])
    return list(host.addresses) if host else []


class PathDivider:
    """Divides marks by path; remembers what rounding owes to whom.

    ``devices``: machines' paths are known by the kernel's index of their device, not by OpenFlow port.
    """

    def __init__(
        self,
        switches: Mapping[int, SwitchRecord],
        attribution: Attribution,
        relations: Relations,
        devices: bool = False,
    ) -> None:
        self._switches = switches
        self._attribution = attribution
        self._relations = relations
        self._devices = devices
        # By bridge, its entries of HOST_PATHS as last read, and those of destinations by machine.
        self._read: dict[int, tuple[bytes, dict[int, list[PathReading]]]] = {}
        self.points: dict[int, Hop] = {}  # ports that told something, by the numbers that shims know them by
        self._owed: dict[Hop, dict[Part, float]] = {}  # marks
        self._owed_steps: dict[Hop, dict[Part, float]] = {}

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Drop what rounding owes at a port that is gone, or at a whole switch, and what that told."""
        self._read.pop(dpid, None)
        for owed in (self._owed, self._owed_steps):
            forget_place(owed, dpid, port)

    def tellings(self, congestions: Sequence[Congestion]) -> list[Telling]:
        """Divide every port's marks; return what each machine that got any is told, in order.

        Of a part that several ports marked one entry has all marks, by the port that most came from.
        """
        machines: dict[Hop, _Parts] = {}
        shares: dict[Part, list[_Share]] = {}
        for congestion in congestions:
            for part, share in self._divide(congestion, machines).items():
                shares.setdefault(part, []).append(share)
        wholes: dict[Hop, Notice] = {}
        paths: dict[Hop, list[PathMarks]] = {}
        for (place, name), some in sorted(shares.items()):
            marks = sum(share.marks for share in some)
            congestion, _, weights = max(some, key=lambda share: (share.marks, share.congestion.point))
            if name == WHOLE:
                wholes[place] = Notice(place, marks, congestion.interval_ns, weights, congestion.point)
            else:
                said = PathMarks(congestion.point, name, marks, congestion.interval_ns, weights)
                paths.setdefault(place, []).append(said)
                self.points[teller(congestion.point)] = congestion.point
        return [
            Telling(min(self._attribution.ways(place)), place, wholes.get(place), marks=tuple(paths.get(place, ())))
            for place in dict.fromkeys((*paths, *wholes))
        ]

    def _divide(self, congestion: Congestion, machines: dict[Hop, _Parts]) -> dict[Part, _Share]:
        """Return what a port tells of parts; those without marks are not there."""
        rates: dict[Part, float] = {}
        weights = weight_total(congestion.sources)
        totals: dict[Part, float] = {}
        for source in congestion.sources:
            place = source.vm
            through = {WHOLE: float(source.sent_rate)}
            if self._switches[place[0]].paths:
                if place not in machines:
                    vm = self._switches[place[0]].vms[place[1]]
                    machines[place] = _Parts(vm, self._paths(place), self._attribution, self._relations)
                through = machines[place].through(congestion.point)
            most, total = max(through.values()), sum(through.values())
            for name, rate in through.items():
                rates[place, name] = rate
                totals[place, name] = weights * (total / most if most > 0 else len(through))
        point = congestion.point
        given, self._owed[point] = portions(congestion.marks, rates, self._owed.get(point, {}))
        owed = self._owed_steps.get(point, {})
        self._owed_steps[point] = {part: owed.get(part, 0.0) for part in rates}
        return {
            part: _Share(congestion, marks, self._whole(point, part, totals[part]))
            for part, marks in given.items()
            if marks > 0
        }

    def _paths(self, place: Hop) -> Sequence[PathReading]:
        """Return what a bridge told last of a machine's paths to destinations."""
        entries = self._switches[place[0]].path_entries
        if place[0] not in self._read or self._read[place[0]][0] is not entries:
            found: dict[int, list[PathReading]] = {}
            for reading in path_readings(entries):
                if reading.scope == SCOPE_DESTINATION:
                    found.setdefault(reading.vm if self._devices else reading.port, []).append(reading)
            self._read[place[0]] = (entries, found)
        return self._read[place[0]][1].get(place[1], ())

    def _whole(self, point: Hop, part: Part, total: float) -> int:
        """Return a sum of weights in whole numbers, so that steps, in proportion to 1 / W, are as due over time."""
        owed = self._owed_steps[point]
        below = max(1, math.floor(total))
        due = 1 / total + owed[part]
        chosen = below if 2 * due >= 1 / below + 1 / (below + 1) else below + 1
        owed[part] = due - 1 / chosen
        return chosen
