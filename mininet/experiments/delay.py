# SPDX-License-Identifier: Apache-2.0
"""Control periods of 1, 10 and 50 ms: SDN-GCC's Fig. 6."""

from __future__ import annotations

import statistics
from typing import List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, fair_share_mbps, near, phase, sweep

# The longest period's oscillation is at least this many times that of any shorter one.
GROWTH = 2


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for 1, 10 and 50 ms, or for the period the user set."""
    return sweep(settings, {"law": "sdngcc"}, "period_ms", (1, 10, 50))


def oscillation_mbps(run: Run) -> float:
    """Return the standard deviation of the tagged VM's goodput in bins of 0.1 s, in Mb/s.

    Over the second half of the shared period, when the newcomer's approach to its share is over.
    """
    shared = phase(run, "all")
    first, last = round((shared["start_s"] + shared["end_s"]) * 5), round(shared["end_s"] * 10)
    return round(statistics.pstdev(run["series"]["goodput_mbps"]["vm1"][first:last]), 3)


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge that the tagged VM settles at its share, and that oscillation grows with the period."""
    verdicts = [near(f"tagged, {label or 'period all'}, Mb/s", phase(run, "all")["settled_goodput_mbps"]["vm1"],
                     fair_share_mbps(run), 0.15) for label, run in runs]
    if len(runs) > 1:
        swings = [oscillation_mbps(run) for _, run in runs]
        grows = swings[-1] >= GROWTH * max(swings[:-1])
        verdicts.append(Verdict("oscillation of the tagged VM by period, Mb/s",
                                f"the longest swings {GROWTH} times as much as any other", swings, grows))
        delays = [run["queue"]["delay_us_p99"] for _, run in runs]
        verdicts.append(Verdict("queueing delay p99 by period, us", "grows", delays, delays == sorted(delays)))
    return verdicts


EXPERIMENT = Experiment("delay", "Control periods of 1, 10 and 50 ms", "SDN-GCC, Fig. 6", cases, judge)
