# SPDX-License-Identifier: Apache-2.0
"""The division of an uplink against exact water filling in fractions."""

import time
from fractions import Fraction
from typing import Any, List, Tuple

from hypothesis import example, given
from hypothesis import strategies as st

U64_MAX = 2**64 - 1

#: (guarantee, ceiling, weight) in bytes/s and units.
Claim = Tuple[int, int, int]


def claims_of(capacity: int, most: int = 30) -> Any:
    """Claims whose ceilings may be absent, tiny or beyond the capacity, and whose guarantees fit."""
    claim = st.tuples(st.integers(0, max(1, capacity // most)),
                      st.one_of(st.just(0), st.integers(1, min(2 * capacity + 1, U64_MAX))),
                      st.one_of(st.integers(1, 8), st.integers(1, 65535)))
    return st.tuples(st.just(capacity), st.lists(claim, min_size=1, max_size=most))


problems = st.one_of(st.integers(0, 1000), st.integers(1000, 10**11), st.integers(10**11, 2**63)).flatmap(claims_of)


def divide(core: Any, claims: List[Claim], capacity: int) -> Tuple[bool, List[int]]:
    array = core.ffi.new("struct shim_claim[]", max(1, len(claims)))
    for item, (low, high, weight) in zip(array, claims):
        item.min, item.max, item.weight = low, high, weight
    fits = core.lib.shim_share(array, len(claims), capacity)
    return bool(fits), [item.share for item in array[0:len(claims)]]


def bounds(claim: Claim, capacity: int) -> Tuple[int, int]:
    """Return the least and the most that a claim may get."""
    low, high, _ = claim
    return low, max(low, min(high or capacity, capacity))


def ideal(claims: List[Claim], capacity: int) -> List[Fraction]:
    """Exact weighted max-min: raise the level from one bound of a claim to the next until full."""
    limits = [bounds(claim, capacity) for claim in claims]

    def at(level: Fraction) -> List[Fraction]:
        return [max(Fraction(low), min(Fraction(high), level * weight))
                for (low, high), (_, _, weight) in zip(limits, claims)]

    if sum(high for _, high in limits) <= capacity:
        return [Fraction(high) for _, high in limits]
    corners = sorted({Fraction(bound, claim[2]) for claim, pair in zip(claims, limits) for bound in pair})
    below = max((corner for corner in corners if sum(at(corner)) <= capacity), default=Fraction(0))
    above = min(corner for corner in corners if sum(at(corner)) > capacity)
    middle = (below + above) / 2
    slope = sum(claim[2] for claim, (low, high) in zip(claims, limits) if low < middle * claim[2] < high)
    return at(below + (capacity - sum(at(below), Fraction(0))) / slope)


@given(problem=problems)
def test_share_is_weighted_max_min(core: Any, problem: Tuple[int, List[Claim]]) -> None:
    capacity, claims = problem
    fits, shares = divide(core, claims, capacity)
    if sum(low for low, _, _ in claims) > capacity:
        assert not fits
        return
    assert fits
    limits = [bounds(claim, capacity) for claim in claims]
    for share, (low, high) in zip(shares, limits):
        assert low <= share <= high
    assert sum(shares) == min(capacity, sum(high for _, high in limits))
    # The level is exact to 2^-16 bytes/s per unit of weight, or to 64 bits of the capacity.
    unit = Fraction(max(2 * capacity >> 48, 1), 2**16)
    for share, want, (_, _, weight) in zip(shares, ideal(claims, capacity), claims):
        assert abs(share - want) <= 1 + weight * unit


@given(claims=st.lists(st.tuples(st.integers(0, U64_MAX), st.integers(0, U64_MAX), st.integers(0, 65535)),
                       max_size=20), capacity=st.integers(0, U64_MAX - 1))
@example(claims=[(470, 0, 0), (U64_MAX - 470, 0, 0)], capacity=U64_MAX - 469)
@example(claims=[(low, 0, 0) for low in (376891925, 8589934591, 46832323395583, 18446697232419329516)],
         capacity=81415838290)
@example(claims=[(1, 0, 0), (U64_MAX, 0, 0)], capacity=U64_MAX - 1)
@example(claims=[(0, 0, 1), (0, 0, 1)], capacity=U64_MAX - 1)
def test_share_survives_anything(core: Any, claims: List[Claim], capacity: int) -> None:
    fits, shares = divide(core, claims, capacity)
    assert fits == (sum(low for low, _, _ in claims) <= capacity)
    assert sum(shares) <= capacity
    if not fits:
        total = sum(low for low, _, _ in claims)
        for share, (low, _, _) in zip(shares, claims):
            assert share <= low
            assert abs(share - Fraction(low * capacity, total)) <= 1 + Fraction(capacity, 2**31)


def test_weights_guarantees_and_ceilings_by_hand(core: Any) -> None:
    assert divide(core, [(0, 0, 1)] * 4, 125_000_000) == (True, [31_250_000] * 4)
    assert divide(core, [(0, 0, 1), (0, 0, 2), (0, 0, 4)], 700) == (True, [100, 200, 400])
    assert divide(core, [(0, 100, 1), (0, 0, 1), (0, 0, 1)], 1000) == (True, [100, 450, 450])
    assert divide(core, [(500, 0, 1), (0, 0, 1), (0, 0, 1)], 1000) == (True, [500, 250, 250])
    assert divide(core, [(600, 0, 1), (500, 0, 1)], 550) == (False, [300, 250])
    assert divide(core, [(0, 100, 1), (0, 200, 1)], 1000) == (True, [100, 200])
    assert divide(core, [(300, 100, 1), (0, 0, 1)], 1000) == (True, [300, 700])
    assert divide(core, [], 1000) == (True, [])
    assert divide(core, [(0, 0, 1)] * 3, 1000)[1] == [334, 333, 333]


def test_ten_thousand_vms_in_few_passes(core: Any) -> None:
    """Ceilings in a ladder, which settle one by one, cost no more passes than others."""
    n, capacity = 10_000, 12_500_000_000
    fair = capacity // n
    claims = [(0, fair - 5000 + i, 1 + i % 7) for i in range(n)]
    array = core.ffi.new("struct shim_claim[]", n)
    for item, (low, high, weight) in zip(array, claims):
        item.min, item.max, item.weight = low, high, weight
    start = time.process_time()
    assert core.lib.shim_share(array, n, capacity)
    elapsed = time.process_time() - start
    shares = [item.share for item in array]
    assert sum(shares) == min(capacity, sum(high for _, high, _ in claims))
    # 192 passes at some ns a claim; a quadratic algorithm takes a second.
    assert elapsed < 0.2
