# SPDX-License-Identifier: Apache-2.0
"""Queues at the edge and in the core, with ECMP by flow and by packet: EyeQ's Fig. 9.

The paper's network: 144 hosts at 10 Gb/s, 9 ToRs and 16 spines with full bisection, queues of 150 packets, read every
millisecond, no shim; each server sends at 0.9 of its rate to others, chosen at random. The flow sizes are not public:
of them the median (19 kB), the 90th percentile (133 kB) and the mean (2.4 MB) are told. What stands in for them is
log-linear between 1 kB, these two and the largest size that gives this mean. A server begins its next flow when the one
before would be over at 0.9 of the rate; each has a connection of its own, where the paper's servers keep one to every
other.

The default is a third of the network for 20 ms; with ``--set leaves=9`` it is the paper's.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field

from sdngcc.experiments.base import Run, Verdict, at_most
from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.settings import ParameterError, describe, make, read_settings
from sdngcc.testbed.simulation.fabric import Vm, leaf_spine
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.packets import Bulk, Show, Simulation, run, table
from sdngcc.testbed.simulation.scenario import Scenario

# Points of the distribution of sizes: bytes, part of flows that are no larger.
SIZES = ((1_000, 0.0), (19_000, 0.5), (133_000, 0.9))
MEAN_BYTES = 2_400_000
KINDS = ("edge", "up", "down")
# Packets arrive out of order by what the queues of all ways differ. Selective acknowledgements that come late, when all
# was acknowledged, end ns-3 3.44 (TcpTxBuffer::Update), so that there are none.
DUPACKS = 300
# What "far less congested" is taken for: so much of the edge's mean queue.
FAR_LESS = 0.5


class Parameters(BaseModel):
    """The network and its load."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    leaves: int = Field(3, ge=2, le=64, description="leaf switches; the paper has 9")
    per_leaf: int = Field(16, ge=1, le=64, description="hosts at each leaf")
    spines: int = Field(16, ge=1, le=64, description="spine switches; every leaf has a link to each")
    host_mbps: int = Field(10000, ge=100, le=100000, description="rate of all links, Mb/s")
    rtt_us: int = Field(20, ge=8, le=10000, description="round trip without queues, us")
    buffer_packets: int = Field(150, ge=10, le=10000, description="every queue, packets of 1500 bytes")
    load: float = Field(0.9, gt=0, le=2, description="what each server sends, of its rate")
    duration_ms: float = Field(
        20, ge=2, le=10000, description="time simulated, ms; queues of its first fifth do not count")
    sample_us: int = Field(1000, ge=10, le=100000, description="queues are read this often, us")


def largest() -> float:
    """Return the largest size that gives sizes their mean, bytes."""
    def logmean(low: float, high: float) -> float:
        return (high - low) / math.log(high / low)

    rest = sum((part - before) * logmean(size_before, size)
               for (size_before, before), (size, part) in zip(SIZES, SIZES[1:]))
    low, high = SIZES[-1][0] * 1.001, 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rest + (1 - SIZES[-1][1]) * logmean(SIZES[-1][0], middle) < MEAN_BYTES else (
            low, middle)
    return low


def draw_size(draw: random.Random, points: Sequence[Tuple[float, float]]) -> int:
    """Return a flow's size, bytes; points are as of SIZES, the last part is 1."""
    part = draw.random()
    for (low, before), (high, after) in zip(points, points[1:]):
        if part <= after:
            return round(low * (high / low) ** ((part - before) / (after - before)))
    return round(points[-1][0])


def draw_flows(parameters: Parameters, seed: int) -> List[Bulk]:
    """Return all flows in the order of their hosts."""
    draw = random.Random(seed)
    points = [*SIZES, (largest(), 1.0)]
    hosts, end_ns = parameters.leaves * parameters.per_leaf, round(parameters.duration_ms * 1e6)
    rate = parameters.load * parameters.host_mbps * 1e6 / 8
    flows = []
    for host in range(hosts):
        at_s = draw.uniform(0, 1e-3)
        while at_s * 1e9 < end_ns:
            to = draw.randrange(hosts - 1)
            size = draw_size(draw, points)
            flows.append(Bulk(host, to + (to >= host), round(at_s * 1e9), end_ns, size=size))
            at_s += size / rate
    return flows


