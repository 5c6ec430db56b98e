# SPDX-License-Identifier: Apache-2.0
"""A client of the controller's REST interface, on the standard library and click alone."""

from __future__ import annotations

import functools
import json
import pathlib
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import click

# Where a controller with default settings listens.
DEFAULT_URL = "http://127.0.0.1:8080"

# How long to wait for an answer, s: longer than the controller waits for a hypervisor's database.
TIMEOUT_S = 15.0

# How long an event stream may be silent, s; the controller sends a comment every 15 s.
SILENCE_S = 40.0

# VMs a page of a long list.
PAGE = 500


class RestError(click.ClickException):
    """The controller could not be asked, or refused; the text says which, why and what is allowed.

    A command that lets it through ends with that text and exit status 1.
    """


def explain(status: int, body: bytes) -> str:
    """Turn an error response of the controller (status, JSON body) into one line for a user."""
    try:
        details = json.loads(body)
        text = str(details.pop("error"))
    except (ValueError, KeyError, AttributeError, TypeError):
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


class RestClient:
    """Asks one controller; url is its base address, such as http://127.0.0.1:8080.

    ``token`` is sent with each request; ``ca_file`` holds the certificates that its own must be signed by.
    """

    def __init__(self, url: str = DEFAULT_URL, token: Optional[str] = None, ca_file: Optional[str] = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._tls = ssl.create_default_context(cafile=ca_file) if self.url.startswith("https:") else None

    def _open(self, method: str, path: str, data: Optional[bytes], timeout_s: float) -> Any:
        headers = dict(self._headers)
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
            return urllib.request.urlopen(request, timeout=timeout_s, context=self._tls)
        except urllib.error.HTTPError as error:
            raise RestError(explain(error.code, error.read())) from None
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RestError(f"no controller answers at {self.url} ({reason}); start one by `sdngcc controller`, "
                            "or name another with --url or SDNGCC_URL") from None

    def request(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        """Send a request and return the decoded JSON answer. Raises RestError."""
        data = None if body is None else json.dumps(body).encode()
        try:
            with self._open(method, path, data, TIMEOUT_S) as response:
                return json.load(response)
        except (OSError, ValueError) as error:
            raise RestError(f"the controller at {self.url} broke off its answer ({error})") from None

    def vms(self, filters: Optional[Dict[str, str]] = None) -> List[Dict[str, Any]]:
        """Return all VMs that fit the filters of GET /v1/vms; rates in bit/s. Raises RestError."""
        found: List[Dict[str, Any]] = []
        after: Dict[str, str] = {}
        while True:
            query = urllib.parse.urlencode({"limit": PAGE, **(filters or {}), **after})
            answer = self.request("GET", f"/v1/vms?{query}")
            found += answer["vms"]
            if answer["next"] is None:
                return found
            after = {"after": answer["next"]}

    def vm(self, name: str) -> Dict[str, Any]:
        """Return the VM of that id, MAC, IP address or port name. Raises RestError."""
        answer: Dict[str, Any] = self.request("GET", f"/v1/vms/{urllib.parse.quote(name, safe='')}")
        return answer

    def vm_change(self, name: str, changes: Dict[str, Any]) -> Dict[str, Any]:
        """Change weight, min, max (bit/s) or law of a VM, None: default; return it as it is then. Raises RestError."""
        answer: Dict[str, Any] = self.request("PUT", f"/v1/vms/{urllib.parse.quote(name, safe='')}", changes)
        return answer

    def vm_reset(self, name: str) -> Dict[str, Any]:
        """Take back all policy that is set for a VM and return it as it is then. Raises RestError."""
        answer: Dict[str, Any] = self.request("DELETE", f"/v1/vms/{urllib.parse.quote(name, safe='')}")
        return answer

    def vms_change(self, changes: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Change the policy of many VMs and return what came of each. Raises RestError when nothing was begun."""
        answer: Dict[str, Any] = self.request("PATCH", "/v1/vms", {"changes": changes})
        return answer

    def drain(self, wanted: bool) -> Dict[str, Any]:
        """Let the controller hand its switches over, or take switches again; return how far. Raises RestError."""
        answer: Dict[str, Any] = self.request("PUT", "/v1/drain", {"draining": wanted})
        return answer

    def drain_state(self) -> Dict[str, Any]:
        """Return how far the controller is with handing its switches over. Raises RestError."""
        answer: Dict[str, Any] = self.request("GET", "/v1/drain")
        return answer

    def tenants(self) -> List[Dict[str, Any]]:
        """Return all tenants by name; rates in bit/s. Raises RestError."""
        found: List[Dict[str, Any]] = []
        after: Dict[str, str] = {}
        while True:
            answer = self.request("GET", f"/v1/tenants?{urllib.parse.urlencode({'limit': PAGE, **after})}")
            found += answer["tenants"]
            if answer["next"] is None:
                return found
            after = {"after": answer["next"]}

    def tenant(self, name: str) -> Dict[str, Any]:
        """Return the tenant of that name with its VMs. Raises RestError."""
        answer: Dict[str, Any] = self.request("GET", _tenant_path(name))
        return answer

    def tenant_change(self, name: str, changes: Dict[str, Optional[int]]) -> Dict[str, Any]:
        """Change weight, min or max (bit/s) of a tenant, None: default; return it as it is then. Raises RestError."""
        answer: Dict[str, Any] = self.request("PUT", _tenant_path(name), changes)
        return answer

    def tenant_reset(self, name: str) -> Dict[str, Any]:
        """Take back all policy of a tenant and return it as it is then. Raises RestError."""
        answer: Dict[str, Any] = self.request("DELETE", _tenant_path(name))
        return answer

    def nodes(self) -> List[Dict[str, Any]]:
        """Return all compute nodes whose databases connect to the controller. Raises RestError."""
        answer: List[Dict[str, Any]] = self.request("GET", "/v1/nodes")["nodes"]
        return answer

    def node_forget(self, name: str) -> None:
        """Make the controller forget a node that is gone. Raises RestError."""
        self.request("DELETE", f"/v1/nodes/{urllib.parse.quote(name, safe='')}")

    def events(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """Yield (kind, data) of the controller's events until it closes the stream. Raises RestError."""
        kind, data = "", ""
        with self._open("GET", "/v1/events", None, SILENCE_S) as stream:
            try:
                for raw in stream:
                    line = raw.decode().rstrip("\n")
                    if line.startswith("event: "):
                        kind = line[7:]
                    elif line.startswith("data: "):
                        data = line[6:]
                    elif not line and kind:
                        yield kind, json.loads(data)
                        kind, data = "", ""
            except (OSError, ValueError) as error:
                raise RestError(f"the event stream of {self.url} broke off ({error})") from None


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


def client_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a controller; it gets a RestClient as ``client``."""

    @click.option("--url", default=DEFAULT_URL, envvar="SDNGCC_URL", show_default=True, show_envvar=True,
                  help="The controller's REST interface.")
    @click.option("--token-file", envvar="SDNGCC_TOKEN_FILE", show_envvar=True,
                  type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
                  help="File with the token, when the controller asks for one.")
    @click.option("--ca-file", envvar="SDNGCC_CA_FILE", show_envvar=True, type=click.Path(exists=True, dir_okay=False),
                  help="Certificates to trust, when the controller's is not signed by a known authority.")
    @functools.wraps(function)
    def wrapped(url: str, token_file: Optional[pathlib.Path], ca_file: Optional[str], **others: Any) -> Any:
        token = None if token_file is None else read_token(token_file)
        return function(client=RestClient(url, token, ca_file), **others)

    return wrapped
