# SPDX-License-Identifier: Apache-2.0
"""The reader of a switch's connection: bytes in, whole messages out, or an error that ends the connection.

The frameworks' parsers spin on a length of 0 and raise on many another one, so they get to see four kinds of message
only, each checked here first: HELLO (cut to its header), ECHO_REQUEST, FEATURES_REPLY and the description of ports.
Everything else a switch may say is read here into plain values.  A connection goes through these states::

    HELLO --HELLO--> FEATURES --FEATURES_REPLY--> PORTS --last part of the ports' description--> READY

Bounds: a message has 65,535 bytes (its length field ends there), the unfinished multipart replies of a connection
together ``PARTS_MAX_BYTES``, a switch ``PORTS_MAX`` ports.  There is no socket, no clock and no framework in here.
"""

import enum
import struct
from typing import Iterator, NamedTuple, Optional, Union

from sdngcc.controller.wire import openflow

PORTS_MAX = openflow.PORTS_MAX
PARTS_MAX_BYTES = 64 << 20
PART_LEAST_BYTES = 1024  # what a part with more to come counts for at least: it is kept with as much around it

_VERSION = openflow.VERSION
_HEADER = struct.Struct("!BBHI")
_ELEMENT = struct.Struct("!HH")
_FEATURES = struct.Struct("!QIBB2xII")
_PORT = struct.Struct("!I4x6s2x16sII16xI4x")
_PACKET_IN = struct.Struct("!4xHBBQHH")
_FLOW_REMOVED = struct.Struct("!QHB")
_ROLE = struct.Struct("!I4xQ")
_OXM = struct.Struct("!HBB")
_ERROR = struct.Struct("!HH")

_HELLO_BITMAP = 1  # OFPHET_VERSIONBITMAP
_HELLO_FAILED = 0  # OFPET_HELLO_FAILED
_INCOMPATIBLE = 0  # OFPHFC_INCOMPATIBLE
_CONFIG_DOWN = 1  # OFPPC_PORT_DOWN
_STATE_LINK_DOWN = 1  # OFPPS_LINK_DOWN
_PORT_DELETED = 1  # OFPPR_DELETE
_KBPS = 125  # bytes/s
_HEADER_BYTES = _HEADER.size
_MULTIPART_BYTES = 16
_PORT_DESCRIPTION = 13  # OFPMP_PORT_DESC
_MATCH_AT = 24  # where the match of a packet-in begins
_FLOW_REMOVED_BYTES = 56  # with an empty match
_OXM_BASIC = 0x8000
_OXM_IN_PORT = 0
_TAKEN_PARTS = (openflow.OFPMP_FLOW, openflow.OFPMP_GROUP, openflow.OFPMP_EXPERIMENTER)


class Type(enum.IntEnum):
    """Messages that a switch of OpenFlow 1.3 may send."""

    HELLO = 0
    ERROR = 1
    ECHO_REQUEST = 2
    ECHO_REPLY = 3
    EXPERIMENTER = 4
    FEATURES_REPLY = 6
    GET_CONFIG_REPLY = 8
    PACKET_IN = 10
    FLOW_REMOVED = 11
    PORT_STATUS = 12
    MULTIPART_REPLY = 19
    BARRIER_REPLY = 21
    QUEUE_GET_CONFIG_REPLY = 23
    ROLE_REPLY = 25
    GET_ASYNC_REPLY = 27


_TYPES = frozenset(int(one) for one in Type)


class ReadError(ValueError):
    """Bytes that end the connection; the text says what was wrong and what is allowed.

    ``answer`` is to be sent before that, b"" for nothing.
    """

    def __init__(self, text: str, answer: bytes = b"") -> None:
        super().__init__(text)
        self.answer = answer


class State(enum.Enum):
    """What a connection waits for."""

    HELLO = "its HELLO"
    FEATURES = "its FEATURES_REPLY"
    PORTS = "the description of its ports"
    READY = "nothing"


