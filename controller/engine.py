# SPDX-License-Identifier: Apache-2.0
"""The controller itself, without any framework: events in, OpenFlow bytes out.

Every T_i each switch with mark counters is asked for new marks; what follows from fresh ones is rounds.py's. Nothing
is sent from here: messages gather in the outbox, and whoever brings an event drains it.
"""

import collections
import hashlib
import logging
import os
import time
from typing import Any, Callable, Iterator, Mapping, Optional

from sdngcc.controller.cluster.adopt import Adoption
from sdngcc.controller.cluster.owner import Alone, Owner
from sdngcc.controller.forwarding.convergence import Convergence
from sdngcc.controller.forwarding.flows import FlowTable
from sdngcc.controller.forwarding.forwarder import Forwarder
from sdngcc.controller.forwarding.installer import COOKIE, COOKIE_MASK, PAIR, Installer
from sdngcc.controller.hosting import Hosting
from sdngcc.controller.housekeeping import SECOND_NS, Chore, Housekeeping
from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.counters import Counters, PairBytes, SplitBytes
from sdngcc.controller.network.directory import Directory
from sdngcc.controller.network.discovery import Discovery
from sdngcc.controller.network.hosts import Devices, Hosts
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.machines import Machines, PortNames
from sdngcc.controller.network.paths import Paths, Tunnel
from sdngcc.controller.network.relations import Relations
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop, Port, Topology
from sdngcc.controller.network.underlay import Underlay
from sdngcc.controller.network.vlans import Vlans
from sdngcc.controller.outbox import Outbox, transactions
from sdngcc.controller.rates.effect import Effect
from sdngcc.controller.rates.monitor import FAR_NS, NAP_NS, Monitor
from sdngcc.controller.rates.notifier import Notifier
from sdngcc.controller.rates.polling import Polling
from sdngcc.controller.rates.rounds import Network, Rounds
from sdngcc.controller.rates.staleness import Staleness
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import PREPARE_XID, SOURCES, DelayedMarks, MarkSource, PortMarks
from sdngcc.controller.timers import Timers
from sdngcc.controller.trace import Trace
from sdngcc.controller.wire import experimenter, openflow
from sdngcc.controller.work import Backlog

_STALL_NS = 100_000_000  # a clock that is so late stood still
_SHARED_SETTLE_S = 1.0  # longer in a cluster: a switch's owner looks for links once it hears of a new controller

LOG = logging.getLogger(__name__)


def _common(key: bytes) -> bytes:
    """Return 16 bytes that controllers with the same message key have in common."""
    return hashlib.blake2b(b"sdn-gcc: links and flows", key=key, digest_size=16).digest()


