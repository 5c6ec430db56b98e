# SPDX-License-Identifier: Apache-2.0
"""Five maps and a reduce of ten flows on one link: Seawall's Fig. 3.

A map reads one unit of data from one place, the reduce ten units from ten; a unit is what the link carries in UNIT_S.
Each task reads in a VM of its own, out of VMs on hypervisors of their own. The paper's three schedules are run: each
flow alike (no shim), each task alike, and shortest first, which needs to know all sizes. Seawall shares among those
who send, so ten senders of a reduce have ten parts under equal weights, as without it: what makes tasks alike is the
weight of a sender, which section 4.6 has a scheduler set in inverse proportion to the fan-in of the task it feeds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    Workload,
    at_most,
    given,
    without_law,
)
from sdngcc.testbed.parameters import Parameters, parse_settings

MAPS, FAN_IN = 5, 10
TASKS = (*(f"map{number + 1}" for number in range(MAPS)), "reduce")
# Time in which the link carries a unit, seconds.
UNIT_S = 0.4
# When maps and reduce end where tasks are alike, units of time.
MAPS_END, ALL_END = 6.0, 15.0
# What is asked of times.
TOLERANCE = 0.15

ALIKE, SHORTEST_FIRST = "law=none", "law=none, shortest first"
EQUAL, BY_FAN_IN = "equal weights", "weights by fan-in"
# What the paper says of each run.
PAPER = {
    ALIKE: "all end at 15; activity 90",
    SHORTEST_FIRST: "maps end one after the other, activity 30",
    f"law=seawall, {BY_FAN_IN}": "maps end at 6, reduce at 15; activity 45",
}
DEFAULTS: Dict[str, Any] = {"senders": MAPS + FAN_IN, "receivers": len(TASKS), "phases": (0, 9, 0)}


def workload(parameters: Parameters, one_by_one: bool) -> Workload:
    """Return all transfers, begun together, or the maps one after the other and the reduce behind them."""
    work = Workload()
    size = round(parameters.link_mbps * 1e6 / 8 * UNIT_S * TCP_PAYLOAD)
    for index, vm in enumerate(parameters.vm_names):
        number = min(index, MAPS)
        start_s = number * UNIT_S if one_by_one else 0.0
        work.calls(vm, f"rx{number + 1}", start_s, parameters.duration_s, size, requests=1, name=TASKS[number])
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the runs without a shim, in both orders, and those with the law, with equal weights and by fan-in."""
    law = parse_settings(settings, {**DEFAULTS, "law": "seawall"}).law
    bare = parse_settings(without_law(settings), {**DEFAULTS, "law": "none"})
    runs = [Case(ALIKE, bare, workload(bare, False)), Case(SHORTEST_FIRST, bare, workload(bare, True))]
    weights = {BY_FAN_IN: (*[FAN_IN] * MAPS, *[1] * FAN_IN), EQUAL: (1,)}
    if given(settings, "weights"):
        weights = {"weights as set": (1,)}
    for name, values in weights.items() if law != "none" else ():
        own = parse_settings(settings, {**DEFAULTS, "law": law, "weights": values})
        runs.append(Case(f"law={law}, {name}", own, workload(own, False)))
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return when each task had all its data, and the sum of these times, in units of time from the start of the run.

    A task that never had counts as if it had at the end of the run; so many of its flows are among the unfinished.
    """
    done, unfinished = dict.fromkeys(TASKS, 0.0), 0
    for flow in json.loads((raw / "job.json").read_text())["flows"]:
        row = (raw / f"requests-{flow['port']}.txt").read_text().splitlines()[1]
        took_ns = int(row.split()[2])
        unfinished += took_ns < 0
        end_s = sum(run["parameters"]["phases"]) if took_ns < 0 else flow["start_s"] + took_ns / 1e9
        done[flow["name"]] = max(done[flow["name"]], end_s)
    ends = {name: round(end_s / UNIT_S, 3) for name, end_s in done.items()}
    return {"end": ends, "active": round(sum(ends.values()), 2), "unfinished": unfinished}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge when tasks end where weights go by fan-in; the other runs are what that is compared with."""
    verdicts, found = [], {label: run["measured"] for label, run in runs}
    for label, one in found.items():
        words = PAPER.get(label, "")
        verdicts.append(Verdict(f"maps end, reduce ends, activity in units, {label}", "as measured", [
            [one["end"][name] for name in TASKS[:MAPS]], one["end"]["reduce"], one["active"]], True, words))
    for label, one in found.items():
        if not label.endswith(BY_FAN_IN):
            continue
        slowest = max(one["end"][name] for name in TASKS[:MAPS])
        verdicts += [
            at_most(f"last map, {label}", slowest, MAPS_END * (1 + TOLERANCE), f"t = {MAPS_END:g}"),
            at_most(f"reduce, {label}", one["end"]["reduce"], ALL_END * (1 + TOLERANCE), f"t = {ALL_END:g}"),
            at_most(f"activity, {label} / unprotected", round(one["active"] / found[ALIKE]["active"], 4),
                    0.5 * (1 + TOLERANCE), "45 of 90, a reduction of 50%")]
    return verdicts


EXPERIMENT = Experiment("schedule", "Five maps and a reduce of ten flows on one link", "Seawall, Fig. 3", cases, judge,
                        measure, seen="with weights by fan-in the maps end at 6, the reduce at 15 units of time, each "
                                      "within 15%; all six near 15 without")
