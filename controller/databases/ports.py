# SPDX-License-Identifier: Apache-2.0
"""What passes between the controller and a reader of a database of the cloud: lines of JSON over pipes.

To the reader, once: what it is to read (its orders). From it: that it begins, a line for each port that is new, changed
or gone, that it has told all there are, and at least each second the state of its database.
"""

import json
from typing import Any, NamedTuple, Optional, Union

from sdngcc.controller.databases.health import STATES, State
from sdngcc.controller.network.directory import Allowed, CloudPort, Trunk

LINE_MAX_BYTES = 1 << 16  # of a port with all that it may have; some 20 kB
FAULT_MAX = 200  # characters


class Begins(NamedTuple):
    """The reader tells all ports from now on."""


class Whole(NamedTuple):
    """It has told all ports there are."""


class Gone(NamedTuple):
    """A port that is no more."""

    id: str


class Report(NamedTuple):
    """The state of the database."""

    state: State
    fault: Optional[str]  # what is wrong with it, in words
    refused: int  # rows that could not be used, since the report before


Said = Union[Begins, Whole, Gone, Report, CloudPort]


def begins_line() -> bytes:
    """Return the line that tells that the reader begins."""
    return _line({"begins": 1})


def whole_line() -> bytes:
    """Return the line that tells that all ports have been told."""
    return _line({"whole": 1})


def gone_line(port_id: str) -> bytes:
    """Return the line that tells that a port is no more."""
    return _line({"gone": port_id})


def report_line(report: Report) -> bytes:
    """Return the line that tells the state of the database."""
    return _line({"report": [report.state, report.fault and report.fault[:FAULT_MAX], report.refused]})


def port_line(port: CloudPort) -> bytes:
    """Return the line that tells of a port."""
    return _line({"port": port})


def _line(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), default=bytes.hex).encode() + b"\n"


def _bytes(text: Any) -> bytes:
    return bytes.fromhex(text)


def parse(line: bytes) -> Said:
    """Return what a line says; raises ValueError for one that no reader writes."""
    try:
        ((kind, content),) = json.loads(line).items()
        if kind == "port":
            port = CloudPort(*content)
            return port._replace(
                segments=tuple((vlan, key) for vlan, key in port.segments),
                macs=tuple(map(_bytes, port.macs)),
                addresses=tuple(map(_bytes, port.addresses)),
                trunk=port.trunk and Trunk(*port.trunk),
                allowed=tuple(Allowed(_bytes(first), bits, _bytes(mac)) for first, bits, mac in port.allowed),
                floating=tuple(((vlan, key), _bytes(address)) for (vlan, key), address in port.floating),
                associated=tuple(map(_bytes, port.associated)),
            )
        if kind == "gone":
            return Gone(content)
        if kind == "report":
            report = Report(*content)
            if report.state not in STATES:
                raise ValueError(f"no state: {report.state!r}")
            return report
        if kind == "whole":
            return Whole()
        if kind == "begins":
            return Begins()
        raise ValueError(f"no line of a reader: {kind!r:.40}")
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no line of a reader: {error!r}") from None
