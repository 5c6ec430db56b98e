# SPDX-License-Identifier: Apache-2.0
"""The definition of docs/laws.md, "Rates by path", as a mixed-integer linear programme; HiGHS solves it, by SciPy.

Whatever is feasible is a division as defined, and every such division is feasible.  So the largest and the least value
of a sum of rates tell whether there is one division or many, and bounds on rates whether there is one near them.
"""

import math
from typing import Dict, List, Optional, Tuple

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array

from sdngcc.controller.rates.paths.solver import Network

BIG = 200.0  # more than any level or rate; capacities are some 10 at most


class Programme:
    """Rates of pairs as variables 0 and up, levels and choices after them."""

    def __init__(self, network: Network, floors: np.ndarray) -> None:
        self.rows: List[Dict[int, float]] = []
        self.least: List[float] = []
        self.low: List[float] = []
        self.high: List[float] = []
        self.whole: List[int] = []
        self.network = network
        self.floors = floors
        for floor, demand in zip(floors, network.demands):
            self.variable(floor, max(floor, min(demand, BIG)))
        self.members: Dict[int, Dict[int, Dict[int, List[Tuple[int, float]]]]] = {}
        count = len(network.members.tenant_weights)
        for pair, port, part in zip(network.pairs.tolist(), network.ports.tolist(), network.parts.tolist()):
            vm = int(network.of[pair])
            tenant = int(network.members.tenants[vm])
            group = tenant if tenant >= 0 else count + vm
            self.members.setdefault(port, {}).setdefault(group, {}).setdefault(vm, []).append((pair, part))
        # A pair has its demand, or one of its ports holds it.
        holders: List[Dict[int, float]] = [{} for _ in floors]
        for port, groups in self.members.items():
            self.port(port, groups, holders)
        for pair, demand in enumerate(network.demands.tolist()):
            has = self.choice()
            holders[pair][has] = 1.0
            self.at_least({pair: 1.0, has: -BIG}, max(float(floors[pair]), min(demand, BIG)) - BIG)
            self.at_least(holders[pair], 1.0)

    def variable(self, low: float, high: float) -> int:
        self.low.append(low)
        self.high.append(high)
        return len(self.low) - 1

    def choice(self) -> int:
        """Return a variable that is 0 or 1."""
        self.whole.append(self.variable(0.0, 1.0))
        return self.whole[-1]

    def at_least(self, row: Dict[int, float], least: float) -> None:
        self.rows.append(dict(row))
        self.least.append(least)

    def below(self, row: Dict[int, float], floor: float, level: int, weight: float) -> None:
        """Let a sum be at most weight * level, or its floor."""
        negative = {one: -part for one, part in row.items()}
        if floor <= 0:
            self.at_least({**negative, level: weight}, 0.0)
            return
        at_floor = self.choice()
        self.at_least({**negative, level: weight, at_floor: BIG}, 0.0)
        self.at_least({**negative, at_floor: -BIG}, -floor - BIG)

    def port(self, port: int, groups: dict, holders: List[Dict[int, float]]) -> None:
        """Add a port's capacity, its levels, and what it takes to hold a pair there."""
        network = self.network
        count = len(network.members.tenant_weights)
        entries = [entry for vms in groups.values() for pairs in vms.values() for entry in pairs]
        floor = sum(part * self.floors[pair] for pair, part in entries)
        capacity = max(float(network.capacities[port]), floor)
        load = dict(entries)
        self.at_least({pair: -part for pair, part in entries}, -capacity)
        level = self.variable(0.0, BIG)
        for group, vms in groups.items():
            weight = network.members.tenant_weights[group] if group < count else network.members.weights[group - count]
            inside = [entry for pairs in vms.values() for entry in pairs]
            self.below(dict(inside), sum(part * self.floors[pair] for pair, part in inside), level, weight)
            among = self.variable(0.0, BIG)
            for vm, pairs in vms.items():
                own = network.members.weights[vm]
                self.below(dict(pairs), sum(part * self.floors[pair] for pair, part in pairs), among, own)
                among_pairs = self.variable(0.0, BIG)
                for pair, _ in pairs:
                    self.below({pair: 1.0}, self.floors[pair], among_pairs, 1.0)
                    held = self.choice()
                    holders[pair][held] = 1.0
                    self.at_least({**load, held: -BIG}, capacity - BIG)
                    self.at_least({**dict(inside), level: -weight, held: -BIG * weight}, -BIG * weight)
                    self.at_least({**dict(pairs), among: -own, held: -BIG * own}, -BIG * own)
                    self.at_least({pair: 1.0, among_pairs: -1.0, held: -BIG}, -BIG)

    def solve(
        self, aim: np.ndarray, low: Optional[np.ndarray] = None, high: Optional[np.ndarray] = None
    ) -> Optional[np.ndarray]:
        """Return the division between bounds with the least sum of aim * rate; None: there is none."""
        count = len(self.floors)
        lows, highs = np.array(self.low), np.array(self.high)
        if low is not None and high is not None:
            lows[:count], highs[:count] = np.maximum(lows[:count], low), np.minimum(highs[:count], high)
        data = [(at, one, part) for at, row in enumerate(self.rows) for one, part in row.items()]
        matrix = csr_array(
            ([part for _, _, part in data], ([at for at, _, _ in data], [one for _, one, _ in data])),
            shape=(len(self.rows), len(self.low)),
        )
        whole = np.zeros(len(self.low))
        whole[self.whole] = 1
        cost = np.zeros(len(self.low))
        cost[:count] = aim
        result = milp(
            cost,
            integrality=whole,
            bounds=(lows, highs),
            constraints=LinearConstraint(matrix, self.least, math.inf),
            options={"time_limit": 20},
        )
        return result.x[:count] if result.x is not None else None
