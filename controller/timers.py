# SPDX-License-Identifier: Apache-2.0
"""What is to be done at a time of its own, without a thread or a framework to wait for it."""

import heapq
import itertools
from typing import Callable

FAR_NS = 1 << 63
SLICE_NS = 1_000_000  # of one run


class Timers:
    """Functions to be called later; ``clock`` counts ns. Whoever has the clock calls run()."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._armed: list[tuple[int, int, list[Callable[[], None]]]] = []  # due, number, the function or nothing

    def arm(self, delay_s: float, function: Callable[[], None]) -> Callable[[], None]:
        """Have a function called after a delay; return what cancels that."""
        armed = [function]
        heapq.heappush(self._armed, (self._clock() + round(delay_s * 1e9), next(self._numbers), armed))
        return armed.clear

    def run(self, now_ns: int) -> None:
        """Call what is due, the first at least; what is left when SLICE_NS are over is due at the next call."""
        until_ns = self._clock() + SLICE_NS
        while self._armed and self._armed[0][0] <= now_ns:
            for function in heapq.heappop(self._armed)[2]:
                function()
            if self._clock() >= until_ns:
                break

    def next_ns(self) -> int:
        """Return when the next function is due; FAR_NS when there is none."""
        while self._armed and not self._armed[0][2]:
            heapq.heappop(self._armed)
        return self._armed[0][0] if self._armed else FAR_NS
