# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario: its runs with several seeds side by side, one process a processor, then results and figures.

With one seed the folder has what the testbed leaves: result.json, figure.png, report.html. With several it has a folder
with these for each, ``seed-N``, and a result.json of all: each verdict with its values, their mean and half the width
of the 95% interval of that mean.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from sdngcc.experiments.base import Run
from sdngcc.testbed import collect, plot, report
from sdngcc.testbed.runner import write_json
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.statistics import mean_and_interval

SEEDS_SCHEMA = "sdngcc-seeds/1"
# Called with the part of all runs that is over, 0 to 1, runs that are over, and how many there are.
Progress = Callable[[float, int, int], None]

_parts: Any = None


def start_worker(parts: Any) -> None:
    """Let a worker know where it tells how far its run is, and lead the group that its simulator is in, too."""
    global _parts
    _parts = parts
    os.setpgid(0, 0)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Let processes that begin meanwhile ignore Ctrl-C: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def _end_workers() -> None:
    """End all workers, with their simulators, and wait for them."""
    children = multiprocessing.active_children()
    for child in children:
        assert child.pid is not None
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:  # it leads no group yet
            child.kill()
    for child in children:
        child.join()


def run_work(name: str, settings: Sequence[str], number: int, seed: int, raw: Path, place: int) -> Run:
    """Run one work of a scenario in a worker."""
    from sdngcc.testbed.simulation.scenarios import SCENARIOS

    def show(part: float) -> None:
        _parts[place] = min(part, 0.999)

    result: Run = SCENARIOS[name].works(settings)[number].run(seed, raw, show)
    _parts[place] = 1.0
    return result


def over_seeds(results: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the verdicts of results that differ in their seeds, each with all values."""
    found = []
    for number, first in enumerate(results[0]["verdicts"]):
        verdicts = [result["verdicts"][number] for result in results]
        values = [verdict["measured"] for verdict in verdicts]
        numbers = [float(value) for value in values if isinstance(value, (int, float))]
        whole = len(numbers) == len(values)
        found.append({"name": first["name"], "expected": first["expected"], "paper": first["paper"], "values": values,
                      "mean": round(mean_and_interval(numbers)[0], 6) if whole else None,
                      "interval": round(mean_and_interval(numbers)[1], 6) if whole else None,
                      "holds": sum(verdict["holds"] for verdict in verdicts)})
    return found


def _leave(scenario: Scenario, runs: List[Tuple[str, Run]], seed: int, out: Path) -> Dict[str, Any]:
    """Judge the runs of a seed and leave result, figure and report."""
    label, main = runs[0]
    result = {"schema": collect.SCHEMA, "experiment": scenario.name, "seed": seed, "label": label, **main,
              "variants": [{"label": other, **run} for other, run in runs[1:]],
              "verdicts": [verdict.as_dict() for verdict in scenario.judge(runs)]}
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "result.json", result)
    if scenario.draw is not None:
        scenario.draw(result, out / "figure.png")
    else:
        plot.draw(result, out / "figure.png")
        report.write(result, out / "figure.png", out / "report.html")
    return result


def folder_of(seed: int, seeds: Sequence[int], out: Path) -> Path:
    """Return where the result of a seed is left."""
    return out / f"seed-{seed}" if len(seeds) > 1 else out


def raw_of(folder: Path) -> Path:
    """Return where the raw samples of a seed are left, by its folder."""
    return folder / "raw"


def leave(scenario: Scenario, settings: Sequence[str], seeds: Sequence[int], labels: Sequence[str],
          runs: Mapping[Tuple[int, int], Run], out: Path) -> List[Dict[str, Any]]:
    """Judge runs, by seed and number, leave what the module says, and return the seeds' results."""
    results = []
    for seed in seeds:
        labelled = [(label, runs[seed, number]) for number, label in enumerate(labels)]
        results.append(_leave(scenario, labelled, seed, folder_of(seed, seeds, out)))
    if len(seeds) > 1:
        write_json(out / "result.json", {"schema": SEEDS_SCHEMA, "experiment": scenario.name, "seeds": list(seeds),
                                         "settings": list(settings), "verdicts": over_seeds(results)})
        if scenario.draw_over is not None:
            scenario.draw_over(results, out / "figure.png")
        else:
            shutil.copyfile(folder_of(seeds[0], seeds, out) / "figure.png", out / "figure.png")
    return results


def run_scenario(scenario: Scenario, settings: Sequence[str], seeds: Sequence[int], out: Path,
                 progress: Optional[Progress] = None, workers: Optional[int] = None) -> Dict[str, Any]:
    """Run all works of a scenario with each seed and leave what the module says; return the result.

    Raises ParameterError, SimulationError.
    """
    began = time.monotonic()
    labels = [work.label for work in scenario.works(settings)]
    folders = {seed: folder_of(seed, seeds, out) for seed in seeds}
    jobs = [(seed, number) for seed in seeds for number in range(len(labels))]
    # A worker begins anew: what its parent has open or has loaded is nothing to it.
    context = multiprocessing.get_context("spawn")
    parts = context.Array("d", len(jobs))
    runs: Dict[Tuple[int, int], Run] = {}
    with concurrent.futures.ProcessPoolExecutor(workers or os.cpu_count(), context, start_worker, (parts,)) as pool:
        with _unheard():
            waiting = {pool.submit(run_work, scenario.name, list(settings), number, seed,
                                   raw_of(folders[seed]) / (str(number + 1) if len(labels) > 1 else ""), place):
                       (seed, number) for place, (seed, number) in enumerate(jobs)}
        try:
            while waiting:
                done, _ = concurrent.futures.wait(waiting, 0.2, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    seed_number = waiting.pop(future)
                    runs[seed_number] = future.result()
                if progress is not None:
                    progress(sum(parts[:]) / len(jobs), len(runs), len(jobs))
        except KeyboardInterrupt:
            _end_workers()
            raise
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    results = leave(scenario, settings, seeds, labels, runs, out)
    write_json(out / "timing.json", {"wall_s": round(time.monotonic() - began, 3)})
    if len(seeds) == 1:
        return results[0]
    whole: Dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
    return whole
