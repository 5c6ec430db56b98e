# SPDX-License-Identifier: Apache-2.0
"""The reader of connections by itself: whatever bytes come, whole messages or an error come out."""

import struct
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.framework import reader
from sdngcc.controller.framework.reader import (
    EchoAnswered,
    FlowRemoved,
    ForFramework,
    Multipart,
    PacketIn,
    Port,
    PortChanged,
    PortRemoved,
    Reader,
    ReadError,
    Refused,
    Role,
    State,
    Unserved,
)

from .. import fuzzing


def message(kind, body=b"", xid=7):
    return struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body


def element(kind, body, length=None):
    padding = bytes(-(4 + len(body)) % 8)
    return struct.pack("!HH", kind, 4 + len(body) if length is None else length) + body + padding


def described(number, name=b"tap", config=0, state=0, speed=0):
    mac = bytes([2, 0, 0, 0, 9, number & 0xFF])
    return struct.pack("!I4x6s2x16sIIIIIIII", number, mac, name, config, state, 0, 0, 0, 0, speed, 0)


def ports(*some, flags=0):
    return message(19, struct.pack("!HH4x", 13, flags) + b"".join(some))


def packet_in(*fields, frame=b"frame"):
    match = b"".join(fields)
    match = struct.pack("!HH", 1, 4 + len(match)) + match + bytes(-(4 + len(match)) % 8)
    return message(10, struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 0, 0, 9) + match + bytes(2) + frame)


def oxm(field, value, oxm_class=0x8000):
    return struct.pack("!HBB", oxm_class, field << 1, len(value)) + value


HELLO = message(0)
FEATURES = message(6, struct.pack("!QIBB2xII", 0xA1, 0, 1, 0, 0x47, 0))
IN_PORT = oxm(0, struct.pack("!I", 3))


def ready():
    one = Reader()
    assert len(list(one.feed(HELLO + FEATURES + ports(described(1))))) == 3
    assert one.state is State.READY
    return one


def read(data):
    return list(ready().feed(data))


def refusal(data, one=None):
    with pytest.raises(ReadError) as caught:
        list((one or ready()).feed(data))
    return str(caught.value)


def test_a_handshake_goes_to_the_framework_the_hello_cut_to_its_header():
    one = Reader()
    got = list(one.feed(message(0, element(1, struct.pack("!I", 0x72))) + FEATURES))
    assert got == [ForFramework(HELLO), ForFramework(FEATURES)] and one.dpid == 0xA1
    first, last = ports(described(1), flags=1), ports(described(2, b"eth1", state=1, speed=1_000_000))
    # Ports are read here: the framework gets to know that they came.
    assert list(one.feed(first)) == [ForFramework(ports(flags=1))] and one.state is State.PORTS
    assert list(one.feed(last)) == [ForFramework(ports())] and one.state is State.READY
    assert one.ports[1] == Port(1, "tap", bytes([2, 0, 0, 0, 9, 1]), True, 0)
    assert one.ports[2] == Port(2, "eth1", bytes([2, 0, 0, 0, 9, 2]), False, 125_000_000)


def test_a_ports_name_ends_at_its_first_nul_byte():
    one = Reader()
    assert list(one.feed(HELLO + FEATURES + ports(described(1, b"tap\0\x1b[2J"))))
    assert one.ports[1].name == "tap"


@pytest.mark.parametrize(
    "version, elements",
    [(4, b""), (6, element(1, struct.pack("!I", 1 << 4 | 1 << 6))), (5, b""), (4, element(7, b"what is this?")),
     (6, element(7, bytes(8)) + element(1, struct.pack("!I", 1 << 4))[:8])],
)  # fmt: skip
def test_who_speaks_openflow_1_3_is_let_in(version, elements):
    data = message(0, elements)
    assert list(Reader().feed(bytes([version]) + data[1:])) == [ForFramework(HELLO)]


@pytest.mark.parametrize(
    "version, elements", [(1, b""), (6, element(1, struct.pack("!I", 1 << 6))), (4, element(1, bytes(4))),
                          (4, element(1, b""))],
)  # fmt: skip
def test_who_does_not_is_told_so(version, elements):
    data = message(0, elements)
    with pytest.raises(ReadError, match="4 .1.3. is needed") as caught:
        list(Reader().feed(bytes([version]) + data[1:]))
    answer = caught.value.answer
    assert answer[:2] == b"\x04\x01" and answer[8:12] == bytes(4) and len(answer) == answer[2] << 8 | answer[3]


