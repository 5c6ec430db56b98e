# SPDX-License-Identifier: Apache-2.0
"""Divisions of different objectives and weights share a link, without a shim and under scc: SCC's Fig. 3 and 8b.

A division has one source, as in the paper's Fig. 1a; Fig. 3 has 16 servers. Loads are the paper's: 400 Mb/s for each of
CS alone, DS and CS, and DS, CS and LS on 1 Gb/s (Fig. 3, so the last brings more than the link carries), 300 Mb/s each
(section VI), 600 Mb/s each of two DS tenants of weights 3 and 1 (Fig. 8b; the weights are ours, the paper gives none).
Last, backlogged divisions of two VMs each and weights 2 and 1, the second of which has three times the flows, show
whether weights hold.

VMs send as they please (``unordered``, as on the paper's testbed) or in the order of their objective (``ordered``,
section IV, in-tunnel scheduling), the same without a shim and under scc, so that what the order does is not taken for
the law's doing. Under scc a tracker divides each division's weight: by what its VMs register where they order what they
send, else by a fixed part, as their kernels hold all that they have. A tunnel's queue holds 50 ms. ``divisions`` says
which VMs are together, ``weights`` of a division is that of its first VM.

The law does not cut a tunnel below 0.95 of what it is due by weight (``due-ppm``), 475 Mb/s for each of two, of which
DS and CS bring 400. What the law does without that is seen with due-ppm=0, there and in the two scenarios that bring
more than is due.
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
    settled_phase,
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
    ("CS alone", ("cs",), 40, (1,)),
    ("DS and CS", ("ds", "cs"), 40, (1,)),
    ("DS, CS and LS", ("ds", "cs", "ls"), 40, (1,)),
    ("DS, CS and LS, 30% each", ("ds", "cs", "ls"), 30, (1,)),
    ("two DS tenants", ("ds", "ds"), 60, (3, 1, 1)),
)
ALONE, TENANTS = SCENARIOS[0][0], SCENARIOS[-1][0]
ORDERS = ("unordered", "ordered")
# The order in which a scenario runs without the part of the law that keeps what is due.
WITHOUT_DUE = {"DS and CS": "unordered", "DS, CS and LS": "unordered", TENANTS: "ordered"}
DUE, DUE_OFF = "knob.due-ppm", " due-ppm=0"
# What the paper says under its law, of what it is without: DS misses, CS mean completion.
PAPER_MISSES = {"DS and CS": "2 times fewer (Fig. 3b)", "DS, CS and LS": "1 time fewer (Fig. 3b)",
                "DS, CS and LS, 30% each": "up to 3.2 times fewer (section VI)",
                TENANTS: "almost none of the heavier tenant (Fig. 8b)"}
PAPER_COMPLETION = {ALONE: (1.0, "the same (Fig. 3a)"), "DS and CS": (0.83, "17% less (Fig. 3a)"),
                    "DS, CS and LS": (0.47, "53% less (Fig. 3a)"),
                    "DS, CS and LS, 30% each": (0.6, "40% less (section VI)")}
# How much longer completion alone may be under the law and still be the same.
SAME = 0.1
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


def scheduled(parameters: Parameters, groups: Sequence[Group], ordered: bool, seed: int) -> Workload:
    """Return the groups' flows drawn from the seed, beside a tracker under scc."""
    scc = parameters.law == "scc"
    sockets = {vm: f"/run/register-{vm}" for group in groups for vm in group.vms} if scc and ordered else {}
    work = workload(parameters, groups, seed, ordered, sockets)
    if scc:
        add_tracker(work, parameters, groups, sockets, registering=ordered)
    return work


def steady(parameters: Parameters, groups: Sequence[Group]) -> Workload:
    """Return backlogged flows: one for each VM of the first division, three for others'."""
    work = Workload()
    for number, group in enumerate(groups):
        for vm in group.vms:
            work.tcp(vm, f"rx{number + 1}", 0, parameters.duration_s, "dctcp", count=3 if number else 1)
    return work


def variants(settings: Sequence[str], defaults: Dict[str, Any]) -> List[Tuple[str, Parameters]]:
    """Return the laws to run by name: none and scc, or the law given."""
    chosen = [parse_settings(settings, defaults)]
    if not given(settings, "law"):
        chosen.insert(0, parse_settings(without_law(settings), {**defaults, "law": "none"}))
    return [(f"law={parameters.law}", parameters) for parameters in chosen]


