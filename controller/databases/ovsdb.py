# SPDX-License-Identifier: Apache-2.0
"""Names and policy of virtual machines in the hypervisors' OVSDB, by python-ovs' IDL.

Policy (weight, minimum, maximum, law) is written to the Interface's other_config, where ovs-vsctl writes it
too: it outlives the controller.  Other columns are read as well (stored.py).  Nothing here blocks: run() does
what can be done at once, and a transaction waits by the ``sleep`` it is given, for its own database only (client.py).
"""

import ipaddress
import re
from typing import Any, Callable, Collection, Iterator, Mapping, Optional, Sequence

from sdngcc.controller.databases.client import Client, PolicyError
from sdngcc.controller.databases.health import Health
from sdngcc.controller.databases.stored import KEYS, Explained, Stored, Value, stored
from sdngcc.controller.network.hosts import Device, Devices
from sdngcc.controller.network.paths import Tunnel
from sdngcc.controller.wire.packets import mapped

TUNNELS = ("vxlan", "geneve", "gre", "ip6gre", "stt")
TENANT = "shim-tenant"
RATE_UNKNOWN = 1 << 63
_TURN = 16  # databases that are looked at before others of the process get their turn


class Policy:
    """The OVSDB clients of all hypervisors.

    ``remotes`` are OVSDB connection methods; ``sleep`` takes seconds and lets others run. With ``whole_hosts`` every
    bridge of a database stands for all of its host's ports.
    """

    def __init__(self, remotes: Sequence[str], sleep: Callable[[float], Any], whole_hosts: bool = False) -> None:
        self.remotes = tuple(remotes)
        self._whole_hosts = whole_hosts
        self.schema = _SCHEMA
        self._sleep = sleep
        self._clients = [Client(remote, _SCHEMA, sleep) for remote in remotes]
        self._seen: list[int] = []
        self._ports: dict[tuple[int, str], Any] = {}
        self._port_rows: dict[tuple[int, str], Any] = {}  # of table Port, by the same key
        self._tenants: dict[tuple[int, str], str] = {}
        self._tenants_seen: list[int] = []

    def run(self) -> None:
        """Take in what the databases sent, some at a time."""
        for number, client in enumerate(list(self._clients), 1):
            client.run()
            if not number % _TURN:
                self._sleep(0)

    def add(self, client: Client) -> None:
        """Follow one more database, which counts after those followed already where several have one bridge."""
        self._clients.append(client)
        self.reread()

    def remove(self, client: Client) -> None:
        """Follow a database no more."""
        self._clients.remove(client)
        self.reread()

    def reread(self) -> None:
        """Look at all rows again: what is believed of which database changed."""
        self._seen = []

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

    def devices(self) -> Devices:
        """Return the kernel's index and the machine's Ethernet address of each interface that has a device."""
        found: Devices = {}
        for (dpid, name), row in self._rows().items():
            if row.ifindex and row.ifindex[0] > 0:
                ethernet = _ethernet(row.external_ids.get("attached-mac", ""))
                found.setdefault(dpid, {})[name] = Device(row.ifindex[0], ethernet)
        return found

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
            (dpid, row.name): port.tag[0]
            for dpid, ports in self._bridges()
            for port in ports
            if port.tag
            for row in port.interfaces
        }

    def tenants(self) -> dict[tuple[int, str], str]:
        """Return the tenants of ports by (datapath id, port name), as the column that counts has them."""
        rows = self._rows()
        if self._tenants_seen is not self._seen:
            self._tenants_seen = self._seen
            texts = {place: stored(row, self._port_rows[place]).text(TENANT) for place, row in rows.items()}
            self._tenants = {place: text for place, text in texts.items() if text is not None}
        return self._tenants

    def _bridges(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield (datapath id, its ports); of several with one id the first database's come last."""
        for client in reversed(self._clients):
            found = list(bridges(client.idl))
            for dpid, bridge in found:
                if client.speaks_for(dpid):
                    yield dpid, [port for _, one in found if one is bridge or self._whole_hosts for port in one.ports]

    def _rows(self) -> dict[tuple[int, str], Any]:
        """Return all Interface rows by (datapath id, port name); where two databases have one, the first's."""
        seen = [client.idl.change_seqno for client in self._clients]
        if seen != self._seen:
            self._seen = seen
            self._ports, self._port_rows = {}, {}
            for dpid, ports in self._bridges():
                for port in ports:
                    for row in port.interfaces:
                        self._ports[dpid, row.name] = row
                        self._port_rows[dpid, row.name] = port
        return self._ports

    def _stored(self, dpid: int, name: str) -> Optional[Stored]:
        """Return what the columns of a port hold; None when no database has the port."""
        row = self._rows().get((dpid, name))
        return None if row is None else stored(row, self._port_rows[dpid, name])

    def read(self, dpid: int, name: str) -> Optional[dict[str, Optional[Value]]]:
        """Return the policy that is set for a port, rates in bit/s; None when no database has the port."""
        found = self._stored(dpid, name)
        return None if found is None else found.policy()

    def explain(self, dpid: int, name: str) -> Optional[Explained]:
        """Return where each value of a port's policy is from; None when no database has the port."""
        found = self._stored(dpid, name)
        if found is None:
            return None
        row = self._rows()[dpid, name]
        hosts = row._idl.tables["Open_vSwitch"].rows.values()
        law = next((host.other_config["shim-law"] for host in hosts if "shim-law" in host.other_config), None)
        return found.explain(law, row.status.get("shim-error"))

    def guarantees(self, dpid: int, names: Collection[str]) -> tuple[int, Optional[int]]:
        """Return what machines of a bridge with other names are guaranteed, and its smallest uplink capacity, in bit/s.

        The capacity is None when no uplink says its own (shim-capacity): the device's link speed holds then.
        """
        others, capacity = 0, None
        for (found, name), row in self._rows().items():
            if found != dpid:
                continue
            keys = stored(row, self._port_rows[found, name])
            role = keys.text("shim-role") or ("vm" if "iface-id" in row.external_ids else "")
            if role == "vm" and name not in names:
                others += keys.number(KEYS["min"])
            if role == "uplink" and keys.number("shim-capacity"):
                capacity = min(capacity or RATE_UNKNOWN, keys.number("shim-capacity"))
        return others, capacity

    def write(
        self,
        dpid: int,
        changes: Mapping[str, Mapping[str, Optional[Value]]],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Store changes of policy of ports of one bridge, by name: all of them or none; None removes a key.

        ``check`` raises what it likes against the changes. The database takes min and max only while the policy of all
        the bridge's ports is what check saw; else check decides anew. So of two controllers that grant the same
        capacity at once, the later one sees the other's guarantee.

        Raises PolicyError when a port is in no database, or the database is away or refuses the changes: nothing was
        stored then, nor will be. Raises OutcomeUnknown when they were sent and no answer came.
        """

        def change(transaction: Any) -> None:
            check()
            rows = {name: self._row(dpid, name) for name in changes}
            if any("min" in wanted or "max" in wanted for wanted in changes.values()):
                for (found, name), other in self._rows().items():
                    if found == dpid and other._idl is idl:
                        expect(other, "other_config")
                        expect(other, "external_ids")
                        expect(self._port_rows[found, name], "other_config")
            for name, row in rows.items():
                for key, value in changes[name].items():
                    if value is None:
                        row.delkey("other_config", KEYS[key])
                    else:
                        row.setkey("other_config", KEYS[key], str(value))

        def holds() -> bool:
            for name, wanted in changes.items():
                found = self._stored(dpid, name)
                if found is None or any(
                    found.own(key) != (None if value is None else str(value)) for key, value in wanted.items()
                ):
                    return False
            return True

        idls = {id(row._idl): row._idl for row in (self._row(dpid, name) for name in changes)}
        if len(idls) > 1:
            raise PolicyError(f"ports of switch {dpid:016x} are in several databases; change them one by one")
        idl = next(iter(idls.values()))
        next(client for client in self._clients if client.idl is idl).store(change, holds)

    def _row(self, dpid: int, name: str) -> Any:
        """Return a port's Interface row; raises PolicyError when no database has it."""
        row = self._rows().get((dpid, name))
        if row is None:
            remotes = ", ".join(self.remotes) or "none is set"
            raise PolicyError(f"no OVSDB remote has port {name} of switch {dpid:016x} (setting ovsdb: {remotes})")
        return row


def bridges(idl: Any) -> Iterator[tuple[int, Any]]:
    """Yield (datapath id, Bridge row) of a database's bridges that have one."""
    for bridge in idl.tables["Bridge"].rows.values():
        digits = bridge.datapath_id[0] if bridge.datapath_id else ""
        if re.fullmatch("[0-9a-fA-F]{1,16}", digits):
            yield int(digits, 16), bridge


def expect(row: Any, column: str) -> None:
    """Let the database take the transaction only while a column is as it was read.

    python-ovs sends what verify() asks for only with rows that the transaction changes, so the column is written, too.
    """
    row.verify(column)
    setattr(row, column, getattr(row, column))


def _ethernet(text: str) -> bytes:
    """Return an Ethernet address, 6 zeros when the text is none."""
    known = re.fullmatch("(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", text)
    return bytes.fromhex(text.replace(":", "")) if known else bytes(6)


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
        "Open_vSwitch": {"columns": {"other_config": _MAP}, "isRoot": True},
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
                "other_config": _MAP,
            },
            "isRoot": True,
        },
        "Interface": {
            "columns": {
                "name": _column("string"),
                "type": _column("string"),
                "ifindex": _set_of({"type": "integer", "minInteger": 0, "maxInteger": 0xFFFFFFFF}, 0, 1),
                "options": _MAP,
                "external_ids": _MAP,
                "other_config": _MAP,
                "status": _MAP,
            },
            "isRoot": True,
        },
    },
}
