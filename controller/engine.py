# SPDX-License-Identifier: Apache-2.0
"""The controller itself, without any framework: events in, OpenFlow bytes out.

Every T_i each switch with mark counters is asked for new marks; what follows from fresh ones is rounds.py's.
"""

import collections
import hashlib
import logging
import os
import time
from typing import Any, Callable, Optional

from sdngcc.controller.cluster.adopt import Adoption
from sdngcc.controller.cluster.owner import Alone, Owner
from sdngcc.controller.forwarding.forwarder import COOKIE, COOKIE_MASK, PAIR, Forwarder
from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.counters import Counters, PairBytes, SplitBytes
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.paths import Paths, Tunnel
from sdngcc.controller.network.relations import Relations
from sdngcc.controller.network.topology import Port, Topology
from sdngcc.controller.rates.monitor import FAR_NS, NAP_NS, Monitor
from sdngcc.controller.rates.notifier import Notifier
from sdngcc.controller.rates.rounds import Network, Rounds
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import PREPARE_XID, SOURCES, PortMarks
from sdngcc.controller.trace import Trace
from sdngcc.controller.wire import experimenter, openflow, packets

SECOND_NS = 1_000_000_000
STATE_LOST_NS = 2 * SECOND_NS
_FIRST_LLDP_S = (0.02, 0.1, 0.25)
_SHARED_SETTLE_S = 1.0  # longer in a cluster: a switch's owner looks for links once it hears of a new controller

LOG = logging.getLogger(__name__)

Send = Callable[[int, bytes], bool]
Arm = Callable[[float, Callable[[], None]], Callable[[], None]]


def _secret(settings: Settings) -> bytes:
    """Return 16 bytes that controllers with the same message key have in common, random ones without a key."""
    if settings.key_file is None:
        return os.urandom(16)
    return hashlib.blake2b(b"sdn-gcc: links and flows", key=settings.read_key(), digest_size=16).digest()


