# SPDX-License-Identifier: Apache-2.0
"""``sdngcc underlay``: the file that tells the controller of the network beneath, where it does not forward."""

from __future__ import annotations

import os
import pathlib
from typing import Optional, Tuple

import click


@click.group()
def underlay() -> None:
    """Make the file of switches, hosts and links that the controller reads with `forwarding: none`."""


@underlay.command("from-lldp")
@click.argument("documents", metavar="HOST=FILE...", nargs=-1)
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
              help="A folder of such files, each <host>.json, beside those that are named.")
@click.option("--write", "target", type=click.Path(dir_okay=False, path_type=pathlib.Path),
              help="Write this file instead of printing: as a whole, and only if it changes.")
@click.option("--underlay", "base", required=True,
              type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
              help="The file so far: at least the hosts with their datapath ids.")
@click.option("--interface", "interfaces", multiple=True, default=("en*", "eth*", "ib*"), show_default=True,
              help="Interfaces to look at, by a pattern; others, such as those of VMs, can say what they like.")
@click.option("--mbps", type=click.FloatRange(0.001, 800_000), help="What the links carry, Mb/s.")
def from_lldp(
    documents: Tuple[str, ...], folder: Optional[pathlib.Path], target: Optional[pathlib.Path], base: pathlib.Path,
    interfaces: Tuple[str, ...], mbps: Optional[float],
) -> None:
    """Print an underlay's file completed by the links that hosts hear by LLDP.

    FILE holds what `lldpcli -f json0 show neighbors` writes on HOST, with lldpd running there:

    \b
      ssh compute1 lldpcli -f json0 show neighbors > compute1.json
      sdngcc underlay from-lldp --underlay hosts.yaml compute1=compute1.json > underlay.yaml
    """
    import yaml

    from sdngcc import configuration
    from sdngcc.controller.network import lldp

    heard = {}
    try:
        known = configuration.read_file(base)
    except configuration.SettingsError as error:
        raise click.ClickException(str(error)) from None
    found = sorted(folder.glob("*.json")) if folder is not None else []
    if not (documents or found):
        raise click.UsageError("no HOST=FILE is named, and no <host>.json is in a --folder")
    for text in (*documents, *(f"{file.stem}={file}" for file in found)):
        host, equals, file = text.partition("=")
        if not (host and equals and file) or host in heard:
            raise click.UsageError(f'"{text}" is no HOST=FILE with each host once')
        try:
            heard[host] = lldp.read_neighbors(pathlib.Path(file).read_bytes(), interfaces)
        except (OSError, lldp.LldpError) as error:
            raise click.ClickException(f"{file}: {error}") from None
    try:
        made, left = lldp.join(known, heard, mbps)
    except (lldp.LldpError, TypeError, KeyError, AttributeError) as error:
        raise click.ClickException(f"{base}: {error}") from None
    text = yaml.safe_dump(made, sort_keys=False, default_flow_style=None)
    if target is None:
        click.echo(text, nl=False)
    else:
        _replace(target, text)
    for line in left:
        click.echo(line, err=True)


def _replace(target: pathlib.Path, text: str) -> None:
    """Write a file as a whole, unless it holds this text already."""
    scratch = target.with_name(target.name + ".new")
    try:
        if target.exists() and target.read_text("utf-8") == text:
            return
        scratch.write_text(text, "utf-8")
        os.replace(scratch, target)
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"--write {target}: {error}") from None
