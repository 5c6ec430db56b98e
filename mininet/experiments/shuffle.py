# SPDX-License-Identifier: Apache-2.0
"""Three all-to-all jobs with 1, 2 and 4 connections a pair, and guarantees of 4, 2 and 1: EyeQ's Fig. 8.

The paper's 16 servers are 4 here, each with one worker of each job; its 1 TB a job is what keeps a line busy for a
second or so. Each job moves the same bytes between each pair of servers, divided among its connections.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, Workload, given, without_law
from sdngcc.testbed.parameters import Parameters, parse_settings

JOBS = ("P1", "P2", "P4")
CONNECTIONS = (1, 2, 4)
# Each job moves so much over each server's line, in seconds of that line.
LOAD_S = 0.3

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
    """Return when each job's last transfer ended, seconds; None: not within the run."""
    requests = run["requests"]
    return {"done_s": {name: None if requests[name]["unfinished"] else round(requests[name]["max_us"] / 1e6, 3)
                       for name in JOBS}}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the order in which the jobs end: by connections without the law, by guarantee with it."""
    verdicts, last = [], {}
    for label, run in runs:
        done = run["measured"]["done_s"]
        ended = {name: run["parameters"]["phases"][1] if time is None else time for name, time in done.items()}
        wanted = list(JOBS) if run["parameters"]["law"] == "eyeq" else list(reversed(JOBS))
        last[label] = max(ended.values())
        verdicts.append(Verdict(f"order of completion, {label}", " ".join(wanted),
                                " ".join(f"{name} {done[name]}" for name in sorted(JOBS, key=ended.__getitem__)),
                                None not in done.values() and sorted(JOBS, key=ended.__getitem__) == wanted,
                                paper="P1 first with 4:2:1, P4 first without EyeQ"))
    if len(runs) > 1:
        bare, own = (last[label] for label, _ in runs[-2:])
        verdicts.append(Verdict("last completion, protected / unprotected", "as measured", round(own / bare, 2), True,
                                paper="210 s / 180 s = 1.17"))
    return verdicts


EXPERIMENT = Experiment("shuffle", "Three shuffles whose guarantees invert their order", "EyeQ, Fig. 8", cases, judge,
                        measure,
                        seen="guarantees of 4:2:1 invert the order in which the jobs end")
