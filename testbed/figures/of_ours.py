# SPDX-License-Identifier: Apache-2.0
"""Figures of experiments that no paper has, one link or few: each shows what its experiment claims."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD, fair_share_mbps
from sdngcc.experiments.own import churn as churning
from sdngcc.experiments.own import mixed as mixing
from sdngcc.experiments.own import takeover as taking
from sdngcc.experiments.own import tenants as renting
from sdngcc.experiments.own import ways as choosing
from sdngcc.experiments.sdn_gcc import innocent as innocents
from sdngcc.testbed.figures import tagged
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.data import (
    Estimate,
    Run,
    Runs,
    coarser,
    dig,
    goodput,
    measured,
    over_seeds,
    over_time,
    phase,
    vm_order,
)
from sdngcc.testbed.figures.layout import Row, chunks
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.strips import Curve, Range, Step, Strip
from sdngcc.testbed.figures.style import LOOKS, PALE, PROTOCOL_NAMES, looks, protocol_look
from sdngcc.testbed.parameters import Parameters, make_parameters
from sdngcc.topologies.placement import LINKS_OF_GROUP


def _protocol(parameters: Parameters, index: int) -> str:
    return PROTOCOL_NAMES.get(parameters.protocol(index), parameters.protocol(index))


def _lines(seeds: Sequence[Run], names: Sequence[str]) -> List[Curve]:
    """Return a line a VM, each with its name."""
    vms = vm_order(seeds[0]["series"]["goodput_mbps"])
    return [tagged.vm_curve(seeds, vm, name, LOOKS[number % len(LOOKS)], True)
            for number, (vm, name) in enumerate(zip(vms, names))]


def _named(seeds: Sequence[Run]) -> List[str]:
    parameters = make_parameters(seeds[0]["parameters"])
    return [f"{vm}, {_protocol(parameters, index)}" for index, vm in enumerate(parameters.vm_names)]


def parking_lot(runs: Runs) -> List[Row]:
    """Each VM's goodput beside its max-min share, by the links it crosses."""
    rows: List[Row] = []
    for label, seeds in runs.items():
        parameters = make_parameters(seeds[0]["parameters"])
        names = []
        for index, vm in enumerate(parameters.vm_names):
            links = [str(link + 1) for link in LINKS_OF_GROUP[index % 3]]
            names.append(f"{vm}, {_protocol(parameters, index)} link{'s' if len(links) > 1 else ''} "
                         f"{', '.join(links)}")
        targets = {(index, 0): fair_share_mbps(seeds[0], index) for index in range(parameters.senders)}
        bars = Bars(names, [Series("", LOOKS[0], [goodput(seeds, vm) for vm in parameters.vm_names])],
                    "goodput, Mb/s", f"{label or f'law {parameters.law}'}: all send", targets=targets, form="{:.0f}",
                    target_name="max-min share", wrap=12)
        over = Strip("over time", _lines(seeds, parameters.vm_names))
        rows += [Row([bars], 2.2), Row([over], 2.1)]
    return rows


def innocent(runs: Runs) -> List[Row]:
    """What of the innocents' packets arrives, and what each elephant has of the congested port."""
    look = looks(list(runs))
    link = next(iter(runs.values()))[0]["parameters"]["link_mbps"]
    sent = {name: innocents.FLOWS[name] * link * UDP_PAYLOAD for name in innocents.INNOCENTS}
    few = [Series(label, look[label], [measured(seeds, name, factor=1 / sent[name])
                                       for name in innocents.INNOCENTS]) for label, seeds in runs.items()]
    many = [Series(label, look[label], [measured(seeds, name)
                                        for name in innocents.ELEPHANTS]) for label, seeds in runs.items()]
    rest = (link * UDP_PAYLOAD - sum(value for name, value in sent.items() if name.endswith("rx1"))) / 3
    return [Row([
        Bars([name.replace(">", " to ") for name in innocents.INNOCENTS], few, "part of what is sent",
             "innocents: what arrives", lines=[(1, "all that is sent")], form="{:.2f}"),
        Bars([name.replace(">", " to ") for name in innocents.ELEPHANTS], many, "goodput, Mb/s",
             "elephants at the congested port", lines=[(rest, "a third of what innocents leave of the port")],
             form="{:.0f}"),
    ], 2.6)]


