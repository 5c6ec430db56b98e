# SPDX-License-Identifier: Apache-2.0
"""Whether marks come often enough for what is decided by them.

A law goes by the pace of its marks, so it is stable however seldom they come. But it settles in a number of their
intervals, and for one or two of these a port can be overrun before anybody hears of it. USABLE_NS is how seldom news
may come before the law should no longer be used (docs/controller.md has the measurements).
"""

import logging
from typing import NamedTuple

from sdngcc.controller.sources.base import MarkSource

USABLE_NS = {"marks": 150_000_000, "maxmin": 1_500_000_000}  # by decision
_NAMED_MAX = 8

LOG = logging.getLogger(__name__)


class Stale(NamedTuple):
    """A switch whose marks come too seldom."""

    dpid: int
    interval_ns: int  # as measured
    silent: bool  # they have ceased


class Staleness:
    """Which switches' marks come too seldom for ``decision``; ``changes`` counts how often that became so."""

    def __init__(self, source: MarkSource, decision: str) -> None:
        self.usable_ns = USABLE_NS[decision]
        self.changes = 0
        self._source = source
        self._decision = decision
        self._known: set[int] = set()

    def measured_ns(self, now_ns: int) -> int:
        """Return the longest interval between news of a switch, 0 when none is known."""
        news = self._source.news
        return max((news.interval_ns(dpid, now_ns) or 0 for dpid in news.switches()), default=0)

    def stale(self, now_ns: int) -> list[Stale]:
        """Return the switches whose marks come too seldom now."""
        news, found = self._source.news, []
        for dpid in news.switches():
            interval_ns = news.interval_ns(dpid, now_ns)
            if interval_ns is not None and interval_ns > self.usable_ns:
                found.append(Stale(dpid, interval_ns, news.is_silent(dpid, now_ns)))
        return found

    def check(self, now_ns: int) -> None:
        """Tell the log of switches that became stale, or are so no more."""
        stale = {one.dpid: one for one in self.stale(now_ns)}
        fresh = sorted(self._known - stale.keys())
        begun = [stale[dpid] for dpid in sorted(stale.keys() - self._known)]
        self.changes += len(begun)
        self._known = set(stale)
        if begun:
            LOG.warning(
                "marks of %s come every %s ms, which is too seldom for decision %s: every %g ms at most; %s",
                _some([f"{one.dpid:016x}" for one in begun]), max(one.interval_ns for one in begun) // 1_000_000,
                self._decision, self.usable_ns / 1e6,
                "shims return to their shares" if self._decision == "marks" else "rates go on by the capacities known",
            )  # fmt: skip
        if fresh:
            LOG.info("marks of %s come often enough again, or are expected no more",
                     _some([f"{dpid:016x}" for dpid in fresh]))  # fmt: skip


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"switch {', '.join(names[:_NAMED_MAX])}{more}"
