# SPDX-License-Identifier: Apache-2.0
"""The level of a marked port: what a machine has there by weight where all that want more are equal.

It is told beside marks (law ``sdngcc``): marks say when machines send too much, the level says which of them do.
Port p carries c_p bytes/s.  Machine i of weight w_i sends s_ip through it, s_i in all, and may send R_i, its guarantee
at least; T is the shim's period.

    d_i = infinite  if s_i + FRAME_BYTES / T >= WANTS * R_i, else s_ip     what i can use here
    L_p             solves  sum of max(low_i, min(d_i, w_i * L_p)) = c_p    low_i: its guarantee * s_ip / s_i
    L_i = the least of  w_i * L_p + s_i - s_ip                             over the marked ports on its way

*Who is told*: a machine that can use more, or sends NEAR * w_i * L_p there.  Who sends little bounds nobody, and L_i
would slow what he sends next.  It is told where R_i is above L_i, where L_i moved by MOVED since it was told, or that
was longer ago than half of the time for which the shim heeds it.

*When marks cease*, those that sent may have ceased too, and what they leave is to be had at once: for FOLLOWED_NS after
its last marks a port is looked at each LOOK_NS, and machines are told there that are below their level.

*Capacity*: what a port sent while a queue stood there all the time, as its own counter of bytes says, less what no
machine sends that is known.  Of a source without such a counter it is what is set; a port's speed is what a link can
do, not what a shaper behind it lets through, so it does not count.  Without either no level is told, nor where a port
marks and machines together send less than HALF of what it carries: then somebody else fills it.

*What no machine sends* is half of what it was a HALF_LIFE_NS after the last reading.  Counters of flows may be half a
second old, so in the first moments it is often too much; and machines that keep to levels which are too low leave no
queue, so nothing would ever say so.  Where it is right, a queue comes back, and with it a reading.
"""

import dataclasses
import math
from typing import Callable, Iterator, Mapping, Optional, Sequence

from sdngcc.controller.network.topology import Hop, forget_place
from sdngcc.controller.rates import maxmin
from sdngcc.controller.rates.capacity import FRAME_BYTES
from sdngcc.controller.rates.division import Congestion, Notice, Source, Vm
from sdngcc.controller.wire.message import RATE_MAX, RATE_MIN

WANTS = 0.9
NEAR = 0.75
MOVED = 0.05
HALF = 0.5
ABOVE = 1.01  # of L_i: so far above it R_i may be without a message
HEEDED_NS = 200_000_000  # a shim's congestion-timeout ...
HEEDED_INTERVALS = 3  # ... or so many intervals of a slow source
FOLLOWED_NS = 200_000_000
LOOK_NS = 20_000_000
RISE, FALL = 0.5, 1 / 16  # part of a reading of what a port carries that is taken, where it is more, or less
HALF_LIFE_NS = 500_000_000  # of what no machine sends, without a reading
SECOND_NS = 1_000_000_000


@dataclasses.dataclass
class _Port:
    """What is known of a port."""

    carries: float = 0.0  # as measured, bytes/s; 0: not known
    others: float = 0.0  # of that, what no known machine sends
    marked_ns: int = 0  # when marks last came
    looked_ns: int = 0
    heeded_ns: int = HEEDED_NS  # for so long shims heed a level of it

    def take(self, carried: float, sent: float) -> None:
        """Take a reading of what the port carried, and what machines sent through it."""
        part = RISE if carried > self.carries else FALL
        self.carries += (part if self.carries else 1) * (carried - self.carries)
        self.others += FALL * (max(0.0, carried - sent) - self.others)

    def doubt(self, elapsed_ns: int) -> None:
        """Believe less of what no known machine sends: there was no reading for so long."""
        self.others *= 0.5 ** (elapsed_ns / HALF_LIFE_NS)


@dataclasses.dataclass
class _Machine:
    """What is known of a machine."""

    levels: dict[Hop, tuple[float, int]] = dataclasses.field(default_factory=dict)  # of ports: L_i there, until when
    told: float = 0.0  # L_i as it was told last
    told_ns: int = 0


def with_levels(notices: Sequence[Notice], levels: Mapping[Vm, tuple[int, Hop]]) -> list[Notice]:
    """Return notices of marks with the levels, and such of levels alone, in order."""
    found = {notice.vm: notice for notice in notices}
    for vm, (level, point) in levels.items():
        alone = Notice(vm, marks=0, interval_ns=0, weight_total=0, point=point)
        found[vm] = dataclasses.replace(found.get(vm, alone), level=level)
    return [found[vm] for vm in sorted(found)]


