# SPDX-License-Identifier: Apache-2.0
"""Levels of many basins at once against bisection of each."""

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sdngcc.controller.rates.paths.filling import grants, levels, runs

AMOUNTS = st.sampled_from([0.0, 1e-3, 1.0, 2.0, 1e6, 3e9]) | st.floats(1e-3, 1e10)
MEMBERS = st.lists(st.tuples(st.sampled_from([0.1, 1.0, 3.0]), AMOUNTS, AMOUNTS), min_size=1, max_size=8)
BASINS = st.lists(st.tuples(MEMBERS, st.floats(1e-3, 1e11)), max_size=5)


def arrays(basins):
    """Return slopes, lows, highs, starts and capacities."""
    members = [(slope, low, max(low, high)) for some, _ in basins for slope, low, high in some]
    counts = [len(some) for some, _ in basins]
    slopes, lows, highs = (np.array([member[at] for member in members], float) for at in range(3))
    return slopes, lows, highs, np.cumsum([0, *counts])[:-1], np.array([capacity for _, capacity in basins], float)


def taken(members, level):
    return sum(max(low, min(max(low, high), slope * level)) for slope, low, high in members)


def bisect(members, capacity):
    low, high = 0.0, 1e13
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if taken(members, middle) >= capacity else (middle, high)
    return high


@given(BASINS)
def test_water_in_a_basin_stands_where_all_take_its_capacity(basins):
    found = levels(*arrays(basins))
    for level, (members, capacity) in zip(found, basins):
        lows, highs = taken(members, 0.0), taken(members, 1e13)
        if lows >= capacity:
            assert level == 0
        elif highs <= capacity:
            assert level == max(max(low, high) / slope for slope, low, high in members)
        else:
            assert abs(taken(members, level) - capacity) <= 1e-9 * capacity


@given(BASINS)
def test_a_grant_is_what_a_member_would_get_if_it_alone_wanted_more(basins):
    given_ = iter(grants(*arrays(basins)))
    for members, capacity in basins:
        spare = capacity - taken(members, 1e13)
        level = bisect(members, capacity)
        for slope, low, high in members:
            grant = next(given_)
            if spare > 0:
                assert grant >= max(low, high) + spare - 1e-9 * capacity
            elif taken(members, 0.0) < capacity:
                # Where nobody rises any more, at the least level that fills the basin.
                assert grant >= max(low, slope * level) * (1 - 1e-6)
                assert taken(members, grant / slope) >= capacity * (1 - 1e-6) or grant == low
            else:
                assert grant == low


@given(BASINS, st.floats(-1e-6, 1e-6))
@example([([(0.1, 0, 0), (0.1, 0, 0), (0.1, 1, 0)], 1.0)], 9.85e-08)
def test_grants_hardly_move_when_capacities_hardly_do(basins, part):
    slopes, lows, highs, starts, capacities = arrays(basins)
    if not len(starts):
        return
    # Where lows alone fill a basin nobody is lent anything, and just above that a member may take what others rise by.
    assume((np.abs(np.add.reduceat(lows, starts) - capacities) > 2e-6 * capacities).all())
    counts = np.diff(starts, append=len(slopes))
    before = grants(slopes, lows, highs, starts, capacities)
    after = grants(slopes, lows, highs, starts, capacities * (1 + part))
    most = np.maximum(capacities, np.maximum.reduceat(highs / slopes, starts))
    assert (np.abs(after - before) <= 1e-4 * np.repeat(most, counts)).all()


def test_runs_begin_where_any_key_changes():
    assert runs(np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])).tolist() == [0, 2, 3]
    assert runs(np.zeros(0, np.intp)).tolist() == []