class Engine:
    """All state of the controller.

    Every method that takes an event may leave messages in ``outbox``, and what is due earlier than before: the caller
    sends the ones, and calls tick() again at next_ns(). ``clock`` counts ns.
    Not safe for threads: call it from one thread or greenlets that do not yield inside it.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], int] = time.monotonic_ns,
        epoch: Optional[int] = None,
        owner: Optional[Owner] = None,
    ) -> None:
        """Raise SettingsError when the key file is unusable."""
        self.settings = settings
        self.clock = clock
        self.counters: collections.Counter[str] = collections.Counter()
        self.switches: dict[int, SwitchRecord] = {}
        self.topology = Topology()
        self.relations = Relations()
        cloud = self.directory = Directory()
        source = SOURCES[settings.mark_source].make(settings, self.topology)
        delay_ns = settings.mark_delay_ms * 1_000_000
        self.source: MarkSource = DelayedMarks(source, delay_ns) if delay_ns else source
        self.staleness = Staleness(self.source, settings.decision, self.counters)
        self.started_ns = clock()
        self.monitor = Monitor(settings.period_us * 1000, self.started_ns)
        self._owner = owner or Alone()
        forwards = settings.forwarding == "own"
        self.outbox = Outbox(self._owner, forwards)
        self.timers = Timers(clock)
        self._xids = transactions()
        secret = os.urandom(16) if settings.key_file is None else _common(settings.read_key())
        period_ns = settings.pair_period_ms * 1_000_000
        self.flows = FlowTable()
        self.split_bytes = SplitBytes(period_ns, self.flows.find_group)
        self.pair_bytes = PairBytes(period_ns, COOKIE | PAIR, COOKIE_MASK | PAIR, self.flows.find_pair)
        hosts: Optional[Hosts] = None
        if forwards:
            self.paths = Paths(self.relations, self.topology, settings.multipath, self.split_bytes.proportions)
        else:
            hosts = Hosts(settings, self.topology, self.relations, self.outbox, self._xids, clock, self.counters, cloud)
            self.paths = Paths(self.relations, self.topology, "flow", uplinks=hosts.graph.uplinks)
        self.vlans = Vlans()
        self.backlog = Backlog(clock)
        self._make_forwarding(secret)
        self.trace = Trace(settings.trace_file, self.counters)
        self.notifier = Notifier(settings, self.relations, self.counters, epoch)
        self.attribution = Attribution(
            self.relations,
            self.paths,
            hosts.sent if hosts else self.pair_bytes,
            hosts.splits if hosts else self.split_bytes,
            self.switches,
            clock,
        )
        self.convergence = Convergence(
            self.topology, self.relations, self.paths, self.attribution, self.installer if forwards else None,
            self.backlog, clock,
        )  # fmt: skip
        counters: tuple[Counters, ...] = (self.pair_bytes, self.split_bytes)
        self._statistics = {one.kind.to_bytes(2, "big"): one for one in counters}
        self._make_control(source, hosts, secret, cloud)
        self._working = False
        self._rates_ns = self.started_ns if settings.decision == "maxmin" else FAR_NS
        self.prepare(settings)()

    def _make_forwarding(self, secret: bytes) -> None:
        """Make what installs flows; secret is what controllers with the same key have in common."""
        settings = self.settings
        self.installer = Installer(
            settings, self.topology, self.relations, self.paths, self.switches, self.flows, self.outbox,
            self.source.tables, self._owner.owns, secret,
        )  # fmt: skip
        self.forwarder = Forwarder(
            settings, self.topology, self.relations, self.paths, self.vlans, self.switches, self.flows,
            self.installer, self.outbox, self.backlog,
        )  # fmt: skip
        self.adoption = Adoption(self.relations, self.forwarder, self.installer, self.backlog)

    def _make_control(self, source: MarkSource, hosts: Optional[Hosts], secret: bytes, cloud: Directory) -> None:
        """Make what looks for links and VMs, polls, divides and tells rates; hosts where others forward."""
        settings, clock = self.settings, self.clock
        self.discovery = Discovery(
            self.switches, self.topology, self._owner, self.outbox, self.timers, self.backlog, secret, self.counters
        )
        self.effect = Effect(
            self.switches, self.source, self.notifier.numbering, self.counters,
            lambda dpid: self.machines.expects(dpid), settings.decision == "marks", self.started_ns,
        )  # fmt: skip
        self.machines = Machines(
            settings, self.switches, self.topology, self.notifier.numbering, self.outbox, self._xids, self.counters,
            self._set_hypervisor, devices=hosts is not None,
        )  # fmt: skip
        self.polling = Polling(settings, self.source, self.monitor, self.switches, self._owner, self.outbox, self._xids)
        self.tenants = Tenants(settings.tenant_weight, self.counters, cloud)
        network = Network(
            settings, self.switches, self.attribution, self.counters, self.trace, clock, self._owner.owns,
            lambda dpid: self.source.news.is_silent(dpid, clock()), self.tenants, self.relations,
        )  # fmt: skip
        self.rounds = Rounds(
            network, self.notifier, self.outbox, self.timers, self.machines, self.monitor, self.backlog
        )
        self.hosting: Optional[Hosting] = None
        if hosts is not None:
            self.hosting = Hosting(
                settings, self.switches, self.topology, hosts, self.attribution, source, self.machines,
                self.polling, self.monitor, self.rounds, self._owner.owns, clock,
            )  # fmt: skip
        self._assembler = experimenter.Assembler()
        chores = [Chore(self.machines.ask, SECOND_NS)]
        if hosts is None:
            chores.append(Chore(self._find_links, settings.lldp_period_ms * 1_000_000))
        self._housekeeping = Housekeeping(
            self.switches, self.monitor.period_ns, self.started_ns, clock, chores, self._tidy
        )

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Read the keys that settings name, and return what brings them into force; raises SettingsError.

        Flows keep the numbers that they have from the first key.
        """
        key, other = settings.read_key(), settings.read_other_key()

        def commit() -> None:
            self.settings = settings
            self.notifier.key = key
            self.discovery.other_key = None if other is None else _common(other)
            if settings.key_file is not None:
                self.discovery.set_key(_common(key))

        return commit

    # Switches and ports

    def switch_up(self, dpid: int, ports: dict[int, tuple[str, bytes, bool]]) -> None:
        """Take a connected switch; ``ports`` are (name, address, up) by number."""
        now = self.clock()
        if self.hosting and self.hosting.is_host(dpid):
            if dpid in self.switches:
                self.switch_down(dpid)
            self.hosting.up(dpid, now)
            self._housekeeping.add(dpid, now)
            return
        if dpid in self.switches and self._owner.shared:
            self._switch_back(dpid, ports)
            return
        if dpid in self.switches:
            self.switch_down(dpid)
        self.switches[dpid] = SwitchRecord(dpid, now, hypervisor=dpid in self.settings.hypervisors)
        found = {
            number: Port(name, mac, up, now) for number, (name, mac, up) in ports.items() if number < openflow.OFPP_MAX
        }
        LOG.info("switch %016x connected with %d ports", dpid, len(ports))
        if self.hosting:
            self.hosting.name_ports(dpid, found)
            self.take_over(dpid, False)
            return
        self.topology.add_switch(dpid, found)
        self._name_machines(dpid)
        self._place_tunnels(dpid)
        self._place_vlans(dpid)
        self.machines.ask(dpid, now)
        self._housekeeping.add(dpid, now)
        if not self._owner.shared:
            self.take_over(dpid, False)
        wait_s = self.settings.settle_ms / 1000 + (_SHARED_SETTLE_S if self._owner.shared else 0)
        self.timers.arm(wait_s, lambda: self._settle(dpid))

    def _switch_back(self, dpid: int, ports: dict[int, tuple[str, bytes, bool]]) -> None:
        """Take a switch that lost its connection here only, while others of the cluster kept theirs."""
        for number in [number for number in self.topology.ports.get(dpid, {}) if number not in ports]:
            self.port_removed(dpid, number)
        for number, port in ports.items():
            self.port_changed(dpid, number, *port)
        self.machines.back(self.switches[dpid])
        self._settle(dpid)

    def _settle(self, dpid: int) -> None:
        switch = self.switches.get(dpid)
        if switch is None:
            return
        if self._owner.shared:
            switch.settled = True
            self.outbox.put(dpid, self.adoption.request(dpid, next(self._xids)))
        elif not switch.settled:
            switch.settled = True
            self.installer.flush(dpid, self.clock())
            self.forwarder.recall_hosts(dpid, self.clock())
            self.convergence.restore(dpid)  # links found meanwhile may already carry pairs

    def take_over(self, dpid: int, fresh: bool) -> None:
        """Act for a switch from now on; ``fresh`` when nobody of a cluster did before."""
        if self.hosting and self.hosting.is_host(dpid):
            return
        if not self.hosting:
            self.installer.take_over(dpid, fresh, self.clock())
        self.source.forget(dpid)
        self.polling.prepare(dpid, sorted(self.topology.ports[dpid]))
        if self.source.polled:
            self.monitor.add(dpid, self.clock())
        if not self.hosting:
            self.discover(dpid)

    def give_up(self, dpid: int) -> None:
        """Act no more for a switch."""
        self._ask_no_more(dpid)

    def _ask_no_more(self, dpid: int) -> None:
        self.monitor.remove(dpid)
        if self.source.polled:
            self.source.news.forget(dpid)

    def steer(self, wanted: bool) -> None:
        """Tell machines of congestion, or let them return to their share by themselves."""
        self.rounds.silent = not wanted

    def discover(self, dpid: int) -> None:
        """Look for the links of a switch now."""
        self.discovery.look(dpid)
        self._work()

    def switch_down(self, dpid: int) -> None:
        """Forget a switch whose connection ended, with its hosts and links."""
        if self.switches.pop(dpid, None) is None:
            return
        LOG.info("switch %016x disconnected", dpid)
        self._ask_no_more(dpid)
        self.discovery.forget(dpid)
        self.source.forget(dpid)
        self._assembler.forget(dpid)
        if self.hosting:
            self._links_changed(self.hosting.down(dpid))
            return
        self.pair_bytes.forget(dpid)
        self.split_bytes.forget(dpid)
        self.adoption.forget(dpid)
        self.vlans.forget(dpid)
        self.installer.forget_switch(dpid)
        self.forwarder.forget_switch(dpid, self.clock())
        self._place_tunnels(dpid)
        self._links_changed(self.topology.remove_switch(dpid))
        self.rounds.forget(dpid)
        self.rounds.answered(dpid)

    def port_speed(self, dpid: int, number: int, speed: int) -> None:
        """Take a port's speed, bytes/s; 0: the switch does not know."""
        if dpid in self.switches:
            self.rounds.explicit.set_speed((dpid, number), speed)

    def port_changed(self, dpid: int, number: int, name: str, mac: bytes, up: bool) -> None:
        """Take a port that was added or changed."""
        ours = self.hosting is None or not self.hosting.is_host(dpid)
        if not ours or dpid not in self.switches or number >= openflow.OFPP_MAX:
            return
        known = self.topology.ports.get(dpid, {}).get(number)
        fresh = known is None or known.name != name or (up and not known.up)
        if fresh:
            self.source.forget(dpid, number)
            self.rounds.forget(dpid, number)
        since = self.clock() if known is None or fresh else known.since_ns
        self._links_lost(self.topology.set_port(dpid, number, Port(name, mac, up, since)))
        if fresh:
            self.polling.prepare(dpid, [number])
            # What databases say of neither name takes no step for all ports of the switch.
            if any(self.machines.tells_of(dpid, one) for one in {name, known.name if known else name}):
                self._place_tunnels(dpid)
                self._place_vlans(dpid)
        if fresh and up:
            if self.machines.name_port(dpid, number):
                self._set_hypervisor(self.switches[dpid])
            self.discovery.look(dpid, number)

    def port_removed(self, dpid: int, number: int) -> None:
        """Forget a port, its hosts and its link."""
        if self.hosting or dpid not in self.switches:
            return
        self.discovery.forget(dpid, number)
        self.source.forget(dpid, number)
        self.rounds.forget(dpid, number)
        self.machines.lose(dpid, number)
        self.vlans.forget(dpid, number)
        self.forwarder.forget_hosts(self.relations.forget_place(dpid, number))
        self._links_lost(self.topology.remove_port(dpid, number))

    def _links_lost(self, lost: list[Hop]) -> None:
        """Move what used a link that a port may have lost; where it had none, no way is looked at."""
        if lost:
            self._links_changed(lost)
        else:
            self._work()

    def _links_changed(self, lost: list[Hop]) -> None:
        """Move what used links that are lost, or may use others now."""
        if self.topology.targets():
            self.convergence.start(lost)
        self._work()

    def _work(self) -> None:
        """Begin at once with what an event left to be done; the rest is the clock's."""
        if not self._working and (self.backlog or self.attribution.is_behind()):
            self._run_backlog()

    def _run_backlog(self) -> None:
        if self.attribution.is_behind():
            self.backlog.add_first(self.attribution.follow_slowly())
        self.backlog.run()
        self._working = bool(self.backlog)

    # What databases say

    def set_interfaces(self, names: PortNames) -> None:
        """Take the ids of machines by (datapath id, port name), as OVSDB has them."""
        for dpid in self.machines.set_interfaces(names):
            self._set_hypervisor(self.switches[dpid])

    def set_devices(self, devices: Devices) -> None:
        """Take the interfaces of hosts, as OVSDB has them, where others forward."""
        if self.hosting:
            self.hosting.set_devices(devices)

    def set_tunnels(self, names: Mapping[tuple[int, str], Tunnel]) -> None:
        """Take the end points of tunnels by (datapath id, port name), as OVSDB has them."""
        for dpid in self.machines.set_tunnels(names):
            self._place_tunnels(dpid)

    def set_vlans(self, tags: Mapping[tuple[int, str], int]) -> None:
        """Take the VLANs of access ports by (datapath id, port name), as OVSDB has them."""
        for dpid in self.machines.set_vlans(tags):
            self._place_vlans(dpid)

    def set_underlay(self, underlay: Underlay) -> None:
        """Take another file of the network beneath, in slices; raises ValueError as Hosting.set_underlay()."""
        if self.hosting:
            self.backlog.add_first(self.convergence.follow(self.hosting.set_underlay(underlay)))
            self._work()

    def _place_tunnels(self, dpid: int) -> None:
        """Find the ports of a switch's tunnels, and the pairs that take other ways by it."""
        moved = self.paths.set_tunnels(dpid, self.machines.tunnels(dpid))
        self.convergence.refresh([pair for hop in moved for pair in self.attribution.using(hop)])

    def _place_vlans(self, dpid: int) -> None:
        """Find the access ports of a switch; what was learned of one that changes its VLAN goes."""
        for port in self.vlans.set_tags(dpid, self.machines.vlans(dpid)):
            self.forwarder.forget_hosts(self.relations.forget_place(dpid, port))

    def _name_machines(self, dpid: int) -> None:
        if self.machines.name(dpid):
            self._set_hypervisor(self.switches[dpid])

    def _set_hypervisor(self, switch: SwitchRecord) -> None:
        """Forward a bridge's traffic by pairs from now on."""
        if not switch.hypervisor:
            switch.hypervisor = True
            self.polling.spare(switch.dpid, self.clock())
            # In a cluster nothing is learned of a switch before it settled here; what its owners learned stays.
            if switch.settled or not self._owner.shared:
                self.installer.flush(switch.dpid, self.clock())

    # Packets and flows

    def packet_in(self, dpid: int, in_port: int, data: bytes) -> None:
        """Take a packet no flow knew; none is asked for where others forward."""
        now = self.clock()
        if self.hosting:
            self.counters["packet_ins_unasked"] += 1
            return
        if not self.forwarder.admits(dpid, in_port, now):
            return
        if data[12:14] != b"\x88\xcc":
            self.forwarder.packet_in(dpid, in_port, data, now)
            self._work()
            return
        link = self.discovery.heard(dpid, in_port, data, now)
        if link is not None:
            for end in link:
                self.forwarder.forget_hosts(self.relations.forget_place(*end))
            self._links_changed([])

    def flow_removed(self, cookie: int, reason: int) -> None:
        """Take note of a flow that is gone."""
        if not self.hosting:
            self.forwarder.flow_removed(cookie, reason, self.clock())

    # The clockwork

    def tick(self) -> int:
        """Do what is due and return when to call again, in ns of the clock."""
        now = self.clock()
        stalled_ns = self.monitor.stalled_ns
        self.polling.run(now)
        self._forgive(self.monitor.stalled_ns - stalled_ns)
        self.timers.run(now)
        for statistics in self._statistics.values():
            for dpid in statistics.due(now):
                xid = next(self._xids)
                self.outbox.put(dpid, statistics.request(xid))
                statistics.asked(dpid, xid, now)
        if now >= self._rates_ns:
            self._rates_ns += ((now - self._rates_ns) // self.monitor.period_ns + 1) * self.monitor.period_ns
            self.rounds.begin(now)
        self.rounds.follow(now)
        self._housekeeping.run(now)
        (self.hosting.run if self.hosting else self._expire)(now)
        self._run_backlog()
        return self.next_ns()

    def next_ns(self) -> int:
        """Return when tick() is to be called next, in ns of the clock."""
        now = self.clock()
        counters_ns = min(statistics.next_ns(now) for statistics in self._statistics.values())
        housekeeping_ns = min(self._housekeeping.next_ns(), self.timers.next_ns())
        working_ns = now if self.backlog else FAR_NS
        if self.hosting:
            counters_ns = self.hosting.next_ns()
        return min(self.monitor.next_ns(), counters_ns, self._rates_ns, housekeeping_ns, working_ns, now + NAP_NS)

    def _forgive(self, stalled_ns: int) -> None:
        """Hold no switch to a time in which this process stood still."""
        if stalled_ns >= _STALL_NS:
            self.counters["stalls"] += 1
            self.source.news.forgive(stalled_ns)
            LOG.warning("this process stood still for %d ms; nobody is held to it", stalled_ns // 1_000_000)

    def _expire(self, now: int) -> None:
        """Forget links and pairs that nothing was heard of."""
        gone = self.topology.expire_links(now - 3 * self.settings.lldp_period_ms * 1_000_000)
        if gone:
            LOG.warning("link lost at %s", ", ".join(f"{dpid:016x}:{port}" for dpid, port in gone))
            self._links_changed(gone)
        self.forwarder.expire(now)

    def _tidy(self, now: int) -> None:
        """Look once a second for what nothing tells."""
        self.staleness.check(now)
        self.effect.check(now)
        if self.settings.trace_file is not None:
            self.trace.add(now, "polls", **self.poll_counts())
            self.trace.flush()

    def _find_links(self, dpid: int, now: int) -> None:
        self.discovery.send(dpid)

    def poll_counts(self) -> dict[str, Any]:
        """Return the sums over all switches' polls; times in microseconds."""
        return {**self.polling.counts(), "notice_max_us": self.rounds.notice_max_ns // 1000}

    def unsent(self, dpid: int, data: bytes) -> None:
        """Take note that messages out of the outbox could not be sent: no answer is awaited."""
        self.counters["send_failed"] += 1
        switch = self.switches.get(dpid)
        for xid in openflow.xids(data):
            self.monitor.unsent(dpid, xid)
            for statistics in self._statistics.values():
                if statistics.owes(dpid, xid):
                    statistics.refused(dpid)
            if switch is not None and self.machines.unsent(switch, xid):
                self.rounds.answered(dpid)

    # Answers

    def multipart(self, dpid: int, data: bytes) -> bool:
        """Take a multipart reply; return whether it was meant for us."""
        switch = self.switches.get(dpid)
        xid = int.from_bytes(data[4:8], "big")
        statistics = self._statistics.get(data[8:10])
        if statistics is not None:
            taken = switch is not None and self._take_statistics(switch, statistics, xid, data)
        else:
            taken = switch is not None and self._take_experimenter(switch, xid, data)
        self._work()
        return taken

    def _take_statistics(self, switch: SwitchRecord, statistics: Counters, xid: int, data: bytes) -> bool:
        """Take counters of flows or groups: of pairs, or those the mark source asked for."""
        now = self.clock()
        try:
            if self.adoption.feed(switch.dpid, data, now):
                return True
            if statistics.owes(switch.dpid, xid):
                statistics.feed(switch.dpid, data)
            elif self.polling.owes(switch.dpid, xid):
                fresh, last = self.polling.take_flows(switch, xid, data, now)
                self.marked(fresh, now)
                if last:
                    self.rounds.finish_if_complete()
            else:
                return False
        except openflow.MessageError as error:
            self._refuse_reply(switch, error)
            self.adoption.refuse(switch.dpid, xid)
            if statistics.owes(switch.dpid, xid):
                statistics.refused(switch.dpid)
            self._void(switch, xid)
        return True

    def _refuse_reply(self, switch: SwitchRecord, error: Exception) -> None:
        self.counters["reply_malformed"] += 1
        LOG.warning("switch %016x: %s", switch.dpid, error)

    def _take_experimenter(self, switch: SwitchRecord, xid: int, data: bytes) -> bool:
        """Take a part of an experimenter reply; nothing of one that nobody asked for is read or kept."""
        dpid, kind = switch.dpid, experimenter.kind_of(data)
        if kind is None or not self._asked(switch, xid, kind):
            self.counters["reply_unasked"] += 1
            return False
        try:
            reply = self._assembler.feed(dpid, data, self._entries_max(dpid, kind))
        except experimenter.ReplyError as error:
            self._refuse_reply(switch, error)
            self._void(switch, xid)
            return True
        if reply is None:
            return True
        now = self.clock()
        if self.hosting and self.hosting.is_host(dpid):
            news, steps = self.hosting.take(switch, xid, reply, now)
            if news:
                self._links_changed([])
            self._do(steps)
        elif reply.exp_type == experimenter.VM_STATE:
            take = self.machines.put_off if self.rounds.awaits_others(dpid) else self.machines.take
            take(switch, xid, reply, now)
            self.rounds.answered(dpid)
        elif reply.exp_type == experimenter.HOST_PATHS:
            self.machines.take_paths(switch, xid, reply)
            self.rounds.answered(dpid)
        elif self._owner.owns(dpid):
            self._do(self._take_marks(switch, xid, reply, now))
        return True

    def _take_marks(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now: int) -> Iterator[None]:
        for fresh in self.polling.take_marks(switch, xid, reply, now):
            self.marked(fresh, self.clock())
            yield
        self.rounds.finish_if_complete()

    def _do(self, steps: Iterator[None]) -> None:
        """Take the first of some steps at once; where there are more, the others are left to the backlog."""
        for number, _ in enumerate(steps):
            if number:
                self.backlog.add(steps)
                break

    def _asked(self, switch: SwitchRecord, xid: int, kind: int) -> bool:
        """Tell whether a switch owes an answer of a kind to that transaction."""
        if not xid:
            return False
        is_host = self.hosting is not None and self.hosting.is_host(switch.dpid)
        if kind == experimenter.HOST_PATHS:
            return switch.paths_xid == xid
        if kind == (experimenter.HOST_VMS if is_host else experimenter.VM_STATE):
            return switch.state_xid == xid
        if kind == experimenter.HOST_PEERS and is_host and self.hosting and self.hosting.hosts.owes(switch.dpid, xid):
            return True
        return self.polling.owes(switch.dpid, xid) and kind == self.source.asks_for

    def _entries_max(self, dpid: int, kind: int) -> Optional[int]:
        """Return how many entries a reply of a kind may have: a bridge has machines at its ports only."""
        if kind != experimenter.VM_STATE:
            return None
        there = experimenter.UPLINKS_MAX * (len(self.topology.ports.get(dpid, ())) + 1)
        return min(there, experimenter.ENTRIES_MAX[kind])

    def _void(self, switch: SwitchRecord, xid: int) -> None:
        """Await no more of an answer that cannot be read: what is left of it was not asked for."""
        if not xid:
            return
        self.monitor.lose(switch.dpid, xid)
        if self.hosting:
            self.hosting.hosts.lose(switch.dpid, xid)
        if self.machines.unsent(switch, xid):
            self.rounds.answered(switch.dpid)
        self.rounds.finish_if_complete()

    def error(self, dpid: int, xid: int, kind: int, code: int) -> None:
        """Take an OpenFlow error; one about our requests means the switch does not know them."""
        switch = self.switches.get(dpid)
        if switch is None:
            return
        if not xid:  # of a flow or group, which bear none
            self.counters["openflow_errors"] += 1
            if kind == openflow.OFPET_GROUP_MOD_FAILED:
                self._refuse_groups(dpid, kind, code)
            else:
                LOG.warning("switch %016x: OpenFlow error type %d code %d about a flow", dpid, kind, code)
        elif self.polling.owes(dpid, xid):
            self.polling.refused(switch, kind, code)
        elif self.pair_bytes.owes(dpid, xid):
            self.pair_bytes.refused(dpid)
            LOG.warning("switch %016x tells no flow statistics (error type %d code %d)", dpid, kind, code)
        elif self.split_bytes.owes(dpid, xid):
            self._refuse_groups(dpid, kind, code)
        elif self.machines.refuses(switch, xid, kind, code):
            self.rounds.answered(dpid)
        elif xid == PREPARE_XID:
            self.source.faults["flows_refused"] += 1
            LOG.error("switch %016x cannot hold what mark source %s needs (error type %d code %d)",
                      dpid, self.source.name, kind, code)  # fmt: skip
        else:
            self.counters["openflow_errors"] += 1
            LOG.warning("switch %016x: OpenFlow error type %d code %d, xid %#x", dpid, kind, code, xid)

    def _refuse_groups(self, dpid: int, kind: int, code: int) -> None:
        """Choose ways by pair at a switch that has no select groups, or does not count their buckets."""
        self.split_bytes.forget(dpid)
        if self.paths.do_without_groups(dpid):
            LOG.warning("switch %016x: no select groups (error type %d code %d); ways by pair", dpid, kind, code)
            self.convergence.rebuild(dpid)
            self._work()

    # Marks

    def marked(self, fresh: list[PortMarks], now: int) -> None:
        """Take fresh marks of ports, as a reply showed them or a collector found them."""
        fresh = [one for one in fresh if not self.polling.is_spared(one.point[0])]
        for one in fresh:
            self.source.news.counted(one.point[0], one.interval_ns)
        if fresh:
            self.rounds.marked(fresh, now)

    def collected(self, fresh: list[PortMarks]) -> None:
        """Take what a collector found; in a cluster each hears of every port, and its owner acts."""
        self.marked([one for one in fresh if self._owner.owns(one.point[0])], self.clock())
        self.rounds.finish_if_complete()
        self._work()
