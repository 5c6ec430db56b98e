# SPDX-License-Identifier: Apache-2.0
"""What is done in C against the same in Python, message by message, and what keeps its arrays up to date."""

import collections
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller import native
from sdngcc.controller.network.relations import Relations
from sdngcc.controller.rates.batch import PathMarks, Telling, gather, join
from sdngcc.controller.rates.division import Notice
from sdngcc.controller.rates.fronts import Fronts
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.settings import Settings
from sdngcc.controller.tests import fabric
from sdngcc.controller.tests.fabric import mac
from sdngcc.controller.wire import message, openflow, packets, rows

KEY = bytes(range(16))
SENDER = 7
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
ADDRESS = st.binary(min_size=16, max_size=16)
PLACE = (1, 3)
PAIR = (mac(11), mac(22))


def ip(number):
    return packets.mapped(fabric.ip(number))


def notice(**fields):
    found = np.zeros(1, native.NOTICE)
    for name, value in fields.items():
        found[name] = np.void(value) if isinstance(value, bytes) else value
    return found


def composed(notices, counts, fronts=b"", entries=b"", sequence=1):
    arrays = np.frombuffer(fronts, "V1"), np.frombuffer(entries, rows.ENTRY)
    data, ends = native.compose(notices, np.array(counts), *arrays, KEY, SENDER, sequence)
    bounds = [0, *ends.tolist()]
    assert bounds[-1] == len(data)
    return [data[first:end] for first, end in zip(bounds, bounds[1:])]


@given(ADDRESS, ADDRESS, st.tuples(U64, U64, U64), st.tuples(U32, U32, U32, U32, U32), st.sampled_from([1, 2]))
def test_a_message_of_version_1_is_that_of_python(vm, peer, long, short, kind):
    rate, interval_ns, datapath = long
    port, weight_total, marks, epoch, sequence = short
    fields = dict(rate=rate, interval_ns=interval_ns, weight_total=weight_total, marks=marks, epoch=epoch)
    fields.update(vm=vm, peer=peer)
    [found] = composed(
        notice(**fields, datapath=datapath, port=port, version=1, type=kind), [1], sequence=sequence
    )
    wanted = message.Message(
        **fields, point_datapath=datapath, point_port=port, sender=SENDER, sequence=sequence, type=kind
    )
    assert found == message.encode_v1(wanted, KEY)


ENTRY = st.builds(message.PathEntry, U64, ADDRESS, st.integers(0, 128), st.sampled_from([0, 1]), U32, U64)


