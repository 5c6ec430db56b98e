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
from typing import Callable, Hashable, Iterable, NamedTuple, Optional

import numpy as np

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths.filling import Floats, Ints
from sdngcc.controller.rates.paths.index import CAP, FABRIC, PART, TIMEOUT_NS, UPLINK, Index, Slots
from sdngcc.controller.rates.paths.naming import REST, Prefix, names
from sdngcc.controller.rates.paths.table import Entry, Machine, Table

ALL = "all"  # that a machine sends: the peer of such entries
CAPS = -1  # stands for a datapath id in the ports that are tenants' caps


@dataclasses.dataclass
class Part:
    """What a machine sends to the destinations of one name."""

    name: Prefix
    pairs: dict[Pair, float]  # each with the part of it that this is: 1 by the number of its names
    entries: dict[Hop, int] = dataclasses.field(default_factory=dict)  # by port, their numbers in the table
    number: int = -1  # in ``parts`` of Entries


@dataclasses.dataclass
class Member:
    """A machine that shares ports."""

    vm: VmRecord
    by_path: bool
    cap: Optional[Hop]
    number: int = -1  # in ``numbers`` of Entries
    parts: dict[Prefix, Part] = dataclasses.field(default_factory=dict)
    whole: dict[Hop, int] = dataclasses.field(default_factory=dict)  # its entries for ALL, by port
    parted: bool = False  # its bytes part among equal ways, as measured
    # What it was told of all that it sends by ports that it has no entry at any more: bytes/s, and when.
    left: dict[Hop, tuple[float, int]] = dataclasses.field(default_factory=dict)


