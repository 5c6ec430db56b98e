# SPDX-License-Identifier: Apache-2.0
"""What an experiment is: runs made of settings, and expectations judged from their results alone."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from sdngcc.controller.rates.maxmin import Claim, allot
from sdngcc.testbed.parameters import WIRE_BYTES, ParameterError, Parameters, make_parameters, parse_settings
from sdngcc.testbed.statistics import jain, mean, percentile
from sdngcc.testbed.workload import Program, Workload, three_periods
from sdngcc.topologies.placement import LINKS_OF_GROUP

__all__ = ["Case", "Experiment", "Measure", "Program", "Run", "Verdict", "Workload", "at_least", "at_most",
           "fair_share_mbps", "given", "goodput_by_second", "jain", "mean", "near", "percentile", "phase",
           "TooShort", "mean_between", "settled_phase", "settling_s", "sweep", "vm_frame_mbps", "window",
           "without_law"]

# Payload in a full frame as links count it, of TCP with timestamps and of our UDP.
TCP_PAYLOAD = 1448 / WIRE_BYTES
UDP_PAYLOAD = 1472 / WIRE_BYTES

# VMs share fairly from when the goodputs of two windows in a row, of so many bins of 0.1 s, have this index of Jain.
WINDOW_BINS, SETTLED_JAIN = 5, 0.95

# Seeds of an experiment's replicas are so far apart.
REPLICA_SEEDS = 1000

class TooShort(ParameterError):
    """A run has not the seconds that it is judged by; the text says which are missing and what it needs."""


Run = Dict[str, Any]
"""A run's result as collect.summarise() makes it."""

Measure = Callable[[Path, Run], Dict[str, Any]]
"""Reads what an experiment's own programs left in the folder of raw samples; becomes the run's ``measured``."""


@dataclass(frozen=True)
class Case:
    """One run of an experiment."""

    label: str
    parameters: Parameters
    workload: Union[Workload, Callable[[int], Workload], None] = None
    """What the VMs do, or what makes that from the run's seed where it is drawn at random; None: three periods."""
    replica: int = 0
    """Number among runs that differ by their seed alone."""

    def seed_of(self, seed: int) -> int:
        """Return the seed of the case's run, that of its experiment given; replicas have seeds of their own."""
        return seed + REPLICA_SEEDS * self.replica

    def work(self, seed: int) -> Workload:
        """Return what the VMs do in the run of a seed."""
        if self.workload is None:
            return three_periods(self.parameters)
        return self.workload if isinstance(self.workload, Workload) else self.workload(seed)


@dataclass(frozen=True)
class Verdict:
    """An expectation and what was measured."""

    name: str
    expected: str
    measured: Any
    holds: bool
    paper: str = ""
    """The paper's value in words, empty where it gives none."""

    def as_dict(self) -> Dict[str, Any]:
        """Return it as result.json has it."""
        return asdict(self)


@dataclass(frozen=True)
class Experiment:
    """An experiment by name."""

    name: str
    summary: str
    paper: str
    """Where the figure it reproduces stands."""
    cases: Callable[[Sequence[str]], List[Case]]
    """Makes the runs out of ``name=value`` settings; raises ParameterError."""
    judge: Callable[[List[Tuple[str, Run]]], List[Verdict]]
    """Judges labelled runs."""
    measure: Optional[Measure] = None
    """Adds to each run's result; raises ValueError, OSError, KeyError or IndexError when something is missing."""
    seen: str = ""
    """What must be seen, in a line."""
    own_seeds: bool = False
    """Whether its runs have many seeds of their own, whatever that of the experiment: one of these is enough."""
    changed: str = ""
    """What of set-up or expectations was changed after measuring, and why, in sentences."""


def given(settings: Sequence[str], name: str) -> bool:
    """Return whether the user set that parameter."""
    return any(setting.startswith(f"{name}=") for setting in settings)


def without_law(settings: Sequence[str]) -> List[str]:
    """Return the settings for a run without a shim: without the law and what is for laws alone."""
    return [setting for setting in settings
            if not setting.startswith(("law=", "preset=", "levels=", "by_path=", "knob."))]


def sweep(settings: Sequence[str], defaults: Dict[str, Any], name: str, values: Sequence[Any]) -> List[Case]:
    """Return a case for each value of a parameter, or one when the user set it."""
    if given(settings, name):
        return [Case("", parse_settings(settings, defaults))]
    return [Case(f"{name}={value}", parse_settings(settings, {**defaults, name: value})) for value in values]


def at_least(name: str, measured: float, limit: float, paper: str = "") -> Verdict:
    """Return the verdict that measured is no less than limit; paper is the paper's value in words."""
    return Verdict(name, f">= {limit:g}", measured, measured >= limit, paper)


def at_most(name: str, measured: float, limit: float, paper: str = "") -> Verdict:
    """Return the verdict that measured is no more than limit; paper is the paper's value in words."""
    return Verdict(name, f"<= {limit:g}", measured, measured <= limit, paper)


def near(name: str, measured: float, target: float, tolerance: float, paper: str = "") -> Verdict:
    """Return the verdict that measured is within a part of target; paper is the paper's value in words."""
    return Verdict(name, f"{target:.1f} within {tolerance:.0%}", measured,
                   abs(measured - target) <= tolerance * target, paper)


def phase(run: Run, name: str) -> Dict[str, Any]:
    """Return a phase of a run, empty when the run has none of that name."""
    return next((one for one in run["phases"] if one["name"] == name), {})


