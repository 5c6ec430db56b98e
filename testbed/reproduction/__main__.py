# SPDX-License-Identifier: Apache-2.0
"""``make reproduce``: runs all experiments, two machines at a time, and writes docs/reproduction.md with figures.

With other parameters than the defaults, another kernel say, it says in which verdicts the two differ.

A run whose inputs (programs, parameters, work, seed) are those of an earlier one is taken from there; so an
interrupted call goes on where it stopped, and one with more seeds runs what is new. Verdicts are judged anew each time.
"""

from __future__ import annotations

import multiprocessing
import re
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import click
from rich.console import Console

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import Experiment, Run
from sdngcc.testbed.build import ROOT, BuildError, build
from sdngcc.testbed.figures import draw
from sdngcc.testbed.parameters import ParameterError, parse_settings
from sdngcc.testbed.presets import MENDED
from sdngcc.testbed.reproduction.coverage import read_coverage
from sdngcc.testbed.reproduction.forms import FORMS
from sdngcc.testbed.reproduction.outcomes import Reproduced, courses_of, rows_of
from sdngcc.testbed.reproduction.page import differing, page, read_causes
from sdngcc.testbed.reproduction.tasks import BESIDE, Task, make_tasks, read_run, run_all
from sdngcc.testbed.runner import leave_result

# After so many experiments it is said how many are judged.
TOLD = 10
# Folders of an absolute path.
FOLDERS = re.compile(r"(?<!\S)(/[^\s/]+)*/(?=[^\s/])")


def outcome(experiment: Experiment, tasks: Sequence[Task], results: Mapping[Task, Path], failures: Mapping[Task, str],
            out: Path, figures: Optional[Path]) -> Reproduced:
    """Judge an experiment's runs, leave results, reports and a figure, and return what the page says of it."""
    # The paths of a log and of programs are the machine's, not the page's.
    lost = [f"{task.name}: {FOLDERS.sub('', failures[task].split('; ')[0])}" for task in tasks if task in failures]
    mended = [task for task in tasks if task.form == MENDED]
    labels = {task.number: task.case.label for task in mended}
    whole = [seed for seed in dict.fromkeys(task.seed for task in mended)
             if all(task in results for task in mended if task.seed == seed)]
    if not whole:
        reason = lost[0] if lost else "no seed has all of its runs yet"
        return Reproduced(experiment.name, experiment.summary, experiment.paper, failure=reason)
    by_seed: List[Dict[Tuple[str, int], Run]] = [
        {(task.form, task.number): read_run(results[task]) for task in tasks if task.seed == seed and task in results}
        for seed in whole]
    names = [labels[number] for number in sorted(labels)]
    figure = None
    if figures is not None:
        left = []
        for seed, runs in zip(whole, by_seed):
            folder = out / experiment.name / f"seed-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            left.append(leave_result(experiment, [(name, runs[MENDED, number]) for number, name in enumerate(names)],
                                     seed, folder))
        draw(experiment.name, left, figures / f"{experiment.name}.png")
        figure = f"figures/reproduction/{experiment.name}.png"
    return Reproduced(experiment.name, experiment.summary, experiment.paper, tuple(whole),
                      rows_of(experiment, names, by_seed, FORMS), courses_of(names, by_seed, FORMS),
                      experiment.changed, figure, lost=lost)


# What a worker of judge_all judges by: an experiment's outcome, by its place among all.
_judge: Optional[Callable[[int], Reproduced]] = None


def _take_work(judge: Callable[[int], Reproduced]) -> None:
    global _judge
    _judge = judge


def _judge_one(place: int) -> Reproduced:
    assert _judge is not None
    return _judge(place)


def judge_all(experiments: Sequence[Experiment], tasks: Sequence[Task], results: Mapping[Task, Path],
              failures: Mapping[Task, str], out: Path, figures: Optional[Path], jobs: int,
              console: Console) -> List[Reproduced]:
    """Return the outcomes of experiments, judged and drawn so many side by side; says every ten how many it has.

    Workers are forked, for cases hold functions, which cannot be sent to a process.
    """
    def judge(place: int) -> Reproduced:
        own = [task for task in tasks if task.experiment is experiments[place]]
        return outcome(experiments[place], own, results, failures, out, figures)

    found = []
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _take_work, (judge,)) as pool:
        for one in pool.map(_judge_one, range(len(experiments))):
            found.append(one)
            if len(found) % TOLD == 0:
                console.print(f"{len(found)} of {len(experiments)} experiments judged and drawn", highlight=False)
    return found


