# SPDX-License-Identifier: Apache-2.0
"""Names and policy of virtual machines in the hypervisors' OVSDB, by python-ovs' IDL.

Policy (weight, minimum, maximum) is written to the Interface's other_config, where ovs-vsctl writes it
too: it outlives the controller, and there is one place where it is kept.  Nothing here blocks: run() does
what can be done at once, and a transaction waits by the ``sleep`` it is given, for its own database only (client.py).
"""

import ipaddress
from typing import Any, Callable, Mapping, Optional, Sequence

from sdngcc.controller.databases.client import Client, PolicyError
from sdngcc.controller.databases.health import Health
from sdngcc.controller.network.paths import Tunnel
from sdngcc.controller.wire.packets import mapped

TUNNELS = ("vxlan", "geneve", "gre", "ip6gre", "stt")
KEYS = {"weight": "shim-weight", "min": "shim-min-rate", "max": "shim-max-rate"}
RATE_UNKNOWN = 1 << 63


class Policy:
    """The OVSDB clients of all hypervisors.

    ``remotes`` are OVSDB connection methods; ``sleep`` takes seconds and lets others run.
    """

    def __init__(self, remotes: Sequence[str], sleep: Callable[[float], Any]) -> None:
        self.remotes = tuple(remotes)
        self._clients = [Client(remote, _SCHEMA, sleep) for remote in remotes]
        self._seen: list[int] = []
        self._ports: dict[tuple[int, str], Any] = {}

    def run(self) -> None:
        """Take in what the databases sent."""
        for client in self._clients:
            client.run()

    def health(self) -> list[Health]:
        """Return the state of each database."""
        return [client.health for client in self._clients]

    def interfaces(self) -> dict[tuple[int, str], str]:
        """Return external_ids:iface-id by (datapath id, port name)."""
        return {
            place: row.external_ids["iface-id"]
            for place, row in self._rows().items()
            if "iface-id" in row.external_ids
        }

    def tunnels(self) -> dict[tuple[int, str], Tunnel]:
        """Return the end points of tunnels by (datapath id, port name); those set by flows are left out."""
        found = {}
        for place, row in self._rows().items():
            if row.type in TUNNELS:
                remote = _packed(row.options.get("remote_ip", ""))
                if remote is not None:
                    found[place] = Tunnel(_packed(row.options.get("local_ip", "")), remote)
        return found

    def vlans(self) -> dict[tuple[int, str], int]:
        """Return the VLANs of access ports by (datapath id, port name)."""
        return {
            (int(bridge.datapath_id[0], 16), row.name): port.tag[0]
            for client in reversed(self._clients)
            for bridge in client.idl.tables["Bridge"].rows.values()
            if bridge.datapath_id
            for port in bridge.ports
            if port.tag
            for row in port.interfaces
        }

    def _rows(self) -> dict[tuple[int, str], Any]:
        """Return all Interface rows by (datapath id, port name); where two databases have one, the first's."""
        seen = [client.idl.change_seqno for client in self._clients]
        if seen != self._seen:
            self._seen = seen
            self._ports = {
                (int(bridge.datapath_id[0], 16), row.name): row
                for client in reversed(self._clients)
                for bridge in client.idl.tables["Bridge"].rows.values()
                if bridge.datapath_id
                for port in bridge.ports
                for row in port.interfaces
            }
        return self._ports

    def read(self, dpid: int, name: str) -> Optional[dict[str, int]]:
        """Return the policy stored for a port, rates in bit/s; None when no database has the port."""
        row = self._rows().get((dpid, name))
        if row is None:
            return None
        return {key: _number(row, column) for key, column in KEYS.items() if column in row.other_config}

    def guarantees(self, dpid: int, name: str) -> tuple[int, Optional[int]]:
        """Return what a bridge's other machines are guaranteed, and its smallest uplink capacity, in bit/s.

        The capacity is None when no uplink says its own (shim-capacity): the device's link speed holds then.
        """
        others, capacity = 0, None
        for (found, _), row in self._rows().items():
            if found != dpid:
                continue
            role = row.other_config.get("shim-role", "vm" if "iface-id" in row.external_ids else "")
            if role == "vm" and row.name != name:
                others += _number(row, KEYS["min"])
            if role == "uplink" and _number(row, "shim-capacity"):
                capacity = min(capacity or RATE_UNKNOWN, _number(row, "shim-capacity"))
        return others, capacity

    def write(
        self, dpid: int, name: str, changes: Mapping[str, Optional[int]], check: Callable[[], None] = lambda: None
    ) -> None:
        """Store weight, min, max (bit/s) of a port; None removes a key, so that its default holds.

        ``check`` raises what it likes against the change. The database takes min and max only while the policy of all
        the bridge's ports is what check saw; else check decides anew. So of two controllers that grant the same
        capacity at once, the later one sees the other's guarantee.

        Raises PolicyError when the port is in no database, or the database is away or refuses the change: nothing was
        stored then, nor will be. Raises OutcomeUnknown when it was sent and no answer came.
        """

        def change(transaction: Any) -> None:
            check()
            row = self._row(dpid, name)
            if "min" in changes or "max" in changes:
                for (found, _), other in self._rows().items():
                    if found == dpid and other._idl is row._idl:
                        expect(other, "other_config")
            for key, value in changes.items():
                if value is None:
                    row.delkey("other_config", KEYS[key])
                else:
                    row.setkey("other_config", KEYS[key], str(value))

        def holds() -> bool:
            stored = self.read(dpid, name)
            return stored is not None and all(stored.get(key) == value for key, value in changes.items())

        client = next(client for client in self._clients if client.idl is self._row(dpid, name)._idl)
        client.store(change, holds)

    def _row(self, dpid: int, name: str) -> Any:
        """Return a port's Interface row; raises PolicyError when no database has it."""
        row = self._rows().get((dpid, name))
        if row is None:
            remotes = ", ".join(self.remotes) or "none is set"
            raise PolicyError(f"no OVSDB remote has port {name} of switch {dpid:016x} (setting ovsdb: {remotes})")
        return row


