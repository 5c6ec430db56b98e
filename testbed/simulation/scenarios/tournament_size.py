# SPDX-License-Identifier: Apache-2.0
"""All laws, and none, on 32 hosts: flows of web search, data mining and Hadoop beside tenants that take all they can.

The testbed's tournament at size. Each host of a leaf-spine network with full bisection has a VM of each of four
tenants. VMs of the first three send flows of one trace each (own/traces.py, sizes scaled to the links' rate), each to a
VM of the tenant on another host, both drawn by the seed, so that a VM sends `load` of its quarter of the host's line.
The fourth tenant's take what they can, by turns: UDP at line rate, `flows` connections to one, one to each of all.

Connections stand before the run, as the testbed's do: a lost SYN costs a second. A flow's slowdown is the time it took,
over what the line alone needs for it: half a round trip and its frames at line rate. A flow that has not ended took
until the end of the run. ``alone`` is without the fourth tenant and a law.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field

from sdngcc.experiments.base import TCP_PAYLOAD, Run, Verdict, at_most
from sdngcc.experiments.own.traces import MEANT_FOR_MBPS, TRACES, Trace
from sdngcc.experiments.own.traces import draw as draw_trace
from sdngcc.testbed.settings import describe, make, read_settings
from sdngcc.testbed.simulation.fabric import Fabric, Vm, leaf_spine
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.packets import Bulk, Show, Stream, run
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.simulation.tenants import Law, cell, labels_of, over_seeds, packets_only, took_s, under
from sdngcc.testbed.statistics import mean_and_interval, percentile

LAWS = ("none", "static", "sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc", "vcc")
ALONE = "alone"
LOADS = (30.0, 60.0, 80.0)
WELL = tuple(TRACES)
TENANTS = len(WELL) + 1
KINDS = ("udp", "flows", "fan-out")
# No flow is larger than this part of what its VM's share carries while flows begin.
MOST_PART = 0.25
BUFFER_BYTES, MARK_BYTES = 150_000, 30_000


class Parameters(BaseModel):
    """The network and its tenants."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: Law = Field("sdngcc", description="control law of the shims")
    load: float = Field(60, ge=1, le=100, description="what well-behaved VMs send, percent of their share")
    hostile: bool = Field(True, description="the fourth tenant sends")
    leaves: int = Field(4, ge=1, le=64, description="leaf switches")
    per_leaf: int = Field(8, ge=2, le=64, description="hosts at each")
    spines: int = Field(4, ge=1, le=64, description="spine switches")
    host_mbps: int = Field(1000, ge=100, le=100000, description="rate of hosts' links, Mb/s")
    rtt_us: int = Field(100, ge=8, le=10000, description="round trip between leaves without queues, us")
    flows: int = Field(32, ge=1, le=1000, description="connections of a hostile VM that has many")
    before_ms: float = Field(50, ge=0, le=10000, description="time that hostile VMs send before the others, ms")
    begin_ms: float = Field(100, ge=1, le=10000, description="time in which flows begin, ms")
    after_ms: float = Field(50, ge=1, le=10000, description="time for flows to end after that, ms")


def network(parameters: Parameters) -> Fabric:
    """Return the network; a VM's number is its host's times four plus its tenant's."""
    fabric = leaf_spine(parameters.leaves, parameters.per_leaf, parameters.spines, parameters.host_mbps,
                        parameters.host_mbps * parameters.per_leaf / parameters.spines, parameters.rtt_us, BUFFER_BYTES,
                        MARK_BYTES)
    ceiling = round(parameters.host_mbps * 125_000 / TENANTS) if parameters.law == "static" else 0
    fabric.vms = [Vm(host, 1, 0, ceiling) for host in range(fabric.hosts) for _ in range(TENANTS)]
    return fabric