class _Seen(NamedTuple):
    """A bridge as its machines were followed last."""

    switch: SwitchRecord
    revision: int
    paths: bool

    def is_now(self, switch: SwitchRecord) -> bool:
        """Tell whether its machines are what they were."""
        return self.switch is switch and (self.revision, self.paths) == (switch.revision, bool(switch.paths))


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
        bottleneck: Callable[[Hop], Optional[Hop]],
    ) -> None:
        """``bottleneck(machine)`` tells which port bounds one that is told a rate as a whole."""
        self.members: dict[Hop, Member] = {}
        self.at: dict[int, dict[int, Member]] = {}  # by bridge and port
        self.versions: dict[int, int] = {}  # of what the machines of a bridge and their parts are
        self.moved: dict[Hop, None] = {}  # machines whose pairs were others when all was followed last
        self.renewed: set[int] = set()  # bridges with another version, for who empties it
        self.numbers: Slots[Member] = Slots()
        self.parts: Slots[Part] = Slots()
        self.index = Index()
        self.tenants: dict[Hop, str] = {}  # of machines whose tenant has a policy
        self._table = table
        self._switches = switches
        self._attribution = attribution
        self._relations = relations
        self._tenants = tenants
        self._owns = owns
        self._bottleneck = bottleneck
        self._leavers: dict[int, Member] = {}  # those who were told something by a port that they left
        self._seen: dict[int, _Seen] = {}  # bridges as their machines were followed last
        # By port of a bridge: the machines with a pair to a host there that is no machine, as far as was known.
        self._hosts: dict[Hop, set[Hop]] = {}
        self._owned: dict[int, bool] = {}  # switches on anybody's way
        self._parted = 0  # version of how bytes part that is in the table
        self._version = 0  # the highest in ``versions`` ever, so that none comes back
        self._caps: dict[str, Hop] = {}
        self._weighted: frozenset[str] = frozenset()  # tenants that the table knows
        attribution.moved = dict.fromkeys(attribution.places())

    def follow(self) -> None:
        """Take in what changed: machines, pairs, ways, tenants, and whose ports are ours."""
        attribution = self._attribution
        attribution.follow()
        moved, attribution.moved = attribution.moved or {}, {}
        self.moved = dict(moved)
        owned = {dpid: self._owns(dpid) for dpid in self._owned}
        everybody, self._owned = owned != self._owned, owned
        if attribution.parted != self._parted:
            self._parted = attribution.parted
            moved.update(dict.fromkeys(place for place, member in self.members.items() if member.parted))
        before, caps = self.tenants, dict(self._caps)
        self.tenants = self._follow_tenants()
        policies = self.tenants != before or self._caps != caps
        bridges: dict[int, set[int]] = {}
        for dpid, number in moved:
            bridges.setdefault(dpid, set()).add(number)
        for dpid in self.at.keys() - self._switches.keys():
            self._leave_out(dpid, set())
        for dpid, switch in self._switches.items():
            seen = self._seen.get(dpid)
            if policies or seen is None or not seen.is_now(switch):
                self._seen[dpid] = _Seen(switch, switch.revision, bool(switch.paths))
                self._follow_bridge(switch, everybody, bridges.get(dpid, set()))
            elif everybody or dpid in bridges:
                for number, member in self.at.get(dpid, {}).items():
                    if everybody or number in bridges[dpid]:
                        self._place((dpid, number), member)

    def _follow_bridge(self, switch: SwitchRecord, everybody: bool, moved: set[int]) -> None:
        """Take in what the machines of a bridge are; place those that changed, and moved ones, or everybody."""
        dpid, by_path, present = switch.dpid, bool(switch.paths), set()
        for number, vm in switch.vms.items():
            if vm.reading is None or not vm.active:
                continue
            place = (dpid, number)
            present.add(number)
            tenant = self.tenants.get(place)
            cap = self._caps.get(tenant or "")
            self._table.set_machine(place, Machine(max(1, vm.weight), tenant))
            member = self.members.get(place)
            if member is None or member.vm is not vm or (member.by_path, member.cap) != (by_path, cap):
                self._remove(place)
                member = Member(vm, by_path, cap)
                member.number = self.numbers.take(member)
                self.members[place] = self.at.setdefault(dpid, {})[number] = member
            elif not (everybody or number in moved):
                continue
            self._place(place, member)
        self._leave_out(dpid, present)
        known = [self._hosts.pop((dpid, number)) for number in switch.vms if (dpid, number) in self._hosts]
        for place in set().union(*known) & self.members.keys():
            self._place(place, self.members[place])

    def _leave_out(self, dpid: int, present: set[int]) -> None:
        """Remove the machines of a bridge that are there no more."""
        for number in self.at.get(dpid, {}).keys() - present:
            self._remove((dpid, number))
            self._table.set_machine((dpid, number), None)
        if dpid not in self._switches:
            self._seen.pop(dpid, None)
            self._hosts = {hop: places for hop, places in self._hosts.items() if hop[0] != dpid}

    def _active(self) -> Iterable[VmRecord]:
        return [
            vm
            for switch in self._switches.values()
            for vm in switch.vms.values()
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
        return self._tenants.members(self._active()) if shares else {}

    def caps(self) -> dict[Hop, float]:
        """Return the ports that are tenants' caps, bytes/s."""
        return {hop: self._tenants.shares[name].high for name, hop in self._caps.items()}

    def least_heads(self, numbers: Ints, now_ns: int) -> Floats:
        """Return the lowest rate of all that it sends that each machine obeys, bytes/s by number; infinite: none.

        ``numbers`` are all entries for that.
        """
        found = np.full(len(self.numbers.things), np.inf)
        np.minimum.at(found, self.index.entry_members[numbers], self.index.live_heads(numbers, now_ns))
        for number, member in list(self._leavers.items()):
            member.left = {hop: told for hop, told in member.left.items() if now_ns - told[1] < TIMEOUT_NS}
            found[number] = min(found[number], *(rate for rate, _ in member.left.values()), np.inf)
            if not member.left:
                del self._leavers[number]
        return found

    def bounds(self, number: int) -> bool:
        """Tell whether an entry's port bounds its machine, which is told one rate as a whole."""
        entry = self._table.entries.names[number]
        return entry is not None and entry.port == self._bottleneck(entry.vm)

    def _remove(self, place: Hop) -> None:
        member = self.members.pop(place, None)
        if member is None:
            return
        for part in member.parts.values():
            self._join(member, part, {})
            self._forget(part)
        self._join(member, None, {})
        self.numbers.give_back(member.number)
        self.index.set_member(member.number, place, None, False)
        self._leavers.pop(member.number, None)
        self._renew(place[0])
        there = self.at[place[0]]
        del there[place[1]]
        if not there:
            del self.at[place[0]], self.versions[place[0]]

    def _renew(self, dpid: int) -> None:
        self._version += 1
        self.versions[dpid] = self._version
        self.renewed.add(dpid)

    def _forget(self, part: Part) -> None:
        self.index.forget_part(part.number)
        self.parts.give_back(part.number)

    def _place(self, place: Hop, member: Member) -> None:
        """Bring a machine's entries up to date."""
        self._renew(place[0])
        ways = {pair: self._fabric(place, hops) for pair, hops in self._attribution.ways(place).items()}
        for pair, hops in ways.items():
            host = self._relations.hosts.get(pair[1])
            if host is not None and host.place in hops:
                self._hosts.setdefault(host.place, set()).add(place)
        member.parted = any(part < 1 for hops in ways.values() for part in hops.values())
        self.index.set_member(member.number, place, min(ways, default=None), member.parted)
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
        self._join(member, None, whole)
        self.index.set_head(member.number, min((hop[1] for hop in whole if hop[0] == place[0]), default=None))

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
            if known is None:
                part.number = self.parts.take(part)
                self.index.set_part(part.number, member.number, name)
            else:
                part.number, part.entries = known.number, known.entries
                self.parts.things[part.number] = part
            self._join(member, part, self._hops(part, ways, shares))
        for name in member.parts.keys() - parts.keys():
            self._join(member, member.parts[name], {})
            self._forget(member.parts[name])
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
                part = parts.setdefault(name, Part(name, {}))
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

    def _join(self, member: Member, part: Optional[Part], hops: dict[Hop, float]) -> None:
        """Let a part of what a machine sends, or all of it, have entries at some ports, with these parts of the bytes.

        What it was told of all that it sends stays known where an entry for that leaves.
        """
        index, numbers = self.index, member.whole if part is None else part.entries
        for hop in numbers.keys() - hops.keys():
            number = numbers.pop(hop)
            self._table.leave(number)
            if part is None and index.heads_ns[number]:
                member.left[hop] = (float(index.heads[number]), int(index.heads_ns[number]))
                index.heads_ns[number] = 0
                self._leavers[member.number] = member
        for hop, through in hops.items():
            if hop in numbers:
                self._table.set_part(numbers[hop], through)
                continue
            place = member.vm.place
            number = numbers[hop] = self._table.join(Entry(hop, place, ALL if part is None else part.name), through)
            if part is not None:
                index.set_entry(number, member.number, part.number, PART)
            else:
                kind = CAP if hop[0] == CAPS else UPLINK if hop[0] == place[0] else FABRIC
                index.set_entry(number, member.number, -1, kind)
                index.heads[number], index.heads_ns[number] = member.left.pop(hop, (0.0, 0))
