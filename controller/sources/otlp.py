# SPDX-License-Identifier: Apache-2.0
"""Marks from OpenTelemetry metrics, as SONiC's high-frequency telemetry exports them (OTLP over gRPC).

A receiver in a process of its own takes exports and decodes them (controller/otlp); here counters become marks. A
port's marks are the sum over its queues of WRED_ECN_MARKED_PACKETS: packets this switch marked there. What was found
within a T_i is handed on together, over the time between the points' own stamps.

One round of a switch's news ends when a queue's marks come that came before in it: exports are cut where they are full,
not where a round ends.

Told apart:

- first value of a series, the first after a reset, and of a start time that changed: a baseline, no marks;
- a value that went back: a wrap of 64 bits when it was near the end, else a reset (``resets``);
- a point with the stamp of the last one (``duplicate``) or an older one (``reordered``): left out, for an export that
  was tried again says nothing new, and of a counter the newest value says all; of deltas, ones that begin before the
  last one ended (``overlapping``);
- stamps that stay behind the last one for BACK_NS: the switch's clock was set back (``clock_back``), a baseline;
- stamps that pass at less than half or more than twice the pace of this machine's clock (``clock_rate``): then times
  are those of arrival. Only differences of stamps count, so the switch's clock may tell any time;
- a port without an OpenFlow number, by setting or by name (``port_unknown``); a switch not set (``switch_unknown``);
- series beyond the bound (``series_too_many``), and all that the receiver refuses (otlp/metrics.py, otlp/receiver.py);
- a receiver that ended (``receiver_ended``): another is started.
"""

import dataclasses
import logging
import time
from typing import Any, Callable, Optional

from sdngcc.controller.mappings import read_switch
from sdngcc.controller.network.topology import Topology
from sdngcc.controller.otlp.metrics import BYTES, DROPPED, MARKED, PACKETS, Series, Value
from sdngcc.controller.otlp.process import Receiver
from sdngcc.controller.otlp.records import Export, Listening, Orders, Refusals, parse
from sdngcc.controller.settings import Settings, SettingsError
from sdngcc.controller.sources.base import Deliver, MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.origin import Origin
from sdngcc.controller.sources.pace import difference, scale
from sdngcc.controller.sources.ports import NamedPorts

SERIES_MAX = 32_768  # of one switch
FORGOTTEN_NS = 60_000_000_000  # a series not heard of for so long gives way to another
BACK_NS = 5_000_000_000
CLOCK_NS = 1_000_000_000  # time over which the paces of two clocks are compared
SLOWEST, FASTEST = 0.5, 2.0  # of a switch's clock beside ours
SHORTEST_NS = 100_000  # no interval is shorter
IDLE_S = 1.0  # longest wait for lines of the receiver

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class _Known:
    """The last value of a series."""

    value: int
    time_ns: int  # its stamp
    start_ns: int
    heard_ns: int  # when it came


@dataclasses.dataclass
class _Clock:
    """A switch's clock beside ours."""

    time_ns: int
    heard_ns: int
    usable: bool = True

    def take(self, time_ns: int, now_ns: int) -> bool:
        """Take a stamp; return whether a comparison found a pace that cannot be."""
        passed, waited = time_ns - self.time_ns, now_ns - self.heard_ns
        if waited < CLOCK_NS:
            return False
        self.time_ns, self.heard_ns = time_ns, now_ns
        if passed < 0:  # set back
            return False
        self.usable = SLOWEST <= passed / waited <= FASTEST
        return not self.usable


@dataclasses.dataclass
class _Fresh:
    """Marks of a port that were not handed on yet."""

    marks: int = 0
    elapsed_ns: dict[int, int] = dataclasses.field(default_factory=dict)  # by queue


@dataclasses.dataclass
class Switch:
    """A switch and what its exports said."""

    dpid: int
    origin: Origin
    series: dict[Series, _Known] = dataclasses.field(default_factory=dict)
    totals: dict[str, int] = dataclasses.field(default_factory=dict)  # marks by port's name, since the start
    fresh: dict[str, _Fresh] = dataclasses.field(default_factory=dict)
    clock: Optional[_Clock] = None
    told: set[Series] = dataclasses.field(default_factory=set)  # whose marks came in this round


