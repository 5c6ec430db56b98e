# SPDX-License-Identifier: Apache-2.0
"""Limiters: when they start and stop, what they are worth, what they let pass."""

from typing import Any, Callable, Dict, List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .host import ECT_0, FULL, MS, NOT_ECT, SECOND, Host, address, excess

CAPACITY = 125_000_000  # 1 Gb/s
THERE = address("10.9.9.9")


def own(number: int) -> bytes:
    return address(f"10.0.0.{number + 1}")


def started(host: Host, uplink: Any, weights: List[int], **rates: int) -> List[Any]:
    """VMs that have sent a packet, and a tick after that."""
    vms = [host.vm(weight, **rates) for weight in weights]
    for number, vm in enumerate(vms):
        assert host.send(vm, uplink, own(number), THERE).passed
    host.pass_time(11 * MS)
    return vms


def test_without_a_law_packets_pass_untouched(host: Host) -> None:
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for _ in range(1000):
        outcome = host.send(vm, uplink, own(0), THERE, ecn=NOT_ECT)
        assert outcome.passed == FULL and outcome.departure_ns == 0 and outcome.ecn == NOT_ECT
    assert host.limiter(vm, uplink) is None and host.due() == 0


def test_the_first_packet_starts_a_limiter_and_silence_stops_it(host: Host) -> None:
    host.law("static")
    host.set(inactive_ns=100 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    assert host.limiter(vm, uplink) is None and host.due() == 0
    host.send(vm, uplink, own(0), THERE)
    assert host.limiter(vm, uplink).active and host.limiter(vm, uplink).rate == CAPACITY and host.due()
    host.pass_time(95 * MS)
    assert host.limiter(vm, uplink).active
    host.pass_time(30 * MS)
    assert not host.limiter(vm, uplink).active and host.limiter(vm, uplink).packets == 1
    host.pass_time(SECOND)
    assert host.due() == 0, "a clock without work goes on ticking"
    assert host.send(vm, uplink, own(0), THERE).passed
    assert not host.limiter(vm, uplink).active, "a packet is no use of a share"
    host.send(vm, uplink, own(0), THERE)
    assert host.limiter(vm, uplink).active and host.limiter(vm, uplink).packets == 3


def test_keep_alives_of_an_idle_vm_take_no_share(host: Host) -> None:
    host.law("static")
    host.set(inactive_ns=50 * MS)
    uplink = host.uplink(CAPACITY)
    busy, idle = started(host, uplink, [1, 1])
    shares = set()
    for number in range(60):
        host.send(busy, uplink, own(0), THERE)
        if number >= 20 and not number % 2:
            assert host.send(idle, uplink, own(1), THERE, bytes=300).passed == 300
        host.pass_time(5 * MS)
        if number >= 20:
            shares.add(host.limiter(busy, uplink).share)
    assert shares == {CAPACITY} and host.limiter(idle, uplink).packets == 21 and not host.limiter(idle, uplink).active
    for _ in range(4):
        host.send(idle, uplink, own(1), THERE, bytes=500)
    assert host.limiter(idle, uplink).active, "2,000 bytes at once are a use"
    host.pass_time(6 * MS)
    assert host.limiter(busy, uplink).share == CAPACITY // 2


def test_after_a_change_of_settings_a_packet_is_enough(host: Host) -> None:
    host.law("static", rate=5_000_000)
    host.set(inactive_ns=50 * MS)
    uplink = host.uplink(CAPACITY)
    vm = started(host, uplink, [1])[0]
    host.pass_time(100 * MS)
    host.send(vm, uplink, own(0), THERE, bytes=100)
    assert not host.limiter(vm, uplink).active
    host.law("static", rate=1_000_000)
    host.send(vm, uplink, own(0), THERE, bytes=100)
    assert host.limiter(vm, uplink).active and host.limiter(vm, uplink).rate == 1_000_000


def test_who_begins_to_send_only_keep_alives_becomes_inactive(host: Host) -> None:
    host.law("static")
    host.set(inactive_ns=50 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for _ in range(40):
        host.send(vm, uplink, own(0), THERE)
        host.pass_time(5 * MS)
    assert host.limiter(vm, uplink).active
    for _ in range(14):
        host.send(vm, uplink, own(0), THERE, bytes=100)
        host.pass_time(5 * MS)
    assert not host.limiter(vm, uplink).active


@pytest.mark.parametrize("limiter", [0, 1])
def test_who_is_held_back_stays_active_however_little_passes(host: Host, limiter: int) -> None:
    host.law("static", rate=8000)
    host.set(inactive_ns=50 * MS, limiter=limiter, burst_bytes=2 * FULL)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for _ in range(200):
        host.send(vm, uplink, own(0), THERE)
        host.pass_time(5 * MS)
        assert host.limiter(vm, uplink).active


@pytest.mark.parametrize("weights", [[1], [1, 1], [1, 3], [5, 2, 2, 1]])
def test_shares_go_by_weight_among_the_active(host: Host, weights: List[int]) -> None:
    host.law("static")
    uplink = host.uplink(CAPACITY)
    vms = started(host, uplink, weights)
    for vm, weight in zip(vms, weights):
        found = host.limiter(vm, uplink)
        assert found.share == pytest.approx(CAPACITY * weight / sum(weights), rel=1e-6) and found.rate == found.share


def test_who_leaves_gives_his_share_to_the_others(host: Host) -> None:
    host.law("static")
    host.set(inactive_ns=50 * MS)
    uplink = host.uplink(CAPACITY)
    vms = started(host, uplink, [1, 1])
    for _ in range(20):
        host.send(vms[0], uplink, own(0), THERE)
        host.pass_time(5 * MS)
    assert host.limiter(vms[0], uplink).rate == CAPACITY and not host.limiter(vms[1], uplink).active
    for _ in range(2):
        host.send(vms[1], uplink, own(1), THERE)
    assert host.limiter(vms[1], uplink).rate == pytest.approx(CAPACITY / 2, rel=1e-6), "a newcomer has to wait"
    host.pass_time(6 * MS)
    assert host.limiter(vms[0], uplink).rate == pytest.approx(CAPACITY / 2, rel=1e-6)


def test_guarantee_and_ceiling(host: Host) -> None:
    host.law("static")
    uplink = host.uplink(CAPACITY)
    vms = [host.vm(1, least=CAPACITY // 2), host.vm(1, most=CAPACITY // 20), host.vm(2)]
    for number, vm in enumerate(vms):
        host.send(vm, uplink, own(number), THERE)
    host.pass_time(11 * MS)
    rates = [host.limiter(vm, uplink).rate for vm in vms]
    assert rates[0] >= CAPACITY // 2 and rates[1] <= CAPACITY // 20
    assert sum(rates) == pytest.approx(CAPACITY, rel=1e-6)
    host.configure(vms[0], 1)
    host.configure(vms[1], 1)
    host.pass_time(11 * MS)
    assert [host.limiter(vm, uplink).rate for vm in vms] == pytest.approx([CAPACITY / 4, CAPACITY / 4, CAPACITY / 2],
                                                                          rel=1e-6)


def test_capacity_and_settings_are_obeyed_at_once(host: Host) -> None:
    host.law("static")
    uplink = host.uplink(CAPACITY)
    vms = started(host, uplink, [1, 1])
    host.lib.shim_lab_configure_uplink(uplink, CAPACITY // 10)
    assert [host.limiter(vm, uplink).rate for vm in vms] == [CAPACITY // 20] * 2
    host.law("static", rate=1_000_000)
    assert [host.limiter(vm, uplink).rate for vm in vms] == [1_000_000] * 2
    host.set(burst_us=9000)
    assert host.limiter(vms[0], uplink).depth == 9000, "all but what passes without a look at the clock"
    host.law(None)
    assert all(host.send(vms[0], uplink, own(0), THERE).departure_ns == 0 for _ in range(100))


def test_each_uplink_has_limiters_of_its_own(host: Host) -> None:
    host.law("static")
    one, two, vm = host.uplink(CAPACITY), host.uplink(CAPACITY // 5), host.vm()
    for uplink in (one, two):
        host.send(vm, uplink, own(0), THERE)
    assert host.limiter(vm, one).rate == CAPACITY and host.limiter(vm, two).rate == CAPACITY // 5


def greedy(host: Host, vm: Any, uplink: Any, seconds: float, size: int = FULL,
           gap_ns: int = 1000) -> List[Tuple[int, int]]:
    """Send all the time; return (time it leaves, bytes) of what passed."""
    passed, end_ns = [], host.now_ns + int(seconds * SECOND)
    while host.now_ns < end_ns:
        outcome = host.send(vm, uplink, own(0), THERE, bytes=size)
        if outcome.passed:
            passed.append((max(outcome.departure_ns, host.now_ns), size))
        host.pass_time(gap_ns if outcome.passed else 20 * gap_ns)
    return passed


@pytest.mark.parametrize("limiter, depth, settings", [(0, 60_000, {"burst_bytes": 60_000}),
                                                      (1, 6_000 + 6_000 // 8, {"burst_us": 480})])
@pytest.mark.parametrize("size", [64, FULL, 4000])
def test_what_passes_is_the_rate_and_a_burst(host: Host, limiter: int, depth: int, settings: Dict[str, int],
                                             size: int) -> None:
    rate = 12_500_000
    host.law("static")
    host.set(limiter=limiter, **settings)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=rate)
    passed = greedy(host, vm, uplink, 0.05)
    assert excess(passed, rate) <= depth + 1
    assert sum(size for _, size in passed) >= 0.95 * rate * 0.05, "it does not get its rate"
    found = host.limiter(vm, uplink)
    assert found.bytes == sum(size for _, size in passed) and found.packets == len(passed)
    assert (found.drop_horizon == 0) == (limiter == 0) and (found.drop_police == 0) == (limiter == 1)


@pytest.mark.parametrize("limiter, depth, settings", [(0, 200_000, {"burst_bytes": 200_000}),
                                                      (1, 6_000 + 6_000 // 8, {"burst_us": 6_000})])
def test_packets_that_pass_without_a_look_at_the_clock_are_part_of_the_burst(
        host: Host, limiter: int, depth: int, settings: Dict[str, int]) -> None:
    """After a pause the bucket is full, and the time it knows is old: what passes at once is the burst, no more."""
    host.law("static")
    host.set(limiter=limiter, **settings)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=1_000_000)
    host.send(vm, uplink, own(0), THERE, bytes=64)
    for pause_ns in (SECOND // 2, SECOND // 4, 1000):
        host.pass_time(pause_ns)
        outcomes = [host.send(vm, uplink, own(0), THERE, bytes=64) for _ in range(2 * depth // 64)]
        at_once = 64 * sum(one.passed and not one.departure_ns for one in outcomes)
        assert at_once <= depth
        assert pause_ns == 1000 or at_once > 0.85 * depth


def test_what_passes_without_the_clock_goes_by_the_limiter_in_force(host: Host) -> None:
    """A policing bucket as deep as what a pacing one had left for the clock keeps nothing of the other's rest."""
    host.law("static")
    uplink, vm = host.uplink(CAPACITY), host.vm(most=1_000_000)
    host.send(vm, uplink, own(0), THERE, bytes=64)
    host.set(burst_bytes=3028)
    host.set(limiter=0)
    host.pass_time(SECOND // 2)
    passed = sum(host.send(vm, uplink, own(0), THERE, bytes=50).passed > 0 for _ in range(100))
    assert 50 * passed <= 3028


@pytest.mark.parametrize("limiter", [0, 1])
@pytest.mark.parametrize("rate, burst_us, whole", [
    (125, 100, 3028), (12_500_000, 100, 3028), (30_290_000, 100, 3029), (125_000_000, 100, 12_500),
    (125_000_000, 10_000, 1_250_000), (100_000_000_000, 100, 10_000_000), (100_000_000_000, 10_000, 1_000_000_000)])
def test_a_packet_that_the_rate_sends_in_burst_us_stays_whole(host: Host, limiter: int, rate: int, burst_us: int,
                                                              whole: int) -> None:
    """At all rates and times that can be set, and it is sent at once where the bucket is full."""
    host.law("static")
    host.set(limiter=limiter, burst_us=burst_us, burst_bytes=1 << 30)
    uplink, vm = host.uplink(rate), host.vm()
    host.send(vm, uplink, own(0), THERE)
    for size in (whole, whole + 1):
        host.pass_time(40 * SECOND)
        outcome = host.send(vm, uplink, own(0), THERE, bytes=size, packets=2)
        assert outcome.cut == (size > whole)
        assert outcome.passed and (outcome.cut or not outcome.departure_ns)


def test_a_packet_that_may_leave_whole_fits_a_policing_bucket(host: Host) -> None:
    host.law("static")
    host.set(limiter=0, burst_us=10_000, burst_bytes=100_000)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.send(vm, uplink, own(0), THERE)
    for size in (90_000, 100_000, 1_000_000):
        host.pass_time(SECOND)
        assert host.send(vm, uplink, own(0), THERE, bytes=size, packets=50).passed >= min(size, 80_000)


def test_nothing_stays_whole_without_a_time(host: Host) -> None:
    host.law("static")
    host.set(burst_us=0)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.send(vm, uplink, own(0), THERE)
    host.pass_time(SECOND)
    assert host.send(vm, uplink, own(0), THERE, bytes=2 * 64, packets=2).cut


def test_no_more_packets_wait_than_may(host: Host) -> None:
    host.law("static")
    host.set(waiting_max=64, horizon_ns=SECOND)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=1_000_000)
    outcomes = [host.send(vm, uplink, own(0), THERE, bytes=100) for _ in range(500)]
    waiting = [one for one in outcomes if one.passed and one.departure_ns]
    assert 48 <= len(waiting) <= 64 and outcomes[-1].drop == "waiting"
    assert host.limiter(vm, uplink).drop_waiting == sum(one.drop == "waiting" for one in outcomes)
    host.pass_time(waiting[-1].departure_ns - host.now_ns)
    assert host.send(vm, uplink, own(0), THERE).passed


def test_packets_wait_however_long_the_host_runs_or_the_vm_was_silent(host: Host) -> None:
    """No time of a packet that left, or of none, ever comes to stand for one that waits."""
    host.law("static")
    host.set(waiting_max=64, horizon_ns=SECOND)
    uplink = host.uplink(CAPACITY)
    old = host.vm(most=1_000_000)
    for vm_number in range(8):
        vm = host.vm(most=1_000_000)
        for sender, source in ((vm, own(vm_number + 1)), (old, own(0))):
            outcomes = [host.send(sender, uplink, source, THERE, bytes=1000) for _ in range(30)]
            assert sum(one.departure_ns > 0 for one in outcomes) > 20 and not any(one.drop for one in outcomes)
        # In 73 minutes the lower 32 bits of a time in units of 1024 ns come round.
        host.pass_time(11 * 60 * SECOND)


def test_a_gso_packet_is_cut_and_each_part_asks(host: Host) -> None:
    host.law("static")
    host.set(limiter=0, burst_bytes=10 * FULL)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=1_000_000)
    outcome = host.send(vm, uplink, own(0), THERE, bytes=40 * FULL, packets=40, id=7)
    assert outcome.cut and outcome.passed == 10 * FULL
    assert host.limiter(vm, uplink).drop_police == 30 and host.limiter(vm, uplink).packets == 10
    host.set(burst_us=10_000)
    assert host.send(vm, uplink, own(0), THERE, bytes=40 * FULL, packets=40).passed == 0


def test_ecn_is_given_and_ce_of_a_vm_is_not_believed(host: Host) -> None:
    host.law("static")
    uplink, vm = host.uplink(CAPACITY), host.vm()
    assert host.send(vm, uplink, own(0), THERE, ecn=NOT_ECT).ecn == 1
    assert host.send(vm, uplink, own(0), THERE, ecn=3).ecn == ECT_0
    assert host.counter(vm, "tx_ce_cleared") == 1
    host.set(codepoint=2)
    assert host.send(vm, uplink, own(0), THERE, ecn=NOT_ECT).ecn == 2
    host.set(ecn=0)
    assert host.send(vm, uplink, own(0), THERE, ecn=NOT_ECT).ecn == NOT_ECT


def test_conservation_under_changes(core: Any, effort: Any) -> None:
    """Whatever is sent and set when: any span passes at most R * t + B, R and B being the highest there were."""
    steps = st.lists(st.one_of(
        st.tuples(st.just("send"), st.integers(64, 9000), st.integers(1, 20)),
        st.tuples(st.just("wait"), st.integers(1, 2_000_000)),
        st.tuples(st.just("rate"), st.integers(125_000, 12_500_000)),
        st.tuples(st.just("burst"), st.integers(9000, 100_000))), min_size=20, max_size=120)

    @effort
    @given(steps=steps)
    def check(steps: List[Tuple[Any, ...]]) -> None:
        core.lib.shim_host_clock_ns = SECOND
        host = Host(core, limiter=0, burst_bytes=9000)
        host.law("static")
        uplink, vm = host.uplink(CAPACITY), host.vm(most=1_000_000)
        passed: List[Tuple[int, int]] = [(host.now_ns, 0)]
        rate, depth = 1_000_000, 9000
        for kind, *words in steps:
            if kind == "send":
                for _ in range(words[1]):
                    if host.send(vm, uplink, own(0), THERE, bytes=words[0]).passed:
                        passed.append((host.now_ns, words[0]))
            elif kind == "wait":
                host.pass_time(words[0])
            elif kind == "rate":
                rate = max(rate, words[0])
                host.configure(vm, 1, most=words[0])
            else:
                depth = max(depth, words[0])
                host.set(burst_bytes=words[0])
        worst = excess(passed, rate)
        counted = host.limiter(vm, uplink)
        host.close()
        assert worst <= depth + 1
        assert counted is None or counted.bytes == sum(size for _, size in passed)

    check()


def test_hosts_do_not_know_of_each_other(hosts: Callable[..., Host]) -> None:
    one, two = hosts(), hosts()
    for host in (one, two):
        host.law("static")
    uplink, vm = one.uplink(CAPACITY), one.vm()
    one.send(vm, uplink, own(0), THERE)
    assert one.due() and not two.due() and two.tick() == 0


@pytest.mark.parametrize("moves", ["a packet", "a deeper bucket"])
def test_nothing_is_earned_by_not_reading_the_clock(host: Host, moves: str) -> None:
    """After 104 days a bucket's state is further ahead of the time read last than it can be, and looked full."""
    host.law("static")
    host.set(burst_us=0)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    assert sum(host.send(vm, uplink, own(0), THERE).passed for _ in range(3)) == 3 * FULL
    host.lib.shim_host_clock_ns += 200 * 86400 * SECOND
    at_once = 0
    if moves == "a packet":
        # Under a law that wants peers it brings its own time; others do not.
        host.law("scc")
        at_once = host.send(vm, uplink, own(0), THERE).passed
        host.law("static")
    else:
        host.set(burst_us=8000)
    for _ in range(20):
        outcome = host.send(vm, uplink, own(0), THERE, bytes=300)
        at_once += 0 if outcome.departure_ns else outcome.passed
    assert 2300 < at_once <= 3028 + 3028 // 8, "another credit than the bucket's depth when it was filled"
