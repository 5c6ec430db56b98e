# SPDX-License-Identifier: Apache-2.0
"""What DS and CS could have at best: their flows on a link that is shared as fluid, without TCP, queues or delays.

Either all flows share alike, as those of equal TCPs would, or each division that sends has an equal part, which its
flows share alike: perfect isolation, which wastes nothing. Within a division flows may go in the order of the objective
instead, one at a time. The flows are those of divisions-load.

    python -m sdngcc.experiments.scc.sharing --load 80 --seed 1
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from typing import Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, mean, percentile
from sdngcc.experiments.scc import interference
from sdngcc.experiments.scc.divisions import DEFAULTS, ORDERS, groups_of
from sdngcc.experiments.scc.objectives import Flow, Group, draw
from sdngcc.testbed.parameters import make_parameters

# What is less than this of a flow is nothing, bits.
NOTHING_BITS = 1e-3
NS = 1e9


@dataclass
class Sending:
    """A flow on its way; times in seconds."""

    division: int
    number: int
    """In its division's schedule."""
    due_s: float
    left_bits: float
    deadline_s: Optional[float]
    """Absolute; None: it has none."""

    def key(self, now_s: float, rate: float) -> Tuple[bool, float]:
        """Return what orders it in a division of that rate: what can be met by deadline, then the rest by size."""
        if self.deadline_s is None:
            return False, self.left_bits
        late = self.left_bits > rate * (self.deadline_s - now_s)
        return late, self.left_bits if late else self.deadline_s


def rates_of(active: Sequence[Sending], now_s: float, link: float, apart: bool, ordered: bool) -> List[float]:
    """Return the rate of each flow on a link, bit/s."""
    members: Dict[int, List[Sending]] = {}
    for flow in active:
        members.setdefault(flow.division, []).append(flow)
    rates = {}
    for number, flows in members.items():
        part = link / len(members) if apart else link * len(flows) / len(active)
        first = min(flows, key=partial(Sending.key, now_s=now_s, rate=part)) if ordered else None
        for flow in flows:
            rates[number, flow.number] = part / len(flows) if first is None else part * (flow is first)
    return [rates[flow.division, flow.number] for flow in active]


def completions(divisions: Sequence[Sequence[Flow]], link: float, apart: bool, ordered: bool) -> List[List[float]]:
    """Return how long each flow of each division takes on a link of so many bit/s, seconds."""
    coming = sorted((Sending(division, number, due / NS, size * 8, (due + deadline) / NS if deadline else None)
                     for division, flows in enumerate(divisions) for number, (due, size, deadline) in enumerate(flows)),
                    key=lambda flow: -flow.due_s)
    took = [[0.0] * len(flows) for flows in divisions]
    active: List[Sending] = []
    now_s = 0.0
    while coming or active:
        rates = rates_of(active, now_s, link, apart, ordered)
        ends = [now_s + flow.left_bits / rate for flow, rate in zip(active, rates) if rate]
        until_s = min([*ends, *(flow.due_s for flow in coming[-1:])])
        for flow, rate in zip(active, rates):
            flow.left_bits -= rate * (until_s - now_s)
        now_s = until_s
        for flow in active:
            if flow.left_bits <= NOTHING_BITS:
                took[flow.division][flow.number] = now_s - flow.due_s
        active = [flow for flow in active if flow.left_bits > NOTHING_BITS]
        if coming and coming[-1].due_s <= now_s:
            active.append(coming.pop())
    return took


def rows(load: float, seed: int) -> List[str]:
    """Return a line of text for each way to share, of a load as divisions-load has it."""
    parameters = make_parameters(DEFAULTS)
    flows = [draw(group, group.vms[0], parameters.duration_s, seed)
             for group in groups_of(parameters, ("ds", "cs"), load / 2)]
    lines = []
    for order in ORDERS:
        for apart in (False, True):
            ds, cs = completions(flows, parameters.link_mbps * 1e6 * TCP_PAYLOAD, apart, order == "ordered")
            missed = mean([float(took > deadline / NS) for took, (_, _, deadline) in zip(ds, flows[0])])
            lines.append(f"{order}, {'divisions' if apart else 'all flows'} share: DS misses {missed:.4f}, p99 "
                         f"{percentile(ds, 99) * 1e3:.1f} ms; CS mean {mean(cs) * 1e3:.2f} ms")
    return lines


def row_alone(load: int, seed: int) -> str:
    """Return a line that has how long CS takes alone and beside DS, all flows alike, as interference has them."""
    whole = make_parameters(interference.DEFAULTS)
    means = []
    for objectives in (("cs",), ("ds", "cs")):
        parameters = interference.case_of("", objectives, load, whole).parameters
        flows = [draw(Group(name, name, (f"vm{number + 1}",), load / 100 * whole.link_mbps / 2), f"vm{number + 1}",
                      parameters.duration_s, seed) for number, name in enumerate(objectives)]
        took = completions(flows, parameters.link_mbps * 1e6 * TCP_PAYLOAD, False, False)
        means.append(mean(took[-1]) * 1e3)
    return f"CS alone {means[0]:.2f} ms, beside DS {means[1]:.2f}: {means[1] / means[0]:.3f}"


def main(words: Optional[Sequence[str]] = None) -> None:
    """Print what each way to share makes of a load and a seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--load", type=float, default=80, help="what each division brings, percent of half of the link")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="how long CS takes beside DS by how long alone")
    chosen = parser.parse_args(words)
    print(row_alone(round(chosen.load), chosen.seed) if chosen.alone else "\n".join(rows(chosen.load, chosen.seed)))


if __name__ == "__main__":
    main()
