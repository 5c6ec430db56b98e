# SPDX-License-Identifier: Apache-2.0
"""Whether exporters' certificates are revoked.

gRPC's core verifies chains in the handshake, and its Python binding offers no way to give it lists of revoked
certificates. What it tells of a connection is the peer's certificate and those that came with it. So each export is
judged here: OpenSSL verifies the chain again, with the lists. A verdict holds for VERDICT_S, or until the lists' files
change, which are looked at every LOOK_S; a connection that stands is thus judged by new lists, too.
"""

import pathlib
import re
import ssl
import threading
import time
from typing import Callable, Literal, NamedTuple, Optional

from OpenSSL import crypto

from sdngcc.configuration import SettingsError, stamp
from sdngcc.controller.framework import tls

LOOK_S = 1.0
VERDICT_S = 10.0  # an expired list counts for so long at most
VERDICTS_MAX = 4096
SETTING = "otlp_tls_crl"

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)

Kind = Literal["revoked", "revocation_unknown"]


class Refusal(NamedTuple):
    """Why exports under a certificate are refused."""

    kind: Kind  # as it is counted
    words: str


def _read(pem: bytes) -> list[crypto.X509]:
    """Return the certificates in PEM; raises crypto.Error."""
    return [crypto.load_certificate(crypto.FILETYPE_PEM, one) for one in _CERTIFICATE.findall(pem)]


class Revocation:
    """Judges certificates by the lists in a file, or a folder of files; several threads may ask.

    ``authority`` holds the certificates that chains end at, PEM. Lists that cannot be used any more are told of by
    ``tell``, once, and those read before stay in force. ``clock`` counts seconds.
    """

    def __init__(
        self,
        authority: str,
        lists: pathlib.Path,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raise SettingsError when the lists cannot be used."""
        self._authority = _read(authority.encode())
        self._lists = lists
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = self._stamps()
        self._store = self._load()
        self._look_s = clock() + LOOK_S
        self._verdicts: dict[tuple[bytes, bytes], tuple[float, Optional[Refusal]]] = {}  # with when each was made

    def judge(self, certificate: bytes, others: bytes) -> Optional[Refusal]:
        """Return why a certificate, PEM, does not count, None when it does; ``others`` came with it."""
        with self._lock:
            now_s = self._clock()
            self._follow(now_s)
            made_s, verdict = self._verdicts.get((certificate, others), (now_s - VERDICT_S, None))
            if now_s - made_s >= VERDICT_S:
                if len(self._verdicts) >= VERDICTS_MAX:
                    self._verdicts.clear()
                verdict = self._verify(certificate, others)
                self._verdicts[certificate, others] = now_s, verdict
            return verdict

    def _verify(self, certificate: bytes, others: bytes) -> Optional[Refusal]:
        try:
            (own,) = _read(certificate)
            crypto.X509StoreContext(self._store, own, _read(others)).verify_certificate()
        except crypto.X509StoreContextError as error:
            code, _, words = error.errors
            if code == tls.REVOKED:
                return Refusal("revoked", f"the certificate, or one that its chain needs, is revoked by {SETTING}")
            return _unknown(words)
        except (crypto.Error, ValueError):
            return _unknown("the certificate cannot be read")
        return None

    def _follow(self, now_s: float) -> None:
        """Read the lists again if their files changed."""
        if now_s < self._look_s:
            return
        self._look_s = now_s + LOOK_S
        seen = self._stamps()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._store = self._load()
        except SettingsError as error:
            self._tell(f"{error}; the lists read before stay in force")
            return
        self._verdicts.clear()

    def _stamps(self) -> list[tuple[pathlib.Path, Optional[tuple[int, int, int]]]]:
        try:
            files = tls.list_files(self._lists)
        except OSError:
            files = [self._lists]
        return [(file, stamp(file)) for file in files]

    def _load(self) -> crypto.X509Store:
        tls.load_lists(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), SETTING, self._lists)
        store = crypto.X509Store()
        for one in self._authority:
            store.add_cert(one)
        try:
            for file in tls.list_files(self._lists):
                store.load_locations(str(file))
        except (crypto.Error, OSError) as error:  # the file changed since it was tried
            raise SettingsError(f"{SETTING} {self._lists}: {error}") from None
        store.set_flags(crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL)
        return store


def _unknown(words: str) -> Refusal:
    return Refusal(
        "revocation_unknown",
        f"nobody knows whether the certificate is revoked ({words}); needed in {SETTING} is a list of each authority "
        "of its chain that is valid now",
    )
