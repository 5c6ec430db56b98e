# SPDX-License-Identifier: Apache-2.0
"""The registry of laws, and what static and sdngcc promise of the rate they set."""

import re
from typing import Any, Dict, List, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

from .drawn import knob_values

MS = 10**6
SECOND = 10**9
C = 125_000_000
T = 5 * MS
FULL_MARKS = C * T // SECOND / 1514
U64_MAX = 2**64 - 1


class Limiter:
    """One VM under a law, with every input of the law as an attribute."""

    def __init__(self, core: Any, law: str, share: int = C // 4, low: int = 0, weight: int = 1,
                 capacity: int = C, now_ns: int = SECOND, knobs: Optional[Dict[str, int]] = None) -> None:
        ffi, lib = core.ffi, core.lib
        self.law = lib.shim_law_find(law.encode())
        self.values = ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            index = lib.shim_knob_find(self.law, name.encode())
            assert index >= 0, name
            self.values[index] = value
        self.input = ffi.new("struct shim_law_input *", {
            "now_ns": now_ns, "period_ns": T, "capacity": capacity, "share": share, "min": low,
            "sent_rate": 0, "weight": weight, "knobs": self.values, "frame": 1514, "rx_frame": 1514})
        self.state = binding.limiter(self.law)
        self.law.init(self.state, self.input)

    @property
    def rate(self) -> int:
        return int(self.state.rate)

    def period(self, count: int = 1, every_ns: int = T) -> int:
        for _ in range(count):
            self.input.now_ns += every_ns
            self.law.on_period(self.state, self.input)
        return self.rate

    def message(self, marks: int, interval_ns: int = T, weight_total: int = 4, **fields: int) -> int:
        fields = {"type": 1, "version": 1, "marks": marks, "interval_ns": interval_ns,
                  "weight_total": weight_total, **fields}
        self.law.on_message(self.state, self.input, binding.message(dict(fields)))
        return self.rate


def laws(core: Any) -> List[Any]:
    found: List[Any] = []
    while core.lib.shim_law_at(len(found)) != core.ffi.NULL:
        found.append(core.lib.shim_law_at(len(found)))
    return found


def text(core: Any, pointer: Any) -> str:
    assert pointer != core.ffi.NULL
    raw: bytes = core.ffi.string(pointer)
    return raw.decode()


def test_registry(core: Any) -> None:
    names = [text(core, law.name) for law in laws(core)]
    assert names[:2] == ["static", "sdngcc"] and len(set(names)) == len(names)
    assert core.lib.shim_law_at(2**32 - 1) == core.ffi.NULL
    for name in (b"", b"sdngc", b"sdngccc", b"SDNGCC", b"none"):
        assert core.lib.shim_law_find(name) == core.ffi.NULL
    assert core.lib.shim_law_find(b"sdngcc").name == laws(core)[1].name


def test_every_knob_is_documented_and_consistent(core: Any) -> None:
    for law in laws(core):
        assert law.period_ns and law.n_knobs <= core.lib.SHIM_KNOBS_MAX
        names = [text(core, law.knobs[i].name) for i in range(law.n_knobs)]
        assert len(set(names)) == len(names)
        for index, name in enumerate(names):
            knob = law.knobs[index]
            assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
            assert text(core, knob.unit) and text(core, knob.source)
            assert knob.min <= knob.value <= knob.max
            assert core.lib.shim_knob_find(law, name.encode()) == index
            # The meaning of 0 is in the help, and 0 is refused where the help says so.
            assert re.search(r"\b0\b", text(core, knob.help)), name
            assert ("0 is refused" in text(core, knob.help)) == (knob.min > 0), name
        assert core.lib.shim_knob_find(law, b"no-such-knob") == -1
        assert core.lib.shim_knob_find(law, b"") == -1


def test_own_states_have_the_room_that_hosts_give(core: Any) -> None:
    """A law's sizes are those of its structs, which are named after it; limiters and peers stay small."""
    for law in laws(core):
        for kind, make, most in (("limiter", binding.limiter, 432), ("peer", binding.peer, 104),
                                 ("flow", binding.flow, 64)):
            size = getattr(law, f"{kind}_size")
            assert size <= most
            if size:
                assert len(core.ffi.buffer(binding.own(law, make(law)))) == size
        assert not law.peer_size or law.wants & core.lib.SHIM_LAW_PEERS
        assert not law.flow_size or law.wants & core.lib.SHIM_LAW_FLOWS
    for name in ("limiter_state", "peer_state", "flow"):
        assert core.ffi.sizeof(f"struct shim_{name}") % 8 == 0


