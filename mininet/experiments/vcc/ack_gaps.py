# SPDX-License-Identifier: Apache-2.0
"""Time between the ACKs of a flow without ECN among nine with it, and of one of these: vCC's Fig. 8.

The receiver's ACKs are watched as they leave its VM. The run is 30 s long, the paper's 10, for more gaps.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, at_most, given
from sdngcc.experiments.vcc import ecn_mix
from sdngcc.testbed.parameters import parse_settings
from sdngcc.testbed.workload import FIRST_PORT, Program

DEFAULTS: Dict[str, Any] = {**ecn_mix.DEFAULTS, "link_mbps": 100, "phases": (0, 30, 0)}
# The flow without ECN, and the one that stands for those with it, by name.
PORTS = {"without ECN": FIRST_PORT, "with ECN": FIRST_PORT + 1}
# Width of a bin of the histogram, ms, and how many there are; the last one has all that is longer.
BIN_MS, BINS = 100, 20


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run without a shim and one with law vcc, or one of the law the user chose."""
    laws = (("", "vcc"),) if given(settings, "law") else ((ecn_mix.WITHOUT, "none"), (ecn_mix.WITH, "vcc"))
    chosen = []
    for label, law in laws:
        parameters = parse_settings(settings, {**DEFAULTS, "law": law})
        work = ecn_mix.workload(parameters)
        work.program(Program("acks", "rx1", (
            sys.executable, "-m", "sdngcc.testbed.virtual.watch_tcp", "acks", "{out}/acks.txt", "{start}", "{end}",
            "rx1-eth0", *map(str, PORTS.values()))))
        chosen.append(Case(label, parameters, work))
    return chosen


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return how many times between two ACKs of each flow fall into each bin of the histogram."""
    rows = [tuple(map(int, line.split())) for line in (raw / "acks.txt").read_text().splitlines()]
    found = {}
    for name, port in PORTS.items():
        bins = [0] * BINS
        for before, after in pairwise(at_ns for at_ns, own in rows if own == port):
            bins[min((after - before) // (BIN_MS * 10**6), BINS - 1)] += 1
        found[name] = bins
    return {"gaps": found}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that timeouts stop the flow without ECN, as the histogram's peaks say, and no flow with it."""
    verdicts = []
    for label, run in runs:
        gaps = run["measured"]["gaps"]
        where = f", {label or 'law ' + run['parameters']['law']}"
        if run["parameters"]["law"] == "none":
            verdicts += [at_least(f"gaps of {low} to {low + BIN_MS} ms, flow without ECN{where}",
                                  gaps["without ECN"][low // BIN_MS], 1, f"timeouts, seen by the {low} ms")
                         for low in (200, 600)]
            verdicts.append(at_most(f"gaps of 100 ms or more, flow with ECN{where}", sum(gaps["with ECN"][1:]), 0,
                                    "no timeout"))
        else:
            verdicts.append(at_most(f"gaps of 100 ms or more, flow with virtual ECN{where}",
                                    sum(gaps["without ECN"][1:]), 0))
    return verdicts


EXPERIMENT = Experiment("ack-gaps", "Time between ACKs of a TCP without ECN among nine with it", "vCC, Fig. 8", cases,
                        judge, measure,
                        seen="gaps of retransmission timeouts without ECN, none with it or with virtual ECN")