@dataclass(frozen=True)
class EcmpWork:
    """One run."""

    label: str
    parameters: Parameters
    options: Options

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        parameters = self.parameters
        limit = parameters.buffer_packets * 1514
        # No port marks: its threshold is beyond its limit.
        fabric = leaf_spine(parameters.leaves, parameters.per_leaf, parameters.spines, parameters.host_mbps,
                            parameters.host_mbps, parameters.rtt_us, limit, 2 * limit)
        fabric.vms = [Vm(host) for host in range(fabric.hosts)]
        duration_ns = round(parameters.duration_ms * 1e6)
        simulation = Simulation(fabric, "none", duration_ns, seed, self.options, list(draw_flows(parameters, seed)),
                                bin_ns=duration_ns, queues_ns=parameters.sample_us * 1000)
        run(simulation, raw, show)
        counts: Dict[str, Dict[int, int]] = {kind: {} for kind in KINDS}
        for kind, packets, count in table(raw / "queues.txt"):
            counts[KINDS[kind]][packets] = count
        totals = table(raw / "totals.txt")[0]
        received = sum(int(line.split()[1]) for line in (raw / "received.txt").read_text().splitlines())
        rate = received * 8 / (parameters.duration_ms / 1e3) / (parameters.host_mbps * 1e6 * fabric.hosts)
        return {
            "parameters": parameters.model_dump(mode="json"),
            "simulation": {"options": self.options.model_dump(mode="json")},
            "measured": {
                "flows": len(simulation.flows), "received_of_capacity": round(rate, 4),
                "lost": dict(zip(KINDS, totals[5:8])),
                "queue_packets": {kind: {f"p{percent:g}": quantile(counts[kind], percent) for percent in
                                         (50, 90, 99, 99.9, 100)} for kind in KINDS}},
            "series": {"queue_packets": {kind: sorted(counts[kind].items()) for kind in KINDS}}}


def quantile(counts: Dict[int, int], percent: float) -> int:
    """Return the smallest length that at least percent of readings do not exceed; counts has readings by length."""
    need, seen = sum(counts.values()) * percent / 100, 0
    for length in sorted(counts):
        seen += counts[length]
        if seen >= need:
            return length
    return 0


def mean_length(points: Sequence[Sequence[int]]) -> float:
    """Return the mean length of readings, each as length and how many."""
    total = sum(count for _, count in points)
    return sum(length * count for length, count in points) / total if total else 0.0


def works(settings: Sequence[str]) -> List[EcmpWork]:
    """Return a run by flow and one by packet, or the one that the user chose."""
    options, others = split_options(settings)
    if options.model != "packets":
        raise ParameterError(f"model={options.model}: queues of packets need model=packets")
    parameters = make(Parameters, read_settings(others, Parameters, {}, tuple(Options.model_fields)))
    asked = {setting.partition("=")[0] for setting in settings}
    found = []
    for ecmp in ("flow", "packet") if "ecmp" not in asked else (options.ecmp,):
        own: Dict[str, Any] = {"ecmp": ecmp, **({} if "sack" in asked else {"sack": False})}
        if ecmp == "packet" and "dupacks" not in asked:
            own["dupacks"] = DUPACKS
        found.append(EcmpWork(f"ecmp={ecmp}", parameters, options.model_copy(update=own)))
    return found


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge what the paper says of the figure."""
    verdicts = []
    for label, one in runs:
        found, lengths = one["measured"]["queue_packets"], one["series"]["queue_packets"]
        core = max(mean_length(lengths["up"]), mean_length(lengths["down"]))
        verdicts.append(at_most(f"mean queue in the core over that at the edge, {label}",
                                round(core / (mean_length(lengths["edge"]) or 1), 3), FAR_LESS,
                                "far less congested than the edge"))
        if label == "ecmp=packet":
            verdicts.append(at_most("longest queue in the core, kB, ecmp=packet",
                                    max(found[kind]["p100"] for kind in ("up", "down")) * 1.5, 50, "less than 50 kB"))
            lost = one["measured"]["lost"]
            verdicts.append(at_most("packets lost in the core, ecmp=packet", lost["up"] + lost["down"], 0,
                                    "all are dropped at the servers' links"))
        verdicts.append(Verdict(f"received, of all hosts' rates, {label}", "as measured",
                                one["measured"]["received_of_capacity"], True))
    return verdicts


def draw(result: Dict[str, Any], path: Path) -> None:
    """Draw distributions of queues' lengths at the edge and in the core, as the paper does."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = runs_of(result)
    figure, columns = pyplot.subplots(1, len(runs), figsize=(1 + 4 * len(runs), 3.6), squeeze=False, sharey=True,
                                      layout="constrained")
    for axes, one in zip(columns[0], runs):
        for kind, colour, style in zip(KINDS, ("#D55E00", "#0072B2", "#009E73"), ("-", "--", ":")):
            points = one["series"]["queue_packets"][kind]
            total, seen, xs, ys = sum(count for _, count in points), 0, [], []
            for length, count in points:
                seen += count
                xs.append(length * 1.5)
                ys.append(seen / total)
            axes.step(xs, ys, style, where="post", color=colour, label={"edge": "to hosts", "up": "core, up",
                                                                        "down": "core, down"}[kind])
        axes.set_title(one["label"], fontsize=10)
        axes.set_xlabel("queue, kB")
        axes.set_xlim(0, one["parameters"]["buffer_packets"] * 1.5)
        axes.set_ylim(0.4, 1.01)
        axes.grid(alpha=0.3)
    columns[0][0].set_ylabel("part of readings")
    columns[0][0].legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


SCENARIO = Scenario("ecmp", "queues at the edge and in the core, with ECMP by flow and by packet", "EyeQ, Fig. 9",
                    "the edge is more congested; by packet the core is not at all", works, judge,
                    lambda: describe(Options) + describe(Parameters), draw, page=("leaves=9", "duration_ms=10"))
