# SPDX-License-Identifier: Apache-2.0
"""Switches for load: many OpenFlow 1.3 connections in one process, each answer made once and sent again.

``python -m sdngcc.testbed.bench.stub ADDRESS PORT SWITCHES PORTS PACKET_INS_A_SECOND MARKS_EVERY_S SECONDS`` prints
a line of JSON with what was counted once the time is over. The first switch is a bridge with machines on ports 1 and 2,
whose port 2 has a marking queue; MARKS_EVERY_S seconds apart its marks grow, and the time from the reply that shows
it to the message is taken.
"""

import json
import selectors
import socket
import struct
import sys
import time
from typing import Dict, List

from sdngcc.controller.wire import experimenter, openflow

_XID = struct.Struct("!I")
_PORT_STATS_BYTES = 112
_READY_S = 3.0  # machines talk, and load begins, this long after the last handshake


def _header(kind: int, body: bytes, xid: int = 0) -> bytes:
    return struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body


def _mac(number: int) -> bytes:
    return b"\x02\x00\x00\x00" + struct.pack("!H", number)


def _ip(number: int) -> bytes:
    return b"\x0a\x00" + struct.pack("!H", number)


def _arp(source: int, target: int) -> bytes:
    body = b"\x00\x01\x08\x00\x06\x04\x00\x01" + _mac(source) + _ip(source) + bytes(6) + _ip(target)
    return b"\xff" * 6 + _mac(source) + b"\x08\x06" + body


def _ipv4(source: int, target: int) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, 17, 0) + _ip(source) + _ip(target)
    return _mac(target) + _mac(source) + b"\x08\x00" + head + bytes(8)


def _packet_in(port: int, frame: bytes) -> bytes:
    fields = struct.pack("!HHIHH", 1, 12, 0x80000004, port >> 16, port & 0xFFFF) + bytes(4)
    return _header(10, struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 0, 0, 0) + fields + bytes(2) + frame)


