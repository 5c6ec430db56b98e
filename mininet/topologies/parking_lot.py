# SPDX-License-Identifier: Apache-2.0
"""Parking lot: three ToRs in a row, so that the VMs of one group cross two bottlenecks and those of two cross one each.

    tor1 ==A== tor2 ==B== tor3

VMs go round three groups: A and B (tor1 to tor3), A alone (tor1 to tor2), B alone (tor2 to tor3). Each VM has a
hypervisor of its own, and each group its receivers. Also for a real machine::

    mn --custom mininet/topologies/parking_lot.py --topo parking-lot,senders=6,link_mbps=100 --switch ovsbr
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
from sdngcc.topologies.placement import LINKS_OF_GROUP, hypervisor_of
from sdngcc.topologies.shaping import Shape


class ParkingLot(FabricTopo):
    """senders VMs; receiver rxN has a hypervisor at the end of the last link that its group crosses."""

    def build(self, senders: int = 6, vms_per_hypervisor: int = 1, receivers: int = 3, link_mbps: int = 1000,
              rtt_us: int = 100, buffer_packets: int = 100, mark_percent: int = 20,
              hosts: Optional[int] = None) -> None:
        """Build the network; rates in Mb/s, rtt_us the round trip without queues, buffer in full packets."""
        uplink = Shape("uplink", rate_mbps=link_mbps)
        delay = Shape("delay", delay_us=rtt_us)
        marking = Shape("marking", rate_mbps=link_mbps, buffer_packets=buffer_packets, mark_percent=mark_percent)
        tors = [self.add_fabric(f"tor{number + 1}") for number in range(3)]
        for one, other in zip(tors, tors[1:]):
            self.join_fabric(one, other, marking)
        for number in range(senders):
            hypervisor = hypervisor_of("parking-lot", number, vms_per_hypervisor, hosts)
            first = LINKS_OF_GROUP[number % len(LINKS_OF_GROUP)][0]
            self.add_hypervisor(hypervisor, tors[first], uplink, delay)
            self.add_vm(f"vm{number + 1}", hypervisor)
        for number in range(receivers):
            last = LINKS_OF_GROUP[number % len(LINKS_OF_GROUP)][-1]
            hypervisor = self.add_hypervisor(f"hvr{number + 1}", tors[last + 1], uplink, marking)
            self.add_vm(f"rx{number + 1}", hypervisor, receiver=True)
        self.bottleneck = "tor1-tor2"


topos = {"parking-lot": ParkingLot}
