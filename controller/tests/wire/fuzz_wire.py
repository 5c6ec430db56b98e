# SPDX-License-Identifier: Apache-2.0
"""Fuzzes frames and control messages: the first byte says which an input is, and whether its tag is right.

``python -m sdngcc.controller.tests.wire.fuzz_wire [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0 when no
frame raised anything, no message was refused but by name, what was read lies within its bounds and is read again as it
is written, and nothing took too many steps.
"""

import struct

import atheris

with atheris.instrument_imports(include=["sdngcc.controller.wire"]):
    from sdngcc.controller.wire import message, packets
    from sdngcc.controller.wire.siphash import siphash24

from .. import fuzzing
from ..fabric import arp, ipv4

KEY = bytes(range(16))
TAG_BYTES = 8
PROTOCOL = 253
FRAME, LLDP, V0, V1, V2, V1_SIGNED, V2_SIGNED = range(7)


def check_address(address):
    """Check an address that a host may have."""
    assert address is None or (len(address) == 16 and any(address) and address[0] != 0xFF)


def take_frame(data):
    """Parse a frame, and give it another VLAN."""
    frame = packets.parse_frame(data, PROTOCOL)
    assert (frame is None) == (len(data) < 14 or _cut(data))
    if frame is None:
        return
    assert len(frame.dst) == len(frame.src) == 6 and 0 <= frame.vlan <= packets.VLAN_MAX
    check_address(frame.source)
    check_address(frame.target)
    assert frame.multicast == bool(data[0] & 1) and not (frame.control and not frame.ip)
    for vlan in (0, 7):
        other = packets.parse_frame(packets.retagged(data, vlan), PROTOCOL)
        assert other is None or (other.dst, other.src) == (frame.dst, frame.src)
        assert not vlan or other.vlan == vlan


def _cut(data):
    """Tell whether a frame ends within its VLAN tags."""
    place = 12
    while data[place : place + 2] in (b"\x81\x00", b"\x88\xa8"):
        place += 4
    return len(data) < place + 2


def take_lldp(data):
    """Parse a frame of discovery; it is ours only with our key."""
    found = packets.parse_lldp(data, KEY)
    assert found is None or packets.parse_lldp(packets.lldp_frame(*found, KEY), KEY) == found
    assert found is None or packets.parse_lldp(data, bytes(16)) is None


def take_message(data, version, signed):
    """Decode a control message; with a tag of its own it is that of another key."""
    decode, encode = {
        0: (lambda body, _: message.decode_v0(body), lambda one, _: message.encode_v0(one.marks)),
        1: (message.decode_v1, message.encode_v1),
        2: (message.decode_v2, message.encode_v2),
    }[version]
    if signed:
        data = data + struct.pack("!Q", siphash24(KEY, data))
    try:
        found = decode(data, KEY)
    except message.MessageError as error:
        assert str(error).isprintable() and error.reason in ("short", "form", "tag")
        return
    assert encode(found, KEY) == data
    if version == 2:
        assert 1 <= len(found.entries) <= message.ENTRIES_MAX
        assert all(0 <= entry.bits <= 128 and entry.scope in (0, 1) for entry in found.entries)
    if version:
        assert found.epoch and found.sequence
        try:
            decode(data, bytes(16))
        except message.MessageError:
            return
        raise AssertionError("taken with a tag of another key")


def take(data):
    """Take an input."""
    if not data:
        return
    kind, data = data[0] % 7, data[1:]
    with fuzzing.steps(len(data)):
        if kind == FRAME:
            take_frame(data)
        elif kind == LLDP:
            take_lldp(data)
        else:
            take_message(data, {V0: 0, V1: 1, V1_SIGNED: 1}.get(kind, 2), kind in (V1_SIGNED, V2_SIGNED))


def ipv6(following, *headers, source=b"\xfe\x80" + bytes(13) + b"\1"):
    """Return an IPv6 frame with headers behind its own."""
    body = b"".join(headers)
    target = b"\xfe\x80" + bytes(13) + b"\2"
    return b"\2" * 12 + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(body), following, 64) + source + target + body


ADDRESS = bytes(10) + b"\xff\xff\x0a\0\0\1"