class Switch:
    """One connection."""

    def __init__(self, load: "Load", dpid: int, ports: int) -> None:
        self.load, self.dpid = load, dpid
        self.sock = socket.create_connection((load.address, load.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ready = False
        self.marks = 0
        self._buffer = b""
        self._vms = [1, 2] if dpid == 1 else []
        numbers = range(1, ports + 1)
        self._ports = b"".join(
            struct.pack("!I4x6s2x16sIIIIIIII", number, _mac(dpid * 64 + number), b"p%d" % number, *[0] * 8)
            for number in numbers
        )
        self._port_stats = b"".join(struct.pack("!I", number) + bytes(_PORT_STATS_BYTES - 4) for number in numbers)
        self._quiet = [experimenter.PortReading(number, 1, 0, 0, 0, 0, 0, 0) for number in numbers]
        self._told = -1
        self.sock.sendall(_header(0, b"", 1))

    def serve(self, now: float) -> None:
        """Take what arrived and answer it; raises ConnectionError when the controller hung up."""
        received = self.sock.recv(262144)
        if not received:
            raise ConnectionError(f"the controller ended the connection of switch {self.dpid}")
        data = self._buffer + received
        place, answers = 0, []
        while len(data) - place >= 8:
            length = data[place + 2] << 8 | data[place + 3]
            if len(data) - place < length:
                break
            answers.append(self._answer(data[place : place + length], now))
            place += length
        self._buffer = data[place:]
        self.sock.sendall(b"".join(answers))

    def _answer(self, data: bytes, now: float) -> bytes:
        kind, xid = data[1], _XID.unpack_from(data, 4)[0]
        if kind == openflow.OFPT_MULTIPART_REQUEST:
            part = struct.unpack_from("!H", data, 8)[0]
            if part == openflow.OFPMP_EXPERIMENTER:
                return self._experimenter(data, xid, now)
            head = struct.pack("!HH4x", part, 0)
            if part == 4:
                self.load.counts["port_stats"] += 1
                return _header(19, head + self._port_stats, xid)
            if part == 13:
                self.ready = True
                return _header(19, head + self._ports, xid)
            return _header(19, head, xid)
        if kind == openflow.OFPT_PACKET_OUT:
            self.load.counts["packet_outs"] += 1
            self.load.take_packet_out(data, now)
        elif kind == 2:
            return _header(3, data[8:], xid)
        elif kind == 5:
            return _header(6, struct.pack("!QIBB2xII", self.dpid, 0, 1, 0, 0x47, 0), xid)
        return b""

    def _experimenter(self, data: bytes, xid: int, now: float) -> bytes:
        _, kind, *_ = experimenter.decode_request(data)
        if kind == experimenter.VM_STATE:
            state = [
                experimenter.VmReading(port, 1, 1, experimenter.VM_ACTIVE, 10**8, 10**8, 0, 0, 10**6, *[0] * 6)
                for port in self._vms
            ]
            entries = [experimenter.encode_vm_state(reading) for reading in state]
        else:
            self.load.counts["polls"] += 1
            moved = self._quiet if self._told < 0 else []
            if self._told != self.marks and self._told >= 0:
                moved = [experimenter.PortReading(2, 1, self.marks, self.marks, 0, 0, 0, 0)]
                self.load.shown = time.monotonic()
            self._told = self.marks
            entries = [experimenter.encode_port_marks(reading) for reading in moved]
        return experimenter.encode_reply(xid, kind, self.marks + 1, 9, int(now * 1e9), entries)


class Load:
    """All switches and what is counted."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.counts: Dict[str, int] = {"polls": 0, "port_stats": 0, "packet_outs": 0, "packet_ins": 0}
        self.latency_us: List[float] = []
        self.shown = 0.0

    def take_packet_out(self, data: bytes, now: float) -> None:
        """Take the time of a message to a machine."""
        frame = data[24 + struct.unpack_from("!H", data, 16)[0] :]
        if self.shown and frame[12:14] == b"\x08\x00" and frame[23] == 253:
            self.latency_us.append((time.monotonic() - self.shown) * 1e6)
            self.shown = 0.0

    def run(self, switches: int, ports: int, packet_ins: float, marks_every_s: float, seconds: float) -> None:
        """Connect, wait for the handshakes, and serve; counts are those of the last ``seconds``."""
        selector = selectors.DefaultSelector()
        line = [Switch(self, dpid, ports) for dpid in range(1, switches + 1)]
        for one in line:
            selector.register(one.sock, selectors.EVENT_READ, one)

        def serve(until: float, wait_s: float) -> None:
            while (now := time.monotonic()) < until:
                for key, _ in selector.select(min(wait_s, until - now)):
                    key.data.serve(time.monotonic())

        while not all(one.ready for one in line):
            serve(time.monotonic() + 0.1, 0.1)
        serve(time.monotonic() + _READY_S, 0.1)
        bridge = line[0].sock
        for frame_port, frame in ((1, _arp(1, 2)), (2, _arp(2, 1)), (1, _ipv4(1, 2)), (2, _ipv4(2, 1))):
            bridge.sendall(_packet_in(frame_port, frame))
        serve(time.monotonic() + 1.0, 0.1)
        print("loaded", flush=True)
        self.counts.update(dict.fromkeys(self.counts, 0))
        start = time.monotonic()
        mark_at, sent = start + marks_every_s, 0
        frame = _packet_in(1, _ipv4(1, 2))
        while (now := time.monotonic()) < start + seconds:
            due = int((now - start) * packet_ins) - sent
            if due > 0:
                bridge.sendall(frame * min(due, 64))
                sent += min(due, 64)
            if marks_every_s and now >= mark_at:
                line[0].marks += 8
                mark_at = now + marks_every_s
            serve(time.monotonic() + 0.001, 0.001)
        self.counts["packet_ins"] = sent
        self.latency_us.sort()
        print(json.dumps({"seconds": time.monotonic() - start, "latency_us": self.latency_us, **self.counts}))


if __name__ == "__main__":
    address, port, switches, ports, packet_ins, marks_every_s, seconds = sys.argv[1:]
    Load(address, int(port)).run(int(switches), int(ports), float(packet_ins), float(marks_every_s), float(seconds))
