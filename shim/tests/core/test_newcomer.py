# SPDX-License-Identifier: Apache-2.0
"""Law sdngcc with levels in a fluid model: newcomers, departures, bursts, small senders, slow uplinks."""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import pytest

from sdngcc.testbed.statistics import jain

from .level_port import Sender, run
from .test_law import FULL_MARKS, MS, SECOND, C, Limiter, T

PORTS = [(100, 20), (1000, 100), (10_000, 667), (100_000, 6670)]
LITERAL = {"level-periods": 0}
# When something happens at the port, s: the others have settled by then.
WHEN = 0.4


class Seen(NamedTuple):
    """What became of a newcomer."""

    at_50ms: float
    """Its rate from 50 ms on after it came, for 10 ms, by its part."""
    jain: float
    """Jain's index of all rates by weight in the first second."""
    used: float
    """Part of the port that was used from 50 ms on."""


def between(start_s: float, end_s: float, rate: float = math.inf) -> Callable[[float], float]:
    """Return the demand of a VM that sends between two times only."""
    return lambda at_s: rate if start_s <= at_s < end_s else 0.0


def newcomer(core: Any, weights: Sequence[int], mbps: int = 1000, packets: int = 100,
             knobs: Optional[Dict[str, int]] = None, small: int = 0, uplink: float = 1.0) -> Seen:
    """Let the last of the VMs begin at line rate where the others have settled; return what is seen.

    small VMs besides send a five hundredth of the port each.
    """
    senders = [Sender(weight=weight, uplink=uplink) for weight in weights[:-1]]
    senders.append(Sender(between(WHEN, 2), weights[-1], uplink))
    senders += [Sender(lambda _: 0.002) for _ in range(small)]
    seen = run(core, senders, mbps * 125_000, packets, WHEN + 1, knobs)
    part = (1 - 0.002 * small) * weights[-1] / sum(weights)
    means = [seen.mean(index, WHEN, WHEN + 1) / weight for index, weight in enumerate(weights)]
    return Seen(seen.mean(len(weights) - 1, WHEN + 0.05, WHEN + 0.06) / part, jain(means),
                seen.used(WHEN + 0.05, WHEN + 1))


@pytest.mark.parametrize("mbps, packets", PORTS)
@pytest.mark.parametrize("count", [4, 16, 64])
def test_a_newcomer_is_at_its_part_after_50_ms(core: Any, count: int, mbps: int, packets: int) -> None:
    seen = newcomer(core, [1] * count, mbps, packets)
    assert seen.at_50ms == pytest.approx(1, abs=0.25)
    assert seen.jain > 0.95
    assert seen.used > 0.95


@pytest.mark.parametrize("weights", [(1, 2, 4, 1), (1, 1, 1, 4)])
def test_so_is_one_of_another_weight(core: Any, weights: Sequence[int]) -> None:
    seen = newcomer(core, weights)
    assert seen.at_50ms == pytest.approx(1, abs=0.25) and seen.jain > 0.95


@pytest.mark.parametrize("others", [{"small": 30}, {"uplink": 0.4}])
def test_neither_small_senders_nor_slow_uplinks_cost_the_others(core: Any, others: Dict[str, Any]) -> None:
    seen = newcomer(core, [1] * 4, **others)
    assert seen.at_50ms == pytest.approx(1, abs=0.25)
    assert seen.used > 0.95


@pytest.mark.parametrize("count, times", [(4, 1.3), (64, 15)])
def test_without_levels_a_newcomer_is_ahead(core: Any, count: int, times: float) -> None:
    seen = newcomer(core, [1] * count, knobs=LITERAL)
    assert seen.at_50ms > times and seen.jain < 0.95


@pytest.mark.parametrize("mbps, packets", PORTS)
@pytest.mark.parametrize("count", [4, 16])
def test_what_half_of_the_senders_leave_is_used_within_100_ms(core: Any, count: int, mbps: int, packets: int) -> None:
    senders = [Sender() for _ in range(count)] + [Sender(between(0, WHEN)) for _ in range(count)]
    assert run(core, senders, mbps * 125_000, packets, 1).used(WHEN + 0.1, 1) > 0.95


