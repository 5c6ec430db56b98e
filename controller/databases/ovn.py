# SPDX-License-Identifier: Apache-2.0
"""Ports in OVN's Southbound database, read by python-ovs' IDL; a process of its own (telling.py).

A row of Port_Binding is a VM's port: logical_port is its interface's external_ids:iface-id, mac has its addresses, and
ovn-northd copies external_ids of the Logical_Switch_Port there, where Neutron leaves names and the project.  A network
is a row of Datapath_Binding.  Between hosts it is reached by its tunnel_key, and by the VLAN of a port of type localnet
where it has one.
"""

import json
import logging
import os
import time
from typing import Any, Iterable, Iterator, NamedTuple, Optional

from sdngcc.controller.databases.client import Client
from sdngcc.controller.databases.ports import Report
from sdngcc.controller.databases.telling import TURN_S, Teller, ended, limit, read_line, write_all
from sdngcc.controller.framework.tls import Files, use_for_ovsdb
from sdngcc.controller.network.directory import (
    ADDRESSES_MAX,
    MACS_MAX,
    TEXT_MAX,
    CloudPort,
    Segment,
    address_of,
    clean_text,
    mac_of,
)
from sdngcc.controller.network.tenants import is_name

MODULE = "sdngcc.controller.databases.ovn"
VM_TYPE, LOCALNET = "", "localnet"

_POLL_S = 0.1


class Orders(NamedTuple):
    """What to read: the remotes of one database's servers; ``tls`` for those with ssl:."""

    remotes: tuple[str, ...]
    tls: Optional[Files]

    def dump(self) -> bytes:
        """Return it as a line."""
        return json.dumps(self).encode() + b"\n"

    @classmethod
    def load(cls, line: bytes) -> "Orders":
        """Return what dump() made."""
        remotes, tls = json.loads(line)
        return cls(tuple(remotes), None if tls is None else Files(*tls))


def port_of(row: Any, segments: tuple[Segment, ...]) -> CloudPort:
    """Return what a row of Port_Binding says; ``segments`` are its network's.

    Raises ValueError when its logical port has no name that an interface could have.
    """
    port_id, given, network = row.logical_port, row.external_ids, row.datapath.external_ids
    if not port_id or len(port_id) > TEXT_MAX:
        raise ValueError("logical_port is empty or too long")
    words = [word for entry in row.mac for word in entry.split()[: 1 + ADDRESSES_MAX]]
    macs = [found for found in map(mac_of, words) if found is not None]
    addresses = [found for found in map(address_of, words) if found is not None]
    tenant = given.get("neutron:project_id", "")
    return CloudPort(
        port_id,
        clean_text(given.get("neutron:port_name") or given.get("name", "")),
        clean_text(given.get("neutron:device_id", "")),
        clean_text(network.get("name2") or network.get("name", "")),
        clean_text(network.get("name", "").removeprefix("neutron-")),
        segments,
        tuple(dict.fromkeys(macs[:MACS_MAX])),
        tuple(dict.fromkeys(addresses[:ADDRESSES_MAX])),
        tenant if is_name(tenant) else "",
    )


def segments_of(rows: Iterable[Any]) -> dict[Any, tuple[Segment, ...]]:
    """Return by which segments networks are reached, by UUIDs of Datapath_Binding; rows: all of Port_Binding.

    Tunnels' keys are one network's in the whole cloud; a VLAN is left out where a network has several.
    """
    keys: dict[Any, int] = {}
    vlans: dict[Any, set[int]] = {}
    for row in rows:
        keys[row.datapath.uuid] = row.datapath.tunnel_key
        if row.type == LOCALNET:
            vlans.setdefault(row.datapath.uuid, set()).add(row.tag[0] if row.tag else 0)
    return {
        network: ((0, key), *((vlan, 0) for vlan in vlans.get(network, ()) if len(vlans[network]) == 1))
        for network, key in keys.items()
    }


