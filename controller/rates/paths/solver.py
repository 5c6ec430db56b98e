# SPDX-License-Identifier: Apache-2.0
"""Rates by path of a whole network at once; docs/laws.md, "Rates by path", has what they are and why there are any.

Each port is divided among the pairs that cross it, with no more for a pair than its other ports granted it last:

    u_ep = max(l_e, min(d_e, min over ports q other than p of g_eq))      at first the bound that follows from d
    g_ep = what p grants e when its entries want u (sharing.py)

and the rate of a pair is what all its ports grant it: x_e = max(l_e, min(d_e, min over ports q of g_eq)).  Where u no
longer changes x is a division as it is defined.  Grants follow in part, g = g_new^(1 - DAMPING) * g_old^DAMPING, for
ports that divide at the same time may go round among themselves otherwise.

A machine's ceiling is a port that all of its pairs cross and nobody else's, a tenant's cap one that all of its
machines' cross.  Guarantees are floors: a machine's divided evenly among its pairs, to none more than it can use; a
tenant's divided by weight among its machines, of which ports are divided first for these parts alone.
"""

import dataclasses
import math
from typing import Generic, Mapping, NamedTuple, Optional, TypeVar

import numpy as np

from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.hierarchy import Tenant
from sdngcc.controller.rates.paths.filling import Flags, Floats, Ints, levels, runs
from sdngcc.controller.rates.paths.sharing import Members, Sharing

Vm = TypeVar("Vm")
Peer = TypeVar("Peer")

DAMPING = 0.3
SWEEPS = 500  # the most
NEAR = 1e-4  # what changes by less than this part does not change
SMALL = 1e-3  # bytes/s
MOST = 1e15  # bytes/s; more counts alike


class Machine(NamedTuple):
    """What a machine may send in all; rates in bytes/s."""

    weight: float = 1.0
    low: float = 0.0
    high: float = math.inf  # less than low counts as low
    tenant: Optional[str] = None


class Pair(NamedTuple):
    """What a machine may send to a destination."""

    routes: Mapping[Hop, float]  # port -> part of the pair's bytes, above 0 and up to 1
    demand: float = math.inf  # bytes/s


class Share(NamedTuple):
    """What a pair gets."""

    rate: float  # bytes/s; MOST for a pair with neither a demand nor a port or ceiling on its way
    bottleneck: Optional[Hop]  # the port that grants it no more; None: a ceiling or a cap does, or it has its demand


@dataclasses.dataclass(frozen=True)
class Network:
    """Machines, pairs and ports by number."""

    members: Members
    lows: Floats  # guarantee of each machine, bytes/s
    tenant_lows: Floats  # of each tenant, bytes/s
    of: Ints  # machine of each pair
    owners: Ints  # tenant of each machine, those without a weight included; -1: none
    demands: Floats  # of each pair, bytes/s; infinite: unknown
    pairs: Ints  # pair of each entry
    ports: Ints  # port of each entry
    parts: Floats  # of the pair's bytes, above 0 and up to 1
    capacities: Floats  # of each port, bytes/s, above 0


class Solution(NamedTuple):
    """Rates of a network."""

    rates: Floats  # of each pair, bytes/s
    bottlenecks: Ints  # of each pair the port that grants it no more; -1: it has its demand
    sweeps: int
    settled: bool  # whether rates settled, or SWEEPS ended it


def solve(network: Network) -> Solution:
    """Return the rates of all pairs; ports are overloaded where floors alone overload them, nowhere else."""
    floors = _split(network, network.lows, network.demands)
    if (network.tenant_lows > 0).any():
        parts = np.maximum(network.lows, _tenants_parts(network))
        guaranteed = np.maximum(floors, _split(network, parts, network.demands))
        floors = _Sweeps(network, floors, guaranteed).run().rates
    return _Sweeps(network, floors, np.maximum(floors, network.demands)).run()


def _split(network: Network, totals: Floats, demands: Floats) -> Floats:
    """Return totals of machines divided evenly among their pairs, to none more than its demand."""
    order = np.argsort(network.of, kind="stable")
    starts = runs(network.of[order])
    demands = np.minimum(demands[order], MOST)
    machines = network.of[order[starts]]
    level = levels(np.ones(len(order)), np.zeros(len(order)), demands, starts, totals[machines])
    found = np.zeros(len(order))
    found[order] = np.minimum(demands, np.repeat(level, np.diff(starts, append=len(order))))
    return found


