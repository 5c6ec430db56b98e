# SPDX-License-Identifier: Apache-2.0
"""Explicit rates by path: what machines are told under ``by_path``, where their bridge answers HOST_PATHS.

Each port of the fabric that this controller owns tells by itself what each machine may send through it to each
destination (paths/ports.py); the machine's shim keeps to the lowest rate that any port on the way told lately.  So
controllers need not agree on anything, and who takes a port over begins with what he measures.  The teller of a path's
rate is the port, whoever owns it.  At a machine's own uplink, and at its tenant's cap, what counts is all that it
sends: its rate as a whole, told by whoever owns its bridge.

Machines of other bridges are told one rate as a whole, which explicit.py finds for all of these in the network.  Here
they take part in the sharing of ports: held by the port that bounds their rate, elsewhere with what they send.
"""

from typing import Callable, Mapping, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from sdngcc.controller.native import NOTICE
from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.relations import Relations
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.batch import Batch, teller
from sdngcc.controller.rates.capacity import Marked
from sdngcc.controller.rates.paths.asking import Asking
from sdngcc.controller.rates.paths.entries import CAPS, Entries
from sdngcc.controller.rates.paths.filling import Floats, Ints, levels
from sdngcc.controller.rates.paths.index import UPLINK
from sdngcc.controller.rates.paths.ports import BINDING, MARGIN, Due, Ports
from sdngcc.controller.rates.paths.readings import Readings, States
from sdngcc.controller.rates.paths.shown import Shown
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire.message import RATE_MAX, RATE_MIN, TYPE_RATE

_U32_MAX = 0xFFFFFFFF


class _Wholes(NamedTuple):
    """What machines are told of all that they send."""

    members: Ints
    rates: Floats  # bytes/s, whole
    weights: Floats  # of all machines that send by the port


