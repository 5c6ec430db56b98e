# SPDX-License-Identifier: Apache-2.0
"""Databases that connect to the controller: their connections as python-ovs takes them, and clients by these.

A client of client.py stays the same over all connections of its database; where that one has none it waits for the
next, which is handed to it by :meth:`AcceptedClient.attach`.  What a database may make the controller keep or do is
bounded: bytes of a document, of a connection and a second, rows, time to read the tables, answers it does not read.
"""

import errno
import itertools
import ssl
import time
from collections import deque
from typing import Any, Callable, Mapping, Optional
from uuid import UUID

from ovs import timeval
from ovs.stream import Stream

from sdngcc.controller.databases.client import Client, make_idl
from sdngcc.controller.databases.documents import DocumentError, Documents
from sdngcc.controller.databases.health import State
from sdngcc.controller.framework.admission import Channel, Reason
from sdngcc.controller.framework.certificates import Identity

DOCUMENT_MAX_BYTES = 4 << 20  # the tables of some 4,000 ports
CONNECTION_MAX_BYTES = 64 << 20
BYTES_A_SECOND = 1 << 20
BURST_BYTES = 1 << 19
ROWS_MAX = 32_768
BACKLOG_MAX_BYTES = 1 << 20
READING_NS = 30_000_000_000  # from the connection to the end of the tables, and of any document
_CHUNK_BYTES = 65_536
_METHOD = "accepted"
_NO_TRANSACTION = str(UUID(int=0))
_MAP = {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}


