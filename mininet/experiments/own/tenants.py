# SPDX-License-Identifier: Apache-2.0
"""Tenants of unlike numbers of VMs: a port is divided by tenant, and a tenant's cap holds wherever its VMs are.

* ``share``: tenants of 2 and 14 VMs on four hosts send through one port. With equal weights each tenant has half of
  it; without weights each VM stands for itself, and the tenants have 1 to 7.
* ``cap``: six VMs of a tenant with a cap, and two VMs of one without, on four hosts in two racks, send to two
  receivers. No port is full of the first tenant's packets, and no single place sees them all. Acknowledgements of
  the other direction take a part of the ports between the racks.

What is set for tenants is told the controller by ``sdngcc tenant set``, before the run.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    UDP_PAYLOAD,
    Case,
    Experiment,
    Program,
    Run,
    Verdict,
    at_least,
    given,
    mean_between,
    near,
)
from sdngcc.testbed.parameters import ParameterError, Parameters, parse_settings
from sdngcc.testbed.workload import REST_PORT, Workload, three_periods

COMMON: Dict[str, Any] = {"law": "maxmin", "hosts": 4, "tagged": "udp", "competitor": ("tcp", "dctcp", "udp"),
                          "handshake": "early", "phases": (0, 5, 0)}
SIZES = {"tenant_sizes": (2, 14), "senders": 16}
# The work by name, as settings.
WORK: Dict[str, Dict[str, Any]] = {
    "share": {**SIZES, "tenant_weights": (1,)},
    "share, no weights": SIZES,
    "cap": {"tenant_sizes": (6, 2), "senders": 8, "tenant_maximums": (300, 0), "topology": "racks", "receivers": 2},
}
# Rates are judged from here on.
SETTLED_S = 1.0
SHARE_TOLERANCE, CAP_TOLERANCE = 0.05, 0.02


def commands(parameters: Parameters) -> List[Tuple[str, ...]]:
    """Return the words of ``sdngcc tenant`` that set what the parameters say."""
    found = []
    for number in range(len(parameters.tenant_sizes)):
        policy: List[str] = []
        if parameters.tenant_weight(number):
            policy += ["--weight", str(parameters.tenant_weight(number))]
        for option, mbps in (("--min", parameters.tenant_guarantee_mbps(number)),
                             ("--max", parameters.tenant_maximum_mbps(number))):
            policy += [option, str(round(mbps * 1e6))] if mbps else []
        if policy:
            found.append(("set", f"tenant{number + 1}", *policy))
    return found


def workload(parameters: Parameters) -> Workload:
    """Return the usual periods, with what is set for tenants before them."""
    work = three_periods(parameters)
    program = ("nsenter", "-t", "1", "-n", sys.executable, "-m", "sdngcc.main", "tenant", "--url",
               f"http://127.0.0.1:{REST_PORT}")
    for words in commands(parameters):
        work.program(Program(f"policy-{words[1]}", "vm1", (*program, *words)))
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run of each work; as many VMs send as tenants have, unless senders says more. Raises ParameterError."""
    made = []
    for label, own in WORK.items():
        defaults = {**COMMON, **own}
        if given(settings, "tenant_sizes") and not given(settings, "senders"):
            sizes = next(one for one in reversed(settings) if one.startswith("tenant_sizes=")).partition("=")[2]
            if not all(size.isdecimal() for size in sizes.split(",")):
                raise ParameterError(f"tenant_sizes={sizes}: numbers with commas are allowed")
            defaults["senders"] = sum(int(size) for size in sizes.split(","))
        if label.endswith("no weights") and given(settings, "tenant_weights"):
            continue
        parameters = parse_settings(settings, defaults)
        made.append(Case(label, parameters, workload(parameters)))
    return made


def sent_mbps(run: Run) -> Dict[str, float]:
    """Return what each VM got through once settled, Mb/s of whole frames as limits count them."""
    parameters = Parameters(**run["parameters"])
    found = {}
    for index, vm in enumerate(parameters.vm_names):
        payload = UDP_PAYLOAD if parameters.protocol(index) == "udp" else TCP_PAYLOAD
        found[vm] = mean_between(run, vm, SETTLED_S, parameters.duration_s) / payload
    return found


def judge_run(label: str, run: Run) -> List[Verdict]:
    """Judge the tenants' rates by what is set for them, and the VMs' within each."""
    parameters, sent = Parameters(**run["parameters"]), sent_mbps(run)
    members = [[index for index in range(parameters.senders) if parameters.tenant_of(index) == number]
               for number in range(len(parameters.tenant_sizes))]
    sums = [sum(sent[parameters.vm_names[index]] for index in those) for those in members]
    verdicts: List[Verdict] = []
    free = [number for number in range(len(sums)) if not parameters.tenant_maximum_mbps(number)]
    weights = [parameters.tenant_weight(number) for number in free]
    for number, mbps in enumerate(sums):
        name, cap, least = f"{label}: tenant{number + 1} of {len(members[number])} VMs, Mb/s", \
            parameters.tenant_maximum_mbps(number), parameters.tenant_guarantee_mbps(number)
        if cap:
            verdicts.append(near(f"{name}, cap {cap:g}", round(mbps, 2), cap, CAP_TOLERANCE))
        elif all(weights) and len(free) > 1 and not any(parameters.tenant_guarantees):
            part = sum(sums[one] for one in free) * parameters.tenant_weight(number) / sum(weights)
            verdicts.append(near(f"{name}, weight {parameters.tenant_weight(number)}", round(mbps, 2), part,
                                 SHARE_TOLERANCE))
        elif least:
            verdicts.append(at_least(f"{name}, guarantee {least:g}", round(mbps, 2), (1 - CAP_TOLERANCE) * least))
        else:
            verdicts.append(Verdict(name, "as measured", round(mbps, 2), True))
        total = sum(parameters.weight(index) for index in members[number])
        worst = max(abs(sent[parameters.vm_names[index]] * total / parameters.weight(index) / mbps - 1)
                    for index in members[number])
        verdicts.append(Verdict(f"{label}: tenant{number + 1}: farthest of its VMs from its part",
                                f"<= {SHARE_TOLERANCE:g}", round(worst, 4), worst <= SHARE_TOLERANCE))
    ports = parameters.receivers if parameters.topology == "racks" else 1
    use = sum(sent.values()) / ports / parameters.link_mbps
    verdicts.append(at_least(f"{label}: use of the receivers' ports", round(use, 4), 0.97))
    return verdicts


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each run by what was set for its tenants."""
    return [verdict for label, run in runs for verdict in judge_run(label, run)]


EXPERIMENT = Experiment("tenants", "Tenants of 2 and 14 VMs share a port; a tenant's cap over four hosts", "ours",
                        cases, judge, seen="halves of the port within 5%, the cap within 2%")
