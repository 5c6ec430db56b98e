# SPDX-License-Identifier: Apache-2.0
"""Law hygenicc in the three periods of HyGenICC's Fig. 4a, at the paper's length, against each kind of competitors.

The paper has 0, 250 and 1000 Mb/s as the optimum of the tagged TCP in the three periods, and 416 over all of them,
headers counted; of that 956 in 1000 are payload here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    at_least,
    at_most,
    fair_share_mbps,
    goodput_by_second,
    near,
    phase,
    settled_phase,
    settling_s,
    sweep,
    vm_frame_mbps,
)
from sdngcc.topologies.shaping import threshold_bytes

DEFAULTS: Dict[str, Any] = {"law": "hygenicc"}
COMPETITORS = ("tcp", "dctcp", "udp")
# VMs share fairly so long after the tagged one has begun, seconds.
SETTLED_S = 2.0


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for each kind of competitors, or for the one that the user chose."""
    return sweep(settings, DEFAULTS, "competitor", COMPETITORS)


def tagged_mbps(run: Run) -> float:
    """Return the tagged VM's goodput over all periods, Mb/s."""
    end_s = max(one["end_s"] for one in run["phases"])
    return round(sum(one["goodput_mbps"]["vm1"] * (one["end_s"] - one["start_s"]) for one in run["phases"]) / end_s, 3)


def judge_alone(run: Run) -> List[Verdict]:
    """Judge the third period: the tagged VM takes what the others have left within two seconds, and keeps it."""
    link = vm_frame_mbps(run)
    period = phase(run, "tagged")
    seconds = goodput_by_second(run, "vm1", period["start_s"], period["end_s"]) if period else []
    if len(seconds) < 3:
        return []
    paper = "1000 Mb/s, headers counted"
    return [at_least("tagged alone, second second, Mb/s", seconds[1], 0.90 * link, paper),
            at_least("tagged alone, worst later second, Mb/s", min(seconds[2:]), 0.94 * link, paper)]


def judge_run(run: Run) -> List[Verdict]:
    """Judge all three periods of a run, and their mean."""
    parameters, shared = run["parameters"], settled_phase(run, "all")
    verdicts = [at_least(f"link used, period {name}", phase(run, name)["utilisation"], 0.92)
                for name in ("competitors", "all") if phase(run, name)]
    verdicts.append(near("tagged, period all from its third second, Mb/s", shared["settled_goodput_mbps"]["vm1"],
                         fair_share_mbps(run), 0.15, "250 Mb/s, headers counted"))
    if shared["jain"][2:]:
        verdicts.append(at_least("Jain in the worst second from the third on", min(shared["jain"][2:]), 0.99))
    settled = settling_s(run)
    verdicts.append(Verdict("fair after, s", f"<= {SETTLED_S:g}", settled,
                            settled is not None and settled <= SETTLED_S, "effective response (no number)"))
    verdicts += judge_alone(run)
    if len(run["phases"]) == 3:
        due = (fair_share_mbps(run) * (shared["end_s"] - shared["start_s"])
               + vm_frame_mbps(run) * TCP_PAYLOAD * parameters["phases"][2]) / sum(parameters["phases"])
        verdicts.append(near("tagged, all periods, Mb/s", tagged_mbps(run), due, 0.10, "416 Mb/s, headers counted"))
    verdicts.append(at_most("queue p99, bytes", run["queue"]["bytes_p99"],
                            2 * threshold_bytes(parameters["buffer_packets"], parameters["mark_percent"])))
    return verdicts


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each run."""
    return [replace(one, name=f"{one.name}, {label}" if label else one.name)
            for label, run in runs for one in judge_run(run)]


EXPERIMENT = Experiment("echo", "One tagged TCP among competitors under HyGenICC, in three periods",
                        "HyGenICC, Fig. 4a", cases, judge,
                        seen="fair shares, a full link, and all of it within two seconds for the last one")