@given(rate=st.integers(0, U64_MAX), size=st.integers(0, 2**32 - 1), packets=st.integers(0, 2**32 - 1),
       marks=st.integers(0, 2**32 - 1), now_ns=st.integers(0, U64_MAX), echo=st.booleans(), free=st.booleans())
def test_packets_leave_a_peers_rate_as_it_is(core: Any, rate: int, size: int, packets: int, marks: int, now_ns: int,
                                             echo: bool, free: bool) -> None:
    """The engine applies rates at ticks and reports alone."""
    for law in laws(core):
        if not law.wants & core.lib.SHIM_LAW_PEERS:
            continue
        values = core.ffi.new("u64[]", [law.knobs[i].value for i in range(law.n_knobs)])
        peer = binding.peer(law)
        peer.rate = rate
        for take in (law.on_tx, law.on_rx):
            if take != core.ffi.NULL:
                take(peer, core.ffi.new("struct shim_law_packet *", {
                    "now_ns": now_ns, "bytes": size, "packets": packets, "marks": marks, "knobs": values, "echo": echo,
                    "echo_free": free, "id_free": free}))
                assert peer.rate == rate


def test_defaults_are_the_documented_ones(core: Any) -> None:
    law = core.lib.shim_law_find(b"sdngcc")
    have = {text(core, law.knobs[i].name): law.knobs[i].value for i in range(law.n_knobs)}
    assert have == {"cut-full-ppm": 50000, "cut-patience": 6, "cut-haste": 4, "level-periods": 8,
                    "cut-mark-ppm": 5000,
                    "congestion-timeout": 200 * MS, "step-slow-ppm": 6000, "step-fast-ppm": 20000,
                    "step-max-ppm": 50000, "step-sharers": 4, "step-scaled": 1, "rmin-ppm": 10000,
                    "recover-ppm": 0, "paced": 1}


def test_static_is_the_share(core: Any) -> None:
    vm = Limiter(core, "static")
    assert vm.rate == C // 4
    assert vm.message(1000) == C // 4
    vm.input.share = C // 2
    assert vm.period() == C // 2


def test_static_rate_knob(core: Any) -> None:
    assert Limiter(core, "static", knobs={"rate": 1000}).rate == 1000
    assert Limiter(core, "static", knobs={"rate": 1000}, low=5000).rate == 5000
    assert Limiter(core, "static", knobs={"rate": C}).rate == C // 4


