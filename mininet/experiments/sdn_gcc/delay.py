# SPDX-License-Identifier: Apache-2.0
"""Control periods of 1, 10 and 50 ms: SDN-GCC's Fig. 6, whose law has no levels.

Oscillation is measured on the tagged VM's rate limit, read every 2 ms.  Its goodput follows it, but in bins of 0.1 s
the two cannot be told from chance: the limit rises and falls some 10 to 20 times a second, at 10 ms in step with
the bins, so that each holds whole cycles and the swing vanishes from their means.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Run,
    Verdict,
    fair_share_mbps,
    near,
    phase,
    settled_phase,
    settling_s,
    sweep,
)
from sdngcc.experiments.sdn_gcc import scale
from sdngcc.testbed.collect import limits_mbps

# How often the rate limits are read, ms.
READ_MS = 2
# The limit itself is kept for so long from the newcomer's start, s.
KEPT_S = 1.0
# VMs share fairly so long after the newcomer has begun, s: without levels it climbs down step by step.
CLIMBED_S = 5.0


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for 1, 10 and 50 ms, or for the period the user set."""
    return sweep(settings, {**scale.DEFAULTS, "levels": False, "limit_sample_ms": READ_MS}, "period_ms", (1, 10, 50))


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return the deviation of the tagged VM's rate limit, Mb/s, None without a limit, and that limit as it was.

    The deviation is of the second half of the shared period, when the newcomer's approach to its share is over; the
    limit is (s, Mb/s) for KEPT_S from that period's start.
    """
    shared = phase(run, "all")
    begin_s, end_s = (shared["start_s"] + shared["end_s"]) / 2, shared["end_s"]
    readings = limits_mbps(raw, "vm1")
    limits = [limit for at_s, limit in readings if begin_s <= at_s < end_s]
    return {"limit_deviation_mbps": round(statistics.pstdev(limits), 3) if limits else None,
            "limit_mbps": [(round(at_s, 3), limit) for at_s, limit in readings
                           if shared["start_s"] <= at_s < shared["start_s"] + KEPT_S]}


def settles_within(label: str, run: Run, limit_s: float) -> Verdict:
    """Judge how long after the newcomer's start VMs share fairly."""
    settled = settling_s(run)
    return Verdict(f"fair after, {label or 'period all'}, s", f"<= {limit_s:g}", settled,
                   settled is not None and settled <= limit_s)


def settles_later(name: str, runs: Sequence[Run]) -> Verdict:
    """Judge that VMs share fairly the later, the longer the period of each run is; None: never while all send."""
    times = [settling_s(run) for run in runs]
    order = [float("inf") if one is None else one for one in times]
    return Verdict(name, "grows with the period", times, order == sorted(set(order)),
                   "convergence is the slower the longer the delay is (no number)")


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that the tagged VM settles at its share, and that convergence and oscillation grow with the period."""
    verdicts = [near(f"tagged, {label or 'period all'}, Mb/s", settled_phase(run, "all")["settled_goodput_mbps"]["vm1"],
                     fair_share_mbps(run), 0.15) for label, run in runs]
    verdicts += [settles_within(label, run, CLIMBED_S) for label, run in runs]
    if len(runs) > 1:
        verdicts.append(settles_later("fair after by period, s", [run for _, run in runs]))
    swings = [run["measured"]["limit_deviation_mbps"] for _, run in runs]
    if len(runs) > 1 and None not in swings:
        verdicts.append(Verdict("oscillation of the tagged VM's limit by period, Mb/s", "grows with the period",
                                swings, swings == sorted(set(swings)), "grows from 1 to 10 to 50 ms (no number)"))
        delays = [run["queue"]["delay_us_p99"] for _, run in runs]
        verdicts.append(Verdict("queueing delay p99 by period, us", "grows", delays, delays == sorted(delays)))
    return verdicts


EXPERIMENT = Experiment("delay", "Control periods of 1, 10 and 50 ms", "SDN-GCC, Fig. 6", cases, judge, measure,
                        seen="the same share at every period; swing and time until fair grow with it",
                        changed=scale.EXPERIMENT.changed)
