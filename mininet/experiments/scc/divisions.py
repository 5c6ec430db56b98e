# SPDX-License-Identifier: Apache-2.0
"""Divisions of different objectives and weights share a link, without a shim and under scc: SCC's Fig. 3, 4 and 8b.

A division has one source, as in the paper's Fig. 4; Fig. 3 has 16 servers. Loads are the paper's: 400 Mb/s each of
DS and CS on 1 Gb/s (high load, Fig. 4), 300 Mb/s each with LS (section VI), 600 Mb/s each of two DS tenants of weights
3 and 1 (Fig. 8b; the weights are ours, the paper gives none). Last, backlogged divisions of two VMs each and weights 2
and 1, the second of which has three times the flows, show whether weights hold.

Under scc a tracker divides each division's weight by what its VMs register, and VMs send in the order of their
objective (section IV). A tunnel's queue holds 50 ms. ``divisions`` says which VMs are together, ``weights`` of a
division is that of its first VM.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Program,
    Run,
    Verdict,
    Workload,
    at_most,
    given,
    near,
    phase,
    without_law,
)
from sdngcc.experiments.scc.objectives import Group, measure_groups, workload
from sdngcc.testbed.parameters import Parameters, make_parameters, parse_settings
from sdngcc.topologies.placement import hypervisor_of

DEFAULTS: Dict[str, Any] = {"law": "scc", "senders": 3, "receivers": 3, "divisions": (1, 2, 3),
                            "phases": (0, 3, 0), "rtt_us": 300, "buffer_packets": 250, "mark_percent": 8,
                            "horizon_us": 50000}
# Label, objectives of the divisions, percent of the link that each wants, weights unless given.
SCENARIOS: Tuple[Tuple[str, Tuple[str, ...], int, Tuple[int, ...]], ...] = (
    ("DS and CS", ("ds", "cs"), 40, (1,)),
    ("DS, CS and LS", ("ds", "cs", "ls"), 30, (1,)),
    ("two DS tenants", ("ds", "ds"), 60, (3, 1, 1)),
)
STEADY = "backlogged"
STEADY_DEFAULTS: Dict[str, Any] = {**DEFAULTS, "senders": 4, "divisions": (1, 1, 2, 2), "weights": (2, 2, 1, 1),
                                   "phases": (0, 5, 0)}
TRACKER, CONFIG = "127.0.0.1:7700", "/run/tracker.json"


def groups_of(parameters: Parameters, objectives: Sequence[str], percent: float) -> List[Group]:
    """Return the first divisions with those objectives, each sending so much of the link."""
    members: Dict[int, List[int]] = {}
    for index in range(parameters.senders):
        members.setdefault(parameters.divisions[index % len(parameters.divisions)], []).append(index)
    return [Group(f"division{number}", objective, tuple(f"vm{index + 1}" for index in indices),
                  percent / 100 * parameters.link_mbps, parameters.weight(indices[0]))
            for (number, indices), objective in zip(members.items(), objectives)]


def add_tracker(work: Workload, parameters: Parameters, groups: Sequence[Group], sockets: Dict[str, str],
                registering: bool) -> None:
    """Let a tracker and an agent run beside the workload; the hosts of the testbed share one agent."""
    vms = {}
    for number, group in enumerate(groups):
        for vm in group.vms:
            host = hypervisor_of(parameters.topology, int(vm[2:]) - 1, parameters.vms_per_hypervisor, parameters.hosts)
            vms[f"{host}-{vm}"] = {"division": group.name, **(
                {"register_path": sockets[vm]} if registering else {"peers": {f"10.0.1.{number + 1}": 1}})}
    settings = {"host": "testbed", "trackers": [TRACKER], "period_ms": 5, "vms": vms, "divisions": {
        group.name: {"weight": group.weight, "objective": group.objective} for group in groups}}
    program = (sys.executable, "-m", "sdngcc.main", "tracker")
    work.programs[:0] = [
        Program("tracker", "", (*program, "serve", "--config", CONFIG, "--listen", TRACKER), serves=True,
                files={CONFIG: json.dumps(settings, sort_keys=True)}),
        Program("tracker-agent", "", (*program, "agent", "--config", CONFIG), serves=True),
    ]


def scheduled(parameters: Parameters, groups: Sequence[Group], seed: int) -> Workload:
    """Return the groups' flows drawn from the seed; under scc in the order of the objective, beside a tracker."""
    scc = parameters.law == "scc"
    sockets = {vm: f"/run/register-{vm}" for group in groups for vm in group.vms} if scc else {}
    work = workload(groups, parameters.duration_s, seed, ordered=scc, agents=sockets)
    if scc:
        add_tracker(work, parameters, groups, sockets, registering=True)
    return work


