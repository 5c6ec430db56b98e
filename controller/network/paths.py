# SPDX-License-Identifier: Apache-2.0
"""Which ports the frames of a pair leave by, over equal ways and through tunnels.

Among equally short ways a switch chooses (setting ``multipath``)

- ``destination``: by a hash of switch and destination, one flow a destination;
- ``pair``: by a hash of switch, source and destination, one flow a pair where there is a choice;
- ``flow``: by the switch's own hash of each TCP or UDP flow, one select group a pair where there is a choice.
  What leaves by which port is then measured (counters.SplitBytes), half and half until it is.

A hop out of a tunnel's port is followed by the tunnel's own way: from where its local address is in the
fabric to where its remote address is.
"""

import collections
from typing import Literal, NamedTuple, Optional

from sdngcc.controller.network.proportions import Proportions
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.topology import Hop, Topology

Multipath = Literal["destination", "pair", "flow"]


class Tunnel(NamedTuple):
    """The end points of a tunnel, as OVSDB has them: packed addresses, IPv4 ones mapped into IPv6."""

    local: Optional[bytes]  # None: not set, the host chooses
    remote: bytes


class Paths:
    """The way of every pair that talks.  ``version`` changes with every change that can move one."""

    def __init__(
        self,
        relations: Relations,
        topology: Topology,
        multipath: Multipath = "destination",
        splits: Optional[Proportions[tuple[int, Pair], int]] = None,
    ) -> None:
        """``splits`` tell how the bytes of (switch, pair) part among ports."""
        self._splits = splits or Proportions()
        self._relations = relations
        self._topology = topology
        self._multipath = multipath
        self._without_groups: set[int] = set()
        self._tunnels: dict[int, dict[int, Tunnel]] = {}  # by datapath id and port
        self._changes = 0

    @property
    def version(self) -> tuple[int, ...]:
        """Return what the ways depend on, as numbers that grow."""
        return self._relations.version, self._topology.version, self._splits.version, self._changes

    def set_tunnels(self, dpid: int, tunnels: dict[int, Tunnel]) -> None:
        """Take a switch's tunnels by port."""
        if tunnels != self._tunnels.get(dpid, {}):
            self._tunnels[dpid] = tunnels
            self._changes += 1

    def _tunnel(self, hop: Hop) -> Optional[Tunnel]:
        return self._tunnels.get(hop[0], {}).get(hop[1])

    def do_without_groups(self, dpid: int) -> bool:
        """Let a switch that refuses select groups choose by pair; return whether that is news."""
        news = dpid not in self._without_groups
        self._without_groups.add(dpid)
        self._changes += news
        return news

    def by_pair(self, dpid: int, target: Hop) -> bool:
        """Tell whether a switch's way to a host depends on who sends."""
        return self._multipath != "destination" and len(self._topology.ways(dpid, target)) > 1

    def ports(self, dpid: int, target: Hop, pair: Pair) -> list[int]:
        """Return the ports by which a switch passes on the frames of a pair to the host at ``target``.

        Several are the buckets of a select group; [] if there is no way.
        """
        ways = self._topology.ways(dpid, target)
        if len(ways) > 1 and (self._multipath != "flow" or dpid in self._without_groups):
            key = pair[1] if self._multipath == "destination" else pair[0] + pair[1]
            return [self._topology.choose(dpid, ways, key)]
        return ways

    def hops(self, pair: Pair) -> dict[Hop, float]:
        """Return the (switch, output port) hops of a pair, each with the part of its bytes that leave there.

        {} while an end is unknown or there is no way.
        """
        hops = self._walk(pair)
        for hop, part in list(hops.items()):
            tunnel = self._tunnel(hop)
            if tunnel is not None:
                for under, share in self._walk(self._ends(hop, tunnel)).items():
                    hops[under] = hops.get(under, 0.0) + part * share
        return hops

    def splitting(self, hops: dict[Hop, float]) -> set[int]:
        """Return the switches among hops whose select groups part the bytes."""
        count = collections.Counter(dpid for dpid, _ in hops)
        return {dpid for dpid, ports in count.items() if ports > 1}

    def _ends(self, hop: Hop, tunnel: Tunnel) -> Pair:
        """Return the Ethernet addresses of a tunnel's ends in the fabric, empty ones if not known."""
        local, owner = tunnel.local, self._relations.owner
        if local is None:
            back = self._tunnel(self._topology.peer(*hop) or hop)
            local = back.remote if back is not None and back is not tunnel else b""
        return owner(local) or b"", owner(tunnel.remote) or b""

    def _walk(self, pair: Pair) -> dict[Hop, float]:
        source, target = (self._relations.hosts.get(mac) for mac in pair)
        if source is None or target is None:
            return {}
        hops: dict[Hop, float] = {}
        level = {source.place[0]: 1.0}
        # All ways are equally short, so a switch's whole part has arrived before it is passed on.
        while level:
            beyond: dict[int, float] = {}
            for dpid, part in level.items():
                ports = self.ports(dpid, target.place, pair)
                if not ports:
                    return {}
                shares = self._splits.of((dpid, pair), ports) if len(ports) > 1 else {ports[0]: 1.0}
                for port, share in shares.items():
                    hops[dpid, port] = part * share
                    after = self._topology.peer(dpid, port)
                    if dpid != target.place[0] and after is not None:
                        beyond[after[0]] = beyond.get(after[0], 0.0) + part * share
            level = beyond
        return hops
