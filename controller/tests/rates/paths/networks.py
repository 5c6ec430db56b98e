# SPDX-License-Identifier: Apache-2.0
"""Networks made at random, as arrays."""

import numpy as np

from sdngcc.controller.rates.paths.sharing import Members
from sdngcc.controller.rates.paths.solver import Network


def small(seed: int, guarantees: bool = True) -> Network:
    """Return a network of 2 to 5 machines with up to 10 pairs over 2 to 4 ports of 1 to 10 bytes/s, ceilings beside."""
    chance = np.random.default_rng(seed)
    machines, ports = int(chance.integers(2, 6)), int(chance.integers(2, 5))
    count = int(chance.integers(machines, 2 * machines + 1))
    of = np.concatenate((np.arange(machines), chance.integers(0, machines, count - machines)))
    entries = [
        (pair, int(port), float(chance.choice([1.0, 1.0, 0.5])))
        for pair in range(count)
        for port in chance.choice(ports, int(chance.integers(1, min(3, ports) + 1)), replace=False)
    ]
    capacities = list(chance.uniform(1, 10, ports))
    for machine in range(machines):
        if chance.random() < 0.4:
            entries += [(int(pair), len(capacities), 1.0) for pair in np.flatnonzero(of == machine)]
            capacities.append(chance.uniform(1, 10))
    tenants = chance.integers(-1, 2, machines) if chance.random() < 0.4 else np.full(machines, -1)
    lows = np.where(chance.random(machines) < 0.2, 0.3, 0.0) if guarantees else np.zeros(machines)
    return Network(
        Members(chance.choice([1.0, 1.0, 2.0, 5.0], machines), tenants, chance.choice([1.0, 3.0], 2)),
        lows,
        np.zeros(2),
        of,
        tenants,
        np.where(chance.random(count) < 0.7, np.inf, chance.uniform(0.1, 5, count)),
        np.array([pair for pair, _, _ in entries]),
        np.array([port for _, port, _ in entries]),
        np.array([part for _, _, part in entries]),
        np.array(capacities),
    )


def floors(network: Network) -> np.ndarray:
    """Return each pair's part of its machine's guarantee: all alike, but for those that can use less."""
    found = np.zeros(len(network.demands))
    for machine, low in enumerate(network.lows.tolist()):
        left = [int(pair) for pair in np.argsort(network.demands, kind="stable") if network.of[pair] == machine]
        while left:
            pair, part = left[0], low / len(left)
            found[pair] = min(part, network.demands[pair])
            low -= found[pair]
            left.pop(0)
    return found
