# SPDX-License-Identifier: Apache-2.0
"""Where hypervisors' databases connect (``ovs-vsctl set-manager ssl:<controller>:6640``): listener and introduction.

A connection is let in (admission.py), shows its certificate, and is asked which node it is by one transaction that only
reads.  From then on it is the node's client's (databases/accepted.py); databases/nodes.py decides whose it may be.
"""

import errno
import logging
import socket
import ssl
import time
from typing import Any, Callable, Optional

from sdngcc.controller.budget import Stretches
from sdngcc.controller.databases import introduction
from sdngcc.controller.databases.accepted import AcceptedClient, Line
from sdngcc.controller.databases.documents import DocumentError
from sdngcc.controller.databases.nodes import Arrival, FindHolder, Node, Nodes
from sdngcc.controller.databases.ovsdb import Policy
from sdngcc.controller.databases.transport import Bounds
from sdngcc.controller.framework import certificates, connections, names, tls
from sdngcc.controller.framework.admission import Admission, Channel, Due, Reason, again, may_shake_hands, tell
from sdngcc.controller.framework.allowlist import AllowFile
from sdngcc.controller.framework.handshakes import shake_hands
from sdngcc.controller.framework.listening import listen
from sdngcc.controller.settings import Settings

_STRANGERS = Bounds(document_bytes=1 << 14, burst_bytes=1 << 17)  # before the connection is a node's
_ANSWERS_MAX = 16  # documents that are read before one says which node it is
_WATCH_S = 1.0
_ACCEPT_AGAIN_S = 0.1
# While its tables are read a client is looked at as often, for so long at most.
_READ_STEP_S = 0.01
_READ_STEPS = 1000
# How long a node's connection may take to answer when another one says it is the same node.
_PROBE_S = 2.0
_PROBE_STEP_S = 0.1

LOG = logging.getLogger(__name__)


