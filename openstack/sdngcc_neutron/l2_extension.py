# SPDX-License-Identifier: Apache-2.0
"""Extension ``sdngcc`` of neutron-openvswitch-agent, as the agent sees it: nothing that fails behind it gets out.

What it does is in ``l2_policies``, which is imported when the agent starts it. If it cannot start, Neutron's own
extension ``qos`` does its work: policers limit then, and the shim has no keys but those that it had.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from neutron_lib.agent import l2_extension

from sdngcc_neutron.guard import guarded, report

REPLACED = "qos"
"""Neutron's extension, which would set policers beside the shim."""

UNCHANGED = "The port is wired without it; what its interface has for the shim stays"


class ShimAgentExtension(l2_extension.L2AgentExtension):
    """Writes weight, guarantee, ceiling, addresses and project of each port to its interface's external_ids."""

    def __init__(self) -> None:
        super().__init__()
        self._agent_api: Any = None
        self._running: Optional[Any] = None
        """What handles ports: ours, or Neutron's; None: nothing does."""

    @guarded("consume_api", "The extension cannot start")
    def consume_api(self, agent_api: Any) -> None:
        """Take what the agent offers to its extensions."""
        self._agent_api = agent_api

    def initialize(self, connection: Any, driver_type: str) -> None:
        """Start, or let Neutron's extension start. With that one in the configuration, too, nothing is started here."""
        try:
            self._running = self._ours(connection)
        except Exception as error:
            report("initialize", error, "Policies are left to Neutron's extension qos and its policers")
            self._running = self._neutrons(connection, driver_type)

    def _ours(self, connection: Any) -> Optional[Any]:
        from oslo_config import cfg

        from sdngcc_neutron import l2_policies

        if REPLACED in cfg.CONF.agent.extensions:
            report("initialize", ValueError(f"[agent] extensions names both sdngcc and {REPLACED}, and both would "
                                            f"limit each port twice"),
                   f"sdngcc does nothing until {REPLACED} is taken out of the list")
            return None
        made = l2_policies.PolicyFollower()
        made.consume_api(self._agent_api)
        made.initialize(connection, l2_policies.QOS_DRIVER)
        return made

    @guarded("initialize", "Nobody applies policies")
    def _neutrons(self, connection: Any, driver_type: str) -> Optional[Any]:
        from neutron.agent.l2.extensions import qos

        made = qos.QosAgentExtension()
        made.consume_api(self._agent_api)
        made.initialize(connection, driver_type)
        return made

    @guarded("handle_port", UNCHANGED)
    def handle_port(self, context: Any, port: Dict[str, Any]) -> None:
        """Take what Neutron says of a port of this host, whether it is new or has changed."""
        if self._running is not None:
            self._running.handle_port(context, port)

    @guarded("delete_port", "The port is unplugged without it")
    def delete_port(self, context: Any, port: Dict[str, Any]) -> None:
        """Forget a port that has left this host, or that Neutron has no more."""
        if self._running is not None:
            self._running.delete_port(context, port)

    @guarded("handle_switch_restart", "Open vSwitch's restart is handled without it")
    def handle_switch_restart(self) -> None:
        """Let Neutron's QoS driver make anew what a restart of Open vSwitch took away; agents from 27 on call this."""
        restarted = getattr(self._running, "handle_switch_restart", None)
        if restarted is not None:
            restarted()
