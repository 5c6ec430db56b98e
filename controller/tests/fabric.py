# SPDX-License-Identifier: Apache-2.0
"""Switches in memory that speak OpenFlow 1.3 bytes, wired to each other and to hosts."""

import dataclasses
import functools
import struct
import zlib
from typing import Callable, Optional

from sdngcc.controller.wire import experimenter, openflow, packets
from sdngcc.controller.wire.experimenter import PathReading, PortReading, VmReading

CONTROLLER = openflow.OFPP_CONTROLLER


@dataclasses.dataclass
class Flow:
    fields: dict[int, bytes]
    priority: int
    cookie: int
    ports: list[int]
    group: Optional[int]
    idle_s: int
    report: bool
    table: int = 0
    metadata: int = 0
    goto: Optional[int] = None
    retag: Optional[int] = None  # VLAN pushed, 0: popped
    since_ns: int = 0
    packets: int = 0
    octets: int = 0

    def matches(self, in_port: int, frame: bytes, metadata: int = 0) -> bool:
        seen = {0: struct.pack("!I", in_port), 3: frame[:6], 4: frame[6:12], 5: frame[12:14]}
        seen[2] = struct.pack("!Q", metadata)
        tagged = frame[12:14] == b"\x81\x00"
        seen[6] = struct.pack("!H", 0x1000 | struct.unpack_from("!H", frame, 14)[0] & 0xFFF) if tagged else bytes(2)
        if frame[12:14] == b"\x08\x00":
            seen[9] = bytes((frame[15] & 3,))
        return all(seen[field] == value for field, value in self.fields.items())


