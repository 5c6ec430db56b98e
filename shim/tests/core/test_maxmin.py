# SPDX-License-Identifier: Apache-2.0
"""What law maxmin promises: it obeys a rate at once and within bounds, and is law sdngcc when nobody speaks."""

from typing import Any, Dict, List, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

from .drawn import knob_values

MS = 10**6
SECOND = 10**9
C = 125_000_000
T = 5 * MS
TIMEOUT = 200 * MS
RATE_MIN, RATE_MAX = 125, 10**11
any_u64 = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 10**11))


class Told:
    """A VM under a law, with every input of the law as an attribute, that can be told rates and marks."""

    def __init__(self, core: Any, law: str = "maxmin", share: int = C // 4, low: int = 0, maximum: int = 0,
                 weight: int = 1, capacity: int = C, now_ns: int = SECOND,
                 knobs: Optional[Dict[str, int]] = None) -> None:
        ffi, lib = core.ffi, core.lib
        self.law = lib.shim_law_find(law.encode())
        self.values = ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            self.values[lib.shim_knob_find(self.law, name.encode())] = value
        self.input = ffi.new("struct shim_law_input *", {
            "now_ns": now_ns, "period_ns": T, "capacity": capacity, "share": share, "min": low, "max": maximum,
            "weight": weight, "knobs": self.values, "frame": 1514})
        self.state = binding.limiter(self.law)
        self.law.init(self.state, self.input)
        self.sequence = 0

    @property
    def rate(self) -> int:
        return int(self.state.rate)

    def period(self, count: int = 1, every_ns: int = T) -> int:
        for _ in range(count):
            self.input.now_ns += every_ns
            self.law.on_period(self.state, self.input)
        return self.rate

    def mark(self, marks: int) -> int:
        fields = {"type": 1, "version": 1, "marks": marks, "interval_ns": T, "weight_total": 4}
        self.law.on_message(self.state, self.input, binding.message(dict(fields)))
        return self.rate

    def tell(self, rate: int, sequence: Optional[int] = None, sender: int = 1, epoch: int = 1000) -> int:
        self.sequence = self.sequence + 1 if sequence is None else sequence
        fields = {"type": 2, "version": 1, "rate": rate, "weight_total": 4, "sequence": self.sequence,
                  "sender": sender, "epoch": epoch}
        self.law.on_message(self.state, self.input, binding.message(dict(fields)))
        return self.rate


def text(core: Any, pointer: Any) -> str:
    raw: bytes = core.ffi.string(pointer)
    return raw.decode()


def test_knobs_are_those_of_sdngcc_and_three_more(core: Any) -> None:
    laws = [core.lib.shim_law_find(name) for name in (b"sdngcc", b"maxmin")]
    mine, own = ({text(core, knob.name): (text(core, knob.unit), knob.value, knob.min, knob.max)
                  for knob in law.knobs[0:law.n_knobs]} for law in laws)
    assert {name: own[name] for name in mine} == mine
    assert {name: own[name] for name in set(own) - set(mine)} == {
        "rate-timeout": ("ns", TIMEOUT, MS, 10 * SECOND), "start-ppm": ("ppm of share", 100_000, 0, 10**6),
        "burst-bytes": ("bytes", 60_000, 0, 2**24)}
    assert laws[1].obeys_rates and not laws[0].obeys_rates


