# SPDX-License-Identifier: Apache-2.0
"""Values over time: means over seeds with their 95% intervals, and what is due as a dashed line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

from matplotlib.patches import Rectangle

from sdngcc.testbed.figures import marks
from sdngcc.testbed.figures.data import Estimate
from sdngcc.testbed.figures.style import BLACK, FONT_PT, INTERVAL, Look

NAN = float("nan")
# Behind words, so that no line goes through them.
BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}


@dataclass(frozen=True)
class Curve:
    """A line over time."""

    name: str
    look: Look
    times: Sequence[float]
    values: Sequence[Optional[Estimate]]
    strong: bool = False
    """Whether the figure is about this one."""


@dataclass(frozen=True)
class Range:
    """From the least to the largest of many VMs at each time."""

    name: str
    colour: str
    times: Sequence[float]
    low: Sequence[Optional[float]]
    high: Sequence[Optional[float]]


@dataclass(frozen=True)
class Step:
    """What is due in a period, and what is written there."""

    start_s: float
    end_s: float
    value: Optional[float] = None
    text: str = ""


@dataclass(frozen=True)
class Strip:
    """A panel of lines over time."""

    title: str
    curves: Sequence[Curve]
    label: str = "goodput, Mb/s"
    due: Sequence[Step] = ()
    due_name: str = "fair share"
    events: Sequence[float] = ()
    """Moments at which something changes, s."""
    ranges: Sequence[Range] = ()
    papers: Sequence[Tuple[float, marks.Paper]] = ()
    """With their times, s."""
    span: Optional[Tuple[float, float]] = None
    top: Optional[float] = None
    time_label: str = "time, s"
    log: bool = False

    def __call__(self, axes: Any) -> None:
        """Draw into the axes."""
        for band in self.ranges:
            axes.fill_between(band.times, _filled(band.low), _filled(band.high), color=band.colour, linewidth=0,
                              label=band.name, zorder=1.5)
        highest, lines = 0.0, []
        for curve in self.curves:
            centre = [one.centre if one else NAN for one in curve.values]
            times = curve.times[:len(centre)]
            if any(one and one.half > 0 for one in curve.values):
                axes.fill_between(times, [one.centre - one.half if one else NAN for one in curve.values],
                                  [one.centre + one.half if one else NAN for one in curve.values],
                                  color=curve.look.colour, alpha=0.25, linewidth=0, zorder=2, gid=INTERVAL)
            lines += axes.plot(times, centre, color=curve.look.colour, linestyle=curve.look.dash,
                               linewidth=1.6 if curve.strong else 0.9, label=curve.name or None,
                               zorder=4 if curve.strong else 3)
            highest = max([highest, *(one.centre for one in curve.values if one)])
        values = [step.value for step in self.due if step.value is not None]
        top = self.top or 1.1 * max([highest, *values, 1e-9])
        for step in self.due:
            if step.value is not None:
                axes.hlines(step.value, step.start_s, step.end_s, color=BLACK, linewidth=1.0, linestyle=(0, (3, 2)),
                            zorder=5, label=self.due_name)
        for at_s, paper in self.papers:
            marks.mark(axes, at_s, paper.value, paper.source)
        self._words(axes, top)
        for line in lines:
            # Words stand above what is drawn, not in it.
            line.set_clip_path(Rectangle((0, 0), 1, top / axes.get_ylim()[1], transform=axes.transAxes))
        axes.set_title(self.title)
        axes.set_ylabel(self.label)
        axes.set_xlabel(self.time_label)
        axes.set_xlim(*(self.span or self._span()))

    def _span(self) -> Tuple[float, float]:
        """Return from when to when lines go, the last bin included."""
        times = [curve.times for curve in self.curves if len(curve.times) > 1]
        return (min((one[0] for one in times), default=0.0),
                max((2 * one[-1] - one[-2] for one in times), default=1.0))

    def _words(self, axes: Any, top: float) -> None:
        """Write texts of periods above the lines, in room made for them."""
        steps: List[Step] = [step for step in self.due if step.text]
        levels = max((1 + step.text.count("\n") for step in steps), default=0)
        axes.set_ylim(0, top * (1 + 0.13 * levels))
        for step in steps:
            axes.text((step.start_s + step.end_s) / 2, top * 1.01, step.text, ha="center", va="bottom",
                      fontsize=FONT_PT, zorder=6, clip_on=True, bbox=BOX)
        for at_s in self.events:
            axes.axvline(at_s, color=BLACK, linewidth=0.8, linestyle=":", zorder=1)


def _filled(values: Sequence[Optional[float]]) -> List[float]:
    return [NAN if value is None else value for value in values]
