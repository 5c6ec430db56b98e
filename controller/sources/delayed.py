# SPDX-License-Identifier: Apache-2.0
"""A source whose marks come late, to try in a laboratory what a slow source does to the loop.

Around any other source: the marks it finds within ``mark_delay_ms`` are counted together, and handed on only when as
much time has passed again. So a mark is one to two delays old when it is known, and news comes once in a delay. Nothing
that decides gets anything sooner; what REST shows of ports are the counters as they were read.
"""

import time
from typing import Any, Callable, Iterator, Optional

from sdngcc.controller.network.topology import Hop, Topology, forget_place
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.base import Deliver, MarkSource, PortMarks, Reading
from sdngcc.controller.wire.experimenter import Reply
from sdngcc.controller.wire.openflow import FlowStatistics


class DelayedMarks(MarkSource):
    """Marks of ``inner``, sampled each ``delay_ns`` and as late."""

    def __init__(self, inner: MarkSource, delay_ns: int) -> None:
        super().__init__()
        self._inner = inner
        self._delay_ns = delay_ns
        self.name = inner.name
        self.semantics = inner.semantics
        self.polled = inner.polled
        self.asks_for = inner.asks_for
        self.tables = inner.tables
        self.everywhere = inner.everywhere
        self.faults = inner.faults
        self._sampled: dict[Hop, int] = {}  # marks of the delay that passes
        self._waiting: dict[Hop, int] = {}  # marks of the one before
        self._answered: set[int] = set()  # switches heard of in the delay that passes
        self._late: set[int] = set()  # in the one before

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "DelayedMarks":
        """Raise TypeError: it is made around another source."""
        raise TypeError("made around another source")

    @property
    def freshness_ns(self) -> int:
        """Return how old a count may be."""
        return self._inner.freshness_ns + 2 * self._delay_ns

    def sample(self, now_ns: int) -> list[PortMarks]:
        """End a delay; return what was counted in the one before."""
        due = [PortMarks(point, marks, self._delay_ns) for point, marks in sorted(self._waiting.items())]
        for dpid in self._late:
            self.news.heard(dpid, now_ns)
        self._waiting, self._sampled = self._sampled, {}
        self._late, self._answered = self._answered, set()
        return due

    def _hold(self, fresh: list[PortMarks]) -> list[PortMarks]:
        self.resets, self.restarts = self._inner.resets, self._inner.restarts
        for one in fresh:
            self._sampled[one.point] = self._sampled.get(one.point, 0) + one.marks
        return []

    def prepare(self, dpid: int, ports: list[int]) -> bytes:
        """Return what the inner source needs."""
        return self._inner.prepare(dpid, ports)

    def request(self, dpid: int, xid: int) -> bytes:
        """Return the inner source's request."""
        return self._inner.request(dpid, xid)

    def answered(self, dpid: int, now_ns: int) -> None:
        """Note that a switch answered: that is news when its marks are."""
        self._answered.add(dpid)

    def take_in_steps(self, dpid: int, reply: Reply) -> Iterator[list[PortMarks]]:
        """Keep the new marks in a reply back."""
        for fresh in self._inner.take_in_steps(dpid, reply):
            yield self._hold(fresh)

    def take_flows(self, dpid: int, counts: list[FlowStatistics], last: bool, now_ns: int) -> list[PortMarks]:
        """Keep the new marks in a part of a reply back."""
        return self._hold(self._inner.take_flows(dpid, counts, last, now_ns))

    def collectors(self, deliver: Deliver, clock: Callable[[], int]) -> list[Callable[[], None]]:
        """Return the inner source's, and one that delivers."""

        def keep(fresh: list[PortMarks]) -> None:
            self._answered.update(dpid for dpid in self._inner.news.switches())
            self._hold(fresh)

        return [*self._inner.collectors(keep, clock), lambda: self._deliver_always(deliver, clock)]

    def _deliver_always(self, deliver: Deliver, clock: Callable[[], int]) -> None:
        due_ns = clock()
        while True:
            due_ns += self._delay_ns
            time.sleep(max(0, due_ns - clock()) / 1e9)
            deliver(self.sample(clock()))

    def counted(self, dpid: int) -> bool:
        """Tell whether a switch has any mark counter."""
        return self._inner.counted(dpid)

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return the last reading of each port of a switch."""
        return self._inner.readings(dpid)

    def reading(self, dpid: int, port: int) -> Optional[Reading]:
        """Return the last reading of a port."""
        return self._inner.reading(dpid, port)

    def origins(self, now_ns: int) -> list[dict[str, Any]]:
        """Return what feeds the inner source."""
        return self._inner.origins(now_ns)

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone, or a whole switch, with the marks kept back."""
        self._inner.forget(dpid, port)
        for marks in (self._sampled, self._waiting):
            forget_place(marks, dpid, port)
        if port is None:
            self._answered.discard(dpid)
            self._late.discard(dpid)
