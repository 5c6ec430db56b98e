# SPDX-License-Identifier: Apache-2.0
"""Controllers, shims and the way between them, in periods of 5 ms; a network as solver.py takes it."""

import collections
import random
from typing import Deque, Dict, Hashable, List, Mapping, Optional, Tuple

import numpy as np

from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths import ports, solver, table
from sdngcc.controller.rates.paths.solver import Machine, Pair

PERIOD_NS = 5_000_000
TIMEOUT_NS = 200_000_000  # the shim's rate-timeout
AWAY = 1e15  # bytes/s

Name = Tuple[Hop, Hashable]  # machine and destination
Reading = Dict[Name, Tuple[float, Optional[Hop], bool]]  # bytes/s, port that holds it, whether anything does


class Loop:
    """Ports dealt out to controllers; messages and readings are late by periods, and messages may be lost."""

    def __init__(
        self,
        machines: Mapping[Hop, Machine],
        pairs: Mapping[Name, Pair],
        capacities: Mapping[Hop, float],
        controllers: int = 3,
        late: int = 1,
        old: int = 0,
        loss: float = 0.0,
        seed: int = 0,
        names: bool = True,
    ) -> None:
        """``names``: shims tell which port holds a pair, not only at what rate."""
        self.machines, self.pairs, self.capacities = dict(machines), {}, dict(capacities)
        self.late, self.old, self.loss, self.names = late, old, loss, names
        self.now_ns = PERIOD_NS
        self.rates: Dict[Name, float] = {}
        self.sent = 0  # messages
        self._chance = random.Random(seed)
        self._owners = {hop: at % controllers for at, hop in enumerate(sorted(capacities))}
        self.controllers = [ports.Ports(headroom=0.0) for _ in range(controllers)]
        self._entries: List[Dict[Tuple[Hop, Name], int]] = [{} for _ in range(controllers)]
        self._flying: List[Tuple[int, ports.Told]] = []
        self._readings: Deque[Reading] = collections.deque()
        self._limits: Dict[Name, Dict[Hop, Tuple[float, int]]] = collections.defaultdict(dict)
        for hop, capacity in capacities.items():
            self.controllers[self._owners[hop]].set_capacity(hop, capacity)
        for vm, machine in machines.items():
            for controller in self.controllers:
                controller.table.set_machine(vm, table.Machine(machine.weight))
        for name, pair in pairs.items():
            self.join(name, pair)

    def join(self, name: Name, pair: Pair) -> None:
        self.pairs[name] = pair
        for hop, part in pair.routes.items():
            at = self._owners[hop]
            self._entries[at][hop, name] = self.controllers[at].table.join(table.Entry(hop, *name), part)

    def leave(self, name: Name) -> None:
        for hop in self.pairs.pop(name).routes:
            at = self._owners[hop]
            self.controllers[at].table.leave(self._entries[at].pop((hop, name)))

    def load(self, hop: Hop) -> float:
        """Return what part of a port is used."""
        through = sum(pair.routes.get(hop, 0.0) * self.rates[name] for name, pair in self.pairs.items())
        return through / self.capacities[hop]

    def aim(self) -> Dict[Name, float]:
        """Return what the solver says."""
        return {
            name: share.rate for name, share in solver.allot(self.machines, self.pairs, self.capacities, {}).items()
        }

    def error(self, aim: Mapping[Name, float]) -> float:
        """Return by what part of it a rate is farthest from its aim."""
        return max(abs(self.rates[name] / rate - 1) for name, rate in aim.items())

    def settle(self, most: int, within: float = 0.03) -> int:
        """Run for ``most`` periods; return after how many of them rates were within their aims for good."""
        aim = self.aim()
        last = 0
        for period in range(1, most + 1):
            self.run()
            if self.error(aim) > within:
                last = period
        return last

    def run(self, periods: int = 1) -> None:
        for _ in range(periods):
            self._hear()
            self._readings.append(self._send())
            if len(self._readings) > self.old:
                self._decide(self._readings.popleft())
            self.now_ns += PERIOD_NS

    def _hear(self) -> None:
        for at_ns, told in self._flying:
            if at_ns <= self.now_ns:
                self._limits[told.vm, told.peer][told.port] = (told.rate, self.now_ns + TIMEOUT_NS)
        self._flying = [(at_ns, told) for at_ns, told in self._flying if at_ns > self.now_ns]

    def _send(self) -> Reading:
        """Let shims send; a machine's ceiling is divided evenly among what its destinations may have."""
        holds: Dict[Name, Tuple[float, Optional[Hop]]] = {}
        by_machine: Dict[Hop, List[Name]] = {}
        for name in self.pairs:
            limits = [(rate, hop) for hop, (rate, end_ns) in self._limits[name].items() if end_ns > self.now_ns]
            holds[name] = min(limits, default=(AWAY, None))
            by_machine.setdefault(name[0], []).append(name)
        reading: Reading = {}
        for vm, names in by_machine.items():
            left = self.machines[vm].high
            wants = {name: min(self.pairs[name].demand, holds[name][0]) for name in names}
            for at, name in enumerate(sorted(names, key=lambda one: wants[one])):
                rate = min(wants[name], left / (len(names) - at))
                left -= rate
                self.rates[name] = rate
                held = rate < self.pairs[name].demand
                reading[name] = (rate, holds[name][1] if held and rate == holds[name][0] else None, held)
        return reading

    def _decide(self, reading: Reading) -> None:
        for entries, controller in zip(self._entries, self.controllers):
            known = [(number, hop, reading[name]) for (hop, name), number in entries.items() if name in reading]
            states = [
                ports.HERE if holder == hop else ports.ELSEWHERE if held else ports.IDLE
                for _, hop, (_, holder, held) in known
            ]
            numbers = np.array([number for number, _, _ in known], np.intp)
            rates = np.array([rate for _, _, (rate, _, _) in known], float)
            held = np.array([held for _, _, (_, _, held) in known], np.bool_)
            # Who is held sends all it may, be it a port's rate or what the machine's ceiling leaves.
            judged = np.array(states, np.int8) if self.names else controller.judge(numbers, rates, held)
            controller.read(numbers, rates, judged, np.zeros(len(known)))
            for told in controller.decide({}, self.now_ns):
                self.sent += 1
                if self._chance.random() >= self.loss:
                    self._flying.append((self.now_ns + self.late * PERIOD_NS, told))


def dense(seed: int, unit: float = 1e6) -> Tuple[Dict[Hop, Machine], Dict[Name, Pair], Dict[Hop, float]]:
    """Return up to 8 machines with up to 32 pairs that all want much, over up to 6 ports, each by up to 4 of them."""
    chance = np.random.default_rng(seed)
    count, hops = int(chance.integers(2, 9)), [(2, at) for at in range(int(chance.integers(2, 7)))]
    machines = {
        (1, at): Machine(
            float(chance.choice([1, 1, 1, 2, 5])),
            high=unit * chance.uniform(0.5, 10) if chance.random() < 0.5 else AWAY,
        )
        for at in range(count)
    }
    pairs: Dict[Name, Pair] = {}
    for peer in range(int(chance.integers(count, 4 * count + 1))):
        ways = chance.choice(len(hops), int(chance.integers(1, min(4, len(hops)) + 1)), replace=False)
        vm = (1, peer if peer < count else int(chance.integers(0, count)))
        pairs[vm, peer] = Pair({hops[at]: float(chance.choice([1, 1, 1, 0.5])) for at in ways}, 20 * unit)
    return machines, pairs, {hop: unit * chance.uniform(1, 10) for hop in hops}
