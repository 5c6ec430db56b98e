# SPDX-License-Identifier: Apache-2.0
"""Where switches connect: our listener, reader and admission between the network and the framework.

The framework itself accepts whoever comes, reads a message by two system calls, parses whatever it says, and ends the
process when accept() fails.  Here it is given connections that were let in (admission.py), and of their messages the
few kinds its handshake needs (reader.py).  All others go straight to the application.
"""

import errno
import itertools
import logging
import resource
import socket
import ssl
import time
from typing import Any, Callable, NamedTuple, Optional

from sdngcc.controller import budget
from sdngcc.controller.framework import certificates, names, ovsdb_tls, tls
from sdngcc.controller.framework.admission import (
    RESERVED_DESCRIPTORS,
    Admission,
    Channel,
    Due,
    Reason,
    affordable,
    may_shake_hands,
    tell,
)
from sdngcc.controller.framework.allowlist import AllowList
from sdngcc.controller.framework.handshakes import shake_hands
from sdngcc.controller.framework.listening import listen
from sdngcc.controller.framework.reader import (
    EchoAnswered,
    FlowRemoved,
    ForFramework,
    Message,
    Multipart,
    PacketIn,
    Reader,
    ReadError,
    State,
    Unserved,
)
from sdngcc.controller.settings import Settings, SettingsError

_CHUNK_BYTES = 65536
_ECHO_REQUEST = b"\x04\x02\x00\x08"
_XIDS = 1 << 31
_TURN = 32  # messages of a connection, or connections accepted, before others get their turn
_LARGE_BYTES = 8192  # a message this long is followed by a turn of others, too
_WATCH_S = 1.0
_ACCEPT_AGAIN_S = 0.1
# What ryu-manager would listen by; `openflow` and its companions say that here.
_OPTIONS = (
    "ofp_tcp_listen_port", "ofp_ssl_listen_port", "ctl_privkey", "ctl_cert", "ca_certs", "ofp_switch_address_list",
)  # fmt: skip

LOG = logging.getLogger(__name__)


