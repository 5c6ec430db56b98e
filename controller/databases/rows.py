# SPDX-License-Identifier: Apache-2.0
"""The rows of ports in all hypervisors' databases, by switch, read again where a database changed.

Work is in proportion to what moved: of a database that changed all rows are looked at, of the others none. Where
several databases have one port of a switch, the row of the database that was added first counts.
"""

import dataclasses
import re
from typing import Any, Callable, Generic, Iterator, Mapping, NamedTuple, Optional, Protocol, TypeVar

from sdngcc.controller.databases.transport import rows_of
from sdngcc.controller.network.by_port import ByPort

Known = TypeVar("Known")


class PortRows(NamedTuple):
    """The rows of a port."""

    interface: Any  # of table Interface
    port: Any  # of table Port


Ports = Mapping[str, PortRows]  # by name


class Replica(Protocol):
    """A client of a database; client.Client is one."""

    @property
    def idl(self) -> Any:
        """What python-ovs keeps of it."""

    @property
    def version(self) -> tuple[int, int]:
        """What differs after each change of its rows."""

    @property
    def whole(self) -> bool:
        """Whether the rows are all of that version, and may be looked at."""

    def speaks_for(self, dpid: int) -> bool:
        """Tell whether what the database says of a bridge is believed."""


@dataclasses.dataclass(eq=False)
class _Read:
    """What was read of a database."""

    client: Replica
    rank: int  # the lowest counts where several databases have one port
    seen: Optional[tuple[int, int]] = None  # the client's version then
    looking: bool = False  # a greenlet looks at all rows
    ports: dict[int, dict[str, PortRows]] = dataclasses.field(default_factory=dict)  # by datapath id

    def is_old(self) -> bool:
        """Return whether there is something new, all of which may be looked at."""
        return self.seen != self.client.version and self.client.whole and not self.looking


class Rows:
    """All rows; with ``whole_hosts`` every bridge of a database stands for all of its host's ports."""

    def __init__(self, whole_hosts: bool, pause: Callable[[], None] = lambda: None) -> None:
        """``pause`` is called between rows, to let others run."""
        self.pause = pause
        self._whole_hosts = whole_hosts
        self._read: dict[Replica, _Read] = {}
        self._next_rank = 0
        self._having: dict[int, list[_Read]] = {}  # by datapath id: who has the switch, the highest rank first
        self._ports: dict[int, Ports] = {}  # by datapath id
        self._dirty: list[set[int]] = []  # of each view

    def add(self, client: Replica) -> None:
        """Follow a database, which counts after those that are followed already."""
        self._read[client] = _Read(client, self._next_rank)
        self._next_rank += 1

    def remove(self, client: Replica) -> None:
        """Follow a database no more."""
        self._put(self._read.pop(client), {})

    def reread(self, client: Replica) -> None:
        """Read a database again at the next look: what is believed of it changed."""
        self._read[client].seen = None

    def watch(self) -> set[int]:
        """Return a set that the switches whose rows changed are added to, to be emptied by who got it."""
        dirty = set(self._ports)
        self._dirty.append(dirty)
        return dirty

    def refresh(self) -> None:
        """Read the databases that changed."""
        for read in list(self._read.values()):
            self._refresh(read)

    def of(self, dpid: int) -> Ports:
        """Return the rows of a switch by port name, as its databases have them now.

        That another database has the switch, too, is seen at the next refresh().
        """
        for read in tuple(self._having.get(dpid, ())):
            self._refresh(read)
        return self._ports.get(dpid, {})

    def _refresh(self, read: _Read) -> None:
        if read.is_old():
            read.seen, read.looking = read.client.version, True
            try:
                ports = self._look(read.client)
            finally:
                read.looking = False
            if read.client in self._read:
                self._put(read, ports)

    def _look(self, client: Replica) -> dict[int, dict[str, PortRows]]:
        """Return what a database has."""
        ports: dict[int, dict[str, PortRows]] = {}
        of_host: dict[str, PortRows] = {}  # of all bridges
        for dpid, bridge in list(bridges(client.idl)):
            is_believed = client.speaks_for(dpid)
            if is_believed or self._whole_hosts:
                rows = of_host if self._whole_hosts else ports.get(dpid, {})
                for port in ports_of(bridge):
                    if port is not None:
                        rows.update((interface.name, PortRows(interface, port)) for interface in port.interfaces)
                    self.pause()
                if is_believed:
                    ports[dpid] = rows
        return ports

    def _put(self, read: _Read, ports: dict[int, dict[str, PortRows]]) -> None:
        """Take what a database has now."""
        before, read.ports = read.ports, ports
        for dpid in before.keys() | ports.keys():
            having = [one for one in self._having.get(dpid, ()) if one is not read]
            if dpid in ports:
                having = sorted([*having, read], key=lambda one: -one.rank)
            if having:
                self._having[dpid] = having
                self._ports[dpid] = having[0].ports[dpid] if len(having) == 1 else {
                    name: rows for one in having for name, rows in one.ports[dpid].items()
                }  # fmt: skip
            else:
                del self._having[dpid], self._ports[dpid]
            for dirty in self._dirty:
                dirty.add(dpid)


class View(Generic[Known]):
    """What ``read`` makes of the rows of every port; ports of which it returns None are left out."""

    def __init__(self, rows: Rows, read: Callable[[PortRows], Optional[Known]]) -> None:
        self._rows = rows
        self._read = read
        self._dirty = rows.watch()
        self._busy = False  # a greenlet makes the values anew
        self._held: ByPort[Known] = ByPort({})

    def values(self) -> ByPort[Known]:
        """Return the values by port; the same object as before where none changed."""
        self._rows.refresh()
        if self._dirty and not self._busy:
            self._busy = True
            try:
                self._make()
            finally:
                self._busy = False
        return self._held

    def _make(self) -> None:
        before = self._held.by_switch
        after = dict(before)
        while self._dirty:
            dpid = self._dirty.pop()
            found = {}
            for name, rows in list(self._rows.of(dpid).items()):
                value = self._read(rows)
                if value is not None:
                    found[name] = value
                self._rows.pause()
            if not found:
                after.pop(dpid, None)
            elif found != before.get(dpid):
                after[dpid] = found
        if len(after) != len(before) or any(before.get(dpid) is not found for dpid, found in after.items()):
            self._held = ByPort(after)


def bridges(idl: Any) -> Iterator[tuple[int, Any]]:
    """Yield (datapath id, Bridge row) of a database's bridges that have one."""
    for bridge in rows_of(idl, "Bridge"):
        digits = bridge.datapath_id[0] if bridge.datapath_id else ""
        if re.fullmatch("[0-9a-fA-F]{1,16}", digits):
            yield int(digits, 16), bridge


def ports_of(bridge: Any) -> Iterator[Any]:
    """Yield the Port rows of a Bridge, None for one that is missing; python-ovs would sort all of them in one go."""
    known = bridge._idl.tables["Port"].rows
    for port in list(bridge._data["ports"].values):
        yield known.get(port.value)
