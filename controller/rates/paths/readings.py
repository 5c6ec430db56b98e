# SPDX-License-Identifier: Apache-2.0
"""What members' shims tell, as readings of entries.

What a part sends its path in the shim counts.  While a part has no path it has of what no path counts, by proportion,
as attribution.py measures it.  Who is *bound*, sends BINDING of its rate or had packets held back, could send more.

All of a period is taken at once, in arrays by number of machine or part, and by row of the table.  native/reading.c
does that, and has the algebra.
"""

import dataclasses
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from sdngcc.controller.native import reading
from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.rates.paths.entries import Entries
from sdngcc.controller.rates.paths.filling import Flags, Floats, Ints
from sdngcc.controller.rates.paths.index import FABRIC, Counts
from sdngcc.controller.rates.paths.ports import ELSEWHERE, HERE, IDLE, SAME, Ports
from sdngcc.controller.rates.paths.shown import Shown
from sdngcc.controller.rates.paths.table import Rows, Table


def _column(kind: type) -> Any:
    """Return a field that begins as an empty array."""
    return dataclasses.field(default_factory=lambda: np.zeros(0, kind))


@dataclasses.dataclass
class _Columns:
    """Arrays as long as each other; all that begins is 0, rates in force are infinite."""

    def fit(self, count: int) -> None:
        """Make room for so many numbers."""
        for field in dataclasses.fields(self):
            column = getattr(self, field.name)
            if len(column) < count:
                found = np.zeros(count, column.dtype)
                found[: len(column)] = column
                setattr(self, field.name, found)

    def begin(self, numbers: list[int]) -> None:
        """Forget what was known by numbers that were given to others."""
        for field in dataclasses.fields(self):
            getattr(self, field.name)[numbers] = 0


@dataclasses.dataclass
class States(_Columns):
    """What machines told of themselves last, by number; rates in bytes/s."""

    sent: Floats = _column(float)
    rate: Floats = _column(float)
    share: Floats = _column(float)
    low: Floats = _column(float)  # the guarantee
    high: Floats = _column(float)  # 0: none
    left: Floats = _column(float)  # of what it sent, what no path counted
    drops: npt.NDArray[np.uint64] = _column(np.uint64)  # packets that its own bucket held back
    read_ns: Counts = _column(np.int64)  # when that came
    uncounted: Counts = _column(np.int64)  # parts that no path counted
    bound: Flags = _column(np.bool_)
    limited: Flags = _column(np.bool_)  # a path of it holds packets back
    bounded: Flags = _column(np.bool_)  # the rate of a path bounds it
    fresh: Flags = _column(np.bool_)  # told since they were taken last


@dataclasses.dataclass
class _Parts(_Columns):
    """What parts do, by number."""

    counted: Floats = _column(float)  # by their paths
    rates: Floats = _column(float)  # in force, bytes/s, if they are bound by it; infinite: they are not
    sent: Floats = _column(float)
    lows: Floats = _column(float)
    shares: Floats = _column(float)  # of the machine's bytes, as counters say
    there: Flags = _column(np.bool_)  # their shim has a path for them
    seen: Flags = _column(np.bool_)  # as last read


@dataclasses.dataclass
class _Of:
    """Who the rows of the table are of, while these stand."""

    rows: Rows
    owners: reading.Owners
    wholes: Ints  # rows of all that a machine sends
    numbers: Ints  # their entries


