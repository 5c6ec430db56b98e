# SPDX-License-Identifier: Apache-2.0
"""Results of several seeds as figures need them: runs by label, and estimates out of a value a seed."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.statistics import mean_and_interval

Run = Dict[str, Any]
Runs = Mapping[str, Sequence[Run]]
"""The runs of each label in order, one of each seed that has it."""


class Estimate(NamedTuple):
    """A mean over seeds, and half the width of its 95% interval, 0 of one seed."""

    centre: float
    half: float


def gather(results: Sequence[Mapping[str, Any]]) -> Dict[str, List[Run]]:
    """Return the runs of all results by label, in the order in which labels first come."""
    found: Dict[str, List[Run]] = {}
    for result in results:
        for run in runs_of(dict(result)):
            found.setdefault(run["label"], []).append({**run, "seed": result["seed"]})
    return found


def dig(place: Any, *path: Any) -> Any:
    """Return what stands at the end of a path of keys; None where a part of it is missing."""
    for key in path:
        if isinstance(place, Mapping):
            place = place.get(key)
        elif isinstance(place, (list, tuple)) and isinstance(key, int) and -len(place) <= key < len(place):
            place = place[key]
        else:
            return None
    return place


def is_number(value: Any) -> bool:
    """Tell whether a value is a number other than NaN and infinity."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def estimate(values: Iterable[Any]) -> Optional[Estimate]:
    """Return the estimate of the values that are numbers; None when none is."""
    numbers = [float(value) for value in values if is_number(value)]
    return Estimate(*mean_and_interval(numbers)) if numbers else None


def over_seeds(runs: Sequence[Run], value: Callable[[Run], Any]) -> Optional[Estimate]:
    """Return the estimate of what is read out of each seed's run; a run that lacks what is read counts for nothing."""
    found = []
    for run in runs:
        try:
            found.append(value(run))
        except (KeyError, TypeError, ZeroDivisionError):
            continue
    return estimate(found)


def over_time(series: Sequence[Sequence[Any]]) -> List[Optional[Estimate]]:
    """Return the estimate of each bin of a series that each seed has."""
    return [estimate(values) for values in zip(*series)]


def coarser(series: Sequence[Any], bins: int) -> List[Optional[float]]:
    """Return means of so many bins each, of those that have a value."""
    parts = [[value for value in series[at:at + bins] if is_number(value)]
             for at in range(0, len(series) - bins + 1, bins)]
    return [sum(part) / len(part) if part else None for part in parts]


def mean_between(run: Run, vm: str, start_s: float, end_s: float) -> Optional[float]:
    """Return a VM's goodput between two times, Mb/s; None without samples."""
    values = [value for at, value in zip(run["series"]["t_s"], dig(run, "series", "goodput_mbps", vm) or [])
              if start_s <= at < end_s - 1e-9 and is_number(value)]
    return sum(values) / len(values) if values else None


def phase(run: Run, name: str) -> Dict[str, Any]:
    """Return a phase of a run, empty when the run has none of that name."""
    return next((one for one in run["phases"] if one["name"] == name), {})


def vm_order(names: Iterable[str]) -> List[str]:
    """Return VMs by number: vm2 comes before vm10."""
    return sorted(names, key=lambda name: (len(name), name))


def split(label: str, prefix: str) -> Tuple[str, str]:
    """Return the part of a label that begins so, which is its group, and the rest, which is its series.

    A label without such a part is a group of its own.
    """
    parts = label.split(", ")
    own = [part for part in parts if part.startswith(prefix)]
    if not own:
        return label, ""
    return own[0], ", ".join(part for part in parts if part is not own[0])


def split_last(label: str) -> Tuple[str, str]:
    """Return what stands before the last comma, a label's group, and what stands behind it, its series."""
    group, _, series = label.rpartition(", ")
    return (group, series) if group else (label, "")


def table(runs: Runs, divide: Callable[[str], Tuple[str, str]]) -> Tuple[List[str], List[str],
                                                                            Dict[Tuple[str, str], Sequence[Run]]]:
    """Return groups and series in order of appearance, and the runs of each pair that has some."""
    cells = {divide(label): seeds for label, seeds in runs.items()}
    return list(dict.fromkeys(group for group, _ in cells)), list(dict.fromkeys(one for _, one in cells)), cells


def measured(runs: Sequence[Run], *path: Any, factor: float = 1.0, plus: float = 0.0) -> Optional[Estimate]:
    """Return the estimate of a measured value, times a factor and with something added."""
    return over_seeds(runs, lambda run: dig(run, "measured", *path) * factor + plus)


def goodput(runs: Sequence[Run], vm: str, name: str = "settled_goodput_mbps") -> Optional[Estimate]:
    """Return the estimate of a VM's goodput while all send, Mb/s; name says of which part of that period."""
    return over_seeds(runs, lambda run: phase(run, "all")[name][vm])
