# SPDX-License-Identifier: Apache-2.0
"""Divisions of different objectives on a Clos network: SCC's Fig. 5 to 7, 8a and 9 to 12 (its section VI).

The paper's network has links of 1 Gb/s to hosts and of 10 Gb/s to the core, ports of 250 kB that mark, and 300 us of
round trip; of its hosts only Fig. 11a's are told: 4 ToRs of 30, with one uplink of 10 Gb/s each, all traffic between
racks. Here 4 ToRs have per_tor hosts and an uplink as fast as all of these; Fig. 11a has three times as many hosts with
the same uplink and the load of the core. Fig. 5 is the link of section II.B. A flow goes to a host drawn at random and
has a connection of its own. A host has a VM for each division; all divisions weigh the same.

What stands in, as the paper does not give it: flow sizes are those of experiments/own/traces.py; web search's and data
mining's a tenth as large, which are then measured on 10 and not on 1 Gb/s, so that 80% of data mining's have at most
1 kB (the paper: "more than 80% are less than 2 KB"), and none larger than 3 MB, so that a run of 200 ms sees many;
Facebook's Hadoop for MapReduce. Deadlines are exponential with a mean of 20 ms, and at least 1.25 times what the
flow takes alone. LS is judged by round trips of its packets. No handshake is said; here each flow has one.

The paper's claims are ratios. One holds here if at least half of its gain is seen: of "40% less", 20%. Beside a ratio
of SCC to no SCC stands what ideal.py has: rates that are at every moment what SCC's weights divide, in SCC's place
beside the same run without SCC, and beside ideal rates of flows alike. Where the ideal does not meet a claim, neither
the law's control nor the transport is why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import Run, Verdict
from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.settings import ParameterError, describe, make, read_settings
from sdngcc.testbed.simulation.drawing import COLOURS
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.simulation.scenarios.scc_setups import (
    LOADS_5,
    MIXES_7,
    WORKLOADS_10,
    Parameters,
    SccWork,
    label,
    of,
    setups,
    three,
)
from sdngcc.testbed.statistics import mean_and_interval

Point = Tuple[str, str, str]
"""A label, an objective, a measure."""
NAMES = {"none": "without SCC", "scc": "SCC", "unordered": "SCC, no order", "dctcp": "SCC, DCTCP", "pfabric": "pFabric",
         "first": "SCC, LS first", "ideal": "ideal SCC"}
MISSED, MEAN, RTT = ("ds", "missed"), ("cs", "mean_ms"), ("ls", "rtt_mean_us")
UNITS = {MISSED: "deadlines missed", MEAN: "AFCT, ms", RTT: "LS round trip, us"}
# "Similar", "not degraded" and "a little" are within so much.
SIMILAR = 0.1


@dataclass(frozen=True)
class Claim:
    """A ratio of two measures that the paper tells; of several pairs the least if it says "up to", else the largest."""

    figure: int
    name: str
    pairs: Tuple[Tuple[Point, Point], ...]
    paper: str
    bound: float
    """Holds up to it."""
    best: bool = False
    at_least: bool = False
    """Holds from the bound on instead; of several pairs the least counts."""


@dataclass(frozen=True)
class Panel:
    """A part of a figure: bars by group, or lines by load."""

    figure: int
    title: str
    measure: Tuple[str, str]
    groups: Tuple[Tuple[str, Tuple[Tuple[str, str], ...]], ...]
    """Name of a group; of each of its bars how it was run, and the label."""
    paper: Tuple[Tuple[str, str, str, float], ...] = ()
    """Group, whose bar, to which other bar of it, the paper's ratio."""
    lines: bool = False


def half(ratio: float) -> float:
    """Return the ratio at which half of a gain is seen."""
    return round(1 - (1 - ratio) / 2, 4)


def mix(names: Sequence[str]) -> str:
    """Return divisions' names as the figures have them."""
    return "+".join(name.upper() for name in names)


def hows(loads: Sequence[Tuple[str, int]], names: Sequence[str], *where: str) -> Tuple[Tuple[str, str], ...]:
    """Return how a setup was run with the labels."""
    return tuple((how, label(loads, how, *where)) for how in names)


