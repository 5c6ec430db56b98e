# SPDX-License-Identifier: Apache-2.0
"""Weighted max-min rates divided by tenant first, then by machine.

Machine i of weight w_i may send between low_i and high_i, and a part f_ip of its bytes leaves by port p, which carries
c_p bytes/s (maxmin.py).  It belongs to a tenant t, which has a weight W_t, a guarantee L_t and a cap H_t.  A machine
without a tenant, or whose tenant has no weight, stands for itself at every port: T_ip(y) = f_ip * r_i(y).

*A port.*  What the machines of tenant t send through p is T_tp = sum of f_ip * r_i.  Water rises to level y_p for
tenants and, within what a tenant has, to level x_tp for its machines:

    r_i(x)  = max(low_i, min(high_i, w_i * x))                F_tp(x) = sum over t's machines of f_ip * r_i(x)
    T_tp(y) = max(F_tp(0), min(F_tp(inf), W_t * y))           F_tp(x_tp) = T_tp(y_p)

y_p is the level at which the sum of T_tp(y) is c_p.  So the port grants machine i r_i(x_tp), and both levels are those
of a port with guarantees and ceilings (maxmin.rise()).  What a machine cannot use is its tenant's other machines', what
a tenant cannot use is the other tenants'.

*A cap* is a port that all of the tenant's machines cross with all of their bytes (f = 1) and nobody else does:
c = H_t.  So it is held wherever the machines are.

*The network.*  Each machine has its ceiling, its guarantee, or a full port where no machine of its tenant has more by
weight and no tenant has more by weight; who is at its guarantee there does not count.  With one machine for each
tenant this is weighted max-min, and ports could be filled one after the other, the lowest level first (maxmin.py).
With more, how much a machine weighs differs from port to port, and the lowest level says nothing.  Instead each port is
divided among machines that want no more of it than their other ports grant them, one port after the other:

    u_ip = min(high_i, min over ports q other than p of what q granted i last)           at first high_i
    p grants i  max(low_i, w_i * x_tp)  with the levels as above, but u_ip in place of high_i

as distributed flow control does for machines of equal weight (Charny, Clark and Jain, ICC 1995).  When no u_ip changes
any more the condition above holds.  Whenever one stops, no port is overloaded: what a port grants its machines, or they
want of it, adds up to c_p at most, and r_i is the least of all that i's ports grant it and it wants of them.

Grants need not settle: ports that weigh two machines in opposite ways, and are each the bottleneck of one of them, let
many divisions meet the condition, and grants may go round among these.  So it ends after ROUNDS divisions of each port
on average.  Who is behind such ports may then have more or less than the condition says.  In any case the machines rise
together at last, in proportion to what they have, until their ports are full, and nothing is left over.

*A guarantee* L_t is the tenant's, wherever its machines send, so it is divided among those that send: by weight, to
none more than high_i, to none less than low_i.  Ports are first divided for the machines' own guarantees and these
parts alone; what each got is its guarantee when all is divided.  So, unlike that of a machine, the guarantee of a
tenant gives way where ports cannot carry all of them.
"""

import math
from collections import deque
from typing import Generic, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union

from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates import maxmin
from sdngcc.controller.rates.maxmin import Allotment, Claim

Vm = TypeVar("Vm")
Group = Union[str, int]  # a tenant that is divided as a whole, or a machine that stands for itself
User = tuple[int, float]  # a machine at a port, and the part of its bytes that leave by it

ROUNDS = 12
NEAR = 1e-4  # what changes by less than this part does not change
EXACT = 1e-9  # a port that is filled but for this part is full
FULL = 1e-3  # of a port's capacity: where less is left over it is what bounds
SMALL = 1e-3  # bytes/s
MOST = 1e15  # bytes/s; more counts alike


class Tenant(NamedTuple):
    """What all machines of a tenant may send together; rates in bytes/s."""

    weight: Optional[int] = None  # None: its machines stand for themselves
    low: float = 0.0
    high: float = math.inf


def allot(
    claims: Mapping[Vm, Claim],
    capacities: Mapping[Hop, float],
    members: Mapping[Vm, str],
    tenants: Mapping[str, Tenant],
) -> dict[Vm, Allotment]:
    """Return each machine's rate; a port without a capacity, bytes/s, carries anything.

    ``members`` has the tenants of machines, ``tenants`` what is set for these; machines and tenants that are not there
    have none.  A machine that its tenant's cap bounds has a finite level, and no bottleneck.
    """
    network = Network(claims, capacities, members, tenants)
    guaranteed = network.guarantees()
    if guaranteed is not None:
        network.lows = network.solve(network.lows, guaranteed)
    return network.allotments(network.solve(network.lows, network.highs))


