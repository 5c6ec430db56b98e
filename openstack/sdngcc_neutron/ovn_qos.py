# SPDX-License-Identifier: Apache-2.0
"""ML2/OVN's class for QoS without what the shim does instead.

ML2/OVN has no place for another QoS backend: its mechanism driver writes policies into the northbound database by one
class, which exchange() replaces by a subclass before it is used. The subclass leaves guarantee and ceiling of what
a VM sends in external_ids of the logical port, where the agents' extension reads them, and no row or option from which
ovn-controller would make a meter or an HTB queue. DSCP marks, what a VM receives, floating addresses and routers'
gateways are written as ever.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
from typing import Any, Dict, Optional, Tuple

from neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb.extensions import qos
from oslo_log import log as logging
from ovsdbapp.backend.ovs_idl import command, idlutils

from sdngcc_neutron import mapping, ovn_rows
from sdngcc_neutron.guard import guarded, report

LOG = logging.getLogger(__name__)

# Parameters that are needed of what is overridden, whatever others there are and in whatever order.
NEEDED = {
    "_add_port_qos_rules": {"txn", "port_id", "qos_policy_id", "qos_rules", "lsp"},
    "_delete_port_qos_rules": {"txn", "port_id", "lsp"},
    "update_port": {"txn", "port", "delete", "lsp"},
}

READER = "neutron.agent.ovn.extensions.extension_manager"
"""Module of the agents that can read what is left to the shim: Neutron 22 and later have it."""

LEFT_TO_OVN = "OVN's meters and HTB queues limit this port"


class SetLimitsCommand(command.BaseCommand):
    """Writes what a port may send to external_ids of its logical port; does nothing if that is not there.

    port: its name, or the command of the same transaction that makes it.
    """

    def __init__(self, nb_idl: Any, port: Any, limits: mapping.Limits) -> None:
        super().__init__(nb_idl)
        self.port, self.keys = port, ovn_rows.external_ids_of(limits)

    @guarded("run_idl", "The port is written without limits for the shim")
    def run_idl(self, txn: Any) -> None:
        """Add the change to a transaction."""
        name = self.port.result if isinstance(self.port, command.BaseCommand) else self.port
        try:
            row = self.api.lookup("Logical_Switch_Port", name)
        except idlutils.RowNotFound:
            return
        for key in ovn_rows.LIMITS:
            if key in self.keys:
                row.setkey("external_ids", key, self.keys[key])
            else:
                row.delkey("external_ids", key)


class KeepLimitsCommand(command.BaseCommand):
    """Keeps what a logical port has for the shim in a transaction that writes all of its external_ids.

    Neutron's client writes them as they were when it began to look at its own database; another thread or server may
    have changed the port's policy since then.
    """

    def __init__(self, nb_idl: Any, port_id: str) -> None:
        super().__init__(nb_idl)
        self.port_id = port_id

    @guarded("run_idl", "The port is written; it may have the limits of its policy before the last change")
    def run_idl(self, txn: Any) -> None:
        """Add the change to a transaction."""
        try:
            row = self.api.lookup("Logical_Switch_Port", self.port_id)
        except idlutils.RowNotFound:
            return
        # The row itself shows what the transaction is to write.
        known = row._data["external_ids"].to_python(lambda value, base: value)
        given = dict(row.external_ids)
        limits = {key: known[key] for key in ovn_rows.LIMITS if key in known}
        kept = {**{key: value for key, value in given.items() if key not in ovn_rows.LIMITS}, **limits}
        if kept != given:
            row.external_ids = kept


def without_shim(rules: Dict[str, Any]) -> Tuple[Dict[str, Any], mapping.Limits]:
    """Return Neutron's rules of a port by direction and type without what the shim does, and that as limits."""
    left = copy.deepcopy(rules)
    maximum = left["egress"].pop("bandwidth_limit", {})
    minimum = left["egress"].pop("minimum_bandwidth", {})
    return left, mapping.Limits(minimum.get("min_kbps") or 0, maximum.get("max_kbps") or 0)


