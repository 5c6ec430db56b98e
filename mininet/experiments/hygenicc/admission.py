# SPDX-License-Identifier: Apache-2.0
"""HyGenICC's admission control: who may still open connections while others send.

Section III of the paper has it in a sentence: a hypervisor that sees, by marks, a highly congested path to a VM accepts
no further connections to that VM until the congestion subsides. No algorithm and no experiment of the paper has it, and
it says not when a path is highly congested. Law hygenicc has none; here gate.py adds it from outside, with two
thresholds: any mark of ten milliseconds, and marks on more than half of their packets.

vm1 and a TCP elephant share a hypervisor, DCTCP and UDP at line rate another. The elephants send for five seconds, UDP
for the last three of these; vm1 opens connections of 11.5 KB at random times, 50 a second in the mean, a second later
than the elephants, and on for two seconds behind them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Program,
    Run,
    Verdict,
    Workload,
    at_least,
    at_most,
    fair_share_mbps,
    goodput_by_second,
    mean,
    phase,
)
from sdngcc.experiments.hygenicc import gate
from sdngcc.testbed.parameters import ParameterError, Parameters, parse_settings

DEFAULTS: Dict[str, Any] = {"law": "hygenicc", "competitor": ("tcp", "udp", "dctcp"), "vms_per_hypervisor": 2,
                            "phases": (1, 4, 2)}
# Thresholds of the gate by the labels of the runs; None: there is no gate.
GATES: Dict[str, Any] = {"no admission control": None, "refuse at any mark": 0.0, "refuse at half marked": 0.5}
# A connection's bytes, how often one is due, us, and the time in which one that no SYN was lost of opens and ends, s.
PAGE_BYTES, INTERVAL_US, AT_ONCE_S = 11_776, 20_000, 0.9
# UDP begins so long after the others, s.
UDP_S = 2.0
NEWCOMER = "newcomer"
# Where the gate is in the machine: as a text of its run, what it does belongs to what a result follows from.
GATE = "/run/gate/gate.py"
# What the paper asks of any VM in its introduction, which a VM that is refused has not.
PAPER = "each VM has its rate regardless of others' traffic (section I)"


def workload(parameters: Parameters, threshold: Any) -> Workload:
    """Return elephants, the connections of vm1, and the gate."""
    first, second, third = parameters.phases
    work, end_s = Workload(), first + second
    for index, vm in enumerate(parameters.vm_names[1:], 1):
        protocol = parameters.protocol(index)
        if protocol == "udp":
            work.udp(vm, "rx1", UDP_S, end_s, parameters.udp_mbps or parameters.link_mbps)
        else:
            work.tcp(vm, "rx1", 0, end_s, protocol, parameters.guest_ecn and protocol != "dctcp", parameters.flows)
    work.short("vm1", "rx1", first, end_s + third, PAGE_BYTES, interval_us=INTERVAL_US, poisson=True, name=NEWCOMER)
    if threshold is not None:
        hosts: Dict[str, List[str]] = {}
        for index, vm in enumerate(parameters.vm_names):
            hosts.setdefault(parameters.hypervisor(index), []).append(f"{{ip:{vm}}}")
        argv = ("nsenter", "-t", "1", "-n", sys.executable, GATE, str(threshold), "{ip:rx1}",
                *(f"{host}={','.join(addresses)}" for host, addresses in hosts.items()))
        text = Path(gate.__file__).read_text(encoding="utf-8")
        work.program(Program("gate", "vm1", argv, serves=True, files={GATE: text}))
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run without admission control, and one for each threshold. Raises ParameterError."""
    parameters = parse_settings(settings, DEFAULTS)
    if parameters.receivers != 1:
        raise ParameterError(f"receivers={parameters.receivers}: all send to one here")
    if parameters.phases[0] + parameters.phases[1] <= UDP_S + 1:
        raise ParameterError(f"phases={parameters.phases}: UDP begins after {UDP_S:g} s and has a second or more")
    return [Case(label, parameters, workload(parameters, threshold)) for label, threshold in GATES.items()]


def refused_s(log: Path, start_ns: int, begin_s: float, end_s: float) -> float:
    """Return how long vm1's hypervisor refused connections between two times of the run, s."""
    total, since = 0.0, None
    for line in [*log.read_text(encoding="ascii").splitlines(), f"{start_ns + round(end_s * 1e9)} hv1 open"]:
        at_ns, name, state = line.split()
        at_s = min(max((int(at_ns) - start_ns) / 1e9, begin_s), end_s)
        if name == "hv1" and since is not None:
            total += at_s - since
        if name == "hv1":
            since = at_s if state == "closed" else None
    return total


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return what became of the connections that were due while the elephants sent, and of those behind them.

    Parts that ended at once, at the first SYN that is, and the part of the elephants' time in which vm1's hypervisor
    refused connections.
    """
    start_ns = round(json.loads((raw / "meta.json").read_text())["start_s"] * 1e9)
    shared = phase(run, "all")
    begin_s, end_s = shared["start_s"], shared["end_s"]
    found: Dict[str, List[bool]] = {"during": [], "after": []}
    for table in raw.glob("requests-*.txt"):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            due_ns, _, took_ns = (int(word) for word in line.split())
            when = "during" if (due_ns - start_ns) / 1e9 < end_s else "after"
            found[when].append(0 <= took_ns < AT_ONCE_S * 1e9)
    log = raw / "program-gate.log"
    refused = refused_s(log, start_ns, begin_s, end_s) / (end_s - begin_s) if log.exists() else 0.0
    return {"at_once": round(mean(found["during"]), 4), "connections": len(found["during"]),
            "at_once_after": round(mean(found["after"]), 4), "refused_part": round(refused, 4)}


def udp_part(run: Run) -> float:
    """Return what UDP that began last has of an equal share among the elephants, from its second second on."""
    parameters = Parameters(**run["parameters"])
    index = next(number for number in range(1, parameters.senders) if parameters.protocol(number) == "udp")
    seconds = goodput_by_second(run, parameters.vm_names[index], UDP_S + 1, phase(run, "all")["end_s"])
    return round(mean(seconds) / (fair_share_mbps(run, index) * parameters.senders / (parameters.senders - 1)), 4)


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge who gets in, whether refusing shortens the queue, and what UDP, which opens no connection, has."""
    bare = next((run for label, run in runs if GATES.get(label, 0) is None), None)
    verdicts = []
    for label, run in runs:
        found = run["measured"]
        verdicts.append(at_least(f"connections that open at once beside elephants, {label}", found["at_once"], 0.95,
                                 PAPER))
        if run is bare:
            continue
        verdicts.append(Verdict(f"time that hv1 refuses connections, part, {label}", "as measured",
                                found["refused_part"], True, "until the congestion subsides"))
        if bare is not None:
            verdicts.append(at_most(f"queue p99, part of that without, {label}",
                                    round(run["queue"]["bytes_p99"] / max(bare["queue"]["bytes_p99"], 1), 3), 0.9))
        # The rule cannot touch who opens no connection, so this is a number and no verdict.
        verdicts.append(Verdict(f"UDP that comes while connections are refused, of an even share, {label}",
                                "as measured", udp_part(run), True,
                                "effective regardless of the transport (section II, R2)"))
    return verdicts


EXPERIMENT = Experiment("admission", "Connections refused while others congest the path", "HyGenICC, section III",
                        cases, judge, measure,
                        seen="what admission control does to those who come, and to the queue")