def expect(row: Any, column: str) -> None:
    """Let the database take the transaction only while a column is as it was read.

    python-ovs sends what verify() asks for only with rows that the transaction changes, so the column is written, too.
    """
    row.verify(column)
    setattr(row, column, getattr(row, column))


def _number(row: Any, key: str) -> int:
    """Return a number of an Interface's other_config; 0 when there is none."""
    text = row.other_config.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _packed(text: str) -> Optional[bytes]:
    """Return an address in the form of Host.addresses, None when the text is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return mapped(address.packed) if address.version == 4 else address.packed


def _column(kind: Any) -> dict[str, Any]:
    return {"type": kind}


def _set_of(base: Any, low: int, high: Any) -> dict[str, Any]:
    return _column({"key": base, "min": low, "max": high})


_MAP = _column({"key": "string", "value": "string", "min": 0, "max": "unlimited"})

# The few columns used, in the terms of vswitch.ovsschema: a client need not know more.
_SCHEMA: dict[str, Any] = {
    "name": "Open_vSwitch",
    "version": "8.0.0",
    "tables": {
        "Bridge": {
            "columns": {
                "name": _column("string"),
                "datapath_id": _set_of("string", 0, 1),
                "ports": _set_of({"type": "uuid", "refTable": "Port"}, 0, "unlimited"),
            },
            "isRoot": True,
        },
        "Port": {
            "columns": {
                "name": _column("string"),
                "interfaces": _set_of({"type": "uuid", "refTable": "Interface"}, 1, "unlimited"),
                "tag": _set_of({"type": "integer", "minInteger": 0, "maxInteger": 4095}, 0, 1),
            },
            "isRoot": True,
        },
        "Interface": {
            "columns": {
                "name": _column("string"),
                "type": _column("string"),
                "options": _MAP,
                "external_ids": _MAP,
                "other_config": _MAP,
            },
            "isRoot": True,
        },
    },
}
