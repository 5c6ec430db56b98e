# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reproduction.md out of results: what the papers say, what we measured, what holds and why not.

The text follows from results and causes alone: no times, no names of machines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

# Why verdicts fail, written by hand: experiment -> name of the verdict, or "*" for all its others -> cause.
CAUSES = Path(__file__).resolve().with_name("causes.json")
UNKNOWN = "cause not known"

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make reproduce`; causes of failures stand in testbed/causes.json. -->
# What the papers say and what we measure

`make reproduce` runs every experiment in the virtual testbed, with {how}, and writes this page. Virtual time
makes the numbers the same on any machine. A verdict without a value of the paper is our own expectation; where a
paper's machines could not be matched, the name or the expectation says what was scaled.
"""


@dataclass(frozen=True)
class Reproduced:
    """One experiment's outcome."""

    name: str
    summary: str
    source: str
    """Paper and figure."""
    verdicts: List[Dict[str, Any]]
    """As Verdict.as_dict() makes them."""
    figure: Optional[str] = None
    """Its path as the page links it; None: there is none."""
    failure: str = ""
    """Why it could not be run; empty: it was."""

    @property
    def judged(self) -> List[Dict[str, Any]]:
        """Return the verdicts that expect something; the others record a number."""
        return [verdict for verdict in self.verdicts if is_judged(verdict)]

    @property
    def held(self) -> int:
        """Return how many of them hold."""
        return sum(verdict["holds"] for verdict in self.judged)


def is_judged(verdict: Mapping[str, Any]) -> bool:
    """Return whether a verdict expects anything, or only records what was measured."""
    return not (verdict["holds"] and verdict["expected"].startswith("as measured"))


def read_causes(path: Path = CAUSES) -> Dict[str, Dict[str, str]]:
    """Return the causes of failing verdicts. Raises OSError, or ValueError naming what is no text."""
    causes = json.loads(path.read_text(encoding="utf-8"))
    for experiment, by_verdict in causes.items():
        for name, cause in by_verdict.items():
            if not isinstance(cause, str) or not cause:
                raise ValueError(f"{path}: the cause of {experiment}, {name} is no text")
    return dict(causes)


def cause_of(causes: Mapping[str, Mapping[str, str]], experiment: str, verdict: str) -> str:
    """Return the cause of a failing verdict; UNKNOWN when nobody wrote one."""
    own = causes.get(experiment, {})
    return own.get(verdict, own.get("*", UNKNOWN))


def shown(value: Any) -> str:
    """Return a measured value for people: four significant digits; lists with commas, mappings with names."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float)):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(one) for one in value)
    return str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> List[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)]


def _anchor(name: str) -> str:
    return f"[{name}](#{name})"


def _overview(outcomes: Sequence[Reproduced]) -> List[str]:
    rows = [[_anchor(one.name), one.source, one.summary,
             "could not be run" if one.failure else f"{one.held} of {len(one.judged)}"] for one in outcomes]
    return _table(["experiment", "source", "what", "hold"], rows)


def _failures(outcomes: Sequence[Reproduced], causes: Mapping[str, Mapping[str, str]]) -> List[str]:
    rows: List[List[str]] = []
    for one in outcomes:
        if one.failure:
            rows.append([_anchor(one.name), "all", "a run", "none", one.failure])
        rows += [[_anchor(one.name), verdict["name"], verdict["expected"], shown(verdict["measured"]),
                  cause_of(causes, one.name, verdict["name"])] for verdict in one.verdicts if not verdict["holds"]]
    if not rows:
        return ["Every verdict holds."]
    return _table(["experiment", "what", "expected", "ours", "cause"], rows)


def _section(one: Reproduced) -> List[str]:
    lines = [f"## {one.name}", "", f"{one.summary}. Source: {one.source}.", "", "```",
             f"sdngcc testbed run {one.name}", "```", ""]
    if one.failure:
        return [*lines, f"Could not be run: {one.failure}", ""]
    rows = [[verdict["name"], verdict["paper"] or "-", verdict["expected"], shown(verdict["measured"]),
             ("holds" if is_judged(verdict) else "recorded") if verdict["holds"] else "**does not hold**"]
            for verdict in one.verdicts]
    lines += _table(["what", "the paper says", "expected", "ours", "verdict"], rows)
    if one.figure:
        lines += ["", f"![{one.summary}]({one.figure})"]
    return [*lines, ""]


def differing(ours: Sequence[Reproduced], others: Sequence[Reproduced]) -> List[str]:
    """Return a line for each verdict that holds in one of two reproductions alone, of the experiments both have."""
    of_others = {(one.name, verdict["name"]): verdict for one in others for verdict in one.judged}
    lines = []
    for one in ours:
        for verdict in one.judged:
            other = of_others.get((one.name, verdict["name"]))
            if other is not None and other["holds"] != verdict["holds"]:
                told = "holds" if verdict["holds"] else "does not hold"
                lines.append(f"{one.name}: {verdict['name']} {told}: {shown(verdict['measured'])}, there "
                             f"{shown(other['measured'])} ({verdict['expected']})")
    return lines


def page(outcomes: Sequence[Reproduced], causes: Mapping[str, Mapping[str, str]], seed: int,
         settings: Sequence[str] = ()) -> str:
    """Return the page: an overview, what does not hold and why, then a section for each experiment."""
    judged, missing = sum(len(one.judged) for one in outcomes), sum(bool(one.failure) for one in outcomes)
    ran = f"{len(outcomes) - missing} of {len(outcomes)} experiments were run; " if missing else ""
    how = " and ".join([f"seed {seed}", *(f"`{setting}`" for setting in settings)])
    lines = [HEAD.format(how=how),
             f"{ran}{sum(one.held for one in outcomes)} of {judged} verdicts hold.", "", *_overview(outcomes), "",
             "## What does not hold", "", *_failures(outcomes, causes), ""]
    for one in outcomes:
        lines += _section(one)
    return "\n".join(lines).rstrip() + "\n"
