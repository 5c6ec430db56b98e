# SPDX-License-Identifier: Apache-2.0
"""TLS of ``ssl:`` remotes of OVSDB, by the keys of OpenFlow: python-ovs' stream, as this project needs it."""

import errno
import logging
import socket
import ssl
from typing import Any, Callable, TypeVar

from ovs import socket_util
from ovs.stream import SSLStream, Stream

from sdngcc.controller.framework.tls import Files, client_context, files_of
from sdngcc.controller.settings import Settings, SettingsError

LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


class TlsStream(SSLStream):  # type: ignore[misc]
    """What python-ovs lets through as exceptions, such as an unknown authority, ends the connection only.

    An exception out of its run() would come again at each call, and keep it from trying another server.
    """

    files: Files  # what it shows and judges others by
    told: set[str] = set()  # remotes whose failure was logged since they worked last

    @staticmethod
    def _open(suffix: str, dscp: Any) -> tuple[int, Any]:
        """Begin a connection, as python-ovs' own does, whose context takes no lists of revoked certificates."""
        try:
            context = client_context(TlsStream.files)
        except (SettingsError, OSError) as fault:  # ssl.SSLError is an OSError
            TlsStream.tell(f"ssl:{suffix}", fault)
            return errno.EPROTO, None
        address = socket_util.inet_parse_active(suffix, 0)
        family, sock = socket_util.inet_create_socket_active(socket.SOCK_STREAM, address)
        if sock is None:
            return family, None
        wrapped = context.wrap_socket(sock, do_handshake_on_connect=False)
        error = socket_util.inet_connect_active(wrapped, address, family, dscp)
        if error:
            return error, wrapped
        try:
            wrapped.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as fault:
            wrapped.close()
            return socket_util.get_exception_errno(fault), None
        return 0, wrapped

    @classmethod
    def tell(cls, remote: str, error: Exception) -> None:
        """Log that a remote cannot be worked with, once until it can."""
        if remote not in cls.told:
            cls.told.add(remote)
            LOG.error("OVSDB %s: TLS failed, trying on: %s", remote, error)

    def connect(self) -> int:
        """Go on with the connection; return what keeps it from being there, an errno value, 0 when it is."""
        # Not SSLStream's: that of Open vSwitch 3.5 makes a number of why a handshake failed.
        error = super(SSLStream, self).connect()
        if error == 0:
            error = self._guard(self._shake_hands, errno.EPROTO)
        if error == 0:
            self.told.discard(self.name)
        return int(error)

    def _shake_hands(self) -> int:
        """Go on with the handshake; return what keeps it from its end, 0 when it is over. Raises ssl.SSLError."""
        try:
            self.socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return errno.EAGAIN
        except ssl.SSLSyscallError as fault:
            return int(socket_util.get_exception_errno(fault))
        except ssl.SSLError:
            raise
        except OSError as fault:
            return int(socket_util.get_exception_errno(fault))
        return 0

    def recv(self, n: int) -> tuple[int, Any]:
        """Return an errno value and at most n bytes."""
        return self._guard(lambda: super(TlsStream, self).recv(n), (errno.EPROTO, b""))

    def send(self, buf: Any) -> int:
        """Return the bytes sent, or a negative errno value."""
        return self._guard(lambda: super(TlsStream, self).send(buf), -errno.EPROTO)

    def _guard(self, function: Callable[[], Result], otherwise: Result) -> Result:
        try:
            return function()
        except ssl.SSLError as error:
            self.tell(self.name, error)
            return otherwise


def prepare_ovsdb(settings: Settings) -> None:
    """Let ssl: remotes of OVSDB use the same keys, and be told of in the log when they cannot."""
    files = files_of(settings)
    if files is not None:
        use_for_ovsdb(files)


def use_for_ovsdb(files: Files) -> None:
    """Let ssl: remotes of OVSDB in this process use files, read at each connection, and be told of when they cannot."""
    TlsStream.files = files
    Stream.register_method("ssl", TlsStream)
