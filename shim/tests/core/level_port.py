# SPDX-License-Identifier: Apache-2.0
"""A fluid model of a port under law sdngcc, with a controller that tells marks and levels."""

import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence

from sdngcc.controller.rates.division import Congestion, Divider, Source
from sdngcc.controller.rates.levels import Levels

from .test_law import MS, SECOND, Limiter

T = 5 * MS
# Steps in a period, and how many of them pass before a message of the last one is there.
STEPS, LATE = 10, 2
POINT = (1, 1)
PACKET = 1514
WITHOUT = {"level-periods": 0}


@dataclass
class Sender:
    """A VM: what it wants, in parts of the port, at a time in seconds; what uplink it has, in parts of the port."""

    wants: Callable[[float], float] = lambda _: math.inf
    weight: int = 1
    uplink: float = 1.0


@dataclass
class Seen:
    """What became of the port, period by period; rates in parts of the port."""

    got: List[List[float]] = field(default_factory=list)
    queue: List[float] = field(default_factory=list)
    told: int = 0

    def mean(self, index: int, start_s: float, end_s: float) -> float:
        """Return what a VM got between two times."""
        rows = self.got[round(start_s * SECOND / T):round(end_s * SECOND / T)]
        return sum(row[index] for row in rows) / len(rows)

    def used(self, start_s: float, end_s: float) -> float:
        """Return what all got between two times."""
        return sum(self.mean(index, start_s, end_s) for index in range(len(self.got[0])))


def run(core: Any, senders: Sequence[Sender], capacity: int, packets: int, seconds: float,
        knobs: Optional[Dict[str, int]] = None, levels: bool = True) -> Seen:
    """Let senders share a port of a capacity, bytes/s, with room for some packets, that marks from a fifth of it on.

    What arrives is carried alike of what all send.
    """
    vms = [Limiter(core, "sdngcc", share=round(capacity * one.uplink), capacity=round(capacity * one.uplink),
                   weight=one.weight, knobs=knobs) for one in senders]
    divider, teller, seen = Divider("bytes"), Levels(lambda point: math.inf, T), Seen()
    queue, marked_before, step_s = 0.0, False, T / SECOND / STEPS
    sources: List[Source] = []
    total, carried_rate = 0.0, 0.0
    for period in range(round(seconds * SECOND / T)):
        at_s, now_ns = period * T / SECOND, SECOND + period * T
        messages: List[tuple] = []
        if sources:
            congestion = Congestion(POINT, round(total), T, sources, carried_rate)
            parts = divider.divide(congestion) if round(total) else {}
            due = round(total) or POINT in teller.to_look_at(now_ns)
            told = teller.decide([congestion], now_ns) if due and levels else {}
            weights = sum(source.weight for source in sources)
            messages = [(vm[1], parts.get(vm, 0), told[vm][0] if vm in told else 0, weights)
                        for vm in sorted({*parts, *told})]
        seen.told += sum(1 for one in messages if one[2])
        sent, got = [0.0] * len(vms), [0.0] * len(vms)
        total, before = 0.0, queue
        for step in range(STEPS):
            for index, count, level, weights in messages if step == LATE else ():
                if level:
                    vms[index].message(0, type=4, rate=level)
                if count:
                    vms[index].message(count, weight_total=weights)
            offered = [min(vm.rate, one.wants(at_s + step * step_s) * capacity, capacity * one.uplink) * step_s
                       for vm, one in zip(vms, senders)]
            arrived = sum(offered)
            carried = min(queue + arrived, capacity * step_s)
            queue += arrived - carried
            if queue > packets * PACKET / 5:
                total += arrived / PACKET
            queue = min(queue, packets * float(PACKET))
            for index, one in enumerate(offered):
                sent[index] += one
                got[index] += carried * one / arrived if arrived else 0
        marked = round(total) > 0
        carried_rate = sum(got) * SECOND / T if marked and marked_before and before and queue else 0.0
        marked_before = marked
        seen.got.append([one * SECOND / T / capacity for one in got])
        seen.queue.append(queue)
        sources = []
        for index, (vm, one) in enumerate(zip(vms, sent)):
            vm.input.sent_rate = round(one * SECOND / T)
            rate = vm.input.sent_rate
            sources.append(Source((2, index), rate, senders[index].weight, rate > 0, rate, vm.rate, vm.input.min))
            vm.period()
    return seen
