# SPDX-License-Identifier: Apache-2.0
"""A progress bar for the runs of an experiment, on standard error."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextlib.contextmanager
def run_progress(quiet: bool = False) -> Iterator[Callable[[int, int, float, str], None]]:
    """Show a bar over all runs; the value is what runner.run_experiment() calls with its progress."""
    columns = (TextColumn("run {task.fields[run]}"), BarColumn(), TextColumn("{task.fields[what]}"),
               TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bars:
        task = bars.add_task("run", total=1.0, run="1", what="booting")

        def show(number: int, count: int, part: float, what: str) -> None:
            bars.update(task, completed=(number + part) / count, run=f"{number + 1}/{count}", what=what)

        yield show
