# SPDX-License-Identifier: Apache-2.0
"""What several have of a whole: bars divided by who has which part, and areas over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence, Tuple

from sdngcc.testbed.figures import marks
from sdngcc.testbed.figures.data import Estimate
from sdngcc.testbed.figures.style import FONT_PT, Look

SPAN = 0.8


@dataclass(frozen=True)
class Divided:
    """Bars of two parts, the lower one's end with its interval: who takes, and who is left."""

    title: str
    groups: Sequence[str]
    series: Sequence[str]
    values: Dict[Tuple[int, int], Tuple[Optional[Estimate], Optional[Estimate]]]
    """Lower and upper part by number of the group and of the series."""
    parts: Tuple[Tuple[str, Look], Tuple[str, Look]]
    group_label: str
    label: str
    papers: Dict[Tuple[int, int], marks.Paper] = field(default_factory=dict)
    """Where the divider is."""

    def __call__(self, axes: Any) -> None:
        """Draw into the axes, the names of series below the bars and those of groups below these."""
        width, places, names = SPAN / len(self.series), [], []
        for group in range(len(self.groups)):
            for number, name in enumerate(self.series):
                if (group, number) not in self.values:
                    continue
                at = group + (number - (len(self.series) - 1) / 2) * width
                places.append(at)
                names.append(name)
                self._bar(axes, at, width * 0.86, self.values[group, number])
                paper = self.papers.get((group, number))
                if paper is not None:
                    marks.mark(axes, at + width * 0.25, paper.value, paper.source)
        axes.set_xticks(places, names)
        axes.tick_params(axis="x", length=0)
        if any(self.groups):
            lower = axes.secondary_xaxis(-0.1)
            lower.set_xticks(range(len(self.groups)), self.groups)
            lower.tick_params(length=0)
            lower.spines["bottom"].set_visible(False)
            lower.set_xlabel(self.group_label)
        axes.grid(False, axis="x")
        axes.set_xlim(-0.55, len(self.groups) - 0.45)
        axes.set_ylim(0, 1.15)
        axes.set_ylabel(self.label)
        axes.set_title(self.title)

    def _bar(self, axes: Any, at: float, width: float,
             values: Tuple[Optional[Estimate], Optional[Estimate]]) -> None:
        bottom = 0.0
        for value, (name, look) in zip(values, self.parts):
            if value is None:
                axes.annotate("no value", (at, bottom), ha="center", va="bottom", fontsize=FONT_PT)
                continue
            axes.bar(at, value.centre, width, bottom=bottom, color=look.colour, hatch=look.hatch, edgecolor="white",
                     linewidth=0.4, label=name, zorder=2)
            bottom += value.centre
        if values[0] is not None and values[0].half > 0:
            axes.errorbar(at, values[0].centre, yerr=values[0].half, color="black", linewidth=1.0, zorder=5)
        if values[1] is not None:
            top = max(bottom, values[0].centre + values[0].half if values[0] is not None else 0)
            axes.annotate(f"{values[1].centre:.3f}", (at, top), xytext=(0, 2), textcoords="offset points",
                          ha="center", va="bottom", fontsize=FONT_PT)


@dataclass(frozen=True)
class Areas:
    """Values over time, one upon the other."""

    title: str
    times: Sequence[float]
    layers: Sequence[Tuple[str, Look, Sequence[float]]]
    label: str = "goodput, Mb/s"

    def __call__(self, axes: Any) -> None:
        """Draw into the axes; layers' edges are white, so that none needs a colour of its own."""
        named: Dict[str, int] = {}
        bottom = [0.0] * len(self.times)
        for name, look, values in self.layers:
            top = [low + value for low, value in zip(bottom, values)]
            axes.fill_between(self.times, bottom, top, facecolor=look.colour, hatch=look.hatch, edgecolor="white",
                              linewidth=0.8, label=None if name in named else name, step="post")
            named[name] = 1
            bottom = top
        axes.set_xlim(self.times[0], self.times[-1])
        axes.set_ylim(0, 1.12 * max([*bottom, 1e-9]))
        axes.set_title(self.title)
        axes.set_xlabel("time, s")
        axes.set_ylabel(self.label)
