# SPDX-License-Identifier: Apache-2.0
"""Layer 2 forwarding that learns who talks to whom.

Hypervisor bridges get one flow a (source, destination) pair at the virtual machine's port: each new pair
comes to the controller once, which is how relations are learned, and goes with its flow when idle.
Everywhere else one flow a destination carries all sources, or one a pair where equally short ways are chosen
by pair (paths.py).  The first packet of a pair is put out at its destination, so nothing waits for flows along
the way.

Frames for everybody go to host ports only, so loops in the graph do no harm.  A question for an address
(ARP, neighbour solicitation) whose owner is known goes to the owner; asked again soon, to everybody.
Control messages are never put out: only the controller may send them.
"""

import collections
import hashlib
import logging
import struct
from typing import Callable, Iterable, NamedTuple, Optional

from sdngcc.controller.network.counters import Split
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.paths import Paths
from sdngcc.controller.network.relations import Learned, Pair, Relations
from sdngcc.controller.network.topology import Hop, Topology
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import openflow
from sdngcc.controller.wire.packets import ETH_LLDP, Frame, arp_request, is_ipv4, parse_frame

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
ASK_AGAIN_NS = 3_000_000_000
QUESTIONS_A_PORT = 1024
OWNERS_ASKED = 4  # of one address; more: everybody is asked
HEARD_NS = 1_000_000_000  # a host heard this lately is where it was heard

LOG = logging.getLogger(__name__)


class Tables(NamedTuple):
    """Where forwarding stands in a switch's pipeline."""

    forwarding: int = 0
    after: Optional[int] = None  # table that packets visit once their output is decided; metadata is the port


class Group(NamedTuple):
    """A pair's select group at a switch, with a bucket a port."""

    number: int
    ports: list[int]


