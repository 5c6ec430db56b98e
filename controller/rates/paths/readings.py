# SPDX-License-Identifier: Apache-2.0
"""What members' shims tell, as readings of entries.

What a part sends its path in the shim counts.  While a part has no path it has of what no path counts, by proportion,
as attribution.py measures it.  Who is *bound*, sends BINDING of its rate or had packets held back, could send more.

All of a period is taken at once, in arrays: by row of shown.py, by number of machine or part, by row of the table.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.rates.paths.entries import Entries
from sdngcc.controller.rates.paths.filling import Flags, Floats, Ints, levels, runs
from sdngcc.controller.rates.paths.index import FABRIC, Counts, roomy
from sdngcc.controller.rates.paths.ports import ELSEWHERE, HERE, IDLE, MARGIN, SAME, Ports
from sdngcc.controller.rates.paths.shown import Shown
from sdngcc.controller.wire.experimenter import PATH_LIMITED

BINDING = 0.9  # of a rate in force
HELD = 0.98  # of a path's rate: who sends less, though it holds packets back, is held more by the machine's own bucket


@dataclasses.dataclass
class States:
    """What machines told of themselves last, by number; rates in bytes/s."""

    sent: Floats
    rate: Floats
    share: Floats
    low: Floats  # the guarantee
    high: Floats  # 0: none
    bound: Flags
    limited: Flags  # a path of it holds packets back
    fresh: Flags  # told since they were taken last


@dataclasses.dataclass
class _Parts:
    """What parts do, by number."""

    members: Ints  # -1: there is no such part
    sent: Floats
    rates: Floats  # in force, bytes/s, if they are bound by it; infinite: they are not
    lows: Floats


class Readings:
    """Readings for ``ports`` of what ``entries`` has, from what bridges ``shown``."""

    def __init__(self, ports: Ports, entries: Entries, shown: Shown, attribution: Attribution) -> None:
        self._ports = ports
        self._entries = entries
        self._shown = shown
        self._attribution = attribution
        # By number of a machine: when its last reading came, and packets its own bucket held back, as last read.
        self._read_ns: Counts = np.zeros(0, np.int64)
        self._drops: Counts = np.zeros(0, np.int64)
        self._revisions: Counts = np.zeros(0, np.int64)  # of the counters that say how its bytes part; -1: not known
        self._looked: Counts = np.zeros(0, np.int64)  # what was measured when these were looked at; -1: they were not
        # By number of a part: its shim had a path for it, as last read; of the machine's bytes, as counters say.
        self._seen: Flags = np.zeros(0, np.bool_)
        self._shares: Floats = np.zeros(0)

    def look(self) -> States:
        """Take what bridges told, and return what it says of machines."""
        self._make_room()
        self._shown.look()
        states, numbers = self._shown.states, self._shown.members
        known = np.flatnonzero(numbers >= 0)
        numbers, count = numbers[known], len(self._read_ns)
        columns = {}
        for name in ("sent_rate", "rate", "share", "min_rate", "max_rate", "drops"):
            columns[name] = np.zeros(count)
            columns[name][numbers] = states[name][known]
        times_ns = np.zeros(count, np.int64)
        times_ns[numbers] = self._shown.times_ns[known]
        drops = columns["drops"].astype(np.int64)
        fresh = times_ns != self._read_ns
        bound = (drops > self._drops) | (columns["sent_rate"] >= BINDING * columns["rate"])
        self._read_ns, self._drops = times_ns, drops
        limited = np.zeros(count, np.bool_)
        held = self._shown.parts[(self._shown.parts >= 0) & (self._shown.paths["flags"] & PATH_LIMITED > 0)]
        limited[self._entries.index.part_members[held]] = True
        return States(
            columns["sent_rate"], columns["rate"], columns["share"], columns["min_rate"], columns["max_rate"], bound,
            limited, fresh,
        )  # fmt: skip

    def _make_room(self) -> None:
        """Begin anew what is known of machines and parts that have come since."""
        entries = self._entries
        count = max(1, len(entries.numbers.things))  # -1 is an index, too
        self._read_ns, self._drops = roomy(self._read_ns, count), roomy(self._drops, count)
        self._revisions, self._looked = roomy(self._revisions, count, -1), roomy(self._looked, count, -1)
        count = len(entries.index.part_members)
        self._seen, self._shares = roomy(self._seen, count), roomy(self._shares, count)
        fresh = entries.numbers.fresh
        self._read_ns[fresh], self._drops[fresh] = 0, 0
        self._seen[entries.parts.fresh] = False
        self._revisions[fresh] = self._looked[fresh] = -1
        fresh_parts = entries.index.part_members[entries.parts.fresh]
        self._revisions[fresh_parts] = self._looked[fresh_parts] = -1
        fresh.clear()
        entries.parts.fresh.clear()

    def take(self, states: States, lows: Floats, now_ns: int) -> None:
        """Give the ports the readings of those who told something; ``lows`` are guarantees, bytes/s, by machine."""
        index, table = self._entries.index, self._ports.settled()
        parts = self._measure(states, lows)
        numbers = table.rows.numbers
        members = index.entry_members[numbers]
        rows = np.flatnonzero(states.fresh[members])
        numbers, members = numbers[rows], members[rows]
        of = index.entry_parts[numbers]
        whole = np.flatnonzero(of < 0)
        bound = states.bound[members]
        sent = np.where(of >= 0, parts.sent[of], states.sent[members])
        rates = np.where(of >= 0, parts.rates[of], np.inf)
        rates[bound & (sent < HELD * rates)] = np.inf
        floors = np.where(bound, np.inf, MARGIN * states.sent[members])
        floors = np.where(of >= 0, parts.lows[of], np.minimum(lows[members], floors))
        held = np.isfinite(rates)
        read = np.where(bound & (sent > 0), ELSEWHERE, IDLE).astype(np.int8)
        read[held] = self._ports.judge_rows(rows[held], rates[held], np.ones(int(held.sum()), np.bool_))
        read[whole] = self._whole(numbers[whole], states, parts, now_ns)
        self._ports.read_rows(rows, sent, read, floors)

    def _whole(self, numbers: Ints, states: States, parts: _Parts, now_ns: int) -> npt.NDArray[np.int8]:
        """Return what holds all that machines send, by the numbers of entries for that."""
        index = self._entries.index
        members, kinds = index.entry_members[numbers], index.entry_kinds[numbers]
        heads = index.live_heads(now_ns)[numbers]
        here = ~np.isfinite(heads) | (heads <= self._entries.least_heads(now_ns)[members])
        here &= ~((states.high > 0) & (states.rate >= (1 - SAME) * states.high))[members]
        # Machines that are told one rate as a whole are held by the port that bounds it.
        for place in np.flatnonzero(kinds == FABRIC).tolist():
            here[place] = self._entries.bounds(int(numbers[place]))
        bounded = np.zeros(len(states.sent), np.bool_)
        bounded[parts.members[np.isfinite(parts.rates) & (parts.members >= 0)]] = True
        free = np.where(bounded[members], ELSEWHERE, IDLE)
        return np.where(states.bound[members], np.where(here, HERE, ELSEWHERE), free).astype(np.int8)

    def _measure(self, states: States, lows: Floats) -> _Parts:
        """Return what parts do; those of machines that told nothing since stay as they are seen."""
        members, paths, parts = self._entries.index.part_members, self._shown.paths, self._shown.parts
        known = np.flatnonzero(parts >= 0)
        parts = parts[known]
        there = np.zeros(len(members), np.bool_)
        there[parts] = True
        rate, sent = paths["rate"][known].astype(float), paths["sent_rate"][known].astype(float)
        held = (paths["flags"][known] & PATH_LIMITED > 0) | (sent >= BINDING * rate)
        rates = np.full(len(members), np.inf)
        np.minimum.at(rates, parts[held], rate[held])
        alive = np.flatnonzero(members >= 0)
        counted = np.flatnonzero((members >= 0) & there & self._seen[: len(members)])
        found = np.zeros(len(members))
        found[counted] = np.bincount(parts, sent, len(members))[counted]
        left = np.maximum(0.0, states.sent - np.bincount(members[counted], found[counted], len(states.sent)))
        uncounted = np.setdiff1d(alive, counted, assume_unique=True)
        found[uncounted] = self._divide(uncounted, members[uncounted], left, states.fresh)
        fresh = alive[states.fresh[members[alive]]]
        self._seen[fresh] = there[fresh]
        return _Parts(members, found, rates, self._floors(members, found, rates, states.bound, lows))

    def _divide(self, parts: Ints, members: Ints, left: Floats, fresh: Flags) -> Floats:
        """Return what parts without a count sent, bytes/s, of what no path of their machines counted."""
        counts = np.bincount(members, minlength=len(left))
        several = counts[members] > 1
        self._follow_shares(np.flatnonzero(fresh & (counts > 1)))
        weights = np.where(several, self._shares[parts], 1.0)
        totals = np.bincount(members, weights, len(left))
        weights = np.where(totals[members] > 0, weights, 1.0)
        totals = np.where(totals > 0, totals, counts)
        return left[members] * weights / totals[members]

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
                self._shares[part.number] = sum(weight * shares.get(pair, 0.0) for pair, weight in part.pairs.items())

    @staticmethod
    def _floors(members: Ints, sent: Floats, rates: Floats, bound: Flags, lows: Floats) -> Floats:
        """Return the guarantees of machines divided evenly among their parts, to none more than it wants."""
        found = np.zeros(len(members))
        parts = np.flatnonzero((members >= 0) & (lows[members] > 0))
        if len(parts):
            parts = parts[np.argsort(members[parts], kind="stable")]
            of = members[parts]
            wants = np.where(bound[of] | np.isfinite(rates[parts]), np.inf, MARGIN * sent[parts])
            wants = np.minimum(wants, lows[of])
            starts = runs(of)
            level = levels(np.ones(len(parts)), np.zeros(len(parts)), wants, starts, lows[of[starts]])
            found[parts] = np.minimum(wants, np.repeat(level, np.diff(starts, append=len(parts))))
        return found
