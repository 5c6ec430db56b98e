# SPDX-License-Identifier: Apache-2.0
"""All laws, and none, on the same demanding work: three tenants with flows of public traces beside one that takes all.

VMs go round four tenants. Those of the first three send flows of web search, data mining and Hadoop (traces.py), each
VM to a receiver, so that a VM's payload is a given part (load) of its share of the link. The fourth tenant's take what
they can: the first blasts UDP at line rate, the second sends over many connections (flows), the third to many receivers
(destinations), and so on round. All receivers are behind one port.

Every law is compared to what each of the three tenants has alone on the same network without a shim, with the very same
flows: bytes of flows that ended, and times of completion by size. A flow that has not ended took until the end of the
run at least, which is what it counts as. So a tenant within its share should have 1 everywhere.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    Workload,
    given,
    percentile,
    phase,
    without_law,
)
from sdngcc.experiments.own.traces import MEANT_FOR_MBPS, TRACES, classes, draw
from sdngcc.experiments.sdn_gcc import laws as all_laws
from sdngcc.testbed.parameters import ParameterError, Parameters, make_parameters, parse_settings

DEFAULTS: Dict[str, Any] = {"senders": 12, "receivers": 30, "destinations": 30, "flows": 60, "phases": (0.5, 2.5, 0),
                            "competitor": ("tcp",)}
WELL = tuple(TRACES)
RIVALS = ("udp", "flows", "fan-out")
TENANTS = len(WELL) + 1
# Flows begin in this part of the second phase, so that what is under way can end.
BEGIN_PART = 0.8
# No flow is larger than this part of what its VM's share carries in that time.
MOST_PART = 0.25
# Sizes by class, bytes on 10 Gb/s: up to the first, up to the second, above.
BOUNDS = (100_000, 1_000_000)
CLASSES = ("small", "middle", "large")
# A class of fewer flows has no percentiles.
FLOWS_LEAST = 10
ALONE = "alone"
# What a row says, and whether less is better; the others are not compared.
LESS_IS_BETTER = {"throughput": False, **{f"{percent} {kind}": True for kind in CLASSES for percent in ("p50", "p99")},
                  "link used": False, "queue p99, kB": True}
# A goal: our law is the best, or this part off.
GOAL_LAW, GOAL = "maxmin", 0.05


def share_mbps(parameters: Parameters, index: int) -> float:
    """Return the payload that the index-th VM's share of the link carries, Mb/s."""
    total = sum(parameters.weight(number) for number in range(parameters.senders))
    return parameters.link_mbps * parameters.inner_part * TCP_PAYLOAD * parameters.weight(index) / total


def tenant_vms(parameters: Parameters, tenant: int) -> List[int]:
    """Return the indices of a tenant's VMs."""
    return list(range(tenant, parameters.senders, TENANTS))


def add_tenant(work: Workload, parameters: Parameters, tenant: int, load: float, start_s: float, seed: int) -> None:
    """Let the VMs of one of the first three tenants send its trace from start_s on, for the second phase's length."""
    length_s = parameters.phases[1]
    scale = parameters.link_mbps / MEANT_FOR_MBPS
    trace = TRACES[WELL[tenant]]
    for index in tenant_vms(parameters, tenant):
        share, vm = share_mbps(parameters, index), parameters.vm_names[index]
        most = MOST_PART * share * 1e6 / 8 * length_s * BEGIN_PART
        work.scheduled(vm, f"rx{index % parameters.receivers + 1}", start_s, start_s + length_s,
                       draw(trace, seed, vm, share * load / 100, length_s * BEGIN_PART, scale, most),
                       cc=parameters.protocol(0), ecn=parameters.guest_ecn and parameters.protocol(0) != "dctcp",
                       name=trace.name)


def alone(parameters: Parameters, load: float, seed: int) -> Workload:
    """Return the work of the three tenants, one after the other."""
    work = Workload()
    for tenant in range(len(WELL)):
        add_tenant(work, parameters, tenant, load, tenant * parameters.phases[1], seed)
    return work


