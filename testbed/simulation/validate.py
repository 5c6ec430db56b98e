# SPDX-License-Identifier: Apache-2.0
"""How well the simulators agree with the testbed: the same experiments in all three, beside each other.

    python -m sdngcc.testbed.simulation.validate --out results/validate --page docs/simulation.md

runs ``share``, ``scale``, ``udp-flood`` and ``converge`` in User Mode Linux, on ns-3 and by rates alone, each unless
its result is in the folder already, and writes a table between two marks of the page. Means are to agree within MEANS,
times to settle within SETTLING of the testbed's; the table says what does not.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed.plot import runs_of

MEANS, SETTLING = 0.03, 0.20
BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"
MODELS = ("packets", "fluid")
# Guests' sockets wait for nothing below them in any of the three.
SETTINGS = ["backpressure=false"]


@dataclass(frozen=True)
class Row:
    """A number that is compared."""

    name: str
    experiment: str
    read: Callable[[List[Dict[str, Any]]], Optional[float]]
    """Reads it from an experiment's runs."""
    tolerance: float
    models: Tuple[str, ...] = MODELS


def _settled(number: int, phase: str, vm: str) -> Callable[[List[Dict[str, Any]]], Optional[float]]:
    def read(runs: List[Dict[str, Any]]) -> Optional[float]:
        found = next(one for one in runs[number]["phases"] if one["name"] == phase)["settled_goodput_mbps"]
        return float(sum(found.values()) if vm == "all" else found[vm])
    return read


def _converged(number: int) -> Callable[[List[Dict[str, Any]]], Optional[float]]:
    def read(runs: List[Dict[str, Any]]) -> Optional[float]:
        value = runs[number]["measured"]["settled_ms"]
        return None if value is None else float(value)
    return read


def _received(number: int) -> Callable[[List[Dict[str, Any]]], Optional[float]]:
    def read(runs: List[Dict[str, Any]]) -> Optional[float]:
        series = runs[number]["series"]["goodput_mbps"].values()
        return round(sum(sum(rates[1:]) for rates in series) / max(1, len(runs[number]["series"]["t_s"]) - 1), 1)
    return read


def rows() -> List[Row]:
    """Return all that is compared."""
    found = [Row("share: tagged while all send, Mb/s", "share", _settled(0, "all", "vm1"), MEANS),
             Row("share: all four, Mb/s", "share", _settled(0, "all", "all"), MEANS),
             Row("share: the three before, Mb/s", "share", _settled(0, "competitors", "all"), MEANS),
             Row("share: tagged alone, Mb/s", "share", _settled(0, "tagged", "vm1"), MEANS)]
    for number, senders in enumerate((8, 16, 32)):
        found += [Row(f"scale: tagged of {senders}, Mb/s", "scale", _settled(number, "all", "vm1"), MEANS),
                  Row(f"scale: all {senders}, Mb/s", "scale", _settled(number, "all", "all"), MEANS)]
    found += [Row("udp-flood: TCP without a shim, Mb/s", "udp-flood", _settled(0, "all", "vm1"), MEANS, ("packets",)),
              Row("udp-flood: TCP under seawall, Mb/s", "udp-flood", _settled(1, "all", "vm1"), MEANS),
              Row("udp-flood: UDP under seawall, Mb/s", "udp-flood", _settled(1, "all", "vm2"), MEANS)]
    for number, senders in enumerate((2, 4, 8, 16, 32)):
        found += [Row(f"converge: received of {senders}, Mb/s", "converge", _received(number), MEANS),
                  Row(f"converge: {senders} settled after, ms", "converge", _converged(number), SETTLING)]
    return found


def _result(folder: Path) -> Optional[List[Dict[str, Any]]]:
    """Return the runs of a result in a folder; None: there is none."""
    path = folder / "result.json"
    return runs_of(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def testbed_runs(name: str, seed: int, out: Path) -> List[Dict[str, Any]]:
    """Return the runs of an experiment in User Mode Linux, run now if out has none."""
    found = _result(out)
    if found is None:
        from sdngcc.testbed.build import build
        from sdngcc.testbed.progress import build_progress, run_progress
        from sdngcc.testbed.runner import run_experiment

        with build_progress() as show_build:
            artifacts = build(show_build)
        with run_progress() as show:
            experiment = EXPERIMENTS[name]
            run_experiment(experiment, experiment.cases(SETTINGS), artifacts, seed, out, show)
        found = _result(out)
    assert found is not None
    return found


def simulated_runs(name: str, model: str, seed: int, out: Path) -> List[Dict[str, Any]]:
    """Return the runs of an experiment in a simulator, run now if out has none."""
    found = _result(out)
    if found is None:
        from sdngcc.testbed.progress import run_progress
        from sdngcc.testbed.simulation.runner import run_scenario
        from sdngcc.testbed.simulation.scenarios import SCENARIOS

        settings = [*SETTINGS, f"model={model}", *(["law=seawall"] if (name, model) == ("udp-flood", "fluid") else [])]
        with run_progress() as show:
            run_scenario(SCENARIOS[name], settings, [seed], out,
                         lambda part, done, count: show(0, 1, part, f"{name}, {model}: {done} of {count} over"))
        found = _result(out)
    assert found is not None
    # By rates alone there is no run without a shim.
    return [{}, *found] if (name, model) == ("udp-flood", "fluid") else found


def collect(seed: int, out: Path) -> Dict[Tuple[str, str], List[Dict[str, Any]]]:
    """Return the runs of each experiment by where they ran: testbed, packets, fluid."""
    found = {}
    for name in dict.fromkeys(row.experiment for row in rows()):
        found[name, "testbed"] = testbed_runs(name, seed, out / "testbed" / name)
        for model in MODELS:
            found[name, model] = simulated_runs(name, model, seed, out / model / name)
    return found


def judge(reference: Optional[float], value: Optional[float], tolerance: float) -> str:
    """Return a cell: the value, and how far it is from the reference; ``off`` stands where that is too far."""
    if value is None or reference is None:
        return "never" if value is None else f"{value:g}"
    apart = value / reference - 1 if reference else float("inf")
    return f"{value:.4g} ({apart:+.1%}{'' if abs(apart) <= tolerance else ', off'})"


def table(found: Dict[Tuple[str, str], List[Dict[str, Any]]]) -> List[str]:
    """Return the lines of the table."""
    lines = ["| what | testbed | packets | rates alone | to agree within |", "|---|---|---|---|---|"]
    for row in rows():
        reference = row.read(found[row.experiment, "testbed"])
        cells = [judge(reference, row.read(found[row.experiment, model]), row.tolerance) if model in row.models else "-"
                 for model in MODELS]
        shown = "never" if reference is None else f"{reference:.4g}"
        lines.append(f"| {row.name} | {shown} | {' | '.join(cells)} | {row.tolerance:.0%} |")
    return lines


def write_page(page: Path, lines: List[str]) -> None:
    """Write lines between the marks of a page. Raises ValueError if it has none."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{page} has no {BEGIN} and {END}")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after, encoding="utf-8")


def main() -> None:
    """Compare, print the table and write it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/validate"),
                        help="folder of results; what is there already is not run again")
    parser.add_argument("--page", type=Path, help="page whose table is written anew")
    given = parser.parse_args()
    lines = table(collect(given.seed, given.out))
    print("\n".join(lines))
    if given.page is not None:
        write_page(given.page, lines)


if __name__ == "__main__":
    main()
