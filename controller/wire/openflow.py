# SPDX-License-Identifier: Apache-2.0
"""The few OpenFlow 1.3 messages the controller sends, packed by hand.

A poll every few milliseconds leaves no time for a general message library, and bytes keep the policy
modules free of any framework.  Only what is needed is here: add, delete and describe flows by Ethernet
addresses, input port and ECN field, select groups, the counters of both, packet-out, and experimenter multipart
requests.
"""

import struct
from typing import Iterable, Iterator, NamedTuple, Optional

VERSION = 4
OFPT_ERROR = 1
OFPT_EXPERIMENTER = 4
OFPT_PACKET_OUT = 13
OFPT_FLOW_MOD = 14
OFPT_GROUP_MOD = 15
OFPT_MULTIPART_REQUEST = 18
OFPT_MULTIPART_REPLY = 19
OFPT_ROLE_REQUEST = 24
OFPT_ROLE_REPLY = 25
OFPT_SET_ASYNC = 28

ROLE_NOCHANGE = 0
ROLE_EQUAL = 1
ROLE_MASTER = 2
ROLE_SLAVE = 3
OFPET_ROLE_REQUEST_FAILED = 11
OFPRRFC_STALE = 0

PORTS_MAX = 4096  # of a switch that is served
OFPP_MAX = 0xFFFFFF00
OFPP_CONTROLLER = 0xFFFFFFFD
OFPP_LOCAL = 0xFFFFFFFE
OFPP_ANY = 0xFFFFFFFF

OFPMP_FLOW = 1
OFPMP_GROUP = 6
OFPMP_EXPERIMENTER = 0xFFFF
OFPMPF_REPLY_MORE = 1
MULTIPART_BYTES = 16  # of a multipart message without a body

OFPRR_IDLE_TIMEOUT = 0
OFPET_GROUP_MOD_FAILED = 6

NOT_COUNTED = 0xFFFFFFFFFFFFFFFF  # a counter the switch does not keep

_NO_BUFFER = 0xFFFFFFFF
_ALL_TABLES = 0xFF
_ADD = 0
_DELETE = 3
_DELETE_STRICT = 4
_SEND_FLOW_REM = 1
_ALL_GROUPS = 0xFFFFFFFC
_ANY_GROUP = 0xFFFFFFFF
_SELECT = 1
_ADD_GROUP = 0
_DELETE_GROUP = 2

_HEADER = struct.Struct("!BBHI")
_OUTPUT = struct.Struct("!HHIH6x")
_PACKET_OUT = struct.Struct("!BBHIIIH6x")
_FLOW_MOD = struct.Struct("!BBHIQQBBHHHIIIH2x")
_MULTIPART_REQUEST = struct.Struct("!BBHIHH4xII")

_GROUP = struct.Struct("!HHI")
_GROUP_MOD = struct.Struct("!BBHIHBxI")
_BUCKET = struct.Struct("!HHII4x")
_GROUP_STATISTICS = struct.Struct("!H2xI32x")
_BUCKET_STATISTICS = struct.Struct("!8xQ")
_MULTIPART = struct.Struct("!BBHIHH4x")
_FLOW_REQUEST = struct.Struct("!B3xII4xQQ")
_FLOW_STATISTICS = struct.Struct("!H2xII12xQQQ")
_FLOW_ENTRY_BYTES = 48  # of a flow statistics entry before its match
_ROLE = struct.Struct("!BBHII4xQ")
_SET_ASYNC = struct.Struct("!BBHI6I")

_OXM_BASIC = 0x8000
_OXM_IN_PORT = 0
_OXM_METADATA = 2
_OXM_ETH_DST = 3
_OXM_ETH_SRC = 4
_OXM_ETH_TYPE = 5
_OXM_VLAN_VID = 6
_OXM_IP_ECN = 9
_VLAN_PRESENT = 0x1000

_PUSH_VLAN = struct.pack("!HHH2x", 17, 8, 0x8100)
_POP_VLAN = struct.pack("!HH4x", 18, 8)
_GOTO_TABLE = struct.Struct("!HHB3x")
_WRITE_METADATA = struct.Struct("!HH4xQQ")


def _oxm(field: int, value: bytes) -> bytes:
    return struct.pack("!HBB", _OXM_BASIC, field << 1, len(value)) + value


