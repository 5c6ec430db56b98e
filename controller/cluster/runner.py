# SPDX-License-Identifier: Apache-2.0
"""Keeps one controller in the cluster: runs its membership against the database, gives switches its roles.

Roles: the owner of a switch is its MASTER under the generation id the database gave it, so the switch itself
refuses a former owner. All others are SLAVE at fabric switches and EQUAL at hypervisor bridges, where the owner
of a congested port puts out its messages, whoever owns the bridge. All hear packet-ins, port changes and
removed flows, so that all know who talks to whom.

Where the controllers do not forward there are no roles: bridges are others' to command. All ask all hosts, and one of
them tells machines, the owner of WHOLE, which stands for everything in the cluster's database.
"""

import logging
import uuid
from typing import Callable, Optional, Sequence

from sdngcc.controller.cluster.database import ClusterDatabase
from sdngcc.controller.cluster.lease import Terms
from sdngcc.controller.cluster.membership import Membership
from sdngcc.controller.databases.health import Health
from sdngcc.controller.engine import Engine
from sdngcc.controller.wire import openflow

PERIOD_S = 0.02
_NO_ANSWER_BEATS = 2  # then another server is tried
_AWAY_NS = 2_000_000_000  # a database that is not ready, or takes no change, for so long is away
_ROUND_NS = 10_000_000_000  # for a turn over all of its servers
WHOLE = 0xFFFFFFFFFFFFFFFF  # no switch has this datapath id
_ROLE_XIDS = 0x80000000  # above those of the engine

LOG = logging.getLogger(__name__)