class Forwarder:
    """Decides flows and packet-outs.

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
        outbox: Outbox,
        tables: Tables,
        owns: Callable[[int], bool],
        secret: bytes,
    ) -> None:
        self.counters: collections.Counter[str] = collections.Counter()
        self._settings = settings
        self._topology = topology
        self._relations = relations
        self._paths = paths
        self._switches = switches
        self._outbox = outbox
        self._tables = tables
        self._pair_flows: dict[Pair, int] = {}  # pair with a flow -> its number, the cookie's low bits
        self._pairs: dict[int, Pair] = {}
        self._owns = owns
        self._secret = secret
        # Switches of others that their owners were to flush lately, with the seconds that a dead one may go unnoticed.
        self._unflushed: dict[int, int] = {}
        self._destinations: set[tuple[int, int, bytes]] = set()  # switch, input port or 0, address
        self._transit: dict[Pair, set[int]] = {}  # switches with flows or a group of the pair beyond its edge
        self._groups: dict[int, dict[Pair, Group]] = {}  # select groups by switch
        self._group_places: dict[int, Split] = {}  # group number -> where it is and whose
        self._asked: dict[Hop, dict[tuple[bytes, bytes], int]] = {}  # port -> (asker, address) -> when, ns
        self._budget: dict[Hop, list[int]] = {}  # port, 0 for its whole switch -> [second, packet-ins in it]
        self._sending: collections.Counter[bytes] = collections.Counter()  # pairs' flows by source

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

    def _flow(
        self,
        fields: bytes,
        ports: list[int],
        priority: int,
        cookie: int,
        idle_s: int = 0,
        group: Optional[int] = None,
    ) -> bytes:
        """Return a flow-mod that sends packets out of a port or by a group, in the table where forwarding stands.

        One that ends when idle reports its end.
        """
        return openflow.flow_add(
            fields,
            ports,
            priority,
            cookie,
            idle_s,
            report=idle_s > 0,
            table=self._tables.forwarding,
            goto=self._tables.after,
            metadata=ports[0] if self._tables.after is not None else None,
            group=group,
        )

    def flush(self, dpid: int) -> None:
        """Delete what was learned from a switch: its pairs and destinations come here again."""
        if not self._owns(dpid):
            # Its owner flushes it, if it lives, and each flow removed is told to all.
            self._unflushed[dpid] = self._settings.lease_ms // 1000 + 2
            return
        self._unflushed.pop(dpid, None)
        self._outbox.put_owned(dpid, openflow.flow_delete(openflow.match(), COOKIE | LEARNED, COOKIE_MASK | LEARNED))
        self.forget_switch(dpid)

    def take_over(self, dpid: int, fresh: bool) -> None:
        """Act for a switch from now on; ``fresh`` when nobody of the cluster did before."""
        self.start_switch(dpid)
        if fresh or dpid in self._unflushed:
            self.flush(dpid)

    def forget_switch(self, dpid: int) -> None:
        """Forget which flows a switch has."""
        self._destinations = {entry for entry in self._destinations if entry[0] != dpid}
        for group in self._groups.pop(dpid, {}).values():
            del self._group_places[group.number]
            if dpid in self._switches:
                self._outbox.put_owned(dpid, openflow.group_delete(group.number))
        for switches in self._transit.values():
            switches.discard(dpid)
        for pair in list(self._pair_flows):
            host = self._relations.hosts.get(pair[0])
            if host is None or host.place[0] == dpid:
                self._drop_pair(pair)

    def _drop_pair(self, pair: Pair) -> None:
        number = self._pair_flows.pop(pair, None)
        if number is not None:
            del self._pairs[number]
            self._sending[pair[0]] -= 1
            if not self._sending[pair[0]]:
                del self._sending[pair[0]]

    def _drop_transit(self, pair: Pair) -> None:
        """Delete a pair's flows and groups at the switches that chose its way."""
        fields = openflow.match(eth_src=pair[0], eth_dst=pair[1])
        for dpid in self._transit.pop(pair, ()):
            if dpid in self._switches:
                self._outbox.put_owned(dpid, openflow.flow_delete(fields, COOKIE | LEARNED, COOKIE_MASK | LEARNED))
            group = self._groups.get(dpid, {}).pop(pair, None)
            if group is not None:
                del self._group_places[group.number]
                self._outbox.put_owned(dpid, openflow.group_delete(group.number))

    def find_group(self, dpid: int, number: int) -> Optional[tuple[Pair, list[int]]]:
        """Return the pair and the ports of a select group, None when it is gone."""
        place = self._group_places.get(number)
        if place is None or place[0] != dpid:
            return None
        return place[1], self._groups[dpid][place[1]].ports

    def paths_changed(self) -> None:
        """Relearn every path after the graph changed."""
        if self._pair_flows or self._destinations or self._transit:
            for dpid in self._switches:
                self.flush(dpid)

    def forget_hosts(self, macs: list[bytes]) -> None:
        """Delete the flows from and to hosts that are gone or moved."""
        for mac in macs:
            deletes = openflow.flow_delete(
                openflow.match(eth_dst=mac), COOKIE | LEARNED, COOKIE_MASK | LEARNED
            ) + openflow.flow_delete(openflow.match(eth_src=mac), COOKIE | LEARNED, COOKIE_MASK | LEARNED)
            for dpid in self._switches:
                self._outbox.put_owned(dpid, deletes)
            self._destinations = {entry for entry in self._destinations if entry[2] != mac}
            for pair in [pair for pair in {**self._pair_flows, **self._transit} if mac in pair]:
                self._drop_pair(pair)
                self._drop_transit(pair)

    def find_pair(self, number: int) -> Optional[tuple[Pair, Hop]]:
        """Return the pair whose flow has that number and its source's place; None when the flow is gone."""
        pair = self._pairs.get(number)
        host = self._relations.hosts.get(pair[0]) if pair else None
        return (pair, host.place) if pair and host else None

    def flow_removed(self, cookie: int, reason: int) -> None:
        """Take note of a pair's flow that is gone; an idle one ends the relation."""
        if cookie & COOKIE_MASK != COOKIE or not cookie & PAIR:
            return
        pair = self._pairs.get(cookie & 0xFFFFFFFF)
        if pair is None:
            return
        self._drop_pair(pair)
        self._drop_transit(pair)
        if reason == openflow.OFPRR_IDLE_TIMEOUT:
            self._relations.forget_pair(*pair)

    def sweep(self, now_ns: int) -> None:
        """Forget pairs without a flow that were not heard of lately, and questions long asked; once a second."""
        self._unflushed = {dpid: left - 1 for dpid, left in self._unflushed.items() if left > 1}
        for pair in self._relations.pairs_before(now_ns - self._settings.relation_idle_s * 1_000_000_000):
            if pair not in self._pair_flows:
                self._relations.forget_pair(*pair)
                self._drop_transit(pair)
        asked = {
            place: {key: when for key, when in questions.items() if now_ns - when < ASK_AGAIN_NS}
            for place, questions in self._asked.items()
        }
        self._asked = {place: questions for place, questions in asked.items() if questions}
        second = now_ns // 1_000_000_000
        self._budget = {place: spent for place, spent in self._budget.items() if spent[0] >= second - 1}
        talking = {mac for pair in self._pair_flows for mac in pair}
        before = now_ns - self._settings.host_idle_s * 1_000_000_000
        idle = [mac for mac, host in self._relations.hosts.items() if host.seen_ns < before and mac not in talking]
        self.forget_hosts(idle)
        for mac in idle:
            self._relations.forget_host(mac)

    def is_host_port(self, place: Hop, now_ns: int) -> bool:
        """Tell whether a port leads to hosts: a machine's, or one where no link was found in time."""
        switch = self._switches.get(place[0])
        if switch is None or self._topology.peer(*place) is not None:
            return False
        if place[1] in switch.vms:
            return True
        port = self._topology.ports.get(place[0], {}).get(place[1])
        return port is not None and port.up and now_ns - port.since_ns >= self._settings.settle_ms * 1_000_000

    def admits(self, dpid: int, in_port: int, now_ns: int) -> bool:
        """Tell whether a packet-in is to be looked at: its port exists, and port and switch have not had their share.

        A port that leads to another switch has no share of its own, only the switch's.
        """
        if in_port not in self._topology.ports.get(dpid, ()):
            self.counters["packet_in_malformed"] += 1
            return False
        place = (dpid, in_port)
        within = self._topology.peer(*place) is not None or self._spend(
            place, self._settings.packet_ins_a_second, now_ns
        )
        if within and self._spend((dpid, 0), self._settings.switch_packet_ins_a_second, now_ns):
            return True
        self.counters["packet_in_over_budget"] += 1
        return False

    def _spend(self, place: Hop, share: int, now_ns: int) -> bool:
        second = now_ns // 1_000_000_000
        spent = self._budget.setdefault(place, [second, 0])
        if spent[0] != second:
            spent[:] = [second, 0]
        spent[1] += 1
        return spent[1] <= share

    def _stays(self, mac: bytes, place: Hop, now_ns: int) -> bool:
        """Tell whether a host seen at a port is surely still elsewhere, so that another uses its address.

        It is while its old port is up and it sends there: a flow of it is in use, or it was heard just now.
        """
        host = self._relations.hosts.get(mac)
        if host is None or host.place == place:
            return False
        return self.is_host_port(host.place, now_ns) and (mac in self._sending or now_ns - host.seen_ns < HEARD_NS)

    def packet_in(self, dpid: int, in_port: int, data: bytes, now_ns: int) -> None:
        """Learn from a packet no flow knew that was admitted, add flows for it and pass it on."""
        frame = parse_frame(data, self._settings.protocol)
        if frame is None or frame.src[0] & 1 or in_port >= openflow.OFPP_MAX or dpid not in self._switches:
            self.counters["packet_in_malformed"] += 1
            return
        if frame.dst[:5] == b"\x01\x80\xc2\x00\x00":
            self.counters["packet_in_link_local"] += 1  # for bridges, never forwarded
            return
        place = (dpid, in_port)
        if self._topology.peer(*place) is not None:
            self._from_link(place, frame, data)
            return
        if not self.is_host_port(place, now_ns):
            self.counters["packet_in_early"] += 1
            return
        if self._stays(frame.src, place, now_ns):
            self.counters["host_move_refused"] += 1
            return
        learned = self._relations.learn_host(frame.src, place, frame.source, now_ns)
        if learned is Learned.REFUSED:
            self.counters["host_refused"] += 1
            return
        if learned is Learned.MOVED:
            self.counters["host_moved"] += 1
            self.forget_hosts([frame.src])
        self.counters["packet_in"] += 1
        if frame.multicast:
            self._to_everybody(place, frame, data, now_ns)
        else:
            self._to_host(place, frame, data, now_ns)

    def _from_link(self, place: Hop, frame: Frame, data: bytes) -> None:
        """Pass on a packet that reached a switch before its destination's flow did."""
        host = self._relations.hosts.get(frame.dst)
        if host is None:
            self.counters["packet_in_transit_unknown"] += 1
            return
        self.counters["packet_in_transit"] += 1
        if self._relations.talks(frame.src, frame.dst) or not self._paths.by_pair(place[0], host.place):
            self._add_onward_flows([place], (frame.src, frame.dst), again=True)
        self._deliver(host.place, frame, data)

    def _to_everybody(self, place: Hop, frame: Frame, data: bytes, now_ns: int) -> None:
        if frame.control:
            self.counters["control_refused"] += 1
            return
        if frame.resolving and frame.target is not None:
            owners = [mac for mac in self._relations.owners.get(frame.target, ()) if mac != frame.src]
            first = self._ask(place, frame.src, frame.target, now_ns)
            if first and 0 < len(owners) <= OWNERS_ASKED:
                for owner in owners:
                    self._deliver(self._relations.hosts[owner].place, frame, data)
                return
        self._flood(place, data, now_ns)

    def _look_for(self, place: Hop, frame: Frame, now_ns: int) -> None:
        """Ask in the sender's name for a destination of unknown place; one that never sends answers this.

        After a restart of the controller, receivers of one-way traffic are found by it.
        """
        source, target = frame.source, frame.target
        if not frame.ip or source is None or target is None or not (is_ipv4(source) and is_ipv4(target)):
            return
        if self._ask(place, frame.src, target, now_ns):
            self._flood(place, arp_request(frame.src, source, target), now_ns)

    def _ask(self, place: Hop, mac: bytes, target: bytes, now_ns: int) -> bool:
        """Note a question for an address; return whether the same was not put lately."""
        key = (mac, target)
        asked = self._asked.setdefault(place, {})
        again = now_ns - asked.get(key, -ASK_AGAIN_NS) < ASK_AGAIN_NS
        if len(asked) < QUESTIONS_A_PORT or key in asked:
            asked[key] = now_ns
        return not again

    def _flood(self, place: Hop, data: bytes, now_ns: int) -> None:
        self.counters["flooded"] += 1
        for dpid in self._switches:
            ports = [
                port
                for port in self._topology.edge_ports(dpid)
                if (dpid, port) != place and self.is_host_port((dpid, port), now_ns)
            ]
            if ports:
                self._outbox.put_owned(dpid, openflow.packet_out(data, ports))

    def _deliver(self, place: Hop, frame: Frame, data: bytes) -> None:
        """Put a frame out at its destination's port, unless it is a control message."""
        if frame.control:
            self.counters["control_refused"] += 1
            return
        self._outbox.put_owned(place[0], openflow.packet_out(data, (place[1],)))

    def _to_host(self, place: Hop, frame: Frame, data: bytes, now_ns: int) -> None:
        host = self._relations.hosts.get(frame.dst)
        if host is None:
            if frame.control:
                self.counters["control_refused"] += 1
            else:
                self._look_for(place, frame, now_ns)
                self._flood(place, data, now_ns)
            return
        if host.place == place:
            return
        pair = (frame.src, frame.dst)
        ports = self._paths.ports(place[0], host.place, pair)
        if not ports:
            self.counters["no_path"] += 1
            return
        if not self._relations.learn_pair(frame.src, frame.dst, now_ns):
            self.counters["pair_refused"] += 1
            return
        if host.place[0] != place[0]:
            self._add_onward_flows([self._topology.peer(place[0], port) for port in ports], pair)
        self._add_edge_flow(place, ports, pair)
        self._deliver(host.place, frame, data)

    def _group(self, dpid: int, pair: Pair, ports: list[int]) -> Optional[int]:
        """Return the number of a pair's select group at a switch, made if there is none; None for a single port."""
        if len(ports) < 2:
            return None
        groups = self._groups.setdefault(dpid, {})
        if pair not in groups or groups[pair].ports != ports:
            if pair in groups:
                del self._group_places[groups[pair].number]
            number = self._hash(struct.pack("!Q", dpid) + pair[0] + pair[1]) % GROUP_MAX + 1
            while number in self._group_places:
                number = number % GROUP_MAX + 1
            groups[pair] = Group(number, ports)
            self._group_places[number] = (dpid, pair)
            self._transit.setdefault(pair, set()).add(dpid)
            self._outbox.put_owned(dpid, openflow.group_select(number, ports))
        return groups[pair].number

    def _add_edge_flow(self, place: Hop, ports: list[int], pair: Pair) -> None:
        """Add the flow that takes a pair off the controller at the source's own switch."""
        number = self.note_pair(place, pair)
        self._outbox.put_owned(
            place[0],
            self._flow(
                openflow.match(in_port=place[1], eth_src=pair[0], eth_dst=pair[1]),
                ports,
                PRIORITY_PAIR,
                COOKIE | LEARNED | PAIR | number,
                idle_s=self._settings.relation_idle_s,
                group=self._group(place[0], pair, ports),
            ),
        )

    def _hash(self, named: bytes) -> int:
        """Return 32 bits that are the same in every controller of a cluster, and that no machine can foresee."""
        return int.from_bytes(hashlib.blake2b(named, digest_size=4, key=self._secret).digest(), "big")

    def note_pair(self, place: Hop, pair: Pair) -> int:
        """Note that a pair has a flow at its source's place; return the flow's number.

        The number is the same in every controller of a cluster, but when two of 2^32 meet: then the later one's owner
        alone knows it. No machine can make its numbers meet another's.
        """
        self._drop_pair(pair)
        number = self._hash(struct.pack("!QI", *place) + pair[0] + pair[1])
        while number in self._pairs:
            number = (number + 1) & 0xFFFFFFFF
        self._pair_flows[pair] = number
        self._pairs[number] = pair
        self._sending[pair[0]] += 1
        return number

    def _add_onward_flows(self, entries: Iterable[Optional[Hop]], pair: Pair, again: bool = False) -> None:
        """Add the flows that carry a pair from where its packets enter switches by links onwards.

        On hypervisor bridges they match the link's port too, or they would hide new pairs of the bridge's
        own machines.  ``again`` adds those of the first switches whatever is known of them.
        """
        target = self._relations.hosts[pair[1]].place
        level = {entry for entry in entries if entry is not None}
        while level:
            beyond: set[Hop] = set()
            for dpid, arrival in sorted(level):
                switch = self._switches.get(dpid)
                if switch is None:
                    continue
                in_port = arrival if switch.hypervisor else None
                ports = self._paths.ports(dpid, target, pair)
                if self._paths.by_pair(dpid, target):
                    self._add_transit_flow(dpid, in_port, ports, pair, again)
                else:
                    self._add_destination_flow(dpid, in_port, ports, pair[1], again)
                if dpid != target[0]:
                    beyond |= {after for port in ports if (after := self._topology.peer(dpid, port)) is not None}
            again = False
            level = beyond

    def _add_transit_flow(self, dpid: int, in_port: Optional[int], ports: list[int], pair: Pair, again: bool) -> None:
        """Add the flow of a pair at a switch that chooses its way by pair."""
        switches = self._transit.setdefault(pair, set())
        if dpid in switches and not again:
            return
        switches.add(dpid)
        fields = openflow.match(in_port=in_port, eth_src=pair[0], eth_dst=pair[1])
        group = self._group(dpid, pair, ports)
        self._outbox.put_owned(dpid, self._flow(fields, ports, PRIORITY_TRANSIT, COOKIE | LEARNED, group=group))

    def _add_destination_flow(
        self, dpid: int, in_port: Optional[int], ports: list[int], mac: bytes, again: bool
    ) -> None:
        """Add the flow of a destination, whoever sends."""
        key = (dpid, in_port or 0, mac)
        if key in self._destinations and not again:
            return
        self._destinations.add(key)
        fields = openflow.match(in_port=in_port, eth_dst=mac)
        self._outbox.put_owned(dpid, self._flow(fields, ports, PRIORITY_DESTINATION, COOKIE | LEARNED))
