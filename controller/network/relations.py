# SPDX-License-Identifier: Apache-2.0
"""Who is where, and who talks to whom (DST_SRC and IPTOPORT of the paper's Algorithm 4, mended).

The paper keeps one destination a source and one port an address for the whole network.  Here a host has a
place (switch and port) and a source has a set of destinations, each aged on its own; attribution.py finds
the sources behind a congested port by the paths of their pairs.
All tables are bounded: a virtual machine can fill its own part only.
"""

import dataclasses
import enum
from typing import Optional

from sdngcc.controller.network.topology import Hop
from sdngcc.controller.wire.packets import is_ipv4

ADDRESSES_A_HOST = 16
PAIRS_A_PORT = 4096
Pair = tuple[bytes, bytes]  # Ethernet addresses of source and destination


@dataclasses.dataclass
class Host:
    """An Ethernet address and what is known of it."""

    mac: bytes
    place: Hop
    seen_ns: int
    addresses: dict[bytes, int] = dataclasses.field(default_factory=dict)  # address -> last seen, ns

    def address(self, ipv4: bool) -> Optional[bytes]:
        """Return the address of one family seen last, or None."""
        best = max(
            ((seen, address) for address, seen in self.addresses.items() if is_ipv4(address) == ipv4),
            default=None,
        )
        return best[1] if best else None


class Learned(enum.Enum):
    """What learning a host led to."""

    SAME = "same"
    NEW = "new"
    MOVED = "moved"
    REFUSED = "refused"  # the port has its share of hosts already


class Relations:
    """Hosts by Ethernet address, and the pairs that talk."""

    def __init__(self, hosts_a_port: int = 64, pairs_a_source: int = 1024) -> None:
        self.hosts: dict[bytes, Host] = {}
        # Address -> Ethernet addresses of all who claim it, the first first.
        self.owners: dict[bytes, dict[bytes, None]] = {}
        self._hosts_at: dict[Hop, set[bytes]] = {}
        self._targets: dict[bytes, dict[bytes, int]] = {}  # source -> destination -> last seen, ns
        self._hosts_a_port = hosts_a_port
        self._pairs_a_source = pairs_a_source
        self.version = 0  # grows with every change of a place or a pair

    def learn_host(self, mac: bytes, place: Hop, address: Optional[bytes], now_ns: int) -> Learned:
        """Note that a host sent from ``place``, with an address if the frame showed one."""
        host = self.hosts.get(mac)
        outcome = Learned.SAME
        if host is None or host.place != place:
            there = self._hosts_at.setdefault(place, set())
            if len(there) >= self._hosts_a_port:
                return Learned.REFUSED
            if host is None:
                outcome, host = Learned.NEW, Host(mac, place, now_ns)
                self.hosts[mac] = host
            else:
                outcome = Learned.MOVED
                self._hosts_at[host.place].discard(mac)
                host.place = place
            there.add(mac)
            self.version += 1
        host.seen_ns = now_ns
        if address is not None:
            self._learn_address(host, address, now_ns)
        return outcome

    def _learn_address(self, host: Host, address: bytes, now_ns: int) -> None:
        # All who claim an address have it, or one machine could take another's away.
        if address not in host.addresses and len(host.addresses) >= ADDRESSES_A_HOST:
            oldest = min(host.addresses, key=lambda known: host.addresses[known])
            del host.addresses[oldest]
            self._disown(oldest, host.mac)
        host.addresses[address] = now_ns
        self.owners.setdefault(address, {})[host.mac] = None

    def owner(self, address: bytes) -> Optional[bytes]:
        """Return the Ethernet address of the one who claims an address longest, or None."""
        return next(iter(self.owners.get(address, ())), None)

    def _disown(self, address: bytes, mac: bytes) -> None:
        claimants = self.owners.get(address, {})
        claimants.pop(mac, None)
        if not claimants:
            self.owners.pop(address, None)

    def forget_host(self, mac: bytes) -> None:
        """Remove a host, its addresses and its pairs."""
        host = self.hosts.pop(mac, None)
        if host is None:
            return
        self._hosts_at[host.place].discard(mac)
        for address in host.addresses:
            self._disown(address, mac)
        self._targets.pop(mac, None)
        for targets in self._targets.values():
            targets.pop(mac, None)
        self.version += 1

    def forget_place(self, dpid: int, port: Optional[int] = None) -> list[bytes]:
        """Remove the hosts of a port, or of a whole switch; return their Ethernet addresses."""
        places = [place for place in self._hosts_at if place[0] == dpid and port in (None, place[1])]
        gone = sorted(mac for place in places for mac in self._hosts_at[place])
        for mac in gone:
            self.forget_host(mac)
        for place in places:
            del self._hosts_at[place]
        return gone

    def hosts_at(self, place: Hop) -> list[Host]:
        """Return the hosts behind a port, by Ethernet address."""
        return [self.hosts[mac] for mac in sorted(self._hosts_at.get(place, ()))]

    def learn_pair(self, source: bytes, target: bytes, now_ns: int) -> bool:
        """Note that a source sends to a destination; return False when it, or its port, has its share of pairs."""
        targets = self._targets.get(source, {})
        if target not in targets:
            host = self.hosts.get(source)
            beside = self._hosts_at.get(host.place, ()) if host else ()
            if len(targets) >= self._pairs_a_source:
                return False
            if sum(len(self._targets.get(mac, ())) for mac in beside) >= PAIRS_A_PORT:
                return False
            self._targets[source] = targets
            self.version += 1
        targets[target] = now_ns
        return True

    def forget_pair(self, source: bytes, target: bytes) -> None:
        """Note that a source stopped sending to a destination."""
        targets = self._targets.get(source)
        if targets and targets.pop(target, None) is not None:
            self.version += 1
            if not targets:
                del self._targets[source]

    def talks(self, source: bytes, target: bytes) -> bool:
        """Tell whether a source sends to a destination."""
        return target in self._targets.get(source, ())

    def targets(self, source: bytes) -> list[bytes]:
        """Return the destinations of a source, by Ethernet address."""
        return sorted(self._targets.get(source, ()))

    def pairs(self) -> list[Pair]:
        """Return the pairs that talk."""
        return [(source, target) for source, targets in self._targets.items() for target in targets]

    def pair_count(self) -> int:
        """Return how many pairs talk."""
        return sum(len(targets) for targets in self._targets.values())

    def pairs_before(self, before_ns: int) -> list[Pair]:
        """Return the pairs last heard of before a time."""
        return [
            (source, target)
            for source, targets in self._targets.items()
            for target, seen in targets.items()
            if seen < before_ns
        ]