def _tenants_parts(network: Network) -> Floats:
    """Return what each machine that sends has of its tenant's guarantee, its own included; 0: it has no tenant."""
    demands: Floats = np.bincount(network.of, np.minimum(network.demands, MOST), len(network.lows)).astype(float)
    found = np.zeros(len(network.lows))
    sending = np.flatnonzero((demands > 0) & (network.owners >= 0))
    order = sending[np.argsort(network.owners[sending], kind="stable")]
    starts = runs(network.owners[order])
    lows = np.minimum(network.lows, demands)[order]
    weights = network.members.weights[order]
    capacities = network.tenant_lows[network.owners[order[starts]]]
    level = np.repeat(levels(weights, lows, demands[order], starts, capacities), np.diff(starts, append=len(order)))
    found[order] = np.clip(weights * level, lows, demands[order])
    return found


class _Sweeps:
    """Division of all ports, time and again; of each only when what its pairs want of it has changed."""

    def __init__(self, network: Network, floors: Floats, demands: Floats) -> None:
        bounds = np.full(len(demands), MOST)
        np.minimum.at(bounds, network.pairs, network.capacities[network.ports] / network.parts)
        self.floors = floors
        self.demands = np.maximum(floors, np.minimum(demands, bounds))
        machines = network.of[network.pairs]
        entries = self._that_may_fill(network)
        entries = entries[Sharing.order(network.members, network.ports[entries], machines[entries])]
        self.pairs, self.ports = network.pairs[entries], network.ports[entries]
        self.machines, self.parts = machines[entries], network.parts[entries]
        self.members = network.members
        self.capacities = network.capacities
        # The entries of a pair, one after the other.
        self.by_pair = np.argsort(self.pairs, kind="stable")
        self.pair_starts = runs(self.pairs[self.by_pair])
        self.pair_numbers = self.pairs[self.by_pair[self.pair_starts]]
        self.granted = np.full(len(entries), MOST)
        self.met = np.full(len(entries), MOST)  # what was wanted when the port was divided
        self.given = np.full(len(entries), MOST)  # what fits at the port, for all of its entries together

    def _that_may_fill(self, network: Network) -> Ints:
        """Return the entries at ports that cannot carry all that their pairs could ever send."""
        load = np.bincount(
            network.ports, network.parts * self.demands[network.pairs], minlength=len(network.capacities)
        )
        return np.flatnonzero((load > network.capacities)[network.ports])

    def run(self) -> Solution:
        """Divide until nobody wants anything else of any port."""
        wants, least = self.demands[self.pairs], np.full(len(self.floors), MOST)
        moved = np.arange(len(self.pairs))
        sweep = 0
        while len(moved) and sweep < SWEEPS:
            sweep += 1
            moved = self._divide(wants, moved, sweep > 1)
            wants, least = self._wants()
            changed = np.abs(wants - self.met) > NEAR * np.minimum(wants, self.met) + SMALL
            changed[moved] = True
            moved = np.flatnonzero(self._at_same_ports(changed))
        return self._finish(least, sweep, not len(moved))

    def _at_same_ports(self, entries: Flags) -> Flags:
        """Return all entries at the ports of some."""
        ports = np.zeros(len(self.capacities), np.bool_)
        ports[self.ports[entries]] = True
        return ports[self.ports]

    def _divide(self, wants: Floats, some: Ints, damp: bool) -> Ints:
        """Divide the ports of some entries, all of theirs; return the entries whose grants are still on their way."""
        sharing = Sharing(self.members, self.ports[some], self.machines[some], self.parts[some])
        capacities = self.capacities[self.ports[some][sharing.ports]]
        aim = sharing.divide(self.floors[self.pairs[some]], wants[some], capacities)
        aim = np.maximum(aim, SMALL)
        granted = self.granted[some]
        following = aim ** (1 - DAMPING) * granted**DAMPING if damp else aim
        self.granted[some] = following
        self.met[some] = wants[some]
        self.given[some] = np.minimum(wants[some], aim)
        # What is far above all that its pair may want does not matter.
        matters = np.minimum(aim, following) < self.demands[self.pairs[some]]
        return some[matters & (np.abs(following - aim) > NEAR * aim + SMALL)]

    def _wants(self) -> "tuple[Floats, Floats]":
        """Return what pairs want of the port of each entry, and what all ports of a pair grant it."""
        least = np.full(len(self.floors), MOST)
        ordered = self.granted[self.by_pair]
        least[self.pair_numbers] = np.minimum.reduceat(ordered, self.pair_starts) if len(ordered) else ordered
        tightest = np.full(len(self.floors), -1)
        tight = np.flatnonzero(self.granted == least[self.pairs])
        tightest[self.pairs[tight]] = tight
        tightest = tightest[tightest >= 0]
        others = self.granted.copy()
        others[tightest] = MOST
        second = np.full(len(self.floors), MOST)
        second[self.pair_numbers] = np.minimum.reduceat(others[self.by_pair], self.pair_starts) if len(ordered) else []
        wants = least[self.pairs]
        wants[tightest] = second[self.pairs[tightest]]
        return np.clip(wants, self.floors[self.pairs], self.demands[self.pairs]), least

    def _finish(self, least: Floats, sweeps: int, settled: bool) -> Solution:
        rates = self.demands.copy()
        np.minimum.at(rates, self.pairs, self.given)
        rates = np.maximum(self.floors, rates)
        bottlenecks = np.full(len(rates), -1)
        tight = self.granted <= least[self.pairs]
        tight &= least[self.pairs] < self.demands[self.pairs] * (1 - NEAR)
        bottlenecks[self.pairs[tight]] = self.ports[tight]
        return Solution(rates, bottlenecks, sweeps, settled)


