# SPDX-License-Identifier: Apache-2.0
"""Who is where, and who talks to whom (DST_SRC and IPTOPORT of the paper's Algorithm 4, mended).

The paper keeps one destination a source and one port an address for the whole network.  Here a host has a
place (switch and port) and a source has a set of destinations, each aged on its own; attribution.py finds
the sources behind a congested port by the paths of their pairs.
All tables are bounded: a virtual machine can fill its own part only.
"""

import collections
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
    """An Ethernet address, or what stands for a machine in its place, and what is known of it."""

    mac: bytes
    place: Hop
    seen_ns: int
    addresses: dict[bytes, int] = dataclasses.field(default_factory=dict)  # address -> last seen, ns
    ethernet: Optional[bytes] = None  # its Ethernet address where ``mac`` is none, and it is known

    def address(self, ipv4: bool) -> Optional[bytes]:
        """Return the address of one family seen last, or None."""
        known = [address for address in self.addresses if is_ipv4(address) == ipv4]
        if len(known) < 2:
            return known[0] if known else None
        return max(known, key=lambda address: (self.addresses[address], address))


class Learned(enum.Enum):
    """What learning a host led to."""

    SAME = "same"
    NEW = "new"
    MOVED = "moved"
    REFUSED = "refused"  # the port has its share of hosts already


