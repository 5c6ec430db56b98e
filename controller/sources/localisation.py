# SPDX-License-Identifier: Apache-2.0
"""Which port set the marks that receivers saw.

A packet of pair p that crosses port h is marked there with a probability q_h that is the port's own, whoever sends.
Receivers know of each pair how many packets came lately, n_p, and how many with CE, m_p; the graph knows the part a_ph
of the pair's packets that leaves by h. So m_p is about n_p times the sum of a_ph q_h over the ports of its way. Many q
fit that. Ports are seldom full, so the simplest explanation is looked for (the smallest consistent failure set:
Duffield, IEEE Transactions on Information Theory 52, 2006). With r_p = m_p at first, until nearly all is explained:

    b_h = min over the pairs of h of (r_p + sqrt(r_p) + 1) / (n_p a_ph)     no pair's marks may be fewer than h set
    q_h = min(b_h, sum of r_p / sum of n_p a_ph)
    of all h that which explains most:  q_h * sum of n_p a_ph * (1 + u_h) / 2  is largest;  r_p <- r_p - n_p a_ph q_h

u_h is how much of its capacity a port carries, 1/2 where that is not known; of ports that all pairs cross together it
decides, and of equal ones the last is taken. What a pair's marks are then worth at each port of its way is

    m_ph = m_p a_ph q_h / sum over the way's ports k of a_pk q_k
"""

import collections
import dataclasses
import heapq
import itertools
import math
from typing import Callable, Mapping

from sdngcc.controller.network.conversations import Arrived
from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.topology import Hop

HALF_LIFE_NS = 50_000_000  # of what came "lately"
REVIEW_NS = 10_000_000  # between two explanations
RECENT_MAX = 2048  # pairs that one explanation chooses from: those heard last
PAIRS_MAX = 512  # that it looks at: those with the most marks, then those with the most packets
PACKETS_MIN = 5.0  # of a pair that may speak for a port
EXPLAINED = 0.98
LOAD_UNKNOWN = 0.5
LATER = 1e-3  # by which a port is preferred to the one before it on a way
FORGET_NS = 20 * HALF_LIFE_NS
TALKERS_MAX = 65_536  # pairs remembered

Way = Mapping[Hop, float]  # ports in the order in which they are crossed, each with its part of the packets


@dataclasses.dataclass
class _Talk:
    """What came lately of a pair."""

    packets: float = 0.0
    marks: float = 0.0
    bytes: float = 0.0
    time_ns: int = 0  # of all three
    heard_ns: int = 0  # when any came

    def age(self, now_ns: int) -> "_Talk":
        """Let what is old count less; return the same."""
        if now_ns != self.time_ns:
            factor = 0.5 ** ((now_ns - self.time_ns) / HALF_LIFE_NS)
            self.packets *= factor
            self.marks *= factor
            self.bytes *= factor
            self.time_ns = now_ns
        return self


@dataclasses.dataclass
class _Suspect:
    """A port that may have set marks."""

    parts: dict[Pair, float] = dataclasses.field(default_factory=dict)  # n_p a_ph
    packets: float = 0.0  # their sum
    load: float = 0.0
    place: int = 0  # on the ways, the farthest


