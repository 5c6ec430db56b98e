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


def leaf_spine(racks: int, hosts: int, machines: int, count: int, seed: int = 1) -> Network:
    """Return machines on hosts of racks below 4 spines, a third less capacity between racks than below them.

    A pair leaves by its host's port, by its leaf's to a spine, by the spine's to the other leaf, and by that one's to
    the other host.
    """
    chance = np.random.default_rng(seed)
    spines, every = 4, racks * hosts
    at = chance.integers(0, every, machines)
    of, to = chance.integers(0, machines, count), chance.integers(0, machines, count)
    near, far, spine = at[of], at[to], chance.integers(0, spines, count)
    away, outside = near != far, near // hosts != far // hosts
    ways = [(near, away), (every + far, away)]
    ways.append((2 * every + near // hosts * spines + spine, outside))
    ways.append((2 * every + (racks + far // hosts) * spines + spine, outside))
    numbers = np.arange(count)
    return Network(
        Members(chance.choice([1.0, 2.0, 4.0], machines), np.full(machines, -1), np.zeros(0)),
        np.zeros(machines),
        np.zeros(0),
        of,
        np.full(machines, -1),
        np.where(chance.random(count) < 0.5, 1e9, chance.lognormal(16, 2, count)),
        np.concatenate([numbers[some] for _, some in ways]),
        np.concatenate([ports[some] for ports, some in ways]),
        np.ones(sum(int(some.sum()) for _, some in ways)),
        np.concatenate((np.full(2 * every, 1.25e9), np.full(2 * racks * spines, 1.25e9 * hosts / spines * 2 / 3))),
    )
