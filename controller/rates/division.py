# SPDX-License-Identifier: Apache-2.0
"""The marks of a congested port divided among the virtual machines that sent through it.

With M new marks and sources i that sent s_i bytes/s through the port, ``bytes`` gives m_i = M * s_i / sum(s),
the default: equal marks make the cut additive, and additive increase with additive decrease keeps whatever
difference it starts from.  While no rate is known the active sources share equally.  ``sent`` is the same with
all bytes a source sent, wherever to; it is there for comparison.  ``equal`` gives m_i = M / n, the paper's
literal form (Algorithm 4, line 18).  Marks are whole numbers, so each m_i is rounded such that they add up to M
exactly, and what rounding took from a source or gave it is carried to the port's next division: over time
nobody gains by it.

Where marks are counted behind the port, by a receiver or by the next switch, what the port dropped was not seen.
Sources that send sum(s) to a port of capacity C lose all but C of it, and each of those packets would have been marked,
too: M becomes M * max(1, sum(s) / C), which is what a count before the drop shows.
"""

import dataclasses
import math
from typing import Any, Iterable, Mapping, Sequence, TypeVar

from sdngcc.controller.network.topology import Hop

MARKS_MOST = 2**32 - 1  # in one message
Vm = Hop  # a virtual machine is known by its (hypervisor bridge, port)
Who = TypeVar("Who", bound="tuple[Any, ...]")


@dataclasses.dataclass(frozen=True)
class Source:
    """A virtual machine that sends through a port."""

    vm: Vm
    sent_rate: int = 0  # bytes/s over its last period, through the port
    weight: int = 1
    active: bool = True
    all_sent: int = 0  # bytes/s over its last period, wherever to
    limit: int = 0  # bytes/s that it may send
    guarantee: int = 0  # bytes/s


@dataclasses.dataclass(frozen=True)
class Congestion:
    """New marks of one port and the machines behind them."""

    point: Hop
    marks: int
    interval_ns: int  # time over which they were counted
    sources: Sequence[Source]
    carried: float = 0.0  # bytes/s that the port sent meanwhile, if a queue stood there all the time; 0: not known


@dataclasses.dataclass(frozen=True)
class Notice:
    """What one machine is told after one period."""

    vm: Vm
    marks: int  # from all its congested ports; with a rate, 0
    interval_ns: int  # of the point below
    weight_total: int  # of the sources sharing the point below
    point: Hop  # the port most of the marks came from; with a rate, the one it is shared at
    rate: int = 0  # explicit, bytes/s; 0: none
    level: int = 0  # beside marks: what it has by weight at a port, bytes/s; 0: not told


def marks_before_drops(marks: int, rates: Iterable[float], capacity: float) -> int:
    """Return what a count behind a port of ``capacity`` would have been before it, when this was sent through it.

    Rates and capacity are bytes/s, of a port whose capacity is not known infinite; without rates, marks are what they
    are.  A hypervisor's bridge tells the rates, so however much it claims, no more is added than a message can tell.
    """
    return max(marks, min(round(marks * max(1.0, sum(rates) / capacity)), MARKS_MOST))


class Divider:
    """Divides marks; remembers what rounding owes to whom."""

    def __init__(self, division: str) -> None:
        """``division`` is "bytes", "sent" or "equal"; ValueError otherwise."""
        if division not in ("bytes", "sent", "equal"):
            raise ValueError(f'division "{division}" is not known; there are "bytes", "sent" and "equal"')
        self.division = division
        self._owed: dict[Hop, dict[Vm, float]] = {}

    def forget(self, point: Hop) -> None:
        """Drop what rounding owes at a port that is gone."""
        self._owed.pop(point, None)

    def divide(self, congestion: Congestion) -> dict[Vm, int]:
        """Return each source's marks; they add up to the port's marks unless there are no sources."""
        if not congestion.sources:
            return {}
        rates = {
            source.vm: 1.0 if self.division == "equal" else float(source.sent_rate) for source in congestion.sources
        }
        if sum(rates.values()) <= 0:
            rates = {source.vm: float(source.active) for source in congestion.sources}
        given, self._owed[congestion.point] = portions(congestion.marks, rates, self._owed.get(congestion.point, {}))
        return given

    def notices(self, congestions: Sequence[Congestion]) -> list[Notice]:
        """Divide every port's marks and return one notice for each machine that got any, in order."""
        parts: dict[Vm, list[tuple[int, Congestion]]] = {}
        for congestion in congestions:
            for vm, marks in self.divide(congestion).items():
                if marks > 0:
                    parts.setdefault(vm, []).append((marks, congestion))
        told = []
        for vm in sorted(parts):
            _, worst = max(parts[vm], key=lambda part: (part[0], part[1].point))
            told.append(
                Notice(
                    vm=vm,
                    marks=sum(marks for marks, _ in parts[vm]),
                    interval_ns=worst.interval_ns,
                    weight_total=weight_total(worst.sources),
                    point=worst.point,
                )
            )
        return told


def portions(
    marks: int, rates: Mapping[Who, float], owed: Mapping[Who, float]
) -> tuple[dict[Who, int], dict[Who, float]]:
    """Return marks divided by rates, evenly where all are 0, and what rounding owes to whom from now on.

    There is at least one rate; ``owed`` is what it was the last time.  The whole numbers returned add up to the marks.
    """
    total = sum(rates.values())
    exact = {
        who: marks * (rate / total if total > 0 else 1 / len(rates)) + owed.get(who, 0.0)
        for who, rate in rates.items()
    }
    given = _round(exact, marks)
    return given, {who: min(1.0, max(-1.0, wanted - given[who])) for who, wanted in exact.items()}


def weight_total(sources: Sequence[Source]) -> int:
    """Return the sum of the weights of the active sources, of all if none is known to be active."""
    return sum(source.weight for source in sources if source.active) or sum(source.weight for source in sources)


def _round(exact: Mapping[Who, float], total: int) -> dict[Who, int]:
    """Round to whole numbers of at least 0 that add up to total, the largest remainders first."""
    given = {who: max(0, math.floor(wanted)) for who, wanted in exact.items()}
    spare = total - sum(given.values())
    step = 1 if spare > 0 else -1
    order = sorted(exact, key=lambda who: (step * (given[who] - exact[who]), who))
    while spare:
        for who in order:
            if not spare:
                break
            if step > 0 or given[who] > 0:
                given[who] += step
                spare -= step
    return given