def panels(loads: Sequence[int]) -> List[Panel]:
    """Return all panels; loads are figure 9's."""
    laws, all_three = ("none", "scc", "ideal"), three(30)
    both = lambda load: (("ds", load), ("cs", load))  # noqa: E731
    five = tuple((f"{load}%", hows(both(load), ("none", "unordered", "scc"), "data mining", "dumbbell"))
                 for load in LOADS_5)
    six = ((mix(("ds", "cs", "ls")), hows(all_three, laws)),)
    seven = tuple((mix(names), hows(tuple((name, 30) for name in names), laws)) for names in MIXES_7)
    eight = (("DS+CS 40%", hows(both(40), ("none", "pfabric", "scc", "ideal"))),)
    nine = {name: tuple((str(load), hows(((name, load),), laws)) for load in loads) for name in ("ds", "cs")}
    ten = tuple((workload, hows(all_three, laws, workload)) for workload in WORKLOADS_10)
    eleven = (("web search, 3:1", hows(all_three, laws, "web search", "3:1")),)
    other = (("data mining", hows(all_three, ("none", "scc", "dctcp"))),)
    twelve = (("DS+CS+LS", hows(all_three, ("scc", "first"))),)
    return [
        Panel(5, "5a in-tunnel order", MISSED, five, (("80%", "scc", "unordered", 0.92),)),
        Panel(5, "5b in-tunnel order", MEAN, five, (("80%", "scc", "unordered", 0.94),)),
        Panel(6, "6a all three, 90%", MISSED, six, ((six[0][0], "scc", "none", 1 / 3.2),)),
        Panel(6, "6b all three, 90%", MEAN, six, ((six[0][0], "scc", "none", 0.6),)),
        Panel(6, "LS, 90% (omitted there)", RTT, ((six[0][0], six[0][1][:2]),), ((six[0][0], "scc", "none", 0.6),)),
        Panel(7, "7a interference", MISSED, tuple(one for one in seven if "DS" in one[0]),
              (("DS+CS+LS", "scc", "none", 1 / 3),)),
        Panel(7, "7b interference", MEAN, (("CS", hows((("cs", 30),), ("none",))), *(
            one for one in seven if "CS" in one[0]))),
        Panel(8, "8a beside pFabric", MEAN, eight, ((eight[0][0], "scc", "pfabric", 0.7),)),
        Panel(8, "8a beside pFabric", MISSED, eight),
        Panel(9, "9a DS alone", MISSED, nine["ds"], lines=True),
        Panel(9, "9b CS alone", MEAN, nine["cs"], lines=True),
        Panel(10, "10a workloads, 90%", MEAN, ten, tuple(
            (name, "scc", "none", ratio) for name, ratio in zip(WORKLOADS_10, (0.6, 0.76, 0.68)))),
        Panel(10, "10b workloads, 90%", MISSED, ten, tuple(
            (name, "scc", "none", 1 / times) for name, times in zip(WORKLOADS_10, (3.2, 1.8, 0.8)))),
        Panel(11, "11a oversubscribed", MEAN, eleven, ((eleven[0][0], "scc", "none", 0.8),)),
        Panel(11, "11a oversubscribed", MISSED, eleven),
        Panel(11, "11b other transport", MEAN, other, (("data mining", "dctcp", "none", 1 / 3),)),
        Panel(11, "11b other transport", MISSED, other),
        Panel(12, "12a priority queue", MISSED, twelve), Panel(12, "12a priority queue", MEAN, twelve),
        Panel(12, "12b priority queue", RTT, twelve),
    ]


def pairs_of(panel: Panel, own: str, other: str, groups: Sequence[str] = ()) -> Tuple[Tuple[Point, Point], ...]:
    """Return the pairs of bars of a panel, of all groups or those named."""
    found = []
    for name, bars in panel.groups:
        labels = dict(bars)
        if own in labels and other in labels and (not groups or name in groups):
            found.append(((labels[own], *panel.measure), (labels[other], *panel.measure)))
    return tuple(found)


