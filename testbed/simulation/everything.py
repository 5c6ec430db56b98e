# SPDX-License-Identifier: Apache-2.0
"""All simulations of docs/simulation.md, its validation with them, by one command that goes on where it was stopped.

    python -m sdngcc.testbed.simulation.everything --out results/simulation --docs docs

Runs the experiments of validate.py in User Mode Linux, on ns-3 and by rates alone, and every other scenario with the
settings and seeds that it has for the page. Each run is kept in the folder with a key of all that it follows from; one
that is there with the same key is not run again. As many run side by side as there are processors. Then figures go to
docs/figures/simulation, tables into the page between two marks of each scenario that has any.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import Run
from sdngcc.testbed.build import ROOT, Artifacts, build, build_part, content_key
from sdngcc.testbed.presets import MENDED
from sdngcc.testbed.progress import build_progress
from sdngcc.testbed.reproduction.tasks import Task, input_key, obtain
from sdngcc.testbed.runner import write_json
from sdngcc.testbed.simulation import validate
from sdngcc.testbed.simulation.build import simulation_parts
from sdngcc.testbed.simulation.runner import leave, over_seeds, run_work, start_worker
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.simulation.scenarios import SCENARIOS

HERE = Path(__file__).resolve().parent
# Modules of this folder that no run's result follows from.
BESIDE = ("everything.py", "validate.py", "drawing.py", "runner.py", "scenario.py", "build.py")
# What decides a run's result besides the programs and this folder, from the repository's root.
SOURCES = ("controller", "shim/python", "mininet/experiments", "testbed/workload.py", "testbed/collect.py",
           "testbed/parameters.py", "testbed/settings.py", "testbed/statistics.py", "tracker",
           "testbed/simulation/scenarios/scc_setups.py")
VALIDATION = "validation"
# Called with the part of a run that is over, 0 to 1, and what it does.
Show = Callable[[float, str], None]


@dataclass(frozen=True)
class Item:
    """A run to be had."""

    name: str
    """What people call it."""
    scenario: str
    """validation: a run in the testbed."""
    settings: Tuple[str, ...]
    number: int
    """Of the scenario's works, or the experiment's cases, from 0."""
    seed: int
    folder: Path

    @property
    def result(self) -> Path:
        """Return the file of its result."""
        return self.folder / "run.json"


def sources_key(scenario: Scenario) -> str:
    """Return a key of the programs and sources that a scenario's runs follow from."""
    module = Path(sys.modules[scenario.works.__module__].__file__ or "")
    places = [module, *(path for path in HERE.glob("*.py") if path.name not in BESIDE)]
    for name in SOURCES:
        place = ROOT / name
        places += [place] if place.is_file() else [path for path in place.rglob("*.py") if "tests" not in path.parts]
    return content_key([part.key for part in simulation_parts()], *sorted(set(places)))


def key_of(item: Item, sources: str) -> str:
    """Return a key of all that an item's result follows from."""
    return content_key([item.scenario, json.dumps(item.settings), str(item.number), str(item.seed), sources])


def stands(item: Item, key: str) -> bool:
    """Tell whether an item's result is there, of the same inputs."""
    return item.result.exists() and bool(json.loads(item.result.read_text(encoding="utf-8"))["inputs"] == key)


def pages() -> Dict[str, Scenario]:
    """Return the scenarios that stand on the page by themselves: all but those of the testbed's experiments."""
    return {name: scenario for name, scenario in SCENARIOS.items() if name not in EXPERIMENTS}


def items_of(scenario: Scenario, settings: Sequence[str], seeds: Sequence[int], folder: Path) -> List[Item]:
    """Return the runs of a scenario."""
    labels = [work.label for work in scenario.works(settings)]
    return [Item(f"{scenario.name}, {label}, seed {seed}" if label else f"{scenario.name}, seed {seed}", scenario.name,
                 tuple(settings), number, seed, folder / f"seed-{seed}" / f"run-{number + 1}")
            for seed in seeds for number, label in enumerate(labels)]


