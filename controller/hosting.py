# SPDX-License-Identifier: Apache-2.0
"""What the engine does otherwise where the controller does not forward (setting ``forwarding: none``).

Each switch that connects is a bridge of a host, but for those of the fabric that settings or the underlay file name. No
flow, group or meter is written and no packet heard; who talks to whom the hosts tell, and the graph is a file's.
"""

from typing import Callable, Iterator

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.hosts import Devices, Hosts
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.machines import Machines
from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.topology import Hop, Port, Steps, Topology
from sdngcc.controller.network.underlay import Change, Underlay
from sdngcc.controller.rates.monitor import Monitor
from sdngcc.controller.rates.polling import Polling
from sdngcc.controller.rates.rounds import Rounds
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import MarkSource
from sdngcc.controller.sources.shim import ShimMarks
from sdngcc.controller.wire import experimenter


class Hosting:
    """Brings what hosts say to those who keep it."""

    def __init__(
        self,
        settings: Settings,
        switches: dict[int, SwitchRecord],
        topology: Topology,
        hosts: Hosts,
        attribution: Attribution,
        source: MarkSource,
        machines: Machines,
        polling: Polling,
        monitor: Monitor,
        rounds: Rounds,
        owns: Callable[[int], bool],
        clock: Callable[[], int],
    ) -> None:
        self._owns = owns
        self.hosts = hosts
        self.underlay_waits = False  # another file of the network beneath is not in force as a whole yet
        self._steps: Iterator[None] = iter(())  # what is left to be done of it
        self._settings = settings
        self._switches = switches
        self._topology = topology
        self._attribution = attribution
        self._source = source
        self._machines = machines
        self._polling = polling
        self._monitor = monitor
        self._rounds = rounds
        self._clock = clock
        if isinstance(source, ShimMarks):
            source.follow(hosts.conversations, self._fabric_way, rounds.explicit.known_capacity, clock)

    def is_host(self, dpid: int) -> bool:
        """Tell whether a switch is a host's bridge."""
        return dpid not in self._settings.fabric and dpid not in self.hosts.graph.fabric

    def name_ports(self, dpid: int, ports: dict[int, Port]) -> None:
        """Take the ports of a switch of the fabric that connected."""
        self.hosts.graph.name_ports(dpid, ports)

    def up(self, dpid: int, now_ns: int) -> None:
        """Take a bridge of a host that connected."""
        self._switches[dpid] = SwitchRecord(dpid, now_ns, settled=True, hypervisor=True)
        self._topology.add_switch(dpid, {})
        self.hosts.up(dpid)
        self._machines.ask(dpid, now_ns)

    def down(self, dpid: int) -> list[Hop]:
        """Take note that a switch is gone, whose record is forgotten; return the ends of links that are no more."""
        lost: list[Hop] = []
        if self.is_host(dpid):
            lost, successor = self.hosts.down(dpid)
            self._rounds.forget(dpid)
            if successor is not None and successor in self._switches:
                self._machines.ask(successor, self._clock())
        self._rounds.answered(dpid)
        return lost

    def take(
        self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now_ns: int
    ) -> tuple[bool, Iterator[None]]:
        """Take a host's reply that was asked for; return whether the graph changed, and the steps that are left."""
        news, steps = False, iter(list[None]())
        if reply.exp_type == experimenter.HOST_VMS:
            news = self._take_machines(switch, xid, reply, now_ns)
            self._rounds.answered(switch.dpid)
        elif reply.exp_type == experimenter.HOST_PATHS:
            self._machines.take_paths(switch, xid, reply)
            self._rounds.answered(switch.dpid)
        elif self._polling.owes(switch.dpid, xid):
            steps = self._take_marks(switch, xid, reply, now_ns)
        else:
            steps = self.hosts.take_peers(switch.dpid, reply)
        return news, steps

    def _take_marks(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now_ns: int) -> Iterator[None]:
        for fresh in self._polling.take_marks(switch, xid, reply, now_ns):
            if fresh and self._owns(switch.dpid):
                self._rounds.marked(fresh, self._clock())
            yield
        self._rounds.finish_if_complete()

    def _take_machines(self, switch: SwitchRecord, xid: int, reply: experimenter.Reply, now_ns: int) -> bool:
        dpid, before = switch.dpid, set(switch.vms)
        speaks, news = self.hosts.speaks(dpid, reply.boot)
        if not speaks:
            reply = reply._replace(entries=[])
            self._monitor.remove(dpid)
        self._machines.take(switch, xid, reply, now_ns)
        self.hosts.follow(switch, before)
        if news:
            for hop, rate in self.hosts.graph.rates.items():
                self._rounds.explicit.set_speed(hop, rate)
            if self._source.polled and self._source.everywhere:
                self._monitor.add(dpid, now_ns)
        return news

    def set_devices(self, devices: Devices) -> None:
        """Take the interfaces of hosts, as OVSDB has them."""
        for dpid in self.hosts.set_devices(devices):
            if dpid in self._switches:
                self._machines.name(dpid)
                self.hosts.follow(self._switches[dpid], set())

    def set_underlay(self, underlay: Underlay) -> Steps:
        """Return what takes another file of the network beneath, step by step, and returns the ends of lost links.

        What a file before left to be done is done at once. Raises ValueError when the file does not go with the
        switches that are connected; nothing is changed then.
        """
        graph = self.hosts.graph
        hosts = {dpid for dpid in self._switches if self.is_host(dpid)}
        graph.check(underlay, self._switches.keys() - hosts, hosts)
        for _ in self._steps:
            pass
        steps = self._steps = self._replace(underlay)
        self.underlay_waits = True
        return steps

    def _replace(self, underlay: Underlay) -> Steps:
        change = Change()
        try:
            yield from self.hosts.graph.replace(underlay, change)
            for hop, rate in change.rates.items():
                self._rounds.explicit.set_speed(hop, rate)
                yield
            for dpid in change.homeless:
                self.hosts.tell_homeless(dpid)
                yield
        finally:
            self.underlay_waits = False
        return change.lost

    def run(self, now_ns: int) -> None:
        """Ask hosts whose turn it is, forget what is old."""
        self.hosts.run(now_ns)

    def next_ns(self) -> int:
        """Return when a host is to be asked next."""
        return self.hosts.next_ns()

    def _fabric_way(self, pair: Pair) -> dict[Hop, float]:
        """Return the fabric's ports that a pair's packets leave by, in their order."""
        fabric = self.hosts.graph.fabric
        return {hop: part for hop, part in self._attribution.way(pair).items() if hop[0] in fabric}
