# SPDX-License-Identifier: Apache-2.0
"""Who pays for a congested port: two innocents beside elephants, one of which sends elsewhere too.

Two racks; the port of rack 2's ToR to rx1 is congested, the one to rx2 is not. Rates are of links of 1 Gb/s; the
laboratory's are slower, and all in proportion.

* vm1 sends 600 Mb/s to rx2 and 20 Mb/s to rx1. It is large, but has next to no part in the congestion.
* vm2 sends 20 Mb/s to rx1, beside the elephants and nothing else.
* vm3 and vm4 send as much UDP as they can to rx1. vm5 has four TCP connections to rx1, and sends
  200 Mb/s to rx2.

Divided by what each sends through the congested port, marks leave both innocents alone and the elephants share the
port equally. Divided by all each sends, vm1 pays like an elephant, and vm5 for what it sends elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import UDP_PAYLOAD, Case, Experiment, Run, Verdict, Workload, at_least, jain, sink_rates
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.workload import FIRST_PORT

DEFAULTS: Dict[str, Any] = {"topology": "racks", "senders": 5, "receivers": 2, "competitor": "udp", "tagged": "udp",
                            "phases": (0.1, 3.9, 0), "link_mbps": 200}
# Rates of UDP on the wire as parts of a link, 0: TCP; each flow's name is who sends to whom.
FLOWS: Dict[str, float] = {"vm1>rx2": 0.6, "vm1>rx1": 0.02, "vm2>rx1": 0.02, "vm3>rx1": 1, "vm4>rx1": 1,
                           "vm5>rx1": 0, "vm5>rx2": 0.2}
CONNECTIONS = 4
INNOCENTS = ("vm1>rx2", "vm1>rx1", "vm2>rx1")
ELEPHANTS = ("vm3>rx1", "vm4>rx1", "vm5>rx1")
# From here on rates are judged; the loop settles well before.
SETTLED_S = 2.0


def workload(parameters: Parameters) -> Workload:
    """Return the flows, all from the start to the end."""
    work = Workload()
    for name, part in FLOWS.items():
        vm, receiver = name.split(">")
        if part:
            work.udp(vm, receiver, 0, parameters.duration_s, part * parameters.link_mbps)
        else:
            work.tcp(vm, receiver, 0, parameters.duration_s, count=CONNECTIONS)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for each way to divide marks, or the one the user chose."""
    chosen = [setting for setting in settings if setting.startswith("division=")]
    labels = chosen or ["division=bytes", "division=sent"]
    found = []
    for label in labels:
        parameters = parse_settings([*settings, *([] if chosen else [label])], DEFAULTS)
        found.append(Case(label, parameters, workload(parameters)))
    return found


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return each flow's payload rate once settled, Mb/s."""
    rates = sink_rates(raw, run, SETTLED_S)
    return {name: rates[FIRST_PORT + number] for number, name in enumerate(FLOWS)}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the innocents' rates and the elephants' shares; of the other ways to divide, report them."""
    verdicts = []
    for label, run in runs:
        rates, link = run["measured"], run["parameters"]["link_mbps"]
        required = run["parameters"]["division"] == "bytes" and run["parameters"]["law"] == "sdngcc"
        for name in INNOCENTS:
            part = round(rates[name] / (FLOWS[name] * link * UDP_PAYLOAD), 4)
            text = f"{name}: part of what it sends that arrives, {label}"
            verdicts.append(at_least(text, part, 0.97) if required else Verdict(text, "as measured", part, True))
        index = round(jain([rates[name] for name in ELEPHANTS]), 4)
        used = round(sum(rates[name] for name in rates if name.endswith("rx1")) / (link * UDP_PAYLOAD), 4)
        for text, value, least in ((f"Jain's index of the elephants at the congested port, {label}", index, 0.98),
                                   (f"use of the congested port, {label}", used, 0.85)):
            verdicts.append(at_least(text, value, least) if required else Verdict(text, "as measured", value, True))
    return verdicts


EXPERIMENT = Experiment("innocent", "Two innocents beside elephants at a congested port",
                        "SDN-GCC, Alg. 4 (DSTSRC maps a source to one destination only)", cases, judge, measure,
                        seen="marks divided by bytes through the port leave the innocents 97% of what they send")