@pytest.mark.parametrize("length", [0, 1, 3, 5000])
@pytest.mark.parametrize("kind", [0, 1, 0xFFFF])
def test_a_hello_element_is_no_shorter_than_its_header_and_ends_within(kind, length):
    assert f"an element of length {length}" in refusal(message(0, element(kind, b"", length)), Reader())


def test_what_a_switch_says_by_itself_is_read():
    assert read(packet_in(oxm(2, bytes(8)), IN_PORT, oxm(5, b"\x08\x00"))) == [PacketIn(3, b"frame")]
    assert read(message(11, struct.pack("!QHBB", 77, 1, 2, 0) + bytes(28) + bytes(8))) == [FlowRemoved(77, 2)]
    changed = described(1, b"eth9", speed=8)
    assert read(message(12, struct.pack("!B7x", 2) + changed)) == [
        PortChanged(Port(1, "eth9", bytes([2, 0, 0, 0, 9, 1]), True, 1000))
    ]
    assert read(message(12, struct.pack("!B7x", 1) + changed)) == [PortRemoved(1)]
    assert read(message(1, struct.pack("!HH", 5, 6) + b"the request", xid=9)) == [Refused(9, 5, 6)]
    assert read(message(25, struct.pack("!I4xQ", 2, 8))) == [Role(2, 8)]
    assert read(message(3, b"", xid=11)) == [EchoAnswered(11)]
    echo = message(2, b"any bytes")
    assert read(echo) == [ForFramework(echo)]


@pytest.mark.parametrize("kind", [1, 6, 0xFFFF])
def test_counters_are_handed_on_as_they_are(kind):
    data = message(19, struct.pack("!HH4x", kind, 0) + b"whatever")
    assert read(data) == [Multipart(data)]


@pytest.mark.parametrize("kind", [0, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14])
def test_other_multipart_replies_are_left_out(kind):
    assert read(message(19, struct.pack("!HH4x", kind, 0) + bytes(4))) == [Unserved(19)]


def test_nothing_but_the_handshake_counts_before_it_is_done():
    one = Reader()
    list(one.feed(HELLO))
    early = [packet_in(IN_PORT), message(19, struct.pack("!HH4x", 1, 0)), message(19, struct.pack("!HH4x", 13, 0))]
    assert list(one.feed(b"".join(early))) == [Unserved(10), Unserved(19), Unserved(19)]
    assert "an ERROR of type 1, code 2 in place of its FEATURES_REPLY" in refusal(message(1, b"\0\1\0\2"), one)


def test_a_port_that_changes_during_the_handshake_is_known_after_it():
    one = Reader()
    list(one.feed(HELLO + FEATURES + ports(described(1), described(2), flags=1)))
    list(one.feed(message(12, struct.pack("!B7x", 1) + described(2))))
    list(one.feed(message(12, struct.pack("!B7x", 0) + described(5)) + ports()))
    assert set(one.ports) == {1, 5}


@pytest.mark.parametrize(
    "data, text",
    [
        (b"\x04\x00\x00\x07\0\0\0\0", "length 7; 8 is the least"),
        (b"\x05\x02\x00\x08\0\0\0\0", "version 5; 4 (1.3) was agreed upon"),
        (HELLO, "a second HELLO"),
        (FEATURES, "FEATURES_REPLY that nobody asked for"),
        (message(14), "type 14, which no switch"),
        (message(99), "type 99, which no switch"),
        (message(19, bytes(4)), "MULTIPART_REPLY of 12 bytes"),
        (message(10, bytes(12)), "PACKET_IN of 20 bytes"),
        (packet_in(oxm(3, bytes(6))), "does not tell its port"),
        (packet_in(oxm(0, b"\0\3")), "does not tell its port"),
        (packet_in(IN_PORT)[:28] + b"\xff\xff" + packet_in(IN_PORT)[30:], "does not tell its port"),
        (message(10, bytes(16) + b"\0\1\xff\xf0" + bytes(40)), "match of type 1, 65520 bytes"),
        (message(11, bytes(40)), "FLOW_REMOVED of 48 bytes; 56 are the least"),
        (message(12, bytes(70)), "PORT_STATUS of 78 bytes; 80 are the least"),
        (message(1, bytes(2)), "ERROR of 10 bytes"),
        (message(25, bytes(8)), "ROLE_REPLY of 16 bytes"),
    ],
)
def test_what_cannot_be_read_is_named(data, text):
    assert text in refusal(data)


