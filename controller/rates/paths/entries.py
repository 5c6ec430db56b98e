# SPDX-License-Identifier: Apache-2.0
"""Who shares which port: the table's entries, kept in step with who sends where.

A machine that is told by path has an entry at each port of the fabric that this controller owns and that some of what
it sends leaves by: one for each *part*, what goes to a destination or an aggregate of them (naming.py).  At its
uplinks, where all that it sends passes its own bucket, it has one entry for ALL, and so it has at its tenant's cap, a
port that all of the tenant's machines cross.  A machine that is told one rate as a whole (explicit.py) has entries for
ALL at the fabric's ports: it takes part in sharing, and is told nothing.
"""

import dataclasses
import math
from typing import Callable, Hashable, Iterable, Optional

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths.naming import REST, Prefix, names
from sdngcc.controller.rates.paths.table import Entry, Machine, Table

ALL = "all"  # that a machine sends: the peer of such entries
CAPS = -1  # stands for a datapath id in the ports that are tenants' caps


@dataclasses.dataclass
class Part:
    """What a machine sends to the destinations of one name."""

    pairs: dict[Pair, float]  # each with the part of it that this is: 1 by the number of its names
    entries: dict[Hop, int] = dataclasses.field(default_factory=dict)  # by port, their numbers in the table


@dataclasses.dataclass
class Member:
    """A machine that shares ports."""

    vm: VmRecord
    by_path: bool
    cap: Optional[Hop]
    parts: dict[Prefix, Part] = dataclasses.field(default_factory=dict)
    whole: dict[Hop, int] = dataclasses.field(default_factory=dict)  # its entries for ALL, by port
    bottleneck: Optional[Hop] = None  # that bounds a machine which is told one rate as a whole
    pair: Optional[Pair] = None  # one of its pairs, by which it can be told
    parted: bool = False  # its bytes part among equal ways, as measured
    seen: frozenset[Prefix] = frozenset()  # names that its shim has paths for, as last read
    read_ns: int = 0  # when its last reading came
    drops: int = 0  # by its own bucket, as last read
    # What it was told of all that it sends: by port bytes/s, and when.
    heads: dict[Hop, tuple[int, int]] = dataclasses.field(default_factory=dict)


