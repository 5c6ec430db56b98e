# SPDX-License-Identifier: Apache-2.0
"""DCTCP in the vSwitch for guests of any TCP, as AC/DC has it, beside DCTCP in the guests.

AC/DC TCP (He et al., SIGCOMM 2016) runs the administrator's congestion control for each connection in the vSwitch and
brakes guests by the receive window. Its abstract claims that DCTCP run so "closely tracks its native performance",
whatever the guest's own TCP is. Law vcc does that with target=1, which makes its virtual window DCTCP's, and own-ecn=1,
which holds guests that use ECN themselves to it, too. What the abstract gives no number for is judged by native DCTCP.

Five VMs on hosts of their own begin to send two seconds after each other and end together, 100 us apart from their
receiver, whose port marks from 20 packets on. Guests that ignore their receive window, which AC/DC polices, are not
held by vcc, and there are none here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, at_most, given
from sdngcc.testbed.collect import BIN_S
from sdngcc.testbed.parameters import ParameterError, Parameters, make_parameters, parse_settings
from sdngcc.testbed.statistics import jain, mean, percentile
from sdngcc.testbed.workload import Workload

SENDERS, EVERY_S, LAST_S = 5, 2, 4
DEFAULTS: Dict[str, Any] = {"senders": SENDERS, "rtt_us": 100, "backpressure": False,
                            "phases": (0, (SENDERS - 1) * EVERY_S + LAST_S, 0)}
VSWITCH: Dict[str, Any] = {"law": "vcc", "knobs": {"target": 1, "own-ecn": 1}}
NATIVE, BARE = "native DCTCP", "mixed guests, no law"
# Guests by VM: congestion control, and whether it negotiates ECN; DCTCP does always.
Guest = Tuple[str, bool]
MIXED: Tuple[Guest, ...] = (("cubic", False), ("reno", False), ("dctcp", True), ("cubic", True), ("reno", True))
CASES: Tuple[Tuple[str, Dict[str, Any], Tuple[Guest, ...]], ...] = (
    (NATIVE, {"law": "none"}, (("dctcp", True),) * SENDERS),
    (BARE, {"law": "none"}, MIXED),
    ("CUBIC, DCTCP in the vSwitch", VSWITCH, (("cubic", False),) * SENDERS),
    ("Reno, DCTCP in the vSwitch", VSWITCH, (("reno", False),) * SENDERS),
    ("mixed guests, DCTCP in the vSwitch", VSWITCH, MIXED),
)
# A newcomer has its share when the goodputs of two windows in a row, of so many bins, have this index of Jain.
WINDOW_BINS, FAIR = 2, 0.95
# How near "closely" is: of native DCTCP's goodput and queue, of Jain's index, and seconds until a newcomer is served.
GOODPUT, QUEUE, INDEX, SHARE_S = 0.02, 0.25, 0.02, 0.2


def workload(parameters: Parameters, guests: Sequence[Guest]) -> Workload:
    """Return VMs that begin one after the other."""
    work = Workload()
    for number, (vm, (control, ecn)) in enumerate(zip(parameters.vm_names, guests)):
        work.tcp(vm, "rx1", number * EVERY_S, parameters.duration_s, control, ecn)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the five runs, or one of mixed guests under the law the user chose."""
    runs = []
    for label, own, guests in [("", {}, MIXED)] if given(settings, "law") else CASES:
        parameters = parse_settings(settings, {**DEFAULTS, **own})
        if parameters.senders != SENDERS:
            raise ParameterError(f"senders={parameters.senders}: acdc has {SENDERS}, of which each has its own TCP")
        runs.append(Case(label, parameters, workload(parameters, guests)))
    return runs


