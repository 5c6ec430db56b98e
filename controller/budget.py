# SPDX-License-Identifier: Apache-2.0
"""Budgets of work: what others may cost the one thread that serves all.

What a switch says by itself is counted in *steps*, one a message and one more each STEP_BYTES (Meter). Packets that no
flow knew have a budget of their own (forwarder.py). What a switch answers is bounded by how often it is asked: after a
long answer it rests (rest_ns()). What a database or an address costs is counted as it comes (Budget, Budgets): a budget
fills at a steady rate up to its depth, and may become negative, for the price of a piece of work is known only when it
is done. Work that lasts is done in stretches, after each of which others have their turn (Stretches).
"""

import itertools
import math
import threading
import time
from typing import Any, Callable, Generic, Hashable, TypeVar

ENTRIES_FREE = 512  # of an answer: as many as a switch or host with many ports or VMs tells in a period
PATHS_FREE = 8192  # the same of paths, which are read many at a time
POLL_FREE = 2048  # the same of a poll's ports or conversations
ENTRY_REST_NS = 100_000  # for each entry beyond; to take one costs less than a tenth of it
POLL_SMALL = 256  # of a poll: as many are taken each time without any rest
POLL_REST_NS = 20_000  # for each entry of a longer one: to take it costs a fifth of that
SLICE_ENTRIES = 32  # of an answer that are taken before others have their turn

STEP_BYTES = 1024
# Steps a second, and at once, that each connection has for itself, and that all others share which want more.
OWN_RATE, OWN_BURST = 200, 128
SHARED_RATE, SHARED_BURST = 4000, 64
# A connection that wants more than its part for so long, s, is closed.
PATIENCE_S = 10.0
SECOND_NS = 1_000_000_000
STRETCH_NS = 200_000  # of processor time: what begins before that is over in a tenth of the default period
REST = 3.0  # how long others have their turn after a stretch, beside how long it lasted
REST_MAX_S = 0.1
WORK_MAX_NS = 10_000_000
_LOOKED_AT = 16  # budgets, when there is no room for another one

Key = TypeVar("Key", bound=Hashable)


def rest_ns(entries: int, free: int = ENTRIES_FREE) -> int:
    """Return how long after an answer of so many entries a switch is not asked the same again."""
    return max(0, entries - free) * ENTRY_REST_NS


def poll_rest_ns(entries: int) -> int:
    """Return how long after an answer of so many entries to a poll a switch is not polled again."""
    return max(rest_ns(entries, POLL_FREE), entries * POLL_REST_NS if entries > POLL_SMALL else 0)


class Budget:
    """A budget that is full at ``now_ns``; ``rate`` is what it gains in a second, ``depth`` the most it holds."""

    def __init__(self, rate: float, depth: float, now_ns: int) -> None:
        self.rate = rate
        self.depth = depth
        self._left = depth
        self._then_ns = now_ns

    def left(self, now_ns: int) -> float:
        """Return what is left; below zero it is overdrawn."""
        if now_ns > self._then_ns:
            self._left = min(self.depth, self._left + (now_ns - self._then_ns) * self.rate / 1e9)
            self._then_ns = now_ns
        return self._left

    def spend(self, amount: float, now_ns: int) -> float:
        """Take an amount, whether it is there or not; return what is left."""
        self._left = min(self.depth, self.left(now_ns) - amount)
        return self._left

    def take(self, amount: float, now_ns: int) -> bool:
        """Take an amount if it is there; return whether it was."""
        if self.left(now_ns) < amount:
            return False
        self._left -= amount
        return True

    def is_full(self, now_ns: int) -> bool:
        """Return whether nothing was taken lately."""
        return self.left(now_ns) >= self.depth

    def wait_ns(self, now_ns: int) -> int:
        """Return how long until something is left again."""
        return max(0, math.floor(-self.left(now_ns) * 1e9 / self.rate) + 1)


class Meter:
    """What one connection may cost; ``shared`` is of all connections."""

    def __init__(self, shared: Budget) -> None:
        self._own = Budget(OWN_RATE, OWN_BURST, 0)
        self._shared = shared
        self._over_ns = 0
        self._pressed_ns = 0  # when it last wanted more than its part
        self.steps = 0  # taken

    @property
    def is_spent(self) -> bool:
        """Tell whether it has wanted more than its part for PATIENCE_S, with pauses of less than a second."""
        return self._over_ns >= PATIENCE_S * SECOND_NS

    def charge(self, size: int, now_ns: int) -> int:
        """Take a message of ``size`` bytes; return how long to read no more, ns."""
        steps = 1 + size // STEP_BYTES
        self.steps += steps
        for budget in (self._own, self._shared):
            if budget.left(now_ns) > 0:
                budget.spend(steps, now_ns)
                return 0
        self._own.spend(steps, now_ns)
        passed_ns, self._pressed_ns = now_ns - self._pressed_ns, now_ns
        self._over_ns = self._over_ns + passed_ns if passed_ns < SECOND_NS else 0
        return self._own.wait_ns(now_ns)


def shared() -> Budget:
    """Return what connections have together beyond their own parts."""
    return Budget(SHARED_RATE, SHARED_BURST, 0)