def well_behaved(parameters: Parameters, trace: Trace, tenant: int, seed: int, end_ns: int) -> List[Bulk]:
    """Return the flows of a tenant that keeps to its share, the same whatever the law."""
    hosts, begin_s = parameters.leaves * parameters.per_leaf, parameters.begin_ms / 1e3
    share_mbps = parameters.host_mbps * TCP_PAYLOAD / TENANTS
    most = MOST_PART * share_mbps * 1e6 / 8 * begin_s
    dice = random.Random(f"{seed} {trace.name} to")
    flows = []
    for host in range(hosts):
        for at_ns, size in draw_trace(trace, seed, str(host), share_mbps * parameters.load / 100, begin_s,
                                      parameters.host_mbps / MEANT_FOR_MBPS, most):
            to = dice.randrange(hosts - 1)
            flows.append(Bulk(host * TENANTS + tenant, (to + (to >= host)) * TENANTS + tenant,
                              round(parameters.before_ms * 1e6) + at_ns, end_ns, size=size,
                              early=True))
    return flows


def hostile(parameters: Parameters, seed: int, end_ns: int) -> List[Bulk | Stream]:
    """Return what the fourth tenant sends; who has one receiver has one that nobody else has."""
    hosts = parameters.leaves * parameters.per_leaf
    dice = random.Random(f"{seed} hostile")
    to = list(range(hosts))
    while any(one == other for one, other in enumerate(to)):
        dice.shuffle(to)
    flows: List[Bulk | Stream] = []
    for host in range(hosts):
        kind, vm = KINDS[host % len(KINDS)], host * TENANTS + len(WELL)
        start_ns = dice.randrange(5_000_000)
        if kind == "udp":
            flows.append(Stream(vm, to[host] * TENANTS + len(WELL), start_ns, end_ns, parameters.host_mbps * 10**6))
        else:
            others = [to[host]] * parameters.flows if kind == "flows" else [one for one in range(hosts) if one != host]
            flows += [Bulk(vm, other * TENANTS + len(WELL), start_ns, end_ns, early=True) for other in others]
    return flows


@dataclass(frozen=True)
class TournamentWork:
    """One run."""

    label: str
    parameters: Parameters
    options: Options

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        parameters = self.parameters
        end_ns = round((parameters.before_ms + parameters.begin_ms + parameters.after_ms) * 1e6)
        flows: List[Bulk | Stream] = []
        owners: List[str] = []
        for tenant, name in enumerate(WELL):
            flows += well_behaved(parameters, TRACES[name], tenant, seed, end_ns)
            owners += [name] * (len(flows) - len(owners))
        others = hostile(parameters, seed, end_ns) if parameters.hostile else []
        simulation = under(network(parameters), parameters.law, end_ns, seed, self.options, [*flows, *others])
        run(simulation, raw, show)
        slow: Dict[str, List[float]] = {name: [] for name in WELL}
        ended = {name: 0 for name in WELL}
        for number, seconds in took_s(raw).items():
            flow = simulation.flows[number]
            assert isinstance(flow, Bulk)
            name = owners[number]
            ended[name] += seconds is not None
            took = (end_ns - flow.start_ns) / 1e9 if seconds is None else seconds
            alone = 0.5e-6 * parameters.rtt_us + flow.size * 8 / (parameters.host_mbps * 1e6 * TCP_PAYLOAD)
            slow[name].append(took / alone)
        received = {int(line.split()[0]): int(line.split()[1])
                    for line in (raw / "received.txt").read_text(encoding="utf-8").splitlines()}
        rivals = sum(count for vm, count in received.items() if vm % TENANTS == len(WELL))
        everyone = [value for values in slow.values() for value in values]
        return {"parameters": parameters.model_dump(mode="json"),
                "simulation": {"options": self.options.model_dump(mode="json")},
                "measured": {
                    "flows": len(owners), "ended": round(sum(ended.values()) / len(owners), 4),
                    "hostile_of_line": round(rivals * 8e9 / end_ns / (parameters.host_mbps * 1e6 * len(received)) *
                                             TENANTS, 4),
                    "all": {f"p{percent}": round(percentile(everyone, percent), 3) for percent in (50, 99)},
                    **{name: {f"p{percent}": round(percentile(values, percent), 3) for percent in (50, 99)}
                       for name, values in slow.items()}}}


