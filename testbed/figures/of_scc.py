# SPDX-License-Identifier: Apache-2.0
"""Figures of SCC's experiments: what becomes of latency-, deadline- and completion-sensitive flows (LS, DS, CS)."""

from __future__ import annotations

import re
from functools import partial
from typing import Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.scc.divisions import STEADY, groups_of
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.cumulative import Cumulative, Curve, distribution
from sdngcc.testbed.figures.data import Estimate, Run, Runs, dig, measured, over_seeds, phase, split, split_last, table
from sdngcc.testbed.figures.layout import Row
from sdngcc.testbed.figures.marks import Paper
from sdngcc.testbed.figures.papers import PAPERS
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.style import ALONE, LOOKS, Look, looks
from sdngcc.testbed.parameters import make_parameters

# Of labels that name no objectives.
DEFAULT_OBJECTIVES = ("DS", "CS", "LS")
TENANTS = "two DS tenants"


def receiver(words: str, objective: str) -> Optional[str]:
    """Return whose receiver has the flows of an objective in a run of that name; None: it has no such flows."""
    objectives = tuple(re.findall(r"\b(?:LS|DS|CS)\b", words)) or DEFAULT_OBJECTIVES
    return f"rx{objectives.index(objective) + 1}" if objective in objectives else None


def _cell(seeds: Optional[Sequence[Run]], words: str, objective: str, key: str, factor: float = 1.0,
          plus: float = 0.0) -> Optional[Estimate]:
    at = receiver(words, objective)
    return None if seeds is None or at is None else measured(seeds, at, key, factor=factor, plus=plus)


def _alone_or(names: Sequence[str]) -> Dict[str, Look]:
    """Return the looks of runs of which each panel has one that is alone."""
    together = looks([name for name in names if "alone" not in name])
    return {name: together.get(name, ALONE) for name in names}


def _compared(runs: Runs, objective: str, key: str, factor: float, label: str, title: str) -> Bars:
    """Return a measure of an objective's flows by load, alone and beside others."""
    groups, series, cells = table({name: seeds for name, seeds in runs.items()
                                   if dig(seeds[0], "measured", receiver(name, objective) or "", key) is not None},
                                  lambda name: split(name, "load "))
    groups.sort(key=lambda group: [int(number) for number in re.findall(r"\d+", group)])
    look = _alone_or(list(dict.fromkeys(split(name, "load ")[1] for name in runs)))
    bars = [Series(one, look[one], [_cell(cells.get((group, one)), one, objective, key, factor) for group in groups])
            for one in series]
    papers: Dict[Tuple[int, int], Paper] = {}
    claim = PAPERS["interference"][objective]
    note = ""
    for number, one in enumerate(series):
        # The paper's factors are of the highest load, and of DS and CS. Not more than all can miss their deadlines.
        place = max((at for at, group in enumerate(groups) if (group, one) in cells), default=0)
        base = bars[0].values[place]
        if not one.startswith("DS and CS") or base is None:
            continue
        if key == "missed" and claim.value * base.centre > factor:
            note = f"paper ({claim.source}): {claim.words}"
        else:
            papers[place, number] = Paper(base.centre * claim.value, claim.source, claim.words)
    absent = {(place, number) for place, group in enumerate(groups)
              for number, one in enumerate(series) if (group, one) not in cells}
    return Bars(groups, bars, label, title, papers, absent=absent, form="{:.2g}", note=note)


def interference(runs: Runs) -> List[Row]:
    """Fig. 1: round trips of LS, missed deadlines of DS and completion times of CS, alone and beside others."""
    rtt_ms = next(iter(runs.values()))[0]["parameters"]["rtt_us"] / 1000
    own = {label: seeds for label, seeds in runs.items() if label.startswith("LS")}
    look = _alone_or(list(own))
    curves = []
    for label, seeds in own.items():
        at = receiver(label, "LS")
        points = distribution([dig(run, "measured", at or "") for run in seeds], "ms")
        curves.append(Curve(label, look[label], [(percent, Estimate(one.centre + rtt_ms, one.half))
                                                 for percent, one in points]))
    times = (("mean", "mean_ms", "LS mean"), ("p99", "p99_ms", "LS p99"))
    series = [Series(label, look[label], [_cell(seeds, label, "LS", key, plus=rtt_ms) for _, key, _ in times])
              for label, seeds in own.items()]
    papers: Dict[Tuple[int, int], Paper] = {}
    for place, (_, _, name) in enumerate(times):
        claim = PAPERS["interference"][name]
        base = series[0].values[place]
        for number in range(1, len(series)):
            if base is not None:
                papers[place, number] = Paper(base.centre * claim.value, claim.source, claim.words)
    rows = [Row([Cumulative("(b) LS: round trips", curves, "round trip, ms"),
                 Bars([name for name, _, _ in times], series, "round trip, ms", "(b) LS: round trips", papers)], 2.4)
            ] if own else []
    return [*rows, Row([_compared(runs, "DS", "missed", 100.0, "% of flows", "(c) DS: missed deadlines"),
                        _compared(runs, "CS", "mean_ms", 1.0, "mean completion, ms", "(d) CS: completion times")], 2.5,
                       widths=(4, 3))]


