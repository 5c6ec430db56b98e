# SPDX-License-Identifier: Apache-2.0
"""What bridges told since they were looked at last, and what it is of.

Only bridges that told something, or whose machines or parts are others, are looked at.  Which machine a row of an
answer is of, and which part a path belongs to, is found out row by row only where rows are others than they were.
"""

import dataclasses
from typing import NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt

from sdngcc.controller.native import reading
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


class Looked(NamedTuple):
    """What bridges told."""

    gone: Ints  # parts that may have no path any more, unless ``paths`` has some
    states: reading.Answers  # by machine
    paths: reading.Answers  # by part


@dataclasses.dataclass
class _Bridge:
    """A bridge as it was looked at last, while its machines and their parts are what they were."""

    version: int  # of entries.py
    revision: int = -1  # of the switch
    members: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.intp))  # by row of its answer
    path_entries: bytes = b""
    parts: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.intp))  # by path of its answer
    known: dict[bytes, int] = dataclasses.field(default_factory=dict)  # numbers of parts, by what tells paths apart


class Shown:
    """The rows of the bridges of ``entries``; ``told`` has those that told something, and is emptied here.

    ``devices``: machines are known by the kernel's index of their device, not by OpenFlow port.
    """

    def __init__(
        self, switches: dict[int, SwitchRecord], entries: Entries, told: set[int], devices: bool = False
    ) -> None:
        self._switches = switches
        self._entries = entries
        self._told = told
        self._devices = devices
        self._key = "vm" if devices else "port"
        self._bridges: dict[int, _Bridge] = {}

    def look(self) -> Looked:
        """Take what bridges told since."""
        versions, bridges, gone = self._entries.versions, self._bridges, []
        dpids = self._told | self._entries.renewed
        self._told.clear()
        self._entries.renewed.clear()
        some: list[tuple[SwitchRecord, _Bridge]] = []
        others: list[tuple[SwitchRecord, _Bridge]] = []  # whose answers may be of other paths than before
        for dpid in dpids:
            bridge, version = bridges.get(dpid), versions.get(dpid)
            if bridge is None or bridge.version != version:
                if bridge is not None:
                    gone.append(bridges.pop(dpid).parts)
                if version is None:
                    continue
                bridge = bridges[dpid] = _Bridge(version)
            switch = self._switches[dpid]
            if bridge.revision != switch.revision:
                bridge.revision, bridge.members = switch.revision, self._find_members(switch)
            some.append((switch, bridge))
            if bridge.path_entries is not switch.path_entries:
                others.append((switch, bridge))
        gone += self._find_parts(others)
        times_ns = np.array([switch.answer.time_ns for switch, _ in some], np.int64)
        return Looked(
            _joined(gone),
            _answers([switch.answer.entries for switch, _ in some], [bridge.members for _, bridge in some], times_ns),
            _answers([bridge.path_entries for _, bridge in some], [bridge.parts for _, bridge in some], times_ns),
        )

    def _find_members(self, switch: SwitchRecord) -> Ints:
        """Return the number of the machine of each row of a bridge's answer; -1: it sends nothing."""
        there = self._entries.at[switch.dpid]
        ports = np.frombuffer(switch.answer.entries, rows.STATE)["port"].tolist()
        return np.array([there[port].number if port in there else -1 for port in ports], np.intp)

    def _find_parts(self, some: Sequence[tuple[SwitchRecord, _Bridge]]) -> list[Ints]:
        """Find the parts of bridges' paths; return those of paths that were there and need not be there any more."""
        alike = [one for one in some if len(one[0].path_entries) == len(one[1].path_entries)]
        others = [one for one in some if len(one[0].path_entries) != len(one[1].path_entries)]
        same = reading.same_paths(
            [bridge.path_entries for _, bridge in alike], [switch.path_entries for switch, _ in alike], self._devices
        )
        others += [alike[place] for place in np.flatnonzero(~same).tolist()]
        gone = [bridge.parts for _, bridge in others]
        for switch, bridge in others:
            bridge.parts = self._resolve(switch, bridge.known)
        for switch, bridge in some:
            bridge.path_entries = switch.path_entries
        return gone

    def _resolve(self, switch: SwitchRecord, known: dict[bytes, int]) -> Ints:
        """Return the number of the part that each path of a bridge belongs to; -1: there is none."""
        paths = np.frombuffer(switch.path_entries, rows.PATH)
        keys = np.empty((len(paths), KEY_WORDS), np.uint64)
        keys[:, :2] = paths.view(np.uint64).reshape(-1, WORDS)[:, PREFIX_WORDS]
        keys[:, 2] = paths[self._key]
        keys[:, 3] = paths["bits"].astype(np.uint64) * 256 + paths["scope"]
        text = keys.tobytes()
        found = [known.get(text[place : place + KEY_BYTES]) for place in range(0, len(text), KEY_BYTES)]
        for row, number in enumerate(found):
            if number is None:
                number = self._part(switch.dpid, paths[row])
                if len(known) >= KNOWN_MOST:
                    known.clear()
                known[text[row * KEY_BYTES : (row + 1) * KEY_BYTES]] = found[row] = number
        return np.array(found, np.intp)

    def _part(self, dpid: int, path: "np.void") -> int:
        """Return the number of the part that a path of a bridge belongs to; -1: there is none."""
        member = self._entries.at[dpid].get(int(path[self._key]))
        if member is None or path["scope"] != SCOPE_DESTINATION:
            return -1
        name = _name(member, Prefix(bytes(path["prefix"]), int(path["bits"])))
        return -1 if name is None else member.parts[name].number


def _joined(several: Sequence[Ints]) -> Ints:
    return np.concatenate(several) if several else np.zeros(0, np.intp)


def _answers(texts: Sequence[bytes], numbers: Sequence[Ints], times_ns: npt.NDArray[np.int64]) -> reading.Answers:
    counts = np.fromiter(map(len, numbers), np.int64, len(numbers))
    return reading.Answers(texts, counts, _joined(numbers), times_ns)


def _name(member: Member, prefix: Prefix) -> Optional[Prefix]:
    """Return the part that a path in a shim belongs to, if any."""
    if prefix in member.parts:
        return prefix
    around = [name for name in member.parts if 0 < name.bits < prefix.bits and name.covers(prefix.first)]
    return max(around, key=lambda name: name.bits, default=None)
