# SPDX-License-Identifier: Apache-2.0
"""Figures of scenarios on leaf-spine networks: distance from max-min over time, a line a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from sdngcc.testbed.plot import runs_of  # noqa: E402

# Told apart by the colour-blind, too (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def draw_errors(result: Dict[str, Any], path: Path) -> None:
    """Draw how far flows' rates are from max-min, and how much of it all have together, over time."""
    figure, (error, used) = pyplot.subplots(2, 1, figsize=(7, 6), sharex=True)
    for number, run in enumerate(runs_of(result)):
        colour, style = COLOURS[number % len(COLOURS)], ("-", "--", ":")[number // len(COLOURS) % 3]
        times = run["series"]["t_s"]
        error.plot(times, run["series"]["error"], style, color=colour, linewidth=1.2, label=run["label"] or None)
        used.plot(times, run["series"]["of_max_min"], style, color=colour, linewidth=1.2)
    error.set_ylabel("mean distance from max-min")
    error.set_ylim(bottom=0)
    used.set_ylabel("all flows, of max-min")
    used.set_ylim(0, 1.1)
    used.set_xlabel("time, s")
    for axes in (error, used):
        axes.grid(alpha=0.3)
    if any(run["label"] for run in runs_of(result)):
        error.legend(fontsize=8)
    figure.suptitle(f"{result['experiment']}: seed {result['seed']}", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
