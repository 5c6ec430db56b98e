# SPDX-License-Identifier: Apache-2.0
"""When to ask each switch for its marks.

A switch with period T is due at start + k*T for whole k: a late wake-up never moves the next one, so
periods do not drift.  A switch is never asked while it still owes an answer.  One that misses a turn
``PATIENCE`` times in a row is asked half as often, and so on down to one in ``FACTOR_MAX``; as many
answers in time double the pace again.  A switch without any mark counter is asked once a second only, each at its own
time.

A late answer is the switch's own lateness only as far as this process ran. Where due() itself is called late, answers
may wait in their sockets: what it is late by is no time that a switch took, and a turn that is half a period late is no
turn that a switch missed.

As schedules are multiples of few periods, many switches are due at one time: a heap holds the times, a table who is
due at each, so that only switches whose turn it is are looked at.
"""

import dataclasses
import heapq
from typing import Optional

from sdngcc.controller.timers import FAR_NS

PATIENCE = 3
FACTOR_MAX = 256
IDLE_PERIOD_NS = 1_000_000_000
MOST_IDLE = 32  # switches asked once a second that have their turn at a time; the rest have theirs a period later
LOST_NS = 2_000_000_000
NAP_NS = 20_000_000


@dataclasses.dataclass
class Poll:
    """The schedule of one switch."""

    due_ns: int
    idle: bool = True  # no mark counter known: once a second
    xid: int = 0  # of the request not answered yet; 0: none
    asked_ns: int = 0  # without what turns were late by before
    factor: int = 1  # 1: on time; more: backed off
    misses: int = 0  # turns in a row skipped because an answer was owed
    timely: int = 0  # answers in a row within one period
    polls: int = 0
    replies: int = 0
    skipped: int = 0
    lost: int = 0
    reply_max_ns: int = 0


