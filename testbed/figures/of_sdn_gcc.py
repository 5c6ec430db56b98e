# SPDX-License-Identifier: Apache-2.0
"""Figures of SDN-GCC's experiments."""

from __future__ import annotations

from typing import List, Sequence

from sdngcc.experiments.base import TCP_PAYLOAD, fair_share_mbps, settling_s
from sdngcc.testbed.figures import cumulative, tagged
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.data import (
    Estimate,
    Run,
    Runs,
    dig,
    goodput,
    is_number,
    measured,
    over_seeds,
    phase,
    split_last,
    table,
)
from sdngcc.testbed.figures.layout import Panel, Row, chunks
from sdngcc.testbed.figures.papers import PAPERS
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.strips import Curve, Strip
from sdngcc.testbed.figures.style import PROTOCOL_NAMES, TAGGED, looks, protocol_look


def unfair(runs: Runs) -> List[Row]:
    """Fig. 1: the tagged flow against each kind of competitors without and with ECN; its part of the fair share."""
    groups, kinds, cells = table(runs, split_last)
    look = looks(["unprotected", *kinds])

    def part(run: Run) -> float:
        return float(dig(phase(run, "all"), "settled_goodput_mbps", "vm1")) / fair_share_mbps(run)

    series = [Series(kind or "as labelled", look[kind], [
        over_seeds(cells[group, kind], part) if (group, kind) in cells else None for group in groups])
        for kind in kinds]
    papers = {(groups.index(group), kinds.index(kind)): PAPERS["unfair"][f"{group}, {kind}"]
              for group, kind in cells if f"{group}, {kind}" in PAPERS["unfair"]}
    names = [f"against {PROTOCOL_NAMES.get(group, group)}" for group in groups]
    return [*chunks(tagged.overlay(runs), 2, height_in=2.5, share_y=True),
            Row([Bars(names, series, "tagged / fair share", "what the tagged TCP has of its fair share while all send",
                      papers, lines=[(1, "fair share")], form="{:.2f}", wrap=24)], 2.1)]


def share(runs: Runs) -> List[Row]:
    """Fig. 4: the tagged flow in three periods, with the optimum of each."""
    panels = tagged.overlay(runs, PAPERS["share"])
    return list(chunks(panels, 2 if len(panels) > 1 else 1, height_in=2.9))


def scale(runs: Runs) -> List[Row]:
    """Fig. 5: the tagged flow against 7, 15 and 31 others; below, the period in which all send."""
    whole: List[Panel] = []
    near: List[Panel] = []
    for label, seeds in runs.items():
        count = str(seeds[0]["parameters"]["senders"])
        whole.append(tagged.strip(label.replace("=", " "), seeds))
        known = {"all": PAPERS["scale"][count]} if count in PAPERS["scale"] else None
        near.append(tagged.strip(f"{label.replace('=', ' ')}, all send", seeds, known, zoom=True))
    return [*chunks(whole, 3, height_in=2.2), *chunks(near, 3, height_in=2.2)]


def competitors(runs: Runs) -> List[Row]:
    """Fig. 4 to 6 with DCTCP and UDP competitors: each work with the paper's optimum, and the time until fair."""
    panels: List[Panel] = []
    for work in dict.fromkeys(tagged.line_and_panel(label, seeds[0])[1] for label, seeds in runs.items()):
        own = {label: seeds for label, seeds in runs.items() if tagged.line_and_panel(label, seeds[0])[1] == work}
        count = work.removesuffix(" senders")
        panels += tagged.overlay(own, PAPERS["share"] if work == "share" else (
            {"all": PAPERS["scale"][count]} if count in PAPERS["scale"] else None))
    return [*chunks(panels, 2, height_in=2.3), Row([settled(runs)], 2.0)]


def settled(runs: Runs) -> Bars:
    """Return the time until VMs share fairly, by work, a bar for each kind of competitors."""
    cells = {tagged.line_and_panel(label, seeds[0])[::-1]: seeds for label, seeds in runs.items()}
    works, lines = dict.fromkeys(work for work, _ in cells), dict.fromkeys(line for _, line in cells)
    look = {line: protocol_look(seeds[0]["parameters"]["competitor"][0]) for (_, line), seeds in cells.items()}
    series = [Series(f"against {line}", look[line], [
        over_seeds(cells[work, line], settling_s) if (work, line) in cells else None for work in works])
        for line in lines]
    names = [work.replace("_ms=", " ") + (" ms" if "_ms=" in work else "") for work in works]
    absent = {(group, number) for group, work in enumerate(works) for number, line in enumerate(lines)
              if (work, line) not in cells}
    seen = any(one.centre > 0 for own in series for one in own.values if one)
    return Bars(names, series, "s", 'time until fair ("no value": not while all send)', absent=absent, form="{:.1f}",
                limit=None if seen else 1.0)


