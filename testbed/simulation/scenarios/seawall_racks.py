# SPDX-License-Identifier: Apache-2.0
"""Map and reduce tasks in 60 servers of 3 racks whose uplinks are 1:4: Seawall's sections 2.2 and 6.

``schedule`` is the paper's Fig. 3: five maps read one unit each from one server, a reduce reads ten units from ten, all
over a rack's uplink, which has a server's rate here, so that one server can fill it.

``racks`` is the cluster of section 6 with the tasks of Fig. 1, as far as the text gives it: of tasks that read across
racks 20% have one flow, 70% have 30 to 100, 2% more than 150. What stands in for the others is half of them with 2 to
29 and half with 101 to 150, uniform in each class. Each task reads on a server of its own, from servers of other racks
that are drawn by the seed, without end. What the uplinks carry to each is compared with weighted max-min.

Seawall's weights are of sources: what serves a task at a server is a VM here. ``weights=source`` gives all of them one
weight, as the paper's evaluation does; ``weights=task`` divides one among all sources of a task. The law is told which
weights share a bottleneck (``step-sharers``): those of the busiest uplink, for each part of it that a line could fill.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Literal, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field

from sdngcc.experiments.base import TCP_PAYLOAD, Run, Verdict, at_least, at_most, near
from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.settings import describe, make, read_settings
from sdngcc.testbed.simulation.fabric import Fabric, Vm, leaf_spine
from sdngcc.testbed.simulation.fabrics import oracle
from sdngcc.testbed.simulation.fluid import Demand, ways
from sdngcc.testbed.simulation.options import Options, split_options
from sdngcc.testbed.simulation.packets import Bulk, Show, Simulation, run
from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.simulation.tenants import Law, cell, labels_of, over_seeds, packets_only, took_s, under
from sdngcc.testbed.statistics import jain, mean

# Tasks by flows: part of tasks, fewest and most flows.
CLASSES = ((0.20, 1, 1), (0.04, 2, 29), (0.70, 30, 100), (0.04, 101, 150), (0.02, 151, 200))
MAPS, REDUCE_FLOWS = 5, 10
# The sum of tasks' times in units of Fig. 3, by flows and by tasks.
PAPER_BY_FLOWS, PAPER_BY_TASKS, NEAR = 90, 45, 0.15
# A task's weight, divided among its sources.
WEIGHT = 2000
# The schedule may take this many times its 15 units.
PATIENCE = 2
BUFFER_BYTES, MARK_BYTES = 150_000, 30_000


class Parameters(BaseModel):
    """The cluster and its tasks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: Literal["schedule", "racks"] = Field("racks", description="schedule: Fig. 3; racks: Fig. 1's tasks")
    law: Law = Field("seawall", description="control law of the shims")
    weights: Literal["source", "task"] = Field(
        "task", description="source: all sources have one weight; task: sources of a task divide one")
    racks: int = Field(3, ge=2, le=64, description="racks")
    servers: int = Field(20, ge=11, le=64, description="servers in each")
    host_mbps: int = Field(1000, ge=100, le=100000, description="rate of servers' links, Mb/s")
    uplink_mbps: int = Field(5000, ge=100, le=400000, description="racks: rate of each rack's uplink, Mb/s")
    rtt_us: int = Field(200, ge=8, le=10000, description="round trip between racks without queues, us")
    tasks: int = Field(30, ge=1, le=1000, description="racks: tasks, each on a server of its own")
    unit_ms: float = Field(400, ge=1, le=100000, description="schedule: time that a unit takes on the uplink, ms")
    duration_ms: float = Field(1500, ge=10, le=100000, description="racks: time simulated, ms; its second half counts")


@dataclass(frozen=True)
class Task:
    """A task and where it reads from."""

    server: int
    sources: Tuple[int, ...]
    """Servers, one a flow."""


def flow_counts(count: int, draw: random.Random) -> List[int]:
    """Return how many flows tasks have: as many tasks of each class as the distribution has, in a random order."""
    counts = []
    for number in range(count):
        part, before = (number + 0.5) / count, 0.0
        for size, low, high in CLASSES:
            if part <= before + size + 1e-9:
                counts.append(draw.randint(low, high))
                break
            before += size
    draw.shuffle(counts)
    return counts