class Reader:
    """Gives what a Southbound database says to ``teller``."""

    def __init__(self, orders: Orders, teller: Teller) -> None:
        self._teller = teller
        self._client = Client(
            ",".join(orders.remotes), _SCHEMA, time.sleep, kind="ovn", consequence="", leader_only=False
        )
        self._client.idl.cond_change("Port_Binding", [["type", "==", kind] for kind in (VM_TYPE, LOCALNET)])
        self._client.idl.notify = self._notify
        self._changed: dict[Any, Any] = {}  # rows of VMs' ports by UUID
        self._names: dict[Any, str] = {}  # of logical ports by UUID
        self._all = True  # all rows are to be looked at
        self._segments: dict[Any, tuple[Segment, ...]] = {}
        self._connection: Optional[int] = None

    def run(self) -> None:
        """Take in what the database sent."""
        self._client.run()

    def report(self) -> Report:
        """Return the state of the database."""
        return Report(self._client.health.state, None, 0)

    def _notify(self, event: str, row: Any, updates: Any = None) -> None:
        if row._table.name != "Port_Binding" or row.type != VM_TYPE:
            self._all = True
        else:
            self._changed[row.uuid] = row

    def give(self) -> None:
        """Give what became different, unless rows are still being read."""
        client = self._client
        if not client.ready:
            return
        if client.connection != self._connection:
            self._connection, self._all = client.connection, True
        rows = client.idl.tables["Port_Binding"].rows
        if self._all:
            self._all = False
            self._segments = segments_of(rows.values())
            self._names = {}
            self._teller.give_all(self._read(list(rows.values())))
        else:
            self._give_changed(rows)
        self._changed.clear()

    def _give_changed(self, rows: Any) -> None:
        # ovn-northd makes a port's row anew when its parent becomes another one: the row that is gone comes first.
        for uuid in sorted(self._changed, key=lambda one: one in rows):
            before = self._names.pop(uuid, None)
            read = list(self._read([rows[uuid]])) if uuid in rows else []
            if before is not None and before not in [port.id for port in read]:
                self._teller.take_away(before)
            for port in read:
                self._teller.give(port)

    def _read(self, rows: list[Any]) -> Iterator[CloudPort]:
        for row in rows:
            if row.type != VM_TYPE:
                continue
            try:
                network = row.datapath
                segments = self._segments.get(network.uuid, ((0, network.tunnel_key),))
                port = port_of(row, segments)
            except (ValueError, TypeError, AttributeError):
                self._teller.refused += 1
                continue
            self._names[row.uuid] = port.id
            yield port


def main() -> int:
    """Read until standard input ends; return the exit status."""
    limit()
    # The controller logs the states that it is told.
    logging.getLogger("sdngcc.controller.databases.health").disabled = True
    orders = Orders.load(read_line(0))
    if orders.tls is not None:
        use_for_ovsdb(orders.tls)
    teller = Teller(lambda data: write_all(1, data))
    reader = Reader(orders, teller)
    due_s = 0.0
    while not ended(0, _POLL_S):
        reader.run()
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + TURN_S
            reader.give()
            teller.turn(reader.report())
    return 0


def _column(kind: Any) -> dict[str, Any]:
    return {"type": kind}


_TEXTS = _column({"key": "string", "value": "string", "min": 0, "max": "unlimited"})

# The few columns used, in the terms of ovn-sb.ovsschema: a client need not know more.
_SCHEMA: dict[str, Any] = {
    "name": "OVN_Southbound",
    "version": "20.27.0",
    "tables": {
        "Port_Binding": {
            "columns": {
                "logical_port": _column("string"),
                "type": _column("string"),
                "mac": _column({"key": "string", "min": 0, "max": "unlimited"}),
                "datapath": _column({"key": {"type": "uuid", "refTable": "Datapath_Binding"}}),
                "tag": _column({"key": {"type": "integer", "minInteger": 1, "maxInteger": 4095}, "min": 0, "max": 1}),
                "external_ids": _TEXTS,
            },
            "isRoot": True,
        },
        "Datapath_Binding": {
            "columns": {
                "tunnel_key": _column({"key": {"type": "integer", "minInteger": 1, "maxInteger": 16_777_215}}),
                "external_ids": _TEXTS,
            },
            "isRoot": True,
        },
    },
}

if __name__ == "__main__":
    status = main()
    os._exit(status)
