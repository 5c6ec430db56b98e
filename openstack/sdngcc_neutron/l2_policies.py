# SPDX-License-Identifier: Apache-2.0
"""What extension ``sdngcc`` of neutron-openvswitch-agent does: QoS policies become keys of the shim.

It stands in for Neutron's extension ``qos``: it follows policies as that one does (by port, by network, changed while
in use) and hands what the shim does not do to Neutron's driver.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional

from neutron.agent.l2.extensions import qos
from neutron.api.rpc.callbacks import resources
from neutron_lib import context as neutron_context
from neutron_lib.callbacks import events, registry
from neutron_lib.plugins.ml2 import ovs_constants
from oslo_concurrency import lockutils
from oslo_config import cfg
from oslo_log import log as logging

from sdngcc_neutron import config, mapping
from sdngcc_neutron.guard import guarded
from sdngcc_neutron.interfaces import Interfaces
from sdngcc_neutron.worker import RETRY_S, Worker

LOG = logging.getLogger(__name__)

QOS_DRIVER = "sdngcc"
"""Of entry point neutron.qos.agent_drivers."""

ACTIVE = "ACTIVE"
"""Status of a port's binding to the host that its VM runs on."""


class PolicyFollower(qos.QosAgentExtension):
    """Writes weight, guarantee, ceiling, addresses and project of each port to its interface's external_ids."""

    def initialize(self, connection: Any, driver_type: str) -> None:
        """Start to follow policies."""
        config.register()
        self._ports: Dict[str, Dict[str, Any]] = {}
        self._worker = Worker("port")
        self._bridge = self.agent_api.request_int_br()
        self._interfaces = Interfaces(self._bridge.ovsdb)
        super().initialize(connection, driver_type)
        registry.subscribe(self._port_updated, resources.PORT, events.AFTER_UPDATE)
        registry.subscribe(self._interfaces_changed, ovs_constants.OVSDB_RESOURCE, events.AFTER_READ)
        self._worker.put("left", self._clear_left)

    def handle_port(self, context: Any, port: Dict[str, Any]) -> None:
        """Take what Neutron says of a port of this host, whether it is new or has changed.

        What fails is tried again later, if the port is still here then.
        """
        self._ports[port["port_id"]] = port
        try:
            self._follow(context, port)
        except Exception:
            self._worker.put(port["port_id"], functools.partial(self._follow, context, port), RETRY_S)
            raise
        self._worker.drop(port["port_id"])

    def _follow(self, context: Any, port: Dict[str, Any]) -> None:
        super().handle_port(context, port)
        self._write(port)

    def delete_port(self, context: Any, port: Dict[str, Any]) -> None:
        """Forget a port that has left this host, or that Neutron has no more."""
        self._worker.drop(port["port_id"])
        self._ports.pop(port["port_id"], None)
        try:
            super().delete_port(context, port)
        finally:
            self._interfaces.remove(port["port_id"])

    @guarded("policy", "It is tried again; until then the ports of the policy keep what they have")
    def _process_update_policy(self, qos_policy: Any) -> None:
        """Take a policy that has changed while ports have it."""
        key = ("policy", qos_policy.id)
        try:
            self._take_policy(qos_policy)
        except Exception:
            self._worker.put(key, functools.partial(self._take_policy_again, qos_policy), RETRY_S)
            raise
        self._worker.drop(key)

    def _take_policy(self, qos_policy: Any) -> None:
        super()._process_update_policy(qos_policy)
        if self.policy_map.get_policy(qos_policy.id) is None:
            return
        for port in list(self.policy_map.get_ports(qos_policy)):
            self._write(self._ports.get(port["port_id"], port))

    @lockutils.synchronized("qos-port")
    def _take_policy_again(self, qos_policy: Any) -> None:
        """Take it in a thread that does not hold the lock of Neutron's class."""
        self._take_policy(qos_policy)

    @guarded("port_update", "The port keeps what it has until the agent handles it")
    def _port_updated(self, resource: str, event: str, trigger: Any, payload: Any) -> None:
        """Take a port that migrates and whose VM runs here now, which the agent passes by while it has two bindings."""
        if _runs_here(payload.latest_state):
            self._worker.put(("migrated", payload.resource_id),
                             functools.partial(self._handle_migrated, payload.resource_id))

    @guarded("interfaces", "The interfaces keep what they have until the agent handles their ports")
    def _interfaces_changed(self, resource: str, event: str, trigger: Any, payload: Any) -> None:
        """Take what the agent has seen of Open vSwitch's interfaces.

        When it starts the agent writes external_ids of a trunk's VM as they were when it began to wire the trunk.
        """
        seen = payload.latest_state
        for name in {row["name"] for row in seen["modified"]}:
            if self._interfaces.carries(name):
                self._worker.put(("interface", name), functools.partial(self._interfaces.refresh, name))
        if seen["removed"]:
            self._worker.put("waiting", self._interfaces.refresh_waiting)

    def _handle_migrated(self, port_id: str) -> None:
        rpc = self.agent_api.plugin_rpc
        if not _runs_here(rpc.remote_resource_cache.get_resource_by_id(resources.PORT, port_id)):
            return
        vif_port = self._bridge.get_vif_port_by_id(port_id)
        if vif_port is None:
            LOG.debug("Port %s has no interface here yet", port_id)
            self._worker.put(("migrated", port_id), functools.partial(self._handle_migrated, port_id), RETRY_S)
            return
        context = neutron_context.get_admin_context_without_session()
        details = rpc.get_device_details(context, port_id, None, cfg.CONF.host)
        if "port_id" in details:
            self.handle_port(context, {**details, "vif_port": vif_port})

    def _clear_left(self) -> None:
        """Take the keys from interfaces whose ports Neutron has no more: they were deleted while no agent ran."""
        keyed = self._interfaces.keyed()
        if not keyed:
            return
        context = neutron_context.get_admin_context_without_session()
        known = {port.id for port in self.resource_rpc.bulk_pull(context, resources.PORT,
                                                                 filter_kwargs={"id": tuple(keyed.values())})}
        for name, port_id in keyed.items():
            if port_id not in known and port_id not in self._ports:
                LOG.info("Interface %s: Neutron has no port %s", name, port_id)
                self._interfaces.clear(name)

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


def _runs_here(port: Optional[Any]) -> bool:
    """Tell whether a port has bindings to several hosts, of which this one runs its VM now."""
    bindings = getattr(port, "bindings", None) or []
    return len(bindings) > 1 and any(one.host == cfg.CONF.host and one.status == ACTIVE for one in bindings)
