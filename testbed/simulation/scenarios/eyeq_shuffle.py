# SPDX-License-Identifier: Apache-2.0
"""Three all-to-all jobs of 16 workers with 1, 2 and 4 connections a pair, guarantees of 4, 2 and 1: EyeQ's Fig. 8.

As in the paper there are 16 servers on one switch at 10 Gb/s, each with one worker of each job, and each job moves the
same bytes between each pair of servers, divided among its connections. The paper's 1 TB a job is what a server's line
carries in 50 s; here it is `line_ms`, and TCP's shortest timeout is 1 ms, for a longer one would be much of that time.
Jobs begin together, on connections that stand, each of which begins within the first two milliseconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field

from sdngcc.experiments.base import TCP_PAYLOAD, Run, Verdict, at_most, near
from sdngcc.experiments.eyeq.shuffle import CONNECTIONS, HEADROOM, JOBS, SLOWEST, ideal_s
from sdngcc.experiments.eyeq.shuffle import LOAD_S as IDEAL_OF_S
from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.settings import describe, make, read_settings
from sdngcc.testbed.simulation.fabric import Vm, leaf_spine
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.packets import Bulk, Show, run
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.simulation.tenants import Law, cell, labels_of, over_seeds, packets_only, took_s, under
from sdngcc.testbed.statistics import percentile, quantiles

# The paper's: a job alone at line rate, and the last completion without and with EyeQ, seconds.
PAPER_LINE_S, PAPER_BARE_S, PAPER_EYEQ_S = 50, 180, 210
WEIGHTS = (4, 2, 1)
# A paper's number that is read as a ratio of two times is met within this part.
NEAR = 0.15
# Jobs have this many times what they need under ideal shares, then the run is over.
PATIENCE = 2.5
MIN_RTO_MS = 1.0
BUFFER_BYTES, MARK_PERCENT = 667 * 1514, 90


class Parameters(BaseModel):
    """The servers and what they move."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: Law = Field("eyeq", description="control law of the shims")
    servers: int = Field(16, ge=2, le=64, description="servers, each with a worker of each job")
    host_mbps: int = Field(10000, ge=100, le=100000, description="rate of all links, Mb/s")
    rtt_us: int = Field(50, ge=8, le=10000, description="round trip without queues, us")
    horizon_us: int = Field(250, ge=10, le=1000000, description="most that a shim lets a packet wait, us")
    line_ms: float = Field(
        30, ge=1, le=100000, description="each job moves over each server's line what that carries in so long, ms; the "
        "paper: 50,000")


def transfers(parameters: Parameters, seed: int) -> List[Bulk]:
    """Return all connections; a VM's number is its server's times three plus its job's."""
    draw = random.Random(seed)
    end_ns = round(len(JOBS) * parameters.line_ms * 1e6 * PATIENCE)
    flows = []
    for job, count in enumerate(CONNECTIONS):
        size = round(parameters.host_mbps * parameters.line_ms * 125 / (parameters.servers - 1) / count)
        for one in range(parameters.servers):
            for other in range(parameters.servers):
                if one != other:
                    flows += [Bulk(one * len(JOBS) + job, other * len(JOBS) + job, draw.randrange(2_000_000), end_ns,
                                   size=size, early=True) for _ in range(count)]
    return flows


