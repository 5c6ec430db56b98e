# SPDX-License-Identifier: Apache-2.0
"""The reader's end of the pipes: what became different of ports since the controller was told, a part of it at a time.

A reader is a process of its own: to take in the ports of a large cloud takes seconds of computing, which the
controller's event loop does not have, and what a hostile database sends fills the memory of this process only, which is
bounded. When it dies, the controller starts another and meanwhile knows what it knew.
"""

import os
import resource
import select
import signal
import warnings
from typing import Callable, Iterable, Optional

from sdngcc.controller.databases.ports import Report, begins_line, gone_line, port_line, report_line, whole_line
from sdngcc.controller.network.directory import PORTS_MAX, CloudPort

PORTS_A_TURN = 2048  # so that a database whose rows never stand still takes little of the controller's time
TURN_S = 0.5
MEMORY_MAX_BYTES = 2 << 30  # of addresses, libraries among them


class Teller:
    """Tells the controller of ports; ``write`` takes lines."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.refused = 0  # rows that could not be used, since the last turn
        self._write = write
        self._waiting: dict[str, Optional[CloudPort]] = {}
        self._known: dict[str, CloudPort] = {}  # told or waiting
        self._complete = False  # all there are were given
        self._whole = False  # and told
        write(begins_line())

    def give(self, port: CloudPort) -> None:
        """Take a port as it is now; of too many it is refused."""
        if self._known.get(port.id) == port:
            return
        if port.id not in self._known and len(self._known) >= PORTS_MAX:
            self.refused += 1
            return
        self._known[port.id] = port
        self._waiting[port.id] = port

    def take_away(self, port_id: str) -> None:
        """Take note that a port is no more."""
        if self._known.pop(port_id, None) is not None:
            self._waiting[port_id] = None

    def give_all(self, ports: Iterable[CloudPort]) -> None:
        """Take all ports there are: others are no more."""
        found = {port.id: port for port in ports}
        for port_id in [port_id for port_id in self._known if port_id not in found]:
            self.take_away(port_id)
        for port in found.values():
            self.give(port)
        self._complete = True

    def turn(self, report: Report) -> None:
        """Tell the state, and some of what waits."""
        lines = []
        for port_id in list(self._waiting)[:PORTS_A_TURN]:
            port = self._waiting.pop(port_id)
            lines.append(gone_line(port_id) if port is None else port_line(port))
        if self._complete and not self._whole and not self._waiting:
            self._whole = True
            lines.append(whole_line())
        lines.append(report_line(report._replace(refused=self.refused)))
        self.refused = 0
        self._write(b"".join(lines))


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a pipe, however long that takes; end the process when nobody reads it any more."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        os._exit(0)


def ended(descriptor: int, wait_s: float) -> bool:
    """Wait so long; tell whether the controller has closed the other end of a pipe meanwhile."""
    return bool(select.select([descriptor], [], [], wait_s)[0]) and not os.read(descriptor, 4096)


def limit() -> None:
    """Bound the memory of this process, and leave Ctrl-C to the controller.

    What python-ovs says of eventlet when it is imported is nothing for the controller's log.
    """
    warnings.filterwarnings("ignore", r"\s*Eventlet is deprecated")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = MEMORY_MAX_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_MAX_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


def read_line(descriptor: int) -> bytes:
    """Return the first line of a pipe, without what comes after it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            break
        line += byte
    return line