def match(
    in_port: Optional[int] = None,
    eth_dst: Optional[bytes] = None,
    eth_src: Optional[bytes] = None,
    eth_type: Optional[int] = None,
    ip_ecn: Optional[int] = None,
    metadata: Optional[int] = None,
    vlan: Optional[int] = None,
) -> bytes:
    """Return an ofp_match, padded; fields left out are wildcards.  ``ip_ecn`` needs an ``eth_type`` of IP.

    ``vlan`` is the number in the 802.1Q header, 0 for frames without one.
    """
    fields = b""
    if in_port is not None:
        fields += _oxm(_OXM_IN_PORT, struct.pack("!I", in_port))
    if metadata is not None:
        fields += _oxm(_OXM_METADATA, struct.pack("!Q", metadata))
    if eth_dst is not None:
        fields += _oxm(_OXM_ETH_DST, eth_dst)
    if eth_src is not None:
        fields += _oxm(_OXM_ETH_SRC, eth_src)
    if eth_type is not None:
        fields += _oxm(_OXM_ETH_TYPE, struct.pack("!H", eth_type))
    if vlan is not None:
        fields += _oxm(_OXM_VLAN_VID, struct.pack("!H", vlan and _VLAN_PRESENT | vlan))
    if ip_ecn is not None:
        fields += _oxm(_OXM_IP_ECN, bytes((ip_ecn,)))
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


def _set_vlan(vlan: int) -> bytes:
    return struct.pack("!HH", 25, 16) + _oxm(_OXM_VLAN_VID, struct.pack("!H", _VLAN_PRESENT | vlan)) + bytes(6)


def _outputs(ports: Iterable[int]) -> bytes:
    return b"".join(_OUTPUT.pack(0, 16, port, 0xFFFF) for port in ports)


def flow_add(
    fields: bytes,
    ports: Iterable[int],
    priority: int,
    cookie: int,
    idle_s: int = 0,
    report: bool = False,
    table: int = 0,
    goto: Optional[int] = None,
    metadata: Optional[int] = None,
    xid: int = 0,
    group: Optional[int] = None,
    retag: Optional[int] = None,
) -> bytes:
    """Return a flow-mod that adds a flow to a table.

    ``fields`` comes from :func:`match`; a ``group`` takes the packets in place of ``ports``; neither, and no ``goto``,
    means drop; ``idle_s`` 0 means for ever; ``report`` asks for a flow-removed message; packets go on to table
    ``goto``, bearing ``metadata``. ``retag`` gives them a VLAN's 802.1Q header before, 0 takes it away.
    """
    actions = _outputs(ports) if group is None else _GROUP.pack(22, 8, group)
    if retag is not None:
        actions = (_PUSH_VLAN + _set_vlan(retag) if retag else _POP_VLAN) + actions
    instructions = struct.pack("!HH4x", 4, 8 + len(actions)) + actions if actions else b""
    if metadata is not None:
        instructions += _WRITE_METADATA.pack(2, _WRITE_METADATA.size, metadata, (1 << 64) - 1)
    if goto is not None:
        instructions += _GOTO_TABLE.pack(1, _GOTO_TABLE.size, goto)
    flags = _SEND_FLOW_REM if report else 0
    return _flow_mod(_ADD, fields, instructions, priority, cookie, 0, table, idle_s, flags, xid)


def flow_delete(
    fields: bytes, cookie: int, cookie_mask: int, table: int = _ALL_TABLES, priority: Optional[int] = None
) -> bytes:
    """Return a flow-mod that deletes the flows inside ``fields`` whose cookie agrees under the mask.

    With a ``priority`` only that which has it and exactly these fields.
    """
    command = _DELETE if priority is None else _DELETE_STRICT
    return _flow_mod(command, fields, b"", priority or 0, cookie, cookie_mask, table, 0, 0, 0)


def _flow_mod(
    command: int,
    fields: bytes,
    instructions: bytes,
    priority: int,
    cookie: int,
    mask: int,
    table: int,
    idle_s: int,
    flags: int,
    xid: int,
) -> bytes:
    length = _FLOW_MOD.size + len(fields) + len(instructions)
    head = _FLOW_MOD.pack(
        VERSION, OFPT_FLOW_MOD, length, xid, cookie, mask, table, command, idle_s, 0, priority,
        _NO_BUFFER, OFPP_ANY, OFPP_ANY, flags,
    )  # fmt: skip
    return head + fields + instructions


