# SPDX-License-Identifier: Apache-2.0
"""Racks and a core switch: VMs of rack 2 cross one fabric switch to the receivers, those of the others three.

Also for a real machine::

    mn --custom mininet/topologies/racks.py --topo racks,senders=4,link_mbps=100 --switch ovsbr
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


class Racks(FabricTopo):
    """senders VMs that go round the racks, with two the odd ones in rack 1, the even ones in 2; all fabric ports mark.

    Each receiver has a hypervisor of its own, the odd ones in rack 2, the even ones in rack 1. With one receiver the
    port of rack 2's ToR to it is the bottleneck of all, and the core's port to rack 2 a second congestion point of
    the senders in other racks. With two, both racks' ports are congested at once.
    """

    def build(self, senders: int = 4, vms_per_hypervisor: int = 1, receivers: int = 1, link_mbps: int = 1000,
              rtt_us: int = 100, buffer_packets: int = 100, mark_percent: int = 20,
              hosts: Optional[int] = None, racks: int = 2) -> None:
        """Build the network; rates in Mb/s, rtt_us the round trip without queues, buffer in full packets."""
        uplink = Shape("uplink", rate_mbps=link_mbps)
        delay = Shape("delay", delay_us=rtt_us)
        marking = Shape("marking", rate_mbps=link_mbps, buffer_packets=buffer_packets, mark_percent=mark_percent)
        core = self.add_fabric("core")
        tors = [self.add_fabric(f"tor{number + 1}") for number in range(racks)]
        for tor in tors:
            self.join_fabric(tor, core, marking)
        for number in range(senders):
            name = hypervisor_of("racks", number, vms_per_hypervisor, hosts, racks)
            if name not in self.hypervisors:
                self.add_hypervisor(name, tors[int(name[2]) - 1], uplink, delay)
            self.add_vm(f"vm{number + 1}", name)
        for number in range(receivers):
            hypervisor = self.add_hypervisor(f"hvr{number + 1}", tors[(number + 1) % 2], uplink, marking)
            self.add_vm(f"rx{number + 1}", hypervisor, receiver=True)
        self.bottleneck = "tor2-hvr1"


topos = {"racks": Racks}
