# SPDX-License-Identifier: Apache-2.0
"""Two leaves under two spines: two equally short ways from every sender to every receiver.

Also for a real machine::

    mn --custom mininet/topologies/spines.py --topo spines,senders=5,link_mbps=100 --switch ovsbr
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


class Spines(FabricTopo):
    """senders VMs under leaf1, each receiver on a hypervisor of its own under leaf2; the ports to spines mark."""

    def build(self, senders: int = 4, vms_per_hypervisor: int = 1, receivers: int = 4, link_mbps: int = 1000,
              rtt_us: int = 100, buffer_packets: int = 100, mark_percent: int = 20,
              hosts: Optional[int] = None) -> None:
        """Build the network; rates in Mb/s, rtt_us the round trip without queues, buffer in full packets."""
        uplink = Shape("uplink", rate_mbps=link_mbps)
        delay = Shape("delay", delay_us=rtt_us)
        marking = Shape("marking", rate_mbps=link_mbps, buffer_packets=buffer_packets, mark_percent=mark_percent)
        leaves = [self.add_fabric(f"leaf{number + 1}") for number in range(2)]
        for number in range(2):
            spine = self.add_fabric(f"spine{number + 1}")
            for leaf in leaves:
                self.join_fabric(leaf, spine, marking)
        for number in range(senders):
            hypervisor = hypervisor_of("spines", number, vms_per_hypervisor, hosts)
            if hypervisor not in self.hypervisors:
                self.add_hypervisor(hypervisor, leaves[0], uplink, delay)
            self.add_vm(f"vm{number + 1}", hypervisor)
        for number in range(receivers):
            self.add_vm(f"rx{number + 1}", self.add_hypervisor(f"hvr{number + 1}", leaves[1], uplink, delay),
                        receiver=True)
        self.bottleneck = "leaf1-spine1"


topos = {"spines": Spines}
