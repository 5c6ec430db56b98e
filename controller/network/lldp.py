# SPDX-License-Identifier: Apache-2.0
"""What hosts hear by LLDP, as links of the underlay: `lldpcli -f json0 show neighbors` of lldpd, read and joined.

A neighbour is what one interface of a host hears.  Of its names the system's stands for the switch, else its chassis
id; for the port the id where it is a name (``ifname``, ``ifalias``, ``local``), else the description, else the id.
Colons, which part a node from its port in the underlay's file, become hyphens.

Whoever can send a frame to an interface can say that it is any switch, a virtual machine too, so only interfaces that
the operator named are looked at.
"""

import fnmatch
import re
from typing import Any, Iterable, Mapping, NamedTuple, Optional

import pydantic

DOCUMENT_MAX_BYTES = 16 << 20
_NAMED = ("ifname", "ifalias", "local")


class LldpError(ValueError):
    """A document, or several together, that make no links; the text says what was wrong and where."""


class Neighbor(NamedTuple):
    """What one interface of a host hears."""

    interface: str
    system: str
    port: str


class _Open(pydantic.BaseModel):
    """A part of a document; what is not needed is left aside."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)


class _Text(_Open):
    value: str = pydantic.Field("", max_length=512)
    type: str = ""


class _Named(_Open):
    id: list[_Text] = pydantic.Field([], max_length=16)
    name: list[_Text] = pydantic.Field([], max_length=16)
    descr: list[_Text] = pydantic.Field([], max_length=16)


class _Interface(_Open):
    name: str = pydantic.Field(min_length=1, max_length=256)
    via: str = "LLDP"
    chassis: list[_Named] = pydantic.Field([], max_length=16)
    port: list[_Named] = pydantic.Field([], max_length=16)


class _Interfaces(_Open):
    interface: list[_Interface] = pydantic.Field([], max_length=10_000)


class _Document(_Open):
    lldp: list[_Interfaces] = pydantic.Field(max_length=16)


def read_neighbors(data: bytes, interfaces: Iterable[str]) -> list[Neighbor]:
    """Return what the interfaces hear whose names fit one of the patterns (``*`` and ``?``); others are left out.

    Raises LldpError.
    """
    if len(data) > DOCUMENT_MAX_BYTES:
        raise LldpError(f"{len(data)} bytes; up to {DOCUMENT_MAX_BYTES} are read")
    try:
        document = _Document.model_validate_json(data)
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(one) for one in fault["loc"]) or "the document"
        raise LldpError(
            f"{place}: {fault['msg']}; allowed is what `lldpcli -f json0 show neighbors` writes"
        ) from None
    patterns = tuple(interfaces)
    found = []
    for one in (interface for part in document.lldp for interface in part.interface):
        if one.via == "LLDP" and any(fnmatch.fnmatchcase(one.name, pattern) for pattern in patterns):
            chassis, port = _first(one.chassis), _first(one.port)
            found.append(Neighbor(one.name, _system(one.name, chassis), _port(one.name, port)))
    return found


def _first(parts: list[_Named]) -> _Named:
    return parts[0] if parts else _Named()


def _text(*choices: list[_Text]) -> str:
    """Return the first text that is not empty, fit for a name."""
    text = next((one.value for choice in choices for one in choice if one.value.strip()), "")
    return re.sub(r"[^!-~]+", "_", text.strip()).replace(":", "-")


def _system(interface: str, chassis: _Named) -> str:
    name = _text(chassis.name, chassis.id)
    if not name:
        raise LldpError(f"interface {interface}: its neighbour has neither a system name nor a chassis id")
    return name


def _port(interface: str, port: _Named) -> str:
    names = [one for one in port.id if one.type in _NAMED]
    name = _text(names, port.descr, port.id)
    if not name:
        raise LldpError(f"interface {interface}: its neighbour's port has neither an id nor a description")
    return name


def join(
    underlay: Mapping[str, Any], heard: Mapping[str, list[Neighbor]], mbps: Optional[float] = None
) -> tuple[dict[str, Any], list[str]]:
    """Return an underlay's file completed by what its hosts hear, and what was left out and why, a line each.

    ``underlay`` is the file's content (hosts, and what else is known), ``heard`` by the name of the host, ``mbps`` what
    the new links carry.  Links that stand in the file stay as they are.  Raises LldpError where hosts contradict each
    other or the file.
    """
    hosts = dict(underlay.get("hosts") or {})
    switches = dict(underlay.get("switches") or {})
    links = [dict(link) for link in underlay.get("links") or []]
    known = {frozenset(link["ends"]) for link in links}
    taken = {end: link["ends"] for link in links for end in link["ends"]}
    left = []
    for host, neighbors in heard.items():
        if host not in hosts:
            raise LldpError(f'"{host}" is no host of the file; allowed: {", ".join(sorted(hosts)) or "none"}')
        for one in sorted(set(neighbors)):
            ends = [f"{host}:{one.interface}", f"{one.system}:{one.port}"]
            if one.system in hosts:
                left.append(f"{ends[0]} hears {ends[1]}, which is a host: it is no link to a switch")
                continue
            if frozenset(ends) in known:
                continue
            for end in ends:
                if end in taken:
                    raise LldpError(f"{ends[0]} hears {ends[1]}, but there is a link {' - '.join(taken[end])}, too")
            switches.setdefault(one.system, {})
            links.append({"ends": ends} if mbps is None else {"ends": ends, "mbps": mbps})
            known.add(frozenset(ends))
            taken.update(dict.fromkeys(ends, ends))
    linked = {end.partition(":")[0] for end in taken}
    left += [f"{host} has no link" for host in sorted(hosts) if host not in linked]
    return {**underlay, "switches": switches, "hosts": hosts, "links": links}, left
