# SPDX-License-Identifier: Apache-2.0
"""Simulations of rates alone: the library of the folder fluid, and the controller every T_i."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from sdngcc.shim import core
from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.simulation.build import HERE, fluid_library
from sdngcc.testbed.simulation.controller import Decisions, PortCount, Step, VmState
from sdngcc.testbed.simulation.fabric import Fabric, address
from sdngcc.testbed.simulation.packets import EPOCH_NS, KEY, Show

# Laws that need no single packets, segments or windows.
LAWS = ("static", "sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc")
PEERS = ("hygenicc", "eyeq", "seawall", "scc")
NONE = 2**64 - 1
LAYERS = 6
"""Of ports on a way at most, FLUID_LAYERS."""
ENDLESS = 1e15  # bytes/s that one wants who wants all

PORT = np.dtype([("layer", "u8"), ("capacity", "f8"), ("limit", "f8"), ("mark", "f8"), ("queue", "f8"),
                 ("offered", "f8"), ("passes", "f8"), ("marked", "f8"), ("bytes", "f8"), ("marks", "f8"),
                 ("lost", "f8")])
Vector = npt.NDArray[np.float64]


def step_of(period_ns: int, *lengths_ns: int) -> int:
    """Return a step for a law of period T: a whole part of each length, of T / 5 and a millisecond at most, ns.

    Raises ParameterError where that is less than 10 us.
    """
    common = math.gcd(*lengths_ns)
    most = min(period_ns // 5, 10**6)
    step = next(common // parts for parts in range(1, common + 1) if common % parts == 0 and common // parts <= most)
    if step < 10_000:
        raise ParameterError(f"periods of {', '.join(f'{one / 1000:g}' for one in lengths_ns)} us have no common step "
                             "of 10 us or more")
    return step


@dataclass(frozen=True)
class Demand:
    """What one VM wants to send to another; rate 0: all it may, bytes/s."""

    vm: int
    to: int
    start_ns: int
    stop_ns: int
    rate: float = 0.0


@dataclass
class Sample:
    """What was seen at one time, ns from the start."""

    time_ns: int
    received: Vector
    """By flow since the sample before, bytes/s."""
    limits: Vector
    """By VM, bytes/s."""
    queues: Vector
    """By port, bytes."""


@functools.cache
def load() -> Tuple[Any, Any]:
    """Return ``(ffi, lib)`` of the simulator of rates, with the engine's functions. Raises BuildError."""
    import cffi

    ffi = cffi.FFI()
    headers = "".join((HERE / "fluid" / name).read_text(encoding="utf-8") for name in ("fluid.h", "shares.h"))
    header = re.sub(r"/\*.*?\*/", "", headers, flags=re.S).replace("FLUID_LAYERS]", f"{LAYERS}]")
    ffi.cdef(core.declarations() + re.sub(r"^#.*$", "", header, flags=re.M) +
             "extern u64 shim_host_allocated;")
    return ffi, ffi.dlopen(str(fluid_library()))


def ways(fabric: Fabric, demands: Sequence[Demand], seed: int) -> List[List[Tuple[int, int]]]:
    """Return the ports on the way of each flow, as (switch, link); equal ways are drawn by the seed."""
    routes = fabric.routes()
    edges = {link.a: (link.b, number) for number, link in enumerate(fabric.links) if link.a < fabric.hosts}
    random = np.random.default_rng(seed)
    found = []
    for demand in demands:
        host = fabric.vms[demand.to].host
        at, _ = edges[fabric.vms[demand.vm].host]
        way = []
        while at != host:
            equal = routes[at, host]
            number = equal[0] if len(equal) == 1 else equal[int(random.integers(len(equal)))]
            way.append((at, number))
            link = fabric.links[number]
            at = link.b if link.a == at else link.a
        found.append(way)
    return found


def layers(found: Sequence[Sequence[Tuple[int, int]]], fabric: Fabric) -> Dict[Tuple[int, int], int]:
    """Return the layer of each port: how many ports stand before it at most, so that all of a way are in order."""
    depth = {point: 0 for point in fabric.points()}
    while True:
        moved = False
        for way in found:
            for before, after in zip(way, way[1:]):
                if depth[after] <= depth[before]:
                    depth[after], moved = depth[before] + 1, True
        if not moved:
            return depth
        if max(depth.values()) >= LAYERS:
            raise ParameterError(f"ways cross more than {LAYERS} layers of ports, or in a circle")


