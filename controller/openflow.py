# SPDX-License-Identifier: Apache-2.0
"""The few OpenFlow 1.3 messages the controller sends, packed by hand.

A poll every few milliseconds leaves no time for a general message library, and bytes keep the policy
modules free of any framework.  Only what is needed is here: add, delete and describe flows by Ethernet
addresses and input port, packet-out, and experimenter multipart requests.
"""

import struct
from typing import Iterable, Optional

VERSION = 4
OFPT_PACKET_OUT = 13
OFPT_FLOW_MOD = 14
OFPT_MULTIPART_REQUEST = 18
OFPT_MULTIPART_REPLY = 19

OFPP_MAX = 0xFFFFFF00
OFPP_CONTROLLER = 0xFFFFFFFD
OFPP_LOCAL = 0xFFFFFFFE
OFPP_ANY = 0xFFFFFFFF

OFPMP_EXPERIMENTER = 0xFFFF
OFPMPF_REPLY_MORE = 1

OFPRR_IDLE_TIMEOUT = 0

_NO_BUFFER = 0xFFFFFFFF
_ALL_TABLES = 0xFF
_ADD = 0
_DELETE = 3
_SEND_FLOW_REM = 1

_HEADER = struct.Struct("!BBHI")
_OUTPUT = struct.Struct("!HHIH6x")
_PACKET_OUT = struct.Struct("!BBHIIIH6x")
_FLOW_MOD = struct.Struct("!BBHIQQBBHHHIIIH2x")
_MULTIPART_REQUEST = struct.Struct("!BBHIHH4xII")

_OXM_BASIC = 0x8000
_OXM_IN_PORT = 0
_OXM_ETH_DST = 3
_OXM_ETH_SRC = 4
_OXM_ETH_TYPE = 5


def _oxm(field: int, value: bytes) -> bytes:
    return struct.pack("!HBB", _OXM_BASIC, field << 1, len(value)) + value


def match(
    in_port: Optional[int] = None,
    eth_dst: Optional[bytes] = None,
    eth_src: Optional[bytes] = None,
    eth_type: Optional[int] = None,
) -> bytes:
    """Return an ofp_match, padded; fields left out are wildcards."""
    fields = b""
    if in_port is not None:
        fields += _oxm(_OXM_IN_PORT, struct.pack("!I", in_port))
    if eth_dst is not None:
        fields += _oxm(_OXM_ETH_DST, eth_dst)
    if eth_src is not None:
        fields += _oxm(_OXM_ETH_SRC, eth_src)
    if eth_type is not None:
        fields += _oxm(_OXM_ETH_TYPE, struct.pack("!H", eth_type))
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


def _outputs(ports: Iterable[int]) -> bytes:
    return b"".join(_OUTPUT.pack(0, 16, port, 0xFFFF) for port in ports)


def flow_add(
    fields: bytes, ports: Iterable[int], priority: int, cookie: int, idle_s: int = 0, report: bool = False
) -> bytes:
    """Return a flow-mod that adds a flow to table 0.

    ``fields`` comes from :func:`match`; no ``ports`` means drop; ``idle_s`` 0 means for ever;
    ``report`` asks for a flow-removed message.
    """
    actions = _outputs(ports)
    instructions = struct.pack("!HH4x", 4, 8 + len(actions)) + actions if actions else b""
    return _flow_mod(_ADD, fields, instructions, priority, cookie, 0, 0, idle_s, _SEND_FLOW_REM if report else 0)


def flow_delete(fields: bytes, cookie: int, cookie_mask: int) -> bytes:
    """Return a flow-mod that deletes the flows inside ``fields`` whose cookie agrees under the mask."""
    return _flow_mod(_DELETE, fields, b"", 0, cookie, cookie_mask, _ALL_TABLES, 0, 0)


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
) -> bytes:
    length = _FLOW_MOD.size + len(fields) + len(instructions)
    head = _FLOW_MOD.pack(
        VERSION, OFPT_FLOW_MOD, length, 0, cookie, mask, table, command, idle_s, 0, priority,
        _NO_BUFFER, OFPP_ANY, OFPP_ANY, flags,
    )  # fmt: skip
    return head + fields + instructions


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
