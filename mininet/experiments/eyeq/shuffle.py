# SPDX-License-Identifier: Apache-2.0
"""Three all-to-all jobs with 1, 2 and 4 connections a pair, and guarantees of 4, 2 and 1: EyeQ's Fig. 8.

The paper's 16 servers are 4 here, each with one worker of each job; its 1 TB a job is what keeps a line busy for a
second or so. Each job moves the same bytes between each pair of servers, divided among its connections.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, Case, Experiment, Run, Verdict, Workload, at_most, given, without_law
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.statistics import quantiles

JOBS = ("P1", "P2", "P4")
CONNECTIONS = (1, 2, 4)
# Each job moves so much over each server's line, in seconds of that line.
LOAD_S = 0.3
# A job may take so many times as long as under ideal weighted shares of what is given out of a line without ECN.
SLOWEST, HEADROOM = 1.15, 0.9
# What less than that is left of is over, seconds.
LEAST_S = 1e-9

DEFAULTS: Dict[str, Any] = {
    "law": "eyeq", "topology": "star", "senders": 9, "vms_per_hypervisor": 3, "receivers": 3, "weights": (4, 2, 1),
    "link_mbps": 10000, "rtt_us": 50, "buffer_packets": 667, "mark_percent": 90, "phases": (0, 2, 0),
    "horizon_us": 250}


def workers(parameters: Parameters, job: int) -> List[str]:
    """Return the VMs of a job, one on each server; those of the last server are receivers by name only."""
    jobs = len(JOBS)
    return [*(f"vm{number * jobs + job + 1}" for number in range(parameters.senders // jobs)), f"rx{job + 1}"]


def workload(parameters: Parameters) -> Workload:
    """Return all transfers, begun together."""
    work = Workload()
    for job, (name, count) in enumerate(zip(JOBS, CONNECTIONS)):
        vms = workers(parameters, job)
        size = round(parameters.link_mbps * 1e6 / 8 * LOAD_S / (len(vms) - 1) / count)
        for one in vms:
            for other in vms:
                if one != other:
                    work.short(one, other, 0, parameters.duration_s, size, count=count, requests=count, name=name)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the run without a shim and the one with the law."""
    chosen = parse_settings(settings, DEFAULTS)
    runs = []
    if not given(settings, "law"):
        bare = parse_settings(without_law(settings), {**DEFAULTS, "law": "none"})
        runs.append(Case("law=none", bare, workload(bare)))
    return [*runs, Case(f"law={chosen.law}", chosen, workload(chosen))]


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return when each job's last transfer ended, seconds; None: not within the run.

    Also quantiles of the times of its transfers, seconds, of those that ended.
    """
    requests = run["requests"]
    took: Dict[str, List[float]] = {name: [] for name in JOBS}
    for flow in json.loads((raw / "job.json").read_text())["flows"]:
        rows = (raw / f"requests-{flow['port']}.txt").read_text().splitlines()[1:]
        took[flow["name"]] += [int(row.split()[2]) / 1e9 for row in rows if int(row.split()[2]) >= 0]
    return {"done_s": {name: None if requests[name]["unfinished"] else round(requests[name]["max_us"] / 1e6, 3)
                       for name in JOBS},
            "quantiles_s": {name: quantiles(times, 4) for name, times in took.items()}}


def ideal_s(weights: Sequence[float], part: float) -> List[float]:
    """Return when each job would end if the lines were always divided by weight among jobs that are not over, seconds.

    part is the part of a line that payload can have. All lines are alike, so one stands for all: of n jobs that move L
    seconds of it each, the heaviest ends first, and what it had is divided anew.
    """
    left = [LOAD_S] * len(weights)
    ends, now = [0.0] * len(weights), 0.0
    while any(left):
        active = [job for job, rest in enumerate(left) if rest]
        rates = {job: part * weights[job] / sum(weights[other] for other in active) for job in active}
        step = min(left[job] / rates[job] for job in active)
        now += step
        for job in active:
            left[job] -= rates[job] * step
            if left[job] < LEAST_S:
                left[job], ends[job] = 0.0, now
    return ends


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge when each job ends, with a law by its weights, without one by its connections."""
    verdicts, last = [], {}
    for label, run in runs:
        done, parameters = run["measured"]["done_s"], run["parameters"]
        ended = {name: parameters["phases"][1] if time is None else time for name, time in done.items()}
        last[label] = max(ended.values())
        order = " ".join(f"{name} {done[name]}" for name in sorted(JOBS, key=ended.__getitem__))
        verdicts.append(Verdict(f"order of completion, {label}", "as measured", order, True,
                                paper="P1 first with 4:2:1, P4 first without EyeQ"))
        bare = parameters["law"] == "none"
        weights = CONNECTIONS if bare else parameters["weights"][:len(JOBS)]
        ideal = ideal_s(weights, TCP_PAYLOAD * (1.0 if bare else HEADROOM))
        for name, best in zip(JOBS, ideal):
            key, value = f"{name}, {label}: completion / ideal {best:.3f} s", round(ended[name] / best, 3)
            verdicts.append(Verdict(key, "as measured", value, True) if bare else at_most(key, value, SLOWEST))
    if len(runs) > 1:
        bare, own = (last[label] for label, _ in runs[-2:])
        verdicts.append(Verdict("last completion, protected / unprotected", "as measured", round(own / bare, 2), True,
                                paper="210 s / 180 s = 1.17"))
    return verdicts


EXPERIMENT = Experiment("shuffle", "Three shuffles whose guarantees invert their order", "EyeQ, Fig. 8", cases, judge,
                        measure,
                        seen="guarantees of 4:2:1 invert the order in which the jobs end, each near its ideal time",
                        changed="The order was judged before, which 8 ms decide; each job's time is since.")