class Readings:
    """Readings for ``ports`` of what ``entries`` has, from what bridges ``shown``."""

    def __init__(self, ports: Ports, entries: Entries, shown: Shown, attribution: Attribution) -> None:
        self._ports = ports
        self._entries = entries
        self._shown = shown
        self._attribution = attribution
        self._states = States()
        self._parts = _Parts()
        self._read: Ints = np.zeros(0, np.intp)  # machines that are fresh
        self._of: Optional[_Of] = None
        # By number of a machine: revision of the counters that say how its bytes part, and what was measured when these
        # were looked at; -1: not known.
        self._revisions: Counts = np.zeros(0, np.int64)
        self._looked: Counts = np.zeros(0, np.int64)

    def look(self) -> States:
        """Take what bridges told, and return what it says of machines."""
        states, parts, terms = self._states, self._parts, self._ports.terms
        states.fresh[self._read] = False
        self._make_room()
        looked = self._shown.look()
        parts.there[looked.gone], parts.rates[looked.gone] = False, np.inf
        machines, known = self._addresses()
        self._read = reading.read_states(looked.states, machines, terms)
        reading.read_paths(looked.paths, machines, known, terms)
        return states

    def _addresses(self) -> tuple[reading.Machines, reading.Parts]:
        index = self._entries.index
        return (
            reading.address_machines({**vars(self._states), "firsts": index.member_parts}),
            reading.address_parts({**vars(self._parts), "members": index.part_members, "nexts": index.part_nexts}),
        )

    def _make_room(self) -> None:
        """Begin anew what is known of machines and parts that have come since."""
        entries, states, parts = self._entries, self._states, self._parts
        count = len(entries.index.member_parts)
        states.fit(count)
        parts.fit(len(entries.index.part_members))
        if len(self._looked) < count:
            self._revisions, self._looked = np.full(count, -1), np.full(count, -1)
        fresh, fresh_parts = entries.numbers.fresh, entries.parts.fresh
        states.begin(fresh)
        parts.begin(fresh_parts)
        parts.rates[fresh_parts] = np.inf
        self._revisions[fresh] = self._looked[fresh] = -1
        renewed = entries.index.part_members[fresh_parts]
        self._revisions[renewed] = self._looked[renewed] = -1
        fresh.clear()
        fresh_parts.clear()

    def take(self, states: States, lows: Floats, now_ns: int) -> None:
        """Give the ports the readings of those who told something; ``lows`` are guarantees, bytes/s, by machine."""
        of = self._owners(self._ports.settled())
        machines, parts = addresses = self._addresses()
        reading.count_parts(machines, parts, self._read)
        self._follow_shares(self._read[states.uncounted[self._read] > 1])
        most = len(self._parts.sent) if lows.any() else 0
        reading.divide_parts(machines, parts, self._ports.terms, lows, self._read, most)
        of.owners.states[of.wholes] = self._whole(of.numbers, states, now_ns)
        self._ports.read_machines(of.owners, addresses, lows)

    def _owners(self, table: Table) -> _Of:
        """Return who rows are of."""
        rows, index = table.rows, self._entries.index
        if self._of is None or self._of.rows is not rows:
            members, parts = index.entry_members[rows.numbers], index.entry_parts[rows.numbers]
            wholes = np.flatnonzero(parts < 0)
            owners = reading.Owners(members, parts, np.full(len(parts), IDLE, np.int8))
            self._of = _Of(rows, owners, wholes, rows.numbers[wholes])
        return self._of

    @property
    def wholes(self) -> Ints:
        """Return the entries of all that machines send, as they were when readings were taken."""
        return self._of.numbers if self._of is not None else np.zeros(0, np.intp)

    def _whole(self, numbers: Ints, states: States, now_ns: int) -> npt.NDArray[np.int8]:
        """Return what holds all that machines send, by the numbers of entries for that."""
        index = self._entries.index
        members, kinds = index.entry_members[numbers], index.entry_kinds[numbers]
        heads = index.live_heads(numbers, now_ns)
        here = ~np.isfinite(heads) | (heads <= self._entries.least_heads(numbers, now_ns)[members])
        here &= ~((states.high > 0) & (states.rate >= (1 - SAME) * states.high))[members]
        # Machines that are told one rate as a whole are held by the port that bounds it.
        for place in np.flatnonzero(kinds == FABRIC).tolist():
            here[place] = self._entries.bounds(int(numbers[place]))
        free = np.where(states.bounded[members], ELSEWHERE, IDLE)
        return np.where(states.bound[members], np.where(here, HERE, ELSEWHERE), free).astype(np.int8)

    def _follow_shares(self, numbers: Ints) -> None:
        """Bring up to date how the bytes of machines go to their parts."""
        index, attribution = self._entries.index, self._attribution
        for dpid in np.unique(index.member_bridges[numbers]).tolist():
            attribution.want(dpid)
        measured = attribution.measured
        for number in numbers[(self._looked[numbers] != measured) | index.member_parted[numbers]].tolist():
            self._looked[number] = measured
            member = self._entries.numbers.things[number]
            assert member is not None
            place = member.vm.place
            revision = attribution.revision(place)
            if revision == self._revisions[number] and not member.parted:
                continue
            self._revisions[number] = revision
            shares = attribution.shares(place)
            for part in member.parts.values():
                self._parts.shares[part.number] = sum(
                    weight * shares.get(pair, 0.0) for pair, weight in part.pairs.items()
                )
