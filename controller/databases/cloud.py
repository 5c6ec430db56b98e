# SPDX-License-Identifier: Apache-2.0
"""The controller's end of readers of the cloud's databases: OVN's Southbound one, and Neutron's API.

Each is read by a process of its own (telling.py).  Here its lines become the directory of ports, a few at a time. What
was known stays known while a database, or its reader, is away.
"""

import collections
import logging
import time
from typing import Callable, Iterator, NamedTuple

from sdngcc.controller.child import Child
from sdngcc.controller.databases import neutron_orders, ovn, ports
from sdngcc.controller.databases.health import Health, Kind
from sdngcc.controller.framework.tls import files_of
from sdngcc.controller.network.directory import CloudPort, Directory, Source
from sdngcc.controller.settings import Settings

SILENT_NS = 120_000_000_000  # a reader that says nothing for so long is ended; while it does not read, it reports
_TURN = 16  # lines taken before other work of the process gets its turn
_WAIT_S = 0.5
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}  # each takes addresses, which are bounded
_CONSEQUENCE = "ports keep the names, addresses, networks and tenants that are known of them"

LOG = logging.getLogger(__name__)


class Reading(NamedTuple):
    """What a reader is started with."""

    source: Source
    name: str  # of the database, for people
    module: str
    orders: bytes


class CloudDatabase:
    """One database of the cloud; ``changed`` is called after lines that changed ``directory``."""

    def __init__(
        self,
        reading: Reading,
        directory: Directory,
        counters: "collections.Counter[str]",
        clock: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        kind: Kind = reading.source
        self.source = reading.source
        self.health = Health(reading.name, kind, clock(), _CONSEQUENCE, awaited=False)
        self._reading = reading
        self._directory = directory
        self._counters = counters
        self._clock = clock
        self._changed = changed
        self._heard_ns = clock()

    def take(self, line: bytes, now_ns: int) -> list[str]:
        """Take a line of the reader; return the ports to be dropped by drop(), as it has told all others.

        Raises ValueError for a line that no reader writes.
        """
        said = ports.parse(line)
        self._heard_ns = now_ns
        if isinstance(said, CloudPort):
            if not self._directory.take(self.source, said):
                self._counters["cloud_ports_refused"] += 1
        elif isinstance(said, ports.Gone):
            self.drop(said.id)
        elif isinstance(said, ports.Report):
            self._report(said, now_ns)
        elif isinstance(said, ports.Begins):
            self._directory.begin(self.source)
        else:
            return self._directory.unmentioned(self.source)
        return []

    def drop(self, port_id: str) -> None:
        """Forget what the database said of a port."""
        self._directory.drop(self.source, port_id)

    def _report(self, report: ports.Report, now_ns: int) -> None:
        self._counters["cloud_ports_refused"] += report.refused
        self.health.become(report.state, now_ns)
        if report.fault is not None and report.fault != self.health.own_fault:
            LOG.error("%s database %s: %s", self.health.kind, self.health.remote, report.fault)
        self.health.own_fault = report.fault

    def follow(self) -> None:
        """Read until the reader ends, which it should not; then its database counts as unusable."""
        self._heard_ns = self._clock()
        reader = Child(self._reading.module, self._reading.orders, ports.LINE_MAX_BYTES, _ENVIRONMENT)
        why = "its reader ended; another is started"
        try:
            while True:
                lines = reader.lines(_WAIT_S)
                if lines is None:
                    break
                if self._clock() - self._heard_ns > SILENT_NS:
                    why = f"its reader said nothing for {SILENT_NS // 1_000_000_000} s; another is started"
                    break
                self._take_all(lines)
        except ValueError as error:
            why = f"its reader says what none should: {error}; another is started"
        finally:
            reader.close()
        self._counters["cloud_readers_ended"] += 1
        self._report(ports.Report("unusable", why, 0), self._clock())

    def _take_all(self, lines: Iterator[bytes]) -> None:
        version = self._directory.version
        for number, line in enumerate(lines, 1):
            for gone in self.take(line, self._clock()):
                self.drop(gone)
                time.sleep(0)
            if not number % _TURN:
                time.sleep(0)  # for others
        if self._directory.version != version:
            self._changed()


def readings(settings: Settings) -> list[Reading]:
    """Return what is to be read, by settings."""
    found = []
    if settings.ovn_sb:
        orders = ovn.Orders(settings.ovn_sb, files_of(settings)).dump()
        found.append(Reading("ovn", ",".join(settings.ovn_sb), ovn.MODULE, orders))
    neutron = neutron_orders.orders_of(settings)
    if neutron is not None:
        found.append(Reading("neutron", neutron.name, neutron_orders.MODULE, neutron.dump()))
    return found


def make(
    settings: Settings,
    directory: Directory,
    counters: "collections.Counter[str]",
    clock: Callable[[], int],
    changed: Callable[[], None],
) -> list[CloudDatabase]:
    """Return the databases of the cloud that settings name."""
    return [CloudDatabase(one, directory, counters, clock, changed) for one in readings(settings)]
