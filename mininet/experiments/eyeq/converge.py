# SPDX-License-Identifier: Apache-2.0
"""Senders that all begin at line rate towards one VM, and how soon they have their rates: EyeQ's section 3.4.

UDP senders on lines of their own, each at line rate. Settled is the time from which on what arrives in windows of
0.2 ms, averaged over five, stays within a tenth of what the receiver may take, 90% of its line. Where the sampler
itself was late, five windows are longer or shorter than that, and what was counted in them tells no rate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    UDP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    Workload,
    at_least,
    given,
    jain,
    near,
)
from sdngcc.testbed.parameters import Parameters, parse_settings

DEFAULTS: Dict[str, Any] = {
    "law": "eyeq", "topology": "star", "link_mbps": 10000, "rtt_us": 50, "buffer_packets": 667, "mark_percent": 90,
    "phases": (0, 0.3, 0), "horizon_us": 250, "tagged": "udp", "competitor": ("udp",), "sample_us": 200}
SENDERS = (2, 4, 8, 16, 32)
HEADROOM = 0.9
TOLERANCE = 0.1
# Samples in a window, which is as long as they should be but for this part of it.
WINDOW = 5
LATE = 0.05


def workload(parameters: Parameters) -> Workload:
    """Return a UDP flow of each VM at line rate."""
    work = Workload()
    for vm in parameters.vm_names:
        work.udp(vm, "rx1", 0, parameters.duration_s, parameters.udp_mbps or parameters.link_mbps)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for each number of senders, or for the one the user set."""
    numbers: Sequence[Any] = (None,) if given(settings, "senders") else SENDERS
    chosen = [parse_settings(settings, {**DEFAULTS, **({} if number is None else {"senders": number})})
              for number in numbers]
    return [Case(f"senders={parameters.senders}", parameters, workload(parameters)) for parameters in chosen]


def limit_mbps(run: Run) -> float:
    """Return what the receiver may take, Mb/s on the wire."""
    return float(run["parameters"]["link_mbps"] * (1.0 if run["knobs"].get("ecn") else HEADROOM))


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return when the rate at the bottleneck settled, ms from the first byte; None: never."""
    rows = [[int(word) for word in line.split()] for line in (raw / "queue.txt").read_text().splitlines()[1:]]
    target, length_ns = limit_mbps(run) * 1e6, WINDOW * run["parameters"]["sample_us"] * 1e3
    begin = next(number for number, row in enumerate(rows) if row[1] > rows[0][1] + 100_000)
    bad = None
    for number in range(begin, len(rows) - WINDOW):
        first, last = rows[number], rows[number + WINDOW]
        if abs(last[0] - first[0] - length_ns) > LATE * length_ns:
            continue
        rate = (last[1] - first[1]) * 8 / (last[0] - first[0]) * 1e9
        if abs(rate - target) > TOLERANCE * target:
            bad = number
    if bad is None:
        return {"settled_ms": 0.0}
    if bad + WINDOW + 1 >= len(rows):
        return {"settled_ms": None}
    return {"settled_ms": round((rows[bad + 1][0] - rows[begin][0]) / 1e6, 3)}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the time to settle and, behind it, the parts of the senders."""
    verdicts = []
    for label, run in runs:
        settled = run["measured"]["settled_ms"]
        verdicts.append(Verdict(f"settled, {label}, ms", "<= 6", settled, settled is not None and settled <= 6,
                                paper="6 at most"))
        later = [sum(rates[1:]) for rates in run["series"]["goodput_mbps"].values()]
        verdicts.append(at_least(f"Jain of the senders' rates behind the first 0.1 s, {label}",
                                 round(jain(later), 4), 0.98))
        verdicts.append(near(f"received behind the first 0.1 s, {label}, Mb/s",
                             round(sum(later) / max(1, len(run["series"]["t_s"]) - 1), 1),
                             limit_mbps(run) * UDP_PAYLOAD, TOLERANCE))
    return verdicts


EXPERIMENT = Experiment("converge", "2 to 32 senders begin at line rate", "EyeQ, section 3.4", cases, judge, measure,
                        seen="the share within 6 ms")
