# SPDX-License-Identifier: Apache-2.0
"""How counters that others keep become new counts and the time they were counted in.

A counter of ``bits`` bits that went back *wrapped* when it stood in the last quarter of its range before and
stands in the first now, else it was *reset*.

Counters refreshed less often than they are read stand still for some readings and then jump.  The time a jump
stands for is then not the time since the reading before but since the counters moved before, though never more
than the age that counters can have, or the time between two readings if that is longer.  An interval is reported
no longer than twice the larger of that age and the usual time between readings; over it the count is scaled down,
which keeps its rate.
"""

from typing import Optional


def difference(before: int, now: int, bits: int = 64) -> Optional[int]:
    """Return how far a counter moved; None if it was reset."""
    if now >= before:
        return now - before
    quarter = 1 << (bits - 2)
    if before >= 3 * quarter and now < quarter:
        return now + (1 << bits) - before
    return None


class Pace:
    """When the counters of one switch moved; ``period_ns`` is between readings, ``age_ns`` how old counters may be."""

    def __init__(self, period_ns: int, age_ns: int) -> None:
        self._period_ns = period_ns
        self._age_ns = age_ns
        self._read_ns: Optional[int] = None
        self._moved_ns: Optional[int] = None

    def read(self, now_ns: int, moved: bool) -> tuple[int, int]:
        """Note a reading; return (elapsed, interval) in ns of what moved: the time it stands for, and to report."""
        elapsed = self._period_ns
        if self._read_ns is not None and self._moved_ns is not None:
            elapsed = min(now_ns - self._moved_ns, max(self._age_ns, now_ns - self._read_ns))
        self._read_ns = now_ns
        if moved or self._moved_ns is None:
            self._moved_ns = now_ns
        elapsed = max(elapsed, 1)
        return elapsed, min(elapsed, longest(self._period_ns, self._age_ns))


def longest(period_ns: int, age_ns: int) -> int:
    """Return the longest interval ever reported."""
    return 2 * max(period_ns, age_ns)


def scale(count: int, elapsed_ns: int, interval_ns: int) -> int:
    """Return a count of more than 0 scaled from the elapsed time down to an interval; at least 1."""
    return max(1, count * interval_ns // elapsed_ns)
