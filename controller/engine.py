# SPDX-License-Identifier: Apache-2.0
"""The controller itself, without any framework: events in, OpenFlow bytes out.

Every T_i each switch with mark counters is asked for new marks.  When a reply shows some, a *round*
begins: the hypervisor bridges of the sources behind the port are asked what their machines sent, and once
they and the period's other polls have answered, or a deadline passed, the marks are divided and each
machine is told its part by a packet-out at its own bridge.
"""

import collections
import dataclasses
import json
import logging
import os
import time
from typing import Any, Callable, Optional

from sdngcc.controller import marks as marking
from sdngcc.controller import message, openflow, packets
from sdngcc.controller.decision import Congestion, Divider, Notice, Source
from sdngcc.controller.forwarding import Forwarder
from sdngcc.controller.inventory import SwitchRecord, VmRecord
from sdngcc.controller.monitor import NAP_NS, Monitor
from sdngcc.controller.relations import Relations
from sdngcc.controller.settings import Settings
from sdngcc.controller.topology import Hop, Port, Topology

SECOND_NS = 1_000_000_000
STATE_LOST_NS = 2 * SECOND_NS
SEQUENCE_MAX = 0xFFFFFFFF
_FIRST_LLDP_S = (0.02, 0.1, 0.25)

LOG = logging.getLogger(__name__)

Send = Callable[[int, bytes], bool]
Arm = Callable[[float, Callable[[], None]], Callable[[], None]]


