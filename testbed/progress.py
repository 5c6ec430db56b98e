# SPDX-License-Identifier: Apache-2.0
"""Progress of builds and of an experiment's runs, on standard error: bars on a terminal, else lines of what begins."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Callable, Dict, Iterator, Optional

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sdngcc.testbed.build import Progress as BuildProgress


@contextlib.contextmanager
def build_progress(quiet: bool = False) -> Iterator[Optional[BuildProgress]]:
    """Show the parts that are built; the value is what build() calls with its progress, None when quiet."""
    console = Console(stderr=True)
    if quiet:
        yield None
    elif console.is_terminal:
        columns = (TextColumn("{task.description:10}"), BarColumn(), TextColumn("{task.fields[what]}"),
                   TimeElapsedColumn())
        with Progress(*columns, console=console) as bars:
            tasks: Dict[str, TaskID] = {}

            def show(part: str, done: int, total: int, what: str) -> None:
                if part not in tasks:
                    tasks[part] = bars.add_task(part, total=total, what=what)
                bars.update(tasks[part], completed=done, what=what)

            yield show
    else:
        began: Dict[str, float] = {}
        told: Dict[str, str] = {}

        def tell(part: str, done: int, total: int, what: str) -> None:
            if told.get(part) != what:
                since = time.monotonic() - began.setdefault(part, time.monotonic())
                print(f"build: {part}: {what}" + (f" after {since:.0f} s" if since >= 1 else ""), file=sys.stderr,
                      flush=True)
                told[part] = what

        yield tell

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
