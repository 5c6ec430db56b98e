# SPDX-License-Identifier: Apache-2.0
"""The building blocks of the laboratory's topologies: hypervisors with their VMs, and fabric switches.

A hypervisor is one Open vSwitch bridge with VMs (Mininet hosts) and one uplink to its ToR. Names, addresses and
datapath ids follow from numbers, so that a run repeats.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from mininet.topo import Topo

from sdngcc.topologies.links import ShapedLink
from sdngcc.topologies.shaping import Shape

# Datapath ids of fabric switches start here, of hypervisors at 1: a reader of a log can tell them apart. Hypervisors
# that find no room below have theirs above.
FABRIC_DPID, MORE_DPID = 0x1000, 0x100000
# Sending VMs, and receivers: their addresses are in 10.0.0.0/16, whose last one is for all of them.
VMS_MAX = 0x7FFE
# Longest name of a network device.
DEVICE_MAX = 15


def vm_addresses(number: int, receiver: bool) -> Tuple[str, str]:
    """Return IPv4 and Ethernet address of the number-th sending VM, or receiver, from 1.

    Raises ValueError for more than there are addresses.
    """
    if not 1 <= number <= VMS_MAX:
        raise ValueError(f"{'receivers' if receiver else 'senders'}={number}: their addresses are in 10.0.0.0/16; "
                         f"allowed are 1 to {VMS_MAX}")
    high, low = divmod(number, 256)
    return f"10.0.{2 * high + receiver}.{low}", f"02:00:00:{high:02x}:{int(receiver):02x}:{low:02x}"


def link_address(number: int, end: int) -> str:
    """Return the Ethernet address of an end, 1 or 2, of the number-th link."""
    return f"06:00:{number >> 16:02x}:{number >> 8 & 0xff:02x}:{number & 0xff:02x}:{end:02x}"


class FabricTopo(Topo):
    """Topo with hypervisors and fabric switches; subclasses build the network out of them."""

    def __init__(self, *args: Any, **params: Any) -> None:
        """Build the topology; parameters are the subclass's."""
        self.vms: List[str] = []
        """Sending VMs in order; the first is the tagged one."""
        self.receivers: List[str] = []
        """Receiving VMs in order."""
        self.bottleneck: str = ""
        """Device of the congestion point the experiments look at."""
        self.marking: List[str] = []
        """Devices of all congestion points."""
        self.hypervisors: Dict[str, str] = {}
        """Uplink device of each hypervisor."""
        self._nodes = 0
        self._links = 0
        super().__init__(*args, **params)

    def add_fabric(self, name: str) -> str:
        """Add a fabric switch and return its name."""
        self._nodes += 1
        node: str = self.addSwitch(name, dpid=f"{FABRIC_DPID + self._nodes:016x}", kind="fabric")
        return node

    def add_hypervisor(self, name: str, tor: str, uplink: Shape, downlink: Shape) -> str:
        """Add a hypervisor whose uplink and whose ToR's port to it send in those shapes; return its name."""
        number = len(self.hypervisors) + 1
        self.addSwitch(name, dpid=f"{number if number < FABRIC_DPID else MORE_DPID + number:016x}", kind="hypervisor")
        self.hypervisors[name] = f"{name}-up"
        self._link(name, tor, f"{name}-up", f"{tor}-{name}", uplink, downlink)
        return name

    def add_vm(self, name: str, hypervisor: str, receiver: bool = False, delivery: Optional[Shape] = None) -> str:
        """Add a VM, to which the hypervisor sends in a shape, and return its name.

        Raises ValueError when there is no address for it.
        """
        number = len(self.vms) + len(self.receivers) + 1
        peers = self.receivers if receiver else self.vms
        peers.append(name)
        ip, mac = vm_addresses(len(peers), receiver)
        self.addHost(name, ip=f"{ip}/16", mac=mac, number=number, hypervisor=hypervisor)
        self._link(name, hypervisor, f"{name}-eth0", f"{hypervisor}-{name}", None, delivery, addr1=mac)
        return name

    def join_fabric(self, one: str, other: str, shape: Shape) -> None:
        """Join two fabric switches; both directions send in that shape."""
        self._link(one, other, f"{one}-{other}", f"{other}-{one}", shape, shape)

    def _link(self, one: str, other: str, device1: str, device2: str, shape1: Any, shape2: Any,
              addr1: str = "") -> None:
        """Join two nodes by a pair of devices with MACs of their own. Raises ValueError for a name that is too long."""
        for device in (device1, device2):
            if len(device) > DEVICE_MAX:
                raise ValueError(f"device {device}: names of devices have at most {DEVICE_MAX} characters; fewer VMs "
                                 "or hypervisors have shorter ones")
        self._links += 1
        number = self._links
        self.addLink(one, other, cls=ShapedLink, intfName1=device1, intfName2=device2, shape1=shape1, shape2=shape2,
                     addr1=addr1 or link_address(number, 1), addr2=link_address(number, 2))
        self.marking += [device for device, shape in ((device1, shape1), (device2, shape2))
                         if shape is not None and shape.kind == "marking"]
