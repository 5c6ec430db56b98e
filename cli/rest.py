# SPDX-License-Identifier: Apache-2.0
"""A client of the controller's REST interface, on the standard library and click alone."""

from __future__ import annotations

import functools
import http.client
import ipaddress
import json
import pathlib
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import click

from sdngcc.text import shown

# Where a controller with default settings listens.
DEFAULT_URL = "http://127.0.0.1:8080"

# How long to wait for an answer, s: longer than the controller waits for a hypervisor's database.
TIMEOUT_S = 15.0

# How long an event stream may be silent, s; the controller sends a comment every 15 s.
SILENCE_S = 40.0

# VMs a page of a long list.
PAGE = 500

# Most that is taken of a server: bytes of an answer or of a line of events, items of a list, characters of a refusal.
ANSWER_MAX_BYTES = 64 << 20
ITEMS_MAX = 1_000_000
WORDS_MAX = 2000


class RestError(click.ClickException):
    """The controller could not be asked, or refused; the text says which, why and what is allowed.

    A command that lets it through ends with that text and exit status 1.
    """


def printable(text: str) -> str:
    """Return a text of a server without what a terminal would obey, of WORDS_MAX of its characters at most."""
    return shown(text[:WORDS_MAX])


def explain(status: int, body: bytes) -> str:
    """Turn an error response of the controller (status, JSON body) into one line for a user."""
    return printable(_explain(status, body))