class Fluid:
    """A network of rates. Its engines are this process's: one at a time, closed before the next one."""

    def __init__(self, fabric: Fabric, law: str, demands: Sequence[Demand], step_ns: int, seed: int,
                 settings: Optional[Dict[str, int]] = None, knobs: Optional[Dict[str, int]] = None) -> None:
        if law not in LAWS:
            raise ParameterError(f"law {law} is not simulated by rates: it needs packets; {', '.join(LAWS)} are")
        self.ffi, self.lib = load()
        self.fabric, self.law, self.demands, self.step_ns = fabric, law, list(demands), step_ns
        self._time_ns = 0
        self.lib.fluid_set_clock(EPOCH_NS)
        self._labs = [self._lab(host, settings or {}, knobs or {}) for host in range(fabric.hosts)]
        self._uplinks = [self.lib.shim_lab_add_uplink(lab, fabric.uplink_bps(host) // 8)
                         for host, lab in enumerate(self._labs)]
        self._vms = self._make_vms()
        self.ways = ways(fabric, demands, seed)
        self._flows = self._make_flows(np.random.default_rng(seed + 1))
        self.points = list(fabric.points())
        self._make_ports()
        self._fluid = self.ffi.new("struct fluid *", {
            "labs": self._lab_array, "vms": self._vms, "flows": self._flows, "ports": self._ports,
            "n_labs": len(self._labs), "n_vms": len(fabric.vms), "n_flows": len(self.demands),
            "n_ports": len(self.points), "n_layers": 1 + max(self._depth.values(), default=0), "step_ns": step_ns})
        self._before = np.zeros(len(self.demands))
        self._limiter = self.ffi.new("struct shim_lab_limiter *")

    def _lab(self, host: int, settings: Dict[str, int], knobs: Dict[str, int]) -> Any:
        lab = self.lib.shim_lab_create(host + 1, 1000)
        # Packets come many at a time, not to be bounded in number.
        for name, value in {"burst_us": 0, **settings, "waiting_max": 0}.items():
            if self.lib.shim_lab_set(lab, name.encode(), value):
                raise ParameterError(f"the shim has no setting {name}")
        for name, value in knobs.items():
            if self.lib.shim_lab_set_knob(lab, self.law.encode(), name.encode(), value):
                raise ParameterError(f"law {self.law} has no knob {name}")
        self.lib.shim_lab_set_key(lab, KEY, False)
        self.lib.shim_lab_set_law(lab, self.law.encode())
        return lab

    def _make_vms(self) -> Any:
        vms = self.ffi.new("struct fluid_vm[]", len(self.fabric.vms))
        for number, wanted in enumerate(self.fabric.vms):
            one = vms[number]
            one.lab, one.uplink = self._labs[wanted.host], self._uplinks[wanted.host]
            one.vm = self.lib.shim_lab_add_vm(one.lab)
            self.lib.shim_lab_configure_vm(one.vm, wanted.weight, wanted.low, wanted.high, self.ffi.NULL)
            one.address, one.receives = address(number), self.law in PEERS
        return vms

    def _make_flows(self, random: np.random.Generator) -> Any:
        self._depth = layers(self.ways, self.fabric)
        numbers = {point: number for number, point in enumerate(self.fabric.points())}
        flows = self.ffi.new("struct fluid_flow[]", len(self.demands))
        of_vm: Dict[int, int] = {}
        for demand in self.demands:
            of_vm[demand.vm] = of_vm.get(demand.vm, 0) + 1
        for number, demand in enumerate(self.demands):
            one = flows[number]
            setattr(one, "from", demand.vm)
            one.to, one.start_ns, one.stop_ns = demand.to, EPOCH_NS + demand.start_ns, EPOCH_NS + demand.stop_ns
            one.ports = [NONE] * LAYERS
            for point in self.ways[number]:
                one.ports[self._depth[point]] = numbers[point]
            one.peers, one.want = self.law in PEERS, demand.rate or ENDLESS
            # Else flows of one rate would make their whole packets in the same steps.
            one.part, one.carried = 1 / of_vm[demand.vm], random.uniform(0, 1514)
        return flows

    def _make_ports(self) -> None:
        self._lab_array = self.ffi.new("struct shim_lab *[]", self._labs)
        self._ports = self.ffi.new("struct fluid_port[]", len(self.points))
        self.ports = np.frombuffer(self.ffi.buffer(self._ports), PORT)
        for number, (node, at) in enumerate(self.points):
            link = self.fabric.links[at]
            limit, mark = (link.limit_a, link.mark_a) if link.a == node else (link.limit_b, link.mark_b)
            self.ports[number]["layer"] = self._depth[node, at]
            for name, value in (("capacity", link.rate_bps / 8), ("limit", limit), ("mark", mark)):
                self.ports[number][name] = value

    def close(self) -> None:
        """Remove the engines."""
        for lab in self._labs:
            self.lib.shim_lab_remove(lab)
        self._labs = []

    @property
    def time_ns(self) -> int:
        """Return the time from the start."""
        return int(self.lib.shim_host_clock_ns) - EPOCH_NS

    @property
    def reports(self) -> int:
        """Return how many reports shims sent each other."""
        return int(self._fluid.messages)

    def run(self, until_ns: int) -> None:
        """Let time go by in whole steps."""
        self.lib.fluid_run(self._fluid, EPOCH_NS + until_ns)

    def tell(self, vm: int, data: bytes) -> None:
        """Bring a message of the controller to a VM."""
        self.lib.fluid_tell(self._fluid, vm, data)

    def received(self) -> Vector:
        """Return what came of each flow since the start, bytes."""
        return np.array([self._flows[number].received for number in range(len(self.demands))])

    def limits(self) -> Vector:
        """Return the rates of VMs' limiters as of the last step, bytes/s."""
        return np.array([self._vms[number].rate for number in range(len(self.fabric.vms))])

    def sample(self, elapsed_ns: int) -> Sample:
        """Return what is to be seen now; elapsed_ns is the time since the sample before."""
        now = self.received()
        sample = Sample(self.time_ns, (now - self._before) / (elapsed_ns / 1e9), self.limits(),
                        np.array(self.ports["queue"]))
        self._before = now
        return sample

    def state(self, vm: int) -> Optional[VmState]:
        """Return what the shim tells of a VM; None: it never sent."""
        one, limiter = self._vms[vm], self._limiter
        if not self.lib.shim_lab_read_limiter(one.vm, one.uplink, limiter):
            return None
        return VmState(vm, self.fabric.vms[vm].weight, bool(limiter.active), limiter.rate, limiter.share,
                       limiter.sent_rate, limiter.bytes, limiter.packets, limiter.drop_horizon + limiter.drop_police)


@dataclass
class Controlled:
    """A network of rates under a controller, whose messages take delay_ns."""

    fluid: Fluid
    decisions: Optional[Decisions]
    period_ns: int
    delay_ns: int
    told: int = 0
    """Messages of the controller."""
    _waiting: List[Tuple[int, int, bytes]] = field(default_factory=list)
    _parts: Dict[Tuple[int, int], Dict[int, float]] = field(default_factory=dict)
    _recent: Dict[Tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find which part of what each VM sends goes through which port."""
        of_vm: Dict[int, int] = {}
        for demand in self.fluid.demands:
            of_vm[demand.vm] = of_vm.get(demand.vm, 0) + 1
        for demand, way in zip(self.fluid.demands, self.fluid.ways):
            for point in way:
                parts = self._parts.setdefault(point, {})
                parts[demand.vm] = parts.get(demand.vm, 0.0) + 1 / of_vm[demand.vm]
        self._seen = np.zeros(len(self.fluid.points))

    def run(self, duration_ns: int, sample_ns: int, show: Optional[Show] = None,
            see: Optional[Callable[[Sample], None]] = None) -> List[Sample]:
        """Simulate; return a sample every sample_ns, which see is called with. Both are whole numbers of steps."""
        samples = []
        next_control, next_sample, last = self.period_ns, sample_ns, 0
        while last < duration_ns:
            ends = [next_sample, duration_ns]
            if self.decisions is not None:
                ends.append(next_control)
            if self._waiting:
                ends.append(max(self._waiting[0][0], last + self.fluid.step_ns))
            until = min(ends)
            self.fluid.run(until)
            last = until
            self._deliver(last)
            if self.decisions is not None and last >= next_control:
                self._control(last)
                next_control += self.period_ns
            if last >= next_sample:
                samples.append(self.fluid.sample(sample_ns))
                next_sample += sample_ns
                if see is not None:
                    see(samples[-1])
                if show is not None:
                    show(last / duration_ns)
        return samples

    def _deliver(self, now_ns: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ns:
            _, vm, data = self._waiting.pop(0)
            self.fluid.tell(vm, data)

    def _control(self, now_ns: int) -> None:
        """Let the controller see a period and note what it says."""
        assert self.decisions is not None
        step = Step(EPOCH_NS + now_ns)
        ports = self.fluid.ports
        for number in np.nonzero(np.floor(ports["marks"]) > self._seen)[0].tolist():
            point, port = self.fluid.points[number], ports[number]
            self._recent[point] = now_ns
            step.ports.append(PortCount(point, int(port["marks"]), int(port["bytes"]) // 1514, int(port["bytes"]),
                                        int(port["lost"]) // 1514, int(port["queue"]), int(port["queue"]) // 1514))
        self._seen = np.floor(ports["marks"])
        if self.fluid.law == "maxmin":
            step.parts = self._parts
        else:
            step.parts = {point: self._parts.get(point, {}) for point, at in self._recent.items()
                          if now_ns - at <= 300_000_000}
        for vm in sorted({vm for parts in step.parts.values() for vm in parts}):
            state = self.fluid.state(vm)
            if state is not None:
                step.vms.append(state)
        told = self.decisions.decide(step)
        self.told += len(told)
        if self.delay_ns:
            self._waiting += [(now_ns + self.delay_ns, vm, data) for vm, data in told]
        else:
            for vm, data in told:
                self.fluid.tell(vm, data)
