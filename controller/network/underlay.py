# SPDX-License-Identifier: Apache-2.0
"""The network beneath, where the controller does not forward: switches, hosts and links, from a file.

    switches:
      leaf1: {}
      spine1: {datapath: "00000000000000f1"}
    hosts:
      compute1: {datapath: ["0000525400a00001"]}
    links:
      - {ends: [compute1, leaf1], mbps: 25000}
      - {ends: ["leaf1:Ethernet48", "spine1:3"], mbps: 100000}

An end is a name, or a name and a port. A switch's port that is a number has that number, any other gets one by its
name, which stays the same whatever else the file says; one without a name goes by where its link leads. ``datapath``
ids of a host are those of its bridges, one of which connects; that of a switch is needed only where a mark source or
``capacities`` name its ports. ``mbps`` is what the link carries each way; without it ``capacity_mbps`` holds.

Without a file all hosts are taken to be linked by one switch, so that what is known of a port's congestion is for
which host its packets were. Packets take any of several shortest ways, in equal parts, as far as anybody here knows.
"""

import collections
import dataclasses
import hashlib
import heapq
import pathlib
import re
from typing import AbstractSet, Annotated, Any, Container, Iterable, Iterator, Mapping, NamedTuple, Optional

import pydantic

from sdngcc import configuration
from sdngcc.configuration import SettingsError
from sdngcc.controller.mappings import datapath_id
from sdngcc.controller.network.topology import Hop, Port, Topology

NODES_MAX = 100_000
LINKS_MAX = 1_000_000
MBPS = 125_000  # bytes/s
FIRST_PORT = 0xC0000000  # of the ports that get a number: above those of OpenFlow's usual switches, and device indexes
CORE = "network"  # the one switch where no file says otherwise

_NUMBER_MAX = 0xFFFFFF00


