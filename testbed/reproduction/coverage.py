# SPDX-License-Identifier: Apache-2.0
"""Every figure and table of the papers, and what stands for it here: an experiment, a simulation, or why there is none.

Written by hand into coverage.json, for what a figure claims is read by people; that what it names exists is tested.
Notes quote what was measured (numbers.quoted).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import List, Mapping, Sequence, Tuple

COVERAGE = Path(__file__).resolve().with_name("coverage.json")
PAPERS = ("SDN-GCC", "HyGenICC", "EyeQ", "Seawall", "SCC", "vCC")
DRAWING = "not an experiment"
# Of an item, in the order of the page's legend, each with what it means.
STATUSES = {
    "reproduced": "what it claims was seen to hold",
    "partly": "some of what it claims holds; the note says what does not, or what was scaled",
    "refuted": "it was run as written, or as the best that it could be, and what it claims does not hold",
    "not seen": "it was run at another size or with stand-ins, and what it claims was not seen; the note says which",
    "impossible": "it cannot be had here, for the reason in the note",
    DRAWING: "a drawing, a list of variables, an algorithm",
}


@dataclass(frozen=True)
class Item:
    """A figure or table of a paper."""

    paper: str
    """One of PAPERS."""
    item: str
    """Its name there: Fig. 4."""
    what: str
    status: str
    """One of STATUSES."""
    where: Tuple[str, ...]
    """What shows it, or has to do with it: experiments, ``simulate`` and a scenario, ``make`` and a target."""
    note: str


def read_coverage(path: Path = COVERAGE) -> List[Item]:
    """Return all items, in the order of PAPERS and, of each, of the file.

    Raises OSError, or ValueError that names the item that is not as it must be.
    """
    items = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        try:
            one = Item(**{**entry, "where": tuple(entry["where"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: {entry}: {error}") from None
        name = f"{path}: {one.paper}, {one.item}"
        if one.paper not in PAPERS:
            raise ValueError(f"{name}: the paper is none of {', '.join(PAPERS)}")
        if one.status not in STATUSES:
            raise ValueError(f"{name}: '{one.status}' is none of {', '.join(STATUSES)}")
        if not one.what or (not one.note and one.status not in ("reproduced", DRAWING)):
            raise ValueError(f"{name}: it says too little: 'what' is needed, and 'note' for what is not reproduced")
        if not one.where and one.status not in ("impossible", DRAWING):
            raise ValueError(f"{name}: 'where' must name what shows it")
        items.append(one)
    return sorted(items, key=lambda one: PAPERS.index(one.paper))


def counted(items: Sequence[Item]) -> str:
    """Return in words how many items have which status, drawings left out."""
    shown = [one for one in items if one.status != DRAWING]
    parts = [f"{sum(one.status == status for one in shown)} {status}" for status in STATUSES if status != DRAWING]
    return f"Of {len(shown)} figures and tables that show measurements: {', '.join(parts)}."


def rows_of_papers(items: Sequence[Item], pages: Mapping[str, str]) -> List[List[str]]:
    """Return a row for each item: paper, item, what, status, where, note.

    pages are those that say of commands, by their first word; an experiment is a section of the same page.
    """
    return [[one.paper, one.item, one.what, one.status,
             ", ".join(f"[{name}]({pages.get(name.split()[0], f'#{name}')})" for name in one.where) or "-",
             one.note or "-"] for one in items]