# Members of an enumeration are slow to look up, and thousands of messages come a second.
_READY = State.READY
_BEFORE_HELLO = State.HELLO


class Port(NamedTuple):
    """A port as a switch describes it; ``speed`` is bytes/s, 0 where the switch does not know."""

    number: int
    name: str
    mac: bytes
    up: bool
    speed: int


class ForFramework(NamedTuple):
    """A message that the framework's parser can take."""

    data: bytes


class Multipart(NamedTuple):
    """A multipart reply with counters of flows or groups, or an experimenter's; the whole message."""

    data: bytes


class PacketIn(NamedTuple):
    """A packet no flow knew."""

    in_port: int
    frame: bytes


class FlowRemoved(NamedTuple):
    """A flow that is gone; ``reason`` is an OFPRR_..."""

    cookie: int
    reason: int


class PortChanged(NamedTuple):
    """A port that came or changed."""

    port: Port


class PortRemoved(NamedTuple):
    """A port that went."""

    number: int


class Refused(NamedTuple):
    """An OpenFlow error: type and code, and the transaction id of what it is about."""

    xid: int
    kind: int
    code: int


class Role(NamedTuple):
    """An answer to a request for a role."""

    role: int
    generation: int


class EchoAnswered(NamedTuple):
    """An answer to an echo request."""

    xid: int


class Unserved(NamedTuple):
    """A message of a kind, or at a time, that nobody here asked for; it is left out."""

    type: int


Message = Union[
    ForFramework, Multipart, PacketIn, FlowRemoved, PortChanged, PortRemoved, Refused, Role, EchoAnswered, Unserved
]


