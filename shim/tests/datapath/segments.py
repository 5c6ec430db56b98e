# SPDX-License-Identifier: Apache-2.0
"""TCP segments as raw frames: made whole, and taken apart with their checksums verified."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Callable, Dict

from lab import NOT_ECT, U_6, V1, V1_6, U, checksum, ecn_of, ipv4, ipv6

TCP = 6
FIN, SYN, RST, PSH, ACK, ECE, CWR = 0x01, 0x02, 0x04, 0x08, 0x10, 0x40, 0x80
SCALE = 7
# Options of a SYN as Linux sends them: MSS 1460, SACK permitted, timestamps, NOP, window scale 7.
SYN_OPTIONS = bytes.fromhex("020405b4" "0402" "080a0000000100000000" "01" "030307")
# And of other segments: NOP, NOP, timestamps.
OPTIONS = bytes.fromhex("0101" "080a0000000200000001")


@dataclass(frozen=True)
class Form:
    """A kind of packet around TCP."""

    vm: str
    peer: str
    wrap: Callable[[str, str, bytes, int], bytes]
    """(source, destination, TCP header and payload, ECN field) to a frame."""

    @property
    def family(self) -> int:
        """AF_INET or AF_INET6."""
        return socket.AF_INET6 if ":" in self.vm else socket.AF_INET


FORMS: Dict[str, Form] = {
    "IPv4": Form(V1, U, lambda src, dst, data, ecn: ipv4(src, dst, data, protocol=TCP, ecn=ecn)),
    "IPv4 in a VLAN": Form(V1, U, lambda src, dst, data, ecn: ipv4(src, dst, data, protocol=TCP, ecn=ecn, vlan=True)),
    "IPv6": Form(V1_6, U_6, lambda src, dst, data, ecn: ipv6(src, dst, data, protocol=TCP, ecn=ecn)),
    "IPv6 in a VLAN": Form(V1_6, U_6, lambda src, dst, data, ecn: ipv6(src, dst, data, protocol=TCP, ecn=ecn,
                                                                       vlan=True)),
}


def pseudo(form: Form, src: str, dst: str, data: bytes) -> bytes:
    """Return the pseudo-header and the segment, padded to an even length."""
    head = socket.inet_pton(form.family, src) + socket.inet_pton(form.family, dst)
    head += struct.pack("!HBBHH", 0, 0, TCP, 0, len(data)) if form.family == socket.AF_INET6 else struct.pack(
        "!BBH", 0, TCP, len(data))
    return head + data + bytes(len(data) % 2)


@dataclass(frozen=True)
class Segment:
    """What a frame carried."""

    flags: int
    window: int
    ecn: int
    right: bool
    """The TCP checksum was right."""


class Talk:
    """One connection between v1 and u in a form: makes frames of both sides."""

    def __init__(self, form: Form, port: int) -> None:
        """Port is v1's; u's is 5001."""
        self.form, self.port = form, port

    def _frame(self, out: bool, flags: int, seq: int, ack: int, payload: bytes, window: int, ecn: int,
               options: bytes, offset: int, damage: int) -> bytes:
        form, ports = self.form, (self.port, 5001)
        src, dst = (form.vm, form.peer) if out else (form.peer, form.vm)
        words = (offset or (20 + len(options)) // 4) << 12 | flags
        head = struct.pack("!HHIIHHHH", *(ports if out else ports[::-1]), seq % 2**32, ack % 2**32, words, window, 0, 0)
        data = head + options + payload
        total = checksum(pseudo(form, src, dst, data)) ^ damage
        return form.wrap(src, dst, data[:16] + struct.pack("!H", total) + data[18:], ecn)

    def out(self, flags: int = ACK, seq: int = 1, ack: int = 1, payload: bytes = b"", window: int = 500,
            ecn: int = NOT_ECT, options: bytes = OPTIONS, offset: int = 0, damage: int = 0) -> bytes:
        """Return a frame of v1."""
        return self._frame(True, flags, 1000 + seq, 5000 + ack, payload, window, ecn, options, offset, damage)

    def back(self, flags: int = ACK, seq: int = 1, ack: int = 1, payload: bytes = b"", window: int = 60000,
             ecn: int = NOT_ECT, options: bytes = OPTIONS, offset: int = 0, damage: int = 0) -> bytes:
        """Return a frame of u."""
        return self._frame(False, flags, 5000 + seq, 1000 + ack, payload, window, ecn, options, offset, damage)

    def read(self, frame: bytes, out: bool) -> Segment:
        """Take a frame of this connection apart."""
        form = self.form
        start = 18 if frame[12:14] == b"\x81\x00" else 14
        if form.family == socket.AF_INET:
            length, header = struct.unpack("!H", frame[start + 2:start + 4])[0], 20
        else:
            length, header = struct.unpack("!H", frame[start + 4:start + 6])[0] + 40, 40
        data = frame[start + header:start + length]
        words, window = struct.unpack("!HH", data[12:16])
        src, dst = (form.vm, form.peer) if out else (form.peer, form.vm)
        return Segment(words & 0x1FF, window, ecn_of(frame), not checksum(pseudo(form, src, dst, data)))