class ShimQosClient(qos.OVNClientQosExtension):
    """Neutron's class without what the shim does instead."""

    def update_port(self, *args: Any, **kwargs: Any) -> None:
        """Add the change of a port to a transaction of Neutron's client, which may have written the port before."""
        method = super().update_port
        self._keep_limits(method, args, kwargs)
        method(*args, **kwargs)

    @guarded("update_port", "The port is written; it may have the limits of its policy before the last change")
    def _keep_limits(self, method: Any, args: Any, kwargs: Any) -> None:
        given = inspect.signature(method).bind(*args, **kwargs).arguments
        if given.get("lsp") is None and not given.get("delete"):
            given["txn"].add(KeepLimitsCommand(self.nb_idl, given["port"]["id"]))

    def _add_port_qos_rules(self, *args: Any, **kwargs: Any) -> None:
        method = super()._add_port_qos_rules
        try:
            call, command_of_limits = self._split(method, args, kwargs)
        except Exception as error:
            report("_add_port_qos_rules", error, LEFT_TO_OVN)
            method(*args, **kwargs)
            return
        method(*call.args, **call.kwargs)
        call.arguments["txn"].add(command_of_limits)

    def _split(self, method: Any, args: Any, kwargs: Any) -> Tuple[inspect.BoundArguments, SetLimitsCommand]:
        """Return a call of Neutron's method without what the shim does, and the command that leaves that to the shim.

        Nothing is done yet, so that OVN can limit if this fails.
        """
        call = inspect.signature(method).bind(*args, **kwargs)
        given = call.arguments
        given["qos_rules"], limits = without_shim(given.get("qos_rules") or self.rules_of(given))
        return call, self._command(given, limits)

    def _delete_port_qos_rules(self, *args: Any, **kwargs: Any) -> None:
        method = super()._delete_port_qos_rules
        method(*args, **kwargs)
        self._delete_limits(method, args, kwargs)

    @guarded("_delete_port_qos_rules", "What the port had for the shim stays")
    def _delete_limits(self, method: Any, args: Any, kwargs: Any) -> None:
        given = inspect.signature(method).bind(*args, **kwargs).arguments
        given["txn"].add(self._command(given, mapping.Limits()))

    def _command(self, given: Dict[str, Any], limits: mapping.Limits) -> SetLimitsCommand:
        return SetLimitsCommand(self.nb_idl, given.get("lsp") or given["port_id"], limits)

    def rules_of(self, given: Dict[str, Any]) -> Dict[str, Any]:
        """Return the rules of the policy that a call names, by direction and type, with an administrator's eyes.

        Neutron up to 27 passes no context of the request.
        """
        from neutron_lib import context

        asked = given.get("context")
        admin = asked.elevated() if asked is not None else context.get_admin_context()
        return self._qos_rules(admin, given["qos_policy_id"])


def unlike(original: type) -> Optional[str]:
    """Return what keeps ShimQosClient from standing in for a class of Neutron's, in words; None: nothing."""
    for name, needed in NEEDED.items():
        method = getattr(original, name, None)
        if method is None:
            return f"{original.__name__} has no {name}"
        missing = needed - inspect.signature(method).parameters.keys()
        if missing:
            return f"{original.__name__}.{name} takes no {', '.join(sorted(missing))}"
    return None if hasattr(original, "_qos_rules") else f"{original.__name__} has no _qos_rules"


def exchange() -> None:
    """Exchange Neutron's class, once. Raises RuntimeError for one that is not known, or that no agent could follow."""
    original = qos.OVNClientQosExtension
    if original is ShimQosClient:
        return
    if not _has_reader():
        raise RuntimeError("this version of Neutron has no agent for OVN that takes extensions, so no shim would limit")
    wrong = unlike(original)
    if wrong:
        raise RuntimeError(f"this version of Neutron is not known: {wrong}")
    qos.OVNClientQosExtension = ShimQosClient
    LOG.info("What VMs send is left to sdn-gcc's shim: no OVN meter and no HTB queue will be set for it")


def _has_reader() -> bool:
    try:
        return importlib.util.find_spec(READER) is not None
    except ModuleNotFoundError:
        return False
