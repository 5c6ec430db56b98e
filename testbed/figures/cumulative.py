# SPDX-License-Identifier: Apache-2.0
"""Cumulative distributions, of whole quantiles or of the few percentiles that a result has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.testbed.figures import marks
from sdngcc.testbed.figures.data import Estimate, dig, estimate, is_number
from sdngcc.testbed.figures.style import INTERVAL, Look, logarithmic

# Percentiles by the names that results give them, for those without quantiles.
NAMED = ((50, "p50"), (99, "p99"), (99.9, "p99.9"), (99.9, "p999"), (100, "max"))


def distribution(seeds: Sequence[Any], unit: str) -> List[Tuple[float, Estimate]]:
    """Return (percent, estimate) of what seeds measured: of "quantiles_<unit>", else of "p50_<unit>" and so on."""
    values: Dict[float, List[float]] = {}
    for one in seeds:
        pairs = dig(one, f"quantiles_{unit}") or [
            (percent, dig(one, f"{name}_{unit}")) for percent, name in NAMED]
        for percent, value in pairs:
            if is_number(value):
                values.setdefault(percent, []).append(value)
    found = [(percent, estimate(those)) for percent, those in sorted(values.items())]
    return [(percent, one) for percent, one in found if one is not None]


@dataclass(frozen=True)
class Curve:
    """A distribution."""

    name: str
    look: Look
    points: Sequence[Tuple[float, Estimate]]


@dataclass(frozen=True)
class Cumulative:
    """A panel of distributions: the part of all that took no longer."""

    title: str
    curves: Sequence[Curve]
    label: str
    """Of the values, with the unit."""
    lines: Sequence[Tuple[float, str]] = ()
    """Values across all, each with its text for the legend."""
    log: bool = True
    span: Optional[Tuple[float, float]] = None

    def __call__(self, axes: Any) -> None:
        """Draw into the axes."""
        for number, curve in enumerate(self.curves):
            points = [(percent, one) for percent, one in curve.points if one.centre > 0 or not self.log]
            percents = [percent / 100 for percent, _ in points]
            values = [one.centre for _, one in points]
            if any(one.half > 0 for _, one in points):
                floor = min(values) / 10 if self.log else 0.0
                axes.fill_betweenx(percents, [max(one.centre - one.half, floor) for _, one in points],
                                   [one.centre + one.half for _, one in points], color=curve.look.colour, alpha=0.25,
                                   linewidth=0, zorder=2, gid=INTERVAL)
            axes.plot(values, percents, color=curve.look.colour, linestyle=curve.look.dash, label=curve.name, zorder=3,
                      marker=curve.look.marker, markevery=(number, 4) if len(points) > 8 else None)
        for value, text in self.lines:
            marks.line(axes, value, text, vertical=True)
        if self.log:
            logarithmic(axes.xaxis)
        if self.span:
            axes.set_xlim(*self.span)
        axes.set_ylim(0, 1.02)
        axes.set_title(self.title)
        axes.set_xlabel(self.label)
        axes.set_ylabel("part of all")
