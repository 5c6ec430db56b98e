# SPDX-License-Identifier: Apache-2.0
"""Leases, ownership and generation ids: no two controllers act for a switch, and none stays without one."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sdngcc.controller.cluster.lease import DRIFT_PPM, Terms
from sdngcc.controller.cluster.view import (
    JOINED_BEATS,
    Changes,
    Member,
    Switch,
    View,
    following,
    is_stale,
    wanted_owner,
)

from .cluster_model import Process, RealSwitch, Store

MS = 1_000_000
SWITCHES = (1, 2, 3)


class Cluster(RuleBasedStateMachine):
    """Controllers that crash, stall, are cut off and come back, under clocks that differ in rate."""

    @initialize(rates=st.lists(st.integers(-DRIFT_PPM, DRIFT_PPM), min_size=3, max_size=3))
    def start(self, rates):
        self.now = 10**12
        self.store = Store()
        self.switches = {dpid: RealSwitch() for dpid in SWITCHES}
        self.late = []
        self.owners = {}  # (switch, generation) -> incarnation: no generation id is used by two
        self.processes = [Process(self.store, 1 + i, rate, i * 10**15) for i, rate in enumerate(rates)]
        for process in self.processes:
            process.membership.set_connected(frozenset(SWITCHES))

    @rule(ms=st.integers(1, 1500))
    def time_passes(self, ms):
        self.now += ms * MS

    @rule(who=st.integers(0, 2))
    def hears(self, who):
        self.processes[who].sync(self.now)

    @rule(who=st.integers(0, 2), stored=st.sampled_from(["done"] * 6 + ["late", "lost", "stored, answer lost"]))
    def asks(self, who, stored):
        process = self.processes[who]
        if process.ask(self.now) is not None:
            change = process.finish(self.now, stored)
            if change is not None:
                self.late.append(change)

    @rule(who=st.integers(0, 2))
    def sends_and_is_stalled(self, who):
        self.processes[who].ask(self.now)

    @rule(data=st.data())
    def a_late_change_is_stored(self, data):
        if self.late:
            self.store.apply(self.late.pop(data.draw(st.integers(0, len(self.late) - 1))))

    @rule(steps=st.integers(1, 30), who=st.sets(st.integers(0, 2)))
    def some_run_on(self, steps, who):
        for _ in range(steps):
            self.now += 50 * MS
            for number in sorted(who):
                self.processes[number].sync(self.now)
                if self.processes[number].ask(self.now) is not None:
                    self.processes[number].finish(self.now)
            self.nobody_acts_beside_another()

    @rule(who=st.integers(0, 2), rate=st.integers(-DRIFT_PPM, DRIFT_PPM))
    def crashes_and_restarts(self, who, rate):
        membership = Process(self.store, 1 + who, rate, self.now)
        membership.membership.set_connected(frozenset(SWITCHES))
        self.processes[who] = membership

    @rule(who=st.integers(0, 2), switches=st.sets(st.sampled_from(SWITCHES)))
    def connections_change(self, who, switches):
        self.processes[who].membership.set_connected(frozenset(switches))

    @rule(who=st.integers(0, 2), dpid=st.sampled_from(SWITCHES), ahead=st.integers(1, 1 << 62))
    def a_switch_knows_a_later_generation(self, who, dpid, ahead):
        row = self.store.view.switches.get(dpid)
        if row is not None and dpid in self.processes[who].owned(self.now):
            known = (row.generation + ahead) % 2**64
            self.switches[dpid].generation = known
            self.processes[who].membership.refused(dpid, known)

    @invariant()
    def nobody_acts_beside_another(self):
        acting = {}
        for process in getattr(self, "processes", ()):
            for dpid, generation in process.owned(self.now).items():
                assert dpid not in acting, f"two act for switch {dpid}"
                acting[dpid] = process
                owner = self.owners.setdefault((dpid, generation), process.membership.incarnation)
                assert owner == process.membership.incarnation, "a generation id was used by two"
                self.switches[dpid].role_master(process.membership.incarnation, generation)

    @invariant()
    def a_later_owner_has_a_later_generation(self):
        for dpid, row in self.store.view.switches.items() if hasattr(self, "store") else ():
            for (switch, generation), owner in self.owners.items():
                if switch == dpid and owner != row.owner:
                    assert is_stale(generation, row.generation), "the switch would obey a former owner"


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Timeline:
    """Controllers that run their loop every 20 ms, each at a phase of its own."""

    def __init__(self, count, dpids, seed=0):
        self.random = random.Random(seed)
        self.store, self.now = Store(), 10**12
        self.dpids = frozenset(dpids)
        self.processes = [self.make(1 + number) for number in range(count)]
        self.database_until = 0  # away until then
        self.stalled = {}  # sender -> until when it does nothing

    def make(self, sender):
        process = Process(self.store, sender, self.random.randint(-500, 500), self.random.randint(0, 10**15))
        process.membership.set_connected(self.dpids)
        return process

    def run(self, ms):
        end = self.now + ms * MS
        while self.now < end:
            self.now += 10 * MS
            for process in self.random.sample(self.processes, len(self.processes)):
                stalls = self.now < self.stalled.get(process.membership.sender, 0)
                if stalls or self.now < self.database_until or self.random.random() < 0.5:
                    continue
                process.sync(self.now)
                if process.ask(self.now) is not None:
                    process.finish(self.now)

    def owners(self):
        return {dpid: p.membership.sender for p in self.processes for dpid in p.owned(self.now)}


@pytest.mark.parametrize("seed", range(5))
def test_a_dead_controllers_switches_have_new_owners_within_2_s(seed):
    line = Timeline(3, range(24), seed)
    line.run(5000 + 37 * seed)
    before = line.owners()
    assert set(before) == set(range(24)) and set(before.values()) == {1, 2, 3}
    line.processes.pop(0)
    line.run(2000)
    after = line.owners()
    assert set(after) == set(range(24)) and set(after.values()) == {2, 3}
    assert all(after[dpid] == owner for dpid, owner in before.items() if owner != 1), "the living kept theirs"
    line.processes.append(line.make(1))
    line.run(6000)
    assert line.owners() == before, "back where they were"


@pytest.mark.parametrize("seed", range(3))
def test_a_database_away_for_a_moment_moves_nothing_and_for_longer_stops_all(seed):
    line = Timeline(3, range(12), seed)
    line.run(5000)
    before = line.owners()
    generations = {dpid: row.generation for dpid, row in line.store.view.switches.items()}
    line.database_until = line.now + 600 * MS
    line.run(600)
    assert line.owners() == before
    line.run(2000)
    line.database_until = line.now + 1500 * MS
    line.run(1200)
    assert line.owners() == {}
    line.run(2000)
    assert line.owners() == before
    assert {dpid: row.generation for dpid, row in line.store.view.switches.items()} == generations


@pytest.mark.parametrize("seed", range(5))
def test_who_stalled_gets_its_switches_back_after_ten_beats(seed):
    line = Timeline(3, range(24), seed)
    line.run(5000 + 37 * seed)
    before = line.owners()
    line.stalled[1] = line.now + 1500 * MS
    line.run(1500)
    during = line.owners()
    assert set(during.values()) == {2, 3}, "others took them"
    line.run(1500)
    assert line.owners() == during, "nine beats and no more have passed"
    line.run(2000)
    assert line.owners() == before


@pytest.mark.parametrize("seed", range(3))
def test_who_stalls_again_and_again_is_passed_over_for_longer_each_time(seed):
    line = Timeline(3, range(24), seed)
    line.run(5000)
    generations = {}
    for _ in range(12):
        line.stalled[1] = line.now + 1300 * MS
        line.run(5000)
    generations = [row.generation for row in line.store.view.switches.values()]
    assert max(generations) <= 3 + 2 * 3, "not at each of the stalls"
    assert set(line.owners()) == set(range(24)) and 1 not in line.owners().values()
    line.run(140_000)
    assert set(line.owners().values()) == {1, 2, 3}


def test_who_stalls_while_nobody_takes_its_switches_keeps_them():
    line = Timeline(1, range(3))
    line.run(3000)
    line.stalled[1] = line.now + 2500 * MS
    line.run(2500)
    assert line.owners() == {}
    line.run(500)
    assert set(line.owners()) == {0, 1, 2} and {row.generation for row in line.store.view.switches.values()} == {1}


def test_a_beat_that_came_meanwhile_saves_its_sender():
    # The other looked last just before the owner, held up for nearly its lease, renewed it.
    line = Timeline(2, [7])
    line.run(4000)
    [owner] = [process for process in line.processes if process.owned(line.now)]
    [other] = [process for process in line.processes if process is not owner]

    def run_alone(process, ms):
        for _ in range(ms // 10):
            line.now += 10 * MS
            process.sync(line.now)
            if process.ask(line.now) is not None:
                process.finish(line.now)

    while owner.membership.next(owner.clock(line.now)) is None:
        line.now += MS
    owner.membership.done(line.store.apply(owner.membership._sent[0]))
    run_alone(other, 950)
    owner.sync(line.now)
    assert owner.owned(line.now) and owner.ask(line.now) is not None
    owner.finish(line.now)
    # It hears nothing more, and its own lease still holds.
    other.membership._beat_due_ns = other.clock(line.now) + 1000 * MS
    while other.ask(line.now) is None:
        line.now += MS
    assert [give.after.dpid for give in other.pending.gives] == [7] and other.membership.is_live(other.clock(line.now))
    other.finish(line.now)
    other.sync(line.now)
    assert owner.owned(line.now) and not other.owned(line.now)


def test_a_hand_over_without_an_answer_ends_acting_under_that_generation():
    line = Timeline(2, [7])
    line.run(4000)
    [owner] = [process for process in line.processes if process.owned(line.now)]
    [other] = [process for process in line.processes if process is not owner]
    owner.membership.set_connected(frozenset())
    while not isinstance(owner.ask(line.now), Changes):
        if owner.pending is not None:
            owner.finish(line.now)
        line.now += 10 * MS
        owner.sync(line.now)
    late = owner.finish(line.now, "late")
    assert not owner.owned(line.now)
    line.store.apply(late)
    other.sync(line.now)
    assert other.owned(line.now) and not owner.owned(line.now)


def test_who_lost_its_connection_to_a_switch_hands_it_over_at_once():
    line = Timeline(2, [7])
    line.run(4000)
    [owner] = [process for process in line.processes if process.owned(line.now)]
    owner.membership.set_connected(frozenset())
    line.run(500)
    assert line.owners() == {7: 3 - owner.membership.sender}


def test_who_is_drained_hands_all_over_and_gets_its_own_back():
    line = Timeline(3, range(24))
    line.run(5000)
    before = line.owners()
    drained = line.processes[0].membership
    drained.set_connected(frozenset())
    line.run(500)
    assert set(line.owners()) == set(range(24)) and drained.sender not in line.owners().values()
    drained.set_connected(frozenset(range(24)))
    line.run(500)
    assert line.owners() == before


def test_who_is_drained_acts_on_for_a_switch_that_nobody_else_is_connected_to():
    line = Timeline(1, [7])
    line.run(3000)
    line.processes[0].membership.set_connected(frozenset())
    line.run(3000)
    assert line.owners() == {7: 1} and not line.processes[0].membership.others_connected(7, line.now)


def test_a_fifth_sender_id_owns_nothing_even_when_another_died():
    line = Timeline(4, range(24))
    line.run(6000)
    line.processes.append(line.make(5))
    line.run(3000)
    assert set(line.owners().values()) == {1, 2, 3, 4}
    line.processes.pop(0)
    line.run(3000)
    assert set(line.owners()) == set(range(24)) and set(line.owners().values()) == {2, 3, 4}
    assert "sender_id 5: the cluster has 4 others" in line.processes[-1].membership.notes[0]
    line.processes.append(line.make(1))
    line.run(6000)
    assert set(line.owners().values()) == {1, 2, 3, 4}


def test_the_same_sender_id_twice_is_refused_while_the_first_lives():
    line = Timeline(1, [7])
    line.run(3000)
    line.processes.append(line.make(1))
    line.run(3000)
    assert line.processes[1].membership.epoch == 0 and len(line.owners()) == 1
    assert any("sender_id 1" in note for note in line.processes[1].membership.notes)
    first = line.processes.pop(0)
    line.run(2000)
    assert line.owners() == {7: 1}
    assert line.processes[0].membership.epoch > first.membership.epoch, "or shims would take its messages for replays"


@given(start=st.integers(0, 2**64 - 1), ahead=st.integers(1, 2**63 - 1))
def test_generation_ids_wrap(start, ahead):
    later = (start + ahead) % 2**64
    assert is_stale(start, later) and not is_stale(later, start) and not is_stale(start, start)
    assert is_stale(start, following(start))


@given(st.integers(100, 10**6), st.integers(-DRIFT_PPM, DRIFT_PPM), st.integers(-DRIFT_PPM, DRIFT_PPM))
def test_grace_outlasts_the_lease_under_any_two_clocks(lease_us, owner_ppm, other_ppm):
    terms = Terms(lease_us * 1000)
    owner_stops = terms.lease_ns / (1_000_000 + owner_ppm)
    other_takes = terms.grace_ns / (1_000_000 + other_ppm)
    assert other_takes >= owner_stops * (1 - 1e-15)


def test_switches_are_spread_and_only_the_dead_ones_move():
    dpids = range(1000)
    members = [Member(f"i{n}", n, JOINED_BEATS, 10**9, frozenset(dpids)) for n in range(5)]
    owners = {dpid: wanted_owner(dpid, members) for dpid in dpids}
    counts = [list(owners.values()).count(member.incarnation) for member in members]
    assert min(counts) > 150 and max(counts) < 250  # 200, standard deviation 13
    without = {dpid: wanted_owner(dpid, members[1:]) for dpid in dpids}
    assert all(without[dpid] == owner for dpid, owner in owners.items() if owner != "i0")


@pytest.mark.parametrize("seed", range(8))
def test_controllers_that_start_together_move_a_switch_once_each_at_most(seed):
    dpids = range(12)
    line = Timeline(2, dpids, seed)
    line.run(400)
    assert set(line.owners()) == set(dpids)
    line.processes.append(line.make(3))
    line.run(5000)
    assert set(line.owners().values()) == {1, 2, 3}
    assert max(row.generation for row in line.store.view.switches.values()) <= 3
    members = [Member(str(sender), sender, JOINED_BEATS, 10**9, frozenset(dpids)) for sender in (1, 2, 3)]
    assert line.owners() == {dpid: int(wanted_owner(dpid, members)) for dpid in dpids}


def test_a_dead_row_is_buried_and_its_owner_would_join_anew():
    line = Timeline(2, [7])
    line.run(3000)
    cut_off = line.processes.pop(0)
    line.run(35_000)
    assert cut_off.membership.incarnation not in line.store.view.members
    name = cut_off.membership.incarnation
    cut_off.sync(line.now)
    assert cut_off.membership.incarnation != name and not cut_off.owned(line.now)
    assert isinstance(line.store.view, View) and isinstance(line.store.view.switches[7], Switch)