class Monitor:
    """Schedules of all polled switches.  ``period_ns`` is T_i."""

    def __init__(self, period_ns: int, start_ns: int) -> None:
        self.period_ns = period_ns
        self.late_max_ns = 0  # worst wake-up after its time
        self.polls: dict[int, Poll] = {}
        self._start_ns = start_ns
        self._times: list[int] = []  # heap of the keys of _turns
        self._turns: dict[int, dict[int, None]] = {}  # time, ns -> switches due then, in order
        self._owing: set[int] = set()  # switches on the fast schedule that owe an answer
        self.stalled_ns = 0  # what turns were late by, in all

    def _after(self, now_ns: int, period_ns: int) -> int:
        """Return the first multiple of a period after now."""
        return self._start_ns + ((now_ns - self._start_ns) // period_ns + 1) * period_ns

    def _next(self, poll: Poll, now_ns: int) -> int:
        """Return a switch's next turn; those asked once a second stay spread over it."""
        if not poll.idle:
            return self._after(now_ns, poll.factor * self.period_ns)
        return poll.due_ns + ((now_ns - poll.due_ns) // IDLE_PERIOD_NS + 1) * IDLE_PERIOD_NS

    def _schedule(self, dpid: int, poll: Poll, due_ns: int) -> None:
        poll.due_ns = due_ns
        turn = self._turns.get(due_ns)
        if turn is None:
            turn = self._turns[due_ns] = {}
            heapq.heappush(self._times, due_ns)
        turn[dpid] = None

    def add(self, dpid: int, now_ns: int) -> None:
        """Poll a switch from its next turn on, at first to see whether it has mark counters."""
        self.remove(dpid)
        poll = self.polls[dpid] = Poll(due_ns=FAR_NS)
        self._schedule(dpid, poll, self._after(now_ns, self.period_ns))

    def remove(self, dpid: int) -> None:
        """Poll a switch no more."""
        poll = self.polls.pop(dpid, None)
        if poll:
            del self._turns[poll.due_ns][dpid]
            self._owing.discard(dpid)

    def set_idle(self, dpid: int, idle: bool, now_ns: int) -> None:
        """Say whether a switch has mark counters worth a fast poll.

        The fast schedule begins after NAP_NS, the longest that the caller of due() sleeps.
        """
        poll = self.polls.get(dpid)
        if poll and poll.idle != idle:
            poll.idle = idle
            del self._turns[poll.due_ns][dpid]
            self._schedule(dpid, poll, self._after(now_ns + (IDLE_PERIOD_NS if idle else NAP_NS), self.period_ns))
            if idle:
                self._owing.discard(dpid)
            elif poll.xid and poll.factor == 1:
                self._owing.add(dpid)

    def due(self, now_ns: int) -> tuple[list[int], list[str]]:
        """Return the switches to ask now and what is worth telling an operator; the caller calls asked()."""
        turn: list[int] = []
        notes: list[str] = []
        seldom = 0
        if self.next_ns() < now_ns:
            self.stalled_ns += now_ns - self.next_ns()
        while self._times and self._times[0] <= now_ns:
            for dpid in self._turns.pop(heapq.heappop(self._times)):
                poll = self.polls[dpid]
                seldom += poll.idle
                if poll.idle and seldom > MOST_IDLE:
                    self._schedule(dpid, poll, self._after(now_ns, self.period_ns))
                elif self._take_turn(dpid, poll, now_ns, notes):
                    turn.append(dpid)
        return turn, notes

    def _take_turn(self, dpid: int, poll: Poll, now_ns: int, notes: list[str]) -> bool:
        """Tell whether a switch whose turn it is can be asked; note its next turn."""
        late_ns = now_ns - poll.due_ns
        if not poll.idle:
            self.late_max_ns = max(self.late_max_ns, late_ns)
        owed_ns = now_ns - self.stalled_ns - poll.asked_ns
        if poll.xid and owed_ns > max(LOST_NS, 4 * self.period_ns):
            poll.lost += 1
            poll.xid = 0
            self._owing.discard(dpid)
            notes.append(f"switch {dpid:016x} did not answer a poll for 2 s; asking again")
        if poll.xid:
            poll.skipped += 1
        if poll.xid and 2 * late_ns < self.period_ns:
            poll.misses += 1
            poll.timely = 0
            if poll.misses >= PATIENCE and poll.factor < FACTOR_MAX:
                poll.misses = 0
                poll.factor *= 2
                self._owing.discard(dpid)
                notes.append(
                    f"switch {dpid:016x} is slow: polled every {poll.factor * self.period_ns / 1e6:g} ms "
                    f"instead of {self.period_ns / 1e6:g} ms"
                )
        self._schedule(dpid, poll, self._next(poll, now_ns))
        return not poll.xid

    def asked(self, dpid: int, xid: int, now_ns: int) -> None:
        """Note a request on its way."""
        poll = self.polls[dpid]
        poll.xid = xid
        poll.asked_ns = now_ns - self.stalled_ns
        poll.polls += 1
        if not poll.idle and poll.factor == 1:
            self._owing.add(dpid)

    def answered(self, dpid: int, xid: int, now_ns: int) -> Optional[str]:
        """Note a whole reply; return what is worth telling an operator, if anything."""
        poll = self.polls.get(dpid)
        if poll is None or poll.xid != xid:
            return None
        took = now_ns - self.stalled_ns - poll.asked_ns
        poll.xid = 0
        self._owing.discard(dpid)
        poll.misses = 0
        poll.replies += 1
        poll.reply_max_ns = max(poll.reply_max_ns, took)
        if poll.factor > 1 and took <= self.period_ns:
            poll.timely += 1
            if poll.timely >= PATIENCE:
                poll.timely = 0
                poll.factor //= 2
                return (
                    f"switch {dpid:016x} answers in time again: polled every {poll.factor * self.period_ns / 1e6:g} ms"
                )
        return None

    def rest(self, dpid: int, until_ns: int) -> None:
        """Ask a switch no more until a time."""
        poll = self.polls.get(dpid)
        if poll is not None and poll.due_ns < until_ns:
            del self._turns[poll.due_ns][dpid]
            self._schedule(dpid, poll, self._after(until_ns, self.period_ns))

    def unsent(self, dpid: int, xid: int) -> None:
        """Take note that a request could not be sent: no answer to it is awaited."""
        poll = self.polls.get(dpid)
        if poll is not None and poll.xid == xid != 0:
            poll.xid = 0
            poll.polls -= 1
            self._owing.discard(dpid)

    def lose(self, dpid: int, xid: int) -> None:
        """Take note that an answer cannot be read: it is awaited no more."""
        poll = self.polls.get(dpid)
        if poll is not None and poll.xid == xid != 0:
            poll.xid = 0
            poll.lost += 1
            self._owing.discard(dpid)

    def outstanding(self) -> bool:
        """Tell whether a switch on the fast schedule owes an answer."""
        return bool(self._owing)

    def next_ns(self) -> int:
        """Return when a switch is due next; FAR_NS when there is none."""
        while self._times and not self._turns[self._times[0]]:
            del self._turns[heapq.heappop(self._times)]
        return self._times[0] if self._times else FAR_NS
