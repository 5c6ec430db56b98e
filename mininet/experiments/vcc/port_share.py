# SPDX-License-Identifier: Apache-2.0
"""Flows of one VM share a constant sum of windows by port: vCC's Fig. 12.

Three unpreferred flows send all the time, two preferred ones in period 2 of the phases. On the first link, which is
never full, the round trip is netem's, so that a flow's rate is its window over the round trip, as between the paper's
two guests. The second is full: what of the windows it has no room for waits in front of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, Case, Experiment, Run, Verdict, given, near
from sdngcc.testbed.collect import BIN_S
from sdngcc.testbed.parameters import ParameterError, Parameters, parse_settings
from sdngcc.testbed.workload import FIRST_PORT, Workload

UNPREFERRED, PREFERRED = 3, 2
FLOWS = UNPREFERRED + PREFERRED
# Payload of a full packet, and the sum of windows: 90 of them, so that every part is a whole number of packets.
SEGMENT_BYTES = 1448
DEFAULTS: Dict[str, Any] = {
    "law": "vcc", "senders": 1, "link_mbps": 200, "rtt_us": 10000, "phases": (0, 12, 0), "backpressure": False,
    "knobs": {"window-total": 90 * SEGMENT_BYTES, "port-first": FIRST_PORT + UNPREFERRED,
              "port-last": FIRST_PORT + FLOWS - 1, "port-weight": 3},
}
# A link that the windows more than fill; what is beyond waits at the limiter, unmarked.
FULL: Dict[str, Any] = {"link_mbps": 60, "horizon_us": 50000, "mark_percent": 90}


def preferred_time(parameters: Parameters) -> Tuple[float, float]:
    """Return when the preferred flows begin and end, seconds: the middle third of the run."""
    return round(parameters.duration_s / 3, 1), round(2 * parameters.duration_s / 3, 1)


def workload(parameters: Parameters) -> Workload:
    """Return the flows: unpreferred ones all the time, preferred ones in the middle."""
    work = Workload()
    begin, end = preferred_time(parameters)
    for number in range(FLOWS):
        times = (0.0, parameters.duration_s) if number < UNPREFERRED else (begin, end)
        work.tcp("vm1", "rx1", *times, parameters.protocol(0), parameters.guest_ecn)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run on a link that windows do not fill and one on a link that they do, or one of the user's link."""
    runs = []
    for label, own in ((("", {}),) if given(settings, "link_mbps") else (("spare link", {}), ("full link", FULL))):
        defaults = {**DEFAULTS, **own}
        if given(settings, "law"):
            defaults["knobs"] = {}
        parameters = parse_settings(settings, defaults)
        if parameters.senders != 1:
            raise ParameterError(f"senders={parameters.senders}: port-share has one, all flows are its own")
        runs.append(Case(label, parameters, workload(parameters)))
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return the goodput of each flow in each 0.1 s, Mb/s, unpreferred flows first."""
    series = []
    for line in sorted((raw / "sink-rx1.txt").read_text().splitlines()):
        _, *counts = (int(word) for word in line.split())
        series.append([round(count * 8 / BIN_S / 1e6, 3) for count in counts])
    return {"flow_mbps": series}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge each run."""
    return [verdict for label, run in runs for verdict in judge_run(label and f", {label}", run)]


def judge_run(label: str, run: Run) -> List[Verdict]:
    """Judge the ratio while both kinds send, and the sum before, while and after; a second after each change."""
    series = run["measured"]["flow_mbps"]
    whole = sum(run["parameters"]["phases"])

    def rate(flows: range, part: int) -> float:
        first, last = round((part * whole / 3 + 1) / BIN_S), round((part + 1) * whole / 3 / BIN_S)
        return sum(sum(series[flow][first:last]) for flow in flows) / (last - first)

    plain, chosen, everybody = range(UNPREFERRED), range(UNPREFERRED, FLOWS), range(FLOWS)
    before, during, after = (rate(everybody, part) for part in range(3))
    ratio = rate(chosen, 1) / PREFERRED / (rate(plain, 1) / UNPREFERRED)
    verdicts = [near(f"preferred / unpreferred flow's goodput while both send{label}", round(ratio, 3), 3, 0.10, "3"),
                near(f"sum while preferred flows send, Mb/s{label}", round(during, 2), before, 0.05,
                     "relatively constant"),
                near(f"sum after them, Mb/s{label}", round(after, 2), before, 0.05, "relatively constant")]
    knobs = run["parameters"]["knobs"]
    if run["parameters"]["law"] == "vcc" and knobs.get("window-total"):
        target = int(knobs["window-total"]) * 8 / run["parameters"]["rtt_us"]
        target = min(target, run["parameters"]["link_mbps"] * TCP_PAYLOAD)
        verdicts.append(near(f"sum before them, Mb/s{label}", round(before, 2), target, 0.05))
    return verdicts


EXPERIMENT = Experiment("port-share", "Flows share a constant sum of windows by port", "vCC, Fig. 12", cases, judge,
                        measure,
                        seen="preferred flows get 3 times the window, the sum stays")
