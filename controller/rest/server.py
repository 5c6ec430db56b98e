# SPDX-License-Identifier: Apache-2.0
"""REST's socket: eventlet's WSGI server, with TLS if a certificate is set."""

import logging
import ssl
from typing import Any, Optional

import eventlet
import eventlet.queue
import eventlet.semaphore
import eventlet.wsgi

from sdngcc.controller.framework.listening import listen
from sdngcc.controller.rest.application import make_app
from sdngcc.controller.rest.auth import Guard
from sdngcc.controller.rest.events import Broker
from sdngcc.controller.rest.live import SAMPLE_S
from sdngcc.controller.rest.reporter import Reporter
from sdngcc.controller.rest.resource import RestContext
from sdngcc.controller.settings import Settings

LOG = logging.getLogger(__name__)

# What a connection may cost: time for a request or for the client to take an answer, length of a request line.
TIMEOUT_S = 30
LINE_MAX_BYTES = 8192
CONNECTIONS_MAX = 256


class _Listener:
    """A listening socket whose accept() outlives what a single client does wrong."""

    def __init__(self, inner: Any, context: Optional[ssl.SSLContext]) -> None:
        self._inner = inner
        self._context = context
        if context is not None:
            self.do_handshake = True  # how eventlet.wsgi recognises TLS

    def __getattr__(self, name: str) -> Any:
        """Return what the socket itself has."""
        return getattr(self._inner, name)

    def accept(self) -> tuple[Any, Any]:
        """Return the next connection; its handshake is done by who reads from it first."""
        while True:
            try:
                connection, address = self._inner.accept()
                if self._context is None:
                    return connection, address
                return self._wrap(connection), address
            except OSError as error:
                LOG.debug("REST: %s", error)
                eventlet.sleep(0.01)

    def _wrap(self, connection: Any) -> Any:
        assert self._context is not None
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)


class Server:
    """REST of a controller; raises SettingsError when a file its settings name is unusable."""

    def __init__(self, context: RestContext, settings: Settings) -> None:
        self._context = context
        self._settings = settings
        tokens = settings.read_tokens()
        self._tls = settings.read_tls()
        context.changing = eventlet.semaphore.Semaphore()
        counters = context.engine.counters
        epoch = context.engine.notifier.numbering.epoch
        broker = Broker(epoch, settings.rest_event_clients, counters, eventlet.queue.LightQueue)
        self.reporter = Reporter(context, broker)
        self._app = make_app(context, self.reporter, Guard(tokens, settings.rest_hosts, counters), bool(tokens))

    def listen(self) -> None:
        """Let clients connect; raises SettingsError where it cannot listen."""
        self._listener = _Listener(listen("rest", self._settings.rest), self._tls)

    def serve(self) -> None:
        """Answer until killed; listen() comes before."""
        eventlet.wsgi.server(
            self._listener,
            self._app,
            log_output=False,
            debug=False,
            max_size=CONNECTIONS_MAX,
            socket_timeout=TIMEOUT_S,
            keepalive=TIMEOUT_S,
            url_length_limit=LINE_MAX_BYTES,
        )

    def report(self) -> None:
        """Look at what changed; call it every SAMPLE_S."""
        self.reporter.tick()

    def close(self) -> None:
        """Let event streams end."""
        self.reporter.broker.close()


__all__ = ["SAMPLE_S", "Server"]
