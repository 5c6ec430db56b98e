# SPDX-License-Identifier: Apache-2.0
"""Latency-, deadline- and completion-sensitive flows, alone and together, without any shim: SCC's Fig. 1.

Alone a division has half of the link to itself, together two have all of it. As the paper says it, loads in percent are
the same then. If a link of capacity C is shared as by one processor, flows of x bytes at load p take x / (C (1 - p)) in
the mean, whatever their sizes, so that twice the link at the same load takes half of the time: that reading cannot show
harm, and the times judged here say how near TCP comes to it. Read as percent of the shared link for each division, two
at 45% make a load of 90% where one alone, at 45% of its half, leaves more than half of it free; that is run as well.

The paper's simulation has one source for each division; so has this, and the source's own link is always the whole one,
so that the queue is at the bottleneck, which marks. As there, LS uses DCTCP, DS D2TCP and CS L2DCT. Its middle load is
left out, to save time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, near
from sdngcc.experiments.scc.objectives import OWN_PROTOCOLS, Group, measure_groups, workload
from sdngcc.testbed.parameters import make_parameters, parse_settings

# Loads in percent of a division's half of the link.
LOADS = (20, 80)
# Load in percent of the shared link for each of two divisions, and of half of it alone.
OF_SHARED = 45
# CS together by CS alone where the load in all is the same, if the link is shared as by one processor; and how near.
HALF, HALF_TOLERANCE = 0.5, 0.3
DEFAULTS: Dict[str, Any] = {"law": "none", "senders": 3, "receivers": 3, "phases": (0, 2.5, 0), "rtt_us": 300,
                            "buffer_packets": 250, "mark_percent": 8}


def cases(settings: Sequence[str]) -> List[Case]:
    """Return runs of each division alone on half of the link, and of pairs on all of it."""
    whole = parse_settings(settings, DEFAULTS)
    half = make_parameters({**whole.model_dump(), "link_mbps": whole.link_mbps // 2, "uplink_mbps": whole.link_mbps})
    runs = []
    kinds = [("LS alone", ("ls",), (80,)), ("DS alone", ("ds",), (*LOADS, OF_SHARED)),
             ("CS alone", ("cs",), (*LOADS, OF_SHARED)), ("LS and DS", ("ls", "ds"), (80,)),
             ("DS and CS", ("ds", "cs"), LOADS), ("DS and CS, each of the shared link", ("ds", "cs"), (OF_SHARED,))]
    for label, objectives, loads in kinds:
        parameters = half if len(objectives) == 1 else whole
        base = whole if "each of" in label else half
        for load in loads:
            groups = [Group(name, name, (f"vm{number + 1}",), load / 100 * base.link_mbps)
                      for number, name in enumerate(objectives)]
            runs.append(Case(f"{label}, load {load}%", parameters,
                             partial(workload, groups, parameters.duration_s, ordered=False,
                                     protocols=OWN_PROTOCOLS)))
    return runs


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Compare each division's flows together with another's to those alone."""
    found = {label: run["measured"] for label, run in runs}
    rtt_ms = runs[0][1]["parameters"]["rtt_us"] / 1000
    ls, beside = found["LS alone, load 80%"]["rx1"], found["LS and DS, load 80%"]
    verdicts = [
        at_least("LS round trip p99, beside DS / alone",
                 round((beside["rx1"]["p99_ms"] + rtt_ms) / (ls["p99_ms"] + rtt_ms), 3), 4, "more than 4"),
        at_least("LS round trip mean, beside DS / alone",
                 round((beside["rx1"]["mean_ms"] + rtt_ms) / (ls["mean_ms"] + rtt_ms), 3), 1.5, "more than 1.5"),
    ]
    for load in LOADS:
        verdicts += judge_pair(found, f"DS and CS, load {load}%", load)
    alone, together = found["CS alone, load 80%"]["rx1"], found["DS and CS, load 80%"]["rx2"]
    verdicts.append(near("CS mean completion beside DS / alone, load 80%, as one processor shares",
                         round(together["mean_ms"] / alone["mean_ms"], 3), HALF, HALF_TOLERANCE))
    return verdicts + judge_pair(found, f"DS and CS, each of the shared link, load {OF_SHARED}%", OF_SHARED)


def judge_pair(found: Dict[str, Any], label: str, load: int) -> List[Verdict]:
    """Judge DS and CS in the run of that label against each alone at that load."""
    ds, cs, both = found[f"DS alone, load {load}%"]["rx1"], found[f"CS alone, load {load}%"]["rx1"], found[label]
    where = label.partition(", ")[2]
    return [
        Verdict(f"DS misses alone, beside CS, {where}", "more beside CS", [ds["missed"], both["rx1"]["missed"]],
                both["rx1"]["missed"] > ds["missed"], "up to 4 times as many"),
        Verdict(f"CS mean completion alone, beside DS, {where}, ms", "longer beside DS",
                [cs["mean_ms"], both["rx2"]["mean_ms"]], both["rx2"]["mean_ms"] > cs["mean_ms"],
                "more than twice as long at high load")]


EXPERIMENT = Experiment("interference", "Flows of different objectives alone and together, without a shim",
                        "SCC, Fig. 1", cases, judge, measure_groups,
                        seen="objectives hurt each other when they meet")
