# SPDX-License-Identifier: Apache-2.0
"""From a port's fresh marks to the messages they cause.

A *round* begins when a reply shows fresh marks: the hypervisor bridges of the sources behind the port are
asked what their machines sent.  Once they and the period's other polls have answered, or a deadline passed,
the marks are divided and each machine is told its part.  For explicit rates a round begins each period, with or
without marks, and all hypervisor bridges are asked.
"""

import collections
import dataclasses
from typing import Callable, Iterator, Optional

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.machines import Machines
from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.rates.capacity import Marked
from sdngcc.controller.rates.division import Congestion, Divider, Notice, Source, marks_before_drops
from sdngcc.controller.rates.explicit import ExplicitRates
from sdngcc.controller.rates.histogram import Histogram
from sdngcc.controller.rates.monitor import Monitor
from sdngcc.controller.rates.notifier import Composed, Notifier
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import SOURCES, PortMarks, Semantics
from sdngcc.controller.timers import Timers
from sdngcc.controller.trace import Trace
from sdngcc.controller.work import Backlog


@dataclasses.dataclass
class _Round:
    """Ports with fresh marks whose sources' rates are awaited."""

    started_ns: int
    cancel: Callable[[], None]
    marks: dict[Hop, int] = dataclasses.field(default_factory=dict)
    interval_ns: dict[Hop, int] = dataclasses.field(default_factory=dict)
    waiting: set[int] = dataclasses.field(default_factory=set)
    asked: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Network:
    """What is known of the network; the engine keeps it up to date."""

    settings: Settings
    switches: dict[int, SwitchRecord]
    attribution: Attribution
    counters: "collections.Counter[str]"
    trace: Trace
    clock: Callable[[], int]
    owns: Callable[[int], bool]  # whether this controller speaks for a switch's ports
    is_silent: Callable[[int], bool]  # whether a switch's marks came, and ceased
    tenants: Tenants


