# SPDX-License-Identifier: Apache-2.0
"""``sdngcc testbed``: build the virtual testbed, run experiments in it, look around in it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, Optional, Sequence, Tuple

import click


def _refuse(error: Exception) -> click.ClickException:
    return click.ClickException(str(error))


def _build(quiet: bool, ovs: Collection[str] = (), only: Optional[Sequence[str]] = None) -> Any:
    """Build what is missing of all parts, or of those named, and show how far each is.

    ovs: versions of Open vSwitch beside the plain one. What keeps the virtual machine from running here is told first.
    """
    from sdngcc.testbed import host
    from sdngcc.testbed.build import BuildError, build
    from sdngcc.testbed.progress import build_progress

    hindrances = host.hindrances() if only is None else []
    if hindrances:
        click.echo(f"Error: the testbed cannot run here: {'; '.join(hindrances)}", err=True)
        sys.exit(2)
    with build_progress(quiet) as show:
        try:
            return build(show, only, ovs=sorted(ovs))
        except BuildError as error:
            raise _refuse(error) from None


@click.group()
def testbed() -> None:
    """Build the virtual testbed, run experiments in it, open a shell in it.

    The testbed is User Mode Linux in virtual time with the patched openvswitch.ko and ovs-vswitchd: no root, no
    KVM, nothing of this machine's network is touched.
    """
    from sdngcc.testbed.programs import search_path

    os.environ["PATH"] = search_path()


@testbed.command("build")
@click.option("--json", "as_json", is_flag=True, help="Print the paths of what was built as JSON.")
@click.option("--clean", is_flag=True, help="Remove builds of other versions of the sources first.")
def build_command(as_json: bool, clean: bool) -> None:
    """Build the kernel, its modules, Open vSwitch and the traffic generator, unless they are there.

    Builds stay in $SDNGCC_CACHE (default ~/.cache/sdn-gcc), each under a hash of what it was made from.
    """
    from sdngcc.testbed.build import BuildError, clean_others

    if clean:
        try:
            for folder in clean_others():
                click.echo(f"removed {folder}", err=True)
        except BuildError as error:
            raise _refuse(error) from None
    artifacts = _build(quiet=as_json)
    if as_json:
        click.echo(json.dumps(artifacts.as_dict(), indent=1, sort_keys=True))
    else:
        click.echo(f"built; everything is in {artifacts.root}")


@testbed.command("list")
@click.argument("experiment", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def list_command(experiment: Optional[str], as_json: bool) -> None:
    """List experiments, where they come from and what must be seen; of one EXPERIMENT its runs and parameters too."""
    from sdngcc.experiments import EXPERIMENTS
    from sdngcc.testbed.parameters import Parameters
    from sdngcc.testbed.settings import describe

    _known(experiment)
    chosen = list(EXPERIMENTS.values()) if experiment is None else [EXPERIMENTS[experiment]]
    experiments = [{"name": one.name, "summary": one.summary, "source": one.paper, "seen": one.seen} for one in chosen]
    parameters = describe(Parameters)
    cases = [] if experiment is None else EXPERIMENTS[experiment].cases(())
    if cases:
        _use_defaults(parameters, [case.parameters.model_dump() for case in cases])
    if as_json:
        runs = {} if experiment is None else {"runs": [case.label for case in cases]}
        click.echo(json.dumps({"experiments": experiments, **runs, "parameters": parameters}, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("experiment", "what", "source", "what must be seen")
    for one in experiments:
        table.add_row(one["name"], one["summary"], one["source"], one["seen"])
    console.print(table)
    if experiment is None:
        console.print("`sdngcc testbed list EXPERIMENT` has the parameters of --set, `sdngcc testbed knobs LAW` those "
                      "of a law.", highlight=False)
        return
    if len(cases) > 1:
        console.print(f"{len(cases)} runs: {', '.join(case.label for case in cases)}", highlight=False, markup=False)
    settings = Table("parameter", "default", "allowed", "meaning")
    for item in parameters:
        settings.add_row(item["name"], item["default"], item["allowed"], item["meaning"])
    console.print(settings)


def _use_defaults(parameters: List[Dict[str, str]], runs: List[Dict[str, Any]]) -> None:
    """Let descriptions of parameters have an experiment's own defaults, `varies` where its runs differ."""
    for item in parameters:
        values = [run[item["name"]] for run in runs if item["name"] in run]
        if values and any(value != values[0] for value in values):
            item["default"] = "varies"
        elif values and values[0] is not None:
            one = values[0]
            item["default"] = (",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in one)
                               if isinstance(one, tuple) else str(one).lower())


@testbed.command("knobs")
@click.argument("law", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def knobs_command(law: Optional[str], as_json: bool) -> None:
    """List the knobs of a LAW for `--set knob.<name>=<n>`: defaults, ranges, units; without LAW the laws.

    They are read from the laws' own sources; no kernel with the shim is needed.
    """
    from rich.console import Console
    from rich.table import Table

    from sdngcc.shim.core import CoreBuildError
    from sdngcc.shim.knobs import laws
    from sdngcc.testbed.knobs import describe_knobs, law_of
    from sdngcc.testbed.parameters import ParameterError

    try:
        rows = ([{"law": one.name, "period": f"{one.period_ns / 1e6:g} ms", "knobs": str(len(one.knobs))}
                 for one in laws()] if law is None else describe_knobs(law_of(law)))
    except CoreBuildError as error:
        raise _refuse(error) from None
    except ParameterError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(json.dumps({"laws" if law is None else "knobs": rows}, indent=1))
        return
    if not rows:
        click.echo(f"law {law} has no knobs")
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)


