# SPDX-License-Identifier: Apache-2.0
"""Weighted max-min: the conditions that define it, on any network Hypothesis can think of."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.rates.maxmin import Claim, allot

C = 125e6
A, B = (1, 1), (2, 1)


@st.composite
def networks(draw):
    """Claims on up to five ports and the ports' capacities; most ports have one."""
    hops = [(number, 1) for number in range(draw(st.integers(1, 5)))]
    capacities = {hop: draw(st.floats(1, 1e9)) for hop in hops if draw(st.integers(0, 9))}
    claims = {}
    for vm in range(draw(st.integers(0, 12))):
        routes = draw(st.dictionaries(st.sampled_from(hops), st.floats(0.01, 1), min_size=1))
        low = draw(st.sampled_from([0.0, 0.0, 1e5, 1e7]))
        high = draw(st.sampled_from([math.inf, math.inf, 0.0, 1e6, 3e8]))
        claims[vm] = Claim(routes, draw(st.integers(1, 100)), low, high)
    return claims, capacities


def load(hop, claims, got):
    return sum(claim.routes[hop] * got[vm].rate for vm, claim in claims.items() if hop in claim.routes)


@given(networks())
def test_conditions_of_max_min(network):
    """Nobody gets more without one who has no more, by weight, getting less; no port carries more than it can."""
    claims, capacities = network
    got = allot(claims, capacities)
    assert set(got) == set(claims)
    for hop, capacity in capacities.items():
        guaranteed = sum(claim.routes.get(hop, 0.0) * claim.low for claim in claims.values())
        assert load(hop, claims, got) <= max(capacity, guaranteed) * (1 + 1e-9)
    for vm, claim in claims.items():
        rate = got[vm].rate
        assert rate >= claim.low
        assert rate <= max(claim.high, claim.low)
        if rate >= max(claim.high, claim.low) * (1 - 1e-9):
            continue
        bottleneck = got[vm].bottleneck
        assert bottleneck in claim.routes
        assert load(bottleneck, claims, got) >= capacities[bottleneck] * (1 - 1e-9)
        for other, rival in claims.items():
            if bottleneck in rival.routes and got[other].rate > rival.low * (1 + 1e-9):
                assert got[other].rate / rival.weight <= max(rate / claim.weight, got[vm].level) * (1 + 1e-9)


@given(networks(), st.floats(0.001, 1000))
def test_units_do_not_matter(network, factor):
    claims, capacities = network
    scaled = allot({vm: claim._replace(low=claim.low * factor, high=claim.high * factor)
                    for vm, claim in claims.items()},
                   {hop: capacity * factor for hop, capacity in capacities.items()})  # fmt: skip
    for vm, allotment in allot(claims, capacities).items():
        assert scaled[vm].rate == pytest.approx(allotment.rate * factor, rel=1e-6)


def test_one_port_by_weight():
    got = allot({vm: Claim({A: 1.0}, weight) for vm, weight in enumerate((1, 2, 4))}, {A: 7e6})
    assert [got[vm].rate for vm in range(3)] == pytest.approx([1e6, 2e6, 4e6])
    assert got[0].bottleneck == A and got[0].level == pytest.approx(1e6)


def test_what_one_cannot_use_goes_to_the_others_by_weight():
    claims = {"mouse": Claim({A: 1.0}, 1, high=1e6), "one": Claim({A: 1.0}, 1), "two": Claim({A: 1.0}, 2)}
    got = allot(claims, {A: 10e6})
    assert {vm: round(one.rate) for vm, one in got.items()} == {"mouse": 10**6, "one": 3 * 10**6, "two": 6 * 10**6}


def test_parking_lot():
    """The long flow gets half of the narrow port; the one beside it at the wide port gets the rest of that."""
    claims = {"long": Claim({A: 1.0, B: 1.0}), "first": Claim({A: 1.0}), "second": Claim({B: 1.0})}
    got = allot(claims, {A: C, B: C / 2})
    assert [got[vm].rate for vm in ("long", "first", "second")] == pytest.approx([C / 4, C * 3 / 4, C / 4])
    assert got["long"].bottleneck == got["second"].bottleneck == B and got["first"].bottleneck == A


def test_only_the_part_that_passes_a_port_loads_it():
    got = allot({"split": Claim({A: 0.25, B: 0.75}), "other": Claim({A: 1.0})}, {A: C, B: C})
    assert got["split"].rate == pytest.approx(C * 0.8) and got["split"].bottleneck == A
    assert got["other"].rate == pytest.approx(C * 0.8)


def test_guarantees_hold_at_others_cost_and_beyond_the_port():
    claims = {"sure": Claim({A: 1.0}, 1, low=80e6), "a": Claim({A: 1.0}, 5), "b": Claim({A: 1.0}, 5)}
    got = allot(claims, {A: 100e6})
    assert [got[vm].rate for vm in claims] == pytest.approx([80e6, 10e6, 10e6])
    assert [one.rate for one in allot(claims, {A: 50e6}).values()] == [80e6, 0.0, 0.0]


def test_nobody_and_nothing_full():
    assert allot({}, {A: C}) == {}
    free = allot({"a": Claim({A: 1.0}, high=5.0), "b": Claim({B: 1.0})}, {A: C})
    assert (free["a"].rate, free["a"].bottleneck, free["b"].rate) == (5.0, None, math.inf)