def ways(runs: Runs) -> List[Row]:
    """Each VM's rate by how packets choose a way, beside its part of the way it takes."""
    panels = []
    for label, seeds in runs.items():
        parameters = make_parameters(seeds[0]["parameters"])
        line, targets, names = parameters.link_mbps * TCP_PAYLOAD, {}, list(parameters.vm_names)
        if parameters.multipath != "flow":
            taken = [choosing.way_of(index, parameters.multipath) for index in range(parameters.senders)]
            targets = {(index, 0): line / taken.count(way) for index, way in enumerate(taken)}
            names = [f"{vm} spine {way + 1}" for vm, way in zip(names, taken)]
        bars = Bars(names, [Series("", LOOKS[0], [measured(seeds, vm)
                                                  for vm in parameters.vm_names])], "goodput, Mb/s", label,
                    targets=targets, form="{:.0f}", wrap=8, target_name="part of the way it takes")
        panels.append(bars)
    return list(chunks(panels, 3, height_in=2.4, share_y=True))


def churn(runs: Runs) -> List[Row]:
    """Goodput while laws change under traffic, then while the last VM comes and goes."""
    panels = []
    for label, seeds in runs.items():
        parameters = make_parameters(seeds[0]["parameters"])
        starts = churning.epochs(parameters)
        ends = [start for start, _ in starts[1:]] + [starts[-1][0] + churning.EPOCH_S]
        fair = fair_share_mbps(seeds[0])
        steps = [Step(start, end, fair, law) for (start, law), end in zip(starts, ends)]
        after = ends[-1] + 2 * churning.REMOVALS * churning.PAUSE_S
        steps += [Step(ends[-1], after, fair, f"{parameters.vm_names[-1]} comes\nand goes"),
                  Step(after, parameters.duration_s, fair, "all stay")]
        panels.append(Strip(label, _lines(seeds, _named(seeds)), due=steps,
                            events=[*ends, after]))
    return list(chunks(panels, 1, height_in=2.9))


def mixed(runs: Runs) -> List[Row]:
    """Goodput of VMs of one host under laws of their own."""
    panels = []
    for label, seeds in runs.items():
        parameters = make_parameters(seeds[0]["parameters"])
        laws = [parameters.law if law == "default" else law for law in mixing.LAWS]
        names = [f"{name} under {law}" + (f", at most {mixing.CEILING_MBPS:g} Mb/s" if law == "static" else "")
                 for name, law in zip(_named(seeds), laws)]
        shared = phase(seeds[0], "all")
        rest = (parameters.link_mbps - mixing.CEILING_MBPS) / 3 * TCP_PAYLOAD
        steps = [Step(shared["start_s"], shared["end_s"], value)
                 for value in (mixing.CEILING_MBPS * mixing.UDP_PART, rest)]
        panels.append(Strip(label, _lines(seeds, names), due=steps, due_name="ceiling, and a third of the rest"))
    return list(chunks(panels, 1, height_in=2.9))


def failsafe(runs: Runs) -> List[Row]:
    """Goodput as part of the fair share while feedback is lost, by law."""
    panels = []
    for label, seeds in runs.items():
        parameters = make_parameters(seeds[0]["parameters"])
        curves = []
        for index, vm in enumerate(parameters.vm_names):
            series = [[None if value is None else value / fair_share_mbps(run, index) for value in
                       coarser(dig(run, "series", "goodput_mbps", vm) or [], 5)] for run in seeds]
            curves.append(Curve(f"{_protocol(parameters, index)} sender", protocol_look(parameters.protocol(index)),
                                tagged.times_of(seeds, 5), over_time(series), index == 0))
        starts = (*parameters.loss_at_s, parameters.duration_s)
        words = [f"{percent:g}" if percent < 100 else "all" for percent in parameters.loss]
        steps = [Step(start, end, None, word) for start, end, word in zip(starts, starts[1:], words)]
        allowed = [Range("within 15%", PALE, [0, parameters.duration_s], [0.85, 0.85], [1.15, 1.15])]
        panels.append(Strip(label, curves, "part of fair share", steps, ranges=allowed, top=2.2,
                            events=starts[1:-1], span=(0, parameters.duration_s),
                            time_label="time, s; above: % of feedback lost"))
    return list(chunks(panels, 3, height_in=1.9, share_y=True))


