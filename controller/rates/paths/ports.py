# SPDX-License-Identifier: Apache-2.0
"""Rates that ports tell: each port decides by what its own controller measures there, and knows of no other port.

Of each entry, a pair of a machine and a destination at the port, it hears what the pair sends and whether it could send
more: it may be held HERE, by the rate that this port told, or ELSEWHERE, by another port's rate or its machine's own
limit; or it is IDLE, held by nobody.  Each period the port finds what its entries want, and shares among them what it
may carry (capacity.py, sharing.py):

    held here         whatever there is
    held elsewhere    what it sends
    idle              MARGIN times the most of the last two readings, after WINDOW of them in a row; else as held here

An entry is granted what it would have if it alone wanted more.  That is told to all but idle ones; they are told
a standby of it, and no less than they want or sent lately, so that who begins has something at once, and what is told
fits roughly.  A connection that waits for its retransmission timeout is idle, too: it would lose its first packets
again if it came back to less than it had.
The shim obeys the lowest rate that any port on the way told within its rate-timeout.  So where nothing changes any more
each pair has what it can use, or a port holds it as docs/laws.md, "Rates by path", defines it.

Grants follow at once, in logarithms, but those that turn back again and again, pauses between or not, follow in part:
ports that each grant more because the other one held their pairs would go round otherwise.

A port tells nothing unless it is engaged: it carries ENGAGED of what it may, holds somebody, or marks.  It tells what
moved by enough to be worth a message, what it told REFRESH_NS ago, and once more what does not show in what is sent.
"""

from typing import Callable, Hashable, Mapping, NamedTuple

import numpy as np
import numpy.typing as npt

from sdngcc.controller import native
from sdngcc.controller.native import reading
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.capacity import Capacity, Marked
from sdngcc.controller.rates.paths.filling import Flags, Floats, Ints, sums
from sdngcc.controller.rates.paths.table import Table
from sdngcc.controller.wire.message import RATE_MAX, RATE_MIN

IDLE, HERE, ELSEWHERE = 0, 1, 2

WINDOW = 3  # readings
MARGIN = 1.25
STANDBY = 0.5  # by default
FADING = 0.993  # of what was sent, each reading: half of it in half a second
DAMPING = 0.3  # of what is left of a step, each time that it turns back
EASING = 0.8  # of the damping, each time that it does not
ENGAGED = 0.9
NEAR = 0.7  # of what a port may carry: it may be engaged soon
RISE, FALL = 1.01, 0.9975  # changes worth a message, of what holds an entry
LOOSE_RISE, LOOSE_FALL = 1.5, 0.75  # and of what does not
HOLDS = 0.8  # of what is told: who sends more is held by it, or soon will be
REFRESH_NS = 60_000_000  # three of them fit into the shim's rate-timeout
PATIENCE_NS = 25_000_000  # in which what was told shows in what is sent
SAME = 1e-3  # of a rate: one that differs by less is the same
BINDING = 0.9  # of a rate in force: who sends more is bound by it
HELD = 0.98  # of a path's rate: who sends less, though it holds packets back, is held more by the machine's own bucket
ROUNDING = 1e-9  # of a rate: a step that is smaller is none
OFF = 0.05  # of what was told: by so much other rates show that it did not arrive


def terms(standby: float = STANDBY) -> native.Terms:
    """Return the numbers of the law, with the part of a grant that idle entries are told."""
    return native.Terms(
        MARGIN, standby, DAMPING, EASING, RISE, FALL, LOOSE_RISE, LOOSE_FALL, HOLDS, OFF, ROUNDING, RATE_MIN, RATE_MAX,
        BINDING, HELD, SAME, FADING, REFRESH_NS, PATIENCE_NS, WINDOW, IDLE, HERE, ELSEWHERE,
    )  # fmt: skip


class Told(NamedTuple):
    """A rate for the shim of a machine."""

    port: Hop  # that tells it
    vm: Hop
    peer: Hashable
    rate: int  # bytes/s
    weights: float  # of all machines that send by the port


class Due(NamedTuple):
    """What is to be told, by entry."""

    numbers: Ints
    ports: Ints
    rates: Floats  # bytes/s, whole
    weights: Floats  # of all machines that send by the port


