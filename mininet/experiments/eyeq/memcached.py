# SPDX-License-Identifier: Apache-2.0
"""A memcached tenant beside a tenant whose UDP bursts from every host to another in turn: EyeQ's section 5.2.

The paper's 4 servers and 12 clients on 16 hosts are 1 and 3 on 4 hosts here, its 72,000 requests a second and server
6,000, its bursts of half a second 0.2 s; sizes, the bursts' duty of one half and equal weights are the paper's. The
shim adds up the guarantees of all VMs of a machine, and the laboratory's hosts are one machine to it: they are a
quarter of the paper's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Program,
    Run,
    Verdict,
    Workload,
    at_least,
    at_most,
    percentile,
    without_law,
)
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.statistics import quantiles

# UDP sends so long, then rests as long, seconds.
BURST_S = 0.2
# Requests a second of each client.
RATE = 2000

DEFAULTS: Dict[str, Any] = {
    "law": "eyeq", "topology": "star", "senders": 6, "vms_per_hypervisor": 2, "receivers": 2,
    "guarantees": (1250,), "link_mbps": 10000, "rtt_us": 50, "buffer_packets": 667, "mark_percent": 90,
    "phases": (0, 1.2, 0), "horizon_us": 250}


def workload(parameters: Parameters, bursts: bool) -> Workload:
    """Return server and clients on the VMs of odd number, and bursts among those of even number."""
    work = Workload()
    work.program(Program("memcached", "rx1", ("memcached", "-u", "root", "-l", "{ip:rx1}", "-t", "1"), serves=True))
    for vm in parameters.vm_names[::2]:
        work.program(Program(f"client-{vm}", vm, (
            sys.executable, "-m", "sdngcc.testbed.memcached_client", "{ip:rx1}", str(RATE),
            str(parameters.duration_s), f"{{out}}/stores-{vm}.txt"), start_s=0.0, to=("rx1",)))
    nodes = [*parameters.vm_names[1::2], "rx2"]
    for turn in range(int(parameters.duration_s / BURST_S / 2 + 0.5) if bursts else 0):
        for number, vm in enumerate(nodes):
            other = nodes[(number + 1 + turn % (len(nodes) - 1)) % len(nodes)]
            start = turn * 2 * BURST_S
            work.udp(vm, other, start, start + BURST_S, parameters.udp_mbps or parameters.link_mbps)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the runs: memcached alone, beside UDP without a shim, and both with the law."""
    chosen = parse_settings(settings, DEFAULTS)
    plain = parse_settings(without_law(settings), {**DEFAULTS, "law": "none"})
    runs = [Case("alone", plain, workload(plain, False)), Case("law=none", plain, workload(plain, True))]
    if chosen.law != "none":
        runs += [Case(f"law={chosen.law}, alone", chosen, workload(chosen, False)),
                 Case(f"law={chosen.law}", chosen, workload(chosen, True))]
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return requests a second that were answered in the run, percentiles and quantiles of their times in us."""
    rows = [[int(word) for word in line.split()] for path in sorted(raw.glob("stores-*.txt"))
            for line in path.read_text().splitlines()]
    seconds = sum(run["parameters"]["phases"])
    answered = sum(due + took <= seconds * 1e9 for due, took in rows)
    took = [row[1] / 1000 for row in rows]
    return {"per_s": round(answered / seconds, 1), "quantiles_us": quantiles(took),
            **{f"p{percent:g}_us": round(percentile(took, percent), 1) for percent in (50, 99, 99.9)}}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge throughput and p99 with the law beside UDP against memcached alone."""
    found = {label: run["measured"] for label, run in runs}
    alone = found["alone"]
    verdicts = [Verdict(f"{label}: requests/s, p50, p99, p99.9 in us", "as measured",
                        [one[name] for name in ("per_s", "p50_us", "p99_us", "p99.9_us")], True)
                for label, one in found.items()]
    for label, own in list(found.items())[3:]:
        verdicts.append(at_least(f"throughput, {label} / alone", round(own["per_s"] / alone["per_s"], 4), 0.99))
        verdicts.append(at_most(f"p99, {label} / alone", round(own["p99_us"] / alone["p99_us"], 2), 2))
    return verdicts


EXPERIMENT = Experiment("memcached", "A real memcached and its clients beside bursts of UDP", "EyeQ, section 5.2",
                        cases, judge, measure,
                        seen="throughput as when alone, p99 within twice that")
