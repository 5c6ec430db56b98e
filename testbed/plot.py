# SPDX-License-Identifier: Apache-2.0
"""Draws a result: one column a run; goodput, rate limits and the bottleneck's queue over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

# Dots per inch.
DPI = 110
# Colour of the tagged VM; the others share pale ones.
TAGGED_COLOUR = "#b2182b"
OTHER_COLOURS = ("#2166ac", "#4393c3", "#92c5de", "#5aae61", "#a6dba0", "#9970ab", "#c2a5cf")


def runs_of(result: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the runs of a result: the first is the result itself, the others its variants."""
    return [result, *result["variants"]]


def title_of(run: Dict[str, Any]) -> str:
    """Return a heading for a run: its label, else law and competitor."""
    parameters = run["parameters"]
    return run["label"] or f"law {parameters['law']}, against {', '.join(parameters['competitor'])}"


def _colour(index: int) -> str:
    return TAGGED_COLOUR if index == 0 else OTHER_COLOURS[(index - 1) % len(OTHER_COLOURS)]


def _lines(axes: Any, run: Dict[str, Any], name: str) -> None:
    times = run["series"]["t_s"]
    for index, (vm, values) in reversed(list(enumerate(run["series"][name].items()))):
        label = f"tagged ({vm})" if index == 0 else ("others" if index == 1 else None)
        points = [float("nan") if value is None else value for value in values]
        axes.plot(times, points, color=_colour(index), linewidth=1.4 if index == 0 else 0.8, label=label,
                  zorder=3 if index == 0 else 2)


def _means(axes: Any, run: Dict[str, Any]) -> None:
    for phase in run["phases"]:
        value = phase["goodput_mbps"]["vm1"]
        axes.hlines(value, phase["start_s"], phase["end_s"], color="black", linestyle="--", linewidth=1, zorder=4)
        axes.annotate(f"{value:.0f}", ((phase["start_s"] + phase["end_s"]) / 2, value), fontsize=8, ha="center",
                      va="bottom", zorder=5)


def _column(columns: Any, number: int, run: Dict[str, Any]) -> None:
    link = run["parameters"]["link_mbps"]
    goodput, limit, queue = (row[number] for row in columns)
    goodput.set_title(title_of(run), fontsize=10)
    _lines(goodput, run, "goodput_mbps")
    _means(goodput, run)
    _lines(limit, run, "limit_mbps")
    for axes in (goodput, limit):
        axes.set_ylim(0, 1.08 * link)
        axes.grid(alpha=0.3)
    times = run["series"]["t_s"]
    queue.fill_between(times, [value / 1000 for value in run["series"]["queue_bytes_max"]], color="#cccccc",
                       label="largest")
    queue.plot(times, [value / 1000 for value in run["series"]["queue_bytes"]], color="#333333", linewidth=0.8,
               label="mean")
    queue.set_ylim(bottom=0)
    queue.grid(alpha=0.3)
    queue.set_xlabel("time, s")
    if number == 0:
        goodput.set_ylabel("goodput, Mb/s")
        limit.set_ylabel("rate limit, Mb/s")
        queue.set_ylabel("bottleneck queue, kB")
        goodput.legend(fontsize=8, loc="upper left")
        queue.legend(fontsize=8, loc="upper left")


def draw(result: Dict[str, Any], path: Path) -> None:
    """Write the strips of a result as PNG. Dashed: the tagged VM's mean of each period."""
    runs = runs_of(result)
    figure, columns = pyplot.subplots(3, len(runs), figsize=(max(7, 4.2 * len(runs)), 8), squeeze=False, sharex="col",
                                      gridspec_kw={"height_ratios": [3, 2, 1.4]})
    for number, run in enumerate(runs):
        _column(columns, number, run)
    figure.suptitle(f"{result['experiment']}: seed {result['seed']}", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    pyplot.close(figure)
