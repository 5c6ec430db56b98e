# SPDX-License-Identifier: Apache-2.0
"""SCC's divisions in a simulation: agents and tracker in one, with the tracker's own decisions.

What differs from the daemons (docs/tracker.md): all agents tell at the same time, and their datagrams take no time of
their own; the simulator has new weights in force a delay after the period.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from sdngcc.tracker.decision import WEIGHT_MAX, Division, Factors, Flow, peer_weights, reference_weight

# A tunnel that has had nothing to send for so long has no weight any more, as at the agents.
REGISTERED_S = 1.0
# The division's weight is divided anew so often, as the agents' default is.
PERIOD_NS = 5_000_000

Tunnel = Tuple[int, int]
"""Numbers of the VM that sends and of the one that receives."""


class Divisions:
    """Weights of tunnels. objectives has each VM's, whose name its division bears; all weigh the same.

    times multiplies the weights of tunnels, so that those of a division add up to more than its own.
    """

    def __init__(self, objectives: Sequence[str], period_ns: int = PERIOD_NS, times: int = 1) -> None:
        self.period_ns = period_ns
        self._objectives = list(objectives)
        self._times = times
        self._divisions = {name: Division(1, name) for name in sorted(set(objectives))}
        self._factors = Factors(self._divisions)
        self._seen: Dict[Tunnel, float] = {}
        self._told: Dict[Tunnel, int] = {}

    def weigh(self, now_s: float, tunnels: Dict[Tunnel, List[Flow]]) -> List[Tuple[int, int, int]]:
        """Return the tunnels whose weight is another one now: who sends, who receives, weight (0: none)."""
        self._seen.update(dict.fromkeys(tunnels, now_s))
        self._seen = {tunnel: at_s for tunnel, at_s in self._seen.items() if now_s - at_s <= REGISTERED_S}
        references: Dict[str, Dict[Tunnel, float]] = {name: {} for name in self._divisions}
        for tunnel in self._seen:
            name = self._objectives[tunnel[0]]
            references[name][tunnel] = reference_weight(name, tunnels[tunnel]) if tunnel in tunnels else 0.0
        self._factors.tell("all", {name: sum(own.values()) for name, own in references.items()}, now_s)
        factors = self._factors.factors(now_s)
        weights: Dict[Tunnel, int] = {}
        for name, own in references.items():
            given = peer_weights(own, factors[name], self._divisions[name], self._divisions)
            weights.update({tunnel: min(weight * self._times, WEIGHT_MAX) for tunnel, weight in given.items()})
        told = [(*tunnel, weights.get(tunnel, 0)) for tunnel in sorted({*weights, *self._told})
                if weights.get(tunnel) != self._told.get(tunnel)]
        self._told = weights
        return told
