# SPDX-License-Identifier: Apache-2.0
"""Two racks and a core switch: VMs of rack 1 cross three fabric switches to the receivers, those of rack 2 one.

Also for a real machine::

    mn --custom mininet/topologies/racks.py --topo racks,senders=4,link_mbps=100 --switch ovsbr
"""

from __future__ import annotations

from sdngcc.topologies.fabric import FabricTopo
from sdngcc.topologies.shaping import Shape


class Racks(FabricTopo):
    """senders VMs, the odd ones in rack 1, the even ones in rack 2 beside the receivers; all fabric ports mark.

    The port of rack 2's ToR to the receivers is the bottleneck of all; the core's port to rack 2 is a second
    congestion point of those in rack 1.
    """

    def build(self, senders: int = 4, vms_per_hypervisor: int = 1, receivers: int = 1, link_mbps: int = 1000,
              rtt_us: int = 100, buffer_packets: int = 100, mark_percent: int = 20) -> None:
        """Build the network; rates in Mb/s, rtt_us the round trip without queues, buffer in full packets."""
        uplink = Shape("uplink", rate_mbps=link_mbps)
        delay = Shape("delay", delay_us=rtt_us)
        marking = Shape("marking", rate_mbps=link_mbps, buffer_packets=buffer_packets, mark_percent=mark_percent)
        core = self.add_fabric("core")
        tors = [self.add_fabric("tor1"), self.add_fabric("tor2")]
        for tor in tors:
            self.join_fabric(tor, core, marking)
        for number in range(senders):
            place = number // 2
            name = f"hv{number % 2 + 1}{place // vms_per_hypervisor + 1:02d}"
            if name not in self.hypervisors:
                self.add_hypervisor(name, tors[number % 2], uplink, delay)
            self.add_vm(f"vm{number + 1}", name)
        self.add_hypervisor("hvr", tors[1], uplink, marking)
        for number in range(receivers):
            self.add_vm(f"rx{number + 1}", "hvr", receiver=True)
        self.bottleneck = "tor2-hvr"


topos = {"racks": Racks}
