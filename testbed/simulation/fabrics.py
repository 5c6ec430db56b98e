# SPDX-License-Identifier: Apache-2.0
"""Scenarios on leaf-spine networks: who sends to whom, how it is simulated, and what is compared with max-min.

The oracle is controller/rates/maxmin.py: weighted max-min rates of the flows on the very ways that they take. A share
is what came of a flow over what the oracle gives it. Of flows with a share below BELOW it is told how many are held by
E(i), their VM's part of its host's uplink, which law sdngcc lets no VM exceed. A network has settled when from then on
in every window of ``window_ms`` the mean of |share - 1| over all flows is at most TOLERANCE.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Literal, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sdngcc.controller.rates.maxmin import Claim, allot
from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD, Run
from sdngcc.testbed.knobs import knobs_of
from sdngcc.testbed.parameters import CONTROLLED
from sdngcc.testbed.settings import ParameterError, describe, make, read_settings
from sdngcc.testbed.simulation.beds import shim_period_ns
from sdngcc.testbed.simulation.fabric import Fabric, Vm, leaf_spine
from sdngcc.testbed.simulation.fluid import LAWS, Controlled, Demand, Fluid, step_of, ways
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.packets import Bulk, Show, Simulation, Stream, make_decisions, run, table
from sdngcc.testbed.statistics import jain, mean, percentile

TOLERANCE = 0.1
# Of max-min: flows with less are looked at; and of E(i): a limit that is there.
BELOW, AT_SHARE = 0.9, 0.99


class FabricParameters(BaseModel):
    """A leaf-spine network and what its VMs do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: Literal["static", "sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc"] = Field(
        "sdngcc", description="control law of the shims")
    leaves: int = Field(4, ge=1, le=64, description="leaf switches")
    per_leaf: int = Field(16, ge=1, le=256, description="hosts at each leaf")
    spines: int = Field(4, ge=1, le=64, description="spine switches; every leaf has a link to each")
    vms_per_host: int = Field(4, ge=1, le=64, description="VMs on each host")
    host_mbps: int = Field(10000, ge=100, le=100000, description="rate of hosts' links, Mb/s")
    fabric_mbps: int = Field(40000, ge=100, le=400000, description="rate of links between leaves and spines, Mb/s")
    rtt_us: int = Field(50, ge=8, le=10000, description="round trip between two leaves without queues, us")
    buffer_kb: int = Field(250, ge=15, le=10000, description="queue of a host's port, kB; others' by their rates")
    mark_percent: int = Field(20, ge=1, le=90, description="marking threshold, percent of the queue")
    pattern: Literal["incast", "permutation"] = Field(
        "permutation", description="incast: all VMs to one VM on the last host, but for those of that host; "
        "permutation: each VM to one on another host, drawn by the seed, each receiving from one")
    senders: Optional[int] = Field(
        None, ge=1, le=200000, description="only so many VMs send; default: all of the pattern")
    traffic: Literal["tcp", "udp", "mixed"] = Field(
        "tcp", description="model packets: what VMs send; mixed: by turns")
    weights: Tuple[int, ...] = Field((1,), min_length=1, description="VMs' weights; a list goes round")
    duration_s: float = Field(3, ge=0.1, le=600, description="simulated time, s")
    join_s: float = Field(0, ge=0, le=600, description="the second half of senders begins then, s; 0: with the others")
    period_ms: float = Field(5, ge=0.5, le=1000, description="T_i: the controller reads the marks this often, ms")
    division: Literal["bytes", "sent", "equal"] = Field("bytes", description="how marks are divided among sources")
    levels: bool = Field(True, description="law sdngcc with division=bytes: VMs are told levels beside marks")
    window_ms: int = Field(100, ge=1, le=1000, description="rates are means over windows of so many ms")
    knobs: Dict[str, int] = Field(default_factory=dict, description="knob.<name>=<n>: a knob of the law")

    @model_validator(mode="before")
    @classmethod
    def _split(cls, values: Any) -> Any:
        """Let a comma-separated text stand for a list."""
        if isinstance(values, dict) and isinstance(values.get("weights"), str):
            return {**values, "weights": tuple(values["weights"].split(","))}
        return values

    @model_validator(mode="after")
    def _check(self) -> FabricParameters:
        if not all(1 <= weight <= 65535 for weight in self.weights):
            raise ValueError("weights: each is from 1 to 65535")
        if self.leaves * self.per_leaf < 2:
            raise ValueError("leaves * per_leaf: there must be 2 hosts or more")
        if self.senders is not None and self.senders > self.possible:
            raise ValueError(f"senders={self.senders}: the network has {self.possible} that can send")
        if self.join_s >= self.duration_s:
            raise ValueError(f"join_s={self.join_s:g} must be less than duration_s={self.duration_s:g}")
        return self

    @property
    def possible(self) -> int:
        """How many VMs can send."""
        hosts = self.leaves * self.per_leaf
        return self.vms_per_host * (hosts - 1 if self.pattern == "incast" else hosts)


