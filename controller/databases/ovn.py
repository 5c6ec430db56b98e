# SPDX-License-Identifier: Apache-2.0
"""Ports in OVN's Southbound database, read by python-ovs' IDL; a process of its own (telling.py).

A row of Port_Binding is a VM's port: logical_port is its interface's external_ids:iface-id, mac has its addresses, and
ovn-northd copies external_ids of the Logical_Switch_Port there, where Neutron leaves names and the project.  A network
is a row of Datapath_Binding.  Between hosts it is reached by its tunnel_key, and by the VLAN of a port of type localnet
where it has one.

A subport of a trunk has the logical port of its trunk's parent in parent_port, and its VLAN there in tag.  What
port_security has beyond mac is what a port may use beside.  A floating address that is translated on the VM's own host
stands in nat_addresses of the port by which the router is linked to the outer network, with
is_chassis_resident("<the VM's logical port>"), where that port has the option nat-addresses=router.
"""

import json
import logging
import os
import re
import time
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional

from sdngcc.controller.databases.client import Client
from sdngcc.controller.databases.health import TABLES_NS
from sdngcc.controller.databases.ports import Report
from sdngcc.controller.databases.telling import TURN_S, Teller, ended, limit, read_line, write_all
from sdngcc.controller.databases.transport import Bounds
from sdngcc.controller.framework.ovsdb_tls import use_for_ovsdb
from sdngcc.controller.framework.tls import Files
from sdngcc.controller.network.directory import (
    ADDRESSES_MAX,
    ALLOWED_MAX,
    FLOATING_MAX,
    MACS_MAX,
    TEXT_MAX,
    Allowed,
    CloudPort,
    Segment,
    Trunk,
    address_of,
    allowed_of,
    clean_text,
    mac_of,
)
from sdngcc.controller.network.tenants import is_name

MODULE = "sdngcc.controller.databases.ovn"
VM_TYPE, LOCALNET = "", "localnet"
_RESIDENT = re.compile(r'is_chassis_resident\("([^"]{1,255})"\)')

Floating = tuple[tuple[Segment, bytes], ...]

_POLL_S = 0.1
# Of a process of its own, whose memory is bounded: a whole cloud's ports at once, as fast as they can be read.
_BOUNDS = Bounds(
    document_bytes=256 << 20, bytes_a_second=64 << 20, burst_bytes=256 << 20, work_ns_a_second=900_000_000,
    work_burst_ns=120_000_000_000, rows=262_144, kept_bytes=512 << 20, reading_ns=120_000_000_000,
    throttled_ns=60_000_000_000, rest=0.0,
)  # fmt: skip


class Orders(NamedTuple):
    """What to read: the remotes of one database's servers; ``tls`` for those with ssl:."""

    remotes: tuple[str, ...]
    tls: Optional[Files]
    tables_ns: int = TABLES_NS  # how long several connections may bring no tables

    def dump(self) -> bytes:
        """Return it as a line."""
        return json.dumps(self).encode() + b"\n"

    @classmethod
    def load(cls, line: bytes) -> "Orders":
        """Return what dump() made."""
        remotes, tls, tables_ns = json.loads(line)
        return cls(tuple(remotes), None if tls is None else Files(*tls), tables_ns)


def _allowed(row: Any, macs: tuple[bytes, ...], addresses: tuple[bytes, ...]) -> tuple[Allowed, ...]:
    """Return the addresses that port security lets a port use beside its own, which are given."""
    found: dict[Allowed, None] = {}
    for entry in row.port_security:
        mac = b""
        for word in entry.split()[: 2 + ADDRESSES_MAX]:
            theirs, known = mac_of(word), allowed_of(word, mac)
            if theirs is not None:
                mac = b"" if theirs in macs[:1] else theirs
            elif known is not None and not (known.bits == 128 and known.address in addresses):
                found[known] = None
    return tuple(found)[:ALLOWED_MAX]


