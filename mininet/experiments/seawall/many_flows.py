# SPDX-License-Identifier: Apache-2.0
"""A TCP beside a VM with 1, 2 and 66 of them: Seawall's Fig. 9b."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict
from sdngcc.experiments.seawall.victim import about_half, unprotected, with_and_without


def cases(settings: Sequence[str]) -> List[Case]:
    """Return runs for 1, 2 and 66 flows of the rival, without a shim and under seawall."""
    return with_and_without(settings, {}, "flows", (1, 2, 66))


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the well-behaved TCP's part of the link."""
    verdicts = []
    for _, run in runs:
        flows = run["parameters"]["flows"]
        name = f"TCP's part of the link, 1:{flows} flows"
        if run["parameters"]["law"] == "none":
            verdicts.append(unprotected(run, name, {1: "1/2", 2: "1/3", 66: "almost none"}.get(flows, "")))
        else:
            verdicts.append(about_half(run, name, "about 1/2" if flows in (1, 2, 66) else ""))
    return verdicts


EXPERIMENT = Experiment("many-flows", "A TCP beside a VM with 1, 2 and 66 flows", "Seawall, Fig. 9b", cases, judge,
                        seen="the victim within 10% of half at 1, 2 and 66 flows")
