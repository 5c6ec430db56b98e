# SPDX-License-Identifier: Apache-2.0
"""What machines may send through a port: its capacity as known, corrected by its marks.

N is the port's capacity as set or as the switch says, h the headroom, u what the machines sent through the port over
the last period and a what they were allowed to, dt the time since the last update; rates in bytes/s.  s = v *
min(1, u / a) is what they would have sent without a dip.  m marks in an interval I are packets that left at the rate
f = m * 1514 / I over the threshold, the part phi = min(1, f / v) of all.

    start:                        v = N * (1 - h)
    no marks:                     v += CREEP * N * dt, at most N * (1 - h)
    marks, and this is evidence:  v -= phi * min(v - (1 - CUT) * s, (1 - KEPT) * v)
    each update:                  a = v * (1 - DIP * phi)

Where N is right and nobody else sends, v stays and the sum of rates is just below the link: no queue, no marks.  Marks
then come of who has only begun and is in nobody's sum yet, and leave a queue that the headroom alone would take long
to drain: the dip empties it, DIP * N bytes/s, and lasts as long as the marks.

Such marks say nothing of the capacity.  So marks are evidence only when the machines kept to a (u <= TOLERANCE * a) in
this period and the SETTLE periods before, and when they are not the first within MEMORY periods: shims and switches
are read at different times, and what a burst sent may show in u a period later than its marks.

Where N is too much, or traffic that no shim limits takes a part, marks come though the machines keep to a.  The port
carries less than s, so v falls to below s, and on by CUT a period until the marks cease.  Then v creeps back, finds
the limit again when a queue of the threshold has grown, and gives up phi * CUT: a saw of some percent.
"""

import math
from typing import NamedTuple

MARK_BYTES = 1514  # a full packet: what a mark stands for
CUT = 1 / 16
KEPT = 3 / 4  # of v: one period lowers it no further
DIP = 1 / 4
CREEP = 0.4  # of N, each second
SETTLE = 3  # periods
MEMORY = 4  # periods
TOLERANCE = 1.02
FULL = 0.5  # of u: marks from which a port was full, where its capacity is not known
SECOND_NS = 1_000_000_000


class Marked(NamedTuple):
    """New marks of a port."""

    marks: int
    interval_ns: int


class Capacity:
    """One port's capacity; ``known`` is N in bytes/s, infinite when nobody knows, ``headroom`` a part of it."""

    def __init__(self, known: float, headroom: float) -> None:
        self._known = known
        self._top = known * (1 - headroom)
        self._estimate = self._top
        self._settling = 0  # periods in which marks are no evidence
        self._recent = 0  # periods for which the last marks are remembered
        self.allowed = self._top  # bytes/s

    def update(self, sent: float, marked: Marked, elapsed_ns: int) -> float:
        """Take what the machines sent through the port, bytes/s, and its marks since; return what is allowed now."""
        if sent > TOLERANCE * self.allowed:
            self._settling = SETTLE + 1
        part = 0.0
        if marked.marks:
            over = marked.marks * MARK_BYTES * SECOND_NS / max(marked.interval_ns, 1)
            part = min(1.0, over / self._estimate)
            if self._recent and not self._settling:
                self._lower(sent, over, part)
            self._recent = MEMORY
        else:
            self._recent = max(0, self._recent - 1)
            if math.isfinite(self._estimate):
                unit = self._known if math.isfinite(self._known) else self._estimate
                self._estimate = min(self._top, self._estimate + CREEP * unit * elapsed_ns / SECOND_NS)
        self._settling = max(0, self._settling - 1)
        self.allowed = self._estimate * (1 - DIP * part)
        return self.allowed

    def _lower(self, sent: float, over: float, part: float) -> None:
        if math.isfinite(self._estimate):
            used = (1 - CUT) * min(1.0, sent / self.allowed)
            self._estimate *= 1 - part * (1 - max(used, KEPT))
        elif over >= FULL * sent:
            self._estimate = max(over, (1 - CUT) * sent)
