# SPDX-License-Identifier: Apache-2.0
"""A TCP beside a VM that sends to 1 to 32 destinations: Seawall's Fig. 10.

The paper puts both VMs on one server and every sink on a machine of its own, behind one bottleneck. Here each VM has
a hypervisor: on one, the uplink's share alone would divide the link. All sinks are VMs of one hypervisor, whose port
is the bottleneck.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict
from sdngcc.experiments.seawall.victim import about_half, unprotected, with_and_without


def cases(settings: Sequence[str]) -> List[Case]:
    """Return runs for 1, 8 and 32 destinations of the rival, without a shim and under seawall."""
    return with_and_without(settings, {}, "destinations", (1, 8, 32))


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the well-behaved TCP's part of the link."""
    verdicts = []
    for _, run in runs:
        count = run["parameters"]["destinations"]
        name = f"TCP's part of the link, rival has {count} destination{'s' if count > 1 else ''}"
        if run["parameters"]["law"] == "none":
            verdicts.append(unprotected(run, name, f"1/{count + 1}"))
        else:
            verdicts.append(about_half(run, name, "about 1/2"))
    return verdicts


EXPERIMENT = Experiment("many-dsts", "A TCP beside a VM with 1 to 32 destinations", "Seawall, Fig. 10", cases, judge,
                        seen="the victim within 10% of half at 1 to 32 destinations")