def works(settings: Sequence[str]) -> List[TournamentWork]:
    """Return for each load a run alone and one of each law and of none, or those that the user chose."""
    options, others = split_options(settings)
    packets_only(options)
    asked = {setting.partition("=")[0] for setting in others}
    found = []
    for load in ("",) if "load" in asked else LOADS:
        for law in ("",) if "law" in asked else (ALONE, *LAWS):
            own: Dict[str, Any] = {"load": load} if load else {}
            if law:
                own.update({"law": "none", "hostile": False} if law == ALONE else {"law": law})
            parameters = make(Parameters, read_settings(others, Parameters, own, tuple(Options.model_fields)))
            name = parameters.law if parameters.hostile or parameters.law != "none" else ALONE
            found.append(TournamentWork(f"{name}, load {parameters.load:g}%", parameters, options))
    return found


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that each law lets well-behaved tenants wait less than no law does, and record how much less."""
    by_label, verdicts = dict(runs), []
    for label, one in runs:
        law, _, load = label.partition(", ")
        bare, alone = by_label.get(f"none, {load}"), by_label.get(f"{ALONE}, {load}")
        if law not in ("none", ALONE) and bare is not None:
            verdicts.append(at_most(f"worst p99 slowdown, of that without a law, {label}",
                                    round(max(one["measured"][name]["p99"] / bare["measured"][name]["p99"]
                                              for name in WELL), 3), 1))
        if alone is not None and law != ALONE:
            verdicts.append(Verdict(f"worst p99 slowdown, of that alone, {label}", "as measured",
                                    round(max(one["measured"][name]["p99"] / alone["measured"][name]["p99"]
                                              for name in WELL), 3), True))
        verdicts.append(Verdict(f"p50 and p99 slowdown of all, flows that ended, {label}", "as measured",
                                [one["measured"]["all"]["p50"], one["measured"]["all"]["p99"],
                                 one["measured"]["ended"]], True))
    return verdicts


def tabulate(results: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the lines of the page's table."""
    lines = ["| law, load | " + " | ".join(f"{name} p50 | p99" for name in WELL) +
             " | flows that ended | hostile VMs have of the line |", "|---" * (3 + 2 * len(WELL)) + "|"]
    for label in labels_of(results):
        cells = [cell(over_seeds(results, label, name, f"p{percent}")) for name in WELL for percent in (50, 99)]
        cells += [cell(over_seeds(results, label, name)) for name in ("ended", "hostile_of_line")]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def draw_over(results: Sequence[Dict[str, Any]], path: Path) -> None:
    """Draw p50 and p99 of slowdowns by law, a column a load, with intervals over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = labels_of(results)
    loads = list(dict.fromkeys(label.partition(", load ")[2] for label in labels))
    figure, columns = pyplot.subplots(1, len(loads), figsize=(1.6 + 3.4 * len(loads), 4.4), squeeze=False, sharex=True,
                                      sharey=True, layout="constrained")
    for axes, load in zip(columns[0], loads):
        mine = [label for label in labels if label.endswith(f"load {load}")]
        for number, (name, colour, marker) in enumerate(zip(WELL, ("#D55E00", "#0072B2", "#009E73"), "os^")):
            for percent, face in ((50, "none"), (99, colour)):
                found = [mean_and_interval(over_seeds(results, label, name, f"p{percent}")) for label in mine]
                axes.errorbar([middle for middle, _ in found],
                              [place + 0.22 * (number - 1) for place in range(len(mine))],
                              xerr=[[min(half, middle * 0.99) for middle, half in found], [half for _, half in found]],
                              fmt=marker, color=colour, markerfacecolor=face, markersize=5, linewidth=1,
                              label=f"{name}, p{percent}")
        axes.set_xscale("log")
        axes.set_yticks(range(len(mine)), [label.partition(",")[0] for label in mine])
        axes.set_title(f"load {load}", fontsize=10)
        axes.set_xlabel("slowdown")
        axes.grid(alpha=0.3)
    columns[0][0].invert_yaxis()
    handles, names = columns[0][0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, ncols=len(WELL), loc="outside lower center")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def draw(result: Dict[str, Any], path: Path) -> None:
    """Draw one seed."""
    draw_over([result], path)


SCENARIO = Scenario("tournament-size", "all laws on flows of public traces beside hostile tenants, 32 hosts", "ours",
                    "well-behaved tenants wait less than without a law", works, judge,
                    lambda: describe(Options) + describe(Parameters), draw, tabulate, draw_over, seeds=3)
