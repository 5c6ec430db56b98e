# SPDX-License-Identifier: Apache-2.0
"""The cluster's database: sdngcc.ovsschema in ovsdb-servers joined by Raft, by python-ovs' IDL.

Any server of the cluster will do, the leader or another: what a transaction expects is judged by the leader,
and updates come before the answer to a transaction from every server. A client that insisted on the leader
would have to look for the new one when that dies, with the IDL's pause of a second after each round. Nothing here
blocks.
"""

import json
import logging
import pathlib
import time
from typing import Any, Optional, Sequence

from sdngcc.controller.cluster.view import (
    GENERATION_MASK,
    Beat,
    Changes,
    Join,
    Member,
    Switch,
    Transaction,
    View,
)
from sdngcc.controller.databases.ovsdb import expect
from sdngcc.controller.databases.transport import Bounds, Gate, Replica

SCHEMA = pathlib.Path(__file__).with_name("sdngcc.ovsschema")
TABLES = ("Controller", "Switch", "Sender")  # the others are databases/tenants.py's; an older database lacks them
PROBE_MS = 1000

LOG = logging.getLogger(__name__)


def _tables() -> Any:
    """Return python-ovs' helper for the tables wanted."""
    from ovs.db import idl

    helper = idl.SchemaHelper(schema_json=json.loads(SCHEMA.read_text("utf-8")))
    for table in TABLES:
        helper.register_table(table)
    return helper


def _signed(generation: int) -> int:
    return generation - (1 << 64) if generation >> 63 else generation


class ClusterDatabase:
    """A client of the cluster's database; ``remotes`` are OVSDB connection methods."""

    def __init__(self, remotes: Sequence[str]) -> None:
        from ovs.db.idl import Transaction

        self.remotes = tuple(remotes)
        self._kinds = Transaction
        self._gate = Gate(Bounds(), time.sleep, time.monotonic_ns)
        self._replica = Replica(",".join(remotes), _tables, self._gate, leader_only=False, probe_ms=PROBE_MS)
        self.fault: Optional[str] = None  # why a connection was ended, until one is sound for a while
        self._transaction: Any = None
        self._seen = (0, 0)  # version of the rows that the view is made of
        self._view = View()

    def run(self) -> None:
        """Take in what the database sent."""
        ended = self._replica.run()
        if ended is not None:
            self.fault = f"closed the connection to it ({ended[0].value}): {ended[1]}"
            LOG.error("cluster: %s; connecting again in %g s", self.fault, self._gate.hold_ns / 1e9)
        elif self._replica.ready and self._gate.forgive():
            self.fault = None

    @property
    def _idl(self) -> Any:
        return self._replica.idl

    def close(self) -> None:
        """End the connection."""
        self._idl.close()

    def contact(self) -> tuple[Optional[int], bool, int]:
        """Return the connection's number, whether all tables were read by it, and the bytes it brought."""
        connection = self._replica.connection
        if connection is None:
            return None, False, 0
        return connection, self._replica.ready, self._replica.received()

    def has_connected(self) -> bool:
        """Tell whether the tables were ever read."""
        return bool(self._idl.has_ever_connected())

    def reconnect(self) -> None:
        """Leave a server that does not answer, for the next one."""
        self._idl.force_reconnect()

    def view(self) -> View:
        """Return what the database says, as of the last run()."""
        if self._replica.version != self._seen:
            self._seen = self._replica.version
            tables = self._idl.tables
            members = [
                Member(row.incarnation, row.sender, row.beat, row.lease_ms * 1_000_000, _dpids(row.switches))
                for row in tables["Controller"].rows.values()
            ]
            switches = [
                Switch(int(row.dpid, 16), row.owner, row.generation & GENERATION_MASK)
                for row in tables["Switch"].rows.values()
            ]
            self._view = View(
                {member.incarnation: member for member in members},
                {switch.dpid: switch for switch in switches},
                {row.sender: row.epoch for row in tables["Sender"].rows.values()},
            )
        return self._view

    def start(self, change: Transaction) -> None:
        """Send a transaction made from the last view(); its end is told by outcome()."""
        transaction = self._kinds(self._idl)
        if isinstance(change, Join):
            self._join(transaction, change)
        elif isinstance(change, Beat):
            row = self._row("Controller", "incarnation", change.incarnation)
            row.verify("beat")
            row.beat = change.number
            names = [f"{dpid:016x}" for dpid in sorted(change.switches)]
            if row.switches != names:
                row.switches = names
        else:
            self._change(transaction, change)
        transaction.commit()
        self._transaction = transaction

    def _join(self, transaction: Any, change: Join) -> None:
        row = transaction.insert(self._idl.tables["Controller"])
        row.incarnation, row.sender, row.beat = change.member.incarnation, change.member.sender, change.member.beat
        row.lease_ms = change.member.lease_ns // 1_000_000
        row.switches = [f"{dpid:016x}" for dpid in sorted(change.member.switches)]
        sender = self._row("Sender", "sender", change.member.sender)
        if sender is None:
            sender = transaction.insert(self._idl.tables["Sender"])
            sender.sender = change.member.sender
        else:
            sender.verify("epoch")
        sender.epoch = change.epoch

    def _change(self, transaction: Any, change: Changes) -> None:
        for give in change.gives:
            row = self._row("Switch", "dpid", f"{give.after.dpid:016x}")
            if row is None:
                row = transaction.insert(self._idl.tables["Switch"])
                row.dpid = f"{give.after.dpid:016x}"
            else:
                row.verify("owner")
                row.verify("generation")
            if give.before is not None and give.dead_beat is not None:
                expect(self._row("Controller", "incarnation", give.before.owner), "beat")
            row.owner = give.after.owner
            row.generation = _signed(give.after.generation)
        for incarnation, _ in change.buried:
            row = self._row("Controller", "incarnation", incarnation)
            row.verify("beat")
            row.delete()

    def _row(self, table: str, column: str, value: Any) -> Any:
        rows = self._idl.tables[table].rows.values()
        return next((row for row in rows if getattr(row, column) == value), None)

    def outcome(self, give_up: bool) -> Optional[bool]:
        """Return whether the transaction was stored, None while that is not known; ``give_up`` ends the waiting.

        False also means that nobody knows: the IDL tells a refusal and a lost connection alike.
        """
        status = self._transaction.commit()
        kinds = self._kinds
        if status == kinds.INCOMPLETE and not give_up:
            return None
        if status == kinds.INCOMPLETE:
            self._transaction.abort()
        elif status not in (kinds.SUCCESS, kinds.UNCHANGED, kinds.TRY_AGAIN):
            LOG.error("cluster: the database refused a change: %s", self._transaction.get_error() or status)
        self._transaction = None
        return status in (kinds.SUCCESS, kinds.UNCHANGED)


def _dpids(names: Sequence[str]) -> frozenset[int]:
    return frozenset(int(name, 16) for name in names)
