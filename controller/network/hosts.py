# SPDX-License-Identifier: Apache-2.0
"""Hosts of virtual machines, where the controller does not forward.

A host is known by one of its bridges, whichever connected first: a bridge of its own without ports, or one that another
controller owns. It answers for the whole datapath; another bridge of the same host is recognised by the boot id, which
is that of ovs-vswitchd, and only stands by. A machine's place is (that bridge, the kernel's index of its device).
"""

import collections
import logging
from typing import Callable, Iterator, NamedTuple, Optional

from sdngcc.controller.network import underlay
from sdngcc.controller.network.by_port import BySwitch, moved
from sdngcc.controller.network.conversations import Conversations, SentBytes, Unasked, machine_key
from sdngcc.controller.network.counters import Split
from sdngcc.controller.network.directory import Directory
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.proportions import Proportions
from sdngcc.controller.network.relations import Relations
from sdngcc.controller.network.topology import Hop, Port, Topology
from sdngcc.controller.network.underlay import FIRST_PORT, Graph
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.schedule import Schedule
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import openflow
from sdngcc.controller.wire.experimenter import Reply

LOST_NS = 2_000_000_000  # an answer not there by then is lost

LOG = logging.getLogger(__name__)


class Device(NamedTuple):
    """An interface, as OVSDB has it."""

    number: int  # the kernel's index
    ethernet: bytes  # of the machine behind it; 6 zeros where it is not known


Devices = BySwitch[Device]  # by datapath id of any bridge of the host, and name


