# SPDX-License-Identifier: Apache-2.0
"""What a scenario is: works made of settings, which seeds make runs of, and expectations judged from these."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, List, Optional, Protocol, Sequence, Tuple

from sdngcc.experiments.base import Run, Verdict
from sdngcc.testbed.simulation.options import Options
from sdngcc.testbed.simulation.packets import Show


class Work(Protocol):
    """One run before it has a seed."""

    label: str
    options: Options

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate, leaving raw samples in raw. Raises SimulationError, BuildError."""


@dataclass(frozen=True)
class Scenario:
    """A scenario by name."""

    name: str
    summary: str
    source: str
    """Where what it shows is claimed."""
    seen: str
    """What must be seen, in a line."""
    works: Callable[[Sequence[str]], List[Any]]
    """Makes the works of ``name=value`` settings; raises ParameterError."""
    judge: Callable[[List[Tuple[str, Run]]], List[Verdict]]
    """Judges labelled runs of one seed."""
    parameters: Callable[[], List[Any]]
    """Returns name, default, allowed values and meaning of each parameter, as parameters.describe() does."""
    draw: Optional[Callable[[Any, Path], None]] = None
    """Draws a result; None: as the testbed does."""
    tabulate: Optional[Callable[[Sequence[Any]], List[str]]] = None
    """Returns the lines of the page's table, of results that differ in their seeds; None: there is none."""
    draw_over: Optional[Callable[[Sequence[Any], Path], None]] = None
    """Draws results that differ in their seeds in one figure; None: the first one's stands for all."""
    page: Tuple[str, ...] = ()
    """Settings of the page's runs."""
    seeds: int = 1
    """Of the page's runs."""
