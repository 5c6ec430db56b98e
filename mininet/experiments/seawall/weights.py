# SPDX-License-Identifier: Apache-2.0
"""Weights changed while VMs send: Seawall, section 4."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, mean_between, near
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.workload import Program, Workload, three_periods

# The weights in force one after the other, a list an epoch; they go round the VMs.
EPOCHS = ((1, 1), (1, 3), (4, 1), (1, 1))
# Time after a change until the ratio must be there again, seconds.
SETTLE_S = 1.0


def epochs(parameters: Parameters) -> List[Tuple[float, Tuple[int, ...]]]:
    """Return when each epoch begins, seconds from the start of the run, and its weights of all VMs."""
    first, second, _ = parameters.phases
    rounds = (parameters.weights, *EPOCHS[1:])
    return [(first + second * number / len(rounds),
             tuple(weights[index % len(weights)] for index in range(parameters.senders)))
            for number, weights in enumerate(rounds)]


def cases(settings: Sequence[str]) -> List[Case]:
    """Return one run with four epochs in its second period."""
    parameters = parse_settings(settings, {"law": "seawall", "senders": 2, "weights": EPOCHS[0], "phases": (0, 16, 0),
                                           "handshake": "early"})
    work: Workload = three_periods(parameters)
    if parameters.law != "none":
        for number, (start_s, weights) in enumerate(epochs(parameters)[1:], 2):
            argv = ["ovs-vsctl"]
            for index, vm in enumerate(parameters.vm_names):
                host = parameters.hypervisor(index)
                argv += ["--", "set", "Interface", f"{host}-{vm}", f"other_config:shim-weight={weights[index]}"]
            work.program(Program(f"weights{number}", "vm1", tuple(argv), start_s))
    return [Case("", parameters, work)]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each VM's goodput against its weight, from a second after each change to the next."""
    run = runs[0][1]
    parameters = Parameters(**run["parameters"])
    ends = [start_s for start_s, _ in epochs(parameters)[1:]] + [parameters.phases[0] + parameters.phases[1]]
    verdicts = []
    for (start_s, weights), end_s in zip(epochs(parameters), ends):
        got = [mean_between(run, vm, start_s + SETTLE_S, end_s) for vm in parameters.vm_names]
        for vm, mbps, weight in zip(parameters.vm_names, got, weights):
            name = f"{vm}, weights {':'.join(map(str, weights))} since {start_s:g} s, Mb/s"
            if parameters.law == "none":
                verdicts.append(Verdict(name, "as measured", round(mbps, 3), True))
            else:
                verdicts.append(near(name, round(mbps, 3), sum(got) * weight / sum(weights), 0.15))
    return verdicts


EXPERIMENT = Experiment("weights", "Weights changed while VMs send", "Seawall, section 4", cases, judge,
                        seen="the new ratio within one second")
