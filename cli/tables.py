# SPDX-License-Identifier: Apache-2.0
"""Tables for people, as wide as their terminal; for programs, each row is a line and each column is there.

Cells are shown as text: what stands in brackets in somebody's name is no markup, and what a terminal would obey is
escaped (text.py).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple

import click

from sdngcc.text import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = Dict[str, str]  # cells by column


def is_terminal() -> bool:
    """Return whether somebody looks at what is printed."""
    return sys.stdout is not None and sys.stdout.isatty()


def make_console(width: Optional[int] = None) -> Console:
    """Return rich's console for standard output; a reader that left is main.py's to deal with."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - called while the error is handled

    return _Console(width=width, markup=False, emoji=False, highlight=False)


def _safe(rows: Sequence[Row]) -> List[Row]:
    return [{head: shown(cell) for head, cell in row.items()} for row in rows]


def fitting(rows: Sequence[Row], width: int) -> List[str]:
    """Return the columns that have room in so many characters, from the first one on; at least that one."""
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in rows[0]}
    found: List[str] = []
    for head in widths:
        if found and sum(widths[one] + 3 for one in [*found, head]) + 1 > width:
            break
        found.append(head)
    return found


def make_table(
    rows: Sequence[Row], left: Sequence[str], width: int, title: Optional[str] = None, styles: Sequence[str] = ()
) -> Tuple[Table, List[str]]:
    """Return rich's table of the columns that have room in so many characters, and the columns that have none.

    All rows have the same columns, in order; the first one wraps. Those of ``left`` are flush left.
    """
    from rich.table import Table
    from rich.text import Text

    rows = _safe(rows)
    heads = fitting(rows, width)
    table = Table(title=title, title_justify="left")
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if head in left else "right", no_wrap=number > 0, overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*(Text(row[head]) for head in heads), style=styles[number] if styles else None)
    return table, [head for head in rows[0] if head not in heads]


def print_lines(rows: Sequence[Row], left: Sequence[str]) -> None:
    """Print rows as lines of all columns, which two spaces or more part."""
    rows = _safe(rows)
    heads = list(rows[0])
    lines = [dict(zip(heads, heads)), *rows]
    widths = {head: max(len(line[head]) for line in lines) for head in heads}
    for line in lines:
        cells = (
            line[head].ljust(widths[head]) if head in left or head == heads[0] else line[head].rjust(widths[head])
            for head in heads
        )
        click.echo("  ".join(cells).rstrip())


def print_table(rows: Sequence[Row], left: Sequence[str], wide: bool) -> None:
    """Print rows for people; columns that do not fit are left out from the last one on, and told of, unless wide.

    Where standard output is no terminal, they are lines of all columns.
    """
    if not is_terminal():
        print_lines(rows, left)
        return
    console = make_console()
    table, left_out = make_table(rows, left, sys.maxsize if wide else console.width)
    if wide:
        needed = sum(max(len(head), *(len(shown(row[head])) for row in rows)) + 3 for head in rows[0]) + 1
        console = make_console(max(console.width, needed))
    console.print(table)
    if left_out:
        click.echo(f"Left out for want of room: {', '.join(left_out)}; --wide shows them.", err=True)
