# SPDX-License-Identifier: Apache-2.0
"""Flows of known sizes whose rates are weighted max-min at every moment: what a division of rates can do at best.

Nothing waits, is lost or is marked; a rate is there when a flow begins or ends, and no window has to grow. A flow
connects for one round trip, then its bytes and headers go at its rate, and half a round trip later they are there. So
what takes long here is due to how rates are divided, not to a control loop or a transport.

* Without divisions each flow is alone in its tunnel, all of one weight.
* With them (SCC, equations (3) and (4)) a tunnel holds all flows between two VMs and has the part W'_t / (sum of W'_t
  over the division) of its division's weight, by the tracker's W'_t, and at least a hundredth; all divisions weigh the
  same. W' is found anew when a flow begins or ends, and each millisecond ("periodically (~ msec)", section III.A).
  Flows of a tunnel take turns by their order, as the simulator of packets has it.
"""

from __future__ import annotations

import math
from typing import Dict, List, Optional, Sequence, Tuple

from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.simulation.fabric import Fabric
from sdngcc.testbed.simulation.fluid import LAYERS, NONE, Demand, load, ways
from sdngcc.testbed.simulation.packets import Bulk, Show
from sdngcc.tracker import decision

FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
# What is left of a flow when it counts as sent, bytes: sums of steps are not exact.
LEAST_BYTES = 1e-3
# Weights and turns are found anew so often at least; events between two lines of progress.
SLOT_S, SHOWN = 0.001, 500

Port = Tuple[int, int]
"""Node and link that it sends to."""


class Tunnel:
    """Flows that share a rate, in the order in which they began."""

    def __init__(self, objective: str, order: str, ports: Sequence[int]) -> None:
        self.objective, self.order, self.ports = objective, order, list(ports)
        self.flows: List[int] = []


