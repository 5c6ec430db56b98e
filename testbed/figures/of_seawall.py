# SPDX-License-Identifier: Apache-2.0
"""Figures of Seawall's experiments."""

from __future__ import annotations

from functools import partial
from typing import Dict, List, Optional, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD, vm_frame_mbps
from sdngcc.experiments.seawall import classes as of_classes
from sdngcc.experiments.seawall import schedule as of_schedule
from sdngcc.experiments.seawall.many_dsts import PLACES
from sdngcc.experiments.seawall.victim import victim_part
from sdngcc.experiments.seawall.weights import SETTLE_S, epochs
from sdngcc.testbed.figures import cumulative, tagged
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.cumulative import Cumulative, distribution
from sdngcc.testbed.figures.data import (
    Estimate,
    Run,
    Runs,
    dig,
    mean_between,
    measured,
    over_seeds,
    phase,
    split,
    table,
    vm_order,
)
from sdngcc.testbed.figures.layout import Row, chunks
from sdngcc.testbed.figures.marks import Paper
from sdngcc.testbed.figures.papers import PAPERS, paper
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.stacks import Divided
from sdngcc.testbed.figures.strips import Step, Strip
from sdngcc.testbed.figures.style import LOOKS, looks
from sdngcc.testbed.parameters import make_parameters

SHORT = {"law=none": "none"}


def _short(name: str) -> str:
    return SHORT.get(name, name.removeprefix("law=")) or "as set"


def _selfish(run: Run) -> Optional[float]:
    """Return the goodput of all VMs but the first as a part of the link's payload rate."""
    parameters = make_parameters(run["parameters"])
    rates = phase(run, "all").get("settled_goodput_mbps", {})
    payload = UDP_PAYLOAD if parameters.protocol(1) == "udp" else TCP_PAYLOAD
    rest = [rate for vm, rate in rates.items() if vm != "vm1"]
    return sum(rest) / (vm_frame_mbps(run) * payload) if rest else None


def udp_flood(runs: Runs) -> List[Row]:
    """Fig. 9a: what the well-behaved TCP has beside the flood."""
    labels = list(runs)
    papers = {(number, 0): PAPERS["udp-flood"][_short(label)] for number, label in enumerate(labels)
              if _short(label) in PAPERS["udp-flood"]}
    bars = Bars([_short(label) for label in labels], [Series("", LOOKS[0], [
        over_seeds(seeds, victim_part) for seeds in runs.values()])], "part of the link",
        "TCP beside the flood", papers, form="{:.3f}")
    over = [tagged.strip(label or "as set", seeds, name="TCP (its mean above)") for label, seeds in runs.items()]
    return [Row([bars, *over], 2.6, widths=(1.1, *(1.4 for _ in over)))]


def _divided(runs: Runs, prefix: str, name: str, group_label: str, title: str) -> List[Row]:
    """Return who has which part of the link, by what the selfish VM does and by law."""
    groups, series, cells = table(runs, lambda label: split(label, prefix))
    counts = [group.removeprefix(prefix) for group in groups]
    values: Dict[Tuple[int, int], Tuple[Optional[Estimate], Optional[Estimate]]] = {}
    papers: Dict[Tuple[int, int], Paper] = {}
    for (group, one), seeds in cells.items():
        place = (groups.index(group), series.index(one))
        values[place] = over_seeds(seeds, _selfish), over_seeds(seeds, victim_part)
        key = counts[place[0]] if one == "law=none" else one.removeprefix("law=")
        if key in PAPERS[name]:
            papers[place] = PAPERS[name][key]
        elif one == "law=none" and name == "many-dsts" and key.isdigit():
            papers[place] = Paper(int(key) / (int(key) + 1), "Seawall, Fig. 10")
    parts = (("selfish VM", LOOKS[1]), ("well-behaved VM: its part above the bar", LOOKS[0]))
    return [Row([Divided(title, counts, [_short(one) for one in series], values, parts, group_label,
                         "part of the link", papers)], 2.9)]


def many_flows(runs: Runs) -> List[Row]:
    """Fig. 9b: who has which part, by flows of the selfish VM."""
    return _divided(runs, "flows=", "many-flows", "TCP flows of the selfish VM, beside one", "")


def many_dsts(runs: Runs) -> List[Row]:
    """Fig. 10: who has which part, by destinations of the selfish VM, for each place of the senders."""
    rows, placed = [], {label: next((place for place in PLACES if label.startswith(place)), "") for label in runs}
    for place in dict.fromkeys(placed.values()):
        own = {label.removeprefix(f"{place}, "): seeds for label, seeds in runs.items() if placed[label] == place}
        rows += _divided(own, "destinations=", "many-dsts", "destinations of the selfish VM, beside one",
                         f"senders on {place}" if place else "")
    return rows


def _settled_use(run: Run) -> float:
    return float(phase(run, "all")["settled_utilisation"])


def classes(runs: Runs) -> List[Row]:
    """Sections 4.2 to 4.4: the well-behaved VM's part and the use of the link, by class."""
    names = [label.removeprefix("class=") or "as set" for label in runs]
    papers = {(number, 0): PAPERS["classes"][name] for number, name in enumerate(names) if name in PAPERS["classes"]}
    panels = [Bars(names, [Series("", LOOKS[0], [over_seeds(seeds, value) for seeds in runs.values()])], "part", title,
                   papers if value is of_classes.victim_part else {}, form="{:.3f}", note="class")
              for title, value in (("TCP, of what both have", of_classes.victim_part),
                                   ("use of the link", _settled_use))]
    return [Row(panels, 2.4)]


