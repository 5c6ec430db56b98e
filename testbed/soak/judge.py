# SPDX-License-Identifier: Apache-2.0
"""Judges the rows of a soak: whether what should stay the same did, whether what may wander goes nowhere.

Memory is judged by its slope, the median of the slopes between all pairs of cycles (Theil and Sen), which a third of
outliers does not move. For a process only pairs in which it is the same process count. The first WARM_UP of the cycles
are left out: tables, arenas and caches of programs find their size in them. So are the first LIFE_WARM_UP of a process
that lives for long: it meets each law, change and fault for the first time in them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

Row = Dict[str, Any]

# Part of the cycles that is left out of slopes, and the fewest cycles that are.
WARM_UP, WARM_UP_CYCLES = 0.125, 2
# Cycles of a process' life that are left out where it lives for LIFE_LEAST more: once through all laws and faults.
LIFE_WARM_UP, LIFE_LEAST = 8, 3
# Slope of the kernel's unreclaimable slab that passes, bytes for each change of a VM: the shim's smallest object is
# larger. It is no less than a page a cycle, for slab is counted in pages.
SLAB_BYTES, PAGE_KB = 16.0, 4.0
# Slope of a process' resident memory that passes, kB a cycle: 1.5 MB in 24 cycles. The testbed's kernel gives a process
# 16 pages at a time (patches/0004), so that less is not told from one such step in a few cycles.
RSS_KB = 64.0
# Slope of what the machine has available, and tmpfs holds, kB a cycle: it wanders by some 5 MB with the host's files
# that are mapped.
AVAILABLE_KB = 1024.0
# What else the kernel takes for itself: what is counted in whole tables, kB between the first and the last cycle.
STEADY = {"KernelStack": 64, "PageTables": 256, "VmallocUsed": 64, "Percpu": 32}
# The reference load: Jain's index at least, error of the worst share at most, and how far values of cycles may differ.
JAIN, SHARE_ERROR, APART = 0.99, 0.05, 0.01
# Counters of the shim that show a mistake or a lack: nothing that is done here brings them about.
NEVER = ("drop_memory", "drop_forged", "drop_spoofed", "drop_source", "drop_segment", "refused_form", "refused_short",
         "refused_tag", "refused_origin", "messages_other_key", "peers_full", "peers_no_memory", "flows_full",
         "flows_no_memory", "paths_full", "paths_no_memory", "reports_no_key")


@dataclass(frozen=True)
class Verdict:
    """One thing that was judged."""

    name: str
    passed: bool
    seen: str
    allowed: str

    def as_dict(self) -> Dict[str, Any]:
        """Return it as result.json has it."""
        return {"name": self.name, "passed": self.passed, "seen": self.seen, "allowed": self.allowed}


def slope(points: Sequence[Tuple[int, float, int]]) -> Optional[float]:
    """Return the median slope of (cycle, value, process) a cycle, of pairs of one process; None if there is no pair."""
    slopes = [(later[1] - earlier[1]) / (later[0] - earlier[0])
              for number, earlier in enumerate(points) for later in points[number + 1:] if later[2] == earlier[2]]
    return statistics.median(slopes) if slopes else None


def counted(rows: Sequence[Row]) -> List[Row]:
    """Return the rows without those of the warm-up."""
    return list(rows[max(WARM_UP_CYCLES, round(WARM_UP * len(rows))):])


def judge(rows: Sequence[Row], cycles: int, changes: int) -> List[Verdict]:
    """Judge the rows of a soak that was to have so many cycles, with so many changes of a VM in each."""
    found = [Verdict("cycles", len(rows) == cycles, str(len(rows)), str(cycles))]
    late = counted(rows)
    if len(late) < 2:
        return [*found, Verdict("cycles after the warm-up", False, str(len(late)), "2 or more")]
    return [*found, *_memory(late, changes), *_processes(late), *_load(rows), *_mistakes(rows)]


def _sloping(name: str, points: Sequence[Tuple[int, float, int]], allowed: float, sign: int = 1) -> Verdict:
    """Judge the slope of kB a cycle: no more than allowed upwards, or, where sign is -1, downwards."""
    got = slope(points)
    seen = "no pair" if got is None else f"{got:+.1f} kB/cycle"
    return Verdict(name, got is not None and sign * got <= allowed, seen,
                   f"{'up' if sign > 0 else 'down'} to {sign * allowed:+.1f}")


def _memory(rows: Sequence[Row], changes: int) -> List[Verdict]:
    def of(*names: str) -> List[Tuple[int, float, int]]:
        return [(row["cycle"], sum(row["memory_kb"][name] for name in names), 0) for row in rows]

    found = [_sloping("unreclaimable slab", of("SUnreclaim"), max(PAGE_KB, SLAB_BYTES * changes / 1024)),
             _sloping("memory available, and in tmpfs", of("MemAvailable", "Shmem"), AVAILABLE_KB, -1)]
    for name, allowed in STEADY.items():
        grown = rows[-1]["memory_kb"][name] - rows[0]["memory_kb"][name]
        found.append(Verdict(name, grown <= allowed, f"{grown:+d} kB", f"+{allowed}"))
    return found


def settled(points: Sequence[Tuple[int, float, int]]) -> List[Tuple[int, float, int]]:
    """Return the points (cycle, value, process) without those in which a process that lives for long warms up."""
    lives: Dict[int, List[Tuple[int, float, int]]] = {}
    for point in points:
        lives.setdefault(point[2], []).append(point)
    return [point for life in lives.values()
            for point in life[LIFE_WARM_UP if len(life) >= LIFE_WARM_UP + LIFE_LEAST else 0:]]


def _processes(rows: Sequence[Row]) -> List[Verdict]:
    found = []
    for name in rows[0]["processes"]:
        own = [(row["cycle"], row["processes"][name]) for row in rows]
        found.append(_sloping(f"resident memory of {name}",
                              settled([(cycle, one["rss_kb"], one["pid"]) for cycle, one in own]), RSS_KB))
        numbers = sorted({one["threads"] for _, one in own})
        found.append(Verdict(f"threads of {name}", len(numbers) == 1, ", ".join(map(str, numbers)), "one number"))
        found.append(_files(name, [one["files"] for _, one in own]))
    return found


def _files(name: str, opened: Sequence[Dict[str, int]]) -> Verdict:
    """Judge the numbers of a process' open files by kind: all stay; what moved is named."""
    moved = []
    for kind in sorted({kind for files in opened for kind in files}):
        numbers = sorted({files.get(kind, 0) for files in opened})
        moved += [f"{kind} {', '.join(map(str, numbers))}"] if len(numbers) > 1 else []
    seen = "; ".join(moved) or str(sum(opened[-1].values()))
    return Verdict(f"files of {name}", not moved, seen, "one number of each kind")


