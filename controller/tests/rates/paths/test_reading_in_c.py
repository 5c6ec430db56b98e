# SPDX-License-Identifier: Apache-2.0
"""What native/reading.c does, beside the same in numpy, and what it refuses."""

import copy
import dataclasses

import numpy as np
import pytest

from sdngcc.controller.native import reading
from sdngcc.controller.network.relations import Pair
from sdngcc.controller.rates.paths.index import Index
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.rates.paths.ports import ELSEWHERE, HERE, IDLE, terms
from sdngcc.controller.rates.paths.readings import States, _Parts
from sdngcc.controller.rates.paths.table import Rows
from sdngcc.controller.tests.rates.paths import plain_reading
from sdngcc.controller.tests.rates.paths.test_sharing import table_of
from sdngcc.controller.wire import rows

PAIR: Pair = (b"a", b"b")
LARGE = 2**63


class Some:
    """Up to 6 bridges with up to 6 machines, each of up to 5 parts, and what they tell."""

    def __init__(self, chance):
        self.chance, self.index = chance, Index()
        self.machines, self.parts = States(), _Parts()
        self.of = []  # bridge of each machine
        for bridge in range(int(chance.integers(1, 7))):
            self.of += [bridge] * int(chance.integers(0, 7))
        for machine in range(len(self.of)):
            self.index.set_member(machine, (self.of[machine], machine), PAIR, False)
        for part in range(60):
            if self.of and chance.random() < 0.9:
                self.index.set_part(part, int(chance.integers(len(self.of))), Prefix(bytes(16), 128))
        for part in np.flatnonzero(self.index.part_members >= 0).tolist():
            if chance.random() < 0.3:
                self.index.forget_part(part)
        self.machines.fit(len(self.index.member_parts))
        self.parts.fit(len(self.index.part_members))
        self.parts.rates[:] = np.inf
        self.parts.shares[:] = chance.random(len(self.parts.shares)) * (chance.random(len(self.parts.shares)) < 0.7)
        self.guarantees = chance.lognormal(12, 2, len(self.machines.sent))
        self.guarantees *= chance.random(len(self.guarantees)) < 0.4
        self.now_ns = 0

    def rates(self, count):
        found = np.rint(self.chance.lognormal(12, 2, count))
        found[self.chance.random(count) < 0.1] = LARGE
        return found * (self.chance.random(count) < 0.8)

    def numbers(self, bridge):
        """Return the machines that a bridge tells of, among others that are none."""
        found = [number for number, of in enumerate(self.of) if of == bridge]
        return np.array(self.chance.permutation([*found, -1]), np.intp)

    def states(self, numbers):
        found = np.zeros(len(numbers), rows.STATE)
        for name in ("sent_rate", "rate", "share", "min_rate", "max_rate"):
            found[name] = self.rates(len(numbers)).astype(np.uint64)
        found["drops"] = self.chance.choice(np.array([0, 1, 2, LARGE], np.uint64), len(numbers))
        return found

    def paths(self, bridge):
        """Return paths of a bridge's machines, some of them several of one part, and their parts."""
        parts = [part for part, machine in enumerate(self.index.part_members.tolist()) if machine >= 0]
        parts = [part for part in parts if self.of[self.index.part_members[part]] == bridge]
        numbers = np.array(self.chance.choice([-1, *parts], int(self.chance.integers(0, 12))), np.intp)
        found = np.zeros(len(numbers), rows.PATH)
        found["rate"], found["sent_rate"] = (self.rates(len(numbers)).astype(np.uint64) for _ in range(2))
        found["flags"] = self.chance.integers(0, 4, len(numbers))
        return numbers, found

    def period(self):
        """Return what bridges tell in a period, for C and for numpy."""
        self.now_ns += int(self.chance.integers(0, 2))
        some = [bridge for bridge in range(6) if self.chance.random() < 0.7]
        times_ns = np.full(len(some), self.now_ns, np.int64)
        machines = [self.numbers(bridge) for bridge in some]
        states = [self.states(numbers) for numbers in machines]
        paths = [self.paths(bridge) for bridge in some]
        found = []
        for numbers, several in ((machines, states), ([one for one, _ in paths], [one for _, one in paths])):
            counts = np.array([len(one) for one in several], np.int64)
            joined = np.concatenate([np.zeros(0, np.intp), *numbers])
            found.append(reading.Answers([one.tobytes() for one in several], counts, joined, times_ns))
            found.append(np.concatenate([several[0][:0] if several else np.zeros(0, rows.STATE), *several]))
        return found

    def addresses(self):
        index = self.index
        return (
            reading.address_machines({**vars(self.machines), "firsts": index.member_parts}),
            reading.address_parts({**vars(self.parts), "members": index.part_members, "nexts": index.part_nexts}),
        )


