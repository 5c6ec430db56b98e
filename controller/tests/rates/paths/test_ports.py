# SPDX-License-Identifier: Apache-2.0
"""Rates that ports tell, each by what it measures: one port, and many in a loop with shims against the solver."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.rates.capacity import Marked
from sdngcc.controller.rates.paths.ports import ELSEWHERE, HERE, IDLE, STANDBY, Ports
from sdngcc.controller.rates.paths.solver import Machine, Pair
from sdngcc.controller.rates.paths.table import Entry
from sdngcc.controller.rates.paths.table import Machine as Known
from sdngcc.controller.tests.rates.paths.loop import PERIOD_NS, Loop, dense

PORT = (9, 1)
X, Y, Z = (1, 1), (1, 2), (1, 3)


class One:
    """One port of 100 kB/s, and what its entries send."""

    def __init__(self, headroom=0.0, standby=STANDBY):
        self.ports = Ports(headroom, standby=standby)
        self.ports.set_capacity(PORT, 100_000)
        self.numbers = {}
        self.now_ns = 0

    def join(self, *names, part=1.0):
        for vm, peer in names:
            self.numbers[vm, peer] = self.ports.table.join(Entry(PORT, vm, peer), part)

    def period(self, readings, marks=0, lows=None, periods=1):
        """Return what is told, with readings as {(vm, peer): (sent, state)}, at the end of so many such periods."""
        for _ in range(periods):
            self.now_ns += PERIOD_NS
            names = [self.numbers[name] for name in readings]
            sent, states = (np.array([one[at] for one in readings.values()]) for at in range(2))
            floors = np.array([(lows or {}).get(name, 0.0) for name in readings])
            self.ports.read(np.array(names, np.intp), sent.astype(float), states.astype(np.int8), floors)
            told = self.ports.decide({PORT: Marked(marks, PERIOD_NS)} if marks else {}, self.now_ns)
        return {(one.vm, one.peer): one.rate for one in told}


def test_a_port_with_room_tells_nothing():
    one = One()
    one.join((X, 1), (Y, 1))
    assert one.period({(X, 1): (40_000, IDLE), (Y, 1): (49_000, ELSEWHERE)}) == {}


def test_forty_destinations_get_what_one_gets():
    one = One()
    one.join((Y, 1), *((X, peer) for peer in range(40)))
    told = one.period({name: (5_000, ELSEWHERE) for name in one.numbers} | {(Y, 1): (90_000, ELSEWHERE)})
    assert told[Y, 1] == 50_000
    assert {told[X, peer] for peer in range(40)} == {1_250}


def test_weights_of_machines_and_of_tenants_count():
    one = One()
    one.join((X, 1), (Y, 1), (Z, 1))
    one.ports.table.set_machine(X, Known(3))
    flood = dict.fromkeys(one.numbers, (60_000, ELSEWHERE))
    assert one.period(flood) == {(X, 1): 60_000, (Y, 1): 20_000, (Z, 1): 20_000}
    one.ports.table.set_tenant("t", 2)
    one.ports.table.set_machine(X, Known(3, "t"))
    one.ports.table.set_machine(Y, Known(1, "t"))
    # It follows its new aim at once, for it goes on in no other direction.
    assert one.period(flood) == {(X, 1): 50_000, (Y, 1): pytest.approx(16_667, abs=1), (Z, 1): 33_333}


def test_a_part_counts_as_what_goes_through_the_port():
    one = One()
    one.join((X, 1), part=0.5)
    one.join((Y, 1))
    assert one.period({(X, 1): (120_000, ELSEWHERE), (Y, 1): (60_000, ELSEWHERE)}) == {
        (X, 1): 100_000,
        (Y, 1): 50_000,
    }


def test_an_entry_keeps_what_it_learned_when_its_part_changes():
    one = One()
    one.join((X, 1), part=0.5)
    one.join((Y, 1))
    flood = {(X, 1): (120_000, HERE), (Y, 1): (60_000, HERE)}
    assert one.period(flood) == {(X, 1): 100_000, (Y, 1): 50_000}
    one.ports.table.set_part(one.numbers[X, 1], 0.25)
    assert one.period(flood) == {(X, 1): 200_000}
    assert one.ports.judge(np.array([one.numbers[X, 1]]), np.array([99_999.0]), np.array([True])) == [HERE]
    one.ports.table.set_part(one.numbers[X, 1], 0.25)
    assert not one.ports.table.settle()
    with pytest.raises(ValueError):
        one.ports.table.join(Entry(PORT, X, 1))
    one.ports.table.leave(one.numbers[X, 1])
    assert one.ports.table.join(Entry(PORT, X, 1), 0.25) == one.numbers[X, 1]
    assert one.period(flood) == {}


def test_a_port_that_marks_tells_though_it_seems_to_have_room():
    one = One()
    one.join((X, 1), (Y, 1))
    assert one.period({(X, 1): (10_000, IDLE), (Y, 1): (10_000, ELSEWHERE)}) == {}
    assert len(one.period({(X, 1): (10_000, IDLE), (Y, 1): (10_000, ELSEWHERE)}, marks=5)) == 2


def test_what_a_port_may_carry_can_be_said_whatever_it_marks():
    one = One()
    one.join((X, 1), (Y, 1))
    one.ports.set_allowed(PORT, 30_000.0)
    flood = dict.fromkeys(one.numbers, (60_000, HERE))
    assert one.period(flood, marks=50) == {(X, 1): 15_000, (Y, 1): 15_000}
    one.ports.forget(PORT)
    one.ports.set_capacity(PORT, 80_000)
    assert one.period(flood) == {(X, 1): 40_000, (Y, 1): 40_000}


def test_who_is_held_elsewhere_leaves_the_rest_to_others():
    one = One()
    one.join((X, 1), (Y, 1))
    told = one.period({(X, 1): (10_000, ELSEWHERE), (Y, 1): (85_000, HERE)})
    assert told[Y, 1] == 90_000
    # The other one is told what it could have, in case that what holds it lets go.
    assert told[X, 1] == 90_000


def test_who_uses_little_keeps_a_standby_and_frees_the_rest_after_three_readings():
    one = One(standby=0.125)
    one.join((X, 1), (Y, 1))
    told = one.period({(X, 1): (1_000, IDLE), (Y, 1): (95_000, HERE)})
    assert told == {(X, 1): 50_000, (Y, 1): 50_000}
    told = one.period({(X, 1): (1_000, IDLE), (Y, 1): (50_000, HERE)}, periods=2)
    assert told == {(X, 1): round(98_750 / 8), (Y, 1): 98_750}
    one.period({(X, 1): (1_000, IDLE), (Y, 1): (98_750, HERE)})
    # One reading at its limit, and it has its whole part again.
    told = one.period({(X, 1): (12_000, HERE), (Y, 1): (98_750, HERE)})
    assert (told[X, 1], told[Y, 1]) == (50_000, 50_000)


def test_only_what_moved_is_told_and_all_now_and_then():
    one = One()
    one.join((X, 1), (Y, 1))
    flood = {(X, 1): (50_000, HERE), (Y, 1): (50_000, HERE)}
    assert len(one.period(flood)) == 2
    counts = [len(one.period(flood)) for _ in range(40)]
    # Within its rate-timeout, 40 periods, each hears three times.
    assert 2 * 3 <= sum(counts) <= 2 * 4 and counts[:8] == [0] * 8


def test_what_does_not_show_is_told_again():
    one = One()
    one.join((X, 1), (Y, 1))
    high = {(X, 1): (50_000, HERE), (Y, 1): (70_000, ELSEWHERE)}
    assert len(one.period(high)) == 2
    assert [set(one.period(high)) for _ in range(5)] == [set(), set(), set(), set(), {(Y, 1)}]


def test_who_is_held_here_is_told_though_the_port_has_room():
    one = One()
    one.join((X, 1), (Y, 1))
    assert one.period({(X, 1): (10_000, HERE), (Y, 1): (10_000, ELSEWHERE)})[X, 1] == 90_000


def test_floors_hold_even_where_the_port_cannot_carry_them():
    one = One()
    one.join((X, 1), (Y, 1))
    lows = {(X, 1): 80_000.0}
    readings = {(X, 1): (80_000, HERE), (Y, 1): (50_000, HERE)}
    assert one.period(readings, lows=lows) == {(X, 1): 80_000, (Y, 1): 20_000}
    one.ports.set_capacity(PORT, 50_000)
    told = one.period(readings, lows=lows)
    assert told[Y, 1] == 125


def test_marks_lower_what_is_told():
    one = One(headroom=0.01)
    one.join((X, 1), (Y, 1))
    flood = {(X, 1): (49_500, HERE), (Y, 1): (49_500, HERE)}
    assert one.period(flood)[X, 1] == 49_500
    assert one.period(flood, marks=1)[X, 1] < 0.9 * 49_500


def test_a_port_of_unknown_capacity_tells_nothing():
    one = One()
    one.ports.set_capacity(PORT, math.inf)
    one.join((X, 1))
    assert one.period({(X, 1): (90_000, ELSEWHERE)}) == {}


def test_entries_come_once_and_go_once():
    one = One()
    one.join((X, 1), (Y, 1))
    with pytest.raises(ValueError, match="is there already"):
        one.join((X, 1))
    flood = {(X, 1): (60_000, ELSEWHERE), (Y, 1): (60_000, ELSEWHERE)}
    assert one.period(flood)[Y, 1] == 50_000
    one.ports.table.leave(one.numbers.pop((X, 1)))
    assert one.period({(Y, 1): (50_000, HERE)})[Y, 1] == 100_000
    assert one.ports.table.entries.names.count(None) == 1
    one.join((Z, 1))
    assert None not in one.ports.table.entries.names
    with pytest.raises(ValueError, match="there is no entry"):
        one.ports.table.leave(99)


def test_nothing_is_decided_without_entries():
    assert Ports().decide({}, 1) == []


def test_rates_of_the_solver_are_where_ports_rest():
    for seed in range(8):
        loop = Loop(*dense(seed))
        aim = loop.aim()
        loop.run(25)
        before = dict(loop.rates)
        loop.run(25)
        assert loop.error(aim) < 0.01 and loop.error(before) < 0.01, seed
        assert all(loop.load(hop) < 1.003 for hop in loop.capacities), seed


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(1, 2), st.integers(0, 1))
def test_ports_settle_however_late_their_news_are(seed, late, old):
    # Of 300 networks the slowest took 25 periods with late=1, 43 with late=2.
    assert Loop(*dense(seed), late=late, old=old).settle(90) <= 30 + 35 * (late + old - 1)


def test_half_of_the_networks_settle_in_five_periods():
    periods = sorted(Loop(*dense(seed)).settle(15) for seed in range(100, 121))
    assert periods[10] <= 5 and periods[20] <= 10


def test_late_news_cost_most_networks_a_few_periods_more():
    periods = sorted(Loop(*dense(seed), late=2).settle(45) for seed in range(100, 121))
    assert periods[10] <= 8 and periods[18] <= 20


def test_who_holds_a_pair_shows_in_the_rate_in_force():
    one = One()
    one.join((X, 1), (Y, 1), (Z, 1))
    numbers = np.array(list(one.numbers.values()), np.intp)
    flags = np.ones(3, np.bool_)
    # Whoever was told nothing yet is told now, and it shows.
    assert one.ports.judge(numbers, np.full(3, 5e3), flags).tolist() == [HERE] * 3
    flood = dict.fromkeys(one.numbers, (60_000, ELSEWHERE))
    assert set(one.period(flood).values()) == {33_333}
    limits = np.array([33_333.0, 20_000.0, 33_333.0])
    flags[2] = False
    assert one.ports.judge(numbers, limits, flags).tolist() == [HERE, ELSEWHERE, IDLE]
    told = one.period({(X, 1): (33_333, HERE), (Y, 1): (20_000, ELSEWHERE), (Z, 1): (33_333, HERE)})
    assert told[X, 1] == 40_000
    # What was told before may still be in force, what is in between is another port's.
    limits = np.array([33_333.0, 20_000.0, 40_000.0])
    assert one.ports.judge(numbers, limits, np.ones(3, np.bool_)).tolist() == [HERE, ELSEWHERE, HERE]


def test_ports_settle_though_shims_do_not_tell_who_holds_a_pair():
    periods = sorted(Loop(*dense(seed), old=1, names=False).settle(30) for seed in range(8))
    assert periods[4] <= 15 and periods[7] < 30


@pytest.mark.parametrize("seed", [596, 2384])
def test_ports_that_would_go_round_settle(seed):
    assert Loop(*dense(seed), late=2).settle(50) <= 35


def test_lost_messages_are_made_good():
    for seed in range(6):
        loop = Loop(*dense(seed), loss=0.02, seed=seed)
        assert loop.settle(50) <= 35, seed


def test_who_comes_has_its_part_in_three_periods_and_who_goes_leaves_it():
    machines = {vm: Machine() for vm in (X, Y, Z)}
    pairs = {(X, 0): Pair({PORT: 1.0}, 2e6), (Y, 0): Pair({PORT: 1.0}, 2e6)}
    loop = Loop(machines, pairs, {PORT: 1.2e6})
    assert loop.settle(30) <= 3
    loop.join((Z, 0), Pair({PORT: 1.0}, 2e6))
    assert loop.settle(30) <= 3
    loop.leave((Y, 0))
    assert loop.settle(30) <= 3


def test_in_rest_only_refreshes_are_told():
    loop = Loop(*dense(3))
    loop.run(20)
    entries = sum(len(pair.routes) for pair in loop.pairs.values())
    before = loop.sent
    loop.run(48)
    # Each after 45 to 60 ms: 4 to 6 times in 240 ms.
    assert 4 * entries / 2 <= loop.sent - before <= 6 * entries
