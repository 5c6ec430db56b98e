# SPDX-License-Identifier: Apache-2.0
"""``sdngcc tenant``: tenants as the controller sees them, over its REST interface."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Optional, TypeVar, Union

import click

from sdngcc.commands.vm import DEFAULT, Rate, Weight, megabits
from sdngcc.rest import RestClient, client_options
from sdngcc.tables import print_table
from sdngcc.text import shown

Function = TypeVar("Function", bound=Callable[..., Any])


def one_tenant(function: Function) -> Function:
    """Give a command the name of a tenant, and the choice of how to print it."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print the tenant as the controller's JSON.")
    return click.argument("name", metavar="TENANT")(as_json(function))


@click.group()
@client_options
@click.pass_context
def tenant(ctx: click.Context, client: RestClient) -> None:
    """List tenants; change the weight, guarantee and cap of all VMs of one together."""
    ctx.obj = client


@tenant.command("list")
@click.option("--wide", is_flag=True, help="All columns, however wide the terminal is.")
@click.option("--json", "as_json", is_flag=True, help="Print the tenants as the controller's JSON instead of a table.")
@click.pass_obj
def list_tenants(client: RestClient, wide: bool, as_json: bool) -> None:
    """Show what the VMs of every tenant send together, and its policy; rates in Mb/s.

    A tenant is the name in `shim-tenant` of VMs' ports, a project's id under OpenStack. One without a weight is not
    divided as a whole: its VMs stand for themselves.
    """
    tenants = client.tenants()
    if as_json:
        click.echo(json.dumps({"tenants": tenants}, indent=1))
    elif tenants:
        print_table([_cells(one) for one in tenants], ("tenant",), wide)
    else:
        click.echo("No tenant yet: ports name theirs by the key shim-tenant.", err=True)


def _cells(one: Dict[str, Any]) -> Dict[str, str]:
    """Return a tenant's row of the table by column; the columns that go first in a narrow terminal come last."""
    return {
        "tenant": str(one["name"]),
        "VMs": f"{one['vms']:,}",
        **{key: megabits(one[f"{key}_bps"]) for key in ("sent", "rate")},
        "weight": _weight(one),
        **{key: _rate(one[f"{key}_bps"]) for key in ("max", "min")},
        "active": f"{one['active']:,}",
        "hypervisors": f"{one['hypervisors']:,}",
    }


def _weight(one: Dict[str, Any]) -> str:
    return "none" if one["weight"] is None else str(one["weight"])


def _rate(bits: int) -> str:
    return megabits(bits) if bits else "none"


@tenant.command("show")
@one_tenant
@click.pass_obj
def show_tenant(client: RestClient, name: str, as_json: bool) -> None:
    """Show a tenant with its VMs."""
    found = client.tenant(name)
    _tell(found, as_json)
    for one in () if as_json else found["members"]:
        click.echo(f"  {shown(one['id'])}  {one['state']}, sent {megabits(one['sent_bps'])} Mb/s, "
                   f"may send {megabits(one['rate_bps'])} Mb/s, weight {one['weight']}")


def _tell(one: Dict[str, Any], as_json: bool) -> None:
    """Print a tenant as JSON, or in a line, and a second one if its policy is not held."""
    if as_json:
        click.echo(json.dumps(one, indent=1))
        return
    click.echo(f"{shown(one['name'])}: weight {_weight(one)}, min {_rate(one['min_bps'])}, "
               f"max {_rate(one['max_bps'])} Mb/s; "
               f"{one['active']} of {one['vms']} VMs on {one['hypervisors']} hypervisors send "
               f"{megabits(one['sent_bps'])} Mb/s")
    if not one["applied"]:
        click.echo("not in force: the controller's decision is marks, which divides nothing by tenant", err=True)


@tenant.command("set")
@click.option("--weight", type=Weight(), help="Part of congested ports beside other tenants, 1 to 65535.")
@click.option("--min", "least", type=Rate(), help="Guarantee of all its VMs together in bit/s; 0: none.")
@click.option("--max", "most", type=Rate(), help="Cap of all its VMs together in bit/s; 0: none.")
@one_tenant
@click.pass_obj
def set_tenant(
    client: RestClient, name: str, weight: Union[int, str, None], least: Union[int, str, None],
    most: Union[int, str, None], as_json: bool,
) -> None:
    """Change a tenant's policy; what is not named stays, `default` takes a value back.

    \b
    Rates take k, M, G or T:
      sdngcc tenant set 9c1d0a3e5b7f42f6a8e0c2d4b6f80135 --weight 2 --max 40G
    """
    given = {"weight": weight, "min": least, "max": most}
    changes: Dict[str, Optional[int]] = {
        key: None if value == DEFAULT else int(value) for key, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("nothing to change: name --weight, --min or --max")
    _tell(client.tenant_change(name, changes), as_json)


@tenant.command("reset")
@one_tenant
@click.pass_obj
def reset_tenant(client: RestClient, name: str, as_json: bool) -> None:
    """Take back all policy that is stored for a tenant; its VMs stay its VMs."""
    _tell(client.tenant_reset(name), as_json)