class Line:
    """One connection of a database: a socket that yields whole documents, no more than allowed.

    ``ended`` is called once, with this line, when it is closed; ``cause`` tells why then, None when the database closed
    it.  python-ovs reads by recv() once the socket does not block any more; one call never goes beyond the end of a
    document, where python-ovs would lose the beginning of a character.
    """

    def __init__(
        self,
        sock: Any,
        channel: Channel,
        ended: Callable[["Line"], None],
        limit_bytes: int,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.sock = sock
        self.channel = channel
        self.identity: Optional[Identity] = None  # None: it came without TLS
        self.cause: Optional[tuple[Reason, str]] = None
        self.closed = False
        self.received = 0  # bytes
        self.documents = Documents(limit_bytes)
        self._ended = ended
        self._clock = clock
        self._whole: deque[bytes] = deque()
        self._current = memoryview(b"")
        self._at_end = False
        self._begun_ns = 0  # when the unfinished document began
        self._allowed = float(BURST_BYTES)
        self._allowed_ns = clock()

    def read_document(self) -> bytes:
        """Return the next document, b"" at the end; waits as the socket does. Raises OSError or DocumentError."""
        while not self._whole:
            chunk = self.sock.recv(_CHUNK_BYTES)
            if not chunk:
                self._at_end = True
                return b""
            self._take(chunk)
        return self._whole.popleft()

    def recv(self, size: int) -> bytes:
        """Return bytes of one document, b"" at the end; raises BlockingIOError while there are none."""
        if not self._current:
            if not self._whole and not self._fill():
                return b""
            self._current = memoryview(self._whole.popleft())
        data, self._current = self._current[:size], self._current[size:]
        return bytes(data)

    def _fill(self) -> bool:
        """Read until a document is whole; return whether there is one, or the connection's end."""
        now = self._clock()
        self._allowed = min(BURST_BYTES, self._allowed + (now - self._allowed_ns) * BYTES_A_SECOND / 1e9)
        self._allowed_ns = now
        while not self._whole:
            if self._allowed <= 0:
                raise BlockingIOError(errno.EAGAIN, "it sent more than a connection may in a second")
            try:
                chunk = self.sock.recv(_CHUNK_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise BlockingIOError(errno.EAGAIN, "nothing came") from None
            except ssl.SSLError as error:
                self.blame(Reason.TLS, f"TLS failed ({error})")
                raise OSError(errno.EPROTO, str(error)) from None
            if not chunk:
                self._at_end = True
                return False
            self._allowed -= len(chunk)
            try:
                self._take(chunk)
            except DocumentError as error:
                self.blame(Reason.MALFORMED, f"it sent {error}")
                raise OSError(errno.EPROTO, str(error)) from None
        return True

    def _take(self, chunk: bytes) -> None:
        self.received += len(chunk)
        if self.received > CONNECTION_MAX_BYTES:
            raise DocumentError(f"more than {CONNECTION_MAX_BYTES} bytes, the most of one connection")
        before = self.documents.unfinished
        for document in self.documents.feed(chunk):
            self._whole.append(document)
            before = False
        if self.documents.unfinished and not before:
            self._begun_ns = self._clock()

    def is_late(self, now_ns: int) -> bool:
        """Tell whether a document began so long ago that its end should have come."""
        return self.documents.unfinished and now_ns - self._begun_ns > READING_NS

    def send(self, data: bytes) -> int:
        """Send what goes at once; return how many bytes that were."""
        try:
            return int(self.sock.send(data))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError(errno.EAGAIN, "nothing goes") from None
        except ssl.SSLError as error:
            raise OSError(errno.EPROTO, str(error)) from None

    def blame(self, reason: Reason, text: str) -> None:
        """Take note why the connection ends, unless that is known."""
        if self.cause is None and not self.closed:
            self.cause = reason, text

    def close(self) -> None:
        """Close it; again is no harm. Where nobody said why, and the database did not, it could not be read."""
        if self.closed:
            return
        if not self._at_end:
            self.blame(Reason.MALFORMED, "it sent what is no JSON-RPC of a database")
        self.closed = True
        try:
            self.sock.close()
        finally:
            self._ended(self)

    def quit(self) -> None:
        """Close it; where nobody said why there is nothing to say."""
        self._at_end = True
        self.close()

    def setsockopt(self, *option: Any) -> None:
        """Set an option of the socket, as cut() does."""
        self.sock.setsockopt(*option)

    def shutdown(self, how: int) -> None:
        """Shut the socket down."""
        self.sock.shutdown(how)

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return int(self.sock.fileno())


class AcceptedStream(Stream):  # type: ignore[misc]
    """python-ovs' connection method of lines: ``accepted:<place>`` opens what was offered for a place."""

    offered: dict[str, Line] = {}

    @staticmethod
    def needs_probes() -> bool:
        """Tell python-ovs that the client probes by itself."""
        return False

    @staticmethod
    def _open(suffix: str, dscp: int) -> tuple[int, Optional[Line]]:
        line = AcceptedStream.offered.pop(suffix, None)
        return (errno.ENOTCONN, None) if line is None or line.closed else (0, line)

    @staticmethod
    def check_connection_completion(sock: Any) -> int:
        """Tell python-ovs that a line is connected."""
        return 0


Stream.register_method(_METHOD, AcceptedStream)
_places = itertools.count()


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
        self._place = str(next(_places))
        tables = schema["tables"]
        system = tables.get("Open_vSwitch", {"columns": {}, "isRoot": True})
        system = {**system, "columns": {**system["columns"], "external_ids": _MAP}}
        self._schema = {**schema, "tables": {**tables, "Open_vSwitch": system}}
        super().__init__(f"{_METHOD}:{self._place}", self._schema, sleep, clock, name=f"node {name}")
        self.health.awaited = False  # nodes come and go
        self.name = name
        self.line: Optional[Line] = None  # the last one
        self.dpids: frozenset[int] = frozenset()
        self._attached = 0
        self._attached_ns = 0

    @property
    def connection(self) -> int:
        """The number of the connection there is, or was last."""
        return self._attached

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
            self.line.blame(Reason.REPLACED, text)
            self.cut()
        if self.line is not None and self.line.cause is not None and self.line.cause[0] is Reason.MALFORMED:
            self.idl.close()
            self.idl = make_idl(f"{_METHOD}:{self._place}", self._schema)  # nothing it made us keep stays
        line.documents.limit_bytes = DOCUMENT_MAX_BYTES
        line.sock.setblocking(False)
        self.line, self._attached, self._attached_ns = line, self._attached + 1, self._clock()
        AcceptedStream.offered[self._place] = line
        self.idl.last_id = _NO_TRANSACTION  # all tables are read anew
        reconnect, now_ms = self.idl._session.reconnect, timeval.msec()
        reconnect.disable(now_ms)
        reconnect.enable(now_ms)  # without waiting for its next attempt
        self.run()

    def end(self, reason: Reason, text: str) -> None:
        """End the connection there is, and say why."""
        if self.line is not None and not self.line.closed:
            self.line.blame(reason, text)
            self.cut()

    def cut(self) -> None:
        """Reset the connection: what waits in it is discarded, here and in the kernel."""
        line = self.line
        if line is not None:
            line.blame(Reason.SILENT, "it accepts what it is sent and answers nothing")
        super().cut()
        if line is not None:
            AcceptedStream.offered.pop(self._place, None)
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
        line = self.line
        if line is None or line.closed:
            return
        now, session = self._clock(), self.idl._session
        if session.rpc is not None and session.rpc.get_backlog() > BACKLOG_MAX_BYTES:
            self.end(Reason.DEAF, f"{BACKLOG_MAX_BYTES} bytes wait that it does not read")
        elif self._rows() > ROWS_MAX:
            self.end(Reason.MALFORMED, f"it has more than {ROWS_MAX} rows of bridges, ports and interfaces")
        elif line.is_late(now) or (not self.ready and now - self._attached_ns > READING_NS):
            self.end(Reason.HANDSHAKE, f"it took more than {READING_NS / 1e9:g} s for a document, or for its tables")
        elif self.ready and self.system_id() != self.name:
            text = f'it was admitted as node {self.name} and says that it is node "{self.system_id()}" now'
            self.end(Reason.NOT_ADMITTED, text)

    def _rows(self) -> int:
        tables = [*self.idl.tables.values(), *(self.idl.server_tables or {}).values()]
        return sum(len(table.rows) for table in tables)

    def _refuse_message(self, error: Exception) -> None:
        self.end(Reason.MALFORMED, f"it sent what python-ovs cannot read ({type(error).__name__})")

    def _received(self, rpc: Any) -> int:
        return self.line.received if self.line is not None else 0

    def _state(self, judged: State) -> State:
        return "gone" if judged == "unreachable" else judged


def system_name(row: str, external_ids: Mapping[str, str]) -> str:
    """Return what a node is called: the system-id of its Open_vSwitch row, else that row's UUID.

    The first 128 characters count, those that cannot be printed as question marks.
    """
    given = external_ids.get("system-id", "").strip() or row
    return "".join(one if one.isprintable() else "?" for one in given[:128])
