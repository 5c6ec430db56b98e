# SPDX-License-Identifier: Apache-2.0
"""The state of virtual machines: what bridges or hosts report of them, and what databases call them.

Thousands of bridges answer in each period, and most tell of the same machines as before.  So answers may be put off
until a round has all of them, and are then compared with those before, many at a time, in C (native/reading.c).
"""

import collections
import logging
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

import numpy as np

from sdngcc.controller import budget
from sdngcc.controller.native import reading
from sdngcc.controller.network.by_port import BySwitch, Port, by_switch, moved
from sdngcc.controller.network.inventory import Answer, SwitchRecord, VmRecord
from sdngcc.controller.network.paths import Tunnel
from sdngcc.controller.network.topology import Topology
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.rates.numbering import Numbering
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import experimenter, openflow

STATE_LOST_NS = 2_000_000_000
TOGETHER = 32  # answers that are taken at a time: more would make what is left to do after the last one longer

_XID = 4  # where a request's transaction id is
_PATHS = experimenter.host_paths_request(0, 0, 0)

LOG = logging.getLogger(__name__)

Known = TypeVar("Known")
PortNames = Mapping[Port, str]  # (datapath id, port name) -> id of the machine


class _Late(NamedTuple):
    """An answer that was put off."""

    switch: SwitchRecord
    entries: bytes
    reply: experimenter.Reply
    now_ns: int  # when it came

    def tells_of_the_same(self) -> bool:
        """Tell whether it may be of the same machines as the answer before: nothing that is known by now denies it."""
        switch = self.switch
        return switch.revision == switch.answer_revision and len(self.entries) == len(switch.answer.entries)


