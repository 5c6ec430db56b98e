# SPDX-License-Identifier: Apache-2.0
"""Readings in arrays against the same in plain Python (plain.py), where all kinds of things change."""

import random

import numpy as np
import pytest

from sdngcc.controller.rates.paths.shown import Resolved
from sdngcc.controller.tests.fabric import mac
from sdngcc.controller.tests.rates.paths.plain import Plain
from sdngcc.controller.tests.rates.test_by_path import MB, PORTS, SHARE, make, many, want
from sdngcc.controller.tests.test_engine import H1, H2, H3

HEADROOM = 1  # percent
MACHINES = (11, 12, 21, 22, 31)


def check(shims, monkeypatch):
    """Compare from now on what ports are given each period.

    Return how many entries were read, by what held them, and how often uplinks were lent, and not.
    """
    engine = shims.fabric.engine
    paths = engine.rounds.paths
    explicit = engine.rounds.explicit
    plain = Plain(paths, engine.switches, engine.attribution, lambda place: explicit.bottlenecks.get(place))
    readings, ports, counts, uplinks = paths._readings, paths.ports, [0, 0, 0], [0, 0]
    take, decide = readings.take, ports.decide_rows

    def taken(states, lows, now_ns):
        members = paths.entries.members
        lendable = plain.lendable(HEADROOM / 100)
        assert {hop: ports._fixed[hop] for hop in lendable} == pytest.approx(lendable, rel=1e-12)
        for rate in lendable.values():
            uplinks[rate % SHARE == 0] += 1
        for member in members.values():
            assert lows[member.number] == member.vm.reading.min_rate
        wanted = plain.read({place: float(lows[member.number]) for place, member in members.items()}, now_ns)
        take(states, lows, now_ns)
        rows, numbers = ports.table.rows, np.array(list(wanted), np.intp)
        if len(numbers):
            places = ports.table.places(numbers)
            sent, state, floor = zip(*wanted.values())
            assert rows.sent[places] == pytest.approx(sent, rel=1e-12)
            assert rows.states[places].tolist() == list(state)
            assert rows.lows[places] == pytest.approx(floor, rel=1e-9)
            for one in state:
                counts[one] += 1

    def decided(marks, now_ns):
        due = decide(marks, now_ns)
        plain.told(due, now_ns)
        return due

    monkeypatch.setattr(readings, "take", taken)
    monkeypatch.setattr(ports, "decide_rows", decided)
    return counts, uplinks


