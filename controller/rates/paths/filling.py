# SPDX-License-Identifier: Apache-2.0
"""Water that rises in many basins at once, each among members of its own.

A member of a basin takes slope * y of it while water stands at level y, but no less than its low and no more than its
high.  A basin of capacity c whose highs do not all fit is full at the level y where

    sum over its members of max(low, min(high, slope * y)) = c

This sum never falls with y, and is made of straight pieces.  Newton's method finds the piece on which it meets c, for
all basins together, in a few steps; a step that leaves the interval known to hold the level halves that interval.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

STEPS = 100  # of Newton's method or of halving
EXACT = 1e-12  # of a capacity: what may be missing


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
    if not len(starts):
        return np.zeros(0)
    counts = np.diff(starts, append=len(slopes))
    found = np.maximum.reduceat(highs / slopes, starts)
    found[sums(lows, starts) >= capacities] = 0.0
    full = np.flatnonzero((found > 0) & (sums(highs, starts) > capacities))
    if len(full):
        if len(full) < len(starts):
            isfull = np.zeros(len(starts), np.bool_)
            isfull[full] = True
            members = np.repeat(isfull, counts)
            slopes, lows, highs = slopes[members], lows[members], highs[members]
        found[full] = _meet(slopes, lows, highs, counts[full], capacities[full])
    return found


def _meet(slopes: Floats, lows: Floats, highs: Floats, counts: Ints, capacities: Floats) -> Floats:
    """Return where the sum of each basin meets its capacity, which is above its lows and below its highs."""
    places = np.arange(len(counts))
    starts = np.cumsum(counts) - counts
    level = capacities / sums(slopes, starts)
    found = level.copy()
    below, above = np.zeros(len(counts)), np.full(len(counts), np.inf)
    for _ in range(STEPS):
        wanted = slopes * np.repeat(level, counts)
        missing = capacities - sums(np.clip(wanted, lows, highs), starts)
        upwards = missing > 0
        below, above = np.where(upwards, level, below), np.where(upwards, above, level)
        # At a bend the piece on the side of the answer counts.
        up = np.repeat(upwards, counts)
        moves = ((wanted > lows) | (up & (wanted == lows))) & ((wanted < highs) | (~up & (wanted == highs)))
        rise = sums(slopes * moves, starts)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = level + missing / rise
        halved = np.where(np.isinf(above), 2 * level, (below + above) / 2)
        following = np.where((rise > 0) & (step > below) & (step < above), step, halved)
        left = (np.abs(missing) > EXACT * capacities) & (following != level)
        found[places[left]] = following[left]
        if not left.any():
            break
        if not left.all():
            keep = np.repeat(left, counts)
            slopes, lows, highs = slopes[keep], lows[keep], highs[keep]
            counts, capacities, places = counts[left], capacities[left], places[left]
            below, above, following = below[left], above[left], following[left]
            starts = np.cumsum(counts) - counts
        level = following
    return found


def grants(slopes: Floats, lows: Floats, highs: Floats, starts: Ints, capacities: Floats) -> Floats:
    """Return what the basin of each member would let it take if it alone wanted more; arguments as of levels().

    That is at least its high where all highs fit, more by what is spare, and what a full basin gives it else.
    It is continuous in highs and capacities, except where lows alone fill a basin exactly and highs are no higher.
    """
    counts = np.diff(starts, append=len(slopes))
    got = np.maximum(lows, slopes * np.repeat(levels(slopes, lows, highs, starts, capacities), counts))
    spare = np.repeat(capacities - sums(highs, starts), counts)
    return np.where(spare > 0, np.maximum(got, highs + spare), got)
