# SPDX-License-Identifier: Apache-2.0
"""Entries of ports in arrays: each is a pair of a machine and a destination, at a port on its way.

Arrays are made anew when entries came or went, and stand in the order in which ports are shared (sharing.py).
"""

import dataclasses
from typing import Any, Generic, Hashable, NamedTuple, Optional, TypeVar

import numpy as np
import numpy.typing as npt

from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths.filling import Floats, Ints
from sdngcc.controller.rates.paths.sharing import Members, Sharing

Name = TypeVar("Name", bound=Hashable)
Counts = npt.NDArray[np.int64]


class Entry(NamedTuple):
    """Who sends to whom by a port."""

    port: Hop
    vm: Hop
    peer: Hashable  # a destination, or an aggregate of them


class Machine(NamedTuple):
    """How a machine shares."""

    weight: float = 1.0
    tenant: Optional[str] = None  # None, or one without a weight: the machine stands for itself


class Numbers(Generic[Name]):
    """Numbers for names from 0 on, each for as long as its name has users."""

    def __init__(self) -> None:
        self.names: list[Optional[Name]] = []
        self.of: dict[Name, int] = {}
        self._users: list[int] = []
        self._free: list[int] = []

    def take(self, name: Name) -> int:
        """Return the number of a name, which has one user more."""
        number = self.of.get(name)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.names[number] = name
            else:
                number = len(self.names)
                self.names.append(name)
                self._users.append(0)
            self.of[name] = number
        self._users[number] += 1
        return number

    def give_back(self, name: Name) -> None:
        """Note that a name has one user less."""
        number = self.of[name]
        self._users[number] -= 1
        if not self._users[number]:
            del self.of[name]
            self.names[number] = None
            self._free.append(number)


def _column(kind: type) -> Any:
    """Return a field that begins as an empty array."""
    return dataclasses.field(default_factory=lambda: np.zeros(0, kind))


@dataclasses.dataclass
class Rows:
    """A row for each entry; all that begins is 0."""

    numbers: Ints = _column(np.intp)  # as join() gave them
    ports: Ints = _column(np.intp)
    machines: Ints = _column(np.intp)
    parts: Floats = _column(float)
    lows: Floats = _column(float)  # floor: its part of a guarantee, bytes/s
    states: npt.NDArray[np.int8] = _column(np.int8)  # as last read
    quiet: npt.NDArray[np.int8] = _column(np.int8)  # readings in a row that were idle, up to a bound
    sent: Floats = _column(float)  # bytes/s of the pair, wherever they leave
    before: Floats = _column(float)  # the reading before
    peaks: Floats = _column(float)  # the most that was sent, bytes/s, fading
    granted: Floats = _column(float)  # bytes/s; 0: nothing yet
    moved: Floats = _column(float)  # by what factor's logarithm the grant moved last
    damping: Floats = _column(float)  # part of each step of the grant that is not taken
    offers: Floats = _column(float)  # what it may have now, bytes/s
    told: Floats = _column(float)  # bytes/s; 0: nothing that holds still
    former: Floats = _column(float)  # what was told before that, bytes/s; 0: nothing
    told_ns: Counts = _column(np.int64)

    def select(self, order: Ints) -> "Rows":
        """Return some rows, in an order."""
        return Rows(*(getattr(self, field.name)[order] for field in dataclasses.fields(self)))

    def extended(self, count: int) -> "Rows":
        """Return all rows and so many more, of zeros."""
        columns = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Rows(*(np.concatenate((column, np.zeros(count, column.dtype))) for column in columns))


