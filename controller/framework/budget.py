# SPDX-License-Identifier: Apache-2.0
"""Budgets of work: what one peer may make the controller do, in whatever is counted, over time.

A budget fills at a steady rate up to its depth, and what is done is taken from it. It may become negative, for the
price of a piece of work is known only when it is done; nothing more is done for the peer until it is above zero again.

Work that lasts is done in stretches, after each of which others have their turn.
"""

import time
from typing import Any, Callable, Generic, Hashable, TypeVar

STRETCH_NS = 1_000_000  # of processor time
REST = 3.0  # how long others have their turn after a stretch, beside what it took

Key = TypeVar("Key", bound=Hashable)


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


class Budgets(Generic[Key]):
    """One budget for each of many peers, at most ``most`` of them at a time.

    Budgets that are full again are forgotten first. Where all are in use, newcomers share one.
    """

    def __init__(self, rate: float, depth: float, most: int) -> None:
        self._rate, self._depth, self._most = rate, depth, most
        self._of: dict[Key, Budget] = {}
        self._shared = Budget(rate, depth, 0)
        self._swept_ns = 0

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
        """Forget the budgets that are full; at most once in a second, for all are looked at."""
        if now_ns - self._swept_ns >= 1_000_000_000:
            self._swept_ns = now_ns
            self._of = {key: one for key, one in self._of.items() if not one.is_full(now_ns)}


class Stretches:
    """Lets others run where a piece of work lasts; ``sleep`` takes seconds and lets them.

    They have ``rest`` times as long as each stretch took: where they have no time to spare, work never takes it.

    ``spent_ns`` is the processor time of all work so far, in which that of the others is not counted.
    """

    def __init__(self, sleep: Callable[[float], Any], rest: float = REST) -> None:
        self.spent_ns = 0
        self._rest = rest
        self._sleep = sleep
        self._begun_ns = 0

    def begin(self) -> None:
        """Begin some work."""
        self._begun_ns = time.thread_time_ns()

    def pause(self) -> None:
        """Let others run if this stretch has lasted long enough."""
        took_ns = time.thread_time_ns() - self._begun_ns
        if took_ns >= STRETCH_NS:
            self.end()
            self._sleep(self._rest * took_ns / 1e9)
            self.begin()

    def end(self) -> None:
        """End the work."""
        self.spent_ns += time.thread_time_ns() - self._begun_ns
