# SPDX-License-Identifier: Apache-2.0
"""Polling of switches for the mark source: what is asked, when, and what the answers show."""

import logging
from typing import Any, Iterator

from sdngcc.controller import budget
from sdngcc.controller.cluster.owner import Owner
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.rates.monitor import Monitor
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import MarkSource, PortMarks
from sdngcc.controller.wire import experimenter, openflow

LOG = logging.getLogger(__name__)


class Polling:
    """Asks the switches this controller acts for, by the times of ``monitor``."""

    def __init__(
        self,
        settings: Settings,
        source: MarkSource,
        monitor: Monitor,
        switches: dict[int, SwitchRecord],
        owner: Owner,
        outbox: Outbox,
        xids: Iterator[int],
    ) -> None:
        self._settings = settings
        self._source = source
        self._monitor = monitor
        self._switches = switches
        self._owner = owner
        self._outbox = outbox
        self._xids = xids

    def run(self, now_ns: int) -> None:
        """Ask the switches whose turn it is."""
        turn, notes = self._monitor.due(now_ns)
        for note in notes:
            LOG.warning("%s", note)
        for dpid in turn:
            xid = next(self._xids)
            self._outbox.put(dpid, self._source.request(dpid, xid))
            self._monitor.asked(dpid, xid, now_ns)

    def prepare(self, dpid: int, ports: list[int]) -> None:
        """Give ports of a switch what the mark source needs there."""
        data = self._source.prepare(dpid, ports)
        if data:
            self._outbox.put_owned(dpid, data)

    def owes(self, dpid: int, xid: int) -> bool:
        """Tell whether that transaction is a poll not answered yet."""
        poll = self._monitor.polls.get(dpid)
        return poll is not None and poll.xid == xid != 0

    def take_marks(
        self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now_ns: int
    ) -> Iterator[list[PortMarks]]:
        """Take the answer to a poll; yield the marks to act on, of some entries at a time.

        It is answered with the first step; a switch that is gone before the last one has no more steps.
        """
        self._note_answer(switch, xid, now_ns)
        rest_ns = budget.poll_rest_ns(experimenter.count(reply))
        for fresh in self._source.take_in_steps(switch.dpid, reply):
            yield fresh
            if self._switches.get(switch.dpid) is not switch:
                return
        if any(reply.entries) or self._source.everywhere:
            self._pace(switch, now_ns)
        self._hear(switch.dpid, now_ns)
        if rest_ns:
            self._monitor.rest(switch.dpid, now_ns + rest_ns)

    def take_flows(self, switch: SwitchRecord, xid: int, data: bytes, now_ns: int) -> tuple[list[PortMarks], bool]:
        """Take one part of flow statistics that a poll asked for; return its marks and whether it was the last.

        Raises openflow.MessageError for one that cannot be read.
        """
        last = not openflow.more_parts(data)
        fresh = self._source.take_flows(switch.dpid, openflow.flow_statistics(data), last, now_ns)
        if last:
            self._note_answer(switch, xid, now_ns)
            self._pace(switch, now_ns)
            self._hear(switch.dpid, now_ns)
        return fresh, last

    def refused(self, switch: SwitchRecord, kind: int, code: int) -> None:
        """Poll a switch no more that answered with an error."""
        switch.marks = False
        self._monitor.remove(switch.dpid)
        self._source.news.forget(switch.dpid)
        LOG.warning("switch %016x does not report marks (error type %d code %d); not polled", switch.dpid, kind, code)

    def spare(self, dpid: int, now_ns: int) -> None:
        """Poll a bridge that turned out to be a hypervisor's seldom, unless settings or source want it otherwise."""
        if not (self._settings.poll_hypervisors or self._source.everywhere):
            self._monitor.set_idle(dpid, True, now_ns)

    def is_spared(self, dpid: int) -> bool:
        """Tell whether a switch's own ports are the shim's to share: a hypervisor's."""
        switch = self._switches.get(dpid)
        return switch is not None and switch.hypervisor and not self._settings.poll_hypervisors

    def _note_answer(self, switch: SwitchRecord, xid: int, now_ns: int) -> None:
        switch.marks = True
        note = self._monitor.answered(switch.dpid, xid, now_ns)
        if note:
            LOG.info("%s", note)

    def _hear(self, dpid: int, now_ns: int) -> None:
        """Let an answer be news where the switch is asked for its marks every T_i."""
        poll = self._monitor.polls.get(dpid)
        if poll is not None and not poll.idle:
            self._source.answered(dpid, now_ns)

    def _pace(self, switch: SwitchRecord, now_ns: int) -> None:
        """Poll a switch every T_i if it has counters and is not one that is spared."""
        spared = not self._source.everywhere and self.is_spared(switch.dpid)
        idle = spared or not self._source.counted(switch.dpid)
        self._monitor.set_idle(switch.dpid, idle, now_ns)
        if idle:
            self._source.news.forget(switch.dpid)

    def counts(self) -> dict[str, Any]:
        """Return the sums over all switches' polls; times in microseconds."""
        polls = self._monitor.polls.values()
        return {
            "polls": sum(poll.polls for poll in polls),
            "replies": sum(poll.replies for poll in polls),
            "skipped": sum(poll.skipped for poll in polls),
            "lost": sum(poll.lost for poll in polls),
            "reply_max_us": max((poll.reply_max_ns for poll in polls), default=0) // 1000,
            "late_max_us": self._monitor.late_max_ns // 1000,
        }
