# SPDX-License-Identifier: Apache-2.0
"""The page that helps to choose a law: tables and figure of what tournaments measured.

``python -m sdngcc.experiments.own.choosing docs/choosing-a-law.md [RESULT.json ...]`` takes rows out of tournaments'
results into the JSON file of the page's name, beside those of other laws that it has. From that file it writes the
page's tables, between the marks ``<!-- tournament -->`` and ``<!-- end of tournament -->``, and the figure. A test
checks that the page is as this would write it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from sdngcc.experiments.own import tournament
from sdngcc.testbed.plot import pyplot, runs_of

BEGIN, END = "<!-- tournament -->\n", "<!-- end of tournament -->"
# Columns: heading and the row's keys.
COLUMNS = (("throughput", ("throughput",)),
           *((f"{percent}, s / m / l", tuple(f"{percent} {kind}" for kind in tournament.CLASSES))
             for percent in ("p50", "p99")),
           ("link used", ("link used",)), ("queue p99, kB", ("queue p99, kB",)), ("control, kB/s", ("control, kB/s",)))

# Rows by law, by the set they belong to: "1000 Mb/s, 12 VMs, load 60%, seed 1".
Rows = Dict[str, Dict[str, Dict[str, Any]]]


def rows_of(result: Mapping[str, Any]) -> Rows:
    """Return the rows of a tournament's result. Raises ValueError for a result of another experiment."""
    if result["experiment"] != tournament.EXPERIMENT.name:
        raise ValueError(f"a result of {result['experiment']}, not of {tournament.EXPERIMENT.name}")
    found: Rows = {}
    runs = runs_of(dict(result))
    first = runs[0]["parameters"]
    for label, row in tournament.rows([(run["label"], run) for run in runs]).items():
        law, _, load = label.partition(", ")
        name = f"{first['link_mbps']:g} Mb/s, {first['senders']} VMs, {load}, seed {result['seed']}"
        found.setdefault(name, {})[law] = row
    return found


def _number(value: Optional[float]) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return " / ".join(_number(row[key]) for key in keys)


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the rows of one set in Markdown, a law a line."""
    lines = ["| law | " + " | ".join(heading for heading, _ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for law, row in rows.items():
        lines.append(f"| {law} | " + " | ".join(_cell(row, keys) for _, keys in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def refresh(text: str, rows: Rows) -> str:
    """Return the page's text with a table for each set between its marks; ValueError if it has not just these marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise ValueError(f"the page needs one {BEGIN.strip()} and, behind it, one {END}")
    head, tail = text[:text.index(BEGIN) + len(BEGIN)], text[text.index(END):]
    return head + "".join(f"\n### {name}\n\n{table(found)}" for name, found in rows.items()) + "\n" + tail


def draw(rows: Rows, path: Path) -> None:
    """Write a figure: of each set the p50 and p99 of small and large flows by law, on a logarithmic axis."""
    shown = [f"{percent} {kind}" for kind in ("small", "large") for percent in ("p50", "p99")]
    figure, columns = pyplot.subplots(len(rows), 1, figsize=(8, 2.6 * len(rows)), squeeze=False, sharex=True)
    colours = ("#92c5de", "#2166ac", "#fdb863", "#b35806")
    for axes, (name, found) in zip((line[0] for line in columns), rows.items()):
        for number, key in enumerate(shown):
            places = [at + (number - 1.5) * 0.2 for at in range(len(found))]
            axes.bar(places, [row[key] or float("nan") for row in found.values()], 0.2, color=colours[number],
                     label=key)
        axes.set_yscale("log")
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_title(name, fontsize=9)
        axes.set_ylabel("times alone's", fontsize=8)
        axes.set_xticks(range(len(found)), list(found), fontsize=8)
        axes.grid(alpha=0.3, axis="y")
    columns[0][0].legend(fontsize=7, ncol=4, loc="upper right")
    figure.tight_layout()
    figure.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(figure)


def main(arguments: List[str]) -> int:
    """Take results into a page; return the exit status, 2 with a sentence for what cannot be taken."""
    if not arguments:
        print("python -m sdngcc.experiments.own.choosing PAGE.md [RESULT.json ...]", file=sys.stderr)
        return 2
    page = Path(arguments[0])
    kept = page.with_suffix(".json")
    try:
        rows: Rows = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        for name in arguments[1:]:
            for group, found in rows_of(json.loads(Path(name).read_text(encoding="utf-8"))).items():
                rows[group] = {**rows.get(group, {}), **found}
        rows = dict(sorted(rows.items()))
        text = refresh(page.read_text(encoding="utf-8"), rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"nothing was written: {error}", file=sys.stderr)
        return 2
    kept.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    draw(rows, page.parent / "figures" / page.with_suffix(".png").name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
