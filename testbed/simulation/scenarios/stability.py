# SPDX-License-Identifier: Apache-2.0
"""Where law sdngcc's loop is stable: gain against delay, for 4, 16 and 64 that share a port.

The gain is what a wholly marked period costs, ``cut-full-ppm``; the delay lies between marks and messages. VMs begin
together at line rate and want all; nothing is told but marks (levels=false), for levels would set rates right at once
and hide what the loop does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Run, Verdict, at_most
from sdngcc.testbed.knobs import knobs_of
from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.simulation.fabrics import FabricWork, describe_fabric, make_works
from sdngcc.testbed.simulation.scenario import Scenario

GAINS_PPM = (25_000, 50_000, 100_000, 200_000, 400_000, 800_000)
DELAYS_US = (100, 1000, 5000, 10_000, 20_000, 50_000)
SHARERS = (4, 16, 64)
DEFAULTS: Dict[str, Any] = {"leaves": 1, "per_leaf": 65, "spines": 1, "vms_per_host": 1, "host_mbps": 1000,
                            "fabric_mbps": 1000, "rtt_us": 100, "buffer_kb": 150, "pattern": "incast",
                            "duration_s": 6, "window_ms": 50, "levels": False}
GAIN = "knob.cut-full-ppm"
# The delay that the testbed's controller has.
USUAL_US = 100


def works(settings: Sequence[str]) -> List[FabricWork]:
    """Return a run for each gain, delay and number of sharers, or those that the user set."""
    chosen = [] if any(setting.startswith("model=") for setting in settings) else ["model=fluid"]
    given = {name: value for name, _, value in (setting.partition("=") for setting in settings)}
    if given.get("law", "sdngcc") != "sdngcc":
        raise ParameterError(f"law={given['law']}: the map is of law=sdngcc")
    gains = (given[GAIN],) if GAIN in given else GAINS_PPM
    others = [setting for setting in settings if not setting.startswith(f"{GAIN}=")]
    found = []
    for gain in gains:
        for work in make_works([*chosen, *others, f"{GAIN}={gain}"], DEFAULTS,
                               {"senders": SHARERS, "control_delay_us": DELAYS_US}):
            found.append(FabricWork(f"gain={gain}, {work.label}" if work.label else f"gain={gain}", work.parameters,
                                    work.options))
    return found


def _place(run: Run) -> Tuple[int, int, int]:
    return (run["parameters"]["knobs"]["cut-full-ppm"], run["simulation"]["options"]["control_delay_us"],
            run["parameters"]["senders"])


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the point that the law and the testbed have; record how far the others are from max-min."""
    verdicts = []
    own = (knobs_of("sdngcc", {})["cut-full-ppm"], USUAL_US)
    for label, run in runs:
        error, usual = run["measured"]["error"], _place(run)[:2] == own
        name = f"mean distance from max-min, {label}"
        verdicts.append(at_most(name, error, 0.2) if usual else Verdict(name, "as measured", error, True))
    return verdicts


def draw(result: Dict[str, Any], path: Path) -> None:
    """Draw a map for each number of sharers: gain against delay, the colour is the mean distance from max-min."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = {_place(run): run["measured"]["error"] for run in runs_of(result)}
    gains, delays, sharers = (sorted({place[at] for place in found}) for at in range(3))
    figure, columns = pyplot.subplots(1, len(sharers), figsize=(1.5 + 3 * len(sharers), 3.6), squeeze=False,
                                      layout="constrained")
    for axes, count in zip(columns[0], sharers):
        grid = [[found.get((gain, delay, count), float("nan")) for delay in delays] for gain in gains]
        image = axes.imshow(grid, origin="lower", cmap="cividis_r", vmin=0, vmax=0.5, aspect="auto")
        for row, line in enumerate(grid):
            for column, value in enumerate(line):
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                          color="white" if value > 0.3 else "black")
        axes.set_xticks(range(len(delays)), [f"{delay / 1000:g}" for delay in delays])
        axes.set_yticks(range(len(gains)), [f"{gain / 1e6:g}" for gain in gains])
        axes.set_title(f"{count} sharers", fontsize=10)
        axes.set_xlabel("delay, ms")
    columns[0][0].set_ylabel("cut of a wholly marked period")
    figure.colorbar(image, ax=columns[0].tolist(), label="mean distance from max-min")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


SCENARIO = Scenario("stability", "gain against delay for 4, 16 and 64 that share a port", "SDN-GCC, Algorithm 3",
                    "near max-min at the law's own gain, and how far it may be changed", works, judge, describe_fabric,
                    draw)