def cases(settings: Sequence[str]) -> List[Case]:
    """Return each scenario, in each order, without a shim and under scc or the law given; last, backlogged ones."""
    runs = []
    for label, objectives, percent, weights in SCENARIOS:
        defaults = {**DEFAULTS, "weights": weights}
        found = variants(settings, defaults)
        for order in ORDERS[:1] if label == ALONE else ORDERS:
            own = list(found)
            if WITHOUT_DUE.get(label) == order and found[-1][1].law == "scc" and not given(settings, DUE):
                own.append((f"law=scc{DUE_OFF}", parse_settings([*settings, f"{DUE}=0"], defaults)))
            for law, parameters in own:
                groups = groups_of(parameters, objectives, percent)
                runs.append(Case(f"{label}, {law}, {order}", parameters,
                                 partial(scheduled, parameters, groups, order == "ordered")))
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
    goodput = settled_phase(run, "all")["settled_goodput_mbps"]
    got = [sum(goodput[vm] for vm in group.vms) for group in groups]
    whole = sum(group.weight for group in groups)
    return [near(f"{group.name}, weight {group.weight}, {label}, Mb/s", round(mbps, 3),
                 sum(got) * group.weight / whole, 0.10, "in proportion to weights")
            for group, mbps in zip(groups, got)]


def of_division(scenario: str, objective: str) -> str:
    """Return the receiver of an objective's division in a scenario; empty: it has none."""
    objectives = next(own for label, own, *_ in SCENARIOS if label == scenario)
    return f"rx{objectives.index(objective) + 1}" if objective in objectives else ""


def recorded(label: str, own: Dict[str, Any]) -> List[Verdict]:
    """Return what became of each division's flows."""
    names = ("mean_ms", "p99_ms", "missed", "unfinished", "mbps")
    return [Verdict(f"{label}: {receiver}: mean, p99 in ms, part missed, unfinished, Mb/s", "as measured",
                    [one[name] for name in names], True) for receiver, one in own.items()]


def judge_law(scenario: str, law: str, order: str, own: Dict[str, Any], bare: Dict[str, Any]) -> List[Verdict]:
    """Judge a scenario under a law against the unprotected run in the same order.

    The paper's testbed has no order in tunnels, and that alone is judged by its numbers; where both have the order, the
    law is to be no worse than the order alone.
    """
    plain = order == ORDERS[0] or scenario == TENANTS
    label = f"{scenario}, {law}, {order}"
    verdicts = []
    if of_division(scenario, "ds"):
        verdicts.append(at_most(f"DS misses, {label} / unprotected", ratio(own, bare, "rx1", "missed"),
                                0.5 if plain else 1.0, PAPER_MISSES[scenario] if plain else ""))
    if scenario == TENANTS:
        misses = [sum(one[name]["missed"] for name in ("rx1", "rx2")) for one in (own, bare)]
        return [*verdicts, at_most(f"DS misses of both tenants, {label} / unprotected",
                                   round(misses[0] / misses[1], 4) if misses[1] else 0.0, 1.0, "fewer (Fig. 8b)")]
    factor, words = PAPER_COMPLETION[scenario]
    share = ratio(own, bare, of_division(scenario, "cs"), "mean_ms")
    name = f"CS mean completion, {label} / unprotected"
    verdicts.append(near(name, share, factor, SAME, words) if scenario == ALONE else
                    at_most(name, share, factor if plain else 1.0, words if plain else ""))
    if of_division(scenario, "ls"):
        verdicts.append(at_most(f"LS mean message time, {label} / unprotected", ratio(own, bare, "rx3", "mean_ms"), 0.6,
                                "up to 40% less (section VI)"))
    return verdicts


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge misses and completion under a law against the unprotected run in the same order, and weights."""
    found = {label: run["measured"] for label, run in runs}
    verdicts: List[Verdict] = []
    for label, run in runs:
        if label.startswith(STEADY):
            verdicts += judge_steady(label, run)
            continue
        scenario, law, order = label.rsplit(", ", 2)
        own, bare = found[label], found.get(f"{scenario}, law=none, {order}")
        verdicts += recorded(label, own)
        if bare is not None and law != "law=none":
            verdicts += judge_law(scenario, law, order, own, bare)
    return verdicts


def ratio(own: Dict[str, Any], bare: Dict[str, Any], receiver: str, name: str) -> float:
    """Return a measure of a group in one run as a part of that in another; 0 when both are 0."""
    if not own[receiver][name]:
        return 0.0
    return round(own[receiver][name] / bare[receiver][name], 4) if bare[receiver][name] else float("inf")


EXPERIMENT = Experiment("divisions", "Divisions of different objectives and weights, with and without scc",
                        "SCC, Fig. 3 and 8b", cases, judge, measure_groups,
                        seen="DS misses half as much, CS is faster in the same order, weights hold within 10%",
                        changed="Divisions had two sources each before it was measured, one since, as in the paper's "
                                "Fig. 4; their tunnels' queues hold 50 ms since, and backlogged divisions kept two. "
                                "It had DCTCP for all and an order under the law alone when it was measured first; "
                                "since then both have the same order and the paper's protocols, LS brings 400 Mb/s "
                                "as well as 300, and CS is judged by the paper's own 0.83, 0.47 and 0.6, not by 0.7.")