def simulate(item: Item, key: str, pool: ProcessPoolExecutor, parts: Any, place: int, show: Show) -> None:
    """Run a simulation in a worker and keep its result. Raises what the scenario does."""
    began, raw = time.monotonic(), item.folder / "raw"
    item.folder.mkdir(parents=True, exist_ok=True)
    future: Future[Run] = pool.submit(run_work, item.scenario, list(item.settings), item.number, item.seed, raw, place)
    while not wait([future], 0.5).done:
        show(parts[place], "")
    write_json(item.result, {"inputs": key, "run": future.result()})
    write_json(item.folder / "timing.json", {"wall_s": round(time.monotonic() - began, 1)})
    shutil.rmtree(raw, ignore_errors=True)


class Everything:
    """All items with their keys."""

    def __init__(self, out: Path, only: Sequence[str], seeds: Optional[int]) -> None:
        self.out = out
        self.scenarios = {name: one for name, one in pages().items() if not only or name in only}
        self.seeds = {name: list(range(1, (seeds or one.seeds) + 1)) for name, one in self.scenarios.items()}
        self.validates = not only or VALIDATION in only
        self.tasks: List[Task] = []
        self.compared: Dict[Tuple[str, str], List[Item]] = {}
        self.items: List[Item] = []
        if self.validates:
            self._add_validation()
        for name, scenario in self.scenarios.items():
            self.items += items_of(scenario, scenario.page, self.seeds[name], out / name)

    def _add_validation(self) -> None:
        for name in dict.fromkeys(row.experiment for row in validate.rows()):
            experiment, folder = EXPERIMENTS[name], self.out / VALIDATION / name
            for number, case in enumerate(experiment.cases(validate.SETTINGS)):
                place = folder / "testbed" / f"run-{number + 1}"
                self.tasks.append(Task(experiment, MENDED, validate.SEED, number, case, place))
            for model in validate.MODELS:
                self.compared[name, model] = items_of(SCENARIOS[name], validate.settings_of(name, model),
                                                      [validate.SEED], folder / model)
                self.items += self.compared[name, model]

    def had(self) -> Dict[Tuple[str, str], List[Run]]:
        """Return the runs that are compared, by experiment and where they ran."""
        found: Dict[Tuple[str, str], List[Run]] = {}
        for task in self.tasks:
            found.setdefault((task.experiment.name, "testbed"), []).append(_run_of(task.result))
        for (name, model), items in self.compared.items():
            runs = [_run_of(item.result) for item in items]
            found[name, model] = validate.in_place(name, model, runs)
        return found


def _run_of(file: Path) -> Run:
    run: Run = json.loads(file.read_text(encoding="utf-8"))["run"]
    return run


