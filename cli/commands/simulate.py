# SPDX-License-Identifier: Apache-2.0
"""``sdngcc simulate``: scenarios in simulators that host the engine of shim/core."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import click


@click.group()
def simulate() -> None:
    """Simulate what no machine at hand is large enough for, with the same engine and controller.

    Packets are simulated on ns-3, with its TCP; rates alone by a fluid model, for thousands of hosts. Both host the
    engine of shim/core as it is, and the controller's own decisions. docs/simulation.md tells what they leave out, and
    how well they agree with the testbed.
    """


@simulate.command("list")
@click.argument("scenario", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def list_command(scenario: Optional[str], as_json: bool) -> None:
    """List scenarios, where they come from and what must be seen; of one SCENARIO the parameters of --set."""
    from rich.console import Console
    from rich.table import Table

    from sdngcc.testbed.simulation.scenarios import SCENARIOS

    _known(scenario)
    if scenario is not None:
        parameters = SCENARIOS[scenario].parameters()
        if as_json:
            click.echo(json.dumps({"scenario": scenario, "parameters": parameters}, indent=1))
            return
        table = Table("parameter", "default", "allowed", "meaning")
        for item in parameters:
            table.add_row(item["name"], item["default"], item["allowed"], item["meaning"])
    else:
        rows = [{"name": one.name, "summary": one.summary, "source": one.source, "seen": one.seen}
                for one in SCENARIOS.values()]
        if as_json:
            click.echo(json.dumps({"scenarios": rows}, indent=1))
            return
        table = Table("scenario", "what", "source", "what must be seen")
        for row in rows:
            table.add_row(*row.values())
    Console().print(table)


def _known(scenario: Optional[str]) -> None:
    """Refuse a scenario that there is not."""
    from sdngcc.testbed.simulation.scenarios import SCENARIOS

    if scenario is not None and scenario not in SCENARIOS:
        raise click.UsageError(f"there is no scenario '{scenario}'; there are {', '.join(SCENARIOS)}")


def _print_one(result: Dict[str, Any], out: Path) -> bool:
    """Print the verdicts of one seed; return whether all hold."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "expected", "paper", "measured", "", title=result["experiment"])
    for verdict in result["verdicts"]:
        table.add_row(verdict["name"], verdict["expected"], verdict["paper"], str(verdict["measured"]),
                      "[green]holds[/]" if verdict["holds"] else "[red]does not hold[/]")
    Console().print(table)
    Console().print(f"{out / 'figure.png'}, result.json", highlight=False)
    return all(verdict["holds"] for verdict in result["verdicts"])


def _print_seeds(result: Dict[str, Any], out: Path) -> bool:
    """Print verdicts over several seeds; return whether all hold with all of them."""
    from rich.console import Console
    from rich.table import Table

    count = len(result["seeds"])
    table = Table("what", "expected", "paper", "mean", "95% interval", "holds", title=result["experiment"])
    for verdict in result["verdicts"]:
        between = verdict["interval"]
        table.add_row(verdict["name"], verdict["expected"], verdict["paper"],
                      str(verdict["mean"] if verdict["mean"] is not None else verdict["values"]),
                      f"+- {between:.3g}" if between is not None else "", f"{verdict['holds']} of {count}")
    Console().print(table)
    Console().print(f"{out / 'result.json'}, seed-*/figure.png", highlight=False)
    return all(verdict["holds"] == count for verdict in result["verdicts"])


@simulate.command("run")
@click.argument("scenario")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="A parameter; see `simulate list SCENARIO`.")
@click.option("--seed", type=click.IntRange(1, 2**31 - 1), default=1, show_default=True,
              help="The same seed and sources give the same result.json, byte for byte.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="Runs with so many seeds, from --seed on, side by side: one process a processor.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for the results.  [default: results/simulate/<scenario>]")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of a table.")
def run_command(scenario: str, settings: Tuple[str, ...], seed: int, seeds: int, out: Optional[Path],
                as_json: bool) -> None:
    """Run a scenario; exit 0 only if all its expectations hold (1: they do not, 2: it could not run).

    The simulator is built first if need be, once; for that of packets ns-3 is fetched (69 MB).

    \b
    sdngcc simulate run share --set competitor=udp --set senders=5
    sdngcc simulate run scale --seeds 10
    """
    from sdngcc.testbed.build import BuildError
    from sdngcc.testbed.interrupt import ending_quietly
    from sdngcc.testbed.parameters import ParameterError
    from sdngcc.testbed.progress import build_progress, run_progress
    from sdngcc.testbed.simulation.build import fluid_library, packets_program
    from sdngcc.testbed.simulation.packets import SimulationError
    from sdngcc.testbed.simulation.runner import folder_of, raw_of, run_scenario
    from sdngcc.testbed.simulation.scenarios import SCENARIOS

    _known(scenario)
    try:
        models = {work.options.model for work in SCENARIOS[scenario].works(settings)}
    except ParameterError as error:
        raise click.UsageError(str(error)) from None
    out = out or Path("results") / "simulate" / scenario
    every = range(seed, seed + seeds)
    folders = dict.fromkeys([*(raw_of(folder_of(one, every, out)) for one in every), raw_of(out)])
    try:
        with ending_quietly(*folders):
            with build_progress(quiet=as_json) as build_show:
                for model, build in (("packets", packets_program), ("fluid", fluid_library)):
                    if model in models:
                        build(build_show)
            with run_progress(quiet=as_json) as show:
                result = run_scenario(SCENARIOS[scenario], settings, every, out,
                                      lambda part, done, count: show(0, 1, part, f"{done} of {count} over"))
    except (SimulationError, BuildError, ParameterError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    if as_json:
        click.echo((out / "result.json").read_text(), nl=False)
        good = all(verdict["holds"] is True or verdict["holds"] == seeds for verdict in result["verdicts"])
    else:
        good = _print_one(result, out) if seeds == 1 else _print_seeds(result, out)
    sys.exit(0 if good else 1)
