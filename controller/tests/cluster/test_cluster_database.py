# SPDX-License-Identifier: Apache-2.0
"""Memberships over three real ovsdb-servers in Raft, whose leader is killed."""

import itertools
import time

import pytest

from sdngcc.controller.cluster.database import ClusterDatabase
from sdngcc.controller.cluster.lease import Terms
from sdngcc.controller.cluster.membership import Membership
from sdngcc.controller.cluster.view import Beat, Changes, Give, Join, Member, Switch

from ..processes import wait_for
from .raft import INSTALLED, Raft

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated"),
    pytest.mark.skipif(not INSTALLED, reason="ovsdb-server is not installed"),
]
LEASE = Terms(5_000_000_000)  # a busy machine must not make a lease run out by itself


class Process:
    names = itertools.count()

    def __init__(self, raft, sender):
        self.database = ClusterDatabase(raft.remotes.split(","))
        self.membership = Membership(sender, LEASE, lambda: f"incarnation-{next(self.names)}")
        self.membership.set_connected(frozenset({1, 2, 3, 0xFFFFFFFFFFFFFFFF}))
        self.pending = False

    def run(self):
        now = time.monotonic_ns()
        self.database.run()
        if not self.database.has_connected():
            return
        self.membership.see(self.database.view(), now)
        if self.pending:
            give_up = self.membership.waiting_ns(now) > LEASE.beat_ns
            stored = self.database.outcome(give_up)
            if stored is not None:
                self.pending = False
                self.membership.done(stored)
            if give_up:
                self.database.reconnect()
        if not self.pending:
            change = self.membership.next(now)
            if change is not None:
                self.database.start(change)
                self.pending = True

    def owned(self):
        return self.membership.owned(time.monotonic_ns())


@pytest.fixture
def raft(tmp_path):
    cluster = Raft(tmp_path)
    yield cluster
    cluster.stop()


def test_ownership_through_the_death_of_a_leader_and_of_a_member(raft):
    processes = [Process(raft, 1), Process(raft, 2)]

    def shared():
        for process in processes:
            process.run()
        return [process.owned() for process in processes]

    def all_owned():
        owned = shared()
        return sum(len(one) for one in owned) == 4 and len(set().union(*owned)) == 4 and all(owned)

    def told():
        return "\n".join([raft.dump("Controller"), raft.dump("Switch"), str([p.owned() for p in processes])])

    wait_for(all_owned, told)
    before = shared()
    beats = {name: member.beat for name, member in processes[0].membership.view.members.items()}
    raft.kill(raft.leader())
    # Beats go on under the new leader, and nothing changed hands.
    wait_for(
        lambda: (
            shared()
            and all(processes[0].membership.view.members[name].beat > beat + 1 for name, beat in beats.items())
        ),
        told,
    )
    assert shared() == before
    processes.pop(0)
    wait_for(lambda: len(shared()[0]) == 4, told)
    generations = processes[0].owned()
    assert all(generations[dpid] > generation for dpid, generation in before[0].items())
    assert all(generations[dpid] == generation for dpid, generation in before[1].items())


def store(raft, database, change):
    """Send a change made from what was read last; return whether it was stored."""
    database.start(change)
    ended = []

    def over():
        database.run()
        ended.append(database.outcome(False))
        return ended[-1] is not None

    wait_for(over, lambda: raft.dump("Controller"))
    return ended[-1]


def test_a_takeover_is_refused_when_its_owner_beat_since(raft):
    owner, heir = (ClusterDatabase(raft.remotes.split(",")) for _ in range(2))

    def read(database, members):
        def seen():
            database.run()
            return len(database.view().members) == members

        wait_for(lambda: database.has_connected() and seen() or database.run(), lambda: raft.dump("Controller"))

    before, after = Switch(1, "owner", 1), Switch(1, "heir", 2)
    read(owner, 0)
    assert store(raft, owner, Join(Member("owner", 1, 0, LEASE.lease_ns), 1, None))
    assert store(raft, owner, Changes((Give(None, before),)))
    read(heir, 1)
    assert store(raft, heir, Join(Member("heir", 2, 0, LEASE.lease_ns), 1, None))
    takeover = Changes((Give(before, after, dead_beat=0),))
    read(owner, 2)
    assert store(raft, owner, Beat("owner", 1, frozenset()))
    assert not store(raft, heir, takeover)
    assert heir.view().switches[1] == before
    assert store(raft, heir, Changes((Give(before, after, dead_beat=1),)))
    # The database itself takes no fifth sender id.
    joins = [Join(Member(f"c{sender}", sender, 0, LEASE.lease_ns), 1, None) for sender in (3, 4, 5)]
    assert [store(raft, heir, join) for join in joins] == [True, True, False]
