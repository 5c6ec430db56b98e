# SPDX-License-Identifier: Apache-2.0
"""What retransmissions cost without ECN, with it, and with virtual ECN by the receive window: vCC's Fig. 10.

Ten senders on links as fast as the bottleneck, as in Fig. 10; the queue is that of ecn-mix.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, at_most, given, settled_phase
from sdngcc.experiments.vcc.ecn_mix import QUEUE
from sdngcc.testbed.parameters import parse_settings

# A full frame as the link counts it.
FRAME_BYTES = 1538
DEFAULTS: Dict[str, Any] = {**QUEUE, "senders": 10, "phases": (0, 30, 0)}
CASES: Tuple[Tuple[str, Dict[str, Any]], ...] = (
    ("without ECN", {"law": "none", "guest_ecn": False}),
    ("with ECN", {"law": "none", "guest_ecn": True}),
    ("with virtual ECN", {"law": "vcc", "guest_ecn": False}),
)


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the three runs, or one of the law the user chose."""
    if given(settings, "law"):
        return [Case("", parse_settings(settings, DEFAULTS))]
    return [Case(label, parse_settings(settings, {**DEFAULTS, **own})) for label, own in CASES]


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return segments sent and sent again by all sending VMs, and the part of the link the latter took, percent."""
    counters = json.loads((raw / "meta.json").read_text())["tcp"]
    parameters = run["parameters"]
    again = sum(counters[vm]["retrans_segs"] for vm in counters)
    capacity = parameters["link_mbps"] * 1e6 / 8 * sum(parameters["phases"])
    return {"segments": sum(counters[vm]["out_segs"] for vm in counters), "retransmitted": again,
            "retransmitted_percent": round(100 * again * FRAME_BYTES / capacity, 3)}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge virtual ECN by native ECN: no more retransmissions, the link as full."""
    by_label = dict(runs)
    paper = {"without ECN": "2.3", "with ECN": "about 0", "with virtual ECN": "as with ECN"}
    verdicts = []
    native = by_label.get("with ECN")
    for label, run in runs:
        name, part = f"of the link for retransmissions, {label}, %", run["measured"]["retransmitted_percent"]
        if label == "with virtual ECN" and native is not None:
            verdicts.append(at_most(name, part, native["measured"]["retransmitted_percent"], paper[label]))
            verdicts.append(at_least(f"utilisation, {label}", settled_phase(run, "all")["settled_utilisation"],
                                     round(0.99 * settled_phase(native, "all")["settled_utilisation"], 4)))
        else:
            verdicts.append(Verdict(name, "as measured", part, True, paper.get(label, "")))
    return verdicts


EXPERIMENT = Experiment("rwnd", "What retransmissions cost without ECN, with it, with virtual ECN",
                        "vCC, Fig. 10", cases, judge, measure,
                        seen="retransmissions as few as with native ECN")
