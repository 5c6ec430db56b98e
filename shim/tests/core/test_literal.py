# SPDX-License-Identifier: Apache-2.0
"""Literal presets beside the papers' equations, written down once more in floating point.

Each law runs with the knobs of its preset through whatever feedback Hypothesis draws, and its rate is that of the
equations within rounding. What the equations lead to, good or bad, is shown in a closed loop where that is quick.
"""

from fractions import Fraction
from typing import Any, List, Optional, Tuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sdngcc.testbed.presets import PRESETS

from .eyeq_line import LINE, Loop, Side
from .test_hygenicc import VM as HygeniccVM
from .test_law import Limiter
from .test_scc import Tunnel
from .test_seawall import VM as SeawallVM

MS, SECOND = 10**6, 10**9
C = 125_000_000
FULL = 1514
E = C // 4


def near(rate: float) -> Any:
    """Some bytes of rounding a step."""
    return pytest.approx(rate, rel=1e-4, abs=400)


@given(st.lists(st.one_of(st.none(), st.integers(1, 60)), max_size=60), st.sampled_from([5 * MS, 50 * MS]))
def test_sdngcc_is_algorithm_3_with_the_authors_recovery(core: Any, heard: List[Optional[int]], interval: int) -> None:
    """None: a period of 2 ms passes; a number: so many marks are told, counted over that interval."""
    vm = Limiter(core, "sdngcc", share=E, knobs=PRESETS["sdngcc"].knobs)
    vm.input.period_ns = PRESETS["sdngcc"].parameters["shim_period_us"] * 1000
    rate, since = float(E), 10**9
    for marks in heard:
        if marks is None:
            since += 1
            if since >= 1:  # T_c is one period
                rate = min(E, (rate + E) / 2 + E / 10)
            vm.period(every_ns=2 * MS)
        else:
            since = 0
            rate = max(E / 100, rate - marks * C / 200 * 5 * MS / interval)
            vm.message(marks, interval_ns=interval, weight_total=7)
        assert vm.rate == near(rate)


