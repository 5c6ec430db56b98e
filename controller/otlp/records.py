# SPDX-License-Identifier: Apache-2.0
"""What passes between the controller and its receiver of OpenTelemetry metrics: lines of JSON over pipes.

To the receiver, once: what it is to do (Orders). From it: that it listens, then what exports said, and what was
refused. A line of values holds VALUES_MAX series at most, so that reading one holds nobody up.
"""

import json
from typing import Any, NamedTuple, Optional

from sdngcc.controller.otlp.metrics import Series, Value, Values

VALUES_MAX = 256
LINE_MAX_BYTES = 1 << 20


class Orders(NamedTuple):
    """What a receiver is to do."""

    address: str  # <address>:<port>
    switches: dict[str, int]  # name -> datapath id
    key: Optional[str] = None  # PEM; all three or none
    certificate: Optional[str] = None
    authority: Optional[str] = None
    lists: Optional[str] = None  # of revoked certificates: a file, or a folder of files

    def dump(self) -> bytes:
        """Return it as a line."""
        return json.dumps(self._asdict()).encode() + b"\n"

    @classmethod
    def load(cls, line: bytes) -> "Orders":
        """Return what dump() made."""
        return cls(**json.loads(line))


class Export(NamedTuple):
    """A part of what a switch exported."""

    dpid: int
    values: Values


class Listening(NamedTuple):
    """The receiver takes exports now."""

    port: int


class Refusals(NamedTuple):
    """What was refused since it was told last, by kind."""

    counts: dict[str, int]


def export_lines(dpid: int, values: Values) -> list[bytes]:
    """Return the lines that tell what a switch exported."""
    items = list(values.items())
    return [
        _line({"dpid": dpid, "values": [[*series, *value] for series, value in items[first : first + VALUES_MAX]]})
        for first in range(0, len(items), VALUES_MAX)
    ]


def listening_line(port: int) -> bytes:
    """Return the line that tells that the receiver listens."""
    return _line({"listening": port})


def refusals_line(counts: dict[str, int]) -> bytes:
    """Return the line that tells what was refused."""
    return _line({"refused": counts})


def _line(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def parse(line: bytes) -> "Export | Listening | Refusals":
    """Return what a line says; raises ValueError for one that no receiver writes."""
    try:
        content = json.loads(line)
        if "values" in content:
            values = {Series(*one[:3]): Value(*one[3:]) for one in content["values"]}
            return Export(content["dpid"], values)
        if "refused" in content:
            return Refusals(content["refused"])
        return Listening(content["listening"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no line of a receiver: {error!r}") from None