@dataclass(frozen=True)
class ShuffleWork:
    """One run."""

    label: str
    parameters: Parameters
    options: Options

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        parameters = self.parameters
        fabric = leaf_spine(1, parameters.servers, 1, parameters.host_mbps, parameters.host_mbps, parameters.rtt_us * 2,
                            BUFFER_BYTES, BUFFER_BYTES * MARK_PERCENT // 100)
        fabric.vms = [Vm(server, WEIGHTS[job]) for server in range(parameters.servers) for job in range(len(JOBS))]
        flows = transfers(parameters, seed)
        run(under(fabric, parameters.law, flows[0].stop_ns, seed, self.options, flows, parameters.horizon_us), raw,
            show)
        took: Dict[str, List[Optional[float]]] = {name: [] for name in JOBS}
        for number, seconds in took_s(raw).items():
            ended = None if seconds is None else seconds + flows[number].start_ns / 1e9
            took[JOBS[flows[number].vm % len(JOBS)]].append(ended)
        unit = parameters.line_ms / 1e3
        parts = {name: [time / unit for time in times if time is not None] for name, times in took.items()}
        return {"parameters": parameters.model_dump(mode="json"),
                "simulation": {"options": self.options.model_dump(mode="json")},
                "measured": {"flows": len(flows), "ended": sum(len(times) for times in parts.values()),
                             "median": {name: round(percentile(times, 50), 4) for name, times in parts.items()},
                             "done": {name: round(max(parts[name]), 4) if len(parts[name]) == len(times) else None
                                      for name, times in took.items()}},
                "series": {"done": {name: quantiles(times, 4) for name, times in parts.items()}}}


def works(settings: Sequence[str]) -> List[ShuffleWork]:
    """Return a run without a shim and one with eyeq, or that of the law that the user chose."""
    options, others = split_options(settings)
    packets_only(options)
    if not any(one.startswith("min_rto_ms=") for one in settings):
        options = options.model_copy(update={"min_rto_ms": MIN_RTO_MS})
    laws = [""] if any(one.startswith("law=") for one in others) else ["none", "eyeq"]
    found = []
    for law in laws:
        parameters = make(Parameters, read_settings(others, Parameters, {"law": law} if law else {},
                                                    tuple(Options.model_fields)))
        found.append(ShuffleWork(f"law={parameters.law}", parameters, options))
    return found


def ideal(law: str) -> Dict[str, float]:
    """Return when jobs end under ideal weighted shares: by connections without a law, else by guarantees."""
    bare = law == "none"
    times = ideal_s(CONNECTIONS if bare else WEIGHTS, TCP_PAYLOAD * (1.0 if bare else HEADROOM))
    return {name: time / IDEAL_OF_S for name, time in zip(JOBS, times)}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each job's end against ideal shares, the order, and what protection costs."""
    verdicts, last = [], {}
    for label, one in runs:
        law, done = one["parameters"]["law"], one["measured"]["done"]
        ended = {name: len(JOBS) * PATIENCE if time is None else time for name, time in done.items()}
        last[law] = max(ended.values())
        best = ideal(law)
        for name in JOBS:
            key, value = f"{name}, {label}: completion / ideal {best[name]:.3f}", round(ended[name] / best[name], 3)
            verdicts.append(Verdict(key, "as measured", value, True) if law == "none" else
                            at_most(key, value, SLOWEST))
        expected = sorted(JOBS, key=best.__getitem__)
        order = sorted(JOBS, key=ended.__getitem__)
        verdicts.append(Verdict(f"order of completion, {label}", " ".join(expected), " ".join(order), order == expected,
                                "P4 first without EyeQ; with guarantees of 4:2:1 inverted"))
    if "none" in last and "eyeq" in last:
        verdicts.append(near("last completion, protected / unprotected", round(last["eyeq"] / last["none"], 3),
                             PAPER_EYEQ_S / PAPER_BARE_S, NEAR, "210 s / 180 s = 1.17"))
    return verdicts


def tabulate(results: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the lines of the page's table."""
    lines = ["| run | " + " | ".join(f"{name} median; last; ideal" for name in JOBS) + " |", "|---" * 4 + "|"]
    for label in labels_of(results):
        best = ideal(label.removeprefix("law="))
        lines.append(f"| {label} | " + " | ".join(
            f"{cell(over_seeds(results, label, 'median', name))}; {cell(over_seeds(results, label, 'done', name))}; "
            f"{best[name]:.2f}" for name in JOBS) + " |")
    return lines


def draw(result: Dict[str, Any], path: Path) -> None:
    """Draw distributions of completion times by job, as the paper does, its last completions marked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = runs_of(result)
    figure, columns = pyplot.subplots(1, len(runs), figsize=(1 + 4 * len(runs), 3.6), squeeze=False, sharex=True,
                                      sharey=True, layout="constrained")
    for axes, one in zip(columns[0], runs):
        law = one["parameters"]["law"]
        best = ideal(law)
        for name, colour, style in zip(JOBS, ("#D55E00", "#0072B2", "#009E73"), ("-", "--", ":")):
            points = one["series"]["done"][name]
            axes.step([time for _, time in points], [percent / 100 for percent, _ in points], style, where="post",
                      color=colour, label=name)
            axes.axvline(best[name], color=colour, linewidth=0.8, alpha=0.5)
        axes.axvline((PAPER_BARE_S if law == "none" else PAPER_EYEQ_S) / PAPER_LINE_S, color="black", linewidth=1,
                     linestyle="-.", label="the paper's last")
        axes.set_title(one["label"], fontsize=10)
        axes.set_xlabel("completion, in times a job alone needs at line rate")
        axes.grid(alpha=0.3)
    columns[0][0].set_xlim(0, 1.05 * max(points[-1][1] for one in runs for points in one["series"]["done"].values()))
    columns[0][0].set_ylabel("part of flows")
    columns[0][-1].legend(fontsize=8, loc="upper left")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


SCENARIO = Scenario("eyeq-shuffle", "three shuffles of 16 servers whose guarantees invert their order", "EyeQ, Fig. 8",
                    "jobs end near ideal weighted shares, in the order of their guarantees", works, judge,
                    lambda: describe(Options) + describe(Parameters), draw, tabulate, seeds=3)
