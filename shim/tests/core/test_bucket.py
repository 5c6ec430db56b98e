# SPDX-License-Identifier: Apache-2.0
"""The bucket against big-integer arithmetic, and what it promises over any window of time."""

import math
from fractions import Fraction
from typing import Any, List, Tuple

from hypothesis import example, given
from hypothesis import strategies as st

TICKS = 256
SECOND = 10**9
DEBT_MAX = 2**61
RATE_MIN, RATE_MAX = 125, 10**11
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1


def log_uniform(low: int, high: int) -> Any:
    """Integers in [low, high], every order of magnitude as likely, edges included."""
    return st.one_of(st.sampled_from([low, high]),
                     st.floats(math.log(low), math.log(high)).map(
                         lambda exponent: min(high, max(low, round(math.exp(exponent))))))


rates = log_uniform(RATE_MIN, RATE_MAX)
bursts = log_uniform(1, 2**20)
lengths = st.one_of(st.integers(60, 1514), st.integers(1, 2**17))
any_u32 = st.one_of(st.integers(0, U32_MAX), st.sampled_from([0, 1, 2**17, U32_MAX]))
any_u64 = st.one_of(st.integers(0, U64_MAX), st.sampled_from([0, 1, 2**56 - 1, 2**56, 2**63, U64_MAX]))


def make_rate(core: Any, bytes_per_s: int, burst: int) -> Any:
    rate = core.ffi.new("struct shim_rate *")
    core.lib.shim_rate_init(rate, bytes_per_s, burst)
    return rate


