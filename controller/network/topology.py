# SPDX-License-Identifier: Apache-2.0
"""Switches, their ports and the links between them; which ways lead to a host.

Packets go on shortest paths.  Among equally short ways each gets a weight by a hash of the switch, a key and the
port, and the heaviest is taken: paths differ by the key, never change on their own, and the controller knows each
without asking. A way that is lost moves those who took it and nobody else (Thaler and Ravishankar, 1998).

Ways to a switch are kept for each switch that somebody asked for (routes.py). Those of one destination follow a change
of the graph when they are asked for next, or when update() is called.
"""

import dataclasses
import zlib
from typing import Any, Generator, Optional, Sequence

from sdngcc.controller.network.routes import Ports, Routes

Hop = tuple[int, int]  # (datapath id, port number)
Steps = Generator[None, None, Optional[list[Hop]]]  # of a change; it returns the ends of links that are no more
_MIX = 0x9E3779B1  # odd; spreads a CRC, which is linear, over all bits


def forget_place(table: dict[Hop, Any], dpid: int, port: Optional[int]) -> None:
    """Forget what a table has of a port, or of a whole switch; of a port it is one step."""
    if port is not None:
        table.pop((dpid, port), None)
        return
    for place in [place for place in table if place[0] == dpid]:
        del table[place]


@dataclasses.dataclass
class Port:
    """A port of a switch."""

    name: str
    mac: bytes
    up: bool
    since_ns: int  # when it appeared or came up


class Topology:
    """The graph of switches.  ``version`` grows with every change that can move a path."""

    def __init__(self) -> None:
        self.ports: dict[int, dict[int, Port]] = {}
        self.version = 0
        self._neighbours: dict[int, dict[int, Hop]] = {}  # switch -> port -> other end of the link there
        self._seen: dict[Hop, int] = {}  # link by its lower end -> last seen, ns; the one seen longest ago first
        self._routes: dict[int, Routes] = {}  # by destination switch
        self._changes: list[tuple[int, int]] = []  # ends of links that changed
        self._followed: dict[int, int] = {}  # destination switch -> how many of the changes its routes know

    def add_switch(self, dpid: int, ports: dict[int, Port]) -> None:
        """Add a switch, or replace its ports after it connected again."""
        self.ports[dpid] = ports
        self.version += 1

    def remove_switch(self, dpid: int) -> list[Hop]:
        """Forget a switch and its links; return the ends of those."""
        self.ports.pop(dpid, None)
        ends = [end for port in list(self._neighbours.get(dpid, {})) for end in self._unlink((dpid, port))]
        self._routes.pop(dpid, None)
        self._followed.pop(dpid, None)
        self.version += 1
        return ends

    def set_port(self, dpid: int, number: int, port: Port) -> list[Hop]:
        """Add or change a port; one that went down loses its link. Return the ends of a lost link."""
        self.ports.setdefault(dpid, {})[number] = port
        return [] if port.up else self._unlink((dpid, number))

    def remove_port(self, dpid: int, number: int) -> list[Hop]:
        """Forget a port and its link; return the ends of that."""
        self.ports.get(dpid, {}).pop(number, None)
        return self._unlink((dpid, number))

    def remove_link(self, end: Hop) -> list[Hop]:
        """Forget the link at a port; return its ends, none where there is no link."""
        return self._unlink(end)

    def _unlink(self, end: Hop) -> list[Hop]:
        other = self.peer(*end)
        if other is None:
            return []
        del self._neighbours[end[0]][end[1]]
        if other != end:
            del self._neighbours[other[0]][other[1]]
        del self._seen[min(end, other)]
        self._change(end[0], other[0])
        return [end, other]

    def _change(self, near: int, far: int) -> None:
        self.version += 1
        if self._routes:
            self._changes.append((near, far))

    def add_link(self, near: Hop, far: Hop, now_ns: int) -> bool:
        """Record a link seen now, both ways; return whether it is news."""
        lower = min(near, far)
        known = self.peer(*near) == far
        if not known:
            self._unlink(near)
            self._unlink(far)
            self._neighbours.setdefault(near[0], {})[near[1]] = far
            self._neighbours.setdefault(far[0], {})[far[1]] = near
            self._change(near[0], far[0])
        self._seen.pop(lower, None)
        self._seen[lower] = now_ns
        return not known

    def expire_links(self, before_ns: int) -> list[Hop]:
        """Drop the links not seen since ``before_ns`` and return their ends."""
        stale: list[Hop] = []
        while self._seen:
            end = next(iter(self._seen))
            if self._seen[end] >= before_ns:
                break
            stale += self._unlink(end)
        return stale

    def peer(self, dpid: int, port: int) -> Optional[Hop]:
        """Return the other end of the link at a port, or None."""
        known = self._neighbours.get(dpid)
        return known.get(port) if known else None

    def links(self) -> list[tuple[Hop, Hop]]:
        """Return each link once, lower end first."""
        return sorted((end, self._neighbours[end[0]][end[1]]) for end in self._seen)

    def link_count(self) -> int:
        """Return how many links there are."""
        return len(self._seen)

    def edge_ports(self, dpid: int) -> list[int]:
        """Return the ports of a switch that are up and lead to no other switch."""
        linked = self._neighbours.get(dpid, {})
        return sorted(number for number, port in self.ports.get(dpid, {}).items() if port.up and number not in linked)

    # Ways

    def targets(self) -> list[int]:
        """Return the switches for which update() would do or tell something."""
        count = len(self._changes)
        return [
            target for target, followed in self._followed.items() if followed != count or self._routes[target].moved
        ]

    def update(self, target: int) -> list[int]:
        """Bring the ways to a switch up to date.

        Returns the switches whose ways to it changed since the last call, the nearest first.
        """
        return self._to(target).take_moved() if target in self._routes else []

    def forget_changes(self) -> None:
        """Forget the changes of the graph that the ways to all switches follow."""
        if self._changes and not self.targets():
            self._changes.clear()
            self._followed = dict.fromkeys(self._followed, 0)

    def _to(self, target: int) -> Routes:
        routes, count = self._routes.get(target), len(self._changes)
        if routes is None:
            routes = self._routes[target] = Routes(target, self._neighbours)
        elif self._followed[target] != count:
            routes.update(end for ends in self._changes[self._followed[target] :] for end in ends)
        self._followed[target] = count
        return routes

    def ways(self, dpid: int, target: Hop) -> Ports:
        """Return the ports on shortest paths from switch ``dpid`` to the host at ``target``; () if there is none."""
        return (target[1],) if dpid == target[0] else self._to(target[0]).ways(dpid)

    @staticmethod
    def choose(dpid: int, ways: Sequence[int], key: bytes) -> int:
        """Return one of several ways, ports of a switch, by a hash of switch, key and port."""
        start = zlib.crc32(key + dpid.to_bytes(8, "big"))
        return max(ways, key=lambda port: (zlib.crc32(port.to_bytes(4, "big"), start) * _MIX & 0xFFFFFFFF, port))
