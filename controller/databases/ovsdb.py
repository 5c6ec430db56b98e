# SPDX-License-Identifier: Apache-2.0
"""Names and policy of virtual machines in the hypervisors' OVSDB, by python-ovs' IDL.

Policy (weight, minimum, maximum, law) is written to the Interface's other_config, where ovs-vsctl writes it
too: it outlives the controller.  Other columns are read as well (stored.py).  Nothing here blocks: run() does
what can be done at once, and a transaction waits by the ``sleep`` it is given, for its own database only (client.py).
"""

import ipaddress
import logging
import re
import time
from typing import Any, Callable, Collection, Mapping, Optional, Sequence

from sdngcc.controller.budget import Stretches
from sdngcc.controller.databases.client import Client, PolicyError
from sdngcc.controller.databases.health import Health
from sdngcc.controller.databases.rows import PortRows, Rows, View
from sdngcc.controller.databases.stored import KEYS, Explained, Stored, Value, stored
from sdngcc.controller.databases.transport import rows_of
from sdngcc.controller.network.by_port import ByPort
from sdngcc.controller.network.hosts import Device, Devices
from sdngcc.controller.network.paths import Tunnel
from sdngcc.controller.wire.packets import mapped

TUNNELS = ("vxlan", "geneve", "gre", "ip6gre", "stt")
TENANT = "shim-tenant"
RATE_UNKNOWN = 1 << 63
ERROR = "sdngcc-error"  # of Open_vSwitch:external_ids, by the program `check` of packages
LOOK_S = 1.0  # between two looks at all Interfaces of a database for what is wrong
FAULT_MAX = 512  # characters of what is wrong with a node that are kept
_TURN = 16  # databases that are looked at before others of the process get their turn

LOG = logging.getLogger(__name__)


