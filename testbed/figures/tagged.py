# SPDX-License-Identifier: Apache-2.0
"""The tagged VM among its competitors over time, as SDN-GCC draws it in Fig. 1 and 4 to 6."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, fair_share_mbps, vm_frame_mbps
from sdngcc.testbed.figures.data import Estimate, Run, Runs, coarser, dig, over_seeds, over_time, phase, vm_order
from sdngcc.testbed.figures.marks import Paper
from sdngcc.testbed.figures.strips import Curve, Range, Step, Strip
from sdngcc.testbed.figures.style import PALE, PROTOCOL_NAMES, TAGGED, protocol_look
from sdngcc.testbed.parameters import make_parameters

# More competitors than these become a range.
SINGLE = 6


def written(value: Optional[Estimate], form: str = "{:.0f}") -> str:
    """Return an estimate in words."""
    if value is None:
        return "none"
    return form.format(value.centre) + (f" ± {form.format(value.half)}" if value.half > 0 else "")


def times_of(seeds: Sequence[Run], bins: int = 1) -> List[float]:
    """Return the middles of a run's bins, s, so many of them as one."""
    times = seeds[0]["series"]["t_s"]
    return [sum(times[at:at + bins]) / bins for at in range(0, len(times) - bins + 1, bins)]


def vm_curve(seeds: Sequence[Run], vm: str, name: str, look: Any, strong: bool = False, bins: int = 1) -> Curve:
    """Return a VM's goodput over time."""
    series = [coarser(dig(run, "series", "goodput_mbps", vm) or [], bins) for run in seeds]
    return Curve(name, look, times_of(seeds, bins), over_time(series), strong)


def competitors(seeds: Sequence[Run]) -> Tuple[List[Curve], List[Range]]:
    """Return the other VMs' lines by protocol, or their range when they are many."""
    parameters, names = make_parameters(seeds[0]["parameters"]), vm_order(seeds[0]["series"]["goodput_mbps"])
    if len(names) - 1 > SINGLE:
        series = [seeds[0]["series"]["goodput_mbps"][vm] for vm in names[1:]]
        columns = [[value for value in column if value is not None] for column in zip(*series)]
        return [], [Range("competitors, from the least to the largest", PALE, times_of(seeds),
                          [min(column, default=None) for column in columns],
                          [max(column, default=None) for column in columns])]
    curves = []
    for index, vm in enumerate(names[1:], 1):
        protocol = parameters.protocol(index)
        curves.append(vm_curve(seeds, vm, f"{PROTOCOL_NAMES.get(protocol, protocol)} competitor",
                               protocol_look(protocol)))
    return curves, []


def _in_phase(name: str, run: Run) -> Any:
    """Return the tagged VM's goodput in a phase, Mb/s."""
    return phase(run, name)["goodput_mbps"]["vm1"]


def due(seeds: Sequence[Run], worded: bool = True) -> List[Step]:
    """Return what is due to the tagged VM in each period, and its mean there."""
    run, steps = seeds[0], []
    parameters = make_parameters(run["parameters"])
    for one in run["phases"]:
        name = one["name"]
        value = fair_share_mbps(run) if name == "all" else vm_frame_mbps(run) * TCP_PAYLOAD if name == "tagged" else 0
        got = over_seeds(seeds, partial(_in_phase, name))
        early = name == "competitors" and parameters.phases[0] > 0
        steps.append(Step(one["start_s"], one["end_s"], value, written(got) if worded and not early else ""))
    return steps


def marked(run: Run, papers: Optional[Mapping[str, Paper]]) -> List[Tuple[float, Paper]]:
    """Return the papers' values by period with the middles of the periods, s."""
    return [((one["start_s"] + one["end_s"]) / 2, papers[one["name"]]) for one in run["phases"]
            if papers and one["name"] in papers]


def strip(title: str, seeds: Sequence[Run], papers: Optional[Mapping[str, Paper]] = None, zoom: bool = False,
          name: str = "tagged TCP (its means above)") -> Strip:
    """Return the panel of a run in three periods; zoom: the second period alone, and values near what is due."""
    curves, ranges = competitors(seeds)
    run = seeds[0]
    shared = phase(run, "all")
    link, begin = run["parameters"]["link_mbps"], shared["start_s"]
    return Strip(title, [*curves, vm_curve(seeds, "vm1", name, TAGGED, True)], due=due(seeds, not zoom), ranges=ranges,
                 papers=marked(run, papers), top=3.2 * fair_share_mbps(run) if zoom else 1.03 * link,
                 span=(max(begin - 1, 0), shared["end_s"]) if zoom else None)


def line_and_panel(label: str, run: Run) -> Tuple[str, str]:
    """Return the competitors of a run, its line in an overlay, and the rest of its label, the panel."""
    parts = [part for part in label.split(", ") if part]
    own = [part for part in parts if part in PROTOCOL_NAMES or part.startswith("competitor=")]
    rest = ", ".join(part for part in parts if part not in own)
    kinds = dict.fromkeys(run["parameters"]["competitor"])
    return " and ".join(PROTOCOL_NAMES.get(kind, kind) for kind in kinds), rest or f"law {run['parameters']['law']}"


def overlay(runs: Runs, papers: Optional[Mapping[str, Paper]] = None) -> List[Strip]:
    """Return a panel for each control, with the tagged flow's line against each kind of competitors.

    A control with one kind of competitors shows them, too.
    """
    panels: Dict[str, Dict[str, Sequence[Run]]] = {}
    for label, seeds in runs.items():
        line, panel = line_and_panel(label, seeds[0])
        panels.setdefault(panel, {})[line] = seeds
    found = []
    for panel, lines in panels.items():
        if len(lines) == 1:
            found.append(strip(panel, next(iter(lines.values())), papers))
            continue
        curves = [vm_curve(seeds, "vm1", f"tagged TCP against {line}",
                           protocol_look(seeds[0]["parameters"]["competitor"][0]), True)
                  for line, seeds in lines.items()]
        shortest = min(lines.values(), key=lambda seeds: len(seeds[0]["series"]["t_s"]))
        end = shortest[0]["phases"][-1]["end_s"]
        longer = any(len(curve.times) > len(shortest[0]["series"]["t_s"]) for curve in curves)
        alone = bool(phase(shortest[0], "tagged"))
        found.append(Strip(panel, curves, due=due(shortest, False), span=(0, end), papers=marked(shortest[0], papers),
                           top=1.03 * shortest[0]["parameters"]["link_mbps"] if alone
                           else 3.2 * fair_share_mbps(shortest[0]),
                           time_label=f"time, s (of longer runs the first {end:g} s)" if longer else "time, s"))
    return found
