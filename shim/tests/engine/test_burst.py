# SPDX-License-Identifier: Apache-2.0
"""Credit for bursts under law maxmin: it is earned by silence, capped, and gone when nobody tells a rate."""

import itertools
from typing import Any, List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.wire.message import TYPE_RATE, Message, encode_v1

from .host import FULL, KEY, MS, SECOND, Host, address, excess

CAPACITY = 125_000_000  # 1 Gb/s
HERE, THERE, CONTROLLER = (address(text) for text in ("10.0.0.1", "10.9.9.9", "10.3.0.1"))
DEPTH, SUM = 3028, 60_000  # of a pacing bucket, and of what VMs of a port have beyond that
RATE = 1_250_000
LINE_NS = FULL * SECOND // CAPACITY
NUMBERS = itertools.count(1)  # of messages; all are of one sender


class Guest:
    """A VM that a controller tells rates, each with the weights of those who share its port."""

    def __init__(self, host: Host, weight: int = 1, here: bytes = HERE, **knobs: int) -> None:
        self.host, self.here = host, here
        host.key(KEY)
        host.law("maxmin", **knobs)
        self.vm, self.uplink = host.vm(weight), host.uplink(CAPACITY)
        self.passed: List[Tuple[int, int]] = [(host.now_ns, 0)]
        # A packet makes a limiter, a second one a use of it.
        host.send(self.vm, self.uplink, self.here, THERE)
        host.send(self.vm, self.uplink, self.here, THERE)

    def tell(self, rate: int, weights: int) -> None:
        said = Message(self.here, THERE, 0, rate=rate, weight_total=weights, sender=1, epoch=1000,
                       sequence=next(NUMBERS), type=TYPE_RATE)
        assert self.host.message(self.vm, None, CONTROLLER, self.here, encode_v1(said, KEY)) == "messages"

    def blast(self, ns: int, size: int = FULL, gap_ns: int = LINE_NS) -> int:
        """Send at line rate for so long; return the bytes that left at once."""
        at_once, end_ns = 0, self.host.now_ns + ns
        while self.host.now_ns < end_ns:
            outcome = self.host.send(self.vm, self.uplink, self.here, THERE, bytes=size)
            if outcome.passed:
                self.passed.append((max(outcome.departure_ns, self.host.now_ns), size))
                at_once += 0 if outcome.departure_ns else size
            self.host.pass_time(gap_ns)
        return at_once

    def rest(self, ns: int, weights: int, every_ns: int = 40 * MS) -> None:
        """Be silent, while the rate is told again and again."""
        while ns > 0:
            self.tell(RATE, weights)
            self.host.pass_time(min(ns, every_ns))
            ns -= every_ns


