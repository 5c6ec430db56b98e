# SPDX-License-Identifier: Apache-2.0
"""Requests for counters of flows and groups: what is asked of which switch, when, and what the answers give.

A switch is asked only while somebody wants its counters, never while it owes an answer.
"""

import abc
import dataclasses
from typing import Any, Callable, Optional, Sequence

from sdngcc.controller import budget
from sdngcc.controller.network.proportions import Proportions
from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.schedule import Schedule
from sdngcc.controller.wire import openflow

WANTED_NS = 2_000_000_000  # a switch is asked this long after its counters were last of use
LOST_NS = 2_000_000_000  # an answer not there by then is lost
MOST = 16  # requests at a time
REPLY_MAX_BYTES = 16 << 20  # of all parts of an answer
ENTRY_BYTES = 64  # of an answer, about


@dataclasses.dataclass
class _Switch:
    """How the asking of a switch goes."""

    wanted_ns: int
    due_ns: int
    xid: int = 0  # of the request not answered yet; 0: none
    size: int = 0  # of the parts of the answer so far, bytes
    told: Any = None  # by these


class Counters(abc.ABC):
    """One kind of counters; ``period_ns`` lies between two requests to a switch."""

    kind: int  # of multipart message

    def __init__(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self.replies = 0
        self.lost = 0
        self._switches: dict[int, _Switch] = {}
        self._turns: Schedule[int] = Schedule()

    @abc.abstractmethod
    def request(self, xid: int) -> bytes:
        """Return the message that asks a switch for all counters of the kind."""

    @abc.abstractmethod
    def read(self, dpid: int, told: Any, part: bytes) -> Any:
        """Return what a reply tells up to a part; ``told`` is what it told before, None at first.

        Raises openflow.MessageError for a part that cannot be read.
        """

    @abc.abstractmethod
    def take(self, dpid: int, told: Any) -> None:
        """Take what a whole reply tells."""

    def want(self, dpid: int, now_ns: int) -> None:
        """Keep a switch's counters fresh from now on, for WANTED_NS."""
        switch = self._switches.get(dpid)
        if switch is None:
            self._switches[dpid] = _Switch(now_ns, now_ns)
            self._turns.put(dpid, now_ns)
        else:
            switch.wanted_ns = now_ns

    def due(self, now_ns: int) -> list[int]:
        """Return some of the switches to ask now; the caller calls asked() for each that it could ask."""
        turn: list[int] = []
        while len(turn) < MOST:
            dpid = self._turns.pop(now_ns)
            if dpid is None:
                break
            switch = self._switches[dpid]
            if switch.xid:  # it is looked at again because its answer does not come
                self.lost += 1
                switch.xid = 0
            if now_ns - switch.wanted_ns > WANTED_NS:
                del self._switches[dpid]
                continue
            if now_ns >= switch.due_ns:
                switch.due_ns = now_ns + self.period_ns
                turn.append(dpid)
            self._turns.put(dpid, switch.due_ns)
        return turn

    def asked(self, dpid: int, xid: int, now_ns: int) -> None:
        """Note a request on its way."""
        switch = self._switches[dpid]
        switch.xid = xid
        switch.size, switch.told = 0, None
        self._turns.put(dpid, now_ns + LOST_NS + 1)

    def owes(self, dpid: int, xid: int) -> bool:
        """Tell whether that transaction is our request to a switch, not answered yet."""
        switch = self._switches.get(dpid)
        return switch is not None and switch.xid == xid != 0

    def refused(self, dpid: int) -> None:
        """Take note that a switch answered a request with an error: it is asked again a period later."""
        self._answered(dpid)

    def _answered(self, dpid: int) -> None:
        switch = self._switches[dpid]
        switch.xid = 0
        self._turns.put(dpid, switch.due_ns)

    def next_ns(self, now_ns: int) -> int:
        """Return when a switch is due next, at most LOST_NS from now."""
        return min(self._turns.next_ns(), now_ns + LOST_NS)

    def feed(self, dpid: int, data: bytes) -> None:
        """Take one part of a multipart reply; those to others' requests are left alone.

        Raises openflow.MessageError for a reply that cannot be read.
        """
        if not self.owes(dpid, int.from_bytes(data[4:8], "big")):
            return
        switch = self._switches[dpid]
        switch.size += len(data)
        more = openflow.more_parts(data)
        if switch.size > REPLY_MAX_BYTES or (more and len(data) <= openflow.MULTIPART_BYTES):
            raise openflow.MessageError(f"statistics of {switch.size} bytes without an end; forgotten")
        switch.told = self.read(dpid, switch.told, data)
        if more:
            return
        told, switch.told = switch.told, None
        switch.due_ns += budget.rest_ns(switch.size // ENTRY_BYTES, budget.PATHS_FREE)
        self._answered(dpid)
        self.replies += 1
        self.take(dpid, told)

    def forget(self, dpid: int) -> None:
        """Forget a switch that is gone."""
        self._switches.pop(dpid, None)
        self._turns.drop(dpid)


class PairBytes(Counters):
    """In what proportion machines send to their destinations: the pairs' flows at the hypervisors' edge.

    ``find(number)`` returns the pair of the flow whose cookie ends in that number and its source's place, None
    when it is gone; ``cookie`` and ``mask`` tell the pairs' flows from others.
    """

    kind = openflow.OFPMP_FLOW

    def __init__(
        self, period_ns: int, cookie: int, mask: int, find: Callable[[int], Optional[tuple[Pair, Hop]]]
    ) -> None:
        super().__init__(period_ns)
        self.proportions: Proportions[Hop, Pair] = Proportions()
        self._cookie, self._mask = cookie, mask
        self._find = find

    def request(self, xid: int) -> bytes:
        """Return the message that asks a switch for the counters of its pairs' flows."""
        return openflow.flow_statistics_request(xid, self._cookie, self._mask)

    def read(self, dpid: int, told: Any, part: bytes) -> dict[Hop, dict[Pair, tuple[int, int]]]:
        """Return the counters of pairs that a part and those before tell."""
        machines: dict[Hop, dict[Pair, tuple[int, int]]] = {} if told is None else told
        for flow in openflow.flow_statistics(part):
            number = flow.cookie & 0xFFFFFFFF
            found = self._find(number)
            if found is not None and found[1][0] == dpid and flow.bytes != openflow.NOT_COUNTED:
                counters = machines.setdefault(found[1], {})
                known = counters.get(found[0], (0, 0))  # of the same pair in another VLAN
                counters[found[0]] = (known[0] + number, known[1] + flow.bytes)
        return machines

    def take(self, dpid: int, told: dict[Hop, dict[Pair, tuple[int, int]]]) -> None:
        """Take the counters of all pairs' flows of a bridge."""
        machines = told
        self.proportions.keep(dpid, machines)
        for place, counters in machines.items():
            self.proportions.take(place, counters)

    def forget(self, dpid: int) -> None:
        """Forget a bridge that is gone."""
        super().forget(dpid)
        self.proportions.keep(dpid, ())


Split = tuple[int, Pair]  # (datapath id, the pair whose frames part there)


class SplitBytes(Counters):
    """In what proportion a pair's frames part at a switch with several ways: the buckets of its select group.

    ``find(dpid, group)`` returns the pair and the ports of a group's buckets, in order, None when it is gone.
    """

    kind = openflow.OFPMP_GROUP

    def __init__(self, period_ns: int, find: Callable[[int, int], Optional[tuple[Pair, Sequence[int]]]]) -> None:
        super().__init__(period_ns)
        self.proportions: Proportions[Split, int] = Proportions()
        self._find = find

    def request(self, xid: int) -> bytes:
        """Return the message that asks a switch for the counters of its groups."""
        return openflow.group_statistics_request(xid)

    def read(self, dpid: int, told: Any, part: bytes) -> dict[Pair, dict[int, tuple[int, int]]]:
        """Return the counters of groups that a part and those before tell."""
        pairs: dict[Pair, dict[int, tuple[int, int]]] = {} if told is None else told
        for group in openflow.group_statistics(part):
            found = self._find(dpid, group.number)
            if found is not None and len(found[1]) == len(group.buckets) and openflow.NOT_COUNTED not in group.buckets:
                pairs[found[0]] = {port: (group.number, count) for port, count in zip(found[1], group.buckets)}
        return pairs

    def take(self, dpid: int, told: dict[Pair, dict[int, tuple[int, int]]]) -> None:
        """Take the counters of all groups of a switch."""
        for pair, counters in told.items():
            self.proportions.take((dpid, pair), counters)
        self.proportions.keep(dpid, {(dpid, pair) for pair in told})

    def forget(self, dpid: int) -> None:
        """Forget a switch that is gone."""
        super().forget(dpid)
        self.proportions.keep(dpid, ())