def together(parameters: Parameters, load: float, seed: int) -> Workload:
    """Return the work of all tenants; the fourth begins with the run, the others with the second phase."""
    first, second, _ = parameters.phases
    work = Workload()
    for number, index in enumerate(tenant_vms(parameters, len(WELL))):
        vm, kind, end_s = parameters.vm_names[index], RIVALS[number % len(RIVALS)], first + second
        receiver, cc = f"rx{index % parameters.receivers + 1}", parameters.protocol(1)
        ecn = parameters.guest_ecn and cc != "dctcp"
        if kind == "udp":
            work.udp(vm, receiver, 0, end_s, parameters.udp_mbps or parameters.link_mbps)
        elif kind == "flows":
            work.tcp(vm, receiver, 0, end_s, cc, ecn, parameters.flows)
        else:
            for to in range(parameters.destinations):
                work.tcp(vm, f"rx{(index + to) % parameters.receivers + 1}", 0, end_s, cc, ecn)
    for tenant in range(len(WELL)):
        add_tenant(work, parameters, tenant, load, first, seed)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return for each load a run of the tenants alone, one without a shim and one of each law, or of the one set.

    Raises CoreBuildError when the shim cannot be asked, ParameterError for work that this experiment is not about.
    """
    from sdngcc.shim.knobs import laws

    names = [""] if given(settings, "law") else ["none", *(law.name for law in laws())]
    plain = [one for one in without_law(settings) if not one.startswith(("phases=", "edge="))]
    runs = []
    chosen = parse_settings(settings, DEFAULTS)
    if chosen.senders < TENANTS or chosen.topology not in ("dumbbell", "star"):
        raise ParameterError(f"tournament needs senders={TENANTS} or more, and topology=dumbbell or star")
    if chosen.phases[2] or chosen.tagged == "udp" or "udp" in chosen.competitor:
        raise ParameterError("tournament needs phases that end with 0, and tagged and competitor that are TCP: the "
                             "first is what well-behaved tenants use, the second what the fourth one does")
    # Schedules are those of the length that each tenant has beside the others.
    length_s = round(len(WELL) * chosen.phases[1], 1)
    for load in chosen.load:
        bare = parse_settings(plain, {**DEFAULTS, "law": "none", "phases": (0, length_s, 0)})
        runs.append(Case(f"{ALONE}, load {load:g}%", bare, partial(alone, chosen, load)))
        for name in names:
            parameters = parse_settings(settings, {**DEFAULTS, **({"law": name} if name else {})})
            runs.append(Case(f"{parameters.law}, load {load:g}%", parameters, partial(together, parameters, load)))
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return for each well-behaved tenant what became of its flows, what rivals received, and control bytes.

    Times of completion are us, those of flows that did not end what they had waited; percentiles are None where a class
    has too few flows.
    """
    parameters = make_parameters(run["parameters"])
    bounds = [bound * parameters.link_mbps / MEANT_FOR_MBPS for bound in BOUNDS]
    job = json.loads((raw / "job.json").read_text())
    start_ns = round(json.loads((raw / "meta.json").read_text())["start_s"] * 1e9)
    found: Dict[str, Dict[str, Any]] = {}
    took: Dict[str, List[List[float]]] = {}
    for flow in job["flows"]:
        if "schedule" not in flow:
            continue
        tenant = found.setdefault(flow["name"], {"flows": 0, "ended": 0, "bytes": 0})
        times = took.setdefault(flow["name"], [[] for _ in CLASSES])
        length_ns = (flow["stop_s"] - flow["start_s"]) * 1e9
        sizes = [size for _, size in flow["schedule"]]
        # By due time. Flows that found no free connection are not in the client's list.
        ended: Dict[int, int] = {}
        for line in (raw / f"requests-{flow['port']}.txt").read_text().splitlines()[1:]:
            due_ns, _, took_ns = (int(word) for word in line.split())
            if took_ns >= 0:
                ended[due_ns - start_ns - round(flow["start_s"] * 1e9)] = took_ns
        for (due, size), kind in zip(flow["schedule"], classes(sizes, bounds)):
            tenant["flows"] += 1
            tenant["ended"] += due in ended
            tenant["bytes"] += size if due in ended else 0
            times[kind].append(ended.get(due, length_ns - due) / 1000)
    for name, tenant in found.items():
        tenant["classes"] = {kind: {
            "flows": len(values), **{f"p{percent}_us": round(percentile(values, percent), 1)
                                     if len(values) >= FLOWS_LEAST else None for percent in (50, 99)}}
            for kind, values in zip(CLASSES, took[name])}
    return {"tenants": found, **all_laws.measure(raw, run)}


def row(run: Run, bare: Run) -> Dict[str, Any]:
    """Return a run's row: the worst tenant's parts of what it had in bare, alone, and what the network was like.

    None where no tenant has enough flows of a class.
    """
    own, other = run["measured"]["tenants"], bare["measured"]["tenants"]
    result: Dict[str, Any] = {"throughput": round(min(own[name]["bytes"] / other[name]["bytes"] for name in own), 3)}
    for kind in CLASSES:
        for percent in (50, 99):
            key = f"p{percent}_us"
            pairs = [(own[name]["classes"][kind][key], other[name]["classes"][kind][key]) for name in own]
            ratios = [mine / alone_us for mine, alone_us in pairs if mine is not None and alone_us is not None]
            result[f"p{percent} {kind}"] = round(max(ratios), 2) if ratios else None
    parameters, both = make_parameters(run["parameters"]), phase(run, "all")
    greedy = [parameters.vm_names[index] for index in tenant_vms(parameters, len(WELL))]
    length_s = sum(parameters.phases)
    return {**result, "link used": both["utilisation"], "queue p99, kB": round(run["queue"]["bytes_p99"] / 1000, 1),
            "control, kB/s": round(run["measured"]["control_bytes"] / length_s / 1000, 1),
            "rivals, Mb/s": {vm: both["goodput_mbps"][vm] for vm in greedy}}


def rows(runs: List[Tuple[str, Run]]) -> Dict[str, Dict[str, Any]]:
    """Return the row of each run but those alone, by label."""
    by_label, result = dict(runs), {}
    for label, run in runs:
        law, _, load = label.partition(", ")
        if law != ALONE:
            result[label] = row(run, by_label[f"{ALONE}, {load}"])
    return result


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Give a row a run, and judge our law against the best of each column where all ran."""
    found = rows(runs)
    verdicts = [Verdict(label, "as measured", one, True) for label, one in found.items()]
    for label, own in found.items():
        law, _, load = label.partition(", ")
        others = {name.partition(", ")[0]: one for name, one in found.items()
                  if name.endswith(load) and not name.startswith(("none,", label))}
        if law != GOAL_LAW or not others:
            continue
        for column, less in LESS_IS_BETTER.items():
            values = {name: one[column] for name, one in others.items() if one[column] is not None}
            if own[column] is None or not values:
                continue
            best = (min if less else max)(values, key=values.__getitem__)
            limit = values[best] * (1 + GOAL if less else 1 - GOAL)
            verdicts.append(Verdict(f"{label}: {column}", f"{'<=' if less else '>='} {limit:.4g}, {best}'s within 5%",
                                    own[column], own[column] <= limit if less else own[column] >= limit))
    return verdicts


EXPERIMENT = Experiment("tournament", "All laws on flows of public traces beside tenants that take all", "ours", cases,
                        judge, measure,
                        seen="what well-behaved tenants have of what they would have alone, under each law")
