# SPDX-License-Identifier: Apache-2.0
"""``make reproduce``: runs all experiments, two machines at a time, and writes docs/reproduction.md with figures.

With other parameters than the defaults, another kernel say, it says in which verdicts the two differ.

A run whose inputs (programs, parameters, work, seed) are those of an earlier one is taken from there; so an
interrupted call goes on where it stopped. Verdicts are judged anew each time.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import Case, Experiment, Run
from sdngcc.testbed.build import ROOT, Artifacts, BuildError, build, content_key
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.parameters import ParameterError, parse_settings
from sdngcc.testbed.reproduction import Reproduced, differing, page, read_causes
from sdngcc.testbed.runner import leave_result, make_job, run_case, write_json

# What decides a run's result besides the builds, from the repository's root; judging does not belong to it.
SOURCES = ("testbed/agent.py", "testbed/boot", "testbed/cluster.py", "testbed/collect.py", "testbed/fabric",
           "testbed/lossy.py", "testbed/machine.py", "testbed/network.py", "testbed/openvswitch.py",
           "testbed/processes.py", "testbed/runner.py", "testbed/statistics.py", "mininet/topologies", "controller",
           "shim/python")
# Dots per inch of the page's figures, and the widest one: they stay in the repository.
FIGURE_DPI, FIGURE_COLUMNS = 50, 6


@dataclass(frozen=True, eq=False)
class Task:
    """A run to be had: of which experiment, which case, and where its result is kept; each is its own key."""

    experiment: Experiment
    number: int
    case: Case
    folder: Path


def input_key(experiment: Experiment, case: Case, artifacts: Artifacts, seed: int) -> str:
    """Return 16 hex digits that change when anything does that a run's result follows from."""
    job = make_job(case.parameters, artifacts, seed, case.work(seed))
    texts = [str(artifacts.kernel), json.dumps(job, sort_keys=True), case.parameters.model_dump_json()]
    places = [ROOT / name for name in SOURCES]
    if experiment.measure is not None:
        places.append(Path(sys.modules[experiment.measure.__module__].__file__ or ""))
    return content_key(texts, *places)


def obtain(task: Task, artifacts: Artifacts, seed: int, judge_only: bool, progress: Any) -> Run:
    """Return a task's result: an earlier one of the same inputs, or that of a new run unless judge_only.

    Raises MachineError when there is none.
    """
    kept, key = task.folder / "run.json", input_key(task.experiment, task.case, artifacts, seed)
    if kept.exists():
        earlier = json.loads(kept.read_text(encoding="utf-8"))
        if earlier["inputs"] == key:
            return dict(earlier["run"])
    if judge_only:
        raise MachineError("not run yet with these sources and parameters")
    started = time.monotonic()
    run, _ = run_case(task.case, artifacts, seed, task.folder / "raw", task.experiment.measure, progress)
    write_json(kept, {"inputs": key, "run": run})
    write_json(task.folder / "timing.json", {"wall_s": round(time.monotonic() - started, 1)})
    return run


def make_tasks(experiments: Sequence[Experiment], out: Path, settings: Sequence[str] = ()) -> List[Task]:
    """Return all runs of the experiments, in order, with their defaults but for settings. Raises ParameterError."""
    return [Task(experiment, number, case, out / experiment.name / f"run-{number + 1}")
            for experiment in experiments for number, case in enumerate(experiment.cases(settings))]