class Reader:
    """Reads one connection; ``dpid`` and ``ports`` (by number) are what the switch said of itself so far."""

    def __init__(self) -> None:
        self.state = State.HELLO
        self.dpid: Optional[int] = None
        self.ports: dict[int, Port] = {}
        self.size = 0  # of the message yielded last, bytes
        self._rest = b""  # of a message whose end has not arrived
        self._unfinished: dict[bytes, int] = {}  # multipart replies with parts to come -> bytes so far
        self._unfinished_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield the messages that a chunk of bytes completes; take all of them before feeding the next chunk.

        Raises ReadError where the connection has to end.
        """
        data = self._rest + chunk if self._rest else chunk
        place, size = 0, len(data)
        while size - place >= _HEADER_BYTES:
            version, kind, length, xid = _HEADER.unpack_from(data, place)
            if length < _HEADER_BYTES:
                raise ReadError(f"a message with length {length}; {_HEADER_BYTES} is the least")
            if version != _VERSION and self.state is not _BEFORE_HELLO:
                raise ReadError(f"a message of OpenFlow version {version}; {_VERSION} (1.3) was agreed upon")
            if size - place < length:
                break
            self.size = length
            yield self._read(kind, xid, data[place : place + length])
            place += length
        self._rest = data[place:]

    def _read(self, kind: int, xid: int, data: bytes) -> Message:
        if kind == openflow.OFPT_MULTIPART_REPLY:
            return self._multipart(xid, data)
        if self.state is _BEFORE_HELLO:
            return self._hello(kind, xid, data)
        if kind == Type.PACKET_IN:
            return self._packet_in(data)
        if kind == Type.ECHO_REQUEST:
            return ForFramework(data)
        if kind == Type.ECHO_REPLY:
            return EchoAnswered(xid)
        if kind == Type.FLOW_REMOVED:
            return self._flow_removed(data)
        if kind == Type.PORT_STATUS:
            return self._port_status(data)
        if kind == Type.ERROR:
            return self._error(xid, data)
        if kind == Type.ROLE_REPLY:
            _need(data, "ROLE_REPLY", _HEADER.size + _ROLE.size)
            return Role(*_ROLE.unpack_from(data, _HEADER.size))
        if kind == Type.FEATURES_REPLY:
            return self._features(data)
        if kind == Type.HELLO:
            raise ReadError("a second HELLO")
        if kind not in _TYPES:
            raise ReadError(f"a message of type {kind}, which no switch of OpenFlow 1.3 sends")
        return Unserved(kind)

    # The handshake

    def _hello(self, kind: int, xid: int, data: bytes) -> Message:
        if kind != Type.HELLO:
            raise ReadError(f"a message of type {kind} before HELLO")
        versions = _versions(data)
        if _VERSION not in versions if versions is not None else data[0] < _VERSION:
            said = ", ".join(str(one) for one in sorted(versions)[:8]) if versions else f"up to {data[0]}"
            text = f"a HELLO of OpenFlow versions {said or 'none'}; {_VERSION} (1.3) is needed"
            body = _ERROR.pack(_HELLO_FAILED, _INCOMPATIBLE) + text.encode("ascii")
            raise ReadError(text, _HEADER.pack(_VERSION, Type.ERROR, _HEADER.size + len(body), xid) + body)
        self.state = State.FEATURES
        return ForFramework(_HEADER.pack(_VERSION, Type.HELLO, _HEADER.size, xid))

    def _features(self, data: bytes) -> Message:
        if self.state is not State.FEATURES:
            raise ReadError("a FEATURES_REPLY that nobody asked for")
        if len(data) != _HEADER.size + _FEATURES.size:
            raise ReadError(f"a FEATURES_REPLY of {len(data)} bytes; {_HEADER.size + _FEATURES.size} are right")
        dpid, _, _, auxiliary, _, _ = _FEATURES.unpack_from(data, _HEADER.size)
        if auxiliary:
            raise ReadError(f"auxiliary connection {auxiliary} of switch {dpid:016x}; only main connections are served")
        self.state, self.dpid = State.PORTS, dpid
        return ForFramework(data)

    def _multipart(self, xid: int, data: bytes) -> Message:
        if len(data) < _MULTIPART_BYTES:
            raise ReadError(f"a MULTIPART_REPLY of {len(data)} bytes; {_MULTIPART_BYTES} are the least")
        kind = data[8] << 8 | data[9]
        more = data[11] & openflow.OFPMPF_REPLY_MORE
        if self.state is _READY and kind in _TAKEN_PARTS:
            if more or self._unfinished:
                self._bound(data[4:10], len(data), bool(more))
            return Multipart(data)
        if self.state is _BEFORE_HELLO:
            raise ReadError("a MULTIPART_REPLY before HELLO")
        if self.state is State.PORTS and kind == _PORT_DESCRIPTION:
            if (len(data) - _MULTIPART_BYTES) % _PORT.size:
                raise ReadError(f"{len(data) - _MULTIPART_BYTES} bytes of ports, which have {_PORT.size} each")
            for place in range(_MULTIPART_BYTES, len(data), _PORT.size):
                self._note_port(_port(data, place))
            if not more:
                self.state = _READY
            # The framework would parse each port once more; it needs to know when the last part came only.
            return ForFramework(_cut(data, _MULTIPART_BYTES))
        return Unserved(Type.MULTIPART_REPLY)

    def _bound(self, key: bytes, size: int, more: bool) -> None:
        """Keep what replies with parts to come add up to within its bound; ``key`` is their transaction and kind."""
        if more:
            size = max(size, PART_LEAST_BYTES)
            self._unfinished[key] = self._unfinished.get(key, 0) + size
            self._unfinished_bytes += size
            if self._unfinished_bytes > PARTS_MAX_BYTES:
                raise ReadError(f"multipart replies without an end, {self._unfinished_bytes} bytes so far")
        else:
            self._unfinished_bytes -= self._unfinished.pop(key, 0)

    # What a switch says by itself

    def _packet_in(self, data: bytes) -> Message:
        if self.state is not _READY:
            return Unserved(Type.PACKET_IN)
        _need(data, "PACKET_IN", _HEADER.size + _PACKET_IN.size)
        *_, match_type, match_bytes = _PACKET_IN.unpack_from(data, _HEADER.size)
        frame_at = _MATCH_AT + (match_bytes + 7) // 8 * 8 + 2
        if match_type != 1 or match_bytes < _OXM.size or frame_at > len(data):
            raise ReadError(f"a PACKET_IN of {len(data)} bytes with a match of type {match_type}, {match_bytes} bytes")
        place, end = _MATCH_AT + 4, _MATCH_AT + match_bytes
        while place + _OXM.size <= end:
            oxm_class, field, size = _OXM.unpack_from(data, place)
            place += _OXM.size
            if oxm_class == _OXM_BASIC and field >> 1 == _OXM_IN_PORT and size == 4 and place + size <= end:
                return PacketIn(int.from_bytes(data[place : place + size], "big"), data[frame_at:])
            place += size
        raise ReadError("a PACKET_IN that does not tell its port")

    def _flow_removed(self, data: bytes) -> Message:
        if self.state is not _READY:
            return Unserved(Type.FLOW_REMOVED)
        _need(data, "FLOW_REMOVED", _FLOW_REMOVED_BYTES)
        cookie, _, reason = _FLOW_REMOVED.unpack_from(data, _HEADER.size)
        return FlowRemoved(cookie, reason)

    def _port_status(self, data: bytes) -> Message:
        _need(data, "PORT_STATUS", _MULTIPART_BYTES + _PORT.size)
        port = _port(data, _MULTIPART_BYTES)
        deleted = data[_HEADER.size] == _PORT_DELETED
        if deleted:
            self.ports.pop(port.number, None)
        else:
            self._note_port(port)
        if self.state is not _READY:
            return Unserved(Type.PORT_STATUS)
        return PortRemoved(port.number) if deleted else PortChanged(port)

    def _note_port(self, port: Port) -> None:
        self.ports[port.number] = port
        if len(self.ports) > PORTS_MAX:
            raise ReadError(f"more than {PORTS_MAX} ports, which is the most of a switch")

    def _error(self, xid: int, data: bytes) -> Message:
        _need(data, "ERROR", _HEADER.size + _ERROR.size)
        kind, code = _ERROR.unpack_from(data, _HEADER.size)
        if self.state is not _READY:
            raise ReadError(f"an ERROR of type {kind}, code {code} in place of {self.state.value}")
        return Refused(xid, kind, code)


def _cut(message: bytes, size: int) -> bytes:
    """Return the first bytes of a message as one of that length."""
    return message[:2] + size.to_bytes(2, "big") + message[4:size]


def _need(data: bytes, name: str, size: int) -> None:
    if len(data) < size:
        raise ReadError(f"a {name} of {len(data)} bytes; {size} are the least")


def _versions(hello: bytes) -> Optional[set[int]]:
    """Return the versions that the elements of a HELLO name, None where they name none; raises ReadError."""
    found: Optional[set[int]] = None
    place = _HEADER.size
    while place < len(hello):
        left = len(hello) - place
        if left < _ELEMENT.size:
            raise ReadError(f"a HELLO that ends after {left} bytes of an element")
        kind, length = _ELEMENT.unpack_from(hello, place)
        if not _ELEMENT.size <= length <= left:
            raise ReadError(f"a HELLO with an element of length {length}; {_ELEMENT.size} to {left} are possible")
        if kind == _HELLO_BITMAP:
            bits = hello[place + _ELEMENT.size : place + length]
            words = [int.from_bytes(bits[at : at + 4], "big") for at in range(0, len(bits) // 4 * 4, 4)]
            named = {32 * at + bit for at, word in enumerate(words[:8]) for bit in range(32) if word >> bit & 1}
            found = (found or set()) | named
        place += (length + 7) // 8 * 8  # the last one may do without its padding
    return found


def _port(data: bytes, place: int) -> Port:
    number, mac, name, config, state, speed = _PORT.unpack_from(data, place)
    up = not (config & _CONFIG_DOWN or state & _STATE_LINK_DOWN)
    return Port(number, name.partition(b"\0")[0].decode("utf-8", "replace"), mac, up, speed * _KBPS)
