# SPDX-License-Identifier: Apache-2.0
"""The laws' knobs as tables for people, from the C tables that the datapath obeys.

``python -m sdngcc.shim.knobs docs/laws.md`` writes each law's table between its two marks in that file:
``<!-- knobs of LAW -->`` and ``<!-- end of knobs of LAW -->``. A test checks that the file is as this would write it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Tuple

from sdngcc.shim.core import load


@dataclass(frozen=True)
class Knob:
    """A knob as its law's C file describes it; value, minimum and maximum in its unit."""

    name: str
    unit: str
    meaning: str
    source: str
    value: int
    minimum: int
    maximum: int


@dataclass(frozen=True)
class Law:
    """A law as its C file describes it."""

    name: str
    period_ns: int
    """Default T, nanoseconds."""
    knobs: Tuple[Knob, ...]


def laws() -> List[Law]:
    """Return all laws of the core, in the order in which they are listed to users. Raises CoreBuildError."""
    ffi, lib = load()

    def text(pointer: object) -> str:
        raw: bytes = ffi.string(pointer)
        return raw.decode()

    found: List[Law] = []
    while (law := lib.shim_law_at(len(found))) != ffi.NULL:
        knobs = tuple(Knob(text(knob.name), text(knob.unit), text(knob.help), text(knob.source), knob.value, knob.min,
                           knob.max) for knob in law.knobs[0:law.n_knobs])
        found.append(Law(text(law.name), law.period_ns, knobs))
    return found


def _amount(value: int) -> str:
    """Return a number as people read it: round powers of ten beyond a thousand in short form."""
    digits = str(value).rstrip("0")
    zeros = len(str(value)) - len(digits)
    return f"{digits}e{zeros}" if value and zeros >= 6 else str(value)


def table(law: Law) -> str:
    """Return a law's period and knobs in Markdown."""
    lines = [f"Default period T: {law.period_ns / 1e6:g} ms.", ""]
    if not law.knobs:
        return lines[0] + " No knobs.\n"
    lines += ["| knob | unit | default | range | meaning | source |", "|---|---|---|---|---|---|"]
    lines += [f"| `{knob.name}` | {knob.unit} | {_amount(knob.value)} | {_amount(knob.minimum)} to "
              f"{_amount(knob.maximum)} | {knob.meaning} | {knob.source} |".replace("<", "&lt;") for knob in law.knobs]
    return "\n".join(lines) + "\n"


def refresh(text: str, tables: Dict[str, str]) -> str:
    """Return text with each law's table between its marks; ValueError naming a law that has none, or marks of none."""
    for name, content in tables.items():
        begin, end = f"<!-- knobs of {name} -->", f"<!-- end of knobs of {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"law {name} needs the marks '{begin}' and '{end}', once each")
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{content}{end}{rest.split(end)[1]}"
    unknown = set(re.findall(r"<!-- knobs of ([\w-]+) -->", text)) - set(tables)
    if unknown:
        raise ValueError(f"there is no law {', '.join(sorted(unknown))}")
    return text


def main() -> None:
    """Write the tables into the file that the command line names."""
    path = Path(sys.argv[1])
    path.write_text(refresh(path.read_text(encoding="utf-8"), {law.name: table(law) for law in laws()}),
                    encoding="utf-8")


if __name__ == "__main__":
    main()
