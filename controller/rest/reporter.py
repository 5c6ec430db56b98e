# SPDX-License-Identifier: Apache-2.0
"""What changed in the controller since a second ago, as events.

Nothing in the controller's fast paths tells REST anything: once a second the reporter looks at what there is and
compares it with what it saw before.
"""

from typing import Optional

from sdngcc.controller.engine import Engine
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rest import event_models, models
from sdngcc.controller.rest.events import Broker, Snapshot
from sdngcc.controller.rest.records import Records, Result, Sent, Stored, Subject, settled
from sdngcc.controller.rest.resource import RestContext, dpid_text, vm_state


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
        cloud_name=(port and port.name) or None,
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


class Reporter:
    """Compares and publishes."""

    def __init__(self, context: RestContext, broker: Broker) -> None:
        self.broker = broker
        self.records = Records(context.audit, broker.publish)
        self.pending_tenants: dict[str, Sent] = {}  # changes of tenants' policy, by name
        self._context = context
        self._vms: dict[str, event_models.VmRow] = {}
        self._ports: dict[str, event_models.PortRow] = {}
        self._switches: dict[int, int] = {}  # datapath id -> connected since, ns
        self._told: dict[Hop, tuple[int, int]] = {}  # messages and marks
        self._stored: dict[Hop, Stored] = {}

    def tick(self) -> None:
        """Sample the ports and publish what changed."""
        context = self._context
        context.live.sample(context.pause)
        self._publish_switches()
        self._publish_notices()
        self.settle()
        self._publish_policy()
        if self.broker.clients:
            before_vms, before_ports = self._vms, self._ports
            self._read_rows()
            vms = [row for place, row in self._vms.items() if before_vms.get(place) != row]
            gone = [place for place in before_vms if place not in self._vms]
            if vms or gone:
                self.broker.publish("vms", event_models.VmsEvent(full=False, vms=vms, gone=gone), keep=False)
            ports = [row for place, row in self._ports.items() if before_ports.get(place) != row]
            gone = [place for place in before_ports if place not in self._ports]
            if ports or gone:
                self.broker.publish("ports", event_models.PortsEvent(full=False, ports=ports, gone=gone), keep=False)

    def snapshots(self) -> list[Snapshot]:
        """Return what a newcomer must know; events that follow change it."""
        if not self.broker.clients:
            self._read_rows()
        return [
            Snapshot("vms", event_models.VmsEvent(full=True, vms=list(self._vms.values()), gone=[])),
            Snapshot("ports", event_models.PortsEvent(full=True, ports=list(self._ports.values()), gone=[])),
        ]

    def _read_rows(self) -> None:
        context = self._context
        self._vms = {place_text(vm.place): vm_row(context.engine, vm) for vm in context.vms()}
        self._ports = {}
        for dpid, ports in sorted(context.engine.topology.ports.items()):
            for number, port in sorted(ports.items()):
                pace, place = context.live.paces.get((dpid, number)), place_text((dpid, number))
                self._ports[place] = event_models.PortRow(
                    place=place,
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
        told, notices = {}, []
        for vm in self._context.vms():
            told[vm.place] = (vm.notices, vm.marks)
            messages, marks = self._told.get(vm.place, (0, 0))
            if vm.notices > messages:
                port = self._context.engine.directory.find(vm.iface_id)
                notices.append(
                    event_models.VmNotices(
                        place=place_text(vm.place),
                        id=vm.id,
                        cloud_name=(port and port.name) or None,
                        messages=vm.notices - messages,
                        marks=vm.marks - marks,
                    )
                )
        self._told = told
        if notices:
            self.broker.publish("notice", event_models.NoticeEvent(notices=notices))

    def _publish_policy(self) -> None:
        """Record what others stored in OVSDB."""
        context, vms = self._context, self._context.vms()
        for gone in self._stored.keys() - {vm.place for vm in vms}:
            del self._stored[gone]
        for vm in context.in_turns(vms):
            if vm.place in context.being_changed or vm.place in context.pending:
                continue
            now, before = context.policy.read(vm.place[0], vm.name), self._stored.get(vm.place)
            self._stored[vm.place] = now
            if before is not None and now is not None and before != now:
                self.record_change(vm, before, now, "ovsdb", None)

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
