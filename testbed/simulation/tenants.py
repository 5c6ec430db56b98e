# SPDX-License-Identifier: Apache-2.0
"""What scenarios of packets have in common: a simulation under a law, flows' times, numbers over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from sdngcc.experiments.base import Run
from sdngcc.testbed.parameters import CONTROLLED
from sdngcc.testbed.parameters import Law as Law
from sdngcc.testbed.plot import runs_of
from sdngcc.testbed.settings import ParameterError
from sdngcc.testbed.simulation.beds import shim_period_ns
from sdngcc.testbed.simulation.fabric import Fabric
from sdngcc.testbed.simulation.options import Options
from sdngcc.testbed.simulation.packets import Bulk, Call, Simulation, Stream, make_decisions, table
from sdngcc.testbed.statistics import mean_and_interval

# T_i of the testbed's controller, ns.
CONTROL_NS = 5_000_000


def under(fabric: Fabric, law: str, duration_ns: int, seed: int, options: Options,
          flows: Sequence[Bulk | Stream | Call], horizon_us: Optional[int] = None) -> Simulation:
    """Return a simulation with the law's own knobs, and the testbed's controller if the law has one."""
    simulation = Simulation(fabric, law, duration_ns, seed, options, list(flows), bin_ns=duration_ns,
                            limits_ns=duration_ns)
    if law == "none":
        return simulation
    if horizon_us is not None:
        simulation.settings["horizon_ns"] = horizon_us * 1000
    period_ns = shim_period_ns(law, None)
    simulation.knobs["period"] = period_ns
    if law in CONTROLLED:
        simulation.control_ns = CONTROL_NS
        simulation.decisions = make_decisions(fabric, law, CONTROL_NS, "bytes", True, period_ns)
    return simulation


def took_s(raw: Path) -> Dict[int, Optional[float]]:
    """Return how long each TCP flow with an end took, seconds, by its number; None: it did not end."""
    return {flow: None if took_ns < 0 else took_ns / 1e9 for flow, _, _, took_ns in table(raw / "flows.txt")}


def packets_only(options: Options) -> None:
    """Raise ParameterError unless packets are simulated."""
    if options.model != "packets":
        raise ParameterError(f"model={options.model}: this scenario needs model=packets")


def over_seeds(results: Sequence[Any], label: str, *names: str) -> List[Any]:
    """Return a number of the run of that label, measured.<names>, of each seed that has the run."""
    found = []
    for result in results:
        for run in runs_of(result):
            if run["label"] == label:
                value: Any = run["measured"]
                for name in names:
                    value = value[name]
                found.append(value)
    return found


def cell(values: Sequence[Any], digits: int = 3) -> str:
    """Return a cell of a table: the mean, with several seeds and half the width of its 95% interval."""
    if not values or any(value is None for value in values):
        return "-"
    middle, half = mean_and_interval([float(value) for value in values])
    shown = f"{middle:.0f}" if abs(middle) >= 10**digits else f"{middle:.{digits}g}"
    return shown + (f" ± {half:.0f}" if half >= 10 else f" ± {half:.2g}") * (len(values) > 1)


def labels_of(results: Sequence[Any]) -> List[str]:
    """Return the labels of runs in their order."""
    return [run["label"] for run in runs_of(results[0])]


def finished(run: Run) -> str:
    """Return how many of a run's flows ended, in words."""
    return f"{run['measured']['ended']} of {run['measured']['flows']}"
