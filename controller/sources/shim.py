# SPDX-License-Identifier: Apache-2.0
"""Marks that the receivers' own shims saw: any fabric that marks will do, whoever made its switches.

Every T_i each host is asked whom its machines exchanged packets with (HOST_PEERS). Packets that came with CE were
marked somewhere on the way from the remote machine; where, the ways that share the marks tell (localisation.py). Told
apart:

- an entry's first reading is a baseline: no marks;
- CE from an address that no host here has: nobody could be told, so it is counted in ``strangers`` and goes no further;
- CE of a pair whose way is not known: counted in ``ways_unknown``.
"""

from typing import Callable, Iterator, Optional

from sdngcc.controller.network.conversations import Conversations
from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.topology import Hop, Topology
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.base import MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.localisation import Localiser, Way
from sdngcc.controller.wire import experimenter
from sdngcc.controller.wire.experimenter import Reply


class ShimMarks(MarkSource):
    """Marks by HOST_PEERS; ``period_ns`` is T_i."""

    name = "shim"
    asks_for = experimenter.HOST_PEERS
    semantics = Semantics.ARRIVED
    everywhere = True

    def __init__(self, period_ns: int) -> None:
        super().__init__()
        self._period_ns = period_ns
        self._conversations: Conversations
        self._localiser: Localiser
        self._way: Callable[[Pair], Way]
        self._clock: Callable[[], int]
        self._asked_ns: dict[int, int] = {}  # host -> when its last reply was read, its clock
        self._marks: dict[int, dict[int, int]] = {}  # by switch and port

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "ShimMarks":
        """Return a source by settings."""
        return cls(settings.period_us * 1000)

    def follow(
        self,
        conversations: Conversations,
        way: Callable[[Pair], Way],
        capacity: Callable[[Hop], float],
        clock: Callable[[], int],
    ) -> None:
        """Read replies by ``conversations``; ``way`` tells the fabric's ports that a pair's packets leave by.

        ``capacity`` tells a port's, bytes/s, infinite where it is not known.
        """
        self._conversations = conversations
        self._clock = clock
        self._way = way
        self._localiser = Localiser(way, capacity)

    @property
    def freshness_ns(self) -> int:
        """Return 0: the shims' counters are read when a host is asked."""
        return 0

    def request(self, dpid: int, xid: int) -> bytes:
        """Return the message that asks a host for what moved."""
        return self._conversations.request(dpid, xid)

    def take_in_steps(self, dpid: int, reply: Reply) -> Iterator[list[PortMarks]]:
        """Yield, once all of a HOST_PEERS reply is read, its marks by the port that set them."""
        steps = self._conversations.take_in_steps(dpid, reply)
        arrivals = yield from steps
        before = self._asked_ns.get(dpid, 0)
        elapsed = max(reply.time_ns - before, 1) if 0 < before < reply.time_ns else self._period_ns
        self._asked_ns[dpid] = reply.time_ns
        if arrivals.strangers:
            self.faults["strangers"] += arrivals.strangers
        for pair, came in arrivals.pairs.items():
            if came.marks and not self._way(pair):
                self.faults["ways_unknown"] += came.marks
        interval = min(elapsed, 2 * self._period_ns)
        fresh = []
        for hop, marks in self._localiser.locate(arrivals.pairs, self._clock()).items():
            of_switch = self._marks.setdefault(hop[0], {})
            of_switch[hop[1]] = of_switch.get(hop[1], 0) + marks
            fresh.append(PortMarks(hop, max(1, marks * interval // elapsed), interval))
        yield fresh

    def counted(self, dpid: int) -> bool:
        """Tell whether a host told anything."""
        return dpid in self._asked_ns

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return the marks of a switch's ports."""
        return {port: Reading(marks) for port, marks in self._marks.get(dpid, {}).items()}

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a host."""
        if port is None:
            self._asked_ns.pop(dpid, None)
            self._localiser.forget(dpid)
            self._marks.pop(dpid, None)