def allot(
    machines: Mapping[Vm, Machine],
    pairs: "Mapping[tuple[Vm, Peer], Pair]",
    capacities: Mapping[Hop, float],
    tenants: Mapping[str, Tenant],
) -> "dict[tuple[Vm, Peer], Share]":
    """Return what each pair gets; a port without a capacity, bytes/s above 0, carries anything.

    KeyError for a pair of an unknown machine.  A tenant that is not there has no policy.
    """
    network, hops = number(machines, pairs, capacities, tenants)
    solution = solve(network)
    return {
        name: Share(float(rate), hops[port] if 0 <= port < len(hops) else None)
        for name, rate, port in zip(pairs, solution.rates, solution.bottlenecks)
    }


def number(
    machines: Mapping[Vm, Machine],
    pairs: "Mapping[tuple[Vm, Peer], Pair]",
    capacities: Mapping[Hop, float],
    tenants: Mapping[str, Tenant],
) -> tuple[Network, list[Hop]]:
    """Return a network in numbers, pairs as they come, with its ports by number; further ones are ceilings and caps."""
    builder = _Builder(machines, tenants)
    hops = builder.add_pairs(pairs, capacities)
    return builder.network(), hops


class _Builder(Generic[Vm]):
    """Numbers what names stand for."""

    def __init__(self, machines: Mapping[Vm, Machine], tenants: Mapping[str, Tenant]) -> None:
        self._machines = list(machines.values())
        self._numbers = {vm: number for number, vm in enumerate(machines)}
        self._names = {name: number for number, name in enumerate(tenants)}
        self._tenants = list(tenants.values())
        self._of: list[int] = []
        self._demands: list[float] = []
        self._entries: list[tuple[int, int, float]] = []  # pair, port, part
        self._capacities: list[float] = []

    def add_pairs(self, pairs: "Mapping[tuple[Vm, Peer], Pair]", capacities: Mapping[Hop, float]) -> list[Hop]:
        """Add all pairs with their ports; return the ports by number."""
        hops: dict[Hop, int] = {}
        for number, ((vm, _), pair) in enumerate(pairs.items()):
            self._of.append(self._numbers[vm])
            self._demands.append(pair.demand)
            for hop, part in pair.routes.items():
                if part > 0 and math.isfinite(capacities.get(hop, math.inf)):
                    if hop not in hops:
                        hops[hop] = len(hops)
                        self._capacities.append(capacities[hop])
                    self._entries.append((number, hops[hop], part))
        caps: dict[tuple[bool, int], int] = {}
        for number, of in enumerate(self._of):
            for key, high in self._bounds(of):
                if math.isfinite(high):
                    if key not in caps:
                        caps[key] = len(self._capacities)
                        self._capacities.append(high)
                    self._entries.append((number, caps[key], 1.0))
        return list(hops)

    def _bounds(self, of: int) -> "list[tuple[tuple[bool, int], float]]":
        """Return a machine's ceiling and its tenant's cap, bytes/s, and what they are known by."""
        machine = self._machines[of]
        found = [((False, of), max(machine.low, machine.high))]
        tenant = self._names.get(machine.tenant or "")
        if tenant is not None:
            found.append(((True, tenant), self._tenants[tenant].high))
        return found

    def network(self) -> Network:
        """Return the network."""
        owners = [self._names.get(machine.tenant or "", -1) for machine in self._machines]
        weighted = [owner if owner >= 0 and self._tenants[owner].weight is not None else -1 for owner in owners]
        pairs, ports, parts = zip(*self._entries) if self._entries else ((), (), ())
        return Network(
            Members(
                np.array([machine.weight for machine in self._machines], float),
                np.array(weighted, np.intp),
                np.array([tenant.weight or 1 for tenant in self._tenants], float),
            ),
            np.array([machine.low for machine in self._machines], float),
            np.array([tenant.low for tenant in self._tenants], float),
            np.array(self._of, np.intp),
            np.array(owners, np.intp),
            np.array(self._demands, float),
            np.array(pairs, np.intp),
            np.array(ports, np.intp),
            np.array(parts, float),
            np.array(self._capacities, float),
        )
