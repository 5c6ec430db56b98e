# SPDX-License-Identifier: Apache-2.0
"""From a port's fresh marks to the messages they cause.

A *round* begins when a reply shows fresh marks: the hypervisor bridges of the sources behind the port are
asked what their machines sent.  Once they and the period's other polls have answered, or a deadline passed,
the marks are divided and each machine is told its part.  For explicit rates a round begins each period, with or
without marks, and hypervisor bridges are asked, also what machines send by path: all, or those that paths/asking.py
names where all can tell that.  Then by_path.py finds the rates of machines whose bridges can, and explicit.py those of
others.
"""

import collections
import dataclasses
import logging
import math
from typing import Any, Callable, Iterator, Optional, Sequence

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.machines import Machines
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.rates.batch import Batch, Telling, gather, join
from sdngcc.controller.rates.by_path import PathRates
from sdngcc.controller.rates.capacity import Marked
from sdngcc.controller.rates.division import Congestion, Divider, Source, marks_before_drops
from sdngcc.controller.rates.explicit import ExplicitRates
from sdngcc.controller.rates.histogram import Histogram
from sdngcc.controller.rates.levels import Levels, with_levels
from sdngcc.controller.rates.marks_by_path import PathDivider
from sdngcc.controller.rates.monitor import Monitor
from sdngcc.controller.rates.notifier import Notifier
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import SOURCES, PortMarks, Semantics
from sdngcc.controller.sources.plausible import frames_max, told_rate
from sdngcc.controller.timers import Timers
from sdngcc.controller.trace import Trace
from sdngcc.controller.wire.message import TYPE_LEVEL, TYPE_RATE
from sdngcc.controller.work import Backlog

