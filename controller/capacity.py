# SPDX-License-Identifier: Apache-2.0
"""What machines may send through a port: its capacity as known, corrected by its marks.

N is the port's capacity as set or as the switch says, h the headroom, T the time since the last update, u what the
machines sent through the port and a what they were allowed to, all bytes/s; s = v * min(1, u / a) is what they would
have sent without a dip.  A port that set m marks in an interval I was over its threshold for the part
phi = min(1, m * 1514 / (I * s)) of what it carried.

    start:                     v = N * (1 - h)
    marks, u <= 1.02 * a:      v -= phi * (v - (1 - CUT) * s)
    no marks:                  v += CREEP * T * N, at most N * (1 - h)
    each update:               a = v * (1 - DIP * phi)

Where N is right and nobody else sends, v stays and the sum of rates is just below the link: no queue, no marks.  Marks
then come of who has only begun and is in nobody's sum yet, and leave a queue that the headroom alone would take long
to drain: the dip empties it, DIP * T * N bytes a period, and lasts as long as the marks.  Such marks say nothing of the
capacity, so they and those of the SETTLE periods after are not held against v.

Where N is too much, or traffic that no shim limits takes a part, marks come though the machines keep to a.  A port
full for the whole period carries less than s, so v falls to below s at once and on by CUT a period until the marks
cease: half the capacity gone takes 11 periods.  Then v creeps back, finds the limit again when a queue of the
threshold has grown, and gives up phi * CUT: a saw of some percent, well below what the paper's law swings by.
"""

import math
from typing import NamedTuple

MARK_BYTES = 1514  # a full packet: what a mark stands for
CUT = 1 / 16
DIP = 1 / 4
CREEP = 0.4  # of N, each second
SETTLE = 3  # periods
TOLERANCE = 1.02
FULL = 0.5  # phi from which a port was full all the time: what it carried is more than its unknown capacity
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
        self._settling = 0  # periods in which marks are not held against the estimate
        self.allowed = self._top  # bytes/s

    def update(self, sent: float, marked: Marked, elapsed_ns: int) -> float:
        """Take what the machines sent through the port, bytes/s, and its marks since; return what is allowed now."""
        if sent > TOLERANCE * self.allowed:
            self._settling = SETTLE + 1
        part = 0.0
        # What a dip keeps back is no sign of a smaller capacity.
        carried = sent
        if math.isfinite(self._estimate):
            carried = self._estimate * min(1.0, sent / self.allowed)
        if marked.marks:
            part = 1.0
            if carried > 0 and marked.interval_ns > 0:
                part = min(1.0, marked.marks * MARK_BYTES * SECOND_NS / marked.interval_ns / carried)
            if not self._settling and carried > 0:
                low = (1 - CUT) * carried
                if math.isfinite(self._estimate):
                    self._estimate -= part * (self._estimate - low)
                elif part >= FULL:
                    self._estimate = low
        elif math.isfinite(self._estimate):
            creep = CREEP * elapsed_ns / SECOND_NS
            self._estimate += creep * (self._known if math.isfinite(self._known) else self._estimate)
            self._estimate = min(self._top, self._estimate)
        self._settling = max(0, self._settling - 1)
        self.allowed = self._estimate * (1 - DIP * part)
        return self.allowed
