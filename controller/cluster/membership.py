# SPDX-License-Identifier: Apache-2.0
"""One controller's membership in the cluster: what it asks of the database, and which switches it may act for.

It acts for a switch while its lease is valid, the database names it the owner, and it has not set out to
hand the switch over. A hand-over begins with not acting, then the row is changed; if the answer is lost the
row may change at any time, so the membership never acts under that generation again and claims a new one instead.
"""

import dataclasses
import time
from typing import Callable, Optional

from sdngcc.controller.cluster.lease import Lease, Returns, Terms, Watch
from sdngcc.controller.cluster.view import (
    JOINED_BEATS,
    SENDERS_MAX,
    Beat,
    Changes,
    Give,
    Join,
    Member,
    Switch,
    Transaction,
    View,
    following,
    is_stale,
    wanted_owner,
)

BURY_LEASES = 30  # a dead controller's row is removed after this many leases
_EPOCH_MAX = 0xFFFFFFFF


class Membership:
    """Decides for one controller; times are ns of its monotonic clock.

    ``new_incarnation`` gives a name no controller has had before; ``wall_s`` the seconds since 1970.
    """

    def __init__(
        self,
        sender: int,
        terms: Terms,
        new_incarnation: Callable[[], str],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.sender = sender
        self.terms = terms
        self.view = View()
        self.incarnation = new_incarnation()
        self.epoch = 0  # of its messages; 0: not joined yet
        self.notes: list[str] = []  # for the operator; the caller takes them away
        self._new_incarnation = new_incarnation
        self._wall_s = wall_s
        self._lease = Lease(terms)
        self._watch = Watch()
        self._returns = Returns()
        self._joined = False
        self._connected: frozenset[int] = frozenset()
        self._left: dict[int, int] = {}  # switch -> generation under which it is not acted for any more
        self._known: dict[int, int] = {}  # switch -> generation it knows, newer than the database's
        self._beat_due_ns = 0
        self._sent: Optional[tuple[Transaction, int]] = None
        self._settled: Optional[tuple[object, ...]] = None  # what a plan found nothing to do about
        self._in_use_told = False

    # What it may do

    def is_live(self, now_ns: int) -> bool:
        """Tell whether it holds a lease."""
        return self._lease.is_valid(now_ns)

    def owned(self, now_ns: int) -> dict[int, int]:
        """Return the switches it may act for, with their generation ids."""
        if not self.is_live(now_ns):
            return {}
        return {
            dpid: row.generation
            for dpid, row in self.view.switches.items()
            if row.owner == self.incarnation and self._left.get(dpid) != row.generation
        }

    def owns(self, dpid: int, now_ns: int) -> bool:
        """Tell whether it may act for a switch."""
        row = self.view.switches.get(dpid)
        return (
            row is not None
            and row.owner == self.incarnation
            and self._left.get(dpid) != row.generation
            and self.is_live(now_ns)
        )

    def others_connected(self, dpid: int, now_ns: int) -> bool:
        """Tell whether another living controller is connected to a switch."""
        return any(dpid in member.switches and member.incarnation != self.incarnation for member in self._alive(now_ns))

    # What it learns

    def see(self, view: View, now_ns: int) -> None:
        """Take what the database says now."""
        self.view = view
        beats = {member.incarnation: (member.beat, member.lease_ns) for member in view.members.values()}
        self._watch.see(beats, now_ns)
        self._returns.see(beats, now_ns)
        if self._joined and self.incarnation not in view.members:
            self.notes.append("cluster: this controller was given up for dead by the others; joining again")
            self._leave()
        self._left = {
            dpid: generation
            for dpid, generation in self._left.items()
            if dpid in view.switches and view.switches[dpid].generation == generation
        }

    def _leave(self) -> None:
        self._lease.end()
        self._joined = False
        self.incarnation = self._new_incarnation()

    def set_connected(self, switches: frozenset[int]) -> None:
        """Take the set of switches connected to this controller; told to the others with the next beat."""
        if switches != self._connected:
            self._connected = switches
            self._beat_due_ns = 0

    def refused(self, dpid: int, generation: int) -> None:
        """Take note that a switch knows a later generation id than the database: a later one is claimed."""
        row = self.view.switches.get(dpid)
        if row is not None and is_stale(row.generation, generation):
            self._known[dpid] = generation

    # What it asks of the database

    def next(self, now_ns: int) -> Optional[Transaction]:
        """Return the transaction to send now, if any; one at a time, its end is told to done()."""
        if self._sent is not None:
            return None
        found: Optional[Transaction] = None
        if not self._joined:
            found = self._join(now_ns)
        elif now_ns >= self._beat_due_ns:
            row = self.view.members[self.incarnation]
            found = Beat(self.incarnation, row.beat + 1, self._connected)
        elif self.is_live(now_ns):
            found = self._plan(now_ns)
        if found is not None:
            self._sent = (found, now_ns)
        if isinstance(found, (Join, Beat)):
            self._beat_due_ns = now_ns + self.terms.beat_ns
        return found

    def waiting_ns(self, now_ns: int) -> int:
        """Return how long the answer to a transaction has been awaited; 0 when none is."""
        return now_ns - self._sent[1] if self._sent else 0

    def done(self, stored: bool) -> None:
        """Take the end of the transaction sent last; see() comes before it with what is stored.

        ``stored`` is False when it was refused, and when nobody knows: then it may be stored now or later.
        """
        assert self._sent is not None
        transaction, sent_ns = self._sent
        self._sent = None
        if isinstance(transaction, Join):
            if stored:
                self._joined, self.epoch = True, transaction.epoch
                self._renewed(sent_ns)
            else:
                self.incarnation = self._new_incarnation()  # the other may still be stored, and then die
        elif isinstance(transaction, Beat) and stored:
            self._renewed(sent_ns)

    def _renewed(self, sent_ns: int) -> None:
        if not self.is_live(sent_ns):
            self._watch.restart(sent_ns)
            row = self.view.members.get(self.incarnation)
            if self._lease.until_ns is not None and row is not None:
                self._returns.returned(self.incarnation, row.beat, sent_ns)
        self._lease.renewed(sent_ns)

    def _alive(self, now_ns: int) -> list[Member]:
        return [
            member
            for member in self.view.members.values()
            if member.incarnation == self.incarnation or self._watch.is_alive(member.incarnation, now_ns)
        ]

    def _join(self, now_ns: int) -> Optional[Join]:
        if now_ns < self._beat_due_ns:
            return None
        twin = next((member for member in self._alive(now_ns) if member.sender == self.sender), None)
        if twin is not None:
            if not self._in_use_told and self._watch.silent_ns(twin.incarnation, now_ns) == 0:
                self.notes.append(
                    f"sender_id {self.sender}: another controller has it, or had it a moment ago; waiting for its end"
                )
                self._in_use_told = True
            return None
        before = self.view.epochs.get(self.sender)
        if before is None and len(self.view.epochs) >= SENDERS_MAX:
            if not self._in_use_told:
                taken = ", ".join(str(sender) for sender in sorted(self.view.epochs))
                self.notes.append(
                    f"sender_id {self.sender}: the cluster has {SENDERS_MAX} others, as many as it may have; "
                    f"allowed: {taken}; acting for no switch"
                )
                self._in_use_told = True
            return None
        epoch = min(max(int(self._wall_s()), (before or 0) + 1, 1), _EPOCH_MAX)
        member = Member(self.incarnation, self.sender, 0, self.terms.lease_ns, self._connected)
        return Join(member, epoch, before)

    def _plan(self, now_ns: int) -> Optional[Changes]:
        """Return what is to change in who owns what."""
        alive = [
            dataclasses.replace(one, beat=self._returns.beats_since(one.incarnation, one.beat))
            for one in self._alive(now_ns)
        ]
        names = {member.incarnation for member in alive}
        near = tuple((member.incarnation, member.beat >= JOINED_BEATS, member.switches) for member in alive)
        state = (near, self._connected, dict(self.view.switches), dict(self._left), dict(self._known))
        if state == self._settled and len(names) == len(self.view.members):
            return None
        self._settled = state
        gives = []
        for dpid in sorted(self._connected | self.view.switches.keys()):
            row = self.view.switches.get(dpid)
            wanted = wanted_owner(dpid, alive, row.owner if row else "")
            if wanted is None or (row is not None and row.owner == wanted and wanted != self.incarnation):
                continue
            after = Switch(dpid, wanted, self._generation(dpid, row))
            if row is None or not row.owner:
                if wanted == self.incarnation:
                    gives.append(Give(row, after))
            elif row.owner == self.incarnation:
                if wanted != self.incarnation:
                    self._left[dpid] = row.generation
                    gives.append(Give(row, after))
                elif self._left.get(dpid) == row.generation or self._is_behind(row):
                    gives.append(Give(row, after))
            elif wanted == self.incarnation and row.owner not in names:
                owner = self.view.members.get(row.owner)
                gives.append(Give(row, after, owner.beat if owner else None))
        buried = tuple(
            (member.incarnation, member.beat)
            for member in self.view.members.values()
            if member.incarnation not in names
            and self._watch.silent_ns(member.incarnation, now_ns) > BURY_LEASES * member.lease_ns
        )
        if not gives and not buried:
            return None
        self._settled = None
        return Changes(tuple(gives), buried)

    def _is_behind(self, row: Switch) -> bool:
        """Tell whether a switch is known to refuse the database's generation id."""
        known = self._known.get(row.dpid)
        return known is not None and is_stale(row.generation, known)

    def _generation(self, dpid: int, row: Optional[Switch]) -> int:
        """Return a generation id later than both the database's and what the switch is known to know."""
        if row is None:
            return following(self._known.get(dpid, 0))
        return following(self._known[dpid] if self._is_behind(row) else row.generation)
