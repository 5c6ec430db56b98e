# SPDX-License-Identifier: Apache-2.0
"""How long the controller is busy at a stretch when somebody watches: what REST tells once a second of a large network.

The network is that of size.py. Each time that the reporter lets others have their turn ends a call.
"""

import time
from typing import Any, Callable, List, Optional

from sdngcc.controller.rest.audit import AuditLog
from sdngcc.controller.rest.events import Broker
from sdngcc.controller.rest.live import Live
from sdngcc.controller.rest.reporter import Reporter
from sdngcc.controller.rest.resource import RestContext
from sdngcc.testbed.bench.size import Row, Site


class _NoPolicy:
    """Databases that know no port."""

    remotes = ()

    def read(self, dpid: int, name: str) -> Optional[Any]:
        """Return what is set for a port: nobody knows."""
        return None


class Watched:
    """REST's reporter over a network."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._begun_s = 0.0
        engine = site.engine
        audit, policy = AuditLog(None, engine.counters), _NoPolicy()
        context = RestContext(engine, policy, Live(engine), audit, self._pause)  # type: ignore[arg-type]
        self.reporter = Reporter(context, Broker(1, 1, engine.counters))

    def _pause(self) -> None:
        self._site.calls.append(time.thread_time() - self._begun_s)
        self._site.collector.run()
        self._begun_s = time.thread_time()

    def row(self, name: str, happen: Callable[[], Any]) -> Row:
        """Measure what happens, between any two turns of others."""
        calls = self._site.calls
        calls.clear()
        self._begun_s = time.thread_time()
        happen()
        self._pause()
        return Row(name, max(calls) * 1e3, sum(calls) * 1e3, len(calls), 0)

    def move(self) -> None:
        """Let each VM have been told something."""
        for switch in self._site.engine.switches.values():
            for vm in switch.vms.values():
                vm.notices += 1
                vm.marks += 1


def rows(site: Site) -> List[Row]:
    """Let somebody begin to watch, and watch; return a row each time."""
    watched = Watched(site)
    watched.reporter.tick()  # tells of each switch
    found = [watched.row("somebody begins to watch", lambda: watched.reporter.join(None, lambda: None))]
    watched.reporter.tick()
    found.append(watched.row("watched for a second, nothing moves", watched.reporter.tick))
    watched.move()
    found.append(watched.row("watched for a second, all VMs move", watched.reporter.tick))
    assert watched.reporter.broker.clients, "nobody watched"
    return found
