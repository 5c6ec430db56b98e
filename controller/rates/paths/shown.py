# SPDX-License-Identifier: Apache-2.0
"""What bridges told last of machines and their paths, in arrays: rows of all bridges, one bridge after the other.

Which machine a row is of, and which part a path belongs to, is found out row by row only for bridges whose rows are
others than they were, or whose machines or parts are.
"""

from typing import Callable, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.rates.paths.entries import Entries, Member
from sdngcc.controller.rates.paths.filling import Ints
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.wire import rows
from sdngcc.controller.wire.message import SCOPE_DESTINATION

PREFIX_WORDS = slice(1, 3)  # where a path's prefix is in its 8-byte words
WORDS = rows.PATH.itemsize // 8
KEY_WORDS = 4  # of what tells paths of a bridge apart: prefix, machine, bits and scope
KEY_BYTES = 8 * KEY_WORDS
KNOWN_MOST = 1 << 16  # paths of a bridge whose parts are remembered


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers from each start on, as many as it has."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


class Resolved:
    """What rows of bridges stand for; ``resolve(dpid, first, end)`` tells it of a bridge's rows."""

    def __init__(self, resolve: Callable[[int, int, int], Ints]) -> None:
        self.found: Ints = np.zeros(0, np.intp)
        self._resolve = resolve
        self._dpids: list[int] = []
        self._versions = self._counts = self._starts = np.zeros(0, np.intp)
        self._keys = np.zeros((0, 0), np.uint64)

    def update(self, dpids: list[int], versions: Ints, counts: Ints, keys: npt.NDArray[np.uint64]) -> None:
        """Take the rows there are now: how many each bridge has, and what tells rows apart, a row of words for each."""
        starts = np.cumsum(counts) - counts
        if dpids == self._dpids:
            match = np.arange(len(dpids))
        else:
            known = {dpid: place for place, dpid in enumerate(self._dpids)}
            match = np.array([known.get(dpid, -1) for dpid in dpids], np.intp)
        same = match >= 0
        same[same] = (versions[same] == self._versions[match[same]]) & (counts[same] == self._counts[match[same]])
        now = ranges(starts[same], counts[same])
        before = ranges(self._starts[match[same]], counts[same])
        found = np.full(len(keys), -1)
        found[now] = self.found[before]
        others = now[(keys[now] != self._keys[before]).any(axis=1)] if len(now) else now
        changed = set(np.flatnonzero(~same).tolist())
        changed.update(np.searchsorted(starts + counts, others, side="right").tolist())
        for place in sorted(changed):
            first, end = int(starts[place]), int(starts[place] + counts[place])
            found[first:end] = self._resolve(dpids[place], first, end)
        self.found, self._dpids, self._versions, self._counts = found, dpids, versions, counts
        self._starts, self._keys = starts, keys


class _Known(NamedTuple):
    """What paths of a bridge belonged to while its machines and their parts are what they were."""

    version: int
    numbers: dict[bytes, int]  # of parts, by what tells paths apart


class Shown:
    """The rows of the bridges of ``entries``; look() brings them up to date.

    ``devices``: machines are known by the kernel's index of their device, not by OpenFlow port.
    """

    def __init__(self, switches: dict[int, SwitchRecord], entries: Entries, devices: bool = False) -> None:
        self.states: rows.Rows = np.zeros(0, rows.STATE)
        self.paths: rows.Rows = np.zeros(0, rows.PATH)
        self.times_ns = np.zeros(0, np.int64)  # of each row of ``states``, when it came
        self._switches = switches
        self._entries = entries
        self._key = "vm" if devices else "port"
        self._members = Resolved(self._resolve_members)
        self._parts = Resolved(self._resolve_parts)
        self._keys = np.zeros((0, KEY_WORDS), np.uint64)
        self._known: dict[int, _Known] = {}

    @property
    def members(self) -> Ints:
        """Return the number of each state's machine; -1: it sends nothing."""
        return self._members.found

    @property
    def parts(self) -> Ints:
        """Return the number of the part that each path belongs to; -1: there is none."""
        return self._parts.found

    def look(self) -> None:
        """Take what bridges told since."""
        dpids = list(self._entries.at)
        for dpid in self._known.keys() - self._entries.at.keys():
            del self._known[dpid]
        bridges = [self._switches[dpid] for dpid in dpids]
        versions = np.array([self._entries.versions[dpid] for dpid in dpids], np.intp)
        counts = np.array([len(bridge.answer.entries) for bridge in bridges], np.intp) // rows.STATE.itemsize
        self.states = np.frombuffer(b"".join([bridge.answer.entries for bridge in bridges]), rows.STATE)
        self.times_ns = np.repeat(np.array([bridge.answer.time_ns for bridge in bridges], np.int64), counts)
        self._members.update(dpids, versions, counts, self.states["port"].astype(np.uint64)[:, None])
        counts = np.array([len(bridge.path_entries) for bridge in bridges], np.intp) // rows.PATH.itemsize
        self.paths = np.frombuffer(b"".join([bridge.path_entries for bridge in bridges]), rows.PATH)
        keys = self._keys = np.empty((len(self.paths), KEY_WORDS), np.uint64)
        keys[:, :2] = self.paths.view(np.uint64).reshape(-1, WORDS)[:, PREFIX_WORDS]
        keys[:, 2] = self.paths[self._key]
        keys[:, 3] = self.paths["bits"].astype(np.uint64) * 256 + self.paths["scope"]
        self._parts.update(dpids, versions, counts, keys)

    def _resolve_members(self, dpid: int, first: int, end: int) -> Ints:
        there = self._entries.at[dpid]
        members = [there.get(number) for number in self.states["port"][first:end].tolist()]
        return np.array([-1 if member is None else member.number for member in members], np.intp)

    def _resolve_parts(self, dpid: int, first: int, end: int) -> Ints:
        version = self._entries.versions[dpid]
        known = self._known.get(dpid)
        if known is None or known.version != version:
            known = self._known[dpid] = _Known(version, {})
        numbers, text = known.numbers, self._keys[first:end].tobytes()
        found = [numbers.get(text[place : place + KEY_BYTES]) for place in range(0, len(text), KEY_BYTES)]
        for row, number in enumerate(found):
            if number is None:
                number = self._part(dpid, first + row)
                if len(numbers) >= KNOWN_MOST:
                    numbers.clear()
                numbers[text[row * KEY_BYTES : (row + 1) * KEY_BYTES]] = found[row] = number
        return np.array(found, np.intp)

    def _part(self, dpid: int, row: int) -> int:
        """Return the number of the part that a path of a bridge belongs to; -1: there is none."""
        path = self.paths[row]
        member = self._entries.at[dpid].get(int(path[self._key]))
        if member is None or path["scope"] != SCOPE_DESTINATION:
            return -1
        name = _name(member, Prefix(bytes(path["prefix"]), int(path["bits"])))
        return -1 if name is None else member.parts[name].number


def _name(member: Member, prefix: Prefix) -> Optional[Prefix]:
    """Return the part that a path in a shim belongs to, if any."""
    if prefix in member.parts:
        return prefix
    around = [name for name in member.parts if 0 < name.bits < prefix.bits and name.covers(prefix.first)]
    return max(around, key=lambda name: name.bits, default=None)