class Policy:
    """The OVSDB clients of all hypervisors.

    ``remotes`` are OVSDB connection methods; ``sleep`` takes seconds and lets others run. With ``whole_hosts`` every
    bridge of a database stands for all of its host's ports. Where several databases have one port of a switch, the
    first one of ``remotes`` counts, and after them the one that was added first.
    """

    def __init__(self, remotes: Sequence[str], sleep: Callable[[float], Any], whole_hosts: bool = False) -> None:
        self.remotes = tuple(remotes)
        self.schema = _SCHEMA
        self._sleep = sleep
        self._clients: list[Client] = []
        self._stretches = Stretches(sleep)
        self._rows = Rows(whole_hosts, self._stretches.pause)
        self._judged: dict[Client, tuple[int, int]] = {}  # the version of the rows that were judged last
        self._look_s: dict[Client, float] = {}  # when it may be judged again
        self._interfaces = View(self._rows, lambda rows: rows.interface.external_ids.get("iface-id"))
        self._devices = View(self._rows, _device)
        self._tunnels = View(self._rows, _tunnel)
        self._vlans = View(self._rows, lambda rows: next(iter(rows.port.tag), None))
        self._tenants = View(self._rows, lambda rows: stored(*rows).text(TENANT))
        for remote in remotes:
            self.add(Client(remote, _SCHEMA, sleep))

    def run(self) -> None:
        """Take in what the databases sent, some at a time; what a change costs is its database's to pay."""
        changed = []
        for number, client in enumerate(list(self._clients), 1):
            before = client.version
            client.run()
            if client.version != before:
                changed.append(client)
                self._sleep(0)
            self._judge(client)
            if not number % _TURN:
                self._sleep(0)
        before_ns = self._stretches.spent_ns
        self._stretches.begin()
        self._rows.refresh()
        for view in (self._interfaces, self._devices, self._tunnels, self._vlans, self._tenants):
            view.values()
        self._stretches.end()
        for client in changed:
            client.charge((self._stretches.spent_ns - before_ns) // len(changed))

    def add(self, client: Client) -> None:
        """Follow one more database, which counts after those followed already where several have one bridge."""
        self._clients.append(client)
        self._rows.add(client)

    def remove(self, client: Client) -> None:
        """Follow a database no more."""
        self._clients.remove(client)
        self._judged.pop(client, None)
        self._look_s.pop(client, None)
        self._rows.remove(client)

    def reread(self, client: Client) -> None:
        """Look at all rows of a database again: what is believed of it changed."""
        self._rows.reread(client)

    def _judge(self, client: Client) -> None:
        """Take what a node says is wrong with its shim as its database's fault; a change is logged, once."""
        now_s = time.monotonic()
        if not client.whole or self._judged.get(client) == client.version or now_s < self._look_s.get(client, now_s):
            return
        self._judged[client], self._look_s[client] = client.version, now_s + LOOK_S
        self._stretches.begin()
        fault = _fault(client.idl, self._stretches.pause)
        self._stretches.end()
        if fault is not None and fault != client.health.node_fault:
            LOG.error("%s database %s: %s", client.health.kind, client.health.remote, fault)
        client.health.node_fault = fault

    def health(self) -> list[Health]:
        """Return the state of each database."""
        return [client.health for client in self._clients]

    def interfaces(self) -> ByPort[str]:
        """Return external_ids:iface-id by (datapath id, port name)."""
        return self._interfaces.values()

    def devices(self) -> Devices:
        """Return the kernel's index and the machine's Ethernet address of each interface that has a device."""
        return self._devices.values().by_switch

    def tunnels(self) -> ByPort[Tunnel]:
        """Return the end points of tunnels by (datapath id, port name); those set by flows are left out."""
        return self._tunnels.values()

    def vlans(self) -> ByPort[int]:
        """Return the VLANs of access ports by (datapath id, port name)."""
        return self._vlans.values()

    def tenants(self) -> ByPort[str]:
        """Return the tenants of ports by (datapath id, port name), as the column that counts has them."""
        return self._tenants.values()

    def _stored(self, dpid: int, name: str) -> Optional[Stored]:
        """Return what the columns of a port hold; None when no database has the port."""
        rows = self._rows.of(dpid).get(name)
        return None if rows is None else stored(*rows)

    def read(self, dpid: int, name: str) -> Optional[dict[str, Optional[Value]]]:
        """Return the policy that is set for a port, rates in bit/s; None when no database has the port."""
        found = self._stored(dpid, name)
        return None if found is None else found.policy()

    def explain(self, dpid: int, name: str) -> Optional[Explained]:
        """Return where each value of a port's policy is from; None when no database has the port."""
        rows = self._rows.of(dpid).get(name)
        if rows is None:
            return None
        row = rows.interface
        hosts = rows_of(row._idl, "Open_vSwitch")
        law = next((host.other_config["shim-law"] for host in hosts if "shim-law" in host.other_config), None)
        return stored(*rows).explain(law, row.status.get("shim-error"))

    def guarantees(self, dpid: int, names: Collection[str]) -> tuple[int, Optional[int]]:
        """Return what machines of a bridge with other names are guaranteed, and its smallest uplink capacity, in bit/s.

        The capacity is None when no uplink says its own (shim-capacity): the device's link speed holds then.
        """
        others, capacity = 0, None
        for name, rows in self._rows.of(dpid).items():
            keys = stored(*rows)
            role = keys.text("shim-role") or ("vm" if "iface-id" in rows.interface.external_ids else "")
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
            if any(row._idl is not transaction.idl for row in rows.values()):
                raise PolicyError(f"the database of switch {dpid:016x} is being read anew; nothing was sent to it")
            if any("min" in wanted or "max" in wanted for wanted in changes.values()):
                for other in self._rows.of(dpid).values():
                    if other.interface._idl is idl:
                        expect(other.interface, "other_config")
                        expect(other.interface, "external_ids")
                        expect(other.port, "other_config")
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
        client = next((client for client in self._clients if client.idl is idl), None)
        if client is None:
            raise PolicyError(f"the database of switch {dpid:016x} is being read anew; nothing was sent to it")
        client.store(change, holds)

    def _row(self, dpid: int, name: str) -> Any:
        """Return a port's Interface row; raises PolicyError when no database has it."""
        rows = self._rows.of(dpid).get(name)
        if rows is None:
            remotes = ", ".join(self.remotes) or "none is set"
            raise PolicyError(f"no OVSDB remote has port {name} of switch {dpid:016x} (setting ovsdb: {remotes})")
        return rows.interface


def expect(row: Any, column: str) -> None:
    """Let the database take the transaction only while a column is as it was read.

    python-ovs sends what verify() asks for only with rows that the transaction changes, so the column is written, too.
    """
    row.verify(column)
    setattr(row, column, getattr(row, column))


def _fault(idl: Any, pause: Callable[[], None]) -> Optional[str]:
    """Return what a node's database says is wrong with its shim, None when it says nothing.

    That is the alarm that its packages raise, or what its ovs-vswitchd complains about. pause lets others run.
    """
    for host in rows_of(idl, "Open_vSwitch"):
        if host.external_ids.get(ERROR):
            return _shown(host.external_ids[ERROR])
        pause()
    found: dict[str, str] = {}
    for row in rows_of(idl, "Interface"):
        error = row.status.get("shim-error")
        if error:
            found[row.name] = error
        pause()
    if not found:
        return None
    name = min(found)
    return _shown(f"ovs-vswitchd complains about {len(found)} interfaces (shim-error), {name}: {found[name]}")


def _shown(text: str) -> str:
    """Return a text of a node without what a terminal or a log would obey, of bounded length."""
    return "".join(one if one.isprintable() else "?" for one in text[:FAULT_MAX])


def _device(rows: PortRows) -> Optional[Device]:
    """Return the device of an interface that has one."""
    row = rows.interface
    if not row.ifindex or row.ifindex[0] <= 0:
        return None
    return Device(row.ifindex[0], _ethernet(row.external_ids.get("attached-mac", "")))


def _tunnel(rows: PortRows) -> Optional[Tunnel]:
    """Return the end points of a tunnel that are set; None when flows set the remote one, or it is no tunnel."""
    row = rows.interface
    remote = _packed(row.options.get("remote_ip", "")) if row.type in TUNNELS else None
    return None if remote is None else Tunnel(_packed(row.options.get("local_ip", "")), remote)


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
        "Open_vSwitch": {"columns": {"other_config": _MAP, "external_ids": _MAP}, "isRoot": True},
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