def read_outcomes(folder: Path, seeds: Sequence[int]) -> List[Reproduced]:
    """Return the outcomes of experiments whose results stand in a folder, whatever they were run with.

    Raises click.UsageError when none do.
    """
    tasks = make_tasks(list(EXPERIMENTS.values()), folder, seeds=seeds, forms=[MENDED])
    results = {task: task.result for task in tasks if task.result.exists()}
    named = {task.experiment.name for task in results}
    outcomes = [outcome(one, [task for task in tasks if task.experiment is one], results, {}, folder, None)
                for name, one in EXPERIMENTS.items() if name in named]
    if not outcomes:
        raise click.UsageError(f"--against {folder}: no results of `make reproduce` there")
    return outcomes


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for results; earlier ones there are used again.  [default: results/reproduce, with settings "
              "results/reproduce-<settings>]")
@click.option("--docs", type=click.Path(file_okay=False, path_type=Path),
              help="Folder of reproduction.md and its figures.  [default: docs, with settings that of --out]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="A parameter of all experiments, as of `sdngcc testbed run`.")
@click.option("--against", type=click.Path(file_okay=False, path_type=Path),
              help="Folder of other results: say which verdicts differ from those.")
@click.option("--only", multiple=True, help="Run only this experiment; the page then has only those named.")
@click.option("--form", "forms", multiple=True, type=click.Choice(FORMS),
              help="Run laws in this form only, and mended.  [default: all]")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Machines at a time.")
@click.option("--judge-only", is_flag=True, help="Run nothing: write the page out of the results there are.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True, help="The first seed.")
@click.option("--seeds", "count", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="How many seeds, one after the other.")
@click.option("--beside", type=click.IntRange(1, 1000), default=BESIDE, show_default=True,
              help="How many of them for what is not judged against a paper: our own experiments, laws as published, "
              "placebos.")
def main(out: Optional[Path], docs: Optional[Path], settings: Tuple[str, ...], against: Optional[Path],
         only: Tuple[str, ...], forms: Tuple[str, ...], jobs: int, judge_only: bool, seed: int, count: int,
         beside: int) -> None:
    """Run all experiments and write docs/reproduction.md; exit 0 when all were run, whatever the verdicts."""
    console = Console(stderr=True)
    unknown = [name for name in only if name not in EXPERIMENTS]
    if unknown:
        raise click.UsageError(f"there is no experiment '{unknown[0]}'; there are {', '.join(EXPERIMENTS)}")
    experiments = [one for name, one in EXPERIMENTS.items() if not only or name in only]
    out = out or Path("-".join(["results/reproduce", *settings]))
    docs = docs or (out if settings else ROOT / "docs")
    seeds = range(seed, seed + count)
    wanted = [form for form in FORMS if not forms or form in forms or form == MENDED]
    try:
        others = read_outcomes(against, seeds) if against else []
        parameters = parse_settings(settings, {})
        tasks = make_tasks(experiments, out, settings, seeds, wanted, beside)
        artifacts = build(ovs=[parameters.ovs], linux=parameters.kernel)
    except (BuildError, ParameterError) as error:
        raise click.ClickException(str(error)) from None
    for one in experiments:
        if one.own_seeds and len(seeds) == 1:
            console.print(f"{one.name} has seeds of its own and is run with --seeds 2 or more", highlight=False)
    experiments = [one for one in experiments if not one.own_seeds or len(seeds) > 1]
    started = time.monotonic()
    results, failures = run_all(tasks, artifacts, jobs, judge_only, console)
    figures = docs / "figures" / "reproduction"
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir(parents=True)
    outcomes = judge_all(experiments, tasks, results, failures, out, figures, jobs, console)
    # Of some experiments alone it would name others that the page does not have.
    coverage = [] if only else read_coverage()
    (docs / "reproduction.md").write_text(page(outcomes, read_causes(), seeds, settings, coverage), encoding="utf-8")
    failing = sum(len(one.judged) - one.held for one in outcomes)
    console.print(f"{docs / 'reproduction.md'}: {len(outcomes)} experiments, {failing} verdicts do not hold, "
                  f"{len(failures)} runs failed; {(time.monotonic() - started) / 60:.0f} minutes", highlight=False)
    if against:
        differences = differing(outcomes, others)
        for line in differences:
            print(line)
        print(f"{len(differences)} verdicts differ from those in {against}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