@pytest.mark.parametrize("mbps, packets", PORTS)
@pytest.mark.parametrize("count", [4, 16])
def test_a_burst_of_others_leaves_the_port_used(core: Any, count: int, mbps: int, packets: int) -> None:
    """Twenty that send 0.05 of the port each for 60 ms, all at once."""
    senders = [Sender() for _ in range(count)] + [Sender(between(WHEN, WHEN + 0.06, 0.05)) for _ in range(20)]
    seen = run(core, senders, mbps * 125_000, packets, WHEN + 1)
    assert min(seen.used(WHEN + 0.1, WHEN + 0.6), seen.used(WHEN + 0.5, WHEN + 1)) > 0.9


@pytest.mark.parametrize("mbps, packets", PORTS)
@pytest.mark.parametrize("count", [4, 16])
def test_the_queue_is_short_once_all_send(core: Any, count: int, mbps: int, packets: int) -> None:
    queue: List[float] = sorted(run(core, [Sender() for _ in range(count)], mbps * 125_000, packets, 2).queue[100:])
    assert queue[len(queue) * 99 // 100] <= 0.4 * packets * 1514


def test_a_level_is_obeyed_at_once_and_no_higher_one_lifts(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C)
    assert vm.message(0, type=4, rate=C // 4) == C // 4 and vm.state.congested
    assert vm.message(0, type=4, rate=C // 2) == C // 4


@pytest.mark.parametrize("knobs", [{}, LITERAL])
def test_level_periods_0_ignores_levels(core: Any, knobs: Dict[str, int]) -> None:
    vm = Limiter(core, "sdngcc", share=C, knobs=knobs)
    assert (vm.message(0, type=4, rate=C // 4) == C) == bool(knobs)


def test_a_level_below_the_guarantee_leaves_that(core: Any) -> None:
    assert Limiter(core, "sdngcc", share=C, low=C // 3).message(0, type=4, rate=C // 4) == C // 3


def test_marks_cut_a_vm_with_a_level_by_no_more_than_its_rate_earns(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C)
    vm.message(0, type=4, rate=C // 4)
    assert C // 4 - vm.message(round(FULL_MARKS)) == pytest.approx(0.05 * C / 4, rel=0.001)


def test_marks_cut_a_vm_below_its_level_less(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C // 4)
    vm.message(0, type=4, rate=C // 2)
    assert C // 4 - vm.message(round(FULL_MARKS / 8)) == pytest.approx(0.05 * C / 8 / 4, rel=0.01)


def test_a_vm_regains_what_it_lacks_of_its_level_when_marks_cease(core: Any) -> None:
    vm = Limiter(core, "sdngcc", share=C)
    vm.message(2**32 - 1)
    vm.message(0, type=4, rate=C // 2)
    low = vm.rate
    assert vm.period() - low == pytest.approx(0.006 * C / 2, rel=0.001)
    vm.period(8)
    assert vm.rate - low > 0.55 * (C // 2 - low)


@pytest.mark.parametrize("interval_ns, heeded_ns", [(T, 200 * MS), (SECOND, 3 * SECOND)])
def test_a_level_is_heeded_until_congestion_is_over(core: Any, interval_ns: int, heeded_ns: int) -> None:
    """After that a full message cuts by the marks alone."""
    for after_ns, part in ((heeded_ns, 0.25), (heeded_ns + 1, 1)):
        vm = Limiter(core, "sdngcc", share=C // 4)
        vm.message(1, interval_ns=interval_ns)
        vm.message(0, type=4, rate=C // 2)
        vm.state.rate = C // 4
        vm.input.now_ns += after_ns
        marks = round(FULL_MARKS / 8 * interval_ns / T)
        assert C // 4 - vm.message(marks, interval_ns=interval_ns) == pytest.approx(part * 0.05 * C / 8, rel=0.01)
