# SPDX-License-Identifier: Apache-2.0
"""Bringing flows and attribution in line with the graph after links came or went, one destination switch at a time.

Destinations whose packets used a lost link come first, those with the most traffic before the others. Of a destination
the ways are followed (routes.py), then the pairs that cross a switch whose ways changed are looked at, then the
flows there, from the nearest switch to the farthest (installer.py). Nothing else is touched.
"""

from typing import Callable, Iterator, Optional

from sdngcc.controller.forwarding.installer import Installer
from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.paths import Paths
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.topology import Hop, Steps, Topology
from sdngcc.controller.work import Backlog


class Convergence:
    """What is left to be brought in line; its work goes to ``backlog``."""

    def __init__(
        self,
        topology: Topology,
        relations: Relations,
        paths: Paths,
        attribution: Attribution,
        installer: Optional[Installer],
        backlog: Backlog,
        clock: Callable[[], int],
    ) -> None:
        """Without an ``installer`` there are no flows of ours, and attribution alone follows."""
        self._topology = topology
        self._relations = relations
        self._paths = paths
        self._attribution = attribution
        self._installer = installer
        self._backlog = backlog
        self._clock = clock
        self._lost: list[Hop] = []  # ends of links, to be looked at
        self._urgent: dict[int, None] = {}  # destination switches
        self._running = False

    def start(self, lost: list[Hop]) -> None:
        """Follow a change of the graph; ``lost`` are the ends of links that are no more."""
        self._lost += lost
        if not self._running:
            self._running = True
            self._backlog.add(self._run())

    def follow(self, change: Steps) -> Iterator[None]:
        """Let a change of the graph be made in steps, and follow it once it is made."""
        lost = yield from change
        if self._topology.targets():
            self.start(lost or [])

    def _put_first(self, lost: list[Hop]) -> Iterator[None]:
        """Find the destinations of the packets that used lost links, and put those with the most traffic first."""
        traffic: dict[int, int] = {}
        for end in lost:
            for pair in self._attribution.using(end):
                host = self._relations.hosts.get(pair[1])
                if host is not None:
                    traffic[host.place[0]] = traffic.get(host.place[0], 0) + self._attribution.sent_rate(pair)
            yield
        waiting = dict.fromkeys(sorted(traffic, key=lambda target: (-traffic[target], target)))
        self._urgent = {**waiting, **self._urgent}

    def refresh(self, pairs: list[Pair]) -> None:
        """Have the ways of pairs computed anew that changed otherwise."""
        if pairs:
            self._backlog.add(self._refresh(pairs))

    def _refresh(self, pairs: list[Pair]) -> Iterator[None]:
        for pair in pairs:
            self._attribution.refresh(pair)
            yield

    def rebuild(self, dpid: int) -> None:
        """Have all flows of a switch that chooses its ways otherwise now be made anew."""
        self._backlog.add(self._rebuild(dpid))

    def _rebuild(self, dpid: int) -> Iterator[None]:
        for target in self._attribution.targets_across(dpid):
            yield from self._follow(target, [dpid])

    def restore(self, dpid: int) -> None:
        """Have the flows of pairs added again that cross a switch whose flows were all deleted."""
        self._backlog.add(self._restore(dpid))

    def _restore(self, dpid: int) -> Iterator[None]:
        if self._installer is None:
            return
        for target in self._attribution.targets_across(dpid):
            for pair in self._attribution.crossing(target, [dpid]):
                self._installer.extend(pair)
                yield

    def _run(self) -> Iterator[None]:
        try:
            yield from self._converge()
        finally:
            self._running = False

    def _converge(self) -> Iterator[None]:
        while True:
            later = self._topology.targets()
            if not later:
                break
            later.reverse()
            while later or self._urgent:
                if self._lost:
                    lost, self._lost = self._lost, []
                    yield from self._put_first(lost)
                if self._urgent:
                    target = next(iter(self._urgent))
                    del self._urgent[target]
                else:
                    target = later.pop()
                moved = self._topology.update(target)
                yield
                if moved:
                    yield from self._follow(target, moved)
        self._topology.forget_changes()

    def _follow(self, target: int, switches: list[int]) -> Iterator[None]:
        """Bring in line what crosses some switches, the nearest first, on the way to switch ``target``."""
        pairs = self._attribution.crossing(target, switches)
        for pair in pairs:
            self._attribution.refresh(pair)
            yield
        if self._installer is None:
            return
        macs = self._relations.hosts_of(target)
        for dpid in switches:
            crossing = self._attribution.crossing(target, [dpid])
            now_ns = self._clock()
            for mac in macs:
                if mac in self._relations.hosts:
                    yield from self._installer.reroute(dpid, mac, crossing, now_ns)
            yield
        if self._paths.chosen_by_pair:
            for pair in pairs:
                self._installer.extend(pair)
                yield
