# SPDX-License-Identifier: Apache-2.0
"""Water that rises in many basins at once, each among members of its own.

A member of a basin takes slope * y of it while water stands at level y, but no less than its low and no more than its
high.  A basin of capacity c whose highs do not all fit is full at the level y where

    sum over its members of max(low, min(high, slope * y)) = c

native/filling.c finds it.
"""

import numpy as np
import numpy.typing as npt

from sdngcc.controller import native

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


def sums(values: Floats, starts: Ints) -> Floats:
    """Return the sums of consecutive runs of values; ``starts`` has where each begins, and none is empty."""
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0)


def runs(*keys: "Ints") -> Ints:
    """Return where runs of equal keys begin."""
    if not len(keys[0]):
        return np.zeros(0, np.intp)
    begins = np.ones(len(keys[0]), np.bool_)
    begins[1:] = False
    for key in keys:
        begins[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(begins)


def levels(slopes: Floats, lows: Floats, highs: Floats, starts: Ints, capacities: Floats) -> Floats:
    """Return the level of each basin; where all highs fit, the one at which all members have them.

    Members of a basin stand together, ``starts`` has the first of each, and no basin is empty.  Slopes are above 0,
    highs are finite and no less than lows.  Where lows fill a basin its level is 0.
    """
    return native.levels(slopes, lows, highs, starts, capacities)


def grants(slopes: Floats, lows: Floats, highs: Floats, starts: Ints, capacities: Floats) -> Floats:
    """Return what the basin of each member would let it take if it alone wanted more; arguments as of levels().

    That is at least its high where all highs fit, more by what is spare, and what a full basin gives it else.
    It is continuous in highs and capacities, except where lows alone fill a basin exactly and highs are no higher.
    """
    return native.grants(slopes, lows, highs, starts, capacities)
