# SPDX-License-Identifier: Apache-2.0
"""Full packets of any MTU: what TCP and UDP get of a limit, and that a change of the MTU is followed."""

import heapq
from typing import Any, List, Tuple

import pytest

from sdngcc.shim import core as binding

from .host import FULL, KEY, MS, SECOND, Host, address

CAPACITY = 12_500_000_000  # 100 Gb/s
HERE, THERE = address("10.0.0.1"), address("10.9.9.9")
MTUS = (576, 1280, 1500, 4000, 9000, 9216)
ETHERNET = 14
MEGABIT = 125_000  # bytes/s
RTO_NS = 200 * MS
DUPLICATES = 3  # ACKs that tell of a loss


class Flow:
    """One TCP connection through a limiter: a window of packets, acknowledged a round trip after they leave.

    A loss costs `cut` of the window once a round trip, if enough packets follow it to tell; else a timeout.
    """

    def __init__(self, host: Host, rate: int, size: int, cut: float, rtt_ns: int = 100_000) -> None:
        host.law("static")
        self.host, self.size, self.cut, self.rtt_ns = host, size, cut, rtt_ns
        self.uplink, self.vm = host.uplink(CAPACITY), host.vm(most=rate)
        self.window, self.slow_start, self.recovered = 10.0, True, 0
        self.acks: List[Tuple[int, int]] = []  # when, which packet
        self.sent = self.left = 0

    def loss(self) -> None:
        """Take a loss: the packet is sent again as any other."""
        if self.sent <= self.recovered:
            return
        self.recovered = self.sent + len(self.acks)
        self.slow_start = False
        if len(self.acks) >= DUPLICATES:
            self.window = max(self.window * (1 - self.cut), 2.0)
            return
        self.window = 1.0
        self.advance(max(self.host.now_ns + RTO_NS, max(self.acks, default=(0, 0))[0]))

    def advance(self, time_ns: int) -> None:
        """Let time pass, with the ACKs that come."""
        while self.acks and self.acks[0][0] <= time_ns:
            heapq.heappop(self.acks)
            self.window += 1.0 if self.slow_start else 1.0 / self.window
        self.host.pass_time(time_ns - self.host.now_ns)

    def run(self, packets: int) -> float:
        """Return bytes/s that left of so many packets, the first fifth not counted."""
        begin = None
        while self.left < packets:
            while len(self.acks) < int(self.window) and self.left < packets:
                outcome = self.host.send(self.vm, self.uplink, HERE, THERE, bytes=self.size)
                self.sent += 1
                if outcome.drop:
                    self.loss()
                    break
                self.left += 1
                leaves_ns = max(outcome.departure_ns, self.host.now_ns)
                if begin is None and self.left >= packets // 5:
                    begin = leaves_ns
                heapq.heappush(self.acks, (leaves_ns + self.rtt_ns, self.sent))
            if self.acks:
                self.advance(self.acks[0][0])
        assert begin is not None
        return (packets - packets // 5) * self.size * SECOND / (leaves_ns - begin)


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("megabits", [1, 4, 20, 50, 200])
@pytest.mark.parametrize("cut", [0.5, 0.3], ids=["reno", "cubic"])
def test_a_tcp_of_full_packets_gets_its_limit(host: Host, mtu: int, megabits: int, cut: float) -> None:
    rate = megabits * MEGABIT
    assert Flow(host, rate, mtu + ETHERNET, cut).run(1000) >= 0.98 * rate


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("megabits", [1, 10, 1000, 10_000, 100_000])
def test_excess_packets_get_their_limit_and_no_more(host: Host, mtu: int, megabits: int) -> None:
    host.law("static")
    host.set(waiting_max=0)
    rate, size = megabits * MEGABIT, mtu + ETHERNET
    uplink, vm = host.uplink(CAPACITY), host.vm(most=rate)
    gap_ns = max(size * SECOND // (2 * rate), 1)
    left = []
    for _ in range(1000):
        outcome = host.send(vm, uplink, HERE, THERE, bytes=size)
        if outcome.passed:
            left.append(max(outcome.departure_ns, host.now_ns))
        host.pass_time(gap_ns)
    got = (len(left) - 1) * size * SECOND / (left[-1] - left[0])
    assert 0.98 * rate <= got <= 1.02 * rate + 3028 * SECOND / (left[-1] - left[0])


def waiting(host: Host, vm: Any, uplink: Any, size: int) -> int:
    """Return how many packets of a size wait before one is dropped; all have left then."""
    outcomes = [host.send(vm, uplink, HERE, THERE, bytes=size) for _ in range(200)]
    last_ns = max(one.departure_ns for one in outcomes)
    host.pass_time(max(last_ns - host.now_ns, 0))
    return sum(one.passed > 0 and one.departure_ns > 0 for one in outcomes)


def test_eleven_full_packets_wait_and_an_mtu_that_is_changed_is_followed(host: Host) -> None:
    host.law("static")
    uplink, vm = host.uplink(CAPACITY), host.vm(most=MEGABIT)
    assert 10 <= waiting(host, vm, uplink, FULL) <= 12
    assert 10 <= waiting(host, vm, uplink, 9014) <= 12
    assert waiting(host, vm, uplink, FULL) >= 60, "a jumbo packet was among the last ones"
    for _ in range(30):
        host.pass_time(100 * MS)
        host.send(vm, uplink, HERE, THERE)
    assert 10 <= waiting(host, vm, uplink, FULL) <= 12
    assert 100 <= waiting(host, vm, uplink, 60) <= 200, "small packets have the room of full ones"


def test_a_gso_packet_counts_as_the_packets_it_stands_for(host: Host) -> None:
    host.law("static")
    host.set(burst_us=10_000)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=MEGABIT)
    host.send(vm, uplink, HERE, THERE, bytes=40 * FULL, packets=40)
    host.pass_time(SECOND)
    assert 10 <= waiting(host, vm, uplink, FULL) <= 12


@pytest.mark.parametrize("mtu", [576, 1500, 9000])
def test_a_mark_stands_for_a_full_packet(host: Host, mtu: int) -> None:
    """All packets of a period marked cost the law's part of the rate, whatever their size."""
    host.key(KEY)
    host.law("sdngcc")
    uplink, vm, size = host.uplink(125 * 10**6), host.vm(), mtu + ETHERNET
    gap_ns = size * SECOND // 62_500_000
    for _ in range(3 * SECOND // gap_ns // 10):
        host.send(vm, uplink, HERE, THERE, bytes=size)
        host.pass_time(gap_ns)
    before = host.limiter(vm, uplink).rate
    marks = 62_500_000 // size // 100  # of 10 ms
    words = {"type": 1, "vm": HERE, "peer": THERE, "marks": marks, "interval_ns": 10 * MS, "weight_total": 2,
             "sender": 7, "epoch": 1, "sequence": 1}
    assert host.message(vm, uplink, THERE, HERE, binding.encode(words, KEY)) == "messages"
    cut = before - host.limiter(vm, uplink).rate
    assert cut == pytest.approx(0.05 * 62_500_000, rel=0.05)
