# SPDX-License-Identifier: Apache-2.0
"""REST's socket: eventlet's WSGI server, with TLS if a certificate is set.

connections.py decides whom it serves and for how long; here its decisions meet sockets.
"""

import logging
import socket
import ssl
import time
from typing import Any, Callable, Counter, Optional, Sequence

import eventlet
import eventlet.greenio
import eventlet.patcher
import eventlet.queue
import eventlet.semaphore
import eventlet.wsgi

from sdngcc.controller.budget import Turns
from sdngcc.controller.framework.admission import Admission, Channel, Reason, may_shake_hands, tell
from sdngcc.controller.framework.handshakes import shake_hands
from sdngcc.controller.framework.listening import listen
from sdngcc.controller.rest.application import make_app
from sdngcc.controller.rest.auth import Guard
from sdngcc.controller.rest.connections import CONNECTIONS_MAX, Connection, Connections, Phase
from sdngcc.controller.rest.events import Broker
from sdngcc.controller.rest.live import SAMPLE_S
from sdngcc.controller.rest.models import Refusal
from sdngcc.controller.rest.reporter import Reporter
from sdngcc.controller.rest.resource import CONNECTION, Locks, RestContext
from sdngcc.controller.settings import Settings

LOG = logging.getLogger(__name__)

LINE_MAX_BYTES = 8192
BODY_WIRE_BYTES = 1 << 20  # the longest body that is taken has an eighth; the rest is for its chunks
_IO_TIMEOUT_S = 30  # for one read or write; Connections bounds what they add up to
_ACCEPT_PAUSE_S = 0.1
_EXPIRE_PERIOD_S = 0.5
_kernel = eventlet.patcher.original("socket")  # whose methods do no more than the system call
_REFUSING_MAX = 128  # connections that are told so at a time
_REFUSING_S = 2.0  # for one of them
_DRAINED_MAX_BYTES = 65_536  # of a request that is refused unread
_TURN = 16  # connections accepted before others get their turn


def _shut(sock: Any, how: int) -> None:
    """Break a connection, TLS or not; whoever waits for it wakes up."""
    try:
        _kernel.socket.shutdown(sock.fd if isinstance(sock, eventlet.greenio.GreenSocket) else sock, how)
    except OSError:
        pass  # it ended by itself


def _run_at_once(functions: Sequence[Callable[[], None]]) -> None:
    """Call functions that wait for different things, and wait for all of them."""
    for thread in [eventlet.spawn(function) for function in functions]:
        thread.wait()


