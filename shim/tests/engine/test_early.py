# SPDX-License-Identifier: Apache-2.0
"""Early drops: who loses packets of a queue that is not full yet, and how many."""

from typing import Any, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .host import ECT_0, FULL, MS, NOT_ECT, Host, Outcome, address, excess

RATE = 31_250_000  # 250 Mb/s: a full packet takes 48 us, eleven 533
US = 1000
HERE, THERE = address("10.0.0.1"), address("10.9.9.9")


class Line:
    """A VM under 250 Mb/s, which a test has send what it likes."""

    def __init__(self, host: Host, rate: int = RATE, **settings: int) -> None:
        self.host = host
        host.law("static")
        host.set(**settings)
        self.uplink, self.vm = host.uplink(125_000_000), host.vm(most=rate)

    def send(self, **fields: Any) -> Outcome:
        """Send a packet now."""
        return self.host.send(self.vm, self.uplink, HERE, THERE, **fields)

    def wait_ns(self, outcome: Outcome) -> int:
        """Return how long a packet that passed is to wait."""
        return max(outcome.departure_ns - self.host.now_ns, 0)

    def offer(self, percent: int, count: int, size: int = FULL) -> List[Outcome]:
        """Send packets at so many per cent of the rate."""
        outcomes = []
        for _ in range(count):
            outcomes.append(self.send(bytes=size))
            self.host.pass_time(size * 10**11 // (RATE * percent))
        return outcomes


def test_without_the_setting_a_queue_grows_to_the_horizon(host: Host) -> None:
    line = Line(host)
    outcomes = line.offer(1000, 400)
    assert {one.drop for one in outcomes} == {"", "horizon"}
    assert host.limiter(line.vm, line.uplink).drop_early == 0


@pytest.mark.parametrize("early_us", [300, 500, 800])
def test_full_packets_wait_no_longer_than_twice_the_setting(host: Host, early_us: int) -> None:
    """Those before one take that long at most; itself it takes 48 us."""
    line = Line(host, early_ns=early_us * US)
    waits = []
    for _ in range(2000):
        outcome = line.send()
        waits.append(line.wait_ns(outcome) if outcome.passed else 0)
        host.pass_time(5 * US)
    found = host.limiter(line.vm, line.uplink)
    assert early_us * US < max(waits) <= (2 * early_us + 49) * US
    assert found.drop_early > 1000 and found.drop_horizon == 0


@pytest.mark.parametrize("percent", [110, 150, 200])
def test_a_steady_excess_is_what_is_dropped_and_the_rate_is_kept(host: Host, percent: int) -> None:
    """The queue stands where p is the part that is too much."""
    line = Line(host, early_ns=500 * US)
    line.offer(percent, 500)
    before = host.limiter(line.vm, line.uplink)
    outcomes = line.offer(percent, 2000)
    dropped = sum(one.drop == "early" for one in outcomes)
    assert host.limiter(line.vm, line.uplink).drop_early - before.drop_early == dropped
    assert dropped / 2000 == pytest.approx(1 - 100 / percent, abs=0.005)
    wait_us = line.wait_ns(outcomes[-1]) / US if outcomes[-1].passed else 500 * (2 - 100 / percent)
    assert wait_us == pytest.approx(500 * (2 - 100 / percent), abs=100)


def test_drops_are_spread_evenly(host: Host) -> None:
    """At twice the rate every other packet goes, not some in a row."""
    line = Line(host, early_ns=500 * US)
    line.offer(200, 500)
    row = longest = 0
    for one in line.offer(200, 1000):
        row = row + 1 if one.drop else 0
        longest = max(longest, row)
    assert longest <= 2


def test_small_packets_pass_beside_bulk(host: Host) -> None:
    """A ping is not lost, and waits no longer than bulk does."""
    line = Line(host, early_ns=500 * US)
    line.offer(200, 500)
    pings = []
    for _ in range(500):
        line.offer(200, 5)
        outcome = line.send(bytes=98)
        pings.append(outcome)
        if outcome.passed:
            assert line.wait_ns(outcome) <= MS
    assert not any(one.drop for one in pings)


def test_half_a_packet_is_dropped_half_as_often(host: Host) -> None:
    line = Line(host, early_ns=500 * US)
    line.offer(200, 500)
    halves = []
    for turn in range(500):
        line.offer(200, 2 + turn * turn % 7)
        halves.append(line.send(bytes=FULL // 2))
    assert 0.15 <= sum(bool(one.drop) for one in halves) / len(halves) <= 0.35


def test_nothing_but_small_packets_meets_the_horizon(host: Host) -> None:
    line = Line(host, early_ns=500 * US)
    assert {one.drop for one in (line.send(bytes=300) for _ in range(400))} == {"", "horizon"}


def test_a_slow_vm_keeps_half_of_eleven_packets(host: Host) -> None:
    line = Line(host, rate=125_000, early_ns=US)
    outcomes = [line.send() for _ in range(12)]
    # Two leave at once, as deep as the bucket is; those that wait for five before them pass.
    assert [one.drop for one in outcomes[:8]] == [""] * 8
    assert outcomes[-1].drop


@pytest.mark.parametrize("ecn", [NOT_ECT, ECT_0])
def test_nothing_is_marked(host: Host, ecn: int) -> None:
    line = Line(host, early_ns=500 * US)
    outcomes = [line.send(ecn=ecn) for _ in range(200)]
    assert any(one.drop == "early" for one in outcomes)
    assert {one.ecn for one in outcomes if one.passed} == {ecn or 1}


def test_police_knows_no_early_drops(host: Host) -> None:
    line = Line(host, limiter=0, burst_bytes=10 * FULL, early_ns=500 * US)
    assert {one.drop for one in (line.send() for _ in range(40))} == {"", "police"}


def test_a_change_of_rate_does_not_drop_for_the_queue_of_the_old(host: Host) -> None:
    """A credit of a slow rate is worth a thousand packets of a fast one's; it drops one of these at most."""
    line = Line(host, rate=12_500, early_ns=500 * US)
    for _ in range(40):
        line.send()
    host.configure(line.vm, most=RATE)
    host.pass_time(30_000 * MS)
    waits = [line.wait_ns(one) for one in (line.send() for _ in range(60)) if one.passed]
    assert max(waits) > 800 * US


def test_rate_and_account_hold_whatever_comes(core: Any, effort: Any) -> None:
    steps = st.lists(st.tuples(st.integers(64, 9000), st.integers(0, 200 * US)), min_size=1, max_size=200)

    @effort
    @given(steps=steps, early_ns=st.integers(1000, 10**10), rate=st.sampled_from([12_500, 1_000_000, RATE]))
    def holds(steps: Any, early_ns: int, rate: int) -> None:
        host = Host(core)
        try:
            line = Line(host, rate=rate, early_ns=early_ns)
            passed, dropped = [], 0
            for size, gap_ns in steps:
                outcome = line.send(bytes=size)
                if outcome.passed:
                    passed.append((max(outcome.departure_ns, host.now_ns), size))
                dropped += bool(outcome.drop)
                host.pass_time(gap_ns)
            found = host.limiter(line.vm, line.uplink)
            assert found.packets == len(passed)
            assert found.drop_early + found.drop_horizon + found.drop_waiting == dropped
            assert excess(passed, rate) <= max(3028, 9000) + 1
        finally:
            host.close()

    holds()
