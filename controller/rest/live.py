# SPDX-License-Identifier: Apache-2.0
"""How fast ports' counters move, sampled once a second.

A port is congested when its queues set marks since the sample before.  A counter that went back (a switch
that restarted) gives no pace until the next sample.
"""

import dataclasses
from typing import Callable, Optional

from sdngcc.controller.engine import Engine
from sdngcc.controller.experimenter import PortReading
from sdngcc.controller.topology import Hop

SAMPLE_S = 1.0


@dataclasses.dataclass(frozen=True)
class Pace:
    """How a port fares."""

    tx_bps: float
    marks_per_s: Optional[float]  # None: no mark counter
    congested: Optional[bool]


class Live:
    """The pace of every port with readings, as of the last sample."""

    def __init__(self, engine: Engine) -> None:
        self.paces: dict[Hop, Pace] = {}
        self._engine = engine
        self._last: dict[Hop, tuple[int, PortReading]] = {}

    def sample(self, pause: Callable[[], None]) -> None:
        """Take in all ports; ``pause`` is called between switches and may let other work go on."""
        engine = self._engine
        paces: dict[Hop, Pace] = {}
        last: dict[Hop, tuple[int, PortReading]] = {}
        for dpid in list(engine.switches):
            now = engine.clock()
            for number, reading in engine.source.readings(dpid).items():
                place = (dpid, number)
                last[place] = (now, reading)
                before = self._last.get(place)
                pace = before and _pace(before[1], reading, (now - before[0]) / 1e9)
                if pace:
                    paces[place] = pace
            pause()
        self.paces, self._last = paces, last


def _pace(before: PortReading, after: PortReading, elapsed_s: float) -> Optional[Pace]:
    """Return the pace between two readings; None when a counter went back."""
    sent, marks = after.bytes - before.bytes, after.marks - before.marks
    if sent < 0 or marks < 0 or before.kinds != after.kinds or elapsed_s <= 0:
        return None
    if not after.kinds:
        return Pace(round(sent * 8 / elapsed_s, 1), None, None)
    return Pace(round(sent * 8 / elapsed_s, 1), round(marks / elapsed_s, 1), marks > 0)
