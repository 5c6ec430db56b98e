# SPDX-License-Identifier: Apache-2.0
"""Switches, their ports and the links between them; which ways lead to a host.

Packets go on shortest paths.  Among equally short ways the choice is a hash of the switch and a key: paths
differ by the key, never change on their own, and the controller knows each without asking.
"""

import dataclasses
import zlib
from collections import deque
from typing import Optional

Hop = tuple[int, int]  # (datapath id, port number)


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
        self._links: dict[Hop, tuple[Hop, int]] = {}  # end -> (other end, last seen ns)
        self._next: dict[int, dict[int, list[int]]] = {}  # destination switch -> switch -> ports

    def _changed(self) -> None:
        self.version += 1
        self._next.clear()

    def add_switch(self, dpid: int, ports: dict[int, Port]) -> None:
        """Add a switch, or replace its ports after it connected again."""
        self.ports[dpid] = ports
        self._changed()

    def remove_switch(self, dpid: int) -> None:
        """Forget a switch and its links."""
        self.ports.pop(dpid, None)
        for end in [end for end, (other, _) in self._links.items() if dpid in (end[0], other[0])]:
            self._links.pop(end, None)
        self._changed()

    def set_port(self, dpid: int, number: int, port: Port) -> None:
        """Add or change a port; one that went down loses its link."""
        self.ports.setdefault(dpid, {})[number] = port
        if not port.up:
            self._unlink((dpid, number))

    def remove_port(self, dpid: int, number: int) -> None:
        """Forget a port and its link."""
        self.ports.get(dpid, {}).pop(number, None)
        self._unlink((dpid, number))

    def _unlink(self, end: Hop) -> None:
        known = self._links.pop(end, None)
        if known:
            self._links.pop(known[0], None)
            self._changed()

    def add_link(self, near: Hop, far: Hop, now_ns: int) -> bool:
        """Record a link seen now, both ways; return whether it is news."""
        known = self._links.get(near)
        if known and known[0] == far:
            self._links[near] = (far, now_ns)
            self._links[far] = (near, now_ns)
            return False
        self._unlink(near)
        self._unlink(far)
        self._links[near] = (far, now_ns)
        self._links[far] = (near, now_ns)
        self._changed()
        return True

    def expire_links(self, before_ns: int) -> list[Hop]:
        """Drop the links not seen since ``before_ns`` and return their ends."""
        stale = [end for end, (_, seen) in self._links.items() if seen < before_ns]
        for end in stale:
            self._unlink(end)
        return stale

    def peer(self, dpid: int, port: int) -> Optional[Hop]:
        """Return the other end of the link at a port, or None."""
        known = self._links.get((dpid, port))
        return known[0] if known else None

    def links(self) -> list[tuple[Hop, Hop]]:
        """Return each link once, lower end first."""
        return sorted((end, other) for end, (other, _) in self._links.items() if end < other)

    def edge_ports(self, dpid: int) -> list[int]:
        """Return the ports of a switch that are up and lead to no other switch."""
        return [
            number
            for number, port in sorted(self.ports.get(dpid, {}).items())
            if port.up and (dpid, number) not in self._links
        ]

    def _next_hops(self, target: int) -> dict[int, list[int]]:
        """Return for every switch the ports on shortest paths to the switch ``target``."""
        known = self._next.get(target)
        if known is not None:
            return known
        neighbours: dict[int, list[tuple[int, int]]] = {}
        for (dpid, port), (other, _) in sorted(self._links.items()):
            neighbours.setdefault(dpid, []).append((port, other[0]))
        distance = {target: 0}
        queue = deque([target])
        while queue:
            here = queue.popleft()
            for _, there in neighbours.get(here, []):
                if there not in distance:
                    distance[there] = distance[here] + 1
                    queue.append(there)
        ways = {
            dpid: [port for port, there in neighbours.get(dpid, []) if distance.get(there, far) == far - 1]
            for dpid, far in distance.items()
            if dpid != target
        }
        self._next[target] = ways
        return ways

    def ways(self, dpid: int, target: Hop) -> list[int]:
        """Return the ports on shortest paths from switch ``dpid`` to the host at ``target``; [] if there is none."""
        return [target[1]] if dpid == target[0] else self._next_hops(target[0]).get(dpid, [])

    @staticmethod
    def choose(dpid: int, ways: list[int], key: bytes) -> int:
        """Return one of several ways by a hash of switch and key."""
        return ways[zlib.crc32(key + dpid.to_bytes(8, "big")) % len(ways)]
