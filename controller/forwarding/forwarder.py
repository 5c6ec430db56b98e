# SPDX-License-Identifier: Apache-2.0
"""Layer 2 forwarding that learns who talks to whom.

Hypervisor bridges get one flow a (source, destination) pair at the virtual machine's port: each new pair
comes to the controller once, which is how relations are learned, and goes with its flow when idle.
Everywhere else one flow a destination carries all sources, or one a pair where equally short ways are chosen
by pair (paths.py).  The first packet of a pair is put out at its destination, so nothing waits for flows along
the way.

Frames for everybody go to host ports of their VLAN only, so loops in the graph do no harm.  A question for an address
(ARP, neighbour solicitation) whose owner is known goes to the owner; asked again soon, to everybody.
Control messages are never put out: only the controller may send them.
VLANs are kept apart at the ports (vlans.py): between switches frames bear what the destination's port wants, and no
pair of different VLANs ever gets a flow.
"""

import collections
import logging
from collections import deque
from typing import Iterator

from sdngcc.controller.forwarding.flows import FlowTable
from sdngcc.controller.forwarding.installer import COOKIE, COOKIE_MASK, PAIR, Installer
from sdngcc.controller.network.absent import AbsentHosts
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.paths import Paths
from sdngcc.controller.network.relations import Learned, Pair, Relations
from sdngcc.controller.network.topology import Hop, Topology
from sdngcc.controller.network.vlans import Vlans
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.schedule import Schedule
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import openflow
from sdngcc.controller.wire.packets import Frame, arp_request, is_ipv4, parse_frame, retagged
from sdngcc.controller.work import Backlog

ASK_AGAIN_NS = 3_000_000_000
QUESTIONS_A_PORT = 1024
OWNERS_ASKED = 4  # of one address; more: everybody is asked
HEARD_NS = 1_000_000_000  # a host heard this lately is where it was heard
FLOODS_WAITING = 64
UNKNOWN_A_SECOND = 128  # packets of a port that are put out everywhere, as nobody knows where their destination is
EXPIRED_AT_A_TIME = 32
REPEATED = 32  # packets of a pair that are put out while its flow is on its way
OUR_DELETION_NS = 2_000_000_000  # a flow's end told this soon after it was added is that of the one before

LOG = logging.getLogger(__name__)


