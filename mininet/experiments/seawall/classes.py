# SPDX-License-Identifier: Apache-2.0
"""Seawall's three allocators beside a VM with eight destinations: sections 4.2 to 4.4, Classes 1 to 3.

Class 1 has a loop of additive increase and multiplicative decrease a tunnel, class 2 one a VM, which tunnels divide,
class 3 CUBIC's in place of that. The paper has no figure of them beside each other, but says what each is for.
"""

from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, at_most, given, settled_phase, settling_s
from sdngcc.experiments.seawall.victim import SET_UP
from sdngcc.testbed.parameters import parse_settings

DESTINATIONS = 8
CLASSES = {1: "a loop a tunnel", 2: "a plain loop a VM", 3: "CUBIC's a VM"}
# The most that a VM may keep beside a rival with a loop a tunnel, of what one in so many tunnels would have.
TUNNELS_COUNT = 1.5


def victim_part(run: Run) -> float:
    """Return the well-behaved VM's part of what both have, from its third second on."""
    rates = settled_phase(run, "all")["settled_goodput_mbps"]
    return round(float(rates["vm1"] / sum(rates.values())), 4)


def _time(settled: Optional[float]) -> float:
    """Return a time that never is as infinity."""
    return math.inf if settled is None else settled


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run of each class, or of the one the user set."""
    defaults = {**SET_UP, "law": "seawall", "destinations": DESTINATIONS, "receivers": DESTINATIONS}
    if given(settings, "knob.class"):
        return [Case("", parse_settings(settings, defaults))]
    return [Case(f"class={number}", parse_settings([*settings, f"knob.class={number}"], defaults))
            for number in CLASSES]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the well-behaved TCP's part under each class, and class 3's use of the link and time beside class 2's."""
    verdicts, used, settled = [], {}, {}
    for _, run in runs:
        number = int(run["parameters"]["knobs"].get("class", 3))
        used[number], settled[number] = settled_phase(run, "all")["settled_utilisation"], settling_s(run)
        name = f"TCP's part of what both have, class {number}, {CLASSES[number]}"
        tunnels = run["parameters"]["destinations"] + 1
        if number == 1:
            verdicts.append(at_most(name, victim_part(run), round(TUNNELS_COUNT / tunnels, 3),
                                    f"each of N tunnels is a part of its own: 1/{tunnels}"))
        else:
            part = victim_part(run)
            verdicts.append(Verdict(name, "0.45 to 0.55", part, 0.45 <= part <= 0.55,
                                    "independent of the number of tunnels"))
        verdicts.append(Verdict(f"use of the link and seconds until fair, class {number}", "as measured",
                                [used[number], settled[number]], True))
    if 2 in used and 3 in used:
        verdicts.append(at_least("use of the link, class 3 / class 2", round(used[3] / used[2], 4), 1.0,
                                 "higher utilization than AIMD"))
        verdicts.append(Verdict("seconds until fair, class 3", f"<= class 2's, {settled[2]}", settled[3],
                                _time(settled[3]) <= _time(settled[2]), "faster convergence than AIMD"))
    return verdicts


EXPERIMENT = Experiment("classes", "Seawall's three allocators beside a VM with eight destinations",
                        "Seawall, sections 4.2 to 4.4", cases, judge,
                        seen="under class 1 the TCP has a ninth, under 2 and 3 half; class 3 uses more of the link "
                             "than class 2",
                        changed="Parts were of the link at first, which class 2 does not fill (0.42 of it, 0.48 of "
                                "what both have); they are of what both have since, and use is judged by itself.")
