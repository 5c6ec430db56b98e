# SPDX-License-Identifier: Apache-2.0
"""Dumbbell: hypervisors of senders, one ToR, one hypervisor of receivers behind the bottleneck.

Also for a real machine::

    mn --custom mininet/topologies/dumbbell.py --topo dumbbell,senders=4,link_mbps=100 --switch ovsbr
"""

from __future__ import annotations

import importlib
import sys
from typing import Optional, Sequence

if __name__ == "builtins":  # that of `mn --custom`, whose Python may not have this package
    sys.path.insert(0, sys._getframe().f_code.co_filename.rpartition("/")[0] or ".")
    importlib.import_module("standalone")
    sys.path.pop(0)

from sdngcc.topologies.fabric import FabricTopo
from sdngcc.topologies.placement import hypervisor_of
from sdngcc.topologies.shaping import Shape


class Dumbbell(FabricTopo):
    """senders VMs on hypervisors as placement says; the ToR's port to the hypervisor of the receivers marks."""

    def build(self, senders: int = 4, vms_per_hypervisor: int = 1, receivers: int = 1, link_mbps: int = 1000,
              rtt_us: int = 100, buffer_packets: int = 100, mark_percent: int = 20,
              hosts: Optional[int] = None, uplink_mbps: Optional[int] = None, red: Sequence[float] = ()) -> None:
        """Build the network; rates in Mb/s, rtt_us the round trip without queues, buffer in full packets.

        uplink_mbps is the rate of the senders' uplinks, None: link_mbps. red is as Shape has it.
        """
        uplink = Shape("uplink", rate_mbps=uplink_mbps or link_mbps)
        delay = Shape("delay", delay_us=rtt_us)
        marking = Shape("marking", rate_mbps=link_mbps, buffer_packets=buffer_packets, mark_percent=mark_percent,
                        red=tuple(red))
        tor = self.add_fabric("tor1")
        for number in range(senders):
            hypervisor = hypervisor_of("dumbbell", number, vms_per_hypervisor, hosts)
            if hypervisor not in self.hypervisors:
                self.add_hypervisor(hypervisor, tor, uplink, delay)
            self.add_vm(f"vm{number + 1}", hypervisor)
        self.add_hypervisor("hvr", tor, Shape("uplink", rate_mbps=link_mbps), marking)
        for number in range(receivers):
            self.add_vm(f"rx{number + 1}", "hvr", receiver=True)
        self.bottleneck = "tor1-hvr"


topos = {"dumbbell": Dumbbell}
