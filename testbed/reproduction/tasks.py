# SPDX-License-Identifier: Apache-2.0
"""The runs to be had, by experiment, form and seed, and their results: earlier ones of the same inputs, or new ones."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Sequence, Tuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sdngcc.experiments.base import Case, Experiment, Run
from sdngcc.testbed.build import ROOT, Artifacts, content_key, parts
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.ovs.build import version_parts
from sdngcc.testbed.presets import MENDED
from sdngcc.testbed.reproduction.forms import FORMS, OURS, case_of
from sdngcc.testbed.runner import make_job, run_case, write_json

# What decides a run's result besides the builds, from the repository's root; judging does not belong to it.
SOURCES = ("testbed/boot", "testbed/collect.py", "testbed/fabric", "testbed/machine.py", "testbed/runner.py",
           "testbed/statistics.py", "testbed/virtual", "mininet/topologies", "shim/python")

# What does so besides where a controller runs.
CONTROLLER = "controller"

# Code of laws: files of one begin with its name.
LAWS = ROOT / "shim" / "core" / "laws"

# Seeds of our own experiments, of laws as published and of placebos, where more are asked for.
BESIDE = 3


class NotRunError(MachineError):
    """There is no result of a run, and none was to be had now."""


@dataclass(frozen=True, eq=False)
class Task:
    """A run to be had; each is its own key."""

    experiment: Experiment
    form: str
    seed: int
    number: int
    """Of the case among the experiment's, from 0."""
    case: Case
    folder: Path
    """Where its result is kept."""

    @property
    def result(self) -> Path:
        """Return the file of its result."""
        return self.folder / "run.json"

    @property
    def name(self) -> str:
        """Return what people call it."""
        words = [self.experiment.name, self.case.label, "" if self.form == MENDED else self.form]
        return f"{', '.join(word for word in words if word)}, seed {self.seed}"


def _law_of(file: Path) -> str:
    """Return the law that a file of the shim's alone belongs to."""
    return file.stem.partition("_")[0]


@cache
def _builds_without(laws: FrozenSet[str]) -> Dict[str, str]:
    """Return the folders of the datapath's builds by name, each with one that does not change with those laws' files.

    A law is called through its entry in shim/core/law.c alone, so a run under another has the same bytes whatever it
    says. Headers and all else of the shim count for all.
    """
    files = [file for file in LAWS.glob("*.c") if _law_of(file) in laws]
    whole, rest = {**parts(), **version_parts()}, {**parts(without=files), **version_parts(files)}
    return {part.folder.name: rest[name].folder.name for name, part in whole.items() if rest[name].key != part.key}


def _other_laws(texts: Sequence[str]) -> FrozenSet[str]:
    """Return the laws that none of some texts names."""
    named = {word for text in texts for word in re.findall(r"[a-z]+", text)}
    return frozenset(_law_of(file) for file in LAWS.glob("*.c")) - named


@cache
def _sources_key(places: Tuple[Path, ...]) -> str:
    """Return a key of all files below places but tests, which no result follows from."""
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    return content_key([], *(file for file in files if file.is_file() and "tests" not in file.parts))


def input_key(experiment: Experiment, case: Case, artifacts: Artifacts, seed: int) -> str:
    """Return 16 hex digits that change when anything does that a run's result follows from.

    The code of laws that the run does not name is nothing of that, nor is the controller's where none runs.
    """
    seed = case.seed_of(seed)
    job = make_job(case.parameters, artifacts, seed, case.work(seed))
    places = [ROOT / name for name in (*SOURCES, *([CONTROLLER] if job["controller"] else []))]
    if experiment.measure is not None:
        places.append(Path(sys.modules[experiment.measure.__module__].__file__ or ""))
    told, parameters = json.dumps(job, sort_keys=True), case.parameters.model_dump_json()
    for folder, without in _builds_without(_other_laws([told, parameters])).items():
        told = told.replace(folder, without)
    return content_key([str(artifacts.kernel), told, parameters, _sources_key(tuple(places))])


def seeds_of(experiment: Experiment, form: str, seeds: Sequence[int], beside: int) -> Sequence[int]:
    """Return the seeds of an experiment in a form: all for what is judged against a paper, else so many.

    An experiment with seeds of its own takes as long as ten others, and is left to calls of more seeds than one.
    """
    if experiment.own_seeds:
        return seeds[:1] if len(seeds) > 1 else ()
    return seeds if form == MENDED and experiment.paper != OURS else seeds[:beside]