def oracle(rate: Any, tat: int, now_ns: int, length: int, horizon_ns: int) -> Tuple[str, int, int]:
    """The header comment of bucket.c in unbounded integers: verdict, new state, departure."""
    cost = -(-length * rate.mult // 2**rate.shift)
    now = now_ns * TICKS % 2**64
    ahead = (tat - now) % 2**64
    used = ahead if ahead <= DEBT_MAX else 0
    fill = used + cost
    state = (now + fill) % 2**64
    burst = min(rate.burst_bytes * rate.mult // 2**rate.shift, DEBT_MAX)
    if fill <= burst or (used == 0 and length <= rate.burst_bytes and fill <= DEBT_MAX):
        return "send", state, now_ns
    wait = -(-(fill - burst) // TICKS)
    if wait > horizon_ns or fill > DEBT_MAX:
        return "drop", tat, now_ns
    return "pace", state, min(now_ns + wait, U64_MAX)


def answer(core: Any, verdict: Any) -> Tuple[str, int, int]:
    names = {core.lib.SHIM_SEND: "send", core.lib.SHIM_PACE: "pace", core.lib.SHIM_DROP: "drop"}
    return names[verdict.kind], verdict.tat, verdict.departure_ns


@given(bytes_per_s=rates)
@example(RATE_MIN)
@example(RATE_MAX)
@example(RATE_MIN + 1)
def test_reciprocal_is_exact_and_never_too_fast(core: Any, bytes_per_s: int) -> None:
    rate = make_rate(core, bytes_per_s, 65536)
    exact = Fraction(TICKS * SECOND, bytes_per_s)
    have = Fraction(rate.mult, 2**rate.shift)
    assert exact <= have
    assert (have - exact) / exact < Fraction(1, 2**31)
    assert 1 <= rate.shift <= 31 and 2**31 <= rate.mult <= 2**32
    # No product of the packet path leaves 64 bits.
    assert U32_MAX * rate.mult + 2**rate.shift - 1 <= U64_MAX
    assert -(-U32_MAX * rate.mult // 2**rate.shift) + DEBT_MAX <= U64_MAX


def test_reciprocal_over_the_whole_range(core: Any) -> None:
    worst = Fraction(0)
    for step in range(20000):
        bytes_per_s = round(RATE_MIN * (RATE_MAX / RATE_MIN) ** (step / 19999))
        rate = make_rate(core, bytes_per_s, 1)
        error = Fraction(rate.mult * bytes_per_s, 2**rate.shift * TICKS * SECOND) - 1
        assert error >= 0, bytes_per_s
        worst = max(worst, error)
    assert worst < Fraction(1, 10**6)


def test_rates_outside_the_range_become_its_ends(core: Any) -> None:
    assert make_rate(core, 0, 1).bytes_per_s == RATE_MIN
    assert make_rate(core, U64_MAX, 1).bytes_per_s == RATE_MAX


@given(bytes_per_s=rates, burst=any_u32, tat=any_u64, now_ns=any_u64, length=any_u32, horizon_ns=any_u64)
def test_any_input_against_big_integers(core: Any, bytes_per_s: int, burst: int, tat: int, now_ns: int,
                                        length: int, horizon_ns: int) -> None:
    rate = make_rate(core, bytes_per_s, burst)
    got = core.lib.shim_bucket_pace(rate, tat, now_ns, length, horizon_ns)
    assert answer(core, got) == oracle(rate, tat, now_ns, length, horizon_ns)
    got = core.lib.shim_bucket_pace(rate, tat, now_ns, length, 0)
    assert answer(core, got) == oracle(rate, tat, now_ns, length, 0)


@given(bytes_per_s=rates, burst=bursts, now_ns=any_u64, length=lengths, horizon_ns=st.integers(0, 10**9),
       near=st.integers(-2**40, 2**40))
def test_near_now_against_big_integers(core: Any, bytes_per_s: int, burst: int, now_ns: int, length: int,
                                       horizon_ns: int, near: int) -> None:
    rate = make_rate(core, bytes_per_s, burst)
    tat = (now_ns * TICKS + near) % 2**64
    got = core.lib.shim_bucket_pace(rate, tat, now_ns, length, horizon_ns)
    assert answer(core, got) == oracle(rate, tat, now_ns, length, horizon_ns)


arrivals = st.lists(st.tuples(st.one_of(st.just(0), log_uniform(1, 10**10)), lengths), min_size=1, max_size=40)
#: Starts such that the clock wraps in ticks during the run, or stays clear of 2^64 ns.
starts = st.one_of(st.integers(0, U64_MAX - 2**40), st.sampled_from([0, 2**56 - 10**6, 2**63 - 10**6]))


def windows_hold(sent: List[Tuple[int, int]], bytes_per_s: int, depth: int, slack_ns: int) -> bool:
    """Tell whether no window between two departures holds more than rate * t + depth."""
    for first in range(len(sent)):
        total = 0
        for time_ns, length in sent[first:]:
            total += length
            elapsed = time_ns - sent[first][0] + slack_ns
            if total * SECOND > bytes_per_s * elapsed + depth * SECOND:
                return False
    return True


def room(core: Any, horizon_ns: int, frame: int = 1514) -> Any:
    """Return what may wait: eleven packets of that size, or what the horizon allows."""
    return core.ffi.new("struct shim_room *", {"horizon_ns": horizon_ns, "bytes": 11 * frame})[0]


#: Several packets a bucket, of which some wait whatever the horizon.
crowds = st.lists(st.tuples(st.one_of(st.just(0), log_uniform(1, 10**6)), st.integers(60, 1514)), min_size=5,
                  max_size=40)


@given(bytes_per_s=rates, burst=st.integers(1514, 10000), packets=crowds, start=starts,
       horizon_ns=st.sampled_from([0, 1000, 10**6]), frame=st.sampled_from([1514, 9014, 65549]))
def test_ask_conserves(core: Any, bytes_per_s: int, burst: int, packets: List[Tuple[int, int]], start: int,
                       horizon_ns: int, frame: int) -> None:
    rate = make_rate(core, bytes_per_s, burst)
    now_ns, sent = start, []
    tat = core.lib.shim_bucket_full(now_ns)
    most_ns = max(horizon_ns, core.lib.shim_rate_ns(rate, 11 * frame))
    for gap, length in packets:
        now_ns += gap
        verdict = core.lib.shim_bucket_ask(rate, tat, now_ns, length, room(core, horizon_ns, frame))
        tat = verdict.tat
        if verdict.kind != core.lib.SHIM_DROP:
            sent.append((verdict.departure_ns, length))
            assert verdict.departure_ns - now_ns <= (most_ns if horizon_ns else 0)
    depth = max(burst, max(length for _, length in packets))
    assert windows_hold(sent, bytes_per_s, depth, 2 + len(packets))


@given(bytes_per_s=rates, burst=bursts, packets=arrivals, start=starts)
def test_police_conserves(core: Any, bytes_per_s: int, burst: int, packets: List[Tuple[int, int]],
                          start: int) -> None:
    rate = make_rate(core, bytes_per_s, burst)
    now_ns, sent = start, []
    tat = core.lib.shim_bucket_full(now_ns)
    for gap, length in packets:
        now_ns += gap
        verdict = core.lib.shim_bucket_pace(rate, tat, now_ns, length, 0)
        if verdict.kind == core.lib.SHIM_SEND:
            sent.append((now_ns, length))
        else:
            assert verdict.tat == tat
        tat = verdict.tat
    assert windows_hold(sent, bytes_per_s, burst, 0)


@given(bytes_per_s=rates, burst=bursts, packets=arrivals, start=starts, horizon_ns=log_uniform(1, 10**9))
def test_pace_conserves_and_spaces(core: Any, bytes_per_s: int, burst: int, packets: List[Tuple[int, int]],
                                   start: int, horizon_ns: int) -> None:
    rate = make_rate(core, bytes_per_s, burst)
    now_ns = start
    sent: List[Tuple[int, int]] = []
    tat = core.lib.shim_bucket_full(now_ns)
    for gap, length in packets:
        now_ns += gap
        verdict = core.lib.shim_bucket_pace(rate, tat, now_ns, length, horizon_ns)
        if verdict.kind == core.lib.SHIM_DROP:
            assert verdict.tat == tat
            continue
        departure = verdict.departure_ns
        assert now_ns <= departure <= now_ns + horizon_ns
        assert (departure == now_ns) == (verdict.kind == core.lib.SHIM_SEND)
        if sent:
            assert departure >= sent[-1][0]
        if verdict.kind == core.lib.SHIM_PACE and sent and sent[-1][0] > now_ns:
            # Behind a packet that waits too: spaced by its own time at the rate, to a nanosecond.
            assert (departure - sent[-1][0] + 1) * bytes_per_s >= length * SECOND
        sent.append((departure, length))
        tat = verdict.tat
    depth = max([burst, *(length for _, length in sent)])
    assert windows_hold(sent, bytes_per_s, depth, 1)


@given(bytes_per_s=log_uniform(RATE_MIN, 1250 * 10**6), length=st.integers(60, 9018))
def test_a_busy_vm_gets_its_rate(core: Any, bytes_per_s: int, length: int) -> None:
    """Nothing is lost either: 500 paced packets take their time at the rate within 1e-6 and a tick each."""
    rate = make_rate(core, bytes_per_s, length)
    tat, now_ns, departure = core.lib.shim_bucket_full(10**9), 10**9, 10**9
    for _ in range(501):
        verdict = core.lib.shim_bucket_pace(rate, tat, now_ns, length, 2**50)
        tat, departure = verdict.tat, verdict.departure_ns
    ideal = Fraction(500 * length * SECOND, bytes_per_s)
    assert ideal <= departure - now_ns <= ideal * (1 + Fraction(1, 10**6)) + Fraction(502, TICKS) + 1


@given(bytes_per_s=rates, burst=bursts, now_ns=any_u64)
def test_a_full_bucket_holds_its_depth_and_no_more(core: Any, bytes_per_s: int, burst: int, now_ns: int) -> None:
    rate = make_rate(core, bytes_per_s, burst)
    full = core.lib.shim_bucket_full(now_ns)
    taken = core.lib.shim_bucket_pace(rate, full, now_ns, burst, 0)
    assert taken.kind == core.lib.SHIM_SEND
    assert core.lib.shim_bucket_pace(rate, taken.tat, now_ns, 1, 0).kind == core.lib.SHIM_DROP
    assert core.lib.shim_bucket_pace(rate, full, now_ns, burst + 1, 0).kind == core.lib.SHIM_DROP


@given(bytes_per_s=rates, burst=bursts, now_ns=any_u64, idle_ns=st.integers(0, 2**56 - 2**53 - 1))
def test_idleness_fills_and_never_blocks(core: Any, bytes_per_s: int, burst: int, now_ns: int,
                                         idle_ns: int) -> None:
    """A bucket that was full idle_ns ago (up to two years) is full, whatever the clock wrapped over."""
    rate = make_rate(core, bytes_per_s, burst)
    tat = core.lib.shim_bucket_full((now_ns - idle_ns) % 2**64)
    assert core.lib.shim_bucket_pace(rate, tat, now_ns, burst, 0).kind == core.lib.SHIM_SEND


def credit(rate: Any, tat: int, now_ns: int) -> Fraction:
    """Bytes of credit in a bucket, negative for debt."""
    ahead = (tat - now_ns * TICKS) % 2**64
    used = ahead if ahead <= DEBT_MAX else 0
    return rate.burst_bytes - Fraction(used * rate.bytes_per_s, TICKS * SECOND)


@given(before=rates, after=rates, depth_before=bursts, depth_after=bursts, now_ns=any_u64,
       debt=st.integers(0, 2**24))
def test_rerate_keeps_credit_and_debt(core: Any, before: int, after: int, depth_before: int, depth_after: int,
                                      now_ns: int, debt: int) -> None:
    old, new = make_rate(core, before, depth_before), make_rate(core, after, depth_after)
    ticks = min(debt * old.mult >> old.shift, DEBT_MAX)
    tat = (now_ns * TICKS + ticks) % 2**64
    got = core.lib.shim_bucket_rerate(old, new, tat, now_ns)
    want = min(credit(old, tat, now_ns), Fraction(depth_after))
    # The reciprocals differ by less than 2^-31; roundings by two ticks of either rate; at most DEBT_MAX.
    slack = Fraction(2**21 + debt, 2**30) + Fraction(2 * (before + after), TICKS * SECOND)
    lowest = depth_after - Fraction(DEBT_MAX * after, TICKS * SECOND)
    assert abs(credit(new, got, now_ns) - max(want, lowest)) <= slack


@given(choices=st.lists(rates, min_size=2, max_size=30), debt=st.integers(0, 2**20))
def test_rerate_to_and_fro_earns_nothing(core: Any, choices: List[int], debt: int) -> None:
    now_ns = 10**15
    steps = [make_rate(core, bytes_per_s, 65536) for bytes_per_s in choices]
    tat = now_ns * TICKS + (debt * steps[0].mult >> steps[0].shift)
    start = credit(steps[0], tat, now_ns)
    for old, new in zip(steps, steps[1:]):
        tat = core.lib.shim_bucket_rerate(old, new, tat, now_ns)
        assert credit(new, tat, now_ns) <= start


def test_debt_beyond_all_measure_stays_a_debt(core: Any) -> None:
    """It does not come back as a full bucket when a cut makes it last longer than the clock can tell."""
    fast, slow = make_rate(core, RATE_MAX, 65536), make_rate(core, RATE_MIN, 65536)
    got = core.lib.shim_bucket_rerate(fast, slow, DEBT_MAX // 2, 0)
    assert got == DEBT_MAX
    assert core.lib.shim_bucket_pace(slow, got, 0, 60, 0).kind == core.lib.SHIM_DROP


@given(packets=st.lists(st.tuples(log_uniform(1, 10**8), lengths, log_uniform(10**4, 10**9)), min_size=1,
                        max_size=60), burst=st.integers(2**17, 2**20))
def test_conservation_across_rate_changes(core: Any, packets: List[Tuple[int, int, int]], burst: int) -> None:
    now_ns = 10**12
    rate = make_rate(core, 10**6, burst)
    tat = core.lib.shim_bucket_full(now_ns)
    total, allowed = 0, Fraction(burst)
    for gap, length, next_rate in packets:
        now_ns += gap
        allowed += Fraction(gap * rate.bytes_per_s, SECOND)
        verdict = core.lib.shim_bucket_pace(rate, tat, now_ns, length, 0)
        tat = verdict.tat
        total += length if verdict.kind == core.lib.SHIM_SEND else 0
        # One byte for the difference of the reciprocals, as bucket.c says.
        assert total <= allowed + 1
        new = make_rate(core, next_rate, burst)
        tat = core.lib.shim_bucket_rerate(rate, new, tat, now_ns)
        rate = new


class Ordered:
    """A bucket whose rate may change while packets wait, each of which is to leave in order."""

    def __init__(self, core: Any, bytes_per_s: int, burst: int, horizon_ns: int) -> None:
        self.core, self.burst, self.horizon_ns = core, burst, horizon_ns
        self.now_ns = 10**12
        self.rate = make_rate(core, bytes_per_s, burst)
        self.order = core.ffi.new("struct shim_order *")
        self.tat = core.lib.shim_bucket_full(self.now_ns)
        self.sent: List[Tuple[int, int]] = []

    def rerate(self, bytes_per_s: int) -> None:
        new = make_rate(self.core, bytes_per_s, self.burst)
        self.tat = self.core.lib.shim_bucket_rerate_in_order(self.rate, new, self.order, self.tat, self.now_ns,
                                                             room(self.core, self.horizon_ns))
        self.rate = new

    def send(self, length: int) -> bool:
        verdict = self.core.lib.shim_bucket_ask_in_order(self.rate, self.order, self.tat, self.now_ns, 0, length,
                                                         room(self.core, self.horizon_ns))
        if verdict.kind == self.core.lib.SHIM_DROP:
            return False
        self.tat = verdict.tat
        self.sent.append((verdict.departure_ns, length))
        return True


#: Rates at which the horizon is what packets may wait.
paced_rates = log_uniform(10**7, 10**9)
WAIT_NS = 2 * 10**6
rises = st.lists(st.tuples(log_uniform(1000, 10**6), st.integers(60, 1514), st.one_of(st.none(), paced_rates)),
                 min_size=5, max_size=60)


@given(first=paced_rates, steps=rises, burst=st.integers(1514, 10000))
def test_packets_leave_in_order_whatever_the_rate_becomes(core: Any, first: int, burst: int,
                                                          steps: List[Tuple[int, int, Any]]) -> None:
    bucket = Ordered(core, first, burst, WAIT_NS)
    rates_of = [first]
    for gap, length, rate in steps:
        for _ in range(20):
            if not bucket.send(length):
                break
        bucket.now_ns += gap
        if rate:
            bucket.rerate(rate)
            rates_of.append(rate)
    times = [time_ns for time_ns, _ in bucket.sent]
    assert times == sorted(times)
    assert max(times) <= bucket.now_ns + WAIT_NS
    most = burst + 1514 + (max(rates_of) - min(rates_of)) * WAIT_NS // SECOND
    assert windows_hold(bucket.sent, max(rates_of), most, 2 + len(bucket.sent))


@given(first=paced_rates, steps=rises, burst=st.integers(1514, 10000))
def test_no_packet_passes_that_is_not_paid_within_the_horizon(core: Any, first: int, burst: int,
                                                              steps: List[Tuple[int, int, Any]]) -> None:
    """To the byte, however often the rate goes up and down: credit is at most the depth at any time."""
    bucket = Ordered(core, first, burst, WAIT_NS)
    credit, rate = Fraction(burst), first
    for gap, length, next_rate in steps:
        for _ in range(20):
            if not bucket.send(length):
                break
            credit -= length
            assert -credit <= max(16654, rate * WAIT_NS / SECOND) + 64
        bucket.now_ns += gap
        credit = min(Fraction(burst), credit + Fraction(gap * rate, SECOND))
        if next_rate:
            bucket.rerate(next_rate)
            rate = next_rate


def test_what_a_rise_earns_is_no_debt(core: Any) -> None:
    """A rate that goes up and down faster than its queue ends, is had in full."""
    bucket, earned = Ordered(core, 2 * 10**7, 3028, WAIT_NS), 0
    for step in range(4000):
        while bucket.send(1514):
            pass
        bucket.now_ns += 100_000
        earned += bucket.rate.bytes_per_s * 100_000
        bucket.rerate((3 if step % 2 else 2) * 10**7)
    assert sum(length for _, length in bucket.sent) * SECOND >= 0.999 * earned


def test_credit_beyond_the_depth_is_lost_by_those_who_wait_in_order(core: Any) -> None:
    bucket = Ordered(core, 10**7, 3028, WAIT_NS)
    while bucket.send(1514):
        pass
    bucket.rerate(10**9)
    bucket.now_ns += WAIT_NS - 10**5
    assert bucket.send(1514) and bucket.send(1514)
    bucket.horizon_ns = 0
    bucket.rerate(10**9 - 1)
    assert not bucket.send(64), "two packets are the depth"


def test_order_is_kept_for_twice_the_longest_wait_at_the_new_rate(core: Any) -> None:
    """What waits for minutes by a rate that was next to nothing holds nothing up."""
    bucket = Ordered(core, RATE_MIN, 1514, WAIT_NS)
    while bucket.send(1514):
        pass
    assert bucket.sent[-1][0] - bucket.now_ns > 100 * SECOND
    bucket.rerate(10**8)
    assert bucket.order.until_ns == bucket.now_ns + 2 * WAIT_NS
    assert not bucket.send(1514), "nothing may wait longer than the horizon"
    bucket.now_ns += 2 * WAIT_NS
    assert bucket.send(1514) and bucket.sent[-1][0] == bucket.now_ns


def test_police_knows_no_order(core: Any) -> None:
    bucket = Ordered(core, 10**7, 3028, WAIT_NS)
    while bucket.send(1514):
        pass
    bucket.horizon_ns = 0
    bucket.rerate(10**9)
    assert bucket.order.until_ns == bucket.order.spare_ticks == 0
    bucket.now_ns += 10**6
    assert bucket.send(1514) and bucket.sent[-1][0] == bucket.now_ns
