# SPDX-License-Identifier: Apache-2.0
"""A newcomer at line rate under law sdngcc, in a fluid model of a port that others share already."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import pytest

from sdngcc.testbed.statistics import jain

from .test_law import MS, SECOND, Limiter

T = 5 * MS
# Steps in a period, and how many of them pass before a message of the last one is there.
STEPS, LATE = 10, 2
# What newcomers are to be tried with; it is 0 by default.
EXCESS = {"cut-excess-ppm": 600_000}


class Seen(NamedTuple):
    """What became of a newcomer."""

    at_50ms: float
    """Its rate from 50 ms on after it came, for 10 ms, by its part."""
    jain: float
    """Jain's index of all rates by weight in the first second."""
    used: float
    """Part of the port that was used from 50 ms on."""


def newcomer(core: Any, weights: Sequence[int], capacity: int, packets: int, knobs: Optional[Dict[str, int]] = None,
             small: int = 0) -> Seen:
    """Let the last of the VMs begin at line rate where the others have the port by weight; return what is seen.

    capacity is the port's and all uplinks', bytes/s. The port has room for some packets and marks from a fifth of that
    on. small VMs besides send a five hundredth of the port each. What arrives is carried alike of what all send.
    """
    total = sum(weights)
    vms = [Limiter(core, "sdngcc", share=capacity, capacity=capacity, weight=weight, knobs=knobs)
           for weight in [*weights, *[1] * small]]
    most = [float(capacity)] * len(weights) + [capacity / 500] * small
    for vm, weight in zip(vms[:len(weights) - 1], weights):
        vm.message(1, weight_total=total - weights[-1])
        vm.state.rate = capacity * weight // (total - weights[-1])
    queue, step_s = 0.0, T / SECOND / STEPS
    told: List[float] = []
    series: List[List[float]] = []
    for _ in range(SECOND // T):
        marks, sent, got = ([0.0] * len(vms) for _ in range(3))
        for step in range(STEPS):
            for vm, count in zip(vms, told if step == LATE else ()):
                if round(count):
                    vm.message(round(count), weight_total=total + small)
            offered = [min(vm.rate, limit) * step_s for vm, limit in zip(vms, most)]
            carried = min(queue + sum(offered), capacity * step_s)
            queue += sum(offered) - carried
            marked = queue > packets * 1514 / 5
            queue = min(queue, packets * 1514.0)
            for index, one in enumerate(offered):
                part = carried * one / sum(offered)
                sent[index] += one
                got[index] += part
                marks[index] += part / 1514 if marked else 0
        told = marks
        series.append([one * SECOND / T for one in got[:len(weights)]])
        for vm, one in zip(vms, sent):
            vm.input.sent_rate = round(one * SECOND / T)
            vm.period()
    means = [sum(column) / len(series) for column in zip(*series)]
    later = series[50 * MS // T:]
    return Seen(sum(row[-1] for row in later[:2]) / 2 / (capacity * weights[-1] / total),
                jain([mean / weight for mean, weight in zip(means, weights)]),
                sum(map(sum, later)) / len(later) / capacity)


@pytest.mark.parametrize("mbps, packets", [(100, 20), (1000, 100), (10_000, 667), (100_000, 6670)])
@pytest.mark.parametrize("count", [4, 8, 16, 32, 64])
def test_with_the_further_cut_a_newcomer_is_at_its_part_after_50_ms(core: Any, count: int, mbps: int,
                                                                    packets: int) -> None:
    seen = newcomer(core, [1] * count, mbps * 125_000, packets, EXCESS)
    assert seen.at_50ms == pytest.approx(1, abs=0.25)
    assert seen.jain > 0.95
    assert seen.used > 0.9


@pytest.mark.parametrize("weights", [(1, 2, 4, 1), (1, 1, 1, 4)])
def test_so_is_one_of_another_weight(core: Any, weights: Sequence[int]) -> None:
    seen = newcomer(core, weights, 125_000_000, 100, EXCESS)
    assert seen.at_50ms == pytest.approx(1, abs=0.25) and seen.jain > 0.95


@pytest.mark.parametrize("count, times", [(4, 1.9), (64, 25)])
def test_without_it_a_newcomer_is_ahead(core: Any, count: int, times: float) -> None:
    """What the default costs."""
    seen = newcomer(core, [1] * count, 125_000_000, 100)
    assert seen.at_50ms > times and seen.jain < 0.95


def test_small_senders_are_why_it_is_off(core: Any) -> None:
    """They count in W, so with it nobody uses what they leave."""
    plain, cut = (newcomer(core, [1] * 4, 125_000_000, 100, knobs, small=30) for knobs in (None, EXCESS))
    assert plain.used > cut.used + 0.15


def test_the_first_message_costs_what_it_did(core: Any) -> None:
    capacity = 125_000_000
    plain, cut = (Limiter(core, "sdngcc", share=capacity, capacity=capacity, knobs=knobs) for knobs in (None, EXCESS))
    assert plain.message(100) == cut.message(100)
    plain.period()
    cut.period()
    assert cut.message(100) < plain.message(100)
    # At the part that three others leave there is nothing above it.
    plain.state.rate = cut.state.rate = capacity // 3
    plain.period()
    cut.period()
    assert cut.message(10) == pytest.approx(plain.message(10), rel=0.001)