def node_id(name: str) -> int:
    """Return the number of a switch that has no datapath id; all controllers give it the same."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"underlay").digest(), "big")


def _ids(value: Any) -> Any:
    many = value if isinstance(value, list) else [value]
    if any(isinstance(one, int) for one in many):
        raise ValueError("a datapath id is hexadecimal text; quote it")
    return tuple(datapath_id(one) for one in many)


DatapathIds = Annotated[tuple[int, ...], pydantic.BeforeValidator(_ids)]


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class _Switch(_Strict):
    datapath: DatapathIds = pydantic.Field((), max_length=1)


class _Host(_Strict):
    datapath: DatapathIds = pydantic.Field(min_length=1, max_length=64)


class _Link(_Strict):
    ends: tuple[str, str]
    mbps: Optional[float] = pydantic.Field(None, ge=0.001, le=800_000)


class _File(_Strict):
    switches: dict[str, Optional[_Switch]] = pydantic.Field({}, max_length=NODES_MAX)
    hosts: dict[str, _Host] = pydantic.Field({}, max_length=NODES_MAX)
    links: list[_Link] = pydantic.Field([], max_length=LINKS_MAX)


class End(NamedTuple):
    """One end of a link."""

    node: str
    port: int
    name: str  # of the port


class Link(NamedTuple):
    """A link; ``rate`` in bytes/s each way, 0 where the file does not say."""

    ends: tuple[End, End]
    rate: int


class Underlay(NamedTuple):
    """What a file says."""

    switches: dict[str, int]  # name -> datapath id, or the number that stands for it
    hosts: dict[int, str]  # datapath id of any of its bridges -> name
    links: tuple[Link, ...]
    at: dict[str, list[Link]]  # host -> its links


def at_hosts(links: Iterable[Link], hosts: Container[str], at: dict[str, list[Link]]) -> None:
    """Add links to those of each host that they lead to."""
    for link in links:
        for end in link.ends:
            if end.node in hosts:
                at.setdefault(end.node, []).append(link)


@dataclasses.dataclass
class Change:
    """What another file changes in the graph; it grows with each step of replace()."""

    lost: list[Hop] = dataclasses.field(default_factory=list)  # ends of links that are no more
    rates: dict[Hop, int] = dataclasses.field(default_factory=dict)  # bytes/s that links carry; 0: nobody says
    homeless: list[int] = dataclasses.field(default_factory=list)  # hosts that had a place and have none


def read(path: Optional[pathlib.Path]) -> Optional[Underlay]:
    """Return what a file says, None without one; raises SettingsError naming what is wrong in it."""
    if path is None:
        return None
    try:
        return _resolve(_File.model_validate(configuration.read_file(path)))
    except pydantic.ValidationError as error:
        faults = configuration.explain(error, _File, {})
    except ValueError as error:
        faults = str(error)
    raise SettingsError(f"underlay_file {path}: {faults}")


def _resolve(file: _File) -> Underlay:
    """Return a file with its names resolved; raises ValueError."""
    both = file.switches.keys() & file.hosts.keys()
    if both:
        raise ValueError(f'"{min(both)}" is named as a switch and as a host')
    switches = {
        name: switch.datapath[0] if switch and switch.datapath else node_id(name)
        for name, switch in file.switches.items()
    }
    hosts: dict[int, str] = {}
    for name, host in file.hosts.items():
        for dpid in host.datapath:
            if hosts.setdefault(dpid, name) != name:
                raise ValueError(f"datapath {dpid:016x} is given to {hosts[dpid]} and to {name}")
    seen: dict[int, str] = dict(hosts)
    for name, dpid in switches.items():
        if seen.setdefault(dpid, name) != name:
            raise ValueError(f"datapath {dpid:016x} is given to {seen[dpid]} and to {name}")
    ends = _Ends(set(file.switches), set(file.hosts))
    links = tuple(
        Link((ends.read(*link.ends), ends.read(*link.ends[::-1])), round((link.mbps or 0) * MBPS))
        for link in file.links
    )
    for link in links:
        if link.ends[0].node == link.ends[1].node:
            raise ValueError(f'a link leads from "{link.ends[0].node}" to itself')
    at: dict[str, list[Link]] = {}
    at_hosts(links, file.hosts, at)
    return Underlay(switches, hosts, links, at)


class _Ends:
    """Numbers the ports that links name."""

    def __init__(self, switches: set[str], hosts: set[str]) -> None:
        self._switches = switches
        self._hosts = hosts
        self._used: set[tuple[str, str]] = set()
        self._numbers: dict[str, set[int]] = {}  # given to ports without one, by node
        self._unnamed: collections.Counter[tuple[str, str]] = collections.Counter()  # ends by where they lead

    def read(self, text: str, far: str) -> End:
        """Return an end of a link whose other one is ``far``.

        Raises ValueError for an unknown node, or a port that has a link already.
        """
        node, _, port = text.partition(":")
        if node not in self._switches and node not in self._hosts:
            raise ValueError(f'link end "{text}": "{node}" is neither among the switches nor among the hosts')
        if node in self._switches and re.fullmatch("[1-9][0-9]{0,9}", port) and int(port) < FIRST_PORT:
            number = int(port)
        else:
            if not port:
                beyond = far.partition(":")[0]
                self._unnamed[node, beyond] += 1
                port = f"to {beyond}" + (f" ({self._unnamed[node, beyond]})" if self._unnamed[node, beyond] > 1 else "")
            number = self._number(node, port)
        if (node, port) in self._used:
            raise ValueError(f'link end "{text}" is the end of two links')
        self._used.add((node, port))
        return End(node, number, port)

    def _number(self, node: str, port: str) -> int:
        """Return the number of a port by its name; of several with one number the later ones get the next."""
        used = self._numbers.setdefault(node, set())
        number = FIRST_PORT + node_id(port) % (_NUMBER_MAX - FIRST_PORT)
        while number in used:
            number = number + 1 if number + 1 < _NUMBER_MAX else FIRST_PORT
        used.add(number)
        return number


def _hops(link: Link, nodes: Mapping[str, int]) -> tuple[Hop, Hop]:
    """Return the ends of a link, the lower one first, as nodes are numbered."""
    one, other = ((nodes[end.node], end.port) for end in link.ends)
    return (one, other) if one < other else (other, one)


class Graph:
    """Keeps ``topology`` as a file says, or as one switch for all, while hosts come and go.

    A host is in it by the datapath id of the bridge that speaks for it.
    """

    def __init__(self, underlay: Optional[Underlay], topology: Topology) -> None:
        self._underlay = underlay
        self._topology = topology
        self._at: dict[str, list[Link]] = {}  # host -> its links
        self._hosts: set[int] = set()  # that are there, with a place or without
        self._nodes: dict[str, int] = dict(underlay.switches) if underlay else {CORE: node_id(CORE)}
        self.fabric = frozenset(self._nodes.values())  # the switches that are no hosts
        self._spare_ports: list[int] = []  # of the one switch, whose hosts are gone
        self._core_ports: dict[int, int] = {}  # host -> its port of the one switch
        self.rates: dict[Hop, int] = {}  # bytes/s that links carry
        for dpid in self._nodes.values():
            topology.add_switch(dpid, {})
        if underlay is not None:
            self._at = underlay.at
            for link in underlay.links:
                if all(end.node in self._nodes for end in link.ends):
                    self._join(*link.ends, link.rate)

    def check(self, underlay: Underlay, switches: AbstractSet[int], hosts: AbstractSet[int]) -> None:
        """Raise ValueError when another file takes one that is connected for what it is not taken for now."""
        fabric = frozenset(underlay.switches.values())
        for found, before, after in (
            ((self.fabric - fabric) & switches, "a switch", "none"),
            ((fabric - self.fabric) & hosts, "a host", "a switch"),
        ):
            for dpid in sorted(found):
                raise ValueError(
                    f"datapath {dpid:016x} is connected as {before} of the network beneath, and the file has it as "
                    f"{after} now; allowed once its connection has ended"
                )

    def replace(self, underlay: Underlay, change: Change) -> Iterator[None]:
        """Take another file, which check() did not refuse, step by step; what both files say alike stays as it is.

        The file is in force from the first step on; links follow, the lost ones first. Between steps hosts may come and
        go. ``change`` grows meanwhile.
        """
        before, nodes_before, fabric_before = self._underlay, self._nodes, self.fabric
        self._underlay, self._at, self._nodes = underlay, underlay.at, dict(underlay.switches)
        self.fabric = frozenset(underlay.switches.values())
        for dpid in self._hosts:
            name = underlay.hosts.get(dpid)
            if name is not None and name in underlay.at:
                self._nodes[name] = dpid
        change.homeless += sorted(set(nodes_before.values()) - fabric_before - set(self._nodes.values()))
        yield
        standing: set[tuple[Hop, Hop]] = set()
        for link in underlay.links:
            if all(end.node in self._nodes for end in link.ends):
                standing.add(_hops(link, self._nodes))
            yield
        for link in before.links if before else ():
            if all(end.node in nodes_before for end in link.ends):
                hops = _hops(link, nodes_before)
                if hops not in standing:
                    self._part(hops, change)
            yield
        for dpid in fabric_before - self.fabric:
            if dpid not in self._hosts:
                change.lost += self._topology.remove_switch(dpid)
            yield
        for dpid in self.fabric - fabric_before - self._topology.ports.keys():
            self._topology.add_switch(dpid, {})
            yield
        for link in underlay.links:
            if all(end.node in self._nodes for end in link.ends):
                near, far = _hops(link, self._nodes)
                if self._topology.peer(*near) != far:
                    self._join(*link.ends, link.rate)
                    change.rates.update({near: link.rate, far: link.rate})
                elif self.rates.get(near, 0) != link.rate:
                    self._set_rate((near, far), link.rate)
                    change.rates.update({near: link.rate, far: link.rate})
            yield

    def _part(self, hops: tuple[Hop, Hop], change: Change) -> None:
        """Take a link out, if it is still there; and its ends, unless they are others' by now."""
        if self._topology.peer(*hops[0]) == hops[1]:
            change.lost += self._topology.remove_link(hops[0])
        for dpid, number in hops:
            if self._topology.peer(dpid, number) is not None:
                continue
            if self.rates.pop((dpid, number), None) is not None:
                change.rates[dpid, number] = 0
            port = self._topology.ports.get(dpid, {}).get(number)
            if port is not None and not port.since_ns:  # no switch told of it
                self._topology.remove_port(dpid, number)

    def _set_rate(self, hops: Iterable[Hop], rate: int) -> None:
        for hop in hops:
            if rate:
                self.rates[hop] = rate
            else:
                self.rates.pop(hop, None)

    def name(self, dpid: int) -> Optional[str]:
        """Return what the file calls a host, None where it does not."""
        return self._underlay.hosts.get(dpid) if self._underlay else None

    def name_ports(self, dpid: int, ports: dict[int, Port]) -> None:
        """Take the ports of a switch that connected; links stay as the file has them."""
        for number, port in ports.items():
            self._topology.ports.setdefault(dpid, {})[number] = port

    def add_host(self, dpid: int) -> bool:
        """Link a host; return whether it has a place in the graph."""
        self._hosts.add(dpid)
        if self._underlay is None:
            number = self._core_ports.get(dpid) or self._free_core_port()
            self._core_ports[dpid] = number
            near = End(f"{dpid:016x}", FIRST_PORT, "uplinks")
            self._nodes[near.node] = dpid
            self._join(near, End(CORE, number, f"to {dpid:016x}"), 0)
            return True
        name = self.name(dpid)
        if name is None or not self._at.get(name):
            return False
        self._nodes[name] = dpid
        for link in self._at[name]:
            if all(end.node in self._nodes for end in link.ends):
                self._join(*link.ends, link.rate)
        return True

    def remove_host(self, dpid: int) -> list[Hop]:
        """Take a host out; return the ends of links that are gone."""
        self._hosts.discard(dpid)
        name = self.name(dpid) if self._underlay else f"{dpid:016x}"
        if name is None or self._nodes.get(name) != dpid:
            return []
        del self._nodes[name]
        lost = self._topology.remove_switch(dpid)
        if dpid in self._core_ports:
            number = self._core_ports.pop(dpid)
            heapq.heappush(self._spare_ports, number)
            self._topology.remove_port(self._nodes[CORE], number)
        return lost

    def _free_core_port(self) -> int:
        return heapq.heappop(self._spare_ports) if self._spare_ports else FIRST_PORT + len(self._core_ports)

    def uplinks(self, dpid: int) -> tuple[int, ...]:
        """Return the ports of a host that have links."""
        ports = self._topology.ports.get(dpid, {})
        return tuple(number for number in ports if self._topology.peer(dpid, number) is not None)

    def _join(self, near: End, far: End, rate: int) -> None:
        hops = []
        for end in (near, far):
            hop = (self._nodes[end.node], end.port)
            self._topology.set_port(*hop, Port(end.name, bytes(6), True, 0))
            hops.append(hop)
        self._set_rate(hops, rate)
        self._topology.add_link(hops[0], hops[1], 0)
