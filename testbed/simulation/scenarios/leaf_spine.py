# SPDX-License-Identifier: Apache-2.0
"""SDN-GCC's loop beyond a dumbbell: 256 and 1,024 senders on a leaf-spine network, controllers of 1 to 50 ms.

The paper's largest has 32 senders (Fig. 5), and its slowest controller 50 ms (Fig. 6). Here as many VMs send to ones on
other hosts, drawn by the seed, and half of them begin a second late; ports of hosts are shared by what was drawn.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import Run, Verdict, at_least, at_most
from sdngcc.testbed.simulation.drawing import draw_errors
from sdngcc.testbed.simulation.fabrics import FabricWork, describe_fabric, make_works
from sdngcc.testbed.simulation.scenario import Scenario

DEFAULTS = {"leaves": 8, "per_leaf": 32, "spines": 4, "vms_per_host": 4, "duration_s": 3, "join_s": 1,
            "window_ms": 20}


def works(settings: Sequence[str]) -> List[FabricWork]:
    """Return runs for 256 and 1,024 senders and four periods, by rates alone, or for those that the user set."""
    chosen = [] if any(setting.startswith("model=") for setting in settings) else ["model=fluid"]
    return make_works([*chosen, *settings], DEFAULTS, {"senders": (256, 1024), "period_ms": (1, 5, 10, 50)})


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge shares of max-min and what all have together, and record the rest."""
    verdicts = []
    for label, run in runs:
        found, name = run["measured"], f", {label}" if label else ""
        verdicts += [
            at_least(f"Jain of shares of max-min{name}", found["jain"], 0.95),
            at_least(f"all together, of max-min{name}", found["of_max_min"], 0.85),
            at_most(f"mean distance from max-min, second half{name}", found["error"], 0.15),
            Verdict(f"settled after half joined{name}, ms", "as measured", found["settled_ms"], True),
            Verdict(f"flows below 0.9 of max-min, and of these at E(i){name}", "as measured",
                    [found["below"], found["below_at_share"]], True),
            Verdict(f"messages a second{name}", "as measured", found["messages_per_s"], True)]
    return verdicts


SCENARIO = Scenario("leaf-spine", "256 and 1,024 senders on a leaf-spine, controllers of 1 to 50 ms",
                    "SDN-GCC, Fig. 5 and 6, at size", "shares near weighted max-min, a full network", works, judge,
                    describe_fabric, draw_errors)
