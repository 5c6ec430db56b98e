# SPDX-License-Identifier: Apache-2.0
"""Controllers share the switches by a database in Raft, and the one that owns the bottleneck's switch is killed.

Four VMs on two hosts share one port of the fabric by weights that REST turns round before, each VM's at another
controller. The dead controller's switches must have new owners in time, and no VM may lose its weight, be cut below its
guarantee meanwhile or stay cut.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Run,
    Verdict,
    at_least,
    fair_share_mbps,
    given,
    mean_between,
    near,
    phase,
)
from sdngcc.testbed.parameters import CONTROLLED, ParameterError, Parameters, parse_settings
from sdngcc.testbed.workload import REST_PORT, Program, three_periods

DEFAULTS: Dict[str, Any] = {
    "controllers": 3, "competitor": ("udp", "dctcp", "tcp"), "hosts": 2, "weights": (4, 2, 1, 1), "guarantees": (50,),
    "handshake": "early", "phases": (0, 16, 0), "kill_controller_at_s": 7}
# When weights are turned round, seconds; from then, or from when switches must be taken over, until shares count.
TURN_S, SETTLE_S = 2.0, 2.0
# Longest time without an owner, seconds.
TAKEOVER_S = 2.0
# A limit may be so far outside guarantee and share.
TOLERANCE = 0.01


def turned(parameters: Parameters) -> Parameters:
    """Return the parameters with the weights that REST sets: those of the VMs in the opposite order."""
    weights = [parameters.weight(index) for index in range(parameters.senders)]
    return parameters.model_copy(update={"weights": tuple(reversed(weights))})


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run of each law with a controller, or of the one that the user chose.

    Raises ParameterError.
    """
    made = []
    for law in [""] if given(settings, "law") else CONTROLLED:
        parameters = parse_settings(settings, {**DEFAULTS, **({"law": law} if law else {})})
        kill_s = parameters.kill_controller_at_s
        if parameters.controllers < 2:
            raise ParameterError("controllers=1: nobody would take over; allowed: 2 to 4")
        if kill_s is None or not TURN_S + SETTLE_S < kill_s < parameters.duration_s - TAKEOVER_S - SETTLE_S:
            raise ParameterError(f"kill_controller_at_s={kill_s}: it must be later than {TURN_S + SETTLE_S:g} s and "
                                 f"more than {TAKEOVER_S + SETTLE_S:g} s before the end, "
                                 f"{parameters.duration_s:g} s")
        work = three_periods(parameters)
        for index, vm in enumerate(parameters.vm_names):
            url = f"http://127.0.0.1:{REST_PORT + index % parameters.controllers}"
            argv = ("nsenter", "-t", "1", "-n", sys.executable, "-m", "sdngcc.main", "vm", "--url", url, "set", vm,
                    "--weight", str(turned(parameters).weight(index)))
            work.program(Program(f"weight-{vm}", vm, argv, TURN_S))
        made.append(Case(law, parameters, work))
    return made


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return how long each switch of the killed controller had no owner, and the bottleneck's nobody who spoke for it.

    In ms of virtual time since the kill; None: it has none any more. Also how many messages about the bottleneck's
    switch came from another than its owner at the time.
    """
    meta = json.loads((raw / "meta.json").read_text())
    killed, bottleneck = meta["killed"], meta["killed"]["bottleneck"]
    acting: List[Tuple[float, str, int]] = []
    notices: List[Tuple[float, int]] = []
    for number in range(1, run["parameters"]["controllers"] + 1):
        for line in (raw / f"controller{number}-trace.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "acting":
                acting.append((event["t"], event["switch"], number))
            elif event["event"] == "notice" and event["port"].startswith(f"{bottleneck}:"):
                notices.append((event["t"], number))
    owners = sorted((at, number) for at, dpid, number in acting if dpid == bottleneck)
    foreign = sum([number] != [owner for since, owner in owners if since <= at][-1:] for at, number in notices)

    def waited_ms(times: Iterable[float]) -> Optional[float]:
        first = min((at for at in times if at > killed["t_s"]), default=None)
        return None if first is None else round((first - killed["t_s"]) * 1000, 1)

    return {
        "killed": killed["controller"], "notices": len(notices), "foreign": foreign,
        "taken_ms": {dpid: waited_ms(at for at, switch, number in acting
                                     if switch == dpid and number != killed["controller"])
                     for dpid in killed["switches"]},
        "silent_ms": waited_ms(at for at, number in notices if number != killed["controller"]),
    }


def judge_limits(label: str, run: Run, start_s: float) -> Verdict:
    """Judge that no VM's limit is below its guarantee or above its share from a time on."""
    parameters, series, outside = Parameters(**run["parameters"]), run["series"], 0
    for index, vm in enumerate(parameters.vm_names):
        low = parameters.guarantee_mbps(index) * (1 - TOLERANCE)
        for limit, share in list(zip(series["limit_mbps"][vm], series["share_mbps"][vm]))[round(start_s * 10):]:
            outside += not (limit is not None and low <= limit <= share * (1 + TOLERANCE))
    return Verdict(f"{label}: readings of limits outside guarantee and share since the kill", "0", outside, not outside)


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each law: the takeover's times, limits all the while, shares by the weights set before and after."""
    verdicts = []
    for label, run in runs:
        parameters, measured = Parameters(**run["parameters"]), run["measured"]
        label = label or parameters.law
        kill_s, end_s = float(parameters.kill_controller_at_s or 0), parameters.duration_s
        times = list(measured["taken_ms"].values())
        verdicts += [
            Verdict(f"{label}: longest time until a switch is taken over, ms", f"<= {TAKEOVER_S * 1000:g}",
                    None if None in times else max(times, default=None),
                    bool(times) and all(ms is not None and ms <= TAKEOVER_S * 1000 for ms in times)),
            Verdict(f"{label}: until another controller speaks for the bottleneck, ms", f"<= {TAKEOVER_S * 1000:g}",
                    measured["silent_ms"],
                    measured["silent_ms"] is not None and measured["silent_ms"] <= TAKEOVER_S * 1000),
            Verdict(f"{label}: messages about the bottleneck of another than its owner", "0", measured["foreign"],
                    bool(measured["notices"]) and not measured["foreign"]),
            judge_limits(label, run, kill_s)]
        fair = {**run, "parameters": turned(parameters).model_dump(mode="json")}
        for when, since_s, until_s in (("before the kill", TURN_S + SETTLE_S, kill_s),
                                       ("after it", kill_s + TAKEOVER_S + SETTLE_S, end_s)):
            for index, vm in enumerate(parameters.vm_names):
                verdicts.append(near(f"{label}, {when}: {vm}, Mb/s", round(mean_between(run, vm, since_s, until_s), 1),
                                     fair_share_mbps(fair, index), 0.15))
        verdicts += [at_least(f"{label}: utilisation", phase(run, "all")["utilisation"], 0.85)]
    return verdicts


EXPERIMENT = Experiment("takeover", "A controller of several is killed while VMs send", "ours", cases, judge, measure,
                        seen="its switches taken over within 2 s; weights stay, no VM stays cut")
