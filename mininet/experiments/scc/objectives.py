# SPDX-License-Identifier: Apache-2.0
"""The work of SCC's experiments: divisions of VMs whose flows are latency-, deadline- or completion-sensitive.

As in the paper (section II.B), flows arrive at random (Poisson); those of deadline- and completion-sensitive divisions
have 2 to 198 KB, uniform, and deadlines are 5 to 25 ms, uniform; a latency-sensitive division sends messages of 2 KB.
As there, LS uses DCTCP, DS D2TCP and CS L2DCT; the last two, which Linux has not, are the laboratory's own
(testbed/congestion). What differs: each flow opens a connection, but messages go over persistent ones, as connecting
for each would cost the testbed ten times its time; and a message's round trip is the time until it arrived plus the
round trip without queues, as only one direction has any. A simulator's TCP begins without a handshake, and with other
constants: handshake=early, initial_window and rto_min_ms are for that.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import Program, Run, Workload, mean, percentile
from sdngcc.testbed.parameters import Parameters
from sdngcc.testbed.statistics import quantiles

# Bytes of flows and of messages, deadlines in ms.
FLOW_BYTES, MESSAGE_BYTES, DEADLINE_MS = (2_000, 198_000), 2_000, (5.0, 25.0)
# Persistent connections of a latency-sensitive VM.
CONNECTIONS = 8
# Nothing begins in the last part of a run, so that what is under way can end, seconds.
TAIL_S = 0.5
FIRST_PORT = 7001
# Congestion controls of senders by objective, the paper's.
PROTOCOLS = {"ls": "dctcp", "ds": "d2tcp", "cs": "l2dct"}
# What orders flows in a tunnel, by objective (SCC, Algorithms 1 and 2).
ORDERS = {"ls": "none", "ds": "deadline", "cs": "size"}

# A flow: due, bytes, deadline from then (0: none); times in ns.
Flow = Tuple[int, int, int]


@dataclass(frozen=True)
class Group:
    """The VMs of one division and what they send."""

    name: str
    objective: str
    """ls, ds or cs."""
    vms: Tuple[str, ...]
    mbps: float
    """Payload of all together in the mean, Mb/s."""
    weight: int = 1


def draw(group: Group, vm: str, duration_s: float, seed: int) -> List[Flow]:
    """Return the flows of one of the group's VMs; the same for the same names and seed, whatever the law."""
    dice = random.Random(f"{seed} {group.objective} {vm}")
    low, high = (MESSAGE_BYTES, MESSAGE_BYTES) if group.objective == "ls" else FLOW_BYTES
    gap_ns = (low + high) / 2 * 8 / (group.mbps / len(group.vms) * 1e6) * 1e9
    flows: List[Flow] = []
    due = dice.expovariate(1) * gap_ns
    while due < (duration_s - TAIL_S) * 1e9:
        deadline = dice.uniform(*DEADLINE_MS) * 1e6
        flows.append((round(due), dice.randint(low, high), round(deadline) if group.objective == "ds" else 0))
        due += dice.expovariate(1) * gap_ns
    return flows


def tcp_routes(parameters: Parameters, vm: str, receiver: str) -> List[Program]:
    """Return what gives the TCP of a VM the initial window and the least timeout that are asked for; mostly nothing.

    A receiver that holds an ACK back for 40 ms would let a shorter timeout pass.
    """
    window, rto_ms = parameters.initial_window, parameters.rto_min_ms
    metrics = [*(("initcwnd", str(window)) if window else ()), *(("rto_min", f"{rto_ms:g}ms") if rto_ms else ())]
    ends = [(vm, receiver, metrics), (receiver, vm, ["quickack", "1"] if rto_ms else [])]
    return [Program(f"route-{one}-{other}", one,
                    ("ip", "route", "add", f"{{ip:{other}}}/32", "dev", f"{one}-eth0", *wanted))
            for one, other, wanted in ends if wanted]


