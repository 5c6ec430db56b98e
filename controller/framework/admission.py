# SPDX-License-Identifier: Apache-2.0
"""Admission of switches' connections: who may connect, how long it may be silent, and what was refused.

A connection is let in while fewer than ``limit`` are open, and fewer than ``limit_a_peer`` from its address.  Where
all places are taken, the oldest connection whose handshake is unfinished goes, if there is one: whoever only opens
connections cannot keep a switch out that finishes its handshake in time.  A handshake (TLS and OpenFlow's together)
may take ``HANDSHAKE_S``.  After it a connection without a whole message for a third of ``silence_s`` is sent an echo
request, and one without any for ``silence_s`` ends.

Time is what passes between calls of :meth:`Admission.sweep`, a late call counting for ``LATE_S`` at most: when the
process itself stood still, nobody is silent for it.  There is no socket and no clock in here.
"""

import collections
import dataclasses
import enum
import logging
import time
from typing import Callable, NamedTuple, Optional

from sdngcc.controller.budget import Budget, Budgets

HANDSHAKE_S = 10.0
LATE_S = 2.0
# Kept free for REST, databases, files and the refusal of further connections; half of all where there are few.
RESERVED_DESCRIPTORS = 384
TOLD_AGAIN_S = 60.0
_TOLD_MAX = 1024
# TLS handshakes of one address, and of all that never ended one well. One that a known certificate ends is given back
# but for a tenth.
HANDSHAKES_A_SECOND = 5
HANDSHAKES_AT_ONCE = 32
STRANGERS_A_SECOND = 100
STRANGERS_AT_ONCE = 1024
_GIVEN_BACK = 0.9
_ADDRESSES_MAX = 4096  # with a budget of their own
_CONFLICTS_MAX = 64


LOG = logging.getLogger(__name__)


class Reason(str, enum.Enum):
    """Why a connection was refused or ended, as REST and metrics show it."""

    TOO_MANY = "too_many"
    TOO_MANY_OF_PEER = "too_many_of_peer"
    TLS = "tls"
    REVOKED = "revoked"
    REVOCATION = "revocation_unknown"
    HANDSHAKE = "handshake_time"
    SILENT = "silent"
    MALFORMED = "malformed"
    DUPLICATE = "duplicate_id"
    REPLACED = "replaced"
    DEAF = "does_not_read"
    COSTLY = "costs_too_much"
    ACCEPT = "accept_failed"
    NOT_ADMITTED = "not_admitted"
    BRIDGE = "bridge_of_another"
    TOO_OFTEN = "too_often"


class Due(enum.Enum):
    """What a connection is due for."""

    ECHO = "echo request"
    HANDSHAKE = "end of an unfinished handshake"
    SILENT = "end of a silent connection"


