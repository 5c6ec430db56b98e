# SPDX-License-Identifier: Apache-2.0
"""Flows and select groups: what is added to and deleted from switches, and in what order.

A flow of a switch is added after those that carry its packets on, and where ways moved the switches nearest to the
destination come first. So a flow that was touched leads to the destination by switches that were touched before, on
ways ever shorter, and never in a circle; one that was not touched yet leads where it did, at worst into a dead link.
"""

import hashlib
import struct
from typing import Callable, Iterable, Iterator, NamedTuple, Optional

from sdngcc.controller.forwarding.flows import Flow, FlowTable, Key
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.paths import Paths
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.routes import Ports
from sdngcc.controller.network.topology import Hop, Topology
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import openflow
from sdngcc.controller.wire.packets import ETH_LLDP

COOKIE = 0x5347 << 48
COOKIE_MASK = 0xFFFF << 48
LEARNED = 1 << 40
PAIR = 1 << 41
COUNTING = 1 << 42  # of a mark source, which forwards nothing
PRIORITY_LLDP = 1000
PRIORITY_PAIR = 200
PRIORITY_TRANSIT = 150  # a pair's, where its way is chosen by pair
PRIORITY_DESTINATION = 100
GROUP_MAX = 0xFFFF0000  # more a switch are not numbered
ON_ITS_WAY_NS = 200_000_000  # packets no flow knew this soon after their flow was sent left before it was there


class Tables(NamedTuple):
    """Where forwarding stands in a switch's pipeline."""

    forwarding: int = 0
    after: Optional[int] = None  # table that packets visit once their output is decided; metadata is the port