def takeover(runs: Runs) -> List[Row]:
    """Goodput by weight while the controller that owns the bottleneck's switch is killed."""
    panels = []
    for label, seeds in runs.items():
        parameters = make_parameters(seeds[0]["parameters"])
        after = taking.turned(parameters)
        kill_s = float(parameters.kill_controller_at_s or 0)
        steps = []
        for start, end, now in ((0, taking.TURN_S, parameters), (taking.TURN_S, parameters.duration_s, after)):
            run = {**seeds[0], "parameters": now.model_dump(mode="json")}
            steps += [Step(start, end, fair_share_mbps(run, index)) for index in range(parameters.senders)]
        waited = over_seeds(seeds, lambda run: max(dig(run, "measured", "taken_ms").values()))
        steps += [Step(taking.TURN_S, kill_s, None, "weights\nturned round"),
                  Step(kill_s, parameters.duration_s, None,
                       f"a controller killed,\ntaken over after {tagged.written(waited)} ms")]
        names = [f"{name}, weight {parameters.weight(index)}, then {after.weight(index)}"
                 for index, name in enumerate(_named(seeds))]
        panels.append(Strip(label or f"law {parameters.law}", _lines(seeds, names), due=steps, due_name="by weight",
                            events=[taking.TURN_S, kill_s]))
    return list(chunks(panels, 2, height_in=2.9, share_y=True))


def tenants(runs: Runs) -> List[Row]:
    """What each tenant has of the port, or beside its cap."""
    most = max(len(seeds[0]["parameters"]["tenant_sizes"]) for seeds in runs.values())
    targets: Dict[Tuple[int, int], float] = {}
    values: List[List[Optional[Estimate]]] = [[] for _ in range(most)]
    names = []
    for group, (label, seeds) in enumerate(runs.items()):
        parameters = make_parameters(seeds[0]["parameters"])
        sizes = parameters.tenant_sizes
        for number in range(most):
            values[number].append(over_seeds(seeds, partial(_of_tenant, number))
                                  if number < len(sizes) else None)
            weights = [parameters.tenant_weight(one) for one in range(len(sizes))]
            if number < len(sizes) and parameters.tenant_maximum_mbps(number):
                targets[group, number] = parameters.tenant_maximum_mbps(number)
            elif number < len(sizes) and all(weights) and not any(parameters.tenant_maximums):
                targets[group, number] = 0.99 * parameters.link_mbps * weights[number] / sum(weights)
        kind = "the first capped" if any(parameters.tenant_maximums) else (
            "with weights 1:1" if parameters.tenant_weight(0) else "each VM for itself")
        names.append(f"{label}: {' and '.join(map(str, sizes))} VMs, {kind}")
    return [Row([Bars(names, [Series(f"tenant {number + 1}", LOOKS[number], values[number]) for number in range(most)],
                      "all its VMs, Mb/s", "", targets=targets, form="{:.0f}", wrap=26,
                      target_name="by weight, or the cap")], 2.7)]


def _of_tenant(number: int, run: Run) -> float:
    parameters, sent = make_parameters(run["parameters"]), renting.sent_mbps(run)
    return sum(sent[vm] for index, vm in enumerate(parameters.vm_names) if parameters.tenant_of(index) == number)


def beside(runs: Runs) -> List[Row]:
    """The usual three periods beside a cloud's agents, and what became of the agents' flows."""
    panels: List[Any] = []
    for label, seeds in runs.items():
        looked = dig(seeds[0], "measured", "during") or {}
        changed = (looked.get("added") or 0) + (looked.get("removed") or 0)
        title = f"{label}: {looked.get('flows')} flows of its agents,\n{looked.get('ours')} ours, {changed} changed"
        panels.append(tagged.strip(title, seeds))
    return list(chunks(panels, 2, height_in=2.9, share_y=True))