def settled_phase(run: Run, name: str) -> Dict[str, Any]:
    """Return a phase of a run that is judged from its third second on, empty when the run has none of that name.

    Raises TooShort when the phase has not that many seconds.
    """
    one = phase(run, name)
    if one and one["settled_start_s"] == one["start_s"]:
        raise TooShort(f"phases: period {name} has {one['end_s'] - one['start_s']:g} s and is judged from its third "
                       "second on, so it needs 3 s or more")
    return one


def window(what: str, start_s: float, end_s: float, bin_s: float = 0.1) -> slice:
    """Return the bins between two times of a run, in s. Raises TooShort, naming what is judged, if there is none."""
    bins = slice(round(start_s / bin_s), round(end_s / bin_s))
    if bins.stop <= bins.start:
        raise TooShort(f"phases: {what} is judged from {start_s:g} s on, and that ends at {end_s:g} s")
    return bins


def mean_between(run: Run, vm: str, start_s: float, end_s: float) -> float:
    """Return a VM's mean payload rate between two times, Mb/s. Raises TooShort when the run ends before."""
    inside = window(f"what {vm} gets", start_s, end_s)
    bins = run["series"]["goodput_mbps"][vm]
    if len(bins) < inside.stop:
        raise TooShort(f"phases: what {vm} gets is judged from {start_s:g} to {end_s:g} s, and the run has "
                       f"{len(bins) / 10:g} s")
    return sum(bins[inside]) / (inside.stop - inside.start)


def fair_share_mbps(run: Run, index: int = 0) -> float:
    """Return the payload rate of the index-th VM's fair share by weight of its bottlenecks, Mb/s.

    Its weighted part of each congested port it sends to, and no more than its part of its hypervisor's uplink.
    """
    parameters = make_parameters(run["parameters"])
    senders = range(parameters.senders)
    payload = UDP_PAYLOAD if parameters.protocol(index) == "udp" else TCP_PAYLOAD
    if parameters.topology == "parking-lot":
        claims = {one: Claim({(link, 0): 1.0 for link in LINKS_OF_GROUP[one % 3]}, parameters.weight(one))
                  for one in senders}
        return allot(claims, {(link, 0): vm_frame_mbps(run) for link in (0, 1)})[index].rate * payload
    # In racks every receiver has a port of its own; in the dumbbell all share one.
    ports = [{number if parameters.topology == "racks" else 0 for number in parameters.receivers_of(one)}
             for one in senders]

    def part(sharers: Iterable[int]) -> float:
        return parameters.weight(index) / sum(parameters.weight(one) for one in sharers)

    shares = [part(one for one in senders if port in ports[one]) for port in ports[index]]
    uplink = part(one for one in senders if parameters.hypervisor(one) == parameters.hypervisor(index))
    return min(sum(shares), uplink) * vm_frame_mbps(run) * payload


def vm_frame_mbps(run: Run) -> float:
    """Return what a link carries of VMs' own full frames, Mb/s: its rate, in tunnels without what they add."""
    parameters = make_parameters(run["parameters"])
    return parameters.link_mbps * parameters.inner_part


def goodput_by_second(run: Run, vm: str, start_s: float, end_s: float) -> List[float]:
    """Return a VM's payload rate in each whole second between two times, Mb/s."""
    series = run["series"]["goodput_mbps"][vm]
    seconds = []
    for number in range(int(end_s - start_s + 1e-9)):
        first = round((start_s + number) * 10)
        seconds.append(round(sum(series[first:first + 10]) / 10, 3))
    return seconds


def settling_s(run: Run) -> Optional[float]:
    """Return how long after all VMs have begun those that send had fair parts by weight, seconds; None: never.

    None, too, when less than two send.
    """
    shared, parameters = phase(run, "all"), make_parameters(run["parameters"])
    sending = [(index, vm) for index, vm in enumerate(parameters.vm_names)
               if shared.get("settled_goodput_mbps", {}).get(vm)]
    if len(sending) < 2:
        return None
    first, last = round(shared["start_s"] * 10), round(shared["end_s"] * 10)
    series = run["series"]["goodput_mbps"]

    def fair(begin: int) -> bool:
        return jain([sum(series[vm][begin:begin + WINDOW_BINS]) / parameters.weight(index)
                     for index, vm in sending]) >= SETTLED_JAIN

    return next((round((begin - first) / 10, 1) for begin in range(first, last - 2 * WINDOW_BINS + 1)
                 if fair(begin) and fair(begin + WINDOW_BINS)), None)


def sink_rates(raw: Path, run: Run, since_s: float, until_s: Optional[float] = None) -> Dict[int, float]:
    """Return the payload rate of each flow by its port, Mb/s, from since_s to until_s, none: the end of the run.

    raw is the folder of raw samples; several sinks count into one when their flows share a port. Raises TooShort when
    the run ends before since_s.
    """
    end_s = sum(run["parameters"]["phases"]) if until_s is None else until_s
    window("each flow's rate", since_s, end_s)
    bin_s = json.loads((raw / "job.json").read_text())["sampling"]["bin_us"] / 1e6
    rates: Dict[int, float] = {}
    for sink in sorted(raw.glob("sink-*.txt")):
        for line in sink.read_text().splitlines():
            port, *bins = (int(word) for word in line.split())
            inside = bins[round(since_s / bin_s):round(end_s / bin_s)]
            rates[port] = rates.get(port, 0.0) + round(sum(inside) * 8 / len(inside) / bin_s / 1e6, 2)
    return rates