def tasks_of(parameters: Parameters, seed: int) -> List[Task]:
    """Return the tasks."""
    each, draw = parameters.servers, random.Random(seed)
    if parameters.part == "schedule":
        return [*(Task(number, (each + number,)) for number in range(MAPS)),
                Task(MAPS, tuple(each + MAPS + number for number in range(min(REDUCE_FLOWS, each - MAPS))))]
    servers = draw.sample(range(parameters.racks * each), min(parameters.tasks, parameters.racks * each))
    found = []
    for server, count in zip(servers, flow_counts(len(servers), draw)):
        others = [other for other in range(parameters.racks * each) if other // each != server // each]
        sources: List[int] = []
        while len(sources) < count:
            sources += draw.sample(others, min(len(others), count - len(sources)))
        found.append(Task(server, tuple(sources)))
    return found


def place(parameters: Parameters, tasks: Sequence[Task], weights: str) -> Tuple[Fabric, List[Dict[int, int]]]:
    """Return the network, and for each task its sources' VMs by server; its own VM has the task's number."""
    uplink = parameters.host_mbps if parameters.part == "schedule" else parameters.uplink_mbps
    fabric = leaf_spine(parameters.racks, parameters.servers, 1, parameters.host_mbps, uplink, parameters.rtt_us,
                        BUFFER_BYTES, MARK_BYTES)
    # Tasks only send ACKs, but their weights bound these, too.
    fabric.vms = [Vm(task.server, WEIGHT if weights == "task" else 1) for task in tasks]
    placed: List[Dict[int, int]] = []
    for task in tasks:
        mine: Dict[int, int] = {}
        for server in dict.fromkeys(task.sources):
            mine[server] = len(fabric.vms)
            weight = WEIGHT * task.sources.count(server) // len(task.sources) if weights == "task" else 1
            fabric.vms.append(Vm(server, weight))
        placed.append(mine)
    return fabric, placed


def sharers(fabric: Fabric, servers: int, tasks: int, part_of_line: float) -> int:
    """Return the weights of the rack that has most, for each part of its uplink that one server's line could fill."""
    totals: Dict[int, int] = {}
    for vm in fabric.vms[tasks:]:
        totals[vm.host // servers] = totals.get(vm.host // servers, 0) + vm.weight
    return max(1, round(max(totals.values()) * part_of_line))


@dataclass(frozen=True)
class RacksWork:
    """One run."""

    label: str
    parameters: Parameters
    options: Options

    def run(self, seed: int, raw: Path, show: Optional[Show]) -> Run:
        """Simulate it."""
        tasks = tasks_of(self.parameters, seed)
        measured = (self._schedule if self.parameters.part == "schedule" else self._racks)(tasks, seed, raw, show)
        return {"parameters": self.parameters.model_dump(mode="json"),
                "simulation": {"options": self.options.model_dump(mode="json")}, **measured}

    def _simulation(self, fabric: Fabric, tasks: int, duration_ns: int, seed: int, flows: Sequence[Bulk]) -> Simulation:
        parameters = self.parameters
        simulation = under(fabric, parameters.law, duration_ns, seed, self.options, flows)
        if parameters.law == "seawall":
            part = 1.0 if parameters.part == "schedule" else parameters.host_mbps / parameters.uplink_mbps
            simulation.knobs["step-sharers"] = sharers(fabric, parameters.servers, tasks, part)
        return simulation

    def _schedule(self, tasks: List[Task], seed: int, raw: Path, show: Optional[Show]) -> Dict[str, Any]:
        parameters = self.parameters
        fabric, placed = place(parameters, tasks, parameters.weights)
        unit_s, units = parameters.unit_ms / 1e3, sum(len(task.sources) for task in tasks)
        size = round(parameters.host_mbps * 1e6 / 8 * TCP_PAYLOAD * unit_s)
        end_ns = round(units * unit_s * PATIENCE * 1e9)
        draw, flows, owners = random.Random(seed), [], []
        for number, task in enumerate(tasks):
            for server in task.sources:
                flows.append(Bulk(placed[number][server], number, draw.randrange(1_000_000), end_ns, size=size,
                                  early=True))
                owners.append(number)
        run(self._simulation(fabric, len(tasks), end_ns, seed, flows), raw, show)
        ends = [0.0] * len(tasks)
        for number, seconds in took_s(raw).items():
            ended = units * PATIENCE if seconds is None else (seconds + flows[number].start_ns / 1e9) / unit_s
            ends[owners[number]] = max(ends[owners[number]], ended)
        return {"measured": {"activity": round(sum(ends), 2), "maps_end": round(max(ends[:MAPS]), 2),
                             "reduce_ends": round(ends[MAPS], 2)},
                "series": {"ends": [round(end, 3) for end in ends]}}

    def _racks(self, tasks: List[Task], seed: int, raw: Path, show: Optional[Show]) -> Dict[str, Any]:
        parameters = self.parameters
        fabric, placed = place(parameters, tasks, parameters.weights)
        duration_ns = round(parameters.duration_ms * 1e6)
        draw = random.Random(seed)
        flows = [Bulk(placed[number][server], number, draw.randrange(10_000_000), duration_ns, early=True)
                 for number, task in enumerate(tasks) for server in task.sources]
        simulation = self._simulation(fabric, len(tasks), duration_ns, seed, flows)
        simulation.bin_ns = duration_ns // 2
        run(simulation, raw, show)
        received = {}
        for line in (raw / "received.txt").read_text(encoding="utf-8").splitlines():
            number, _, late, *_ = (int(word) for word in line.split())
            received[number] = late / (duration_ns / 2e9) / TCP_PAYLOAD
        # Even shares of tasks, whatever the weights that the run had.
        even, _ = place(parameters, tasks, "task")
        demands = [Demand(vm, number, 0, 1) for number, mine in enumerate(placed) for vm in mine.values()]
        best = dict(zip((demand.vm for demand in demands), oracle(even, demands, ways(even, demands, seed))))
        rates = [sum(received[vm] for vm in mine.values()) for mine in placed]
        ideal = [sum(best[vm] for vm in mine.values()) for mine in placed]
        shares = [rate / most for rate, most in zip(rates, ideal)]
        single = [share for share, task in zip(shares, tasks) if len(task.sources) == 1]
        many = [share for share, task in zip(shares, tasks) if len(task.sources) >= CLASSES[2][1]]
        return {"measured": {"flows": len(flows), "single": round(mean(single), 4), "many": round(mean(many), 4),
                             "jain": round(jain(shares), 4), "of_max_min": round(sum(rates) / sum(ideal), 4)},
                "series": {"flows": [len(task.sources) for task in tasks],
                           "share": [round(share, 4) for share in shares]}}


def works(settings: Sequence[str]) -> List[RacksWork]:
    """Return both parts, without a shim and with seawall by sources and by tasks, or those that the user chose."""
    options, others = split_options(settings)
    packets_only(options)
    asked = {setting.partition("=")[0] for setting in others}
    found: List[RacksWork] = []
    for part in ("schedule", "racks"):
        for law, weights in (("none", "task"), ("seawall", "source"), ("seawall", "task")):
            own = {"part": part, "law": law, "weights": weights}
            values = read_settings(others, Parameters, own, tuple(Options.model_fields))
            parameters = make(Parameters, values)
            label = f"{parameters.part}, law={parameters.law}"
            label += f", weights={parameters.weights}" if parameters.law != "none" else ""
            if all(getattr(parameters, name) == own[name] for name in own if name not in asked) and \
                    label not in {one.label for one in found}:
                found.append(RacksWork(label, parameters, options))
    return found


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the schedule's activity, and what tasks of one flow and of many have of even shares."""
    verdicts = []
    for label, one in runs:
        found, law, weights = one["measured"], one["parameters"]["law"], one["parameters"]["weights"]
        if one["parameters"]["part"] == "schedule":
            name = f"sum of tasks' times, {label}"
            if law == "none":
                verdicts.append(near(name, found["activity"], PAPER_BY_FLOWS, NEAR, "90 units"))
            elif weights == "task":
                verdicts.append(near(name, found["activity"], PAPER_BY_TASKS, NEAR, "45 units with even shares"))
            else:
                verdicts.append(Verdict(name, "as measured", found["activity"], True))
            continue
        names = [f"{what}, {label}" for what in ("tasks of one flow, of even share", "Jain of tasks' shares",
                                                 "all together, of max-min")]
        if law == "none":
            verdicts += [at_most(names[0], found["single"], 0.5, "reduce tasks starve others"),
                         Verdict(names[1], "as measured", found["jain"], True)]
        elif weights == "task":
            verdicts += [at_least(names[0], found["single"], 0.8, "proportional to weights on all links"),
                         at_least(names[1], found["jain"], 0.9, "proportional to weights on all links")]
        else:
            verdicts += [Verdict(names[0], "as measured", found["single"], True),
                         Verdict(names[1], "as measured", found["jain"], True)]
        verdicts.append(Verdict(names[2], "as measured", found["of_max_min"], True))
    return verdicts


def tabulate(results: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the lines of the page's tables."""
    lines = {"schedule": ["| schedule | sum of tasks' times, units | last map ends | reduce ends |",
                          "|---|---|---|---|"],
             "racks": ["| racks | tasks of one flow, of even share | tasks of 30 and more | Jain of shares | "
                       "all together, of max-min |", "|---|---|---|---|---|"]}
    names = {"schedule": ("activity", "maps_end", "reduce_ends"), "racks": ("single", "many", "jain", "of_max_min")}
    for label in labels_of(results):
        part, _, what = label.partition(", ")
        lines[part].append(f"| {what} | " + " | ".join(cell(over_seeds(results, label, name)) for name in names[part]) +
                           " |")
    return [*lines["schedule"], "", *lines["racks"]]


def draw(result: Dict[str, Any], path: Path) -> None:
    """Draw when tasks end, as Fig. 3 does, and what tasks have of even shares by their flows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (ends, shares) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    colours, markers = ("#D55E00", "#0072B2", "#009E73"), ("o", "s", "^")
    for part, axes in (("schedule", ends), ("racks", shares)):
        runs = [one for one in runs_of(result) if one["parameters"]["part"] == part]
        for one in runs:
            what, series = one["label"].partition(", ")[2], one["series"]
            number = 0 if one["parameters"]["law"] == "none" else 1 + (one["parameters"]["weights"] == "task")
            if part == "schedule":
                axes.barh([task + 0.27 * (number - 1) for task in range(len(series["ends"]))], series["ends"], 0.25,
                          color=colours[number], label=f"{what}: {one['measured']['activity']:g}")
            else:
                axes.plot(series["flows"], series["share"], markers[number], color=colours[number],
                          markersize=5, alpha=0.8, label=what)
    ends.set_yticks(range(MAPS + 1), [*(f"map {number + 1}" for number in range(MAPS)), "reduce"])
    ends.set_xlabel("ends at, units")
    for at, style, words in ((6, ":", "even shares: maps end (paper: 45)"),
                             (15, "-.", "by flows: all end (paper: 90)")):
        ends.axvline(at, color="black", linewidth=1, linestyle=style, label=words)
    ends.set_ylim(-0.6, MAPS + 3)
    ends.legend(fontsize=7, loc="upper left")
    shares.set_xscale("log")
    shares.set_xlabel("flows of the task")
    shares.set_ylabel("rate / even share")
    shares.axhline(1, color="black", linewidth=1, linestyle=":")
    shares.set_ylim(bottom=0)
    shares.grid(alpha=0.3)
    shares.legend(fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


SCENARIO = Scenario("seawall-racks", "map and reduce tasks of 60 servers in 3 racks at 1:4", "Seawall, Fig. 1 to 3",
                    "tasks share by weight, whatever their number of flows", works, judge,
                    lambda: describe(Options) + describe(Parameters), draw, tabulate, seeds=3)