@pytest.mark.parametrize("weight, weights", [(1, 1), (1, 2), (1, 12), (3, 12), (5, 4)])
def test_who_was_silent_sends_his_part_of_the_burst_at_line_rate(host: Host, weight: int, weights: int) -> None:
    guest = Guest(host, weight)
    guest.rest(SECOND // 2, weights)
    credit = DEPTH + SUM * min(weight, weights) // weights
    at_once = guest.blast(credit * SECOND // CAPACITY)
    assert credit - 2 * FULL < at_once <= credit + RATE * credit // CAPACITY
    assert guest.blast(2 * MS, FULL) <= RATE * 2 * MS // SECOND + FULL, "credit that was spent is there again"


def test_credit_is_earned_by_what_is_not_sent(host: Host) -> None:
    guest = Guest(host)
    guest.rest(SECOND // 2, 2)
    guest.blast(4 * MS)
    for pause_ms in (2, 4, 8):
        # What waits has to leave first.
        host.pass_time(12 * MS)
        guest.blast(MS)
        host.pass_time(2 * MS + pause_ms * MS)
        assert guest.blast(MS) <= RATE * (pause_ms + 3) * MS // SECOND + DEPTH


def test_who_is_backlogged_earns_none_when_his_rate_or_the_burst_rises(host: Host) -> None:
    guest = Guest(host)
    guest.tell(RATE, 0)
    guest.blast(20 * MS)
    guest.tell(RATE, 1)
    assert guest.blast(MS) <= FULL + RATE * MS // SECOND
    guest.tell(4 * RATE, 1)
    assert guest.blast(MS) <= FULL + 4 * RATE * MS // SECOND


@pytest.mark.parametrize("case", ["no controller", "the knob is 0", "weights unknown", "no rate any more"])
def test_there_is_none(host: Host, case: str) -> None:
    guest = Guest(host, **({"burst_bytes": 0} if case == "the knob is 0" else {}))
    if case == "no controller":
        host.pass_time(50 * MS)
    else:
        guest.rest(SECOND // 2, 0 if case == "weights unknown" else 1)
    if case == "no rate any more":
        guest.host.pass_time(250 * MS)
    found = host.limiter(guest.vm, guest.uplink)
    assert found.depth == max(DEPTH, found.rate // 10_000)


def test_bursts_of_all_who_share_a_port_fit_its_buffer(host: Host) -> None:
    """Twelve VMs, each on an uplink of its own, come back at the same time; their port carries what they are told."""
    count, begin_ns = 12, host.now_ns + SECOND // 2
    guests = [Guest(host, here=address(f"10.0.1.{number}")) for number in range(count)]
    while host.now_ns < begin_ns:
        for guest in guests:
            guest.tell(CAPACITY // count, count)
        host.pass_time(40 * MS)
    for _ in range(200):
        for guest in guests:
            outcome = host.send(guest.vm, guest.uplink, guest.here, THERE)
            if outcome.passed:
                guest.passed.append((max(outcome.departure_ns, host.now_ns), FULL))
        host.pass_time(LINE_NS)
    queue = excess([one for guest in guests for one in guest.passed[1:]], CAPACITY)
    assert SUM < queue <= SUM + count * DEPTH + count


steps = st.lists(st.one_of(
    st.tuples(st.just("blast"), st.integers(10_000, 3 * MS)),
    st.tuples(st.just("rest"), st.integers(1, 100 * MS)),
    st.tuples(st.just("tell"), st.integers(RATE // 4, RATE), st.integers(1, 20))), min_size=4, max_size=15)


def test_a_guest_that_goes_on_and_off_gains_no_more_than_the_burst(core: Any, effort: Any) -> None:
    """An attack: whatever it sends and when, and whatever it is told meanwhile, any span has R * t + B + K at most."""

    @effort
    @given(steps=steps)
    def check(steps: List[Tuple[Any, ...]]) -> None:
        core.lib.shim_host_clock_ns = SECOND
        host = Host(core)
        guest = Guest(host)
        guest.tell(RATE, 1)
        host.pass_time(5 * MS)
        for kind, *words in steps:
            if kind == "blast":
                guest.blast(words[0])
            elif kind == "rest":
                guest.rest(words[0], 1)
            else:
                guest.tell(*words)
        worst = excess(guest.passed, RATE)
        host.close()
        assert worst <= DEPTH + SUM + 1

    check()


@pytest.mark.parametrize("period_ms", [1, 10, 100, 1000])
def test_pulses_have_no_more_than_the_rate_over_a_second(host: Host, period_ms: int) -> None:
    """The worst guest: silent until its credit is whole, then at line rate until it is spent, over and over."""
    guest = Guest(host)
    guest.rest(SECOND // 2, 1)
    begin_ns = host.now_ns
    while host.now_ns < begin_ns + SECOND:
        guest.blast(min(MS, period_ms * MS // 2))
        guest.rest(period_ms * MS - min(MS, period_ms * MS // 2), 1)
    took_ns = host.now_ns - begin_ns
    assert sum(size for _, size in guest.passed) <= RATE * took_ns // SECOND + DEPTH + SUM + 11 * FULL
    assert excess(guest.passed, RATE) <= DEPTH + SUM + 1


@pytest.mark.parametrize("factor", [1.1, 1.5, 4])
def test_packets_leave_in_order_where_the_rate_rises(host: Host, factor: float) -> None:
    guest = Guest(host)
    for step in range(10):
        guest.tell(round(4 * RATE * factor**(step % 2)), 0)
        guest.blast(4 * MS)
    times = [time_ns for time_ns, _ in guest.passed]
    assert times == sorted(times) and len(times) > 100
