# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/reproduction.md: each experiment's as its paper draws it, means over seeds with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from sdngcc.testbed.figures.data import gather
from sdngcc.testbed.figures.layout import make, save
from sdngcc.testbed.figures.table import DRAWINGS

__all__ = ["draw", "figure_of"]


def figure_of(experiment: str, results: Sequence[Mapping[str, Any]]) -> Any:
    """Return an experiment's figure of results, one of each seed as testbed/runner.py leaves them.

    Raises KeyError for an experiment that has no figure, ValueError without results.
    """
    if not results:
        raise ValueError(f"{experiment}: there is no result to draw")
    seeds = [result["seed"] for result in results]
    note = f"seed {seeds[0]}" if len(seeds) == 1 else f"means of {len(seeds)} seeds, with 95% intervals"
    return make(DRAWINGS[experiment](gather(results)), note)


def draw(experiment: str, results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write an experiment's figure as PNG; see figure_of()."""
    save(figure_of(experiment, results), path)