def make_tasks(experiments: Sequence[Experiment], out: Path, settings: Sequence[str] = (), seeds: Sequence[int] = (1,),
               forms: Sequence[str] = FORMS, beside: int = BESIDE) -> List[Task]:
    """Return all runs of the experiments with their defaults but for settings: a seed after the other, then forms.

    So what stands after an interruption is whole for as many seeds as it can be. What is not judged against a paper has
    as many seeds as beside says at most. Raises ParameterError.
    """
    cases = {experiment.name: experiment.cases(settings) for experiment in experiments}
    tasks = []
    for seed in seeds:
        for form in forms:
            for experiment in experiments:
                if seed not in seeds_of(experiment, form, seeds, beside):
                    continue
                for number, case in enumerate(cases[experiment.name]):
                    formed = case_of(experiment, case, form)
                    if formed is not None:
                        folder = out / experiment.name / form / f"seed-{seed}" / f"run-{number + 1}"
                        tasks.append(Task(experiment, form, seed, number, formed, folder))
    return tasks


def _stands(task: Task, key: str) -> bool:
    return task.result.exists() and bool(json.loads(task.result.read_text(encoding="utf-8"))["inputs"] == key)


def obtain(key: str, tasks: Sequence[Task], artifacts: Artifacts, judge_only: bool, progress: Any) -> None:
    """See that all of some tasks with the same inputs have their result: an earlier one, or that of a new run.

    Raises NotRunError when there is none and only judging is wanted, MachineError when a run did not end well.
    """
    had = next((task for task in tasks if _stands(task, key)), None)
    if had is None:
        if judge_only:
            raise NotRunError("not run yet with these sources and parameters")
        had = tasks[0]
        _run(key, had, artifacts, progress)
    for task in tasks:
        if not _stands(task, key):
            task.folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(had.result, task.result)


def _run(key: str, task: Task, artifacts: Artifacts, progress: Any) -> None:
    started, raw = time.monotonic(), task.folder / "raw"
    run, _ = run_case(task.case, artifacts, task.seed, raw, task.experiment.measure, progress)
    write_json(task.result, {"inputs": key, "run": run})
    write_json(task.folder / "timing.json", {"wall_s": round(time.monotonic() - started, 1)})
    # Samples and logs of every seed and form would fill a disk.
    shutil.rmtree(raw, ignore_errors=True)


def read_run(file: Path) -> Run:
    """Return the run in a result's file."""
    run: Run = json.loads(file.read_text(encoding="utf-8"))["run"]
    return run


def run_all(tasks: Sequence[Task], artifacts: Artifacts, jobs: int, judge_only: bool,
            console: Console) -> Tuple[Dict[Task, Path], Dict[Task, str]]:
    """Have all tasks done, jobs at a time, showing progress; those of the same inputs are run once.

    Return the files of results, and what went wrong with the others; tasks in neither were not to be run.
    """
    results: Dict[Task, Path] = {}
    failures: Dict[Task, str] = {}
    alike: Dict[str, List[Task]] = {}
    for task in tasks:
        alike.setdefault(input_key(task.experiment, task.case, artifacts, task.seed), []).append(task)
    columns = (TextColumn("{task.description:24}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars, \
            ThreadPoolExecutor(jobs) as pool:
        whole = bars.add_task("all", total=len(alike), what="")

        def run(key: str) -> None:
            bar = bars.add_task(alike[key][0].name[:24], total=1.0, what="")
            try:
                obtain(key, alike[key], artifacts, judge_only,
                       lambda part, text: bars.update(bar, completed=part, what=text))
            finally:
                bars.remove_task(bar)

        running: Dict[Future[None], List[Task]] = {pool.submit(run, key): own for key, own in alike.items()}
        try:
            for number, done in enumerate(as_completed(running)):
                own = running[done]
                try:
                    done.result()
                    results.update({task: task.result for task in own})
                    said = "done"
                except NotRunError:
                    said = "not run"
                except MachineError as error:
                    failures.update(dict.fromkeys(own, str(error)))
                    said = f"failed: {error}"
                bars.update(whole, completed=number + 1)
                if said != "not run":
                    console.print(f"{number + 1}/{len(alike)} {own[0].name}: {said}", highlight=False, markup=False)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results, failures
