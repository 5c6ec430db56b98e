# SPDX-License-Identifier: Apache-2.0
"""What native/sharing.c does, beside the same in numpy, and what it refuses."""

import dataclasses

import numpy as np
import pytest

from sdngcc.controller import native
from sdngcc.controller.rates.paths.ports import ELSEWHERE, HERE, IDLE, WINDOW, terms
from sdngcc.controller.rates.paths.table import Entry, Machine, Table
from sdngcc.controller.tests.rates.paths import plain_sharing


def table_of(chance, tenants):
    """Return a table of up to 8 ports, 6 machines and 40 destinations, with rows as they may come."""
    table = Table()
    machines, ports = int(chance.integers(1, 7)), int(chance.integers(1, 9))
    for number in range(tenants):
        table.set_tenant(f"t{number}", float(chance.integers(1, 9)))
    for number in range(machines):
        tenant = f"t{chance.integers(tenants)}" if tenants and chance.random() < 0.7 else None
        table.set_machine((1, number), Machine(float(chance.integers(1, 9)), tenant))
    for number in range(int(chance.integers(1, 41))):
        machine = (1, int(chance.integers(machines)))
        for port in {int(port) for port in chance.integers(ports, size=chance.integers(1, 4))}:
            table.join(Entry((9, port), machine, number), float(chance.choice([1.0, 0.5, 0.01])))
    table.settle()
    rows, count = table.rows, len(table.rows.numbers)
    rates = [chance.lognormal(11, 3, count) for _ in range(6)]
    rows.sent, rows.before, peaks, rows.lows, granted, told = rates
    rows.peaks = np.maximum(peaks, rows.sent)
    rows.lows = rows.lows * (chance.random(count) < 0.3)
    rows.states = chance.choice(np.array([IDLE, HERE, ELSEWHERE], np.int8), count)
    rows.quiet = np.where(rows.states == IDLE, chance.integers(0, WINDOW + 1, count), 0).astype(np.int8)
    rows.granted = granted * (chance.random(count) < 0.8)
    rows.moved, rows.damping = chance.normal(0, 1, count), chance.random(count)
    rows.told = np.where(chance.random(count) < 0.5, np.round(told), np.round(rows.granted))
    rows.told_ns = chance.integers(0, 100_000_000, count)
    return table


@pytest.mark.parametrize("seed", range(200))
def test_it_does_what_numpy_does(seed):
    chance = np.random.default_rng(seed)
    table = table_of(chance, tenants=int(chance.integers(0, 3)))
    rows, sharing = table.rows, table.sharing
    expected = rows.select(np.arange(len(rows.numbers)))
    allowed, engaged = chance.lognormal(13, 2, len(sharing.ports)), chance.random(len(sharing.ports)) < 0.7
    due = native.share(vars(rows), sharing.runs, terms(), allowed, engaged, 100_000_000)
    assert due.tolist() == plain_sharing.share(expected, sharing, allowed, engaged, 100_000_000).tolist()
    for field in dataclasses.fields(rows):
        found, wanted = getattr(rows, field.name), getattr(expected, field.name)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12), field.name


def test_nothing_is_done_without_rows():
    table = Table()
    assert not len(native.share(vars(table.rows), table.sharing.runs, terms(), np.zeros(0), np.zeros(0, np.bool_), 1))


def test_arrays_that_do_not_fit_are_refused():
    table = table_of(np.random.default_rng(1), tenants=0)
    ports = len(table.sharing.ports)

    def share(count=ports, **others):
        allowed = np.ones(count)
        return native.share({**vars(table.rows), **others}, table.sharing.runs, terms(), allowed, allowed > 0, 1)

    with pytest.raises(ValueError, match=f"{ports + 1} capacities and {ports + 1} flags are none of {ports} ports"):
        share(ports + 1)
    with pytest.raises(ValueError, match="column told of 1 float64"):
        share(told=np.ones(1))
    with pytest.raises(ValueError, match="column states of .* float64 is none of .* int8"):
        share(states=np.ones(len(table.rows.numbers)))
    with pytest.raises(ValueError, match="column sent"):
        share(sent=np.ones(2 * len(table.rows.numbers))[::2])
