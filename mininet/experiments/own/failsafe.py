# SPDX-License-Identifier: Apache-2.0
"""Feedback is lost, stops and comes back under every law.

Four VMs on two hosts share one port of the fabric. Of the feedback 1, 10 and 50 percent are lost, then all of it, then
none. However much arrives, shares are fair; in silence each VM is allowed what its law says, which is never more than
its share of its host's uplink and never less than its guarantee.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_most, fair_share_mbps, given, window
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.workload import Program, three_periods

DEFAULTS: Dict[str, Any] = {
    "competitor": ("udp", "dctcp", "tcp"), "hosts": 2, "guarantees": (50,), "handshake": "early", "phases": (0, 32, 0),
    "loss": (1, 10, 50, 100, 0), "loss_at_s": (0, 4, 14, 24, 28)}
# Laws that no feedback reaches, which nothing can be taken from.
DEAF = ("static",)
# Of single laws. vcc is no defence against UDP and leaves DCTCP alone; hygenicc's echoes ride on packets of VMs.
OWN: Dict[str, Dict[str, Any]] = {"vcc": {"competitor": ("tcp",)}, "hygenicc": {"knobs": {"echo": 0}}}
# Laws whose papers have VMs go down in silence, to their guarantees; under the others they return to their shares.
TO_GUARANTEE = ("eyeq", "seawall", "elasticswitch")
# Time after a change until it counts, seconds.
SETTLE_S = 2.0
# What peers are allowed is read so long before silence ends, seconds.
LOOK_S = 0.1
# Error of the worst share, at most, with up to so many percent lost.
BOUNDS = ((10, 0.15), (50, 0.25))
# What is allowed in silence may differ from what it should be by that part.
TOLERANCE = 0.01


class Stage(NamedTuple):
    """A time with one loss."""

    percent: float
    """Lost."""
    bins: slice
    """Of series: what counts of the stage."""
    end_s: float


def stages(parameters: Parameters) -> Iterator[Stage]:
    """Yield the stages of a run in order."""
    ends = (*parameters.loss_at_s[1:], parameters.duration_s)
    for percent, start_s, end_s in zip(parameters.loss, parameters.loss_at_s, ends):
        yield Stage(percent, window(f"loss {percent:g}%", start_s + SETTLE_S, end_s), end_s)


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run of each law, or of the one that the user chose.

    Raises ParameterError, and CoreBuildError when the shim cannot be asked for its laws.
    """
    from sdngcc.shim.knobs import laws

    made = []
    chosen = [setting.partition("=")[2] for setting in settings if setting.startswith("law=")][-1:]
    for law in chosen if given(settings, "law") else [one.name for one in laws() if one.name not in DEAF]:
        parameters = parse_settings(settings, {**DEFAULTS, **OWN.get(law, {}), "law": law})
        work = three_periods(parameters)
        argv = ("nsenter", "-t", "1", "-n", sys.executable, "-m", "sdngcc.main", "shim", "peers", "--json")
        silence_s = next((stage.end_s for stage in [*stages(parameters)] if stage.percent == 100),
                         parameters.duration_s)
        work.program(Program("peers", "vm1", argv, silence_s - LOOK_S))
        made.append(Case(law, parameters, work))
    return made


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return the rate in Mb/s that each VM's peer was allowed at the end of the silence; null: no bound."""
    names = {index: name for name, index in json.loads((raw / "meta.json").read_text())["devices"].items()}
    rates = {names[one["vm"]].rpartition("-")[2]: one["rate"]
             for one in json.loads((raw / "program-peers.log").read_text())}
    return {"peers_mbps": {vm: round(rates[vm] * 8 / 1e6, 1) if rates.get(vm) else None
                           for vm in Parameters(**run["parameters"]).vm_names}}


def parts_of_shares(run: Run, stage: Stage) -> List[float]:
    """Return each VM's goodput in a stage as a part of its fair share."""
    length = stage.bins.stop - stage.bins.start
    goodput = run["series"]["goodput_mbps"]
    return [sum(goodput[vm][stage.bins]) / length / fair_share_mbps(run, index)
            for index, vm in enumerate(Parameters(**run["parameters"]).vm_names)]


def worst_error(run: Run, stage: Stage) -> float:
    """Return the largest deviation of a VM from its fair share in a stage, as a part of that."""
    return round(max(abs(part - 1) for part in parts_of_shares(run, stage)), 3)


def judge_shares(name: str, run: Run, stage: Stage) -> Verdict:
    """Judge the largest deviation of a VM from its fair share."""
    bound = next((bound for percent, bound in BOUNDS if stage.percent <= percent), None)
    error = worst_error(run, stage)
    return Verdict(name, "as measured", error, True) if bound is None else at_most(name, error, bound)


def judge_silence(law: str, run: Run, stage: Stage) -> List[Verdict]:
    """Judge what each VM was allowed without any feedback: its limiter all the time, with its peer's at the end.

    A VM whose TCP waits for a timeout sends nothing and has no limiter: only what there is to read is judged.
    """
    parameters, series = Parameters(**run["parameters"]), run["series"]
    allowed, wanted = {}, {}
    for index, (vm, peer) in enumerate(run["measured"]["peers_mbps"].items()):
        guarantee = parameters.guarantee_mbps(index)
        limits, shares = ([mbps for mbps in series[name][vm][stage.bins] if mbps is not None]
                          for name in ("limit_mbps", "share_mbps"))
        if not limits:
            continue
        allowed[vm] = limits[-1] if peer is None else min(limits[-1], peer)
        wanted[vm] = guarantee if law in TO_GUARANTEE else shares[-1]
    kind = "guarantee" if law in TO_GUARANTEE else "share"
    return [Verdict(
        f"{law}, silence: each VM is allowed, Mb/s",
        f"its {kind}: {', '.join(f'{mbps:g}' for mbps in wanted.values())}", allowed,
        bool(allowed) and all(abs(allowed[vm] - mbps) <= TOLERANCE * mbps for vm, mbps in wanted.items()))]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each law's shares at each loss and after silence, and what it allows in silence."""
    verdicts = []
    for law, run in runs:
        for stage in stages(Parameters(**run["parameters"])):
            if stage.percent == 100:
                verdicts += judge_silence(law, run, stage)
            else:
                when = f"{stage.percent:g}% lost" if stage.percent else "feedback is back"
                verdicts.append(judge_shares(f"{law}, {when}: error of the worst share", run, stage))
    return verdicts


EXPERIMENT = Experiment("failsafe", "Feedback is lost, stops and comes back", "ours", cases, judge, measure,
                        seen="fair shares with half of the feedback lost and after silence; share or guarantee in it")
