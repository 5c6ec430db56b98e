# SPDX-License-Identifier: Apache-2.0
"""Figures of vCC's experiments."""

from __future__ import annotations

from typing import List, Optional, Sequence

from sdngcc.experiments.base import fair_share_mbps
from sdngcc.experiments.vcc.port_share import PREFERRED, UNPREFERRED, preferred_time
from sdngcc.testbed.collect import BIN_S
from sdngcc.testbed.figures import tagged
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.data import (
    Estimate,
    Run,
    Runs,
    dig,
    goodput,
    measured,
    over_seeds,
    over_time,
    phase,
    vm_order,
)
from sdngcc.testbed.figures.dots import Dots
from sdngcc.testbed.figures.layout import Panel, Row, chunks
from sdngcc.testbed.figures.papers import PAPERS, paper
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.stacks import Areas
from sdngcc.testbed.figures.strips import Step, Strip
from sdngcc.testbed.figures.style import LOOKS, SKY, TAGGED, Look, looks
from sdngcc.testbed.parameters import make_parameters
from sdngcc.testbed.statistics import jain

# Goodput of ten flows on 10 Mb/s over minutes is drawn by so many seconds.
COARSE_S = 2


def ecn_mix(runs: Runs) -> List[Row]:
    """Fig. 11: nine flows with ECN and one without, or with virtual ECN; its part of the others' mean."""
    panels = []
    for label, seeds in runs.items():
        names = vm_order(seeds[0]["series"]["goodput_mbps"])
        bins = round(COARSE_S * len(seeds[0]["series"]["t_s"]) / max(sum(seeds[0]["parameters"]["phases"]), 1e-9))
        others = [tagged.vm_curve(seeds[:1], vm, "flows with ECN", Look(SKY, "", "", "-"), bins=max(bins, 1))
                  for vm in names[1:]]
        own = tagged.vm_curve(seeds, "vm1", "the flow without ECN", TAGGED, True, max(bins, 1))
        end = sum(seeds[0]["parameters"]["phases"])
        panels.append(Strip(label or "as set", [*others, own], due=[Step(0, end, fair_share_mbps(seeds[0]))],
                            span=(0, end),
                            time_label=f"time, s (means of {COARSE_S} s)"))

    def ratio(run: Run) -> float:
        rates = phase(run, "all")["goodput_mbps"]
        rest = [rates[vm] for vm in rates if vm != "vm1"]
        return float(rates["vm1"] * len(rest) / sum(rest))

    labels = list(runs)
    papers = [{(number, 0): PAPERS["ecn-mix"][f"{what}{label.split()[0]}"] for number, label in enumerate(labels)
               if label and f"{what}{label.split()[0]}" in PAPERS["ecn-mix"]} for what in ("", "Jain ")]
    plain = LOOKS[0]
    parts = Bars(labels, [Series("", plain, [over_seeds(seeds, ratio) for seeds in runs.values()])],
                 "part", "its goodput, of the others' mean", papers[0], form="{:.3f}", wrap=20)
    even = Bars(labels, [Series("", plain, [over_seeds(seeds, lambda run: jain(
        list(phase(run, "all")["goodput_mbps"].values()))) for seeds in runs.values()])], "index", "Jain's index",
        papers[1], form="{:.3f}", wrap=20)
    return [*chunks(panels, 2, height_in=2.4, share_y=True), Row([parts, even], 2.1)]


def rwnd(runs: Runs) -> List[Row]:
    """Fig. 10: what retransmissions take of the link in each case; and the goodput of the ten flows."""
    labels = list(runs)
    look = looks(labels)
    papers = {(number, 0): PAPERS["rwnd"][label] for number, label in enumerate(labels) if label in PAPERS["rwnd"]}
    lost = [measured(seeds, "retransmitted_percent") for seeds in runs.values()]
    bars = Bars(labels, [Series("", LOOKS[0], lost)], "% of the link", "retransmissions", papers, form="{:.2f}",
                wrap=12)
    series = [Series(label or "as set", look[label], _flows(seeds)) for label, seeds in runs.items()]
    return [Row([bars, Dots("goodput of each flow", series, "flows, from the least to the largest", "Mb/s")], 2.6)]


def _flows(seeds: Sequence[Run]) -> List[Optional[Estimate]]:
    return [goodput(seeds, vm, "goodput_mbps") for vm in vm_order(seeds[0]["series"]["goodput_mbps"])]


def port_share(runs: Runs) -> List[Row]:
    """Fig. 12: stacked throughputs of three unpreferred and two preferred flows; a preferred flow's, of another's."""
    panels: List[Panel] = []
    for label, seeds in runs.items():
        title = label or f"law {seeds[0]['parameters']['law']}"
        each = [dig(run, "measured", "flow_mbps") or [] for run in seeds]
        flows = [[one.centre if one else 0.0 for one in over_time(series)] for series in zip(*each)]
        # Unpreferred flows come first, below the others, as the paper draws them.
        layers = [("unpreferred flows" if number < UNPREFERRED else "preferred flows",
                   LOOKS[0] if number < UNPREFERRED else LOOKS[1], flow) for number, flow in enumerate(flows)]
        panels += [Areas(title, seeds[0]["series"]["t_s"][:len(flows[0])] if flows else [0, 1], layers),
                   Bars(["preferred / unpreferred"], [Series("", LOOKS[1], [over_seeds(seeds, _preference)])],
                        "goodput of a flow", "", {(0, 0): paper("port-share", "ratio")}, form="{:.2f}")]
    return list(chunks(panels, 2, height_in=2.7, widths=(4, 1)))


def _preference(run: Run) -> float:
    """Return a preferred flow's goodput, of an unpreferred one's, from a second after preferred ones begin."""
    begin, end = preferred_time(make_parameters(run["parameters"]))
    rates = [sum(flow[round((begin + 1) / BIN_S):round(end / BIN_S)]) for flow in run["measured"]["flow_mbps"]]
    return sum(rates[UNPREFERRED:]) / PREFERRED / (sum(rates[:UNPREFERRED]) / UNPREFERRED)