class Relations:
    """Hosts by Ethernet address, and the pairs that talk.

    What changed waits for who follows it: in ``touched`` the pairs that came, went or moved, or whose destination has
    other addresses, in ``readdressed`` the addresses whose first owner is another one, or elsewhere, and in
    ``renewed``, of the ``watched`` hosts, those that came, went, were heard with an address or lost one.
    """

    def __init__(self, hosts_a_port: int = 64, pairs_a_source: int = 1024) -> None:
        self.hosts: dict[bytes, Host] = {}
        # Address -> Ethernet addresses of all who claim it, the first first.
        self.owners: dict[bytes, dict[bytes, None]] = {}
        self._hosts_at: dict[int, dict[int, set[bytes]]] = {}  # switch -> port -> Ethernet addresses
        self._targets: dict[bytes, dict[bytes, int]] = {}  # source -> destination -> last seen, ns
        self._sources: dict[bytes, dict[bytes, None]] = {}  # destination -> sources
        self._pairs_at: collections.Counter[Hop] = collections.Counter()  # pairs by their source's port
        self._pair_count = 0
        self._hosts_a_port = hosts_a_port
        self._pairs_a_source = pairs_a_source
        self.touched: dict[Pair, None] = {}
        self.readdressed: dict[bytes, None] = {}
        self.watched: set[bytes] = set()
        self.renewed: dict[bytes, None] = {}
        self._newcomers: dict[bytes, None] = {}

    def take_newcomers(self) -> list[bytes]:
        """Return the hosts that were not known before, since the last call."""
        newcomers, self._newcomers = self._newcomers, {}
        return list(newcomers)

    def learn_host(self, mac: bytes, place: Hop, address: Optional[bytes], now_ns: int) -> Learned:
        """Note that a host sent from ``place``, with an address if the frame showed one."""
        host = self.hosts.get(mac)
        outcome = Learned.SAME
        if host is None or host.place != place:
            there = self._hosts_at.setdefault(place[0], {}).setdefault(place[1], set())
            if len(there) >= self._hosts_a_port:
                return Learned.REFUSED
            if host is None:
                outcome, host = Learned.NEW, Host(mac, place, now_ns)
                self.hosts[mac] = host
                self._renew(mac)
                self._newcomers[mac] = None
                self._count_pairs(place, len(self._targets.get(mac, ())))
                self._touch(mac)
            else:
                outcome = Learned.MOVED
                self._move(host, place)
            there.add(mac)
        host.seen_ns = now_ns
        if address is not None:
            self._learn_address(host, address, now_ns)
        return outcome

    def _move(self, host: Host, place: Hop) -> None:
        mac = host.mac
        self._leave(host)
        count = len(self._targets.get(mac, ()))
        self._count_pairs(host.place, -count)
        self._count_pairs(place, count)
        host.place = place
        self._touch(mac)
        self.readdressed.update(dict.fromkeys(host.addresses))

    def _count_pairs(self, place: Hop, more: int) -> None:
        """Count that so many more pairs, or fewer, have their source at a port; ports without any are not kept."""
        count = self._pairs_at[place] + more
        if count:
            self._pairs_at[place] = count
        else:
            self._pairs_at.pop(place, None)

    def _leave(self, host: Host) -> None:
        ports = self._hosts_at[host.place[0]]
        ports[host.place[1]].discard(host.mac)
        if not ports[host.place[1]]:
            del ports[host.place[1]]
            if not ports:
                del self._hosts_at[host.place[0]]

    def _renew(self, mac: bytes) -> None:
        if mac in self.watched:
            self.renewed[mac] = None

    def _touch(self, mac: bytes) -> None:
        self.touched.update(((mac, target), None) for target in self._targets.get(mac, ()))
        self._touch_sources(mac)

    def _touch_sources(self, mac: bytes) -> None:
        self.touched.update(((source, mac), None) for source in self._sources.get(mac, ()))

    def _learn_address(self, host: Host, address: bytes, now_ns: int) -> None:
        # All who claim an address have it, or one machine could take another's away.
        if address not in host.addresses:
            if len(host.addresses) >= ADDRESSES_A_HOST:
                oldest = min(host.addresses, key=lambda known: host.addresses[known])
                del host.addresses[oldest]
                self._disown(oldest, host.mac)
            self.owners.setdefault(address, {})[host.mac] = None
            self.readdressed[address] = None
            self._touch_sources(host.mac)
        host.addresses[address] = now_ns
        self._renew(host.mac)

    def owner(self, address: bytes) -> Optional[bytes]:
        """Return the Ethernet address of the one who claims an address longest, or None."""
        return next(iter(self.owners.get(address, ())), None)

    def _disown(self, address: bytes, mac: bytes) -> None:
        claimants = self.owners.get(address, {})
        claimants.pop(mac, None)
        if not claimants:
            self.owners.pop(address, None)
        self.readdressed[address] = None
        self._touch_sources(mac)

    def forget_address(self, mac: bytes, address: bytes) -> None:
        """Note that a host no longer has an address."""
        host = self.hosts.get(mac)
        if host is not None and host.addresses.pop(address, None) is not None:
            self._renew(mac)
            self._disown(address, mac)

    def forget_host(self, mac: bytes) -> None:
        """Remove a host, its addresses and its pairs."""
        host = self.hosts.get(mac)
        if host is None:
            return
        for target in list(self._targets.get(mac, ())):
            self.forget_pair(mac, target)
        for source in list(self._sources.get(mac, ())):
            self.forget_pair(source, mac)
        del self.hosts[mac]
        self._renew(mac)
        self._leave(host)
        for address in host.addresses:
            self._disown(address, mac)

    def hosts_of(self, dpid: int, port: Optional[int] = None) -> list[bytes]:
        """Return the Ethernet addresses of the hosts at a port, or at a whole switch, in order."""
        ports = self._hosts_at.get(dpid, {})
        places = ports.values() if port is None else [ports.get(port, set())]
        return sorted(mac for there in places for mac in there)

    def forget_place(self, dpid: int, port: Optional[int] = None) -> list[bytes]:
        """Remove the hosts of a port, or of a whole switch; return their Ethernet addresses."""
        gone = self.hosts_of(dpid, port)
        for mac in gone:
            self.forget_host(mac)
        return gone

    def hosts_at(self, place: Hop) -> list[Host]:
        """Return the hosts behind a port, by Ethernet address."""
        return [self.hosts[mac] for mac in self.hosts_of(*place)]

    def learn_pair(self, source: bytes, target: bytes, now_ns: int) -> bool:
        """Note that a source sends to a destination; return False when it, or its port, has its share of pairs."""
        targets = self._targets.get(source, {})
        if target not in targets:
            host = self.hosts.get(source)
            if len(targets) >= self._pairs_a_source or (host and self._pairs_at[host.place] >= PAIRS_A_PORT):
                return False
            self._targets[source] = targets
            self._sources.setdefault(target, {})[source] = None
            self._pair_count += 1
            if host:
                self._count_pairs(host.place, 1)
            self.touched[source, target] = None
        targets[target] = now_ns
        return True

    def forget_pair(self, source: bytes, target: bytes) -> None:
        """Note that a source stopped sending to a destination."""
        targets = self._targets.get(source)
        if not targets or targets.pop(target, None) is None:
            return
        if not targets:
            del self._targets[source]
        sources = self._sources[target]
        del sources[source]
        if not sources:
            del self._sources[target]
        self._pair_count -= 1
        host = self.hosts.get(source)
        if host:
            self._count_pairs(host.place, -1)
        self.touched[source, target] = None

    def heard_ns(self, source: bytes, target: bytes) -> Optional[int]:
        """Return when a source was last heard to send to a destination; None when it does not."""
        return self._targets.get(source, {}).get(target)

    def talks(self, source: bytes, target: bytes) -> bool:
        """Tell whether a source sends to a destination."""
        return target in self._targets.get(source, ())

    def targets(self, source: bytes) -> list[bytes]:
        """Return the destinations of a source, by Ethernet address."""
        return sorted(self._targets.get(source, ()))

    def sources(self, target: bytes) -> list[bytes]:
        """Return who sends to a destination, by Ethernet address."""
        return sorted(self._sources.get(target, ()))

    def pairs(self) -> list[Pair]:
        """Return the pairs that talk."""
        return [(source, target) for source, targets in self._targets.items() for target in targets]

    def pair_count(self) -> int:
        """Return how many pairs talk."""
        return self._pair_count