def _known(experiment: Optional[str]) -> None:
    """Refuse an experiment that there is not."""
    from sdngcc.experiments import EXPERIMENTS

    if experiment is not None and experiment not in EXPERIMENTS:
        raise click.UsageError(f"there is no experiment '{experiment}'; there are {', '.join(EXPERIMENTS)}")


def _print_result(result: Dict[str, Any], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "expected", "paper", "measured", "", title=result["experiment"])
    for verdict in result["verdicts"]:
        table.add_row(verdict["name"], verdict["expected"], verdict["paper"], str(verdict["measured"]),
                      "[green]holds[/]" if verdict["holds"] else "[red]does not hold[/]")
    console = Console()
    console.print(table)
    console.print(f"{out / 'report.html'}, figure.png, result.json", highlight=False)


def _require_programs(needed: Iterable[List[str]]) -> None:
    """Raise UsageError with the programs that runs need and this machine lacks, before anything is built."""
    from sdngcc.testbed import programs

    missing = programs.missing(name for names in needed for name in names)
    if missing:
        raise click.UsageError(f"this experiment runs {', '.join(missing)}, which this machine lacks; `make setup` "
                               "brings them (`make demo` does not)")


@testbed.command("run")
@click.argument("experiment")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="A parameter; see `testbed list EXPERIMENT`.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True,
              help="In one checkout the same seed gives the same result.json, byte for byte.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for the results.  [default: results/<experiment>]")
@click.option("--inventory", "inventory_file", type=click.Path(dir_okay=False, path_type=Path),
              help="File of real machines to run it on, by ssh and in real time, instead of the virtual testbed.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of a table.")
def run_command(experiment: str, settings: Tuple[str, ...], seed: int, out: Path, inventory_file: Optional[Path],
                as_json: bool) -> None:
    """Run an experiment; exit 0 only if all its expectations hold (1: they do not, 2: it could not run).

    \b
    sdngcc testbed run share --set competitor=udp --set senders=5
    sdngcc testbed run share --set law=static --set phases=2,5,5
    sdngcc testbed run share --set knob.cut-full-ppm=250000
    """
    from sdngcc.experiments import EXPERIMENTS
    from sdngcc.testbed import programs
    from sdngcc.testbed.interrupt import ending_quietly
    from sdngcc.testbed.inventory import InventoryError, check_run, read_inventory, settings_for
    from sdngcc.testbed.machine import MachineError
    from sdngcc.testbed.parameters import ParameterError
    from sdngcc.testbed.rehearsal import rehearse

    _known(experiment)
    inventory = None
    try:
        if inventory_file is not None:
            inventory = read_inventory(inventory_file)
            settings = tuple(settings_for(inventory, settings))
        cases = EXPERIMENTS[experiment].cases(settings)
        rehearse(EXPERIMENTS[experiment], cases, seed)
        if inventory is not None:
            for case in cases:
                check_run(inventory, case.parameters, case.work(seed))
    except (ParameterError, InventoryError) as error:
        raise click.UsageError(str(error)) from None
    if inventory is None:
        _require_programs(programs.needed(case.parameters, case.work(seed)) for case in cases)
    out = out or Path("results") / experiment
    # As Ctrl-C does, SIGTERM ends the machine, too.
    with ending_quietly(out / "raw"):
        artifacts = (_build(quiet=as_json, ovs={case.parameters.ovs for case in cases}) if inventory is None else
                     _build(quiet=as_json, only=["generator"]))
        from sdngcc.testbed.progress import run_progress
        from sdngcc.testbed.runner import run_experiment

        try:
            with run_progress(quiet=as_json) as show:
                result = run_experiment(EXPERIMENTS[experiment], cases, artifacts, seed, out, show, inventory)
        except (MachineError, ParameterError) as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(2)
    if as_json:
        click.echo((out / "result.json").read_text(), nl=False)
    else:
        _print_result(result, out)
    sys.exit(0 if all(verdict["holds"] for verdict in result["verdicts"]) else 1)


@testbed.command("shell")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="A parameter; see `testbed list EXPERIMENT`.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True,
              help="Seed of the machine's randomness.")
def shell_command(settings: Tuple[str, ...], seed: int) -> None:
    """Open Mininet's command line inside the machine, on the network `testbed run share` uses.

    Time is the host's here, so it takes some twenty seconds to come up. `exit` powers off.
    """
    from sdngcc.testbed.machine import MachineError, run_shell, scratch
    from sdngcc.testbed.parameters import ParameterError, parse_settings
    from sdngcc.testbed.runner import make_job

    try:
        parameters = parse_settings(settings, {"law": "sdngcc"})
    except ParameterError as error:
        raise click.UsageError(str(error)) from None
    artifacts = _build(quiet=False, ovs=[parameters.ovs])
    try:
        with scratch("sdngcc-shell-") as work:
            run_shell(artifacts.kernel, make_job(parameters, artifacts, seed), work, seed)
    except MachineError as error:
        raise _refuse(error) from None
