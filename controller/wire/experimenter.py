# SPDX-License-Identifier: Apache-2.0
"""The experimenter messages of the patched ovs-vswitchd: marks of ports, state of virtual machines, whom they talk to.

OpenFlow 1.3 has no field for any of it.  docs/protocol.md has the layout, include/openflow/shim-ext.h of the
patches the C side of it.
"""

import dataclasses
import struct
from typing import Any, Iterable, Iterator, NamedTuple, Optional

from sdngcc.controller.wire import openflow

EXPERIMENTER = 0x00025347
PORT_MARKS = 1
VM_STATE = 2
HOST_VMS = 3
HOST_PEERS = 4
VM_MESSAGES = 5
HOST_PATHS = 6
PATH_MESSAGES = 7

# Entries that a reply may have in all its parts, by its type: more ports, VMs, paths and addresses than a host has.
# A VM has an entry for each of its uplinks.
UPLINKS_MAX = 8
ENTRIES_MAX = {
    PORT_MARKS: openflow.PORTS_MAX,
    VM_STATE: 2048,
    HOST_VMS: 2048,
    HOST_PEERS: 65_536,
    HOST_PATHS: 65_536,
}

KINDS = {1: "red", 2: "fq_codel", 4: "codel", 8: "cake", 16: "choke"}

VM_ACTIVE = 1
VM_CONGESTED = 2

PATH_LIMITED = 1

_REQUEST = struct.Struct("!QQI4x")
_REPLY = struct.Struct("!QQQII")
_MARKS = struct.Struct("!IIQQQQII")
_STATE = struct.Struct("!IIIIQQQQQQQQIIQ")
_PEER = struct.Struct("!IIH6x16s16s16sQQQQQQ")
_PATH = struct.Struct("!II16sBB2xIQQQQQ")
_MESSAGE = struct.Struct("!I4x96s")
_PATH_MESSAGE = struct.Struct("!IH2x")  # in front of a message
_EXPERIMENTER = struct.Struct("!BBHIII")  # OpenFlow header, experimenter header
_SIZES = {
    PORT_MARKS: _MARKS.size,
    VM_STATE: _STATE.size,
    HOST_VMS: _STATE.size,
    HOST_PEERS: _PEER.size,
    HOST_PATHS: _PATH.size,
}
_PART = struct.Struct("!BBHIHH4xII")  # OpenFlow header, multipart header, experimenter header
_WHOLE = struct.Struct("!4xI2xH4xIIQQQII")  # what a reply begins with: _PART and _REPLY, but for what is known by now


class PortReading(NamedTuple):
    """What a port's queues have counted."""

    port: int
    kinds: int  # bits of KINDS; 0: no mark counter
    marks: int  # since the switch started
    packets: int  # sent
    bytes: int  # sent
    drops: int
    backlog_bytes: int
    backlog_packets: int


class VmReading(NamedTuple):
    """What the shim knows of a virtual machine; rates in bytes/s.

    Of VM_STATE port and uplink are OpenFlow ports of the bridge asked, of HOST_VMS the kernel's indexes of the devices.
    """

    port: int
    uplink: int
    weight: int
    flags: int  # VM_ACTIVE, VM_CONGESTED
    rate: int  # R(i,j), the limit in force
    share: int  # E(i), its part of the uplink
    min_rate: int
    max_rate: int
    sent_rate: int  # over the shim's last period
    tx_bytes: int
    tx_packets: int
    drops: int
    messages: int
    refused: int
    message_marks: int


class PeerReading(NamedTuple):
    """What a virtual machine exchanged with one remote address; addresses have 16 bytes, IPv4 as ::ffff:a.b.c.d.

    A counter that is less than before began anew.
    """

    vm: int  # the kernel's index of the device
    uplink: int  # the same of the uplink; 0: unknown
    vlan: int  # by which the address is reached; 0: untagged
    remote: bytes
    local: bytes  # the machine's own address, as the uplink has it
    tunnel: bytes  # far end of the tunnel; zeros: none
    tunnel_id: int
    tx_bytes: int
    tx_packets: int
    rx_bytes: int
    rx_packets: int
    rx_marks: int  # packets received with CE


