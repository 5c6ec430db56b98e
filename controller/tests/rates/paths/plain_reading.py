# SPDX-License-Identifier: Apache-2.0
"""What bridges told made readings, in numpy: what native/reading.c does, for all machines, parts and rows at once."""

import numpy as np

from sdngcc.controller.rates.paths.filling import levels, runs
from sdngcc.controller.rates.paths.ports import (
    BINDING,
    ELSEWHERE,
    FADING,
    HELD,
    HERE,
    IDLE,
    MARGIN,
    PATIENCE_NS,
    SAME,
    WINDOW,
)
from sdngcc.controller.wire.experimenter import PATH_LIMITED


def read_states(machines, states, numbers, times_ns):
    """Take rows of machines; return the numbers of those that are fresh."""
    known = np.flatnonzero(numbers >= 0)
    machines.limited[numbers[known]] = False
    known = known[times_ns[known] != machines.read_ns[numbers[known]]]
    fresh = numbers[known]
    some = states[known]
    for column, name in (("sent", "sent_rate"), ("rate", "rate"), ("share", "share"), ("low", "min_rate"),
                         ("high", "max_rate")):  # fmt: skip
        getattr(machines, column)[fresh] = some[name]
    drops = some["drops"].astype(np.uint64)
    machines.bound[fresh] = (drops > machines.drops[fresh]) | (some["sent_rate"] >= BINDING * some["rate"])
    machines.drops[fresh], machines.read_ns[fresh], machines.fresh[fresh] = drops, times_ns[known], True
    return fresh


def read_paths(machines, parts, members, paths, numbers):
    """Take rows of paths; ``members`` are the machines of parts."""
    paths, numbers = paths[numbers >= 0], numbers[numbers >= 0]
    rate, sent = paths["rate"].astype(float), paths["sent_rate"].astype(float)
    limited = paths["flags"] & PATH_LIMITED > 0
    parts.there[numbers], parts.counted[numbers], parts.rates[numbers] = True, 0.0, np.inf
    np.add.at(parts.counted, numbers, sent)
    held = limited | (sent >= BINDING * rate)
    np.minimum.at(parts.rates, numbers[held], rate[held])
    machines.limited[members[numbers[limited]]] = True


def measure(machines, parts, members, guarantees):
    """Find what parts of fresh machines sent, and their floors."""
    some = np.flatnonzero((members >= 0) & machines.fresh[members])
    of, count = members[some], len(machines.sent)
    counted = parts.there[some] & parts.seen[some]
    found = np.where(counted, parts.counted[some], 0.0)
    machines.left[machines.fresh] = np.maximum(0.0, machines.sent - np.bincount(of, found, count))[machines.fresh]
    uncounted = np.bincount(of, ~counted, count).astype(int)
    machines.uncounted[machines.fresh] = uncounted[machines.fresh]
    machines.bounded[machines.fresh] = (np.bincount(of, np.isfinite(parts.rates[some]), count) > 0)[machines.fresh]
    weights = np.where(counted, 0.0, np.where(uncounted[of] > 1, parts.shares[some], 1.0))
    totals = np.bincount(of, weights, count)
    weights = np.where(totals[of] > 0, weights, ~counted)
    totals = np.where(totals > 0, totals, uncounted)
    with np.errstate(invalid="ignore"):
        found = np.where(counted, found, machines.left[of] * weights / totals[of])
    parts.sent[some], parts.seen[some], parts.lows[some] = found, parts.there[some], 0.0
    some = some[guarantees[of] > 0]
    some = some[np.argsort(members[some], kind="stable")]
    of = members[some]
    if len(of):
        more = machines.bound[of] | np.isfinite(parts.rates[some])
        wants = np.minimum(np.where(more, np.inf, MARGIN * parts.sent[some]), guarantees[of])
        starts = runs(of)
        level = levels(np.ones(len(of)), np.zeros(len(of)), wants, starts, guarantees[of[starts]])
        parts.lows[some] = np.minimum(wants, np.repeat(level, np.diff(starts, append=len(of))))


def read_rows(rows, machines, parts, owners, guarantees, decided_ns):
    """Give rows the readings of their machines, where these are fresh."""
    places = np.flatnonzero(machines.fresh[owners.members])
    members, of = owners.members[places], owners.parts[places]
    bound, whole = machines.bound[members], of < 0
    sent = np.where(whole, machines.sent[members], parts.sent[of])
    rates = np.where(whole, np.inf, parts.rates[of])
    rates[bound & (sent < HELD * rates)] = np.inf
    floors = np.minimum(guarantees[members], np.where(bound, np.inf, MARGIN * machines.sent[members]))
    floors = np.where(whole, floors, parts.lows[of])
    states = np.where(bound & (sent > 0), ELSEWHERE, IDLE)
    states = np.where(np.isfinite(rates), judge(rows, places, rates, np.ones(len(places), bool), decided_ns), states)
    read(rows, places, sent, np.where(whole, owners.states[places], states), floors)


def judge(rows, places, limits, limited, decided_ns):
    """Return what holds rows whose rates in force are limits."""
    told, former = rows.told[places], rows.former[places]
    recent = (former > 0) & (decided_ns - rows.told_ns[places] < PATIENCE_NS)
    least = np.where(recent, np.minimum(told, former), told)
    return np.where(limited, np.where(limits >= (1 - SAME) * least, HERE, ELSEWHERE), IDLE)


def read(rows, places, sent, states, lows):
    """Give rows readings."""
    rows.before[places] = rows.sent[places]
    rows.peaks[places] = np.maximum(sent, FADING * rows.peaks[places])
    rows.sent[places], rows.lows[places], rows.states[places] = sent, lows, states
    rows.quiet[places] = np.where(states == IDLE, np.minimum(rows.quiet[places] + 1, WINDOW), 0)
