# SPDX-License-Identifier: Apache-2.0
"""Which connections REST serves, and for how long; plain decisions without sockets.

Every phase of a connection ends by itself: whoever sends a request byte by byte, or does not take the answer, is cut
off.  When there are too many connections, of one peer or in all, the one that has kept the server waiting longest
makes way for the newcomer, so that whoever asks at once is served, however many others are slow; one that came a moment
ago is given the time to ask.  Counts and bounds are those of admission.py, as of all listeners.
"""

import collections
import dataclasses
import enum
from typing import Callable, Counter, Optional, Union

from sdngcc.controller.framework.admission import Admission, Channel, Reason

CONNECTIONS_MAX = 256
PEER_CONNECTIONS_MAX = 64
ANSWER_GRACE_S = 5.0  # an answer that takes no longer is not cut off for a newcomer
ASKING_GRACE_S = 1.0  # nor is a request that takes no longer to come


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

    channel: Channel
    end: Callable[[], None]
    end_input: Callable[[], None]
    since_s: float
    phase: Phase = Phase.HEAD
    keep: bool = True  # open after this request
    expired: bool = False

    @property
    def peer(self) -> str:
        """Return the address it came from."""
        return self.channel.address


class Connections:
    """All connections there are; ``counters`` are those of /v1/status."""

    def __init__(self, counters: "Counter[str]", clock: Callable[[], float]) -> None:
        self._counters = counters
        self._clock = clock
        self.admission = Admission(CONNECTIONS_MAX, PEER_CONNECTIONS_MAX, makes_way=self._slowest)
        self._all: dict[Channel, Connection] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def admit(
        self, address: str, port: int, end: Callable[[], None], end_input: Callable[[], None]
    ) -> Union[Connection, Reason]:
        """Take a new connection, ending another for it where there are too many; return why there is no room."""
        entry = self.admission.enter(address, port)
        if entry.evicted is not None:
            self._counters["rest_connections_displaced"] += 1
            self._all.pop(entry.evicted).end()
        if entry.channel is None:
            self._counters["rest_connections_refused"] += 1
            return entry.reason or Reason.TOO_MANY
        connection = self._all[entry.channel] = Connection(entry.channel, end, end_input, self._clock())
        return connection

    def _slowest(self, address: Optional[str]) -> Optional[Channel]:
        """Return who makes way of an address, or of the one that has most."""
        if address is None:
            [(address, _)] = self.admission.peers().most_common(1)
        crowd = (one for one in self._all.values() if one.peer == address and self._is_slow(one))
        slowest = min(crowd, key=lambda one: one.since_s, default=None)
        return None if slowest is None else slowest.channel

    def _is_slow(self, connection: Connection) -> bool:
        """Tell whether a connection may make way: its client is awaited, or has been given an answer, for long."""
        waited_s = self._clock() - connection.since_s
        if connection.phase == Phase.STREAM:
            return False
        if connection.phase == Phase.IDLE:
            return True
        return waited_s > (ANSWER_GRACE_S if connection.phase == Phase.ANSWER else ASKING_GRACE_S)

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Note that a connection's next phase begins."""
        connection.phase, connection.since_s = phase, self._clock()

    def forget(self, connection: Connection) -> None:
        """Note that a connection ended."""
        self._all.pop(connection.channel, None)
        self.admission.leave(connection.channel)

    def expire(self) -> None:
        """End the connections whose phase has lasted too long; one whose body is late may still be told so."""
        now = self._clock()
        for one in list(self._all.values()):
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
        found = collections.Counter(one.phase.text for one in self._all.values())
        return {phase.text: found[phase.text] for phase in Phase}
