# SPDX-License-Identifier: Apache-2.0
"""How fast ports' counters move, sampled once a second.

A port is congested when its queues set marks since the sample before.  A counter that went back (a switch
that restarted) gives no pace until the next sample.
"""

import dataclasses
from typing import Callable, Optional

from sdngcc.controller.engine import Engine
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.sources import Reading

SAMPLE_S = 1.0


@dataclasses.dataclass(frozen=True)
class Pace:
    """How a port fares."""

    tx_bps: Optional[float]  # None: no byte counter
    marks_per_s: Optional[float]  # None: no mark counter
    congested: Optional[bool]


class Live:
    """The pace of every port with readings, as of the last sample."""

    def __init__(self, engine: Engine) -> None:
        self.paces: dict[Hop, Pace] = {}
        self._engine = engine
        self._last: dict[int, tuple[int, dict[int, Reading]]] = {}  # by switch: when they were taken, by port

    def sample(self, pause: Callable[[], None]) -> None:
        """Take in all ports; ``pause`` is called between switches and may let other work go on."""
        engine = self._engine
        for dpid in list({**self._last, **engine.switches}):
            now, readings = engine.clock(), engine.source.readings(dpid) if dpid in engine.switches else {}
            before_ns, before = self._last.pop(dpid, (0, {}))
            if readings:
                self._last[dpid] = (now, readings)
            for number in before.keys() | readings.keys():
                pace = None
                if number in before and number in readings:
                    pace = _pace(before[number], readings[number], (now - before_ns) / 1e9)
                if pace is None:
                    self.paces.pop((dpid, number), None)
                else:
                    self.paces[dpid, number] = pace
            pause()


def _pace(before: Reading, after: Reading, elapsed_s: float) -> Optional[Pace]:
    """Return the pace between two readings; None when a counter went back."""
    if before.queues != after.queues or elapsed_s <= 0:
        return None
    sent, marks = _moved(before.bytes, after.bytes), _moved(before.marks, after.marks)
    if (sent is not None and sent < 0) or (marks is not None and marks < 0):
        return None
    return Pace(
        None if sent is None else round(sent * 8 / elapsed_s, 1),
        None if marks is None else round(marks / elapsed_s, 1),
        None if marks is None else marks > 0,
    )


def _moved(before: Optional[int], after: Optional[int]) -> Optional[int]:
    return None if before is None or after is None else after - before
