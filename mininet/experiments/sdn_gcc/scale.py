# SPDX-License-Identifier: Apache-2.0
"""The same with 8, 16 and 32 senders: SDN-GCC's Fig. 5.

The period in which all send is the paper's; the competitors are alone for four seconds, and nothing follows.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Run,
    Verdict,
    at_least,
    fair_share_mbps,
    near,
    settled_phase,
    sweep,
)

DEFAULTS: Dict[str, Any] = {"law": "sdngcc", "phases": (4, 10, 0)}


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run for 8, 16 and 32 senders, or for those the user set."""
    return sweep(settings, DEFAULTS, "senders", (8, 16, 32))


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the tagged VM's part, within 25% under sdngcc and 15% under the other laws, and fairness.

    Both count from the third second of period 2 on.
    """
    verdicts = []
    for label, run in runs:
        shared = settled_phase(run, "all")
        verdicts.append(near(f"tagged, {label or 'period all'}, Mb/s", shared["settled_goodput_mbps"]["vm1"],
                             fair_share_mbps(run), 0.25 if run["parameters"]["law"] == "sdngcc" else 0.15))
        if shared["jain"][2:]:
            verdicts.append(at_least(f"Jain in the worst second, {label or 'period all'}",
                                     min(shared["jain"][2:]), 0.95))
    return verdicts


EXPERIMENT = Experiment("scale", "8, 16 and 32 senders on one link", "SDN-GCC, Fig. 5", cases, judge,
                        seen="the tagged VM's share within 25%, Jain 0.95 or more",
                        changed="Competitors were alone for ten seconds before the period that is judged, and sent for "
                                "ten behind it, when it was measured first; the runs were shortened to four and none.")
