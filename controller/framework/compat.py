# SPDX-License-Identifier: Apache-2.0
"""Ryu or os-ken, as the setting ``framework`` says, under one set of names.

Both read an OpenFlow connection by two system calls a message and parse every reply into objects.  The
tap below reads what there is by one call and hands experimenter, flow and group statistics replies, of which
there are hundreds a second or long ones, straight to the engine; all else, and what the engine did not ask for,
goes the framework's way.
"""

import importlib
import logging
import socket
import ssl
from typing import Any, Callable, Optional

from sdngcc.controller import settings
from sdngcc.controller.framework import launcher, tls
from sdngcc.controller.wire import openflow

FRAMEWORK = launcher.find_framework(settings.current().framework)


def _module(name: str) -> Any:
    return importlib.import_module(f"{FRAMEWORK}.{name}")


app_manager = _module("base.app_manager")
ofp_event = _module("controller.ofp_event")
handler = _module("controller.handler")
ofproto_v1_3 = _module("ofproto.ofproto_v1_3")
hub = _module("lib.hub")
_controller = _module("controller.controller")

App = app_manager.RyuApp if FRAMEWORK == "ryu" else app_manager.OSKenApp

_CHUNK_BYTES = 65536
_HEADER_BYTES = 8
_HANDSHAKE_S = 10.0
_TAPPED = (b"\x00\x01", b"\x00\x06", b"\xff\xff")  # statistics of flows and groups, experimenter replies

LOG = logging.getLogger(__name__)


class Tap:
    """A switch's socket whose replies of those kinds go to ``sink`` once it is set; it tells whether it took one.

    Everything else behaves as the socket itself.
    """

    def __init__(self, inner: Any) -> None:
        self.sink: Optional[Callable[[bytes], bool]] = None
        self._inner = inner
        self._raw = bytearray()  # not yet cut into messages
        self._ready = bytearray()  # whole messages for the framework
        self._closed = False
        self._plain = not hasattr(inner, "pending")  # not TLS
        self._sending = False  # the framework's sender is in the middle of a message

    def __getattr__(self, name: str) -> Any:
        """Return what the socket itself has."""
        return getattr(self._inner, name)

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes of messages for the framework; b"" at the end."""
        while not self._ready and not self._closed:
            if self._plain:
                self._listen()
            else:
                self._take(self._inner.recv(_CHUNK_BYTES))
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def sendall(self, data: bytes) -> None:
        """Send for the framework, waiting for the switch where need be."""
        self._sending = True
        try:
            self._inner.sendall(data)
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

    def _listen(self) -> None:
        """Take what arrives until there is something for the framework.

        Raises socket.timeout when there is none within the socket's own timeout.
        """
        waiter = SocketWaiter(self._inner)
        try:
            while not self._ready and not self._closed:
                waiter.wait()
                try:
                    self._take(self._inner.fd.recv(_CHUNK_BYTES))
                except BlockingIOError:
                    pass
        finally:
            waiter.close()

    def _take(self, chunk: bytes) -> None:
        if chunk:
            self._raw += chunk
            self._cut()
        else:
            self._closed = True

    def _cut(self) -> None:
        raw, start = self._raw, 0
        while len(raw) - start >= _HEADER_BYTES:
            length = raw[start + 2] << 8 | raw[start + 3]
            end = start + max(length, _HEADER_BYTES)
            if len(raw) < end:
                break
            if (
                self.sink is not None
                and raw[start + 1] == openflow.OFPT_MULTIPART_REPLY
                and raw[start + 8 : start + 10] in _TAPPED
                and self.sink(bytes(raw[start:end]))
            ):
                pass
            else:
                self._ready += raw[start:end]
            start = end
        del raw[:start]


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


def tap_connections() -> None:
    """Put a tap in every connection accepted from now on, and TLS under it if set.

    Call it before the framework listens.
    Ryu's own way to TLS forgets the keys after the first connection.
    """
    original = _controller.datapath_connection_factory
    context = tls.server_context(settings.current())
    tls.prepare_ovsdb(settings.current())

    def factory(sock: Any, address: Any) -> None:
        if context is not None:
            sock.settimeout(_HANDSHAKE_S)
            try:
                sock = context.wrap_socket(sock, server_side=True)
            except (OSError, ssl.SSLError) as error:
                LOG.warning("refused %s: no TLS handshake with a known certificate (%s)", address[0], error)
                sock.close()
                return
        original(Tap(sock), address)

    _controller.datapath_connection_factory = factory


def send(datapath: Any, data: bytes) -> bool:
    """Send on a connection without ever waiting for the switch; return whether it could be sent or queued."""
    queue = datapath.send_q
    if queue is None or queue.qsize() >= queue.maxsize - 1:
        return False
    if queue.empty() and isinstance(datapath.socket, Tap):
        try:
            data = datapath.socket.send_now(data)
        except OSError:
            return False
    return not data or bool(datapath.send(data))
