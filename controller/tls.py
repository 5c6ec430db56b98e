# SPDX-License-Identifier: Apache-2.0
"""TLS with the keys that ovs-pki makes: a private key, its certificate, and the CA that signed the others'.

Both sides show certificates: a switch without one that the CA signed is refused before it says a word.
"""

import ssl
from typing import Optional

from sdngcc.controller.settings import Settings, SettingsError


def server_context(settings: Settings) -> Optional[ssl.SSLContext]:
    """Return what switches are accepted by, None without openflow_tls_key.

    Raises SettingsError naming the key at fault.
    """
    if settings.openflow_tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    for name in ("openflow_tls_key", "openflow_tls_cert", "openflow_tls_ca"):
        path = getattr(settings, name)
        try:
            path.read_bytes()
        except OSError as error:
            raise SettingsError(f"{name} {path}: {error.strerror}") from None
    try:
        context.load_cert_chain(str(settings.openflow_tls_cert), str(settings.openflow_tls_key))
    except ssl.SSLError as error:
        pair = f"openflow_tls_cert {settings.openflow_tls_cert} and openflow_tls_key {settings.openflow_tls_key}"
        raise SettingsError(f"{pair}: no certificate and its private key ({error.reason or error})") from None
    try:
        context.load_verify_locations(str(settings.openflow_tls_ca))
    except ssl.SSLError as error:
        raise SettingsError(
            f"openflow_tls_ca {settings.openflow_tls_ca}: no certificate of an authority ({error.reason or error})"
        ) from None
    return context


def prepare_ovsdb(settings: Settings) -> None:
    """Let ssl: remotes of OVSDB use the same keys."""
    if settings.openflow_tls_key is None:
        return
    from ovs.stream import Stream

    Stream.ssl_set_private_key_file(str(settings.openflow_tls_key))
    Stream.ssl_set_certificate_file(str(settings.openflow_tls_cert))
    Stream.ssl_set_ca_cert_file(str(settings.openflow_tls_ca))
