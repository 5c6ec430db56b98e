# SPDX-License-Identifier: Apache-2.0
"""Two equally short ways, three VMs on one and two on the other: only VMs on the congested way are cut.

Five VMs under one leaf send TCP each to a receiver of its own under the other, over two spines. Whoever shares a way
with two others gets a third of a link, with one other half of it. Were marks of a way charged to all who could have
taken it, all would be cut alike. Under ``multipath=flow`` the leaf hashes each VM's connections over both ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.controller.network.topology import Topology
from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    at_least,
    given,
    jain,
    near,
    sink_rates,
)
from sdngcc.testbed.parameters import parse_settings
from sdngcc.testbed.workload import FIRST_PORT

DEFAULTS: Dict[str, Any] = {"topology": "spines", "senders": 5, "receivers": 5, "link_mbps": 200,
                            "phases": (0.1, 3.9, 0), "flows": 4, "backpressure": False}
WAYS = ("destination", "pair", "flow")
# Datapath id of leaf1: the first fabric switch (mininet/topologies/fabric.py).
LEAF = 0x1001
# Its ports to the spines, its first links (mininet/topologies/spines.py).
UPLINKS = (1, 2)
# From here on rates are judged.
SETTLED_S = 2.0


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for each way to choose among ways, or the one the user chose."""
    if given(settings, "multipath"):
        return [Case("", parse_settings(settings, DEFAULTS))]
    return [Case(f"multipath={way}", parse_settings(settings, {**DEFAULTS, "multipath": way})) for way in WAYS]


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return each VM's payload rate once settled, Mb/s."""
    rates = sink_rates(raw, run, SETTLED_S)
    return {f"vm{port - FIRST_PORT + 1}": rate for port, rate in sorted(rates.items())}


def way_of(index: int, multipath: str) -> int:
    """Return the spine, 0 or 1, over which the first leaf sends the index-th VM's packets to its receiver."""
    source, target = (bytes((2, 0, 0, 0, network, index + 1)) for network in (0, 1))
    key = target if multipath == "destination" else source + target
    return UPLINKS.index(Topology.choose(LEAF, UPLINKS, key))


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each VM's rate by how many share its way."""
    verdicts = []
    for _, run in runs:
        parameters, rates = run["parameters"], run["measured"]
        line, way = parameters["link_mbps"] * TCP_PAYLOAD, parameters["multipath"]
        if way == "flow":
            used = round(sum(rates.values()) / (2 * line), 4)
            verdicts.append(at_least("use of both ways, multipath=flow", used, 0.8))
            index = round(jain(list(rates.values())), 4)
            verdicts.append(Verdict("Jain's index of the VMs, multipath=flow", "as measured", index, True))
            continue
        taken = [way_of(index, way) for index in range(parameters["senders"])]
        for number, mine in enumerate(taken, 1):
            verdicts.append(near(f"vm{number} on spine{mine + 1} among {taken.count(mine)}, Mb/s, multipath={way}",
                                 rates[f"vm{number}"], line / taken.count(mine), 0.15))
    return verdicts


EXPERIMENT = Experiment("ways", "Five VMs over two equally short ways", "ours", cases, judge, measure,
                        seen="VMs get their part of the way they take, not of the fuller one",
                        changed="Guests' sockets do not wait for packets in the fabric since it was measured "
                                "(`backpressure=false`), as those of VMs do not. While they did, vm1's one connection "
                                "had 73 of 96 Mb/s with seed 1, from 0.4 s on: its limiter let through the whole link, "
                                "but TCP lets a millisecond's packets wait below it, which was all of the fabric, so "
                                "its window stayed as the start had left it.")
