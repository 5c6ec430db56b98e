# SPDX-License-Identifier: Apache-2.0
"""TLS with the keys that ovs-pki makes: a private key, its certificate, and the CA that signed the others'.

Both sides show certificates: a switch without one that the CA signed is refused before it says a word.
"""

import errno
import logging
import pathlib
import socket
import ssl
from typing import Any, Callable, NamedTuple, Optional, TypeVar

from sdngcc.controller.framework.admission import Reason
from sdngcc.controller.settings import Settings, SettingsError

# OpenSSL's X509_V_ERR_...: of certificates, and of the lists that say which are revoked.
REVOKED = 23
_LIST_FAULTS = frozenset({3, 5, 8, 11, 12, 15, 16, 33, 35, 36, 44, 54})

LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


def server_context(settings: Settings, group: str = "openflow_tls") -> Optional[ssl.SSLContext]:
    """Return what peers are accepted by with the files of ``<group>_key``, ``_cert`` and ``_ca``, None without a key.

    Raises SettingsError naming the key at fault.
    """
    key, certificate, authority = (getattr(settings, f"{group}_{name}") for name in ("key", "cert", "ca"))
    if key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    for name, path in (("key", key), ("cert", certificate), ("ca", authority)):
        try:
            path.read_bytes()
        except OSError as error:
            raise SettingsError(f"{group}_{name} {path}: {error.strerror}") from None
    try:
        context.load_cert_chain(str(certificate), str(key))
    except ssl.SSLError as error:
        pair = f"{group}_cert {certificate} and {group}_key {key}"
        raise SettingsError(f"{pair}: no certificate and its private key ({error.reason or error})") from None
    try:
        context.load_verify_locations(str(authority))
    except ssl.SSLError as error:
        raise SettingsError(
            f"{group}_ca {authority}: no certificate of an authority ({error.reason or error})"
        ) from None
    lists = getattr(settings, f"{group}_crl", None)
    if lists is not None:
        load_lists(context, f"{group}_crl", lists)
    return context


def list_files(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the files that hold the lists of a setting: one, or those of a folder; raises OSError."""
    return sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]


def load_lists(context: ssl.SSLContext, name: str, path: pathlib.Path) -> None:
    """Have a context refuse what the lists of revoked certificates in a file, or a folder of files, name.

    A certificate is refused, too, where no current list of each authority above it is there. Raises SettingsError.
    """
    try:
        files = list_files(path)
        trusted = context.cert_store_stats()["x509"]
        for file in files:
            before = context.cert_store_stats()["crl"]
            try:
                context.load_verify_locations(str(file))
            except ssl.SSLError as error:
                why = error.reason or error
                raise SettingsError(f"{name} {file}: no list of revoked certificates ({why})") from None
            if context.cert_store_stats()["x509"] > trusted:
                raise SettingsError(f"{name} {file}: it holds a certificate; allowed are lists of revoked ones")
            if context.cert_store_stats()["crl"] == before:
                raise SettingsError(f"{name} {file}: it holds no list that is not in another file, too")
    except OSError as error:
        raise SettingsError(f"{name} {path}: {error.strerror}") from None
    if not files:
        raise SettingsError(f"{name} {path}: the folder holds no list")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def refusal(error: Exception) -> tuple[Reason, str]:
    """Return why a handshake with somebody who connected failed, as it is counted and in words."""
    code = getattr(error, "verify_code", None)
    if code == REVOKED:
        return Reason.REVOKED, "its certificate is revoked, as openflow_tls_crl says"
    if code in _LIST_FAULTS:
        return Reason.REVOCATION, (
            f"nobody knows whether its certificate is revoked ({getattr(error, 'verify_message', error)}); needed in "
            "openflow_tls_crl is a list of each authority of its chain that is valid now"
        )
    return Reason.TLS, f"no TLS handshake with a known certificate ({error})"


class Files(NamedTuple):
    """The files of one end of TLS, in PEM."""

    key: str
    certificate: str
    authority: str
    lists: str = ""  # of revoked certificates: a file, or a folder of files


def files_of(settings: Settings) -> Optional[Files]:
    """Return the files of openflow_tls_key, _cert, _ca and _crl, None without a key."""
    if settings.openflow_tls_key is None:
        return None
    key, certificate, authority = settings.openflow_tls_key, settings.openflow_tls_cert, settings.openflow_tls_ca
    lists = "" if settings.openflow_tls_crl is None else str(settings.openflow_tls_crl)
    return Files(str(key), str(certificate), str(authority), lists)


def client_context(files: Files) -> ssl.SSLContext:
    """Return what servers are connected to with files; raises SettingsError, OSError or ssl.SSLError.

    A server is known by its authority, not by its name, as Open vSwitch has it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.authority)
    if files.lists:
        load_lists(context, "openflow_tls_crl", pathlib.Path(files.lists))
    return context


def prepare_ovsdb(settings: Settings) -> None:
    """Let ssl: remotes of OVSDB use the same keys, and be told of in the log when they cannot."""
    files = files_of(settings)
    if files is not None:
        use_for_ovsdb(files)


def use_for_ovsdb(files: Files) -> None:
    """Let ssl: remotes of OVSDB in this process use files, read at each connection, and be told of when they cannot."""
    from ovs import socket_util
    from ovs.stream import SSLStream, Stream

    class TlsStream(SSLStream):  # type: ignore[misc]
        """What python-ovs lets through as exceptions, such as an unknown authority, ends the connection only.

        An exception out of its run() would come again at each call, and keep it from trying another server.
        """

        told: set[str] = set()  # remotes whose failure was logged since they worked last

        @staticmethod
        def _open(suffix: str, dscp: Any) -> tuple[int, Any]:
            """Begin a connection, as python-ovs' own does, whose context takes no lists of revoked certificates."""
            try:
                context = client_context(files)
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
            return self._guard(lambda: super(TlsStream, self).recv(n), (errno.EPROTO, b""))

        def send(self, buf: Any) -> int:
            return self._guard(lambda: super(TlsStream, self).send(buf), -errno.EPROTO)

        def _guard(self, function: Callable[[], Result], otherwise: Result) -> Result:
            try:
                return function()
            except ssl.SSLError as error:
                self.tell(self.name, error)
                return otherwise

    Stream.register_method("ssl", TlsStream)
