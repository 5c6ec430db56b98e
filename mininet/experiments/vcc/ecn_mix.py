# SPDX-License-Identifier: Apache-2.0
"""One TCP without ECN among nine with it: vCC's Fig. 11, without the law and with it.

The queue is the paper's RED1. The senders of the paper's testbed become VMs; 200 s instead of 10: in 60 s a flow's part
still varies by 4% with the seed.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, at_most, given, near, settled_phase
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.statistics import jain, mean
from sdngcc.testbed.workload import Workload

# RED of vCC's figures, as tc-red has it: limit, min and max in bytes, burst in packets of 1500 bytes, probability.
RED: Dict[str, Tuple[float, ...]] = {
    "RED1": (1_000_000, 90_000, 90_001, 61, 1.0),
    "RED2": (400_000, 30_000, 90_000, 55, 0.02),
    "RED3": (400_000, 30_000, 90_000, 55, 1.0),
}
# Link and queue of vCC's figures. What reads buffer and threshold elsewhere gets RED1's: 667 packets, of which 9% go
# unmarked.
QUEUE: Dict[str, Any] = {"link_mbps": 10, "rtt_us": 1000, "buffer_packets": 667, "mark_percent": 9,
                         "red": RED["RED1"], "backpressure": False}
DEFAULTS: Dict[str, Any] = {**QUEUE, "senders": 10, "guest_ecn": True, "phases": (0, 200, 0)}
WITHOUT, WITH = "without the law", "with vcc"


def workload(parameters: Parameters) -> Workload:
    """Return everybody sending at once; the tagged VM never negotiates ECN, the others if guest_ecn says so."""
    work = Workload()
    for index, vm in enumerate(parameters.vm_names):
        for receiver in parameters.receivers_of(index):
            work.tcp(vm, f"rx{receiver + 1}", 0, parameters.duration_s, parameters.protocol(index),
                     parameters.guest_ecn and index > 0, 1 if index == 0 else parameters.flows)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run without a shim and one with law vcc, or one of the law the user chose."""
    laws = (("", "vcc"),) if given(settings, "law") else ((WITHOUT, "none"), (WITH, "vcc"))
    chosen = []
    for label, law in laws:
        parameters = parse_settings(settings, {**DEFAULTS, "law": law})
        chosen.append(Case(label, parameters, workload(parameters)))
    return chosen


def part_of_others(run: Run) -> float:
    """Return the tagged VM's goodput over the mean of the others'."""
    goodput = settled_phase(run, "all")["settled_goodput_mbps"]
    others = mean([rate for vm, rate in goodput.items() if vm != "vm1"])
    return round(goodput["vm1"] / others, 4) if others else 0.0


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the tagged VM against the others, and Jain's index over the whole run from its third second on."""
    verdicts = []
    for label, run in runs:
        index = round(jain(list(settled_phase(run, "all")["settled_goodput_mbps"].values())), 4)
        where = label or f"with law {run['parameters']['law']}"
        if run["parameters"]["law"] == "vcc":
            verdicts += [near(f"tagged / mean of the others, {where}", part_of_others(run), 1.0, 0.05, "1.038"),
                         at_least(f"Jain's index, {where}", index, 0.99, "0.994")]
        else:
            verdicts += [at_most(f"tagged / mean of the others, {where}", part_of_others(run), 0.45, "0.142"),
                         Verdict(f"Jain's index, {where}", "as measured", index, True, "0.921")]
    return verdicts


EXPERIMENT = Experiment("ecn-mix", "One TCP without ECN among nine with it", "vCC, Fig. 11", cases, judge,
                        seen="Jain 0.99 or more, the odd one within 5% of the others",
                        changed="The queue was a threshold of RED1's size, and is RED1 itself since. The run had 60 s "
                                "before it was measured, 200 s since: in 60 s a flow's part varied by 4% with the "
                                "seed.")
