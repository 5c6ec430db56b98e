# SPDX-License-Identifier: Apache-2.0
"""Star: hypervisors around one switch that is never congested but at its ports to them.

VMs of every hypervisor, the receivers' one included, can send to those of any other. Also for a real machine::

    mn --custom mininet/topologies/star.py --topo star,senders=4,vms_per_hypervisor=2,link_mbps=100 --switch ovsbr
"""

from __future__ import annotations

import importlib
import sys
from typing import Optional

if __name__ == "builtins":  # that of `mn --custom`, whose Python may not have this package
    sys.path.insert(0, sys._getframe().f_code.co_filename.rpartition("/")[0] or ".")
    importlib.import_module("standalone")
    sys.path.pop(0)

from sdngcc.topologies.fabric import FabricTopo
from sdngcc.topologies.placement import hypervisor_of
from sdngcc.topologies.shaping import Shape


class Star(FabricTopo):
    """senders VMs on hypervisors as placement says, receivers on one of their own; all of the switch's ports mark."""

    def build(self, senders: int = 4, vms_per_hypervisor: int = 1, receivers: int = 1, link_mbps: int = 1000,
              rtt_us: int = 100, buffer_packets: int = 100, mark_percent: int = 20,
              hosts: Optional[int] = None) -> None:
        """Build the network; rates in Mb/s, rtt_us the round trip without queues, buffer in full packets.

        Packets are delayed where they are handed to a VM, by half the round trip.
        """
        uplink = Shape("uplink", rate_mbps=link_mbps)
        marking = Shape("marking", rate_mbps=link_mbps, buffer_packets=buffer_packets, mark_percent=mark_percent)
        delivery = Shape("delay", delay_us=rtt_us // 2)
        tor = self.add_fabric("tor1")
        for number in range(senders):
            hypervisor = hypervisor_of("star", number, vms_per_hypervisor, hosts)
            if hypervisor not in self.hypervisors:
                self.add_hypervisor(hypervisor, tor, uplink, marking)
            self.add_vm(f"vm{number + 1}", hypervisor, delivery=delivery)
        self.add_hypervisor("hvr", tor, uplink, marking)
        for number in range(receivers):
            self.add_vm(f"rx{number + 1}", "hvr", receiver=True, delivery=delivery)
        self.bottleneck = "tor1-hvr"


topos = {"star": Star}
