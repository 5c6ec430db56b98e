# SPDX-License-Identifier: Apache-2.0
"""``sdngcc top``: what every VM gets right now, and which ports are congested."""

from __future__ import annotations

import json
from typing import Any, Dict, List

import click

from sdngcc.commands.vm import megabits
from sdngcc.names import short_names
from sdngcc.rest import RestClient, RestError, client_options

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


def draw(view: View, sort: str, lines: int) -> Any:
    """Return what rich shows: totals, congested ports, the first VMs."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    vms, hot = view.vms(sort), view.congested()
    limited = sum(row["state"] == "congested" for row in vms)
    sent = megabits(sum(row["sent_bps"] or 0 for row in vms))
    head = Text(f"{len(vms)} VMs send {sent} Mb/s, {limited} limited by congestion; {len(hot)} congested ports")
    ports = Table(title="congested ports", title_justify="left", expand=False)
    for name in ("port", "switch:number"):
        ports.add_column(name)
    for name in ("marks/s", "Mb/s"):
        ports.add_column(name, justify="right")
    for row in hot[: max(3, lines // 4)]:
        ports.add_row(row["name"], row["place"], f"{row['marks_per_s']:,.0f}", megabits(row["tx_bps"]), style="red")
    table = Table(title="VMs, Mb/s", title_justify="left")
    room = max(3, lines - 8 - (len(ports.rows) + 5 if hot else 0))
    in_cloud = any(row.get("cloud_name") for row in vms[:room])
    for name in ("VM", *(("name",) if in_cloud else ()), "state"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for name in ("sends", "may send", "share", "weight", "drops", "marks"):
        table.add_column(name, justify="right", no_wrap=True)
    names = short_names(row["id"] for row in vms[:room])
    for row in vms[:room]:
        numbers = (megabits(row[key]) for key in ("sent_bps", "rate_bps", "share_bps"))
        counts = ("-" if row[key] is None else f"{row[key]:,}" for key in ("weight", "drops", "marks"))
        style = "red" if row["state"] == "congested" else "dim" if row["state"] == "inactive" else ""
        called = [Text(row.get("cloud_name") or "-")] if in_cloud else []
        table.add_row(names[row["id"]], *called, row["state"], *numbers, *counts, style=style)
    more = [Text(f"{len(vms) - room} more; a taller terminal shows them")] if len(vms) > room else []
    return Group(head, *([ports] if hot else []), table, *more)


@click.command()
@client_options
@click.option("--once", is_flag=True, help="Print once and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each change instead of a table.")
@click.option("--sort", type=click.Choice(sorted(SORTS)), default="sent", show_default=True, help="What comes first.")
def top(client: RestClient, once: bool, as_json: bool, sort: str) -> None:
    """Watch every VM's rate and share, and the congested ports, live; Ctrl-C ends it.

    It follows the controller's event stream, so a thousand idle VMs cost nothing.
    """
    from rich.console import Console
    from rich.live import Live

    view, console = View(), Console()
    try:
        events = client.events()
        if once or as_json:
            for kind, data in events:
                if view.take(kind, data) and view.whole():
                    if as_json:
                        click.echo(view.as_json(sort))
                    else:
                        console.print(draw(view, sort, len(view.rows["vms"]) + 100))
                    if once:
                        return
        else:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                for kind, data in events:
                    if view.take(kind, data):
                        live.update(draw(view, sort, console.height), refresh=True)
        raise RestError(f"the controller at {client.url} closed the event stream")
    except KeyboardInterrupt:
        pass