def schedule(runs: Runs) -> List[Row]:
    """Fig. 3: when each task ends, and how long all are active, by schedule."""
    names = [label.removeprefix("law=") for label in runs]
    kinds = {of_schedule.ALIKE: "alike", of_schedule.SHORTEST_FIRST: "shortest",
             f"law=seawall, {of_schedule.BY_FAN_IN}": "tasks"}
    ends, active = {}, {}
    for number, label in enumerate(runs):
        kind = kinds.get(label, "")
        for task, name in enumerate(of_schedule.TASKS):
            found = PAPERS["schedule"].get(f"{name.rstrip('12345')}, {kind}")
            if found:
                ends[task, number] = found
        if kind:
            active[number, 0] = PAPERS["schedule"][kind]
    tasks = Bars(of_schedule.TASKS, [
        Series(name, LOOKS[number % len(LOOKS)], [measured(seeds, "end", task) for task in of_schedule.TASKS])
        for number, (name, seeds) in enumerate(zip(names, runs.values()))], "units of time", "end of each task", ends,
        form="{:.1f}")
    total = Bars(names, [Series("", LOOKS[0], [measured(seeds, "active") for seeds in runs.values()])],
                 "units of time", "activity of all tasks", active, form="{:.1f}")
    return [Row([tasks], 2.9), Row([total], 2.3)]


def line_rate(runs: Runs) -> List[Row]:
    """Table 1: throughput of one TCP connection; the paper's are of another machine."""
    names = [_short(label) for label in runs]
    papers = {(number, 0): PAPERS["line-rate"][name] for number, name in enumerate(names)
              if name in PAPERS["line-rate"]}
    return [Row([Bars(names, [Series("", LOOKS[0], [
        over_seeds(seeds, lambda run: phase(run, "all")["goodput_mbps"]["vm1"]) for seeds in runs.values()])],
        "Mb/s", "throughput of one TCP", papers)], 2.3)]


def _all_between(start_s: float, end_s: float, run: Run) -> float:
    """Return the goodput of all VMs between two times, Mb/s."""
    return sum(mean_between(run, vm, start_s, end_s) or 0.0 for vm in run["series"]["goodput_mbps"])


def weights(runs: Runs) -> List[Row]:
    """Section 4: goodput of VMs as their weights change, with what the weights make of what all have."""
    panels = []
    for label, seeds in runs.items():
        parameters, names = make_parameters(seeds[0]["parameters"]), vm_order(seeds[0]["series"]["goodput_mbps"])
        curves = [tagged.vm_curve(seeds, vm, vm, LOOKS[number % len(LOOKS)], True) for number, vm in enumerate(names)]
        starts = epochs(parameters)
        ends = [start for start, _ in starts[1:]] + [parameters.duration_s]
        steps = []
        for (start, factors), end in zip(starts, ends):
            used = over_seeds(seeds, partial(_all_between, start + SETTLE_S, end))
            for number, factor in enumerate(factors):
                steps.append(Step(start, end, (used.centre if used else 0) * factor / sum(factors),
                                  f"weights {':'.join(map(str, factors))}" if number == 0 else ""))
        panels.append(Strip(label or f"law {parameters.law}", curves, due=steps, due_name="by weight"))
    return list(chunks(panels, 1, height_in=2.7))


def web(runs: Runs) -> List[Row]:
    """Fig. 11: latency and throughput of the web server beside the floods; distributions of latency."""
    labels = list(runs)
    look = looks(labels)
    bare = runs.get("law=none", ())
    names = [label.replace("law=", "") for label in labels]
    panels: List[Bars] = []
    for title, key, factor, what, unit in (("mean latency", "mean_us", 1e-3, "latency", "ms"),
                                           ("median latency", "p50_us", 1e-3, "", "ms"),
                                           ("throughput", "mbps", 1.0, "throughput", "Mb/s")):
        def value(run: Run, key: str = key, factor: float = factor) -> Optional[float]:
            found = dig(run, "measured", key)
            return None if found is None else float(found) * factor

        papers: Dict[Tuple[int, int], Paper] = {}
        base = over_seeds(bare, value)
        if what and base and "law=seawall" in labels:
            claim = paper("web", what)
            papers[labels.index("law=seawall"), 0] = Paper(base.centre * claim.value, claim.source, claim.words)
        panels.append(Bars(names, [Series("", LOOKS[0], [over_seeds(seeds, value) for seeds in runs.values()])], unit,
                           title, papers, lying=True, wrap=24, name_groups=not panels))
    curves = [cumulative.Curve(name, look[label], [
        (percent, Estimate(one.centre / 1000, one.half / 1000))
        for percent, one in distribution([run["measured"] for run in seeds], "us")])
              for (label, seeds), name in zip(runs.items(), names)]
    wanted = (("p50", "p50_us"), ("p99", "p99_us"))
    tails = Bars([name for name, _ in wanted], [Series(name, look[label], [
        measured(seeds, field, factor=1e-3) for _, field in wanted])
        for (label, seeds), name in zip(runs.items(), names)], "ms", "latency by percentile", log=True)
    return [Row(panels, 2.8, widths=(5, 4, 4)),
            Row([Cumulative("latency", curves, "time of a request, ms"), tails], 2.4, widths=(3, 4))]