class Network(Generic[Vm]):
    """Machines and ports by number, tenants' caps among the latter; solve() divides, allotments() tells the outcome.

    ``settled`` tells whether grants did, or ROUNDS ended it.
    """

    def __init__(
        self,
        claims: Mapping[Vm, Claim],
        capacities: Mapping[Hop, float],
        members: Mapping[Vm, str],
        tenants: Mapping[str, Tenant],
    ) -> None:
        self.settled = True
        self.lows = [claim.low for claim in claims.values()]
        self.highs = [max(claim.low, claim.high) for claim in claims.values()]
        self.weights = [claim.weight for claim in claims.values()]
        self.groups: list[Group] = []  # of each machine
        self.ways: list[list[tuple[int, float]]] = []  # of each machine: ports, and the part of its bytes
        self.users: list[list[User]] = []  # of each port
        self._vms = list(claims)
        self._tenants = tenants
        self._members: dict[str, list[int]] = {}
        self._hops: list[Optional[Hop]] = []  # of each port; None: a tenant's cap
        self._capacities: list[float] = []
        numbers: dict[Hop, int] = {}
        for number, (vm, claim) in enumerate(claims.items()):
            name = members.get(vm)
            tenant = None if name is None else tenants.get(name)
            self.groups.append(number)
            if name is not None and tenant is not None:
                self._members.setdefault(name, []).append(number)
                if tenant.weight is not None:
                    self.groups[number] = name
            self.ways.append([])
            for hop, part in claim.routes.items():
                if part > 0 and math.isfinite(capacities.get(hop, math.inf)):
                    if hop not in numbers:
                        numbers[hop] = self._add_port(hop, capacities[hop])
                    self._join(number, numbers[hop], part)
        for name, those in self._members.items():
            if math.isfinite(tenants[name].high):
                cap = self._add_port(None, tenants[name].high)
                for number in those:
                    self._join(number, cap, 1.0)

    def _add_port(self, hop: Optional[Hop], capacity: float) -> int:
        self._hops.append(hop)
        self._capacities.append(capacity)
        self.users.append([])
        return len(self._hops) - 1

    def _join(self, number: int, port: int, part: float) -> None:
        self.users[port].append((number, part))
        self.ways[number].append((port, part))

    def guarantees(self) -> Optional[list[float]]:
        """Return what each machine is guaranteed, its part of its tenant's included; None: no tenant has any."""
        found: Optional[list[float]] = None
        for name, numbers in self._members.items():
            if self._tenants[name].low <= 0:
                continue
            found = list(self.lows) if found is None else found
            total, steps = self._rising([(number, 1.0, self.highs[number]) for number in numbers], self.lows)
            level = maxmin.rise(total, self._tenants[name].low, steps)
            for number in numbers:
                found[number] = max(self.lows[number], min(self.highs[number], self.weights[number] * level))
        return found

    def _rising(
        self, users: Sequence[tuple[int, float, float]], lows: Sequence[float]
    ) -> tuple[float, list[tuple[float, float]]]:
        """Return what machines send at level 0, and the steps by which that rises (maxmin.rise()).

        Of each there are its number, the part of its bytes, and what it wants.
        """
        total, steps = 0.0, []
        for number, part, want in users:
            low, weight = lows[number], self.weights[number]
            total += part * low
            if want > low:
                steps.append((low / weight, part * weight))
                steps.append((want / weight, -part * weight))
        return total, steps

    def solve(self, lows: Sequence[float], highs: Sequence[float]) -> list[float]:
        """Return the rate of each machine, which may send between lows and highs."""
        grants = _Grants(self, lows, highs)
        self.settled = grants.settle(ROUNDS * len(self.users))
        return self._fill(grants.rates(), highs)

    def divide(self, port: int, lows: Sequence[float], wants: Sequence[float]) -> dict[Group, float]:
        """Return the levels at a port by tenant and machine; who gets all it wants is left out.

        ``lows`` are by machine, ``wants`` by user of the port.
        """
        inside: dict[Group, list[tuple[int, float, float]]] = {}
        for (number, part), want in zip(self.users[port], wants):
            inside.setdefault(self.groups[number], []).append((number, part, want))
        total, steps = 0.0, []
        tenants = {}
        for group, members in inside.items():
            low, rising = self._rising(members, lows)
            if isinstance(group, str):
                weight, high = self._tenants[group].weight or 1, sum(part * want for _, part, want in members)
                tenants[group] = (weight, low, high, rising)
                rising = [(low / weight, weight), (high / weight, -weight)] if high > low else []
            total += low
            steps += rising
        level = maxmin.rise(total, self._capacities[port] * (1 - EXACT), steps)
        if level == math.inf:
            return {}
        found: dict[Group, float] = {group: level for group in inside if group not in tenants}
        for group, (weight, low, high, rising) in tenants.items():
            part = max(low, min(high, weight * level))
            if part < high:
                found[group] = maxmin.rise(low, part, rising)
        return found

    def _fill(self, rates: Sequence[float], highs: Sequence[float]) -> list[float]:
        """Return rates that have risen, in proportion, until ports are full."""
        claims = {
            number: Claim({(port, 0): part for port, part in ways}, max(1, round(min(rate, MOST))), rate, highs[number])
            for number, (ways, rate) in enumerate(zip(self.ways, rates))
        }
        filled = maxmin.allot(claims, {(port, 0): capacity for port, capacity in enumerate(self._capacities)})
        return [filled[number].rate for number in range(len(rates))]

    def allotments(self, rates: Sequence[float]) -> dict[Vm, Allotment]:
        """Return what machines get, with what bounds them, when they send at these rates."""
        parts = [self._parts(port, rates) for port in range(len(self._hops))]
        found = {}
        for number, vm in enumerate(self._vms):
            own = rates[number] / self.weights[number]
            level, bottleneck = math.inf, None
            for port, _ in self.ways[number]:
                there = parts[port]
                if there is not None and max(own, there[self.groups[number]]) < level:
                    level, bottleneck = max(own, there[self.groups[number]]), self._hops[port]
            found[vm] = Allotment(rates[number], level, bottleneck)
        return found

    def _parts(self, port: int, rates: Sequence[float]) -> Optional[dict[Group, float]]:
        """Return what a port gives the machines that want more, by tenant and machine, for a unit of weight.

        Who wants less has the part that it would have if it did not, or all machines of its tenant did not.
        None for a port that is not full.
        """
        capacity = self._capacities[port]
        if capacity - sum(part * rates[number] for number, part in self.users[port]) > FULL * capacity + SMALL:
            return None
        sent: dict[Group, float] = {}  # by weight
        highest: dict[Group, float] = {}  # of the tenant's machines, by weight
        weights: dict[Group, float] = {}  # of its machines, as parts of its own
        for number, part in self.users[port]:
            group, own = self.groups[number], rates[number] / self.weights[number]
            weight = 1.0
            if isinstance(group, str):
                weight = part * self.weights[number] / (self._tenants[group].weight or 1)
            sent[group] = sent.get(group, 0.0) + weight * own
            weights[group] = weights.get(group, 0.0) + weight
            above = own if rates[number] > self.lows[number] * (1 + NEAR) + SMALL else 0.0
            highest[group] = max(highest.get(group, 0.0), above)
        level = max((sent[group] for group, above in highest.items() if above), default=0.0)
        return {group: above + max(0.0, level - sent[group]) / weights[group] for group, above in highest.items()}


