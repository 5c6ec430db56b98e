# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reproduction.md out of outcomes: what the papers say, what we measured, what holds and why not.

The text follows from outcomes and causes alone: no times, no names of machines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from sdngcc.testbed.presets import MENDED, PRESETS, PUBLISHED
from sdngcc.testbed.reproduction.coverage import STATUSES, Item, counted, rows_of_papers
from sdngcc.testbed.reproduction.forms import OURS, PLACEBO
from sdngcc.testbed.reproduction.numbers import quoted, shown, spread
from sdngcc.testbed.reproduction.outcomes import Course, Judged, Reproduced, Row

# Why verdicts fail, written by hand: experiment -> name of the verdict, or "*" for all its others -> cause.
CAUSES = Path(__file__).resolve().with_name("causes.json")
UNKNOWN = "cause not known"
# A law's page, from the page's folder.
LAWS_PAGE = "laws.md"
# The pages that say what came of commands, by their first word.
PAGES = {"simulate": "simulation.md#scenarios", "make": "performance.md"}

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make reproduce`; causes of failures stand in testbed/reproduction/causes.json. -->
# What the papers say and what we measure

`make reproduce` runs every experiment in the virtual testbed, with {how}, and writes this page. Virtual time
makes the numbers independent of how fast a machine is; another checkout is like another seed to runs with a controller
([testbed.md](testbed.md#the-same-seed-the-same-bytes)).

## How to read it
* A seed decides arrivals, sizes, what wrk asks for and all randomness of the machine. Numbers are means over
  seeds and, behind ±, half of their 95% interval by Student's t; with one seed there is none. A verdict *holds*
  when it holds with every seed. What is judged against a paper has all seeds; our own experiments, laws as published
  and placebos have three of them at most.
* *Mended* is the law as it is by default, which is what verdicts are about. *As published* is its paper's own
  algorithm; each section links to what the two differ in. *Placebo* is the same work with a shim that makes packets
  ECT and cuts nothing: what it reaches too, marked †, is not the law's doing. The last two are for experiments of
  papers; a dash stands where there is none, or where it was not run.
* A verdict without a value of the paper is our own expectation; where a paper's machines could not be matched, the
  name or the expectation says what was scaled. *Recorded* expects nothing.
* Under each table stands how its runs went in the period in which all VMs send. *Share* is goodput by fair share: of
  the worst VM and in the mean, over the whole period and without its first two seconds. *Fair after* is the time
  until the goodputs of two half seconds in a row had an index of Jain of 0.95, of VMs that send. *Queue* is the
  bottleneck's, its 99th percentile over the whole run.
"""


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


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;").replace("&lt;br>", "<br>")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> List[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)]


def _anchor(name: str) -> str:
    return f"[{name}](#{name})"


def _laws(one: Reproduced) -> str:
    """Return the laws that an experiment ran, joined; a dash for none."""
    return ", ".join(dict.fromkeys(course.law for course in one.courses if course.law != "none")) or "-"


def _held(one: Reproduced, form: str) -> str:
    judged = [row for row in one.judged if form in row.by_form]
    return f"{sum(row.by_form[form].always for row in judged)} of {len(judged)}" if judged else "-"


def _overview(outcomes: Sequence[Reproduced]) -> List[str]:
    rows = [[_anchor(one.name), one.source, one.summary, _laws(one), str(len(one.seeds)),
             *(["could not be run", "-", "-"] if one.failure else
               [_held(one, form) for form in (MENDED, PUBLISHED, PLACEBO)])] for one in outcomes]
    return _table(["experiment", "source", "what", "laws", "seeds", "mended holds", "as published", "placebo"], rows)


def _told(row: Row) -> str:
    """Return a failing verdict with what was expected and what was measured."""
    often = f", in {row.mended.held} of {len(row.mended.holds)}" if row.mended.held else ""
    return f"{row.name}: {row.expected}; ours {shown(row.mended.measured)}{often}"


def _failures(outcomes: Sequence[Reproduced], causes: Mapping[str, Mapping[str, str]]) -> List[str]:
    rows: List[List[str]] = []
    for one in outcomes:
        if one.failure:
            rows.append([_anchor(one.name), "all: a run; none", one.failure])
        by_cause: Dict[str, List[str]] = {}
        for row in one.judged:
            if not row.mended.always:
                by_cause.setdefault(cause_of(causes, one.name, row.name), []).append(_told(row))
        rows += [[_anchor(one.name), "<br>".join(told), cause] for cause, told in by_cause.items()]
    rows = [[*cells, quoted(cause, outcomes)] for *cells, cause in rows]
    return _table(["experiment", "what: expected; ours", "cause"], rows) if rows else ["Every verdict holds."]


def _verdict(row: Row) -> str:
    count = len(row.mended.holds)
    if not row.judged:
        return "recorded"
    if row.mended.always:
        return "holds" if count == 1 else f"holds, {count} of {count}"
    return "**does not hold**" if not row.mended.held else f"**holds in {row.mended.held} of {count}**"


def _of_form(row: Row, form: str) -> str:
    judged: Optional[Judged] = row.by_form.get(form)
    if judged is None:
        return "-"
    return shown(judged.measured) + (" †" if row.judged and judged.always else "")


def _preset(law: str) -> List[str]:
    preset = PRESETS.get(law)
    if preset is None:
        return []
    if not preset.choices and not preset.settings:
        return [f"* `{law}`: {preset.mended} Paper: {preset.paper}."]
    link = f"[what differs]({LAWS_PAGE}#{preset.anchor})"
    return [f"* `{law}` mended: {preset.mended} As published: {preset.paper}; {link}."]


def _parts(values: Sequence[Optional[Tuple[float, float]]]) -> List[str]:
    """Return the cells of worst and mean parts of the fair share."""
    known = [value for value in values if value is not None]
    return [spread([value[number] for value in known]) if known else "-" for number in (0, 1)]


def _course(course: Course) -> List[str]:
    fair = [value for value in course.fair_s if value is not None]
    late = f" ({len(course.fair_s) - len(fair)} never)" if fair and len(fair) < len(course.fair_s) else ""
    form = "" if course.law in ("none", "static") else f", {course.form}" if course.law in PRESETS else ""
    return [course.label or "-", course.law + (f", {course.form}" if course.form != MENDED else form),
            *_parts(course.whole), *_parts(course.settled), (spread(fair) if fair else "-") + late,
            spread(course.used), spread(course.queue_kb)]


def _section(one: Reproduced) -> List[str]:
    lines = [f"## {one.name}", "", f"{one.summary}. Source: {one.source}.", "", "```",
             f"sdngcc testbed run {one.name}", "```", ""]
    if one.failure:
        return [*lines, f"Could not be run: {one.failure}", ""]
    seeds = f"Seed {one.seeds[0]}." if len(one.seeds) == 1 else f"Seeds {', '.join(map(str, one.seeds))}."
    lines += [seeds + (f" {one.changed}" if one.changed else ""), ""]
    laws = dict.fromkeys(course.law for course in one.courses)
    told = [line for law in laws for line in _preset(law)] if one.source != OURS else []
    lines += [*told, ""] if told else []
    lines += [f"Failed: {reason}." for reason in one.lost]
    rows = [[row.name, ", ".join(row.laws) or "none", row.paper or "-", row.expected, shown(row.mended.measured),
             _of_form(row, PUBLISHED), _of_form(row, PLACEBO), _verdict(row)] for row in one.rows]
    lines += _table(["what", "law", "the paper says", "expected", "mended", "as published", "placebo", "verdict"], rows)
    if one.figure:
        lines += ["", f"![{one.summary}]({one.figure})"]
    head = ["run", "law", "share, whole: worst", "mean", "settled: worst", "mean", "fair after, s", "link used",
            "queue, kB"]
    return [*lines, "", "<details><summary>How the runs went</summary>", "",
            *_table(head, [_course(course) for course in one.courses]), "", "</details>", ""]


