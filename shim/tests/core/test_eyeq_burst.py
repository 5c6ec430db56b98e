# SPDX-License-Identifier: Apache-2.0
"""Law eyeq, a receiver: what a VM that was silent has of the line when it bursts."""

from typing import Any, Dict, List, Tuple

import pytest

from sdngcc.testbed.presets import PRESETS

from .eyeq_line import LINE, Side

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
                claim.weight, claim.demand = side.input.weight, side.state.rx_demand
            assert core.lib.shim_share_by_demand(claims, 2, LINE)
            for side, claim, got in zip(sides, claims, (2_000_000, received)):
                side.input.rx_share, side.input.peers, side.input.horizon_ns = claim.share, 2, 250 * US
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
