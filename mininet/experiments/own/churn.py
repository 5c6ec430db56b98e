# SPDX-License-Identifier: Apache-2.0
"""Laws changed while VMs send, and VMs that come and go: what was learned is dropped, and no VM stays low."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, fair_share_mbps, mean_between, near, phase
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.workload import Program, three_periods

# Laws in force one after the other, each so long; the first one is the run's own and the last one again.
LAWS, EPOCH_S = ("seawall", "eyeq", "scc"), 4.0
# Then the last VM's port goes away and comes back, so often, with so long a pause; and so long all is quiet.
REMOVALS, PAUSE_S, END_S = 10, 0.2, 4.0
# Time after a change until shares count, seconds.
SETTLE_S = 2.0


def epochs(parameters: Parameters) -> List[Tuple[float, str]]:
    """Return when each law's epoch begins, and the law."""
    return [(number * EPOCH_S, law) for number, law in enumerate((parameters.law, *LAWS, parameters.law))]


def cases(settings: Sequence[str]) -> List[Case]:
    """Return one run with five epochs, then a VM that comes and goes."""
    changes_s = EPOCH_S * (len(LAWS) + 2)
    parameters = parse_settings(settings, {
        "law": "hygenicc", "competitor": ("udp", "dctcp", "tcp"), "handshake": "early",
        "phases": (0, changes_s + 2 * REMOVALS * PAUSE_S + END_S, 0)})
    work = three_periods(parameters)
    for number, (start_s, law) in enumerate(epochs(parameters)[1:], 1):
        argv = ("ovs-vsctl", "set", "Open_vSwitch", ".", f"other_config:shim-law={law}")
        work.program(Program(f"law{number}", "vm1", argv, start_s))
    vm = parameters.vm_names[-1]
    host = parameters.hypervisor(parameters.senders - 1)
    port = f"{host}-{vm}"
    back = ("ovs-vsctl", "add-port", host, port, "--", "set", "Interface", port, f"external_ids:iface-id={vm}",
            "other_config:shim-role=vm", f"other_config:shim-weight={parameters.weight(parameters.senders - 1)}")
    for number in range(REMOVALS):
        start_s = changes_s + 2 * number * PAUSE_S
        work.program(Program(f"gone{number}", "vm1", ("ovs-vsctl", "del-port", host, port), start_s))
        work.program(Program(f"back{number}", "vm1", back, start_s + PAUSE_S))
    return [Case("", parameters, work)]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge every VM's share two seconds after each change, and the link's use throughout."""
    run = runs[0][1]
    parameters = Parameters(**run["parameters"])
    end_s = phase(run, "all")["end_s"]
    spans = [(f"law {law} since {start_s:g} s", start_s, start_s + EPOCH_S) for start_s, law in epochs(parameters)]
    spans.append((f"after {parameters.vm_names[-1]} was {REMOVALS} times gone", end_s - END_S, end_s))
    verdicts = []
    for name, start_s, stop_s in spans:
        for index, vm in enumerate(parameters.vm_names):
            verdicts.append(near(f"{vm}, {name}, Mb/s", round(mean_between(run, vm, start_s + SETTLE_S, stop_s), 1),
                                 fair_share_mbps(run, index), 0.15))
    return [*verdicts, at_least("utilisation", phase(run, "all")["utilisation"], 0.85)]


EXPERIMENT = Experiment("churn", "Laws changed under traffic, VMs that come and go", "ours", cases, judge,
                        seen="no VM stays low after a change of law or of neighbours")