def group_select(group: int, ports: Iterable[int]) -> bytes:
    """Return group-mods that make a select group of one bucket a port, in place of one of that number."""
    buckets = b""
    for port in ports:
        action = _outputs((port,))
        buckets += _BUCKET.pack(_BUCKET.size + len(action), 1, OFPP_ANY, _ANY_GROUP) + action
    length = _GROUP_MOD.size + len(buckets)
    added = _GROUP_MOD.pack(VERSION, OFPT_GROUP_MOD, length, 0, _ADD_GROUP, _SELECT, group) + buckets
    return group_delete(group) + added


def group_delete(group: int) -> bytes:
    """Return a group-mod that deletes a group, and with it the flows that use it."""
    return _GROUP_MOD.pack(VERSION, OFPT_GROUP_MOD, _GROUP_MOD.size, 0, _DELETE_GROUP, _SELECT, group)


def packet_out(data: bytes, ports: Iterable[int], in_port: int = OFPP_CONTROLLER) -> bytes:
    """Return a packet-out of a whole frame to each of ``ports``."""
    actions = _outputs(ports)
    length = _PACKET_OUT.size + len(actions) + len(data)
    head = _PACKET_OUT.pack(VERSION, OFPT_PACKET_OUT, length, 0, _NO_BUFFER, in_port, len(actions))
    return head + actions + data


def experimenter_request(xid: int, experimenter: int, exp_type: int, body: bytes) -> bytes:
    """Return an experimenter multipart request."""
    length = _MULTIPART_REQUEST.size + len(body)
    return (
        _MULTIPART_REQUEST.pack(
            VERSION, OFPT_MULTIPART_REQUEST, length, xid, OFPMP_EXPERIMENTER, 0, experimenter, exp_type
        )
        + body
    )


def xids(data: bytes) -> Iterator[int]:
    """Return the transaction ids of messages that stand one behind the other."""
    at = 0
    while at < len(data):
        yield int.from_bytes(data[at + 4 : at + 8], "big")
        at += int.from_bytes(data[at + 2 : at + 4], "big")


class MessageError(ValueError):
    """A message that cannot be read; the text says why."""


class FlowStatistics(NamedTuple):
    """The counters of a flow."""

    cookie: int
    packets: int
    bytes: int
    age_ns: int  # since it was added


def flow_statistics_request(xid: int, cookie: int, cookie_mask: int) -> bytes:
    """Return a request for the counters of the flows, in all tables, whose cookie agrees under the mask."""
    body = _FLOW_REQUEST.pack(_ALL_TABLES, OFPP_ANY, OFPP_ANY, cookie, cookie_mask) + match()
    length = _MULTIPART.size + len(body)
    return _MULTIPART.pack(VERSION, OFPT_MULTIPART_REQUEST, length, xid, OFPMP_FLOW, 0) + body


def more_parts(data: bytes) -> bool:
    """Tell whether further parts follow a multipart reply; raises MessageError when it is cut short."""
    if len(data) < _MULTIPART.size:
        raise MessageError(f"multipart reply has {len(data)} bytes; at least {_MULTIPART.size} needed")
    return bool(_MULTIPART.unpack_from(data)[5] & OFPMPF_REPLY_MORE)


def flow_statistics(data: bytes) -> list[FlowStatistics]:
    """Return the counters in one part of a flow statistics reply; raises MessageError when it is cut short."""
    found = []
    place = _MULTIPART.size
    while place < len(data):
        if len(data) - place < _FLOW_STATISTICS.size:
            raise MessageError(f"flow statistics end after {len(data) - place} bytes of an entry")
        length, seconds, nanoseconds, cookie, packets, size = _FLOW_STATISTICS.unpack_from(data, place)
        if length < _FLOW_STATISTICS.size or place + length > len(data):
            raise MessageError(f"flow statistics entry of {length} bytes, {len(data) - place} left")
        found.append(FlowStatistics(cookie, packets, size, seconds * 1_000_000_000 + nanoseconds))
        place += length
    return found


class GroupStatistics(NamedTuple):
    """The counters of a group's buckets, in order."""

    number: int
    buckets: list[int]  # bytes


def group_statistics_request(xid: int) -> bytes:
    """Return a request for the counters of all groups."""
    body = struct.pack("!I4x", _ALL_GROUPS)
    return _MULTIPART.pack(VERSION, OFPT_MULTIPART_REQUEST, _MULTIPART.size + len(body), xid, OFPMP_GROUP, 0) + body