class PathReading(NamedTuple):
    """What a machine sent by one path, and may send; rates in bytes/s.

    A path that ended is told no more. A counter that is less than before began anew.
    """

    vm: int  # the kernel's index of the device
    flags: int  # PATH_LIMITED: its bucket held packets back in the shim's last period
    prefix: bytes  # 16 bytes, IPv4 as ::ffff:a.b.c.d
    bits: int  # of the prefix that count; 0: the rest
    scope: int  # message.SCOPE_DESTINATION or SCOPE_TUNNEL
    port: int  # of the bridge asked that is the machine's; 0: none of it
    rate: int  # in force
    sent_rate: int  # over the shim's last period; 0: idle
    tx_bytes: int
    tx_packets: int
    held: int  # packets that its bucket let wait, or dropped


class ReplyError(ValueError):
    """A reply that cannot be read; the text says why."""


class Reply(NamedTuple):
    """One whole experimenter reply."""

    exp_type: int
    generation: int
    boot: int
    time_ns: int  # clock of the switch
    entries: list[bytes]  # packed entries of each part


def count(reply: Reply) -> int:
    """Return how many entries a reply has."""
    return sum(map(len, reply.entries)) // _SIZES[reply.exp_type]


def kind_of(data: bytes) -> Optional[int]:
    """Return the type of an experimenter reply of ours, None for others' and for one that is too short for its head.

    The rest of a message says nothing until it is known that the reply was asked for.
    """
    if len(data) < _WHOLE.size:
        return None
    _, _, experimenter, exp_type, *_ = _WHOLE.unpack_from(data)
    return exp_type if experimenter == EXPERIMENTER and exp_type in _SIZES else None


@dataclasses.dataclass
class _Begun:
    """A reply whose last part is awaited."""

    xid: int
    parts: list[bytes] = dataclasses.field(default_factory=list)
    count: int = 0  # entries so far


