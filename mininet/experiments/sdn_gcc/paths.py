# SPDX-License-Identifier: Apache-2.0
"""What VMs of racks are due by path, and whether they had it.

The yardstick is the solver (controller/rates/paths/solver.py, docs/laws.md, "Rates by path"). In all VMs must have 95%
of what its rates add up to, and through each port that these fill every VM within 5% of its part there. A VM whose
uplink holds it divides what it has there among its receivers itself; ports behind are judged by what it made of it.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from sdngcc.controller.rates.paths.solver import Machine, Pair, allot
from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    UDP_PAYLOAD,
    Run,
    Verdict,
    at_least,
    settled_phase,
    sink_rates,
    vm_frame_mbps,
)
from sdngcc.testbed.parameters import Parameters, make_parameters
from sdngcc.testbed.workload import FIRST_PORT

TOTAL = 0.95  # of what the solver's rates add up to
PART = 0.05  # of a VM's part of a port
FULL = 0.99  # of what a port may carry: more fills it
HEADROOM = 0.01  # that maxmin leaves

Port = Tuple[str, str]  # whose it is, and to whom
Names = Tuple[str, str]  # a VM and a receiver


class Due(NamedTuple):
    """What a pair should have."""

    rate: float  # Mb/s of full frames
    way: List[Port]
    by_uplink: bool  # the VM's uplink holds it


def judges(run: Run) -> bool:
    """Tell whether a run is judged here."""
    parameters = make_parameters(run["parameters"])
    return parameters.by_path and parameters.topology == "racks" and not parameters.tenant_sizes


def _pairs(parameters: Parameters) -> List[Tuple[int, int]]:
    """Return who sends to whom, by number, in the order of flows in the usual three periods."""
    return [(index, receiver) for index in range(parameters.senders) for receiver in parameters.receivers_of(index)]


def _names(index: int, receiver: int) -> Names:
    return f"vm{index + 1}", f"rx{receiver + 1}"


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return each pair's payload rate in Mb/s, from the third second of period all to its end; racks have these."""
    parameters = make_parameters(run["parameters"])
    if parameters.topology != "racks":
        return {}
    shared = settled_phase(run, "all")
    rates = sink_rates(raw, run, shared["settled_start_s"], shared["end_s"])
    return {">".join(_names(*pair)): rates[FIRST_PORT + number] for number, pair in enumerate(_pairs(parameters))}


def _way(parameters: Parameters, index: int, receiver: int) -> List[Port]:
    """Return the ports from a VM to a receiver (topologies/racks.py) that can be full."""
    hypervisor = parameters.hypervisor(index)
    near, far = f"tor{hypervisor[2]}", f"tor{(receiver + 1) % 2 + 1}"
    between = [(near, "core"), ("core", far)] if near != far else []
    return [(hypervisor, near), *between, (far, f"rx{receiver + 1}")]


def due(run: Run, chosen: Mapping[Names, float] = MappingProxyType({})) -> Dict[Names, Due]:
    """Return what is due to each pair.

    ``chosen`` are pairs that want just so many Mb/s of full frames, and that no uplink holds.
    """
    parameters, link = make_parameters(run["parameters"]), vm_frame_mbps(run)
    machines = {
        (0, index): Machine(parameters.weight(index), parameters.guarantee_mbps(index),
                            parameters.maximum_mbps(index) or math.inf) for index in range(parameters.senders)}
    ways = {pair: _way(parameters, *pair) for pair in _pairs(parameters)}
    numbers = {port: (1, number) for number, port in enumerate(sorted({port for way in ways.values() for port in way}))}
    pairs = {}
    for (index, receiver), way in ways.items():
        offered = (parameters.udp_mbps or parameters.link_mbps) / len(parameters.receivers_of(index))
        demand = chosen.get(_names(index, receiver), offered if parameters.protocol(index) == "udp" else math.inf)
        holding = way[1:] if _names(index, receiver) in chosen else way
        pairs[(0, index), receiver] = Pair({numbers[port]: 1.0 for port in holding}, demand)
    carried = link * (1 - HEADROOM) if parameters.law == "maxmin" else link
    shares = allot(machines, pairs, dict.fromkeys(numbers.values(), carried), {})
    found = {}
    for (index, receiver), way in ways.items():
        share = shares[(0, index), receiver]
        found[_names(index, receiver)] = Due(share.rate, way, share.bottleneck == numbers[way[0]])
    return found


def judge(run: Run) -> List[Verdict]:
    """Judge what was carried in all, and at each port that the solver fills who is farthest from his part there."""
    parameters, expected = make_parameters(run["parameters"]), due(run)
    payload = {vm: UDP_PAYLOAD if parameters.protocol(index) == "udp" else TCP_PAYLOAD
               for index, vm in enumerate(parameters.vm_names)}
    got = {(vm, receiver): run["measured"][f"{vm}>{receiver}"] / payload[vm] for vm, receiver in expected}
    choosing = {vm for (vm, _), one in expected.items() if one.by_uplink}
    behind = due(run, {names: rate for names, rate in got.items() if names[0] in choosing})
    total = sum(one.rate * payload[vm] for (vm, _), one in expected.items())
    carried = sum(run["measured"].values())
    verdicts = [at_least("all VMs, of the solver's rates by path", round(carried / total, 3), TOTAL)]
    through: Dict[Port, Dict[str, List[float]]] = {}
    for names, one in expected.items():
        for port in one.way:
            sums = through.setdefault(port, {}).setdefault(names[0], [0.0, 0.0])
            sums[0] += got[names]
            sums[1] += one.rate if port == one.way[0] else behind[names].rate
    most = max(sum(wanted for _, wanted in vms.values()) for vms in through.values())
    for port, vms in sorted(through.items()):
        if sum(wanted for _, wanted in vms.values()) >= FULL * most:
            parts = {vm: round(rate / wanted, 3) for vm, (rate, wanted) in vms.items()}
            farthest = max(parts, key=lambda vm: abs(parts[vm] - 1))
            verdicts.append(Verdict(f"{'-'.join(port)}: what the VM farthest from its part had of it",
                                    f"1 within {PART:.0%}", f"{parts[farthest]} ({farthest})",
                                    abs(parts[farthest] - 1) <= PART))
    return verdicts