class ManagerListener:
    """The listener for databases; raises SettingsError where it cannot listen, or TLS files are unusable.

    ``changed`` is called when a node's tables were read or it was forgotten.
    """

    def __init__(
        self,
        chosen: Settings,
        allowed: AllowFile,
        policy: Policy,
        holder: FindHolder,
        changed: Callable[[], None],
    ) -> None:
        limit = connections.places(chosen).managers
        self.admission = Admission(limit)
        self.nodes = Nodes(allowed, holder, self._make_client, limit)
        self._policy = policy
        self._changed = changed
        self._context: Optional[ssl.SSLContext] = None
        self.prepare(chosen)()
        self._socket = listen("ovsdb_listen", chosen.ovsdb_listen)
        self._strangers: dict[Channel, Line] = {}  # connections that are no node's yet
        LOG.info(
            "databases may connect at %s%s: at most %d connections, %d from one address",
            chosen.ovsdb_listen, " by TLS" if self._context else "", limit, self.admission.limit_a_peer,
        )  # fmt: skip

    def prepare(self, chosen: Settings) -> Callable[[], None]:
        """Read the files for TLS, and return what brings them and the bounds of connections into force.

        Connections that stand are left alone. Raises SettingsError.
        """
        context = tls.server_context(chosen)

        def commit() -> None:
            self._context = context
            self.admission.limit_a_peer = min(self.admission.limit, chosen.ovsdb_connections_a_peer)

        return commit

    def _make_client(self, name: str) -> AcceptedClient:
        return AcceptedClient(name, self._policy.schema, names.hub.sleep)

    def serve(self) -> None:
        """Accept connections until killed."""
        names.hub.spawn(self._watch)
        while True:
            try:
                sock, address = self._socket.accept()
            except OSError as error:
                self._tell(Reason.ACCEPT, None, f"accept() failed: {error.strerror or error}")
                names.hub.sleep(0 if error.errno == errno.ECONNABORTED else _ACCEPT_AGAIN_S)
                continue
            self._enter(sock, Channel(address[0], address[1], 0, 0))
            names.hub.sleep(0)

    def _enter(self, sock: Any, newcomer: Channel) -> None:
        if self._context is not None and not may_shake_hands(
            self.admission, newcomer, "database's connection"
        ):
            sock.close()
            return
        entry = self.admission.enter(newcomer.address, newcomer.port)
        if entry.evicted is not None:
            self._shut(entry.evicted, Reason.TOO_MANY, "all connections are taken, and it is no node's yet")
        if entry.channel is None:
            reason = entry.reason or Reason.TOO_MANY
            limit = self.admission.limit_a_peer if reason is Reason.TOO_MANY_OF_PEER else self.admission.limit
            self._tell(reason, newcomer, f"{limit} connections are open, which is the limit")
            sock.close()
            return
        line = self._strangers[entry.channel] = Line(sock, entry.channel, self._ended, _STRANGERS)
        names.hub.spawn(self._meet, line)

    def _meet(self, line: Line) -> None:
        """Find out which node connects, and hand the connection to its client."""
        stretches = Stretches(names.hub.sleep)
        line.pause = stretches.pause
        try:
            self._secure(line)
            if line.cause is None:
                stretches.begin()
                name = self._ask_name(line)
                if name is not None:
                    self._introduce(line, name)
                    return
        except DocumentError as error:
            line.blame(Reason.MALFORMED, f"it sent {error}")
        except OSError as error:
            LOG.debug("connection of %s: %s", line.channel, error)
        except Exception:
            LOG.exception("internal error in the connection of %s", line.channel)
        line.quit()

    def _secure(self, line: Line) -> None:
        """Make it a connection by TLS, of somebody who is admitted."""
        if self._context is None:
            return
        try:
            line.sock = self._context.wrap_socket(line.sock, server_side=True, do_handshake_on_connect=False)
            shake_hands(line.sock)
        except (OSError, ValueError) as error:
            line.blame(*tls.refusal(error))
            return
        line.identity = certificates.identity(line.sock.getpeercert())
        why = self.nodes.allowed.refuses(line.identity)
        if why is not None:
            line.blame(Reason.NOT_ADMITTED, why)
        else:
            self.admission.shook_hands(line.channel.address, time.monotonic_ns())

    def _ask_name(self, line: Line) -> Optional[str]:
        """Return which node a database says it is, None when the connection ends before; raises OSError."""
        line.sock.sendall(introduction.QUESTION)
        for _ in range(_ANSWERS_MAX):
            document = line.read_document()
            if not document:
                return None
            try:
                step = introduction.read(document)
            except introduction.IntroductionError as error:
                line.blame(Reason.MALFORMED, str(error))
                return None
            if step.name is not None:
                return step.name
            line.sock.sendall(step.reply)
        line.blame(Reason.MALFORMED, f"it sent {_ANSWERS_MAX} documents, none of which says which node it is")
        return None

    def _introduce(self, line: Line, name: str) -> None:
        """Give a connection to the node that it says it is, if it may be that one."""
        channel = line.channel
        self.admission.ready(channel)
        self._strangers.pop(channel, None)
        answer = self.nodes.arrive(name, line.identity, str(channel))
        if answer.forgotten is not None:
            LOG.warning("node %s is forgotten, gone for the longest time: there are too many", answer.forgotten.name)
            self._policy.remove(answer.forgotten.client)
        if answer.arrival is Arrival.REFUSED:
            same_name = name in self.nodes.by_name
            line.blame(Reason.DUPLICATE if same_name else Reason.TOO_MANY, answer.why)
            line.quit()
            return
        node = self.nodes.by_name[name]
        if answer.arrival is Arrival.NEW:
            self._policy.add(node.client)
        if answer.arrival is Arrival.DOUBTED and not self._decide(node, line):
            line.quit()
            return
        LOG.info("node %s, %s, connected from %s", name, node.owner, channel)
        self._read(node, line)

    def _decide(self, node: Node, line: Line) -> bool:
        """Ask a node's connection whether it is there, as another has its name, too; return whether that one wins."""
        client, channel, held = node.client, line.channel, node.client.line
        client.ask()
        # In steps, for whatever keeps this process busy meanwhile.
        for _ in range(round(_PROBE_S / _PROBE_STEP_S)):
            names.hub.sleep(_PROBE_STEP_S)
            client.run()
            if not client.is_connected or client.line is not held:
                break
            if client.answered():
                line.blame(Reason.DUPLICATE, self.nodes.keep(node, str(channel)))
                return False
        if self.nodes.by_name.get(node.name) is not node:
            return False
        self.nodes.resume(node, str(channel))
        return True

    def _read(self, node: Node, line: Line) -> None:
        """Let a node's client read all tables."""
        client = node.client
        client.attach(line)
        for _ in range(_READ_STEPS):
            if client.ready or client.line is not line or line.closed:
                break
            names.hub.sleep(_READ_STEP_S)
            client.run()
        self._changed()

    def settle(self) -> None:
        """Decide about nodes' bridges, where their tables changed."""
        settled = self.nodes.settle()
        for node in settled.changed:
            self._policy.reread(node.client)
        for node, dpid, why in settled.refused:
            line = node.client.line
            untold = self.admission.refuse(Reason.BRIDGE, line.channel.address if line else "")
            if untold is not None:
                LOG.warning("node %s is not believed about bridge %016x: %s%s", node.name, dpid, why, again(untold))

    def forget(self, node: Node) -> None:
        """Forget a node; what its database said of machines is gone."""
        self.nodes.forget(node)
        node.client.end(Reason.NOT_ADMITTED, "the node was forgotten")
        self._policy.remove(node.client)
        LOG.warning("node %s, %s, is forgotten", node.name, node.owner)
        self._changed()

    def _ended(self, line: Line) -> None:
        """Take note that a connection ended."""
        self.admission.leave(line.channel)
        self._strangers.pop(line.channel, None)
        if line.cause is not None:
            self._tell(line.cause[0], line.channel, line.cause[1])

    def _watch(self) -> None:
        """End what takes too long to say who it is, and what the list admits no longer."""
        before = time.monotonic()
        while True:
            names.hub.sleep(_WATCH_S)
            now = time.monotonic()
            try:
                self._end_overdue(now - before)
            except Exception:
                LOG.exception("internal error about connections of databases")
            before = now

    def _end_overdue(self, elapsed_s: float) -> None:
        for channel, what in self.admission.sweep(elapsed_s):
            if what is Due.HANDSHAKE:
                self._shut(channel, Reason.HANDSHAKE, "it takes too long to say which node it is")
        for node, why in self.nodes.refused_now():
            node.client.end(Reason.NOT_ADMITTED, why)

    def _shut(self, channel: Channel, reason: Reason, text: str) -> None:
        """End a connection that is no node's; its greenlet does the rest, counts it, and says why."""
        line = self._strangers.pop(channel, None)
        if line is None:
            return
        line.blame(reason, text)
        try:
            if isinstance(line.sock, ssl.SSLSocket):  # without a word of TLS, in whose state its greenlet may wait
                socket.SocketType.shutdown(line.sock, socket.SHUT_RDWR)
            else:
                line.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the peer was faster

    def _tell(self, reason: Reason, channel: Optional[Channel], text: str) -> None:
        """Count a refusal, and log it unless its address had the same within the last minute."""
        tell(self.admission, reason, channel, text, "database's connection")
