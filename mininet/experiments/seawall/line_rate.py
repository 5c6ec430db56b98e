# SPDX-License-Identifier: Apache-2.0
"""One TCP connection alone through the shim and without one: the throughputs of Seawall's Table 1.

Virtual time knows no load of processors: that half of the table is ``make bench-overhead``'s.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, Case, Experiment, Run, Verdict, at_least, phase
from sdngcc.experiments.seawall.victim import with_and_without

# Throughput under Seawall by that of the unmodified stack, Mb/s.
PAPER = 947 / 979


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run without a shim and one under seawall."""
    return with_and_without(settings, {"senders": 1, "phases": (0, 10, 0)})


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the law's throughput beside that without a shim."""
    got = {label: phase(run, "all")["goodput_mbps"]["vm1"] for label, run in runs}
    verdicts = [Verdict(f"{label}: Mb/s of {run['parameters']['link_mbps'] * TCP_PAYLOAD:.0f}".removeprefix(": "),
                        "as measured", got[label], True) for label, run in runs]
    if len(runs) > 1:
        bare, own = list(got.values())
        verdicts.append(at_least("throughput, protected / unprotected", round(own / bare, 4), round(PAPER, 3),
                                 "947 / 979 Mb/s = 0.967"))
    return verdicts


EXPERIMENT = Experiment("line-rate", "One TCP connection alone, with the shim and without", "Seawall, Table 1", cases,
                        judge, seen="as much of the unprotected throughput as in the paper, 0.967")
