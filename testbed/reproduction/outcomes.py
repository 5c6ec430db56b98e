# SPDX-License-Identifier: Apache-2.0
"""What came of an experiment: its verdicts over seeds and forms, and how its runs went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from sdngcc.experiments.base import Experiment, Run, Verdict, fair_share_mbps, phase, settling_s
from sdngcc.testbed.parameters import make_parameters
from sdngcc.testbed.presets import MENDED
from sdngcc.testbed.reproduction.forms import in_place_of
from sdngcc.testbed.statistics import mean

RunsOfSeed = Mapping[Tuple[str, int], Run]
"""Runs of one seed by form and number of the case."""


@dataclass(frozen=True)
class Judged:
    """A verdict under one form, a value for each seed."""

    measured: Tuple[Any, ...]
    holds: Tuple[bool, ...]

    @property
    def held(self) -> int:
        """Return in how many seeds it holds."""
        return sum(self.holds)

    @property
    def always(self) -> bool:
        """Return whether it holds in every seed."""
        return all(self.holds)


@dataclass(frozen=True)
class Row:
    """A verdict by form; one that only records a number expects ``as measured``."""

    name: str
    expected: str
    """Of the first seed that has it."""
    paper: str
    laws: Tuple[str, ...]
    """The laws of the runs that it is about; empty: of runs without one."""
    by_form: Mapping[str, Judged]
    """Mended always; others where a run that it is about has that form."""

    @property
    def mended(self) -> Judged:
        """Return the verdict about the laws as they are by default."""
        return self.by_form[MENDED]

    @property
    def judged(self) -> bool:
        """Return whether it expects anything."""
        return not (self.mended.always and self.expected.startswith("as measured"))


@dataclass(frozen=True)
class Course:
    """How runs of one case and form went, a value for each seed; None where it does not apply."""

    label: str
    law: str
    form: str
    whole: Tuple[Optional[Tuple[float, float]], ...]
    """Worst VM's and mean part of the fair share, over the whole period in which all send."""
    settled: Tuple[Optional[Tuple[float, float]], ...]
    """The same without the first two seconds, where the period is longer than three."""
    fair_s: Tuple[Optional[float], ...]
    """Time from the period's start until the network is fair, seconds."""
    used: Tuple[float, ...]
    """Part of the bottleneck that was used in that period."""
    queue_kb: Tuple[float, ...]
    """99th percentile of the bottleneck's queue, kB."""


@dataclass(frozen=True)
class Reproduced:
    """One experiment's outcome."""

    name: str
    summary: str
    source: str
    """Paper and figure."""
    seeds: Tuple[int, ...] = ()
    """Seeds of which all mended runs are there."""
    rows: Sequence[Row] = ()
    courses: Sequence[Course] = ()
    changed: str = ""
    """What of the expectations was changed after measuring."""
    figure: Optional[str] = None
    """Its path as the page links it; None: there is none."""
    failure: str = ""
    """Why it could not be run; empty: it was."""
    lost: Sequence[str] = field(default=())
    """Further runs that failed, in words."""

    @property
    def judged(self) -> List[Row]:
        """Return the verdicts that expect something; the others record a number."""
        return [row for row in self.rows if row.judged]

    @property
    def held(self) -> int:
        """Return how many of them hold in every seed."""
        return sum(row.mended.always for row in self.judged)


def cases_named(name: str, labels: Sequence[str]) -> List[int]:
    """Return the numbers of the cases that a verdict's name names by label, all when it names none.

    Of labels within each other the longest counts.
    """
    found = [number for number, label in enumerate(labels) if label and label in name]
    own = [number for number in found
           if not any(labels[number] != labels[other] and labels[number] in labels[other] for other in found)]
    return own or list(range(len(labels)))


def judge_seed(experiment: Experiment, labels: Sequence[str], runs: RunsOfSeed, form: str) -> List[Verdict]:
    """Judge one seed's runs in a form; cases without that form stay mended. Empty: nothing has that form."""
    numbers = {number for own, number in runs if own == form}
    if not numbers:
        return []
    mended = [runs[MENDED, number] for number in range(len(labels))]
    chosen = [in_place_of(run, runs[form, number]) if form != MENDED and number in numbers else run
              for number, run in enumerate(mended)]
    return experiment.judge(list(zip(labels, chosen)))


def rows_of(experiment: Experiment, labels: Sequence[str], by_seed: Sequence[RunsOfSeed],
            forms: Sequence[str]) -> List[Row]:
    """Return the experiment's verdicts, in the order of the first seed, then what only others have.

    A form stands at a verdict when a run that the verdict is about has it, in the seeds that have all its runs.
    """
    first: Dict[str, Verdict] = {}
    values: Dict[Tuple[str, str], List[Tuple[Any, bool]]] = {}
    formed = {form: {number for runs in by_seed for own, number in runs if own == form} for form in forms}
    for runs in by_seed:
        for form in forms:
            if any((form, number) not in runs for number in formed[form]):
                continue
            for verdict in judge_seed(experiment, labels, runs, form):
                if form == MENDED:
                    first.setdefault(verdict.name, verdict)
                values.setdefault((verdict.name, form), []).append((verdict.measured, verdict.holds))
    rows = []
    for name, verdict in first.items():
        about = cases_named(name, labels)
        laws = dict.fromkeys(by_seed[0][MENDED, number]["parameters"]["law"] for number in about)
        by_form = {}
        for form in forms:
            found = values.get((name, form), [])
            if found and (form == MENDED or formed[form] & set(about)):
                by_form[form] = Judged(tuple(one for one, _ in found), tuple(held for _, held in found))
        rows.append(Row(name, verdict.expected, verdict.paper, tuple(law for law in laws if law != "none"), by_form))
    return rows


def parts_of_share(run: Run, name: str) -> Optional[Tuple[float, float]]:
    """Return the worst VM's and the mean part of the fair share in the period in which all send, by a phase's field.

    Of VMs that send; None when none does.
    """
    rates = phase(run, "all").get(name, {})
    names = make_parameters(run["parameters"]).vm_names
    parts = [rates[vm] / fair_share_mbps(run, number) for number, vm in enumerate(names) if rates.get(vm)]
    return (round(min(parts), 4), round(mean(parts), 4)) if parts else None


def course_of(label: str, form: str, runs: Sequence[Run]) -> Course:
    """Return how the runs of one case and form went, one a seed."""
    periods = [phase(run, "all") for run in runs]
    return Course(label, runs[0]["parameters"]["law"], form,
                  tuple(parts_of_share(run, "goodput_mbps") for run in runs),
                  tuple(parts_of_share(run, "settled_goodput_mbps") for run in runs),
                  tuple(settling_s(run) for run in runs),
                  tuple(period.get("utilisation", 0.0) for period in periods),
                  tuple(round(run["queue"]["bytes_p99"] / 1000, 1) for run in runs))


def courses_of(labels: Sequence[str], by_seed: Sequence[RunsOfSeed], forms: Sequence[str]) -> List[Course]:
    """Return how each case went in each form that it has."""
    courses = []
    for number, label in enumerate(labels):
        for form in forms:
            runs = [found[form, number] for found in by_seed if (form, number) in found]
            if runs:
                mended = [found[MENDED, number] for found in by_seed]
                courses.append(course_of(label, form, [in_place_of(mended[0], run) for run in runs]))
    return courses
