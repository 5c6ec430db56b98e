# SPDX-License-Identifier: Apache-2.0
"""Which machine and which part entries of the table are of: in arrays, by the numbers of all three.

A *part* is what a machine sends to the destinations of one name (entries.py).  Numbers count from 0, and those of who
is gone are given again.
"""

import dataclasses
from typing import Generic, Optional, TypeVar

import numpy as np
import numpy.typing as npt

from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths.filling import Flags, Floats, Ints
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.wire import rows
from sdngcc.controller.wire.message import SCOPE_DESTINATION

Thing = TypeVar("Thing")
Kind = TypeVar("Kind", bound=np.generic)
Counts = npt.NDArray[np.int64]

TIMEOUT_NS = 200_000_000  # the shim's rate-timeout: what was told longer ago holds nobody
PART, UPLINK, CAP, FABRIC = 0, 1, 2, 3  # kinds of entries: of a part; of all that a machine sends, by the port
LEAST = 64  # room at first
NO_PAIR: Pair = (b"", b"")


class Slots(Generic[Thing]):
    """Numbers of things; ``fresh`` are those given since somebody emptied it."""

    def __init__(self) -> None:
        self.things: list[Optional[Thing]] = []
        self.fresh: list[int] = []
        self._free: list[int] = []

    def take(self, thing: Thing) -> int:
        """Return a number for a thing."""
        if self._free:
            number = self._free.pop()
            self.things[number] = thing
        else:
            number = len(self.things)
            self.things.append(thing)
        self.fresh.append(number)
        return number

    def give_back(self, number: int) -> None:
        """Take note that a thing is gone."""
        self.things[number] = None
        self._free.append(number)


def roomy(column: npt.NDArray[Kind], size: int, empty: int = 0) -> npt.NDArray[Kind]:
    """Return a column with room for so many rows at least; new ones are ``empty``."""
    if len(column) >= size:
        return column
    found = np.zeros(max(LEAST, 2 * size), column.dtype)
    found[: len(column)] = column
    if empty:
        found[len(column) :] = empty
    return found


def _none() -> Ints:
    return np.zeros(0, np.intp)


@dataclasses.dataclass
class Index:
    """Arrays by number, with room for more."""

    # The parts of a machine, one after the other: by machine the first, by part the one behind and in front; -1: none.
    member_parts: Ints = dataclasses.field(default_factory=lambda: np.full(LEAST, -1))
    part_nexts: Ints = dataclasses.field(default_factory=lambda: np.full(LEAST, -1))
    part_befores: Ints = dataclasses.field(default_factory=lambda: np.full(LEAST, -1))
    part_members: Ints = dataclasses.field(default_factory=lambda: np.full(LEAST, -1))  # -1: there is no such part
    # What shims are told of parts, but for who tells what.
    part_entries: rows.Rows = dataclasses.field(default_factory=lambda: np.zeros(LEAST, rows.ENTRY))
    entry_parts: Ints = dataclasses.field(default_factory=_none)  # -1: of all that a machine sends
    entry_members: Ints = dataclasses.field(default_factory=_none)
    entry_kinds: Ints = dataclasses.field(default_factory=_none)
    # What a machine was told of all that it sends, by its entry: bytes/s, and when; 0: nothing.
    heads: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    heads_ns: Counts = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))

    member_uplinks: Ints = dataclasses.field(default_factory=lambda: np.zeros(LEAST, np.intp))  # a port of its bridge
    # It is told by path, and what it may send in all by this controller.
    member_heads: Flags = dataclasses.field(default_factory=lambda: np.zeros(LEAST, np.bool_))
    member_bridges: npt.NDArray[np.uint64] = dataclasses.field(default_factory=lambda: np.zeros(LEAST, np.uint64))
    member_told: Flags = dataclasses.field(default_factory=lambda: np.zeros(LEAST, np.bool_))  # can be told anything
    member_parted: Flags = dataclasses.field(default_factory=lambda: np.zeros(LEAST, np.bool_))  # as entries.Member
    member_places: list[Hop] = dataclasses.field(default_factory=list)
    member_pairs: list[Pair] = dataclasses.field(default_factory=list)  # one of each that can be told anything

    def set_member(self, member: int, place: Hop, pair: Optional[Pair], parted: bool) -> None:
        """Take a machine's place, a pair by which it can be told anything (None: it cannot), and if it is parted."""
        self.member_bridges = roomy(self.member_bridges, member + 1)
        self.member_told = roomy(self.member_told, member + 1)
        self.member_parts = roomy(self.member_parts, member + 1, -1)
        self.member_parted = roomy(self.member_parted, member + 1)
        self.member_bridges[member], self.member_parted[member] = place[0], parted
        self.member_told[member] = pair is not None
        while len(self.member_places) <= member:
            self.member_places.append(place)
            self.member_pairs.append(NO_PAIR)
        self.member_places[member], self.member_pairs[member] = place, pair or NO_PAIR

    def set_head(self, member: int, uplink: Optional[int]) -> None:
        """Take the uplink of a machine that is told by path, and what it may send in all here; None: it is not."""
        self.member_uplinks = roomy(self.member_uplinks, member + 1)
        self.member_heads = roomy(self.member_heads, member + 1)
        self.member_heads[member], self.member_uplinks[member] = uplink is not None, uplink or 0

    def in_order(self, members: Ints) -> Ints:
        """Return those of some machines that can be told anything, one bridge's after the other's."""
        members = members[self.member_told[members]]
        return members[np.argsort(self.member_bridges[members], kind="stable")]

    def set_part(self, part: int, member: int, name: Prefix) -> None:
        """Take whose part a number is of, a machine's that was taken, and what the part is called."""
        self.part_members = roomy(self.part_members, part + 1, -1)
        self.part_entries = roomy(self.part_entries, part + 1)
        self.part_nexts, self.part_befores = roomy(self.part_nexts, part + 1), roomy(self.part_befores, part + 1)
        self.part_members[part] = member
        after = self.member_parts[member]
        self.part_nexts[part], self.part_befores[part], self.member_parts[member] = after, -1, part
        if after >= 0:
            self.part_befores[after] = part
        self.part_entries[part] = (0, name.first, name.bits, SCOPE_DESTINATION, b"", 0, 0)

    def forget_part(self, part: int) -> None:
        """Take note that a part is gone."""
        after, before = self.part_nexts[part], self.part_befores[part]
        if after >= 0:
            self.part_befores[after] = before
        if before >= 0:
            self.part_nexts[before] = after
        else:
            self.member_parts[self.part_members[part]] = after
        self.part_members[part] = -1

    def set_entry(self, number: int, member: int, part: int, kind: int) -> None:
        """Take what an entry is of."""
        if number >= len(self.entry_parts):
            self.entry_parts = roomy(self.entry_parts, number + 1, -1)
            self.entry_members = roomy(self.entry_members, number + 1)
            self.entry_kinds = roomy(self.entry_kinds, number + 1)
            self.heads = roomy(self.heads, number + 1)
            self.heads_ns = roomy(self.heads_ns, number + 1)
        self.entry_parts[number], self.entry_members[number], self.entry_kinds[number] = part, member, kind
        self.heads[number], self.heads_ns[number] = 0.0, 0

    def live_heads(self, numbers: Ints, now_ns: int) -> Floats:
        """Return what machines were told by entries of all that they send and obey, bytes/s; infinite: nothing."""
        told_ns = self.heads_ns[numbers]
        return np.where((told_ns > 0) & (now_ns - told_ns < TIMEOUT_NS), self.heads[numbers], np.inf)