def test_a_rate_is_obeyed_within_one_message_and_held(core: Any) -> None:
    vm = Told(core)
    for rate in (C // 5, C // 2, RATE_MIN, C):
        assert vm.tell(rate) == rate
        assert vm.state.congested == (rate < C // 4)
        assert vm.period(39) == rate


def test_a_rate_is_clamped_to_guarantee_and_maximum(core: Any) -> None:
    vm = Told(core, low=C // 10, maximum=C // 2)
    assert vm.tell(RATE_MIN) == C // 10
    assert vm.tell(RATE_MAX) == C // 2
    vm.input.max = C // 3  # the operator's changes count at once, not with the next message
    assert vm.period() == C // 3
    vm.input.max = C // 20  # a maximum below the guarantee counts as the guarantee
    assert vm.period() == C // 10
    vm.input.max = 0
    assert vm.period() == C  # without a maximum the uplink's capacity is one


def test_a_vm_begins_low_and_reaches_its_share_without_a_controller(core: Any) -> None:
    vm = Told(core)
    assert vm.rate == C // 40
    assert vm.period(TIMEOUT // T - 1) == C // 40
    assert vm.period(20) == C // 4
    assert Told(core, knobs={"start-ppm": 10**6}).rate == C // 4
    assert Told(core, knobs={"start-ppm": 0}, low=1000).rate == 1000


@pytest.mark.parametrize("rate", [RATE_MIN, C // 40, C // 2, C])
def test_silence_leaves_nobody_low_or_unlimited(core: Any, rate: int) -> None:
    vm = Told(core)
    vm.tell(rate)
    vm.period(TIMEOUT // T - 1)
    assert vm.rate == rate
    assert vm.period() <= C // 4  # never above the share once the rate is stale
    assert vm.period(400) == C // 4 and not vm.state.congested


def test_after_the_timeout_it_is_law_sdngcc(core: Any) -> None:
    """From the same rate and the same silence on, both laws do the same to the byte, marks included."""
    old, new = Told(core, "sdngcc"), Told(core)
    old.state.rate = new.tell(C // 10)
    old.state.message_ns, old.state.weight_total = new.state.message_ns, new.state.weight_total
    own = binding.own(old.law, old.state), binding.own(new.law, new.state).sdngcc
    for vm, kept in zip((old, new), own):
        vm.input.sent_rate = C // 10
        vm.input.now_ns += TIMEOUT - T
        kept.climb.step_ns = vm.input.now_ns
    for number in range(200):
        assert new.period() == old.period()
        if number % 7 == 3:
            assert new.mark(100 + number) == old.mark(100 + number)


def test_marks_change_nothing_while_a_rate_is_in_force(core: Any) -> None:
    vm = Told(core)
    vm.tell(C // 5)
    assert vm.mark(2**32 - 1) == C // 5
    vm.input.now_ns += TIMEOUT
    assert vm.mark(2**32 - 1) == C // 400


def test_a_rate_that_was_overtaken_is_ignored(core: Any) -> None:
    vm = Told(core)
    vm.tell(1000, sequence=9)
    assert vm.tell(5000, sequence=8) == 1000
    assert vm.tell(5000, sequence=10) == 5000
    assert vm.tell(6000, sequence=1, epoch=1001) == 6000  # the controller began anew
    assert vm.tell(7000, sequence=1, sender=2) == 7000  # another one took over
    assert vm.tell(8000, sequence=2**32 - 1, sender=2) == 8000


histories: st.SearchStrategy[List[Any]] = st.lists(st.one_of(
    st.tuples(st.just("rate"), st.integers(RATE_MIN, RATE_MAX)),
    st.tuples(st.just("marks"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("pass"), st.integers(0, 2 * SECOND)),
    st.tuples(st.just("share"), st.integers(0, C))), max_size=30)


@given(history=histories, knobs=knob_values("maxmin"), low=st.integers(0, C // 4), maximum=st.integers(0, 2 * C),
       weight=st.integers(1, 65535))
@example(history=[("pass", MS), ("marks", 0)], knobs={"rate-timeout": MS}, low=0, maximum=1, weight=1)
def test_rate_stays_within_bounds(core: Any, history: List[Any], knobs: Dict[str, int], low: int, maximum: int,
                                  weight: int) -> None:
    """Whatever is heard and configured: never below the guarantee, above the maximum only while it is less than that,
    above the share only while a rate is fresh."""
    # As the shim divides: no share is above the maximum, unless the guarantee is.
    most = max(low, min(maximum or C, C))
    vm = Told(core, share=min(max(C // 4, low), most), low=low, maximum=maximum, weight=weight, knobs=knobs)
    told_ns = vm.input.now_ns
    for kind, value in history:
        if kind == "rate":
            vm.tell(value)
            told_ns = vm.input.now_ns
        elif kind == "marks":
            vm.mark(value)
        else:
            if kind == "pass":
                vm.input.now_ns += value
            else:
                vm.input.share = min(max(value, low), most)
            vm.period(every_ns=0)
        fresh = vm.input.now_ns - told_ns < knobs["rate-timeout"]
        # Between two periods a share that shrank, or a rate that went stale, is not yet in force.
        assert low <= vm.rate <= (most if fresh or kind == "marks" else vm.input.share)


@given(now=any_u64, rate=any_u64, capacity=any_u64, share=any_u64, low=any_u64, maximum=any_u64)
def test_any_number_is_survived(core: Any, now: int, rate: int, capacity: int, share: int, low: int,
                                maximum: int) -> None:
    vm = Told(core, share=share, low=low, maximum=maximum, capacity=capacity, now_ns=now)
    got = vm.tell(rate)
    assert got == max(low, min(rate, min(maximum or capacity, capacity)))
    vm.input.now_ns = (now + TIMEOUT) % 2**64
    vm.period(every_ns=0)
    vm.mark(2**32 - 1)
