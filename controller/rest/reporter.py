# SPDX-License-Identifier: Apache-2.0
"""What changed in the controller since a second ago, as events.

Nothing in the controller's fast paths tells REST anything: once a second the reporter looks at what there is and
compares it with what it saw before.
"""

import contextlib
import json
from typing import Any, Callable, ContextManager, Generic, Hashable, Iterable, Iterator, Optional, TypeVar, Union

from sdngcc.controller.engine import Engine
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rest import event_models, models
from sdngcc.controller.rest.events import Broker, Client, Joiner, Pieces, Snapshot
from sdngcc.controller.rest.records import Records, Result, Sent, Stored, Subject, settled
from sdngcc.controller.rest.resource import RestContext, dpid_text, vm_state

Key = TypeVar("Key", bound=Hashable)
InTurns = Callable[[Iterable[Any]], Iterable[Any]]


def place_text(place: Hop) -> str:
    """Return a switch's port as events name it."""
    return f"{place[0]:016x}:{place[1]}"


def vm_row(engine: Engine, vm: VmRecord) -> event_models.VmRow:
    """Return what moves of a machine, and what it is called."""
    reading, port = vm.reading, engine.directory.find(vm.iface_id)
    return event_models.VmRow(
        place=place_text(vm.place),
        id=vm.id,
        name=vm.name,
        cloud_name=(port and (port.name or port.server)) or None,
        network=(port and (port.network or port.network_id)) or None,
        tenant=engine.tenants.name_of(vm),
        state=vm_state(vm),
        rate_bps=reading and reading.rate * 8,
        share_bps=reading and reading.share * 8,
        sent_bps=reading and reading.sent_rate * 8,
        weight=reading and reading.weight,
        min_bps=reading and reading.min_rate * 8,
        max_bps=reading and reading.max_rate * 8,
        drops=reading and reading.drops,
        marks=vm.marks,
    )


class Seen(Generic[Key]):
    """Which of many were there in a pass over all, and which of the pass before were not.

    To compare two sets that are as large would hold others up, and so would freeing one of them.
    """

    def __init__(self, in_turns: InTurns) -> None:
        self._in_turns = in_turns
        self._passes: dict[Key, int] = {}  # in which each was there last
        self._number = self._count = 0

    def begin(self) -> None:
        """Begin a pass."""
        self._number, self._count = self._number + 1, 0

    def note(self, key: Key) -> None:
        """Take note of one, once in a pass."""
        self._passes[key] = self._number
        self._count += 1

    def gone(self) -> list[Key]:
        """End the pass: return those that are not there any more."""
        if self._count == len(self._passes):
            return []
        found = [key for key in self._in_turns(list(self._passes)) if self._passes[key] != self._number]
        for key in found:
            del self._passes[key]
        return found


class Rows:
    """What newcomers are told of everything of a kind, as JSON by place; read() tells what became different.

    Rows are taken one by one, and others run between them: ``in_turns`` yields what it is given.
    """

    def __init__(self, kind: str, in_turns: InTurns) -> None:
        self.kind = kind
        self._in_turns = in_turns
        self._rows: dict[str, bytes] = {}
        self._seen: Seen[str] = Seen(in_turns)

    def snapshot(self) -> Snapshot:
        """Return the event that tells of all."""
        joiner = self._joiner(True)
        for row in self._in_turns(list(self._rows.values())):
            joiner.add(row)
        return Snapshot(self.kind, joiner.end(_tail([])))

    def _joiner(self, full: bool) -> Joiner:
        return Joiner(b'{"full":%b,"%b":[' % (json.dumps(full).encode(), self.kind.encode()))

    def read(self, found: Iterable[Union[event_models.VmRow, event_models.PortRow]]) -> Optional[Pieces]:
        """Take all rows there are; return the data of the event that tells what changed, None: nothing."""
        try:
            return self._read(found)
        except BaseException:
            self._rows.clear()  # nobody was told what changed so far, so all is told anew
            raise

    def _read(self, found: Iterable[Union[event_models.VmRow, event_models.PortRow]]) -> Optional[Pieces]:
        joiner = self._joiner(False)
        self._seen.begin()
        for one in found:
            self._seen.note(one.place)
            row = one.model_dump_json().encode()
            if self._rows.get(one.place) != row:
                self._rows[one.place] = row
                joiner.add(row)
        gone = self._seen.gone()
        for place in gone:
            self._rows.pop(place, None)
        return None if joiner.empty and not gone else joiner.end(_tail(gone))


def _tail(gone: list[str]) -> bytes:
    """Return the end of an event of rows."""
    return b'],"gone":%b}' % json.dumps(gone).encode()


