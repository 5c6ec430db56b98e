# SPDX-License-Identifier: Apache-2.0
"""``sdngcc underlay``: the file that tells the controller of the network beneath, where it does not forward."""

from __future__ import annotations

import pathlib
from typing import Optional, Tuple

import click


@click.group()
def underlay() -> None:
    """Make the file of switches, hosts and links that the controller reads with `forwarding: none`."""


@underlay.command("from-lldp")
@click.argument("documents", metavar="HOST=FILE...", nargs=-1, required=True)
@click.option("--underlay", "base", required=True,
              type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
              help="The file so far: at least the hosts with their datapath ids.")
@click.option("--interface", "interfaces", multiple=True, default=("en*", "eth*", "ib*"), show_default=True,
              help="Interfaces to look at, by a pattern; others, such as those of VMs, can say what they like.")
@click.option("--mbps", type=click.FloatRange(0.001, 800_000), help="What the links carry, Mb/s.")
def from_lldp(
    documents: Tuple[str, ...], base: pathlib.Path, interfaces: Tuple[str, ...], mbps: Optional[float]
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
    for text in documents:
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
    click.echo(yaml.safe_dump(made, sort_keys=False, default_flow_style=None), nl=False)
    for line in left:
        click.echo(line, err=True)
