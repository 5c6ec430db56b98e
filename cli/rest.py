# SPDX-License-Identifier: Apache-2.0
"""A client of the controller's REST interface, on the standard library alone."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Optional

# Where a controller with default settings listens.
DEFAULT_URL = "http://127.0.0.1:8080"

# How long to wait for an answer, s.
TIMEOUT_S = 5.0


class RestError(Exception):
    """The controller could not be asked, or refused; the text says which, why and what is allowed."""


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
    return text


class RestClient:
    """Asks one controller; url is its base address, such as http://127.0.0.1:8080."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        self.url = url.rstrip("/")

    def request(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        """Send a request and return the decoded JSON answer. Raises RestError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise RestError(explain(error.code, error.read())) from None
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RestError(f"no controller answers at {self.url} ({reason}); start one by `sdngcc controller`, "
                            "or name another with --url or SDNGCC_URL") from None

    def vms(self) -> List[Dict[str, Any]]:
        """Return all VMs as the controller shows them; rates in bit/s. Raises RestError."""
        answer: List[Dict[str, Any]] = self.request("GET", "/v1/vms")["vms"]
        return answer

    def vm_change(self, vm_id: str, changes: Dict[str, Optional[int]]) -> Dict[str, Any]:
        """Change weight, min or max (bit/s; None: default) of a VM and return it as it is then. Raises RestError."""
        answer: Dict[str, Any] = self.request("PUT", f"/v1/vms/{urllib.parse.quote(vm_id, safe='')}", changes)
        return answer