class Reporter:
    """Compares and publishes.

    Others run while it does: who wants to listen meanwhile waits for ``turn``, a lock.
    """

    def __init__(self, context: RestContext, broker: Broker, turn: Optional[ContextManager[Any]] = None) -> None:
        self.broker = broker
        self.records = Records(context.audit, broker.publish)
        self.pending_tenants: dict[str, Sent] = {}  # changes of tenants' policy, by name
        self._context = context
        self._turn = contextlib.nullcontext() if turn is None else turn
        self._vms, self._ports = Rows("vms", context.in_turns), Rows("ports", context.in_turns)
        self._switches: dict[int, int] = {}  # datapath id -> connected since, ns
        self._told: dict[Hop, tuple[int, int]] = {}  # messages and marks
        self._machines: Seen[Hop] = Seen(context.in_turns)
        self._stored: dict[Hop, Stored] = {}

    def tick(self) -> None:
        """Sample the ports and publish what changed."""
        context = self._context
        context.live.sample(context.pause)
        self.broker.sweep()
        self._publish_switches()
        self._publish_notices()
        self.settle()
        self._publish_policy()
        with self._turn:
            if self.broker.clients:
                for kind, data in self._read_rows():
                    if data is not None:
                        self.broker.publish_data(kind, data, keep=False)

    def join(self, last_id: Optional[str], abort: Callable[[], None], peer: str = "") -> Optional[Client]:
        """Let somebody at an address listen, who is told of everything first; None when there are too many.

        Events that follow change what was told. Raises ValueError for a ``last_id`` that no controller gives.
        """
        with self._turn:
            if not self.broker.clients:
                for _ in self._read_rows():
                    pass
            return self.broker.join(last_id, [self._vms.snapshot(), self._ports.snapshot()], abort, peer)

    def _read_rows(self) -> Iterator[tuple[str, Optional[Pieces]]]:
        """Yield the kinds of rows, each with the data of the event that tells what changed."""
        for rows, found in ((self._vms, self._vm_rows()), (self._ports, self._port_rows())):
            yield rows.kind, rows.read(found)
            self._context.pause()

    def _vm_rows(self) -> Iterator[event_models.VmRow]:
        return (vm_row(self._context.engine, vm) for vm in self._context.vms_in_turns())

    def _port_rows(self) -> Iterator[event_models.PortRow]:
        paces = self._context.live.paces
        for place, port in self._context.ports_in_turns():
            pace = paces.get(place)
            yield event_models.PortRow(
                place=place_text(place),
                name=port.name,
                up=port.up,
                congested=pace and pace.congested,
                marks_per_s=pace and pace.marks_per_s,
                tx_bps=pace and pace.tx_bps,
            )

    def _publish_switches(self) -> None:
        now = {dpid: switch.since_ns for dpid, switch in self._context.engine.switches.items()}
        for dpid in sorted({*now, *self._switches}):
            if dpid in self._switches and self._switches[dpid] != now.get(dpid):
                self.broker.publish("switch", event_models.SwitchEvent(switch=dpid_text(dpid), connected=False))
            if dpid in now and self._switches.get(dpid) != now[dpid]:
                self.broker.publish("switch", event_models.SwitchEvent(switch=dpid_text(dpid), connected=True))
            self._context.pause()  # many at once must not fill the clients' queues
        self._switches = now

    def _publish_notices(self) -> None:
        notices = Joiner(b'{"notices":[')
        for vm in self._context.vms_in_turns():
            messages, marks = self._told.get(vm.place, (0, 0))
            if vm.notices != messages:
                self._told[vm.place] = (vm.notices, vm.marks)
            if vm.notices > messages:
                port = self._context.engine.directory.find(vm.iface_id)
                notice = event_models.VmNotices(
                    place=place_text(vm.place),
                    id=vm.id,
                    cloud_name=(port and (port.name or port.server)) or None,
                    messages=vm.notices - messages,
                    marks=vm.marks - marks,
                )
                notices.add(notice.model_dump_json().encode())
        if not notices.empty:
            self.broker.publish_data("notice", notices.end(b"]}"))

    def _publish_policy(self) -> None:
        """Record what others stored in OVSDB; forget machines that are gone."""
        context = self._context
        self._machines.begin()
        for vm in context.vms_in_turns():
            self._machines.note(vm.place)
            if vm.place in context.being_changed or vm.place in context.pending:
                continue
            now, before = context.policy.read(vm.place[0], vm.name), self._stored.get(vm.place)
            self._stored[vm.place] = now
            if before is not None and now is not None and before != now:
                self.record_change(vm, before, now, "ovsdb", None)
        for gone in self._machines.gone():
            self._stored.pop(gone, None)
            self._told.pop(gone, None)

    def settle(self) -> None:
        """Record what became of the changes that were in doubt, where their databases tell by now."""
        for place, change, stored in settled(self._context.pending):
            after = self._context.policy.read(place[0], change.vm.name)
            self.records.settle(_subject(change.vm), change, after, stored)
            self._stored[place] = after
        for name, sent, stored in settled(self.pending_tenants):
            self.records.settle(Subject(tenant=name), sent, self._context.tenants.read().get(name), stored)

    def record_change(
        self,
        vm: VmRecord,
        before: Stored,
        after: Stored,
        who: str,
        address: Optional[str],
        error: Optional[str] = None,
        result: Result = "stored",
        settles: Optional[str] = None,
    ) -> models.AuditRecord:
        """Record a change of a machine's policy, or what became of an attempt; return the record."""
        self._stored[vm.place] = after
        return self.records.add(_subject(vm), before, after, who, address, error, result, settles)


def _subject(vm: VmRecord) -> Subject:
    return Subject(vm=vm.id, place=vm.bridge_id)
