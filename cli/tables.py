# SPDX-License-Identifier: Apache-2.0
"""Tables for people, as wide as their terminal."""

from __future__ import annotations

from typing import Dict, List, Sequence

import click


def print_table(rows: Sequence[Dict[str, str]], left: Sequence[str], wide: bool) -> None:
    """Print rows of cells by column; all rows have the same columns, in order.

    Columns that do not fit are left out from the last one on, and told of, unless wide; the first one wraps. Those of
    ``left`` are flush left.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in rows[0]}
    shown: List[str] = []
    for head in widths:
        if not wide and shown and sum(widths[one] + 3 for one in [*shown, head]) + 1 > console.width:
            break
        shown.append(head)
    table = Table()
    for number, head in enumerate(shown):
        table.add_column(head, justify="left" if head in left else "right", no_wrap=wide or number > 0,
                         overflow="fold")
    for row in rows:
        # As text: what stands in brackets in somebody's name is no markup.
        table.add_row(*(Text(row[head]) for head in shown))
    needed = sum(widths[head] + 3 for head in shown) + 1
    Console(width=max(console.width, needed) if wide else None).print(table)
    left_out = [head for head in widths if head not in shown]
    if left_out:
        click.echo(f"Left out for want of room: {', '.join(left_out)}; --wide shows them.", err=True)
