# SPDX-License-Identifier: Apache-2.0
"""Weighted max-min rates over many ports, with guarantees and ceilings.

A machine i of weight w_i may send between low_i (its guarantee) and high_i (its ceiling, or what it can use), and
a part f_ip of its bytes leaves by port p, which carries c_p bytes/s.  As water rises to level x, the machine sends

    r_i(x) = max(low_i, min(high_i, w_i * x))

until a port p of its route is full: the sum of f_jp * r_j = c_p.  Then all who send through p stop at that level,
and the water rises for the others.  In the end each machine has its ceiling, its guarantee, or a full port where
nobody above his guarantee has a larger r_j / w_j: none can get more without one who has no more, by weight, getting
less (Bertsekas and Gallager, Data Networks, section 6.5.2, with weights and bounds).

Guarantees hold even where a port cannot carry them all: the shim keeps them in any case.

Where machines belong to tenants with a weight, a guarantee or a cap of their own, hierarchy.py divides instead.
"""

import heapq
import math
from typing import Generic, Mapping, NamedTuple, Optional, TypeVar

from sdngcc.controller.network.topology import Hop

Vm = TypeVar("Vm")


class Claim(NamedTuple):
    """What one machine may send; rates in bytes/s."""

    routes: Mapping[Hop, float]  # port -> part of the machine's bytes, above 0 and up to 1
    weight: int = 1
    low: float = 0.0
    high: float = math.inf  # less than low counts as low


class Allotment(NamedTuple):
    """What one machine gets."""

    rate: float  # bytes/s; infinite for a machine with neither a ceiling nor a port on its way
    level: float  # the lowest water level, bytes/s for a unit of weight, at the full ports of its way; else infinite
    bottleneck: Optional[Hop]  # the port of that level; None: no port of its way is full, or it is a tenant's cap


class Port:
    """A port while water rises."""

    def __init__(self, capacity: float) -> None:
        self.left = capacity
        self.shares: list[tuple[Claim, float]] = []  # who is still rising here, with the part of its bytes

    def level(self) -> float:
        """Return the level at which the port is full; infinite if it never is, 0 if guarantees fill it."""
        steps = []
        total = 0.0
        for claim, part in self.shares:
            total += part * claim.low
            if claim.high > claim.low:
                steps.append((claim.low / claim.weight, part * claim.weight))
                steps.append((claim.high / claim.weight, -part * claim.weight))
        return rise(total, self.left, steps)


def rise(total: float, left: float, steps: list[tuple[float, float]]) -> float:
    """Return the level at which what is sent, a total at level 0, has risen to what is left; infinite if it never does.

    ``steps`` are levels with the change there of what is sent more for each unit of level.
    """
    level, slope = 0.0, 0.0
    for at, change in sorted(steps):
        if slope > 0 and total + slope * (at - level) >= left:
            return level + max(0.0, left - total) / slope
        if at < math.inf:
            total += slope * (at - level)
            level = at
        slope += change
    return math.inf if total <= left else level if steps else 0.0


def rate_at(claim: Claim, level: float) -> float:
    """Return what a machine sends while water stands at a level."""
    return max(claim.low, min(claim.high, claim.weight * level))


def allot(claims: Mapping[Vm, Claim], capacities: Mapping[Hop, float]) -> dict[Vm, Allotment]:
    """Return each machine's rate; a port without a capacity, bytes/s, carries anything."""
    ports = {hop: Port(capacity) for hop, capacity in capacities.items()}
    users: dict[Hop, dict[Vm, float]] = {}
    for vm, claim in claims.items():
        for hop, part in claim.routes.items():
            if hop in ports and part > 0:
                users.setdefault(hop, {})[vm] = part
    rising = _Rising(claims, ports, users)
    return {vm: rising.settled.get(vm) or Allotment(rate_at(claim, math.inf), math.inf, None)
            for vm, claim in claims.items()}  # fmt: skip


class _Rising(Generic[Vm]):
    """The water's rise: ports fill one after the other, the one with the lowest level first."""

    def __init__(self, claims: Mapping[Vm, Claim], ports: dict[Hop, Port], users: dict[Hop, dict[Vm, float]]) -> None:
        self.settled: dict[Vm, Allotment] = {}
        levels = []
        for hop, parts in users.items():
            ports[hop].shares = [(claims[vm], part) for vm, part in parts.items()]
            levels.append((ports[hop].level(), hop))
        heapq.heapify(levels)
        while levels and math.isfinite(levels[0][0]):
            _, hop = heapq.heappop(levels)
            # Who stopped elsewhere stopped lower: the level can only have risen since it was computed.
            ports[hop].shares = [(claims[vm], part) for vm, part in users[hop].items() if vm not in self.settled]
            level = ports[hop].level()
            if levels and level > levels[0][0]:
                heapq.heappush(levels, (level, hop))
            elif math.isfinite(level):
                self._settle(claims, ports, users, hop, level)

    def _settle(
        self,
        claims: Mapping[Vm, Claim],
        ports: dict[Hop, Port],
        users: dict[Hop, dict[Vm, float]],
        full: Hop,
        level: float,
    ) -> None:
        for vm in users[full]:
            if vm in self.settled:
                continue
            rate = rate_at(claims[vm], level)
            self.settled[vm] = Allotment(rate, level, full)
            for hop, part in claims[vm].routes.items():
                if hop in ports:
                    ports[hop].left -= part * rate