@dataclasses.dataclass
class _Round:
    """Ports with fresh marks whose sources' rates are awaited."""

    started_ns: int
    cancel: Callable[[], None]
    marks: dict[Hop, int] = dataclasses.field(default_factory=dict)
    interval_ns: dict[Hop, int] = dataclasses.field(default_factory=dict)
    waiting: set[int] = dataclasses.field(default_factory=set)
    asked: set[int] = dataclasses.field(default_factory=set)


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
    ) -> None:
        """Raise SettingsError when the key file is unusable."""
        self.settings = settings
        self.clock = clock
        self.epoch = int(time.time()) if epoch is None else epoch
        self.counters: collections.Counter[str] = collections.Counter()
        self.switches: dict[int, SwitchRecord] = {}
        self.topology = Topology()
        self.relations = Relations()
        self.source = marking.SOURCES[settings.mark_source](settings.period_us * 1000)
        self.divider = Divider(settings.division)
        self.started_ns = clock()
        self.monitor = Monitor(settings.period_us * 1000, self.started_ns)
        self.forwarder = Forwarder(settings, self.topology, self.relations, self.switches, self._send)
        self.notice_max_ns = 0  # longest from the reply that showed marks to its messages
        self._transmit = send
        self._arm = arm
        self._key = settings.read_key()
        self._lldp_key = os.urandom(16)
        self._assembler = marking.Assembler()
        self._xid = 0
        self._interfaces: dict[tuple[int, str], str] = {}
        self._sequence: dict[Hop, int] = {}
        self._round: Optional[_Round] = None
        self._slow_ns = self.started_ns
        self._lldp_ns = self.started_ns
        self._trace: list[str] = []

    # Switches and ports

    def switch_up(self, dpid: int, ports: dict[int, tuple[str, bytes, bool]]) -> None:
        """Take a connected switch; ``ports`` are (name, address, up) by number."""
        now = self.clock()
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
        self.forwarder.start_switch(dpid)
        self._name_vms(dpid)
        self.monitor.add(dpid, now)
        self._ask_state(dpid, now)
        self._send_lldp(dpid)
        for delay_s in _FIRST_LLDP_S:
            self._arm(delay_s, lambda: self._send_lldp(dpid))
        self._arm(self.settings.settle_ms / 1000, lambda: self._settle(dpid))

    def _settle(self, dpid: int) -> None:
        switch = self.switches.get(dpid)
        if switch is not None and not switch.settled:
            switch.settled = True
            self.forwarder.flush(dpid)

    def switch_down(self, dpid: int) -> None:
        """Forget a switch whose connection ended, with its hosts and links."""
        if self.switches.pop(dpid, None) is None:
            return
        LOG.info("switch %016x disconnected", dpid)
        self.monitor.remove(dpid)
        self.source.forget(dpid)
        self._assembler.forget(dpid)
        self.forwarder.forget_switch(dpid)
        self.forwarder.forget_hosts(self.relations.forget_place(dpid))
        self.topology.remove_switch(dpid)
        self.forwarder.paths_changed()
        self._answered_round(dpid)

    def port_changed(self, dpid: int, number: int, name: str, mac: bytes, up: bool) -> None:
        """Take a port that was added or changed."""
        if dpid not in self.switches or number >= openflow.OFPP_MAX:
            return
        known = self.topology.ports.get(dpid, {}).get(number)
        fresh = known is None or known.name != name or (up and not known.up)
        linked = self.topology.peer(dpid, number) is not None
        if fresh:
            self.source.forget(dpid, number)
            self.divider.forget((dpid, number))
        since = self.clock() if known is None or fresh else known.since_ns
        self.topology.set_port(dpid, number, Port(name, mac, up, since))
        if linked and not up:
            self.forwarder.paths_changed()
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
        self.divider.forget((dpid, number))
        self.switches[dpid].vms.pop(number, None)
        self.forwarder.forget_hosts(self.relations.forget_place(dpid, number))
        self.forwarder.paths_changed()

    def set_interfaces(self, names: dict[tuple[int, str], str]) -> None:
        """Take the ids of machines by (datapath id, port name), as OVSDB has them."""
        if names != self._interfaces:
            self._interfaces = names
            for dpid in self.switches:
                self._name_vms(dpid)

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
            if not self.settings.poll_hypervisors:
                self.monitor.set_idle(switch.dpid, True, self.clock())
            self.forwarder.flush(switch.dpid)

    # Discovery

    def _send_lldp(self, dpid: int, only: Optional[int] = None) -> None:
        switch = self.switches.get(dpid)
        if switch is None:
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
        if data[12:14] == b"\x88\xcc":
            origin = packets.parse_lldp(data, self._lldp_key)
            switch = self.switches.get(dpid)
            if origin is None or switch is None or origin[0] not in self.switches or in_port in switch.vms:
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
        if now >= self._lldp_ns:
            self._lldp_ns = now + self.settings.lldp_period_ms * 1_000_000
            for dpid in self.switches:
                self._send_lldp(dpid)
            gone = self.topology.expire_links(now - 3 * self.settings.lldp_period_ms * 1_000_000)
            if gone:
                LOG.warning("link lost at %s", ", ".join(f"{dpid:016x}:{port}" for dpid, port in gone))
                self.forwarder.paths_changed()
        if now >= self._slow_ns:
            self._slow_ns += ((now - self._slow_ns) // SECOND_NS + 1) * SECOND_NS
            for dpid in self.switches:
                self._ask_state(dpid, now)
            self.forwarder.sweep(now)
            self._trace_polls(now)
            self.flush_trace()
        return min(self.monitor.next_ns(), self._slow_ns, now + NAP_NS)

    def _next_xid(self) -> int:
        self._xid = self._xid % 0x7FFFFFFF + 1
        return self._xid

    def _send(self, dpid: int, data: bytes) -> bool:
        if self._transmit(dpid, data):
            return True
        self.counters["send_failed"] += 1
        return False

    def _ask_state(self, dpid: int, now: int) -> None:
        """Ask a bridge for its machines, unless it owes an answer or cannot give one."""
        switch = self.switches[dpid]
        if switch.vm_state is False or (switch.state_xid and now - switch.state_asked_ns < STATE_LOST_NS):
            return
        xid = self._next_xid()
        if self._send(dpid, marking.vm_state_request(xid)):
            switch.state_xid, switch.state_asked_ns = xid, now
            self.counters["vm_state_requests"] += 1

    def multipart(self, dpid: int, data: bytes) -> None:
        """Take an experimenter multipart reply."""
        switch = self.switches.get(dpid)
        if switch is None:
            return
        try:
            reply = self._assembler.feed(dpid, data)
        except marking.ReplyError as error:
            self.counters["reply_malformed"] += 1
            LOG.warning("switch %016x: %s", dpid, error)
            return
        if reply is None:
            return
        now = self.clock()
        xid = int.from_bytes(data[4:8], "big")
        if reply.exp_type == marking.PORT_MARKS:
            self._take_marks(switch, xid, reply, now)
        else:
            self._take_state(switch, xid, reply, now)

    def error(self, dpid: int, xid: int, kind: int, code: int) -> None:
        """Take an OpenFlow error; one about our requests means the switch does not know them."""
        switch = self.switches.get(dpid)
        if switch is None:
            return
        poll = self.monitor.polls.get(dpid)
        if poll and poll.xid == xid:
            switch.marks = False
            self.monitor.remove(dpid)
            LOG.warning("switch %016x does not report marks (error type %d code %d); not polled", dpid, kind, code)
        elif switch.state_xid == xid:
            switch.vm_state, switch.state_xid = False, 0
            self._answered_round(dpid)
            LOG.info("switch %016x reports no virtual machines (error type %d code %d)", dpid, kind, code)
        else:
            self.counters["openflow_errors"] += 1
            LOG.warning("switch %016x: OpenFlow error type %d code %d, xid %#x", dpid, kind, code, xid)

    # Marks

    def _take_marks(self, switch: SwitchRecord, xid: int, reply: marking.Reply, now: int) -> None:
        note = self.monitor.answered(switch.dpid, xid, now)
        if note:
            LOG.info("%s", note)
        switch.marks = True
        fresh = self.source.take(switch.dpid, reply)
        spared = switch.hypervisor and not self.settings.poll_hypervisors
        if any(reply.entries):
            self.monitor.set_idle(switch.dpid, spared or not self.source.counted(switch.dpid), now)
        if fresh and not spared:
            self._begin_round(switch.dpid, fresh, now)
        if self._round and not self._round.waiting:
            self._finish_if_complete()

    def _begin_round(self, dpid: int, fresh: list[marking.PortMarks], now: int) -> None:
        current = self._round
        if current is None:
            cancel = self._arm(self.settings.round_deadline_us / 1e6, self._deadline)
            current = self._round = _Round(now, cancel)
            self.counters["rounds"] += 1
        for port_marks in fresh:
            point = (dpid, port_marks.port)
            current.marks[point] = current.marks.get(point, 0) + port_marks.marks
            current.interval_ns[point] = current.interval_ns.get(point, 0) + port_marks.interval_ns
            self.counters["marks"] += port_marks.marks
            if self.divider.division == "equal" or not self.settings.notify:
                continue
            for vm in self._machines_behind(point):
                if vm[0] not in current.asked:
                    current.asked.add(vm[0])
                    self._ask_state(vm[0], now)
                    if self.switches[vm[0]].state_xid:
                        current.waiting.add(vm[0])

    def _machines_behind(self, point: Hop) -> dict[Hop, tuple[bytes, bytes]]:
        """Return the machines whose packets leave by a port, each with one (source, destination) pair."""
        machines: dict[Hop, tuple[bytes, bytes]] = {}
        behind = self.relations.sources_behind(point, self.topology)
        for source in sorted(behind):
            place = self.relations.hosts[source].place
            switch = self.switches.get(place[0])
            if switch is not None and place[1] in switch.vms:
                machines.setdefault(place, (source, min(behind[source])))
        return machines

    def _take_state(self, switch: SwitchRecord, xid: int, reply: marking.Reply, now: int) -> None:
        if switch.state_xid == xid:
            switch.state_xid = 0
        switch.vm_state = True
        switch.state_ns = now
        if switch.dpid not in self.settings.fabric:
            readings: dict[int, marking.VmReading] = {}
            for reading in marking.vm_readings(reply):
                known = readings.get(reading.port)
                readings[reading.port] = marking.merge(known, reading) if known else reading
            for number, reading in readings.items():
                vm = switch.vms.get(number) or self._add_vm(switch, number)
                vm.reading, vm.read_ns = reading, now
            for number in [number for number, vm in switch.vms.items() if number not in readings and vm.reading]:
                del switch.vms[number]
            if readings or switch.vms:
                self._name_vms(switch.dpid)
        self._answered_round(switch.dpid)

    def _answered_round(self, dpid: int) -> None:
        if self._round:
            self._round.waiting.discard(dpid)
            self._finish_if_complete()

    def _finish_if_complete(self) -> None:
        if self._round and not self._round.waiting and not self.monitor.outstanding():
            self._round.cancel()
            self._finish_round()

    def _deadline(self) -> None:
        if self._round:
            self.counters["round_deadlines"] += 1
            self._finish_round()

    def _finish_round(self) -> None:
        """Divide the marks of the round and tell the machines."""
        current, self._round = self._round, None
        assert current is not None
        congestions = []
        pairs: dict[Hop, dict[Hop, tuple[bytes, bytes]]] = {}
        for point, marks in sorted(current.marks.items()):
            machines = pairs[point] = self._machines_behind(point)
            if not machines:
                self.counters["marks_without_source"] += marks
            sources = []
            for place in sorted(machines):
                vm = self.switches[place[0]].vms[place[1]]
                sources.append(Source(place, vm.sent_rate, vm.weight, vm.active))
            congestions.append(Congestion(point, marks, current.interval_ns[point], sources))
        if not self.settings.notify:
            return
        outgoing: dict[int, bytes] = {}
        for notice in self.divider.notices(congestions):
            data = self._compose(notice, pairs[notice.point][notice.vm])
            if data:
                outgoing[notice.vm[0]] = outgoing.get(notice.vm[0], b"") + data
        for dpid, data in outgoing.items():
            self._send(dpid, data)
        self.notice_max_ns = max(self.notice_max_ns, self.clock() - current.started_ns)

    def _compose(self, notice: Notice, pair: tuple[bytes, bytes]) -> bytes:
        """Return the packet-out of a notice, empty when the machine has no address to be told at."""
        vm = self.switches[notice.vm[0]].vms[notice.vm[1]]
        host, other = self.relations.hosts[pair[0]], self.relations.hosts.get(pair[1])
        ipv4 = host.address(True) is not None
        address = host.address(ipv4)
        version = self.settings.message_version
        if address is None or (version == "v0" and not ipv4):
            self.counters["notices_without_address"] += 1
            return b""
        peer = (other.address(ipv4) if other else None) or address
        if version == "v0":
            payload = message.encode_v0(notice.marks)
        else:
            sequence = self._next_sequence(notice.vm)
            payload = message.encode_v1(
                message.Message(
                    vm=address,
                    peer=peer,
                    marks=min(notice.marks, 0xFFFFFFFF),
                    interval_ns=notice.interval_ns,
                    weight_total=min(notice.weight_total, 0xFFFFFFFF),
                    point_datapath=notice.point[0],
                    point_port=notice.point[1],
                    sender=self.settings.sender_id,
                    epoch=self.epoch,
                    sequence=sequence,
                ),
                self._key,
            )
        vm.notices += 1
        vm.marks += notice.marks
        self.counters["notices"] += 1
        if self.settings.trace_file:
            self._trace_notice(vm, notice)
        frame = packets.message_frame(host.mac, pair[1], address, peer, self.settings.protocol, payload)
        return openflow.packet_out(frame, (notice.vm[1],))

    def _next_sequence(self, vm: Hop) -> int:
        """Return the next sequence number for a machine; after the last one a new epoch begins."""
        sequence = self._sequence.get(vm, 0) + 1
        if sequence > SEQUENCE_MAX:
            self._sequence.clear()
            self.epoch, sequence = max(self.epoch + 1, int(time.time())), 1
        self._sequence[vm] = sequence
        return sequence

    # The trace

    def _trace_notice(self, vm: VmRecord, notice: Notice) -> None:
        self._trace.append(
            json.dumps(
                {
                    "t": self.clock() / SECOND_NS,
                    "event": "notice",
                    "vm": vm.id,
                    "port": f"{notice.point[0]:016x}:{notice.point[1]}",
                    "marks": notice.marks,
                    "interval_ms": notice.interval_ns / 1e6,
                    "weight_total": notice.weight_total,
                    "sent_bps": vm.sent_rate * 8,
                }
            )
        )

    def _trace_polls(self, now: int) -> None:
        if self.settings.trace_file:
            self._trace.append(json.dumps({"t": now / SECOND_NS, "event": "polls", **self.poll_counts()}))

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
            "notice_max_us": self.notice_max_ns // 1000,
        }

    def flush_trace(self) -> None:
        """Write what was traced; a file that cannot be written is reported once a second."""
        path = self.settings.trace_file
        if path is None or not self._trace:
            return
        lines, self._trace = self._trace, []
        try:
            with open(path, "a", encoding="ascii") as stream:
                stream.write("\n".join(lines) + "\n")
        except OSError as error:
            self.counters["trace_lost"] += len(lines)
            LOG.error("trace_file %s: %s; %d lines lost", path, error, len(lines))
