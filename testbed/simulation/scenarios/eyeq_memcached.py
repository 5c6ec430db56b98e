# SPDX-License-Identifier: Apache-2.0
"""A memcached tenant at full and at half load beside a tenant of UDP bursts: EyeQ's section 5.2.

As in the paper 4 of 16 hosts have a server and 12 a client each, at 10 Gb/s; a client keeps 10 connections to every
server and stores values of 6 kB, 6,000 a second and server at full load, 72,000 a server. Every host has a VM of the
UDP tenant, too, that sends at line rate to one other for `burst_ms`, the next one in turn, and rests as long; the
paper's bursts are half a second. Both tenants are guaranteed 5 Gb/s.

A server answers at once: what its processor costs is not simulated, nor that a client waits. A request begins when it
is due, whether or not its connection has others under way; one without an answer when the run ends has waited so long
at least, which is what it counts as.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field

from sdngcc.experiments.base import Run, Verdict, at_least, at_most
from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.settings import describe, make, read_settings
from sdngcc.testbed.simulation.fabric import Vm, leaf_spine
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.packets import Call, Show, Stream, run, table
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.simulation.tenants import Law, cell, labels_of, over_seeds, packets_only, under
from sdngcc.testbed.statistics import percentile, quantiles

HOSTS, SERVERS, CONNECTIONS = 16, 4, 10
# A SET of a value of 6 kB by a key of 32 bytes, "set KEY 0 0 6000\r\n" and an end of line; and "STORED\r\n".
REQUEST_BYTES, RESPONSE_BYTES = 6000 + 32 + 15 + 2, 8
# Requests a second of a client to a server at full load.
FULL_PER_S = 6000
GUARANTEE = 5 * 125_000_000
PERCENTS = (50, 99, 99.9)
# The paper's p99.9 with EyeQ at half load, us, and how many times as long p99 is without it.
PAPER_P999_US, PAPER_TIMES = 750, 1000
BUFFER_BYTES, MARK_PERCENT = 667 * 1514, 90


class Parameters(BaseModel):
    """The tenants."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: Law = Field("eyeq", description="control law of the shims")
    load: float = Field(100, ge=1, le=200, description="requests, percent of 72,000 a second and server")
    bursts: bool = Field(True, description="the UDP tenant sends")
    burst_ms: float = Field(50, ge=1, le=10000, description="UDP sends so long, then rests as long, ms; the paper: 500")
    rtt_us: int = Field(50, ge=8, le=10000, description="round trip without queues, us")
    horizon_us: int = Field(250, ge=10, le=1000000, description="most that a shim lets a packet wait, us")
    duration_ms: float = Field(200, ge=2, le=100000, description="time simulated, ms")


