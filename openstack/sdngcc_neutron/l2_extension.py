# SPDX-License-Identifier: Apache-2.0
"""Extension ``sdngcc`` of neutron-openvswitch-agent: QoS policies become keys of the shim.

It stands in for Neutron's extension ``qos``: it follows policies as that one does (by port, by network, changed while
in use) and hands what the shim does not do to Neutron's driver.
"""

from __future__ import annotations

from typing import Any, Dict, List

from neutron.agent.l2.extensions import qos
from neutron.api.rpc.callbacks import resources
from oslo_config import cfg
from oslo_log import log as logging

from sdngcc_neutron import config, mapping
from sdngcc_neutron.interfaces import Interfaces

LOG = logging.getLogger(__name__)

QOS_DRIVER = "sdngcc"
"""Of entry point neutron.qos.agent_drivers."""

REPLACED = "qos"
"""Neutron's extension, which would set policers beside the shim."""


class ShimAgentExtension(qos.QosAgentExtension):
    """Writes weight, guarantee, ceiling, addresses and project of each port to its interface's external_ids."""

    def initialize(self, connection: Any, driver_type: str) -> None:
        """Start to follow policies. Raises ValueError when Neutron's extension qos is loaded too."""
        config.register()
        refuse_replaced()
        self._ports: Dict[str, Dict[str, Any]] = {}
        self._interfaces = Interfaces(self.agent_api.request_int_br().ovsdb)
        super().initialize(connection, QOS_DRIVER)

    def handle_port(self, context: Any, port: Dict[str, Any]) -> None:
        """Take what Neutron says of a port of this host, whether it is new or has changed."""
        super().handle_port(context, port)
        self._ports[port["port_id"]] = port
        self._write(port)

    def delete_port(self, context: Any, port: Dict[str, Any]) -> None:
        """Forget a port that has left this host, or that Neutron has no more."""
        super().delete_port(context, port)
        self._ports.pop(port["port_id"], None)
        self._interfaces.remove(port["port_id"])

    def _process_update_policy(self, qos_policy: Any) -> None:
        """Take a policy that has changed while ports have it."""
        super()._process_update_policy(qos_policy)
        if self.policy_map.get_policy(qos_policy.id) is None:
            return
        for port in list(self.policy_map.get_ports(qos_policy)):
            self._write(self._ports.get(port["port_id"], port))

    def _write(self, port: Dict[str, Any]) -> None:
        vif_port = port.get("vif_port")
        if vif_port is None:
            LOG.debug("Port %s has no interface here", port["port_id"])
            return
        try:
            member = self._member(port)
        except ValueError as wrong:
            LOG.error("Port %s: %s; what its interface has stays in force", port["port_id"], wrong)
            return
        self._interfaces.update(port["port_id"], vif_port.port_name, member)

    def _member(self, port: Dict[str, Any]) -> mapping.Member:
        policy = self.policy_map.get_port_policy(port)
        rules: List[Any] = [rule for rule in policy.rules if rule.should_apply_to_port(port)] if policy else []
        pairs = port.get("allowed_address_pairs") or []
        return mapping.Member(
            limits=mapping.limits_of(rules),
            addresses=mapping.sources(
                [port["mac_address"], *(str(pair["mac_address"]) for pair in pairs if pair.get("mac_address"))],
                [*(str(fixed["ip_address"]) for fixed in port["fixed_ips"]),
                 *(str(pair["ip_address"]) for pair in pairs)],
                port.get("port_security_enabled", True)),
            infrastructure=mapping.is_infrastructure(port["device_owner"]),
            project=self._project(port["port_id"]))

    def _project(self, port_id: str) -> str:
        """Return the project of a port, as the agent was told of it; empty where the agent keeps no such objects.

        What extensions get of a port leaves its project out.
        """
        cache = getattr(getattr(self.agent_api, "plugin_rpc", None), "remote_resource_cache", None)
        known = cache.get_resource_by_id(resources.PORT, port_id) if cache is not None else None
        return str(known.project_id or "") if known is not None else ""


def refuse_replaced() -> None:
    """Raise ValueError if the agent's configuration loads the extension that this one stands in for."""
    if REPLACED in cfg.CONF.agent.extensions:
        raise ValueError(f"[agent] extensions names both sdngcc and {REPLACED}: leave {REPLACED} out, sdngcc does its "
                         f"work, and both would limit each port twice")