def differing(ours: Sequence[Reproduced], others: Sequence[Reproduced]) -> List[str]:
    """Return a line for each verdict that holds in one of two reproductions alone, of the experiments both have."""
    of_others = {(one.name, row.name): row for one in others for row in one.judged}
    lines = []
    for one in ours:
        for row in one.judged:
            other = of_others.get((one.name, row.name))
            if other is not None and other.mended.always != row.mended.always:
                told = "holds" if row.mended.always else "does not hold"
                lines.append(f"{one.name}: {row.name} {told}: {shown(row.mended.measured)}, there "
                             f"{shown(other.mended.measured)} ({row.expected})")
    return lines


def _placebo_line(outcomes: Sequence[Reproduced]) -> List[str]:
    """Return a sentence on how many verdicts about a law a placebo meets as well."""
    rows = [row for one in outcomes for row in one.judged if PLACEBO in row.by_form]
    both = sum(row.mended.always and row.by_form[PLACEBO].always for row in rows)
    return [f"Of {len(rows)} verdicts that have a placebo, {both} hold under it as well: these say that a law does no "
            "harm, not what it does.", ""] if rows else []


def _coverage(items: Sequence[Item], outcomes: Sequence[Reproduced]) -> List[str]:
    """Return the section of all figures and tables."""
    rows = [[*cells, quoted(note, outcomes)] for *cells, note in rows_of_papers(items, PAGES)]
    meanings = [f"* *{status}*: {meaning};" for status, meaning in STATUSES.items()]
    return ["## Every figure and table of the papers", "", counted(items), "",
            *meanings[:-1], meanings[-1][:-1] + ".", "",
            *_table(["paper", "item", "what", "here", "shown by", "note"], rows), ""]


def page(outcomes: Sequence[Reproduced], causes: Mapping[str, Mapping[str, str]], seeds: Sequence[int],
         settings: Sequence[str] = (), coverage: Sequence[Item] = ()) -> str:
    """Return the page: an overview, what does not hold and why, the papers' figures, a section for each experiment."""
    judged, missing = sum(len(one.judged) for one in outcomes), sum(bool(one.failure) for one in outcomes)
    ran = f"{len(outcomes) - missing} of {len(outcomes)} experiments were run; " if missing else ""
    with_seeds = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    how = " and ".join([with_seeds, *(f"`{setting}`" for setting in settings)])
    lines = [HEAD.format(how=how),
             f"{ran}{sum(one.held for one in outcomes)} of {judged} verdicts hold.", "", *_placebo_line(outcomes),
             *_overview(outcomes), "", "## What does not hold", "", *_failures(outcomes, causes), ""]
    lines += _coverage(coverage, outcomes) if coverage else []
    for one in outcomes:
        lines += _section(one)
    return "\n".join(lines).rstrip() + "\n"
