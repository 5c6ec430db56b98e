# SPDX-License-Identifier: Apache-2.0
"""``sdngcc controller``: runs the controller, or takes a running one out of service."""

import functools
import pathlib
import sys
import time
from typing import Optional

import click

from sdngcc.rest import RestClient, client_options

# Between two looks at how far a drain is.
LOOK_S = 0.2


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="Settings file: .toml, .json, else YAML.",
)
@click.option(
    "--framework",
    type=click.Choice(["auto", "ryu", "os-ken"]),
    help="OpenFlow library to run on; auto: Ryu where it is installed, else os-ken.",
)
@click.option("--check", is_flag=True, help="Check the settings and the files they name, print them and stop.")
@click.option("--verbose", is_flag=True, help="Log what the framework does, too: log_level debug.")
@click.option("--drain", is_flag=True, help="Let a running controller hand its switches over, wait for it, and stop.")
@click.option("--resume", is_flag=True, help="Let a drained controller take switches again.")
@click.option("--timeout", type=click.FloatRange(min=0), default=60, show_default=True, help="For --drain, s.")
@client_options
def controller(
    client: RestClient,
    config: Optional[pathlib.Path],
    framework: Optional[str],
    check: bool,
    verbose: bool,
    drain: bool,
    resume: bool,
    timeout: float,
) -> None:
    """Run the controller: learn who talks to whom, poll marks, tell the machines that caused them.

    Settings come from --config and from SDNGCC_CONTROLLER_<KEY> in the environment, which wins;
    docs/operator-guide.md has the list. Switches connect by OpenFlow 1.3.

    With --drain or --resume a running controller is asked by its REST interface, which --url names; nothing is
    started then.
    """
    if drain and resume:
        raise click.UsageError("--drain and --resume: either of them")
    if drain or resume:
        sys.exit(_drain(client, timeout) if drain else _resume(client))
    from sdngcc.controller.framework import launcher

    if not check:
        launcher.prepare()
    from sdngcc.controller import settings
    from sdngcc.controller.settings import files

    try:
        given = {"framework": framework, "log_level": "debug" if verbose else None}
        load = functools.partial(settings.load, config, chosen={key: one for key, one in given.items() if one})
        chosen = load()
        files.check_files(chosen)
        if check:
            click.echo(chosen.model_dump_json(indent=2))
        else:
            launcher.start(chosen, load)
    except settings.SettingsError as error:
        raise click.ClickException(str(error)) from None


def _drain(client: RestClient, timeout_s: float) -> int:
    """Let a controller hand its switches over and tell how far it is; return the exit status."""
    deadline, told = time.monotonic() + timeout_s, None
    state = client.drain(True)
    while not state["done"] and time.monotonic() < deadline:
        if len(state["held"]) != told:
            told = len(state["held"])
            click.echo(f"{told} switches to be handed over")
        time.sleep(LOOK_S)
        state = client.drain_state()
        if not state["draining"]:
            raise click.ClickException("somebody let the controller take switches again; it is not drained")
    if state["alone"]:
        click.echo("drained: this controller is alone; machines are told nothing more and return to their share of the "
                   "uplinks within two seconds, forwarding goes on until it ends")
        return 0
    if not state["held"]:
        click.echo("drained: other controllers act for all switches")
        return 0
    shown = ", ".join(state["unclaimed"][:10] or state["held"][:10])
    why = "no other controller is connected to them" if state["done"] else f"not handed over within {timeout_s:g} s"
    click.echo(f"{len(state['held'])} switches stay, {why}: {shown}", err=True)
    return 1


def _resume(client: RestClient) -> int:
    client.drain(False)
    click.echo("this controller takes switches again")
    return 0
