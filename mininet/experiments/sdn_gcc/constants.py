# SPDX-License-Identifier: Apache-2.0
"""The paper's literal division and the authors' constants beside ours: why the defaults are what they are.

The authors' constants are those of SDN-GCC's literal preset (sdngcc.testbed.presets). The work is share's, with two
seconds before the tagged VM begins and nothing after it ends, for only the period in which all send is judged.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, settled_phase
from sdngcc.testbed.parameters import parse_settings
from sdngcc.testbed.presets import PUBLISHED

DEFAULTS: Dict[str, Any] = {"law": "sdngcc", "phases": (2, 10, 0)}
CASES: Tuple[Tuple[str, Dict[str, Any]], ...] = (
    ("division=bytes", {}),
    ("division=bytes, no levels", {"levels": False}),
    ("division=equal", {"division": "equal"}),
    ("division=equal, authors' constants", {"preset": PUBLISHED}),
    ("division=bytes, authors' constants", {"preset": PUBLISHED, "division": "bytes"}),
)


def cases(settings: Sequence[str]) -> List[Case]:
    """Return one run for each division and set of constants; settings apply to all."""
    return [Case(label, parse_settings(settings, {**DEFAULTS, **own})) for label, own in CASES]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge ours by Jain and utilisation; record the same of the others."""
    verdicts = []
    for label, run in runs:
        shared = settled_phase(run, "all")
        index, used = min(shared["jain"][2:], default=0.0), shared["settled_utilisation"]
        if label == CASES[0][0]:
            verdicts += [at_least(f"Jain in the worst second, {label}", index, 0.99),
                         at_least(f"utilisation, {label}", used, 0.92)]
        else:
            verdicts += [Verdict(f"Jain in the worst second, {label}", "as measured", index, True),
                         Verdict(f"utilisation, {label}", "as measured", used, True)]
    return verdicts


EXPERIMENT = Experiment("constants", "Division by bytes and equally; our constants and the authors'",
                        "SDN-GCC, Algorithms 3 and 4", cases, judge,
                        seen="division by bytes with our constants is fair and full",
                        changed="It had ten seconds before the period that is judged, and ten behind it, when it was "
                                "measured first; the runs were shortened to two and none.")
