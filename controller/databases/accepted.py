# SPDX-License-Identifier: Apache-2.0
"""Databases that connect to the controller: their connections, and clients by these.

A client of client.py stays the same over all connections of its database; where that one has none it waits for the
next, which is handed to it by :meth:`AcceptedClient.attach`.  What a connection may cost is transport.py's to say.
"""

import time
from typing import Any, Callable, Mapping, Optional
from uuid import UUID

from ovs import timeval

from sdngcc.controller.databases.client import Client
from sdngcc.controller.databases.health import State
from sdngcc.controller.databases.transport import BOUNDS, Bounds, Transport
from sdngcc.controller.framework.admission import Channel, Reason
from sdngcc.controller.framework.certificates import Identity

_NO_TRANSACTION = str(UUID(int=0))
_MAP = {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}


class Line(Transport):
    """One connection that a database made.

    ``ended`` is called once, with this line, when it is closed.
    """

    def __init__(
        self,
        sock: Any,
        channel: Channel,
        ended: Callable[["Line"], None],
        bounds: Bounds = BOUNDS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(sock, bounds, clock)
        self.channel = channel
        self.identity: Optional[Identity] = None  # None: it came without TLS
        self._ended = ended

    def close(self) -> None:
        """Close it; again is no harm."""
        if not self.closed:
            try:
                super().close()
            finally:
                self._ended(self)

    def quit(self) -> None:
        """Close it; where nobody said why there is nothing to say."""
        self.blameless = True
        self.close()


class AcceptedClient(Client):
    """A client of a database that connects to the controller; ``name`` is the one that it goes by.

    ``dpids`` are the bridges for which it is believed; whoever decides that sets them.
    """

    def __init__(
        self,
        name: str,
        schema: Mapping[str, Any],
        sleep: Callable[[float], Any],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        tables = schema["tables"]
        system = tables.get("Open_vSwitch", {"columns": {}, "isRoot": True})
        system = {**system, "columns": {**system["columns"], "external_ids": _MAP}}
        whole = {**schema, "tables": {**tables, "Open_vSwitch": system}}
        super().__init__("", whole, sleep, clock, name=f"node {name}", bounds=BOUNDS)
        self.health.awaited = False  # nodes come and go
        self.name = name
        self.line: Optional[Line] = None  # the last one
        self.dpids: frozenset[int] = frozenset()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, by which something may be read or not."""
        return self.line is not None and not self.line.closed

    @property
    def was_connected(self) -> bool:
        """Whether tables were ever read."""
        return self._read_by is not None

    def speaks_for(self, dpid: int) -> bool:
        """Tell whether what the database says of a bridge is believed."""
        return dpid in self.dpids

    def attach(self, line: Line) -> None:
        """Go on by another connection; the one there is ends."""
        if self.line is not None and not self.line.closed:
            text = f"it did not answer when {line.channel} connected as node {self.name}, too"
            self.end(Reason.REPLACED, text)
        line.bounds = self.gate.bounds
        line.documents.limit_bytes = line.bounds.document_bytes
        line.opened_ns = self._clock()
        line.sock.setblocking(False)
        self.line = line
        self.gate.offer(line)
        self.idl.last_id = _NO_TRANSACTION  # all tables are read anew
        reconnect, now_ms = self.idl._session.reconnect, timeval.msec()
        reconnect.disable(now_ms)
        reconnect.enable(now_ms)  # without waiting for its next attempt
        self.run()

    def cut(self) -> None:
        """Reset the connection: what waits in it is discarded, here and in the kernel."""
        line = self.line
        if line is not None:
            line.blame(Reason.SILENT, "it accepts what it is sent and answers nothing")
        super().cut()
        if line is not None:
            self.gate.withdraw(line)
            line.close()  # where python-ovs did not come to it

    def ask(self) -> None:
        """Ask for an echo; ``answered`` tells later whether anything came since."""
        self._probe()

    def answered(self) -> bool:
        """Tell whether bytes came since ask()."""
        return self._liveness.answered()

    def system_id(self) -> Optional[str]:
        """Return what the database calls itself, as it was read last; None when it has no such table."""
        return next((system_name(str(row.uuid), row.external_ids)
                     for row in self.idl.tables["Open_vSwitch"].rows.values()), None)  # fmt: skip

    def _run(self) -> None:
        super()._run()
        if self.is_connected and self.ready and not self.replica.reading and self.system_id() != self.name:
            text = f'it was admitted as node {self.name} and says that it is node "{self.system_id()}" now'
            self.end(Reason.NOT_ADMITTED, text)

    def _tell_end(self, reason: Reason, text: str) -> None:
        """Leave it to the listener, which is told of each end."""

    def _state(self, judged: State) -> State:
        return "gone" if judged == "unreachable" else judged


def system_name(row: str, external_ids: Mapping[str, str]) -> str:
    """Return what a node is called: the system-id of its Open_vSwitch row, else that row's UUID.

    The first 128 characters count, those that cannot be printed as question marks.
    """
    given = external_ids.get("system-id", "").strip() or row
    return "".join(one if one.isprintable() else "?" for one in given[:128])