class Switch:
    """One switch; ``up`` takes (event, arguments) for the controller."""

    def __init__(self, fabric: "Fabric", dpid: int, ports: dict[int, str]) -> None:
        self.fabric = fabric
        self.dpid = dpid
        self.ports = ports
        self.flows: list[Flow] = []
        self.marks: dict[int, PortReading] = {}
        self.vms: dict[int, VmReading] = {}
        self.sent = Sent()
        self.boot = 77
        self.generation = 1
        self.supported = True
        self.by_path = False  # whether it answers HOST_PATHS
        self.paths: list[PathReading] = []
        self.congested: set[int] = set()
        self.silent = False
        self.flow_requests = 0
        self.group_support = True
        self.groups: dict[int, dict[int, int]] = {}  # number -> bytes by port
        self.requests: list[tuple[int, int, int, int, int]] = []
        self.packet_outs: list[tuple[int, list[int], bytes]] = []

    def receive(self, data: bytes) -> None:
        """Take OpenFlow messages from the controller."""
        while data:
            kind, length = data[1], struct.unpack_from("!H", data, 2)[0]
            message, data = data[:length], data[length:]
            if kind == openflow.OFPT_FLOW_MOD:
                self._flow_mod(message)
            elif kind == openflow.OFPT_PACKET_OUT:
                self._packet_out(message)
            elif kind == openflow.OFPT_GROUP_MOD:
                self._group_mod(message)
            elif kind == openflow.OFPT_MULTIPART_REQUEST:
                if message[8:10] == b"\x00\x01":
                    self._flow_statistics(message)
                elif message[8:10] == b"\x00\x06":
                    self._group_statistics(message)
                else:
                    self._experimenter(message)

    def _flow_mod(self, message: bytes) -> None:
        cookie, mask, _, command, idle_s, _, priority = struct.unpack_from("!QQBBHHH", message, 8)
        flags = struct.unpack_from("!H", message, 44)[0]
        length = struct.unpack_from("!H", message, 50)[0]
        fields, place = {}, 52
        while place < 48 + length:
            head, size = struct.unpack_from("!xxBB", message, place)
            fields[head >> 1] = message[place + 4 : place + 4 + size]
            place += 4 + size
        ports, group, metadata, goto, retag, place = [], None, 0, None, None, 48 + (length + 7) // 8 * 8
        while place < len(message):
            kind, size = struct.unpack_from("!HH", message, place)
            if kind == 1:
                goto = message[place + 4]
            elif kind == 2:
                metadata = struct.unpack_from("!Q", message, place + 8)[0]
            else:
                at = place + 8
                while at < place + size:
                    action, long = struct.unpack_from("!HH", message, at)
                    if action == 0:
                        ports.append(struct.unpack_from("!I", message, at + 4)[0])
                    elif action == 18:
                        retag = 0
                    elif action == 22:
                        group = struct.unpack_from("!I", message, at + 4)[0]
                    elif action == 25:
                        retag = struct.unpack_from("!H", message, at + 8)[0] & 0xFFF
                    at += long
            place += size
        table = message[24]
        if command == 4:
            self.flows = [
                flow
                for flow in self.flows
                if flow.cookie & mask != cookie & mask
                or table not in (0xFF, flow.table)
                or (flow.fields, flow.priority) != (fields, priority)
            ]
            return
        if command == 3:
            self.flows = [
                flow
                for flow in self.flows
                if flow.cookie & mask != cookie & mask
                or table not in (0xFF, flow.table)
                or any(flow.fields.get(field) != value for field, value in fields.items())
            ]
            return
        key = (fields, priority, table)
        self.flows = [flow for flow in self.flows if (flow.fields, flow.priority, flow.table) != key]
        now = self.fabric.now_ns
        self.flows.append(
            Flow(fields, priority, cookie, ports, group, idle_s, bool(flags & 1), table, metadata, goto, retag, now)
        )
        self.flows.sort(key=lambda flow: -flow.priority)

    def _packet_out(self, message: bytes) -> None:
        in_port, length = struct.unpack_from("!IH", message, 12)
        ports = [struct.unpack_from("!I", message, 24 + 16 * i + 4)[0] for i in range(length // 16)]
        frame = message[24 + length :]
        self.packet_outs.append((in_port, ports, frame))
        for port in ports:
            self.fabric.transmit(self.dpid, port, frame)

    def _group_mod(self, message: bytes) -> None:
        command, kind, number = struct.unpack_from("!HBxI", message, 8)
        if not self.group_support:
            self.fabric.queue(lambda: self.fabric.engine.error(self.dpid, 0, 6, 2))
            return
        if command == 2:
            self.groups.pop(number, None)
            self.flows = [flow for flow in self.flows if flow.group != number]
            return
        assert (command, kind) == (0, 1) and number not in self.groups
        ports, place = [], 16
        while place < len(message):
            size = struct.unpack_from("!H", message, place)[0]
            ports.append(struct.unpack_from("!I", message, place + 20)[0])
            place += size
        self.groups[number] = {port: 0 for port in ports}

    def _group_statistics(self, message: bytes) -> None:
        xid = struct.unpack_from("!I", message, 4)[0]
        body = b""
        for number, buckets in self.groups.items():
            body += struct.pack("!H2xI32x", 40 + 16 * len(buckets), number)
            body += b"".join(struct.pack("!QQ", 0, count) for count in buckets.values())
        reply = struct.pack("!BBHIHH4x", 4, 19, 16 + len(body), xid, 6, 0) + body
        self.fabric.queue(lambda: self.fabric.engine.multipart(self.dpid, reply))

    def _flow_statistics(self, message: bytes) -> None:
        cookie, mask = struct.unpack_from("!QQ", message, 32)
        xid = struct.unpack_from("!I", message, 4)[0]
        self.flow_requests += 1
        if self.silent:
            return
        flows = [flow for flow in self.flows if flow.cookie & mask == cookie & mask]
        entries = []
        for flow in flows:
            age = divmod(self.fabric.now_ns - flow.since_ns, 1_000_000_000)
            head = struct.pack("!HBxII12x", 56, flow.table, *age)
            entries.append(head + struct.pack("!QQQ", flow.cookie, flow.packets, flow.octets) + openflow.match())
        for more, part in ((1, entries[::2]), (0, entries[1::2])):
            body = b"".join(part)
            reply = struct.pack("!BBHIHH4x", 4, 19, 16 + len(body), xid, 1, more) + body
            self.fabric.queue(functools.partial(self.fabric.engine.multipart, self.dpid, reply))

    def _experimenter(self, message: bytes) -> None:
        request = experimenter.decode_request(message)
        xid, exp_type, generation, boot, _ = request
        self.requests.append(request)
        if self.silent:
            return
        if not self.supported or (exp_type == experimenter.HOST_PATHS and not self.by_path):
            self.fabric.queue(lambda: self.fabric.engine.error(self.dpid, xid, 1, 3))
            return
        now = self.fabric.now_ns
        if exp_type == experimenter.PORT_MARKS:
            entries = [experimenter.encode_port_marks(reading) for _, reading in sorted(self.marks.items())]
        elif exp_type == experimenter.HOST_PATHS:
            entries = [experimenter.encode_path(reading) for reading in self.paths]
        else:
            counted = (self.sent.count(reading, now) for _, reading in sorted(self.vms.items()))
            entries = [experimenter.encode_vm_state(reading) for reading in counted]
        reply = experimenter.encode_reply(xid, exp_type, self.generation, self.boot, now, entries)
        self.fabric.queue(lambda: self.fabric.engine.multipart(self.dpid, reply))

    def add_marks(self, port: int, new: int) -> None:
        """Let a port's queue mark packets."""
        reading = self.marks[port]
        self.marks[port] = reading._replace(marks=reading.marks + new, packets=reading.packets + new)
        self.generation += 1

    def forward(self, in_port: int, frame: bytes) -> None:
        """Take a frame from the wire."""
        table: Optional[int] = 0
        metadata = 0
        while table is not None:
            flow = next(
                (one for one in self.flows if one.table == table and one.matches(in_port, frame, metadata)), None
            )
            if flow is None:
                return
            flow.packets += 1
            flow.octets += len(frame)
            if flow.retag is not None:
                frame = packets.retagged(frame, flow.retag)
            if flow.group is not None:
                buckets = self.groups[flow.group]
                port = sorted(buckets)[zlib.crc32(frame[26:38]) % len(buckets)]
                buckets[port] += len(frame)
                self.fabric.transmit(self.dpid, port, frame)
            for port in flow.ports:
                if port == CONTROLLER:
                    self.fabric.packet_ins += 1
                    self.fabric.queue(functools.partial(self.fabric.packet_in, self.dpid, in_port, frame))
                elif port != in_port:
                    self.fabric.transmit(self.dpid, port, self.mark(port, frame))
            table, metadata = flow.goto, flow.metadata

    def mark(self, port: int, frame: bytes) -> bytes:
        """Set CE in a frame that leaves by a port whose queue is congested."""
        if port not in self.congested or frame[12:14] != b"\x08\x00":
            return frame
        return frame[:15] + bytes((frame[15] | 3,)) + frame[16:]

    def find_pair_flow(self, source: bytes, target: bytes) -> Optional[Flow]:
        return next(
            (flow for flow in self.flows if flow.fields.get(4) == source and flow.fields.get(3) == target),
            None,
        )


class Fabric:
    """Switches, wires and the frames that reached hosts; time stands still unless moved."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000
        self.switches: dict[int, Switch] = {}
        self.wires: dict[tuple[int, int], tuple[int, int]] = {}
        self.delivered: list[tuple[tuple[int, int], bytes]] = []
        self.packet_ins = 0
        self.engine: Engine
        self._queue: list[Callable[[], object]] = []

    def clock(self) -> int:
        return self.now_ns

    def send(self, dpid: int, data: bytes) -> None:
        """Put what the controller wants sent on its way to a switch."""
        self.queue(lambda: self.switches[dpid].receive(data))

    def packet_in(self, dpid: int, in_port: int, frame: bytes) -> None:
        """Let a packet reach the controller."""
        self.engine.packet_in(dpid, in_port, frame)

    def queue(self, function: Callable[[], object]) -> None:
        self._queue.append(function)

    def settle(self) -> None:
        """Deliver everything on its way, in no time."""
        while True:
            for dpid, data in self.engine.outbox.drain():
                self.send(dpid, data)
            if not self._queue:
                return
            self._queue.pop(0)()

    def run(self, seconds: float) -> None:
        """Let time pass: timers, the controller's clock and all deliveries."""
        end = self.now_ns + round(seconds * 1e9)
        self.settle()
        while True:
            self.engine.tick()
            self.settle()
            upcoming = self.engine.next_ns()
            if upcoming > end:
                break
            self.now_ns = max(self.now_ns, upcoming)
        self.now_ns = end

    def add_switch(self, dpid: int, ports: dict[int, str]) -> Switch:
        switch = self.switches[dpid] = Switch(self, dpid, ports)
        return switch

    def plug(self, dpid: int, *numbers: int) -> None:
        """Give a connected switch further ports, named by their numbers."""
        for number in numbers:
            self.switches[dpid].ports[number] = str(number)
            self.engine.port_changed(dpid, number, str(number), bytes(6), True)

    def wire(self, near: tuple[int, int], far: tuple[int, int]) -> None:
        self.wires[near] = far
        self.wires[far] = near

    def connect(self) -> None:
        """Connect all switches to the controller and let links be found."""
        for dpid, switch in self.switches.items():
            ports = {number: (name, bytes(6), True) for number, name in switch.ports.items()}
            self.engine.switch_up(dpid, ports)
            self.settle()
        self.run(0.5)

    def transmit(self, dpid: int, port: int, frame: bytes) -> None:
        other = self.wires.get((dpid, port))
        if other is None:
            self.delivered.append(((dpid, port), frame))
        else:
            self.queue(lambda: self.switches[other[0]].forward(other[1], frame))

    def inject(self, dpid: int, port: int, frame: bytes) -> None:
        """Let a host send a frame."""
        self.switches[dpid].forward(port, frame)
        self.settle()


from sdngcc.controller.engine import Engine  # noqa: E402  (only for the annotation above)


def mac(number: int) -> bytes:
    return b"\x02\x00\x00\x00" + struct.pack("!H", number)


def ip(number: int) -> bytes:
    return b"\x0a\x00" + struct.pack("!H", number)


def arp(source: int, target: int) -> bytes:
    body = b"\x00\x01\x08\x00\x06\x04\x00\x01" + mac(source) + ip(source) + bytes(6) + ip(target)
    return b"\xff" * 6 + mac(source) + b"\x08\x06" + body


def ipv4(source: int, target: int, protocol: int = 17, port: int = 0) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, protocol, 0) + ip(source) + ip(target)
    return mac(target) + mac(source) + b"\x08\x00" + head + struct.pack("!H6x", port)


def port_reading(port: int, kinds: int = 1, count: int = 0) -> PortReading:
    return PortReading(port, kinds, count, count, 0, 0, 0, 0)


def vm_reading(port: int, sent_rate: int = 0, weight: int = 1, flags: int = experimenter.VM_ACTIVE) -> VmReading:
    return VmReading(port, 1, weight, flags, 10**8, 10**8, 0, 0, sent_rate, 0, 0, 0, 0, 0, 0)


class Sent:
    """Counters of bytes that go by what machines' readings say is sent."""

    def __init__(self) -> None:
        self._bytes: dict[int, tuple[int, int]] = {}  # by port: so many, and when

    def count(self, reading: VmReading, now_ns: int) -> VmReading:
        """Return a reading with the counter's value at a time, where the reading has none of its own."""
        before, since_ns = self._bytes.get(reading.port, (0, now_ns))
        total = before + reading.sent_rate * (now_ns - since_ns) // 1_000_000_000
        self._bytes[reading.port] = (total, now_ns)
        return reading if reading.tx_bytes else reading._replace(tx_bytes=total)