def body(told):
    """Give a control message without its tag."""
    encode = message.encode_v1 if isinstance(told, message.Message) else message.encode_v2
    return encode(told, KEY)[:-TAG_BYTES]


MARKS = body(message.Message(ADDRESS, ADDRESS, 5, 7, epoch=1, sequence=1, weight_total=9))
RATE = body(message.Message(ADDRESS, ADDRESS, 0, rate=10**6, epoch=1, sequence=1, type=message.TYPE_RATE))
REPORT = body(message.Message(ADDRESS, ADDRESS, 1, epoch=1, sequence=1, type=3, weight_total=1))
ENTRIES = (message.PathEntry(7, ADDRESS, 128, rate=1000), message.PathEntry(7, bytes(16), 0, rate=1000))
TOLD = message.PathEntry(7, ADDRESS, 128, 1, marks=3, interval_ns=9)
PATHS = body(message.PathMessage(ADDRESS, ENTRIES, 1000, epoch=1, sequence=1))
PATH_MARKS = body(message.PathMessage(ADDRESS, (TOLD,), epoch=1, sequence=1, type=message.TYPE_MARKS))
SOLICITATION = b"\x87" + bytes(7) + b"\xfe\x80" + bytes(13) + b"\3"
TAGGED = b"\2" * 12 + b"\x88\xa8\0\7\x81\0\0\5"


def changed(body, place, value):
    """Return a message with other bytes at a place."""
    return body[:place] + value + body[place + len(value) :]


SEEDS = (
    *(bytes([FRAME]) + one for one in (
        bytes(arp(11, 31)), bytes(ipv4(11, 31)), b"\2" * 12 + b"\x81\0\0\5" + bytes(ipv4(11, 31))[12:], TAGGED,
        TAGGED + b"\x08\0E" + bytes(30), b"\2" * 12 + b"\x08\0\x65", b"\2" * 12 + b"\x86\xdd\x45", b"\2" * 13,
        b"\2" * 12 + b"\x08\6\0\1", ipv6(58, SOLICITATION), ipv6(58, b"\x88" + SOLICITATION[1:]), ipv6(17, bytes(8)),
        ipv6(0, b"\x3c\0" + bytes(6), b"\x33\0" + bytes(6), b"\x2c\1" + bytes(6), b"\x3a\0\0\x08" + bytes(4), b"\x87"),
        ipv6(0, b"\xfd\0" + bytes(6)), ipv6(253, b""), ipv6(43, b"\0\xff"),
        ipv6(44, b"\x3a\0\0\0" + bytes(4), SOLICITATION),
        ipv6(58, b"\x88", source=b"\xff" * 16), b"\2" * 12 + b"\x12\x34",
        ipv6(51, b"\x3a\1" + bytes(10), SOLICITATION))),
    bytes([LLDP]) + packets.lldp_frame(7, 3, KEY), bytes([LLDP]) + packets.lldp_frame(7, 3, bytes(16)),
    b"\1" + bytes(20),
    bytes([V0]) + b"\0\5", bytes([V0]) + b"\0\5\6", bytes([V0]),
    *(bytes([V1_SIGNED]) + one for one in (
        MARKS, RATE, REPORT, MARKS[:50], MARKS + b"x", changed(RATE, 48, bytes(40)), changed(MARKS, 0, b"x"),
        changed(MARKS, 3, b"\x09"), changed(REPORT, 60, b"\xff" * 12), changed(MARKS, 8, bytes(8)))),
    bytes([V1]) + MARKS + bytes(8),
    *(bytes([V2_SIGNED]) + one for one in (
        PATHS, PATH_MARKS, PATHS[:40], changed(PATHS, 0, b"x"), changed(PATHS, 36, b"\0"), changed(PATHS, 36, b"\1"),
        changed(PATHS, 3, b"\x09"), changed(PATHS, 40, b"\xff" * 8), changed(PATHS, 8, bytes(8)),
        changed(PATHS, 48, bytes(8)),
        changed(PATHS, 72, b"\xff\x09"), changed(PATHS, 72, b"\x09\1"), changed(PATHS, 72, b"\x09\0"),
        changed(PATHS, 80, bytes(8)))),
    bytes([V2]) + PATHS + bytes(8),
)  # fmt: skip


if __name__ == "__main__":
    fuzzing.fuzz(take, SEEDS)