def run_all(everything: Everything, artifacts: Optional[Artifacts], jobs: int, console: Console) -> Dict[str, str]:
    """Have all that is not there, jobs at a time, showing progress; return what failed, by name, and why."""
    keys: Dict[str, str] = {}
    waiting: List[Tuple[str, Callable[[Show], None]]] = []
    context = multiprocessing.get_context("spawn")
    parts = context.Array("d", max(1, len(everything.items)))
    pool = ProcessPoolExecutor(jobs, context, start_worker, (parts,))
    for task in everything.tasks:
        assert artifacts is not None
        key = input_key(task.experiment, task.case, artifacts, task.seed)
        waiting.append((f"testbed: {task.name}", partial(obtain, key, [task], artifacts, False)))
    for place, item in enumerate(everything.items):
        if item.scenario not in keys:
            keys[item.scenario] = sources_key(SCENARIOS[item.scenario])
        key = key_of(item, keys[item.scenario])
        if not stands(item, key):
            waiting.append((item.name, partial(simulate, item, key, pool, parts, place)))
    failures: Dict[str, str] = {}
    columns = (TextColumn("{task.description:48}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars, \
            ThreadPoolExecutor(jobs) as hands:
        whole = bars.add_task("all", total=len(waiting), what="")

        def have(name: str, work: Callable[[Show], None]) -> None:
            bar = bars.add_task(name[:48], total=1.0, what="")
            try:
                work(lambda part, what: bars.update(bar, completed=part, what=what))
            finally:
                bars.remove_task(bar)

        running = {hands.submit(have, name, work): name for name, work in waiting}
        try:
            for count, done in enumerate(as_completed(running)):
                error = done.exception()
                if error is not None:
                    failures[running[done]] = str(error)
                bars.update(whole, completed=count + 1)
                console.print(f"{count + 1}/{len(waiting)} {running[done]}: {'failed' if error else 'done'}",
                              highlight=False, markup=False)
        except BaseException:
            hands.shutdown(wait=False, cancel_futures=True)
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    pool.shutdown()
    return failures


def judged(verdicts: Sequence[Dict[str, Any]], seeds: int) -> List[str]:
    """Return lines that tell the seeds and what is judged and does not hold with each; verdicts are over seeds."""
    able = [one for one in verdicts if one["expected"] != "as measured"]
    said = "Seed 1" if seeds == 1 else f"Seeds 1 to {seeds}, means and 95% intervals of these"
    lines = ["", f"{said}. Of {len(able)} expectations {sum(one['holds'] == seeds for one in able)} hold with each."]
    rest = [one for one in able if one["holds"] < seeds]
    if rest:
        lines += ["", "| does not hold | expected | the source | measured | holds with |", "|---|---|---|---|---|"]
    for one in rest:
        values = " / ".join(f"{value:.4g}" if isinstance(value, (int, float)) else str(value)
                            for value in one["values"])
        lines.append(f"| {one['name']} | {one['expected']} | {one['paper'] or '-'} | {values} | {one['holds']} |")
    return lines


def write(everything: Everything, docs: Optional[Path]) -> List[str]:
    """Judge all that is whole, write figures and tables, and return the names of scenarios that are not whole."""
    missing = []
    for name, scenario in everything.scenarios.items():
        items = [item for item in everything.items if item.scenario == name]
        if not all(item.result.exists() for item in items):
            missing.append(name)
            continue
        seeds, labels = everything.seeds[name], [work.label for work in scenario.works(scenario.page)]
        runs = {(item.seed, item.number): _run_of(item.result) for item in items}
        results = leave(scenario, scenario.page, seeds, labels, runs, everything.out / name)
        if docs is None:
            continue
        shutil.copyfile(everything.out / name / "figure.png", docs / "figures" / "simulation" / f"{name}.png")
        if scenario.tabulate is not None:
            lines = [*scenario.tabulate(results), *judged(over_seeds(results), len(seeds))]
            validate.write_page(docs / "simulation.md", name, lines)
    if everything.validates:
        wanted = [*(task.result for task in everything.tasks),
                  *(item.result for items in everything.compared.values() for item in items)]
        if not all(path.exists() for path in wanted):
            missing.append(VALIDATION)
        elif docs is not None:
            validate.write_page(docs / "simulation.md", VALIDATION, validate.table(everything.had()))
    return missing


def main() -> None:
    """Have everything, then write figures and tables; exits with 1 if something failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=Path("results/simulation"),
                        help="folder of results; what is there already of the same inputs is not run again")
    parser.add_argument("--docs", type=Path, help="folder of simulation.md, whose tables and figures are written anew")
    parser.add_argument("--only", nargs="+", default=[], choices=[VALIDATION, *pages()], help="no others than these")
    parser.add_argument("--seeds", type=int, help="seeds of every scenario, but of the validation, which has one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs side by side")
    given = parser.parse_args()
    everything, console = Everything(given.out, given.only, given.seeds), Console()
    began, artifacts = time.monotonic(), None
    with build_progress() as show:
        if everything.validates:
            artifacts = build(show)
        for part in simulation_parts():
            build_part(part, show)
    failures = run_all(everything, artifacts, given.jobs, console)
    for name, why in failures.items():
        console.print(f"{name} failed: {why}", highlight=False, markup=False)
    missing = write(everything, given.docs)
    console.print(f"{(time.monotonic() - began) / 60:.0f} minutes" +
                  (f"; not whole: {', '.join(missing)}" if missing else ""), highlight=False)
    sys.exit(1 if failures or missing else 0)


if __name__ == "__main__":
    main()
