# SPDX-License-Identifier: Apache-2.0
"""Which flows and select groups the switches have, by switch and destination.

A flow at a switch is known by the destination's Ethernet address and a key: who sends (nobody for a destination's
flow, which carries all sources), where frames come in, and their VLAN. What is remembered is what was decided; a switch
of another controller has what its owner decided from the same packets.
"""

import collections
import dataclasses
from typing import NamedTuple, Optional

from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.routes import Ports
from sdngcc.controller.network.topology import Hop


class Key(NamedTuple):
    """What tells the flows of a destination at a switch apart."""

    source: bytes = b""  # Ethernet address; empty: all sources
    in_port: int = 0  # 0: any
    vlan: int = 0  # 802.1Q number that frames bear; 0: none. Of edge flows only


@dataclasses.dataclass
class Flow:
    """A flow as it was decided."""

    ports: Ports  # several: the buckets of a select group
    number: Optional[int] = None  # low bits of the cookie, of a pair's flow at its source's own port
    retag: Optional[int] = None  # VLAN that frames get there; 0: their tag goes; None: as they are
    since_ns: int = 0
    repeated: int = 0  # packets since then that no flow knew yet


class Group(NamedTuple):
    """A pair's select group at a switch, with a bucket a port."""

    number: int
    ports: Ports


class Edge(NamedTuple):
    """A flow at its source's own port."""

    pair: Pair
    place: Hop
    vlan: int


