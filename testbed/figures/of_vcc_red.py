# SPDX-License-Identifier: Apache-2.0
"""Figures of vCC's experiments on RED and windows, of lost echoes, and of AC/DC, which vcc imitates."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.others import acdc as rival
from sdngcc.experiments.own import failsafe
from sdngcc.experiments.vcc import ack_gaps as gaps
from sdngcc.experiments.vcc import ecn_red as reds
from sdngcc.experiments.vcc import send_window as windows
from sdngcc.testbed.figures.against import Against
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.data import Estimate, Run, Runs, dig, estimate, measured, over_time
from sdngcc.testbed.figures.layout import Panel, Row, chunks
from sdngcc.testbed.figures.papers import paper
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.strips import Curve, Strip
from sdngcc.testbed.figures.style import LOOKS, looks
from sdngcc.testbed.parameters import make_parameters
from sdngcc.testbed.statistics import mean


def ecn_red(runs: Runs) -> List[Row]:
    """Fig. 6, 7: goodput of flows without ECN over that of flows with it, by how many of ten use it; and with vcc."""
    def panel(title: str, labels: Sequence[str], marked: bool) -> Against:
        look = looks(labels)
        series = [Series(label or "as set", look[label], [measured(runs[label], "mixes", str(mix), "ratio")
                                                          for mix in reds.MIXES]) for label in labels]
        return Against(title, [str(mix) for mix in reds.MIXES], series, "flows with ECN, of 10", "goodput ratio",
                       [(len(reds.MIXES) - 1, paper("ecn-red", "nine"))] if marked else [], [(1.0, "equal")])

    virtual = [label for label in runs if label.endswith("virtual ECN")]
    rest = [label for label in runs if label not in (*virtual, *reds.MINIMA)]
    own = [label for label in runs if label in reds.MINIMA]
    chosen = (("the paper's sets, without ECN / with it", rest, True),
              ("RED1 with other min, without ECN / with it", own, False), ("virtual ECN / with ECN", virtual, False))
    panels: List[Panel] = [panel(title, labels, marked) for title, labels, marked in chosen if labels]
    return list(chunks(panels, 2, height_in=2.5))


def ack_gaps(runs: Runs) -> List[Row]:
    """Fig. 8: histogram of the time between ACKs, of the flow without ECN and of one with it."""
    shown = 10
    names = [f"{number * gaps.BIN_MS}" for number in range(shown)]
    panels: List[Panel] = []
    for label, seeds in runs.items():
        series = [Series(f"flow {name}", LOOKS[1 - number],
                         [measured(seeds, "gaps", name, place) for place in range(shown)])
                  for number, name in enumerate(gaps.PORTS)]
        # A logarithmic axis has no place for 0.
        none = {(place, number) for number, one in enumerate(series) for place, value in enumerate(one.values)
                if value is not None and value.centre == 0}
        panels.append(Bars(names, [Series(one.name, one.look, [
            None if (place, number) in none else value for place, value in enumerate(one.values)])
            for number, one in enumerate(series)], "ACKs", label or "as set", absent=none, log=True, form="{:.0f}",
            note=f"time since the ACK before, from so many ms on, bins of {gaps.BIN_MS}; the paper names 200 and 600"))
    return list(chunks(panels, 1, height_in=2.3))


def send_window(runs: Runs) -> List[Row]:
    """Fig. 9: the send window over time, of a flow with virtual ECN and of one that uses ECN itself."""
    panels = []
    for label, seeds in runs.items():
        # Teeth of other seeds begin at other times: their mean would have none.
        series = dig(seeds[0], "measured", "window_kb") or []
        times = [windows.SETTLE_S + number * windows.INTERVAL_MS / 1000 for number in range(len(series))]
        panels.append(Strip(f"{label or 'as set'}, seed {seeds[0]['seed']}",
                            [Curve("", LOOKS[0], times, [estimate([value]) for value in series], True)],
                            "send window, kB", span=(windows.SETTLE_S, windows.SETTLE_S + windows.DATA_S)))
    labels = list(runs)
    parts = [Bars(labels, [Series("", LOOKS[0], [measured(seeds, name) for seeds in runs.values()])], unit, title,
                  form="{:.1f}", wrap=12)
             for name, title, unit in (("top_kb", "top of a tooth", "kB"), ("foot_kb", "foot of a tooth", "kB"),
                                       ("teeth", f"teeth in {windows.DATA_S} s", ""))]
    return [*chunks(panels, 2, height_in=2.3, share_y=True), Row(parts, 2.0)]


def lost_echoes(runs: Runs) -> List[Row]:
    """Error of the worst share and use of the link, virtual beside native ECN, means of pairs; and of marks alone."""
    by_kind: Dict[Tuple[str, str], List[Sequence[Run]]] = {}
    for label, seeds in runs.items():
        kind, _, rest = label.partition(", ")
        by_kind.setdefault((kind, "pair" if rest.startswith("pair") else rest), []).append(seeds)
    stages = list(failsafe.stages(make_parameters(next(iter(runs.values()))[0]["parameters"])))
    kinds = list(dict.fromkeys(kind for kind, _ in by_kind))
    look = looks(kinds)

    def bars(title: str, value: Callable[[Run, Any], float]) -> Bars:
        groups: List[str] = []
        columns: Dict[str, List[Optional[Estimate]]] = {kind: [] for kind in kinds}
        for rest in dict.fromkeys(rest for _, rest in by_kind):
            for stage in stages:
                groups.append(f"{stage.percent:g}% of " + ("echoes" if rest == "pair" else rest or "feedback"))
                for kind in kinds:
                    columns[kind].append(_of_pairs(by_kind.get((kind, rest), []), partial(_at, value, stage)))
        return Bars(groups, [Series(kind, look[kind], columns[kind]) for kind in kinds], "part of a fair share", title,
                    form="{:.2f}", wrap=10)

    return [Row([bars("error of the worst share", failsafe.worst_error),
                 bars("all shares together", lambda run, stage: mean(failsafe.parts_of_shares(run, stage)))], 2.6)]


def _at(value: Callable[[Run, Any], float], stage: Any, run: Run) -> float:
    return value(run, stage)


def _of_pairs(pairs: Sequence[Sequence[Run]], value: Callable[[Run], float]) -> Optional[Estimate]:
    """Return the estimate over seeds of a mean over pairs."""
    by_seed = [[value(run) for run in seed] for seed in zip(*pairs)]
    return estimate(mean(those) for those in by_seed)


def acdc(runs: Runs) -> List[Row]:
    """Goodput of guests that begin one after the other, by native DCTCP, without a law, and by DCTCP in the vSwitch."""
    panels = []
    for label, seeds in runs.items():
        vms = [f"vm{number + 1}" for number in range(rival.SENDERS)]
        curves = [Curve(vm, LOOKS[number % len(LOOKS)], seeds[0]["series"]["t_s"],
                        over_time([dig(run, "series", "goodput_mbps", vm) or [] for run in seeds]))
                  for number, vm in enumerate(vms)]
        panels.append(Strip(label or "as set", curves, span=(0, sum(seeds[0]["parameters"]["phases"]))))
    labels = list(runs)
    parts = [Bars(labels, [Series("", LOOKS[0], [measured(seeds, name) for seeds in runs.values()])], unit, title,
                  form=form, lying=True, name_groups=not number)
             for number, (name, title, unit, form) in enumerate((
                 ("jain", "Jain's index", "", "{:.3f}"), ("queue_kb", "mean queue", "kB", "{:.1f}"),
                 ("queue_p99_kb", "queue's p99", "kB", "{:.1f}")))]
    return [*chunks(panels, 2, height_in=2.0, share_y=True), Row(parts, 2.7)]
