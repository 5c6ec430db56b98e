# SPDX-License-Identifier: Apache-2.0
"""``sdngcc controller``: runs the controller."""

import functools
import pathlib
from typing import Optional

import click


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
@click.option("--verbose", is_flag=True, help="Log what the framework does, too.")
def controller(config: Optional[pathlib.Path], framework: Optional[str], check: bool, verbose: bool) -> None:
    """Run the controller: learn who talks to whom, poll marks, tell the machines that caused them.

    Settings come from --config and from SDNGCC_CONTROLLER_<KEY> in the environment, which wins;
    docs/operator-guide.md has the list. Switches connect by OpenFlow 1.3.
    """
    from sdngcc.controller.framework import launcher

    if not check:
        launcher.prepare()
    from sdngcc.controller import settings
    from sdngcc.controller.settings import files

    try:
        load = functools.partial(settings.load, config, chosen={"framework": framework} if framework else None)
        chosen = load()
        files.check_files(chosen)
        if check:
            click.echo(chosen.model_dump_json(indent=2))
        else:
            launcher.start(chosen, load, verbose)
    except settings.SettingsError as error:
        raise click.ClickException(str(error)) from None
