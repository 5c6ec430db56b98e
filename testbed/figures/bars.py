# SPDX-License-Identifier: Apache-2.0
"""Bars by group, with intervals, what they stand for above them, and the paper's values marked."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any, Container, Dict, Optional, Sequence, Tuple

from sdngcc.testbed.figures import marks
from sdngcc.testbed.figures.data import Estimate
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.style import FONT_PT, logarithmic

# All bars of a group together, of the distance of groups.
SPAN = 0.82
# Size of the paper's mark, points.
MARK_PT = 6.0


@dataclass(frozen=True)
class Bars:
    """A panel of bars, upright, or lying where the names of groups are long."""

    groups: Sequence[str]
    series: Sequence[Series]
    label: str
    """Of the axis of values, with the unit."""
    title: str = ""
    papers: Dict[Tuple[int, int], marks.Paper] = field(default_factory=dict)
    """By number of the group and of the series."""
    targets: Dict[Tuple[int, int], float] = field(default_factory=dict)
    """What is due, drawn as a line across the bar."""
    absent: Container[Tuple[int, int]] = ()
    """Where there is nothing to have a value of."""
    lines: Sequence[Tuple[float, str]] = ()
    """Values across all groups, each with its text for the legend."""
    log: bool = False
    lying: bool = False
    form: str = "{:.3g}"
    limit: Optional[float] = None
    """End of the axis; None: as the values ask."""
    wrap: int = 14
    note: str = ""
    """Written below an upright panel."""
    target_name: str = "due"
    name_groups: bool = True
    write_values: bool = True
    """Whether each bar has its value written behind it; many thin ones have no room."""

    def __call__(self, axes: Any) -> None:
        """Draw into the axes: bars first, and what is written at them when the axis has its ends."""
        width = SPAN / len(self.series)
        # A bar of a logarithmic axis begins well below the least value.
        seen = [one.centre for series in self.series for one in series.values if one is not None]
        seen += [paper.value for paper in self.papers.values()]
        positive = [value for value in seen if value > 0]
        floor = 10.0 ** _decade(min(positive, default=1.0)) if self.log else 0.0
        tops = [10 * floor or 1e-9, *(value for value, _ in self.lines)]
        texts = []
        for number, series in enumerate(self.series):
            for group, value in enumerate(series.values):
                at = group + (number - (len(self.series) - 1) / 2) * width
                top, paper = self._bar(axes, series, (group, number), at, width * 0.92, value, floor)
                tops += [top, paper if paper is not None else top]
                if self.write_values and (group, number) not in self.absent:
                    texts.append((at, top, paper, _number(value.centre, self.form) if value else "no value"))
        for line, text in self.lines:
            marks.line(axes, line, text, vertical=self.lying)
        self._axes(axes, floor, max(tops))
        for written in texts:
            self._write(axes, *written)

    def _bar(self, axes: Any, series: Series, place: Tuple[int, int], at: float, width: float,
             value: Optional[Estimate], floor: float) -> Tuple[float, Optional[float]]:
        """Draw one bar; return where it ends with interval and target, and the paper's value."""
        paper, target = self.papers.get(place), self.targets.get(place)
        top = max(value.centre + value.half if value else floor, floor)
        if value:
            length = max(value.centre - floor, 0.0)
            bar = axes.barh if self.lying else axes.bar
            extent = {"height": width, "left": floor} if self.lying else {"width": width, "bottom": floor}
            bar(at, length, color=series.look.colour, hatch=series.look.hatch, edgecolor="white", linewidth=0.4,
                label=series.name or None, zorder=2, **extent)
            if value.half > 0:
                x, y = (value.centre, at) if self.lying else (at, value.centre)
                axes.errorbar(x, y, **{"xerr" if self.lying else "yerr": value.half}, color="black", linewidth=1.0,
                              zorder=5)
        if target is not None:
            span = (at - width / 2, at + width / 2)
            (axes.vlines if self.lying else axes.hlines)(target, *span, color="black", linewidth=1.8, zorder=6,
                                                         label=self.target_name)
            top = max(top, target)
        if paper is None:
            return top, None
        # Beside the middle, where the interval is.
        beside = at + width * 0.28
        marks.mark(axes, *((paper.value, beside) if self.lying else (beside, paper.value)), paper.source)
        return top, paper.value

    def _write(self, axes: Any, at: float, top: float, paper: Optional[float], text: str) -> None:
        """Write a value behind its bar, and behind the paper's mark where that stands there."""
        along = 0 if self.lying else 1

        def points(value: float) -> float:
            place = (value, at) if self.lying else (at, value)
            return float(axes.transData.transform(place)[along]) * 72 / axes.figure.dpi

        end = top
        if paper is not None and -MARK_PT < points(paper) - points(top) < FONT_PT + MARK_PT:
            end = max(top, paper)
        gap = 2 + (MARK_PT / 2 if end == paper else 0)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3}
        if self.lying:
            axes.annotate(text, (end, at), xytext=(gap + 1, 0), textcoords="offset points", va="center",
                          fontsize=FONT_PT, zorder=7, bbox=box)
        else:
            axes.annotate(text, (at, end), xytext=(0, gap), textcoords="offset points", ha="center", va="bottom",
                          fontsize=FONT_PT, rotation=90 if self._narrow(SPAN / len(self.series)) else 0, zorder=7,
                          bbox=box)

    def _narrow(self, width: float) -> bool:
        return len(self.groups) * len(self.series) > 14 or len(self.groups) / width > 24

    def _axes(self, axes: Any, floor: float, top: float) -> None:
        names = [textwrap.fill(group, self.wrap, break_long_words=False, break_on_hyphens=False)
                 for group in self.groups]
        low = floor if self.log else 0.0
        room = 1.25 if self.lying else 1.3 if self._narrow(SPAN / len(self.series)) else 1.16
        high = self.limit or ((top / floor) ** room * floor if self.log else top * room)
        if self.log:
            logarithmic(axes.xaxis if self.lying else axes.yaxis)
        ends = (-0.55, len(names) - 0.45)
        if self.lying:
            axes.set_yticks(range(len(names)), names if self.name_groups else [""] * len(names))
            axes.set_ylim(ends[1], ends[0])
            axes.set_xlim(low, high)
            axes.grid(False, axis="y")
            axes.tick_params(axis="y", length=0)
            axes.set_xlabel(self.label)
        else:
            axes.set_xticks(range(len(names)), names)
            axes.set_xlim(*ends)
            axes.set_ylim(low, high)
            axes.grid(False, axis="x")
            axes.tick_params(axis="x", length=0)
            axes.set_ylabel(self.label)
            axes.set_xlabel(self.note)
        axes.set_title(self.title)


def _number(value: float, form: str) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else form.format(value)


def _decade(value: float) -> int:
    """Return the power of ten at which a logarithmic bar of that value may begin."""
    power = 0
    while 10.0 ** power > value / 1.5:
        power -= 1
    while 10.0 ** (power + 1) <= value / 1.5:
        power += 1
    return power