def claims(loads: Sequence[int]) -> List[Claim]:
    """Return what the paper says of its figures; loads are figure 9's."""
    by = {(panel.title, panel.measure): panel for panel in panels(loads)}
    low, high = [str(load) for load in loads if load <= 50], [str(load) for load in loads if load > 50]
    nine_a, nine_b = by["9a DS alone", MISSED], by["9b CS alone", MEAN]
    alone = (label((("cs", 30),), "none"), *MEAN)
    beside = {"ds": (label((("ds", 30), ("cs", 30)), "none"), *MEAN),
              "ls": (label((("cs", 30), ("ls", 30)), "none"), *MEAN)}

    def plain(figure: int, title: str, measure: Tuple[str, str], own: str, other: str, ratio: float, paper: str,
              best: bool = False) -> Claim:
        return Claim(figure, f"Fig. {title}: {UNITS[measure]}, {NAMES[own]} / {NAMES[other]}",
                     pairs_of(by[title, measure], own, other), paper, half(ratio), best)

    found = [
        plain(5, "5a in-tunnel order", MISSED, "scc", "unordered", 0.92, "up to 8% less", best=True),
        plain(5, "5b in-tunnel order", MEAN, "scc", "unordered", 0.94, "up to 6% less", best=True),
        plain(6, "6a all three, 90%", MISSED, "scc", "none", 1 / 3.2, "3.2 times more are met in time"),
        plain(6, "6b all three, 90%", MEAN, "scc", "none", 0.6, "40% less"),
        plain(6, "LS, 90% (omitted there)", RTT, "scc", "none", 0.6, "up to 40% less"),
        plain(7, "7a interference", MISSED, "scc", "none", 1 / 3, "up to 3 times fewer", best=True),
        Claim(7, "Fig. 7b: AFCT beside DS / alone, without SCC", ((beside["ds"], alone),), "longer beside DS",
              1 + SIMILAR, at_least=True),
        Claim(7, "Fig. 7b: AFCT beside LS / alone, without SCC", ((beside["ls"], alone),), "not degraded",
              1 + SIMILAR),
        plain(8, "8a beside pFabric", MEAN, "scc", "pfabric", 0.7, "30% less"),
        Claim(9, "Fig. 9a: deadlines missed alone, SCC / without SCC, at best", pairs_of(nine_a, "scc", "none"),
              "up to 2.5 times fewer", half(0.4), best=True),
        Claim(9, "Fig. 9a: the same, at worst", pairs_of(nine_a, "scc", "none"), "fewer at all loads", 1.0),
        Claim(9, "Fig. 9b: AFCT alone up to 50%, SCC / without SCC, at worst", pairs_of(nine_b, "scc", "none", low),
              "similar", 1 + SIMILAR),
        Claim(9, "Fig. 9b: AFCT alone above 50%, SCC / without SCC, at worst", pairs_of(nine_b, "scc", "none", high),
              "less", 1.0)]
    for workload, afct, times in zip(WORKLOADS_10, (0.6, 0.76, 0.68), (3.2, 1.8, 0.8)):
        for measure, title, ratio, text in ((MEAN, "10a workloads, 90%", afct, f"{1 - afct:.0%} less"),
                                            (MISSED, "10b workloads, 90%", 1 / times, f"reduced {times} times")):
            found.append(Claim(10, f"Fig. {title}: {workload}, {UNITS[measure]}, SCC / without SCC",
                               pairs_of(by[title, measure], "scc", "none", (workload,)), text,
                               half(ratio) if ratio < 1 else ratio))
    eleven, twelve = by["11b other transport", MISSED], "12a priority queue"
    return found + [
        plain(11, "11a oversubscribed", MEAN, "scc", "none", 0.8, "20% less"),
        Claim(11, "Fig. 11a: deadlines missed, SCC / without SCC", pairs_of(by["11a oversubscribed", MISSED], "scc",
                                                                           "none"), "marginally less", 1.0),
        plain(11, "11b other transport", MEAN, "dctcp", "none", 1 / 3, "3 times less"),
        Claim(11, "Fig. 11b: deadlines missed, SCC with DCTCP / D2TCP without SCC", pairs_of(eleven, "dctcp", "none"),
              "fewer", 1.0),
        Claim(11, "Fig. 11b: deadlines missed, SCC with DCTCP / SCC with D2TCP", pairs_of(eleven, "dctcp", "scc"),
              "more", 1.0, at_least=True),
        Claim(12, "Fig. 12a: deadlines missed, LS first / SCC", pairs_of(by[twelve, MISSED], "first", "scc"),
              "a little more", 1 + SIMILAR),
        Claim(12, "Fig. 12a: AFCT, LS first / SCC", pairs_of(by[twelve, MEAN], "first", "scc"), "a little longer",
              1 + SIMILAR),
        Claim(12, "Fig. 12b: LS round trip, LS first / SCC", pairs_of(by["12b priority queue", RTT], "first", "scc"),
              "less", 1.0)]


def ratio_of(found: Dict[str, Any], pair: Tuple[Point, Point]) -> Optional[float]:
    """Return the ratio of two measures, 1 if both are 0; None: one was not run."""
    own, other = of(found, *pair[0]), of(found, *pair[1])
    if own is None or other is None:
        return None
    if not other:
        return 1.0 if not own else math.inf
    return round(own / other, 4)


