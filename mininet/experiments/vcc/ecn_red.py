# SPDX-License-Identifier: Apache-2.0
"""How many of ten TCPs use ECN, under each of vCC's sets of RED: its Fig. 6 and 7.

One run has all mixes, one after the other: 1 to 9 of ten hosts send with ECN, the others without, for 10 s each as in
the paper, over connections of their own. A host has a VM that uses ECN and one that does not, of which one sends. The
same mixes under law vcc, which the paper has under RED1 with nine flows only (Fig. 11), show whether virtual ECN needs
a certain queue.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_most, given, near
from sdngcc.experiments.vcc.ecn_mix import QUEUE, RED
from sdngcc.testbed.collect import BIN_S
from sdngcc.testbed.parameters import ParameterError, Parameters, parse_settings
from sdngcc.testbed.statistics import mean
from sdngcc.testbed.workload import Workload

HOSTS = 10
MIXES = tuple(range(1, HOSTS))
# A mix sends so long, and the next one begins so long after it began, seconds.
SENDS_S, EVERY_S = 10, 11
# Fig. 7: RED1 with another min, max just above it, and the least burst that tc takes.
MINIMA: Dict[str, Tuple[float, ...]] = {
    f"min {least}": (2_000_000, least, least + 1, burst, 1.0)
    for least, burst in ((20_000, 14), (50_000, 34), (100_000, 67))}
DEFAULTS: Dict[str, Any] = {**QUEUE, "law": "none", "senders": 2 * HOSTS, "vms_per_hypervisor": 2, "guest_ecn": True,
                            "phases": (0, EVERY_S * len(MIXES), 0)}
FEW, MANY = (1, 2, 3), (7, 8, 9)
# What the paper's words come to where it gives no number: "breaks fairness" and "restores" it.
BROKEN, RESTORED = 0.8, 0.1


def senders_of(mix: int) -> Tuple[List[str], List[str]]:
    """Return the VMs that send when so many flows use ECN: those without it, those with it."""
    return ([f"vm{2 * host + 1}" for host in range(mix, HOSTS)], [f"vm{2 * host + 2}" for host in range(mix)])


def workload(parameters: Parameters) -> Workload:
    """Return all mixes, one after the other."""
    work = Workload()
    for number, mix in enumerate(MIXES):
        start = number * EVERY_S
        for ecn, vms in enumerate(senders_of(mix)):
            for vm in vms:
                work.tcp(vm, "rx1", start, start + SENDS_S, parameters.protocol(0), bool(ecn))
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run of each set without a law and of the paper's three with vcc, or one of the user's set or law."""
    sets = {**RED, **MINIMA}
    chosen: List[Tuple[str, Dict[str, Any]]] = [(name, {"red": sets[name]}) for name in sets]
    chosen += [(f"{name}, virtual ECN", {"red": RED[name], "law": "vcc"}) for name in RED]
    runs = []
    for label, own in [("", {})] if given(settings, "red") or given(settings, "law") else chosen:
        parameters = parse_settings(settings, {**DEFAULTS, **own})
        if (parameters.senders, parameters.duration_s) != (2 * HOSTS, EVERY_S * len(MIXES)):
            raise ParameterError("senders and phases of ecn-red are its own: 10 hosts of two VMs, nine mixes")
        runs.append(Case(label, parameters, workload(parameters)))
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return goodput of flows without ECN and with it, the means of each mix, Mb/s, and their ratio."""
    series, found = run["series"]["goodput_mbps"], {}
    for number, mix in enumerate(MIXES):
        bins = slice(round(number * EVERY_S / BIN_S), round((number * EVERY_S + SENDS_S) / BIN_S))
        without, own = (mean([mean(series[vm][bins]) for vm in vms]) for vms in senders_of(mix))
        found[str(mix)] = {"without_mbps": round(without, 4), "ecn_mbps": round(own, 4),
                           "ratio": round(without / own, 4) if own else 0.0}
    return {"mixes": found}


def ratio(run: Run, mixes: Sequence[int] = MIXES) -> float:
    """Return the mean over mixes of a flow's goodput without ECN over one's with it."""
    return round(mean([run["measured"]["mixes"][str(mix)]["ratio"] for mix in mixes]), 4)


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge how unfair each set is (Fig. 6), whether that grows with flows and a lesser min (Fig. 7), and vcc."""
    verdicts = []
    for label, run in runs:
        where = f", {label}" if label else ""
        if run["parameters"]["law"] == "vcc":
            verdicts.append(near(f"a flow with virtual ECN / with ECN, mean of all mixes{where}", ratio(run), 1,
                                 RESTORED))
            continue
        if label not in MINIMA:
            verdicts += [
                at_most(f"one flow without ECN / nine with it{where}", ratio(run, MIXES[-1:]), 0.45, "at most 0.45"),
                at_most(f"flows without ECN / 1 to 3 with it{where}", ratio(run, FEW), BROKEN,
                        "even a small number of ECN flows breaks fairness")]
        verdicts.append(at_most(
            f"unfairness grows with ECN flows: ratio with 7 to 9 / with 1 to 3{where}",
            round(ratio(run, MANY) / ratio(run, FEW), 4), 1, "worsens as the proportion of ECN flows increases"))
    least = [ratio(run) for label, run in runs if label in MINIMA]
    if len(least) == len(MINIMA):
        verdicts.append(Verdict("unfairness grows as REDmin falls: mean ratio at 20,000, 50,000, 100,000",
                                "each above the one before", least, least == sorted(set(least)),
                                "worsens as REDmin decreases"))
    return verdicts


EXPERIMENT = Experiment("ecn-red", "1 to 9 of ten TCPs with ECN under vCC's sets of RED", "vCC, Fig. 6-7", cases,
                        judge, measure,
                        seen="flows without ECN get less under every RED, the less the more others use it")
