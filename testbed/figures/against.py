# SPDX-License-Identifier: Apache-2.0
"""Values against a count, a load or a period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple

from sdngcc.testbed.figures import marks
from sdngcc.testbed.figures.series import Series


@dataclass(frozen=True)
class Against:
    """A panel of lines against a count."""

    title: str
    at: Sequence[str]
    """The counts, in words."""
    series: Sequence[Series]
    at_label: str
    label: str
    papers: Sequence[Tuple[int, marks.Paper]] = ()
    """By number of the count."""
    lines: Sequence[Tuple[float, str]] = ()
    ends: Optional[Tuple[float, float]] = None

    def __call__(self, axes: Any) -> None:
        """Draw into the axes; series are set off a little from each other, so that none covers another."""
        for number, series in enumerate(self.series):
            shift = 0.05 * (number - (len(self.series) - 1) / 2)
            found = [(place + shift, one) for place, one in enumerate(series.values) if one is not None]
            axes.errorbar([place for place, _ in found], [one.centre for _, one in found],
                          yerr=[one.half for _, one in found] if any(one.half > 0 for _, one in found) else None,
                          color=series.look.colour, linestyle=series.look.dash, marker=series.look.marker,
                          label=series.name or None, zorder=3)
        for place, paper in self.papers:
            marks.mark(axes, place, paper.value, paper.source)
        for value, text in self.lines:
            marks.line(axes, value, text)
        axes.set_xticks(range(len(self.at)), self.at)
        axes.set_xlim(-0.4, len(self.at) - 0.6)
        if self.ends:
            axes.set_ylim(*self.ends)
        else:
            axes.set_ylim(bottom=0)
        axes.set_title(self.title)
        axes.set_xlabel(self.at_label)
        axes.set_ylabel(self.label)
