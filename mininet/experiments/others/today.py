# SPDX-License-Identifier: Apache-2.0
"""What clouds hold VMs with today, at their hosts, on the work of ``share`` and ``tournament`` beside laws of the shim.

* htb: a queue of the VM's rate at the uplink, by Open vSwitch's linux-htb;
* borrow: the same, and what the uplink has spare: a guarantee as Neutron gives it;
* police: Open vSwitch's ingress policing, with Neutron's burst of 0.8 s of the rate, and with 10 ms of it;
* static: departure times that fq holds packets to, the shim's own bucket.

Each VM's rate is an equal part of the port that all send to, or, sold twice, double that. None of them sees that port.
Hosts have one VM each, so that borrow always finds the uplink unused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Run,
    Verdict,
    at_least,
    at_most,
    fair_share_mbps,
    given,
    phase,
    settled_phase,
)
from sdngcc.experiments.own import tournament
from sdngcc.testbed.parameters import ParameterError, parse_settings

# The tagged VM sends TCP beside UDP, TCP and UDP.
SHARE: Dict[str, Any] = {"senders": 4, "competitor": ("udp", "tcp"), "phases": (2, 6, 4)}
# What holds VMs, as settings.
LIMITS: Dict[str, Dict[str, Any]] = {
    "none": {"law": "none"},
    "htb": {"law": "none", "edge": "htb"},
    "borrow": {"law": "none", "edge": "borrow"},
    "police": {"law": "none", "edge": "police"},
    "static": {"law": "static"},
    "sdngcc": {"law": "sdngcc"},
    "maxmin": {"law": "maxmin"},
}
# The policer's short burst, seconds of the rate, and its name.
SHORT_BURST_S, SHORT = 0.01, "police 10 ms"
# A fixed rate, whatever others leave unused; what gives that away; what knows of the port.
FIXED, GIVING, KNOWING = ("htb", "police", SHORT, "static"), ("borrow", "sdngcc", "maxmin"), ("sdngcc", "maxmin")
SOLD = "sold twice"


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the runs of share, of rates that are sold twice, and of the tournament; or those with the law set."""
    if any(given(settings, name) for name in ("edge", "static_mbps")):
        raise ParameterError("today sets edge and static_mbps itself: leave them out")
    law = parse_settings(settings, SHARE).law if given(settings, "law") else ""
    chosen = {name: own for name, own in LIMITS.items() if law in ("", own["law"])}
    if not chosen:
        raise ParameterError(f"law={law}: today has {', '.join(dict.fromkeys(own['law'] for own in LIMITS.values()))}")
    rest = [setting for setting in settings if not setting.startswith("law=")]
    found = [Case(f"{name}, share", parse_settings(rest, {**SHARE, **own})) for name, own in chosen.items()]
    equal_mbps = found[0].parameters.fixed_mbps(0)
    if "police" in chosen:
        burst = round(SHORT_BURST_S * equal_mbps * 1e6 / 8)
        found.insert([case.label for case in found].index("police, share") + 1, Case(
            f"{SHORT}, share", parse_settings(rest, {**SHARE, **LIMITS["police"], "burst_bytes": burst})))
    found += [Case(f"{name}, {SOLD}", parse_settings(rest, {**SHARE, **chosen[name], "static_mbps": 2 * equal_mbps}))
              for name in FIXED if name in chosen]
    for name, own in chosen.items():
        alone, *limited = tournament.cases([*rest, *(f"{key}={value}" for key, value in own.items())])
        if len(limited) != 1:
            raise ParameterError("today has one load: leave the others out")
        if name == next(iter(chosen)):
            found.append(alone)
        found.append(replace(limited[0], label=limited[0].label.replace(own["law"], name, 1)))
    return found


def part_beside(run: Run) -> float:
    """Return what the tagged VM has while all send, as a part of its fair share."""
    return round(settled_phase(run, "all")["settled_goodput_mbps"]["vm1"] / fair_share_mbps(run), 3)


def part_alone(run: Run) -> float:
    """Return what the tagged VM has once the others are silent, as a part of the link."""
    senders = run["parameters"]["senders"]
    return round(settled_phase(run, "tagged")["settled_goodput_mbps"]["vm1"] / fair_share_mbps(run) / senders, 3)


def peak(run: Run) -> float:
    """Return the most that a VM has in 0.1 s while the tagged one is silent, as a part of an equal part of the link."""
    last = round(phase(run, "competitors")["end_s"] * 10)
    return round(max(max(series[:last]) for series in run["series"]["goodput_mbps"].values()) / fair_share_mbps(run), 2)


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge what theory says of limits at hosts: what they hold, what they waste, and what they do not see."""
    found = {tuple(label.rsplit(", ", 1)): run for label, run in runs}
    verdicts = []
    for (name, work), run in found.items():
        if work not in ("share", SOLD):
            continue
        beside, alone = part_beside(run), part_alone(run)
        verdicts.append(Verdict(f"{name}, {work}", "as measured", {
            "beside the others, part of the fair share": beside, "alone, part of the link": alone,
            "most in 0.1 s, of an equal part": peak(run), "queue p99, bytes": run["queue"]["bytes_p99"]}, True))
        if work == SOLD:
            verdicts.append(at_most(f"{name}, {work}: TCP beside the others, part of the fair share", beside, 0.25))
            continue
        if name in ("htb", "static", *KNOWING):
            verdicts.append(at_least(f"{name}: TCP beside the others, part of the fair share", beside, 0.85))
        elif name == "borrow":
            verdicts.append(at_most(f"{name}: TCP beside the others, part of the fair share", beside, 0.25))
        if name in FIXED:
            verdicts.append(at_most(f"{name}: TCP alone, part of the link", alone, 0.3))
        elif name in GIVING:
            verdicts.append(at_least(f"{name}: TCP alone, part of the link", alone, 0.9))
        if name == SHORT:
            verdicts.append(at_most(f"{name}: TCP alone, part of its rate",
                                    round(alone * run["parameters"]["senders"], 3), 0.9))
        elif name == "police":
            verdicts.append(at_least(f"{name}: most of a VM in 0.1 s, part of its rate", peak(run), 2))
    return verdicts + judge_tournament(runs)


def judge_tournament(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge what well-behaved tenants have beside one that takes all, of what each would have alone."""
    verdicts = []
    for label, row in tournament.rows([one for one in runs if ", load" in one[0]]).items():
        name, got = label.partition(", ")[0], row["throughput"]
        verdicts.append(Verdict(label, "as measured", row, True))
        if name in FIXED:
            verdicts.append(at_most(f"{label}: throughput of the worst tenant", got, 0.9))
        elif name == "borrow":
            verdicts.append(at_most(f"{label}: throughput of the worst tenant", got, 0.5))
        elif name in KNOWING:
            verdicts.append(at_least(f"{label}: throughput of the worst tenant", got, 0.9))
    return verdicts


EXPERIMENT = Experiment("today", "HTB, policing and departure times at hosts, beside laws of the shim", "ours", cases,
                        judge, tournament.measure,
                        seen="limits at hosts hold their rate, give nothing of it away and do not see the fabric")
