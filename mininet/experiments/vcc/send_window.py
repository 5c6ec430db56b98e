# SPDX-License-Identifier: Apache-2.0
"""The send window of a virtual-ECN flow over time, beside that of a flow that uses ECN itself: vCC's Fig. 9.

Rates, round trip, queue and times are the paper's: a sender's link of 12 Mb/s before a bottleneck of 10, RED1, 5 s to
settle and 12 s of data. The paper reads Linux' tcp_probe at each segment; here the kernel is asked for the socket's
windows each 10 ms, of both flows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, given, near, settled_phase
from sdngcc.experiments.vcc.ecn_mix import QUEUE
from sdngcc.testbed.parameters import parse_settings
from sdngcc.testbed.statistics import mean
from sdngcc.testbed.workload import FIRST_PORT, Program, three_periods

SETTLE_S, DATA_S, INTERVAL_MS = 5, 12, 10
DEFAULTS: Dict[str, Any] = {**QUEUE, "uplink_mbps": 12, "senders": 1, "phases": (0, SETTLE_S + DATA_S, 0)}
NATIVE, VIRTUAL = "native ECN", "virtual ECN"
CASES: Tuple[Tuple[str, Dict[str, Any]], ...] = (
    (VIRTUAL, {"law": "vcc", "guest_ecn": False}), (NATIVE, {"law": "none", "guest_ecn": True}))
# A window that changes its direction by that part of itself makes a tooth's top or foot.
TURN = 0.2


def cases(settings: Sequence[str]) -> List[Case]:
    """Return both runs, or one of the law the user chose."""
    runs = []
    for label, own in [("", {"law": "vcc"})] if given(settings, "law") else CASES:
        parameters = parse_settings(settings, {**DEFAULTS, **own})
        work = three_periods(parameters)
        work.program(Program("windows", "vm1", (
            sys.executable, "-m", "sdngcc.testbed.virtual.watch_tcp", "windows", "{out}/windows.txt", "{start}",
            "{end}", str(INTERVAL_MS * 10**6))))
        runs.append(Case(label, parameters, work))
    return runs


def teeth(windows: Sequence[float]) -> List[Tuple[float, float]]:
    """Return top and foot of each tooth of a sawtooth that begins and ends within."""
    found, top, foot, rising = [], 0.0, 0.0, True
    for window in windows:
        if rising:
            top = max(top, window)
            if window < (1 - TURN) * top:
                rising, foot = False, window
        else:
            foot = min(foot, window)
            if window > (1 + TURN) * foot:
                found.append((top, foot))
                rising, top = True, window
    return found


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return the send window in kB each 10 ms, its teeth, and in which part of samples the receive window held."""
    rows = [tuple(map(int, line.split())) for line in (raw / "windows.txt").read_text().splitlines()]
    rows = [row for row in rows if row[1] == FIRST_PORT]
    start_ns = rows[-1][0] - (SETTLE_S + DATA_S) * 10**9
    kept = [(mss * cwnd, peer) for at_ns, _, mss, cwnd, peer in rows if at_ns - start_ns >= SETTLE_S * 10**9]
    sent = [round(min(own, peer) / 1000, 3) for own, peer in kept]
    found = teeth(sent)
    return {"window_kb": sent, "teeth": len(found),
            "top_kb": round(mean([top for top, _ in found]), 2), "foot_kb": round(mean([foot for _, foot in found]), 2),
            "held": round(mean([own > peer for own, peer in kept]), 4)}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that the receive window held the virtual-ECN flow all the time, and its sawtooth by the native one's."""
    found = dict(runs)
    virtual, native = found.get(VIRTUAL), found.get(NATIVE)
    if virtual is None or native is None:
        return [Verdict("part of samples in which the receive window held, teeth, tops and feet in kB", "as measured",
                        [run["measured"][name] for name in ("held", "teeth", "top_kb", "foot_kb")], True)
                for _, run in runs]
    own, other = virtual["measured"], native["measured"]
    rates = [settled_phase(run, "all")["settled_goodput_mbps"]["vm1"] for run in (virtual, native)]
    return [
        at_least(f"part of samples in which the congestion window is above the receive window, {VIRTUAL}", own["held"],
                 1, "larger for the entire experiment"),
        Verdict(f"foot / top of a tooth, {VIRTUAL}, {NATIVE}", "as measured",
                [round(one["foot_kb"] / one["top_kb"], 3) if one["teeth"] else 0.0 for one in (own, other)], True,
                "the familiar sawtooth"),
        near(f"teeth in {DATA_S} s, {VIRTUAL}, beside {NATIVE}", own["teeth"], other["teeth"], 0.25, "very similar"),
        near(f"tops of teeth, kB, {VIRTUAL}, beside {NATIVE}", own["top_kb"], other["top_kb"], 0.1, "very similar"),
        near(f"feet of teeth, kB, {VIRTUAL}, beside {NATIVE}", own["foot_kb"], other["foot_kb"], 0.1, "very similar"),
        near(f"goodput, Mb/s, {VIRTUAL}, beside {NATIVE}", rates[0], rates[1], 0.02, "very similar")]


EXPERIMENT = Experiment("send-window", "The send window of a virtual-ECN flow beside that of a flow with ECN",
                        "vCC, Fig. 9", cases, judge, measure,
                        seen="the same sawtooth, made by the receive window",
                        changed="Foot over top of a tooth was expected within 15% of one half. The flow that uses ECN "
                                "itself falls to a quarter as well, by two cuts in a row, so it is recorded, and tops "
                                "and feet are judged by the native flow's.")
