# SPDX-License-Identifier: Apache-2.0
"""Runs a soak in a virtual machine, judges it, and leaves its result."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from sdngcc.testbed.build import Artifacts
from sdngcc.testbed.machine import MachineError, Progress, run_job
from sdngcc.testbed.parameters import parse_settings
from sdngcc.testbed.runner import make_job, write_json
from sdngcc.testbed.soak.judge import Row, judge
from sdngcc.testbed.workload import Workload

# Two hosts of two VMs each behind one port of 10 Mb/s: some hundred packets a second, for each costs wall time. A full
# packet takes 5 ms of a VM's quarter, so the shim holds packets for longer than by default. Each poll costs
# 5 ms of wall time, so polls are seldom, and rates good for longer.
SETTINGS = ("datapath=beside", "law=maxmin", "senders=4", "hosts=2", "link_mbps=10", "horizon_us=100000",
            "period_ms=1000", "knob.rate-timeout=5000000000", "phases=0,1,0")
# Wall time that a cycle, and each virtual second, may take: ten times what they do on an idle machine.
LIMIT_CYCLE_S, LIMIT_PER_S = 600.0, 0.5


@dataclass(frozen=True)
class Plan:
    """How long a soak is, and what is done in it."""

    cycles: int
    """Cycles, each with load, changes, a fault and a checkpoint."""
    cycle_s: float
    """Virtual time of a cycle, seconds."""
    changes: int
    """Changes of one VM in a cycle, by netlink."""


def make_plan(hours: float) -> Plan:
    """Return the plan of so many virtual hours: cycles of an hour, but never fewer than six."""
    cycles = max(6, round(hours))
    return Plan(cycles, hours * 3600 / cycles, 1000 if hours >= 6 else 4000)


def soak_job(plan: Plan, artifacts: Artifacts, seed: int) -> Dict[str, Any]:
    """Return the job that the guest reads."""
    work = Workload()
    for number in range(1, 5):
        # Who pings whom before the first cycle; the fourth's TCP negotiates ECN in all cycles.
        work.tcp(f"vm{number}", "rx1", 0, 1, "reno", number == 4)
    job = make_job(parse_settings(SETTINGS, {}), artifacts, seed, work)
    job["controller"]["program"] = ["sdngcc.testbed.soak.controller"]
    return {**job, "soak": asdict(plan)}


def read_rows(out: Path) -> List[Row]:
    """Return the rows that the guest has left so far."""
    path = out / "rows.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def soak(plan: Plan, artifacts: Artifacts, out: Path, seed: int = 1, progress: Optional[Progress] = None,
         change: Optional[Callable[[Dict[str, Any]], None]] = None) -> Dict[str, Any]:
    """Run a soak, leave result.json in out, and return it. change is called with the job before it runs.

    A machine that does not come to its end is a verdict of its own, and the cycles before that are judged; so it is
    when KeyboardInterrupt ends the soak.
    """
    shutil.rmtree(out, ignore_errors=True)
    job = soak_job(plan, artifacts, seed)
    if change is not None:
        change(job)
    ended, timing = "", None
    try:
        timing = run_job(artifacts.kernel, job, out, seed,
                         plan.cycles * (LIMIT_CYCLE_S + LIMIT_PER_S * plan.cycle_s), progress,
                         main="sdngcc.testbed.soak.guest")
    except MachineError as error:
        ended = str(error)
    except KeyboardInterrupt:
        ended = "it was interrupted"
    return leave_result(plan, out, seed, ended, timing.wall_s if timing else None)


def leave_result(plan: Plan, out: Path, seed: int, ended: str, wall_s: Optional[float]) -> Dict[str, Any]:
    """Judge the rows in out, leave result.json there, and return it; ended says why the machine ended, if early."""
    rows = read_rows(out)
    verdicts = [verdict.as_dict() for verdict in judge(rows, plan.cycles, plan.changes)]
    verdicts.append({"name": "the machine, its kernel's log", "passed": not ended, "seen": ended or "no complaint",
                     "allowed": "no complaint"})
    result = {"plan": asdict(plan), "seed": seed, "rows": rows, "verdicts": verdicts,
              "wall_s": None if wall_s is None else round(wall_s)}
    write_json(out / "result.json", result)
    return result


def judge_so_far(out: Path) -> Dict[str, Any]:
    """Judge what a soak that runs, or was cut off, has left in a folder; raises FileNotFoundError if there was none."""
    job = json.loads((out / "job.json").read_text())
    plan, rows = Plan(**job["soak"]), read_rows(out)
    return {"rows": rows, "verdicts": [verdict.as_dict() for verdict in judge(rows, plan.cycles, plan.changes)]}


def table(result: Dict[str, Any]) -> str:
    """Return the rows, a line each, and the verdicts, for people."""
    lines = [f"{'cycle':>5} {'law':9}{'fault':13}{'Jain':>7}{'error':>7}{'use':>7}{'slab kB':>9}{'controller':>11}"
             f"{'vswitchd':>9}{'ovsdb':>7}  (resident, kB)"]
    for row in result["rows"]:
        own = row["processes"]
        lines.append(f"{row['cycle']:>5} {row['law']:9}{row['fault']:13}{row['jain']:>7.4f}{row['share_error']:>7.4f}"
                     f"{row['utilisation']:>7.4f}{row['memory_kb']['SUnreclaim']:>9}{own['controller']['rss_kb']:>11}"
                     f"{own['ovs-vswitchd']['rss_kb']:>9}{own['ovsdb-server']['rss_kb']:>7}")
    for verdict in result["verdicts"]:
        lines.append(f"{'ok    ' if verdict['passed'] else 'FAILED'} {verdict['name']}: {verdict['seen']} "
                     f"(allowed: {verdict['allowed']})")
    return "\n".join(lines)
