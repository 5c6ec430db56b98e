# SPDX-License-Identifier: Apache-2.0
"""What is simulated for SCC's figures: networks, divisions, their flows, and what becomes of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sdngcc.experiments.base import Run
from sdngcc.experiments.own import traces
from sdngcc.experiments.scc.objectives import ORDERS, PROTOCOLS, TAIL_S, Group, draw, summarise
from sdngcc.testbed.simulation.divisions import Divisions
from sdngcc.testbed.simulation.fabric import Fabric, Vm
from sdngcc.testbed.simulation.ideal import Ideal
from sdngcc.testbed.simulation.options import Options
from sdngcc.testbed.simulation.packets import Bulk, Show, Simulation, run, table

TORS = 4
# Thresholds, full frames: the paper's 20 of a link of 1 Gb/s; of faster ones DCTCP's 65 of 10 Gb/s, in proportion.
MARK_FRAMES, MARK_FRAMES_10G, FRAME_BYTES = 20, 65, 1514
# Deadlines leave a flow this much more than what it takes alone, as pFabric has it.
LEAST_DEADLINE = 1.25
# A tunnel's queue holds so much, as in the testbed's experiment; the shortest timeout of pFabric's senders, and its
# buffers, two products of bandwidth and delay, as that paper has them.
HORIZON_NS, PFABRIC_RTO_MS, PFABRIC_BYTES = 50_000_000, 1, 75_000
# Rates that are right at every moment, without and with SCC.
IDEALS = ("flows", "ideal")
# Flows of this first part of the run do not count.
WARM = 0.1
# The one link of figure 5 has fewer flows, and more time.
DUMBBELL_TIMES = 10
STEPS = 8
"""Steps of round trips for a factor of 2, as packets/traffic.h has them."""


class Parameters(BaseModel):
    """Networks and their load."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    figures: Tuple[int, ...] = Field((5, 6, 7, 8, 9, 10, 11, 12), description="which of SCC's figures")
    loads: Tuple[int, ...] = Field((10, 30, 50, 70, 90), description="loads of figure 9, percent; the paper's range")
    per_tor: int = Field(5, ge=2, le=60, description="hosts at each of 4 ToRs, 1 Gb/s each; their uplink is as fast as "
                         "all together. Figure 11a has three times as many, so that 10 are the paper's 3:1")
    duration_ms: float = Field(200, ge=10, le=100000, description="time in which flows begin, ms")
    tail_ms: float = Field(50, ge=0, le=10000, description="time after that, in which they may end, ms")
    size_scale: float = Field(0.1, gt=0, le=1, description="sizes of web search and data mining are multiplied by it")
    largest_kb: int = Field(3000, ge=1, le=1000000, description="no flow is larger, kB")
    deadline_ms: float = Field(20, gt=0, le=1000, description="mean of the exponential distribution of deadlines, ms")
    rtt_us: int = Field(300, ge=8, le=10000, description="round trip without queues, us")
    buffer_kb: int = Field(250, ge=20, le=10000, description="every port's buffer, kB")
    host_marks: bool = Field(True, description="hosts' own ports mark and drop as switches' do, without a shim: links "
                             "of ns-2 are alike at both ends. With one, tunnels queue there")
    mark_kb: float = Field(100, ge=2, le=10000, description="knob mark-bytes of law scc: a tunnel's queue marks from "
                           "so much on, kB; 100 is the law's own, 30 the paper's threshold of switches")
    inactive_ms: float = Field(1000, ge=0.1, le=10000, description="a VM keeps its part of its host's link for so long "
                               "after it sent last, ms; the engine's T_o")
    weight_times: int = Field(1, ge=1, le=1000, description="tunnels' weights are multiplied by it; 1: those of a "
                              "division add up to its own in the whole network, as the paper has it")
    literal: bool = Field(False, description="law scc has the paper's equations (1) and (2)")
    ideals_only: bool = Field(False, description="no packets are sent: only what rates would give that are right at "
                              "every moment, by SCC's weights and of flows alike")

    @field_validator("figures", "loads", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(value.split(",")) if isinstance(value, str) else value


@dataclass(frozen=True)
class Setup:
    """What is run once."""

    loads: Tuple[Tuple[str, int], ...]
    """Objectives with their loads, percent of a host's link."""
    how: str
    """none: no shim; scc; unordered: scc, flows take no turns; dctcp: scc, DCTCP for all; first: scc, LS has a queue of
    its own; pfabric. Not packets but rates that are right at every moment (ideal.py): flows, each flow alike, no shim;
    ideal, tunnels by their weights."""
    workload: str = "data mining"
    network: str = "clos"
    """clos, 3:1 or dumbbell; the last has the flows of the paper's section II.B."""

    @property
    def label(self) -> str:
        """Return what tells it from others."""
        mix = "+".join(name.upper() for name, _ in self.loads)
        place = {"clos": self.workload, "3:1": f"{self.workload} 3:1"}.get(self.network, self.network)
        return f"{place}, {mix} {self.loads[0][1]}%, {self.how}"


def clos(parameters: Parameters, hosts: int, pfabric: bool) -> Fabric:
    """Return 4 ToRs of so many hosts below one core switch; the uplink is of per_tor Gb/s."""
    fabric = Fabric(TORS * hosts, TORS + 1)
    delay_ns = round(parameters.rtt_us * 1000 / 8)
    core_bps = parameters.per_tor * 10**9
    limit = parameters.buffer_kb * 1000
    edge = min(limit, PFABRIC_BYTES) if pfabric else limit
    frames = max(MARK_FRAMES, MARK_FRAMES_10G * core_bps / 10**10)
    for host in range(fabric.hosts):
        fabric.attach(host, fabric.hosts + host // hosts, 10**9, delay_ns, edge, MARK_FRAMES * FRAME_BYTES)
    for tor in range(TORS):
        fabric.join(fabric.hosts + tor, fabric.hosts + TORS, core_bps, delay_ns, limit, round(frames * FRAME_BYTES))
    return fabric


def dumbbell(parameters: Parameters, pairs: int) -> Fabric:
    """Return so many hosts that send to as many others over one link of 1 Gb/s."""
    fabric = Fabric(2 * pairs, 2)
    delay_ns, limit, mark = round(parameters.rtt_us * 1000 / 6), parameters.buffer_kb * 1000, MARK_FRAMES * FRAME_BYTES
    for host in range(fabric.hosts):
        fabric.attach(host, fabric.hosts + host // pairs, 10**9, delay_ns, limit, mark)
    fabric.join(fabric.hosts, fabric.hosts + 1, 10**9, delay_ns, limit, mark)
    return fabric


@dataclass(frozen=True)
class SccWork:
    """A setup, to be run."""

    setup: Setup
    parameters: Parameters
    options: Options

    @property
    def label(self) -> str:
        """Return the setup's label."""
        return self.setup.label

    def _protocol(self, objective: str) -> str:
        if self.setup.how == "pfabric":
            return "pfabric"
        return "dctcp" if self.setup.how == "dctcp" else PROTOCOLS[objective]

    def _bulk(self, objective: str, vm: int, to: int, start_ns: int, size: int, deadline_ns: int) -> Bulk:
        ordered = self.setup.how in ("scc", "dctcp", "first", "ideal")
        return Bulk(vm, to, start_ns, self._end_ns, self._protocol(objective), self.setup.how != "pfabric", size,
                    deadline_ns=deadline_ns, order=ORDERS[objective] if ordered else "none")

    @property
    def _end_ns(self) -> int:
        return round((self._length_ms + self.parameters.tail_ms) * 1e6)

    @property
    def _length_ms(self) -> float:
        return self.parameters.duration_ms * (DUMBBELL_TIMES if self.setup.network == "dumbbell" else 1)

    def _dumbbell_flows(self, seed: int) -> List[Bulk]:
        flows = []
        length_s = self._length_ms / 1000 + TAIL_S
        for number, (objective, load) in enumerate(self.setup.loads):
            # Percent of half of the link, as in the paper's section II.B.
            group = Group(objective, objective, (objective,), load / 100 * 500)
            flows += [self._bulk(objective, number, len(self.setup.loads) + number, *flow)
                      for flow in draw(group, objective, length_s, seed)]
        return flows

    def flows(self, hosts: int, rack: int, seed: int) -> List[Bulk]:
        """Return the flows of a network of hosts, so many in a rack; VMs of a host are numbered one after the other."""
        parameters, setup = self.parameters, self.setup
        if setup.network == "dumbbell":
            return self._dumbbell_flows(seed)
        trace = traces.TRACES[setup.workload]
        scale = 1.0 if setup.workload == "hadoop" else parameters.size_scale
        share = parameters.per_tor / rack
        flows, kinds = [], len(setup.loads)
        for host in range(hosts):
            for number, (objective, load) in enumerate(setup.loads):
                dice = random.Random(f"{seed} {objective} {host}")
                schedule = traces.draw(trace, seed, f"{objective} {host}", load / 100 * 1000 * share,
                                       parameters.duration_ms / 1000, scale, parameters.largest_kb * 1000)
                for start_ns, size in schedule:
                    to = dice.randrange(hosts - 1)
                    to += to >= host
                    while setup.network == "3:1" and to // rack == host // rack:
                        to = dice.randrange(hosts)
                    alone_ns = size * 8 + parameters.rtt_us * 1000
                    deadline_ns = max(dice.expovariate(1 / (parameters.deadline_ms * 1e6)), LEAST_DEADLINE * alone_ns)
                    flows.append(self._bulk(objective, host * kinds + number, to * kinds + number, start_ns, size,
                                            round(deadline_ns) if objective == "ds" else 0))
        return flows

    def simulation(self, seed: int) -> Tuple[Simulation, List[str]]:
        """Return what is simulated, and each VM's objective."""
        setup, parameters = self.setup, self.parameters
        kinds = [objective for objective, _ in setup.loads]
        options = self.options
        if setup.network == "dumbbell":
            fabric, rack = dumbbell(parameters, len(kinds)), len(kinds)
            fabric.vms, objectives = [Vm(host) for host in range(fabric.hosts)], kinds * 2
        else:
            rack = parameters.per_tor * (3 if setup.network == "3:1" else 1)
            fabric = clos(parameters, rack, setup.how == "pfabric")
            fabric.vms = [Vm(host) for host in range(fabric.hosts) for _ in kinds]
            objectives = kinds * fabric.hosts
        if setup.how == "pfabric":
            options = options.model_copy(update={"min_rto_ms": PFABRIC_RTO_MS})
        law = "none" if setup.how in ("none", "pfabric", *IDEALS) else "scc"
        simulation = Simulation(fabric, law, self._end_ns, seed, options,
                                list(self.flows(fabric.hosts, rack, seed)),
                                bin_ns=round(self._length_ms * 1e6), times=True)
        if law == "scc":
            simulation.divisions = Divisions(objectives, times=parameters.weight_times)
            simulation.settings = {"horizon_ns": HORIZON_NS,
                                   "inactive_ns": round(parameters.inactive_ms * 1e6)}
            simulation.knobs = {"mark-bytes": round(parameters.mark_kb * 1000),
                                **({"literal": 1, "haste": 0, "rmin-ppm": 0} if parameters.literal else {})}
        elif parameters.host_marks and setup.how == "none":
            fabric.links = [replace(link, limit_a=link.limit_b, mark_a=link.mark_b) if link.a < fabric.hosts else link
                            for link in fabric.links]
        if setup.how in ("first", "pfabric"):
            # LS before all others, or DS before CS.
            first = "ls" if setup.how == "first" else "ds"
            simulation.ranks = "strict" if setup.how == "first" else "pfabric"
            simulation.rank_of = {vm: 0 if name == first else 1 for vm, name in enumerate(objectives)}
        return simulation, objectives

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        simulation, objectives = self.simulation(seed)
        if self.setup.how in IDEALS:
            return self._run_ideal(simulation, objectives, show)
        run(simulation, raw, show)
        took = {number: took_ns for number, _, _, took_ns in table(raw / "flows.txt") if took_ns >= 0}
        counts: Dict[str, Dict[int, int]] = {name: {} for name in objectives}
        for vm, step, count in table(raw / "times.txt"):
            own = counts[objectives[vm]]
            own[step] = own.get(step, 0) + count
        received: Dict[str, int] = dict.fromkeys(objectives, 0)
        for line in (raw / "received.txt").read_text(encoding="utf-8").splitlines():
            vm, first, *_ = (int(word) for word in line.split())
            received[objectives[vm]] += first
        ended = self._ended(simulation, objectives, took)
        measured = {name: {"load_percent": load, **ended[name], **round_trips(counts[name]),
                           "received_mbps": round(received[name] * 8 / self._length_ms / 1e3, 1)}
                    for name, load in self.setup.loads}
        lost = table(raw / "totals.txt")[0][5:8]
        return {"parameters": self.parameters.model_dump(mode="json"),
                "simulation": {"options": simulation.options.model_dump(mode="json")},
                "measured": {**measured, "lost": dict(zip(("edge", "up", "down"), lost))}}

    def _run_ideal(self, simulation: Simulation, objectives: List[str], show: Optional[Show]) -> Run:
        flows = [flow for flow in simulation.flows if isinstance(flow, Bulk)]
        ideal = Ideal(simulation.fabric, flows, self.parameters.rtt_us / 1e6,
                      objectives if self.setup.how == "ideal" else None)
        arrived = ideal.run(self._end_ns / 1e9, show)
        took = {number: at_ns - flows[number].start_ns for number, at_ns in arrived.items()}
        ended = self._ended(simulation, objectives, took)
        return {"parameters": self.parameters.model_dump(mode="json"),
                "measured": {name: {"load_percent": load, **ended[name]} for name, load in self.setup.loads}}

    def _ended(self, simulation: Simulation, objectives: List[str], took: Dict[int, int]) -> Dict[str, Dict[str, Any]]:
        """Return what became of each objective's flows, of how long those took that ended, ns, by number."""
        found = {}
        for name, _ in self.setup.loads:
            flows: List[Tuple[int, int, int]] = []
            arrived: Dict[int, int] = {}
            for number, flow in enumerate(simulation.flows):
                if not isinstance(flow, Bulk) or objectives[flow.vm] != name:
                    continue
                if flow.start_ns < WARM * self._length_ms * 1e6:
                    continue
                if number in took:
                    arrived[len(flows)] = flow.start_ns + took[number]
                flows.append((flow.start_ns, flow.size, flow.deadline_ns))
            found[name] = summarise(flows, arrived, self._end_ns)
        return found


def round_trips(counts: Dict[int, int]) -> Dict[str, float]:
    """Return mean, median and 99th percentile of round trips, us, of counts by step."""
    total = sum(counts.values())
    found = {"rtt_mean_us": sum(2 ** (step / STEPS) * count for step, count in counts.items()) / max(total, 1)}
    for percent in (50, 99):
        seen = 0
        for step in sorted(counts):
            seen += counts[step]
            if seen >= total * percent / 100:
                found[f"rtt_p{percent}_us"] = 2 ** (step / STEPS)
                break
    return {name: round(value, 1) for name, value in found.items()}


def three(load: int) -> Tuple[Tuple[str, int], ...]:
    """Return DS, CS and LS of that load each."""
    return (("ds", load), ("cs", load), ("ls", load))


# Loads of figure 5, percent of half of its link; divisions of figure 7; workloads of figure 10.
LOADS_5 = (20, 50, 80)
MIXES_7: Tuple[Tuple[str, ...], ...] = (("ds", "cs"), ("ds", "ls"), ("cs", "ls"), ("ds", "cs", "ls"))
WORKLOADS_10 = ("data mining", "web search", "hadoop")


def setups(parameters: Parameters) -> List[Setup]:
    """Return what the figures need, each once."""
    found: List[Setup] = []
    laws = ("none", "scc", "flows", "ideal")
    made: Dict[int, List[Setup]] = {
        5: [Setup((("ds", load), ("cs", load)), how, network="dumbbell")
            for load in LOADS_5 for how in ("none", "unordered", "scc")],
        6: [Setup(three(30), how) for how in laws],
        7: [Setup(tuple((name, 30) for name in mix), how) for mix in MIXES_7 for how in laws] + [
            Setup((("cs", 30),), "none")],
        8: [Setup((("ds", 40), ("cs", 40)), how) for how in (*laws, "pfabric")],
        9: [Setup(((name, load),), how) for name in ("ds", "cs") for load in parameters.loads for how in laws],
        10: [Setup(three(30), how, workload) for workload in WORKLOADS_10 for how in laws],
        11: [Setup(three(30), how, "web search", "3:1") for how in laws] + [
            Setup(three(30), how) for how in (*laws, "dctcp")],
        12: [Setup(three(30), how) for how in ("scc", "first")],
    }
    for figure in parameters.figures:
        found += [setup for setup in made[figure]
                  if setup not in found and (setup.how in IDEALS or not parameters.ideals_only)]
    return found


def label(loads: Sequence[Tuple[str, int]], how: str, workload: str = "data mining", network: str = "clos") -> str:
    """Return a setup's label."""
    return Setup(tuple(loads), how, workload, network).label


def of(found: Dict[str, Any], one: str, objective: str, name: str) -> Optional[float]:
    """Return a measure of an objective in the run of that label; None: it was not run, or there is none."""
    value = found.get(one, {}).get(objective, {}).get(name)
    return None if value is None else float(value)