class Connection:
    """A switch's connection as the framework sees it: a socket that yields what the framework may parse.

    Everything else that is read goes to ``sink`` once it is set, which tells whether it took the message.
    """

    def __init__(
        self, inner: Any, channel: Channel, admission: Admission, shared: Optional[budget.Budget] = None
    ) -> None:
        """``shared`` is the budget of work that all connections of a listener have together."""
        self.channel = channel
        self.identity: Optional[certificates.Identity] = None  # of its certificate; None: it came without TLS
        self.reader = Reader()
        self.meter = budget.Meter(shared or budget.shared())
        self.sink: Optional[Callable[[Message], bool]] = None
        self.datapath: Any = None  # the framework's object, once the handshake is done
        self.ended = False
        self._inner = inner
        self._admission = admission
        self._ready = bytearray()  # whole messages for the framework
        self._plain = True  # not TLS
        self._sending = False  # the framework's sender is in the middle of a message
        self._asked = 0  # xid of the last echo request
        self._answered = 0  # and of the last answer to one

    def __getattr__(self, name: str) -> Any:
        """Return what the socket itself has."""
        return getattr(self._inner, name)

    def secure(self, context: ssl.SSLContext) -> None:
        """Make it a connection by TLS; raises OSError when the handshake fails."""
        self._inner = context.wrap_socket(self._inner, server_side=True, do_handshake_on_connect=False)
        self._plain = False
        shake_hands(self._inner)
        self.identity = certificates.identity(self._inner.getpeercert())

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes of messages for the framework; b"" at the end."""
        while not self._ready and not self.ended:
            if self._plain:
                self._listen()
            else:
                self._take(self._receive_tls())
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def sendall(self, data: bytes) -> None:
        """Send for the framework, waiting for the switch where need be."""
        self._sending = True
        try:
            self._inner.sendall(data)
        except socket.timeout:
            self.end(Reason.DEAF, f"it read nothing for {self._inner.gettimeout():g} s")
            raise
        finally:
            self._sending = False

    def send_now(self, data: bytes) -> bytes:
        """Send what goes at once and return the rest; saves the way through the framework's queue."""
        if self._sending or not self._plain:
            return data
        try:
            return data[self._inner.fd.send(data) :]
        except BlockingIOError:
            return data

    def shutdown(self, how: int) -> None:
        """Shut the socket down without a word of TLS, whose state other greenlets may be waiting in."""
        if self._plain:
            self._inner.shutdown(how)
        else:
            socket.SocketType.shutdown(self._inner, how)

    def end(self, reason: Reason, text: str) -> None:
        """End the connection, counted, and logged unless its address had the same lately; again is no harm."""
        if self.ended:
            return
        self.ended = True
        tell(self._admission, reason, self.channel, text)
        try:
            self.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the peer was faster

    def ask(self) -> int:
        """Send an echo request; return what ``answered`` takes."""
        self._asked = self._asked % _XIDS + 1
        if self.datapath is not None:
            send(self.datapath, _ECHO_REQUEST + self._asked.to_bytes(4, "big"))
        return self._asked

    def answered(self, asked: int) -> bool:
        """Tell whether an echo request was answered."""
        return self._answered == asked

    def _listen(self) -> None:
        """Take what arrives until there is something for the framework.

        Raises socket.timeout when there is none within the socket's own timeout.
        """
        waiter = SocketWaiter(self._inner)
        try:
            while not self._ready and not self.ended:
                waiter.wait()
                try:
                    self._take(self._inner.fd.recv(_CHUNK_BYTES))
                except BlockingIOError:
                    pass
        finally:
            waiter.close()

    def _receive_tls(self) -> bytes:
        """Return what arrives; raises socket.timeout as a plain socket does.

        The framework takes every SSLError for a time-out and reads on, for ever where the error lasts.
        """
        try:
            return bytes(self._inner.recv(_CHUNK_BYTES))
        except socket.timeout:
            raise
        except ssl.SSLError as error:
            self.end(Reason.TLS, f"TLS failed ({error})")
            return b""

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            self.ended = True
            return
        number = 0
        try:
            for message in self.reader.feed(chunk):
                number += 1
                wait_ns = 0 if self._pass(message) else self.meter.charge(self.reader.size, time.monotonic_ns())
                if wait_ns or not number % _TURN or self.reader.size > _LARGE_BYTES:
                    names.hub.sleep(wait_ns / 1e9)
                    if self.ended:
                        return
                    if self.meter.is_spent:
                        self.end(Reason.COSTLY, f"it wanted more than its part of work for {budget.PATIENCE_S:g} s")
                        return
        except ReadError as error:
            if error.answer and self._plain:
                self._answer_last(error.answer)
            self.end(Reason.MALFORMED, f"it sent {error}")
        if number:
            self._admission.heard(self.channel)

    def _pass(self, message: Message) -> bool:
        """Hand on a message; what an application does with it may let others run.

        Return whether its cost is bounded otherwise: an answer by its question, packets and flows by the forwarder.
        """
        if isinstance(message, Multipart):
            taken = self.sink is not None and self.sink(message)
            self._admission.unserved += not taken
            return taken
        if isinstance(message, ForFramework):
            self._ready += message.data
            if not self.channel.ready and self.reader.state is State.READY:
                self._admission.ready(self.channel)
            return False
        if isinstance(message, EchoAnswered):
            self._answered = message.xid
            return False
        taken = not isinstance(message, Unserved) and self.sink is not None and self.sink(message)
        self._admission.unserved += not taken
        return isinstance(message, (PacketIn, FlowRemoved))

    def _answer_last(self, data: bytes) -> None:
        try:
            self.send_now(data)
        except OSError:
            pass  # it is gone already


