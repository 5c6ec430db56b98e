# SPDX-License-Identifier: Apache-2.0
"""Manual pages, made of what the program itself says: one of ``sdngcc``, one of each sub-command."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Dict, Iterator, List, Optional

import click

from sdngcc import __version__
from sdngcc.main import main as program
from sdngcc.main import without_testbed

# Sub-commands that no package has.
LEFT_OUT = ("testbed", "simulate")


def escape(text: str) -> str:
    """Return text as roff takes it: no backslash, dash or leading dot of it means anything."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def paragraphs(text: str) -> Iterator[str]:
    r"""Yield roff for a help text: paragraphs, and those that \\b keeps as they are."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.lstrip().startswith("\b"):
            lines = paragraph.replace("\b", "").strip("\n").splitlines()
            yield ".nf\n" + "\n".join(escape(line) for line in lines) + "\n.fi"
        else:
            yield escape(" ".join(paragraph.split()))


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield roff for each option and argument of a command that is not hidden."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield f".TP\n.B {escape(record[0])}\n{escape(record[1] or 'No more is to be said of it.')}"


def synopsis(command: click.Command, context: click.Context) -> str:
    """Return a command's usage line."""
    pieces = " ".join(command.collect_usage_pieces(context))
    return f".B {escape(context.command_path)}\n{escape(pieces)}"


def commands(group: click.Group, context: click.Context) -> Dict[str, click.Command]:
    """Return a group's sub-commands by name, without hidden ones and those that no package has."""
    found = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name) if context.parent or name not in LEFT_OUT else None
        if command is not None and not command.hidden:
            found[name] = command
    return found


def page(command: click.Command, context: click.Context, see: List[str], date: str) -> str:
    """Return a command's manual page, with a section for each of its own sub-commands; see names other pages."""
    name = context.command_path.replace(" ", "-")
    summary = (command.help or "").strip().split("\n\n", 1)[0]
    lines = [f".\\\" SPDX-License-Identifier: Apache-2.0\n.TH {name.upper()} 1 \"{date}\" \"sdn\\-gcc {__version__}\"",
             f".SH NAME\n{escape(name)} \\- {escape(' '.join(summary.split()).rstrip('.'))}",
             f".SH SYNOPSIS\n{synopsis(command, context)}",
             ".SH DESCRIPTION", "\n.PP\n".join(paragraphs(without_testbed(command.help or ""))),
             ".SH OPTIONS", *options(command, context)]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for one, below in commands(command, context).items():
            inner = click.Context(below, info_name=one, parent=context)
            if context.parent is None:
                lines.append(f".TP\n.BR {escape(name)}\\-{one} (1)\n{escape(below.get_short_help_str(200))}")
                continue
            lines += [f".SS {escape(one)}", synopsis(below, inner), ".PP",
                      "\n.PP\n".join(paragraphs(below.help or "")), *options(below, inner)]
    lines += [".SH FILES\n.TP\n.I /usr/share/doc/sdn\\-gcc\nThe operator's guide and what it refers to.",
              ".SH SEE ALSO\n" + ",\n".join(f".BR {escape(one)} (1)" for one in see if one != name)]
    return "\n".join(lines) + "\n"


def write(folder: Path, when_s: Optional[float]) -> List[Path]:
    """Write all pages into a folder and return them; when_s is their date, since 1970."""
    date = time.strftime("%Y-%m-%d", time.gmtime(when_s))
    folder.mkdir(parents=True, exist_ok=True)
    top = click.Context(program, info_name="sdngcc", **program.context_settings)
    below = commands(program, top)
    see = ["sdngcc", *(f"sdngcc-{name}" for name in below)]
    made = []
    for command, context in [(program, top), *((one, click.Context(one, info_name=name, parent=top))
                                              for name, one in below.items())]:
        path = folder / f"{context.command_path.replace(' ', '-')}.1"
        path.write_text(page(command, context, see, date), encoding="utf-8")
        made.append(path)
    return made


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--date", type=float, help="seconds since 1970; none: now")
    chosen = parser.parse_args()
    write(chosen.folder, chosen.date)


if __name__ == "__main__":
    main()