def _scenario(runs: Runs, scenarios: Sequence[str], objective: str, key: str, factor: float, label: str,
              title: str) -> Bars:
    """Return a measure of an objective's flows by scenario and law."""
    _, laws, cells = table(runs, split_last)
    series = [law for law in laws if any((one, law) in cells for one in scenarios)]
    look = looks(series)
    bars = [Series(law.removeprefix("law=") or "as labelled", look[law], [
        _cell(cells.get((one, law)), one, objective, key, factor) for one in scenarios]) for law in series]
    papers = {}
    for group, scenario in enumerate(scenarios):
        claim = PAPERS["divisions"].get(f"{objective}, {scenario}")
        base = _cell(cells.get((scenario, "law=none")), scenario, objective, key, factor)
        if claim and base and "law=scc" in series:
            papers[group, series.index("law=scc")] = Paper(base.centre * claim.value, claim.source, claim.words)
    return Bars(scenarios, bars, label, title, papers, wrap=18)


def divisions(runs: Runs) -> List[Row]:
    """Fig. 3: completion times of CS and missed deadlines of DS by scenario; Fig. 8b: of two tenants; weights."""
    groups, laws, cells = table(runs, split_last)
    mixed = [group for group in groups if group not in (STEADY, TENANTS)]
    rows = [Row([_scenario(runs, mixed, "CS", "mean_ms", 1.0, "mean completion, ms", "(3a) CS flows"),
                 _scenario(runs, mixed, "DS", "missed", 100.0, "% of flows", "(3b) DS flows: missed deadlines"),
                 _scenario(runs, [one for one in mixed if receiver(one, "LS")] or mixed, "LS", "mean_ms", 1.0,
                           "mean, ms", "LS messages")], 2.5, widths=(3, 3, 2))] if mixed else []
    panels: List[Bars] = []
    tenants = [law for law in laws if (TENANTS, law) in cells]
    if tenants:
        look = looks(tenants)
        names = ("A, the heavier", "B")
        series = [Series(law.removeprefix("law="), look[law], [
            measured(cells[TENANTS, law], at, "missed", factor=100)
            for at in ("rx1", "rx2")]) for law in tenants]
        claim = {(0, tenants.index("law=scc")): PAPERS["divisions"]["heavier tenant"]} if "law=scc" in tenants else {}
        panels.append(Bars(names, series, "% of flows", "(8b) two DS tenants: missed deadlines", claim, wrap=18))
    steady = {law: cells[STEADY, law] for law in laws if (STEADY, law) in cells}
    if steady:
        panels.append(_backlogged(steady))
    return [*rows, *([Row(panels, 2.4)] if panels else [])]


def _sum_of(vms: Sequence[str], run: Run) -> float:
    return float(sum(phase(run, "all")["settled_goodput_mbps"][vm] for vm in vms))


def _backlogged(steady: Runs) -> Bars:
    """Return goodput of backlogged divisions beside what their weights make of what all have."""
    first = next(iter(steady.values()))[0]
    parts = groups_of(make_parameters(first["parameters"]), ("ds", "ds"), 0)
    whole = sum(part.weight for part in parts)
    series, targets = [], {}
    for number, (law, seeds) in enumerate(steady.items()):
        values = [over_seeds(seeds, partial(_sum_of, part.vms)) for part in parts]
        series.append(Series("" if len(steady) == 1 else law, LOOKS[number], values))
        used = sum(value.centre for value in values if value)
        targets.update({(place, number): used * part.weight / whole for place, part in enumerate(parts)})
    return Bars([f"weight {part.weight}" for part in parts], series, "goodput, Mb/s", "backlogged divisions",
                targets=targets, form="{:.0f}", target_name="by weight")