def told_twice(chance):
    """Return a table whose entries were told something before what they were told last, or not."""
    table = table_of(chance, tenants=0)
    table.rows.former = table.rows.told * chance.choice([0.0, 0.5, 2.0], len(table.rows.told))
    return table


def same(found, wanted):
    for field in dataclasses.fields(found):
        column = getattr(found, field.name)
        expected = getattr(wanted, field.name)
        assert column == pytest.approx(expected, rel=1e-9, abs=1e-9), field.name


@pytest.mark.parametrize("seed", range(60))
def test_it_does_what_numpy_does(seed):
    chance = np.random.default_rng(seed)
    some, law = Some(chance), terms()
    table = told_twice(chance)
    count = len(table.rows.numbers)
    for _ in range(4):
        states, told, paths, sent = some.period()
        machines, parts, expected = copy.deepcopy((some.machines, some.parts, table.rows))
        members, addresses = some.index.part_members, some.addresses()

        some.machines.fresh[:] = machines.fresh[:] = False
        fresh = reading.read_states(states, addresses[0], law)
        times_ns = np.repeat(states.times_ns, states.counts)
        assert fresh.tolist() == plain_reading.read_states(machines, told, states.numbers, times_ns).tolist()
        gone = np.flatnonzero(chance.random(len(members)) < 0.2)
        for one in (parts, some.parts):
            one.there[gone], one.rates[gone] = False, np.inf
        reading.read_paths(paths, *addresses, law)
        if len(sent):
            plain_reading.read_paths(machines, parts, members, sent, paths.numbers)
        reading.count_parts(*addresses, fresh)
        reading.divide_parts(*addresses, law, some.guarantees, fresh, len(members))
        plain_reading.measure(machines, parts, members, some.guarantees)
        same(some.machines, machines)
        same(some.parts, parts)

        of = chance.choice([-1, *np.flatnonzero(members >= 0)], count).astype(np.intp)
        owners = reading.Owners(
            np.where(of >= 0, members[of], int(chance.integers(max(1, len(some.of))))), of,
            chance.choice(np.array([IDLE, HERE, ELSEWHERE], np.int8), count),
        )  # fmt: skip
        decided_ns = int(chance.integers(0, 100_000_000))
        reading.read_rows(vars(table.rows), owners, *addresses, law, some.guarantees, decided_ns)
        plain_reading.read_rows(expected, machines, parts, owners, some.guarantees, decided_ns)
        same(table.rows, expected)


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_read_and_judged_one_by_one_alike(seed):
    chance = np.random.default_rng(seed)
    table, law = told_twice(chance), terms()
    expected: Rows = copy.deepcopy(table.rows)
    places = chance.permutation(len(table.rows.numbers))[: chance.integers(0, 30)]
    limits = table.rows.told[places] * chance.choice([0.3, 0.5, 0.9991, 1.0], len(places))
    limited = chance.random(len(places)) < 0.8
    states = reading.judge(vars(table.rows), law, places, limits, limited, 50_000_000)
    assert states.tolist() == plain_reading.judge(expected, places, limits, limited, 50_000_000).tolist()
    sent, lows = chance.lognormal(12, 2, len(places)), chance.lognormal(9, 1, len(places))
    reading.read(vars(table.rows), law, places, sent, states, lows)
    plain_reading.read(expected, places, sent, states, lows)
    same(table.rows, expected)


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_compared_as_numpy_does(seed):
    chance = np.random.default_rng(seed)
    first = [np.zeros(int(chance.integers(0, 9)), rows.STATE) for _ in range(int(chance.integers(0, 7)))]
    second = copy.deepcopy(first)
    for one in second:
        for column in rows.STATE.names:
            moved = chance.random(len(one)) < (0.05 if column in rows.STATE.names[:4] else 0.4)
            one[column] += moved.astype(one[column].dtype)
    changed, heard = reading.compare_states([one.tobytes() for one in second], [one.tobytes() for one in first])
    wanted = []
    for number, (one, before) in enumerate(zip(second, first)):
        others = any((one[name] != before[name]).any() for name in rows.STATE.names[:4])
        assert changed[number] == others
        if not others:
            moved = (one["messages"] != before["messages"]) | (one["refused"] != before["refused"])
            columns = (one[name][moved].tolist() for name in ("port", "messages", "refused"))
            wanted += [(number, *row) for row in zip(*columns)]
    assert [one[:4] for one in heard.tolist()] == wanted