def judge_claim(claim: Claim, found: Dict[str, Any]) -> Optional[Verdict]:
    """Judge a claim; None: its runs are missing."""
    ratios = [ratio for ratio in (ratio_of(found, pair) for pair in claim.pairs) if ratio is not None]
    if not ratios:
        return None
    ratio = min(ratios) if claim.best or claim.at_least else max(ratios)
    return Verdict(claim.name, f"{'at least' if claim.at_least else 'at most'} {claim.bound:g}",
                   ratio if math.isfinite(ratio) else "none missed without", holds(claim, ratio), claim.paper)


def holds(claim: Claim, ratio: float) -> bool:
    """Tell whether a ratio is what a claim says."""
    return ratio >= claim.bound if claim.at_least else ratio <= claim.bound


def ideals_of(claim: Claim, found: Dict[str, Any]) -> List[Optional[float]]:
    """Return a claim's ratio with ideal rates in SCC's place, and in both's; None: nothing of that kind was run.

    Of several pairs the same one counts as in judge_claim.
    """
    def ideal(point: Point, how: str) -> Point:
        place, _, _ = point[0].rpartition(", ")
        return f"{place}, {how}", point[1], point[2]

    def shims(point: Point) -> bool:
        return point[0].endswith((", scc", ", dctcp"))

    pairs = [pair for pair in claim.pairs if shims(pair[0]) and not shims(pair[1]) and pair[0][1:] != RTT]
    both = [pair for pair in pairs if pair[1][0].endswith(", none")]
    kinds = ([(ideal(own, "ideal"), other) for own, other in pairs],
             [(ideal(own, "ideal"), ideal(other, "flows")) for own, other in both])
    ratios = [[ratio for ratio in (ratio_of(found, pair) for pair in kind) if ratio is not None] for kind in kinds]
    return [(min if claim.best or claim.at_least else max)(kind) if kind else None for kind in ratios]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge what the paper says of the figures that were run; of ideals alone, tell what they have."""
    found = {one: run["measured"] for one, run in runs}
    parameters = make(Parameters, {name: tuple(value) if isinstance(value, list) else value
                                   for name, value in runs[0][1]["parameters"].items()})
    verdicts = []
    for claim in (one for one in claims(parameters.loads) if one.figure in parameters.figures):
        verdict = judge_claim(claim, found)
        if verdict is not None:
            verdicts.append(verdict)
        elif (ratio := ideals_of(claim, found)[1]) is not None:
            verdicts.append(Verdict(f"{claim.name}, both ideal", "as measured", ratio, True, claim.paper))
    if 8 in parameters.figures:
        own, other = (of(found, label((("ds", 40), ("cs", 40)), how), *MISSED) for how in ("scc", "pfabric"))
        if own is not None and other is not None:
            verdicts.append(Verdict("Fig. 8a: deadlines missed, SCC - pFabric", "at most 0.04", round(own - other, 4),
                                    own - other <= 0.04, "0.02 more"))
    return verdicts


def works(settings: Sequence[str]) -> List[SccWork]:
    """Return what the figures need."""
    options, others = split_options(settings)
    if options.model != "packets":
        raise ParameterError(f"model={options.model}: TCP's congestion controls need model=packets")
    parameters = make(Parameters, read_settings(others, Parameters, {}, tuple(Options.model_fields)))
    if not parameters.figures or not set(parameters.figures) <= set(range(5, 13)):
        raise ParameterError(f"figures={','.join(map(str, parameters.figures))}: allowed are 5 to 12")
    if not all(0 < load <= 100 for load in parameters.loads):
        raise ParameterError(f"loads={','.join(map(str, parameters.loads))}: allowed are 1 to 100")
    wanted = setups(parameters)
    if not wanted:
        raise ParameterError(f"figures={','.join(map(str, parameters.figures))}: ideals_only=true has 6 to 11")
    return [SccWork(setup, parameters, options) for setup in wanted]


def draw_panel(axes: Any, panel: Panel, found: Dict[str, Any]) -> None:
    """Draw a panel of a figure."""
    colours = {how: COLOURS[number] for number, how in enumerate(("scc", "none", "unordered", "dctcp", "pfabric",
                                                                   "first"))}
    colours["ideal"] = COLOURS[7]
    shown = list(dict.fromkeys(how for _, bars in panel.groups for how, _ in bars))
    width = 0.8 / len(shown)
    for number, how in enumerate(shown):
        heights = [(at, of(found, dict(bars)[how], *panel.measure)) for at, (_, bars) in enumerate(panel.groups)
                   if how in dict(bars)]
        drawn = [(at, height) for at, height in heights if height is not None]
        if panel.lines:
            axes.plot([at for at, _ in drawn], [height for _, height in drawn], marker="os^"[number % 3],
                      color=colours[how], label=NAMES[how])
        else:
            axes.bar([at + (number - (len(shown) - 1) / 2) * width for at, _ in drawn],
                     [height for _, height in drawn], width * 0.92, color=colours[how], label=NAMES[how])
    for group, own, other, ratio in panel.paper:
        at = [name for name, _ in panel.groups].index(group)
        base = of(found, dict(panel.groups[at][1])[other], *panel.measure)
        if base is not None:
            axes.plot([at + (shown.index(own) - (len(shown) - 1) / 2) * width], [base * ratio], "D", color="black",
                      markersize=5, label="paper's ratio" if group == panel.paper[0][0] else None)
    axes.set_title(panel.title, fontsize=9)
    axes.set_ylabel(UNITS[panel.measure], fontsize=8)
    # The legend stands above what is drawn.
    axes.set_ylim(0, axes.get_ylim()[1] * (1.1 + 0.09 * len(axes.get_legend_handles_labels()[0])))
    axes.tick_params(labelsize=7)
    axes.set_xticks(range(len(panel.groups)), [name for name, _ in panel.groups])
    if panel.lines:
        axes.set_xlabel("load, %", fontsize=8)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=6, loc="upper left")


def draw(result: Dict[str, Any], path: Path) -> None:
    """Draw the figures that were run, as the paper has them, with its ratios marked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = runs_of(result)
    found = {one["label"]: one["measured"] for one in runs}
    parameters = runs[0]["parameters"]
    shown = [panel for panel in panels(parameters["loads"]) if panel.figure in parameters["figures"]]
    columns = min(4, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(3.1 * columns, 2.6 * rows), squeeze=False,
                                   layout="constrained")
    for axes, panel in zip(grid.flat, shown):
        draw_panel(axes, panel, found)
    for axes in list(grid.flat)[len(shown):]:
        axes.axis("off")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def tabulate(results: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the page's table: each claim, the paper's value, and ours over the seeds, with ideals beside it."""
    lines = ["| claim | the paper | holds if | measured | ideal SCC / measured | ideal SCC / ideal |",
             "|---|---|---|---|---|---|"]
    runs = [runs_of(result) for result in results]
    by_name = {claim.name: claim for claim in claims(runs[0][0]["parameters"]["loads"])}
    ideals = [{name: ideals_of(claim, {run["label"]: run["measured"] for run in of_seed})
               for name, claim in by_name.items()} for of_seed in runs]
    for number, first in enumerate(results[0]["verdicts"]):
        name, claim = first["name"], by_name.get(first["name"])
        held = all(result["verdicts"][number]["holds"] for result in results)
        measured = _over_seeds([result["verdicts"][number]["measured"] for result in results])
        cells = [f"{measured}{'' if held else ', no'}"]
        for kind in range(2):
            ratios = [of_seed[name][kind] if claim else None for of_seed in ideals]
            missed = any(ratio is not None and claim is not None and not holds(claim, ratio) for ratio in ratios)
            cells.append(f"{_over_seeds(ratios)}{', no' if missed else ''}")
        lines.append(f"| {name} | {first['paper']} | {first['expected']} | {' | '.join(cells)} |")
    return lines


def _over_seeds(ratios: Sequence[Any]) -> str:
    """Return the mean of ratios with its interval; - where there is none, inf where no number is among them."""
    if all(ratio is None for ratio in ratios):
        return "-"
    numbers = [ratio for ratio in ratios if isinstance(ratio, (int, float))]
    middle, around = mean_and_interval(numbers) if numbers else (math.inf, 0.0)
    return f"{middle:.3g}{f' ± {around:.2g}' if around else ''}"


SCENARIO = Scenario("scc-clos", "divisions of different objectives on a Clos network, with and without scc",
                    "SCC, Fig. 5 to 7, 8a, 9 to 12", "fewer deadlines are missed and flows end earlier under scc",
                    works, judge, lambda: describe(Options) + describe(Parameters), draw,
                    tabulate, seeds=3)