class Engine:
    """All state of the controller.

    ``send(dpid, data)`` puts OpenFlow bytes on a switch's connection and returns whether it could;
    ``arm(seconds, function)`` calls a function later and returns what cancels that; ``clock`` counts ns.
    Not safe for threads: call it from one thread or greenlets that do not yield inside it.
    """

    def __init__(
        self,
        settings: Settings,
        send: Send,
        arm: Arm,
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
        self.source = SOURCES[settings.mark_source].make(settings, self.topology)
        self.started_ns = clock()
        self.monitor = Monitor(settings.period_us * 1000, self.started_ns)
        self._owner = owner or Alone()
        secret = _secret(settings)
        period_ns = settings.pair_period_ms * 1_000_000
        self.split_bytes = SplitBytes(period_ns, lambda dpid, number: self.forwarder.find_group(dpid, number))
        splits = self.split_bytes.proportions
        self.paths = Paths(self.relations, self.topology, settings.multipath, splits)
        self.forwarder = Forwarder(
            settings,
            self.topology,
            self.relations,
            self.paths,
            self.switches,
            self._send_owned,
            self.source.tables,
            self._owner.owns,
            secret,
        )
        self.adoption = Adoption(
            self.relations, self.forwarder, lambda *place: self.forwarder.is_host_port(place, self.clock())
        )
        self.trace = Trace(settings.trace_file, self.counters)
        self.notifier = Notifier(settings, self.relations, self.counters, epoch)
        self.pair_bytes = PairBytes(period_ns, COOKIE | PAIR, COOKIE_MASK | PAIR, self.forwarder.find_pair)
        self.attribution = Attribution(
            self.relations, self.paths, self.pair_bytes, self.split_bytes, self.switches, lambda: self.clock()
        )
        counters: tuple[Counters, ...] = (self.pair_bytes, self.split_bytes)
        self._statistics = {one.kind.to_bytes(2, "big"): one for one in counters}
        network = Network(
            settings,
            self.switches,
            self.attribution,
            self.counters,
            self.trace,
            lambda: self.clock(),
            self._owner.owns,
        )
        self.rounds = Rounds(network, self.notifier, self._send_notice, arm, self._ask_state, self.monitor.outstanding)
        self._transmit = send
        self._arm = arm
        self._lldp_key = secret
        self._assembler = experimenter.Assembler()
        self._xid = 0
        self._interfaces: dict[tuple[int, str], str] = {}
        self._tunnels: dict[int, dict[str, Tunnel]] = {}  # by datapath id and port name
        self._slow_ns = self._between_polls(self.started_ns)
        self._lldp_ns = self._slow_ns
        self._rates_ns = self.started_ns if settings.decision == "maxmin" else FAR_NS

    # Switches and ports

    def switch_up(self, dpid: int, ports: dict[int, tuple[str, bytes, bool]]) -> None:
        """Take a connected switch; ``ports`` are (name, address, up) by number."""
        now = self.clock()
        if dpid in self.switches and self._owner.shared:
            self._switch_back(dpid, ports)
            return
        if dpid in self.switches:
            self.switch_down(dpid)
        self.switches[dpid] = SwitchRecord(dpid, now, hypervisor=dpid in self.settings.hypervisors)
        self.topology.add_switch(
            dpid,
            {
                number: Port(name, mac, up, now)
                for number, (name, mac, up) in ports.items()
                if number < openflow.OFPP_MAX
            },
        )
        LOG.info("switch %016x connected with %d ports", dpid, len(ports))
        self._name_vms(dpid)
        self._place_tunnels(dpid)
        self._ask_state(dpid, now)
        if not self._owner.shared:
            self.take_over(dpid, False)
        wait_s = self.settings.settle_ms / 1000 + (_SHARED_SETTLE_S if self._owner.shared else 0)
        self._arm(wait_s, lambda: self._settle(dpid))

    def _switch_back(self, dpid: int, ports: dict[int, tuple[str, bytes, bool]]) -> None:
        """Take a switch that lost its connection here only, while others of the cluster kept theirs."""
        for number in [number for number in self.topology.ports.get(dpid, {}) if number not in ports]:
            self.port_removed(dpid, number)
        for number, port in ports.items():
            self.port_changed(dpid, number, *port)
        self.switches[dpid].state_xid = 0
        self._settle(dpid)

    def _prepare(self, dpid: int, ports: list[int]) -> None:
        """Give a switch what the mark source needs there."""
        data = self.source.prepare(dpid, ports)
        if data:
            self._send_owned(dpid, data)

    def _settle(self, dpid: int) -> None:
        switch = self.switches.get(dpid)
        if switch is None:
            return
        if self._owner.shared:
            switch.settled = True
            self._send(dpid, self.adoption.request(dpid, self._next_xid()))
        elif not switch.settled:
            switch.settled = True
            self.forwarder.flush(dpid)

    def take_over(self, dpid: int, fresh: bool) -> None:
        """Act for a switch from now on; ``fresh`` when nobody of a cluster did before."""
        self.forwarder.take_over(dpid, fresh)
        self.source.forget(dpid)
        self._prepare(dpid, sorted(self.topology.ports[dpid]))
        if self.source.polled:
            self.monitor.add(dpid, self.clock())
        self.discover(dpid)

    def give_up(self, dpid: int) -> None:
        """Act no more for a switch."""
        self.monitor.remove(dpid)

    def discover(self, dpid: int) -> None:
        """Look for the links of a switch now."""
        self._send_lldp(dpid)
        for delay_s in _FIRST_LLDP_S:
            self._arm(delay_s, lambda: self._send_lldp(dpid))

    def switch_down(self, dpid: int) -> None:
        """Forget a switch whose connection ended, with its hosts and links."""
        if self.switches.pop(dpid, None) is None:
            return
        LOG.info("switch %016x disconnected", dpid)
        self.monitor.remove(dpid)
        self.source.forget(dpid)
        self._assembler.forget(dpid)
        self.pair_bytes.forget(dpid)
        self.split_bytes.forget(dpid)
        self.adoption.forget(dpid)
        self.attribution.forget(dpid)
        self.forwarder.forget_switch(dpid)
        self.forwarder.forget_hosts(self.relations.forget_place(dpid))
        self.topology.remove_switch(dpid)
        self._place_tunnels(dpid)
        self.forwarder.paths_changed()
        self.rounds.forget(dpid)
        self.rounds.answered(dpid)

    def port_speed(self, dpid: int, number: int, speed: int) -> None:
        """Take a port's speed, bytes/s; 0: the switch does not know."""
        if dpid in self.switches:
            self.rounds.explicit.set_speed((dpid, number), speed)

    def port_changed(self, dpid: int, number: int, name: str, mac: bytes, up: bool) -> None:
        """Take a port that was added or changed."""
        if dpid not in self.switches or number >= openflow.OFPP_MAX:
            return
        known = self.topology.ports.get(dpid, {}).get(number)
        fresh = known is None or known.name != name or (up and not known.up)
        linked = self.topology.peer(dpid, number) is not None
        if fresh:
            self.source.forget(dpid, number)
            self.rounds.forget(dpid, number)
        since = self.clock() if known is None or fresh else known.since_ns
        self.topology.set_port(dpid, number, Port(name, mac, up, since))
        if linked and not up:
            self.forwarder.paths_changed()
        if fresh:
            self._prepare(dpid, [number])
            self._place_tunnels(dpid)
        if fresh and up:
            self._name_vms(dpid)
            self._send_lldp(dpid, number)
            for delay_s in _FIRST_LLDP_S:
                self._arm(delay_s, lambda: self._send_lldp(dpid, number))

    def port_removed(self, dpid: int, number: int) -> None:
        """Forget a port, its hosts and its link."""
        if dpid not in self.switches:
            return
        self.topology.remove_port(dpid, number)
        self.source.forget(dpid, number)
        self.rounds.forget(dpid, number)
        self.switches[dpid].vms.pop(number, None)
        self.forwarder.forget_hosts(self.relations.forget_place(dpid, number))
        self.forwarder.paths_changed()

    def set_interfaces(self, names: dict[tuple[int, str], str]) -> None:
        """Take the ids of machines by (datapath id, port name), as OVSDB has them."""
        if names != self._interfaces:
            self._interfaces = names
            for dpid in self.switches:
                self._name_vms(dpid)

    def set_tunnels(self, names: dict[tuple[int, str], Tunnel]) -> None:
        """Take the end points of tunnels by (datapath id, port name), as OVSDB has them."""
        tunnels: dict[int, dict[str, Tunnel]] = {}
        for (dpid, name), tunnel in names.items():
            tunnels.setdefault(dpid, {})[name] = tunnel
        before, self._tunnels = self._tunnels, tunnels
        for dpid in before.keys() | tunnels.keys():
            if before.get(dpid) != tunnels.get(dpid):
                self._place_tunnels(dpid)

    def _place_tunnels(self, dpid: int) -> None:
        names, ports = self._tunnels.get(dpid, {}), self.topology.ports.get(dpid, {})
        self.paths.set_tunnels(
            dpid, {number: names[port.name] for number, port in ports.items() if port.name in names} if names else {}
        )

    def _name_vms(self, dpid: int) -> None:
        switch = self.switches[dpid]
        for number, port in self.topology.ports.get(dpid, {}).items():
            name = self._interfaces.get((dpid, port.name))
            vm = switch.vms.get(number)
            if vm is not None:
                vm.id = name or f"{dpid:016x}:{port.name}"
            elif name is not None and dpid not in self.settings.fabric:
                self._add_vm(switch, number)

    def _add_vm(self, switch: SwitchRecord, number: int) -> VmRecord:
        port = self.topology.ports.get(switch.dpid, {}).get(number)
        name = port.name if port else str(number)
        vm_id = self._interfaces.get((switch.dpid, name), f"{switch.dpid:016x}:{name}")
        vm = switch.vms[number] = VmRecord((switch.dpid, number), vm_id, name)
        self._set_hypervisor(switch)
        return vm

    def _set_hypervisor(self, switch: SwitchRecord) -> None:
        """Forward a bridge's traffic by pairs from now on."""
        if not switch.hypervisor:
            switch.hypervisor = True
            if not (self.settings.poll_hypervisors or self.source.everywhere):
                self.monitor.set_idle(switch.dpid, True, self.clock())
            # In a cluster nothing is learned of a switch before it settled here; what its owners learned stays.
            if switch.settled or not self._owner.shared:
                self.forwarder.flush(switch.dpid)

    # Discovery

    def _send_lldp(self, dpid: int, only: Optional[int] = None) -> None:
        switch = self.switches.get(dpid)
        if switch is None or not self._owner.owns(dpid):
            return
        data = b""
        for number, port in sorted(self.topology.ports.get(dpid, {}).items()):
            if port.up and number not in switch.vms and only in (None, number):
                frame = packets.lldp_frame(dpid, number, self._lldp_key)
                data += openflow.packet_out(frame, (number,))
        if data:
            self._send(dpid, data)

    def packet_in(self, dpid: int, in_port: int, data: bytes) -> None:
        """Take a packet no flow knew."""
        now = self.clock()
        if not self.forwarder.admits(dpid, in_port, now):
            return
        if data[12:14] == b"\x88\xcc":
            origin = packets.parse_lldp(data, self._lldp_key)
            switch = self.switches.get(dpid)
            far = self.switches.get(origin[0]) if origin else None
            if not origin or switch is None or far is None or in_port in switch.vms or origin[1] in far.vms:
                self.counters["lldp_foreign"] += 1
            elif self.topology.add_link(origin, (dpid, in_port), now):
                LOG.info("link %016x:%d - %016x:%d", *origin, dpid, in_port)
                for end in (origin, (dpid, in_port)):
                    self.forwarder.forget_hosts(self.relations.forget_place(*end))
                self.forwarder.paths_changed()
            return
        self.forwarder.packet_in(dpid, in_port, data, now)

    def flow_removed(self, cookie: int, reason: int) -> None:
        """Take note of a flow that is gone."""
        self.forwarder.flow_removed(cookie, reason)

    # The clockwork

    def tick(self) -> int:
        """Do what is due and return when to call again, in ns of the clock."""
        now = self.clock()
        turn, notes = self.monitor.due(now)
        for note in notes:
            LOG.warning("%s", note)
        for dpid in turn:
            xid = self._next_xid()
            if self._send(dpid, self.source.request(dpid, xid)):
                self.monitor.asked(dpid, xid, now)
        for statistics in self._statistics.values():
            for dpid in statistics.due(now):
                xid = self._next_xid()
                if self._send(dpid, statistics.request(xid)):
                    statistics.asked(dpid, xid, now)
        if now >= self._rates_ns:
            self._rates_ns += ((now - self._rates_ns) // self.monitor.period_ns + 1) * self.monitor.period_ns
            self.rounds.begin(now)
        if now >= self._lldp_ns:
            self._lldp_ns = self._between_polls(now + self.settings.lldp_period_ms * 1_000_000)
            for dpid in self.switches:
                self._send_lldp(dpid)
            gone = self.topology.expire_links(now - 3 * self.settings.lldp_period_ms * 1_000_000)
            if gone:
                LOG.warning("link lost at %s", ", ".join(f"{dpid:016x}:{port}" for dpid, port in gone))
                self.forwarder.paths_changed()
        if now >= self._slow_ns:
            self._slow_ns = self._between_polls(now + SECOND_NS)
            for dpid in self.switches:
                self._ask_state(dpid, now)
            self.forwarder.sweep(now)
            self.trace.add(now, "polls", **self.poll_counts())
            self.trace.flush()
        counters_ns = min(statistics.next_ns(now) for statistics in self._statistics.values())
        housekeeping_ns = min(self._slow_ns, self._lldp_ns)
        return min(self.monitor.next_ns(), counters_ns, self._rates_ns, housekeeping_ns, now + NAP_NS)

    def _between_polls(self, time_ns: int) -> int:
        """Return a moment between polls, where no answer has to wait, at most NAP_NS / 2 from a time."""
        period_ns = self.monitor.period_ns
        grid_ns = period_ns // -(-period_ns // NAP_NS)  # polls fall on it, and half of it is between them
        return time_ns - (time_ns - self.started_ns) % grid_ns + grid_ns // 2

    def _next_xid(self) -> int:
        self._xid = self._xid % 0x7FFFFFFF + 1
        return self._xid

    def _send(self, dpid: int, data: bytes) -> bool:
        if self._transmit(dpid, data):
            return True
        self.counters["send_failed"] += 1
        return False

    def _send_owned(self, dpid: int, data: bytes) -> bool:
        """Send what only a switch's owner may."""
        return self._owner.owns(dpid) and self._send(dpid, data)

    def _send_notice(self, dpid: int, data: bytes) -> bool:
        """Send messages to machines of a bridge, whoever owns it: the congested port's owner speaks."""
        return self._owner.is_live() and self._send(dpid, data)

    def _ask_state(self, dpid: int, now: int) -> None:
        """Ask a bridge for its machines, unless it owes an answer or cannot give one."""
        switch = self.switches[dpid]
        if switch.vm_state is False or (switch.state_xid and now - switch.state_asked_ns < STATE_LOST_NS):
            return
        xid = self._next_xid()
        if self._send(dpid, experimenter.vm_state_request(xid)):
            switch.state_xid, switch.state_asked_ns = xid, now
            self.counters["vm_state_requests"] += 1

    def multipart(self, dpid: int, data: bytes) -> bool:
        """Take a multipart reply; return whether it was meant for us."""
        switch = self.switches.get(dpid)
        xid = int.from_bytes(data[4:8], "big")
        statistics = self._statistics.get(data[8:10])
        if statistics is not None:
            return switch is not None and self._take_statistics(switch, statistics, xid, data)
        if switch is not None:
            self._take_experimenter(switch, xid, data)
        return True

    def _take_statistics(self, switch: SwitchRecord, statistics: Counters, xid: int, data: bytes) -> bool:
        """Take counters of flows or groups: of pairs, or those the mark source asked for."""
        poll = self.monitor.polls.get(switch.dpid)
        try:
            if self.adoption.feed(switch.dpid, data, self.clock()):
                return True
            if statistics.owes(switch.dpid, xid):
                statistics.feed(switch.dpid, data)
            elif poll is not None and poll.xid == xid:
                now = self.clock()
                last = not openflow.more_parts(data)
                self.marked(self.source.take_flows(switch.dpid, openflow.flow_statistics(data), last, now), now)
                if last:
                    self._note_answer(switch, xid, now)
                    self._pace_polls(switch, now)
                    self.rounds.finish_if_complete()
            else:
                return False
        except openflow.MessageError as error:
            self._refuse_reply(switch, error)
        return True

    def _refuse_reply(self, switch: SwitchRecord, error: Exception) -> None:
        self.counters["reply_malformed"] += 1
        LOG.warning("switch %016x: %s", switch.dpid, error)

    def _take_experimenter(self, switch: SwitchRecord, xid: int, data: bytes) -> None:
        try:
            reply = self._assembler.feed(switch.dpid, data)
        except experimenter.ReplyError as error:
            self._refuse_reply(switch, error)
            return
        if reply is None:
            return
        now = self.clock()
        if reply.exp_type == experimenter.PORT_MARKS:
            self._take_marks(switch, xid, reply, now)
        else:
            self._take_state(switch, xid, reply, now)

    def error(self, dpid: int, xid: int, kind: int, code: int) -> None:
        """Take an OpenFlow error; one about our requests means the switch does not know them."""
        switch = self.switches.get(dpid)
        if switch is None:
            return
        poll = self.monitor.polls.get(dpid)
        if not xid:  # of a flow or group, which bear none
            self.counters["openflow_errors"] += 1
            if kind == openflow.OFPET_GROUP_MOD_FAILED:
                self._refuse_groups(dpid, kind, code)
            else:
                LOG.warning("switch %016x: OpenFlow error type %d code %d about a flow", dpid, kind, code)
        elif poll and poll.xid == xid:
            switch.marks = False
            self.monitor.remove(dpid)
            LOG.warning("switch %016x does not report marks (error type %d code %d); not polled", dpid, kind, code)
        elif self.pair_bytes.owes(dpid, xid):
            self.pair_bytes.refused(dpid)
            LOG.warning("switch %016x tells no flow statistics (error type %d code %d)", dpid, kind, code)
        elif self.split_bytes.owes(dpid, xid):
            self._refuse_groups(dpid, kind, code)
        elif switch.state_xid == xid:
            switch.vm_state, switch.state_xid = False, 0
            self.rounds.answered(dpid)
            LOG.info("switch %016x reports no virtual machines (error type %d code %d)", dpid, kind, code)
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
            self.forwarder.paths_changed()

    # Marks

    def _take_marks(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now: int) -> None:
        if not self._owner.owns(switch.dpid):
            return
        self._note_answer(switch, xid, now)
        fresh = self.source.take(switch.dpid, reply)
        if any(reply.entries):
            self._pace_polls(switch, now)
        self.marked(fresh, now)
        self.rounds.finish_if_complete()

    def _note_answer(self, switch: SwitchRecord, xid: int, now: int) -> None:
        switch.marks = True
        note = self.monitor.answered(switch.dpid, xid, now)
        if note:
            LOG.info("%s", note)

    def _pace_polls(self, switch: SwitchRecord, now: int) -> None:
        """Poll a switch every T_i if it has counters and is not one that is spared."""
        spared = not self.source.everywhere and self._is_spared(switch.dpid)
        self.monitor.set_idle(switch.dpid, spared or not self.source.counted(switch.dpid), now)

    def _is_spared(self, dpid: int) -> bool:
        """Tell whether a switch's own ports are the shim's to share: a hypervisor's."""
        switch = self.switches.get(dpid)
        return switch is not None and switch.hypervisor and not self.settings.poll_hypervisors

    def marked(self, fresh: list[PortMarks], now: int) -> None:
        """Take fresh marks of ports, as a reply showed them or a collector found them."""
        fresh = [one for one in fresh if not self._is_spared(one.point[0])]
        if fresh:
            self.rounds.marked(fresh, now)

    def collected(self, fresh: list[PortMarks]) -> None:
        """Take what a collector found; in a cluster each hears of every port, and its owner acts."""
        self.marked([one for one in fresh if self._owner.owns(one.point[0])], self.clock())
        self.rounds.finish_if_complete()

    def _take_state(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now: int) -> None:
        if switch.state_xid == xid:
            switch.state_xid = 0
        switch.vm_state = True
        switch.state_ns = now
        if switch.dpid not in self.settings.fabric:
            readings: dict[int, experimenter.VmReading] = {}
            for reading in experimenter.vm_readings(reply):
                known = readings.get(reading.port)
                readings[reading.port] = experimenter.merge(known, reading) if known else reading
            for number, reading in readings.items():
                vm = switch.vms.get(number) or self._add_vm(switch, number)
                vm.reading, vm.read_ns = reading, now
                self._note_hearing(vm, reading, now)
            for number in [number for number, vm in switch.vms.items() if number not in readings and vm.reading]:
                del switch.vms[number]
            if readings or switch.vms:
                self._name_vms(switch.dpid)
        self.rounds.answered(switch.dpid)

    def _note_hearing(self, vm: VmRecord, reading: experimenter.VmReading, now: int) -> None:
        """Take note of whether a machine accepts what it is told."""
        note = self.notifier.numbering.heard(vm.hearing, reading.messages, reading.refused, now)
        if note:
            self.counters["epoch_raised"] += 1
            LOG.warning("%s (found at %s)", note, vm.id)

    def poll_counts(self) -> dict[str, Any]:
        """Return the sums over all switches' polls; times in microseconds."""
        polls = self.monitor.polls.values()
        return {
            "polls": sum(poll.polls for poll in polls),
            "replies": sum(poll.replies for poll in polls),
            "skipped": sum(poll.skipped for poll in polls),
            "lost": sum(poll.lost for poll in polls),
            "reply_max_us": max((poll.reply_max_ns for poll in polls), default=0) // 1000,
            "late_max_us": self.monitor.late_max_ns // 1000,
            "notice_max_us": self.rounds.notice_max_ns // 1000,
        }