def run_all(tasks: Sequence[Task], artifacts: Artifacts, seed: int, jobs: int, judge_only: bool,
            console: Console) -> Tuple[Dict[Task, Run], Dict[Task, str]]:
    """Have all tasks done, jobs at a time, showing progress; return results, and what went wrong with the others."""
    results: Dict[Task, Run] = {}
    failures: Dict[Task, str] = {}
    columns = (TextColumn("{task.description:24}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars, \
            ThreadPoolExecutor(jobs) as pool:
        whole = bars.add_task("all", total=len(tasks), what="")

        def run(task: Task) -> Run:
            bar = bars.add_task(f"{task.experiment.name} {task.case.label}"[:24], total=1.0, what="")
            try:
                return obtain(task, artifacts, seed, judge_only,
                              lambda part, text: bars.update(bar, completed=part, what=text))
            finally:
                bars.remove_task(bar)

        running: Dict[Future[Run], Task] = {pool.submit(run, task): task for task in tasks}
        try:
            for number, done in enumerate(as_completed(running)):
                task = running[done]
                name = f"{task.experiment.name} {task.case.label}".strip()
                try:
                    results[task] = done.result()
                    said = "done"
                except MachineError as error:
                    failures[task] = str(error)
                    said = f"failed: {error}"
                bars.update(whole, completed=number + 1)
                console.print(f"{number + 1}/{len(tasks)} {name}: {said}", highlight=False, markup=False)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results, failures


def draw_small(result: Dict[str, Any], path: Path) -> None:
    """Draw an experiment's figure small, of its first runs when it has many."""
    from sdngcc.testbed import plot

    few = {**result, "variants": result["variants"][:FIGURE_COLUMNS - 1]}
    plot.draw(few, path, dpi=FIGURE_DPI)


def outcome(experiment: Experiment, tasks: Sequence[Task], results: Dict[Task, Run], failures: Dict[Task, str],
            seed: int, out: Path, figures: Path) -> Reproduced:
    """Judge an experiment's runs, leave its result, report and figure, and return what the page says of it."""
    failed = [f"{task.case.label}: {failures[task]}".removeprefix(": ") for task in tasks if task in failures]
    if failed:
        # The path of a log is the machine's, not the page's.
        reason = failed[0].split("; the log is")[0].split("; its log is")[0].split("; they are in")[0]
        return Reproduced(experiment.name, experiment.summary, experiment.paper, [], failure=reason)
    result = leave_result(experiment, [(task.case.label, results[task]) for task in tasks], seed,
                          out / experiment.name)
    figure = figures / f"{experiment.name}.png"
    draw_small(result, figure)
    return Reproduced(experiment.name, experiment.summary, experiment.paper, result["verdicts"],
                      figure=f"figures/reproduction/{figure.name}")


def read_outcomes(folder: Path) -> List[Reproduced]:
    """Return the outcomes of experiments whose results stand in a folder. Raises click.UsageError when none do."""
    found = [(one, folder / name / "result.json") for name, one in EXPERIMENTS.items()]
    outcomes = [Reproduced(one.name, one.summary, one.paper, json.loads(path.read_text(encoding="utf-8"))["verdicts"])
                for one, path in found if path.exists()]
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
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Machines at a time.")
@click.option("--judge-only", is_flag=True, help="Run nothing: write the page out of the results there are.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True, help="Seed of all runs.")
def main(out: Optional[Path], docs: Optional[Path], settings: Tuple[str, ...], against: Optional[Path],
         only: Tuple[str, ...], jobs: int, judge_only: bool, seed: int) -> None:
    """Run all experiments and write docs/reproduction.md; exit 0 when all were run, whatever the verdicts."""
    console = Console(stderr=True)
    unknown = [name for name in only if name not in EXPERIMENTS]
    if unknown:
        raise click.UsageError(f"there is no experiment '{unknown[0]}'; there are {', '.join(EXPERIMENTS)}")
    experiments = [one for name, one in EXPERIMENTS.items() if not only or name in only]
    out = out or Path("-".join(["results/reproduce", *settings]))
    docs = docs or (out if settings else ROOT / "docs")
    others = read_outcomes(against) if against else []
    try:
        parameters = parse_settings(settings, {})
        tasks = make_tasks(experiments, out, settings)
        artifacts = build(ovs=[parameters.ovs], linux=parameters.kernel)
    except (BuildError, ParameterError) as error:
        raise click.ClickException(str(error)) from None
    started = time.monotonic()
    results, failures = run_all(tasks, artifacts, seed, jobs, judge_only, console)
    figures = docs / "figures" / "reproduction"
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir(parents=True)
    outcomes = [outcome(one, [task for task in tasks if task.experiment is one], results, failures, seed, out, figures)
                for one in experiments]
    (docs / "reproduction.md").write_text(page(outcomes, read_causes(), seed, settings), encoding="utf-8")
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