@given(ADDRESS, U64, st.lists(ENTRY, min_size=3, max_size=5), st.integers(1, 70), st.integers(0, 3))
def test_messages_of_version_2_are_those_of_python(vm, rate, some, many, before):
    entries = (some * many)[:many]
    packed = [message.pack_entry(entry, message.TYPE_RATE) for entry in entries]
    count = -(-len(entries) // message.ENTRIES_MAX)
    found = composed(
        notice(rate=rate, epoch=9, first=before, end=before + len(entries), version=2, type=2, vm=vm),
        [count],
        entries=packed[0] * before + b"".join(packed),
        sequence=5,
    )
    wanted = [
        message.encode_v2(
            message.PathMessage(
                vm, tuple(entries[number * 32 : number * 32 + 32]), 0 if number else rate, SENDER, 9, 5 + number
            ),
            KEY,
        )
        for number in range(count)
    ]
    assert found == wanted


@pytest.mark.parametrize("marks", [0, 3, 65_535, 70_000])
def test_a_message_of_version_0_is_that_of_python(marks):
    assert composed(notice(marks=marks), [1]) == [message.encode_v0(marks)]


@pytest.mark.parametrize("family", [4, 6])
def test_a_front_is_that_of_a_packet_with_its_message(family):
    addresses = (ip(11), ip(22)) if family == 4 else (b"\xfd" + bytes(14) + b"\x0b", b"\xfd" + bytes(14) + b"\x16")
    front = openflow.packet_out(packets.message_frame(*PAIR, *addresses, 253, b""), (3,))
    entries = message.pack_entry(message.PathEntry(1, bytes(16), 0, rate=1000), message.TYPE_RATE) * 33
    found = composed(
        notice(front=2, front_bytes=len(front), epoch=1, end=33, version=2, type=2), [2], b"xx" + front, entries
    )
    for number, data in enumerate(found):
        payload = data[len(front) :]
        assert len(message.decode_v2(payload, KEY).entries) == (32, 1)[number]
        assert data == openflow.packet_out(packets.message_frame(*PAIR, *addresses, 253, payload), (3,))


def test_a_key_has_16_bytes_and_columns_fit():
    with pytest.raises(ValueError, match="has 3 bytes"):
        native.tags(b"abc", [b"x"])
    one, two = np.ones(1), np.ones(2)
    with pytest.raises(ValueError, match="2, 1, 2, 1, 1 are not lengths"):
        native.grants(two, one, two, np.zeros(1, np.intp), one)


@pytest.fixture
def fronts():
    relations = Relations()
    for number in (11, 22):
        relations.learn_host(mac(number), (number // 10, 3), ip(number), 1)
    return Fronts(Settings(notify=False), relations), relations


def template(fronts, pair=PAIR):
    found = np.zeros(1, native.NOTICE)
    numbers = fronts.find([PLACE], [pair])
    if numbers == [-1]:
        return None
    fronts.fill(found, numbers)
    at, size = int(found["front"][0]), int(found["front_bytes"][0])
    assert bytes(found["vm"][0]) == bytes(16), "the port is named, not an address that a machine claims"
    return bytes(found["peer"][0]), fronts.blob.tobytes()[at : at + size]


def front(*addresses, pair=PAIR):
    return addresses[1], openflow.packet_out(packets.message_frame(*pair, *addresses, 253, b""), (3,))


def test_fronts_follow_their_hosts(fronts):
    fronts, relations = fronts
    assert template(fronts) == front(ip(11), ip(22)) == template(fronts)
    relations.learn_host(mac(22), (2, 3), ip(33), 2)
    assert template(fronts) == front(ip(11), ip(33))
    relations.learn_host(mac(22), (2, 3), ip(22), 3)  # heard last
    assert template(fronts) == front(ip(11), ip(22))
    relations.forget_address(mac(22), ip(22))
    assert template(fronts) == front(ip(11), ip(33))
    relations.forget_host(mac(22))
    assert template(fronts) == front(ip(11), ip(11))
    relations.forget_host(mac(11))
    assert template(fronts) is None
    relations.learn_host(mac(11), (1, 3), ip(44), 4)
    assert template(fronts) == front(ip(44), ip(44))
    assert template(fronts, (mac(11), mac(33))) == front(ip(44), ip(44), pair=(mac(11), mac(33)))
    assert len(fronts._slots.things) == 1, "a number is left behind"


def test_hosts_that_nothing_is_told_of_are_not_remembered(fronts):
    fronts, relations = fronts
    template(fronts)
    for number in range(100, 120):
        relations.learn_host(mac(number), (1, 4), ip(number), 2)
        relations.forget_host(mac(number))
    assert not relations.renewed and relations.watched == set(PAIR)


def test_batches_have_what_tellings_say():
    point, other = (5, 6), (1 << 63, 8)
    named, rest = Prefix(ip(22), 128), Prefix(bytes(16), 0)
    paths = (PathMarks(other, named, 1 << 33, 5, 1 << 40), PathMarks(point, rest, 2, 3, 4))
    tellings = [
        Telling(PAIR, PLACE, Notice(PLACE, 0, 0, 1 << 40, point, 1000)),
        Telling(PAIR, (1, 4), Notice((1, 4), 1 << 33, 9, 3, other), paths),
        Telling(PAIR, (2, 4), None, paths[:1]),
    ]
    whole, parts = gather(tellings), join(gather(tellings[:2]), gather(tellings[2:]))
    for name in ("rate", "interval_ns", "datapath", "port", "weight_total", "marks", "first", "end", "type"):
        assert whole.rows[name].tolist() == parts.rows[name].tolist()
    assert whole.entries.tobytes() == parts.entries.tobytes()
    assert whole.rows["type"].tolist() == [message.TYPE_RATE, message.TYPE_MARKS, message.TYPE_MARKS]
    assert whole.rows["end"].tolist() == [0, 2, 3] and whole.rows["datapath"].tolist() == [5, 1 << 63, 0]
    assert whole.rows["weight_total"].tolist() == [2**32 - 1, 3, 0]
    assert whole.marks.tolist() == [0, (2 << 33) + 2, 1 << 33]
    assert struct.unpack("!II", whole.entries.tobytes()[32:40]) == (2**32 - 1, 5)
    assert collections.Counter(whole.select([2, 0]).places) == {(2, 4): 1, PLACE: 1}