@pytest.mark.parametrize("seed", range(4))
def test_readings_are_those_of_each_machine_by_itself(tmp_path, monkeypatch, seed):
    chance = random.Random(seed)
    shims = make(tmp_path, ports=PORTS, by_path=(H1, H2, H3)[: 2 + seed % 2], headroom_percent=HEADROOM)
    counts, uplinks = check(shims, monkeypatch)
    relations = shims.fabric.engine.relations
    pairs = [(one, other) for one in MACHINES for other in MACHINES if one // 10 != other // 10]
    if seed == 3:
        many(shims, 120)
    for _ in range(12):
        for pair in chance.sample(pairs, 3):
            want(shims, pair, rate=chance.choice([1, 5, 20, 200]) * MB)
        for pair in chance.sample(sorted(pair for pair in shims.wants if pair in pairs), 1):
            del shims.wants[pair]
            if chance.random() < 0.5:
                relations.forget_pair(mac(pair[0]), mac(pair[1]))
        place = chance.choice([(H1, 2), (H1, 3), (H2, 2), (H2, 3)])
        shims.shims[place].low = chance.choice([0, 0, 20 * MB])
        shims.shims[place].weight = chance.choice([1, 3])
        shims.shims[place].high = chance.choice([0, SHARE, SHARE, 2 * SHARE])
        shims.run(chance.choice([1, 2, 5]))
    assert all(counts) and sum(counts) > 300 and all(uplinks)


def test_machines_that_are_replaced_leave_no_number_behind(tmp_path):
    shims = make(tmp_path, headroom_percent=HEADROOM)
    engine = shims.fabric.engine
    want(shims, *((one, other) for one in (11, 12, 21) for other in (22, 31) if one != 21 or other == 31))
    paths = engine.rounds.paths
    entries, shown, number = paths.entries, paths._readings._shown, H1
    shims.run(20)
    for _ in range(3):
        # All of a bridge gone and back between two periods.
        for place in [place for place in entries.members if place[0] == number]:
            entries._remove(place)
        engine.switches[number].revision += 1
        shims.run(1)
        found = 0
        for row, part in zip(shown.paths, shown.parts.tolist()):
            known = entries.parts.things[part] if part >= 0 else None
            if known is not None:
                found += 1
                member = entries.numbers.things[entries.index.part_members[part]]
                assert member is not None and member.vm.place[1] == row["port"]
                assert known.name.first == bytes(row["prefix"])
        assert found >= 2


class Bridges:
    """Rows of bridges, each with a key of two words; what one stands for is its key's sum and its bridge's version."""

    def __init__(self):
        self.asked = []
        self.resolved = Resolved(self.resolve)

    def resolve(self, dpid, first, end):
        self.asked.append(dpid)
        return self.keys[first:end].sum(axis=1).astype(np.intp) + 1000 * self.versions[dpid]

    def update(self, bridges, versions):
        self.asked.clear()
        self.versions = versions
        rows = [row for some in bridges.values() for row in some]
        self.keys = np.array(rows, np.uint64).reshape(-1, 2)
        counts = np.array([len(some) for some in bridges.values()], np.intp)
        self.resolved.update(list(bridges), np.array([versions[dpid] for dpid in bridges], np.intp), counts, self.keys)
        wanted = [sum(row) + 1000 * versions[dpid] for dpid, some in bridges.items() for row in some]
        assert self.resolved.found.tolist() == wanted
        return sorted(self.asked)


def test_rows_are_resolved_again_only_where_something_changed():
    chance, bridges = random.Random(1), Bridges()
    known = {dpid: [[chance.randrange(9), chance.randrange(9)] for _ in range(dpid % 4)] for dpid in range(12)}
    versions = dict.fromkeys(range(20), 0)
    assert bridges.update(known, versions) == list(range(12))
    assert bridges.update(known, versions) == []
    known[5][0][1] += 1
    assert bridges.update(known, versions) == [5]
    known[6].append([1, 2])
    del known[7][1]
    assert bridges.update(known, versions) == [6, 7]
    versions[9] += 1
    assert bridges.update(known, versions) == [9]
    del known[2]
    known[13] = [[1, 1]]
    assert bridges.update(known, versions) == [13]
    known = dict(reversed(known.items()))
    assert bridges.update(known, versions) == []
    assert bridges.update({}, versions) == []


def test_shares_follow_what_counters_say(tmp_path):
    shims = make(tmp_path, headroom_percent=HEADROOM)
    engine = shims.fabric.engine
    want(shims, (11, 22), (11, 31))
    shims.run(5)
    paths, proportions = engine.rounds.paths, engine.pair_bytes.proportions
    [member] = [one for place, one in paths.entries.members.items() if len(one.parts) == 2]
    place, pairs = member.vm.place, [next(iter(part.pairs)) for part in member.parts.values()]
    numbers = [part.number for part in member.parts.values()]
    looked = []
    for counters in ((1000, 3000), (8000, 3000), None):
        if counters is None:
            proportions.keep(place[0], ())
        else:
            proportions.take(place, {pair: (1 << 20, counter) for pair, counter in zip(pairs, counters)})
        paths._readings._follow_shares(np.array([member.number]))
        looked.append(paths._readings._shares[numbers].tolist())
        shares = engine.attribution.shares(place)
        assert looked[-1] == pytest.approx([shares[pair] for pair in pairs])
    assert looked[0] == pytest.approx([0.25, 0.75]) and looked[2] == [0.5, 0.5] and looked[1][0] > 0.8