def steady(parameters: Parameters, groups: Sequence[Group]) -> Workload:
    """Return backlogged flows: one for each VM of the first division, three for others'."""
    work = Workload()
    for number, group in enumerate(groups):
        for vm in group.vms:
            work.tcp(vm, f"rx{number + 1}", 0, parameters.duration_s, "dctcp", count=3 if number else 1)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return each scenario without a shim and under scc (or the law given), and backlogged divisions under it."""
    plain = without_law(settings)
    runs = []
    for label, objectives, percent, weights in SCENARIOS:
        defaults = {**DEFAULTS, "weights": weights}
        chosen = [parse_settings(settings, defaults)]
        if not given(settings, "law"):
            chosen.insert(0, parse_settings(plain, {**defaults, "law": "none"}))
        for parameters in chosen:
            groups = groups_of(parameters, objectives, percent)
            runs.append(Case(f"{label}, law={parameters.law}", parameters, partial(scheduled, parameters, groups)))
    parameters = parse_settings(settings, STEADY_DEFAULTS)
    groups = [replace(group, objective="ds") for group in groups_of(parameters, ("ds", "ds"), 0)]
    work = steady(parameters, groups)
    if parameters.law == "scc":
        add_tracker(work, parameters, groups, {}, registering=False)
    runs.append(Case(f"{STEADY}, law={parameters.law}", parameters, work))
    return runs


def judge_steady(label: str, run: Run) -> List[Verdict]:
    """Judge backlogged divisions' goodput by their weights."""
    parameters = make_parameters(run["parameters"])
    groups = groups_of(parameters, ("ds", "ds"), 0)
    goodput = phase(run, "all")["settled_goodput_mbps"]
    got = [sum(goodput[vm] for vm in group.vms) for group in groups]
    whole = sum(group.weight for group in groups)
    return [near(f"{group.name}, weight {group.weight}, {label}, Mb/s", round(mbps, 3),
                 sum(got) * group.weight / whole, 0.10, "in proportion to weights")
            for group, mbps in zip(groups, got)]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge misses and completion under a law against the unprotected run, and weights."""
    found = {label: run["measured"] for label, run in runs}
    verdicts: List[Verdict] = []
    for label, run in runs:
        scenario, law = label.rsplit(", law=", 1)
        if scenario == STEADY:
            verdicts += judge_steady(label, run)
            continue
        own, bare = found[label], found.get(f"{scenario}, law=none")
        for receiver, one in own.items():
            verdicts.append(Verdict(f"{label}: {receiver}: mean, p99 in ms, part missed, unfinished", "as measured",
                                    [one[name] for name in ("mean_ms", "p99_ms", "missed", "unfinished")], True))
        if bare is None or law == "none":
            continue
        verdicts.append(at_most(f"DS misses, {label} / unprotected", ratio(own, bare, "rx1", "missed"), 0.5,
                                "0.25 (simulation, DS and CS), 0.5 (testbed), almost none of the heavier tenant"))
        if "rx3" in own:
            verdicts.append(at_most(f"LS mean message time, {label} / unprotected",
                                    ratio(own, bare, "rx3", "mean_ms"), 0.6, "up to 40% less (section VI)"))
        if scenario != "two DS tenants":
            verdicts.append(at_most(f"CS mean completion, {label} / unprotected", ratio(own, bare, "rx2", "mean_ms"),
                                    0.7, "0.83 (DS and CS), 0.47 (with LS)"))
        else:
            misses = [sum(one[name]["missed"] for name in ("rx1", "rx2")) for one in (own, bare)]
            verdicts.append(at_most("DS misses of both tenants, under the law / unprotected",
                                    round(misses[0] / misses[1], 4) if misses[1] else 0.0, 1.0, "fewer"))
    return verdicts


def ratio(own: Dict[str, Any], bare: Dict[str, Any], receiver: str, name: str) -> float:
    """Return a measure of a group under a law as a part of the unprotected one; 0 when both are 0."""
    if not own[receiver][name]:
        return 0.0
    return round(own[receiver][name] / bare[receiver][name], 4) if bare[receiver][name] else float("inf")


EXPERIMENT = Experiment("divisions", "Divisions of different objectives and weights, with and without scc",
                        "SCC, Fig. 3, 4 and 8b", cases, judge, measure_groups,
                        seen="DS misses half as much, CS is 30% faster at high load, weights hold within 10%",
                        changed="Divisions had two sources each before it was measured, one since, as in the paper's "
                                "Fig. 4; their tunnels' queues hold 50 ms since, and backlogged divisions kept two.")
