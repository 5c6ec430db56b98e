# SPDX-License-Identifier: Apache-2.0
"""What an experiment is: runs made of settings, and expectations judged from their results alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Sequence, Tuple

from sdngcc.testbed.parameters import Parameters, parse_settings

# Payload bytes in a full frame as the queues count it (1514 bytes), with TCP timestamps, and of our UDP.
TCP_PAYLOAD = 1448 / 1514
UDP_PAYLOAD = 1472 / 1514

Run = Dict[str, Any]
"""A run's result as collect.summarise() makes it."""


@dataclass(frozen=True)
class Case:
    """One run of an experiment."""

    label: str
    parameters: Parameters


@dataclass(frozen=True)
class Verdict:
    """An expectation and what was measured."""

    name: str
    expected: str
    measured: Any
    holds: bool

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


def given(settings: Sequence[str], name: str) -> bool:
    """Return whether the user set that parameter."""
    return any(setting.startswith(f"{name}=") for setting in settings)


def sweep(settings: Sequence[str], defaults: Dict[str, Any], name: str, values: Sequence[Any]) -> List[Case]:
    """Return a case for each value of a parameter, or one when the user set it."""
    if given(settings, name):
        return [Case("", parse_settings(settings, defaults))]
    return [Case(f"{name}={value}", parse_settings(settings, {**defaults, name: value})) for value in values]


def at_least(name: str, measured: float, limit: float) -> Verdict:
    """Return the verdict that measured is no less than limit."""
    return Verdict(name, f">= {limit:g}", measured, measured >= limit)


def at_most(name: str, measured: float, limit: float) -> Verdict:
    """Return the verdict that measured is no more than limit."""
    return Verdict(name, f"<= {limit:g}", measured, measured <= limit)


def near(name: str, measured: float, target: float, tolerance: float) -> Verdict:
    """Return the verdict that measured is within a part of target."""
    return Verdict(name, f"{target:.1f} within {tolerance:.0%}", measured,
                   abs(measured - target) <= tolerance * target)


def phase(run: Run, name: str) -> Dict[str, Any]:
    """Return a phase of a run, empty when the run has none of that name."""
    return next((one for one in run["phases"] if one["name"] == name), {})


def fair_share_mbps(run: Run, index: int = 0) -> float:
    """Return the payload rate of the index-th VM's fair share of its bottleneck, Mb/s."""
    parameters = run["parameters"]
    weights = [parameters["weights"][number % len(parameters["weights"])] for number in range(parameters["senders"])]
    # In racks every receiver has a port of its own; VMs with several destinations share all of them.
    receivers = parameters["receivers"] if parameters["topology"] == "racks" else 1
    apart = receivers if parameters["destinations"] == 1 else 1
    sharers = [weight for number, weight in enumerate(weights) if number % apart == index % apart]
    ports = min(receivers, parameters["destinations"])
    names = [parameters["tagged"], *parameters["competitor"]]
    name = names[0] if index == 0 else names[1:][(index - 1) % (len(names) - 1)]
    payload = UDP_PAYLOAD if name == "udp" else TCP_PAYLOAD
    return float(min(ports * weights[index] / sum(sharers), 1) * parameters["link_mbps"] * payload)


def goodput_by_second(run: Run, vm: str, start_s: float, end_s: float) -> List[float]:
    """Return a VM's payload rate in each whole second between two times, Mb/s."""
    series = run["series"]["goodput_mbps"][vm]
    seconds = []
    for number in range(int(end_s - start_s + 1e-9)):
        first = round((start_s + number) * 10)
        seconds.append(round(sum(series[first:first + 10]) / 10, 3))
    return seconds
