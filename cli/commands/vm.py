# SPDX-License-Identifier: Apache-2.0
"""``sdngcc vm``: VMs as the controller sees them, over its REST interface."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Dict, List, Optional, Tuple, Union

import click

from sdngcc.names import short_names
from sdngcc.rest import RestClient, client_options
from sdngcc.tables import print_table
from sdngcc.text import shown

# A rate's suffix and its factor to bit/s.
SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

# Characters of a name or a network's name in a table that is not wide.
NAME_WIDTH = 20

# What --min default and the like are handed on as, so that click can tell them from an option not given.
DEFAULT = "default"


class Rate(click.ParamType):
    """A rate in bit/s, such as 250M or 1.5G, or `default`."""

    name = "rate"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Union[int, str]:
        """Return bit/s, or DEFAULT; fails with what is allowed."""
        if isinstance(value, int) or value == DEFAULT:
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?)(?:bit/s)?", value)
        if not found:
            self.fail(f"'{value}' is no rate; allowed: bit/s with an optional k, M, G or T, such as 250M, or `default`")
        bits = float(found.group(1)) * SUFFIXES[found.group(2)]
        if bits != int(bits):
            self.fail(f"'{value}' is no whole number of bit/s")
        return int(bits)


class Weight(click.ParamType):
    """A weight, or `default`; its range is the controller's to check."""

    name = "weight"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Union[int, str]:
        """Return the weight, or DEFAULT; fails when it is neither."""
        if isinstance(value, int) or value == DEFAULT:
            return value
        if not re.fullmatch(r"\d+", value):
            self.fail(f"'{value}' is no weight; allowed: a whole number from 1 to 65535, or `default`")
        return int(value)


def megabits(bits: Optional[int]) -> str:
    """Return bit/s as Mb/s for a table; a dash when unknown."""
    return "-" if bits is None else f"{bits / 1e6:,.1f}"


@click.group()
@client_options
@click.pass_context
def vm(ctx: click.Context, client: RestClient) -> None:
    """List VMs as the controller sees them; change their weight, minimum, maximum and law."""
    ctx.obj = client


@vm.command("list")
@click.option("--mac", help="Only the VM with this Ethernet address.")
@click.option("--ip", help="Only the VM with this IP address.")
@click.option("--port", help="Only VMs at an OVS port of this name.")
@click.option("--iface-id", help="Only the VM of this OpenStack port (external_ids:iface-id).")
@click.option("--network", help="Only VMs in the cloud's network of this name or id.")
@click.option("--tenant", help="Only VMs of this tenant.")
@click.option("--state", help="Only VMs in this state: active, congested, inactive or unknown.")
@click.option("--wide", is_flag=True, help="Whole ids and all columns, however wide the terminal is.")
@click.option("--json", "as_json", is_flag=True, help="Print the VMs as the controller's JSON instead of a table.")
@click.pass_obj
def list_vms(client: RestClient, wide: bool, as_json: bool, **filters: Optional[str]) -> None:
    """Show rate, share, weight, limits, drops and state of every VM; rates in Mb/s.

    A VM's rate is what it may send now; below its share when the fabric is congested (state `congested`).
    VMs are named as shortly as tells them apart; `show` and `set` take these names, and whole ids. Where a database of
    the cloud says more, its name of the VM's port and its network stand beside. Columns that do not fit are left out.
    """
    vms = client.vms({key: value for key, value in filters.items() if value is not None})
    if as_json:
        click.echo(json.dumps({"vms": vms}, indent=1))
        return
    if vms:
        _print_table(vms, wide)
    else:
        said = "No VM fits." if any(filters.values()) else "No VM yet: they appear when their bridges have connected."
        click.echo(said, err=True)


def _cloud_cells(one: Dict[str, Any], wide: bool) -> Dict[str, str]:
    """Return what the cloud calls a VM's port, else its server, and the port's network, by column."""
    cloud = one.get("cloud") or {}
    texts = {"name": cloud.get("name") or cloud.get("server") or cloud.get("device"), "network": cloud.get("network")}
    return {
        key: text if wide or len(text) <= NAME_WIDTH else text[: NAME_WIDTH - 1] + "\u2026"
        for key, text in ((key, text or "-") for key, text in texts.items())
    }


def _cells(one: Dict[str, Any], name: str, cloud: Dict[str, str]) -> Dict[str, str]:
    """Return a VM's row of the table by column; the columns that go first in a narrow terminal come last."""
    return {
        "VM": name,
        **cloud,
        "state": str(one["state"]),
        **{key: megabits(one.get(f"{key}_bps")) for key in ("rate", "share", "sent")},
        "weight": "-" if one.get("weight") is None else str(one["weight"]),
        **{key: megabits(one[f"{key}_bps"]) if one.get(f"{key}_bps") else "none" for key in ("max", "min")},
        "drops": "-" if one.get("drops") is None else f"{one['drops']:,}",
        "marks": "-" if one.get("marks_accepted") is None else f"{one['marks_accepted']:,}",
    }