class Hosts:
    """Keeps hosts in ``graph`` and machines' devices in ``topology``."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        relations: Relations,
        outbox: Outbox,
        xids: Iterator[int],
        clock: Callable[[], int],
        counters: "collections.Counter[str]",
        directory: Directory,
    ) -> None:
        """Raise SettingsError when the underlay file is unusable."""
        self.graph = Graph(underlay.read(settings.underlay_file), topology)
        self.sent = Unasked(SentBytes())
        self.splits: Unasked[Proportions[Split, int]] = Unasked(Proportions())
        self.conversations = Conversations(
            relations, self.sent.proportions, settings.relation_idle_s * 1_000_000_000, clock, counters
        )
        self._directory = directory
        self._topology = topology
        self._relations = relations
        self._outbox = outbox
        self._xids = xids
        self._clock = clock
        self.counters = counters
        self._asks = settings.mark_source != "shim"  # else its polls are what tells who talks to whom
        self._period_ns = settings.pair_period_ms * 1_000_000
        self._turns: Schedule[int] = Schedule()
        self._owed: dict[int, tuple[int, int]] = {}  # host -> request not answered yet, when it was sent
        self._boots: dict[int, int] = {}  # bridge -> boot id
        self._speakers: dict[int, int] = {}  # boot id -> the bridge that speaks for the host
        self._devices: Devices = {}

    def up(self, dpid: int) -> None:
        """Take a bridge that connected: nothing that its owner gets to hear is wanted here."""
        self._outbox.put(dpid, openflow.hear_none(next(self._xids)))

    def speaks(self, dpid: int, boot: int) -> tuple[bool, bool]:
        """Take a host's boot id from a bridge's reply; return whether it speaks for the host, and whether newly so."""
        before = self._boots.get(dpid)
        if before is not None and before != boot:
            self._release(dpid)
        self._boots[dpid] = boot
        speaker = self._speakers.setdefault(boot, dpid)
        if speaker != dpid:
            if before != boot:
                LOG.info("switch %016x stands by: %016x speaks for the same host", dpid, speaker)
            return False, False
        if before == boot:
            return True, False
        if not self.graph.add_host(dpid):
            self.tell_homeless(dpid)
        self._place_devices(dpid)
        if self._asks:
            self._turns.put(dpid, self._clock())
        return True, True

    def tell_homeless(self, dpid: int) -> None:
        """Count and tell a host that has no place in the graph."""
        self.counters["hosts_without_place"] += 1
        LOG.warning("host %016x is not in the underlay file, or without a link there: ways to it are unknown", dpid)

    def speaker(self, dpid: int) -> bool:
        """Tell whether a bridge speaks for its host, as far as is known."""
        boot = self._boots.get(dpid)
        return boot is None or self._speakers.get(boot) == dpid

    def _release(self, dpid: int) -> Optional[int]:
        """Let a bridge speak no more; return one that stood by for its host."""
        boot = self._boots.pop(dpid, None)
        if boot is None or self._speakers.get(boot) != dpid:
            return None
        del self._speakers[boot]
        return next((other for other, known in self._boots.items() if known == boot), None)

    def down(self, dpid: int) -> tuple[list[Hop], Optional[int]]:
        """Forget a bridge; return the ends of links that are gone, and the bridge that is to speak instead."""
        successor = self._release(dpid)
        self._turns.drop(dpid)
        self._owed.pop(dpid, None)
        self.conversations.forget(dpid)
        lost = self.graph.remove_host(dpid) or self._topology.remove_switch(dpid)
        if successor is not None:
            del self._boots[successor]  # as if it had just connected
        return lost, successor

    # Who talks to whom, where no polls tell

    def run(self, now_ns: int) -> None:
        """Ask the hosts whose turn it is; forget pairs that are silent."""
        while (dpid := self._turns.pop(now_ns)) is not None:
            self._turns.put(dpid, now_ns + self._period_ns)
            _, asked_ns = self._owed.get(dpid, (0, now_ns - LOST_NS))
            if now_ns - asked_ns >= LOST_NS:
                xid = next(self._xids)
                self._owed[dpid] = (xid, now_ns)
                self._outbox.put(dpid, self.conversations.request(dpid, xid))
        self.conversations.expire(now_ns)

    def next_ns(self) -> int:
        """Return when a host is to be asked next."""
        return self._turns.next_ns()

    def owes(self, dpid: int, xid: int) -> bool:
        """Tell whether a host was asked for conversations by that transaction, and has not answered."""
        return self._owed.get(dpid, (0, 0))[0] == xid != 0

    def lose(self, dpid: int, xid: int) -> None:
        """Take note that an answer cannot be read: it is awaited no more."""
        if self.owes(dpid, xid):
            del self._owed[dpid]

    def take_peers(self, dpid: int, reply: Reply) -> Iterator[None]:
        """Take the answer to what a host was asked, in steps; it is asked again once all are done."""
        owed = self._owed[dpid] = (0, self._clock())
        for _ in self.conversations.take_in_steps(dpid, reply):
            yield
        if self._owed.get(dpid) is owed:
            del self._owed[dpid]

    # Devices

    def set_devices(self, devices: Devices) -> list[int]:
        """Take the interfaces of hosts, as OVSDB has them; return the hosts where some changed."""
        before, self._devices = self._devices, devices
        changed = [dpid for dpid in moved(before, devices) if dpid in self._boots and self.speaker(dpid)]
        for dpid in changed:
            self._place_devices(dpid)
        return changed

    def _place_devices(self, dpid: int) -> None:
        """Name a host's devices among its ports."""
        found = {device.number: (name, device.ethernet) for name, device in self._devices.get(dpid, {}).items()}
        ports = self._topology.ports.setdefault(dpid, {})
        for number in [number for number in ports if number < FIRST_PORT and number not in found]:
            del ports[number]
        for number, (name, ethernet) in found.items():
            ports[number] = Port(name, ethernet, True, 0)

    # Machines

    def follow(self, switch: SwitchRecord, before: set[int]) -> None:
        """Forget what machines said that are gone: those of ``before`` that the host has no more; name the others.

        What the cloud says of a machine's addresses goes before what its hypervisor's OVSDB says of them.
        """
        for number in before - switch.vms.keys():
            self.conversations.forget_machine((switch.dpid, number))
        ports = self._topology.ports.get(switch.dpid, {})
        for number, vm in switch.vms.items():
            self.conversations.know((switch.dpid, number), self._directory.behind(vm.iface_id))
            known = self._directory.find(vm.iface_id)
            host = self._relations.hosts.get(machine_key((switch.dpid, number)))
            port = ports.get(number)
            mac = known.macs[0] if known and known.macs else port.mac if port else b""
            if host is not None and any(mac):
                host.ethernet = mac