TOGETHER = 1024  # machines whose messages are sealed and packed at a time
_U32_MAX = 0xFFFFFFFF

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class _Round:
    """Ports with fresh marks whose sources' rates are awaited."""

    started_ns: int
    cancel: Callable[[], None]
    marks: dict[Hop, int] = dataclasses.field(default_factory=dict)
    interval_ns: dict[Hop, int] = dataclasses.field(default_factory=dict)
    carried: dict[Hop, float] = dataclasses.field(default_factory=dict)
    looked_at: set[Hop] = dataclasses.field(default_factory=set)  # ports without fresh marks, for their level
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
    relations: Relations


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
        self.path_divider: Optional[PathDivider] = None
        if network.settings.decision == "marks" and network.settings.by_path:
            self.path_divider = PathDivider(
                network.switches, network.attribution, network.relations, network.settings.forwarding == "none"
            )
        self.explicit = ExplicitRates(
            network.settings, network.switches, network.attribution, network.owns, network.is_silent, network.tenants
        )
        self.levels: Optional[Levels] = None
        if network.settings.tells_levels:
            self.levels = Levels(self.explicit.set_capacity, network.settings.period_us * 1000)
        self.paths: Optional[PathRates] = None
        if network.settings.decision == "maxmin":
            self.paths = PathRates(
                network.settings, network.switches, network.attribution, network.relations, network.tenants,
                network.owns, network.is_silent, self.explicit.known_capacity,
                lambda place: self.explicit.bottlenecks.get(place), machines.told,
            )  # fmt: skip
        self._spares = False  # all machines are told by path: bridges that no decision needs are asked less
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
        if self.paths is not None:
            self.paths.forget(dpid, port)
        if self.path_divider is not None:
            self.path_divider.forget(dpid, port)
        if self.levels is not None:
            self.levels.forget(dpid, port)

    def begin(self, now: int) -> None:
        """Begin the round of a period for explicit rates: bridges with machines are asked that it needs."""
        current, paths = self._open(now), self.paths if self._spares else None
        for dpid, switch in self._network.switches.items():
            if switch.vms and (paths is None or not switch.paths or paths.asking.needs(dpid)):
                self._ask(current, dpid, now)
        self.finish_if_complete()

    def follow(self, now: int) -> None:
        """Look at the ports where marks have ceased lately, if it is time to."""
        for point in self.levels.to_look_at(now) if self.levels and self._network.settings.notify else ():
            current = self._open(now)
            current.looked_at.add(point)
            for vm in self._network.attribution.machines_behind(point):
                self._ask(current, vm[0], now)

    def _open(self, now: int) -> _Round:
        if self._round is None:
            cancel = self._timers.arm(self._network.settings.round_deadline_us / 1e6, self._deadline)
            self._round = _Round(now, cancel)
            self._network.counters["rounds"] += 1
        return self._round

    def _ask(self, current: _Round, dpid: int, now: int) -> None:
        if dpid not in current.asked:
            current.asked.add(dpid)
            ask = self._machines.ask_with_paths if self._network.settings.by_path else self._machines.ask
            ask(dpid, now)
            if self._owes(dpid):
                current.waiting.add(dpid)

    def _owes(self, dpid: int) -> bool:
        """Tell whether a bridge owes an answer."""
        switch = self._network.switches.get(dpid)
        return switch is not None and bool(switch.state_xid or switch.paths_xid)

    def marked(self, fresh: list[PortMarks], now: int) -> None:
        """Take fresh marks of ports, but for those that no line carries."""
        fresh = [one for one in fresh if self._is_possible(one)]
        if not fresh:
            return
        network, current = self._network, self._open(now)
        rates = network.settings.decision == "maxmin"
        for port_marks in fresh:
            point = port_marks.point
            current.marks[point] = current.marks.get(point, 0) + port_marks.marks
            current.interval_ns[point] = current.interval_ns.get(point, 0) + port_marks.interval_ns
            current.carried[point] = port_marks.carried
            network.counters["marks"] += port_marks.marks
            if rates and self.paths is not None and self._spares:
                for dpid in self.paths.asking.behind(point) - current.asked:
                    self._ask(current, dpid, now)
            if rates or self.divider.division == "equal" or not network.settings.notify:
                continue
            for vm in network.attribution.machines_behind(point):
                self._ask(current, vm[0], now)

    def _is_possible(self, found: PortMarks) -> bool:
        """Tell whether so many packets can have passed a port in the interval; others are counted and told."""
        hop = found.point
        rate = self.explicit.set_capacity(hop)
        if not math.isfinite(rate):
            rate = told_rate(self.explicit.known_capacity(hop))
        most = frames_max(found.interval_ns, rate)
        if found.marks <= most:
            return True
        self._network.counters["marks_refused"] += 1
        LOG.warning(
            "switch %016x port %d: %d marks in %g ms are refused, at most %d packets pass in that time",
            *hop, found.marks, found.interval_ns / 1e6, most,
        )  # fmt: skip
        return False

    def awaits_others(self, dpid: int) -> bool:
        """Tell whether the round awaits answers of others than a bridge; its end takes those that were put off."""
        waiting = self._round.waiting if self._round is not None else ()
        return len(waiting) > 1 or (len(waiting) == 1 and dpid not in waiting)

    def answered(self, dpid: int) -> None:
        """Take note that a bridge told its machines' state or paths, or that it cannot."""
        if self._round and not self._owes(dpid):
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
        self._machines.settle()
        told = self._rates(current, self.paths) if self.paths else gather(self._divided(current))
        if network.settings.notify and not self.silent and len(told):
            self._backlog.add_first(self._tell(current.started_ns, told))

    def _tell(self, started_ns: int, told: Batch) -> Iterator[None]:
        """Tell machines, some at a time."""
        network = self._network
        for first in range(0, len(told), TOGETHER):
            self._send(told, range(first, min(first + TOGETHER, len(told))))
            yield
        took_ns = network.clock() - started_ns
        self.latency.add(took_ns)
        self.notice_max_ns = max(self.notice_max_ns, took_ns)

    def _send(self, told: Batch, some: Sequence[int]) -> None:
        """Tell some machines, but for those that are gone or cannot be told."""
        switches, places = self._network.switches, told.places
        here, vms = [], []
        for row in some:
            at = switches.get(places[row][0])
            vm = None if at is None else at.vms.get(places[row][1])
            if vm is not None:
                here.append(row)
                vms.append(vm)
        addressed = self._notifier.address(told if len(here) == len(told) else told.select(here))
        if len(addressed) < len(vms):
            vms = [switches[dpid].vms[port] for dpid, port in addressed.places]
        packed = self._notifier.pack(addressed, vms)
        if self._network.trace.on:
            for row, vm in enumerate(vms):
                self._trace(addressed, row, vm)
        for dpid, data in packed:
            self._outbox.put_notice(dpid, data)

    def _trace(self, told: Batch, number: int, vm: VmRecord) -> None:
        """Write what a machine is told into the trace."""
        row = told.rows[number]
        entries = told.entries[int(row["first"]) : int(row["end"])]
        rates = row["type"] == TYPE_RATE
        if int(row["datapath"]) or int(row["port"]):
            name = "level_bps" if row["type"] == TYPE_LEVEL else "rate_bps"
            values: dict[str, Any] = {name: int(row["rate"]) * 8} if row["rate"] else {}
            values.update(marks=int(row["marks"]), interval_ms=int(row["interval_ns"]) / 1e6)
            self._trace_one(vm, (int(row["datapath"]), int(row["port"])), int(row["weight_total"]), values)
        points = self.paths.points if self.paths else self.path_divider.points if self.path_divider else {}
        for entry in entries:
            said = int(entry["rate"])
            values = {"prefix": bytes(entry["prefix"]).hex(), "bits": int(entry["bits"])}
            if rates:
                values["rate_bps"] = said * 8
            else:
                values.update(marks=said >> 32, interval_ms=(said & _U32_MAX) / 1e6)
            point = points.get(int(entry["teller"]), (0, 0))
            self._trace_one(vm, point, int(entry["weight_total"]), values)

    def _trace_one(self, vm: VmRecord, point: Hop, weight_total: int, values: dict[str, Any]) -> None:
        self._network.trace.add(
            self._network.clock(),
            "notice",
            vm=vm.id,
            port=f"{point[0]:016x}:{point[1]}",
            weight_total=weight_total,
            sent_bps=vm.sent_rate * 8,
            **values,
        )

    def _divided(self, current: _Round) -> list[Telling]:
        """Divide the marks of a round; return what machines are told."""
        network = self._network
        congestions = []
        pairs: dict[Hop, dict[Hop, Pair]] = {}
        for point in sorted({*current.marks, *current.looked_at}):
            marks = current.marks.get(point, 0)
            machines = pairs[point] = network.attribution.machines_behind(point)
            if not machines:
                network.counters["marks_without_source"] += marks
            through = network.attribution.through(point) if self.divider.division == "bytes" else {}
            sources = []
            for place in sorted(machines):
                vm = network.switches[place[0]].vms[place[1]]
                rate = through.get(place, vm.sent_rate)
                limit, guarantee = (vm.reading.rate, vm.reading.min_rate) if vm.reading else (0, 0)
                sources.append(Source(place, rate, vm.weight, vm.active, vm.sent_rate, limit, guarantee))
            if self._behind:
                marks = marks_before_drops(marks, through.values(), self.explicit.known_capacity(point))
            carried = current.carried.get(point, 0.0)
            congestions.append(Congestion(point, marks, current.interval_ns.get(point, 0), sources, carried))
        if self.path_divider is not None:
            found = self.path_divider.tellings([one for one in congestions if one.sources])
        else:
            notices = self.divider.notices([one for one in congestions if one.marks])
            if self.levels is not None:
                notices = with_levels(notices, self.levels.decide(congestions, network.clock()))
            found = [Telling(pairs[notice.point][notice.vm], notice.vm, notice) for notice in notices]
        return sorted(found, key=lambda telling: telling.vm[0])

    def _rates(self, current: _Round, paths: PathRates) -> Batch:
        """Compute rates after a round; return what machines are told."""
        network = self._network
        marks = {point: Marked(count, current.interval_ns[point]) for point, count in current.marks.items()}
        found = paths.decide(marks, network.clock())
        self._spares = not any(switch.vms and not switch.paths for switch in network.switches.values())
        if self._spares:
            return found
        behind: dict[Hop, dict[Hop, Pair]] = {}
        others = []
        for notice in sorted(self.explicit.decide(marks, network.clock(), paths.taken()), key=lambda one: one.vm[0]):
            if notice.point not in behind:
                behind[notice.point] = network.attribution.machines_behind(notice.point)
            pair = behind[notice.point].get(notice.vm)
            if pair is not None:
                others.append(Telling(pair, notice.vm, notice))
        return join(found, gather(others))
