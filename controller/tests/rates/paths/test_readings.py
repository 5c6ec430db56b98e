# SPDX-License-Identifier: Apache-2.0
"""Readings in arrays against the same in plain Python (plain.py), where all kinds of things change."""

import random
import types

import numpy as np
import pytest

from sdngcc.controller.network.inventory import Answer, SwitchRecord
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.rates.paths.shown import Shown
from sdngcc.controller.tests.fabric import mac, vm_reading
from sdngcc.controller.tests.rates.paths.plain import Plain
from sdngcc.controller.tests.rates.test_by_path import MB, PORTS, SHARE, make, many, want
from sdngcc.controller.tests.test_engine import H1, H2, H3
from sdngcc.controller.wire import experimenter, rows
from sdngcc.controller.wire.experimenter import PathReading

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
        bridge = shown._bridges[number]
        for row, part in zip(np.frombuffer(bridge.path_entries, rows.PATH), bridge.parts.tolist()):
            known = entries.parts.things[part] if part >= 0 else None
            if known is not None:
                found += 1
                member = entries.numbers.things[entries.index.part_members[part]]
                assert member is not None and member.vm.place[1] == row["port"]
                assert known.name.first == bytes(row["prefix"])
        assert found >= 2


class Watched(Shown):
    """Notes for which bridges rows are gone through."""

    def __init__(self, switches, entries, told):
        super().__init__(switches, entries, told)
        self.resolved = []

    def _find_members(self, switch):
        self.resolved.append(("machines", switch.dpid))
        return super()._find_members(switch)

    def _resolve(self, switch, known):
        self.resolved.append(("paths", switch.dpid))
        return super()._resolve(switch, known)


class Bridges:
    """Bridges whose machine at port p has number p + 100 * dpid, and a part 10 * p + d for each destination d."""

    def __init__(self, count):
        self.told = set()
        self.entries = types.SimpleNamespace(at={}, versions={}, renewed=set())
        self.switches = {}
        self.shown = Watched(self.switches, self.entries, self.told)
        for dpid in range(1, count + 1):
            self.switches[dpid] = SwitchRecord(dpid, 0)
            self.renew(dpid, 0)
            self.tell(dpid, [2, 3], [(2, 1), (2, 2), (3, 1)])

    def renew(self, dpid, shift):
        """Let a bridge's machines and parts have numbers that are higher by ``shift``."""
        self.entries.at[dpid] = {
            port: types.SimpleNamespace(
                number=port + 100 * dpid + shift,
                parts={
                    Prefix(bytes(15) + bytes([to]), 128): types.SimpleNamespace(number=10 * port + to + shift)
                    for to in range(1, 5)
                },
            )
            for port in (2, 3)
        }
        self.entries.versions[dpid] = self.entries.versions.get(dpid, 0) + 1
        self.entries.renewed.add(dpid)

    def lose(self, dpid):
        del self.entries.at[dpid], self.entries.versions[dpid]
        self.entries.renewed.add(dpid)

    def tell(self, dpid, ports=None, paths=None):
        switch = self.switches[dpid]
        if ports is not None:
            entries = b"".join(experimenter.encode_vm_state(vm_reading(port)) for port in ports)
            switch.answer, switch.revision = Answer(entries, 1 + switch.answer.time_ns), switch.revision + 1
        if paths is not None:
            readings = [PathReading(0, 0, bytes(15) + bytes([to]), 128, 0, port, 1, 1, 1, 1, 1) for port, to in paths]
            switch.path_entries = b"".join(experimenter.encode_path(one) for one in readings)
        self.told.add(dpid)

    def look(self):
        """Return for which bridges rows were gone through, the numbers found, and the parts whose paths are gone."""
        self.shown.resolved.clear()
        looked = self.shown.look()
        assert not self.told and not self.entries.renewed
        assert looked.states.counts.sum() == len(looked.states.numbers)
        assert looked.paths.counts.sum() == len(looked.paths.numbers)
        return (
            sorted(self.shown.resolved), looked.states.numbers.tolist(), looked.paths.numbers.tolist(),
            sorted(looked.gone.tolist()),
        )  # fmt: skip


def test_rows_are_resolved_again_only_where_something_changed():
    bridges, parts = Bridges(2), [21, 22, 31]
    first = bridges.look()
    assert first[0] == [("machines", 1), ("machines", 2), ("paths", 1), ("paths", 2)]
    assert first[1:] == ([102, 103, 202, 203], parts * 2, [])
    assert bridges.look() == ([], [], [], [])
    bridges.tell(2, paths=[(2, 1), (2, 2), (3, 1)])
    assert bridges.look() == ([], [202, 203], parts, [])
    bridges.tell(2, paths=[(2, 1), (2, 3), (3, 1)])
    assert bridges.look() == ([("paths", 2)], [202, 203], [21, 23, 31], parts)
    bridges.tell(2, paths=[(2, 1), (3, 1), (3, 9)])
    assert bridges.look()[2:] == ([21, 31, -1], [21, 23, 31])
    bridges.tell(1, paths=[(2, 1)])
    assert bridges.look() == ([("paths", 1)], [102, 103], [21], parts)
    bridges.tell(1, ports=[3, 2, 4])
    assert bridges.look() == ([("machines", 1)], [103, 102, -1], [21], [])
    bridges.renew(1, 50)
    assert bridges.look() == ([("machines", 1), ("paths", 1)], [153, 152, -1], [71], [21])
    bridges.lose(1)
    assert bridges.look() == ([], [], [], [71])


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
        looked.append(paths._readings._parts.shares[numbers].tolist())
        shares = engine.attribution.shares(place)
        assert looked[-1] == pytest.approx([shares[pair] for pair in pairs])
    assert looked[0] == pytest.approx([0.25, 0.75]) and looked[2] == [0.5, 0.5] and looked[1][0] > 0.8
