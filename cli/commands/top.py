# SPDX-License-Identifier: Apache-2.0
"""``sdngcc top``: what every VM gets right now, and which ports are congested."""

from __future__ import annotations

import json
from typing import Any, Dict, List

import click

from sdngcc.commands.vm import megabits
from sdngcc.names import short_names
from sdngcc.rest import RestClient, RestError, client_options
from sdngcc.tables import Row, is_terminal, make_console, make_table, print_lines

# Order of VMs: name of --sort -> key of the controller's row.
SORTS = {"sent": "sent_bps", "rate": "rate_bps", "share": "share_bps", "marks": "marks", "drops": "drops"}


class View:
    """The rows of the event stream, by place; rates in bit/s."""

    def __init__(self) -> None:
        self.rows: Dict[str, Dict[str, Dict[str, Any]]] = {"vms": {}, "ports": {}}
        self.seen: set[str] = set()

    def take(self, kind: str, data: Dict[str, Any]) -> bool:
        """Take an event; return whether it changed what is shown."""
        if kind not in self.rows:
            return False
        rows = self.rows[kind]
        if data["full"]:
            rows.clear()
        rows.update({row["place"]: row for row in data[kind]})
        for place in data["gone"]:
            rows.pop(place, None)
        self.seen.add(kind)
        return True

    def whole(self) -> bool:
        """Tell whether VMs and ports are known."""
        return self.seen == set(self.rows)

    def vms(self, sort: str) -> List[Dict[str, Any]]:
        """Return the VMs, the largest first."""
        return sorted(self.rows["vms"].values(), key=lambda row: (-(row[SORTS[sort]] or 0), row["place"]))

    def congested(self) -> List[Dict[str, Any]]:
        """Return the congested ports, the one with most marks first."""
        hot = [row for row in self.rows["ports"].values() if row["congested"]]
        return sorted(hot, key=lambda row: (-row["marks_per_s"], row["place"]))

    def as_json(self, sort: str) -> str:
        """Return VMs and congested ports as one line of JSON."""
        return json.dumps({"vms": self.vms(sort), "congested_ports": self.congested()})


def _vm_cells(view: View, vms: List[Dict[str, Any]]) -> List[Row]:
    """Return the rows of VMs; the columns that go first in a narrow terminal come last."""
    names = short_names(row["id"] for row in vms)
    in_cloud = any(row.get("cloud_name") for row in vms)
    return [
        {
            "VM": names[row["id"]],
            **({"name": row.get("cloud_name") or "-"} if in_cloud else {}),
            "state": row["state"],
            "sends": megabits(row["sent_bps"]),
            "may send": megabits(row["rate_bps"]),
            "share": megabits(row["share_bps"]),
            **{key: "-" if row[key] is None else f"{row[key]:,}" for key in ("marks", "drops", "weight")},
        }
        for row in vms
    ]


def _port_cells(hot: List[Dict[str, Any]]) -> List[Row]:
    return [
        {
            "port": row["name"], "switch:number": row["place"], "marks/s": f"{row['marks_per_s']:,.0f}",
            "Mb/s": megabits(row["tx_bps"]),
        }
        for row in hot
    ]  # fmt: skip


def _summary(view: View) -> str:
    vms, hot = view.rows["vms"].values(), view.congested()
    limited = sum(row["state"] == "congested" for row in vms)
    sent = megabits(sum(row["sent_bps"] or 0 for row in vms))
    return f"{len(vms)} VMs send {sent} Mb/s, {limited} limited by congestion; {len(hot)} congested ports"


_LEFT = ("VM", "name", "state", "port", "switch:number")


def draw(view: View, sort: str, lines: int, width: int) -> Any:
    """Return what rich shows on so many lines and characters: totals, congested ports, the first VMs."""
    from rich.console import Group
    from rich.text import Text

    vms, hot = view.vms(sort), view.congested()[: max(3, lines // 4)]
    parts: List[Any] = [Text(_summary(view))]
    if hot:
        parts.append(make_table(_port_cells(hot), _LEFT, width, "congested ports", ["red"] * len(hot))[0])
    room = max(3, lines - 8 - (len(hot) + 5 if hot else 0))
    some = vms[:room]
    if some:
        colours = {"congested": "red", "inactive": "dim"}
        styles = [colours.get(row["state"], "") for row in some]
        table, left_out = make_table(_vm_cells(view, some), _LEFT, width, "VMs, Mb/s", styles)
        parts.append(table)
        if left_out:
            parts.append(Text(f"no room for {', '.join(left_out)}; a wider terminal shows them"))
    if len(vms) > room:
        parts.append(Text(f"{len(vms) - room} more; a taller terminal shows them"))
    return Group(*parts)


def _print(view: View, sort: str) -> None:
    """Print all once."""
    if is_terminal():
        console = make_console()
        console.print(draw(view, sort, len(view.rows["vms"]) + 100, console.width))
        return
    click.echo(_summary(view))
    for rows in (_port_cells(view.congested()), _vm_cells(view, view.vms(sort))):
        if rows:
            click.echo()
            print_lines(rows, _LEFT)


@click.command()
@client_options
@click.option("--once", is_flag=True, help="Print once and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each change instead of a table.")
@click.option("--sort", type=click.Choice(sorted(SORTS)), default="sent", show_default=True, help="What comes first.")
def top(client: RestClient, once: bool, as_json: bool, sort: str) -> None:
    """Watch every VM's rate and share, and the congested ports, live; Ctrl-C ends it.

    It follows the controller's event stream, so a thousand idle VMs cost nothing.
    """
    from rich.live import Live

    view, console = View(), make_console()
    try:
        events = client.events()
        if once or as_json:
            for kind, data in events:
                if view.take(kind, data) and view.whole():
                    if as_json:
                        click.echo(view.as_json(sort))
                    else:
                        _print(view, sort)
                    if once:
                        return
        else:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                for kind, data in events:
                    if view.take(kind, data):
                        live.update(draw(view, sort, console.height, console.width), refresh=True)
        raise RestError(f"the controller at {client.url} closed the event stream")
    except KeyboardInterrupt:
        pass