class Cluster:
    """The rim of a membership.

    ``send(dpid, data)`` puts OpenFlow bytes on a switch's connection; ``clock`` counts ns.
    """

    shared = True

    def __init__(
        self,
        remotes: Sequence[str],
        sender: int,
        lease_ms: int,
        send: Callable[[int, bytes], bool],
        clock: Callable[[], int],
        whole: bool = False,
    ) -> None:
        """With ``whole`` one controller acts for everything."""
        self._whole = whole
        self.membership = Membership(sender, Terms(lease_ms * 1_000_000), lambda: uuid.uuid4().hex)
        self._database = ClusterDatabase(remotes)
        self._send = send
        self._clock = clock
        self._engine: Engine
        self._pending = False
        self._roles: dict[int, tuple[int, int]] = {}  # connected switch -> role and generation asked for last
        self._held: dict[int, int] = {}  # switch acted for -> generation
        self._away: set[int] = set()  # switches connected to others only
        self._others: frozenset[tuple[str, int]] = frozenset()  # (controller, switch) connections seen
        self._doubted: set[int] = set()  # switches asked for the generation id they know
        self._xid = _ROLE_XIDS
        self._live = False
        self._draining = False
        now = clock()
        self.health = Health(", ".join(remotes), "cluster", now, "without a lease no switch is acted for")
        self.lease_changed_ns = now
        self._well_ns = now  # when the database was ready, and no change to it unanswered
        self._connected_ns = self._brought_ns = now  # when there was a connection; when it brought bytes
        self._contact: tuple[Optional[int], int] = (None, 0)
        self._ignored = False  # the last change had no answer

    def attach(self, engine: Engine) -> None:
        """Take the engine that acts."""
        self._engine = engine
        self._tell_connected()

    # What the engine asks

    def owns(self, dpid: int) -> bool:
        """Tell whether this controller may act for a switch now."""
        return self.membership.owns(WHOLE if self._whole else dpid, self._clock())

    def is_live(self) -> bool:
        """Tell whether it holds a lease now."""
        return self.membership.is_live(self._clock())

    def acting_for(self) -> int:
        """Return how many switches it acts for."""
        return len(self._held)

    # What a drain asks

    def drain(self, wanted: bool) -> None:
        """Tell the others that no switch is connected here, so that they get all, or be as always."""
        self._draining = wanted
        self._tell_connected()

    def held(self) -> list[int]:
        """Return the switches it acts for."""
        return sorted(self._held)

    def others_connected(self, dpid: int) -> bool:
        """Tell whether another living controller is connected to a switch."""
        return self.membership.others_connected(dpid, self._clock())

    def _tell_connected(self) -> None:
        connected = frozenset((WHOLE,)) if self._whole else frozenset(self._roles)
        self.membership.set_connected(frozenset() if self._draining else connected)

    # What the application tells

    def connected(self, dpid: int) -> None:
        """Take a switch that connected."""
        if self._whole:
            return
        self._away.discard(dpid)
        self._roles[dpid] = (openflow.ROLE_EQUAL, 0)
        if self._held.pop(dpid, None) is not None:
            self._engine.give_up(dpid)  # until it has its role and flows again
        self._send(dpid, openflow.hear_all(self._next_xid()))
        self._tell_connected()

    def disconnected(self, dpid: int) -> None:
        """Take a switch whose connection ended; it is forgotten once no other controller has one."""
        if self._whole:
            self._engine.switch_down(dpid)
            return
        self._roles.pop(dpid, None)
        self._away.add(dpid)
        self._tell_connected()

    def role_reply(self, dpid: int, role: int, generation: int) -> None:
        """Take a switch's answer to a request for a role; after a refusal it tells the generation id it knows."""
        if dpid in self._doubted and dpid in self._held and role != openflow.ROLE_MASTER:
            LOG.warning("switch %016x knows generation %d already; claiming a later one", dpid, generation)
            self.membership.refused(dpid, generation)
        self._doubted.discard(dpid)

    def role_refused(self, dpid: int, code: int) -> None:
        """Take a switch's refusal of a role; after a stale generation id it is asked for the one it knows."""
        self._engine.counters["roles_refused"] += 1
        if code == openflow.OFPRRFC_STALE:
            self._doubted.add(dpid)
            self._send(dpid, openflow.role_request(self._next_xid(), openflow.ROLE_NOCHANGE, 0))

    # The clockwork

    def run(self) -> None:
        """Do what is due; call it every PERIOD_S."""
        database, membership, now = self._database, self.membership, self._clock()
        database.run()
        self.health.own_fault = database.fault
        self._judge(now)
        if not database.has_connected():
            return
        membership.see(database.view(), now)
        if self._pending:
            give_up = membership.waiting_ns(now) > _NO_ANSWER_BEATS * membership.terms.beat_ns
            stored = database.outcome(give_up)
            if stored is not None:
                self._pending = False
                membership.done(stored)
                self._ignored = give_up and not stored
            if give_up:
                database.reconnect()
        if not self._pending:
            change = membership.next(now)
            if change is not None:
                database.start(change)
                self._pending = True
        self._act(now)

    def _judge(self, now: int) -> None:
        """Say in which state the database is, by what its servers' connections show."""
        connection, ready, received = self._database.contact()
        if connection is not None:
            self._connected_ns = now
            if received and (connection, received) != self._contact:
                self._brought_ns = now
        self._contact = (connection, received)
        if ready and not self._ignored:
            self._well_ns = now
            self.health.become("connected", now)
        elif now - self._well_ns > _AWAY_NS:
            since_ns = max(self._well_ns, now - _ROUND_NS)
            spoken, met = self._brought_ns > since_ns, self._connected_ns > since_ns
            self.health.become("no quorum" if spoken else "hung" if met else "unreachable", now)

    def _act(self, now: int) -> None:
        """Bring engine and roles in line with what is owned."""
        membership, engine = self.membership, self._engine
        for note in membership.notes:
            LOG.warning("%s", note)
        membership.notes.clear()
        live = membership.is_live(now)
        if live != self._live:
            self._live = live
            self.lease_changed_ns = now
            LOG.log(
                logging.INFO if live else logging.ERROR,
                "cluster: lease %s", "held" if live else "lost: acting for no switch until it is held again",
            )  # fmt: skip
            engine.notifier.numbering.raise_to(membership.epoch)
        owned = membership.owned(now)
        if self._whole:
            if (WHOLE in owned) != (WHOLE in self._held):
                LOG.info("cluster: %s for the whole network", "acting" if WHOLE in owned else "acting no more")
            self._held = owned
            return
        for dpid in [dpid for dpid in self._held if dpid not in owned or dpid not in self._roles]:
            del self._held[dpid]
            engine.give_up(dpid)
        for dpid in [dpid for dpid in self._roles if dpid in engine.switches]:
            self._set_role(dpid, owned)
            if dpid in owned and dpid not in self._held:
                LOG.info("cluster: acting for switch %016x, generation %d", dpid, owned[dpid])
                engine.trace.add(now, "acting", switch=f"{dpid:016x}", generation=owned[dpid])
                engine.take_over(dpid, owned[dpid] == 1)
            if dpid in owned:
                self._held[dpid] = owned[dpid]
        self._look_for_newcomers(owned)
        for dpid in [dpid for dpid in self._away if not membership.others_connected(dpid, now)]:
            self._away.discard(dpid)
            engine.switch_down(dpid)

    def _set_role(self, dpid: int, owned: dict[int, int]) -> None:
        row = self.membership.view.switches.get(dpid)
        if dpid in owned:
            wanted = (openflow.ROLE_MASTER, owned[dpid])
        elif self._engine.switches[dpid].hypervisor or row is None:
            wanted = (openflow.ROLE_EQUAL, 0)
        else:
            wanted = (openflow.ROLE_SLAVE, row.generation)
        before = self._roles[dpid]
        if wanted == before or wanted[0] == before[0] == openflow.ROLE_SLAVE:
            return
        if self._send(dpid, openflow.role_request(self._next_xid(), *wanted)):
            self._roles[dpid] = wanted

    def _look_for_newcomers(self, owned: dict[int, int]) -> None:
        """Let controllers that just connected to a switch see its links, which they may not look for themselves."""
        members = self.membership.view.members.values()
        others = frozenset((member.incarnation, dpid) for member in members for dpid in member.switches)
        if others != self._others:
            for dpid in {dpid for _, dpid in others - self._others} & owned.keys():
                self._engine.discover(dpid)
            self._others = others

    def _next_xid(self) -> int:
        self._xid = _ROLE_XIDS | (self._xid + 1) & 0x7FFFFFFF
        return self._xid
