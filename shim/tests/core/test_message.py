# SPDX-License-Identifier: Apache-2.0
"""Control messages: SipHash, the bytes of v0, v1 and v2, each refusal, and the shared vectors."""

import json
import struct
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.wire import message as wire
from sdngcc.shim import core as binding

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "message.json").read_text(encoding="utf-8"))
MASK = 2**64 - 1
KEY = bytes(range(16))

#: Outputs of the authors' reference program for key 00..0f and inputs of 0 to 15 bytes 00, 01, ...
REFERENCE = """
310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785 b7877127e09427cf 8da699cd64557618
cee3fe586e46c9cb 37d1018bf50002ab 6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4
fbe50e86bc8f1e75 903d84c02756ea14 eef27a8e90ca23f7 e545be4961ca29a1
""".split()


def siphash(key: bytes, data: bytes) -> int:
    """SipHash-2-4 in Python, written from the paper's section 2."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def left(x: int, n: int) -> int:
        return (x << n | x >> 64 - n) & MASK

    def sip_round(times: int) -> None:
        for _ in range(times):
            v[0] = v[0] + v[1] & MASK
            v[1] = left(v[1], 13) ^ v[0]
            v[0] = left(v[0], 32)
            v[2] = v[2] + v[3] & MASK
            v[3] = left(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3] & MASK
            v[3] = left(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1] & MASK
            v[1] = left(v[1], 17) ^ v[2]
            v[2] = left(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        sip_round(2)
        v[0] ^= word
    v[2] ^= 0xFF
    sip_round(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def layout(fields: Dict[str, Any], key: bytes) -> bytes:
    """The 96 bytes of a v1 message by struct, from the table in message.c."""
    body = struct.pack(
        "!HBBHHII16s16sQIIQQII", 0x5347, 1, fields["type"], fields["flags"], 96, fields["epoch"],
        fields["sequence"], fields["vm"], fields["peer"], fields["point_datapath"], fields["point_port"],
        fields["marks"], fields["interval_ns"], fields["rate"], fields["weight_total"], fields["sender"])
    return body + struct.pack("!Q", siphash(key, body))


u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, MASK)
addresses = st.binary(min_size=16, max_size=16)
messages = st.fixed_dictionaries({
    "type": st.sampled_from([1, 2, 3]), "flags": st.just(0), "epoch": st.integers(1, 2**32 - 1),
    "sequence": st.integers(1, 2**32 - 1), "vm": addresses, "peer": addresses, "point_datapath": u64,
    "point_port": u32, "marks": u32, "interval_ns": u64, "rate": st.integers(125, 10**11), "weight_total": u32,
    "sender": u32}).filter(lambda fields: fields["type"] != 3 or fields["marks"] <= fields["weight_total"])
keys = st.binary(min_size=16, max_size=16)

SAMPLE: Dict[str, Any] = {
    "type": 1, "flags": 0, "epoch": 7, "sequence": 9, "vm": bytes(range(16)), "peer": bytes(range(16, 32)),
    "point_datapath": 3, "point_port": 4, "marks": 5, "interval_ns": 5000000, "rate": 0, "weight_total": 4,
    "sender": 1}


def test_siphash_reference_vectors(core: Any) -> None:
    for length, want in enumerate(REFERENCE):
        data = bytes(range(length))
        assert core.lib.shim_siphash(KEY, data, length).to_bytes(8, "little").hex() == want
        assert siphash(KEY, data).to_bytes(8, "little").hex() == want


def test_siphash_long_inputs(core: Any) -> None:
    for length in range(16, 300):
        data = bytes(length)
        assert core.lib.shim_siphash(KEY, data, length) == siphash(KEY, data)


@given(key=keys, data=st.binary(max_size=300))
def test_siphash_any_input(core: Any, key: bytes, data: bytes) -> None:
    assert core.lib.shim_siphash(key, data, len(data)) == siphash(key, data)


@given(fields=messages, key=keys)
def test_v1_round_trip(fields: Dict[str, Any], key: bytes) -> None:
    data = binding.encode(fields, key)
    assert data == layout(fields, key)
    assert binding.decode(data, key) == ("ok", {**fields, "version": 1})


@given(fields=messages, key=keys, bit=st.integers(0, 96 * 8 - 1))
def test_any_flipped_bit_is_refused(fields: Dict[str, Any], key: bytes, bit: int) -> None:
    data = bytearray(binding.encode(fields, key))
    data[bit // 8] ^= 1 << bit % 8
    assert binding.decode(bytes(data), key)[0] in ("form", "tag")


@given(data=st.binary(max_size=200), key=keys)
def test_noise_is_refused(data: bytes, key: bytes) -> None:
    assert binding.decode(data, key)[0] == ("short" if len(data) < 96 else "form")


@pytest.mark.parametrize("change", [
    {"type": 0}, {"type": 3}, {"type": 4, "rate": 124}, {"type": 5},
    {"flags": 1}, {"epoch": 0}, {"sequence": 0}, {"type": 2, "rate": 0},
    {"type": 2, "rate": 124}, {"type": 2, "rate": 10**11 + 1}])
def test_fields_out_of_range_are_refused_though_signed(change: Dict[str, int]) -> None:
    assert binding.decode(layout({**SAMPLE, **change}, KEY), KEY) == ("form", {})


def test_lengths_magic_version_and_key() -> None:
    good = layout(SAMPLE, KEY)
    assert binding.decode(good, KEY)[0] == "ok"
    assert binding.decode(b"", KEY)[0] == "short"
    assert binding.decode(good[:95], KEY)[0] == "short"
    assert binding.decode(good + b"\0", KEY)[0] == "form"
    for offset in (0, 1, 2, 6, 7):
        assert binding.decode(good[:offset] + bytes([good[offset] ^ 4]) + good[offset + 1:], KEY)[0] == "form"
    assert binding.decode(good, bytes(16))[0] == "tag"


@given(marks=st.integers(0, 65535))
def test_v0(marks: int) -> None:
    name, fields = binding.decode_v0(struct.pack("!H", marks))
    assert name == "ok"
    assert fields == {name: 0 for name in fields} | {"marks": marks, "type": 1, "vm": bytes(16), "peer": bytes(16)}


def test_v0_refusals() -> None:
    assert binding.decode_v0(b"") == ("short", {})
    assert binding.decode_v0(b"\1") == ("short", {})
    assert binding.decode_v0(b"\1\2\3") == ("form", {})


def test_binding_names_what_is_wrong() -> None:
    with pytest.raises(KeyError, match="'mark'"):
        binding.message({"mark": 1})
    with pytest.raises(ValueError, match="16 bytes, not 2"):
        binding.encode(SAMPLE, b"ab")


@pytest.mark.parametrize("vector", VECTORS["v1"], ids=lambda vector: vector["name"])
def test_vectors_v1(vector: Dict[str, Any]) -> None:
    fields = {name: IPv6Address(value).packed if name in ("vm", "peer") else value
              for name, value in vector["message"].items()}
    key, data = bytes.fromhex(vector["key"]), bytes.fromhex(vector["bytes"])
    assert binding.encode(fields, key) == data
    assert binding.decode(data, key) == ("ok", {**fields, "version": 1})
    assert layout(fields, key) == data


@pytest.mark.parametrize("vector", VECTORS["v0"], ids=lambda vector: vector["name"])
def test_vectors_v0(vector: Dict[str, Any]) -> None:
    name, fields = binding.decode_v0(bytes.fromhex(vector["bytes"]))
    assert (name, fields["marks"]) == ("ok", vector["marks"])


@pytest.mark.parametrize("vector", VECTORS["v2"], ids=lambda vector: vector["name"])
def test_vectors_v2(vector: Dict[str, Any]) -> None:
    said, key, data = vector["message"], bytes.fromhex(vector["key"]), bytes.fromhex(vector["bytes"])
    verdict, fields = binding.decode(data, key)
    assert verdict == "ok" and fields["version"] == 2 and fields["vm"] == IPv6Address(said["vm"]).packed
    assert all(fields[name] == said[name] for name in ("type", "flags", "epoch", "sequence", "sender", "rate"))
    assert fields["marks"] == min(sum(entry["marks"] for entry in said["entries"]), 2**32 - 1)
    assert binding.entries(data) == [{**entry, "prefix": IPv6Address(entry["prefix"]).packed}
                                     for entry in said["entries"]]


def test_most_entries_of_v2() -> None:
    told = tuple(wire.PathEntry(number + 1, bytes(14) + bytes([number, 0]), 120, rate=125 + number)
                 for number in range(wire.ENTRIES_MAX))
    data = wire.encode_v2(wire.PathMessage(bytes(16), told, 10**11, 1, 2, 3), KEY)
    assert len(data) == 1336 and binding.decode(data, KEY)[0] == "ok"
    assert [(entry["teller"], entry["rate"]) for entry in binding.entries(data)] == [
        (entry.teller, entry.rate) for entry in told]


@given(data=st.data(), vector=st.sampled_from(VECTORS["v2"]))
def test_any_flipped_bit_of_v2_is_refused(data: Any, vector: Dict[str, Any]) -> None:
    message = bytearray.fromhex(vector["bytes"])
    bit = data.draw(st.integers(0, 8 * len(message) - 1))
    message[bit // 8] ^= 1 << bit % 8
    assert binding.decode(bytes(message), bytes.fromhex(vector["key"]))[0] in ("form", "tag")


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["name"])
def test_vectors_refused(vector: Dict[str, Any]) -> None:
    data = bytes.fromhex(vector["bytes"])
    if vector["version"]:
        assert binding.decode(data, bytes.fromhex(vector["key"])) == (vector["error"], {})
    else:
        assert binding.decode_v0(data) == (vector["error"], {})
