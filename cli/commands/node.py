# SPDX-License-Identifier: Apache-2.0
"""``sdngcc node``: this machine as a compute node, and those whose databases connect to the controller."""

from __future__ import annotations

import json
from typing import Any, Dict, List

import click

from sdngcc.node.commands import check, setup
from sdngcc.rest import RestClient, client_options
from sdngcc.text import shown

COLUMNS = ("node", "state", "for", "vms", "switches", "certificate", "address")
# A unit of time and how many seconds it has, the longest first.
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@click.group()
@client_options
@click.pass_context
def node(ctx: click.Context, client: RestClient) -> None:
    """Set this machine up as a compute node and check it; list the controller's nodes, forget one that is gone."""
    ctx.obj = client


node.add_command(setup)
node.add_command(check)


def duration(seconds: float) -> str:
    """Return a time in its largest whole unit."""
    unit, size = next((unit for unit in UNITS if seconds >= unit[1]), UNITS[-1])
    return f"{int(seconds // size)} {unit}"


def _cells(one: Dict[str, Any]) -> List[str]:
    switches = [f"{int(switch['switch'], 16):x}" + ("" if switch["connected"] else " (not connected)")
                for switch in one["switches"]]  # fmt: skip
    switches += [f"{int(switch['switch'], 16):x} (refused)" for switch in one["refused"]]
    return [
        one["node"], one["state"], duration(one["since_s"]), str(one["vms"]), ", ".join(switches) or "none",
        one["certificate"] or "none", one["address"],
    ]  # fmt: skip


@node.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the nodes as the controller's JSON instead of a table.")
@click.pass_obj
def list_nodes(client: RestClient, as_json: bool) -> None:
    """Show each node's state and since when it is so, its VMs, bridges, certificate and address.

    A bridge is `not connected` when its database knows it and it speaks no OpenFlow with the controller, and
    `refused` when the node is not believed about it; the lines below the table say why.
    """
    nodes = client.nodes()
    if as_json:
        click.echo(json.dumps({"nodes": nodes}, indent=1))
        return
    if not nodes:
        click.echo("No node yet: they appear when their databases connect (ovs-vsctl set-manager).", err=True)
        return
    table = [list(COLUMNS), *[[shown(cell) for cell in _cells(one)] for one in nodes]]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for one in nodes:
        for refusal in one["refused"]:
            click.echo(shown(f"{one['node']}: bridge {refusal['switch']}: {refusal['why']}"), err=True)


@node.command("forget")
@click.argument("name", metavar="NODE")
@click.pass_obj
def forget_node(client: RestClient, name: str) -> None:
    """Forget a node that is gone: its name and its bridges are free for whoever comes next.

    Until then they belong to the certificate by which the node came. A node that is connected is not forgotten.
    """
    client.node_forget(name)
    click.echo(f"{shown(name)}: forgotten")