def test_what_has_no_end_is_bounded(monkeypatch):
    monkeypatch.setattr(reader, "PORTS_MAX", 3)
    assert "more than 3 ports" in refusal(b"".join(message(12, bytes(8) + described(number)) for number in range(5)))
    monkeypatch.setattr(reader, "PARTS_MAX_BYTES", 3 * reader.PART_LEAST_BYTES)
    more = [message(19, struct.pack("!HH4x", 1, 1) + bytes(20), xid) for xid in range(4)]
    assert "without an end" in refusal(b"".join(more))
    one, last = ready(), message(19, struct.pack("!HH4x", 1, 0), 0)
    for _ in range(5):
        assert len(list(one.feed(more[0] + more[0] + last))) == 3


HEADS = st.builds(
    lambda kind, body, length: struct.pack("!BBHI", 4, kind, 8 + len(body) if length is None else length, 1) + body,
    st.sampled_from([*reader.Type, 5, 30]), st.binary(max_size=80), st.none() | st.integers(0, 120),
)  # fmt: skip
STREAMS = st.lists(HEADS | st.binary(max_size=40) | st.sampled_from([FEATURES, ports(described(1))]), max_size=8)


def outcome(chunks):
    """Return what a reader makes of chunks: messages, and the text of what ended it."""
    one, got = Reader(), []
    try:
        for chunk in chunks:
            for found in one.feed(chunk):
                got.append(found)
    except ReadError as error:
        return got, str(error)
    return got, None


@given(STREAMS, st.booleans(), st.lists(st.integers(0, 300), max_size=6))
@settings(max_examples=400)
def test_how_bytes_arrive_makes_no_difference(stream, shaken, cuts):
    data = (HELLO + FEATURES + ports(described(1)) if shaken else b"") + b"".join(stream)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in zip(places, places[1:])]
    got, error = outcome([data])
    assert outcome(pieces) == (got, error)
    assert outcome([bytes([one]) for one in data]) == (got, error)
    # Nothing gets to the framework but what its parsers were fuzzed with.
    for found in got:
        if isinstance(found, ForFramework):
            assert found.data[0] == 4 and found.data[1] in (0, 2, 6, 19)
            assert len(found.data) == found.data[2] << 8 | found.data[3]


def test_no_input_raises_or_spins_behind_the_reader(tmp_path):
    pytest.importorskip("atheris")
    fuzzing.run("controller.tests.framework.fuzz_reader", tmp_path, 4000, "-max_len=600", "-seed=1")


@pytest.mark.release
def test_no_input_of_many_does(tmp_path):
    pytest.importorskip("atheris")
    fuzzing.run("controller.tests.framework.fuzz_reader", tmp_path, 400_000, "-max_len=2000")
    fuzzing.run("controller.tests.framework.fuzz_reader", tmp_path, 20_000, "-max_len=70000", "-len_control=0")


# The parser of a framework, as it is, given the HELLO that spins it: the fuzzer's measure has to see that.
_UNGUARDED = """
from sdngcc.controller.tests.framework import fuzz_reader
for data in (bytes.fromhex("0400001000000001ffff000000000000"), fuzz_reader.message(19, bytes(8) + bytes(7))):
    try:
        fuzz_reader.PARSERS.parse(data)
    except AssertionError as error:
        print("seen", str(error)[:14])
    except Exception as error:
        print("seen", type(error).__name__)
"""


def test_the_fuzzer_sees_a_parser_that_spins():
    pytest.importorskip("atheris")
    done = subprocess.run([sys.executable, "-c", _UNGUARDED], capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "seen too many steps", done.stderr
    assert len(done.stdout.splitlines()) == 2