class Machines:
    """Keeps the machines in ``switches`` up to date; ``found(switch)`` is called when an answer showed new ones."""

    def __init__(
        self,
        settings: Settings,
        switches: dict[int, SwitchRecord],
        topology: Topology,
        numbering: Numbering,
        outbox: Outbox,
        xids: Iterator[int],
        counters: "collections.Counter[str]",
        found: Callable[[SwitchRecord], None],
        devices: bool = False,
    ) -> None:
        """``devices``: machines are known by the kernel's index of their device, not by OpenFlow port."""
        self._request = (experimenter.all_host_vms_request if devices else experimenter.vm_state_request)(0)
        self._devices = devices
        self._found = found
        self._late: dict[int, _Late] = {}  # by switch
        self.told: set[int] = set()  # switches that told their machines' state or paths, for who empties it
        self._settings = settings
        self._switches = switches
        self._topology = topology
        self._numbering = numbering
        self._outbox = outbox
        self._xids = xids
        self._counters = counters
        self._interfaces: BySwitch[str] = {}
        self._tunnels: BySwitch[Tunnel] = {}
        self._vlans: BySwitch[int] = {}

    # Names

    def expects(self, dpid: int) -> bool:
        """Return whether OVSDB knows interfaces of machines of a bridge."""
        return bool(self._interfaces.get(dpid))

    def set_interfaces(self, names: PortNames) -> list[int]:
        """Take the ids of machines, as OVSDB has them; return the switches that have machines by it."""
        before, self._interfaces = self._interfaces, by_switch(names)
        return [dpid for dpid in moved(before, self._interfaces) if dpid in self._switches and self.name(dpid)]

    def name(self, dpid: int) -> bool:
        """Name the machines of a switch; return whether one was found by its name."""
        return any([self.name_port(dpid, number) for number in self._topology.ports.get(dpid, {})])

    def name_port(self, dpid: int, number: int) -> bool:
        """Name the machine at a port, if there is one; return whether it was found by its name."""
        switch, port = self._switches[dpid], self._topology.ports.get(dpid, {}).get(number)
        if port is None:
            return False
        name = self._interfaces.get(dpid, {}).get(port.name)
        vm = switch.vms.get(number)
        if vm is not None:
            vm.id, vm.name = name or f"{dpid:016x}:{port.name}", port.name
        elif name is not None and dpid not in self._settings.fabric:
            self._add(switch, number)
            return True
        return False

    def tells_of(self, dpid: int, name: str) -> bool:
        """Tell whether databases say that a port of that name is a tunnel's, or a VLAN's."""
        return name in self._tunnels.get(dpid, ()) or name in self._vlans.get(dpid, ())

    def _add(self, switch: SwitchRecord, number: int) -> VmRecord:
        port = self._topology.ports.get(switch.dpid, {}).get(number)
        name = port.name if port else str(number)
        vm_id = self._interfaces.get(switch.dpid, {}).get(name, f"{switch.dpid:016x}:{name}")
        vm = switch.vms[number] = VmRecord((switch.dpid, number), vm_id, name)
        switch.revision += 1
        return vm

    def set_tunnels(self, names: Mapping[Port, Tunnel]) -> list[int]:
        """Take the end points of tunnels by (datapath id, port name); return the switches where some changed."""
        before, self._tunnels = self._tunnels, by_switch(names)
        return moved(before, self._tunnels)

    def tunnels(self, dpid: int) -> dict[int, Tunnel]:
        """Return a switch's tunnels by port."""
        return self._by_port(dpid, self._tunnels.get(dpid, {}))

    def set_vlans(self, names: Mapping[Port, int]) -> list[int]:
        """Take the VLANs of access ports by (datapath id, port name); return the switches where some changed."""
        before, self._vlans = self._vlans, by_switch(names)
        return moved(before, self._vlans)

    def vlans(self, dpid: int) -> dict[int, int]:
        """Return the VLANs of a switch's access ports."""
        return self._by_port(dpid, self._vlans.get(dpid, {}))

    def _by_port(self, dpid: int, names: Mapping[str, Known]) -> dict[int, Known]:
        if not names:
            return {}
        ports = self._topology.ports.get(dpid, {})
        return {number: names[port.name] for number, port in ports.items() if port.name in names}

    # State

    def ask(self, dpid: int, now_ns: int) -> None:
        """Ask a bridge for its machines, unless it owes an answer or cannot give one."""
        request = self._ask_states(self._switches[dpid], now_ns)
        if request:
            self._outbox.put(dpid, request)

    def ask_with_paths(self, dpid: int, now_ns: int) -> None:
        """Ask a bridge for its machines, and what these send by path, unless it owes an answer or cannot give one."""
        switch = self._switches[dpid]
        requests = self._ask_states(switch, now_ns) + self._ask_paths(switch, now_ns)
        if requests:
            self._outbox.put(dpid, requests)

    def _ask_states(self, switch: SwitchRecord, now_ns: int) -> bytes:
        if switch.vm_state is False or (switch.state_xid and now_ns - switch.state_asked_ns < STATE_LOST_NS):
            return b""
        if now_ns < switch.state_rests_ns:
            return b""
        xid = switch.state_xid = next(self._xids)
        switch.state_asked_ns = now_ns
        self._counters["vm_state_requests"] += 1
        return b"%b%b%b" % (self._request[:_XID], xid.to_bytes(4, "big"), self._request[_XID + 4 :])

    def _ask_paths(self, switch: SwitchRecord, now_ns: int) -> bytes:
        if switch.paths is False or (switch.paths_xid and now_ns - switch.paths_asked_ns < STATE_LOST_NS):
            return b""
        if now_ns < switch.paths_rest_ns:
            return b""
        xid = switch.paths_xid = next(self._xids)
        switch.paths_asked_ns = now_ns
        self._counters["path_requests"] += 1
        return b"%b%b%b" % (_PATHS[:_XID], xid.to_bytes(4, "big"), _PATHS[_XID + 4 :])

    def take_paths(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply) -> None:
        """Take a HOST_PATHS reply."""
        if switch.paths_xid == xid:
            switch.paths_xid = 0
        switch.paths = True
        switch.path_entries = reply.entries[0] if len(reply.entries) == 1 else b"".join(reply.entries)
        switch.paths_rest_ns = switch.paths_asked_ns + budget.rest_ns(experimenter.count(reply), budget.PATHS_FREE)
        self.told.add(switch.dpid)

    def take(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now_ns: int) -> None:
        """Take a VM_STATE or HOST_VMS reply."""
        self.put_off(switch, xid, reply, now_ns)
        self.settle()

    def put_off(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now_ns: int) -> None:
        """Take a VM_STATE or HOST_VMS reply when settle() is called."""
        if switch.state_xid == xid:
            switch.state_xid = 0
        switch.vm_state = True
        switch.state_ns = now_ns
        switch.state_rests_ns = now_ns + budget.rest_ns(experimenter.count(reply))
        if switch.dpid in self._settings.fabric:
            return
        if switch.dpid in self._late:
            self.settle()
        entries = reply.entries[0] if len(reply.entries) == 1 else b"".join(reply.entries)
        self._late[switch.dpid] = _Late(switch, entries, reply, now_ns)
        if len(self._late) >= TOGETHER:
            self.settle()

    def settle(self) -> None:
        """Take all that was put off."""
        if not self._late:
            return
        late, self._late = [one for dpid, one in self._late.items() if self._switches.get(dpid) is one.switch], {}
        self.told.update([one.switch.dpid for one in late])
        others = [one for one in late if not one.tells_of_the_same()]
        others += self._take_same([one for one in late if one.tells_of_the_same()] if others else late)
        for one in others:
            found = self._take_others(one)
            for number in list(one.switch.vms):
                self.name_port(one.switch.dpid, number)
            if found:
                self._found(one.switch)

    def _take_same(self, late: Sequence[_Late]) -> list[_Late]:
        """Take answers of the same machines as before; return those where they share otherwise: not taken."""
        changed, heard = reading.compare_states(
            [one.entries for one in late], [one.switch.answer.entries for one in late]
        )
        for one, other in zip(late, changed.tolist()):
            if not other:
                answer = one.switch.answer
                answer.entries, answer.time_ns, answer.clock_ns = one.entries, one.now_ns, one.reply.time_ns
        # Counters that stand still say nothing of how a machine hears.
        for place, port, messages, refused, _ in heard.tolist():
            self._note_hearing(late[place].switch.vms[port], messages, refused, late[place].now_ns)
        return [late[place] for place in np.flatnonzero(changed).tolist()]

    def _take_others(self, late: _Late) -> bool:
        """Take an answer of any machines; return whether one of them was not known."""
        switch, entries, reply, now_ns = late
        readings: dict[int, experimenter.VmReading] = {}
        several = experimenter.vm_readings(reply)
        for told in several:
            if not self._exists(switch.dpid, told.port):
                self._counters["vm_ports_unknown"] += 1
                continue
            known = readings.get(told.port)
            readings[told.port] = experimenter.merge(known, told) if known else told
        if len(readings) < len(several):
            entries = b"".join(experimenter.encode_vm_state(told) for told in readings.values())
        switch.answer = Answer(entries, now_ns, reply.time_ns)
        switch.revision += 1
        found = False
        for row, (number, told) in enumerate(readings.items()):
            found |= number not in switch.vms
            vm = switch.vms.get(number) or self._add(switch, number)
            vm.answer, vm.row = switch.answer, row
            self._note_hearing(vm, told.messages, told.refused, now_ns)
        for number in [number for number, vm in switch.vms.items() if number not in readings and vm.row >= 0]:
            switch.lose(number)
        switch.answer_revision = switch.revision
        return found

    def _exists(self, dpid: int, number: int) -> bool:
        """Tell whether a bridge has a port; of a host's devices OVSDB tells later than the host does."""
        return self._devices or number in self._topology.ports.get(dpid, ()) or number == openflow.OFPP_LOCAL

    def lose(self, dpid: int, number: int) -> None:
        """Forget the machine at a port that is gone; what was put off may tell of it, and counts before."""
        self.settle()
        self._switches[dpid].lose(number)

    def refuses(self, switch: SwitchRecord, xid: int, kind: int, code: int) -> bool:
        """Take note that a switch does not know what it was asked; return whether that was asked here."""
        if switch.state_xid == xid:
            switch.vm_state, switch.state_xid = False, 0
            what = "reports no virtual machines"
        elif switch.paths_xid == xid:
            switch.paths, switch.paths_xid = False, 0
            what = "tells nothing by path, so its machines are told one rate each"
        else:
            return False
        LOG.info("switch %016x %s (error type %d code %d)", switch.dpid, what, kind, code)
        return True

    @staticmethod
    def unsent(switch: SwitchRecord, xid: int) -> bool:
        """Take note that a question could not be sent; return whether it was asked here."""
        if not xid or xid not in (switch.state_xid, switch.paths_xid):
            return False
        switch.state_xid = 0 if switch.state_xid == xid else switch.state_xid
        switch.paths_xid = 0 if switch.paths_xid == xid else switch.paths_xid
        return True

    @staticmethod
    def back(switch: SwitchRecord) -> None:
        """Await nothing more of a switch that lost its connection, and which may be of another version now."""
        switch.state_xid = switch.paths_xid = 0
        switch.paths = None

    def _note_hearing(self, vm: VmRecord, messages: int, refused: int, now_ns: int) -> None:
        """Take note of whether a machine accepts what it is told."""
        note = self._numbering.heard(vm.hearing, messages, refused, now_ns)
        if note:
            self._counters["epoch_raised"] += 1
            LOG.warning("%s (found at %s)", note, vm.id)