class Installer:
    """Keeps ``flows`` and the switches alike.

    All controllers of a cluster decide from the same packets; ``owns(dpid)`` tells for which switches this one acts,
    and the outbox takes nothing for the rest. ``secret`` is common to them: the numbers of flows come from it.
    """

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        relations: Relations,
        paths: Paths,
        switches: dict[int, SwitchRecord],
        flows: FlowTable,
        outbox: Outbox,
        tables: Tables,
        owns: Callable[[int], bool],
        secret: bytes,
    ) -> None:
        self._settings = settings
        self._topology = topology
        self._relations = relations
        self._paths = paths
        self._switches = switches
        self._flows = flows
        self._outbox = outbox
        self._tables = tables
        self._owns = owns
        self._secret = secret
        # Switches of others whose flows their owners were to change lately, with the second until which a dead owner
        # may go unnoticed.
        self._doubtful: dict[int, int] = {}

    # Whole switches

    def start_switch(self, dpid: int) -> None:
        """Give a new switch the flows that bring everything unknown here.

        What a controller with another mark source may have left in other tables goes.
        """
        data = openflow.flow_delete(openflow.match(), COOKIE | COUNTING, COOKIE_MASK | COUNTING)
        for table in range(3):
            if table != self._tables.forwarding:
                data += openflow.flow_delete(openflow.match(), COOKIE, COOKIE_MASK, table)
        to_controller = (openflow.OFPP_CONTROLLER,)
        for fields, priority in ((openflow.match(eth_type=ETH_LLDP), PRIORITY_LLDP), (openflow.match(), 0)):
            data += openflow.flow_add(fields, to_controller, priority, COOKIE, table=self._tables.forwarding)
        self._outbox.put_owned(dpid, data)

    def flush(self, dpid: int, now_ns: int) -> None:
        """Delete what was learned from a switch: its pairs and destinations come here again."""
        if not self._owns(dpid):
            # Its owner flushes it, if it lives, and each flow removed is told to all.
            self._doubt(dpid, now_ns)
            return
        self._doubtful.pop(dpid, None)
        self._outbox.put_owned(dpid, openflow.flow_delete(openflow.match(), COOKIE | LEARNED, COOKIE_MASK | LEARNED))
        self.forget_switch(dpid)

    def _doubt(self, dpid: int, now_ns: int) -> None:
        if not self._owns(dpid):
            self._doubtful[dpid] = now_ns + (self._settings.lease_ms + 2000) * 1_000_000

    def take_over(self, dpid: int, fresh: bool, now_ns: int) -> None:
        """Act for a switch from now on; ``fresh`` when nobody of the cluster did before."""
        self.start_switch(dpid)
        doubtful = self._doubtful.pop(dpid, 0)
        if fresh or doubtful > now_ns:
            self.flush(dpid, now_ns)

    def forget_switch(self, dpid: int) -> None:
        """Forget which flows a switch has."""
        _, groups = self._flows.forget_switch(dpid)
        if dpid in self._switches:
            for group in groups:
                self._outbox.put_owned(dpid, openflow.group_delete(group.number))

    # Adding

    def _hash(self, named: bytes) -> int:
        """Return 32 bits that are the same in every controller of a cluster, and that no machine can foresee."""
        return int.from_bytes(hashlib.blake2b(named, digest_size=4, key=self._secret).digest(), "big")

    def note_edge(self, place: Hop, pair: Pair, ports: Ports, vlan: int, retag: Optional[int], now_ns: int) -> Flow:
        """Note that a pair has a flow at its source's place, and return it.

        Its number is the same in every controller of a cluster, but when two of 2^32 meet: then the later one's owner
        alone knows it. No machine can make its numbers meet another's.
        """
        first = self._hash(struct.pack("!QI", *place) + pair[0] + pair[1] + (vlan.to_bytes(2, "big") if vlan else b""))
        flow = Flow(ports, self._flows.number(place, pair, vlan, first), retag, now_ns)
        self._flows.add(place[0], pair[1], Key(pair[0], place[1], vlan), flow)
        return flow

    def note_onward(self, dpid: int, in_port: int, source: bytes, target: bytes, ports: Ports) -> None:
        """Note a flow that carries a destination's packets, or a pair's, where they come in by links."""
        self._flows.add(dpid, target, Key(source, in_port), Flow(ports))

    def on_its_way(
        self, place: Hop, ports: Ports, pair: Pair, vlan: int, retag: Optional[int], now_ns: int
    ) -> Optional[Flow]:
        """Return a pair's flow at the source's own switch if just that was sent lately, else None."""
        known = self._flows.of(place[0], pair[1]).get(Key(pair[0], place[1], vlan))
        if known is None or (known.ports, known.retag) != (ports, retag) or now_ns - known.since_ns >= ON_ITS_WAY_NS:
            return None
        return known

    def add_edge(self, place: Hop, ports: Ports, pair: Pair, vlan: int, retag: Optional[int], now_ns: int) -> None:
        """Add the flow that takes a pair off the controller at the source's own switch."""
        flow = self.note_edge(place, pair, ports, vlan, retag, now_ns)
        self._send_flow(place[0], pair[1], Key(pair[0], place[1], vlan), flow)

    def add_onward(self, entries: Iterable[Optional[Hop]], pair: Pair, again: bool = False) -> None:
        """Add the flows that carry a pair from where its packets enter switches by links onwards, the last one first.

        An empty source stands for all: then only switches whose ways are the same for all get a flow.
        On hypervisor bridges flows match the link's port too, or they would hide new pairs of the bridge's own
        machines.  ``again`` adds those of the first switches whatever is known of them.
        """
        target = self._relations.hosts[pair[1]].place
        level = sorted({entry for entry in entries if entry is not None})
        found: list[tuple[int, Key, Ports, bool]] = []
        seen: set[Hop] = set()
        while level:
            beyond: set[Hop] = set()
            for dpid, arrival in level:
                switch = self._switches.get(dpid)
                if switch is None:
                    continue
                ports = self._paths.ports(dpid, target, pair)
                if not ports:
                    continue
                by_pair = self._paths.by_pair(dpid, target)
                if by_pair and not pair[0]:
                    continue
                key = Key(pair[0] if by_pair else b"", arrival if switch.hypervisor else 0)
                found.append((dpid, key, ports, again))
                if dpid != target[0]:
                    beyond |= {after for port in ports if (after := self._topology.peer(dpid, port)) is not None}
            again = False
            seen.update(level)
            level = sorted(beyond - seen)
        for dpid, key, ports, anew in reversed(found):
            if anew or key not in self._flows.of(dpid, pair[1]):
                flow = Flow(ports)
                self._flows.add(dpid, pair[1], key, flow)
                self._send_flow(dpid, pair[1], key, flow)

    def _group(self, dpid: int, pair: Pair, ports: Ports) -> Optional[int]:
        """Return the number of a pair's select group at a switch, made if there is none; None for a single port."""
        known = self._flows.groups.get(dpid, {}).get(pair)
        if known is not None and known.ports == ports:
            return known.number
        if len(ports) < 2:
            return None
        first = self._hash(struct.pack("!Q", dpid) + pair[0] + pair[1]) % GROUP_MAX + 1
        group = self._flows.add_group(dpid, pair, ports, first, GROUP_MAX)
        self._outbox.put_owned(dpid, openflow.group_select(group.number, ports))
        return group.number

    def _send_flow(self, dpid: int, target: bytes, key: Key, flow: Flow) -> None:
        """Send a flow, in the table where forwarding stands. One that ends when idle reports its end."""
        pair = (key.source, target)
        group = self._group(dpid, pair, flow.ports) if key.source else None
        edge = flow.number is not None
        self._outbox.put_owned(
            dpid,
            openflow.flow_add(
                self._fields(target, key, edge),
                flow.ports,
                self._priority(key, edge),
                COOKIE | LEARNED | (PAIR | flow.number if flow.number is not None else 0),
                self._settings.relation_idle_s if edge else 0,
                report=edge,
                table=self._tables.forwarding,
                goto=self._tables.after,
                metadata=flow.ports[0] if self._tables.after is not None else None,
                group=group,
                retag=flow.retag,
            ),
        )
        if group is None and key.source:
            self._delete_group(dpid, pair)

    @staticmethod
    def _fields(target: bytes, key: Key, edge: bool) -> bytes:
        return openflow.match(
            in_port=key.in_port or None,
            eth_src=key.source or None,
            eth_dst=target,
            vlan=key.vlan if edge else None,
        )

    @staticmethod
    def _priority(key: Key, edge: bool) -> int:
        return PRIORITY_PAIR if edge else PRIORITY_TRANSIT if key.source else PRIORITY_DESTINATION

    # Deleting

    def _delete_group(self, dpid: int, pair: Pair) -> None:
        group = self._flows.remove_group(dpid, pair)
        if group is not None:
            self._outbox.put_owned(dpid, openflow.group_delete(group.number))

    def _delete_flow(self, dpid: int, target: bytes, key: Key) -> None:
        flow = self._flows.remove(dpid, target, key)
        if flow is None or dpid not in self._switches:
            return
        edge = flow.number is not None
        fields, priority = self._fields(target, key, edge), self._priority(key, edge)
        self._outbox.put_owned(
            dpid,
            openflow.flow_delete(fields, COOKIE | LEARNED, COOKIE_MASK | LEARNED, priority=priority),
        )

    def drop_pair(self, pair: Pair) -> None:
        """Delete a pair's own flows and groups, wherever they are."""
        for dpid in self._flows.along(pair):
            for key in [key for key in self._flows.of(dpid, pair[1]) if key.source == pair[0]]:
                self._delete_flow(dpid, pair[1], key)
            self._delete_group(dpid, pair)
        self._flows.forget_pair(pair)

    def drop_host(self, mac: bytes) -> None:
        """Delete the flows from and to a host that is gone or moved."""
        for dpid in self._flows.toward(mac):
            for key in list(self._flows.of(dpid, mac)):
                if key.source:
                    self._delete_group(dpid, (key.source, mac))
                self._flows.remove(dpid, mac, key)
            if dpid in self._switches:
                fields = openflow.match(eth_dst=mac)
                self._outbox.put_owned(dpid, openflow.flow_delete(fields, COOKIE | LEARNED, COOKIE_MASK | LEARNED))
        for target in self._flows.targets(mac):
            self.drop_pair((mac, target))

    # Moving

    def reroute(self, dpid: int, target: bytes, pairs: Iterable[Pair], now_ns: int) -> Iterator[None]:
        """Bring a destination's flows at a switch in line with its ways; those of none of ``pairs`` go.

        ``pairs`` are those that cross the switch. A pair's flow at its source's port stays as long as there is a way.
        """
        flows = self._flows.of(dpid, target)
        if not flows:
            return
        place = self._relations.hosts[target].place
        sources = {source for source, to in pairs if to == target}
        by_pair = self._paths.by_pair(dpid, place)
        for key, flow in list(flows.items()):
            if key.source:
                wanted = flow.number is not None or key.source in sources
            else:
                wanted = bool(sources) and not by_pair
            ports = self._paths.ports(dpid, place, (key.source, target)) if wanted else ()
            if ports == flow.ports:
                continue
            self._doubt(dpid, now_ns)
            if ports:
                if dpid != place[0]:
                    onward = [self._topology.peer(dpid, port) for port in ports]
                    self.add_onward(onward, (key.source, target))
                flow.ports = ports
                self._send_flow(dpid, target, key, flow)
            else:
                if key.source:
                    self._delete_group(dpid, (key.source, target))
                self._delete_flow(dpid, target, key)
            yield

    def extend(self, pair: Pair) -> None:
        """Add what is missing of a pair's flows beyond its source's switch."""
        source, target = (self._relations.hosts.get(mac) for mac in pair)
        if source is None or target is None or source.place[0] == target.place[0]:
            return
        dpid = source.place[0]
        ports = self._paths.ports(dpid, target.place, pair)
        self.add_onward([self._topology.peer(dpid, port) for port in ports], pair)
