# SPDX-License-Identifier: Apache-2.0
"""What tracker and agents decide, as plain objects: reference weights, scale factors, weights of peers, whom to obey.

W'_t of a tunnel follows from its flows (SCC, Algorithms 1 to 3); the tracker's factor is
lambda_d = W_d / (sum of all W_d) / (sum of W'_t over the division), and W_t = lambda_d * W'_t (equations (3), (4)).
Law scc takes W_t in 1/10000. Times are seconds of a clock that only goes forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Hashable, List, Optional, Sequence, Tuple, TypeVar

# All divisions' weights together, as law scc counts them, and the largest weight the shim accepts.
WHOLE, WEIGHT_MAX = 10_000, 65_535
# The least part of its division's weight a tunnel has: one that wakes up is not stuck until the next period.
LEAST = 0.01
# Latency-sensitive tunnels (Algorithm 3): target queue of a flow in bytes, the time to drain more in seconds, and the
# initial window of a flow, ten packets, which it needs each round trip.
LS_QUEUE_BYTES, LS_SLOT_S, LS_WINDOW_BYTES, LS_RTT_S = 15_000, 0.005, 15_000, 0.0003

# A division's sum of W' below this counts as none: the least that a flow of 2^53 bytes brings about is 1e-16.
LEAST_SUM = 1e-20

OBJECTIVES = ("ds", "cs", "ls")

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Flow:
    """A flow that a workload registered."""

    left: int
    """Bytes left to send; of a latency-sensitive flow, bytes in its queue."""
    deadline_s: float = 0.0
    """Time left to the deadline; 0 or less: none, or past."""


@dataclass(frozen=True)
class Division:
    """A set of VMs with one weight and one objective."""

    weight: int
    objective: str
    """ds, cs or ls: deadline-, completion- or latency-sensitive."""


def reference_weight(objective: str, flows: Sequence[Flow]) -> float:
    """Return W'_t of a tunnel with those flows; only ratios within a division mean anything. 0 without flows.

    ds: sum of M / delta, bytes/s, of flows whose deadline is ahead. cs: sum of 1 / M. ls: bytes/s that the flows'
    windows need, and that drain what their queues hold above target. Raises ValueError for another objective.
    """
    if objective == "ds":
        return sum(flow.left / flow.deadline_s for flow in flows if flow.deadline_s > 0)
    if objective == "cs":
        return sum(1 / flow.left for flow in flows if flow.left > 0)
    if objective == "ls":
        window = len(flows) * LS_WINDOW_BYTES / LS_RTT_S
        return window + sum(max(flow.left - LS_QUEUE_BYTES, 0) / LS_SLOT_S for flow in flows)
    raise ValueError(f"objective '{objective}': allowed are {', '.join(OBJECTIVES)}")


class Factors:
    """The tracker's whole state: the sums of W' that hosts told last. It is rebuilt within one period of theirs."""

    def __init__(self, divisions: Dict[str, Division], stale_s: float = 1.0) -> None:
        """Begin with no hosts; one that says nothing for stale_s counts no more."""
        self._divisions = divisions
        self._stale_s = stale_s
        self._hosts: Dict[str, Tuple[float, Dict[str, float]]] = {}

    def set_divisions(self, divisions: Dict[str, Division]) -> None:
        """Divide by other divisions from now on; what hosts told of those that are gone counts no more."""
        self._divisions = divisions
        self._hosts = {
            host: (told_s, {name: wanted for name, wanted in sums.items() if name in divisions})
            for host, (told_s, sums) in self._hosts.items()
        }

    def tell(self, host: str, sums: Dict[str, float], now_s: float) -> None:
        """Take a host's sum of W' for each division. Raises ValueError naming a division that does not exist."""
        for name in sums:
            if name not in self._divisions:
                raise ValueError(f"host {host}: division '{name}' is not among {', '.join(sorted(self._divisions))}")
        self._hosts[host] = (now_s, sums)

    def factors(self, now_s: float) -> Dict[str, float]:
        """Return lambda_d of each division; 0 where nothing is to be sent."""
        self._hosts = {host: told for host, told in self._hosts.items() if now_s - told[0] <= self._stale_s}
        whole = sum(division.weight for division in self._divisions.values())
        found = {}
        for name, division in self._divisions.items():
            wanted = sum(sums.get(name, 0.0) for _, sums in self._hosts.values())
            found[name] = WHOLE * division.weight / whole / wanted if wanted >= LEAST_SUM else 0.0
        return found


def peer_weights(references: Dict[Key, float], factor: float, division: Division,
                 divisions: Dict[str, Division]) -> Dict[Key, int]:
    """Return the weight of each tunnel of a division on one host, from its W' and the tracker's factor."""
    whole = sum(one.weight for one in divisions.values())
    least = WHOLE * division.weight / whole * LEAST
    return {tunnel: min(max(round(max(factor * reference, least)), 1), WEIGHT_MAX)
            for tunnel, reference in references.items()}


class Choice:
    """Which of several trackers an agent obeys: the first in its list that answered lately.

    All are told everything, so a standby knows what the first one knew, and nothing is handed over.
    """

    def __init__(self, count: int, takeover_s: float) -> None:
        """Choose among count trackers; one that has not answered for takeover_s is passed over."""
        self._heard: List[Optional[float]] = [None] * count
        self._takeover_s = takeover_s

    def heard(self, index: int, now_s: float) -> None:
        """Note an answer."""
        self._heard[index] = now_s

    def current(self, now_s: float) -> Optional[int]:
        """Return the index of the tracker to obey; None when none answers."""
        for index, at_s in enumerate(self._heard):
            if at_s is not None and now_s - at_s <= self._takeover_s:
                return index
        return None
