# SPDX-License-Identifier: Apache-2.0
"""Long work, cut into steps that are taken a few at a time, so that nothing waits for the whole of it."""

from collections import deque
from typing import Callable, Iterator

SLICE_NS = 250_000  # of one run


class Backlog:
    """Tasks that are iterators: each step is short, and between two of them anything may happen."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._tasks: deque[Iterator[None]] = deque()

    def __len__(self) -> int:
        """Return how many tasks are not done."""
        return len(self._tasks)

    def add(self, task: Iterator[None]) -> None:
        """Add a task behind those that wait."""
        self._tasks.append(task)

    def add_first(self, task: Iterator[None]) -> None:
        """Add a task before those that wait."""
        self._tasks.appendleft(task)

    def run(self) -> None:
        """Take steps of the first tasks until all are done or SLICE_NS are over."""
        until_ns = self._clock() + SLICE_NS
        while self._tasks:
            task = self._tasks.popleft()
            for _ in task:
                if self._clock() >= until_ns:
                    self._tasks.appendleft(task)
                    return
            if self._clock() >= until_ns:
                return
