# SPDX-License-Identifier: Apache-2.0
"""Latency-, deadline- and completion-sensitive flows, alone and together, without any shim: SCC's Fig. 1.

Alone a division has half of the link to itself, together two have all of it. As the paper says it, loads in percent are
the same then. If a link of capacity C is shared as by one processor, flows of x bytes at load p take x / (C (1 - p)) in
the mean, whatever their sizes, so that twice the link at the same load takes half of the time: that reading cannot show
harm, and the times judged here say how near TCP comes to it. Read as percent of the shared link for each division, two
at 45% make a load of 90% where one alone, at 45% of its half, leaves more than half of it free; that is run as well.

The paper's simulation has one source for each division; so has this, and the source's own link is always the whole one,
so that the queue is at the bottleneck, which marks. What a simulator's TCP may have that Linux has not is run at the
high load (``as simulated``): no handshake, and a least timeout of 10 ms. ``initial_window`` has no run of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, given, near
from sdngcc.experiments.scc.objectives import Group, measure_groups, workload
from sdngcc.testbed.parameters import Parameters, make_parameters, parse_settings

# Loads in percent of a division's half of the link.
LOADS = (20, 50, 80)
# Load in percent of the shared link for each of two divisions, and of half of it alone.
OF_SHARED = 45
# CS together by CS alone where the load in all is the same, if the link is shared as by one processor; and how near.
HALF, HALF_TOLERANCE = 0.5, 0.3
# What a simulator's TCP has and Linux' has not, and how labels say so.
SIMULATED: Dict[str, Any] = {"handshake": "early", "rto_min_ms": 10}
AS_SIMULATED = ", as simulated"
SIMULATED_LOAD = 80
DEFAULTS: Dict[str, Any] = {"law": "none", "senders": 3, "receivers": 3, "phases": (0, 2.5, 0), "rtt_us": 300,
                            "buffer_packets": 250, "mark_percent": 8}


def case_of(label: str, objectives: Sequence[str], load: int, whole: Parameters, of_whole: bool = False) -> Case:
    """Return the run of divisions at a load in percent of half of the link, or of all of it, under that label.

    One alone has half of the link.
    """
    half = make_parameters({**whole.model_dump(), "link_mbps": whole.link_mbps // 2, "uplink_mbps": whole.link_mbps})
    parameters = half if len(objectives) == 1 else whole
    base = whole if of_whole else half
    groups = [Group(name, name, (f"vm{number + 1}",), load / 100 * base.link_mbps)
              for number, name in enumerate(objectives)]
    return Case(label, parameters, partial(workload, parameters, groups, ordered=False))


def cases(settings: Sequence[str]) -> List[Case]:
    """Return runs of each division alone on half of the link, and of pairs on all of it."""
    whole = parse_settings(settings, DEFAULTS)
    kinds = [("LS alone", ("ls",), (80,)), ("DS alone", ("ds",), (*LOADS, OF_SHARED)),
             ("CS alone", ("cs",), (*LOADS, OF_SHARED)), ("LS and DS", ("ls", "ds"), (80,)),
             ("DS and CS", ("ds", "cs"), LOADS), ("DS and CS, each of the shared link", ("ds", "cs"), (OF_SHARED,))]
    runs = [case_of(f"{label}, load {load}%", objectives, load, whole, "each of" in label)
            for label, objectives, loads in kinds for load in loads]
    if not any(given(settings, name) for name in SIMULATED):
        other = parse_settings(settings, {**DEFAULTS, **SIMULATED})
        runs += [case_of(f"{label}, load {SIMULATED_LOAD}%{AS_SIMULATED}", objectives, SIMULATED_LOAD, other)
                 for label, objectives, _ in (kinds[1], kinds[2], kinds[4])]
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
        more_misses("LS", "load 80%", found["DS alone, load 80%"]["rx1"], beside["rx2"]),
    ]
    for load in LOADS:
        verdicts += judge_pair(found, "DS and CS", f"load {load}%")
    conditions = [f"load 80%{more}" for more in ("", AS_SIMULATED) if f"CS alone, load 80%{more}" in found]
    for where in conditions:
        if where.endswith(AS_SIMULATED):
            verdicts += judge_pair(found, "DS and CS", where)
        alone, together = found[f"CS alone, {where}"]["rx1"], found[f"DS and CS, {where}"]["rx2"]
        verdicts.append(near(f"CS mean completion beside DS / alone, {where}, as one processor shares",
                             round(together["mean_ms"] / alone["mean_ms"], 3), HALF, HALF_TOLERANCE))
    return verdicts + judge_pair(found, "DS and CS, each of the shared link", f"load {OF_SHARED}%")


def more_misses(neighbour: str, where: str, alone: Dict[str, Any], together: Dict[str, Any]) -> Verdict:
    """Judge whether more DS flows miss their deadlines beside a neighbour than alone."""
    return Verdict(f"DS misses alone, beside {neighbour}, {where}", f"more beside {neighbour}",
                   [alone["missed"], together["missed"]], together["missed"] > alone["missed"],
                   "up to 4 times as many" if neighbour == "CS" else "many miss (Fig. 1c)")


def judge_pair(found: Dict[str, Any], pair: str, load: str) -> List[Verdict]:
    """Judge DS and CS in the run of that pair against each alone at that load."""
    ds, cs = found[f"DS alone, {load}"]["rx1"], found[f"CS alone, {load}"]["rx1"]
    both = found[f"{pair}, {load}"]
    where = f"{pair.partition(', ')[2]}, {load}".removeprefix(", ")
    return [
        more_misses("CS", where, ds, both["rx1"]),
        Verdict(f"CS mean completion alone, beside DS, {where}, ms", "longer beside DS",
                [cs["mean_ms"], both["rx2"]["mean_ms"]], both["rx2"]["mean_ms"] > cs["mean_ms"],
                "more than twice as long at high load")]


EXPERIMENT = Experiment("interference", "Flows of different objectives alone and together, without a shim",
                        "SCC, Fig. 1", cases, judge, measure_groups,
                        seen="objectives hurt each other when they meet")