class FlowTable:
    """Flows of all switches. What a forgotten switch had may linger in the indexes by host, never in what is told."""

    def __init__(self) -> None:
        self.edges: dict[int, Edge] = {}  # flows at their source's port, by number
        self.groups: dict[int, dict[Pair, Group]] = {}  # by switch
        self._flows: dict[int, dict[bytes, dict[Key, Flow]]] = {}  # by switch and destination
        self._toward: dict[bytes, set[int]] = {}  # destination -> switches
        self._from: dict[bytes, dict[bytes, tuple[int, ...]]] = {}  # source -> destination -> switches
        self._numbers: dict[Pair, dict[int, int]] = {}  # pair with flows at its source's port -> number by VLAN
        self._edges_at: dict[int, dict[int, None]] = {}  # switch -> numbers
        self._sending: collections.Counter[bytes] = collections.Counter()  # edge flows by source
        self._receiving: collections.Counter[bytes] = collections.Counter()  # by destination
        self._group_places: dict[int, tuple[int, Pair]] = {}
        self._flowless: dict[Pair, None] = {}

    def take_flowless(self) -> list[Pair]:
        """Return the pairs that lost their flows at their source's port since the last call."""
        flowless, self._flowless = self._flowless, {}
        return list(flowless)

    # What is known

    def of(self, dpid: int, target: bytes) -> dict[Key, Flow]:
        """Return the flows of a destination at a switch."""
        return self._flows.get(dpid, {}).get(target, {})

    def toward(self, target: bytes) -> list[int]:
        """Return the switches that have flows of a destination, in order."""
        return sorted(dpid for dpid in self._toward.get(target, ()) if target in self._flows.get(dpid, {}))

    def targets(self, source: bytes) -> list[bytes]:
        """Return the destinations of which there are flows of a source, in order."""
        return sorted(self._from.get(source, ()))

    def along(self, pair: Pair) -> tuple[int, ...]:
        """Return the switches that may have flows of a pair."""
        return self._from.get(pair[0], {}).get(pair[1], ())

    def has_edge(self, pair: Pair) -> bool:
        """Tell whether a pair has a flow at its source's port."""
        return pair in self._numbers

    def is_sending(self, mac: bytes) -> bool:
        """Tell whether a host sends by a pair's flow."""
        return mac in self._sending

    def is_talking(self, mac: bytes) -> bool:
        """Tell whether a host sends or receives by a pair's flow."""
        return mac in self._sending or mac in self._receiving

    def find_edge(self, number: int) -> tuple[Key, Flow]:
        """Return the flow of that number at its source's port; raises KeyError when there is none."""
        edge = self.edges[number]
        key = Key(edge.pair[0], edge.place[1], edge.vlan)
        return key, self._flows[edge.place[0]][edge.pair[1]][key]

    def find_pair(self, number: int) -> Optional[tuple[Pair, Hop]]:
        """Return the pair whose flow has that number and its source's place; None when the flow is gone."""
        edge = self.edges.get(number)
        return (edge.pair, edge.place) if edge else None

    def find_group(self, dpid: int, number: int) -> Optional[tuple[Pair, Ports]]:
        """Return the pair and the ports of a select group, None when it is gone."""
        place = self._group_places.get(number)
        if place is None or place[0] != dpid:
            return None
        return place[1], self.groups[dpid][place[1]].ports

    # What changes

    def add(self, dpid: int, target: bytes, key: Key, flow: Flow) -> None:
        """Note a flow, in place of one with that key."""
        self._flows.setdefault(dpid, {}).setdefault(target, {})[key] = flow
        self._toward.setdefault(target, set()).add(dpid)
        if key.source:
            self._pass(dpid, (key.source, target))

    def _pass(self, dpid: int, pair: Pair) -> None:
        targets = self._from.setdefault(pair[0], {})
        known = targets.get(pair[1], ())
        if dpid not in known:
            targets[pair[1]] = (*known, dpid)

    def number(self, place: Hop, pair: Pair, vlan: int, first: int) -> int:
        """Return the number of a pair's flow at its source's port; a new one is ``first`` or the next that is free."""
        numbers = self._numbers.setdefault(pair, {})
        if vlan not in numbers:
            while first in self.edges:
                first = (first + 1) & 0xFFFFFFFF
            numbers[vlan] = first
            self._sending[pair[0]] += 1
            self._receiving[pair[1]] += 1
        else:
            self._edges_at[self.edges[numbers[vlan]].place[0]].pop(numbers[vlan], None)
        self.edges[numbers[vlan]] = Edge(pair, place, vlan)
        self._edges_at.setdefault(place[0], {})[numbers[vlan]] = None
        return numbers[vlan]

    def remove(self, dpid: int, target: bytes, key: Key) -> Optional[Flow]:
        """Forget a flow and return it."""
        destinations = self._flows.get(dpid, {})
        flows = destinations.get(target, {})
        flow = flows.pop(key, None)
        if flow is not None:
            if not flows:
                del destinations[target]
                self._toward[target].discard(dpid)
                if not self._toward[target]:
                    del self._toward[target]
            if flow.number is not None:
                self.drop_edge(flow.number)
        return flow

    def drop_edge(self, number: int) -> Optional[Edge]:
        """Forget the number of a flow at its source's port, and return what it was."""
        edge = self.edges.pop(number, None)
        if edge is None:
            return None
        self._edges_at.get(edge.place[0], {}).pop(number, None)
        numbers = self._numbers[edge.pair]
        del numbers[edge.vlan]
        if not numbers:
            del self._numbers[edge.pair]
            self._flowless[edge.pair] = None
        for counter, mac in ((self._sending, edge.pair[0]), (self._receiving, edge.pair[1])):
            counter[mac] -= 1
            if not counter[mac]:
                del counter[mac]
        return edge

    def forget_switch(self, dpid: int) -> tuple[list[Pair], list[Group]]:
        """Forget all flows and groups of a switch; return the pairs that had flows at their source's port, and groups.

        Takes as long as there are such pairs and groups, however many other flows it has.
        """
        self._flows.pop(dpid, None)
        pairs = [edge.pair for number in self._edges_at.pop(dpid, ()) if (edge := self.drop_edge(number))]
        groups = self.groups.pop(dpid, {})
        for group in groups.values():
            del self._group_places[group.number]
        return pairs, list(groups.values())

    def forget_pair(self, pair: Pair) -> dict[int, list[tuple[Key, Flow]]]:
        """Forget all flows of a pair; return them by switch, with an empty list where it had a group alone."""
        targets = self._from.get(pair[0], {})
        found: dict[int, list[tuple[Key, Flow]]] = {}
        for dpid in sorted(targets.pop(pair[1], ())):
            keys = [key for key in self.of(dpid, pair[1]) if key.source == pair[0]]
            flows = [(key, flow) for key in keys if (flow := self.remove(dpid, pair[1], key))]
            if flows or pair in self.groups.get(dpid, {}):
                found[dpid] = flows
        if not targets:
            self._from.pop(pair[0], None)
        return found

    def add_group(self, dpid: int, pair: Pair, ports: Ports, first: int, most: int) -> Group:
        """Note a pair's select group at a switch; its number is ``first`` or the next that is free, up to ``most``."""
        self.remove_group(dpid, pair)
        while first in self._group_places:
            first = first % most + 1
        group = self.groups.setdefault(dpid, {})[pair] = Group(first, ports)
        self._group_places[first] = (dpid, pair)
        self._pass(dpid, pair)
        return group

    def remove_group(self, dpid: int, pair: Pair) -> Optional[Group]:
        """Forget a pair's select group at a switch and return it."""
        group = self.groups.get(dpid, {}).pop(pair, None)
        if group is not None:
            del self._group_places[group.number]
        return group
