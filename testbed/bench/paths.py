# SPDX-License-Identifier: Apache-2.0
"""What rates by path cost a controller as networks grow: pairs a second and core, from the last answer to what is told.

A network has a port for each 50 pairs and a VM for each 5; a pair crosses 4 ports at random, as over two tiers of
switches.  What pairs could send is spread widely (log-normal), changes by 5% each period, and fills a quarter of the
ports; the others carry less than they may.  A row is either one controller with all ports, or one of ten, which has a
tenth of the ports and so, of most pairs, at most one.  Shims obey after one period.  The time of a period is from
readings as arrays to what is to be told as objects: requests, parsing, packing and signing are not in it.
"""

import argparse
import dataclasses
import json
import pathlib
import time
from typing import List

import numpy as np

from sdngcc.controller.rates.paths import ports, solver
from sdngcc.controller.rates.paths.sharing import Members
from sdngcc.controller.rates.paths.table import Entry

WAY = 4  # ports of a pair
PORT_PAIRS = 50
VM_PAIRS = 5
PERIOD_NS = 5_000_000
CAPACITY = 1.25e9  # bytes/s
BUSY = 0.25  # of the ports
WARM = 20  # periods before the first that counts
FREE = 1e12  # bytes/s: what a port that told nothing allows


@dataclasses.dataclass
class Row:
    """What the periods of one controller took, or one solution of the whole network."""

    name: str
    pairs: int  # of the network
    entries: int  # at the ports of this controller
    p50_ms: float  # of a period, by the clock
    p99_ms: float
    cpu_ms: float  # the mean
    pairs_a_second: float  # of CPU: those whose way crosses these ports, in the mean
    messages: float  # rates told in a period, in the mean


class Site:
    """A network's pairs, what they could send, and the ports of one of ``controllers`` controllers."""

    def __init__(self, pairs: int, controllers: int, seed: int = 1) -> None:
        self.chance = np.random.default_rng(seed)
        self.count = max(2 * WAY, pairs // PORT_PAIRS)
        self.ways = np.argsort(self.chance.random((pairs, min(self.count, 64))), axis=1)[:, :WAY]
        self.ways = (self.ways + self.chance.integers(0, self.count, (pairs, 1))) % self.count
        self.machines = self.chance.integers(0, max(2, pairs // VM_PAIRS), pairs)
        self.demands = self.chance.lognormal(0, 2, pairs)
        load = np.bincount(self.ways.ravel(), self.demands.repeat(WAY), self.count)
        self.demands *= CAPACITY / np.quantile(load, 1 - BUSY)
        self.pairs, place = np.nonzero(self.ways % controllers == 0)
        self.hops = self.ways[self.pairs, place]
        self.ports = ports.Ports()
        for hop in np.unique(self.hops).tolist():
            self.ports.set_capacity((2, hop), CAPACITY)
        join = self.ports.table.join
        self.numbers = np.array(
            [
                join(Entry((2, hop), (1, vm), pair))
                for hop, vm, pair in zip(self.hops.tolist(), self.machines[self.pairs].tolist(), self.pairs.tolist())
            ],
            np.intp,
        )
        self.told = np.full(len(self.numbers), FREE)
        self.now_ns = 0

    def period(self) -> "tuple[float, float, int]":
        """Run a period; return the seconds by the clock and of CPU time, and how many rates were told."""
        self.now_ns += PERIOD_NS
        wanted = self.demands * np.exp(self.chance.normal(0, 0.05, len(self.demands)))
        limits = np.full(len(wanted), FREE)
        np.minimum.at(limits, self.pairs, self.told)
        sent = np.minimum(wanted, limits)[self.pairs]
        states = np.where(
            wanted[self.pairs] <= limits[self.pairs],
            ports.IDLE,
            np.where(self.told == limits[self.pairs], ports.HERE, ports.ELSEWHERE),
        ).astype(np.int8)
        floors = np.zeros(len(sent))
        wall, cpu = time.perf_counter(), time.process_time()
        self.ports.read(self.numbers, sent, states, floors)
        told = self.ports.decide({}, self.now_ns)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        rows = self.ports.table.rows
        self.told[rows.numbers] = np.where(rows.told > 0, rows.told, FREE)
        return wall, cpu, len(told)

    def network(self) -> solver.Network:
        """Return the whole network as the solver takes it."""
        pairs, machines = len(self.demands), int(self.machines.max()) + 1
        none = np.full(machines, -1, np.intp)
        return solver.Network(
            Members(np.ones(machines), none, np.zeros(0)),
            np.zeros(machines),
            np.zeros(0),
            self.machines.astype(np.intp),
            none,
            self.demands,
            np.repeat(np.arange(pairs), WAY),
            self.ways.ravel().astype(np.intp),
            np.ones(pairs * WAY),
            np.full(self.count, CAPACITY),
        )


def measure(pairs: int, controllers: int, periods: int) -> Row:
    """Return what a controller's periods take."""
    site = Site(pairs, controllers)
    for _ in range(WARM):
        site.period()
    walls, cpus, told = np.array([site.period() for _ in range(periods)]).T
    share = f"one of {controllers}" if controllers > 1 else "alone"
    return Row(
        f"each port for itself, {share}",
        pairs,
        len(site.numbers),
        float(np.quantile(walls, 0.5) * 1e3),
        float(np.quantile(walls, 0.99) * 1e3),
        float(cpus.mean() * 1e3),
        len(site.numbers) / WAY / float(cpus.mean()),
        float(told.mean()),
    )


def solve(pairs: int) -> Row:
    """Return what a solution of the whole network takes."""
    network = Site(pairs, 1).network()
    wall, cpu = time.perf_counter(), time.process_time()
    solver.solve(network)
    wall, cpu = (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3
    return Row("solver, whole network", pairs, len(network.pairs), wall, wall, cpu, pairs / cpu * 1e3, 0.0)


def report(rows: List[Row]) -> None:
    """Print the rows."""
    print(
        f"{'':36} {'pairs':>8} {'entries':>8} {'p50, ms':>9} {'p99, ms':>9} {'CPU, ms':>9} {'pairs/s':>10} {'told':>7}"
    )
    for row in rows:
        print(
            f"{row.name:36} {row.pairs:8} {row.entries:8} {row.p50_ms:9.2f} {row.p99_ms:9.2f} {row.cpu_ms:9.2f} "
            f"{row.pairs_a_second:10.0f} {row.messages:7.0f}"
        )


def main() -> None:
    """Measure, print a table, write results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--periods", type=int, default=200)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    rows = [measure(pairs, 1, chosen.periods) for pairs in chosen.pairs]
    rows.append(measure(max(chosen.pairs), 10, chosen.periods))
    rows += [solve(pairs) for pairs in chosen.pairs]
    (chosen.out / "paths.json").write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    report(rows)


if __name__ == "__main__":
    main()
