# SPDX-License-Identifier: Apache-2.0
"""One-byte calls beside UDP that sends for 5 ms and rests for 15 ms: EyeQ's Fig. 2.

Two senders burst together: a single one fills the line to the receivers but no queue, since its own line is as fast.
The switch buffers 6 ms, as the paper says of switches, so that no call is lost and none waits for a timeout.

The paper's calls go back to back over one connection. The median of all of them cannot tell bursts from none: a line
that is busy for less than half of the time delays less than half of the calls, and a call that waits in a queue
holds up the next one, so that few of them meet a burst at all. Calls at random times go beside them; judged is the
median of those due while UDP sends, and that of all back-to-back calls as the paper has it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Run,
    Verdict,
    Workload,
    at_least,
    at_most,
    given,
    percentile,
    phase,
    without_law,
)
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.statistics import quantiles

# The UDP tenant sends so long, then rests so long, ms.
ON_MS, OFF_MS = 5.0, 15.0
# The first bursts and calls, before limiters stand, are not judged, seconds.
WARM_UP_S = 0.2

DEFAULTS: Dict[str, Any] = {
    "law": "eyeq", "topology": "star", "senders": 3, "receivers": 2, "weights": (2, 1, 1), "link_mbps": 10000,
    "rtt_us": 50, "buffer_packets": 5000, "mark_percent": 90, "phases": (0, 1, 0), "horizon_us": 250,
    "competitor": ("udp",)}


def workload(parameters: Parameters, bursts: bool) -> Workload:
    """Return the calls of the tagged VM, and the bursts of the others."""
    work = Workload()
    work.calls("vm1", "rx1", 0, parameters.duration_s, name="back to back")
    work.calls("vm1", "rx1", 0, parameters.duration_s, count=8, interval_us=500, poisson=True, name="timed")
    if bursts:
        for vm in parameters.vm_names[1:]:
            work.udp(vm, "rx2", 0, parameters.duration_s, parameters.udp_mbps or parameters.link_mbps, ON_MS, OFF_MS)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the runs: an idle network, bursts without a shim, bursts with the law."""
    chosen = parse_settings(settings, DEFAULTS)
    plain = parse_settings(without_law(settings), {**DEFAULTS, "law": "none"})
    runs = [Case("idle", plain, workload(plain, False)), Case("law=none", plain, workload(plain, True))]
    if chosen.law != "none" or not given(settings, "law"):
        runs.append(Case(f"law={chosen.law}", chosen, workload(chosen, True)))
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return percentiles and quantiles in us of back-to-back calls and of timed ones that are due while UDP sends."""
    rows = [[[int(word) for word in line.split()] for line in path.read_text().splitlines()[1:]]
            for path in sorted(raw.glob("requests-*.txt"))]
    start = min(due for one in rows for due, _, _ in one)
    series, timed = ([((due - start) / 1e6, took / 1000) for due, _, took in one
                      if took >= 0 and due - start >= WARM_UP_S * 1e9] for one in rows)
    values = {"all": [took for _, took in series],
              "in_bursts": [took for due, took in timed if due % (ON_MS + OFF_MS) < ON_MS]}
    return {name: {"calls": len(took), "quantiles_us": quantiles(took),
                   **{f"p{percent:g}_us": round(percentile(took, percent), 1) for percent in (50, 99, 99.9)}}
            for name, took in values.items()}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge median and p99 against the unprotected and the idle network."""
    found = {label: run["measured"] for label, run in runs}
    verdicts = []
    for label, run in runs[2:]:
        for name, key, field in (("median, calls in bursts", "in_bursts", "p50_us"),
                                 ("p99, calls back to back", "all", "p99_us"),
                                 ("median, calls back to back", "all", "p50_us")):
            idle, bare, own = (found[one][key][field] for one in ("idle", "law=none", label))
            verdicts.append(Verdict(f"{name}, us: idle, none, {label}", "as measured", [idle, bare, own], True,
                                    paper="about 55 with EyeQ, over 10 times that without"))
            verdicts.append(at_least(f"{name}: none / {label}", round(bare / own, 2), 10))
            verdicts.append(at_most(f"{name}: {label} / idle", round(own / idle, 2), 2))
        received = phase(run, "all")["goodput_mbps"]
        verdicts.append(Verdict(f"UDP received, {label}, Mb/s", "as measured",
                                round(sum(rate for vm, rate in received.items() if vm != "vm1"), 1), True,
                                paper="2500"))
    return verdicts


EXPERIMENT = Experiment("burst-latency", "One-byte calls beside bursts of UDP", "EyeQ, Fig. 2", cases, judge, measure,
                        seen="median and p99 10 times better than unprotected, within twice those of an idle network")