def test_a_fully_marked_period_costs_a_twentieth_of_the_port(core: Any) -> None:
    """By a VM that sent all of it: 0.05 C, whatever the interval; four that sent a quarter each: 0.0125 C each."""
    vm = Limiter(core, "sdngcc", share=C)
    assert C - vm.message(round(FULL_MARKS)) == pytest.approx(0.05 * C, rel=0.005)
    vm = Limiter(core, "sdngcc", share=C)
    assert C - vm.message(round(2 * FULL_MARKS), interval_ns=2 * T) == pytest.approx(0.05 * C, rel=0.005)
    vm = Limiter(core, "sdngcc", share=C)
    assert C - vm.message(round(FULL_MARKS / 4), interval_ns=T // 4) == pytest.approx(0.0125 * C, rel=0.02)
    vm = Limiter(core, "sdngcc")
    assert C // 4 - vm.message(round(FULL_MARKS / 4)) == pytest.approx(0.0125 * C, rel=0.02)
    assert vm.state.congested and vm.state.weight_total == 4


def test_full_messages_in_a_row_double_the_cut(core: Any) -> None:
    """With patience 2 from the third on, up to four times; a message that is not full, or a pause, begins anew."""
    vm = Limiter(core, "sdngcc", share=C, knobs={"cut-patience": 2})
    vm.input.sent_rate = C // 4
    marks, single = round(FULL_MARKS / 4), round(FULL_MARKS / 4) * 1514 * 10

    def cut(count: int = marks, after_ns: int = T) -> int:
        vm.input.now_ns += after_ns
        before = vm.rate
        return before - vm.message(count)

    assert [cut() for _ in range(5)] == [single, single, 2 * single, 4 * single, 4 * single]
    assert cut(marks // 2) == marks // 2 * 1514 * 10
    assert [cut() for _ in range(3)] == [single, single, 2 * single]
    assert cut(after_ns=3 * T) == single


def test_interval_of_a_paper_message_is_the_time_since_the_last(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C)
    vm.message(1, interval_ns=0, version=0, weight_total=0)
    vm.input.now_ns += 10 * MS
    before = vm.rate
    assert before - vm.message(100, interval_ns=0) == 100 * 1514 * 5  # 0.05 of 151,400 bytes in 10 ms
    vm.input.now_ns += MS  # less than T counts as T
    before = vm.rate
    assert before - vm.message(100, interval_ns=0) == 100 * 1514 * 10
    vm.input.now_ns += SECOND  # more than T_c counts as T_c
    before = vm.rate
    assert before - vm.message(1000, interval_ns=0) == 1000 * 1514 // 4


def test_the_authors_constants(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C, knobs={"cut-full-ppm": 0, "step-scaled": 0, "step-fast-ppm": 5000,
                                                 "step-slow-ppm": 0, "step-max-ppm": 0})
    assert C - vm.message(1) == C // 200
    assert vm.message(10, interval_ns=2 * T) == C - C // 200 - 5 * C // 200
    assert vm.message(416) == C // 100
    assert vm.period(39) == C // 100
    assert vm.period() == C // 100 + C // 200


@pytest.mark.parametrize("marks,kind", [(0, 1), (100, 2)])
def test_messages_that_say_nothing(core: Any, marks: int, kind: int) -> None:
    vm = Limiter(core, "sdngcc")
    assert vm.message(marks, type=kind) == C // 4
    assert not vm.state.congested and vm.state.message_ns == 0


def test_a_message_at_time_0_is_not_never(core: Any) -> None:
    vm = Limiter(core, "sdngcc", now_ns=0)
    cut = vm.message(100)
    assert vm.period() == cut + C * 6000 // 10**6 // 4 and vm.state.congested


def test_floor_is_a_part_of_the_share_or_the_guarantee(core: Any) -> None:
    assert Limiter(core, "sdngcc").message(2**32 - 1) == C // 400
    assert Limiter(core, "sdngcc", low=C // 8).message(2**32 - 1) == C // 8
    assert Limiter(core, "sdngcc", knobs={"rmin-ppm": 0}).message(2**32 - 1) == 0


def test_steps_up_slow_then_fast_then_doubling(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C, weight=2)
    vm.message(2**32 - 1, weight_total=8)
    assert vm.period() - C // 100 == C * 6000 // 10**6 // 4
    assert vm.period(39) > 0 and not vm.state.congested
    before = vm.rate
    assert vm.period() - before == C * 20000 // 10**6 // 4
    vm.period(39)
    before = vm.rate
    assert vm.period() - before == C * 20000 // 10**6 // 4 * 2
    vm.period(39)
    before = vm.rate
    assert vm.period() - before == C * 20000 // 10**6 // 4 * 4


def test_silence_restores_the_share_soon(core: Any) -> None:
    """From the floor, even as one of 100 sharers, within two seconds of the last message."""
    vm = Limiter(core, "sdngcc", share=C)
    vm.message(2**32 - 1, weight_total=100)
    assert vm.period(400) == C


@pytest.mark.parametrize("interval_ns", [T, 5 * T])
def test_the_ordinary_pace_is_that_of_the_period(core: Any, interval_ns: int) -> None:
    vm = Limiter(core, "sdngcc", share=C)
    floor = vm.message(2**32 - 1, interval_ns=interval_ns)
    assert vm.period() == floor + C * 6000 // 10**6 // 4
    vm.period(39)
    assert not vm.state.congested


def test_slow_marks_slow_the_steps(core: Any) -> None:
    """Counted over I = 20 T, five steps are taken in I, and silence begins after three I."""
    vm = Limiter(core, "sdngcc", share=C)
    floor = vm.message(2**32 - 1, interval_ns=20 * T)
    assert vm.period(20) - floor == pytest.approx(5 * (C * 6000 // 10**6 // 4), rel=0.001)
    assert vm.period(39) > 0 and vm.state.congested
    before = vm.rate
    assert not vm.period() <= before and not vm.state.congested
    before = vm.rate
    assert vm.period(20) - before == pytest.approx(5 * (C * 20000 // 10**6 // 4), rel=0.001)


def test_an_interval_beyond_two_seconds_counts_as_two(core: Any) -> None:
    rates = []
    for interval_ns in (2 * SECOND, U64_MAX):
        vm = Limiter(core, "sdngcc", share=C)
        vm.message(2**32 - 1, interval_ns=2 * SECOND)
        vm.message(1, interval_ns=interval_ns)
        rates.append(vm.period(2000))
    assert rates[0] == rates[1] > C // 100


def test_the_next_message_sets_the_pace(core: Any) -> None:
    """A fast source after a slow one, and one that does not say how long it counted, are as if they had been first."""
    for fast in (T, 0):
        vm = Limiter(core, "sdngcc", share=C)
        vm.message(2**32 - 1, interval_ns=SECOND)
        floor = vm.message(2**32 - 1, interval_ns=fast)
        assert vm.period() == floor + C * 6000 // 10**6 // 4


def test_slow_marks_of_a_full_port_are_full_whatever_was_sent(core: Any) -> None:
    """Four at line rate get a quarter each through a port of C: cuts double though three quarters were dropped."""
    cuts = []
    for interval_ns in (T, 20 * T):
        vm = Limiter(core, "sdngcc", share=C, knobs={"cut-patience": 1})
        vm.input.sent_rate = C
        for _ in range(3):
            vm.input.now_ns += interval_ns
            before = vm.rate
            vm.message(round(FULL_MARKS * interval_ns / T / 4), interval_ns=interval_ns)
            cuts.append(round((before - vm.rate) / C, 4))
    assert cuts == [0.0125, 0.0125, 0.0125, 0.0125, 0.025, 0.05]


def test_share_follows_at_once_when_nothing_was_heard(core: Any) -> None:
    vm = Limiter(core, "sdngcc")
    vm.input.share = C // 8
    assert vm.period() == C // 8
    vm.input.share = C
    assert vm.period() == C


def test_share_does_not_lift_a_vm_that_was_cut(core: Any) -> None:
    vm = Limiter(core, "sdngcc")
    cut = vm.message(100)
    vm.input.share = C
    assert vm.period() <= cut + C * 6000 // 10**6 // 4 + 1
    vm.input.share = cut // 2
    assert vm.period() == cut // 2
    vm.input.share = C
    assert vm.period() == cut // 2 + C * 6000 // 10**6 // 4


def test_extra_and_late_calls_do_not_change_the_pace(core: Any) -> None:
    regular, eager, late = (Limiter(core, "sdngcc", share=C) for _ in range(3))
    for vm in (regular, eager, late):
        vm.message(2**32 - 1)
    regular.period(8)
    eager.period(80, every_ns=T // 10)
    late.period(4, every_ns=2 * T)
    assert eager.rate == pytest.approx(regular.rate, abs=100)
    assert late.rate == pytest.approx(regular.rate, abs=100)
    before = regular.rate
    regular.input.now_ns -= SECOND
    regular.law.on_period(regular.state, regular.input)
    assert regular.rate == before


def test_a_timer_that_is_very_late_steps_twice(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C)
    floor = vm.message(2**32 - 1)
    assert vm.period(every_ns=9 * T) == floor + 2 * (C * 6000 // 10**6 // 4)


@pytest.mark.parametrize("timeouts", [60, 64, 65, 129, 10**6])
def test_long_silence_keeps_the_largest_step(core: Any, timeouts: int) -> None:
    vm = Limiter(core, "sdngcc", share=C)
    floor = vm.message(2**32 - 1)
    assert vm.period(every_ns=timeouts * 200 * MS) == floor + 2 * (C * 50000 // 10**6)


any_u64 = st.one_of(st.integers(0, U64_MAX), st.integers(0, 10**11))
steps = st.lists(st.one_of(
    st.tuples(st.just("message"), st.integers(0, 2**32 - 1), any_u64, st.integers(0, 2**32 - 1)),
    st.tuples(st.just("period"), any_u64, any_u64, any_u64)), max_size=25)


@given(history=steps, knobs=knob_values("sdngcc"), capacity=any_u64, weight=st.integers(1, 65535), now_ns=any_u64)
def test_rate_stays_between_floor_and_share(core: Any, history: Any, knobs: Dict[str, int], capacity: int,
                                            weight: int, now_ns: int) -> None:
    """Whatever is heard, configured or measured, and whatever the clock does."""
    share = capacity // 3
    vm = Limiter(core, "sdngcc", share=share, low=share // 7, capacity=capacity, weight=weight,
                 now_ns=now_ns, knobs=knobs)
    for kind, *values in history:
        before = vm.rate
        if kind == "message":
            after = vm.message(values[0], interval_ns=values[1], weight_total=values[2])
            assert after <= before
        else:
            vm.input.now_ns, vm.input.share = values[0], values[1]
            vm.input.min = min(values[2], values[1])
            vm.law.on_period(vm.state, vm.input)
            after = vm.rate
        floor = max(vm.input.min, vm.input.share * knobs["rmin-ppm"] // 10**6)
        assert floor <= after <= vm.input.share


def fluid(vms: List[Limiter], seconds: float, by_bytes: bool = True) -> List[float]:
    """A port of capacity C that marks above 30 KB of queue; return each VM's mean rate in the second half.

    Rates stay within a period; marks go to VMs by bytes sent, or equally.
    """
    queue, rounds = 0.0, int(seconds * SECOND / T)
    sums = [0.0] * len(vms)
    total = sum(vm.input.weight for vm in vms)
    for number in range(rounds):
        offered = [vm.rate * T / SECOND for vm in vms]
        before, queue = queue, min(150_000.0, max(0.0, queue + sum(offered) - C * T / SECOND))
        above = max(before, queue) > 30_000
        for index, vm in enumerate(vms):
            part = offered[index] / sum(offered) if by_bytes else 1 / len(vms)
            if above:
                vm.message(round(FULL_MARKS * part), weight_total=total)
            vm.period()
            if number >= rounds // 2:
                sums[index] += vm.rate / (rounds - rounds // 2)
    return sums


def late_fluid(vms: List[Limiter], interval_ns: int, count: int) -> "tuple[List[float], float]":
    """A port whose marks are read every interval and told one interval later, by bytes sent then.

    Return each VM's mean rate in the second half of count intervals, and the part of the port that was used there.
    """
    queue, marks, used, told = 0.0, 0.0, 0.0, [0.0]
    sums = [0.0] * len(vms)
    rounds = interval_ns // T
    for number in range(count * rounds):
        rates = [vm.rate for vm in vms]
        offered = sum(rates) * T / SECOND
        carried = min(C * T / SECOND, queue + offered)
        queue = min(150_000.0, queue + offered - carried)
        marks += carried / 1514 if queue > 30_000 else 0
        if number % rounds == rounds - 1:
            told.append(marks)
            old, marks = told.pop(0), 0.0
            for vm, rate in zip(vms, rates):
                vm.input.sent_rate = rate
                if old:
                    vm.message(round(old * rate / sum(rates)), interval_ns=interval_ns, weight_total=len(vms))
        for index, vm in enumerate(vms):
            vm.period()
            if number >= count * rounds // 2:
                sums[index] += vm.rate / (count * rounds / 2)
        used += carried if number >= count * rounds // 2 else 0
    return sums, used / (C * count * interval_ns / SECOND / 2)


@pytest.mark.parametrize("interval_ns,count", [(10 * MS, 400), (100 * MS, 150), (SECOND, 100)])
def test_marks_that_come_late_still_divide_the_port(core: Any, interval_ns: int, count: int) -> None:
    """Three at line rate and one at a twentieth: they get the same to 10%, and the port is used."""
    vms = [Limiter(core, "sdngcc", share=C) for _ in range(4)]
    vms[0].message(round(FULL_MARKS * 19))
    means, used = late_fluid(vms, interval_ns, count)
    assert used > 0.9
    for mean in means:
        assert mean == pytest.approx(sum(means) / 4, rel=0.1)


@pytest.mark.parametrize("weights", [(1, 1), (1, 2), (1, 2, 4), (1,) * 8])
def test_rates_converge_to_the_ratio_of_weights(core: Any, weights: Any) -> None:
    vms = [Limiter(core, "sdngcc", share=C, weight=weight) for weight in weights]
    vms[0].message(2**32 - 1, weight_total=sum(weights))  # one starts on its floor
    means = fluid(vms, 40)
    for mean, weight in zip(means, weights):
        assert mean / sum(means) == pytest.approx(weight / sum(weights), rel=0.1)
    assert 0.85 * C < sum(means) < 1.1 * C


def test_equal_marks_keep_the_difference(core: Any) -> None:
    """Why marks are divided by bytes: the paper's equal marks leave a newcomer ahead."""
    vms = [Limiter(core, "sdngcc", share=C) for _ in range(2)]
    vms[0].message(round(FULL_MARKS * 7))
    means = fluid(vms, 40, by_bytes=False)
    assert means[1] > 1.5 * means[0]