class Forwarder:
    """Decides what becomes of packets no flow knew; ``installer`` has the flows made."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        relations: Relations,
        paths: Paths,
        vlans: Vlans,
        switches: dict[int, SwitchRecord],
        flows: FlowTable,
        installer: Installer,
        outbox: Outbox,
        backlog: Backlog,
    ) -> None:
        self.counters: collections.Counter[str] = collections.Counter()
        self._settings = settings
        self._topology = topology
        self._relations = relations
        self._paths = paths
        self._vlans = vlans
        self._switches = switches
        self._flows = flows
        self._installer = installer
        self._outbox = outbox
        self._backlog = backlog
        self._absent = AbsentHosts()
        self._floods = 0  # under way
        self._dropping: dict[bytes, None] = {}  # hosts that are gone, whose flows are still to be deleted
        self._asked: dict[Hop, dict[tuple[bytes, bytes], int]] = {}  # port -> (asker, address) -> when, ns
        self._questions: deque[tuple[int, Hop, tuple[bytes, bytes]]] = deque()  # the same, the oldest first
        self._budget: dict[Hop, int] = {}  # port, 0 for its whole switch -> packet-ins in this second
        self._unknown: collections.Counter[Hop] = collections.Counter()  # port -> floods of it in this second
        self._second = 0
        self._silent_pairs: Schedule[Pair] = Schedule()  # pairs without a flow
        self._silent_hosts: Schedule[bytes] = Schedule()

    # What is gone

    def forget_hosts(self, macs: list[bytes]) -> None:
        """Delete the flows from and to hosts that are gone or moved, some now, the rest soon."""
        if macs:
            self._dropping.update(dict.fromkeys(macs))
            self._backlog.add(self._drop_hosts())

    def forget_switch(self, dpid: int, now_ns: int) -> None:
        """Forget the hosts of a switch that is gone, but for what recall_hosts() may need."""
        ports = self._topology.ports.get(dpid, {})
        there = [self._relations.hosts[mac] for mac in self._relations.hosts_of(dpid)]
        known = [(ports[host.place[1]].name, host) for host in there if host.place[1] in ports]
        self._absent.leave(dpid, known, now_ns)
        self.forget_hosts(self._relations.forget_place(dpid))

    def recall_hosts(self, dpid: int, now_ns: int) -> None:
        """Know the hosts again of a switch that was away, at ports for hosts, unless they are elsewhere by now."""
        numbers = {
            port.name: number
            for number, port in self._topology.ports.get(dpid, {}).items()
            if self.is_host_port((dpid, number), now_ns)
        }
        for host in self._absent.back(dpid, numbers, now_ns):
            self._drop(host.mac)
            if host.mac not in self._relations.hosts:
                self.counters["host_recalled"] += 1
                self._relations.learn_host(host.mac, host.place, None, host.seen_ns)
                for address, seen_ns in host.addresses.items():
                    self._relations.learn_host(host.mac, host.place, address, seen_ns)

    def _drop_hosts(self) -> Iterator[None]:
        while self._dropping:
            self._drop(next(iter(self._dropping)))
            yield

    def _drop(self, mac: bytes) -> None:
        """Delete the flows of a host that is gone, before anything is decided for one of its address."""
        if mac in self._dropping:
            del self._dropping[mac]
            self._installer.drop_host(mac)

    def flow_removed(self, cookie: int, reason: int, now_ns: int) -> None:
        """Take note of a pair's flow that is gone; an idle one ends the relation."""
        if cookie & COOKIE_MASK != COOKIE or not cookie & PAIR:
            return
        number = cookie & 0xFFFFFFFF
        edge = self._flows.edges.get(number)
        if edge is None:
            return
        key, flow = self._flows.find_edge(number)
        idle = reason == openflow.OFPRR_IDLE_TIMEOUT
        if not idle and now_ns - flow.since_ns < OUR_DELETION_NS:
            return
        self._flows.remove(edge.place[0], edge.pair[1], key)
        if not self._flows.has_edge(edge.pair):
            self._installer.drop_pair(edge.pair)
            if idle:
                self._relations.forget_pair(*edge.pair)

    def expire(self, now_ns: int) -> None:
        """Forget some of the pairs without a flow that were not heard of lately, of idle hosts, of old questions."""
        idle_ns = self._settings.relation_idle_s * 1_000_000_000
        for pair in self._flows.take_flowless():
            self._silent_pairs.put(pair, (self._relations.heard_ns(*pair) or 0) + idle_ns)
        host_idle_ns = self._settings.host_idle_s * 1_000_000_000
        for mac in self._relations.take_newcomers():
            self._silent_hosts.put(mac, now_ns + host_idle_ns)
        for _ in range(EXPIRED_AT_A_TIME):
            silent = self._silent_pairs.pop(now_ns)
            if silent is not None:
                self._expire_pair(silent, now_ns - idle_ns, now_ns)
            idle = self._silent_hosts.pop(now_ns)
            if idle is not None:
                self._expire_host(idle, host_idle_ns, now_ns)
            if silent is None and idle is None:
                break
        while self._questions and now_ns - self._questions[0][0] >= ASK_AGAIN_NS:
            when, place, key = self._questions.popleft()
            asked = self._asked.get(place, {})
            if asked.get(key) == when:
                del asked[key]
                if not asked:
                    del self._asked[place]

    def _expire_pair(self, pair: Pair, before_ns: int, now_ns: int) -> None:
        heard_ns = self._relations.heard_ns(*pair)
        if self._flows.has_edge(pair):
            return
        if heard_ns is not None and heard_ns >= before_ns:
            self._silent_pairs.put(pair, max(now_ns + 1, heard_ns - before_ns + now_ns))
            return
        self._relations.forget_pair(*pair)
        self._installer.drop_pair(pair)

    def _expire_host(self, mac: bytes, idle_ns: int, now_ns: int) -> None:
        host = self._relations.hosts.get(mac)
        if host is None:
            return
        if self._flows.is_talking(mac):
            self._silent_hosts.put(mac, now_ns + idle_ns // 10)
        elif host.seen_ns + idle_ns > now_ns:
            self._silent_hosts.put(mac, host.seen_ns + idle_ns)
        else:
            self._relations.forget_host(mac)
            self.forget_hosts([mac])

    # What is let in

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
        if second != self._second:
            self._second, self._budget = second, {}
            self._unknown.clear()
        spent = self._budget[place] = self._budget.get(place, 0) + 1
        return spent <= share

    def _stays(self, mac: bytes, place: Hop, now_ns: int) -> bool:
        """Tell whether a host seen at a port is surely still elsewhere, so that another uses its address.

        It is while its old port is up and it sends there: a flow of it is in use, or it was heard just now.
        """
        host = self._relations.hosts.get(mac)
        if host is None or host.place == place:
            return False
        heard = self._flows.is_sending(mac) or now_ns - host.seen_ns < HEARD_NS
        return heard and self.is_host_port(host.place, now_ns)

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
        self._drop(frame.src)
        self._drop(frame.dst)
        if self._topology.peer(*place) is not None:
            self._from_link(place, frame, data)
            return
        if not self.is_host_port(place, now_ns):
            self.counters["packet_in_early"] += 1
            return
        vlan = self._vlans.enter(place, frame.vlan)
        if vlan is None:
            self.counters["vlan_refused"] += 1
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
            self._installer.drop_host(frame.src)
        self.counters["packet_in"] += 1
        if frame.multicast:
            self._to_everybody(place, vlan, frame, data, now_ns)
        else:
            self._to_host(place, vlan, frame, data, now_ns)

    def _from_link(self, place: Hop, frame: Frame, data: bytes) -> None:
        """Pass on a packet that reached a switch before its destination's flow did.

        It bears what its destination's port wants: the switch where it came in saw to that.
        """
        host = self._relations.hosts.get(frame.dst)
        if host is None:
            self.counters["packet_in_transit_unknown"] += 1
            return
        self.counters["packet_in_transit"] += 1
        if self._relations.talks(frame.src, frame.dst) or not self._paths.by_pair(place[0], host.place):
            self._installer.add_onward([place], (frame.src, frame.dst), again=True)
        self._deliver(host.place, frame, data)

    # Where packets go

    def _to_everybody(self, place: Hop, vlan: int, frame: Frame, data: bytes, now_ns: int) -> None:
        if frame.control:
            self.counters["control_refused"] += 1
            return
        if frame.resolving and frame.target is not None:
            owners = [
                host.place
                for mac in self._relations.owners.get(frame.target, ())
                if mac != frame.src and self._vlans.carries((host := self._relations.hosts[mac]).place, vlan)
            ]
            first = self._ask(place, frame.src, frame.target, now_ns)
            if first and 0 < len(owners) <= OWNERS_ASKED:
                for owner in owners:
                    self._deliver(owner, frame, retagged(data, self._vlans.header(owner, vlan)))
                return
        self._flood(place, vlan, data, now_ns)

    def _search(self, place: Hop, vlan: int, frame: Frame, data: bytes, now_ns: int) -> None:
        """Put a packet for a destination of unknown place out everywhere, unless its port had enough of these."""
        self._look_for(place, vlan, frame, now_ns)
        self._unknown[place] += 1
        if self._unknown[place] > UNKNOWN_A_SECOND:
            self.counters["unknown_over_budget"] += 1
            return
        self._flood(place, vlan, data, now_ns)

    def _look_for(self, place: Hop, vlan: int, frame: Frame, now_ns: int) -> None:
        """Ask in the sender's name for a destination of unknown place; one that never sends answers this.

        After a restart of the controller, receivers of one-way traffic are found by it.
        """
        source, target = frame.source, frame.target
        if not frame.ip or source is None or target is None or not (is_ipv4(source) and is_ipv4(target)):
            return
        if self._ask(place, frame.src, target, now_ns):
            self._flood(place, vlan, arp_request(frame.src, source, target), now_ns)

    def _ask(self, place: Hop, mac: bytes, target: bytes, now_ns: int) -> bool:
        """Note a question for an address; return whether the same was not put lately."""
        key = (mac, target)
        asked = self._asked.setdefault(place, {})
        again = now_ns - asked.get(key, -ASK_AGAIN_NS) < ASK_AGAIN_NS
        if len(asked) < QUESTIONS_A_PORT or key in asked:
            asked[key] = now_ns
            self._questions.append((now_ns, place, key))
        return not again

    def _flood(self, place: Hop, vlan: int, data: bytes, now_ns: int) -> None:
        """Put a frame out at all other host ports of its VLAN, some now, the rest soon."""
        if self._floods >= FLOODS_WAITING:
            self.counters["flood_refused"] += 1
            return
        self._floods += 1
        self.counters["flooded"] += 1
        self._backlog.add(self._put_out(place, vlan, data, now_ns))

    def _put_out(self, place: Hop, vlan: int, data: bytes, now_ns: int) -> Iterator[None]:
        try:
            yield from self._put_out_at(place, vlan, data, now_ns)
        finally:
            self._floods -= 1

    def _put_out_at(self, place: Hop, vlan: int, data: bytes, now_ns: int) -> Iterator[None]:
        ways = self._vlans.members(vlan) if vlan else self._untagged()
        for dpid, numbers in ways:
            ports: dict[int, list[int]] = {}  # by the VLAN in the header
            for number in numbers:
                if (dpid, number) != place and self.is_host_port((dpid, number), now_ns):
                    ports.setdefault(self._vlans.header((dpid, number), vlan), []).append(number)
            for header, some in ports.items():
                self._outbox.put_owned(dpid, openflow.packet_out(retagged(data, header), some))
            yield

    def _untagged(self) -> Iterator[tuple[int, list[int]]]:
        """Return the ports that lead to no switch and have no tag, by switch."""
        for dpid in list(self._switches):
            yield dpid, [port for port in self._topology.edge_ports(dpid) if self._vlans.carries((dpid, port), 0)]

    def _deliver(self, place: Hop, frame: Frame, data: bytes) -> None:
        """Put a frame out at its destination's port, unless it is a control message."""
        if frame.control:
            self.counters["control_refused"] += 1
            return
        self._outbox.put_owned(place[0], openflow.packet_out(data, (place[1],)))

    def _to_host(self, place: Hop, vlan: int, frame: Frame, data: bytes, now_ns: int) -> None:
        host = self._relations.hosts.get(frame.dst)
        if host is None:
            if frame.control:
                self.counters["control_refused"] += 1
            else:
                self._search(place, vlan, frame, data, now_ns)
            return
        if host.place == place:
            return
        if not self._vlans.carries(host.place, vlan):
            self.counters["vlan_apart"] += 1
            return
        pair = (frame.src, frame.dst)
        ports = self._paths.ports(place[0], host.place, pair)
        if not ports:
            self.counters["no_path"] += 1
            return
        if not self._relations.learn_pair(frame.src, frame.dst, now_ns):
            self.counters["pair_refused"] += 1
            return
        header = self._vlans.header(host.place, vlan)
        edge = (place, ports, pair, frame.vlan, None if header == frame.vlan else header, now_ns)
        sent = self._installer.on_its_way(*edge)
        if sent is None:
            if host.place[0] != place[0]:
                self._installer.add_onward([self._topology.peer(place[0], port) for port in ports], pair)
            self._installer.add_edge(*edge)
        elif sent.repeated >= REPEATED:
            # A switch that was without its controller for a second tells thousands of packets of few pairs, and those
            # of others wait behind them.
            self.counters["packet_in_repeated"] += 1
            return
        else:
            sent.repeated += 1
        self._deliver(host.place, frame, retagged(data, header))
