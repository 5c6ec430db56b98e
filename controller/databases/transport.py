# SPDX-License-Identifier: Apache-2.0
"""Connections of OVSDB as python-ovs takes them, whichever end made them; what one may cost is bounded.

python-ovs reads whatever comes and keeps it. Here it is given whole documents only, each bounded in bytes and in
nesting (documents.py). The bytes and the processor time that a connection takes in a second are bounded, and so are the
rows and the bytes that it makes the controller keep, and what waits that it does not read. A connection that stays over
its part is ended, and its cause says why. Long work is done in short stretches with other work between them.

A Gate stands for all connections of one client: it opens them, counts what they cost, and lets a while pass after one
that was ended for it. A Replica is what python-ovs keeps of a database by these connections.
"""

import errno
import itertools
import socket
import ssl
import struct
import time
import weakref
from collections import deque
from typing import Any, Callable, ClassVar, Mapping, NamedTuple, Optional

from ovs.stream import Stream

from sdngcc.controller.budget import REST, Budget, Stretches
from sdngcc.controller.databases import messages
from sdngcc.controller.databases.documents import LONG, DocumentError, Documents, parse
from sdngcc.controller.framework.admission import Reason

_CHUNK_BYTES = 16_384
_CUT_BYTES = 256  # of it that are cut into documents before others may run
_METHOD = "gate"
_BACKOFF_MS = 1000
HOLD_MIN_NS = 1_000_000_000  # between a connection that was ended for its cost and the next one
HOLD_MAX_NS = 60_000_000_000
COSTLY = (Reason.MALFORMED, Reason.COSTLY, Reason.DEAF, Reason.HANDSHAKE)
SOUND_NS = 60_000_000_000  # a connection that is sound for so long makes good for those before


class Bounds(NamedTuple):
    """What one connection may cost."""

    document_bytes: int = 4 << 20  # the tables of some 4,000 ports
    bytes_a_second: int = 1 << 20
    burst_bytes: int = 1 << 19
    work_ns_a_second: int = 100_000_000  # of processor time
    work_burst_ns: int = 3_000_000_000  # the tables of some 4,000 ports take a third of it
    rows: int = 32_768  # of all tables
    bridges: int = 64  # of them
    kept_bytes: int = 64 << 20  # in columns of rows
    backlog_bytes: int = 1 << 20  # to be sent, and not read by the other end
    reading_ns: int = 30_000_000_000  # from the connection to the end of the tables, and of any document
    throttled_ns: int = 30_000_000_000  # over the bytes or the work of a second, in all
    rest: float = REST  # how long others have their turn after a stretch of work, beside what it took


BOUNDS = Bounds()


