# SPDX-License-Identifier: Apache-2.0
"""How a database that connects says which node it is: one transaction that only reads, and what may come in between."""

import json
from typing import Any, NamedTuple, Optional

from sdngcc.controller.databases.accepted import system_name

_ID = "which node"
_SELECT = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["_uuid", "external_ids"]}
QUESTION = json.dumps({"method": "transact", "params": ["Open_vSwitch", _SELECT], "id": _ID}).encode()


class IntroductionError(ValueError):
    """What is no answer of a database of Open vSwitch."""


class Step(NamedTuple):
    """What follows from a document."""

    reply: bytes = b""  # to be sent
    name: Optional[str] = None  # of the node, once it is said


def read(document: bytes) -> Step:
    """Take a document that came after QUESTION: its answer, an echo request, or something that is left aside.

    The document is bounded in bytes and nesting (documents.py). Raises IntroductionError.
    """
    try:
        said = json.loads(document)
        if said.get("method") == "echo":
            return Step(json.dumps({"result": said["params"], "error": None, "id": said["id"]}).encode())
        if said.get("id") == _ID:
            return Step(name=_name(said["result"]))
    except (ValueError, TypeError, LookupError, AttributeError):
        raise IntroductionError("it did not answer which node it is, as a database of Open vSwitch does") from None
    return Step()


def _name(result: Any) -> str:
    """Return which node a result names; raises ValueError, TypeError or LookupError."""
    [selected] = result
    [row] = selected["rows"]
    kind, uuid = row["_uuid"]
    map_kind, pairs = row["external_ids"]
    if (kind, map_kind) != ("uuid", "map") or not isinstance(uuid, str) or not uuid:
        raise ValueError("no row of table Open_vSwitch")
    return system_name(uuid, {str(key): str(value) for key, value in pairs})
