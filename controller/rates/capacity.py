# SPDX-License-Identifier: Apache-2.0
"""What machines may send through a port: its capacity as known, corrected by its marks.

N is the port's capacity as set or as the switch says, h the headroom, u what the machines sent through the port over
the last period and a what they were allowed to, dt the time since the last update; rates in bytes/s.  s = v *
min(1, u / a) is what they would have sent without a dip.  m marks in an interval I are packets that left at the rate
f = m * F / I over the threshold, the part phi = min(1, f / v) of all, where F is a packet's mean size.

    start:                        v = N * (1 - h)
    no marks:                     v += N * min(CREEP * dt, CREEP_MOST * dt / I), at most N * (1 - h)
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

Marks of a slow source, with I above SLOW_NS, are of the past: counted over I, and perhaps as long on their way. What
they say was true LATE intervals ago, so for so long after machines sent too much, and after v was lowered, they are no
evidence; they are remembered for REMEMBERED intervals, for within MEMORY periods none would ever come again; and v
rises by no more than CREEP_MOST * N in I.
"""

import math
from typing import NamedTuple

FRAME_BYTES = 1538.0  # a full packet of Ethernet on the wire: what a mark stands for where packets are not counted
CUT = 1 / 16
KEPT = 3 / 4  # of v: one period lowers it no further
DIP = 1 / 4
CREEP = 0.4  # of N, each second
SETTLE = 3  # periods
MEMORY = 4  # periods
TOLERANCE = 1.02
SLOW_NS = 20_000_000  # I from which on marks are later than rates
LATE = 2  # I
REMEMBERED = 5 / 2  # I: two in a row, the second one late
CREEP_MOST = 0.005  # of N, each I
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
        self._interval_ns = 0  # I
        self._late_ns = 0  # time for which marks are still of what was before
        self._recent_ns = 0.0  # time for which the last marks are remembered
        self._rests = False  # without marks nothing changes
        self.allowed = self._top  # bytes/s

    def update(self, sent: float, marked: Marked, elapsed_ns: int, packet_bytes: float = FRAME_BYTES) -> float:
        """Take what the machines sent through the port, bytes/s in packets of so many, and its marks since.

        Return what is allowed now.
        """
        if self._rests and not marked.marks and sent <= TOLERANCE * self.allowed:
            return self.allowed
        self._late_ns = max(0, self._late_ns - elapsed_ns)
        self._recent_ns -= elapsed_ns
        if marked.marks:
            self._interval_ns = marked.interval_ns
        if sent > TOLERANCE * self.allowed:
            self._settling = SETTLE + 1
            self._wait()
        part = 0.0
        if marked.marks:
            over = marked.marks * packet_bytes * SECOND_NS / max(marked.interval_ns, 1)
            part = min(1.0, over / self._estimate)
            known = self._recent or (self._recent_ns > 0 and self._is_slow())
            if known and not self._settling and not self._late_ns:
                self._lower(sent, over, part)
                self._wait()
            self._recent = MEMORY
            self._recent_ns = REMEMBERED * marked.interval_ns
        else:
            self._recent = max(0, self._recent - 1)
            if math.isfinite(self._estimate):
                unit = self._known if math.isfinite(self._known) else self._estimate
                self._estimate = min(self._top, self._estimate + self._creep(elapsed_ns) * unit)
        self._settling = max(0, self._settling - 1)
        self.allowed = self._estimate * (1 - DIP * part)
        remembered = self._settling or self._recent or self._late_ns or self._recent_ns > 0
        self._rests = not remembered and self._estimate == self._top
        return self.allowed

    def _is_slow(self) -> bool:
        return self._interval_ns > SLOW_NS

    def _wait(self) -> None:
        """Take no marks for evidence that a slow source counted before now."""
        if self._is_slow():
            self._late_ns = LATE * self._interval_ns

    def _creep(self, elapsed_ns: int) -> float:
        """Return by what part of the port's capacity the estimate rises without marks."""
        rise = CREEP * elapsed_ns / SECOND_NS
        return min(rise, CREEP_MOST * elapsed_ns / self._interval_ns) if self._is_slow() else rise

    def _lower(self, sent: float, over: float, part: float) -> None:
        if math.isfinite(self._estimate):
            used = (1 - CUT) * min(1.0, sent / self.allowed)
            self._estimate *= 1 - part * (1 - max(used, KEPT))
        elif over >= FULL * sent:
            self._estimate = max(over, (1 - CUT) * sent)
