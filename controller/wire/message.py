# SPDX-License-Identifier: Apache-2.0
"""Control messages v0 (the paper's form), v1 and v2, as bytes after the IP header.

Version 1 is 96 bytes in network order, ending in a SipHash-2-4 tag over the first 88; version 0 is the
mark count in 2 bytes.  Version 2 tells of parts of what a machine sends, by destination: 56 bytes and 40 for each part.
docs/protocol.md has the layout, shim/core/message.h the C side of it.
"""

import dataclasses
import struct
from typing import NamedTuple

from sdngcc.controller.wire.siphash import siphash24

MAGIC = 0x5347
TYPE_MARKS = 1
TYPE_RATE = 2
TYPE_REPORT = 3
TYPE_LEVEL = 4  # v1 only
V1_BYTES = 96
V0_BYTES = 2
V0_MARKS_MAX = 0xFFFF
V2_BYTES = 56  # without entries
ENTRY_BYTES = 40
ENTRIES_MAX = 32  # in one v2 message
SCOPE_DESTINATION = 0  # a prefix is one of packets' destinations ...
SCOPE_TUNNEL = 1  # ... or of the far ends of the tunnels they go into
RATE_MIN = 125  # slowest and fastest explicit rate, bytes/s: 1 kb/s and 800 Gb/s
RATE_MAX = 100_000_000_000

_V1 = struct.Struct("!HBBHHII16s16sQIIQQII")
_V2 = struct.Struct("!HBBHHII16sIB3xQ")
_ENTRY = struct.Struct("!Q16sBB2xI8s")
_ENTRY_RATE = struct.Struct("!Q")
_ENTRY_MARKS = struct.Struct("!II")
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
    rate: int = 0  # explicit rate or level, bytes/s, RATE_MIN to RATE_MAX; 0: none
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


def _seal(body: bytes, key: bytes) -> bytes:
    return body + _TAG.pack(siphash24(key, body))


def encode_v1(message: Message, key: bytes) -> bytes:
    """Return the 96 bytes of a v1 message with its tag; struct.error when a field is out of its range."""
    body = _V1.pack(
        MAGIC, 1, message.type, message.flags, V1_BYTES, message.epoch, message.sequence,
        message.vm, message.peer, message.point_datapath, message.point_port, message.marks,
        message.interval_ns, message.rate, message.weight_total, message.sender,
    )  # fmt: skip
    return _seal(body, key)


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
    if kind not in (TYPE_MARKS, TYPE_RATE, TYPE_REPORT, TYPE_LEVEL) or flags != 0:
        raise MessageError("form", f"type {kind} with flags {flags:#06x} is not defined")
    if kind in (TYPE_RATE, TYPE_LEVEL) and not RATE_MIN <= rate <= RATE_MAX:
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


class PathEntry(NamedTuple):
    """What a teller says of a part of what a machine sends: that to addresses which begin as ``prefix`` does.

    With ``bits`` 0 it is the rest: what no other path takes.
    """

    teller: int  # congestion point or controller, 64 bits; not 0
    prefix: bytes  # 16 bytes, IPv4 as ::ffff:a.b.c.d; bits that do not count are 0
    bits: int  # of the prefix that count, 0 to 128; an IPv4 prefix has 96 more than its length
    scope: int = SCOPE_DESTINATION
    weight_total: int = 0  # sum of the weights sharing the point; 0: unknown
    rate: int = 0  # explicit rate, bytes/s, RATE_MIN to RATE_MAX; of TYPE_RATE only
    marks: int = 0  # this part's of the marks; of TYPE_MARKS only
    interval_ns: int = 0  # time over which they were counted, below 2**32; 0: unknown; of TYPE_MARKS only


@dataclasses.dataclass(frozen=True)
class PathMessage:
    """What one sender tells a machine's shim of parts of what it sends; 1 to ENTRIES_MAX entries."""

    vm: bytes  # virtual machine told, 16 bytes
    entries: tuple[PathEntry, ...]
    rate: int = 0  # of TYPE_RATE: explicit rate of all that the machine sends, bytes/s; 0: not told
    sender: int = 0  # id of the sender, chosen by the operator
    epoch: int = 0  # start of the sender, seconds since 1970
    sequence: int = 0  # of the sender, over all machines, from 1
    type: int = TYPE_RATE  # or TYPE_MARKS
    flags: int = 0  # none defined


def encode_v2(message: PathMessage, key: bytes) -> bytes:
    """Return the bytes of a v2 message with its tag; struct.error when a field is out of its range."""
    entries = b"".join([pack_entry(entry, message.type) for entry in message.entries])
    head = _V2.pack(
        MAGIC, 2, message.type, message.flags, V2_BYTES + len(entries), message.epoch, message.sequence, message.vm,
        message.sender, len(message.entries), message.rate,
    )  # fmt: skip
    return _seal(head + entries, key)