def group_statistics(data: bytes) -> list[GroupStatistics]:
    """Return the counters in one part of a group statistics reply; raises MessageError when it is cut short."""
    found = []
    place = _MULTIPART.size
    while place < len(data):
        if len(data) - place < _GROUP_STATISTICS.size:
            raise MessageError(f"group statistics end after {len(data) - place} bytes of an entry")
        length, number = _GROUP_STATISTICS.unpack_from(data, place)
        size = length - _GROUP_STATISTICS.size
        if size < 0 or size % _BUCKET_STATISTICS.size or place + length > len(data):
            raise MessageError(f"group statistics entry of {length} bytes, {len(data) - place} left")
        buckets = data[place + _GROUP_STATISTICS.size : place + length]
        found.append(GroupStatistics(number, [count for (count,) in _BUCKET_STATISTICS.iter_unpack(buckets)]))
        place += length
    return found


class Flow(NamedTuple):
    """What a flow matches, as far as this project's flows do, and where it sends."""

    cookie: int
    in_port: Optional[int]
    eth_dst: Optional[bytes]
    eth_src: Optional[bytes]
    out_port: Optional[int]  # of its first output action
    vlan: int = 0  # in the 802.1Q header; 0: none, or any


def flows(data: bytes) -> list[Flow]:
    """Return the flows in one part of a flow statistics reply; raises MessageError when it is cut short."""
    found = []
    place = _MULTIPART.size
    while place < len(data):
        if len(data) - place < _FLOW_ENTRY_BYTES + 4:
            raise MessageError(f"flow statistics end after {len(data) - place} bytes of an entry")
        length, _, _, cookie, _, _ = _FLOW_STATISTICS.unpack_from(data, place)
        matched = struct.unpack_from("!2xH", data, place + _FLOW_ENTRY_BYTES)[0]
        actions = _FLOW_ENTRY_BYTES + (matched + 7) // 8 * 8
        if matched < 4 or length < actions or place + length > len(data):
            raise MessageError(f"flow statistics entry of {length} bytes, {len(data) - place} left, match of {matched}")
        entry = data[place : place + length]
        fields = _fields(entry[_FLOW_ENTRY_BYTES + 4 : _FLOW_ENTRY_BYTES + matched])
        in_port = fields.get(_OXM_IN_PORT)
        found.append(
            Flow(
                cookie,
                int.from_bytes(in_port, "big") if in_port else None,
                fields.get(_OXM_ETH_DST),
                fields.get(_OXM_ETH_SRC),
                _first_output(entry[actions:]),
                int.from_bytes(fields.get(_OXM_VLAN_VID, b""), "big") & ~_VLAN_PRESENT,
            )
        )
        place += length
    return found


def _fields(data: bytes) -> dict[int, bytes]:
    """Return the basic OXM fields of a match without masks, by their number."""
    found, place = {}, 0
    while place + 4 <= len(data):
        oxm_class, head, size = struct.unpack_from("!HBB", data, place)
        if oxm_class == _OXM_BASIC and not head & 1:
            found[head >> 1] = data[place + 4 : place + 4 + size]
        place += 4 + size
    return found


def _first_output(data: bytes) -> Optional[int]:
    """Return the port of the first output action in the first apply-actions instruction."""
    if len(data) < 8 or data[:2] != b"\x00\x04":
        return None
    place = 8
    while len(data) >= place + 8:
        kind, length = struct.unpack_from("!HH", data, place)
        if kind == 0 and len(data) >= place + 16:
            return int.from_bytes(data[place + 4 : place + 8], "big")
        place += max(length, 8)
    return None


def role_request(xid: int, role: int, generation: int) -> bytes:
    """Return a request for a role (ROLE_...) under a generation id; the id does not count for ROLE_EQUAL."""
    return _ROLE.pack(VERSION, OFPT_ROLE_REQUEST, _ROLE.size, xid, role, generation)


def hear_all(xid: int) -> bytes:
    """Return the set-async message that lets a slave hear packet-ins, port changes and removed flows too."""
    return _SET_ASYNC.pack(VERSION, OFPT_SET_ASYNC, _SET_ASYNC.size, xid, 3, 3, 7, 7, 15, 15)


def hear_none(xid: int) -> bytes:
    """Return the message that asks a switch for no packets, port changes or removed flows, whatever the role."""
    return _SET_ASYNC.pack(VERSION, OFPT_SET_ASYNC, _SET_ASYNC.size, xid, 0, 0, 0, 0, 0, 0)
