# SPDX-License-Identifier: Apache-2.0
"""Figures that compare laws on the same work."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.others import elasticswitch as of_elasticswitch
from sdngcc.experiments.others import today as of_today
from sdngcc.experiments.own import maxmin as of_maxmin
from sdngcc.experiments.own import tournament as of_tournament
from sdngcc.experiments.sdn_gcc import laws as all_laws
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.data import Estimate, Run, Runs, dig, over_seeds, phase, split_last, table
from sdngcc.testbed.figures.layout import Row
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.style import LOOKS, looks

Column = Tuple[str, str, Callable[[Run], Any], bool, str]
"""Title, unit, value of a run, whether the axis is logarithmic, and how a value is written."""


def _columns(runs: Runs, divide: Callable[[str], Tuple[str, str]], columns: Sequence[Column],
             height_in: float, name: Callable[[str], str] = str) -> Row:
    """Return lying bars by law, a panel a column; the first one names the laws, name() the series."""
    groups, series, cells = table(runs, divide)
    look = {one: LOOKS[number % len(LOOKS)] for number, one in enumerate(series)}
    panels = []
    for number, (title, unit, value, log, form) in enumerate(columns):
        bars = [Series(name(one) if len(series) > 1 else "", look[one], [
            over_seeds(cells[group, one], value) if (group, one) in cells else None for group in groups])
            for one in series]
        panels.append(Bars(groups, bars, unit, title, log=log, lying=True, form=form, wrap=20,
                           name_groups=number == 0))
    return Row(panels, height_in)


def laws(runs: Runs) -> List[Row]:
    """Each law's error of the worst share, use of the link, queue and control traffic, on few and on many VMs."""
    columns: List[Column] = [
        ("worst share's error", "part of the share", all_laws.share_error, True, "{:.2g}"),
        ("use of the link", "part", lambda run: phase(run, "all")["settled_utilisation"], False, "{:.2f}"),
        ("queue, p99", "kB", lambda run: run["queue"]["bytes_p99"] / 1000, False, "{:.0f}"),
        ("control", "kB/s", lambda run: run["measured"]["control_bytes"] / sum(run["parameters"]["phases"]) / 1000,
         True, "{:.3g}")]
    senders = {split_last(label)[1]: seeds[0]["parameters"]["senders"] for label, seeds in runs.items()}
    return [_columns(runs, split_last, columns, 1.0 + 0.42 * len({split_last(label)[0] for label in runs}),
                     lambda work: f"{work or 'as labelled'}: {senders[work]} VMs")]


def _work_and_law(label: str) -> Tuple[str, str]:
    law, _, work = label.partition(", ")
    return (work, law) if work else (label, "")


def maxmin(runs: Runs) -> List[Row]:
    """Law maxmin beside sdngcc on each work: shares, use of the link, queue, and time to settle."""
    groups, series, cells = table(runs, _work_and_law)
    look = looks(series)

    def panel(title: str, unit: str, value: Callable[[Run], Any], form: str, log: bool = False) -> Bars:
        return Bars(groups, [Series(one or "as set", look[one], [
            over_seeds(cells[group, one], value) if (group, one) in cells else None for group in groups])
            for one in series], unit, title, form=form, log=log, wrap=10)

    def settled(key: str) -> Callable[[Run], Any]:
        return lambda run: dig(run, "measured", key)

    return [Row([panel("worst share's error", "% of the share", lambda run: 100 * of_maxmin.shares(run)[0], "{:.1f}"),
                 panel("queue, p99", "kB", lambda run: run["queue"]["bytes_p99"] / 1000, "{:.0f}")], 2.3),
            Row([panel("settled after a join", "ms", settled("join_ms"), "{:.0f}"),
                 panel("settled after a leave", "ms", settled("leave_ms"), "{:.0f}")], 2.1)]