class SocketWaiter:
    """Waits for a socket again and again without telling the hub each time, as eventlet's own wait does.

    It belongs to the greenlet that made it, and is closed by it.
    """

    def __init__(self, sock: Any) -> None:
        import eventlet.hubs

        self._hub = eventlet.hubs.get_hub()
        self._greenlet = eventlet.getcurrent()
        self._fileno = sock.fileno()
        self._listener: Any = None
        self._waiting = False
        self._expired = False
        limit_s = sock.gettimeout()
        self._timer = None if limit_s is None else self._hub.schedule_call_global(limit_s, self._expire)

    def wait(self) -> None:
        """Sleep until there may be something to read; raises socket.timeout once the socket's own timeout is over."""
        if self._expired:
            raise socket.timeout("timed out")
        if self._listener is None:
            self._listener = self._hub.add(self._hub.READ, self._fileno, self._wake, self._fail, None)
        self._waiting = True
        try:
            self._hub.switch()
        finally:
            self._waiting = False

    def close(self) -> None:
        """Listen no more."""
        self._forget()
        if self._timer is not None:
            self._timer.cancel()

    def _forget(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self._hub.remove(listener)

    def _wake(self, fileno: int) -> None:
        if self._waiting:
            self._greenlet.switch()
        else:
            self._forget()  # it waits for something else, and the hub would call again and again

    def _fail(self, *error: Any) -> None:
        if self._waiting:
            self._greenlet.throw(*error)

    def _expire(self) -> None:
        self._expired = True
        if self._waiting:
            self._greenlet.switch()


class Listener:
    """Where switches connect; raises SettingsError where it cannot listen, or TLS files are unusable.

    ``allowed`` are the certificates that are let in, None: all that the authority signed.
    """

    def __init__(self, chosen: Settings, allowed: Optional[AllowList] = None) -> None:
        _refuse_options(chosen.openflow)
        wanted, limit = chosen.openflow_connections, places(chosen).switches
        self.allowed = allowed or AllowList()
        self.admission = Admission(limit, min(limit, chosen.openflow_connections_a_peer), chosen.openflow_silence_s)
        self._context: Optional[ssl.SSLContext] = None
        self.prepare(chosen)()
        self._socket = listen("openflow", chosen.openflow)
        self._connections: dict[Channel, Connection] = {}
        self._shared = budget.shared()
        LOG.info(
            "switches may connect at %s%s: at most %d connections, %d from one address",
            chosen.openflow, " by TLS" if self._context else "", limit, self.admission.limit_a_peer,
        )  # fmt: skip
        if limit < wanted:
            LOG.warning("openflow_connections %d: the limit of open files leaves room for %d only", wanted, limit)

    def prepare(self, chosen: Settings) -> Callable[[], None]:
        """Read the files for TLS, and return what brings them and the bounds of connections into force.

        Connections that stand are left alone. Raises SettingsError.
        """
        context = tls.server_context(chosen)

        def commit() -> None:
            self._context = context
            ovsdb_tls.prepare_ovsdb(chosen)
            self.admission.limit_a_peer = min(self.admission.limit, chosen.openflow_connections_a_peer)
            self.admission.silence_s = chosen.openflow_silence_s

        return commit

    def open(self) -> None:
        """Let the framework accept switches here instead of by its own server; call it before the framework starts.

        Its own echo requests, off by default, would go unanswered: answers are taken here.
        """
        names.cfg.CONF.set_override("maximum_unreplied_echo_requests", 0)
        names.ofp_handler.OpenFlowController = lambda: self.serve

    def serve(self) -> None:
        """Accept connections until killed."""
        names.hub.spawn(self._watch)
        for number in itertools.count(1):
            try:
                sock, address = self._socket.accept()
            except OSError as error:
                self._accept_failed(error)
                continue
            self._enter(sock, Channel(address[0], address[1], 0, 0))
            if number % _TURN == 0:
                names.hub.sleep(0)

    def _accept_failed(self, error: OSError) -> None:
        tell(self.admission, Reason.ACCEPT, None, f"accept() failed: {error.strerror or error}")
        names.hub.sleep(0 if error.errno == errno.ECONNABORTED else _ACCEPT_AGAIN_S)

    def _enter(self, sock: Any, newcomer: Channel) -> None:
        if self._context is not None and not may_shake_hands(self.admission, newcomer):
            sock.close()
            return
        entry = self.admission.enter(newcomer.address, newcomer.port)
        limit = self.admission.limit
        if entry.evicted is not None:
            text = f"all {limit} connections are taken, and its handshake is unfinished"
            self._connections[entry.evicted].end(Reason.TOO_MANY, text)
        if entry.channel is None:
            reason = entry.reason or Reason.TOO_MANY
            if reason is Reason.TOO_MANY_OF_PEER:
                limit = self.admission.limit_a_peer
            tell(self.admission, reason, newcomer, f"{limit} connections are open, which is the limit")
            sock.close()
            return
        connection = Connection(sock, entry.channel, self.admission, self._shared)
        self._connections[entry.channel] = connection
        names.hub.spawn(self._serve, connection)

    def _serve(self, connection: Connection) -> None:
        """Serve a connection to its end."""
        channel = connection.channel
        try:
            if self._context is None or self._shake_hands(connection, self._context):
                names.controller.datapath_connection_factory(connection, (channel.address, channel.port))
        except OSError as error:
            LOG.debug("connection of %s: %s", channel, error)
        except Exception:
            LOG.exception("internal error in the connection of %s", channel)
        finally:
            connection.ended = True
            self.admission.leave(channel)
            self._connections.pop(channel, None)
            connection.close()

    def _shake_hands(self, connection: Connection, context: ssl.SSLContext) -> bool:
        try:
            connection.secure(context)
        except (OSError, ValueError) as error:
            connection.end(*tls.refusal(error))
            return False
        why = self.allowed.refuses(connection.identity)
        if why is not None:
            connection.end(Reason.NOT_ADMITTED, why)
        else:
            self.admission.shook_hands(connection.channel.address, time.monotonic_ns())
        return why is None

    def _watch(self) -> None:
        """Ask silent connections, and end those that stay silent."""
        before = time.monotonic()
        while True:
            names.hub.sleep(_WATCH_S)
            now = time.monotonic()
            due = self.admission.sweep(now - before)
            before = now
            for channel, what in due:
                try:
                    if channel in self._connections:
                        self._call(self._connections[channel], what)
                except Exception:
                    LOG.exception("internal error about the connection of %s", channel)

    def _call(self, connection: Connection, what: Due) -> None:
        """Do what a connection is due for."""
        if what is Due.ECHO:
            connection.ask()
        elif what is Due.SILENT:
            connection.end(Reason.SILENT, f"nothing was heard of it for {self.admission.silence_s:g} s")
        else:
            waited = connection.reader.state.value
            connection.end(Reason.HANDSHAKE, f"its handshake takes too long; {waited} did not come")


class Places(NamedTuple):
    """How many connections of each kind the process can serve at a time."""

    switches: int
    managers: int


def places(chosen: Settings) -> Places:
    """Return how many connections of switches and of databases there is room for; raise the limit of open files."""
    managers = chosen.ovsdb_connections if chosen.ovsdb_listen else 0
    descriptors = _descriptors(chosen.openflow_connections + managers + RESERVED_DESCRIPTORS)
    managers = min(managers, max(1, descriptors // 8))
    return Places(affordable(chosen.openflow_connections, descriptors - managers), managers)


def _descriptors(wanted: int) -> int:
    """Raise the process' limit of open files to what is wanted, as far as it may; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def _refuse_options(address: str) -> None:
    """Raise SettingsError where options of the framework's own manager say where to listen."""
    options = names.cfg.CONF
    given = [name for name in _OPTIONS if options[name]]
    if options.ofp_listen_host != names.controller.DEFAULT_OFP_HOST:
        given.insert(0, "ofp_listen_host")
    if given:
        shown = ", ".join("--" + name.replace("_", "-") for name in given)
        raise SettingsError(
            f"{shown}: not obeyed; switches connect where the setting openflow says ({address} now; in the "
            "environment SDNGCC_CONTROLLER_OPENFLOW), by TLS with openflow_tls_key; leave the options out"
        )


def send(datapath: Any, data: bytes) -> bool:
    """Send on a connection without ever waiting for the switch; return whether it could be sent or queued."""
    queue = datapath.send_q
    if queue is None or queue.qsize() >= queue.maxsize - 1:
        return False
    if queue.empty():
        try:
            data = datapath.socket.send_now(data)
        except OSError:
            return False
    return not data or bool(datapath.send(data))