class Localiser:
    """Remembers what came of each pair.

    ``way`` tells a pair's, ``capacity`` a port's in bytes/s, infinite where it is not known.
    """

    def __init__(self, way: Callable[[Pair], Way], capacity: Callable[[Hop], float]) -> None:
        self._way = way
        self._capacity = capacity
        self._talks: collections.OrderedDict[Pair, _Talk] = collections.OrderedDict()  # heard longest ago first
        self._owed: dict[Hop, float] = {}  # what rounding to whole marks left over
        self._blame: dict[Hop, float] = {}  # q_h
        self._reviewed_ns = 0

    def locate(self, arrived: Mapping[Pair, Arrived], now_ns: int) -> dict[Hop, int]:
        """Take what came of pairs; return the marks that each port set.

        They add up to those of the pairs with a known way, but for what rounding carries on to the next call.
        """
        marked = False
        for pair, came in arrived.items():
            talk = self._talks.pop(pair, None) or _Talk(time_ns=now_ns)
            self._talks[pair] = talk.age(now_ns)
            talk.heard_ns = now_ns
            talk.packets += came.packets
            talk.marks += came.marks
            talk.bytes += came.bytes
            marked |= came.marks > 0
        self._forget(now_ns)
        if not marked:
            return {}
        if now_ns - self._reviewed_ns >= REVIEW_NS:
            self._reviewed_ns = now_ns
            self._blame = self._explain(now_ns)
        found: dict[Hop, float] = {}
        for pair, came in arrived.items():
            if came.marks:
                for hop, marks in self._divide(came.marks, self._way(pair)).items():
                    found[hop] = found.get(hop, 0.0) + marks
        return self._whole(found)

    def _divide(self, marks: int, way: Way) -> dict[Hop, float]:
        weights = {hop: part * self._blame[hop] for hop, part in way.items() if hop in self._blame}
        total = sum(weights.values())
        if total <= 0:  # not explained yet: the last port
            return {hop: float(marks) for hop in list(way)[-1:]}
        return {hop: marks * weight / total for hop, weight in weights.items()}

    # The explanation

    def _explain(self, now_ns: int) -> dict[Hop, float]:
        recent = itertools.islice(reversed(self._talks.items()), RECENT_MAX)
        talks = {pair: talk.age(now_ns) for pair, talk in recent}
        chosen = heapq.nlargest(PAIRS_MAX, talks, key=lambda pair: (talks[pair].marks, talks[pair].packets))
        left = {pair: talks[pair].marks for pair in chosen}
        suspects = self._suspects({pair: talks[pair] for pair in chosen})
        unexplained = (1 - EXPLAINED) * sum(left.values())
        blame: dict[Hop, float] = {}
        while suspects and sum(left.values()) > unexplained:
            hop, rate = max(
                ((hop, _rate(suspect, left)) for hop, suspect in suspects.items()),
                key=lambda found: _worth(suspects[found[0]], found[1]),
            )
            if rate <= 0:
                break
            blame[hop] = rate
            for pair, packets in suspects.pop(hop).parts.items():
                left[pair] = max(0.0, left[pair] - packets * rate)
        return blame

    def _suspects(self, talks: Mapping[Pair, _Talk]) -> dict[Hop, _Suspect]:
        """Return the ports on the ways of pairs with marks, with all pairs that cross them."""
        ways = {pair: self._way(pair) for pair in talks}
        suspects: dict[Hop, _Suspect] = {}
        for pair, talk in talks.items():
            if talk.marks > 0:
                for place, hop in enumerate(ways[pair]):
                    suspect = suspects.setdefault(hop, _Suspect())
                    suspect.place = max(suspect.place, place)
        carried: dict[Hop, float] = {}
        for pair, talk in talks.items():
            for hop, part in ways[pair].items():
                if hop in suspects and (talk.marks > 0 or talk.packets >= PACKETS_MIN):
                    suspects[hop].parts[pair] = talk.packets * part
                    suspects[hop].packets += talk.packets * part
                    carried[hop] = carried.get(hop, 0.0) + talk.bytes * part
        for hop, suspect in suspects.items():
            capacity = self._capacity(hop)
            rate = carried.get(hop, 0.0) * math.log(2) / (HALF_LIFE_NS / 1e9)
            suspect.load = LOAD_UNKNOWN if math.isinf(capacity) else min(rate / capacity, 1.0)
        return suspects

    # What is left over

    def _whole(self, found: Mapping[Hop, float]) -> dict[Hop, int]:
        whole = {}
        for hop, marks in found.items():
            due = marks + self._owed.get(hop, 0.0)
            count = math.floor(due + 1e-9)
            self._owed[hop] = due - count
            if count:
                whole[hop] = count
        return whole

    def _forget(self, now_ns: int) -> None:
        """Forget pairs of which nothing came for long."""
        while self._talks:
            pair, talk = next(iter(self._talks.items()))
            if now_ns - talk.heard_ns < FORGET_NS and len(self._talks) <= TALKERS_MAX:
                break
            del self._talks[pair]

    def forget(self, dpid: int) -> None:
        """Forget the ports of a switch."""
        for table in (self._owed, self._blame):
            for hop in [hop for hop in table if hop[0] == dpid]:
                del table[hop]


def _rate(suspect: _Suspect, left: Mapping[Pair, float]) -> float:
    """Return q_h: the part of a port's packets that it may have marked."""
    if not suspect.packets:
        return 0.0
    bound = min(
        (left[pair] + math.sqrt(left[pair]) + 1) / packets
        for pair, packets in suspect.parts.items()
        if packets >= PACKETS_MIN or left[pair] > 0
    )
    return min(bound, sum(left[pair] for pair in suspect.parts) / suspect.packets)


def _worth(suspect: _Suspect, rate: float) -> float:
    """Return how much of the marks a port explains, and how likely."""
    return rate * suspect.packets * (1 + suspect.load) / 2 * (1 + LATER * suspect.place)
