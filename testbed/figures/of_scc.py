# SPDX-License-Identifier: Apache-2.0
"""Figures of SCC's experiments: what becomes of latency-, deadline- and completion-sensitive flows (LS, DS, CS)."""

from __future__ import annotations

import re
from functools import partial
from typing import Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.scc.divisions import ORDERS, SCENARIOS, STEADY, TENANTS, groups_of
from sdngcc.experiments.scc.interference import AS_SIMULATED
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.cumulative import Cumulative, Curve, distribution
from sdngcc.testbed.figures.data import Estimate, Run, Runs, dig, measured, over_seeds, phase, split, table
from sdngcc.testbed.figures.layout import Row
from sdngcc.testbed.figures.marks import Paper
from sdngcc.testbed.figures.papers import PAPERS
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.style import ALONE, LOOKS, Look, looks
from sdngcc.testbed.parameters import make_parameters

# Of labels that name no objectives.
DEFAULT_OBJECTIVES = ("DS", "CS", "LS")
UNPROTECTED, PROTECTED = "law=none", "law=scc"


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


def _by_load(name: str) -> Tuple[str, str]:
    """Return a label's load with what else was changed, and the rest."""
    load, rest = split(name.removesuffix(AS_SIMULATED), "load ")
    return load + (AS_SIMULATED if name.endswith(AS_SIMULATED) else ""), rest


def _compared(runs: Runs, objective: str, key: str, factor: float, label: str, title: str) -> Bars:
    """Return a measure of an objective's flows by load, alone and beside others."""
    groups, series, cells = table({name: seeds for name, seeds in runs.items()
                                   if dig(seeds[0], "measured", receiver(name, objective) or "", key) is not None},
                                  _by_load)
    groups.sort(key=lambda group: [int(number) for number in re.findall(r"\d+", group)])
    look = _alone_or(list(dict.fromkeys(_by_load(name)[1] for name in runs)))
    bars = [Series(one, look[one], [_cell(cells.get((group, one)), one, objective, key, factor) for group in groups])
            for one in series]
    papers: Dict[Tuple[int, int], Paper] = {}
    claim = PAPERS["interference"][objective]
    note = ""
    for number, one in enumerate(series):
        # The paper's factors are of the highest load, and of DS and CS. Not more than all can miss their deadlines.
        place = max((at for at, group in enumerate(groups)
                     if (group, one) in cells and not group.endswith(AS_SIMULATED)), default=0)
        base = bars[0].values[place]
        if not one.startswith("DS and CS") or base is None:
            continue
        if key == "missed" and claim.value * base.centre > factor:
            note = f"paper ({claim.source}): {claim.words}"
        else:
            papers[place, number] = Paper(base.centre * claim.value, claim.source, claim.words)
    absent = {(place, number) for place, group in enumerate(groups)
              for number, one in enumerate(series) if (group, one) not in cells}
    return Bars(groups, bars, label, title, papers, absent=absent, form="{:.2g}", note=note, wrap=9)


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


def _parts(label: str) -> Tuple[str, str]:
    """Return a label's scenario with its order, and its law; backlogged divisions have no order."""
    if label.startswith(STEADY):
        scenario, _, law = label.rpartition(", ")
        return scenario, law
    scenario, law, order = (["", "", *label.rsplit(", ", 2)])[-3:]
    return f"{scenario}, {order}", law


def _scenario(runs: Runs, groups: Sequence[Tuple[str, str]], objective: str, key: str, factor: float, label: str,
              title: str, source: str = "divisions", log: bool = False) -> Bars:
    """Return a measure of an objective's flows by scenario and law.

    groups are scenarios with their order, as labels have them, and how they are written. The paper's values are of its
    testbed or of its Fig. 4, where tunnels have no order.
    """
    _, laws, cells = table(runs, _parts)
    series = [law for law in laws if any((one, law) in cells for one, _ in groups)]
    look = looks(series)
    bars = [Series(law.removeprefix("law="), look[law], [
        _cell(cells.get((one, law)), one, objective, key, factor) for one, _ in groups]) for law in series]
    papers = {}
    for number, (group, _) in enumerate(groups):
        scenario, _, order = group.rpartition(", ")
        claim = PAPERS[source].get(f"{objective}, {scenario}") if order == ORDERS[0] else None
        base = _cell(cells.get((group, UNPROTECTED)), group, objective, key, factor)
        if claim and base and PROTECTED in series:
            papers[number, series.index(PROTECTED)] = Paper(base.centre * claim.value, claim.source, claim.words)
    absent = {(place, number) for place, (group, _) in enumerate(groups)
              for number, law in enumerate(series) if (group, law) not in cells}
    return Bars([written for _, written in groups], bars, label, title, papers, absent=absent, wrap=15, form="{:.3g}",
                log=log)