class Assembler:
    """Puts the parts of multipart replies together, one reply a switch and type at a time.

    Only replies that were asked for may be fed, so what is kept is as old as a question at most.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], _Begun] = {}

    def forget(self, dpid: int) -> None:
        """Drop what a switch began to say."""
        for exp_type in _SIZES:
            self._begun.pop((dpid, exp_type), None)

    def feed(self, dpid: int, data: bytes, most: Optional[int] = None) -> Optional[Reply]:
        """Take a multipart reply message; return the whole reply once its last part is in.

        Raises ReplyError for one that is truncated, of inconsistent length, has more than ``most`` entries (None: as
        many as its type allows) or parts without entries that say that more follow; what came of it is forgotten.
        Other experimenters' replies give None.
        """
        if len(data) < _WHOLE.size:
            raise ReplyError(f"experimenter reply has {len(data)} bytes; at least {_WHOLE.size} needed")
        xid, flags, experimenter, exp_type, generation, boot, time_ns, count, length = _WHOLE.unpack_from(data)
        size = _SIZES.get(exp_type)
        if experimenter != EXPERIMENTER or size is None:
            return None
        begun = self._begun.pop((dpid, exp_type), None)
        begun = begun if begun is not None and begun.xid == xid else _Begun(xid)
        more = bool(flags & openflow.OFPMPF_REPLY_MORE)
        length = length or size
        if len(data) - _WHOLE.size != count * length:
            raise ReplyError(
                f"experimenter reply has {len(data) - _WHOLE.size} bytes for {count} entries of {length} bytes"
            )
        begun.count += count
        allowed = ENTRIES_MAX[exp_type] if most is None else most
        if begun.count > allowed:
            raise ReplyError(f"experimenter reply has more than {allowed} entries; forgotten")
        if more and not count:
            raise ReplyError("experimenter reply without entries says that more follow; forgotten")
        entries = data[_WHOLE.size :]
        begun.parts.append(entries if length == size else _as_known(entries, length, size))
        if more:
            self._begun[dpid, exp_type] = begun
            return None
        return Reply(exp_type, generation, boot, time_ns, begun.parts)


def _as_known(entries: bytes, length: int, size: int) -> bytes:
    """Return entries of another version, of length bytes each, as size bytes each: what is not known yet is left out.

    What the switch does not know yet is 0.
    """
    cut = (entries[begin : begin + min(length, size)] for begin in range(0, len(entries), length))
    return b"".join(entry.ljust(size, b"\0") for entry in cut)


def marks_request(xid: int, generation: int, boot: int) -> bytes:
    """Return the OpenFlow message that asks for the marks of all ports that moved after a generation."""
    body = _REQUEST.pack(generation, boot, openflow.OFPP_ANY)
    return openflow.experimenter_request(xid, EXPERIMENTER, PORT_MARKS, body)


def slices(reply: Reply, most: int) -> Iterator[list[Any]]:
    """Yield the entries of a PORT_MARKS or HOST_PEERS reply, at most so many at a time."""
    made, packed = (PortReading, _MARKS) if reply.exp_type == PORT_MARKS else (PeerReading, _PEER)
    for part in reply.entries:
        for place in range(0, len(part), most * packed.size):
            yield [made(*entry) for entry in packed.iter_unpack(part[place : place + most * packed.size])]


def port_readings(reply: Reply) -> list[PortReading]:
    """Return the entries of a PORT_MARKS reply."""
    return [PortReading(*entry) for part in reply.entries for entry in _MARKS.iter_unpack(part)]


def vm_state_request(xid: int) -> bytes:
    """Return the OpenFlow message that asks a bridge for the state of all its virtual machines."""
    return openflow.experimenter_request(xid, EXPERIMENTER, VM_STATE, _REQUEST.pack(0, 0, openflow.OFPP_ANY))


def vm_readings(reply: Reply) -> list[VmReading]:
    """Return the entries of a VM_STATE reply."""
    return [VmReading(*entry) for part in reply.entries for entry in _STATE.iter_unpack(part)]


def vm_reading(entries: bytes, row: int) -> VmReading:
    """Return one of the packed entries of a VM_STATE reply."""
    return VmReading._make(_STATE.unpack_from(entries, row * _STATE.size))


def host_vms_request(xid: int, generation: int, boot: int) -> bytes:
    """Return the OpenFlow message that asks a host for the VMs whose state moved after a generation."""
    body = _REQUEST.pack(generation, boot, openflow.OFPP_ANY)
    return openflow.experimenter_request(xid, EXPERIMENTER, HOST_VMS, body)


def all_host_vms_request(xid: int) -> bytes:
    """Return the OpenFlow message that asks a host for the state of all its VMs."""
    return host_vms_request(xid, 0, 0)


def host_peers_request(xid: int, generation: int, boot: int) -> bytes:
    """Return the OpenFlow message that asks a host for the conversations that moved after a generation."""
    body = _REQUEST.pack(generation, boot, openflow.OFPP_ANY)
    return openflow.experimenter_request(xid, EXPERIMENTER, HOST_PEERS, body)


def peer_readings(reply: Reply) -> list[PeerReading]:
    """Return the entries of a HOST_PEERS reply."""
    return [PeerReading(*entry) for part in reply.entries for entry in _PEER.iter_unpack(part)]


def host_paths_request(xid: int, generation: int, boot: int) -> bytes:
    """Return the OpenFlow message that asks a host for the paths of its machines that moved after a generation."""
    body = _REQUEST.pack(generation, boot, openflow.OFPP_ANY)
    return openflow.experimenter_request(xid, EXPERIMENTER, HOST_PATHS, body)


def path_readings(entries: bytes) -> list[PathReading]:
    """Return the entries of a HOST_PATHS reply."""
    return [PathReading(*entry) for entry in _PATH.iter_unpack(entries)]


def path_messages(xid: int, messages: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the OpenFlow message that hands v1 or v2 control messages to VMs of a host, by the kernel's device index.

    Each takes 8 bytes more than it has; all of them at most 65,519.
    """
    body = b"".join(_PATH_MESSAGE.pack(ifindex, len(message)) + message for ifindex, message in messages)
    head = _EXPERIMENTER.pack(
        openflow.VERSION, openflow.OFPT_EXPERIMENTER, _EXPERIMENTER.size + len(body), xid, EXPERIMENTER, PATH_MESSAGES
    )
    return head + body