class Levels:
    """Levels of all ports.

    ``capacity`` tells what a port carries as set, bytes/s, infinite where nothing is; ``period_ns`` is the shims'.
    """

    def __init__(self, capacity: Callable[[Hop], float], period_ns: int) -> None:
        self._capacity = capacity
        self._packet = FRAME_BYTES * SECOND_NS / period_ns
        self._ports: dict[Hop, _Port] = {}
        self._machines: dict[Vm, _Machine] = {}

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone, or a whole switch."""
        for table in (self._ports, self._machines):
            forget_place(table, dpid, port)

    def to_look_at(self, now_ns: int) -> list[Hop]:
        """Return the ports to look at now, where marks have ceased lately; what is not is forgotten in time."""
        due = []
        for point, port in self._ports.items():
            if now_ns - port.marked_ns <= FOLLOWED_NS and now_ns - port.looked_ns >= LOOK_NS:
                due.append(point)
        for vm in [vm for vm, one in self._machines.items() if now_ns - one.told_ns > SECOND_NS]:
            del self._machines[vm]
        return due

    def decide(self, congestions: Sequence[Congestion], now_ns: int) -> dict[Vm, tuple[int, Hop]]:
        """Return the machines that are to be told a level, bytes/s, and a port on its way."""
        found: dict[Vm, tuple[int, Hop]] = {}
        marked: set[Vm] = set()
        for congestion in congestions:
            for source, level, until_ns in self._levels(congestion, now_ns):
                self._machines.setdefault(source.vm, _Machine()).levels[congestion.point] = (level, until_ns)
                found[source.vm] = (source.limit, congestion.point)
                marked.update((source.vm,) if congestion.marks else ())
        told = {}
        for vm, (limit, here) in sorted(found.items()):
            machine = self._machines[vm]
            machine.levels = {point: one for point, one in machine.levels.items() if one[1] >= now_ns}
            level = min(one[0] for one in machine.levels.values())
            rate = round(min(max(level, RATE_MIN), RATE_MAX))
            moved = abs(level - machine.told) > MOVED * machine.told
            late = 2 * (now_ns - machine.told_ns) > self._ports[here].heeded_ns
            if (limit > ABOVE * rate or moved or late) and (vm in marked or limit < rate):
                machine.told, machine.told_ns = level, now_ns
                told[vm] = (rate, here)
        return told

    def _levels(self, congestion: Congestion, now_ns: int) -> Iterator[tuple[Source, float, int]]:
        """Return the machines that are near a port's level with L_i there, and until when it holds."""
        port = self._ports.setdefault(congestion.point, _Port())
        sent = float(sum(source.sent_rate for source in congestion.sources))
        elapsed_ns, port.looked_ns = now_ns - port.looked_ns, now_ns
        if congestion.marks:
            port.marked_ns = now_ns
            port.heeded_ns = max(HEEDED_NS, HEEDED_INTERVALS * congestion.interval_ns)
        if congestion.carried:
            port.take(congestion.carried, sent)
        else:
            port.doubt(elapsed_ns)
        left = min(port.carries - port.others or math.inf, self._capacity(congestion.point))
        if not math.isfinite(left) or (congestion.marks and sent < HALF * left):
            return
        unit = self._unit(congestion, left)
        for source in congestion.sources:
            near = self._wants(source) or source.sent_rate >= NEAR * source.weight * unit
            if math.isfinite(unit) and near:
                level = source.weight * unit + max(0, source.all_sent - source.sent_rate)
                yield source, level, now_ns + port.heeded_ns

    def _wants(self, source: Source) -> bool:
        return source.sent_rate > 0 and source.all_sent + self._packet >= WANTS * source.limit

    def _unit(self, congestion: Congestion, capacity: float) -> float:
        """Return L_p, bytes/s for a unit of weight; infinite if all can have what they can use."""
        claims = {}
        for source in congestion.sources:
            part = source.sent_rate / source.all_sent if source.all_sent else 0.0
            high = math.inf if self._wants(source) else source.sent_rate
            claims[source.vm] = maxmin.Claim(
                {congestion.point: 1.0}, source.weight, source.guarantee * part, high
            )
        got = maxmin.allot(claims, {congestion.point: capacity})
        return min((one.level for one in got.values()), default=math.inf)
