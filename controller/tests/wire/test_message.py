# SPDX-License-Identifier: Apache-2.0
"""Control messages against the vectors that the C core is tested with, and the frames around them."""

import ipaddress
import json
import pathlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller import native
from sdngcc.controller.wire import message, packets
from sdngcc.controller.wire.siphash import siphash24

VECTORS = json.loads((pathlib.Path(__file__).parents[3] / "shim/tests/vectors/message.json").read_text("utf-8"))


def names(group):
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[group]]


def from_vector(fields):
    plain = dict(fields)
    for key in ("vm", "peer"):
        plain[key] = ipaddress.IPv6Address(plain[key]).packed
    return message.Message(**plain)


def test_siphash_of_the_authors():
    # The reference vector of the SipHash paper, appendix A.
    assert siphash24(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5


def test_siphash_needs_16_bytes_of_key():
    with pytest.raises(ValueError, match="has 3 bytes"):
        siphash24(b"abc", b"")


@given(st.binary(min_size=16, max_size=16), st.lists(st.binary(max_size=200), max_size=20))
def test_siphash_of_many_is_that_of_each(key, texts):
    assert native.tags(key, texts) == [siphash24(key, text) for text in texts]


@pytest.mark.parametrize("vector", names("v1"))
def test_v1_vectors(vector):
    key, data = bytes.fromhex(vector["key"]), bytes.fromhex(vector["bytes"])
    wanted = from_vector(vector["message"])
    assert message.encode_v1(wanted, key) == data
    assert message.decode_v1(data, key) == wanted


def paths_from_vector(fields):
    entries = tuple(
        message.PathEntry(**{**entry, "prefix": ipaddress.IPv6Address(entry["prefix"]).packed})
        for entry in fields["entries"]
    )
    return message.PathMessage(**{**fields, "vm": ipaddress.IPv6Address(fields["vm"]).packed, "entries": entries})


@pytest.mark.parametrize("vector", names("v2"))
def test_v2_vectors(vector):
    key, data = bytes.fromhex(vector["key"]), bytes.fromhex(vector["bytes"])
    wanted = paths_from_vector(vector["message"])
    assert message.encode_v2(wanted, key) == data
    assert message.decode_v2(data, key) == wanted


@pytest.mark.parametrize("vector", names("v0"))
def test_v0_vectors(vector):
    assert message.encode_v0(vector["marks"]) == bytes.fromhex(vector["bytes"])
    assert message.decode_v0(bytes.fromhex(vector["bytes"])).marks == vector["marks"]


@pytest.mark.parametrize("vector", names("refused"))
def test_refusals(vector):
    data = bytes.fromhex(vector["bytes"])
    with pytest.raises(message.MessageError) as caught:
        if vector["version"] == 1:
            message.decode_v1(data, bytes.fromhex(vector["key"]))
        elif vector["version"] == 2:
            message.decode_v2(data, bytes.fromhex(vector["key"]))
        else:
            message.decode_v0(data)
    assert caught.value.reason == vector["error"]


def test_v0_cannot_carry_more_than_its_field():
    assert message.encode_v0(70_000) == b"\xff\xff"


@given(st.binary(max_size=120))
def test_noise_is_refused(data):
    with pytest.raises(message.MessageError):
        message.decode_v1(data, bytes(16))
    with pytest.raises(message.MessageError):
        message.decode_v2(data, bytes(16))


bits = st.integers(0, 128)
marked = st.builds(
    lambda teller, prefix, bits, scope, weights, marks, interval: message.PathEntry(
        teller,
        (int.from_bytes(prefix, "big") >> (128 - bits) << (128 - bits)).to_bytes(16, "big"),
        bits, scope if bits else 0, weights, marks=marks, interval_ns=interval,
    ),
    st.integers(1, 2**64 - 1), st.binary(min_size=16, max_size=16), bits, st.integers(0, 1),
    st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1),
)  # fmt: skip


@given(st.lists(marked, min_size=1, max_size=message.ENTRIES_MAX))
def test_v2_round_trip(entries):
    told = message.PathMessage(bytes(15) + b"\1", tuple(entries), 0, 1, 2, 3, message.TYPE_MARKS)
    assert message.decode_v2(message.encode_v2(told, bytes(16)), bytes(16)) == told


def test_ipv4_frame_has_a_right_checksum():
    vm, peer = packets.mapped(b"\x0a\0\0\1"), packets.mapped(b"\x0a\0\0\2")
    frame = packets.message_frame(b"\2" * 6, b"\4" * 6, vm, peer, 253, b"xy")
    header = struct.unpack("!10H", frame[14:34])
    total = sum(header)
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
    assert frame[:14] == b"\2" * 6 + b"\4" * 6 + b"\x08\x00"
    assert frame[23] == 253 and frame[26:34] == b"\x0a\0\0\2\x0a\0\0\1" and frame[34:] == b"xy"


def test_ipv6_frame():
    vm, peer = ipaddress.IPv6Address("fd00::1").packed, ipaddress.IPv6Address("fd00::2").packed
    frame = packets.message_frame(b"\2" * 6, b"\4" * 6, vm, peer, 253, b"xy")
    assert frame[12:14] == b"\x86\xdd" and frame[18:21] == b"\0\2\xfd"
    assert frame[22:38] == peer and frame[38:54] == vm
    parsed = packets.parse_frame(frame, 253)
    assert parsed is not None and parsed.control
