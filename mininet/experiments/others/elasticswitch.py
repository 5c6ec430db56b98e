# SPDX-License-Identifier: Apache-2.0
"""A VM's guarantee beside 1, 4 and 16 senders to another VM of its host, and what it leaves to them: ElasticSwitch.

Two receivers share a port of 1 Gb/s, and every VM, sender or receiver, has a guarantee of 450 Mb/s, so that a tenth is
headroom. The tagged VM sends TCP to the first; the others send to the second, first alone and then beside it. The
receiver's guarantee is what all of them together may count on, whatever each has for itself. Guarantees that are given
to senders alone, as maxmin has them, add up to more than the port here. Each host has an Open vSwitch of its own: one
for all cannot know which uplink a VM will use, and refuses guarantees that together exceed any.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    UDP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    Workload,
    at_least,
    at_most,
    given,
    phase,
    settled_phase,
)
from sdngcc.testbed.parameters import Parameters, make_parameters, parse_settings

GUARANTEE_MBPS = 450
DEFAULTS: Dict[str, Any] = {"law": "elasticswitch", "topology": "star", "receivers": 2, "fabric": "linux",
                            "guarantees": (GUARANTEE_MBPS,), "phases": (2, 5, 2)}
# How many others, and what they send.
OTHERS = ((1, "tcp"), (4, "tcp"), (16, "tcp"), (16, "udp"))
# Part of the guarantee, and of the link, that is enough.
KEPT, USED = 0.95, 0.85


def workload(parameters: Parameters) -> Workload:
    """Return the tagged VM's flow to the first receiver, and the others' to the second."""
    first, second, _ = parameters.phases
    work = Workload()
    work.tcp("vm1", "rx1", first, parameters.duration_s, parameters.protocol(0))
    for index in range(1, parameters.senders):
        vm, protocol = parameters.vm_names[index], parameters.protocol(index)
        if protocol == "udp":
            work.udp(vm, "rx2", 0, first + second, parameters.udp_mbps or parameters.link_mbps)
        else:
            work.tcp(vm, "rx2", 0, first + second, protocol, count=parameters.flows)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the runs: without a shim beside 16 others, then under the law beside 1, 4 and 16."""
    laws = [""] if given(settings, "law") else ["none", DEFAULTS["law"]]
    found = []
    for law in laws:
        for others, competitor in OTHERS:
            if law == "none" and others < OTHERS[-1][0]:
                continue
            parameters = parse_settings(settings, {**DEFAULTS, "senders": others + 1, "competitor": (competitor,),
                                                   **({"law": law} if law else {})})
            found.append(Case(f"{others} {competitor}, {parameters.law}", parameters, workload(parameters)))
    return found


def parts(run: Run) -> Tuple[float, float, float]:
    """Return the tagged VM's part of its guarantee beside the others, and of the link all use beside it and before."""
    parameters = make_parameters(run["parameters"])
    got = settled_phase(run, "all")["settled_goodput_mbps"]
    before = phase(run, "competitors")["goodput_mbps"]
    payload = UDP_PAYLOAD if parameters.protocol(1) == "udp" else TCP_PAYLOAD
    link = parameters.link_mbps
    both = got["vm1"] / TCP_PAYLOAD + sum(rate for vm, rate in got.items() if vm != "vm1") / payload
    return (round(got["vm1"] / TCP_PAYLOAD / GUARANTEE_MBPS, 3), round(both / link, 3),
            round(sum(before.values()) / payload / link, 3))


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that the guarantee is kept, and that nobody is held to his own while there is room."""
    verdicts = []
    for label, run in runs:
        kept, used, before = parts(run)
        name = f"{label}: tagged VM beside the others, part of its guarantee"
        if run["parameters"]["law"] == "none":
            verdicts.append(at_most(name, kept, 0.5))
            continue
        verdicts += [at_least(name, kept, KEPT, paper="bandwidth guarantees, in challenging situations too (abstract)"),
                     at_least(f"{label}: use of the link, all", used, USED, paper="work-conserving (abstract)"),
                     at_least(f"{label}: use of the link, others alone", before, USED,
                              paper="work-conserving (abstract)")]
    return verdicts


EXPERIMENT = Experiment("elasticswitch", "A guarantee beside many senders, and what it leaves", "ElasticSwitch", cases,
                        judge, seen="a guarantee kept beside 1 to 16 senders, and a full link")
