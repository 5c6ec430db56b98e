# SPDX-License-Identifier: Apache-2.0
"""Runs the stress program in machines with several CPUs, one for each kernel: ``make smp``."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sdngcc.testbed.build import ROOT, BuildError
from sdngcc.testbed.smp.build import KINDS, STOCK, smp_build
from sdngcc.testbed.smp.run import LONG, SHORT, Outcome, run_machine

# Columns that the table takes.
WIDTH = 120


def _table(outcomes: List[Outcome]) -> Table:
    """Return what came of the runs, a line each."""
    table = Table("kernel", "CPUs", "seconds", "changes", "packets", "conserved", "watched", "control told",
                  "others' races", "result")
    for outcome in outcomes:
        table.add_row(outcome.kind, str(outcome.cpus), f"{outcome.wall_s:.0f}", str(outcome.changes),
                      str(outcome.packets), f"{outcome.conserved} of {outcome.trials}",
                      str(outcome.watched or "-"), "yes" if outcome.control else "no", str(len(outcome.others)),
                      f"{len(outcome.findings)} findings" if outcome.findings else "ok")
    return table


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the kernels named, all if none is; returns 0 if nothing was found, 1 else, 2 if a build fails."""
    parser = argparse.ArgumentParser(prog="python -m sdngcc.testbed.smp",
                                     description="stress the datapath on several CPUs under kernels that find mistakes")
    parser.add_argument("kernel", nargs="*", help=f"{', '.join(KINDS)}; default: all")
    parser.add_argument("--short", action="store_true", help="a minute or two a kernel instead of several")
    parser.add_argument("--cpus", type=int, default=2, choices=(2, 3, 4), help="CPUs of a machine")
    parser.add_argument("--beside", action="store_true",
                        help="sdngcc.ko beside an unmodified openvswitch.ko, on Debian's own kernels")
    given = parser.parse_args(arguments)
    kinds = tuple(STOCK) if given.beside else KINDS
    for kind in given.kernel:
        if kind not in kinds:
            parser.error(f"there is no kernel '{kind}'; there are {', '.join(kinds)}")
    console = Console(stderr=True)
    columns = (TextColumn("{task.fields[kind]}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    outcomes: List[Outcome] = []
    for kind in given.kernel or kinds:
        with Progress(*columns, console=console) as bars:
            task = bars.add_task("run", total=1.0, kind=kind, what="building")

            def show(name: str, done: int, steps: int, what: str) -> None:
                bars.update(task, completed=done / steps, what=f"{name}: {what}")  # noqa: B023, ours is of this turn

            try:
                artifacts = smp_build(kind, show, given.beside)
            except BuildError as error:
                print(error, file=sys.stderr)
                return 2

            def tell(part: float, what: str) -> None:
                bars.update(task, completed=part, what=what)  # noqa: B023, ours is of this turn

            outcome = run_machine(artifacts, SHORT if given.short else LONG, given.cpus,
                                  ROOT / "results" / "smp" / (f"{kind}-beside" if given.beside else kind), tell)
        outcomes.append(outcome)
        for finding in outcome.findings:
            print(f"{kind}: {finding}\n", flush=True)
    Console(width=WIDTH).print(_table(outcomes))
    return 1 if any(outcome.findings for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