class Ideal:
    """A network and its flows at a moment; times are seconds from the start."""

    def __init__(self, fabric: Fabric, flows: Sequence[Bulk], rtt_s: float,
                 objectives: Optional[Sequence[str]] = None) -> None:
        """Take flows; objectives are the VMs' (ds, cs or ls), None: there are no divisions."""
        self.flows, self.rtt_s, self.objectives = list(flows), rtt_s, objectives
        self.left = [flow.size * FRAME_BYTES / PAYLOAD_BYTES for flow in flows]
        self.done: Dict[int, float] = {}
        self.now_s = 0.0
        self._waiting = sorted(range(len(self.flows)), key=lambda number: -self.flows[number].start_ns)
        self._ffi, self._lib = load()
        self._ways, capacities = ways_of(fabric, self.flows)
        self._capacities = self._ffi.new("double[]", capacities)
        self._room = self._ffi.new("double[]", 2 * len(capacities))
        self._shares = self._ffi.new("struct share_tunnel[]", max(len(self.flows), 1))
        self._busy: Dict[Tuple[int, ...], Tunnel] = {}

    def run(self, until_s: float, show: Optional[Show] = None) -> Dict[int, int]:
        """Let time go by; return when each flow arrived that did by then, ns, by its number."""
        events = 0
        while self._waiting or self._busy:
            rates = self._rates()
            step_s = min((self.left[number] / rate for number, rate in rates.items() if rate > 0), default=math.inf)
            next_s = self._begins(self._waiting[-1]) if self._waiting else math.inf
            step_s = min(step_s, next_s - self.now_s, SLOT_S if self._busy else math.inf)
            if self.now_s + step_s > until_s:
                break
            self.now_s += step_s
            self._move(rates, step_s)
            while self._waiting and self._begins(self._waiting[-1]) <= self.now_s:
                self._begin(self._waiting.pop())
            events += 1
            if show is not None and events % SHOWN == 0:
                show(min(1.0, self.now_s / until_s))
        return {number: round(at_s * 1e9) for number, at_s in self.done.items() if at_s <= until_s}

    def _begins(self, number: int) -> float:
        return self.flows[number].start_ns / 1e9 + self.rtt_s

    def _begin(self, number: int) -> None:
        flow = self.flows[number]
        key = (flow.vm, flow.to) if self.objectives is not None else (number,)
        if key not in self._busy:
            objective = self.objectives[flow.vm] if self.objectives is not None else ""
            self._busy[key] = Tunnel(objective, flow.order, self._ways[flow.vm, flow.to])
        self._busy[key].flows.append(number)

    def _move(self, rates: Dict[int, float], step_s: float) -> None:
        """Send for a while, and take out what is sent."""
        for number, rate in rates.items():
            self.left[number] -= rate * step_s
        for key, tunnel in list(self._busy.items()):
            for number in [number for number in tunnel.flows if self.left[number] <= LEAST_BYTES]:
                self.done[number] = self.now_s + self.rtt_s / 2
                tunnel.flows.remove(number)
            if not tunnel.flows:
                del self._busy[key]

    def _until(self, number: int) -> float:
        """Return the time to a flow's deadline; 0: it has none."""
        flow = self.flows[number]
        return (flow.start_ns + flow.deadline_ns) / 1e9 - self.now_s if flow.deadline_ns else 0.0

    def _weights(self) -> List[float]:
        """Return the weight of each busy tunnel, of 1 for each division."""
        if self.objectives is None:
            return [1.0] * len(self._busy)
        wanted = [decision.reference_weight(tunnel.objective, [
            decision.Flow(math.ceil(self.left[number]), self._until(number)) for number in tunnel.flows])
            for tunnel in self._busy.values()]
        whole: Dict[str, float] = {}
        for tunnel, own in zip(self._busy.values(), wanted):
            whole[tunnel.objective] = whole.get(tunnel.objective, 0.0) + own
        return [max(own / whole[tunnel.objective] if own else 0.0, decision.LEAST)
                for tunnel, own in zip(self._busy.values(), wanted)]

    def _rates(self) -> Dict[int, float]:
        """Return the rates of the flows that send now, bytes/s."""
        tunnels, found = list(self._busy.values()), {}
        for place, (tunnel, weight) in enumerate(zip(tunnels, self._weights())):
            share = self._shares[place]
            share.weight = weight
            share.ports = tunnel.ports
        self._lib.share_rates(self._shares, len(tunnels), self._capacities, self._room, len(self._capacities))
        for place, tunnel in enumerate(tunnels):
            rate = self._shares[place].rate
            if tunnel.order == "none":
                found.update(dict.fromkeys(tunnel.flows, rate / len(tunnel.flows)))
            else:
                found[self._first(tunnel, rate)] = rate
        return found

    def _first(self, tunnel: Tunnel, rate: float) -> int:
        """Return the flow whose turn it is: the nearest deadline that the rate can still meet, else least left."""
        late = {number: self._until(number) <= 0 or self.left[number] > rate * self._until(number)
                for number in tunnel.flows}
        return min(tunnel.flows, key=lambda number: (late[number], self.left[number] if late[number]
                                                     else self._until(number)))


def ways_of(fabric: Fabric, flows: Sequence[Bulk]) -> Tuple[Dict[Tuple[int, int], List[int]], List[float]]:
    """Return numbers of the ports between two VMs, hosts' own first, and all ports' capacities in bytes/s.

    Equal ways are drawn with seed 1. Raises ParameterError for ways of more than six ports.
    """
    between = list(dict.fromkeys((flow.vm, flow.to) for flow in flows))
    uplinks = {link.a: (link.a, number) for number, link in enumerate(fabric.links) if link.a < fabric.hosts}
    numbers: Dict[Port, int] = {}
    found = {}
    for (vm, to), way in zip(between, ways(fabric, [Demand(vm, to, 0, 0) for vm, to in between], 1)):
        ports = [uplinks[fabric.vms[vm].host], *way]
        found[vm, to] = ([numbers.setdefault(port, len(numbers)) for port in ports] + [NONE] * LAYERS)[:LAYERS]
        if len(ports) > LAYERS:
            raise ParameterError(f"a way of {len(ports)} ports: at most {LAYERS} are allowed")
    return found, [fabric.links[link].rate_bps / 8 for _, link in numbers]
