# SPDX-License-Identifier: Apache-2.0
"""Whether what the controller does has an effect: marks come, their sources are found, and shims obey.

What lacks wholly keeps the controller from its work; what lacks in part is a warning. Counts are those of the last
WINDOW_NS. Each fault is logged when it begins and when it ends. There is no clock in here.
"""

import collections
import logging
from typing import Any, Callable, Iterable, Literal, Mapping, NamedTuple, Optional

from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.rates.numbering import Numbering
from sdngcc.controller.sources.base import MarkSource

Cause = Literal["marks", "sources", "shims"]
CAUSES: tuple[Cause, ...] = ("marks", "sources", "shims")

WINDOW_NS = 60_000_000_000
TOLD_AGAIN_NS = 60_000_000_000  # a fault that comes and goes is logged no more often
MARKS_LEAST = 100  # in a window, to judge by
MESSAGES_LEAST = 10
PART = 0.5  # of marks without a source, and of messages refused, from which on there is a warning
ORIGINS_NS = 30_000_000_000  # from the start; those that feed a source may come later than switches do
_NAMED_MAX = 5

LOG = logging.getLogger(__name__)


class Fault(NamedTuple):
    """What lacks; ``whole``: altogether."""

    cause: Cause
    whole: bool
    text: str


class Tally(NamedTuple):
    """Counts since the start."""

    marks: int = 0
    without_source: int = 0
    accepted: int = 0  # messages, as shims tell
    refused: int = 0


class Effect:
    """Judges once a second; ``faults`` is what it found last.

    ``has_machines`` tells of which bridge databases know VMs, though the bridge itself tells of none; ``by_marks``
    whether nothing is decided without marks.
    """

    def __init__(
        self,
        switches: Mapping[int, SwitchRecord],
        source: MarkSource,
        numbering: Numbering,
        counters: "collections.Counter[str]",
        has_machines: Callable[[int], bool],
        by_marks: bool,
        started_ns: int,
    ) -> None:
        self.faults: list[Fault] = []
        self._switches, self._source, self._numbering, self._counters = switches, source, numbering, counters
        self._has_machines = has_machines
        self._by_marks = by_marks
        self._started_ns = started_ns
        self._tallies: collections.deque[tuple[int, Tally]] = collections.deque([(started_ns, Tally())])
        self._told: dict[Cause, tuple[Optional[bool], int]] = {}  # whether the fault is whole, None: none; since when

    def check(self, now_ns: int) -> None:
        """Look at what there is; call it once a second."""
        counters, numbering = self._counters, self._numbering
        counters["messages_accepted"], counters["messages_refused"] = numbering.accepted, numbering.refused
        now = Tally(counters["marks"], counters["marks_without_source"], numbering.accepted, numbering.refused)
        self._tallies.append((now_ns, now))
        while len(self._tallies) > 1 and self._tallies[1][0] <= now_ns - WINDOW_NS:
            self._tallies.popleft()
        recent = Tally(*(after - before for after, before in zip(now, self._tallies[0][1])))
        marks = [one for one in (self._marks(now_ns), _sources(recent)) if one is not None]
        if not self._by_marks:  # capacities are decided by, too
            marks = [one._replace(whole=False) for one in marks]
        self.faults = marks + list(self._shims(recent))
        for cause in CAUSES:
            self._tell(cause, [one for one in self.faults if one.cause == cause], now_ns)

    def _marks(self, now_ns: int) -> Optional[Fault]:
        settled = {dpid: switch for dpid, switch in self._switches.items() if switch.settled}
        if self._source.polled:
            refusing = [dpid for dpid, switch in settled.items() if switch.marks is False]
            if refusing and len(refusing) == len(settled):
                return Fault("marks", True, f"no switch reports marks; they are refused by {_some(refusing)}")
            return None
        origins = self._source.origins(now_ns)
        dumb = [one for one in origins if one["state"] not in ("fresh", "slow")]
        if not settled or not dumb or now_ns - self._started_ns < ORIGINS_NS:
            return None
        names = ", ".join(str(one["name"]) for one in dumb[:_NAMED_MAX])
        whole = len(dumb) == len(origins)
        how = "none" if whole else "not all"
        return Fault("marks", whole, f"{how} of what feeds mark_source tells of marks: {names}")

    def _shims(self, recent: Tally) -> Iterable[Fault]:
        bridges = {dpid: one for dpid, one in self._switches.items() if one.settled and self._holds_machines(dpid, one)}
        bare = [dpid for dpid, switch in bridges.items() if switch.vm_state is False]
        if bare:
            yield Fault(
                "shims", len(bare) == len(bridges),
                f"bridge {_some(bare)} knows no VM state: its Open vSwitch has no shim, and its VMs are not controlled",
            )  # fmt: skip
        told = recent.accepted + recent.refused
        if recent.refused >= MESSAGES_LEAST and recent.refused >= PART * told:
            whole = not recent.accepted
            yield Fault(
                "shims", whole,
                f"{recent.refused} of {told} messages of the last minute were refused by the shims of VMs: another key "
                "(key_file beside shim-key-file), a clock that was set back, or a law that obeys no rates",
            )  # fmt: skip

    def _holds_machines(self, dpid: int, switch: SwitchRecord) -> bool:
        return bool(switch.vms) or switch.hypervisor or self._has_machines(dpid)

    def _tell(self, cause: Cause, faults: list[Fault], now_ns: int) -> None:
        state = any(one.whole for one in faults) if faults else None
        before, since_ns = self._told.get(cause, (None, now_ns - TOLD_AGAIN_NS))
        if state == before or (before is None and now_ns - since_ns < TOLD_AGAIN_NS):
            return
        self._told[cause] = state, now_ns
        for one in faults:
            LOG.log(logging.ERROR if one.whole else logging.WARNING, "%s", one.text)
        if not faults:
            LOG.info("%s: as it should be again", cause)


def _sources(recent: Tally) -> Optional[Fault]:
    if recent.marks < MARKS_LEAST or recent.without_source < PART * recent.marks:
        return None
    whole = recent.without_source == recent.marks
    return Fault(
        "sources", whole,
        f"of {recent.marks} marks of the last minute, {recent.without_source} have no source: no VM behind the "
        "congested ports is known, so nobody is slowed",
    )  # fmt: skip


def _some(dpids: list[int]) -> str:
    named = sorted(dpids)
    more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    return ", ".join(f"{dpid:016x}" for dpid in named[:_NAMED_MAX]) + more


def shown(faults: Iterable[Fault]) -> dict[tuple[Cause, str], Any]:
    """Return 1 for each cause and extent there is, 0 for the others."""
    there = {(one.cause, "all" if one.whole else "some") for one in faults}
    return {(cause, extent): int((cause, extent) in there) for cause in CAUSES for extent in ("all", "some")}