class Budgets(Generic[Key]):
    """One budget for each of many peers, at most ``most`` of them at a time.

    Budgets that are full again make room for newcomers, of which some are looked at each time, in turn. Where those
    are in use, newcomers share one.
    """

    def __init__(self, rate: float, depth: float, most: int) -> None:
        self._rate, self._depth, self._most = rate, depth, most
        self._of: dict[Key, Budget] = {}
        self._shared = Budget(rate, depth, 0)

    def __len__(self) -> int:
        """Return how many peers have a budget of their own."""
        return len(self._of)

    def take(self, key: Key, amount: float, now_ns: int) -> bool:
        """Take an amount from a peer's budget if it is there; return whether it was."""
        found = self._of.get(key)
        if found is None:
            if len(self._of) >= self._most:
                self._sweep(now_ns)
            if len(self._of) >= self._most:
                return self._shared.take(amount, now_ns)
            found = self._of[key] = Budget(self._rate, self._depth, now_ns)
        return found.take(amount, now_ns)

    def give(self, key: Key, amount: float, now_ns: int) -> None:
        """Give an amount back that was taken from a peer's budget."""
        found = self._of.get(key, self._shared)
        found.spend(-amount, now_ns)

    def _sweep(self, now_ns: int) -> None:
        """Look whether the budgets that were not looked at for the longest time are full, and forget those."""
        for key in list(itertools.islice(self._of, _LOOKED_AT)):
            found = self._of.pop(key)
            if not found.is_full(now_ns):
                self._of[key] = found


class Stretches:
    """Lets others run where a piece of work lasts; ``sleep`` takes seconds and lets them.

    They have ``rest`` times as long as each stretch lasted: where they have no time to spare, work never takes it. A
    stretch ends by the processor time that it took; its rest counts what passed meanwhile, which is more where others
    use the processor, too.

    ``spent_ns`` is the processor time of all work so far, in which that of the others is not counted. ``worked`` and
    ``passed`` return processor time and time, ns.
    """

    def __init__(
        self,
        sleep: Callable[[float], Any],
        rest: float = REST,
        worked: Callable[[], int] = time.thread_time_ns,
        passed: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.spent_ns = 0
        self._rest = rest
        self._sleep = sleep
        self._worked, self._passed = worked, passed
        self._begun_ns = self._entered_ns = 0

    def begin(self) -> None:
        """Begin some work."""
        self._entered_ns, self._begun_ns = self._passed(), self._worked()

    def pause(self) -> None:
        """Let others run if this stretch has lasted long enough."""
        took_ns = self._worked() - self._begun_ns
        if took_ns >= STRETCH_NS:
            self.end()
            lasted_ns = max(took_ns, self._passed() - self._entered_ns)
            self._sleep(min(self._rest * lasted_ns / 1e9, REST_MAX_S))
            self.begin()

    def yield_now(self) -> None:
        """Let others run between two pieces of work."""
        self._sleep(0)

    def end(self) -> None:
        """End the work."""
        self.spent_ns += self._worked() - self._begun_ns


class Turns(Stretches):
    """Stretches of many who have one part of the time together; who waits has a turn after those that waited before.

    ``who`` returns what differs between them.
    """

    def __init__(
        self,
        sleep: Callable[[float], Any],
        rest: float = REST,
        worked: Callable[[], int] = time.thread_time_ns,
        passed: Callable[[], int] = time.monotonic_ns,
        who: Callable[[], Any] = threading.get_ident,
    ) -> None:
        super().__init__(sleep, rest, worked, passed)
        self._who = who
        self._working: Any = None  # who began last
        self._free_ns = 0  # when the next turn may begin
        self._unpaid_ns = 0  # of short work that nobody waited for

    def begin(self) -> None:
        """Begin some work."""
        self._working = self._who()
        super().begin()

    def pause(self) -> None:
        """Wait for the next turn if this stretch has lasted long enough."""
        if self._working != self._who():
            self.begin()  # others worked since
            return
        took_ns = self._worked() - self._begun_ns
        if took_ns < STRETCH_NS:
            return
        self.end()
        self._wait(max(took_ns, self._passed() - self._entered_ns))
        self.begin()

    def finish(self) -> None:
        """End the work; wait for a turn once what was done without one adds up to a stretch. Others run in any case.

        What waited for somebody is not told from work, so no more than WORK_MAX_NS count.
        """
        if self._working == self._who():
            took_ns = self._worked() - self._begun_ns
            self.spent_ns += took_ns
            self._unpaid_ns += min(took_ns, WORK_MAX_NS)
            self._working = None
        if self._unpaid_ns < STRETCH_NS:
            self._sleep(0)
            return
        unpaid_ns, self._unpaid_ns = self._unpaid_ns, 0
        self._wait(unpaid_ns)

    def _wait(self, lasted_ns: int) -> None:
        """Wait for the turn that follows a stretch."""
        now_ns, lasted_ns = self._passed(), min(lasted_ns, round(REST_MAX_S * 1e9))
        turn_ns = max(self._free_ns, now_ns + round(self._rest * lasted_ns))
        self._free_ns = turn_ns + round((1 + self._rest) * lasted_ns)
        self._sleep((turn_ns - now_ns) / 1e9)
