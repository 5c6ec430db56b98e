# SPDX-License-Identifier: Apache-2.0
"""What a paper says, with where it says so, and how it is marked in a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdngcc.testbed.figures.style import BLACK


@dataclass(frozen=True)
class Paper:
    """A value of a paper."""

    value: float
    source: str
    """The paper and its figure or section."""
    words: str = ""
    """What the paper says, where it is no plain number."""


def mark(axes: Any, x: float, y: float, source: str) -> None:
    """Mark a paper's value at a place."""
    axes.plot([x], [y], linestyle="none", marker="D", markersize=5.5, color=BLACK, markeredgecolor="white",
              markeredgewidth=0.9, zorder=8, label=f"paper ({source})", clip_on=False)


def line(axes: Any, value: float, text: str, vertical: bool = False) -> None:
    """Draw a value across the axes; text stands in the legend."""
    draw = axes.axvline if vertical else axes.axhline
    draw(value, color=BLACK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=2.5, label=text)
