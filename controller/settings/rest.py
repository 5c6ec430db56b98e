# SPDX-License-Identifier: Apache-2.0
"""REST: where, who may ask, and the record of what was changed."""

import pathlib
import re
import ssl
from typing import Optional

import pydantic

from sdngcc.controller.settings.values import SettingsError, check_private


class Rest(pydantic.BaseModel):
    """REST: where, who may ask, and the record of what was changed."""

    rest: str = pydantic.Field("127.0.0.1:8080", description="address and port of REST; empty: none")
    rest_token_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="file of lines <name> <token>; each request bears a token then; needed off loopback"
    )
    rest_tls_cert: Optional[pathlib.Path] = pydantic.Field(None, description="PEM certificate (chain): REST by TLS")
    rest_tls_key: Optional[pathlib.Path] = pydantic.Field(None, description="PEM key of rest_tls_cert")
    rest_hosts: tuple[str, ...] = pydantic.Field(
        (), description="names REST may be called by, beside localhost and IP addresses"
    )
    rest_event_clients: int = pydantic.Field(32, ge=0, le=1000, description="most clients of /v1/events at a time")
    audit_file: Optional[pathlib.Path] = pydantic.Field(None, description="JSON lines: who changed which policy")

    def read_tokens(self) -> dict[str, str]:
        """Return REST's tokens by name, none without a file; raises SettingsError when its file is unusable."""
        path = self.rest_token_file
        if path is None:
            return {}
        try:
            lines = path.read_text("ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"rest_token_file {path}: {error}") from None
        check_private("rest_token_file", path)
        tokens: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            found = re.fullmatch(r"([A-Za-z0-9_.@-]{1,64})\s+([!-~]{32,256})\s*", line)
            if not found or found[1] in tokens:
                raise SettingsError(
                    f"rest_token_file {path}, line {number}: allowed is <name> <token>, each name once, "
                    "a token of 32 to 256 printable characters"
                )
            tokens[found[1]] = found[2]
        if not tokens:
            raise SettingsError(f"rest_token_file {path}: it holds no token")
        return tokens

    def read_tls(self) -> Optional[ssl.SSLContext]:
        """Return what REST needs for TLS, None without a certificate; raises SettingsError when a file is unusable."""
        if self.rest_tls_cert is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.rest_tls_cert, self.rest_tls_key)
        except OSError as error:  # ssl.SSLError is one
            files = f"rest_tls_cert {self.rest_tls_cert}, rest_tls_key {self.rest_tls_key}"
            raise SettingsError(f"{files}: {error}") from None
        return context
