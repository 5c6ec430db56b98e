# SPDX-License-Identifier: Apache-2.0
"""Networks to be simulated: hosts, switches, links with queues, virtual machines, and the shortest ways between them.

Hosts are nodes 0 to hosts-1, switches follow. Queues and thresholds are bytes of frames with Ethernet headers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple

from sdngcc.testbed.parameters import Parameters
from sdngcc.topologies.shaping import PACKET_BYTES, threshold_bytes


@dataclass(frozen=True)
class Link:
    """A link; an end without a queue of the fabric has limit 0."""

    a: int
    b: int
    rate_bps: int
    delay_ns: int
    """Each way."""
    limit_a: int
    """Queue at the end a, bytes."""
    mark_a: int
    """Threshold there, bytes."""
    limit_b: int
    mark_b: int


@dataclass(frozen=True)
class Vm:
    """A virtual machine; rates in bytes/s."""

    host: int
    weight: int = 1
    low: int = 0
    """Guarantee."""
    high: int = 0
    """Ceiling; 0: none."""


@dataclass
class Fabric:
    """A network."""

    hosts: int
    switches: int
    links: List[Link] = field(default_factory=list)
    vms: List[Vm] = field(default_factory=list)
    watch: Optional[Tuple[int, int]] = None
    """Link, and node at its end, whose queue is sampled."""
    delivery_ns: int = 0
    """Time from a host to a VM of it; the host's shim sees packets before."""

    def attach(self, host: int, switch: int, rate_bps: int, delay_ns: int, limit: int, mark: int) -> int:
        """Link a host to a switch, whose port to it marks; return the link."""
        self.links.append(Link(host, switch, rate_bps, delay_ns, 0, 0, limit, mark))
        return len(self.links) - 1

    def join(self, one: int, other: int, rate_bps: int, delay_ns: int, limit: int, mark: int) -> int:
        """Link two switches; both ports mark. Return the link."""
        self.links.append(Link(one, other, rate_bps, delay_ns, limit, mark, limit, mark))
        return len(self.links) - 1

    def uplink_bps(self, host: int) -> int:
        """Return the rate of a host's one link, bit/s."""
        return next(link.rate_bps for link in self.links if link.a == host)

    def points(self) -> Dict[Tuple[int, int], int]:
        """Return the ports with a queue of the fabric, as (switch, link), each with its rate, bytes/s."""
        found = {}
        for number, link in enumerate(self.links):
            for node, limit in ((link.a, link.limit_a), (link.b, link.limit_b)):
                if limit:
                    found[node, number] = link.rate_bps // 8
        return found

    def routes(self) -> Dict[Tuple[int, int], List[int]]:
        """Return the links by which each switch may send to each host: those on shortest ways."""
        near: List[List[Tuple[int, int]]] = [[] for _ in range(self.hosts + self.switches)]
        for number, link in enumerate(self.links):
            near[link.a].append((number, link.b))
            near[link.b].append((number, link.a))
        found: Dict[Tuple[int, int], List[int]] = {}
        to_switch: Dict[int, Dict[int, List[int]]] = {}
        for host in range(self.hosts):
            [(last, edge)] = near[host]
            if edge not in to_switch:
                to_switch[edge] = self._ways(edge, near)
            found[edge, host] = [last]
            for switch, links in to_switch[edge].items():
                found[switch, host] = links
        return found

    def _ways(self, edge: int, near: Sequence[Sequence[Tuple[int, int]]]) -> Dict[int, List[int]]:
        """Return the links on shortest ways from all other switches to one."""
        far = {edge: 0}
        waiting = deque([edge])
        while waiting:
            node = waiting.popleft()
            for _, other in near[node]:
                if other >= self.hosts and other not in far:
                    far[other] = far[node] + 1
                    waiting.append(other)
        return {switch: [number for number, other in near[switch] if far.get(other, 1 << 30) == far[switch] - 1]
                for switch in far if switch != edge}


def address(vm: int) -> bytes:
    """Return the address of a VM, 16 bytes."""
    return bytes(10) + b"\xff\xff" + (0x0A000001 + vm).to_bytes(4, "big")


def of_testbed(parameters: Parameters) -> Tuple[Fabric, Dict[str, int]]:
    """Return the testbed's dumbbell or star, and its VMs' numbers by name.

    The testbed's dumbbell delays packets at one place, the round trip as a whole; here each of its four hops has a
    quarter. In its star they are delayed where they are handed to a VM, by half of it, as here: shims are nearer.
    """
    names: Dict[str, int] = {}
    placed = [parameters.hypervisor(index) for index in range(parameters.senders)]
    hosts = list(dict.fromkeys(placed))
    fabric = Fabric(len(hosts) + 1, 1)
    star = parameters.topology == "star"
    switch, rate_bps, delay_ns = fabric.hosts, parameters.link_mbps * 10**6, parameters.rtt_us * 1000 // 4
    if star:
        delay_ns, fabric.delivery_ns = 0, parameters.rtt_us * 1000 // 2
    limit = parameters.buffer_packets * PACKET_BYTES
    mark = threshold_bytes(parameters.buffer_packets, parameters.mark_percent)
    uplink_bps = (parameters.uplink_mbps or parameters.link_mbps) * 10**6
    for host in range(len(hosts)):
        # Only ACKs go to a dumbbell's senders, and no queue of the testbed waits for them there.
        fabric.attach(host, switch, uplink_bps, delay_ns, limit if star else 1000 * limit,
                      mark if star else 1000 * limit)
    fabric.watch = (fabric.attach(len(hosts), switch, rate_bps, delay_ns, limit, mark), switch)
    for index, name in enumerate(parameters.vm_names):
        names[name] = len(fabric.vms)
        fabric.vms.append(_vm(parameters, index, hosts.index(placed[index])))
    for index in range(parameters.receivers):
        names[f"rx{index + 1}"] = len(fabric.vms)
        fabric.vms.append(_vm(parameters, index, len(hosts)) if star else Vm(len(hosts)))
    return fabric, names


def _vm(parameters: Parameters, index: int, host: int) -> Vm:
    """Return a VM with the weight, guarantee and ceiling of the index-th."""
    maximum = parameters.fixed_mbps(index) if parameters.law == "static" else parameters.maximum_mbps(index)
    return Vm(host, parameters.weight(index), round(parameters.guarantee_mbps(index) * 125_000),
              round(maximum * 125_000))


def leaf_spine(leaves: int, per_leaf: int, spines: int, host_mbps: float, fabric_mbps: float, rtt_us: float,
               buffer_bytes: int, mark_bytes: int) -> Fabric:
    """Return a leaf-spine network without VMs; rtt_us is the round trip between hosts of two leaves, without queues.

    The threshold of a link between switches is as much higher than a host's as the link is faster.
    """
    fabric = Fabric(leaves * per_leaf, leaves + spines)
    delay_ns = round(rtt_us * 1000 / 8)
    for host in range(fabric.hosts):
        fabric.attach(host, fabric.hosts + host // per_leaf, round(host_mbps * 1e6), delay_ns, buffer_bytes, mark_bytes)
    scale = max(1.0, fabric_mbps / host_mbps)
    for leaf in range(leaves):
        for spine in range(spines):
            fabric.join(fabric.hosts + leaf, fabric.hosts + leaves + spine, round(fabric_mbps * 1e6), delay_ns,
                        round(buffer_bytes * scale), round(mark_bytes * scale))
    return fabric