def _limit(label: str, seeds: Sequence[Run]) -> Strip:
    """Return the tagged VM's rate limit of the first seed in the first second after it joined."""
    readings = dig(seeds[0], "measured", "limit_mbps") or []
    start = phase(seeds[0], "all")["start_s"]
    curve = Curve("", TAGGED, [at - start for at, _ in readings],
                  [Estimate(limit, 0.0) if is_number(limit) else None for _, limit in readings], True)
    # A limit counts whole frames.
    steps = [tagged.Step(0, 1, fair_share_mbps(seeds[0]) / TCP_PAYLOAD)]
    return Strip(label, [curve], "rate limit, Mb/s", steps, span=(0, 1),
                 time_label=f"time since it joined, s (seed {seeds[0]['seed']})")


def delay(runs: Runs) -> List[Row]:
    """Fig. 6: the tagged flow by control period, when all share fairly, and how its limit swings."""
    names = [f"period {label.partition('=')[2] or label} ms" if "=" in label else label or "as set" for label in runs]
    short, plain = [name.removeprefix("period ") for name in names], looks(["all"])["all"]
    swing = Bars(short, [Series("", plain, [measured(seeds, "limit_deviation_mbps")
                                            for seeds in runs.values()])], "Mb/s", "deviation of the limit",
                 note="control period")
    queue = Bars(short, [Series("", plain, [over_seeds(seeds, lambda run: dig(run, "queue", "delay_us_p99"))
                                            for seeds in runs.values()])], "us", "queueing delay, p99",
                 note="control period")
    rows = [*chunks([tagged.strip(name, seeds) for name, seeds in zip(names, runs.values())], 3, height_in=2.2)]
    limits = [_limit(f"{name}, newcomer", seeds) for name, seeds in zip(names, runs.values())
              if dig(seeds[0], "measured", "limit_mbps")]
    fair = Bars(short, [Series("", plain, [over_seeds(seeds, settling_s) for seeds in runs.values()])], "s",
                "time until fair", form="{:.1f}", note="control period")
    return [*rows, *chunks(limits, 3, height_in=1.8), Row([fair, swing, queue], 1.9)]


def constants(runs: Runs) -> List[Row]:
    """Algorithms 3 and 4: fairness and use of the link by how marks are divided and rates changed."""
    names = list(runs)
    plain = looks(["all"])["all"]
    jain = [over_seeds(seeds, lambda run: min(phase(run, "all").get("jain", [])[2:], default=None))
            for seeds in runs.values()]
    used = [over_seeds(seeds, lambda run: phase(run, "all").get("settled_utilisation")) for seeds in runs.values()]
    return [Row([Bars(names, [Series("", plain, jain)], "Jain's index, worst second", "fairness", lying=True,
                      form="{:.3f}", wrap=36),
                 Bars(names, [Series("", plain, used)], "part of the link", "use of the link", lying=True,
                      form="{:.3f}", name_groups=False)], 0.9 + 0.32 * len(names))]


def mice(runs: Runs) -> List[Row]:
    """Fig. 8: goodput of each elephant, and completion times of the mice with mean and deviation."""
    panels: List[Panel] = []
    for label, seeds in runs.items():
        third = len(seeds[0]["series"]["goodput_mbps"]) // 3
        series = []
        for kind, first in (("tcp", 0), ("udp", third)):
            values = [goodput(seeds, f"vm{number + 1}") for number in range(first, first + third)]
            series.append(Series(f"{PROTOCOL_NAMES[kind]} elephant", protocol_look(kind), values))
        share_mbps = seeds[0]["parameters"]["link_mbps"] / (2 * third) * TCP_PAYLOAD
        panels.append(Bars([str(number + 1) for number in range(third)], series, "goodput, Mb/s", label,
                           lines=[(share_mbps, "fair share, which TCP has in the paper (SDN-GCC, Fig. 8; no number)")],
                           write_values=False, note="number of the TCP elephant and of the UDP elephant"))
    names = list(runs)
    look = looks(names)
    times = cumulative.Cumulative("mice", [cumulative.Curve(name, look[name], cumulative.distribution(
        [run["measured"] for run in seeds], "ms")) for name, seeds in runs.items()], "completion time of a page, ms")
    means = Bars(["mean", "deviation"], [Series(name, look[name], [
        measured(seeds, key) for key in ("mean_ms", "stdev_ms")])
        for name, seeds in runs.items()], "ms", "mice's completion times", log=True)
    return [*chunks(panels, 1, height_in=1.9), Row([times, means], 2.4)]