class _Listener:
    """A listening socket whose accept() outlives what a single client does wrong, and returns whom there is room for.

    ``admitted`` has the connections that accept() returned, by address, for _Protocol to take.
    """

    def __init__(
        self,
        inner: Any,
        context: Optional[ssl.SSLContext],
        connections: Connections,
        counters: "Counter[str]",
        turns: Turns,
    ) -> None:
        self.turns = turns
        self.connections = connections
        self._counters = counters
        self._accepted = 0
        self._refusing: dict[Any, None] = {}  # connections that are told that there is no room, the oldest first
        self.admitted: dict[Any, Connection] = {}
        self._inner = inner
        self.context = context
        if context is not None:
            self.do_handshake = True  # how eventlet.wsgi recognises TLS

    def __getattr__(self, name: str) -> Any:
        """Return what the socket itself has."""
        return getattr(self._inner, name)

    def accept(self) -> tuple[Any, Any]:
        """Return the next connection; its handshake is done by who reads from it first."""
        while True:
            try:
                sock, address = self._inner.accept()
            except OSError as error:
                LOG.warning("REST: no connection can be accepted: %s", error)
                eventlet.sleep(_ACCEPT_PAUSE_S)
                continue
            self._accepted += 1
            if not self._accepted % _TURN:
                eventlet.sleep(0)
            newcomer = Channel(address[0], address[1], 0, 0)
            admission = self.connections.admission
            if self.context is not None and not may_shake_hands(admission, newcomer, "REST connection"):
                self._counters["rest_connections_refused"] += 1
                sock.close()
                continue
            try:
                if self.context is not None:
                    sock = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except OSError as error:
                LOG.debug("REST: %s", error)
                continue
            if self._admit(sock, address):
                return sock, address

    def _admit(self, sock: Any, address: Any) -> bool:
        """Take a connection, or tell its client that there is no room."""
        admitted = self.connections.admit(
            address[0], address[1], lambda: _shut(sock, socket.SHUT_RDWR), lambda: _shut(sock, socket.SHUT_RD)
        )
        if isinstance(admitted, Connection):
            self.admitted[address] = admitted
            return True
        if len(self._refusing) >= _REFUSING_MAX:
            oldest = next(iter(self._refusing))
            del self._refusing[oldest]
            _shut(oldest, socket.SHUT_RDWR)  # it was told
        self._refusing[sock] = None
        eventlet.spawn(self._refuse, sock, _no_room(admitted, self.connections.admission))
        eventlet.sleep(0)  # it is told before another one may make room for the next
        return False

    def _refuse(self, sock: Any, answer: bytes) -> None:
        """Say a refusal; what the client sent is read, or the kernel would take the answer back."""
        try:
            with eventlet.Timeout(_REFUSING_S, False):
                sock.sendall(answer)
                if self.context is None:
                    _shut(sock, socket.SHUT_WR)
                for _ in range(_DRAINED_MAX_BYTES // 4096):
                    if not sock.recv(4096):
                        break
        except (OSError, ValueError):
            pass  # the refusal is counted all the same
        finally:
            self._refusing.pop(sock, None)
            sock.close()


def _no_room(reason: Reason, admission: Admission) -> bytes:
    """Return the answer to a request by a connection that there is no room for."""
    ours = reason is Reason.TOO_MANY_OF_PEER
    limit = admission.limit_a_peer if ours else admission.limit
    whose = " of this address" if ours else ""
    refusal = Refusal(error=f"{limit} connections{whose} are open, which is the limit", allowed=f"up to {limit}")
    body = refusal.model_dump_json(exclude_unset=True).encode()
    return (
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )


class _Body:
    """What a request's body is read from: eventlet reads chunks, and the lines between them, without an end.

    Others run between two of its parts. Raises ChunkReadError, a ValueError, for more than BODY_WIRE_BYTES, or a line
    of more than LINE_MAX_BYTES.
    """

    def __init__(self, inner: Any, turns: Turns) -> None:
        self._inner = inner
        self._turns = turns
        self._bytes = 0

    def _take(self, data: bytes) -> bytes:
        self._bytes += len(data)
        if self._bytes > BODY_WIRE_BYTES:
            raise eventlet.wsgi.ChunkReadError(f"a body of more than {BODY_WIRE_BYTES} bytes, chunks and all")
        self._turns.pause()
        return data

    def read(self, size: int = -1) -> bytes:
        """Return bytes as the file does."""
        return self._take(self._inner.read(size))

    def readline(self, size: int = -1) -> bytes:
        """Return a line as the file does."""
        line: bytes = self._inner.readline(LINE_MAX_BYTES + 1 if size < 0 else size)
        if len(line) > LINE_MAX_BYTES:
            raise eventlet.wsgi.ChunkReadError(f"a line of more than {LINE_MAX_BYTES} bytes in a body")
        return self._take(line)


class _Protocol(eventlet.wsgi.HttpProtocol):  # type: ignore[misc]
    """HTTP on one connection, which tells Connections what it waits for."""

    def __init__(self, conn_state: Any, server: Any) -> None:
        self._connections: Connections = server.socket.connections
        self._admitted: Connection = server.socket.admitted.pop(conn_state[0])
        self._turns: Turns = server.socket.turns
        try:
            if isinstance(conn_state[1], ssl.SSLSocket):
                shake_hands(conn_state[1])
            super().__init__(conn_state, server)
        except (OSError, ValueError) as error:  # it left, speaks no TLS, or its chunks are none
            LOG.debug("REST: %s: %s", conn_state[0], error)
        finally:
            self._connections.forget(self._admitted)

    def _read_request_line(self) -> bytes:
        line: bytes = super()._read_request_line()
        if self._admitted.phase == Phase.IDLE:
            self._connections.enter(self._admitted, Phase.HEAD)
        return line

    def handle_one_request(self) -> None:
        """Serve a request; then the next one is awaited."""
        super().handle_one_request()
        self._connections.enter(self._admitted, Phase.IDLE)
        self._turns.finish()  # the next one may be read already, and nothing else would run before it

    def handle_one_response(self) -> None:
        """Answer a request whose headers are read."""
        self._connections.enter(self._admitted, Phase.ANSWER)
        self._turns.begin()
        self.environ[CONNECTION] = Asking(self, self._connections, self._admitted)
        super().handle_one_response()

    def get_environ(self) -> dict[str, Any]:
        """Return the environment of a request, whose body has an end."""
        environ: dict[str, Any] = super().get_environ()
        environ["wsgi.input"].rfile = _Body(self.rfile, self._turns)
        return environ

    def log_message(self, format: str, *args: Any) -> None:
        """Leave what the client did wrong out of the log: it would write as much there as it likes."""
        LOG.debug("REST: %s: " + format, self.client_address[0], *args)


class Asking:
    """What a resource may do about the connection its request came by."""

    def __init__(self, protocol: Any, connections: Connections, connection: Connection) -> None:
        self._protocol = protocol
        self._connections = connections
        self._connection = connection

    def enter(self, phase: Phase) -> None:
        """Say what the connection waits for now."""
        self._connections.enter(self._connection, phase)

    def expired(self) -> bool:
        """Tell whether what was awaited did not come in time."""
        return self._connection.expired

    def close_afterwards(self) -> None:
        """Take no further request by it, and none of this one's body."""
        self._protocol.close_connection = 1

    @property
    def peer(self) -> str:
        """Return the address it came from."""
        return self._connection.peer

    def cut(self) -> None:
        """Break it at once."""
        self._connection.end()


class Server:
    """REST of a controller; raises SettingsError when a file its settings name is unusable."""

    def __init__(self, context: RestContext, settings: Settings, turns: Turns) -> None:
        """``turns`` are what context.pause takes."""
        self._settings = settings
        self._turns = turns
        self._listener: Any = None
        tokens = settings.read_tokens()
        self._tls = settings.read_tls()
        self._guard = Guard(tokens, settings.rest_hosts, context.engine.counters)
        context.locks = Locks(eventlet.semaphore.Semaphore)
        context.run_all = _run_at_once
        counters = context.engine.counters
        self._counters = counters
        self._connections = Connections(counters, time.monotonic)
        context.rest_connections = self._connections.view
        epoch = context.engine.notifier.numbering.epoch
        broker = Broker(epoch, settings.rest_event_clients, counters, eventlet.queue.LightQueue, self._tell_cut)
        self.reporter = Reporter(context, broker, eventlet.semaphore.Semaphore())
        self._app = make_app(context, self.reporter, self._guard, bool(tokens))

    def _tell_cut(self, peer: str, text: str) -> None:
        tell(self._connections.admission, Reason.DEAF, Channel(peer, 0, 0, 0), text, "event stream")

    def listen(self) -> None:
        """Let clients connect; raises SettingsError where it cannot listen."""
        self._listener = _Listener(
            listen("rest", self._settings.rest), self._tls, self._connections, self._counters, self._turns
        )  # fmt: skip

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Read tokens and certificate, and return what brings them into force; raises SettingsError.

        Connections that stand are left alone; each of their requests is judged by the new tokens.
        """
        tokens, context = settings.read_tokens(), settings.read_tls()

        def commit() -> None:
            if self._guard.replace(tokens, settings.rest_hosts):
                self.reporter.broker.close()  # of streams that a former token opened; others come back
            self.reporter.broker.clients_max = settings.rest_event_clients
            if self._listener is not None:
                self._listener.context = context

        return commit

    def serve(self) -> None:
        """Answer until killed; listen() comes before."""
        eventlet.spawn(self._expire)
        eventlet.wsgi.server(
            self._listener,
            self._app,
            protocol=_Protocol,
            log_output=False,
            debug=False,
            max_size=2 * CONNECTIONS_MAX,  # never the bound: those cut off may still be on their way out
            socket_timeout=_IO_TIMEOUT_S,
            keepalive=_IO_TIMEOUT_S,
            url_length_limit=LINE_MAX_BYTES,
        )

    def _expire(self) -> None:
        while True:
            eventlet.sleep(_EXPIRE_PERIOD_S)
            self._connections.expire()

    def report(self) -> None:
        """Look at what changed; call it every SAMPLE_S."""
        self.reporter.tick()

    def close(self) -> None:
        """Let event streams end."""
        self.reporter.broker.close()


__all__ = ["SAMPLE_S", "Server"]