class OtlpMarks(MarkSource):
    """Marks in exports of OpenTelemetry metrics; ``orders`` are the receiver's."""

    name = "otlp"
    semantics = Semantics.SET_HERE
    polled = False

    def __init__(self, settings: Settings, topology: Topology, orders: Orders) -> None:
        super().__init__()
        self._period_ns = settings.period_us * 1000
        self._named = NamedPorts(settings.otlp_ports, topology)
        self._orders = orders
        self._receiver = Origin(f"receiver at {orders.address}")
        names: dict[int, list[str]] = {}
        for name, dpid in orders.switches.items():
            names.setdefault(dpid, []).append(name)
        self.switches = {dpid: Switch(dpid, Origin(", ".join(found))) for dpid, found in names.items()}
        self._window_ns = 0  # when the marks that wait began to
        self._heard_ns = 0

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "OtlpMarks":
        """Return a source by settings; raises SettingsError when a file they name is unusable."""
        switches = {one.name: one.dpid for one in map(read_switch, settings.otlp_switches)}
        files = []
        for name in ("otlp_tls_key", "otlp_tls_cert", "otlp_tls_ca"):
            path = getattr(settings, name)
            try:
                files.append(path and path.read_text("ascii"))
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"{name} {path}: {error}") from None
        lists = None if settings.otlp_tls_crl is None else str(settings.otlp_tls_crl)
        key, certificate, authority = files
        return cls(
            settings, topology, Orders(settings.otlp_listen, switches, key, certificate, authority, lists)
        )

    @property
    def freshness_ns(self) -> int:
        """Return how old a count may be, as measured: the longest interval between exports of a switch."""
        return max((self.news.interval_ns(dpid, self._heard_ns) or 0 for dpid in self.switches), default=0)

    # What the receiver says

    def feed(self, line: bytes, now_ns: int) -> None:
        """Take a line of the receiver; raises ValueError for one that no receiver writes."""
        said = parse(line)
        if isinstance(said, Export):
            self.take_export(said, now_ns)
        elif isinstance(said, Refusals):
            self.faults.update(said.counts)
        elif isinstance(said, Listening):
            self._receiver.heard(now_ns, in_time=True)
            LOG.info("otlp: listening at %s", self._orders.address)

    def take_export(self, export: Export, now_ns: int) -> None:
        """Take what a switch exported."""
        switch = self.switches.get(export.dpid)
        if switch is None or not export.values:
            return
        self._heard_ns = now_ns
        newest = max(value.time_ns for value in export.values.values())
        if switch.clock is None:
            switch.clock = _Clock(newest, now_ns)
        elif switch.clock.take(newest, now_ns):
            self.faults["clock_rate"] += 1
        late = self.news.is_silent(switch.dpid, now_ns)
        heard = False
        for series, value in export.values.items():
            if self._take_value(switch, switch.clock, series, value, now_ns):
                heard = True
                if series.statistic == MARKED:
                    self._hear(switch, series, now_ns)
        if heard:
            switch.origin.heard(now_ns, in_time=not late)

    def _hear(self, switch: Switch, series: Series, now_ns: int) -> None:
        """Take note that marks of a queue came; one that came already in this round begins the next one."""
        if not switch.told or series in switch.told:
            switch.told.clear()
            self.news.heard(switch.dpid, now_ns)
        switch.told.add(series)

    def _take_value(self, switch: Switch, clock: _Clock, series: Series, value: Value, now_ns: int) -> bool:
        """Take a value; return whether it is news."""
        if self._named.number(switch.dpid, series.port) is None:
            self.faults["port_unknown"] += 1
            return False
        known = switch.series.get(series)
        if known is None:
            if len(switch.series) >= SERIES_MAX and not self._make_room(switch, now_ns):
                self.faults["series_too_many"] += 1
                return False
        elif not self._is_newer(known, value, now_ns):
            return False
        fresh = self._fresh(known, value, now_ns) if value.delta else self._grown(known, value, now_ns)
        total = value.value
        if value.delta:
            total += known.value if known else 0
        switch.series[series] = _Known(total, value.time_ns, value.start_ns, now_ns)
        if series.statistic == MARKED:
            self._note(switch, clock, series, known, value, fresh, now_ns)
        return True

    @staticmethod
    def _make_room(switch: Switch, now_ns: int) -> bool:
        old = [one for one, known in switch.series.items() if now_ns - known.heard_ns > FORGOTTEN_NS]
        for one in old:
            del switch.series[one]
        return bool(old)

    def _is_newer(self, known: _Known, value: Value, now_ns: int) -> bool:
        if value.time_ns > known.time_ns:
            return True
        if value.time_ns == known.time_ns:
            self.faults["duplicate"] += 1
        elif now_ns - known.heard_ns > BACK_NS:
            return True
        else:
            self.faults["reordered"] += 1
        return False

    def _grown(self, known: Optional[_Known], value: Value, now_ns: int) -> Optional[int]:
        """Return how far a counter grew; None for a baseline."""
        if known is None:
            return None
        if value.time_ns < known.time_ns:
            self.faults["clock_back"] += 1
            return None
        if value.start_ns and known.start_ns and value.start_ns != known.start_ns:
            self.resets += 1
            return None
        grown = difference(known.value, value.value)
        if grown is None:
            self.resets += 1
        return grown

    def _fresh(self, known: Optional[_Known], value: Value, now_ns: int) -> Optional[int]:
        """Return what a delta adds; None when it is of a time that is known already, or cannot be told."""
        if known is None:
            return value.value if value.start_ns else None
        if value.time_ns < known.time_ns:
            self.faults["clock_back"] += 1
            return None
        if value.start_ns and value.start_ns < known.time_ns:
            self.faults["overlapping"] += 1
            return None
        return value.value

    def _note(
        self,
        switch: Switch,
        clock: _Clock,
        series: Series,
        known: Optional[_Known],
        value: Value,
        marks: Optional[int],
        now_ns: int,
    ) -> None:
        """Keep new marks of a queue until they are handed on."""
        switch.totals.setdefault(series.port, 0)
        if marks is None:
            return
        since_ns = value.start_ns if value.delta and value.start_ns else known.time_ns if known else value.time_ns
        elapsed_ns = value.time_ns - since_ns
        if known is not None and not clock.usable:
            elapsed_ns = now_ns - known.heard_ns
        if not self._window_ns:
            self._window_ns = now_ns
        fresh = switch.fresh.setdefault(series.port, _Fresh())
        fresh.marks += marks
        fresh.elapsed_ns[series.queue] = fresh.elapsed_ns.get(series.queue, 0) + max(elapsed_ns, SHORTEST_NS)
        switch.totals[series.port] += marks

    def close_window(self, now_ns: int) -> list[PortMarks]:
        """Return the marks that wait."""
        found = []
        for switch in self.switches.values():
            longest_ns = 2 * max(self.news.interval_ns(switch.dpid, now_ns) or 0, self._period_ns)
            for name, fresh in sorted(switch.fresh.items()):
                number = self._named.number(switch.dpid, name)
                if fresh.marks and number is not None:
                    elapsed_ns = max(fresh.elapsed_ns.values())
                    interval_ns = min(elapsed_ns, longest_ns)
                    found.append(
                        PortMarks((switch.dpid, number), scale(fresh.marks, elapsed_ns, interval_ns), interval_ns)
                    )
            switch.fresh.clear()
        self._window_ns = 0
        return found

    # The rim

    def collectors(self, deliver: Deliver, clock: Callable[[], int]) -> list[Callable[[], None]]:
        """Return the one reader of the receiver, which it starts."""
        return [lambda: self._receive(deliver, clock)]

    def _receive(self, deliver: Deliver, clock: Callable[[], int]) -> None:
        """Read until the receiver ends, which it should not."""
        receiver = Receiver(self._orders)
        try:
            while True:
                left_ns = self._window_ns + self._period_ns - clock() if self._window_ns else round(IDLE_S * 1e9)
                lines = receiver.lines(max(0, left_ns) / 1e9)
                if lines is None:
                    break
                for line in lines:
                    self.feed(line, clock())
                    time.sleep(0)  # for others between two lines
                self._watch(clock())
                if self._window_ns and clock() - self._window_ns >= self._period_ns:
                    deliver(self.close_window(clock()))
        finally:
            receiver.close()
        self.faults["receiver_ended"] += 1
        self._receiver.failed("silent", "the receiver ended; its reason is in the log")
        LOG.error("otlp: the receiver at %s ended; it is started again", self._orders.address)

    def _watch(self, now_ns: int) -> None:
        """Note switches of which nothing is heard any more."""
        for switch in self.switches.values():
            if switch.origin.state != "silent" and self.news.is_silent(switch.dpid, now_ns):
                switch.origin.failed("silent", "its exports ceased")

    # What is known

    def counted(self, dpid: int) -> bool:
        """Tell whether any queue of a switch has a mark counter."""
        switch = self.switches.get(dpid)
        return switch is not None and bool(switch.totals)

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return the last reading of each port of a switch that has an OpenFlow number."""
        switch = self.switches.get(dpid)
        sums: dict[str, dict[int, int]] = {}
        for series, known in switch.series.items() if switch else ():
            port = sums.setdefault(series.port, {})
            port[series.statistic] = port.get(series.statistic, 0) + known.value
        shown = {}
        for name, sum_of in sums.items():
            number = self._named.number(dpid, name)
            if number is not None and switch is not None:
                marks = switch.totals.get(name)
                kinds = () if marks is None else ("wred",)
                shown[number] = Reading(marks, kinds, sum_of.get(PACKETS), sum_of.get(BYTES), sum_of.get(DROPPED))
        return shown

    def origins(self, now_ns: int) -> list[dict[str, Any]]:
        """Return the receiver, and the switches."""
        return [
            self._receiver.view(now_ns),
            *(
                {**one.origin.view(now_ns), "switch": f"{one.dpid:016x}", "series": len(one.series)}
                for one in self.switches.values()
            ),
        ]

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Begin anew with a port or a switch: its exports go on when its OpenFlow connection ends."""
        switch = self.switches.get(dpid)
        if switch is None:
            return
        for series in [one for one in switch.series if port is None or self._named.number(dpid, one.port) == port]:
            del switch.series[series]
        switch.told.clear()
        for name in [name for name in switch.totals if port is None or self._named.number(dpid, name) == port]:
            del switch.totals[name]
            switch.fresh.pop(name, None)
