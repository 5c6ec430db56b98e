# SPDX-License-Identifier: Apache-2.0
"""Extension ``sdngcc`` of neutron-ovn-agent: QoS policies become keys of the shim.

It looks at OVN's northbound database for what Neutron wants and at this host's Open vSwitch for which ports are here;
whatever changes, it computes anew what the interface concerned is to have, and writes the difference.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional

from neutron.agent.ovn.extensions import extension_manager
from oslo_log import log as logging
from ovsdbapp.backend.ovs_idl import event

from sdngcc_neutron import config, ovn_rows
from sdngcc_neutron.interfaces import Interfaces

LOG = logging.getLogger(__name__)

PORTS, QOS = "Logical_Switch_Port", "QoS"


class InterfaceEvent(event.RowEvent):
    """An interface of this host has come, changed or gone."""

    def __init__(self, extension: ShimOvnExtension) -> None:
        self.extension = extension
        super().__init__((self.ROW_CREATE, self.ROW_UPDATE, self.ROW_DELETE), "Interface", None)

    def match_fn(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether a Neutron port is concerned."""
        if not self.extension.is_started:
            return False
        if what == self.ROW_UPDATE and not hasattr(old, "external_ids"):
            return False
        return "iface-id" in row.external_ids or "iface-id" in getattr(old, "external_ids", {})

    def run(self, what: str, row: Any, old: Any) -> None:
        """Note where the port is."""
        if what == self.ROW_DELETE:
            self.extension.unplugged(row.name)
        else:
            self.extension.plugged(row.name, row.external_ids.get("iface-id"))


class PortEvent(event.RowEvent):
    """A logical port has come, changed or gone."""

    def __init__(self, extension: ShimOvnExtension) -> None:
        self.extension = extension
        super().__init__((self.ROW_CREATE, self.ROW_UPDATE, self.ROW_DELETE), PORTS, None)

    def match_fn(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether the port is, or was, one of this host."""
        return self.extension.is_started and (self.extension.is_here(row.name, row.parent_name)
                                              or self.extension.is_here(row.name, getattr(old, "parent_name", [])))

    def run(self, what: str, row: Any, old: Any) -> None:
        """Look at the port again."""
        self.extension.refresh(row.name)


class QosEvent(event.RowEvent):
    """A row of QoS has come, changed or gone."""

    def __init__(self, extension: ShimOvnExtension) -> None:
        self.extension = extension
        super().__init__((self.ROW_CREATE, self.ROW_UPDATE, self.ROW_DELETE), QOS, None)

    def match_fn(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether it names a port."""
        return self.extension.is_started and ovn_rows.PORT_ID in row.external_ids

    def run(self, what: str, row: Any, old: Any) -> None:
        """Look at the port again."""
        self.extension.refresh(row.external_ids[ovn_rows.PORT_ID])


class ShimOvnExtension(extension_manager.OVNAgentExtension):
    """Writes weight, guarantee, ceiling, addresses and project of each port to its interface's external_ids."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._names: Dict[str, str] = {}
        """Interfaces by the id of the port that they are."""
        self._carried: Dict[str, str] = {}
        """By the id of each port that was written: that of the port with the interface, which a trunk's subport
        has not."""
        self._interfaces: Optional[Interfaces] = None

    @property
    def name(self) -> str:
        """What the extension is called in the log."""
        return "sdn-gcc's shim"

    @property
    def ovs_idl_events(self) -> List[event.RowEvent]:
        """Events of this host's Open vSwitch."""
        return [InterfaceEvent(self)]

    @property
    def nb_idl_tables(self) -> List[str]:
        """Tables of the northbound database that are read."""
        return [PORTS, QOS]

    @property
    def nb_idl_events(self) -> List[event.RowEvent]:
        """Events of the northbound database."""
        return [PortEvent(self), QosEvent(self)]

    @property
    def sb_idl_tables(self) -> List[str]:
        """Tables of the southbound database that are read: none."""
        return []

    @property
    def sb_idl_events(self) -> List[event.RowEvent]:
        """Events of the southbound database: none."""
        return []

    def initialize(self, *args: Any) -> None:
        """Make the options known."""
        config.register()
        super().initialize(*args)

    def start(self) -> None:
        """Look at every port that is here; from now on events are followed."""
        self._interfaces = Interfaces(self.agent_api.ovs_idl)
        super().start()
        rows = self.agent_api.ovs_idl.db_list("Interface", columns=["name", "external_ids"]).execute(check_error=True)
        for row in rows:
            if "iface-id" in row["external_ids"]:
                self.plugged(row["name"], row["external_ids"]["iface-id"])

    def is_here(self, port_id: str, parents: List[str]) -> bool:
        """Tell whether a port has an interface here, or had, or is carried by that of one of its parents.

        Takes no lock: the thread that asks feeds all events and must wait for none of them.
        """
        return port_id in self._names or port_id in self._carried or any(one in self._names for one in parents)

    def plugged(self, name: str, port_id: Optional[str]) -> None:
        """Take it that an interface is that of a port now; None: of no port any more."""
        with self._lock:
            for other in [known for known, where in self._names.items() if where == name and known != port_id]:
                self._unplug(other)
            if port_id is None:
                return
            self._names[port_id] = name
            self.refresh(port_id)
            for row in self._find(PORTS, ("parent_name", "=", [port_id])):
                self.refresh(row.name)

    def unplugged(self, name: str) -> None:
        """Take it that an interface is gone."""
        self.plugged(name, None)

    def _unplug(self, port_id: str) -> None:
        del self._names[port_id]
        for carried in [one for one, parent in self._carried.items() if parent == port_id]:
            self._remove(carried)

    def refresh(self, port_id: str) -> None:
        """Write what a port is to have now to the interface that carries it, if that is here."""
        with self._lock:
            rows = self._find(PORTS, ("name", "=", port_id))
            parent = (rows[0].parent_name or [port_id])[0] if rows else port_id
            if not rows or parent not in self._names:
                self._remove(port_id)
                return
            try:
                member = ovn_rows.member_of(rows[0], self._find(
                    QOS, ("external_ids", "=", {ovn_rows.PORT_ID: port_id})))
            except ValueError as wrong:
                LOG.error("Port %s: %s; what its interface has stays in force", port_id, wrong)
                return
            assert self._interfaces is not None, "started"
            self._carried[port_id] = parent
            self._interfaces.update(port_id, self._names[parent], member)

    def _remove(self, port_id: str) -> None:
        assert self._interfaces is not None, "started"
        self._carried.pop(port_id, None)
        self._interfaces.remove(port_id)

    def _find(self, table: str, condition: Any) -> List[Any]:
        """Return the rows of a northbound table that meet a condition."""
        return self.agent_api.nb_idl.db_find_rows(table, condition).execute(check_error=True)
