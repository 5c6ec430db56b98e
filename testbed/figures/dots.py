# SPDX-License-Identifier: Apache-2.0
"""A dot a flow: how evenly many of them were treated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence, Tuple

from sdngcc.testbed.figures import marks
from sdngcc.testbed.figures.series import Series


@dataclass(frozen=True)
class Dots:
    """A panel of dots, each series from the least to the largest, one behind the other."""

    title: str
    series: Sequence[Series]
    at_label: str
    label: str
    lines: Sequence[Tuple[float, str]] = ()

    def __call__(self, axes: Any) -> None:
        """Draw into the axes."""
        at = 0
        for series in self.series:
            values = sorted((one for one in series.values if one is not None), key=lambda one: one.centre)
            places = range(at, at + len(values))
            axes.errorbar(places, [one.centre for one in values],
                          yerr=[one.half for one in values] if any(one.half > 0 for one in values) else None,
                          color=series.look.colour, marker=series.look.marker, linestyle="none", label=series.name,
                          elinewidth=0.8, zorder=3)
            at += len(values) + 1
        for value, text in self.lines:
            marks.line(axes, value, text)
        axes.set_xlim(-1, max(at - 1, 1))
        highest = max((one.centre + one.half for series in self.series for one in series.values if one), default=1.0)
        axes.set_ylim(0, 1.08 * max([highest, *(value for value, _ in self.lines)]))
        axes.set_xticks([])
        axes.set_title(self.title)
        axes.set_xlabel(self.at_label)
        axes.set_ylabel(self.label)
