# SPDX-License-Identifier: Apache-2.0
"""Proportions of machines' bytes out of flow counters: stale, reset, new, lost and unreadable ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.network.counters import LOST_NS, WANTED_NS, PairBytes
from sdngcc.controller.wire import openflow

from ..fabric import mac

PERIOD_NS = 100_000_000
PLACE = (1, 2)
A, B, C = ((mac(1), mac(number)) for number in (2, 3, 4))
PAIRS = {10: A, 11: B, 12: C, 20: A}  # by number of the flow


def reply(counters, xid=1, more=False, cookie=0x5347 << 48):
    """Return a flow statistics reply; ``counters`` are bytes by number of the flow."""
    body = b"".join(
        struct.pack("!H22xQQQ", 56, cookie | number, 1, count) + openflow.match() for number, count in counters.items()
    )
    return struct.pack("!BBHIHH4x", 4, 19, 16 + len(body), xid, 1, int(more)) + body


def reader(find=lambda number: (PAIRS[number], PLACE) if number in PAIRS else None):
    pair_bytes = PairBytes(PERIOD_NS, 0x5347 << 48, 0xFFFF << 48, find)
    pair_bytes.want(1, 0)
    return pair_bytes


def read(pair_bytes, counters):
    pair_bytes.asked(1, 1, 0)
    pair_bytes.feed(1, reply(counters))


def test_proportions_follow_the_bytes_since_the_reading_before():
    pair_bytes = reader()
    read(pair_bytes, {10: 900, 11: 100})
    assert pair_bytes.proportions.of(PLACE, [A, B]) == {A: 0.9, B: 0.1}
    read(pair_bytes, {10: 900, 11: 100 + 4000})
    after = pair_bytes.proportions.of(PLACE, [A, B])
    assert after[B] == pytest.approx((25 + 4000) / 4250) and sum(after.values()) == pytest.approx(1)


def test_counters_that_stand_still_change_nothing():
    pair_bytes = reader()
    read(pair_bytes, {10: 900, 11: 100})
    version = pair_bytes.proportions.version
    for _ in range(5):
        read(pair_bytes, {10: 900, 11: 100})
    assert pair_bytes.proportions.of(PLACE, [A, B]) == {A: 0.9, B: 0.1}
    assert pair_bytes.proportions.version == version


def test_an_owners_revision_moves_with_its_own_counters_alone():
    proportions = reader().proportions
    proportions.take(PLACE, {A: (10, 5)})
    before = proportions.revision(PLACE)
    proportions.take((1, 3), {B: (11, 5)})
    proportions.take(PLACE, {A: (10, 5)})
    assert proportions.revision(PLACE) == before > 0
    proportions.take(PLACE, {A: (10, 6)})
    assert proportions.revision(PLACE) > before
    proportions.keep(PLACE[0], ())
    assert proportions.revision(PLACE) == 0


def test_flow_added_again_counts_from_nothing():
    pair_bytes = reader()
    read(pair_bytes, {10: 5000, 11: 100})
    read(pair_bytes, {20: 100, 11: 200})
    assert pair_bytes.proportions.of(PLACE, [A, B])[A] == pytest.approx((1250 + 100) / (1250 + 100 + 25 + 100))


def test_new_pair_is_an_average_one_until_it_was_measured():
    pair_bytes = reader()
    assert pair_bytes.proportions.of(PLACE, [A, B, C]) == {A: 1 / 3, B: 1 / 3, C: 1 / 3}
    read(pair_bytes, {10: 900, 11: 300})
    assert pair_bytes.proportions.of(PLACE, [A, B, C]) == pytest.approx({A: 0.5, B: 1 / 6, C: 1 / 3})
    read(pair_bytes, {10: 1800, 11: 600, 12: 0})
    assert pair_bytes.proportions.of(PLACE, [A, B, C])[C] == pytest.approx(1 / 3)
    read(pair_bytes, {10: 2700, 11: 900, 12: 0})
    assert pair_bytes.proportions.of(PLACE, [A, B, C]) == pytest.approx({A: 0.75, B: 0.25, C: 0})


def test_pair_without_a_flow_is_forgotten():
    pair_bytes = reader()
    read(pair_bytes, {10: 900, 11: 100})
    read(pair_bytes, {10: 1800})
    assert pair_bytes.proportions.of(PLACE, [A]) == {A: 1.0}
    read(pair_bytes, {})
    assert pair_bytes.proportions.of(PLACE, [A, B]) == {A: 0.5, B: 0.5}


def test_parts_of_a_reply_count_together_and_strangers_not_at_all():
    pair_bytes = reader()
    pair_bytes.asked(1, 7, 0)
    pair_bytes.feed(1, reply({10: 1000}, xid=7, more=True))
    pair_bytes.feed(1, reply({10: 99999}, xid=8))
    assert pair_bytes.proportions.of(PLACE, [A, B]) == {A: 0.5, B: 0.5}
    pair_bytes.feed(1, reply({11: 1000, 99: 5}, xid=7))
    pair_bytes.feed(1, reply({10: 99999}, xid=7))
    assert pair_bytes.proportions.of(PLACE, [A, B]) == {A: 0.5, B: 0.5} and pair_bytes.replies == 1


def test_counter_that_is_not_kept_counts_as_unmeasured():
    pair_bytes = reader()
    read(pair_bytes, {10: openflow.NOT_COUNTED, 11: 100})
    assert pair_bytes.proportions.of(PLACE, [A, B]) == {A: 0.5, B: 0.5}


def test_asked_once_a_period_while_wanted_and_never_twice():
    pair_bytes = reader()
    assert pair_bytes.due(0) == [1]
    pair_bytes.asked(1, 5, 0)
    assert pair_bytes.due(PERIOD_NS) == []
    pair_bytes.feed(1, reply({}, xid=5))
    assert pair_bytes.due(PERIOD_NS - 1) == [] and pair_bytes.due(PERIOD_NS) == [1]
    assert pair_bytes.due(PERIOD_NS) == []  # it could not be sent: a period later
    assert pair_bytes.next_ns(PERIOD_NS) == 2 * PERIOD_NS
    pair_bytes.asked(1, 6, PERIOD_NS)
    pair_bytes.want(1, PERIOD_NS + LOST_NS)
    assert pair_bytes.due(PERIOD_NS + LOST_NS + 1) == [1] and pair_bytes.lost == 1
    assert pair_bytes.due(PERIOD_NS + LOST_NS + WANTED_NS + 1) == []
    assert pair_bytes.due(10**12) == []


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tail):
    pair_bytes = reader()
    pair_bytes.asked(1, 1, 0)
    try:
        pair_bytes.feed(1, reply({10: 5}) + tail)
    except openflow.MessageError:
        pass
    assert sum(pair_bytes.proportions.of(PLACE, [A, B]).values()) == pytest.approx(1)


@given(st.lists(st.tuples(*[st.integers(0, 10**12)] * 3), max_size=8))
def test_proportions_add_up_to_one(readings):
    pair_bytes = reader()
    for counters in readings:
        read(pair_bytes, dict(zip((10, 11, 12), counters)))
    parts = pair_bytes.proportions.of(PLACE, [A, B, C])
    assert sum(parts.values()) == pytest.approx(1) and min(parts.values()) >= 0
