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
from typing import Callable, Iterable, Literal, NamedTuple, Optional, Sequence

from sdngcc.controller.network.proportions import Proportions
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.routes import Ports
from sdngcc.controller.network.topology import Hop, Topology

Multipath = Literal["destination", "pair", "flow"]
Crossing = tuple[int, int]  # (switch, destination switch)


class Tunnel(NamedTuple):
    """The end points of a tunnel, as OVSDB has them: packed addresses, IPv4 ones mapped into IPv6."""

    local: Optional[bytes]  # None: not set, the host chooses
    remote: bytes


class Path(NamedTuple):
    """The way of a pair and what it depends on."""

    hops: dict[Hop, float]  # (switch, output port) -> part of the bytes that leave there; {}: no way, or an end unknown
    crossed: frozenset[Crossing]  # it changes with the ways of these switches
    addresses: frozenset[bytes]  # and with where these are, of tunnels' ends
    split: bool  # a switch's own counters say how the bytes part


class Paths:
    """The way of every pair that talks."""

    def __init__(
        self,
        relations: Relations,
        topology: Topology,
        multipath: Multipath = "destination",
        splits: Optional[Proportions[tuple[int, Pair], int]] = None,
        uplinks: Optional[Callable[[int], Sequence[int]]] = None,
    ) -> None:
        """``splits`` tell how the bytes of (switch, pair) part among ports.

        Where a way is not known, a pair leaves by the ports of its switch that ``uplinks`` tells, and nothing is known
        of it from there on.
        """
        self._uplinks = uplinks
        self._splits = splits or Proportions()
        self._relations = relations
        self._topology = topology
        self._multipath = multipath
        self._without_groups: set[int] = set()
        self._tunnels: dict[int, dict[int, Tunnel]] = {}  # by datapath id and port

    def set_tunnels(self, dpid: int, tunnels: dict[int, Tunnel]) -> list[Hop]:
        """Take a switch's tunnels by port; return the ports whose tunnels lead elsewhere now, far ends included."""
        before = self._tunnels.get(dpid, {})
        moved = [(dpid, port) for port in before.keys() | tunnels.keys() if before.get(port) != tunnels.get(port)]
        if tunnels:
            self._tunnels[dpid] = tunnels
        else:
            self._tunnels.pop(dpid, None)
        return moved + [far for near in moved if (far := self._topology.peer(*near)) is not None]

    def _tunnel(self, hop: Hop) -> Optional[Tunnel]:
        return self._tunnels.get(hop[0], {}).get(hop[1])

    def do_without_groups(self, dpid: int) -> bool:
        """Let a switch that refuses select groups choose by pair; return whether that is news."""
        news = dpid not in self._without_groups
        self._without_groups.add(dpid)
        return news

    @property
    def chosen_by_pair(self) -> bool:
        """Tell whether any switch's way to a host can depend on who sends."""
        return self._multipath != "destination"

    def by_pair(self, dpid: int, target: Hop) -> bool:
        """Tell whether a switch's way to a host depends on who sends."""
        return self.chosen_by_pair and len(self._topology.ways(dpid, target)) > 1

    def ports(self, dpid: int, target: Hop, pair: Pair) -> Ports:
        """Return the ports by which a switch passes on the frames of a pair to the host at ``target``.

        Several are the buckets of a select group; () if there is no way.
        """
        ways = self._topology.ways(dpid, target)
        if len(ways) > 1 and (self._multipath != "flow" or dpid in self._without_groups):
            key = pair[1] if self._multipath == "destination" else pair[0] + pair[1]
            return (self._topology.choose(dpid, ways, key),)
        return ways

    def find(self, pair: Pair) -> Path:
        """Return the way of a pair."""
        crossed: set[Crossing] = set()
        addresses: set[bytes] = set()
        hops, split = self._walk(pair, crossed)
        source = self._relations.hosts.get(pair[0])
        if not hops and self._uplinks is not None and source is not None:
            ports = self._uplinks(source.place[0])
            hops = {(source.place[0], port): 1 / len(ports) for port in ports}
        if self._tunnels:
            for hop, part in list(hops.items()):
                tunnel = self._tunnel(hop)
                if tunnel is not None:
                    ends = self._end_addresses(hop, tunnel)
                    addresses.update(ends)
                    owners = [self._relations.owner(address) or b"" for address in ends]
                    under, parts = self._walk((owners[0], owners[1]), crossed)
                    split |= parts
                    for beneath, share in under.items():
                        hops[beneath] = hops.get(beneath, 0.0) + part * share
        return Path(hops, frozenset(crossed), frozenset(addresses), split)

    def splitting(self, hops: Iterable[Hop]) -> set[int]:
        """Return the switches among hops whose select groups part the bytes."""
        count = collections.Counter(dpid for dpid, _ in hops)
        return {dpid for dpid, ports in count.items() if ports > 1}

    def _end_addresses(self, hop: Hop, tunnel: Tunnel) -> tuple[bytes, bytes]:
        """Return the addresses of a tunnel's ends, an empty one if it is not known."""
        local = tunnel.local
        if local is None:
            back = self._tunnel(self._topology.peer(*hop) or hop)
            local = back.remote if back is not None and back is not tunnel else b""
        return local, tunnel.remote

    def _walk(self, pair: Pair, crossed: set[Crossing]) -> tuple[dict[Hop, float], bool]:
        """Return the hops of a pair without what is beneath tunnels, and whether counters part them."""
        source, target = (self._relations.hosts.get(mac) for mac in pair)
        if source is None or target is None:
            return {}, False
        hops: dict[Hop, float] = {}
        split, end = False, target.place[0]
        level = {source.place[0]: 1.0}
        # All ways are equally short, so a switch's whole part has arrived before it is passed on.
        while level:
            beyond: dict[int, float] = {}
            for dpid, part in level.items():
                crossed.add((dpid, end))
                ports = self.ports(dpid, target.place, pair)
                if not ports:
                    return {}, False
                if len(ports) == 1:
                    shares = {ports[0]: 1.0}
                else:
                    shares, split = self._splits.of((dpid, pair), ports), True
                for port, share in shares.items():
                    hops[dpid, port] = part * share
                    after = self._topology.peer(dpid, port) if dpid != end else None
                    if after is not None:
                        beyond[after[0]] = beyond.get(after[0], 0.0) + part * share
            level = beyond
        return hops, split
