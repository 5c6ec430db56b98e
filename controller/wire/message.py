# SPDX-License-Identifier: Apache-2.0
"""Control messages v0 (the paper's form) and v1, as bytes after the IP header.

Version 1 is 96 bytes in network order, ending in a SipHash-2-4 tag over the first 88; version 0 is the
mark count in 2 bytes.  docs/protocol.md has the layout, shim/core/message.h the C side of it.
"""

import dataclasses
import struct

from sdngcc.controller.wire.siphash import siphash24

MAGIC = 0x5347
TYPE_MARKS = 1
TYPE_RATE = 2
TYPE_REPORT = 3
V1_BYTES = 96
V0_BYTES = 2
V0_MARKS_MAX = 0xFFFF
RATE_MIN = 125  # slowest and fastest explicit rate, bytes/s: 1 kb/s and 800 Gb/s
RATE_MAX = 100_000_000_000

_V1 = struct.Struct("!HBBHHII16s16sQIIQQII")
_TAG = struct.Struct("!Q")
_UNSPECIFIED = bytes(16)


class MessageError(ValueError):
    """A message that is refused; ``reason`` is short, form or tag, as the shim counts them."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclasses.dataclass(frozen=True)
class Message:
    """What a congestion point, or in a report a peer's shim, tells a virtual machine's shim.

    Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d. A report has other numbers in three places: `bytes`, `lost`
    and `packets`.
    """

    vm: bytes  # virtual machine told
    peer: bytes  # its destination behind the congestion point
    marks: int  # this machine's part of the marks
    interval_ns: int = 0  # time over which they were counted; 0: unknown
    rate: int = 0  # explicit rate, bytes/s, RATE_MIN to RATE_MAX; 0: none
    weight_total: int = 0  # sum of the weights sharing the point; 0: unknown
    point_datapath: int = 0  # congestion point: OpenFlow datapath id ...
    point_port: int = 0  # ... and port number
    sender: int = 0  # id of the sender, chosen by the operator
    epoch: int = 0  # start of the sender, seconds since 1970
    sequence: int = 0  # of the sender, over all machines, from 1
    type: int = TYPE_MARKS
    flags: int = 0  # none defined

    @property
    def bytes(self) -> int:
        """Of a report: bytes received from the machine over the interval."""
        return self.point_datapath

    @property
    def lost(self) -> int:
        """Of a report: packets missing among those from the machine."""
        return self.point_port

    @property
    def packets(self) -> int:
        """Of a report: packets received from the machine over the interval."""
        return self.weight_total


def encode_v1(message: Message, key: bytes) -> bytes:
    """Return the 96 bytes of a v1 message with its tag; struct.error when a field is out of its range."""
    body = _V1.pack(
        MAGIC, 1, message.type, message.flags, V1_BYTES, message.epoch, message.sequence,
        message.vm, message.peer, message.point_datapath, message.point_port, message.marks,
        message.interval_ns, message.rate, message.weight_total, message.sender,
    )  # fmt: skip
    return body + _TAG.pack(siphash24(key, body))


def decode_v1(data: bytes, key: bytes) -> Message:
    """Return the message in ``data``; raises MessageError naming what is wrong with it."""
    if len(data) < V1_BYTES:
        raise MessageError("short", f"message has {len(data)} bytes; version 1 needs {V1_BYTES}")
    if len(data) > V1_BYTES:
        raise MessageError("form", f"message has {len(data)} bytes; version 1 has {V1_BYTES}")
    body = data[: V1_BYTES - 8]
    (
        magic, version, kind, flags, length, epoch, sequence, vm, peer, datapath, port, marks, interval, rate,
        weight, sender,
    ) = _V1.unpack(body)  # fmt: skip
    if magic != MAGIC or version != 1 or length != V1_BYTES:
        raise MessageError("form", f"magic {magic:#06x}, version {version}, length {length} is no version 1")
    if kind not in (TYPE_MARKS, TYPE_RATE, TYPE_REPORT) or flags != 0:
        raise MessageError("form", f"type {kind} with flags {flags:#06x} is not defined")
    if kind == TYPE_RATE and not RATE_MIN <= rate <= RATE_MAX:
        raise MessageError("form", f"rate {rate} bytes/s is not within {RATE_MIN} to {RATE_MAX}")
    if kind == TYPE_REPORT and marks > weight:
        raise MessageError("form", f"a report of {weight} packets cannot have {marks} marks")
    if epoch == 0 or sequence == 0:
        raise MessageError("form", f"epoch {epoch} and sequence {sequence} must not be 0")
    if _TAG.unpack_from(data, V1_BYTES - 8)[0] != siphash24(key, body):
        raise MessageError("tag", "tag does not match: other key, or a forged message")
    return Message(
        vm=vm, peer=peer, marks=marks, interval_ns=interval, rate=rate, weight_total=weight,
        point_datapath=datapath, point_port=port, sender=sender, epoch=epoch, sequence=sequence, type=kind,
        flags=flags,
    )  # fmt: skip


def encode_v0(marks: int) -> bytes:
    """Return the 2 bytes of a v0 message; counts above 65535 are sent as 65535, all the form can carry."""
    return struct.pack("!H", min(marks, V0_MARKS_MAX))


def decode_v0(data: bytes) -> Message:
    """Return the marks of a v0 message; raises MessageError unless it has 2 bytes."""
    if len(data) != V0_BYTES:
        reason = "short" if len(data) < V0_BYTES else "form"
        raise MessageError(reason, f"message has {len(data)} bytes; version 0 has {V0_BYTES}")
    return Message(vm=_UNSPECIFIED, peer=_UNSPECIFIED, marks=struct.unpack_from("!H", data)[0])
