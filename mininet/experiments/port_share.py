# SPDX-License-Identifier: Apache-2.0
"""Flows of one VM share a constant sum of windows by port: vCC's Fig. 12.

Three unpreferred flows send all the time, two preferred ones in period 2 of the phases. The link is never full and the
round trip is netem's, so that a flow's rate is its window over the round trip, as between the paper's two guests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, given, near
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


def preferred_time(parameters: Parameters) -> Tuple[float, float]:
    """Return when the preferred flows begin and end, seconds: the middle third of the run."""
    return round(parameters.duration_s / 3, 1), round(2 * parameters.duration_s / 3, 1)


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the one run."""
    defaults = dict(DEFAULTS)
    if given(settings, "law"):
        defaults["knobs"] = {}
    parameters = parse_settings(settings, defaults)
    if parameters.senders != 1:
        raise ParameterError(f"senders={parameters.senders}: port-share has one, all flows are its own")
    work = Workload()
    begin, end = preferred_time(parameters)
    for number in range(FLOWS):
        times = (0.0, parameters.duration_s) if number < UNPREFERRED else (begin, end)
        work.tcp("vm1", "rx1", *times, parameters.protocol(0), parameters.guest_ecn)
    return [Case("", parameters, work)]


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return the goodput of each flow in each 0.1 s, Mb/s, unpreferred flows first."""
    series = []
    for line in sorted((raw / "sink-rx1.txt").read_text().splitlines()):
        _, *counts = (int(word) for word in line.split())
        series.append([round(count * 8 / BIN_S / 1e6, 3) for count in counts])
    return {"flow_mbps": series}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the ratio while both kinds send, and the sum before, while and after; a second after each change."""
    run = runs[0][1]
    series = run["measured"]["flow_mbps"]
    whole = sum(run["parameters"]["phases"])

    def rate(flows: range, part: int) -> float:
        first, last = round((part * whole / 3 + 1) / BIN_S), round((part + 1) * whole / 3 / BIN_S)
        return sum(sum(series[flow][first:last]) for flow in flows) / (last - first)

    plain, chosen, everybody = range(UNPREFERRED), range(UNPREFERRED, FLOWS), range(FLOWS)
    before, during, after = (rate(everybody, part) for part in range(3))
    ratio = rate(chosen, 1) / PREFERRED / (rate(plain, 1) / UNPREFERRED)
    verdicts = [near("preferred / unpreferred flow's goodput while both send", round(ratio, 3), 3, 0.10, "3"),
                near("sum while preferred flows send, Mb/s", round(during, 2), before, 0.05, "relatively constant"),
                near("sum after them, Mb/s", round(after, 2), before, 0.05, "relatively constant")]
    knobs = run["parameters"]["knobs"]
    if run["parameters"]["law"] == "vcc" and knobs.get("window-total"):
        target = int(knobs["window-total"]) * 8 / run["parameters"]["rtt_us"]
        verdicts.append(near("sum before them, Mb/s", round(before, 2), target, 0.05))
    return verdicts


EXPERIMENT = Experiment("port-share", "Flows share a constant sum of windows by port", "vCC, Fig. 12", cases, judge,
                        measure,
                        seen="preferred flows get 3 times the window, the sum stays")
