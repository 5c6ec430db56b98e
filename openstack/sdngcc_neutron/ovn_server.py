# SPDX-License-Identifier: Apache-2.0
"""ML2 extension driver ``sdngcc`` of Neutron's server: with ML2/OVN, what a VM sends is no longer limited by OVN.

ML2/OVN has no place for another QoS backend: its mechanism driver writes policies into the northbound database by one
class, which this driver exchanges for a subclass before it is used. The subclass leaves guarantee and ceiling of what
a VM sends in external_ids of the logical port, where the agents' extension reads them, and no row or option from which
ovn-controller would make a meter or an HTB queue. DSCP marks, what a VM receives, floating addresses and routers'
gateways are written as ever.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, Optional

from neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb.extensions import qos
from neutron_lib.plugins.ml2 import api
from oslo_log import log as logging
from ovsdbapp.backend.ovs_idl import command, idlutils

from sdngcc_neutron import mapping, ovn_rows

LOG = logging.getLogger(__name__)

# The parameters of what is overridden, as Neutron 29.0.0 has them.
EXPECTED = {
    "_add_port_qos_rules": ["self", "context", "txn", "port_id", "network_id", "network_type", "qos_policy_id",
                            "qos_rules", "lsp"],
    "_delete_port_qos_rules": ["self", "txn", "port_id", "network_id", "network_type", "lsp"],
}


class SetLimitsCommand(command.BaseCommand):
    """Writes what a port may send to external_ids of its logical port; does nothing if that is not there.

    port: its name, or the command of the same transaction that makes it.
    """

    def __init__(self, nb_idl: Any, port: Any, limits: mapping.Limits) -> None:
        super().__init__(nb_idl)
        self.port, self.limits = port, limits

    def run_idl(self, txn: Any) -> None:
        """Add the change to a transaction."""
        name = self.port.result if isinstance(self.port, command.BaseCommand) else self.port
        try:
            row = self.api.lookup("Logical_Switch_Port", name)
        except idlutils.RowNotFound:
            return
        keys = ovn_rows.external_ids_of(self.limits)
        for key in (ovn_rows.MIN_KBPS, ovn_rows.MAX_KBPS):
            if key in keys:
                row.setkey("external_ids", key, keys[key])
            else:
                row.delkey("external_ids", key)


class ShimQosClient(qos.OVNClientQosExtension):
    """Neutron's class without what the shim does instead."""

    def _add_port_qos_rules(self, context: Any, txn: Any, port_id: str, network_id: str, network_type: str,
                            qos_policy_id: str, qos_rules: Any, lsp: Any = None) -> None:
        rules = copy.deepcopy(qos_rules) if qos_rules else self._qos_rules(context.elevated(), qos_policy_id)
        maximum = rules["egress"].pop("bandwidth_limit", {})
        minimum = rules["egress"].pop("minimum_bandwidth", {})
        limits = mapping.Limits(minimum.get("min_kbps") or 0, maximum.get("max_kbps") or 0)
        super()._add_port_qos_rules(context, txn, port_id, network_id, network_type, qos_policy_id, rules, lsp=lsp)
        txn.add(SetLimitsCommand(self.nb_idl, lsp or port_id, limits))

    def _delete_port_qos_rules(self, txn: Any, port_id: str, network_id: str, network_type: str,
                               lsp: Any = None) -> None:
        super()._delete_port_qos_rules(txn, port_id, network_id, network_type, lsp=lsp)
        txn.add(SetLimitsCommand(self.nb_idl, lsp or port_id, mapping.Limits()))


def unlike(original: type) -> Optional[str]:
    """Return what keeps ShimQosClient from standing in for a class of Neutron's, in words; None: nothing."""
    for name, parameters in EXPECTED.items():
        method = getattr(original, name, None)
        if method is None:
            return f"{original.__name__} has no {name}"
        found = list(inspect.signature(method).parameters)
        if found != parameters:
            return f"{original.__name__}.{name} takes {', '.join(found)} instead of {', '.join(parameters)}"
    return None


class ShimExtensionDriver(api.ExtensionDriver):
    """Exchanges Neutron's class when the server starts."""

    def initialize(self) -> None:
        """Exchange it, once. Raises RuntimeError, which ends the server, if Neutron's is not the one that is known."""
        original = qos.OVNClientQosExtension
        if original is ShimQosClient:
            return
        wrong = unlike(original)
        if wrong:
            raise RuntimeError(f"ML2 extension driver sdngcc does not know this version of Neutron: {wrong}. Take it "
                               f"out of [ml2] extension_drivers; OVN's meters then limit beside the shim.")
        qos.OVNClientQosExtension = ShimQosClient
        LOG.info("What VMs send is left to sdn-gcc's shim: no OVN meter and no HTB queue will be set for it")
