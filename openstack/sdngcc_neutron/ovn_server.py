# SPDX-License-Identifier: Apache-2.0
"""ML2 extension driver ``sdngcc`` of Neutron's server: with ML2/OVN, what a VM sends is no longer limited by OVN.

What it does is in ``ovn_qos``, which is imported when the server starts it: nothing that fails there stops the server,
whose OVN meters and HTB queues limit then.
"""

from __future__ import annotations

from neutron_lib.plugins.ml2 import api

from sdngcc_neutron.guard import guarded


class ShimExtensionDriver(api.ExtensionDriver):
    """Exchanges Neutron's class for QoS with OVN when the server starts."""

    @guarded("initialize", "OVN's meters and HTB queues go on limiting what VMs send")
    def initialize(self) -> None:
        """Exchange it, once."""
        from sdngcc_neutron import ovn_qos

        ovn_qos.exchange()