def tournament(runs: Runs) -> List[Row]:
    """What well-behaved tenants have under each law of what they have alone, and what the network is like."""
    alone: Dict[Tuple[str, int], Run] = {}
    for label, seeds in runs.items():
        law, _, load = label.partition(", ")
        if law == of_tournament.ALONE:
            alone.update({(load, run["seed"]): run for run in seeds})
    others = {label: seeds for label, seeds in runs.items() if not label.startswith(of_tournament.ALONE)}
    loads = {id(run): label.split(", ")[-1] for label, seeds in others.items() for run in seeds}

    def value(key: str) -> Callable[[Run], Optional[float]]:
        def found(run: Run) -> Optional[float]:
            bare = alone.get((loads[id(run)], run["seed"]))
            result: Optional[float] = of_tournament.row(run, bare)[key] if bare is not None else None
            return result
        return found

    def column(key: str, title: str, unit: str, log: bool, form: str = "{:.3g}") -> Column:
        return title, unit, value(key), log, form

    height = 0.75 + 0.19 * len(others)
    network = [column("throughput", "throughput", "part of what it has alone", False, "{:.2f}"),
               ("use of the link", "part", lambda run: phase(run, "all")["utilisation"], False, "{:.2f}"),
               ("queue, p99", "kB", lambda run: run["queue"]["bytes_p99"] / 1000, False, "{:.0f}")]
    times = [[column(f"{percent} {kind}", f"{'median' if percent == 'p50' else 'p99'}, {kind} flows",
                     "times of what it takes alone", True) for kind in of_tournament.CLASSES]
             for percent in ("p50", "p99")]
    return [_columns(others, split_last, columns, height) for columns in (network, *times)]


def today(runs: Runs) -> List[Row]:
    """What the tagged TCP has under limits at hosts and under laws, beside the others and alone; and the tournament."""
    groups, works, cells = table({label: seeds for label, seeds in runs.items() if ", load" not in label}, split_last)
    look = looks(works)

    def panel(title: str, unit: str, value: Callable[[Run], Any], due: str, number: int) -> Bars:
        return Bars(groups, [Series(work, look[work], [
            over_seeds(cells[group, work], value) if (group, work) in cells else None for group in groups])
            for work in works], unit, title, lines=[(1, due)], lying=True, form="{:.2f}", name_groups=number == 0,
            absent=[(group, work) for group in range(len(groups)) for work in range(len(works))
                    if (groups[group], works[work]) not in cells])

    parts = [panel("TCP beside UDP and TCP", "part of the fair share", of_today.part_beside, "what is due", 0),
             panel("TCP alone", "part of the link", of_today.part_alone, "what is due", 1),
             panel("most of a VM in 0.1 s", "times an equal part", of_today.peak, "what is due", 2)]
    return [Row(parts, 0.9 + 0.36 * len(groups)),
            *tournament({label: seeds for label, seeds in runs.items() if ", load" in label})]


def elasticswitch(runs: Runs) -> List[Row]:
    """What the tagged VM has of its guarantee beside many senders, and how much of the link is used, by law."""
    groups, works, cells = table(runs, split_last)
    look = looks(works)

    def panel(title: str, unit: str, number: int, due: str) -> Bars:
        return Bars(groups, [Series(work, look[work], [
            over_seeds(cells[group, work], lambda run: of_elasticswitch.parts(run)[number])
            if (group, work) in cells else None for group in groups]) for work in works], unit, title,
            lines=[(1, due)], form="{:.2f}", absent=[
                (group, work) for group in range(len(groups)) for work in range(len(works))
                if (groups[group], works[work]) not in cells])

    return [Row([panel("tagged VM beside the others", "part of its guarantee", 0, "all of it"),
                 panel("link used by all", "part", 1, "all of it"),
                 panel("link used by the others alone", "part", 2, "all of it")], 2.6)]


def on_off(runs: Runs) -> List[Row]:
    """What TCP has of what UDP leaves and UDP of its due, and how long UDP waits for its part, by the period of UDP."""
    periods = list(dict.fromkeys(period for seeds in runs.values() for run in seeds
                                 for period in dig(run, "measured") or {}))
    names = [label.removeprefix("law=") or "as set" for label in runs]

    def values(period: str, key: str) -> List[Optional[Estimate]]:
        return [over_seeds(seeds, lambda run: dig(run, "measured", period, key)) for seeds in runs.values()]

    parts = [Bars(names, [Series("TCP, of what UDP leaves", LOOKS[0], values(period, "free")),
                          Series("UDP, of what is due to it", LOOKS[1], values(period, "udp"))], "part",
                  f"period {period} ms", lines=[(1, "all that is due")], lying=True, form="{:.2f}",
                  name_groups=number == 0) for number, period in enumerate(periods)]
    waits = [Bars(names, [Series("", LOOKS[1], values(period, "wait_ms_p50"))], "median wait of UDP, ms",
                  f"period {period} ms", lying=True, form="{:.1f}", name_groups=number == 0)
             for number, period in enumerate(periods)]
    return [Row(parts, 0.9 + 0.36 * len(names)), Row(waits, 0.9 + 0.18 * len(names))]
