# SPDX-License-Identifier: Apache-2.0
"""Rows of OVSDB's table Interface: which of them carries a Neutron port's packets, and the keys for the shim there.

The keys go to ``external_ids``. Neutron's OVS agent sets or clears ``other_config`` of an interface whenever it binds
the port, which is after its extensions were told of it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Callable, Collection, Dict, FrozenSet, Mapping, Optional, Set

from oslo_log import log as logging

from sdngcc_neutron import config, mapping

LOG = logging.getLogger(__name__)

TABLE, COLUMN = "Interface", "external_ids"


@dataclass(frozen=True)
class Carrier:
    """The interface by which a port's packets enter the datapath."""

    name: str
    external_ids: Mapping[str, str]


class Interfaces:
    """The interfaces of this host that carry Neutron ports; may be called from several threads.

    ovsdb: ovsdbapp's interface to the Open_vSwitch database. subports: returns the ids of the ports that the interface
    of a trunk's parent carries beside it, by the parent's id; without it those of the trunk's bridge are meant.
    """

    def __init__(self, ovsdb: Any, subports: Optional[Callable[[str], Collection[str]]] = None) -> None:
        self._ovsdb = ovsdb
        self._subports = subports
        self._lock = threading.Lock()
        self._members: Dict[str, Dict[str, mapping.Member]] = {}
        """By interface: what is known of the Neutron ports that it carries, by port id."""
        self._trunks: Dict[str, str] = {}
        """The bridges of trunks, by the interface of the VM."""
        self._waiting: Set[str] = set()
        """Interfaces whose keys wait until all ports of their trunk are known."""

    def update(self, port_id: str, name: str, member: mapping.Member) -> None:
        """Write what a port is to have to the interface that carries it; name: its interface on the integration bridge.

        Does nothing for an interface that is gone.
        """
        with self._lock:
            carrier = self._carrier(name)
            if carrier is None:
                LOG.info("Port %s: interface %s is gone, nothing is written", port_id, name)
                return
            self._forget(port_id, but=carrier.name)
            self._members.setdefault(carrier.name, {})[port_id] = member
            self._write(carrier)

    def remove(self, port_id: str) -> None:
        """Take back what was written for a port; an interface that still carries others keeps what is theirs."""
        with self._lock:
            self._forget(port_id)
            self._rewrite_waiting()

    def carries(self, name: str) -> bool:
        """Tell whether something was written for an interface; takes no lock."""
        return name in self._members

    def refresh(self, name: str) -> None:
        """Write what an interface is to have, whose row somebody else has changed."""
        with self._lock:
            self._rewrite(name)

    def refresh_waiting(self) -> None:
        """Write what interfaces are to have that waited for all ports of their trunk, if they need not any more."""
        with self._lock:
            self._rewrite_waiting()

    def clear(self, name: str) -> None:
        """Take all keys from an interface, if it is there."""
        with self._lock:
            row = self._row(name)
            if row is not None:
                self._apply(Carrier(name, row[COLUMN]), {})

    def keyed(self) -> Dict[str, str]:
        """Return the ids of the Neutron ports whose interfaces have keys for the shim, by interface."""
        rows = self._ovsdb.db_list(TABLE, columns=["name", COLUMN]).execute(check_error=True)
        return {row["name"]: row[COLUMN]["iface-id"] for row in rows
                if "iface-id" in row[COLUMN] and not row[COLUMN].keys().isdisjoint(mapping.KEYS)}

    def _forget(self, port_id: str, but: Optional[str] = None) -> None:
        """Take a port from the interfaces that carried it, but not from the one named."""
        for name in [name for name, members in self._members.items() if port_id in members and name != but]:
            members = self._members[name]
            del members[port_id]
            if not members:
                del self._members[name]
            self._rewrite(name, gone=port_id)

    def _rewrite(self, name: str, gone: Optional[str] = None) -> None:
        row = self._row(name)
        if row is not None:
            self._write(Carrier(name, row[COLUMN]), gone)
        else:
            self._waiting.discard(name)
            self._trunks.pop(name, None)

    def _rewrite_waiting(self) -> None:
        for name in sorted(self._waiting):
            self._rewrite(name)

    def _row(self, name: str) -> Optional[Dict[str, Any]]:
        rows = self._ovsdb.db_list(TABLE, [name], columns=["name", "type", "options", COLUMN],
                                   if_exists=True).execute(check_error=True)
        return rows[0] if rows else None

    def _carrier(self, name: str) -> Optional[Carrier]:
        """Return the interface that carries what passes the named one of the integration bridge; None: it is gone.

        That is itself, but for a trunk's parent or subport: there it is a patch port towards the trunk's bridge, which
        has the VM's interface.
        """
        row = self._row(name)
        if row is None or row["type"] != "patch":
            return Carrier(name, row[COLUMN]) if row else None
        bridge = self._ovsdb.iface_to_br(row["options"].get("peer", "")).execute()
        for other in self._ovsdb.list_ifaces(bridge).execute() if bridge else []:
            row = self._row(other)
            if row is not None and row["type"] != "patch" and "iface-id" in row[COLUMN]:
                self._trunks[other] = bridge
                return Carrier(other, row[COLUMN])
        return None

    def _write(self, carrier: Carrier, gone: Optional[str] = None) -> None:
        members = self._members.get(carrier.name, {})
        self._waiting.discard(carrier.name)
        if not members:
            self._trunks.pop(carrier.name, None)
            self._apply(carrier, {})
            return
        settings = mapping.interface_settings(list(members.values()), config.weight_unit_kbps())
        for remark in settings.remarks:
            LOG.warning("Interface %s: %s", carrier.name, remark)
        # After a restart of the agent a trunk's ports are told one by one: until all are known, no address may be
        # missing and no ceiling be lower than before.
        is_new = carrier.external_ids.keys().isdisjoint(mapping.KEYS)
        unknown = frozenset() if is_new else self._carried(carrier) - members.keys() - {gone}
        if unknown:
            self._waiting.add(carrier.name)
            LOG.info("Interface %s: ports %s of its trunk are not known yet, what it has stays in force", carrier.name,
                     sorted(unknown))
            return
        self._apply(carrier, settings.keys)

    def _carried(self, carrier: Carrier) -> FrozenSet[str]:
        """Return the ids of the ports that an interface carries, if it is a trunk's; else none.

        What the OVS agent notes of them in the interface itself, ``subport_ids``, keeps those for ever that were taken
        from the trunk while no agent ran; the trunk's bridge has ports for those that are wired.
        """
        if self._subports is not None:
            parent = carrier.external_ids.get("iface-id")
            return frozenset([parent, *self._subports(parent)]) if parent else frozenset()
        bridge = self._trunks.get(carrier.name)
        rows = [self._row(name) for name in self._ovsdb.list_ifaces(bridge).execute() or ()] if bridge else []
        return frozenset(row[COLUMN]["iface-id"] for row in rows
                         if row is not None and row["type"] == "patch" and "iface-id" in row[COLUMN])

    def _apply(self, carrier: Carrier, keys: Mapping[str, str]) -> None:
        change = mapping.change(carrier.external_ids, keys)
        if not change:
            return
        try:
            with self._ovsdb.transaction(check_error=True, log_errors=False) as transaction:
                if change.remove:
                    transaction.add(self._ovsdb.db_remove(TABLE, carrier.name, COLUMN, *change.remove, if_exists=True))
                if change.put:
                    # What this does with a row that is gone differs by the version of ovsdbapp.
                    transaction.add(self._ovsdb.db_set(TABLE, carrier.name, (COLUMN, dict(change.put))))
        except Exception:
            if self._row(carrier.name) is not None:
                raise
            LOG.info("Interface %s is gone, nothing is written", carrier.name)
            return
        LOG.info("Interface %s: set %s, removed %s", carrier.name, dict(change.put), list(change.remove))
