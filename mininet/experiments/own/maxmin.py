# SPDX-License-Identifier: Apache-2.0
"""Laws maxmin and sdngcc on the same work: one link shared by few, by many and by weight, and two links in a row.

Reno, DCTCP and UDP at line rate share; the tagged VM joins after a second, and all but it leave at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    UDP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    at_least,
    at_most,
    fair_share_mbps,
    given,
    phase,
)
from sdngcc.experiments.own import parking_lot
from sdngcc.testbed.collect import BIN_S, limits_mbps
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.statistics import jain

COMMON: Dict[str, Any] = {"competitor": ("tcp", "dctcp", "udp"), "handshake": "early", "phases": (1, 4, 1),
                          "limit_sample_ms": 2}
# The work by name, as settings.
WORK: Dict[str, Dict[str, Any]] = {
    "share": {"senders": 4},
    "scale": {"senders": 16},
    "weights": {"senders": 3, "weights": (1, 2, 4)},
    "parking-lot": {**parking_lot.DEFAULTS},
}
LAWS = ("maxmin", "sdngcc")
# Control periods in which all are to have their parts after a join or a leave; for how long they must keep them then:
# a TCP that loses its slow start's last packets is silent from some 40 ms on, and others rightly get what it leaves.
SETTLE_PERIODS, KEEP_S = 5, 0.025
# How long settling is looked for, seconds.
SEARCH_S = 0.3
TOLERANCE = 0.05
# Payload is counted from so long after the join on, seconds.
LATER_S = 0.5


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run of each law on each work; of one law if the user set that."""
    laws = [""] if given(settings, "law") else LAWS
    return [Case(f"{law}, {work}" if law else work, parse_settings(
        settings, {**own, **COMMON, **({"law": law} if law else {})})) for work, own in WORK.items() for law in laws]


def settling_ms(limits: Dict[str, List[Tuple[float, float]]], fair: Dict[str, float],
                event_s: float) -> Optional[float]:
    """Return how long after an event all limits came within 5% of the fair ones to stay for KEEP_S; None: never.

    limits are (s, Mb/s) by VM, fair ones Mb/s. A VM without a limit has not come yet.
    """
    first_s, starts, wrong = event_s, [event_s], []
    for vm, share in fair.items():
        readings = [(at, abs(limit - share) <= TOLERANCE * share) for at, limit in limits[vm]
                    if event_s <= at <= event_s + SEARCH_S + KEEP_S]
        if not readings:
            return None
        first_s = max(first_s, readings[0][0])
        wrong += [at for at, right in readings if not right]
        starts += [at for at, _ in readings]
    for start in sorted(starts):
        if first_s <= start <= event_s + SEARCH_S and not any(start <= at <= start + KEEP_S for at in wrong):
            return round((start - event_s) * 1000, 1)
    return None


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return how long after the tagged VM's join, and the others' leave, limits were those of the new shares."""
    parameters = Parameters(**run["parameters"])
    limits = {vm: limits_mbps(raw, vm) for vm in parameters.vm_names}
    # fair_share_mbps() is payload; a limit counts whole frames on the wire.
    frames = {vm: fair_share_mbps(run, index) / (UDP_PAYLOAD if parameters.protocol(index) == "udp" else TCP_PAYLOAD)
              for index, vm in enumerate(parameters.vm_names)}
    start = phase(run, "all")["start_s"]
    joined = next((at for at, _ in limits["vm1"] if at >= start), start)
    result: Dict[str, Any] = {"join_ms": settling_ms(limits, frames, joined)}
    alone = phase(run, "tagged")
    if alone:
        result["leave_ms"] = settling_ms(limits, {"vm1": float(parameters.link_mbps)}, alone["start_s"])
    return result


def shares(run: Run) -> Tuple[float, float]:
    """Return the largest deviation of a VM from its fair share, as a part, and Jain's index in the worst 100 ms."""
    both = phase(run, "all")
    first, last = round((both["start_s"] + LATER_S) / BIN_S), round(both["end_s"] / BIN_S)
    parts = [[mbps / fair_share_mbps(run, index) for mbps in run["series"]["goodput_mbps"][vm][first:last]]
             for index, vm in enumerate(Parameters(**run["parameters"]).vm_names)]
    error = max(abs(sum(part) / len(part) - 1) for part in parts)
    return round(error, 4), round(min(jain(list(window)) for window in zip(*parts)), 4)


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge maxmin by what it promises, and against sdngcc where both ran; sdngcc's numbers as measured."""
    verdicts = []
    by_label = dict(runs)
    for label, run in runs:
        error, worst = shares(run)
        used, queue = phase(run, "all")["utilisation"], run["queue"]["bytes_p99"]
        limit_ms = SETTLE_PERIODS * run["parameters"]["period_ms"]
        times = {name: run["measured"].get(key) for name, key in (("join", "join_ms"), ("leave", "leave_ms"))
                 if key in run["measured"]}
        if run["parameters"]["law"] != "maxmin":
            for name, value in (("largest error of a share", error), ("Jain, worst 100 ms", worst),
                                ("utilisation", used), ("queue p99, bytes", queue),
                                *((f"settled after a {name}, ms", value) for name, value in times.items())):
                verdicts.append(Verdict(f"{label}: {name}", "as measured", value, True))
            continue
        verdicts += [at_most(f"{label}: largest error of a share", error, 0.05),
                     at_least(f"{label}: Jain, worst 100 ms", worst, 0.99),
                     at_least(f"{label}: utilisation", used, 0.97)]
        rival = by_label.get(label.replace("maxmin", "sdngcc"))
        if rival is not None and rival is not run:
            verdicts.append(at_most(f"{label}: queue p99, bytes, against sdngcc's", queue, rival["queue"]["bytes_p99"]))
        verdicts += [Verdict(f"{label}: settled after a {name}, ms", f"<= {limit_ms:g}", value,
                             value is not None and value <= limit_ms) for name, value in times.items()]
    return verdicts


EXPERIMENT = Experiment("maxmin", "Laws maxmin and sdngcc on the same work", "ours", cases, judge, measure,
                        seen="shares within 5%, Jain 0.99 in 100 ms, 97% used, settled in 5 periods, no longer queue")