def _tenants(runs: Runs) -> List[Bars]:
    """Return missed deadlines of two tenants, by order."""
    _, laws, cells = table({label: seeds for label, seeds in runs.items() if label.startswith(TENANTS)}, _parts)
    if not cells:
        return []
    look = looks(laws)
    groups = [(order, at, f"{name}, {order}") for order in ORDERS for at, name in (("rx1", "A"), ("rx2", "B"))]
    series = []
    for law in laws:
        found = [cells.get((f"{TENANTS}, {order}", law)) for order, *_ in groups]
        series.append(Series(law.removeprefix("law="), look[law], [
            measured(seeds, at, "missed", factor=100) if seeds else None for seeds, (_, at, _) in zip(found, groups)]))
    claim = {(place, laws.index(PROTECTED)): PAPERS["divisions"]["heavier tenant"]
             for place, (order, at, _) in enumerate(groups)
             if at == "rx1" and PROTECTED in laws and (f"{TENANTS}, {order}", PROTECTED) in cells}
    absent = {(place, number) for place, (order, *_) in enumerate(groups)
              for number, law in enumerate(laws) if (f"{TENANTS}, {order}", law) not in cells}
    return [Bars([written for *_, written in groups], series, "% of flows",
                 "(8b) two DS tenants, A the heavier: missed deadlines", claim, absent=absent, wrap=11, form="{:.3g}")]


def divisions(runs: Runs) -> List[Row]:
    """Fig. 3: completion times of CS and missed deadlines of DS by scenario; Fig. 8b: of two tenants; weights."""
    names, laws, cells = table(runs, _parts)
    known = [scenario for scenario, *_ in SCENARIOS if scenario != TENANTS]
    rows = []
    for order in ORDERS:
        groups = [(f"{one}, {order}", one) for one in known if f"{one}, {order}" in names]
        if groups:
            own = [(group, one) for group, one in groups if receiver(one, "DS")]
            mark, more = ("(3", "") if order == ORDERS[0] else ("(", f", {order}")
            rows.append(Row([
                _scenario(runs, groups, "CS", "mean_ms", 1.0, "mean completion, ms", f"{mark}a) CS flows{more}",
                          log=True),
                _scenario(runs, own or groups, "DS", "missed", 100.0, "% of flows",
                          f"{mark}b) DS{more}: missed deadlines")], 2.5, widths=(5, 3)))
    panels: List[Bars] = []
    beside = [(f"{one}, {order}", f"{one.partition('LS, ')[2] or '40% each'}, {order}")
              for one in known for order in ORDERS if receiver(one, "LS") and f"{one}, {order}" in names]
    if beside:
        panels.append(_scenario(runs, beside, "LS", "mean_ms", 1.0, "mean, ms", "LS messages beside DS and CS",
                                log=True))
    panels += _tenants(runs)
    steady = {law: cells[STEADY, law] for law in laws if (STEADY, law) in cells}
    rows += [Row([panel], 2.4) for panel in panels]
    return [*rows, *([Row([_backlogged(steady)], 2.2)] if steady else [])]


def divisions_load(runs: Runs) -> List[Row]:
    """Fig. 4: missed deadlines of DS and completion times of CS by load, without an order; Fig. 5: in an order."""
    names, _, _ = table(runs, _parts)
    rows = []
    for order, words in zip(ORDERS, ("(4) ", "(5) ordered ")):
        groups = [(name, name.rpartition(", ")[0]) for name in names if name.endswith(f", {order}")]
        if groups:
            rows.append(Row([
                _scenario(runs, groups, "DS", "missed", 100.0, "% of flows", f"{words}DS: missed deadlines",
                          "divisions-load"),
                _scenario(runs, groups, "CS", "mean_ms", 1.0, "mean completion, ms", f"{words}CS: completion times",
                          "divisions-load")], 2.5))
    return rows


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