class PathRates:
    """Rates by path of all machines.

    ``owns(dpid)`` tells for which switches' ports this controller speaks, ``is_silent(dpid)`` of which no marks are
    heard any more, ``capacity(port)`` what a port carries, bytes/s, infinite if nobody knows, ``bottleneck(machine)``
    which port bounds one that is told a rate as a whole.  ``told`` has the bridges that answered since it was emptied.
    """

    def __init__(
        self,
        settings: Settings,
        switches: dict[int, SwitchRecord],
        attribution: Attribution,
        relations: Relations,
        tenants: Tenants,
        owns: Callable[[int], bool],
        is_silent: Callable[[int], bool],
        capacity: Callable[[Hop], float],
        bottleneck: Callable[[Hop], Optional[Hop]],
        told: set[int],
    ) -> None:
        self._headroom = settings.headroom_percent / 100
        self.ports = Ports(self._headroom, is_silent, settings.standby_percent / 100)
        self.entries = Entries(self.ports.table, switches, attribution, relations, tenants, owns, bottleneck)
        shown = Shown(switches, self.entries, told, settings.forwarding == "none")
        self.asking = Asking(attribution)
        self._readings = Readings(self.ports, self.entries, shown, attribution)
        self.points: dict[int, Hop] = {}  # ports that told something, by the numbers that shims know them by
        self._owns = owns
        self._tenants = tenants
        self._capacity = capacity

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone or came anew, or a whole switch."""
        known = self.ports.table.ports.of
        some = [(dpid, port)] if port is not None else [hop for hop in known if hop[0] == dpid]
        for hop in [hop for hop in some if hop in known]:
            self.ports.forget(hop)
            self.points.pop(teller(hop), None)

    def decide(self, marks: Mapping[Hop, Marked], now_ns: int) -> Batch:
        """Take the marks of a period, and the machines' readings, and return who is to be told what."""
        self.entries.follow()
        renewed = set(self.entries.renewed)
        states = self._readings.look()
        self._set_ports(states)
        self._readings.take(states, self._lows(states), now_ns)
        due = self.ports.decide_rows(marks, now_ns)
        self.asking.decided(self.ports.pressed, self.entries.moved, renewed)
        return self._tellings(due, now_ns)

    def _tellings(self, due: Due, now_ns: int) -> Batch:
        """Return what machines are to be told, in the order of their bridges."""
        index = self.entries.index
        weights = np.minimum(np.rint(due.weights), _U32_MAX)
        of, parts = index.entry_members[due.numbers], index.entry_parts[due.numbers]
        wholes = self._wholes(due, np.flatnonzero(parts < 0), now_ns)
        some = np.flatnonzero(parts >= 0)
        told = np.zeros(len(index.member_bridges), np.bool_)
        told[of[some]] = told[wholes.members] = True
        numbers = index.in_order(np.flatnonzero(told))
        ranks = np.full(len(told), -1)
        ranks[numbers] = np.arange(len(numbers))
        some = some[ranks[of[some]] >= 0]
        # Those of a machine stand together.
        some = some[np.argsort(ranks[of[some]], kind="stable")]
        entries = index.part_entries[parts[some]]
        entries["teller"] = self._tellers(due.ports[some])
        entries["weight_total"], entries["rate"] = weights[some], due.rates[some]
        rows = np.zeros(len(numbers), NOTICE)
        rows["type"] = TYPE_RATE
        ends = np.cumsum(np.bincount(ranks[of[some]], minlength=len(numbers)))
        rows["first"][1:], rows["end"] = ends[:-1], ends
        heads = ranks[wholes.members] >= 0
        at, members = ranks[wholes.members[heads]], wholes.members[heads]
        rows["datapath"][at], rows["port"][at] = index.member_bridges[members], index.member_uplinks[members]
        rows["rate"][at], rows["weight_total"][at] = wholes.rates[heads], wholes.weights[heads]
        listed = numbers.tolist()
        pairs, places = [index.member_pairs[one] for one in listed], [index.member_places[one] for one in listed]
        return Batch(pairs, places, rows, entries, np.zeros(len(numbers), np.int64))

    def _tellers(self, ports: Ints) -> npt.NDArray[np.uint64]:
        """Return the numbers by which shims know ports."""
        names, found = self.ports.table.ports.names, np.zeros(len(self.ports.table.ports.names), np.uint64)
        for number in np.unique(ports).tolist():
            hop = names[number]
            assert hop is not None
            found[number] = teller(hop)
            self.points[int(found[number])] = hop
        return found[ports]

    def _wholes(self, due: Due, some: Ints, now_ns: int) -> _Wholes:
        """Return what some rows let machines be told of all that they send."""
        index = self.entries.index
        some = some[index.member_heads[index.entry_members[due.numbers[some]]]]
        numbers = due.numbers[some]
        index.heads[numbers], index.heads_ns[numbers] = due.rates[some], now_ns
        of = index.entry_members[numbers]
        members, last = np.unique(of[::-1], return_index=True)
        totals = np.minimum(np.rint(due.weights[some[::-1][last]]), _U32_MAX)
        return _Wholes(members, self.entries.least_heads(self._readings.wholes, now_ns)[members], totals)

    def taken(self) -> dict[Hop, float]:
        """Return what machines that are told by path send through ports, bytes/s, as last read."""
        table = self.ports.table
        rows = table.rows
        some = self.entries.index.entry_parts[rows.numbers] >= 0
        sent = np.bincount(rows.ports[some], (rows.parts * rows.sent)[some], len(table.ports.names))
        return {hop: float(sent[number]) for hop, number in table.ports.of.items()}

    def _set_ports(self, states: States) -> None:
        """Say what ports may carry."""
        table, index = self.ports.settled(), self.entries.index
        some = np.flatnonzero(index.entry_kinds[table.rows.numbers] == UPLINK)
        ports = table.rows.ports[some]
        lendable = self._lendable(ports, index.entry_members[table.rows.numbers[some]], states)
        uplinks = {table.ports.names[number]: float(lendable[number]) for number in np.unique(ports).tolist()}
        for hop, rate in (*uplinks.items(), *self.entries.caps().items()):
            assert hop is not None
            self.ports.set_allowed(hop, max(rate, RATE_MIN))
        for hop in table.ports.of:
            if hop not in uplinks and hop[0] != CAPS:
                self.ports.set_capacity(hop, self._capacity(hop))

    def _lendable(self, ports: Ints, members: Ints, states: States) -> Floats:
        """Return what machines of each uplink may send in all, bytes/s by its number; each port has these members.

        The shares E(i) add up to what an uplink carries, or to the ceilings of all.  Its queue marks nothing.  Where
        one has more than his share for others send less, a line that is full would keep these below what they are
        told: they seem to want no more, and he is told that he may have it.  What is left free lets the queue end.
        """
        count = len(self.ports.table.ports.names)
        shares = states.share[members]
        below = shares < np.where(states.high[members] > 0, states.high[members], float(RATE_MAX))
        lent = (np.bincount(ports, minlength=count) > 1) & (np.bincount(ports, below, count) > 0)
        parts: Floats = np.where(lent, 1 - self._headroom, 1.0)
        return parts * np.bincount(ports, shares, count)

    def _lows(self, states: States) -> Floats:
        """Return the guarantee of each machine by number, bytes/s, with its part of its tenant's."""
        lows, members = states.low.copy(), self.entries.members
        can_use = np.where(
            states.limited | (states.sent >= BINDING * states.rate), float(RATE_MAX), MARGIN * states.sent
        )
        for name, low in [(name, tenant.low) for name, tenant in self._tenants.shares.items() if tenant.low]:
            places = [place for place, tenant in self.entries.tenants.items() if tenant == name and place in members]
            if places:
                numbers = [members[place].number for place in places]
                weights = np.array([max(1, members[place].vm.weight) for place in places], float)
                own = lows[numbers]
                high = np.maximum(own, can_use[numbers])
                level = levels(weights, own, high, np.zeros(1, np.intp), np.array([low]))
                lows[numbers] = np.clip(weights * level, own, high)
        return lows