def _load(rows: Sequence[Row]) -> List[Verdict]:
    found = []
    for name in ("jain", "share_error", "utilisation"):
        values = [row[name] for row in rows]
        apart = round(max(values) - min(values), 4)
        found.append(Verdict(f"{name} of the reference load, first to last", apart <= APART,
                             f"{min(values)} to {max(values)}", f"apart by {APART}"))
    worst = max(row["share_error"] for row in rows)
    lowest = min(row["jain"] for row in rows)
    return [*found, Verdict("Jain's index, worst cycle", lowest >= JAIN, str(lowest), f"at least {JAIN}"),
            Verdict("error of the worst share, worst cycle", worst <= SHARE_ERROR, str(worst), f"up to {SHARE_ERROR}")]


def _mistakes(rows: Sequence[Row]) -> List[Verdict]:
    never = sorted({name for row in rows for name in NEVER if row["counters"].get(name)})
    fell = sorted({counter for row in rows for counter in row["fell"]})
    lines = [line for row in rows for found in row["faulty_lines"].values() for line in found]
    devices = sorted({row["devices"] for row in rows})
    return [Verdict("counters of mistakes", not never, ", ".join(never) or "none", "none"),
            Verdict("counters that fell", not fell, ", ".join(fell) or "none", "none"),
            Verdict("logs", not lines, lines[0] if lines else "no complaint", "no complaint"),
            Verdict("network devices", len(devices) == 1, ", ".join(map(str, devices)), "one number")]
