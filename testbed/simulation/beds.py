# SPDX-License-Identifier: Apache-2.0
"""The testbed's own experiments, simulated: the same cases and workloads in, the same result out.

A result is made by collect.summarise() and judged by the experiment itself, as if the samples came from the testbed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD, Case, Experiment, Run
from sdngcc.shim import core
from sdngcc.testbed import collect
from sdngcc.testbed.knobs import knobs_of
from sdngcc.testbed.parameters import CONTROLLED, ParameterError, Parameters
from sdngcc.testbed.rehearsal import rehearse
from sdngcc.testbed.settings import describe
from sdngcc.testbed.simulation.fabric import of_testbed
from sdngcc.testbed.simulation.fluid import LAWS, Controlled, Demand, Fluid, Sample, step_of
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.packets import Bulk, Show, Simulation, Stream, make_decisions, run, table
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.workload import Workload

# What the simulators have of parameters that the testbed has more of.
ONLY: Dict[str, Tuple[Any, ...]] = {
    "topology": ("dumbbell", "star"), "gso": (False,), "backpressure": (False,), "accecn": (False,),
    "fabric": ("openflow",), "agent": ("none",), "mark_source": ("openflow",), "mark_delay_ms": (0,),
    "by_path": (False,), "controllers": (1,), "loss": ((0.0,),), "tenant_sizes": ((),), "generator": ("own",),
    "kill_controller_at_s": (None,), "red": ((),), "datapath": ("patched",), "edge": ("none",)}
# The simulators' defaults where they are not the testbed's.
DEFAULTS = ["backpressure=false"]
PROTOCOLS = ("reno", "cubic", "dctcp", "udp")
# A train of the testbed's generator (generator/source.c) has so many bytes of payload and datagrams at most, and takes
# no longer than that at the flow's rate.
TRAIN_BYTES, TRAIN_DATAGRAMS, TRAIN_NS = 65507, 64, 500_000
# Ethernet, IPv4 and UDP headers of a datagram.
HEADER_BYTES = 42


def check(parameters: Parameters) -> None:
    """Raise ParameterError for what the simulator of packets does not have, naming it."""
    for name, allowed in ONLY.items():
        value = getattr(parameters, name)
        if value not in allowed:
            shown = " or ".join(str(one) for one in allowed)
            raise ParameterError(f"{name}={value}: it is not simulated; {name}={shown} is")
    for index in range(parameters.senders):
        if parameters.protocol(index) not in PROTOCOLS:
            raise ParameterError(f"protocol {parameters.protocol(index)} is not simulated; {', '.join(PROTOCOLS)} are")


def train_of(rate_bps: int, payload: int) -> int:
    """Return how many datagrams the testbed's generator sends at a time."""
    fitting = rate_bps // (8 * (payload + HEADER_BYTES)) * TRAIN_NS // 10**9
    return max(1, min(fitting, TRAIN_DATAGRAMS, TRAIN_BYTES // payload))


def flows_of(workload: Workload, names: Dict[str, int], early: bool) -> List[Bulk | Stream]:
    """Return a workload's flows between VMs by number. Raises ParameterError for what is not simulated."""
    flows: List[Bulk | Stream] = []
    if workload.programs:
        raise ParameterError("real programs are not simulated")
    for flow in workload.flows:
        ends = (names[flow["vm"]], names[flow["to"]], round(flow["start_s"] * 1e9), round(flow["stop_s"] * 1e9))
        if flow["proto"] == "udp":
            flows.append(Stream(*ends, flow["rate_bps"], round(flow["on_ms"] * 1e6), round(flow["off_ms"] * 1e6),
                                flow["payload"], train_of(flow["rate_bps"], flow["payload"])))
        elif flow["proto"] == "tcp":
            flows += [Bulk(*ends, flow["cc"], flow["ecn"] or flow["cc"] == "dctcp", early=early)] * flow["count"]
        else:
            raise ParameterError(f"flows of kind {flow['proto']} are not simulated; tcp and udp are")
    return flows


def shim_settings(parameters: Parameters) -> Dict[str, int]:
    """Return the engine's settings that parameters ask for."""
    given = {"horizon_ns": parameters.horizon_us and parameters.horizon_us * 1000,
             "burst_us": parameters.burst_us, "burst_bytes": parameters.burst_bytes,
             "limiter": 0 if parameters.limiter == "police" else None, "ahead": 1 if parameters.ahead else None}
    return {name: value for name, value in given.items() if value is not None}


def shim_period_ns(law: str, period_us: Optional[int]) -> int:
    """Return T of a law in the shim, ns."""
    _, lib = core.load()
    return period_us * 1000 if period_us else int(lib.shim_law_find(law.encode()).period_ns)


def simulation_of(case: Case, seed: int, options: Options) -> Tuple[Simulation, Dict[str, int]]:
    """Return what is simulated for a case, and its VMs' numbers by name. Raises ParameterError."""
    parameters = case.parameters
    check(parameters)
    work = case.work(seed)
    fabric, names = of_testbed(parameters)
    simulation = Simulation(
        fabric, parameters.law, round(parameters.duration_s * 1e9), seed, options,
        [*flows_of(work, names, parameters.handshake == "early")], bin_ns=work.bin_us * 1000,
        sample_ns=parameters.sample_us * 1000, limits_ns=parameters.limit_sample_ms * 10**6, warm=True)
    if parameters.law == "none":
        return simulation, names
    knobs_of(parameters.law, parameters.knobs)
    simulation.settings = shim_settings(parameters)
    simulation.knobs = dict(parameters.knobs)
    period_ns = shim_period_ns(parameters.law, parameters.shim_period_us)
    simulation.knobs["period"] = period_ns
    if parameters.law in CONTROLLED:
        simulation.control_ns = round(parameters.period_ms * 1e6)
        levels = parameters.division == "bytes" if parameters.levels is None else parameters.levels
        simulation.decisions = make_decisions(fabric, parameters.law, simulation.control_ns, parameters.division,
                                              levels, period_ns)
    return simulation, names


def counters(raw: Path) -> Dict[str, int]:
    """Return what all shims counted, by the counters' names, in a folder of samples."""
    ffi, _ = core.load()
    names: Dict[int, str] = ffi.typeof("enum shim_counter").elements
    found = {names[number].removeprefix("SHIM_").lower(): count for number, count in _pairs(raw / "counters.txt")}
    found["message_marks"] = found.pop("marks")
    return found


def _pairs(path: Path) -> List[Tuple[int, int]]:
    """Return pairs of whole numbers, one a line."""
    return [(int(one), int(other)) for one, other in
            (line.split() for line in path.read_text(encoding="utf-8").splitlines())]


def samples_of(raw: Path, simulation: Simulation, names: Dict[str, int], parameters: Parameters) -> collect.Samples:
    """Return the samples that a simulation left in raw, as the testbed has them."""
    finer = max(1, round(collect.BIN_S * 1e9) // simulation.bin_ns)
    bins = round(parameters.duration_s / collect.BIN_S)
    by_number = {number: name for name, number in names.items()}
    goodput = {}
    for line in (raw / "received.txt").read_text(encoding="utf-8").splitlines():
        number, *counts = (int(word) for word in line.split())
        if by_number[number].startswith("vm"):
            goodput[by_number[number]] = [sum(counts[at * finer:(at + 1) * finer]) for at in range(bins)]
    limiters = [{"t_ns": t_ns, "vm": vm, "rate": rate, "share": share, "active": active}
                for t_ns, vm, rate, share, active in table(raw / "limiters.txt")]
    shim = {} if parameters.law == "none" else {
        "counters": counters(raw), "knobs": knobs_of(parameters.law, parameters.knobs)}
    meta = {"start_s": 0.0, "devices": {f"host-{name}": number for name, number in names.items()}, "shim": shim}
    return collect.Samples(meta, goodput, table(raw / "queue.txt"), limiters, [])


def _fluid_demands(workload: Workload, names: Dict[str, int]) -> List[Demand]:
    """Return what VMs want; raises ParameterError for what has no rates alone."""
    demands = []
    for flow in flows_of(workload, names, False):
        if isinstance(flow, Stream) and flow.on_ns:
            raise ParameterError("model=fluid has no senders that pause; model=packets has")
        rate = flow.rate_bps / 8 if isinstance(flow, Stream) else 0.0
        demands.append(Demand(flow.vm, flow.to, flow.start_ns, flow.stop_ns, rate))
    return demands


def _fluid_samples(case: Case, seed: int, options: Options, raw: Path, show: Optional[Show]
                   ) -> Tuple[collect.Samples, int]:
    """Simulate a case by rates alone; return samples as the testbed has them, and the controller's messages."""
    parameters, work = case.parameters, case.work(seed)
    simulation, names = simulation_of(case, seed, options)
    bin_ns = round(collect.BIN_S * 1e9)
    sample_ns = math.gcd(simulation.sample_ns, bin_ns)
    step_ns = step_of(simulation.knobs["period"], sample_ns, simulation.control_ns or sample_ns)
    demands = _fluid_demands(work, names)
    fluid = Fluid(simulation.fabric, parameters.law, demands, step_ns, seed, simulation.settings, simulation.knobs)
    try:
        controlled = Controlled(fluid, simulation.decisions, simulation.control_ns, options.control_delay_us * 1000)
        watched = fluid.points.index((simulation.fabric.watch or (0, 0))[::-1])
        rows: List[Tuple[int, ...]] = []
        limiters: List[Dict[str, int]] = []

        def see(sample: Sample) -> None:
            port = fluid.ports[watched]
            rows.append((sample.time_ns, int(port["bytes"]), int(port["queue"]), int(port["marks"]), 0,
                         int(port["lost"]) // 1514, 0))
            if sample.time_ns % simulation.limits_ns < sample_ns:
                for vm in range(len(simulation.fabric.vms)):
                    state = fluid.state(vm)
                    if state is not None:
                        limiters.append({"t_ns": sample.time_ns, "vm": vm, "rate": state.rate, "share": state.share,
                                         "active": int(state.active)})

        samples = controlled.run(simulation.duration_ns, sample_ns, show, see)
    finally:
        fluid.close()
    (raw / "queue.txt").write_text("t_ns bytes backlog marks early pdrop other\n" + "".join(
        " ".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    goodput = {name: [0] * round(parameters.duration_s / collect.BIN_S) for name in parameters.vm_names}
    by_number = {number: name for name, number in names.items()}
    for sample in samples:
        place = min((sample.time_ns - 1) // bin_ns, len(goodput["vm1"]) - 1)
        for demand, rate in zip(demands, sample.received):
            payload = UDP_PAYLOAD if demand.rate else TCP_PAYLOAD
            goodput[by_number[demand.vm]][place] += round(float(rate) * sample_ns / 1e9 * payload)
    meta = {"start_s": 0.0, "devices": {f"host-{name}": number for name, number in names.items()},
            "shim": {"counters": {"messages": controlled.told}, "knobs": knobs_of(parameters.law, parameters.knobs)}}
    return collect.Samples(meta, goodput, rows, limiters, []), controlled.told


def simulate_case(experiment: Experiment, case: Case, seed: int, options: Options, raw: Path,
                  show: Optional[Show] = None) -> Run:
    """Simulate one case and return its result. Raises ParameterError, SimulationError, BuildError."""
    raw.mkdir(parents=True, exist_ok=True)
    if options.model == "fluid":
        samples, told = _fluid_samples(case, seed, options, raw, show)
    else:
        simulation, names = simulation_of(case, seed, options)
        run(simulation, raw, show)
        samples = samples_of(raw, simulation, names, case.parameters)
        told = simulation.decisions.told if simulation.decisions else 0
    result = collect.summarise(samples, case.parameters)
    if experiment.measure is not None:
        result["measured"] = experiment.measure(raw, result)
    result["simulation"] = {"options": options.model_dump(mode="json"), "messages": told}
    return result


@dataclass(frozen=True)
class BedWork:
    """A case of an experiment of the testbed, to be simulated."""

    experiment: Experiment
    case: Case
    options: Options

    @property
    def label(self) -> str:
        """Return the case's label."""
        return self.case.label

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        return simulate_case(self.experiment, self.case, seed, self.options, raw, show)


def scenario_of(experiment: Experiment) -> Scenario:
    """Return the scenario that simulates an experiment of the testbed."""

    def works(settings: Sequence[str]) -> List[BedWork]:
        options, others = split_options(settings)
        cases = experiment.cases(DEFAULTS + others)
        rehearse(experiment, cases, 1)
        found = [BedWork(experiment, case, options) for case in cases]
        for work in found:
            check(work.case.parameters)
            if options.model == "fluid" and work.case.parameters.law not in LAWS:
                raise ParameterError(f"law={work.case.parameters.law}: model=fluid has {', '.join(LAWS)}")
            simulation_of(work.case, 1, work.options)
        return found

    return Scenario(experiment.name, experiment.summary, experiment.paper, experiment.seen, works, experiment.judge,
                    lambda: describe(Options) + describe(Parameters))