class Table:
    """Entries; after settle() ``rows`` stand as ``sharing`` has them."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.ports: Numbers[Hop] = Numbers()
        self.machines: Numbers[Hop] = Numbers()
        self.entries: Numbers[Entry] = Numbers()
        self._known: dict[Hop, Machine] = {}
        self._tenants: dict[str, float] = {}
        self._joined: dict[int, Entry] = {}
        self._parts: dict[int, float] = {}  # of entries whose part is not in their row yet
        self._gone: set[int] = set()
        self._places = np.zeros(0, np.intp)  # row of each entry by its number
        self._stale = True
        self.settle()

    def join(self, entry: Entry, part: float = 1.0) -> int:
        """Add an entry and return its number; ValueError for one that is there.

        ``part`` is that of the bytes to the destination that leave by the port, above 0 and up to 1.  An entry that
        left since rows were settled last stays as it was.
        """
        number = self.entries.of.get(entry)
        if number is not None:
            if number not in self._gone:
                raise ValueError(f"{entry} is there already")
            self._gone.discard(number)
            self.set_part(number, part)
            return number
        number = self.entries.take(entry)
        self.ports.take(entry.port)
        self.machines.take(entry.vm)
        self._joined[number] = entry
        self._parts[number] = part
        self._stale = True
        return number

    def set_part(self, number: int, part: float) -> None:
        """Take another part of the bytes that leave by an entry's port."""
        if self._stale or self.rows.parts[self._places[number]] != part:
            self._parts[number] = part
            self._stale = True

    def leave(self, number: int) -> None:
        """Remove an entry."""
        if not 0 <= number < len(self.entries.names) or self.entries.names[number] is None:
            raise ValueError(f"there is no entry {number}")
        # Its number stays taken until no row has it.
        self._gone.add(number)
        self._parts.pop(number, None)
        self._stale = True

    def set_machine(self, vm: Hop, machine: Optional[Machine]) -> None:
        """Take how a machine shares; None: as any other one."""
        self._stale |= self._known.get(vm) != machine
        if machine is None:
            self._known.pop(vm, None)
        else:
            self._known[vm] = machine

    def set_tenant(self, name: str, weight: Optional[float]) -> None:
        """Take the weight of a tenant; None: it has none."""
        self._stale |= self._tenants.get(name) != weight
        if weight is None:
            self._tenants.pop(name, None)
        else:
            self._tenants[name] = weight

    def places(self, numbers: Ints) -> Ints:
        """Return the rows of entries."""
        return self._places[numbers]

    def settle(self) -> bool:
        """Bring rows up to date with who came and went; return whether anything had changed."""
        if not self._stale:
            return False
        self._stale = False
        self._drop()
        self._add()
        self._part()
        members = self._find_members()
        rows = self.rows
        self.rows = rows = rows.select(Sharing.order(members, rows.ports, rows.machines))
        self.sharing = Sharing(members, rows.ports, rows.machines, rows.parts)
        self._places = np.zeros(len(self.entries.names), np.intp)
        self._places[rows.numbers] = np.arange(len(rows.numbers))
        return True

    def _drop(self) -> None:
        if not self._gone:
            return
        gone = np.fromiter(self._gone, np.intp, len(self._gone))
        self.rows = self.rows.select(np.flatnonzero(~np.isin(self.rows.numbers, gone)))
        for number in self._gone:
            entry = self.entries.names[number]
            assert entry is not None
            self._joined.pop(number, None)
            self.entries.give_back(entry)
            self.ports.give_back(entry.port)
            self.machines.give_back(entry.vm)
        self._gone.clear()

    def _add(self) -> None:
        first = len(self.rows.numbers)
        self.rows = rows = self.rows.extended(len(self._joined))
        for place, (number, entry) in enumerate(self._joined.items(), first):
            rows.numbers[place] = number
            rows.ports[place] = self.ports.of[entry.port]
            rows.machines[place] = self.machines.of[entry.vm]
        self._joined.clear()

    def _part(self) -> None:
        if self._parts:
            places = np.zeros(len(self.entries.names), np.intp)
            places[self.rows.numbers] = np.arange(len(self.rows.numbers))
            self.rows.parts[places[list(self._parts)]] = list(self._parts.values())
            self._parts.clear()

    def _find_members(self) -> Members:
        numbers = {name: number for number, name in enumerate(self._tenants)}
        weights = np.ones(len(self.machines.names))
        tenants = np.full(len(self.machines.names), -1)
        for vm, machine in self._known.items():
            number = self.machines.of.get(vm)
            if number is not None:
                weights[number] = machine.weight
                tenants[number] = numbers.get(machine.tenant or "", -1)
        return Members(weights, tenants, np.array(list(self._tenants.values()), float))
