# SPDX-License-Identifier: Apache-2.0
"""What each pair sent, from the byte counters of the pairs' flows at the hypervisors' edge.

Any OpenFlow 1.3 switch counts the bytes of a flow, but Open vSwitch brings its counters up to date only
when it revalidates its datapath, every 500 ms (other_config:max-revalidator), all flows of a bridge in one
sweep.  So the counters say in what *proportion* a machine's bytes went to its destinations; how much it
sends right now is VM_STATE's to say.

With d_p the bytes of pair p since the machine's counters moved last, each time they moved:

    b_p <- b_p / 4 + d_p        proportion of p = b_p / sum(b) over the machine's pairs

The old quarter keeps a reading that fell into the middle of a sweep from hiding half of the pairs.

A bridge is asked only while somebody wants its proportions, never while it owes an answer.
"""

import dataclasses
from typing import Callable, Iterable, Optional

from sdngcc.controller import openflow
from sdngcc.controller.relations import Pair
from sdngcc.controller.topology import Hop

KEEP = 0.25  # of what was measured before, each time counters moved
WANTED_NS = 2_000_000_000  # a bridge is asked this long after its proportions were last used
LOST_NS = 2_000_000_000  # an answer not there by then is lost
SILENT_SWEEPS = 2  # a pair whose counter stayed still this often while others moved sends nothing


@dataclasses.dataclass
class _Pair:
    """What is known of a pair's bytes."""

    number: int = 0  # of its flow, whose counter was read last
    counter: int = 0  # bytes
    recent: float = 0.0  # b_p
    still: int = 0  # sweeps in which it did not move, since it was first seen

    @property
    def measured(self) -> bool:
        """Tell whether its counter had the time to show what it sends."""
        return self.recent > 0 or self.still >= SILENT_SWEEPS


@dataclasses.dataclass
class _Bridge:
    """How the asking of a bridge goes."""

    wanted_ns: int
    due_ns: int
    xid: int = 0  # of the request not answered yet; 0: none
    asked_ns: int = 0
    parts: list[bytes] = dataclasses.field(default_factory=list)


class PairBytes:
    """The proportions in which machines send to their destinations.

    ``find(number)`` returns the pair of the flow with that number and its source's place, None when it is gone;
    ``period_ns`` lies between two requests to a bridge.
    """

    def __init__(self, find: Callable[[int], Optional[tuple[Pair, Hop]]], period_ns: int) -> None:
        self.period_ns = period_ns
        self.replies = 0
        self.lost = 0
        self.version = 0  # grows with every reading that moved a proportion
        self._find = find
        self._bridges: dict[int, _Bridge] = {}
        self._pairs: dict[Hop, dict[Pair, _Pair]] = {}

    def want(self, dpid: int, now_ns: int) -> None:
        """Keep a bridge's proportions fresh from now on, for WANTED_NS."""
        bridge = self._bridges.get(dpid)
        if bridge is None:
            self._bridges[dpid] = _Bridge(now_ns, now_ns)
        else:
            bridge.wanted_ns = now_ns

    def due(self, now_ns: int) -> list[int]:
        """Return the bridges to ask now; the caller calls asked() for each that it could ask."""
        turn = []
        for dpid, bridge in list(self._bridges.items()):
            if bridge.xid and now_ns - bridge.asked_ns > LOST_NS:
                self.lost += 1
                bridge.xid = 0
            if now_ns - bridge.wanted_ns > WANTED_NS:
                if not bridge.xid:
                    del self._bridges[dpid]
            elif not bridge.xid and now_ns >= bridge.due_ns:
                bridge.due_ns = now_ns + self.period_ns
                turn.append(dpid)
        return turn

    def asked(self, dpid: int, xid: int, now_ns: int) -> None:
        """Note a request on its way."""
        bridge = self._bridges[dpid]
        bridge.xid, bridge.asked_ns = xid, now_ns
        bridge.parts.clear()

    def owes(self, dpid: int, xid: int) -> bool:
        """Tell whether that transaction is our request to a bridge, not answered yet."""
        bridge = self._bridges.get(dpid)
        return bridge is not None and bridge.xid == xid != 0

    def refused(self, dpid: int) -> None:
        """Take note that a bridge answered a request with an error: it is asked again a period later."""
        self._bridges[dpid].xid = 0

    def next_ns(self, now_ns: int) -> int:
        """Return when a bridge is due next, at most LOST_NS from now."""
        return min((bridge.due_ns for bridge in self._bridges.values() if not bridge.xid), default=now_ns + LOST_NS)

    def feed(self, dpid: int, data: bytes) -> None:
        """Take one part of a flow statistics reply; those to others' requests are left alone.

        Raises openflow.MessageError for one that cannot be read.
        """
        if not self.owes(dpid, int.from_bytes(data[4:8], "big")):
            return
        bridge = self._bridges[dpid]
        bridge.parts.append(data)
        if openflow.more_parts(data):
            return
        parts, bridge.parts, bridge.xid = bridge.parts, [], 0
        self.replies += 1
        self._take(dpid, [flow for part in parts for flow in openflow.flow_statistics(part)])

    def _take(self, dpid: int, flows: Iterable[openflow.FlowStatistics]) -> None:
        """Take the counters of all pairs' flows of a bridge."""
        seen: dict[Hop, dict[Pair, tuple[int, int]]] = {}
        for flow in flows:
            number = flow.cookie & 0xFFFFFFFF
            found = self._find(number)
            if found is not None and found[1][0] == dpid and flow.bytes != openflow.NOT_COUNTED:
                seen.setdefault(found[1], {})[found[0]] = (number, flow.bytes)
        for place in [place for place in self._pairs if place[0] == dpid and place not in seen]:
            del self._pairs[place]
        for place, counters in seen.items():
            self._take_machine(place, counters)

    def _take_machine(self, place: Hop, counters: dict[Pair, tuple[int, int]]) -> None:
        known = self._pairs.setdefault(place, {})
        for pair in [pair for pair in known if pair not in counters]:
            del known[pair]
        moved: dict[Pair, int] = {}
        for pair, (number, counter) in counters.items():
            entry = known.setdefault(pair, _Pair())
            before = entry.counter if entry.number == number and entry.counter <= counter else 0
            moved[pair] = counter - before
            entry.number, entry.counter = number, counter
        if not any(moved.values()):
            return
        for pair, entry in known.items():
            entry.recent = entry.recent * KEEP + moved[pair]
            entry.still = 0 if moved[pair] else entry.still + 1
        self.version += 1

    def proportions(self, place: Hop, pairs: Iterable[Pair]) -> dict[Pair, float]:
        """Return how a machine's bytes go to some of its pairs; the parts add up to 1.

        A pair too new to be measured is taken for an average one: 1/n of the n pairs.
        """
        known = self._pairs.get(place, {})
        bytes_of = {pair: known.get(pair, _Pair()) for pair in pairs}
        total = sum(entry.recent for entry in bytes_of.values())
        count = len(bytes_of)
        if total <= 0:
            return dict.fromkeys(bytes_of, 1 / count) if count else {}
        new = sum(not entry.measured for entry in bytes_of.values())
        return {
            pair: (1 - new / count) * entry.recent / total if entry.measured else 1 / count
            for pair, entry in bytes_of.items()
        }

    def forget(self, dpid: int) -> None:
        """Forget a bridge that is gone."""
        self._bridges.pop(dpid, None)
        for place in [place for place in self._pairs if place[0] == dpid]:
            del self._pairs[place]