class Transport:
    """One connection: what is read of ``sock``, which does not block, comes in whole documents.

    ``cause`` tells why it was ended, None when the other end closed it. One call of recv() never goes beyond the end of
    a document, where python-ovs would lose the beginning of a character. ``pause`` is called while bytes are taken in.
    """

    def __init__(self, sock: Any, bounds: Bounds, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.sock = sock
        self.bounds = bounds
        self.pause: Callable[[], None] = _go_on
        self.work: Optional[Budget] = None  # of its client, ns of processor time
        self.cause: Optional[tuple[Reason, str]] = None
        self.closed = False
        self.received = 0  # bytes
        self.opened_ns = clock()
        self.documents = Documents(bounds.document_bytes)
        self.blameless = False  # its end is nobody's fault: the other end closed it, or this one left
        self._clock = clock
        self._whole: deque[bytes] = deque()
        self._current = memoryview(b"")
        self._begun_ns = 0  # when the unfinished document began
        self._bytes = Budget(bounds.bytes_a_second, bounds.burst_bytes, clock())
        self._withheld_since_ns: Optional[int] = None  # since when nothing is read, for it is over its part
        self._withheld_ns = 0  # in all, before that

    def read_document(self) -> bytes:
        """Return the next document, b"" at the end; waits as the socket does.

        Raises OSError, and DocumentError, too, once more than bounds.burst_bytes have come.
        """
        while not self._whole:
            chunk = self.sock.recv(_CHUNK_BYTES)
            if not chunk:
                self.blameless = True
                return b""
            self._take(chunk)
            if self.received > self.bounds.burst_bytes:
                raise DocumentError(f"more than {self.bounds.burst_bytes} bytes where a few hundred were asked for")
        return self._whole.popleft()

    def recv(self, size: int) -> bytes:
        """Return bytes of one document, b"" at the end; raises BlockingIOError while there are none."""
        self.pause()
        if not self._current:
            if not self._whole and not self._fill():
                return b""
            self._current = memoryview(self._whole.popleft())
        data, self._current = self._current[:size], self._current[size:]
        return bytes(data)

    @property
    def is_between(self) -> bool:
        """Return whether recv() has given the end of a document last."""
        return not self._current

    def _fill(self) -> bool:
        """Read until a document is whole; return whether there is one, or the connection's end."""
        while not self._whole:
            if self.is_over(self._clock()):
                raise BlockingIOError(errno.EAGAIN, "it takes more than a connection may in a second")
            try:
                chunk = self.sock.recv(_CHUNK_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise BlockingIOError(errno.EAGAIN, "nothing came") from None
            except BlockingIOError:
                raise
            except ssl.SSLError as error:
                self.blame(Reason.TLS, f"TLS failed ({error})")
                raise OSError(errno.EPROTO, str(error)) from None
            except OSError:
                self.blameless = True
                raise
            if not chunk:
                self.blameless = True
                return False
            self._bytes.spend(len(chunk), self._clock())
            try:
                self._take(chunk)
            except DocumentError as error:
                self.blame(Reason.MALFORMED, f"it sent {error}")
                raise OSError(errno.EPROTO, str(error)) from None
        return True

    def _take(self, chunk: bytes) -> None:
        self.received += len(chunk)
        for place in range(0, len(chunk), _CUT_BYTES):
            before = self.documents.unfinished
            for document in self.documents.feed(chunk[place : place + _CUT_BYTES]):
                self._whole.append(document)
                before = False
            if self.documents.unfinished and not before:
                self._begun_ns = self._clock()
            self.pause()

    def is_over(self, now_ns: int) -> bool:
        """Return whether nothing is read now, for the connection took more than its part of bytes or of work."""
        over = self._bytes.left(now_ns) <= 0 or (self.work is not None and self.work.left(now_ns) <= 0)
        if over and self._withheld_since_ns is None:
            self._withheld_since_ns = now_ns
        elif not over and self._withheld_since_ns is not None:
            self._withheld_ns += now_ns - self._withheld_since_ns
            self._withheld_since_ns = None
        if self._bytes.is_full(now_ns) and (self.work is None or self.work.is_full(now_ns)):
            self._withheld_ns = 0
        return over

    def withheld_ns(self, now_ns: int) -> int:
        """Return for how long nothing was read, for it was over its part, since its budgets were full last."""
        since = self._withheld_since_ns
        return self._withheld_ns + (0 if since is None else now_ns - since)

    def is_late(self, now_ns: int) -> bool:
        """Tell whether a document began so long ago that its end should have come."""
        return self.documents.unfinished and now_ns - self._begun_ns > self.bounds.reading_ns

    def send(self, data: bytes) -> int:
        """Send what goes at once; return how many bytes that were."""
        try:
            return int(self.sock.send(data))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError(errno.EAGAIN, "nothing goes") from None
        except BlockingIOError:
            raise
        except OSError as error:  # ssl.SSLError is one
            self.blameless = True
            raise OSError(error.errno or errno.EPROTO, str(error)) from None

    def blame(self, reason: Reason, text: str) -> None:
        """Take note why the connection ends, unless that is known."""
        if self.cause is None and not self.closed:
            self.cause = reason, text

    def close(self) -> None:
        """Close it; again is no harm. Where nobody said why, and the other end did not, it could not be read."""
        if self.closed:
            return
        if not self.blameless:
            self.blame(Reason.MALFORMED, "it sent what is no JSON-RPC of a database")
        self.closed = True
        self.sock.close()

    def setsockopt(self, *option: Any) -> None:
        """Set an option of the socket, as cut() does."""
        self.sock.setsockopt(*option)

    def shutdown(self, how: int) -> None:
        """Shut the socket down."""
        self.sock.shutdown(how)

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return int(self.sock.fileno())


class _Opened:
    """A stream of python-ovs' own as a socket: what it returns as an errno is raised."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def recv(self, size: int) -> bytes:
        """Return what came, b"" at the end; raises OSError, BlockingIOError among them."""
        error, data = self.stream.recv(size)
        if error:
            raise OSError(error, "cannot be read")  # with EAGAIN a BlockingIOError
        return data or b""

    def send(self, data: bytes) -> int:
        """Send what goes at once; raises OSError."""
        sent = self.stream.send(data)
        if sent < 0:
            raise OSError(-sent, "cannot be written")
        return int(sent)

    def setsockopt(self, *option: Any) -> None:
        """Set an option of the socket."""
        self.stream.socket.setsockopt(*option)

    def shutdown(self, how: int) -> None:
        """Shut the socket down."""
        self.stream.socket.shutdown(how)

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return int(self.stream.socket.fileno())

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()


class GateStream(Stream):  # type: ignore[misc]
    """python-ovs' connection method ``gate:<number of a gate>:<remote>``."""

    @staticmethod
    def needs_probes() -> bool:
        """Tell python-ovs that the client probes by itself."""
        return False

    @staticmethod
    def _open(suffix: str, dscp: int) -> tuple[int, Optional[Transport]]:
        number, _, remote = suffix.partition(":")
        gate = Gate.all.get(number)
        return (errno.ENOTCONN, None) if gate is None else gate.open(remote, dscp)

    @staticmethod
    def check_connection_completion(sock: Transport) -> int:
        """Return 0 when the connection stands, EAGAIN while it does not yet, else what went wrong."""
        return int(sock.sock.stream.connect()) if isinstance(sock.sock, _Opened) else 0


Stream.register_method(_METHOD, GateStream)
_numbers = itertools.count()


class Gate:
    """All connections of one client; ``sleep`` takes seconds and lets others run."""

    all: ClassVar["weakref.WeakValueDictionary[str, Gate]"] = weakref.WeakValueDictionary()

    def __init__(self, bounds: Bounds, sleep: Callable[[float], Any], clock: Callable[[], int]) -> None:
        self.bounds = bounds
        self.transport: Optional[Transport] = None  # the last one
        self.opened = 0  # connections so far
        self.number = str(next(_numbers))
        self.hold_ns = 0  # how long the last connection that was ended for its cost keeps others from being made
        self._hold_until_ns = 0
        self.stretches = Stretches(sleep, bounds.rest)
        self._clock = clock
        self._offered: Optional[Transport] = None
        self._told: Optional[Transport] = None  # whose end was told
        self._work = Budget(bounds.work_ns_a_second, bounds.work_burst_ns, clock())
        self._charged_ns = 0  # of the stretches' time
        self._checked_bytes = 0  # received when the rows were weighed last
        Gate.all[self.number] = self

    def methods(self, remote: str) -> str:
        """Return connection methods, with commas, as python-ovs is to open them here."""
        found: list[str] = []
        for one in remote.split(","):
            if found and ":" not in one:
                found[-1] += f",{one}"  # of a path
            else:
                found.append(f"{_METHOD}:{self.number}:{one}")
        return ",".join(found)

    def offer(self, transport: Transport) -> None:
        """Let a connection that the other end made be the next one."""
        self._offered = transport

    def withdraw(self, transport: Transport) -> None:
        """Take an offer back."""
        if self._offered is transport:
            self._offered = None

    def open(self, remote: str, dscp: int) -> tuple[int, Optional[Transport]]:
        """Return (0, a connection), or an errno and None."""
        transport, self._offered = self._offered, None
        if transport is None:
            if not remote or self._clock() < self._hold_until_ns:
                return errno.ENOTCONN, None
            error, stream = Stream.open(remote, dscp)
            if error:
                return int(error), None
            transport = Transport(_Opened(stream), self.bounds, self._clock)
        elif transport.closed:
            return errno.ENOTCONN, None
        if transport is not self.transport:
            self.enter(transport)
        return 0, transport

    def enter(self, transport: Transport) -> None:
        """Take a connection as the one there is."""
        self.opened += 1
        self.transport = transport
        self._checked_bytes = 0
        transport.pause, transport.work = self.pause, self._work

    def pause(self) -> None:
        """Let others run if this stretch of work was long enough."""
        self.stretches.pause()
        self.charge(self.stretches.spent_ns - self._charged_ns)
        self._charged_ns = self.stretches.spent_ns

    def charge(self, work_ns: int) -> None:
        """Take processor time from the client's budget."""
        if work_ns > 0:
            self._work.spend(work_ns, self._clock())

    def end(self) -> None:
        """End some work."""
        self.stretches.end()
        self.charge(self.stretches.spent_ns - self._charged_ns)
        self._charged_ns = self.stretches.spent_ns

    def is_over(self) -> bool:
        """Return whether the client gets nothing now, for the connection took more than its part."""
        transport = self.transport
        return transport is not None and not transport.closed and transport.is_over(self._clock())

    def ended(self) -> Optional[tuple[Reason, str]]:
        """Return once why the last connection was ended for what it cost or sent; None where it was not."""
        transport = self.transport
        if transport is None or not transport.closed or transport is self._told:
            return None
        self._told = transport
        return transport.cause if transport.cause is not None and transport.cause[0] in COSTLY else None

    def hold(self) -> None:
        """Let no connection be made for a while, twice as long as the last time."""
        self.hold_ns = min(max(2 * self.hold_ns, HOLD_MIN_NS), HOLD_MAX_NS)
        self._hold_until_ns = self._clock() + self.hold_ns

    def forgive(self) -> bool:
        """Forget what earlier connections did, once the one there is has been sound for long; return whether it is."""
        transport = self.transport
        sound = transport is not None and self._clock() - transport.opened_ns > SOUND_NS
        if sound:
            self.hold_ns = 0
        return sound

    def leave(self) -> None:
        """Let the end of the connection there is be nobody's fault."""
        if self.transport is not None:
            self.transport.blameless = True

    def fault(self, idl: Any, ready: bool) -> Optional[tuple[Reason, str]]:
        """Return why the connection there is has to end, None when it costs no more than it may."""
        transport, bounds, now = self.transport, self.bounds, self._clock()
        if transport is None or transport.closed:
            return None
        rpc, rows = idl._session.rpc, sum(len(table.rows) for table in tables_of(idl))
        if rpc is not None and rpc.get_backlog() > bounds.backlog_bytes:
            return Reason.DEAF, f"{bounds.backlog_bytes} bytes wait that it does not read"
        if rows > bounds.rows:
            return Reason.COSTLY, f"it has more than {bounds.rows} rows of bridges, ports and interfaces"
        if "Bridge" in idl.tables and len(idl.tables["Bridge"].rows) > bounds.bridges:
            return Reason.COSTLY, f"it has more than {bounds.bridges} bridges"
        if transport.received - self._checked_bytes > bounds.kept_bytes // 4:
            self._checked_bytes = transport.received
            if self._weigh(idl) > bounds.kept_bytes:
                return Reason.COSTLY, f"its rows hold more than {bounds.kept_bytes} bytes"
        late = transport.is_late(now) or (not ready and now - transport.opened_ns > bounds.reading_ns)
        if late and not transport.is_over(now):
            longest = bounds.reading_ns / 1e9
            return Reason.HANDSHAKE, f"it took more than {longest:g} s for a document, or for its tables"
        if transport.withheld_ns(now) > bounds.throttled_ns:
            return Reason.COSTLY, (
                f"for {bounds.throttled_ns / 1e9:g} s it sent more than the {bounds.bytes_a_second} bytes, or took "
                f"more than the {bounds.work_ns_a_second / 1e6:g} ms of processor time, of its part of a second"
            )
        return None

    def _weigh(self, idl: Any) -> int:
        """Return how many bytes the columns of all rows hold, about."""
        total = 0
        self.stretches.begin()
        for table in tables_of(idl):
            for row in list(getattr(table.rows, "data", table.rows).values()):
                for datum in (row._data or {}).values():
                    total += sum(_size(key) + _size(value) for key, value in datum.values.items())
                self.pause()
        self.end()
        return total


def _size(atom: Any) -> int:
    """Return how many bytes an atom of a column holds, about."""
    value = getattr(atom, "value", None)
    return 16 + (len(value) if isinstance(value, str) else 0)


def _is_long(column: Any) -> bool:
    """Return whether a column, as a database tells it, has many members."""
    return isinstance(column, list) and len(column) == 2 and isinstance(column[1], list) and len(column[1]) > LONG


def rows_of(idl: Any, table: str) -> list[Any]:
    """Return the rows of a table as they are now; python-ovs' own way through them takes a step for each."""
    rows = idl.tables[table].rows
    return list(getattr(rows, "data", rows).values())


def tables_of(idl: Any) -> list[Any]:
    """Return the tables that python-ovs keeps, those about the server among them."""
    return [*idl.tables.values(), *(idl.server_tables or {}).values()]


def _go_on() -> None:
    """Let nothing else have its turn."""


class _Parser:
    """What python-ovs feeds with the text of a document, and which parses it with pauses."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._text: list[str] = []

    def feed(self, text: str) -> int:
        """Take a part of a document; return how many of its bytes, or characters, were taken: all."""
        self._text.append(text)
        return len(text.encode())

    def is_done(self) -> bool:
        """Return whether the document is whole."""
        return self._gate.transport is None or self._gate.transport.is_between

    def finish(self) -> Any:
        """Return what the document says, a text about what is wrong with it where it cannot be read."""
        text, self._text = "".join(self._text), []
        try:
            message = parse(text, self._gate.pause)
        except (ValueError, IndexError, RecursionError) as error:
            return str(error)
        found = messages.fault(message, len(text))
        if found is not None and self._gate.transport is not None:
            self._gate.transport.blame(Reason.MALFORMED, f"it sent {found}")
        return message if found is None else found


def _connection_of(gate: Gate) -> Any:
    """Return python-ovs' class of connections, with documents parsed with pauses."""
    from ovs.jsonrpc import Connection

    parser = _Parser(gate)

    class PacedConnection(Connection):  # type: ignore[misc]
        """A connection whose parser is always the same, however often python-ovs takes leave of it."""

        @property
        def parser(self) -> _Parser:
            return parser

        @parser.setter
        def parser(self, value: Any) -> None:
            pass

    return PacedConnection


class Replica:
    """What python-ovs keeps of a database, over connections whose cost is bounded.

    ``remote`` is an OVSDB connection method, or several with commas, "" where the other end connects. ``helper``
    returns python-ovs' helper for the tables wanted; ``prepare`` is given each replica that is made, before it
    connects.
    """

    def __init__(
        self,
        remote: str,
        helper: Callable[[], Any],
        gate: Gate,
        leader_only: bool = True,
        prepare: Callable[[Any], None] = lambda idl: None,
        probe_ms: int = 0,
    ) -> None:
        """``probe_ms``: how long a connection may be silent before python-ovs asks for an echo by itself; 0: never."""
        self.gate = gate
        self.version: tuple[int, int] = (0, 0)  # the replica and its change_seqno, as they were last taken in whole
        self._remote, self._helper, self._leader_only, self._prepare = remote, helper, leader_only, prepare
        self._probe_ms = probe_ms
        self._replicas = 0  # made anew
        self._reading = False  # in the middle of taking in what came
        self._paced = _connection_of(gate)
        self.idl = self._make()

    def _make(self) -> Any:
        from ovs.db import idl

        gate = self.gate

        class PacedIdl(idl.Idl):  # type: ignore[misc]
            """A replica that lets others run while it takes in many rows."""

            def cooperative_yield(self) -> None:
                gate.pause()

            def notify(self, *change: Any) -> None:
                gate.pause()

            def _Idl__apply_diff(self, table: Any, row: Any, row_diff: Any) -> Any:
                """Apply changes of long sets and maps in parts; each part changes its own members."""
                short = dict(row_diff)
                for name, diff in row_diff.items():
                    column = table.columns.get(name)
                    if column is not None and column.type.n_max > LONG and _is_long(diff):
                        kind, members = diff
                        for place in range(0, len(members), LONG):
                            super()._Idl__apply_diff(table, row, {name: [kind, members[place : place + LONG]]})
                            gate.pause()
                        del short[name]
                return super()._Idl__apply_diff(table, row, short)

            def force_reconnect(self) -> None:
                gate.leave()
                super().force_reconnect()

            def close(self) -> None:
                gate.leave()
                super().close()

        made = PacedIdl(
            gate.methods(self._remote), self._helper(), probe_interval=0, leader_only=self._leader_only
        )  # fmt: skip
        made._session.reconnect.set_backoff(_BACKOFF_MS, _BACKOFF_MS)
        made._session.reconnect.set_probe_interval(self._probe_ms)
        self._prepare(made)
        return made

    @property
    def connection(self) -> Optional[int]:
        """The number of the connection there is, None while there is none."""
        return None if self.idl._session.rpc is None else self.gate.opened

    @property
    def ready(self) -> bool:
        """Whether there is a connection by which all tables were read."""
        return bool(self.idl._session.is_connected()) and self.idl.state == self.idl.IDL_S_MONITORING

    @property
    def whole(self) -> bool:
        """Whether the rows that are kept are all of one version, and may be looked at."""
        return not self._reading and self.version == (self._replicas, self.idl.change_seqno)

    @property
    def reading(self) -> bool:
        """Whether a greenlet takes in what came, and lets others run meanwhile."""
        return self._reading

    def received(self) -> int:
        """Return how many bytes the last connection brought."""
        return 0 if self.gate.transport is None else self.gate.transport.received

    def run(self) -> Optional[tuple[Reason, str]]:
        """Take in what the database sent; return why the connection was ended for what it cost, once.

        Nothing is kept of a replica whose connection was ended so, and the next connection has to wait for a while.
        """
        if self._reading:
            return None
        idl, self._reading = self.idl, True
        if idl._session.rpc is not None:
            idl._session.rpc.__class__ = self._paced
        self.gate.stretches.begin()
        try:
            idl.run()
        except Exception as error:  # whatever one database sends must not keep the others from being read
            self.end(Reason.MALFORMED, f"it sent what python-ovs cannot read ({type(error).__name__})")
        finally:
            self.gate.end()
            self._reading = False
        fault = self.gate.fault(self.idl, self.ready)
        if fault is not None:
            self.end(*fault)
        ended = self.gate.ended()
        if ended is not None:
            self.idl.close()
            self._reading = True
            self.gate.stretches.yield_now()
            self.idl = self._make()
            self._reading = False
            self._replicas += 1
            self.gate.hold()
            self.gate.stretches.yield_now()
        elif self.ready:
            self.version = self._replicas, self.idl.change_seqno
        return ended

    def end(self, reason: Reason, text: str) -> None:
        """End the connection there is, and say why."""
        transport = self.gate.transport
        if transport is not None and not transport.closed:
            transport.blame(reason, text)
            self.cut()

    def cut(self) -> None:
        """Reset the connection: what waits in it is discarded, here and in the kernel."""
        rpc = self.idl._session.rpc
        stream = None if rpc is None else rpc.stream
        if stream is not None and stream.socket is not None:
            try:
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # it is closed already
        self.idl.force_reconnect()
        self.idl._session.run()


def all_of(schema: Mapping[str, Any]) -> Any:
    """Return python-ovs' helper for all tables and columns of a schema."""
    from ovs.db import idl

    helper = idl.SchemaHelper(schema_json=dict(schema))
    helper.register_all()
    return helper
