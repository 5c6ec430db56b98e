# SPDX-License-Identifier: Apache-2.0
"""How often a source brings news of a switch's counters, as measured: what arrives counts, not what is set.

News is a reading that is newer than the one before, whether or not marks are in it. The time between two of them is
what a law has to live with: for so long it hears nothing, and marks are counted together. How long they were on their
way besides is not known where the switch's clock is another one.

The measured interval is the median of the last ones, so that one late reading says nothing; a silence of SILENT of them
counts by itself. Where a switch answers more often than it counts, marks tell over what time they were counted: of that
the median counts, if it is longer.
"""

import collections
import dataclasses
import statistics
from typing import Optional

LAST = 9  # intervals
SILENT = 3  # intervals without news


@dataclasses.dataclass
class _Switch:
    heard_ns: int  # without stalls before
    news: int = 0
    usual_ns: int = 0  # median of the intervals, as of the last time it was computed; 0: there is none
    intervals_ns: "collections.deque[int]" = dataclasses.field(default_factory=lambda: collections.deque(maxlen=LAST))
    counted_ns: "collections.deque[int]" = dataclasses.field(default_factory=lambda: collections.deque(maxlen=LAST))


class News:
    """When switches were heard of."""

    def __init__(self) -> None:
        self._switches: dict[int, _Switch] = {}
        self._stalled_ns = 0

    def forgive(self, stalled_ns: int) -> None:
        """Count no silence for a time in which this process stood still: news may wait in its sockets."""
        self._stalled_ns += stalled_ns

    def heard(self, dpid: int, now_ns: int) -> None:
        """Note news of a switch's counters."""
        now_ns -= self._stalled_ns
        known = self._switches.get(dpid)
        if known is None:
            self._switches[dpid] = _Switch(now_ns)
        elif now_ns > known.heard_ns:
            known.intervals_ns.append(now_ns - known.heard_ns)
            known.heard_ns = now_ns
            known.news += 1
            # A median at each of thousands of answers a second would cost too much.
            if known.news < LAST or known.news % LAST == 0:
                known.usual_ns = round(statistics.median(known.intervals_ns))

    def counted(self, dpid: int, interval_ns: int) -> None:
        """Note over what time marks of a switch were counted."""
        known = self._switches.get(dpid)
        if known is not None:
            known.counted_ns.append(interval_ns)

    def forget(self, dpid: int) -> None:
        """Expect no more news of a switch."""
        self._switches.pop(dpid, None)

    def switches(self) -> list[int]:
        """Return the switches of which there were news."""
        return sorted(self._switches)

    def interval_ns(self, dpid: int, now_ns: int) -> Optional[int]:
        """Return the measured interval between news of a switch, or its silence; None before two news."""
        known = self._switches.get(dpid)
        if known is None or not known.usual_ns:
            return None
        if self.is_silent(dpid, now_ns):
            return now_ns - self._stalled_ns - known.heard_ns
        return max(known.usual_ns, round(statistics.median(known.counted_ns or (0,))))

    def is_silent(self, dpid: int, now_ns: int) -> bool:
        """Tell whether news of a switch came, and ceased."""
        known = self._switches.get(dpid)
        return known is not None and 0 < SILENT * known.usual_ns < now_ns - self._stalled_ns - known.heard_ns
