# SPDX-License-Identifier: Apache-2.0
"""A TCP beside UDP at the link's full rate: Seawall's Fig. 9a."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least
from sdngcc.experiments.seawall.victim import unprotected, victim_part, with_and_without


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run without a shim and one under seawall."""
    return with_and_without(settings, {"competitor": "udp"})


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the TCP's part of the link, weights being equal."""
    verdicts = []
    for _, run in runs:
        if run["parameters"]["law"] == "none":
            verdicts.append(unprotected(run, "TCP beside the flood", "negligible"))
        else:
            verdicts.append(at_least("TCP's part of the link beside the flood", victim_part(run), 0.45))
    return verdicts


EXPERIMENT = Experiment("udp-flood", "A TCP beside UDP at the link's full rate", "Seawall, Fig. 9a", cases, judge,
                        seen="the victim keeps 45% of the link or more",
                        changed="The run had 10 s before it was measured, 15 s since: the newcomer took four seconds "
                                "to its part then (it begins with its part since, too).")
