# SPDX-License-Identifier: Apache-2.0
"""How long things took, in buckets: enough for quantiles, and bounded."""

import bisect

# Upper bounds, ns: dense around the millisecond that is the budget of a notification.
BOUNDS_NS = tuple(
    round(milliseconds * 1e6) for milliseconds in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
)


class Histogram:
    """Counts of durations by bucket."""

    def __init__(self) -> None:
        self.sum_ns = 0
        self._counts = [0] * (len(BOUNDS_NS) + 1)

    def add(self, took_ns: int) -> None:
        """Count one duration."""
        self.sum_ns += took_ns
        self._counts[bisect.bisect_left(BOUNDS_NS, took_ns)] += 1

    def cumulated(self) -> list[tuple[int, int]]:
        """Return (upper bound in ns, how many took no longer); the last bound is 0 and stands for none."""
        pairs, total = [], 0
        for bound, count in zip((*BOUNDS_NS, 0), self._counts):
            total += count
            pairs.append((bound, total))
        return pairs
