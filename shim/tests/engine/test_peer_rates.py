# SPDX-License-Identifier: Apache-2.0
"""A peer whose rate changes while its packets wait: they leave in order, and no byte is lost or gained by that."""

from fractions import Fraction
from typing import Any, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.wire.message import TYPE_REPORT, Message, encode_v1

from .host import FULL, KEY, MS, SECOND, Host, address

CAPACITY = 1_250_000_000
HERE, THERE, ELSEWHERE = address("10.0.0.1"), address("10.1.0.1"), address("10.1.0.2")
#: Of a peer's bucket, bytes.
DEPTH = 3028


class Peer:
    """A peer under law eyeq, whose rate is what a report says."""

    def __init__(self, host: Host, horizon_ns: int, most: int = 0) -> None:
        self.host, self.sequence, self.rate = host, 0, 0
        host.key(KEY)
        host.law("eyeq")
        host.set(burst_us=0, horizon_ns=horizon_ns)
        self.uplink, self.vm = host.uplink(CAPACITY), host.vm(most=most)
        assert self.send(64) is not None

    def grant(self, rate: int) -> None:
        """Let the other end report a rate, bytes per second."""
        self.sequence, self.rate = self.sequence + 1, rate
        granted = Message(vm=HERE, peer=THERE, marks=0, type=TYPE_REPORT, rate=rate, point_datapath=FULL,
                          weight_total=1, interval_ns=MS // 2, sender=7, epoch=1000, sequence=self.sequence)
        assert self.host.message(self.vm, self.uplink, THERE, HERE, encode_v1(granted, KEY)) == "reports"

    def send(self, size: int, to: bytes = THERE) -> Optional[int]:
        """Return when a packet leaves, ns; None: it is dropped."""
        sent = self.host.send(self.vm, self.uplink, HERE, to, bytes=size)
        return max(sent.departure_ns, self.host.now_ns) if sent.passed else None

    def pass_time(self, ns: int) -> None:
        """Let time go by, in which the law is to leave the rate as it is."""
        self.host.pass_time(ns)
        assert self.host.peer(self.vm, THERE).rate == self.rate


@pytest.mark.parametrize("horizon_ms", [2, 20])
@pytest.mark.parametrize("every_ms", [1, 5])
@pytest.mark.parametrize("low, size", [(10_000_000, FULL), (20_000_000, FULL), (35_000_000, FULL), (10_000_000, 100)])
def test_a_backlog_has_what_its_rates_allow(host: Host, low: int, size: int, every_ms: int, horizon_ms: int) -> None:
    peer, high = Peer(host, horizon_ms * MS), 40_000_000
    peer.grant(low)
    peer.pass_time(MS)
    left: List[int] = []
    step_ns = MS * size // FULL // 40
    for turn in range(200 // every_ms):
        peer.grant(high if turn % 2 else low)
        for _ in range(every_ms * MS // step_ns):
            for _ in range(2):
                departure_ns = peer.send(size)
                left += [departure_ns] if departure_ns else []
            peer.pass_time(step_ns)
    assert left == sorted(left)
    # By now the queue is as long as it will be.
    sent = size * sum(host.now_ns - 100 * MS < time_ns <= host.now_ns for time_ns in left)
    allowed = (low + high) / 2 / 10
    assert 0.95 * allowed < sent < 1.05 * allowed, sent / allowed
    for first in range(0, len(left) - 20, 20):
        many = left[first:first + 20]
        assert (len(many) - 1) * size <= high * (many[-1] - many[0] + 1) / SECOND + DEPTH


class Exact:
    """
    The bucket in bytes, as of base_ns: what is missing by all that passed, and what seems to be for the sake of order.
    """

    def __init__(self, now_ns: int, rate: int) -> None:
        self.base_ns, self.rate = now_ns, rate
        self.owed = self.seems = Fraction(0)

    def pass_until(self, now_ns: int) -> None:
        if now_ns > self.base_ns:
            earned = Fraction((now_ns - self.base_ns) * self.rate, SECOND)
            self.owed, self.seems = max(self.owed - earned, Fraction(0)), max(self.seems - earned, Fraction(0))
            self.base_ns = now_ns

    def rerate(self, rate: int) -> None:
        wait_s = max(self.seems - DEPTH, Fraction(0)) / self.rate
        self.seems = max(self.owed, DEPTH + wait_s * rate) if wait_s else self.owed
        self.rate = rate

    def departure_ns(self, now_ns: int, size: int) -> Fraction:
        ahead = self.seems + size + Fraction((self.base_ns - now_ns) * self.rate, SECOND)
        if ahead <= DEPTH:
            return Fraction(now_ns)
        return self.base_ns + max(self.seems + size - DEPTH, Fraction(0)) * SECOND / self.rate

    def sent(self, size: int, late_ns: Optional[int]) -> None:
        self.owed, self.seems = self.owed + size, self.seems + size
        if late_ns:
            self.pass_until(late_ns)
            self.owed, self.seems = max(self.owed, Fraction(size)), max(self.seems, Fraction(size))


#: Ns that roundings make of a departure.
ROUND_NS = 50
rates = st.integers(2_000_000, 100_000_000)
#: Ns that pass, packets to the peer and their bytes, packets to another one, and the peer's next rate.
steps = st.lists(st.tuples(st.integers(1000, MS), st.integers(0, 30), st.integers(64, FULL), st.integers(0, 6),
                           st.one_of(st.none(), rates)), min_size=5, max_size=60)


def check_exact(host: Host, first: int, turns: List[Tuple[int, int, int, int, Any]], most: int) -> None:
    """Send all that, and compare each departure."""
    peer = Peer(host, 2 * MS, most)
    peer.grant(first)
    peer.pass_time(MS)
    exact, last_ns = Exact(host.now_ns, first), 0
    for gap_ns, packets, size, others, rate in turns:
        for number in range(packets):
            if number < others:
                peer.send(FULL, ELSEWHERE)
            exact.pass_until(host.now_ns)
            want_ns, got_ns = exact.departure_ns(host.now_ns, size), peer.send(size)
            if got_ns is None:
                continue
            assert got_ns >= last_ns and got_ns >= want_ns - ROUND_NS
            last_ns = got_ns
            late = got_ns > want_ns + ROUND_NS
            vm_ns = (packets + others) * FULL * SECOND // CAPACITY
            assert not late or most or got_ns <= host.now_ns + vm_ns, "nothing else holds it back"
            exact.sent(size, got_ns if late else None)
        peer.pass_time(gap_ns)
        if rate:
            exact.pass_until(host.now_ns)
            peer.grant(rate)
            exact.rerate(rate)


def test_no_byte_is_lost_or_gained_by_changes_of_rate(core: Any, effort: Any) -> None:
    """Departures are those of exact arithmetic, also where the VM's own limiter has packets wait longer."""
    @effort
    @given(first=rates, turns=steps, most=st.sampled_from([0, 20_000_000]))
    def check(first: int, turns: List[Tuple[int, int, int, int, Any]], most: int) -> None:
        core.lib.shim_host_clock_ns = SECOND
        host = Host(core)
        try:
            check_exact(host, first, turns, most)
        finally:
            host.close()

    check()


def test_a_rise_earns_nothing_for_what_the_vm_held_back_longer(host: Host) -> None:
    check_exact(host, 10_000_000, [(1000, 10, FULL, 0, 100_000_000), (1000, 8, FULL, 8, 2_000_000),
                                   (1000, 10, FULL, 0, None)], 20_000_000)


def test_a_rise_earns_nothing_for_what_is_sent_after_a_silence(host: Host) -> None:
    check_exact(host, 10_000_000, [(1000, 10, FULL, 0, 100_000_000), (5 * MS, 0, FULL, 0, None),
                                   (1000, 2, FULL, 0, 2_000_000), (1000, 4, FULL, 0, None)], 0)


def test_a_part_is_no_more_than_each_bucket_of_its_way_sends_in_burst_us(host: Host) -> None:
    peer = Peer(host, 2 * MS)

    def cut(packets: int) -> bool:
        """Tell whether a GSO packet of so many full segments is cut."""
        host.pass_time(MS)
        return bool(host.send(peer.vm, peer.uplink, HERE, THERE, bytes=packets * FULL, packets=packets).cut)

    host.set(burst_us=100)
    assert [cut(packets) for packets in (10, 11)] == [False, True], "while nobody answers it may have an eighth"
    host.receive(peer.vm, peer.uplink, THERE, HERE)
    assert [cut(packets) for packets in (82, 83)] == [False, True], "its own rate sends 82.6 in that time"
    peer.grant(50_000_000)
    assert [cut(packets) for packets in (3, 4)] == [False, True], "and that of the peer 3.3"