def _differ(one: float, other: float) -> bool:
    """Tell whether two rates differ by more than is worth while."""
    return one != other and abs(one - other) > NEAR * min(one, other) + SMALL


class _Grants:
    """What ports grant machines, and what these want of ports."""

    def __init__(self, network: Network[Vm], lows: Sequence[float], highs: Sequence[float]) -> None:
        self._network = network
        self._lows = lows
        self._highs = highs
        self._wants = [[highs[number] for number, _ in users] for users in network.users]
        self._met = [list(wants) for wants in self._wants]  # when a port was divided last
        self._places = [{number: place for place, (number, _) in enumerate(users)} for users in network.users]
        self._levels: list[dict[Group, float]] = [{} for _ in network.users]

    def settle(self, most: int) -> bool:
        """Divide ports until nobody wants anything else of any, at most so many times; return whether it came to that.

        Each port is divided once at least.
        """
        network = self._network
        waiting = deque(range(len(network.users)))
        changed = set(waiting)
        while waiting and most > 0:
            most -= 1
            divided = waiting.popleft()
            changed.remove(divided)
            self._met[divided] = list(self._wants[divided])
            before = self._levels[divided]
            self._levels[divided] = levels = network.divide(divided, self._lows, self._wants[divided])
            moved = {
                group
                for group in before.keys() | levels.keys()
                if _differ(before.get(group, math.inf), levels.get(group, math.inf))
            }
            for number, _ in network.users[divided] if moved else ():
                if network.groups[number] in moved:
                    for port in self._want(number, divided):
                        if port not in changed:
                            changed.add(port)
                            waiting.append(port)
        return not waiting

    def _want(self, number: int, divided: int) -> list[int]:
        """Find out what a machine wants of the ports beside the one just divided; return those it wants other of."""
        ways = self._network.ways[number]
        if len(ways) == 1:
            return []
        least, second, tightest = self._least(number)
        low, high, weight = self._lows[number], self._highs[number], self._network.weights[number]
        usual = max(low, min(high, weight * least))
        found = []
        for port, _ in ways:
            if port == divided:
                continue
            want = usual if port != tightest else max(low, min(high, weight * second))
            place = self._places[port][number]
            if _differ(want, self._wants[port][place]):
                self._wants[port][place] = want
                found.append(port)
        return found

    def _least(self, number: int) -> tuple[float, float, int]:
        """Return the two lowest levels that ports grant a machine, and the port of the lowest."""
        group = self._network.groups[number]
        least = second = math.inf
        tightest = -1
        for port, _ in self._network.ways[number]:
            level = self._levels[port].get(group, math.inf)
            if level < least:
                least, second, tightest = level, least, port
            elif level < second:
                second = level
        return least, second, tightest

    def _grant(self, number: int, level: float) -> float:
        return max(self._lows[number], min(self._highs[number], self._network.weights[number] * level))

    def rates(self) -> list[float]:
        """Return what all ports of each machine grant it, and it wanted of them."""
        found = []
        for number, ways in enumerate(self._network.ways):
            met = (self._met[port][self._places[port][number]] for port, _ in ways)
            found.append(min(self._grant(number, self._least(number)[0]), min(met, default=math.inf)))
        return found
