# SPDX-License-Identifier: Apache-2.0
"""What Seawall's figures have in common: a well-behaved TCP and a selfish VM, each run with the law and without."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD, Case, Run, Verdict, given, settled_phase
from sdngcc.testbed.parameters import parse_settings

# Two VMs on hypervisors of their own, so that no uplink's share does the law's work; the selfish one is there first.
# In the runs without a shim a SYN, which is Not-ECT, would be lost at a queue that marks: TCP connects before.
SET_UP: Dict[str, Any] = {"senders": 2, "phases": (1, 15, 0), "handshake": "early"}


def with_and_without(settings: Sequence[str], defaults: Dict[str, Any], name: str = "",
                     values: Sequence[Any] = ("",), own_sink: bool = False) -> List[Case]:
    """Return a run without a shim and one under seawall for each value of a parameter; what the user set stays.

    There is a receiver for each destination of the selfish VM, with own_sink one more for the well-behaved one.
    """
    laws = [""] if given(settings, "law") else ["none", "seawall"]
    swept = [""] if not name or given(settings, name) else values
    cases = []
    for value in swept:
        for law in laws:
            own = {**SET_UP, **defaults, "law": law or "seawall", **({name: value} if value != "" else {})}
            chosen = [setting.partition("=")[2] for setting in settings if setting.startswith("destinations=")]
            count = str([own.get("destinations", 1), *chosen][-1])
            own["receivers"] = int(count) + own_sink if count.isdigit() else count
            label = ", ".join(([f"{name}={value}"] if value != "" else []) + ([f"law={law}"] if law else []))
            cases.append(Case(label, parse_settings(settings, own)))
    return cases


def victim_part(run: Run) -> float:
    """Return the well-behaved VM's goodput as a part of what one VM alone could get, from its third second on."""
    payload = UDP_PAYLOAD if run["parameters"]["tagged"] == "udp" else TCP_PAYLOAD
    mbps = float(settled_phase(run, "all")["settled_goodput_mbps"]["vm1"])
    return round(mbps / (run["parameters"]["link_mbps"] * payload), 4)


def unprotected(run: Run, name: str, paper: str) -> Verdict:
    """Return what a run without a shim measured; nothing is asked of it."""
    return Verdict(f"{name} without a shim", "as measured", victim_part(run), True, paper)


def about_half(run: Run, name: str, paper: str) -> Verdict:
    """Return the verdict that the well-behaved VM keeps half of the link within a tenth of that."""
    part = victim_part(run)
    return Verdict(name, "0.45 to 0.55", part, 0.45 <= part <= 0.55, paper)