class Entries:
    """Keeps ``table`` up to date; ``members`` are the machines that send."""

    def __init__(
        self,
        table: Table,
        switches: dict[int, SwitchRecord],
        attribution: Attribution,
        relations: Relations,
        tenants: Tenants,
        owns: Callable[[int], bool],
    ) -> None:
        self.members: dict[Hop, Member] = {}
        self.tenants: dict[Hop, str] = {}  # of machines whose tenant has a policy
        self._table = table
        self._switches = switches
        self._attribution = attribution
        self._relations = relations
        self._tenants = tenants
        self._owns = owns
        self._owned: dict[int, bool] = {}  # switches on anybody's way
        self._parted = 0  # version of how bytes part that is in the table
        self._caps: dict[str, Hop] = {}
        self._weighted: frozenset[str] = frozenset()  # tenants that the table knows
        attribution.moved = dict.fromkeys(attribution.places())

    def follow(self) -> None:
        """Take in what changed: machines, pairs, ways, tenants, and whose ports are ours."""
        attribution = self._attribution
        attribution.follow()
        moved, attribution.moved = attribution.moved or {}, {}
        owned = {dpid: self._owns(dpid) for dpid in self._owned}
        everybody, self._owned = owned != self._owned, owned
        parted, self._parted = attribution.parted != self._parted, attribution.parted
        tenants = self.tenants = self._follow_tenants()
        present = set()
        for place, vm in self._active():
            present.add(place)
            by_path = bool(self._switches[place[0]].paths)
            tenant = tenants.get(place)
            cap = self._caps.get(tenant or "")
            self._table.set_machine(place, Machine(max(1, vm.weight), tenant))
            member = self.members.get(place)
            if member is None or member.vm is not vm or (member.by_path, member.cap) != (by_path, cap):
                self._remove(place)
                member = self.members[place] = Member(vm, by_path, cap)
            elif not (everybody or place in moved or (parted and member.parted)):
                continue
            self._place(place, member)
        for place in [place for place in self.members if place not in present]:
            self._remove(place)
            self._table.set_machine(place, None)

    def _active(self) -> Iterable[tuple[Hop, VmRecord]]:
        return [
            ((dpid, number), vm)
            for dpid, switch in self._switches.items()
            for number, vm in switch.vms.items()
            if vm.reading is not None and vm.active
        ]

    def _follow_tenants(self) -> dict[Hop, str]:
        """Give the table the weights of tenants; return the tenants of machines whose tenant has a policy."""
        shares = self._tenants.shares
        for name in self._weighted - shares.keys():
            self._table.set_tenant(name, None)
        self._weighted = frozenset(shares)
        for name, tenant in shares.items():
            self._table.set_tenant(name, tenant.weight)
        capped = {name for name, tenant in shares.items() if math.isfinite(tenant.high)}
        for name in capped - self._caps.keys():
            self._caps[name] = (CAPS, max((hop[1] for hop in self._caps.values()), default=0) + 1)
        for name in self._caps.keys() - capped:
            del self._caps[name]
        return self._tenants.members(vm for _, vm in self._active()) if shares else {}

    def caps(self) -> dict[Hop, float]:
        """Return the ports that are tenants' caps, bytes/s."""
        return {hop: self._tenants.shares[name].high for name, hop in self._caps.items()}

    def _remove(self, place: Hop) -> None:
        member = self.members.pop(place, None)
        if member is not None:
            for numbers in (member.whole, *(part.entries for part in member.parts.values())):
                for number in numbers.values():
                    self._table.leave(number)

    def _place(self, place: Hop, member: Member) -> None:
        """Bring a machine's entries up to date."""
        ways = {pair: self._fabric(place, hops) for pair, hops in self._attribution.ways(place).items()}
        member.pair = min(ways, default=None)
        member.parted = any(part < 1 for hops in ways.values() for part in hops.values())
        for hops in ways.values():
            for dpid, _ in hops:
                self._owned.setdefault(dpid, self._owns(dpid))
        self._owned.setdefault(place[0], self._owns(place[0]))
        whole = {member.cap: 1.0} if member.cap else {}
        if member.by_path:
            whole.update(self._uplinks(place, member.vm))
            self._place_parts(place, member, ways)
        else:
            routes = self._attribution.routes(place)
            whole.update({hop: part for hop, part in self._fabric(place, routes).items() if self._owned[hop[0]]})
        self._join(place, ALL, member.whole, whole)

    def _fabric(self, place: Hop, hops: dict[Hop, float]) -> dict[Hop, float]:
        """Return those of a machine's hops that are ports of the fabric."""
        return {
            hop: part
            for hop, part in hops.items()
            if hop[0] != place[0] and (hop[0] not in self._switches or hop[1] not in self._switches[hop[0]].vms)
        }

    def _uplinks(self, place: Hop, vm: VmRecord) -> dict[Hop, float]:
        """Return a machine's uplinks, if we own them, each with the part of its bytes."""
        if not self._owned[place[0]]:
            return {}
        found = {hop: part for hop, part in self._attribution.routes(place).items() if hop[0] == place[0] and part > 0}
        assert vm.reading is not None
        return found if len(found) > 1 else dict.fromkeys(found or ((place[0], vm.reading.uplink),), 1.0)

    def _place_parts(self, place: Hop, member: Member, ways: dict[Pair, dict[Hop, float]]) -> None:
        """Bring a machine's parts and their entries up to date."""
        parts = self._parts(ways)
        mixed = any(len(part.pairs) > 1 for part in parts.values())
        shares = self._attribution.shares(place) if mixed else {}
        for name, part in parts.items():
            known = member.parts.get(name)
            part.entries = known.entries if known else {}
            self._join(place, name, part.entries, self._hops(part, ways, shares))
        for name in member.parts.keys() - parts.keys():
            self._join(place, name, member.parts[name].entries, {})
        member.parts = parts

    def _parts(self, ways: dict[Pair, dict[Hop, float]]) -> dict[Prefix, Part]:
        """Return what a machine sends by name."""
        addresses: dict[Pair, list[bytes]] = {}
        destinations: dict[bytes, Hashable] = {}
        for pair, hops in ways.items():
            host = self._relations.hosts.get(pair[1])
            addresses[pair] = list(host.addresses) if host else []
            for address in addresses[pair]:
                destinations[address] = frozenset(hops)
        found = names(destinations)
        parts: dict[Prefix, Part] = {}
        for pair, known in addresses.items():
            for name in [found[address] for address in known] or [REST]:
                part = parts.setdefault(name, Part({}))
                part.pairs[pair] = part.pairs.get(pair, 0.0) + 1 / max(1, len(known))
        return parts

    def _hops(self, part: Part, ways: dict[Pair, dict[Hop, float]], shares: dict[Pair, float]) -> dict[Hop, float]:
        """Return the ports that we own and a part leaves by, each with the part of its bytes."""
        weights = {pair: weight * shares.get(pair, 1.0) for pair, weight in part.pairs.items()}
        total = sum(weights.values())
        if total <= 0:
            weights, total = part.pairs, sum(part.pairs.values())
        found: dict[Hop, float] = {}
        for pair, weight in weights.items():
            for hop, through in ways[pair].items():
                if self._owned[hop[0]]:
                    found[hop] = found.get(hop, 0.0) + weight / total * through
        return {hop: min(1.0, through) for hop, through in found.items() if through > 0}

    def _join(self, place: Hop, peer: Hashable, numbers: dict[Hop, int], hops: dict[Hop, float]) -> None:
        """Let a machine have entries at some ports, with these parts of the bytes."""
        for hop in numbers.keys() - hops.keys():
            self._table.leave(numbers.pop(hop))
        for hop, part in hops.items():
            if hop in numbers:
                self._table.set_part(numbers[hop], part)
            else:
                numbers[hop] = self._table.join(Entry(hop, place, peer), part)