@dataclasses.dataclass(eq=False)
class Channel:
    """A connection that was let in; times are seconds of the admission's clock."""

    address: str  # of the peer, without its port
    port: int
    since_s: float
    heard_s: float  # last whole message
    ready: bool = False  # its handshake is done
    asked: bool = False  # it was sent an echo request since it was heard last

    def __str__(self) -> str:
        """Return address and port, as log lines and REST name it."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class Entry(NamedTuple):
    """An answer to a connection: the channel it became, None when it is refused; and who has to go for it."""

    channel: Optional[Channel]
    evicted: Optional[Channel] = None
    reason: Optional[Reason] = None  # of a refusal


@dataclasses.dataclass
class Conflict:
    """Two connections under one datapath id; addresses are with ports, the last ones seen."""

    dpid: int
    kept: str
    refused: str
    count: int = 0


def affordable(wanted: int, descriptors: int) -> int:
    """Return how many connections of the wanted ones a process with so many file descriptors can serve."""
    return max(1, min(wanted, descriptors - min(RESERVED_DESCRIPTORS, descriptors // 2)))


class Admission:
    """Counts and bounds connections; ``limit``s are numbers of connections, ``silence_s`` seconds.

    ``makes_way`` returns whose connection goes for a newcomer where there is no room: of an address whose part is
    taken, or of all where that is None; None: the newcomer is refused.
    """

    def __init__(
        self,
        limit: int = 4096,
        limit_a_peer: int = 1024,
        silence_s: float = 30.0,
        makes_way: Optional[Callable[[Optional[str]], Optional[Channel]]] = None,
    ) -> None:
        self.limit = limit
        self.limit_a_peer = limit_a_peer
        self.silence_s = silence_s
        self.now_s = 0.0
        self.refused: collections.Counter[Reason] = collections.Counter()
        self.unserved = 0  # messages left out because nobody asked for them
        self.conflicts: dict[tuple[int, str, str], Conflict] = {}  # by datapath id and addresses
        self._makes_way = self._oldest_unready if makes_way is None else makes_way
        self._handshakes: Budgets[str] = Budgets(HANDSHAKES_A_SECOND, HANDSHAKES_AT_ONCE, _ADDRESSES_MAX)
        self._of_known: Budgets[str] = Budgets(HANDSHAKES_A_SECOND, HANDSHAKES_AT_ONCE, _ADDRESSES_MAX)
        self._of_strangers = Budget(STRANGERS_A_SECOND, STRANGERS_AT_ONCE, 0)
        self._known: dict[str, None] = {}  # addresses that ended a handshake well, the one that did last at the end
        self._open: dict[Channel, None] = {}
        self._unready: dict[Channel, None] = {}  # the oldest first
        self._by_peer: collections.Counter[str] = collections.Counter()
        self._told: dict[tuple[Reason, str], tuple[float, int]] = {}  # when a refusal was logged last, how many since

    @property
    def open(self) -> int:
        """Connections let in and not ended."""
        return len(self._open)

    @property
    def unready(self) -> int:
        """Those of them whose handshake is not done."""
        return len(self._unready)

    def enter(self, address: str, port: int) -> Entry:
        """Take a new connection; an evicted one counts as open no more and is to be closed."""
        reason = crowd = evicted = None
        if self._by_peer.get(address, 0) >= self.limit_a_peer:
            reason, crowd = Reason.TOO_MANY_OF_PEER, address
        elif len(self._open) >= self.limit:
            reason = Reason.TOO_MANY
        if reason is not None:
            evicted = self._makes_way(crowd)
            if evicted is None:
                return Entry(None, None, reason)
            self.leave(evicted)
        channel = Channel(address, port, self.now_s, self.now_s)
        self._open[channel] = self._unready[channel] = None
        self._by_peer[address] += 1
        return Entry(channel, evicted, reason)

    def _oldest_unready(self, address: Optional[str]) -> Optional[Channel]:
        """Return the oldest connection whose handshake is unfinished; none makes way for another of its address."""
        return next(iter(self._unready), None) if address is None else None

    def may_shake_hands(self, address: str, now_ns: int) -> Optional[str]:
        """Count a TLS handshake that an address begins; return why it may not, None when it may."""
        known = address in self._known
        if not (self._of_known if known else self._handshakes).take(address, 1, now_ns):
            return (
                f"more than {HANDSHAKES_A_SECOND} TLS handshakes of its address in a second that no known certificate "
                f"ends, or {HANDSHAKES_AT_ONCE} at once"
            )
        if known or self._of_strangers.take(1, now_ns):
            return None
        return (
            f"more than {STRANGERS_A_SECOND} TLS handshakes in a second of addresses that never ended one with a known "
            f"certificate, or {STRANGERS_AT_ONCE} at once"
        )

    def shook_hands(self, address: str, now_ns: int) -> None:
        """Take note that a handshake ended with a certificate that is known."""
        if address in self._known:
            self._of_known.give(address, _GIVEN_BACK, now_ns)
            del self._known[address]  # and last of all again
        else:
            self._of_strangers.spend(-_GIVEN_BACK, now_ns)
        if len(self._known) >= _ADDRESSES_MAX:
            del self._known[next(iter(self._known))]
        self._known[address] = None

    def peers(self) -> "collections.Counter[str]":
        """Return how many connections each address has."""
        return self._by_peer

    def leave(self, channel: Channel) -> None:
        """Take note that a connection ended; again is no harm."""
        if channel not in self._open:
            return
        del self._open[channel]
        self._unready.pop(channel, None)
        self._by_peer[channel.address] -= 1
        if not self._by_peer[channel.address]:
            del self._by_peer[channel.address]

    def heard(self, channel: Channel) -> None:
        """Take note that a connection sent a whole message."""
        channel.heard_s, channel.asked = self.now_s, False

    def ready(self, channel: Channel) -> None:
        """Take note that a connection's handshake is done."""
        channel.ready = True
        self._unready.pop(channel, None)

    def sweep(self, elapsed_s: float) -> list[tuple[Channel, Due]]:
        """Let time pass; return whom to ask by an echo request, and whose connection to end."""
        self.now_s += min(elapsed_s, LATE_S)
        due = []
        for channel in self._open:
            silent_s = self.now_s - channel.heard_s
            if not channel.ready:
                if self.now_s - channel.since_s >= HANDSHAKE_S:
                    due.append((channel, Due.HANDSHAKE))
            elif silent_s >= self.silence_s:
                due.append((channel, Due.SILENT))
            elif silent_s >= self.silence_s / 3 and not channel.asked:
                channel.asked = True
                due.append((channel, Due.ECHO))
        return due

    def refuse(self, reason: Reason, address: str) -> Optional[int]:
        """Count a refusal; return how many of its kind and address the log has not told, None while it need not.

        The log is to tell the first, and then what came since once in TOLD_AGAIN_S.
        """
        self.refused[reason] += 1
        key = (reason, address)
        told = self._told.get(key)
        if told is None:
            if len(self._told) >= _TOLD_MAX:
                self._told.pop(next(iter(self._told)))
            self._told[key] = (self.now_s, 0)
            return 1
        told_s, untold = told[0], told[1] + 1
        if self.now_s - told_s < TOLD_AGAIN_S:
            self._told[key] = (told_s, untold)
            return None
        del self._told[key]  # and last of all again
        self._told[key] = (self.now_s, 0)
        return untold

    def conflict(self, dpid: int, kept: Channel, refused: Channel) -> Conflict:
        """Count two connections under one datapath id; the oldest of many conflicts is forgotten."""
        key = (dpid, kept.address, refused.address)
        found = self.conflicts.pop(key, None) or Conflict(dpid, "", "")
        found.kept, found.refused, found.count = str(kept), str(refused), found.count + 1
        while len(self.conflicts) >= _CONFLICTS_MAX:
            del self.conflicts[next(iter(self.conflicts))]
        self.conflicts[key] = found
        return found


def tell(
    admission: Admission, reason: Reason, channel: Optional[Channel], text: str, what: str = "connection"
) -> None:
    """Count a refusal, and log it unless its address had the same within the last minute."""
    untold = admission.refuse(reason, channel.address if channel is not None else "")
    if untold is not None:
        who = f"closed the {what} of {channel}: " if channel is not None else ""
        LOG.warning("%s%s%s", who, text, again(untold))


def may_shake_hands(admission: Admission, newcomer: Channel, what: str = "connection") -> bool:
    """Return whether a TLS handshake with a newcomer may begin; if not, that is counted, and logged as tell() does."""
    why = admission.may_shake_hands(newcomer.address, time.monotonic_ns())
    if why is not None:
        tell(admission, Reason.TOO_OFTEN, newcomer, why, what)
    return why is None


def again(untold: int) -> str:
    """Return what a line of the log says of as many refusals that it stands for."""
    return f" ({untold} times since this was logged last)" if untold > 1 else ""
