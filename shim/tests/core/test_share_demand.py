# SPDX-License-Identifier: Apache-2.0
"""The division of an uplink by what VMs send: work-conserving, and fair by weight among the greedy."""

from typing import Any, List, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

C = 1_250_000_000

#: (guarantee, ceiling, weight, demand) in bytes/s and units.
Claim = Tuple[int, int, int, int]


def divide(core: Any, claims: Sequence[Claim], capacity: int = C) -> Tuple[bool, List[int]]:
    array = core.ffi.new("struct shim_claim[]", max(1, len(claims)))
    for item, (low, high, weight, demand) in zip(array, claims):
        item.min, item.max, item.weight, item.demand = low, high, weight, demand
    fits = core.lib.shim_share_by_demand(array, len(claims), capacity)
    items = array[0:len(claims)]
    assert [(item.min, item.max) for item in items] == [claim[:2] for claim in claims]
    return bool(fits), [item.share for item in items]


claims_and_capacity = st.tuples(
    st.lists(st.tuples(st.integers(0, C // 20), st.one_of(st.just(0), st.integers(1, 2 * C)),
                       st.integers(1, 65535), st.integers(1, 2 * C)), min_size=1, max_size=20),
    st.integers(C, 10 * C))


@given(problem=claims_and_capacity)
def test_between_guarantee_and_maximum_and_full(core: Any, problem: Any) -> None:
    claims, capacity = problem
    fits, shares = divide(core, claims, capacity)
    assert fits
    ceilings = [max(low, min(high or capacity, capacity)) for low, high, _, _ in claims]
    for (low, _, _, _), share, ceiling in zip(claims, shares, ceilings):
        assert low <= share <= ceiling
    # Nothing lies idle, and no more is promised than capacity and the guarantees lent out.
    assert sum(shares) >= min(capacity, sum(ceilings))
    assert sum(shares) <= capacity + sum(low for low, _, _, _ in claims)


@given(problem=claims_and_capacity)
def test_nobody_goes_without_while_others_have_more_than_they_use(core: Any, problem: Any) -> None:
    """While somebody's demand is unmet, nobody gets more than he demands, but for his guarantee."""
    claims, capacity = problem
    _, shares = divide(core, claims, capacity)
    unmet = any(share < min(demand, high or demand) for (_, high, _, demand), share in zip(claims, shares))
    if unmet:
        for (low, _, _, demand), share in zip(claims, shares):
            assert share <= max(low, demand, 1)


@pytest.mark.parametrize("claims,shares", [
    # The greedy by weight; a lender keeps what he uses, and what is left by the first waits for all.
    ([(0, 0, 1, 2 * C), (0, 0, 3, 2 * C)], [C // 4, C * 3 // 4]),
    ([(0, 0, 1, C // 10), (0, 0, 1, 2 * C)], [C // 10, C * 9 // 10]),
    ([(0, 0, 1, C // 10), (0, 0, 1, C // 10)], [C // 2, C // 2]),
    # An unused guarantee is lent, and still there for its owner.
    ([(C // 2, 0, 1, C // 100), (0, 0, 1, 2 * C)], [C // 2, C - C // 100]),
    ([(C // 2, 0, 1, 2 * C), (0, 0, 9, 2 * C)], [C // 2, C // 2]),
    ([(0, C // 5, 1, 2 * C), (0, 0, 1, 1)], [C // 5, C * 4 // 5]),
    # Without a word of demand, whatever there is.
    ([(0, 0, 1, 0), (0, 0, 1, 2 * C)], [C // 2, C // 2]),
])
def test_cases(core: Any, claims: List[Claim], shares: List[int]) -> None:
    assert divide(core, claims) == (True, shares)


@given(problem=claims_and_capacity)
def test_lending_each_has_the_larger_of_its_shares(core: Any, problem: Any) -> None:
    """Whatever VMs demand, and by demand; but for a rounding."""
    claims, capacity = problem
    array = core.ffi.new("struct shim_claim[]", [(low, high, demand, 0, 0, 0, weight)
                                                 for low, high, weight, demand in claims])
    assert core.lib.shim_share(array, len(claims), capacity)
    whatever = [int(item.share) for item in array]
    assert core.lib.shim_share_lending(array, len(claims), capacity)
    for item, one, other in zip(array, whatever, divide(core, claims, capacity)[1]):
        assert abs(item.share - max(one, other)) <= 2


@pytest.mark.parametrize("claims,shares", [
    # Half of the line is there for whom a tenth is enough now, and lent meanwhile; so with a guarantee and a ceiling.
    ([(0, 0, 1, C // 10), (0, 0, 1, 2 * C)], [C // 2, C * 9 // 10]),
    ([(0, 0, 1, C // 10), (0, 0, 1, C // 10)], [C // 2, C // 2]),
    ([(0, 0, 1, C // 10), (C * 3 // 4, 0, 1, 2 * C)], [C // 4, C * 9 // 10]),
    ([(0, C // 5, 1, C // 10), (0, 0, 1, 2 * C)], [C // 5, C * 9 // 10]),
    # Under laws that know no demand nothing is lent.
    ([(0, 0, 1, 0), (C // 4, 0, 3, 0), (0, C // 8, 1, 0)], [C * 7 // 32, C * 21 // 32, C // 8]),
    # As EyeQ's law says it when it is literal: who receives nothing has no claim, the others are divided by weight.
    ([(0, 0, 5, 1), (0, 0, 1, C), (0, 0, 3, C)], [C * 5 // 9, (C - 1) // 4, C - 1 - (C - 1) // 4]),
])
def test_lending(core: Any, claims: List[Claim], shares: List[int]) -> None:
    array = core.ffi.new("struct shim_claim[]", [(low, high, demand, 0, 0, 0, weight)
                                                 for low, high, weight, demand in claims])
    assert core.lib.shim_share_lending(array, len(claims), C)
    assert [item.share for item in array] == [pytest.approx(share, abs=2) for share in shares]


def test_guarantees_beyond_capacity_are_scaled(core: Any) -> None:
    scaled = core.ffi.new("struct shim_claim[]", [(C, 0, 1, 0, 0, 0, 1)] * 2)
    assert not core.lib.shim_share_lending(scaled, 2, C) and [item.share for item in scaled] == [C // 2, C // 2]
    assert divide(core, [(C, 0, 1, 2 * C), (C, 0, 1, 2 * C)]) == (False, [C // 2, C // 2])
    assert divide(core, []) == (True, [])
