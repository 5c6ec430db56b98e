# SPDX-License-Identifier: Apache-2.0
"""What extension ``sdngcc`` of neutron-ovn-agent does: QoS policies become keys of the shim.

It looks at OVN's northbound database for what Neutron wants and at this host's Open vSwitch for which ports are here;
whatever changes, it computes anew what the interface concerned is to have, and writes the difference.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Dict, List, Optional

from oslo_log import log as logging
from ovsdbapp.backend.ovs_idl import event

from sdngcc_neutron import config, ovn_rows
from sdngcc_neutron.guard import guarded
from sdngcc_neutron.interfaces import Interfaces
from sdngcc_neutron.worker import RETRY_S, Worker

LOG = logging.getLogger(__name__)

PORTS, QOS = "Logical_Switch_Port", "QoS"

KEPT = "The port keeps what it has until it is tried again, or changes"


class Event(event.RowEvent):
    """Rows of a table that come, change or go."""

    def __init__(self, ports: Ports, table: str) -> None:
        self.ports = ports
        super().__init__((self.ROW_CREATE, self.ROW_UPDATE, self.ROW_DELETE), table, None)

    def __call__(self, agent: Any) -> Event:
        """Return itself: agents up to Neutron 28 take a list of classes and make their events."""
        return self

    @guarded("event", KEPT, bool)
    def match_fn(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether the extension is to look."""
        return self.ports.is_started and self.concerns(what, row, old)

    @guarded("event", KEPT)
    def run(self, what: str, row: Any, old: Any) -> None:
        """Look."""
        self.look(what, row)

    def concerns(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether a port is concerned."""
        raise NotImplementedError

    def look(self, what: str, row: Any) -> None:
        """Look at the port again."""
        raise NotImplementedError


class InterfaceEvent(Event):
    """An interface of this host has come, changed or gone."""

    def concerns(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether a Neutron port is concerned."""
        if what == self.ROW_UPDATE and not hasattr(old, "external_ids"):
            return False
        return "iface-id" in row.external_ids or "iface-id" in getattr(old, "external_ids", {})

    def look(self, what: str, row: Any) -> None:
        """Note where the port is."""
        self.ports.plugged(row.name, None if what == self.ROW_DELETE else row.external_ids.get("iface-id"))


class PortEvent(Event):
    """A logical port has come, changed or gone."""

    def concerns(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether the port is, or was, one of this host."""
        return (self.ports.is_here(row.name, row.parent_name)
                or self.ports.is_here(row.name, getattr(old, "parent_name", [])))

    def look(self, what: str, row: Any) -> None:
        """Look at the port again."""
        self.ports.refresh(row.name)


class QosEvent(Event):
    """A row of QoS has come, changed or gone."""

    def concerns(self, what: str, row: Any, old: Any) -> bool:
        """Tell whether it names a port."""
        return ovn_rows.PORT_ID in row.external_ids

    def look(self, what: str, row: Any) -> None:
        """Look at the port again."""
        self.ports.refresh(row.external_ids[ovn_rows.PORT_ID])


class Ports:
    """The ports of this host."""

    def __init__(self) -> None:
        self.is_started = False
        self._lock = threading.RLock()
        self._worker = Worker("port")
        self._names: Dict[str, str] = {}
        """Interfaces by the id of the port that they are."""
        self._carried: Dict[str, str] = {}
        """By the id of each port that was written: that of the port with the interface, which a trunk's subport
        has not."""
        self._interfaces: Optional[Interfaces] = None
        self._northbound: Any = None

    def initialize(self) -> None:
        """Make the options known."""
        config.register()

    def interface_events(self) -> List[Event]:
        """Return the events of this host's Open vSwitch to follow."""
        return [InterfaceEvent(self, "Interface")]

    def later(self, key: str, run: Callable[[], Any]) -> None:
        """Do something in the extension's own thread, again and again until it does not fail."""
        self._worker.put(key, run)

    def connect(self, ovs_idl: Any) -> None:
        """Look at every port that is here; from now on events are followed. Waits for the northbound database."""
        if self._northbound is None:
            self._northbound = self._northbound_idl()
        self._interfaces = Interfaces(ovs_idl, self._subports_of)
        self.is_started = True
        rows = ovs_idl.db_list("Interface", columns=["name", "external_ids"]).execute(check_error=True)
        for row in rows:
            if "iface-id" in row["external_ids"]:
                self._found(row["name"], row["external_ids"]["iface-id"])

    @guarded("port", KEPT)
    def _found(self, name: str, port_id: str) -> None:
        """Take a port that was here before, whatever is wrong with others."""
        self.plugged(name, port_id)

    def _northbound_idl(self) -> Any:
        from neutron.agent.ovn.agent import ovsdb
        from neutron.conf.plugins.ml2.drivers.ovn import ovn_conf

        LOG.info("Waiting for OVN's northbound database at %s, [ovn] ovn_nb_connection; no port gets keys for the shim "
                 "before it answers", ovn_conf.get_ovn_nb_connection())
        events = [PortEvent(self, PORTS), QosEvent(self, QOS)]
        found = ovsdb.MonitorAgentOvnNbIdl({PORTS, QOS}, events).start()
        LOG.info("OVN's northbound database answers")
        return found

    def is_here(self, port_id: str, parents: List[str]) -> bool:
        """Tell whether a port has an interface here, or had, or is carried by that of one of its parents.

        Takes no lock: the thread that asks feeds all events and must wait for none of them.
        """
        return port_id in self._names or port_id in self._carried or any(one in self._names for one in parents)

    def plugged(self, name: str, port_id: Optional[str]) -> None:
        """Take it that an interface is that of a port now; None: of no port any more, or gone."""
        with self._lock:
            for other in [known for known, where in self._names.items() if where == name and known != port_id]:
                self._unplug(other)
            if port_id is None:
                return
            self._names[port_id] = name
        self.refresh(port_id)
        self._retried(("subports", port_id), functools.partial(self._refresh_subports, port_id))

    def _unplug(self, port_id: str) -> None:
        del self._names[port_id]
        for carried in [one for one, parent in self._carried.items() if parent == port_id]:
            self._remove(carried)

    def refresh(self, port_id: str) -> None:
        """Write what a port is to have now to the interface that carries it, if that is here."""
        self._retried(("port", port_id), functools.partial(self._refresh, port_id))

    def _retried(self, key: Any, run: Callable[[], Any]) -> None:
        """Do something, and again later if it fails, which is raised."""
        try:
            run()
        except Exception:
            self._worker.put(key, run, RETRY_S)
            raise
        self._worker.drop(key)

    def _refresh_subports(self, port_id: str) -> None:
        for name in self._subports_of(port_id):
            self._refresh(name)

    def _subports_of(self, port_id: str) -> List[str]:
        # A column that may be empty is compared as the value that it holds.
        return [row.name for row in self._find(PORTS, ("parent_name", "=", port_id))]

    def _refresh(self, port_id: str) -> None:
        with self._lock:
            assert self._interfaces is not None, "started"
            rows = self._find(PORTS, ("name", "=", port_id))
            parent = (rows[0].parent_name or [port_id])[0] if rows else port_id
            if not rows or parent not in self._names:
                self._remove(port_id)
                if port_id in self._names:
                    # It may have been deleted while no agent ran.
                    self._interfaces.clear(self._names[port_id])
                return
            try:
                member = ovn_rows.member_of(rows[0], self._find(
                    QOS, ("external_ids", "=", {ovn_rows.PORT_ID: port_id})))
            except ValueError as wrong:
                LOG.error("Port %s: %s; what its interface has stays in force", port_id, wrong)
                return
            self._carried[port_id] = parent
            self._interfaces.update(port_id, self._names[parent], member)

    def _remove(self, port_id: str) -> None:
        assert self._interfaces is not None, "started"
        self._carried.pop(port_id, None)
        self._interfaces.remove(port_id)

    def _find(self, table: str, condition: Any) -> List[Any]:
        """Return the rows of a northbound table that meet a condition."""
        return self._northbound.db_find_rows(table, condition).execute(check_error=True)
