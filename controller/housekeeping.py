# SPDX-License-Identifier: Apache-2.0
"""What can wait for a moment between polls, where no answer has to wait for it."""

from typing import Callable, Container, Iterable, NamedTuple

from sdngcc.controller.rates.monitor import NAP_NS
from sdngcc.controller.schedule import Schedule
from sdngcc.controller.timers import FAR_NS

SECOND_NS = 1_000_000_000
SLICE_NS = 250_000  # of one run


class Chore(NamedTuple):
    """What is done for each switch again and again."""

    serve: Callable[[int, int], None]  # (datapath id, time in ns)
    period_ns: int


class Housekeeping:
    """Chores for ``switches``, and ``tidy(now)`` once a second; polls fall on multiples of T_i from ``started_ns``."""

    def __init__(
        self,
        switches: Container[int],
        period_ns: int,
        started_ns: int,
        clock: Callable[[], int],
        chores: Iterable[Chore],
        tidy: Callable[[int], None],
    ) -> None:
        self._switches = switches
        # Half of it is between polls; at most NAP_NS.
        self._grid_ns = period_ns // -(-period_ns // NAP_NS)
        self._started_ns = started_ns
        self._clock = clock
        self._chores: list[tuple[Chore, Schedule[int]]] = [(chore, Schedule()) for chore in chores]
        self._tidy = tidy
        self._tidy_ns = self._next_ns = self._between_polls(started_ns)

    def add(self, dpid: int, now_ns: int) -> None:
        """Take a switch: each chore is first due a period from now."""
        for chore, due in self._chores:
            due.put(dpid, self._between_polls(now_ns + chore.period_ns))

    def next_ns(self) -> int:
        """Return when run() is to be called next."""
        due_ns = min((due.next_ns() for _, due in self._chores), default=FAR_NS)
        return max(min(self._tidy_ns, due_ns), self._next_ns)

    def run(self, now_ns: int) -> None:
        """Do some of what is due."""
        if now_ns < self.next_ns():
            return
        until_ns = now_ns + SLICE_NS
        self._next_ns = self._between_polls(now_ns + self._grid_ns)
        for chore, due in self._chores:
            while self._clock() < until_ns and (dpid := due.pop(now_ns)) is not None:
                if dpid in self._switches:
                    chore.serve(dpid, now_ns)
                    due.put(dpid, self._between_polls(now_ns + chore.period_ns))
        if now_ns >= self._tidy_ns:
            self._tidy_ns = self._between_polls(now_ns + SECOND_NS)
            self._tidy(now_ns)

    def _between_polls(self, time_ns: int) -> int:
        """Return a moment between polls, at most NAP_NS / 2 from a time."""
        return time_ns - (time_ns - self._started_ns) % self._grid_ns + self._grid_ns // 2
