# SPDX-License-Identifier: Apache-2.0
"""The controller beside a cloud's agents, to which the hypervisors' bridges belong.

Four VMs of two tenants send from two hypervisors to a third one, over a fabric of plain Linux bridges. br-int belongs
to neutron-openvswitch-agent, over VLANs, or to ovn-controller, over Geneve. What bridges hold (flows, groups, meters,
without their counters) is dumped before the controller starts, while all send, and after it stopped. Nothing may
differ, and shares must be those of ``share``.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least
from sdngcc.experiments.sdn_gcc import share
from sdngcc.testbed.parameters import ParameterError, parse_settings

DEFAULTS: Dict[str, Any] = {"law": "sdngcc", "fabric": "linux", "vms_per_hypervisor": 2, "receivers": 2,
                            "competitor": ("tcp", "dctcp", "udp")}
# Who owns the bridges, and how tenants' packets cross the fabric.
CLOUDS = (("neutron", "vlan"), ("ovn", "geneve"))
# The first digits of all of the controller's cookies.
OUR_COOKIE = "cookie=0x5347"


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for each cloud, or for those that have the agent or the network the user set."""
    asked = dict(setting.split("=", 1) for setting in settings if setting.startswith(("agent=", "network=")))
    clouds = [{"agent": agent, "network": network} for agent, network in CLOUDS]
    chosen = [cloud for cloud in clouds if {**cloud, **asked} == cloud] or [asked]
    found = [parse_settings(settings, {**DEFAULTS, **cloud}) for cloud in chosen]
    if found[0].agent == "none":
        raise ParameterError("agent: experiment beside needs neutron or ovn, not none")
    return [Case(f"{parameters.agent}, {parameters.network}", parameters) for parameters in found]


def entries(state: Dict[str, Any]) -> Counter[Tuple[str, str, str, str]]:
    """Return how often each entry occurs in what bridges hold: host, bridge, kind and text."""
    return Counter((host, bridge, kind, text) for host, bridges in state.items() for bridge, dumps in bridges.items()
                   for kind, texts in dumps.items() for text in texts)


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return how many entries the bridges held at each time, how many of them were ours, and how many had changed."""
    states = {when: entries(state) for when, state in json.loads((raw / "bridges.json").read_text()).items()}
    before = states["before"]
    return {when: {
        **{kind: sum(count for (_, _, of, _), count in state.items() if of == kind)
           for kind in ("flows", "groups", "meters")},
        "ours": sum(count for (*_, text), count in state.items() if OUR_COOKIE in text),
        "added": sum((state - before).values()), "removed": sum((before - state).values()),
    } for when, state in states.items()}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that the agents' bridges are theirs alone, and the shares as ``share`` does."""
    verdicts = []
    for label, run in runs:
        looks = run["measured"]
        verdicts.append(at_least(f"flows of the agents before, {label}", looks["before"]["flows"], 1))
        for when in ("during", "after"):
            look = looks[when]
            verdicts.append(Verdict(f"flows of ours {when}, {label}", "0", look["ours"], look["ours"] == 0))
            changed = look["added"] + look["removed"]
            verdicts.append(Verdict(f"flows, groups and meters that changed {when}, {label}", "0", changed,
                                    changed == 0))
        verdicts += [replace(verdict, name=f"{verdict.name}, {label}") for verdict in share.judge([(label, run)])]
    return verdicts


EXPERIMENT = Experiment("beside", "The controller beside Neutron's agent and OVN, which own the bridges", "ours", cases,
                        judge, measure,
                        seen="the agents' flows as they were, none of ours, and the shares of `share`")