def _explain(status: int, body: bytes) -> str:
    try:
        details = json.loads(body)
        text = str(details.pop("error"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return f"the controller answered with status {status}: {body[:200].decode('utf-8', 'replace')}"
    for key, words in (("allowed", "allowed"), ("in_force", "still in force")):
        if details.get(key):
            value = details[key]
            if isinstance(value, dict):
                value = ", ".join(f"{name} {'unknown' if one is None else one}" for name, one in value.items())
            text += f"; {words}: {value}"
    if status == 401:
        text += "; name its file with --token-file or SDNGCC_TOKEN_FILE"
    return text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows a server nowhere else: the token is meant for it alone."""

    def redirect_request(self, *_: Any) -> None:
        """Return that there is nothing to be asked instead."""


def _is_loopback(url: str) -> bool:
    """Return whether a URL names this machine itself."""
    try:
        host = urllib.parse.urlsplit(url).hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RestClient:
    """Asks one controller; url is its base address, such as http://127.0.0.1:8080.

    ``token`` is sent with each request; ``ca_file`` holds the certificates that its own must be signed by. ``proxy`` is
    the address of an HTTP proxy; those that the environment names are left aside. Raises RestError where the proxy
    could read the token, or would be asked for this machine itself.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: Optional[str] = None,
        ca_file: Optional[str] = None,
        proxy: Optional[str] = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.given: Dict[str, Any] = {"url": url, "token": token, "ca_file": ca_file, "proxy": proxy}
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        safe = self.url.startswith("https:")
        if proxy is not None:
            if _is_loopback(self.url):
                raise RestError(f"--proxy {printable(proxy)}: {printable(self.url)} is this machine; leave --proxy out")
            if token is not None and not safe:
                raise RestError(f"--proxy {printable(proxy)}: it would read the token; allowed with a token: https:// "
                                f"in --url ({printable(self.url)} now)")
        tls = ssl.create_default_context(cafile=ca_file) if safe else None
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({} if proxy is None else {"http": proxy, "https": proxy}),
            _NoRedirect(), urllib.request.HTTPSHandler(context=tls),
        )  # fmt: skip

    def _open(self, method: str, path: str, data: Optional[bytes], timeout_s: float) -> Any:
        headers = dict(self._headers)
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
            return self._opener.open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            raise RestError(explain(error.code, self._read(error))) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = printable(str(getattr(error, "reason", None) or error or type(error).__name__))
            raise RestError(f"no controller answers at {self.url} ({reason}); start one by `sdngcc controller`, "
                            "or name another with --url or SDNGCC_URL") from None

    def _read(self, response: Any) -> bytes:
        """Return the whole body of an answer. Raises RestError."""
        try:
            body: bytes = response.read(ANSWER_MAX_BYTES + 1)
            if len(body) <= ANSWER_MAX_BYTES and response.length:
                raise http.client.IncompleteRead(body, response.length)
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise self._broken(error) from None
        if len(body) > ANSWER_MAX_BYTES:
            raise RestError(f"the controller at {self.url} answered with more than {ANSWER_MAX_BYTES} bytes")
        return body

    def _broken(self, error: Exception) -> RestError:
        return RestError(f"the controller at {self.url} broke off its answer ({printable(str(error))})")

    def _odd(self, what: str) -> RestError:
        return RestError(f"at {self.url} something answers as no controller of this version does: {what}")

    def request(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Send a request and return the JSON object it is answered with. Raises RestError."""
        data = None if body is None else json.dumps(body).encode()
        with self._open(method, path, data, TIMEOUT_S) as response:
            text = self._read(response)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._broken(error) from None
        if not isinstance(answer, dict):
            raise self._odd("no JSON object")
        return answer

    def _list(self, answer: Dict[str, Any], key: str) -> List[Dict[str, Any]]:
        """Return the list of objects that an answer has. Raises RestError."""
        found = answer.get(key)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._odd(f"no list of {key}")
        return found

    def _pages(self, path: str, key: str, filters: Dict[str, str]) -> List[Dict[str, Any]]:
        """Return all items of a list that comes in pages. Raises RestError."""
        found: List[Dict[str, Any]] = []
        after: Dict[str, str] = {}
        while True:
            query = urllib.parse.urlencode({"limit": PAGE, **filters, **after})
            answer = self.request("GET", f"{path}?{query}")
            some, following = self._list(answer, key), answer.get("next")
            found += some
            if following is None:
                return found
            if not isinstance(following, str) or not some or after.get("after") == following:
                raise self._odd(f"pages of {key} that lead nowhere")
            if len(found) > ITEMS_MAX:
                raise self._odd(f"more than {ITEMS_MAX} {key}")
            after = {"after": following}

    def vms(self, filters: Optional[Dict[str, str]] = None) -> List[Dict[str, Any]]:
        """Return all VMs that fit the filters of GET /v1/vms; rates in bit/s. Raises RestError."""
        return self._pages("/v1/vms", "vms", filters or {})

    def vm(self, name: str) -> Dict[str, Any]:
        """Return the VM of that id, MAC, IP address or port name. Raises RestError."""
        return self.request("GET", f"/v1/vms/{urllib.parse.quote(name, safe='')}")

    def vm_change(self, name: str, changes: Dict[str, Any]) -> Dict[str, Any]:
        """Change weight, min, max (bit/s) or law of a VM, None: default; return it as it is then. Raises RestError."""
        return self.request("PUT", f"/v1/vms/{urllib.parse.quote(name, safe='')}", changes)

    def vm_reset(self, name: str) -> Dict[str, Any]:
        """Take back all policy that is set for a VM and return it as it is then. Raises RestError."""
        return self.request("DELETE", f"/v1/vms/{urllib.parse.quote(name, safe='')}")

    def vms_change(self, changes: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Change the policy of many VMs and return what came of each. Raises RestError when nothing was begun."""
        return self.request("PATCH", "/v1/vms", {"changes": changes})

    def drain(self, wanted: bool) -> Dict[str, Any]:
        """Let the controller hand its switches over, or take switches again; return how far. Raises RestError."""
        return self.request("PUT", "/v1/drain", {"draining": wanted})

    def drain_state(self) -> Dict[str, Any]:
        """Return how far the controller is with handing its switches over. Raises RestError."""
        return self.request("GET", "/v1/drain")

    def tenants(self) -> List[Dict[str, Any]]:
        """Return all tenants by name; rates in bit/s. Raises RestError."""
        return self._pages("/v1/tenants", "tenants", {})

    def tenant(self, name: str) -> Dict[str, Any]:
        """Return the tenant of that name with its VMs. Raises RestError."""
        return self.request("GET", _tenant_path(name))

    def tenant_change(self, name: str, changes: Dict[str, Optional[int]]) -> Dict[str, Any]:
        """Change weight, min or max (bit/s) of a tenant, None: default; return it as it is then. Raises RestError."""
        return self.request("PUT", _tenant_path(name), changes)

    def tenant_reset(self, name: str) -> Dict[str, Any]:
        """Take back all policy of a tenant and return it as it is then. Raises RestError."""
        return self.request("DELETE", _tenant_path(name))

    def nodes(self) -> List[Dict[str, Any]]:
        """Return all compute nodes whose databases connect to the controller. Raises RestError."""
        return self._list(self.request("GET", "/v1/nodes"), "nodes")

    def node_forget(self, name: str) -> None:
        """Make the controller forget a node that is gone. Raises RestError."""
        self.request("DELETE", f"/v1/nodes/{urllib.parse.quote(name, safe='')}")

    def events(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """Yield (kind, data) of the controller's events until it closes the stream. Raises RestError."""
        kind, data = "", ""
        with self._open("GET", "/v1/events", None, SILENCE_S) as stream:
            try:
                while raw := stream.readline(ANSWER_MAX_BYTES):
                    if len(raw) == ANSWER_MAX_BYTES:
                        raise self._odd(f"a line of events of {ANSWER_MAX_BYTES} bytes")
                    line = raw.decode().rstrip("\n")
                    if line.startswith("event: "):
                        kind = line[7:]
                    elif line.startswith("data: "):
                        data = line[6:]
                    elif not line and kind:
                        found = json.loads(data)
                        if not isinstance(found, dict):
                            raise self._odd("an event without a JSON object")
                        yield kind, found
                        kind, data = "", ""
            except (http.client.HTTPException, OSError, ValueError, RecursionError) as error:
                reason = printable(str(error))
                raise RestError(f"the event stream of {self.url} broke off ({reason})") from None


def _tenant_path(name: str) -> str:
    return f"/v1/tenants/{urllib.parse.quote(name, safe='')}"


def read_token(path: pathlib.Path) -> str:
    """Return the token of a file: its first line that is no comment is <token>, or <name> <token> [role]."""
    try:
        words = [line.split() for line in path.read_text("ascii").splitlines() if line.strip() and line[0] != "#"]
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"--token-file {path}: {error}") from None
    if not words:
        raise click.ClickException(f"--token-file {path}: it holds no token")
    return words[0][0] if len(words[0]) == 1 else words[0][1]


def _options() -> List[Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return the options that name a controller."""
    return [
        click.option("--url", envvar="SDNGCC_URL", show_envvar=True,
                     help=f"The controller's REST interface.  [default: {DEFAULT_URL}]"),
        click.option("--token-file", envvar="SDNGCC_TOKEN_FILE", show_envvar=True,
                     type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
                     help="File with the token, when the controller asks for one."),
        click.option("--ca-file", envvar="SDNGCC_CA_FILE", show_envvar=True,
                     type=click.Path(exists=True, dir_okay=False),
                     help="Certificates to trust, when the controller's is not signed by a known authority."),
        click.option("--proxy", envvar="SDNGCC_PROXY", show_envvar=True, metavar="URL",
                     help="HTTP proxy on the way to a remote controller; http_proxy and its kind are not obeyed."),
    ]  # fmt: skip


def _given(url: Optional[str], token_file: Optional[pathlib.Path], ca_file: Optional[str], proxy: Optional[str]) -> Any:
    """Return what options that were given say, by RestClient's parameters."""
    token = None if token_file is None else read_token(token_file)
    said = {"url": url, "token": token, "ca_file": ca_file, "proxy": proxy}
    return {key: value for key, value in said.items() if value is not None}


def client_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a controller; it gets a RestClient as ``client``."""

    @functools.wraps(function)
    def wrapped(
        url: Optional[str], token_file: Optional[pathlib.Path], ca_file: Optional[str], proxy: Optional[str],
        **others: Any,
    ) -> Any:
        return function(client=RestClient(**_given(url, token_file, ca_file, proxy)), **others)

    for option in reversed(_options()):
        wrapped = option(wrapped)
    return wrapped


def take_options_after(group: click.Command) -> None:
    """Let the sub-commands of a group with client_options() take the same options, which then count."""
    if not isinstance(group, click.Group) or not any(one.name == "ca_file" for one in group.params):
        return
    for command in group.commands.values():
        if any(one.name == "ca_file" for one in command.params) or command.callback is None:
            continue
        command.params.extend(one for one in group.params if one.name in ("url", "token_file", "ca_file", "proxy"))
        command.callback = _with_client(command.callback)


def _with_client(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a sub-command: what is given after its name counts before what is given in front of it."""

    @functools.wraps(function)
    def wrapped(*words: Any, url: Any, token_file: Any, ca_file: Any, proxy: Any, **others: Any) -> Any:
        context = click.get_current_context()
        given = _given(url, token_file, ca_file, proxy)
        sources = {name: context.get_parameter_source(name) for name in ("url", "token_file", "ca_file", "proxy")}
        typed = {"token" if name == "token_file" else name for name, source in sources.items()
                 if source is click.core.ParameterSource.COMMANDLINE}  # fmt: skip
        if typed and isinstance(context.obj, RestClient):
            context.obj = RestClient(**{**context.obj.given, **{key: given[key] for key in typed}})
        return function(*words, **others)

    return wrapped