def _print_table(vms: List[Dict[str, Any]], wide: bool) -> None:
    names = {} if wide else short_names(str(one["id"]) for one in vms)
    in_cloud = any(one.get("cloud") for one in vms)
    rows = [
        _cells(one, names.get(str(one["id"]), str(one["id"])), _cloud_cells(one, wide) if in_cloud else {})
        for one in vms
    ]
    print_table(rows, ("VM", "name", "network", "state"), wide)


@vm.command("show")
@click.argument("name", metavar="VM")
@click.option("--json", "as_json", is_flag=True, help="Print the VM as the controller's JSON.")
@click.pass_obj
def show_vm(client: RestClient, name: str, as_json: bool) -> None:
    """Show all that the controller knows of a VM.

    VM is its id, the beginning of its id when that is a UUID, MAC, IP address, OVS port name, OpenStack port id or the
    cloud's name of its port; a name that fits several is refused with the candidates.
    """
    found = client.vm(name)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    width = max(len(key) for key in found)
    for key, value in found.items():
        click.echo(f"{shown(key):<{width}}  {shown(_in_words(key, value))}")


def _in_words(key: str, value: Any) -> str:
    """Return a value of a VM as `vm show` prints it."""
    if value is None and key == "tenant":
        return "none"
    if value is None:
        places = {"stored": "OVSDB", "configured": "OVSDB", "cloud": "database of a cloud"}
        return f"in no {places[key]} that the controller follows" if key in places else "unknown"
    if key in ("min_bps", "max_bps") and value == 0:
        return "none"
    if key.endswith("_bps"):
        return f"{megabits(value)} Mb/s"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, dict) and key == "cloud":
        return ", ".join(f"{name} {_listed(one)}" for name, one in value.items() if one not in (None, []))
    if isinstance(value, dict) and "complaint" in value:
        told = [f"{name} {one['value']} ({one['origin']})" for name, one in value.items() if name != "complaint"]
        return ", ".join(told + ([f"complaint: {value['complaint']}"] if value["complaint"] else []))
    if isinstance(value, dict):
        return ", ".join(f"{name} {DEFAULT if one is None else one}" for name, one in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _listed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


@vm.command("set")
@click.argument("names", metavar="VM...", nargs=-1, required=True)
@click.option("--weight", type=Weight(), help="Part of uplinks and congested ports, 1 to 65535 (default 1).")
@click.option("--min", "least", type=Rate(), help="Guarantee in bit/s; 0: none.")
@click.option("--max", "most", type=Rate(), help="Ceiling in bit/s; 0: none.")
@click.option("--law", help="Law of this VM alone; none: no law, default: that of its host.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as the controller's JSON.")
@click.pass_obj
def set_vm(
    client: RestClient, names: Tuple[str, ...], weight: Union[int, str, None], least: Union[int, str, None],
    most: Union[int, str, None], law: Optional[str], as_json: bool,
) -> None:
    """Change the policy of VMs; what is not named stays, `default` takes a value back.

    \b
    VM is its id or the beginning of it, MAC, IP address, OVS port name or OpenStack port id. Rates take k, M or G:
      sdngcc vm set tap0 --weight 4 --max 500M
      sdngcc vm set tap0 tap1 tap2 --law eyeq
    Of several VMs, those of one bridge are changed all or none; what came of each is told.
    """
    given = {"weight": weight, "min": least, "max": most, "law": law}
    changes: Dict[str, Any] = {
        key: None if value == DEFAULT else value for key, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("nothing to change: name --weight, --min, --max or --law")
    _change(client, names, changes, as_json)


@vm.command("reset")
@click.argument("names", metavar="VM...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as the controller's JSON.")
@click.pass_obj
def reset_vm(client: RestClient, names: Tuple[str, ...], as_json: bool) -> None:
    """Take back all policy that is set for VMs; the VMs themselves are left alone.

    What stands in other columns of OVSDB than the controller writes holds then, else the defaults: `sdngcc vm show`
    tells under `configured`.
    """
    if len(names) > 1:
        _change(client, names, dict.fromkeys(("weight", "min", "max", "law")), as_json)
        return
    answer = client.vm_reset(names[0])
    text = shown(f"{answer['id']}: {_in_words('', answer['configured'])}")
    click.echo(json.dumps(answer, indent=1) if as_json else text)


def _change(client: RestClient, names: Tuple[str, ...], changes: Dict[str, Any], as_json: bool) -> None:
    """Change VMs alike and tell what came of it; the exit status is 1 unless all is stored."""
    said = ", ".join(f"{key} {DEFAULT if value is None else value}" for key, value in changes.items())
    if len(names) == 1:
        results = [client.vm_change(names[0], changes)]
        answer = results[0]
    else:
        answer = client.vms_change([{"vm": name, **changes} for name in names])
        results = answer["results"]
    if as_json:
        click.echo(json.dumps(answer, indent=1))
    else:
        for one in results:
            failed = one.get("error")
            click.echo(shown(f"{one['id']}: {said if not failed else one['result'] + ': ' + failed}"))
    if any(one.get("error") for one in results):
        sys.exit(1)
