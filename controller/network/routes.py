# SPDX-License-Identifier: Apache-2.0
"""Shortest ways to one switch, kept up to date as links come and go.

d(x) is the number of links from switch x to the target; a way of x is a port to a neighbour n with d(n) = d(x) - 1.
After links changed, with d from before:

    lost:     x loses d(x) if no neighbour n that keeps its own has d(n) = d(x) - 1; judged from the nearest x to the
              farthest, beginning with the ends of the links that changed
    regained: the lost ones, and the ends of new links, take 1 + min d(n), the nearest first (Dijkstra's algorithm),
              and so do their neighbours while that is less than what they have

which touches only switches whose distance changes, and their neighbours (Ramalingam and Reps, 1996). A change that
costs many switches their distance is cheaper to follow by computing all distances anew.
"""

import heapq
from collections import deque
from typing import Iterable, Mapping, Optional

MANY = 64  # switches whose distance changes: from there on all are computed anew
FAR = 1 << 30

Ports = tuple[int, ...]
Neighbours = Mapping[int, Mapping[int, tuple[int, int]]]  # switch -> port -> far end


class Routes:
    """Ways of all switches to ``target``; ``neighbours`` is the graph, which its owner changes before update()."""

    def __init__(self, target: int, neighbours: Neighbours) -> None:
        self.target = target
        self._neighbours = neighbours
        self._ways: dict[int, Ports] = {}  # those somebody asked for
        self.moved: dict[int, None] = {}  # switches whose ways changed after somebody asked for them
        self._distance = self._compute()

    def distance(self, dpid: int) -> int:
        """Return how many links away a switch is; FAR when there is no way."""
        return self._distance.get(dpid, FAR)

    def ways(self, dpid: int) -> Ports:
        """Return the ports of a switch on shortest ways, in order; () if there is no way."""
        known = self._ways.get(dpid)
        if known is None:
            known = self._ways[dpid] = self._find(dpid)
        return known

    def take_moved(self) -> list[int]:
        """Return the switches whose ways changed after somebody asked for them, since the last call, nearest first."""
        moved, self.moved = self.moved, {}
        return sorted(moved, key=lambda dpid: (self.distance(dpid), dpid))

    def update(self, ends: Iterable[int]) -> None:
        """Follow changes of links; ``ends`` are the switches at both ends of each."""
        ends = {dpid for dpid in ends if dpid != self.target}
        lost = self._lose(ends)
        changed = None if lost is None else self._regain(ends, lost)
        if changed is None:
            self._distance = self._compute()
            self._note(list(self._ways))
            return
        touched = ends | changed
        for dpid in changed:
            touched.update(far for far, _ in self._neighbours.get(dpid, {}).values())
        self._note(touched)

    def _compute(self) -> dict[int, int]:
        distance = {self.target: 0}
        queue = deque([self.target])
        while queue:
            here = queue.popleft()
            beyond = distance[here] + 1
            for there, _ in self._neighbours.get(here, {}).values():
                if there not in distance:
                    distance[there] = beyond
                    queue.append(there)
        return distance

    def _find(self, dpid: int) -> Ports:
        nearer = self._distance.get(dpid, -FAR) - 1
        get = self._distance.get
        around = self._neighbours.get(dpid, {})
        return tuple(sorted(port for port, (far, _) in around.items() if get(far) == nearer))

    def _note(self, touched: Iterable[int]) -> None:
        for dpid in touched:
            before = self._ways.get(dpid)
            if before is not None:
                now = self._find(dpid)
                if now != before:
                    self._ways[dpid] = now
                    self.moved[dpid] = None

    def _lose(self, ends: set[int]) -> Optional[set[int]]:
        """Return the switches left without a nearer neighbour; None when they are many."""
        distance, lost = self._distance, set[int]()
        queue = [(distance[dpid], dpid) for dpid in ends if dpid in distance]
        heapq.heapify(queue)
        while queue:
            far, here = heapq.heappop(queue)
            if here in lost:
                continue
            around = self._neighbours.get(here, {}).values()
            if any(distance.get(there) == far - 1 and there not in lost for there, _ in around):
                continue
            lost.add(here)
            if len(lost) > MANY:
                return None
            for there, _ in around:
                if distance.get(there) == far + 1 and there != self.target:
                    heapq.heappush(queue, (far + 1, there))
        return lost

    def _regain(self, ends: set[int], lost: set[int]) -> Optional[set[int]]:
        """Give switches their distances anew; return those whose distance is another one now, None when they are many.

        Then distances are not what they should be.
        """
        distance = self._distance
        before = {dpid: distance.pop(dpid) for dpid in lost}
        queue = []
        for dpid in ends | lost:
            around = self._neighbours.get(dpid, {}).values()
            queue.append((1 + min((distance.get(there, FAR) for there, _ in around), default=FAR), dpid))
        heapq.heapify(queue)
        changed = set[int]()
        while queue:
            far, here = heapq.heappop(queue)
            if far >= min(distance.get(here, FAR), FAR):
                continue
            before.setdefault(here, distance.get(here, FAR))
            distance[here] = far
            changed.add(here)
            if len(changed) > MANY + len(lost):
                return None
            for there, _ in self._neighbours.get(here, {}).values():
                if far + 1 < distance.get(there, FAR):
                    heapq.heappush(queue, (far + 1, there))
        return {dpid for dpid in changed | lost if distance.get(dpid) != before[dpid]}
