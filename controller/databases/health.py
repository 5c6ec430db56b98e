# SPDX-License-Identifier: Apache-2.0
"""Whether a database can be worked with, judged by what its connection shows; plain decisions without sockets.

A connection that stands proves nothing: the kernel accepts connections and takes bytes for a process that was stopped.
Only bytes that *come* show that a database lives, so one that is silent is asked for an echo, and one that owes an
answer for HUNG_NS counts as hung, and so does one whose tables are not read within TABLES_NS by several
connections: another kind of database ends each. All times are ns of one monotonic clock.

Where everything is slow a database may owe each answer for longer than HUNG_NS, and a connection that ends then would
have to begin anew for ever. So each connection that ends before its tables were read gives the next one twice the time,
up to PATIENCE_NS; the database counts as hung meanwhile.
"""

import dataclasses
import logging
from typing import Literal, NamedTuple, Optional, get_args

State = Literal["connecting", "connected", "unreachable", "hung", "no quorum", "gone", "unusable"]
Kind = Literal["hypervisor", "cluster", "ovn", "neutron"]

STATES: tuple[State, ...] = get_args(State)
PROBE_NS = 1_000_000_000  # between two echoes
HUNG_NS = 3_000_000_000  # a database that owes an answer for so long is hung
TABLES_NS = 30_000_000_000  # several connections, and no tables, for so long
PATIENCE_NS = 24_000_000_000  # the longest a connection without tables waits for an answer before it ends
UNREACHABLE_NS = 2_000_000_000  # without a connection for so long; a restart takes less

_MEANS = {
    "connecting": "not connected yet",
    "connected": "connected",
    "unreachable": "no connection can be made, or it broke",
    "hung": "it accepts connections and answers nothing",
    "no quorum": "its servers answer, but none takes a change",
    "gone": "it connected to this controller, its connection ended, and it has not come back",
    "unusable": "it refuses what is asked, or what it says cannot be used",
}

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class Health:
    """The state of one database, and since when it has it."""

    remote: str
    kind: Kind
    since_ns: int
    consequence: str  # for the log: what follows while it is away
    state: State = "connecting"
    changes: int = 0  # of the state, since the start
    awaited: bool = True  # the controller is not ready without it
    own_fault: Optional[str] = None  # what is wrong with the database or its connection, in words
    node_fault: Optional[str] = None  # what a node says is wrong with its shim, in words

    @property
    def fault(self) -> Optional[str]:
        """What is wrong beyond its state, in words: with itself, or else with its node; None: nothing."""
        return self.own_fault or self.node_fault

    def become(self, state: State, now_ns: int) -> None:
        """Take the state as it is now; a change is logged, once."""
        if state == self.state:
            return
        lasted_s = (now_ns - self.since_ns) / 1e9
        before, self.state, self.since_ns, self.changes = self.state, state, now_ns, self.changes + 1
        if state == "connected":
            LOG.info("%s database %s: connected (was %s for %.1f s)", self.kind, self.remote, before, lasted_s)
        else:
            LOG.error("%s database %s: %s: %s; %s", self.kind, self.remote, state, _MEANS[state], self.consequence)

    def in_words(self) -> str:
        """Return the state as a refusal says it."""
        return f"{self.kind} database {self.remote} is {self.state} ({_MEANS[self.state]})"


class Advice(NamedTuple):
    """What follows from a look at a connection."""

    state: State
    probe: bool  # ask for an echo now
    cut: bool  # break the connection, so that nothing that waits in it is sent later


class Liveness:
    """Judges one database by its connections, looked at again and again."""

    def __init__(self, now_ns: int, tables_ns: int = TABLES_NS) -> None:
        """``tables_ns``: how long several connections may bring no tables."""
        self._longest_ns = tables_ns
        self._state: State = "connecting"
        self._connection: Optional[int] = None
        self._received = 0  # bytes at the last look
        self._alive_ns = now_ns  # when bytes came last, or the connection began
        self._connected_ns = now_ns  # when there was a connection last
        self._tables_ns = now_ns  # when tables were there last, or no connection was for long
        self._first: Optional[int] = None  # the first connection without tables since then
        self._probed_ns: Optional[int] = None  # when the echo that is awaited was asked for
        self._due_ns = now_ns
        self._patience_ns = HUNG_NS  # of a connection without tables

    def look(self, connection: Optional[int], ready: bool, received: int, now_ns: int) -> Advice:
        """Judge the connection there is.

        ``connection`` numbers it, None when there is none; ``ready`` tells whether all tables were read by it;
        ``received`` counts the bytes it brought.
        """
        if connection is None:
            self._connection, self._probed_ns = None, None
            if now_ns - self._connected_ns > UNREACHABLE_NS:
                self._state, self._tables_ns, self._first = "unreachable", now_ns, None
            return Advice(self._state, False, False)
        self._connected_ns = now_ns
        if ready:
            self._tables_ns, self._first, self._patience_ns = now_ns, None, HUNG_NS
        elif self._first is None:
            self._first = connection
        elif connection != self._first and now_ns - self._tables_ns > self._longest_ns:
            self._state = "hung"
        if connection != self._connection or received != self._received:
            self._connection, self._received = connection, received
            self._alive_ns, self._probed_ns = now_ns, None
        owed_since = self._probed_ns or self._alive_ns
        if (not ready or self._probed_ns is not None) and now_ns - owed_since > HUNG_NS:
            self._state = "hung"
            if not ready:
                if now_ns - owed_since <= self._patience_ns:
                    return Advice("hung", False, False)
                self._patience_ns = min(2 * self._patience_ns, PATIENCE_NS)
            self._connection, self._probed_ns = None, None
            return Advice("hung", False, True)
        if ready and self._probed_ns is None:
            self._state = "connected"
        return Advice(self._state, ready and self._probed_ns is None and now_ns >= self._due_ns, False)

    def probed(self, now_ns: int) -> None:
        """Note that an echo was asked for; one that is awaited already stays the one."""
        if self._probed_ns is None:
            self._probed_ns = now_ns
        self._due_ns = now_ns + PROBE_NS

    def answered(self) -> bool:
        """Tell whether bytes came since the last echo was asked for."""
        return self._probed_ns is None
