# SPDX-License-Identifier: Apache-2.0
"""How well the simulators agree with the testbed: the same experiments in all three, beside each other.

``share``, ``scale``, ``udp-flood`` and ``converge`` run in User Mode Linux, on ns-3 and by rates alone (everything.py).
Means are to agree within MEANS, times to settle within SETTLING of the testbed's; the table says what does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

MEANS, SETTLING = 0.03, 0.20
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"
SEED = 1
MODELS = ("packets", "fluid")
# Guests' sockets wait for nothing below them in any of the three.
SETTINGS = ["backpressure=false"]
# Flows that begin together do so in the same nanosecond of the testbed's time, and its hosts have no jitter.
IN_STEP = ["jitter_percent=0"]


@dataclass(frozen=True)
class Row:
    """A number that is compared."""

    name: str
    experiment: str
    read: Callable[[List[Dict[str, Any]]], Optional[float]]
    """Reads it from an experiment's runs."""
    tolerance: float
    models: Tuple[str, ...] = MODELS


def _settled(number: int, phase: str, vm: str) -> Callable[[List[Dict[str, Any]]], Optional[float]]:
    def read(runs: List[Dict[str, Any]]) -> Optional[float]:
        found = next(one for one in runs[number]["phases"] if one["name"] == phase)["settled_goodput_mbps"]
        return float(sum(found.values()) if vm == "all" else found[vm])
    return read


def _converged(number: int) -> Callable[[List[Dict[str, Any]]], Optional[float]]:
    def read(runs: List[Dict[str, Any]]) -> Optional[float]:
        value = runs[number]["measured"]["settled_ms"]
        return None if value is None else float(value)
    return read


def _received(number: int) -> Callable[[List[Dict[str, Any]]], Optional[float]]:
    def read(runs: List[Dict[str, Any]]) -> Optional[float]:
        series = runs[number]["series"]["goodput_mbps"].values()
        return round(sum(sum(rates[1:]) for rates in series) / max(1, len(runs[number]["series"]["t_s"]) - 1), 1)
    return read


def rows() -> List[Row]:
    """Return all that is compared."""
    found = [Row("share: tagged while all send, Mb/s", "share", _settled(0, "all", "vm1"), MEANS),
             Row("share: all four, Mb/s", "share", _settled(0, "all", "all"), MEANS),
             Row("share: the three before, Mb/s", "share", _settled(0, "competitors", "all"), MEANS),
             Row("share: tagged alone, Mb/s", "share", _settled(0, "tagged", "vm1"), MEANS)]
    for number, senders in enumerate((8, 16, 32)):
        found += [Row(f"scale: tagged of {senders}, Mb/s", "scale", _settled(number, "all", "vm1"), MEANS),
                  Row(f"scale: all {senders}, Mb/s", "scale", _settled(number, "all", "all"), MEANS)]
    found += [Row("udp-flood: TCP without a shim, Mb/s", "udp-flood", _settled(0, "all", "vm1"), MEANS, ("packets",)),
              Row("udp-flood: TCP under seawall, Mb/s", "udp-flood", _settled(1, "all", "vm1"), MEANS),
              Row("udp-flood: UDP under seawall, Mb/s", "udp-flood", _settled(1, "all", "vm2"), MEANS)]
    for number, senders in enumerate((2, 4, 8, 16, 32)):
        found += [Row(f"converge: received of {senders}, Mb/s", "converge", _received(number), MEANS),
                  Row(f"converge: {senders} settled after, ms", "converge", _converged(number), SETTLING)]
    return found


def settings_of(name: str, model: str) -> List[str]:
    """Return the settings of an experiment's runs in a simulator; by rates alone there is none without a shim."""
    return [*SETTINGS, f"model={model}", *(["law=seawall"] if (name, model) == ("udp-flood", "fluid") else []),
            *(IN_STEP if name == "converge" else [])]


def in_place(name: str, model: str, runs: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return an experiment's runs in a simulator, each in the place that it has in the testbed's."""
    return [{}, *runs] if (name, model) == ("udp-flood", "fluid") else runs


def judge(reference: Optional[float], value: Optional[float], tolerance: float) -> str:
    """Return a cell: the value, and how far it is from the reference; ``off`` stands where that is too far."""
    if value is None or reference is None:
        return "never" if value is None else f"{value:g}"
    apart = value / reference - 1 if reference else float("inf")
    return f"{value:.4g} ({apart:+.1%}{'' if abs(apart) <= tolerance else ', off'})"


def table(found: Dict[Tuple[str, str], List[Dict[str, Any]]]) -> List[str]:
    """Return the lines of the table."""
    lines = ["| what | testbed | packets | rates alone | to agree within |", "|---|---|---|---|---|"]
    for row in rows():
        reference = row.read(found[row.experiment, "testbed"])
        cells = [judge(reference, row.read(found[row.experiment, model]), row.tolerance) if model in row.models else "-"
                 for model in MODELS]
        shown = "never" if reference is None else f"{reference:.4g}"
        lines.append(f"| {row.name} | {shown} | {' | '.join(cells)} | {row.tolerance:.0%} |")
    return lines


def write_page(page: Path, name: str, lines: List[str]) -> None:
    """Write lines between the marks that a page has of a name. Raises ValueError if it has none."""
    text, begin, end = page.read_text(encoding="utf-8"), BEGIN.format(name), END.format(name)
    if begin not in text or end not in text:
        raise ValueError(f"{page} has no {begin} and {end}")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + after, encoding="utf-8")
