# SPDX-License-Identifier: Apache-2.0
"""Latency-, deadline- and completion-sensitive flows, alone and together, without any shim: SCC's Fig. 1.

Alone a division has half of the link to itself, together two have all of it, so the load in percent is the same. The
paper's simulation has one source for each division; so has this, and the source's own link is always the whole one, so
that the queue is at the bottleneck, which marks. As there, LS uses DCTCP, DS D2TCP and CS L2DCT. Its middle load is
left out, to save time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least
from sdngcc.experiments.objectives import OWN_PROTOCOLS, Group, measure_groups, workload
from sdngcc.testbed.parameters import make_parameters, parse_settings

# Loads in percent of a division's half of the link.
LOADS = (20, 80)
DEFAULTS: Dict[str, Any] = {"law": "none", "senders": 3, "receivers": 3, "phases": (0, 2.5, 0), "rtt_us": 300,
                            "buffer_packets": 250, "mark_percent": 8}


def cases(settings: Sequence[str]) -> List[Case]:
    """Return runs of each division alone on half of the link, and of pairs on all of it."""
    whole = parse_settings(settings, DEFAULTS)
    half = make_parameters({**whole.model_dump(), "link_mbps": whole.link_mbps // 2, "uplink_mbps": whole.link_mbps})
    runs = []
    kinds = [("LS alone", ("ls",), (80,)), ("DS alone", ("ds",), LOADS), ("CS alone", ("cs",), LOADS),
             ("LS and DS", ("ls", "ds"), (80,)), ("DS and CS", ("ds", "cs"), LOADS)]
    for label, objectives, loads in kinds:
        parameters = half if len(objectives) == 1 else whole
        for load in loads:
            groups = [Group(name, name, (f"vm{number + 1}",), load / 100 * half.link_mbps)
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
        ds, cs = found[f"DS alone, load {load}%"]["rx1"], found[f"CS alone, load {load}%"]["rx1"]
        both = found[f"DS and CS, load {load}%"]
        verdicts += [
            Verdict(f"DS misses alone, beside CS, load {load}%", "more beside CS",
                    [ds["missed"], both["rx1"]["missed"]], both["rx1"]["missed"] > ds["missed"],
                    "up to 4 times as many"),
            Verdict(f"CS mean completion alone, beside DS, load {load}%, ms", "longer beside DS",
                    [cs["mean_ms"], both["rx2"]["mean_ms"]], both["rx2"]["mean_ms"] > cs["mean_ms"],
                    "more than twice as long at high load"),
        ]
    return verdicts


EXPERIMENT = Experiment("interference", "Flows of different objectives alone and together, without a shim",
                        "SCC, Fig. 1", cases, judge, measure_groups,
                        seen="objectives hurt each other when they meet")