def workload(parameters: Parameters, groups: Sequence[Group], seed: int, ordered: bool,
             agents: Optional[Dict[str, str]] = None) -> Workload:
    """Return the work of the groups, group i's to receiver i, drawn from the seed.

    ordered lets VMs send their flows in the order of the objective. agents are the sockets at which VMs register what
    they have to send; a VM without one does not. Receivers always echo marks as DCTCP does.
    """
    work = Workload()
    work.own_protocols = True
    port = FIRST_PORT
    for number, group in enumerate(groups):
        receiver = f"rx{number + 1}"
        for vm in group.vms:
            common = ("--port", str(port), "--start", "{start}", "--end", "{end}", "--cc")
            hears, sends = ["{generator}", "arrivals", *common, "dctcp", "--out", f"{{out}}/arrivals-{vm}.txt"], [
                "{generator}", "workload", *common, PROTOCOLS[group.objective], "--to", f"{{ip:{receiver}}}",
                "--schedule", f"/run/flows-{vm}"]
            if group.objective == "ls":
                hears += ["--message", str(MESSAGE_BYTES)]
                sends += ["--connections", str(CONNECTIONS)]
            elif ordered:
                sends += ["--order", ORDERS[group.objective]]
            if parameters.handshake == "early":
                sends.append("--early")
            if agents and vm in agents:
                sends += ["--register", agents[vm]]
            flows = draw(group, vm, parameters.duration_s, seed)
            schedule = "".join(f"{due} {size} {deadline}\n" for due, size, deadline in flows)
            for route in tcp_routes(parameters, vm, receiver):
                work.program(route)
            work.program(Program(f"arrivals-{vm}", receiver, tuple(hears)))
            work.program(Program(f"workload-{vm}", vm, tuple(sends), to=(receiver,),
                                 files={f"/run/flows-{vm}": schedule}))
            port += 1
    return work


def summarise(flows: List[Flow], arrived: Dict[int, int], end_ns: int) -> Dict[str, Any]:
    """Return numbers of flows, completion times in ms, goodput in Mb/s, and the part that missed its deadline.

    arrived has the times of arrival by the flow's number. A flow that has not arrived by end_ns took until then at
    least, which is what it counts as, and missed its deadline. Goodput is of what arrived while flows began.
    """
    busy_ns = end_ns - TAIL_S * 1e9
    took = [(arrived.get(number, end_ns) - due) / 1e6 for number, (due, _, _) in enumerate(flows)]
    missed = [number for number, (_, _, deadline) in enumerate(flows)
              if deadline and (number not in arrived or took[number] * 1e6 > deadline)]
    with_deadline = sum(1 for flow in flows if flow[2])
    return {
        "flows": len(flows), "unfinished": len(flows) - len(arrived),
        "mean_ms": round(mean(took), 4), "p50_ms": round(percentile(took, 50), 4),
        "p99_ms": round(percentile(took, 99), 4),
        "quantiles_ms": quantiles(took, 4),
        "mbps": round(sum(flows[number][1] for number, at_ns in arrived.items() if at_ns < busy_ns) * 8e3 / busy_ns, 1),
        "missed": round(len(missed) / with_deadline, 5) if with_deadline else None,
    }


def measure_groups(raw: Path, run: Run) -> Dict[str, Any]:
    """Return what became of the flows of each group of VMs; a group is a receiver's."""
    job = json.loads((raw / "job.json").read_text())
    end_ns = round(job["duration_s"] * 1e9)
    found: Dict[str, Tuple[List[Flow], Dict[int, int]]] = {}
    for program in job["programs"]:
        if not program["name"].startswith("workload-"):
            continue
        vm = program["vm"]
        lines = program["files"][f"/run/flows-{vm}"].splitlines()
        flows, arrived = found.setdefault(program["to"][0], ([], {}))
        for line in (raw / f"arrivals-{vm}.txt").read_text().splitlines():
            number, at_ns = line.split()
            arrived[len(flows) + int(number)] = int(at_ns)
        for line in lines:
            due, size, deadline = line.split()
            flows.append((int(due), int(size), int(deadline)))
    return {receiver: summarise(flows, arrived, end_ns) for receiver, (flows, arrived) in sorted(found.items())}
