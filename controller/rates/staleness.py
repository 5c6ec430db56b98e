# SPDX-License-Identifier: Apache-2.0
"""Whether marks come often enough for what is decided by them.

A law goes by the pace of its marks, so it is stable however seldom they come. But it settles in a number of their
intervals, and for one or two of these a port can be overrun before anybody hears of it. USABLE_NS is how seldom news
may come before the law should no longer be used (docs/controller.md has the measurements).
"""

import collections
import logging
from typing import NamedTuple

from sdngcc.controller.sources.base import MarkSource

USABLE_NS = {"marks": 150_000_000, "maxmin": 1_500_000_000}  # by decision
_AFTER = {"marks": "shims return to their shares", "maxmin": "rates go on by the capacities known"}
_NAMED_MAX = 8

LOG = logging.getLogger(__name__)


class Stale(NamedTuple):
    """A switch whose marks come too seldom."""

    dpid: int
    interval_ns: int  # as measured
    silent: bool  # they have ceased


class Staleness:
    """Which switches' marks come too seldom for ``decision``; ``marks_stale`` counts how often that became so."""

    def __init__(self, source: MarkSource, decision: str, counters: "collections.Counter[str]") -> None:
        self.usable_ns = USABLE_NS[decision]
        self._counters = counters
        self._source = source
        self._decision = decision
        self._known: set[tuple[int, bool]] = set()  # (switch, whether it is silent), as told

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
        stale = self.stale(now_ns)
        now = {(one.dpid, one.silent) for one in stale}
        begun = [one for one in stale if (one.dpid, one.silent) not in self._known]
        known = {dpid for dpid, _ in self._known}
        self._counters["marks_stale"] += len({one.dpid for one in begun} - known)
        ended = sorted(known - {one.dpid for one in stale})
        self._known = now
        seldom, silent = ([one for one in begun if one.silent is ceased] for ceased in (False, True))
        if seldom:
            LOG.warning(
                "marks of %s come every %d ms, which is too seldom for decision %s: every %g ms at most",
                _some(seldom),
                max(one.interval_ns for one in seldom) // 1_000_000,
                self._decision,
                self.usable_ns / 1e6,
            )
        if silent:
            LOG.warning(
                "marks of %s have ceased, for %d ms: %s",
                _some(silent), max(one.interval_ns for one in silent) // 1_000_000, _AFTER[self._decision],
            )  # fmt: skip
        if ended:
            LOG.info("marks of %s come often enough again, or are expected no more", _names(ended))


def _some(switches: list[Stale]) -> str:
    return _names([one.dpid for one in switches])


def _names(dpids: list[int]) -> str:
    more = f" and {len(dpids) - _NAMED_MAX} more" if len(dpids) > _NAMED_MAX else ""
    return f"switch {', '.join(f'{dpid:016x}' for dpid in dpids[:_NAMED_MAX])}{more}"
