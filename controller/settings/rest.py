# SPDX-License-Identifier: Apache-2.0
"""REST: where, who may ask, and the record of what was changed."""

import enum
import pathlib
import re
import ssl
from typing import NamedTuple, Optional

import pydantic

from sdngcc.controller.settings.values import SettingsError, check_private


class Role(str, enum.Enum):
    """What the bearer of a token may do; each role may do what those before it may."""

    READ = "read"  # look
    OPERATE = "operate"  # change policy
    ADMIN = "admin"  # act on the controller itself

    def includes(self, other: "Role") -> bool:
        """Tell whether this role may do what another may."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)


class Token(NamedTuple):
    """A token: the secret, and what its bearer may do."""

    secret: str
    role: Role


_TOKEN_LINE = re.compile(r"([A-Za-z0-9_.@-]{1,64})\s+([!-~]{32,256})(?:\s+(read|operate|admin))?\s*")


class Rest(pydantic.BaseModel):
    """REST: where, who may ask, and the record of what was changed."""

    rest: str = pydantic.Field("127.0.0.1:8080", description="address and port of REST; empty: none")
    rest_token_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="file of lines <name> <token> [role]; each request bears a token then; needed off loopback"
    )
    rest_tls_cert: Optional[pathlib.Path] = pydantic.Field(None, description="PEM certificate (chain): REST by TLS")
    rest_tls_key: Optional[pathlib.Path] = pydantic.Field(None, description="PEM key of rest_tls_cert")
    rest_hosts: tuple[str, ...] = pydantic.Field(
        (), description="names REST may be called by, beside localhost and IP addresses"
    )
    rest_event_clients: int = pydantic.Field(32, ge=0, le=1000, description="most clients of /v1/events at a time")
    audit_file: Optional[pathlib.Path] = pydantic.Field(None, description="JSON lines: who changed which policy")

    def read_tokens(self) -> dict[str, Token]:
        """Return REST's tokens by name, none without a file; raises SettingsError when its file is unusable.

        A line without a role has the role operate.
        """
        path = self.rest_token_file
        if path is None:
            return {}
        try:
            lines = path.read_text("ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"rest_token_file {path}: {error}") from None
        check_private("rest_token_file", path)
        tokens: dict[str, Token] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            found = _TOKEN_LINE.fullmatch(line)
            if not found or found[1] in tokens or any(found[2] == known.secret for known in tokens.values()):
                raise SettingsError(
                    f"rest_token_file {path}, line {number}: allowed is <name> <token> [role], each name and token "
                    "once, a token of 32 to 256 printable characters, role one of read, operate (the default), admin"
                )
            tokens[found[1]] = Token(found[2], Role(found[3] or Role.OPERATE))
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
