# SPDX-License-Identifier: Apache-2.0
"""Who may ask: tokens, and what keeps a browser from being used against the operator.

With ``rest_token_file`` every request under /v1 and for /metrics bears one of its tokens, but for those that tell load
balancers whether the controller is alive and ready; without it REST listens on loopback only (the settings see to
that).  A web page elsewhere can make an operator's browser send requests here, so:

- the Host of a request is an IP address, localhost or one of ``rest_hosts``: a name that somebody else's DNS points
  here (DNS rebinding) is refused;
- a request that a browser says comes from another site is refused, and a change whose Origin is not this very server.
"""

import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Mapping
from typing import Any, Counter, Optional

import falcon

from sdngcc.controller.rest.resource import refuse, role_needed
from sdngcc.controller.settings.rest import Role, Token

LOG = logging.getLogger(__name__)

# The page's files and the answers to load balancers show nothing of the network, and so need no token.
PAGE_PATH = "/page/"
OPEN_PATHS = frozenset({"/", "/v1/healthz", "/v1/readyz"})

_CHANGING = frozenset({"PUT", "POST", "PATCH", "DELETE"})


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(PAGE_PATH)


class Guard:
    """Falcon middleware; ``tokens`` are by name, ``hosts`` names this server may be called by.

    Without tokens whoever reaches the server may do everything.
    """

    def __init__(self, tokens: Mapping[str, Token], hosts: tuple[str, ...], counters: "Counter[str]") -> None:
        self._counters = counters
        self._tokens: dict[str, tuple[bytes, Role]] = {}
        self.replace(tokens, hosts)

    def replace(self, tokens: Mapping[str, Token], hosts: tuple[str, ...]) -> bool:
        """Take other tokens and names from now on; return whether the tokens are others than before."""
        before = self._tokens
        self._tokens = {name: (_digest(token.secret), token.role) for name, token in tokens.items()}
        self._hosts = frozenset(host.lower() for host in (*hosts, "localhost"))
        return before != self._tokens

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        """Refuse a request that has no business here; note who asks in ``context.who``, and in ``context.role``."""
        self._check_host(request)
        self._check_site(request)
        request.context.who, request.context.role = "loopback", Role.ADMIN
        if self._tokens and not _is_open(request.path):
            request.context.who, request.context.role = self._find_bearer(request)

    def process_resource(
        self, request: falcon.Request, response: falcon.Response, resource: Any, params: Mapping[str, Any]
    ) -> None:
        """Refuse an operation that needs another role than the asker has."""
        method = "get" if request.method == "HEAD" else request.method.lower()
        operation = getattr(resource, "operations", {}).get(method)
        if operation is None or operation.open:
            return
        who, role, needed = request.context.who, request.context.role, role_needed(method, operation)
        if role.includes(needed):
            return
        self._counters["rest_forbidden"] += 1
        LOG.warning("REST: %s, of role %s, may not %s %s", who, role.value, request.method, request.path)
        raise refuse(
            403,
            f"the token of {who} has the role {role.value}; {request.method} {request.path} needs {needed.value}",
            field="Authorization",
            allowed="a token with the role " + " or ".join(one.value for one in Role if one.includes(needed)),
        )

    def _find_bearer(self, request: falcon.Request) -> tuple[str, Role]:
        """Return the name and role of the token a request bears."""
        scheme, _, token = (request.get_header("Authorization") or "").partition(" ")
        found = self._match(token.strip()) if scheme.lower() == "bearer" else None
        if found is not None:
            return found
        self._counters["rest_unauthorized"] += 1
        fault = ', error="invalid_token"' if scheme else ""
        raise refuse(
            401,
            "no valid token" if scheme else "a token is needed",
            ("WWW-Authenticate", f'Bearer realm="sdn-gcc"{fault}'),
            field="Authorization",
            allowed="Bearer and a token of the controller's rest_token_file",
        )

    def _match(self, token: str) -> Optional[tuple[str, Role]]:
        """Return whose token it is, and its role; as long for each wrong one, however near it comes."""
        given, found = _digest(token), None
        for name, (digest, role) in self._tokens.items():
            if hmac.compare_digest(given, digest):
                found = (name, role)
        return found

    def _check_host(self, request: falcon.Request) -> None:
        text = request.get_header("Host")
        if text is None:
            return
        host = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
        if host.lower() in self._hosts:
            return
        try:
            ipaddress.ip_address(host)
        except ValueError:
            self._counters["rest_foreign_host"] += 1
            raise refuse(
                421, f'this is no "{host}"', field="Host", allowed="an IP address, localhost, or a name of rest_hosts"
            ) from None

    def _check_site(self, request: falcon.Request) -> None:
        site, origin = request.get_header("Sec-Fetch-Site"), request.get_header("Origin")
        foreign = site in ("cross-site", "same-site") and not _is_open(request.path)
        if request.method in _CHANGING and origin is not None and origin != f"{request.scheme}://{request.netloc}":
            foreign = True
        if foreign:
            self._counters["rest_foreign_site"] += 1
            raise refuse(403, "a web page of another site asks", field="Origin", allowed="this server's own page")
