# SPDX-License-Identifier: Apache-2.0
"""The cluster in memory: a database that stores changes one after another, controllers with clocks of their own."""

import dataclasses
import itertools

from sdngcc.controller.cluster.lease import Terms
from sdngcc.controller.cluster.membership import Membership
from sdngcc.controller.cluster.view import Beat, Changes, Join, View, is_stale

TERMS = Terms(1_000_000_000)


class Store:
    """The database: transactions in one order, each whole or not at all."""

    def __init__(self):
        self.view = View()

    def apply(self, change):
        members, switches, epochs = dict(self.view.members), dict(self.view.switches), dict(self.view.epochs)
        if isinstance(change, Join):
            if change.member.incarnation in members or epochs.get(change.member.sender) != change.epoch_before:
                return False
            members[change.member.incarnation] = change.member
            epochs[change.member.sender] = change.epoch
        elif isinstance(change, Beat):
            row = members.get(change.incarnation)
            if row is None or row.beat != change.number - 1:
                return False
            members[change.incarnation] = dataclasses.replace(row, beat=change.number, switches=change.switches)
        else:
            assert isinstance(change, Changes)
            for give in change.gives:
                if switches.get(give.after.dpid) != give.before:
                    return False
                if give.dead_beat is not None:
                    owner = members.get(give.before.owner)
                    if owner is None or owner.beat != give.dead_beat:
                        return False
                switches[give.after.dpid] = give.after
            for incarnation, beat in change.buried:
                if incarnation not in members or members[incarnation].beat != beat:
                    return False
                del members[incarnation]
        self.view = View(members, switches, epochs)
        return True


class Process:
    """One controller: a membership, a clock that runs a little wrong, and its place in the database's history."""

    names = itertools.count()

    def __init__(self, store, sender, rate_ppm=0, offset_ns=0):
        self.store, self.rate_ppm, self.offset_ns = store, rate_ppm, offset_ns
        self.membership = Membership(sender, TERMS, lambda: f"i{next(self.names)}", lambda: 1_790_000_000)
        self.pending = None

    def clock(self, now_ns):
        return self.offset_ns + now_ns * (1_000_000 + self.rate_ppm) // 1_000_000

    def sync(self, now_ns):
        self.membership.see(self.store.view, self.clock(now_ns))

    def ask(self, now_ns):
        if self.pending is None:
            self.pending = self.membership.next(self.clock(now_ns))
        return self.pending

    def finish(self, now_ns, fate="done"):
        """End the pending transaction; return it if it may still be stored later."""
        change, self.pending = self.pending, None
        if fate == "done":
            stored = self.store.apply(change)
            if stored:
                self.sync(now_ns)  # the database tells of a change before it answers
            self.membership.done(stored)
            return None
        if fate == "stored, answer lost":
            self.store.apply(change)
        self.membership.done(False)
        return change if fate == "late" else None

    def owned(self, now_ns):
        return self.membership.owned(self.clock(now_ns))


class RealSwitch:
    """What a switch does with roles: one master, no stale generation id."""

    def __init__(self):
        self.generation = None
        self.master = None

    def role_master(self, who, generation):
        if self.generation is not None and is_stale(generation, self.generation):
            return False
        self.generation, self.master = generation, who
        return True