class Rounds:
    """The round under way: ``machines`` are asked for their state, ``monitor`` has the period's other polls."""

    def __init__(
        self,
        network: Network,
        notifier: Notifier,
        outbox: Outbox,
        timers: Timers,
        machines: Machines,
        monitor: Monitor,
        backlog: Backlog,
    ) -> None:
        self.silent = False  # machines are told nothing
        self.divider = Divider(network.settings.division)
        self.explicit = ExplicitRates(
            network.settings, network.switches, network.attribution, network.owns, network.is_silent, network.tenants
        )
        self.notice_max_ns = 0  # longest from the reply that showed marks to its messages
        self.latency = Histogram()
        self._behind = SOURCES[network.settings.mark_source].semantics is Semantics.ARRIVED  # where marks are counted
        self._network = network
        self._notifier = notifier
        self._outbox = outbox
        self._timers = timers
        self._machines = machines
        self._monitor = monitor
        self._backlog = backlog
        self._round: Optional[_Round] = None

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone, or a whole switch."""
        if port is not None:
            self.divider.forget((dpid, port))
        self.explicit.forget(dpid, port)

    def begin(self, now: int) -> None:
        """Begin the round of a period for explicit rates: all bridges with machines are asked."""
        current = self._open(now)
        for dpid, switch in self._network.switches.items():
            if switch.vms:
                self._ask(current, dpid, now)
        self.finish_if_complete()

    def _open(self, now: int) -> _Round:
        if self._round is None:
            cancel = self._timers.arm(self._network.settings.round_deadline_us / 1e6, self._deadline)
            self._round = _Round(now, cancel)
            self._network.counters["rounds"] += 1
        return self._round

    def _ask(self, current: _Round, dpid: int, now: int) -> None:
        if dpid not in current.asked:
            current.asked.add(dpid)
            self._machines.ask(dpid, now)
            if self._network.switches[dpid].state_xid:
                current.waiting.add(dpid)

    def marked(self, fresh: list[PortMarks], now: int) -> None:
        """Take fresh marks of ports."""
        network, current = self._network, self._open(now)
        rates = network.settings.decision == "maxmin"
        for port_marks in fresh:
            point = port_marks.point
            current.marks[point] = current.marks.get(point, 0) + port_marks.marks
            current.interval_ns[point] = current.interval_ns.get(point, 0) + port_marks.interval_ns
            network.counters["marks"] += port_marks.marks
            if rates or self.divider.division == "equal" or not network.settings.notify:
                continue
            for vm in network.attribution.machines_behind(point):
                self._ask(current, vm[0], now)

    def answered(self, dpid: int) -> None:
        """Take note that a bridge told its machines' state, or that it cannot."""
        if self._round:
            self._round.waiting.discard(dpid)
            self.finish_if_complete()

    def finish_if_complete(self) -> None:
        """End the round if nothing more is awaited."""
        if self._round and not self._round.waiting and not self._monitor.outstanding():
            self._round.cancel()
            self._finish()

    def _deadline(self) -> None:
        if self._round:
            self._network.counters["round_deadlines"] += 1
            self._finish()

    def _finish(self) -> None:
        """Tell the machines what follows from the round's marks."""
        network = self._network
        current, self._round = self._round, None
        assert current is not None
        rates = network.settings.decision == "maxmin"
        notices = self._rates(current) if rates else self._divided(current)
        if network.settings.notify and not self.silent:
            self._backlog.add_first(self._tell(current.started_ns, notices))

    def _tell(self, started_ns: int, notices: list[tuple[Notice, Pair]]) -> Iterator[None]:
        """Tell machines, bridge by bridge."""
        network = self._network
        by_bridge: dict[int, list[tuple[Notice, Pair]]] = {}
        for notice, pair in notices:
            by_bridge.setdefault(notice.vm[0], []).append((notice, pair))
        for dpid, some in by_bridge.items():
            composed = [one for notice, pair in some if (one := self._compose(notice, pair)) is not None]
            if composed:
                self._outbox.put_notice(dpid, self._notifier.pack(composed))
            yield
        took_ns = network.clock() - started_ns
        self.latency.add(took_ns)
        self.notice_max_ns = max(self.notice_max_ns, took_ns)

    def _compose(self, notice: Notice, pair: Pair) -> Optional[Composed]:
        """Return the message of a notice, None when its machine cannot be told or is gone."""
        network = self._network
        switch = network.switches.get(notice.vm[0])
        vm = switch.vms.get(notice.vm[1]) if switch else None
        if vm is None or not self._notifier.knows(pair[0]):
            return None
        composed = self._notifier.compose(notice, vm, pair)
        if composed is not None:
            network.trace.add(
                network.clock(),
                "notice",
                vm=vm.id,
                port=f"{notice.point[0]:016x}:{notice.point[1]}",
                marks=notice.marks,
                interval_ms=notice.interval_ns / 1e6,
                weight_total=notice.weight_total,
                sent_bps=vm.sent_rate * 8,
                **({"rate_bps": notice.rate * 8} if notice.rate else {}),
            )
        return composed

    def _divided(self, current: _Round) -> list[tuple[Notice, Pair]]:
        """Divide the marks of a round; return notices, each with a pair of the machine behind its port."""
        network = self._network
        congestions = []
        pairs: dict[Hop, dict[Hop, Pair]] = {}
        for point, marks in sorted(current.marks.items()):
            machines = pairs[point] = network.attribution.machines_behind(point)
            if not machines:
                network.counters["marks_without_source"] += marks
            through = network.attribution.through(point) if self.divider.division == "bytes" else {}
            sources = []
            for place in sorted(machines):
                vm = network.switches[place[0]].vms[place[1]]
                rate = through.get(place, vm.sent_rate)
                sources.append(Source(place, rate, vm.weight, vm.active))
            if self._behind:
                marks = marks_before_drops(marks, through.values(), self.explicit.known_capacity(point))
            congestions.append(Congestion(point, marks, current.interval_ns[point], sources))
        return [(notice, pairs[notice.point][notice.vm]) for notice in self.divider.notices(congestions)]

    def _rates(self, current: _Round) -> list[tuple[Notice, Pair]]:
        """Compute rates after a round; return notices, each with a pair of the machine behind its port."""
        attribution = self._network.attribution
        marks = {point: Marked(count, current.interval_ns[point]) for point, count in current.marks.items()}
        behind: dict[Hop, dict[Hop, Pair]] = {}
        notices = []
        for notice in self.explicit.decide(marks, self._network.clock()):
            if notice.point not in behind:
                behind[notice.point] = attribution.machines_behind(notice.point)
            pair = behind[notice.point].get(notice.vm)
            if pair is not None:
                notices.append((notice, pair))
        return notices