class Ports:
    """The ports of one controller; each is shared for itself."""

    def __init__(
        self,
        headroom: float = 0.01,
        is_silent: Callable[[int], bool] = lambda dpid: False,
        standby: float = STANDBY,
    ) -> None:
        """``headroom`` is the part of each port's capacity that is left free.

        ``standby`` is the part of its grant that an idle entry is told.  ``is_silent(dpid)`` tells of which switches no
        marks are heard any more: what their ports may carry does not rise meanwhile.
        """
        self.table = Table()
        self._headroom = headroom
        self._is_silent = is_silent
        self.terms = terms(standby)
        self._known: dict[Hop, float] = {}
        self._fixed: dict[Hop, float] = {}
        self._capacities: dict[Hop, Capacity] = {}
        self._decided_ns = 0
        self.pressed: list[Hop] = []  # ports that told something, or may soon, as all was decided last

    def set_capacity(self, port: Hop, rate: float) -> None:
        """Take what a port carries, bytes/s; infinite: nobody knows."""
        if self._known.get(port) != rate:
            self._known[port] = rate
            self._capacities.pop(port, None)

    def set_allowed(self, port: Hop, rate: float) -> None:
        """Take what may be sent by a port, bytes/s, whatever its marks."""
        self._fixed[port] = rate

    def forget(self, port: Hop) -> None:
        """Forget what was learned of a port that is gone or came anew."""
        for table in (self._known, self._fixed, self._capacities):
            table.pop(port, None)

    def read(self, numbers: Ints, sent: Floats, states: "npt.NDArray[np.int8]", lows: Floats) -> None:
        """Take readings of entries, each once: bytes/s sent, IDLE, HERE or ELSEWHERE, and floors in bytes/s."""
        table = self.settled()
        reading.read(vars(table.rows), self.terms, table.places(numbers), sent, states, lows)

    def read_machines(
        self, owners: reading.Owners, machines: "tuple[reading.Machines, reading.Parts]", lows: Floats
    ) -> None:
        """Take readings of entries from what machines and their parts do, where that is fresh.

        ``owners`` has for each row of the table as settled() returned it who it is of, ``lows`` guarantees by machine,
        bytes/s.
        """
        reading.read_rows(vars(self.table.rows), owners, *machines, self.terms, lows, self._decided_ns)

    def judge(self, numbers: Ints, limits: Floats, limited: Flags) -> "npt.NDArray[np.int8]":
        """Return what holds entries, for read(), where shims tell rates in force and not whose they are.

        ``limits`` are these rates, bytes/s, and ``limited`` tells who could send more.  A rate may be the one told last
        or, for PATIENCE_NS, the one told before.  Who was told nothing yet is taken to be held here: then he is told,
        and it shows whether he was.
        """
        table = self.settled()
        return reading.judge(
            vars(table.rows), self.terms, table.places(numbers), limits, limited, self._decided_ns
        )

    def settled(self) -> Table:
        """Return the table, whose rows are up to date with who came and went."""
        if self.table.settle():
            for port in [port for port in self._capacities if port not in self.table.ports.of]:
                del self._capacities[port]
        return self.table

    def decide(self, marks: Mapping[Hop, Marked], now_ns: int) -> list[Told]:
        """Take the marks of a period; return what is to be told."""
        numbers, _, rates, weights = self.decide_rows(marks, now_ns)
        names, found = self.table.entries.names, []
        for number, rate, total in zip(numbers.tolist(), rates.tolist(), weights.tolist()):
            entry = names[number]
            assert entry is not None
            found.append(Told(entry.port, entry.vm, entry.peer, int(rate), total))
        return found

    def decide_rows(self, marks: Mapping[Hop, Marked], now_ns: int) -> Due:
        """Take the marks of a period; return what is to be told."""
        table = self.settled()
        rows, sharing = table.rows, table.sharing
        elapsed_ns, self._decided_ns = now_ns - self._decided_ns, now_ns
        if not len(rows.numbers):
            self.pressed = []
            return Due(rows.numbers, rows.ports, rows.told, rows.told)
        sent = sums(rows.parts * rows.sent, sharing.ports)
        numbers = rows.ports[sharing.ports]
        allowed = self._allowed(numbers, sent, marks, elapsed_ns)
        engaged = np.maximum.reduceat(rows.states == HERE, sharing.ports) | (sent >= ENGAGED * allowed)
        engaged |= np.isin(numbers, [self.table.ports.of.get(port, -1) for port in marks])
        names = table.ports.names
        pressed = numbers[engaged | (sent >= NEAR * allowed)].tolist()
        self.pressed = [hop for number in pressed if (hop := names[number]) is not None]
        due = native.share(vars(rows), sharing.runs, self.terms, allowed, engaged, now_ns)
        weights = sharing.weights[np.searchsorted(sharing.ports, due, side="right") - 1]
        return Due(rows.numbers[due], rows.ports[due], rows.told[due], weights)

    def _allowed(self, ports: Ints, sent: Floats, marks: Mapping[Hop, Marked], elapsed_ns: int) -> Floats:
        """Return what ports may carry, bytes/s; ``sent`` is what came to each."""
        found = np.empty(len(ports))
        for place, (number, rate) in enumerate(zip(ports.tolist(), sent.tolist())):
            port = self.table.ports.names[number]
            assert port is not None
            if port in self._fixed:
                found[place] = self._fixed[port]
                continue
            capacity = self._capacities.get(port)
            if capacity is None:
                capacity = self._capacities[port] = Capacity(self._known.get(port, np.inf), self._headroom)
            passed_ns = 0 if self._is_silent(port[0]) else elapsed_ns
            found[place] = capacity.update(rate, marks.get(port, NO_MARKS), passed_ns)
        return np.minimum(found, RATE_MAX)


NO_MARKS = Marked(0, 0)
