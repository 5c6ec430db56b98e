# SPDX-License-Identifier: Apache-2.0
"""All laws of the shim on the same work: what SDN-GCC's Fig. 4 and 5 ask of one.

One tagged TCP without ECN meets Reno, DCTCP and UDP at line rate, on 1 Gb/s: three of them as in Fig. 4, and fifteen as
in the middle case of Fig. 5. The periods are shorter than the paper's: what settles does so within two seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Run,
    Verdict,
    at_most,
    fair_share_mbps,
    given,
    settled_phase,
    settling_s,
)
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.topologies.shaping import threshold_bytes

# The work by name, as settings.
WORK: Dict[str, Dict[str, Any]] = {
    "share": {"senders": 4, "phases": (1, 6, 1)},
    "scale": {"senders": 16, "phases": (1, 5, 0)},
}
COMPETITORS = ("tcp", "dctcp", "udp")
# Laws whose paper says nothing of this work: no shim at all, and one that speaks to TCP only.
UNCOVERED = ("none", "vcc")
# A control message as a frame: Ethernet, IPv4 and 96 bytes.
MESSAGE_BYTES = 130


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run without a shim and one of each law that the shim knows, on both kinds of work.

    Raises CoreBuildError when the shim cannot be asked.
    """
    from sdngcc.shim.knobs import laws

    names = [""] if given(settings, "law") else ["none", *(law.name for law in laws())]
    return [Case(f"{name or 'law'}, {work}".replace("law, ", ""), parse_settings(
        settings, {"competitor": COMPETITORS, "handshake": "early", **({"law": name} if name else {}), **own}))
        for name in names for work, own in WORK.items()]


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return the control traffic of a run: bytes of messages and reports sent, as frames."""
    counters = json.loads((raw / "meta.json").read_text()).get("shim", {}).get("counters", {})
    return {"control_bytes": run["notifications"]["sent"] * MESSAGE_BYTES + counters.get("report_bytes_sent", 0)}


def share_error(run: Run) -> float:
    """Return the largest deviation of a VM from its fair share, as a part of that, from the third second on."""
    got = settled_phase(run, "all")["settled_goodput_mbps"]
    names = Parameters(**run["parameters"]).vm_names
    return round(max(abs(got[name] / fair_share_mbps(run, index) - 1) for index, name in enumerate(names)), 3)


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge shares within 15%, and a queue of twice the threshold, where the law's paper covers the work.

    A row a run, all of it as measured.
    """
    verdicts = []
    for label, run in runs:
        shared, error = settled_phase(run, "all"), share_error(run)
        row = {"share error": error, "Jain": min(shared["jain"][2:], default=None),
               "utilisation": shared["settled_utilisation"], "queue p99, bytes": run["queue"]["bytes_p99"],
               "settled after, s": settling_s(run),
               "control, kB/s": round(run["measured"]["control_bytes"] / sum(run["parameters"]["phases"]) / 1000, 2)}
        covered = run["parameters"]["law"] not in UNCOVERED
        verdicts.append(Verdict(label, "share error <= 0.15" if covered else "as measured", row,
                                not covered or error <= 0.15))
        if covered:
            threshold = threshold_bytes(run["parameters"]["buffer_packets"], run["parameters"]["mark_percent"])
            verdicts.append(at_most(f"{label}: queue p99, bytes", run["queue"]["bytes_p99"], 2 * threshold))
    return verdicts


EXPERIMENT = Experiment("laws", "All laws on the same work", "SDN-GCC, Fig. 4 and 5; HyGenICC, Fig. 4a", cases, judge,
                        measure,
                        seen="fair shares within 15% under every law; what each costs")