def flows_of(parameters: Parameters) -> List[Call | Stream]:
    """Return what both tenants send; a host's VMs are memcached's and UDP's, servers are the first hosts."""
    end_ns = round(parameters.duration_ms * 1e6)
    gap_ns = round(1e9 * CONNECTIONS / (FULL_PER_S * parameters.load / 100))
    flows: List[Call | Stream] = [
        Call(2 * client, 2 * server, 0, end_ns, REQUEST_BYTES, RESPONSE_BYTES, gap_ns)
        for client in range(SERVERS, HOSTS) for server in range(SERVERS) for _ in range(CONNECTIONS)]
    burst_ns = round(parameters.burst_ms * 1e6)
    for turn in range(-(-end_ns // (2 * burst_ns)) if parameters.bursts else 0):
        start_ns = turn * 2 * burst_ns
        for host in range(HOSTS):
            other = (host + 1 + turn % (HOSTS - 1)) % HOSTS
            flows.append(Stream(2 * host + 1, 2 * other + 1, start_ns, min(start_ns + burst_ns, end_ns), 10**10))
    return flows


@dataclass(frozen=True)
class MemcachedWork:
    """One run."""

    label: str
    parameters: Parameters
    options: Options

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        parameters = self.parameters
        fabric = leaf_spine(1, HOSTS, 1, 10000, 10000, parameters.rtt_us * 2, BUFFER_BYTES,
                            BUFFER_BYTES * MARK_PERCENT // 100)
        fabric.vms = [Vm(host, 1, GUARANTEE) for host in range(HOSTS) for _ in range(2)]
        end_ns = round(parameters.duration_ms * 1e6)
        run(under(fabric, parameters.law, end_ns, seed, self.options, flows_of(parameters), parameters.horizon_us), raw,
            show)
        calls = [(begin_ns, took_ns) for _, begin_ns, took_ns in table(raw / "calls.txt")]
        took = [(end_ns - begin_ns if took_ns < 0 else took_ns) / 1000 for begin_ns, took_ns in calls]
        answered = sum(took_ns >= 0 for _, took_ns in calls)
        return {"parameters": parameters.model_dump(mode="json"),
                "simulation": {"options": self.options.model_dump(mode="json")},
                "measured": {"asked": len(calls), "answered": round(answered / len(calls), 5),
                             "per_s": round(answered / (end_ns / 1e9)),
                             **{f"p{percent:g}_us": round(percentile(took, percent), 1) for percent in PERCENTS}},
                "series": {"quantiles_us": quantiles(took)}}


def works(settings: Sequence[str]) -> List[MemcachedWork]:
    """Return memcached alone and beside UDP, without a shim and with eyeq, at both loads, or what the user chose."""
    options, others = split_options(settings)
    packets_only(options)
    found: Dict[str, MemcachedWork] = {}
    for load in (100, 50):
        for law in ("none", "eyeq"):
            for bursts in (False, True):
                own = {"load": load, "law": law, "bursts": bursts}
                parameters = make(Parameters, read_settings(others, Parameters, own, tuple(Options.model_fields)))
                label = f"law={parameters.law}, load {parameters.load:g}%{'' if parameters.bursts else ', alone'}"
                found.setdefault(label, MemcachedWork(label, parameters, options))
    return list(found.values())


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge throughput at full load and latency at half load, as the paper tells them."""
    found = {label: one["measured"] for label, one in runs}
    verdicts = []
    for label, one in runs:
        own = one["measured"]
        verdicts.append(Verdict(f"answered, p50, p99, p99.9 in us, {label}", "as measured",
                                [own["answered"], *(own[f"p{percent:g}_us"] for percent in PERCENTS)], True))
        law, load = one["parameters"]["law"], one["parameters"]["load"]
        if load == 100 and law != "none":
            verdicts.append(at_least(f"requests answered of those asked, {label}", own["answered"], 0.99,
                                     "288,000 a second are sustained"))
        if load == 100 and label == "law=none, load 100%":
            verdicts.append(at_most(f"requests answered of those asked, {label}", own["answered"], 0.97,
                                    "269,000 of 288,000 a second = 0.934"))
        if label == "law=eyeq, load 50%":
            verdicts.append(at_most(f"p99.9, us, {label}", own["p99.9_us"], PAPER_P999_US, "750 us"))
        alone = found.get(f"{label}, alone")
        if label == "law=none, load 50%" and alone is not None:
            verdicts.append(at_least(f"p99, times that alone, {label}", round(own["p99_us"] / alone["p99_us"], 1),
                                     PAPER_TIMES, "over three orders of magnitude"))
    return verdicts


def tabulate(results: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the lines of the page's table."""
    lines = ["| run | answered | p50, us | p99, us | p99.9, us |", "|---|---|---|---|---|"]
    names = ("answered", *(f"p{percent:g}_us" for percent in PERCENTS))
    for label in labels_of(results):
        lines.append(f"| {label} | " + " | ".join(cell(over_seeds(results, label, name), 4) for name in names) + " |")
    return lines


def draw(result: Dict[str, Any], path: Path) -> None:
    """Draw distributions of latency, a panel a load."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    loads = list(dict.fromkeys(one["parameters"]["load"] for one in runs_of(result)))
    figure, columns = pyplot.subplots(1, len(loads), figsize=(1 + 4 * len(loads), 4), squeeze=False, sharey=True,
                                      layout="constrained")
    for axes, load in zip(columns[0], loads):
        mine = [one for one in runs_of(result) if one["parameters"]["load"] == load]
        for one, colour in zip(mine, ("#0072B2", "#D55E00", "#56B4E9", "#009E73")):
            points = [(time, 1 - percent / 100) for percent, time in one["series"]["quantiles_us"] if percent < 100]
            axes.step([time for time, _ in points], [part for _, part in points],
                      "--" if one["label"].endswith("alone") else "-", where="post", color=colour,
                      label=one["label"].replace(f", load {load:g}%", ""))
        if load == 50:
            axes.plot([PAPER_P999_US], [0.001], "k*", markersize=9, label="the paper's p99.9 with EyeQ")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(f"load {load:g}%", fontsize=10)
        axes.set_xlabel("latency, us")
        axes.grid(alpha=0.3)
        axes.set_xlim(left=30)
    handles, names = columns[0][-1].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, ncols=3, loc="outside lower center")
    columns[0][0].set_ylabel("part of requests that take longer")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


SCENARIO = Scenario("eyeq-memcached", "memcached at full and half load beside bursts of UDP", "EyeQ, section 5.2",
                    "the load is sustained, p99.9 is less than 750 us at half load", works, judge,
                    lambda: describe(Options) + describe(Parameters), draw, tabulate, seeds=3)