def until_fair_s(rates: Sequence[Sequence[float]]) -> Optional[float]:
    """Return how long it takes until VMs, whose goodputs by bin are given, share fairly; None: they never do."""
    sums = [[sum(rate[at:at + WINDOW_BINS]) for rate in rates] for at in range(len(rates[0]) - WINDOW_BINS + 1)]
    return next((round(at * BIN_S, 1) for at in range(len(sums) - WINDOW_BINS)
                 if jain(sums[at]) >= FAIR and jain(sums[at + WINDOW_BINS]) >= FAIR), None)


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return how long each newcomer waits for its share; goodput, Jain's index and queue once all send."""
    parameters = make_parameters(run["parameters"])
    rates = [run["series"]["goodput_mbps"][vm] for vm in parameters.vm_names]
    per_s = round(1 / BIN_S)
    waits = []
    for number in range(1, SENDERS):
        end = number + 1 if number + 1 < SENDERS else number + LAST_S / EVERY_S
        bins = slice(round(number * EVERY_S * per_s), round(end * EVERY_S * per_s))
        waits.append(until_fair_s([rate[bins] for rate in rates[:number + 1]]))
    # The first second after the last one has begun does not count.
    begin = (SENDERS - 1) * EVERY_S + 1
    means = [mean(rate[begin * per_s:]) for rate in rates]
    start_ns = 0
    backlogs = []
    names, *lines = (raw / "queue.txt").read_text().splitlines()
    at, backlog = (names.split().index(name) for name in ("t_ns", "backlog"))
    for row in (line.split() for line in lines):
        start_ns = start_ns or int(row[at])
        if int(row[at]) - start_ns >= begin * 10**9:
            backlogs.append(int(row[backlog]))
    return {"wait_s": waits, "vm_mbps": [round(rate, 2) for rate in means], "sum_mbps": round(sum(means), 2),
            "jain": round(jain(means), 4), "queue_kb": round(mean(backlogs) / 1000, 2),
            "queue_p99_kb": round(percentile(backlogs, 99) / 1000, 2)}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge DCTCP in the vSwitch by native DCTCP: goodput, shares, queue and newcomers; and mixed guests without."""
    found = {label: run["measured"] for label, run in runs}
    native = found.get(NATIVE)
    verdicts = [Verdict(f"each VM's goodput, Mb/s, {label}".rstrip(", "), "as measured", own["vm_mbps"], True)
                for label, own in found.items()]
    if native is None:
        return verdicts
    verdicts.append(at_most(f"Jain's index, {BARE}", found[BARE]["jain"], 0.9))
    closely = "closely tracks its native performance"
    slowest = _slowest(native)
    for label, own in found.items():
        if label in (NATIVE, BARE):
            continue
        verdicts += [
            at_least(f"goodput of all / that of {NATIVE}, {label}", round(own["sum_mbps"] / native["sum_mbps"], 4),
                     1 - GOODPUT, closely),
            at_least(f"Jain's index, {label}", own["jain"], round(native["jain"] - INDEX, 4),
                     "regardless of the VM's TCP"),
            at_most(f"mean queue / that of {NATIVE}, {label}", round(own["queue_kb"] / native["queue_kb"], 3),
                    1 + QUEUE, closely),
            at_most(f"queue's p99 / that of {NATIVE}, {label}",
                    round(own["queue_p99_kb"] / native["queue_p99_kb"], 3), 1 + QUEUE, closely),
            at_most(f"slowest newcomer to its share, s, {label}", _slowest(own), round(slowest + SHARE_S, 1), closely)]
    return verdicts


def _slowest(measured: Dict[str, Any]) -> float:
    """Return the longest wait of a newcomer, as long as the run for one that never had its share."""
    return max(SENDERS * EVERY_S if wait is None else wait for wait in measured["wait_s"])


EXPERIMENT = Experiment("acdc", "DCTCP in the vSwitch for CUBIC, Reno and mixed guests, beside DCTCP in the guests",
                        "AC/DC, abstract", cases, judge, measure,
                        seen="goodput, shares, queue and convergence as with DCTCP in the guests")
