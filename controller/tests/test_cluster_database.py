# SPDX-License-Identifier: Apache-2.0
"""Seats over three real ovsdb-servers in Raft, whose leader is killed."""

import itertools
import time

import pytest

from sdngcc.controller.cluster.database import ClusterDatabase
from sdngcc.controller.cluster.lease import Terms
from sdngcc.controller.cluster.seat import Seat

from .raft import INSTALLED, Raft
from .wire import wait_for

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated"),
    pytest.mark.skipif(not INSTALLED, reason="ovsdb-server is not installed"),
]
LEASE = Terms(5_000_000_000)  # a busy machine must not make a lease run out by itself


class Process:
    names = itertools.count()

    def __init__(self, raft, sender):
        self.database = ClusterDatabase(raft.remotes.split(","))
        self.seat = Seat(sender, LEASE, lambda: f"incarnation-{next(self.names)}")
        self.seat.set_connected(frozenset({1, 2, 3, 0xFFFFFFFFFFFFFFFF}))
        self.pending = False

    def run(self):
        now = time.monotonic_ns()
        self.database.run()
        if not self.database.has_connected():
            return
        self.seat.see(self.database.view(), now)
        if self.pending:
            give_up = self.seat.waiting_ns(now) > LEASE.beat_ns
            stored = self.database.outcome(give_up)
            if stored is not None:
                self.pending = False
                self.seat.done(stored)
            if give_up:
                self.database.reconnect()
        if not self.pending:
            change = self.seat.next(now)
            if change is not None:
                self.database.start(change)
                self.pending = True

    def owned(self):
        return self.seat.owned(time.monotonic_ns())


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
    beats = {name: member.beat for name, member in processes[0].seat.view.members.items()}
    raft.kill(raft.leader())
    # Beats go on under the new leader, and nothing changed hands.
    wait_for(
        lambda: shared() and all(processes[0].seat.view.members[name].beat > beat + 1 for name, beat in beats.items()),
        told,
    )
    assert shared() == before
    processes.pop(0)
    wait_for(lambda: len(shared()[0]) == 4, told)
    generations = processes[0].owned()
    assert all(generations[dpid] > generation for dpid, generation in before[0].items())
    assert all(generations[dpid] == generation for dpid, generation in before[1].items())
