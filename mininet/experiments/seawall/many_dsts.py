# SPDX-License-Identifier: Apache-2.0
"""A TCP beside a VM that sends to 1 to 32 destinations: Seawall's Fig. 10.

The paper puts both VMs on one server and every sink on a machine of its own: what they share first is the server's own
port, which the shim divides by weight whatever its law hears (docs/laws.md). So the same is run with senders on
hypervisors of their own, too, where all sinks are VMs of one hypervisor behind one port, and the law has to do it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, given
from sdngcc.experiments.seawall.victim import about_half, unprotected, with_and_without

ONE_SERVER, APART = "one server", "servers of their own"
PLACES: Dict[str, Dict[str, Any]] = {ONE_SERVER: {"topology": "racks", "hosts": 1}, APART: {}}


def cases(settings: Sequence[str]) -> List[Case]:
    """Return runs for 1, 8 and 32 destinations of the rival, without a shim and under seawall, in both places."""
    placed = any(given(settings, name) for name in ("topology", "hosts", "vms_per_hypervisor"))
    runs = []
    for place, defaults in {"": {}}.items() if placed else PLACES.items():
        # In the paper the well-behaved VM's sink is a machine of its own, too.
        for case in with_and_without(settings, defaults, "destinations", (1, 8, 32), place == ONE_SERVER):
            runs.append(Case(", ".join(part for part in (place, case.label) if part), case.parameters))
    return runs


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the well-behaved TCP's part of the link."""
    verdicts = []
    for label, run in runs:
        count = run["parameters"]["destinations"]
        place = next((f", {place}" for place in PLACES if label.startswith(place)), "")
        name = f"TCP's part of the link, rival has {count} destination{'s' if count > 1 else ''}{place}"
        if run["parameters"]["law"] == "none":
            verdicts.append(unprotected(run, name, f"1/{count + 1}"))
        else:
            verdicts.append(about_half(run, name, "about 1/2"))
    return verdicts


EXPERIMENT = Experiment("many-dsts", "A TCP beside a VM with 1 to 32 destinations", "Seawall, Fig. 10", cases, judge,
                        seen="the victim within 10% of half at 1 to 32 destinations",
                        changed="VMs of one server, as the paper has them, came later: before, all runs had servers of "
                                "their own.")
