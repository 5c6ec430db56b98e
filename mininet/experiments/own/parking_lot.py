# SPDX-License-Identifier: Apache-2.0
"""Two bottlenecks in a row: VMs that cross both beside VMs that cross one each."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, fair_share_mbps, near, settled_phase
from sdngcc.testbed.parameters import parse_settings

DEFAULTS: Dict[str, Any] = {
    "law": "maxmin", "topology": "parking-lot", "senders": 6, "receivers": 3, "competitor": ("tcp", "dctcp", "udp"),
    "handshake": "early", "phases": (1, 4, 1)}


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the one run."""
    return [Case("", parse_settings(settings, DEFAULTS))]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each VM against its max-min share, within 5% under maxmin and 25% under the laws that guess."""
    run = runs[0][1]
    law, shared = run["parameters"]["law"], settled_phase(run, "all")
    got = shared["settled_goodput_mbps"]
    if law == "none":
        return [Verdict(f"{vm}, period all, Mb/s", "as measured", mbps, True) for vm, mbps in got.items()]
    verdicts = [near(f"{vm}, period all from its third second, Mb/s", mbps, fair_share_mbps(run, index),
                     0.05 if law == "maxmin" else 0.25) for index, (vm, mbps) in enumerate(got.items())]
    return [*verdicts, at_least("utilisation of the first link, period all", shared["utilisation"],
                                0.97 if law == "maxmin" else 0.85)]


EXPERIMENT = Experiment("parking-lot", "VMs cross two bottlenecks in a row, or one of them", "ours", cases, judge,
                        seen="max-min shares at both")
