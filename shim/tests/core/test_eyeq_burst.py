# SPDX-License-Identifier: Apache-2.0
"""Law eyeq, a receiver: what of the line a VM has that was silent, or receives little in the mean, when it bursts."""

import random
from typing import Any, Dict, List, Tuple

import pytest

from sdngcc.testbed.presets import PRESETS

from .eyeq_line import LINE, SECOND, Side, T

US = 10**3


def test_a_burst_beside_a_quiet_neighbour_has_its_part_by_weight_for_5_ms(core: Any) -> None:
    """Two senders burst for 5 ms after 15 of silence, beside calls of a VM of twice the weight.

    What nobody wants is divided by weight as well, and a VM counts as short of its C only when the mean of y is near
    it: from silence that takes 26 readings. As published C is the part by weight for good.
    """
    def bursts(knobs: Dict[str, int], on: int, off: int) -> List[Tuple[float, float]]:
        sides = [Side(core, weight=weight, knobs=knobs) for weight in (2, 1)]
        claims, told, seen = core.ffi.new("struct shim_claim[]", 2), [LINE] * 3, []
        for period in range(4 * (on + off)):
            rate = told.pop(0)
            received = min(2 * rate, LINE) if period % (on + off) < on else 0
            for side, claim in zip(sides, claims):
                claim.min, claim.weight, claim.demand = 0, side.input.weight, side.state.rx_demand
            assert core.lib.shim_share_lending(claims, 2, LINE)
            for side, claim, got in zip(sides, claims, (2_000_000, received)):
                side.input.rx_share, side.input.rx_least = claim.share, claim.min
                side.input.peers, side.input.horizon_ns = 2, 250 * US
                side.tick(got)
            own = sides[1].own
            told.append(int(own.grant) // (2 if own.draining else 1))
            seen.append((received / LINE, own.limit / LINE))
        return seen[-(on + off):]

    published = PRESETS["eyeq"].knobs
    mended = bursts({}, 25, 75)
    assert all(limit == pytest.approx(0.3, rel=0.03) for _, limit in mended)
    assert sum(rate for rate, _ in mended) / 100 == pytest.approx(0.075, rel=0.02)
    assert all(limit == pytest.approx(0.3, rel=0.001) for _, limit in bursts(published, 25, 75)[:25])
    # A burst that lasts gets what the neighbour leaves, as published it does not.
    assert bursts({}, 200, 75)[199][1] > 0.8
    assert bursts(published, 200, 75)[199][1] == pytest.approx(0.3, rel=0.001)


@pytest.mark.parametrize("seed", [1, 2])
def test_requests_in_bunches_have_their_part_beside_a_neighbour_that_wants_all(core: Any, seed: int) -> None:
    """Of 6 kB at random times, 1.75 of 10 Gb/s in the mean, beside UDP: R is C, and that is half of the 90%.

    What they leave in the mean UDP has nevertheless.
    """
    chance, sides = random.Random(seed), [Side(core) for _ in range(2)]
    claims, told, taken = core.ffi.new("struct shim_claim[]", 2), [LINE] * 3, 0
    request, period_s = 6120, T / SECOND
    for period in range(4000):
        coming, after = 0, chance.expovariate(1)
        while after < 0.175 * LINE * period_s / request:
            coming, after = coming + 1, after + chance.expovariate(1)
        got = coming * request / period_s, min(told.pop(0), LINE)
        for side, claim in zip(sides, claims):
            claim.min, claim.weight, claim.demand = 0, 1, side.state.rx_demand
        assert core.lib.shim_share_lending(claims, 2, LINE)
        for side, claim, rate, peers in zip(sides, claims, got, (3, 1)):
            side.input.rx_share, side.input.rx_least = claim.share, claim.min
            side.input.peers, side.input.horizon_ns = peers, 250 * US
            side.tick(round(rate))
        own = sides[1].own
        told.append(int(own.grant) // (2 if own.draining else 1))
        if period >= 50:
            assert sides[0].own.grant >= 0.95 * 0.45 * LINE
            taken += min(got[1], LINE - got[0])
    assert taken / 3950 > 0.9 * (0.9 - 0.175) * LINE
