# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: items with a time each, of which only those that are due are looked at."""

import heapq
from typing import Generic, Hashable, Optional, TypeVar

from sdngcc.controller.timers import FAR_NS

Item = TypeVar("Item", bound=Hashable)


class Schedule(Generic[Item]):
    """Items by time; one that is put again has its new time only."""

    def __init__(self) -> None:
        self._due: dict[Item, int] = {}
        self._heap: list[tuple[int, int, Item]] = []  # time, number of the entry, item; old entries of an item too
        self._number = 0

    def put(self, item: Item, due_ns: int) -> None:
        """Let an item be due at a time."""
        if self._due.get(item) != due_ns:
            self._due[item] = due_ns
            self._number += 1
            heapq.heappush(self._heap, (due_ns, self._number, item))

    def drop(self, item: Item) -> None:
        """Let an item be due no more."""
        self._due.pop(item, None)

    def pop(self, now_ns: int) -> Optional[Item]:
        """Return an item that is due, the one due longest first, and forget it; None when there is none."""
        if self.next_ns() > now_ns:
            return None
        _, _, item = heapq.heappop(self._heap)
        del self._due[item]
        return item

    def next_ns(self) -> int:
        """Return when the next item is due; FAR_NS when there is none."""
        while self._heap:
            due_ns, _, item = self._heap[0]
            if self._due.get(item) == due_ns:
                return due_ns
            heapq.heappop(self._heap)
        return FAR_NS
