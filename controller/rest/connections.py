# SPDX-License-Identifier: Apache-2.0
"""Which connections REST serves, and for how long; plain decisions without sockets.

Every phase of a connection ends by itself: whoever sends a request byte by byte, or does not take the answer, is cut
off.  When there are too many connections, of one peer or in all, the one that has kept the server waiting longest
makes way for the newcomer, so that whoever asks at once is served, however many others are slow.
"""

import collections
import dataclasses
import enum
from typing import Callable, Counter, Optional

CONNECTIONS_MAX = 256
PEER_CONNECTIONS_MAX = 64
ANSWER_GRACE_S = 5.0  # an answer that takes no longer is not cut off for a newcomer


class Phase(enum.Enum):
    """What a connection waits for, and for how many seconds at most; None: for ever."""

    HEAD = ("head", 10.0)  # TLS, a request line and headers
    BODY = ("body", 10.0)
    ANSWER = ("answer", 60.0)  # made, and taken by the client
    IDLE = ("idle", 30.0)  # for the next request line
    STREAM = ("stream", None)  # of events; a client that does not read is the broker's to cut

    def __init__(self, text: str, longest_s: Optional[float]) -> None:
        self.text = text
        self.longest_s = longest_s


@dataclasses.dataclass(eq=False)
class Connection:
    """One connection; ``end`` breaks it, ``end_input`` only what comes in, so that an answer can still go out."""

    peer: str
    end: Callable[[], None]
    end_input: Callable[[], None]
    since_s: float
    phase: Phase = Phase.HEAD
    keep: bool = True  # open after this request
    expired: bool = False


class Connections:
    """All connections there are; ``counters`` are those of /v1/status."""

    def __init__(self, counters: "Counter[str]", clock: Callable[[], float]) -> None:
        self._counters = counters
        self._clock = clock
        self._all: set[Connection] = set()
        self._by_peer: dict[str, set[Connection]] = collections.defaultdict(set)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def admit(self, peer: str, end: Callable[[], None], end_input: Callable[[], None]) -> Optional[Connection]:
        """Take a new connection, ending another for it where there are too many; None: there is no room."""
        crowd: Optional[set[Connection]] = None
        if len(self._by_peer.get(peer, ())) >= PEER_CONNECTIONS_MAX:
            crowd = self._by_peer[peer]
        elif len(self._all) >= CONNECTIONS_MAX:
            crowd = max(self._by_peer.values(), key=len)
        if crowd is not None:
            slowest = min(filter(self._is_slow, crowd), key=lambda one: one.since_s, default=None)
            if slowest is None:
                self._counters["rest_connections_refused"] += 1
                return None
            self._counters["rest_connections_displaced"] += 1
            self.forget(slowest)
            slowest.end()
        connection = Connection(peer, end, end_input, self._clock())
        self._all.add(connection)
        self._by_peer[peer].add(connection)
        return connection

    def _is_slow(self, connection: Connection) -> bool:
        """Tell whether a connection may make way: its client is awaited, or has long been given an answer."""
        if connection.phase == Phase.ANSWER:
            return self._clock() - connection.since_s > ANSWER_GRACE_S
        return connection.phase != Phase.STREAM

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Note that a connection's next phase begins."""
        connection.phase, connection.since_s = phase, self._clock()

    def forget(self, connection: Connection) -> None:
        """Note that a connection ended."""
        self._all.discard(connection)
        peers = self._by_peer.get(connection.peer)
        if peers is not None:
            peers.discard(connection)
            if not peers:
                del self._by_peer[connection.peer]

    def expire(self) -> None:
        """End the connections whose phase has lasted too long; one whose body is late may still be told so."""
        now = self._clock()
        for one in list(self._all):
            if one.expired or one.phase.longest_s is None or now - one.since_s <= one.phase.longest_s:
                continue
            self._counters[f"rest_{one.phase.text}_timeouts"] += 1
            if one.phase == Phase.BODY:
                one.expired = True
                one.end_input()
            else:
                self.forget(one)
                one.end()

    def view(self) -> dict[str, int]:
        """Return how many connections are in each phase."""
        found = collections.Counter(one.phase.text for one in self._all)
        return {phase.text: found[phase.text] for phase in Phase}
