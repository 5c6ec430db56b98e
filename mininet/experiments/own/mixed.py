# SPDX-License-Identifier: Apache-2.0
"""VMs of one host under different laws: none breaks another.

Two hosts with two VMs each send to one receiver: a TCP under sdngcc, the law of the host, UDP at line rate and a TCP
under hygenicc, and UDP at line rate under static with a ceiling. The controller runs for the first; what it tells the
others, they do not heed.
"""

from __future__ import annotations

import sys
from typing import List, Sequence, Tuple

from sdngcc.experiments.base import UDP_PAYLOAD, Case, Experiment, Run, Verdict, at_least, near, settled_phase
from sdngcc.testbed.parameters import parse_settings
from sdngcc.testbed.workload import Program, three_periods

# The law of each VM, tagged first; "default" is the run's own.
LAWS = ("default", "hygenicc", "static", "hygenicc")
# Ceiling of the third VM, Mb/s, and what of it arrives as payload in full datagrams.
CEILING_MBPS, UDP_PART = 100.0, UDP_PAYLOAD
# When the VMs get their laws, seconds from the start of the run.
CHANGE_S = 0.1


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the one run."""
    parameters = parse_settings(settings, {
        "law": "sdngcc", "senders": len(LAWS), "hosts": 2, "competitor": ("udp", "udp", "tcp"),
        "maximums": (0, 0, CEILING_MBPS, 0), "phases": (1, 9, 2), "handshake": "early"})
    work = three_periods(parameters)
    ports = [(f"{parameters.hypervisor(index)}-{vm}", law)
             for index, (vm, law) in enumerate(zip(parameters.vm_names, LAWS))]
    # The receiver's shim echoes and reports to whom it hears.
    for device, law in [*ports, ("hvr-rx1", "hygenicc")]:
        # The datapath is that of the machine, not of a VM.
        argv = ("nsenter", "-t", "1", "-n", sys.executable, "-m", "sdngcc.main", "shim", "set-port", device,
                "--law", law)
        if law != "default":
            work.program(Program(f"law-{device}", "vm1", argv, CHANGE_S))
    return [Case("", parameters, work)]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that the ceiling holds, that nobody starves beside another law, and that the link is used."""
    run = runs[0][1]
    shared = settled_phase(run, "all")
    got, link = shared["settled_goodput_mbps"], run["parameters"]["link_mbps"]
    verdicts = [near("vm3, static with a ceiling, Mb/s", got["vm3"], CEILING_MBPS * UDP_PART, 0.05)]
    fair = (link - CEILING_MBPS) / 3
    for vm, law in (("vm1", run["parameters"]["law"]), ("vm2", "hygenicc"), ("vm4", "hygenicc")):
        verdicts.append(at_least(f"{vm}, {law}: part of an equal share", round(got[vm] / fair, 3), 0.5))
    ratio = round(got["vm2"] / got["vm4"], 3) if got["vm4"] else 0.0
    verdicts.append(near("vm2 and vm4, UDP and TCP under hygenicc, ratio", ratio, 1.0, 0.15))
    verdicts.append(at_least("utilisation, period all", shared["settled_utilisation"], 0.85))
    verdicts.append(Verdict("queue p99, bytes", "as measured", run["queue"]["bytes_p99"], True))
    return verdicts


EXPERIMENT = Experiment("mixed", "VMs of one host under different laws", "ours", cases, judge,
                        seen="each VM keeps to its own law, and none starves another")