def parse(settings: Sequence[str], defaults: Dict[str, Any]) -> FabricParameters:
    """Return the parameters of ``name=value`` settings over defaults. Raises ParameterError naming each refused."""
    values = read_settings(settings, FabricParameters, defaults, tuple(Options.model_fields))
    parameters = make(FabricParameters, values)
    knobs_of(parameters.law, parameters.knobs)
    return parameters


def network(parameters: FabricParameters) -> Fabric:
    """Return the network with its VMs."""
    buffer_bytes = parameters.buffer_kb * 1000
    fabric = leaf_spine(parameters.leaves, parameters.per_leaf, parameters.spines, parameters.host_mbps,
                        parameters.fabric_mbps, parameters.rtt_us, buffer_bytes,
                        buffer_bytes * parameters.mark_percent // 100)
    for host in range(fabric.hosts):
        for place in range(parameters.vms_per_host):
            number = host * parameters.vms_per_host + place
            fabric.vms.append(Vm(host, parameters.weights[number % len(parameters.weights)]))
    return fabric


def pairs(parameters: FabricParameters, seed: int) -> List[Tuple[int, int]]:
    """Return who sends to whom, in the order in which they begin."""
    draw = random.Random(seed)
    hosts, each = parameters.leaves * parameters.per_leaf, parameters.vms_per_host
    senders = list(range(hosts * each))
    if parameters.pattern == "incast":
        target = (hosts - 1) * each
        found = [(vm, target) for vm in senders if vm // each != hosts - 1]
        draw.shuffle(found)
    else:
        receivers = list(senders)
        draw.shuffle(receivers)
        # Whoever drew his own host changes with one for whom that is fine.
        for vm in senders:
            while receivers[vm] // each == vm // each:
                other = draw.choice(senders)
                mine, theirs = receivers[vm], receivers[other]
                if theirs // each != vm // each and mine // each != other // each:
                    receivers[vm], receivers[other] = theirs, mine
        found = list(zip(senders, receivers))
        draw.shuffle(found)
    return found[:parameters.senders]


def oracle(fabric: Fabric, demands: Sequence[Demand], taken: Sequence[Sequence[Tuple[int, int]]]) -> List[float]:
    """Return the weighted max-min rate of each flow on the ways taken, bytes/s of frames."""
    claims: Dict[int, Claim] = {}
    capacities: Dict[Tuple[int, int], float] = {point: float(rate) for point, rate in fabric.points().items()}
    for number, (demand, way) in enumerate(zip(demands, taken)):
        uplink = (-1, fabric.vms[demand.vm].host)
        capacities[uplink] = fabric.uplink_bps(uplink[1]) / 8
        claims[number] = Claim({point: 1.0 for point in (uplink, *way)}, fabric.vms[demand.vm].weight)
    got = allot(claims, capacities)
    return [got[number].rate for number in range(len(demands))]


def settled_ms(errors: Sequence[float], window_ms: int, since: int) -> Optional[float]:
    """Return how long after window ``since`` errors stay within TOLERANCE; None: they do not."""
    last = next((at for at in range(len(errors) - 1, since - 1, -1) if errors[at] > TOLERANCE), since - 1)
    return None if last == len(errors) - 1 else float((last + 1 - since) * window_ms)


@dataclass(frozen=True)
class Seen:
    """What a simulator showed."""

    windows: List[List[float]]
    """Each flow's rate in each window, bytes/s of frames."""
    told: int
    """Messages of the controller, and reports in the fluid model."""
    queues: List[float]
    """The longest queue at the end of each window, bytes; [] with packets."""
    at_share: List[bool]
    """Of each flow: at the end its VM's limit is its part of the host's uplink, E(i)."""


@dataclass(frozen=True)
class FabricWork:
    """One run on a leaf-spine network."""

    label: str
    parameters: FabricParameters
    options: Options

    def demands(self, seed: int) -> List[Demand]:
        """Return what VMs want."""
        chosen = pairs(self.parameters, seed)
        draw = random.Random(seed + 1)
        end_ns, half = round(self.parameters.duration_s * 1e9), len(chosen) // 2
        # Within 10 ms, so that hosts' clocks do not begin together.
        return [Demand(vm, to, round((self.parameters.join_s if number >= half else 0.0) * 1e9) +
                       draw.randrange(10_000_000), end_ns) for number, (vm, to) in enumerate(chosen)]

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        raw.mkdir(parents=True, exist_ok=True)
        fabric, demands = network(self.parameters), self.demands(seed)
        taken = ways(fabric, demands, seed)
        if self.options.model == "fluid":
            seen = self._fluid(fabric, demands, seed, show)
        else:
            seen = self._packets(fabric, demands, seed, raw, show)
        return self._summary(seen, oracle(fabric, demands, taken))

    def _period_ns(self) -> int:
        return shim_period_ns(self.parameters.law, None)

    def _decisions(self, fabric: Fabric) -> Any:
        parameters = self.parameters
        if parameters.law not in CONTROLLED:
            return None
        return make_decisions(fabric, parameters.law, round(parameters.period_ms * 1e6), parameters.division,
                              parameters.levels and parameters.division == "bytes", self._period_ns())

    def _fluid(self, fabric: Fabric, demands: List[Demand], seed: int, show: Optional[Show]) -> Seen:
        parameters = self.parameters
        control_ns, window_ns = round(parameters.period_ms * 1e6), parameters.window_ms * 10**6
        step_ns = step_of(self._period_ns(), window_ns, control_ns)
        fluid = Fluid(fabric, parameters.law, demands, step_ns, seed, {}, parameters.knobs)
        try:
            controlled = Controlled(fluid, self._decisions(fabric), control_ns, self.options.control_delay_us * 1000)
            samples = controlled.run(round(parameters.duration_s * 1e9), window_ns, show)
            told = controlled.told + fluid.reports
            states = [fluid.state(demand.vm) for demand in demands]
        finally:
            fluid.close()
        return Seen([[float(rate) for rate in sample.received] for sample in samples], told,
                    [float(max(sample.queues)) for sample in samples],
                    [state is not None and state.rate >= AT_SHARE * state.share for state in states])

    def _packets(self, fabric: Fabric, demands: List[Demand], seed: int, raw: Path, show: Optional[Show]) -> Seen:
        parameters = self.parameters
        simulation = Simulation(
            fabric, parameters.law, round(parameters.duration_s * 1e9), seed, self.options,
            bin_ns=parameters.window_ms * 10**6, limits_ns=10**9, knobs=dict(parameters.knobs))
        payloads = []
        for number, demand in enumerate(demands):
            ends = (demand.vm, demand.to, demand.start_ns, demand.stop_ns)
            udp = parameters.traffic == "udp" or (parameters.traffic == "mixed" and number % 2 == 1)
            payloads.append(UDP_PAYLOAD if udp else TCP_PAYLOAD)
            simulation.flows.append(Stream(*ends, parameters.host_mbps * 10**6) if udp else Bulk(*ends))
        if parameters.law in CONTROLLED:
            simulation.control_ns = round(parameters.period_ms * 1e6)
            simulation.decisions = self._decisions(fabric)
        run(simulation, raw, show)
        rates: Dict[int, List[int]] = {}
        for line in (raw / "received.txt").read_text(encoding="utf-8").splitlines():
            number, *counts = (int(word) for word in line.split())
            rates[number] = counts
        seconds = parameters.window_ms / 1000
        windows = [[rates[demand.vm][at] / seconds / payload for demand, payload in zip(demands, payloads)]
                   for at in range(round(parameters.duration_s / seconds))]
        last = {vm: rate >= AT_SHARE * share for _, vm, rate, share, _ in table(raw / "limiters.txt")}
        return Seen(windows, simulation.decisions.told if simulation.decisions else 0, [],
                    [last.get(demand.vm, False) for demand in demands])

    def _summary(self, seen: Seen, ideal: List[float]) -> Run:
        """Return the run's result; the second half of the time since all send counts as settled."""
        parameters, windows, queues = self.parameters, seen.windows, seen.queues
        since = round(parameters.join_s * 1000 / parameters.window_ms)
        errors = [mean([abs(rate / best - 1) for rate, best in zip(window, ideal)]) for window in windows]
        late = windows[(since + len(windows)) // 2:]
        shares = [mean([window[number] for window in late]) / best for number, best in enumerate(ideal)]
        below = [number for number, share in enumerate(shares) if share < BELOW]
        return {
            "parameters": parameters.model_dump(mode="json"),
            "simulation": {"options": self.options.model_dump(mode="json"), "messages": seen.told},
            "measured": {
                "flows": len(ideal), "jain": round(jain(shares), 5),
                "of_max_min": round(sum(share * best for share, best in zip(shares, ideal)) / sum(ideal), 4),
                "share_p1": round(percentile(shares, 1), 4), "share_p50": round(percentile(shares, 50), 4),
                "share_p99": round(percentile(shares, 99), 4), "error": round(mean(errors[-len(late):]), 4),
                "settled_ms": settled_ms(errors, parameters.window_ms, since),
                "messages_per_s": round(seen.told / parameters.duration_s, 1),
                "below": len(below), "below_at_share": sum(seen.at_share[number] for number in below),
                "queue_bytes": round(max(queues[-len(late):])) if queues else None},
            "series": {"t_s": [round((at + 1) * parameters.window_ms / 1000, 6) for at in range(len(windows))],
                       "error": [round(error, 5) for error in errors],
                       "of_max_min": [round(sum(window) / sum(ideal), 5) for window in windows],
                       "queue_bytes": [round(queue) for queue in queues]},
        }


def make_works(settings: Sequence[str], defaults: Dict[str, Any], sweep: Dict[str, Sequence[Any]]
               ) -> List[FabricWork]:
    """Return a work for each combination of swept values that the user did not set. Raises ParameterError."""
    options, others = split_options(settings)
    asked = {setting.partition("=")[0] for setting in settings}
    combinations: List[Dict[str, Any]] = [{}]
    for name, values in sweep.items():
        if name not in asked:
            combinations = [{**one, name: value} for one in combinations for value in values]
    works = []
    for one in combinations:
        mine = options.model_copy(update={name: one[name] for name in one if name in Options.model_fields})
        rest = {name: value for name, value in one.items() if name not in Options.model_fields}
        label = ", ".join(f"{name}={value}" for name, value in one.items() if not isinstance(value, dict))
        works.append(FabricWork(label, parse(others, {**defaults, **rest}), mine))
        if mine.model == "fluid" and works[-1].parameters.law not in LAWS:
            raise ParameterError(f"law={works[-1].parameters.law}: model=fluid has {', '.join(LAWS)}")
    return works


def describe_fabric() -> List[Dict[str, str]]:
    """Return the parameters of leaf-spine scenarios for people."""
    return describe(Options) + describe(FabricParameters)
