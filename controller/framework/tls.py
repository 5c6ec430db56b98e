# SPDX-License-Identifier: Apache-2.0
"""TLS with the keys that ovs-pki makes: a private key, its certificate, and the CA that signed the others'.

Both sides show certificates: a switch without one that the CA signed is refused before it says a word.
"""

import pathlib
import ssl
from typing import NamedTuple, Optional

from sdngcc.controller.framework.admission import Reason
from sdngcc.controller.settings import Settings, SettingsError

# OpenSSL's X509_V_ERR_...: of certificates, and of the lists that say which are revoked.
REVOKED = 23
_LIST_FAULTS = frozenset({3, 5, 8, 11, 12, 15, 16, 33, 35, 36, 44, 54})




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
