# SPDX-License-Identifier: Apache-2.0
"""Neutron's QoS driver for Open vSwitch without what the shim does instead.

What a VM sends is limited and guaranteed by the shim: no policer, no meter and no HTB queue is set for it, and those
that Neutron's own extension left behind are removed. DSCP marks, packet rates and what a VM receives stay with Neutron.
"""

from __future__ import annotations

from typing import Any

from neutron.plugins.ml2.drivers.openvswitch.agent.extension_drivers import qos_driver


class ShimQosDriver(qos_driver.QosOVSAgentDriver):
    """What remains of Neutron's driver."""

    def update_bandwidth_limit(self, port: Any, rule: Any) -> None:
        """Limit what the port receives; pass by what it sends."""
        if rule.direction == "ingress":
            super().update_bandwidth_limit(port, rule)

    def update_minimum_bandwidth(self, port: Any, rule: Any) -> None:
        """Set no queue: the shim guarantees what the port sends, and for what it receives Neutron has none either."""
