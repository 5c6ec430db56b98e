# SPDX-License-Identifier: Apache-2.0
"""One-byte calls beside UDP that sends for 5 ms and rests for 15 ms: EyeQ's Fig. 2.

Two senders burst together: a single one fills the line to the receivers but no queue, since its own line is as fast.
The switch buffers 6 ms, as the paper says of switches, so that no call is lost and none waits for a timeout.

The paper's calls go back to back over one connection. One that waits in a queue holds up the next, so that few of them
meet a burst at all: their percentiles weight the time with bursts by how few calls are made in it. Calls at random
times of their own go beside them, begun when they are due whatever became of others; their percentiles weight all of
the time alike, and the paper's claims are judged on these.
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
# What is told of each distribution.
PERCENTS = (50.0, 99.0, 99.9)
# The first bursts and calls, before limiters stand, are not judged, seconds.
WARM_UP_S = 0.2
# Calls at random times: so many us apart in the mean, over so many connections that none waits for a free one.
TIMED_US, TIMED_COUNT = 100, 256
# A call that takes longer is one that waited, us: ten times what the paper has with EyeQ.
WAITED_US = 550

DEFAULTS: Dict[str, Any] = {
    "law": "eyeq", "topology": "star", "senders": 3, "receivers": 2, "weights": (2, 1, 1), "link_mbps": 10000,
    "rtt_us": 50, "buffer_packets": 5000, "mark_percent": 90, "phases": (0, 1, 0), "horizon_us": 250,
    "competitor": ("udp",)}


def workload(parameters: Parameters, bursts: bool) -> Workload:
    """Return the calls of the tagged VM, and the bursts of the others."""
    work = Workload()
    work.calls("vm1", "rx1", 0, parameters.duration_s, name="back to back")
    work.calls("vm1", "rx1", 0, parameters.duration_s, count=TIMED_COUNT, interval_us=TIMED_US, poisson=True,
               name="timed")
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
    """Return percentiles and quantiles in us of back-to-back calls, of all timed ones, and of those due in bursts.

    Also the part of timed calls that waited. Calls that were not answered count with what they waited.
    """
    rows = [[[int(word) for word in line.split()] for line in path.read_text().splitlines()[1:]]
            for path in sorted(raw.glob("requests-*.txt"))]
    start = min(due for one in rows for due, _, _ in one)
    end = start + sum(run["parameters"]["phases"]) * 1e9
    series, timed = ([((due - start) / 1e6, (took if took >= 0 else end - due) / 1000) for due, _, took in one
                      if due - start >= WARM_UP_S * 1e9] for one in rows)
    values = {"all": [took for _, took in series], "timed": [took for _, took in timed],
              "in_bursts": [took for due, took in timed if due % (ON_MS + OFF_MS) < ON_MS]}
    waited = sum(took > WAITED_US for took in values["timed"]) / max(1, len(timed))
    return {"waited": round(waited, 4),
            **{name: {"calls": len(took), "quantiles_us": quantiles(took),
                      **{f"p{percent:g}_us": round(percentile(took, percent), 1) for percent in PERCENTS}}
               for name, took in values.items()}}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge percentiles of timed calls against the unprotected and the idle network."""
    found = {label: run["measured"] for label, run in runs}
    kinds = (("time-weighted", "timed"), ("back to back", "all"), ("due in bursts", "in_bursts"))
    verdicts = []
    for label, run in runs[2:]:
        for words, key in kinds:
            for percent in PERCENTS:
                values = [found[one][key][f"p{percent:g}_us"] for one in ("idle", "law=none", label)]
                verdicts.append(Verdict(f"p{percent:g}, {words}, us: idle, none, {label}", "as measured", values, True,
                                        paper="about 55 with EyeQ" if key == "all" and percent < 99.9 else ""))
        for percent in PERCENTS:
            idle, bare, own = (found[one]["timed"][f"p{percent:g}_us"] for one in ("idle", "law=none", label))
            name = f"p{percent:g}, time-weighted"
            if percent < 99.9:
                verdicts.append(at_least(f"{name}: none / idle", round(bare / idle, 2), 10, "over 10 times"))
            verdicts.append(at_most(f"{name}: {label} / idle", round(own / idle, 2), 2, "close to an idle network"))
        verdicts.append(Verdict(f"timed calls of over {WAITED_US} us, part: idle, none, {label}", "as measured", [
            found[one]["waited"] for one in ("idle", "law=none", label)], True))
        received = phase(run, "all")["goodput_mbps"]
        verdicts.append(Verdict(f"UDP received, {label}, Mb/s", "as measured",
                                round(sum(rate for vm, rate in received.items() if vm != "vm1"), 1), True,
                                paper="2500"))
    return verdicts


EXPERIMENT = Experiment("burst-latency", "One-byte calls beside bursts of UDP", "EyeQ, Fig. 2", cases, judge, measure,
                        seen="median and p99 unprotected over 10 times those of an idle network, with the law within "
                        "twice those",
                        changed="Judged were calls back to back and those due in bursts; since both leave out time, "
                        "calls at random times are judged, whenever they are due.")