def vm_messages(xid: int, messages: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the OpenFlow message that hands v1 control messages to VMs of a host, by the kernel's device index.

    One takes at most 629 of them.
    """
    body = b"".join(_MESSAGE.pack(ifindex, message) for ifindex, message in messages)
    head = _EXPERIMENTER.pack(
        openflow.VERSION, openflow.OFPT_EXPERIMENTER, _EXPERIMENTER.size + len(body), xid, EXPERIMENTER, VM_MESSAGES
    )
    return head + body


def merge(first: VmReading, second: VmReading) -> VmReading:
    """Return one machine's readings on two uplinks as one: sums, and the uplink that carries more."""
    larger = max(first, second, key=lambda reading: reading.sent_rate)
    return larger._replace(
        flags=first.flags | second.flags,
        rate=first.rate + second.rate,
        share=first.share + second.share,
        sent_rate=first.sent_rate + second.sent_rate,
        tx_bytes=first.tx_bytes + second.tx_bytes,
        tx_packets=first.tx_packets + second.tx_packets,
        drops=first.drops + second.drops,
    )


def encode_port_marks(reading: PortReading) -> bytes:
    """Return a PORT_MARKS entry, as a switch sends it."""
    return _MARKS.pack(*reading)


def encode_vm_state(reading: VmReading) -> bytes:
    """Return a VM_STATE entry, as a switch sends it."""
    return _STATE.pack(*reading)


def encode_peer(reading: PeerReading) -> bytes:
    """Return a HOST_PEERS entry, as a switch sends it."""
    return _PEER.pack(*reading)


def encode_path(reading: PathReading) -> bytes:
    """Return a HOST_PATHS entry, as a switch sends it."""
    return _PATH.pack(*reading)


def decode_path_messages(data: bytes) -> list[tuple[int, bytes]]:
    """Return (device index, control message) of each one in a PATH_MESSAGES message, as a switch reads it."""
    found, offset = [], _EXPERIMENTER.size
    while offset < len(data):
        ifindex, length = _PATH_MESSAGE.unpack_from(data, offset)
        offset += _PATH_MESSAGE.size + length
        found.append((ifindex, data[offset - length : offset]))
    return found


def decode_vm_messages(data: bytes) -> list[tuple[int, bytes]]:
    """Return (device index, control message) of each one in a VM_MESSAGES message, as a switch reads it."""
    return [(ifindex, message) for ifindex, message in _MESSAGE.iter_unpack(data[_EXPERIMENTER.size :])]


def encode_reply(
    xid: int,
    exp_type: int,
    generation: int,
    boot: int,
    time_ns: int,
    entries: list[bytes],
    more: bool = False,
) -> bytes:
    """Return one part of an experimenter reply, as a switch sends it."""
    body = b"".join(entries)
    length = _PART.size + _REPLY.size + len(body)
    head = _PART.pack(
        openflow.VERSION, openflow.OFPT_MULTIPART_REPLY, length, xid, openflow.OFPMP_EXPERIMENTER,
        openflow.OFPMPF_REPLY_MORE if more else 0, EXPERIMENTER, exp_type,
    )  # fmt: skip
    return head + _REPLY.pack(generation, boot, time_ns, len(entries), len(entries[0]) if entries else 0) + body


def decode_request(data: bytes) -> tuple[int, int, int, int, int]:
    """Return (xid, exp_type, generation, boot, port) of an experimenter request, as a switch reads it."""
    _, _, _, xid, _, _, _, exp_type = _PART.unpack_from(data)
    generation, boot, port = _REQUEST.unpack_from(data, _PART.size)
    return xid, exp_type, generation, boot, port