def test_sdngcc_waits_for_2_ms_without_marks(core: Any) -> None:
    """However long marks were counted, and no longer; levels mean nothing to it."""
    vm = Limiter(core, "sdngcc", share=C, knobs=PRESETS["sdngcc"].knobs)
    vm.input.period_ns = 2 * MS
    assert vm.message(20_000, interval_ns=SECOND) == near(C / 2)
    assert vm.period(every_ns=2 * MS - 1) == near(C / 2)
    vm.input.now_ns += 1
    assert vm.period(every_ns=2 * MS) == near(C / 2 + C / 4 + C / 10)
    assert vm.message(0, type=core.lib.SHIM_MESSAGE_LEVEL, rate=C // 10) == near(C / 2 + C / 4 + C / 10)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=80))
def test_hygenicc_is_algorithm_1(core: Any, heard: List[Tuple[int, int]]) -> None:
    """Marks echoed and reported in each period: they cut, or there is a step, and the weight counts for nothing."""
    vm = HygeniccVM(core, weight=3, knobs=PRESETS["hygenicc"].knobs)
    scale = FULL * SECOND / 151_400
    assert scale == pytest.approx(80e6 / 8, rel=0.001)
    rate = float(C)
    for echoed, reported in heard:
        vm.send(packets=echoed)
        for _ in range(echoed):
            vm.receive(echo=True)
        vm.report(reported)
        # Echoes reach the limiter at the end of the peer's period, so with the next one of the VM.
        vm.law.on_peer_period(vm.peer(0), vm.state, vm.input, vm.ffi.new("struct shim_message *"))
        marks = echoed + reported
        rate = max(0.0, rate - marks * scale) if marks else min(C, rate + scale)
        vm.tick()
        assert vm.rate == near(rate)


def test_hygenicc_has_one_step(core: Any) -> None:
    """Lines 20 and 25: the same before Congestion_Timeout and ever after."""
    vm = HygeniccVM(core, share=1000 * C, capacity=1000 * C, knobs=PRESETS["hygenicc"].knobs)
    vm.report(2**32 - 1)
    vm.tick()
    assert [vm.ticks(1) for _ in range(300)] == [near(10**7 * (number + 1)) for number in range(300)]


def test_hygenicc_reports_once_echoes_cease(core: Any) -> None:
    """Algorithm 2 restarts its timeout with each echo, so a trickle of them holds the rest back; ours does not."""
    def reports(knobs: Any) -> int:
        vm = HygeniccVM(core, knobs={**knobs, "feedback-timeout": MS})
        vm.receive(marks=1000, packets=1000)
        count = 0
        for _ in range(40):
            vm.send()
            count += len(vm.tick())
        for _ in range(3):
            count += 100 * len(vm.tick())
        return count

    assert reports(PRESETS["hygenicc"].knobs) == 100
    assert reports({}) == 1


@given(st.floats(0.05, 1.0), st.lists(st.floats(0.001, 1.2), min_size=1, max_size=60))
def test_eyeq_is_section_3_4(core: Any, part: float, received: List[float]) -> None:
    """R is corrected in each period by what came in that period alone, whoever sent it."""
    vm = Side(core, knobs=PRESETS["eyeq"].knobs)
    vm.input.horizon_ns, vm.input.peers = 2 * MS, 9
    vm.input.rx_share = round(part * LINE)
    limit = 0.9 * part * LINE
    rate = limit
    for one in received:
        vm.tick(round(one * LINE))
        rate *= 1 - 0.5 * (round(one * LINE) - limit) / limit
        rate = min(max(rate, 125_000), LINE)
        assert vm.own.grant == pytest.approx(rate, rel=1e-4, abs=100)


def test_eyeq_divides_by_weight_among_those_that_receive(core: Any) -> None:
    """All of the line is a VM's demand while it receives, nothing else; R of others stays, and their C is kept."""
    vm = Side(core, knobs=PRESETS["eyeq"].knobs)
    assert vm.state.rx_demand == LINE
    vm.tick(LINE // 100)
    granted, limit = vm.own.grant, vm.own.limit
    assert vm.state.rx_demand == LINE and granted > limit
    vm.tick(0)
    assert vm.state.rx_demand == 1 and (vm.own.grant, vm.own.limit) == (granted, limit)
    vm.input.rx_share = 1
    vm.tick(LINE // 100)
    assert vm.state.rx_demand == LINE and vm.own.limit == limit and vm.own.grant >= granted


def test_eyeq_tells_who_is_not_told_yet(core: Any) -> None:
    """Section 3.2 has feedback for each sample, not for a rate below C alone."""
    vm = Side(core, knobs=PRESETS["eyeq"].knobs)
    peer = vm.peer()
    vm.receive(peer, 20_000)
    assert [report.rate for _, report in vm.tick(LINE // 2)] == [vm.own.grant] and vm.own.grant > vm.own.limit


@pytest.mark.parametrize("n,least", [(2, 5), (32, 30)])
def test_eyeq_alone_needs_the_more_periods_the_more_senders(core: Any, n: int, least: int) -> None:
    """A meter behind a line reads at most the line: an excess of a ninth, from 2 senders at line rate as from 32."""
    loop = Loop(core, n, delay_steps=2, knobs=PRESETS["eyeq"].knobs)
    loop.run(least)
    assert loop.rate(0) > 1.2 * 0.9 * LINE / n


def seawall_equations(share: float, weight: int, heard: List[Fraction]) -> List[float]:
    """Return the rates by Class 3, lines 1 to 20, invoked once for what is marked and once for the rest."""
    step = 0.003 * C * weight / 4
    rate, mean, inc, goal, cut = share / 20 * weight / 4, 0.0, 0.0, 0.0, -1e9
    now, rates = 0.0, []
    for part in heard:
        now += 0.01
        for marked, p in ((1, float(part)), (0, float(1 - part))):
            if not p:
                continue
            mean += 0.0625 * p * (marked - mean)
            if marked:
                lower = rate - rate * 0.1 * p * mean
                inc, cut = 0.0, now
                goal = rate if rate > goal else (rate + lower) / 2
                rate = lower
            elif rate < goal:
                age = min((now - cut) / 0.02, 0.9)
                rate += weight * p * 0.5 * (goal - rate) * (1 - age) ** 3
            else:
                rate += p * inc
                inc += step * p
        rates.append(rate)
    return rates


@given(st.lists(st.integers(0, 100), max_size=60), st.sampled_from([1, 2, 8]))
@example([0] * 20 + [30] + [0] * 10, 8)
def test_seawall_is_class_3(core: Any, marks: List[int], weight: int) -> None:
    """The example probes, is cut, and is above its goal again, where line 8's inc = 0 shows."""
    rates = seawall_equations(10 * C, weight, [Fraction(count, 100) for count in marks])
    vm = SeawallVM(core, weight=weight, share=10 * C, knobs={**PRESETS["seawall"].knobs, "clamp": 0,
                                                             "start-ppm": 50_000})
    vm.hear(bytes=FULL, packets=1, marks=0, lost=0)
    vm.told[0].update(bytes=FULL, packets=1, marks=0, lost=0)
    for count, rate in zip(marks, rates):
        vm.busy(1, {"marks": count})
        assert vm.rate == pytest.approx(rate, rel=0.002)


def test_seawall_divides_by_line_16_of_class_2(core: Any) -> None:
    """Nine tenths by use, the rest evenly, and what the VM leaves is nobody's."""
    vm = SeawallVM(core, destinations=2, knobs=PRESETS["seawall"].knobs)
    vm.send(0, bytes=30_000)
    vm.send(1, bytes=10_000)
    vm.tick()
    rates = [int(peer.rate) / vm.rate for peer in vm.peers]
    assert rates == [pytest.approx(0.9 * 0.75 + 0.05, rel=0.001), pytest.approx(0.9 * 0.25 + 0.05, rel=0.001)]


@pytest.mark.parametrize("beta_ppm, within", [(900_000, True), (0, False)])
def test_seawall_follows_demands_in_four_periods(core: Any, beta_ppm: int, within: bool) -> None:
    """Section 4.3: of 4x for demands of 2x, x and x the first tunnel comes within 20% of its demand in four periods."""
    vm = SeawallVM(core, destinations=3, knobs={**PRESETS["seawall"].knobs, "silence": 0, "beta-ppm": beta_ppm})
    demands = [vm.rate / 2, vm.rate / 4, vm.rate / 4]
    allowed = [vm.rate / 3] * 3
    for _ in range(5):
        for number, (wanted, most) in enumerate(zip(demands, allowed)):
            vm.send(number, bytes=int(min(wanted, most) / 100))
        vm.tick()
        allowed = [int(peer.rate) for peer in vm.peers]
    assert (allowed[0] >= 0.8 * demands[0]) == within
    assert sum(allowed) == pytest.approx(vm.rate, rel=0.001)


def test_seawall_alone_never_probes_after_a_cut(core: Any) -> None:
    """Lines 14 to 16 come no further than a thousandth of the way a T from 0.9 Ts on; ours probes after Ts."""
    def after_a_second(knobs: Any) -> float:
        vm = SeawallVM(core, knobs={**knobs, "clamp": 0})
        vm.busy(3, {"marks": 100})
        cut = vm.rate
        vm.busy(100, {"marks": 0})
        return vm.rate / cut

    assert after_a_second(PRESETS["seawall"].knobs) < 1.02
    assert after_a_second({}) > 3


def test_seawall_takes_a_late_report_for_a_loss(core: Any) -> None:
    """Section 4.2: no feedback within T; the mended law waits for eight."""
    for knobs, falls in ((PRESETS["seawall"].knobs, True), ({}, False)):
        vm = SeawallVM(core, knobs=knobs)
        vm.busy(3, {"marks": 0})
        before = vm.rate
        vm.busy(2)
        assert (vm.rate < before) == falls


@given(st.integers(1, 10_000), st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=80))
def test_scc_is_equations_1_and_2(core: Any, weight: int, heard: List[Optional[int]]) -> None:
    """None: no report in that period, numbers: percent marked; R grows in periods without marks alone."""
    tunnel = Tunnel(core, weight * 100, knobs=PRESETS["scc"].knobs)
    part, rate, alpha = weight / 10_000, float(C), 1.0
    for marks in heard:
        if marks is not None:
            alpha += (marks / 100 - alpha) / 16
            tunnel.report(100, marks)
        if marks:
            rate = max(125.0, rate * (1 - alpha * part))
        else:
            rate = min(C, rate * (1 + part))
        tunnel.period()
        assert tunnel.rate == pytest.approx(rate, rel=0.01, abs=200)
