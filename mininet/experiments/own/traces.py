# SPDX-License-Identifier: Apache-2.0
"""Sizes of flows in datacenters, from the papers that measured them, and schedules of flows drawn from them.

A distribution is points (bytes, part of the flows that have no more), from public copies of the figure, with straight
lines between them. They were measured on links of 10 Gb/s at least in part, and a slower link gets flows as much
shorter, so that a flow takes as long there.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Dict, List, Sequence, Tuple

# Rate that the sizes below are meant for, Mb/s.
MEANT_FOR_MBPS = 10_000
# The mean size is that of so many quantiles.
QUANTILES = 4096

Schedule = List[Tuple[int, int]]
"""Flows in order of time: ns from the start of the schedule, bytes."""


@dataclass(frozen=True)
class Trace:
    """A distribution of flow sizes."""

    name: str
    source: str
    points: Tuple[Tuple[int, float], ...]
    """(bytes, part of the flows that have no more), the last part 1; the first is the smallest flow."""

    def size(self, part: float) -> float:
        """Return how many bytes that part of the flows (0 to 1) do not exceed."""
        index = bisect_left(self.points, part, key=lambda point: point[1])
        if not index:
            return float(self.points[0][0])
        (low, before), (high, after) = self.points[index - 1:index + 1]
        return low + (high - low) * (part - before) / (after - before)

    def quantiles(self, count: int, scale: float, most: float) -> List[int]:
        """Return count sizes in bytes that stand for equal parts of the flows, times scale, from 1 to most bytes."""
        return [max(1, round(min(self.size((number + 0.5) / count) * scale, most))) for number in range(count)]


TRACES: Dict[str, Trace] = {trace.name: trace for trace in (
    Trace("web search", "Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010, Fig. 4",
          ((1, 0.0), (10_000, 0.15), (20_000, 0.2), (30_000, 0.3), (50_000, 0.4), (80_000, 0.53), (200_000, 0.6),
           (1_000_000, 0.7), (2_000_000, 0.8), (5_000_000, 0.9), (10_000_000, 0.97), (30_000_000, 1.0))),
    Trace("data mining", "Greenberg et al., VL2, SIGCOMM 2009, Fig. 2",
          ((100, 0.0), (180, 0.085), (250, 0.14), (560, 0.33), (900, 0.47), (1_100, 0.55), (1_870, 0.65),
           (3_160, 0.7), (10_000, 0.8), (100_000, 0.874), (400_000, 0.9), (1_850_000, 0.95), (10_000_000, 0.97),
           (30_000_000, 0.98), (100_000_000, 0.99), (250_000_000, 0.995), (1_000_000_000, 1.0))),
    Trace("hadoop", "Roy et al., Inside the Social Network's (Datacenter) Network, SIGCOMM 2015, Fig. 6",
          ((1, 0.0), (100, 0.01), (200, 0.02), (300, 0.05), (350, 0.15), (400, 0.2), (500, 0.3), (600, 0.4),
           (700, 0.5), (1_000, 0.6), (2_000, 0.67), (7_000, 0.7), (30_000, 0.72), (50_000, 0.82), (80_000, 0.87),
           (120_000, 0.9), (300_000, 0.95), (1_000_000, 0.975), (2_000_000, 0.99), (10_000_000, 1.0))),
)}


@cache
def mean_bytes(trace: Trace, scale: float, most: float) -> float:
    """Return the mean size of a trace's flows, times scale and bounded by most, bytes."""
    return sum(trace.quantiles(QUANTILES, scale, most)) / QUANTILES


def draw(trace: Trace, seed: int, name: str, mbps: float, length_s: float, scale: float, most: float) -> Schedule:
    """Return flows of a trace that bring mbps of payload for length_s seconds, the same for the same arguments.

    As many as bring that in the mean, at times that are uniform over length_s, which Poisson arrivals are when their
    number is given. Sizes are one from each of as many equal parts of the distribution, in a random order, so that
    a short schedule brings no more or less than a long one; scale multiplies them, most bounds them, bytes.
    """
    count = max(1, round(mbps * 1e6 / 8 * length_s / mean_bytes(trace, scale, most)))
    dice = random.Random(f"{seed} {trace.name} {name}")
    sizes = trace.quantiles(count, scale, most)
    dice.shuffle(sizes)
    times = sorted(round(dice.uniform(0, length_s) * 1e9) for _ in sizes)
    return list(zip(times, sizes))


def classes(sizes: Sequence[int], bounds: Sequence[float]) -> List[int]:
    """Return the number of each size's class: how many of the bounds it passes."""
    return [bisect_left(list(accumulate(bounds, max)), size) for size in sizes]