def pack_entry(entry: PathEntry, kind: int) -> bytes:
    """Return an entry as a message of a type has it; struct.error when a field is out of its range."""
    if kind == TYPE_RATE:
        said = _ENTRY_RATE.pack(entry.rate)
    else:
        said = _ENTRY_MARKS.pack(entry.marks, entry.interval_ns)
    return _ENTRY.pack(entry.teller, entry.prefix, entry.bits, entry.scope, entry.weight_total, said)


def decode_v2(data: bytes, key: bytes) -> PathMessage:
    """Return the message in ``data``; raises MessageError naming what is wrong with it."""
    if len(data) < V1_BYTES:
        raise MessageError("short", f"message has {len(data)} bytes; version 2 needs {V1_BYTES}")
    magic, version, kind, flags, length, epoch, sequence, vm, sender, count, rate = _V2.unpack_from(data)
    if magic != MAGIC or version != 2 or length != len(data):
        raise MessageError("form", f"magic {magic:#06x}, version {version}, length {length} is no version 2")
    if not 1 <= count <= ENTRIES_MAX or any(data[37:40]):
        raise MessageError("form", f"{count} entries are not 1 to {ENTRIES_MAX}, or what follows is not 0")
    if length != V2_BYTES + ENTRY_BYTES * count:
        raise MessageError("form", f"{count} entries do not make a message of {length} bytes")
    if kind not in (TYPE_MARKS, TYPE_RATE) or flags != 0:
        raise MessageError("form", f"type {kind} with flags {flags:#06x} is not defined")
    if rate and (kind == TYPE_MARKS or not RATE_MIN <= rate <= RATE_MAX):
        raise MessageError("form", f"rate {rate} bytes/s is not within {RATE_MIN} to {RATE_MAX}, or not of type 2")
    if epoch == 0 or sequence == 0:
        raise MessageError("form", f"epoch {epoch} and sequence {sequence} must not be 0")
    entries = tuple(_unpack_entry(data, _V2.size + ENTRY_BYTES * number, kind) for number in range(count))
    if _TAG.unpack_from(data, length - 8)[0] != siphash24(key, data[:-8]):
        raise MessageError("tag", "tag does not match: other key, or a forged message")
    return PathMessage(
        vm=vm, entries=entries, rate=rate, sender=sender, epoch=epoch, sequence=sequence, type=kind, flags=flags
    )


def _unpack_entry(data: bytes, offset: int, kind: int) -> PathEntry:
    teller, prefix, bits, scope, weight_total, said = _ENTRY.unpack_from(data, offset)
    if teller == 0 or any(data[offset + 26 : offset + 28]):
        raise MessageError("form", f"teller {teller} must not be 0, and two bytes of an entry must be")
    if scope not in (SCOPE_DESTINATION, SCOPE_TUNNEL) or (scope and not bits):
        raise MessageError("form", f"scope {scope} is not defined for a prefix of {bits} bits")
    if bits > 128 or int.from_bytes(prefix, "big") & ((1 << (128 - bits)) - 1):
        raise MessageError("form", f"prefix {prefix.hex()} has more than its {bits} bits, of 128 at most")
    if kind == TYPE_MARKS:
        marks, interval = _ENTRY_MARKS.unpack(said)
        return PathEntry(teller, prefix, bits, scope, weight_total, marks=marks, interval_ns=interval)
    rate = _ENTRY_RATE.unpack(said)[0]
    if not RATE_MIN <= rate <= RATE_MAX:
        raise MessageError("form", f"rate {rate} bytes/s is not within {RATE_MIN} to {RATE_MAX}")
    return PathEntry(teller, prefix, bits, scope, weight_total, rate=rate)


def encode_v0(marks: int) -> bytes:
    """Return the 2 bytes of a v0 message; counts above 65535 are sent as 65535, all the form can carry."""
    return struct.pack("!H", min(marks, V0_MARKS_MAX))


def decode_v0(data: bytes) -> Message:
    """Return the marks of a v0 message; raises MessageError unless it has 2 bytes."""
    if len(data) != V0_BYTES:
        reason = "short" if len(data) < V0_BYTES else "form"
        raise MessageError(reason, f"message has {len(data)} bytes; version 0 has {V0_BYTES}")
    return Message(vm=_UNSPECIFIED, peer=_UNSPECIFIED, marks=struct.unpack_from("!H", data)[0])