def port_of(row: Any, segments: tuple[Segment, ...], floating: Floating = ()) -> CloudPort:
    """Return what a row of Port_Binding says; ``segments`` are its network's.

    Raises ValueError when its logical port has no name that an interface could have.
    """
    port_id, given, network = row.logical_port, row.external_ids, row.datapath.external_ids
    if not port_id or len(port_id) > TEXT_MAX:
        raise ValueError("logical_port is empty or too long")
    # A MAC alone is one that the port may use, too; the port's own stands with its addresses.
    entries = sorted((entry.split()[: 1 + ADDRESSES_MAX] for entry in row.mac), key=len, reverse=True)
    words = [word for entry in entries for word in entry]
    macs = tuple(dict.fromkeys(found for found in map(mac_of, words) if found is not None))[:MACS_MAX]
    addresses = tuple(dict.fromkeys(found for found in map(address_of, words) if found is not None))[:ADDRESSES_MAX]
    tenant = given.get("neutron:project_id", "")
    trunk = Trunk(row.parent_port[0], row.tag[0]) if row.parent_port and row.tag else None
    if trunk is not None and not 0 < len(trunk.parent) <= TEXT_MAX:
        raise ValueError("parent_port is empty or too long")
    return CloudPort(
        port_id,
        clean_text(given.get("neutron:port_name") or given.get("name", "")),
        clean_text(given.get("neutron:device_id", "")),
        clean_text(network.get("name2") or network.get("name", "")),
        clean_text(network.get("name", "").removeprefix("neutron-")),
        segments,
        macs,
        addresses,
        tenant if is_name(tenant) else "",
        trunk,
        _allowed(row, macs, addresses),
        floating,
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


def floating_of(rows: Iterable[Any], segments: Mapping[Any, tuple[Segment, ...]]) -> dict[str, Floating]:
    """Return the addresses that hosts of VMs translate, by the VMs' logical ports; rows: those with nat_addresses.

    ``segments`` are those of networks by UUIDs of Datapath_Binding.
    """
    found: dict[str, dict[tuple[Segment, bytes], None]] = {}
    for row in rows:
        for entry in row.nat_addresses:
            resident = _RESIDENT.search(entry)
            if resident is None:
                continue  # a router's gateway translates them
            addresses = [one for one in map(address_of, entry.split()[:ADDRESSES_MAX]) if one is not None]
            there = found.setdefault(resident[1], {})
            there.update(((segment, one), None) for segment in segments.get(row.datapath.uuid, ()) for one in addresses)
    return {port_id: tuple(sorted(there))[:FLOATING_MAX] for port_id, there in found.items()}


class Reader:
    """Gives what a Southbound database says to ``teller``."""

    def __init__(self, orders: Orders, teller: Teller) -> None:
        self._teller = teller
        self._client = Client(
            ",".join(orders.remotes), _SCHEMA, time.sleep, kind="ovn", consequence="", leader_only=False,
            tables_ns=orders.tables_ns, bounds=_BOUNDS, prepare=self._prepare,
        )  # fmt: skip
        self._changed: dict[Any, Any] = {}  # rows of VMs' ports by UUID
        self._names: dict[Any, str] = {}  # of logical ports by UUID
        self._all = True  # all rows are to be looked at
        self._translated = False  # addresses that hosts translate may be others
        self._segments: dict[Any, tuple[Segment, ...]] = {}
        self._floating: dict[str, Floating] = {}
        self._connection: Optional[int] = None

    def _prepare(self, idl: Any) -> None:
        wanted = [["type", "==", kind] for kind in (VM_TYPE, LOCALNET)]
        idl.cond_change("Port_Binding", [*wanted, ["nat_addresses", "!=", ["set", []]]])
        idl.notify = self._notify

    def run(self) -> None:
        """Take in what the database sent."""
        self._client.run()

    def report(self) -> Report:
        """Return the state of the database."""
        return Report(self._client.health.state, self._client.health.fault, 0)

    def _notify(self, event: str, row: Any, updates: Any = None) -> None:
        if row._table.name != "Port_Binding" or row.type == LOCALNET:
            self._all = True
        elif row.type == VM_TYPE:
            self._changed[row.uuid] = row
        else:
            self._translated = True

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
            self._floating = floating_of(rows.values(), self._segments)
            self._names = {}
            self._teller.give_all(self._read(list(rows.values())))
        else:
            if self._translated:
                self._retranslate(rows)
            self._give_changed(rows)
        self._translated = False
        self._changed.clear()

    def _retranslate(self, rows: Any) -> None:
        """Let the ports count as changed whose floating addresses are others now."""
        before, self._floating = self._floating, floating_of(rows.values(), self._segments)
        moved = {one for one in before.keys() | self._floating.keys() if before.get(one) != self._floating.get(one)}
        self._changed.update((uuid, rows[uuid]) for uuid, name in self._names.items() if name in moved and uuid in rows)

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
                port = port_of(row, segments, self._floating.get(row.logical_port, ()))
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

_TEXT_SET = _column({"key": "string", "min": 0, "max": "unlimited"})

# The few columns used, in the terms of ovn-sb.ovsschema: a client need not know more.
_SCHEMA: dict[str, Any] = {
    "name": "OVN_Southbound",
    "version": "20.27.0",
    "tables": {
        "Port_Binding": {
            "columns": {
                "logical_port": _column("string"),
                "type": _column("string"),
                "mac": _TEXT_SET,
                "datapath": _column({"key": {"type": "uuid", "refTable": "Datapath_Binding"}}),
                "tag": _column({"key": {"type": "integer", "minInteger": 1, "maxInteger": 4095}, "min": 0, "max": 1}),
                "parent_port": _column({"key": "string", "min": 0, "max": 1}),
                "port_security": _TEXT_SET,
                "nat_addresses": _TEXT_SET,
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