@pytest.mark.parametrize("devices", [False, True])
def test_paths_are_the_same_by_what_tells_them_apart(devices):
    paths = np.zeros(3, rows.PATH)
    paths["prefix"], paths["bits"] = np.void(bytes(range(16))), 128
    others = [paths]
    for name, value in (("sent_rate", 7), ("flags", 1), ("prefix", np.void(b"\xff" * 16)), ("bits", 64), ("scope", 1)):
        others.append(paths.copy())
        others[-1][name][2] = value
    for name in ("vm", "port"):
        others.append(paths.copy())
        others[-1][name][0] = 5
    found = reading.same_paths([one.tobytes() for one in others], [paths.tobytes()] * len(others), devices)
    assert found.tolist() == [True, True, True, False, False, False, not devices, devices]


def test_what_does_not_fit_is_refused():
    some, law = Some(np.random.default_rng(3)), terms()
    machines, parts = some.addresses()
    table = table_of(np.random.default_rng(1), tenants=0)
    one, ones = np.ones(1, np.int64), np.ones(2, np.int64)
    with pytest.raises(ValueError, match="1 numbers, 1 counts of 1 and 1 times are not those of 95 bytes of"):
        reading.read_states(reading.Answers([bytes(95)], one, one, one), machines, law)
    with pytest.raises(ValueError, match="2 numbers, 1 counts of 1 and 1 times are not those of 72 bytes"):
        reading.read_paths(reading.Answers([bytes(72)], one, ones, one), machines, parts, law)
    with pytest.raises(ValueError, match="of 96 and of 0 bytes are not alike long"):
        reading.compare_states([bytes(96)], [b""])
    with pytest.raises(ValueError, match="of 72 and of 0 bytes are not alike long"):
        reading.same_paths([bytes(72)], [b""], False)
    with pytest.raises(ValueError, match="1 owners are none of"):
        reading.read_rows(
            vars(table.rows), reading.Owners(one, one, one.astype(np.int8)), machines, parts, law, some.guarantees, 1
        )
    with pytest.raises(ValueError, match="2, 1, 1, 1 are not lengths of columns of readings"):
        reading.read(vars(table.rows), law, ones, np.ones(1), np.ones(1, np.int8), np.ones(1))
    with pytest.raises(ValueError, match="2, 1, 1 are not lengths of columns of rates"):
        reading.judge(vars(table.rows), law, ones, np.ones(1), np.ones(1, np.bool_), 1)
    with pytest.raises(ValueError, match="column rate of 1 float64 is none of"):
        reading.address_machines({**vars(some.machines), "rate": np.ones(1), "firsts": some.index.member_parts})
