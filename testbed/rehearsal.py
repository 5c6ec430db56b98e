# SPDX-License-Identifier: Apache-2.0
"""Whether an experiment's runs can be what is asked for, found out before anything is built or booted.

Knobs must be those of a law that some VM of the run has. The experiment's own judge is tried on a made-up result of the
same length: where it looks for seconds that the run will not have, it says so.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import List, Sequence, Set, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, TooShort
from sdngcc.testbed.collect import BIN_S, Samples, summarise
from sdngcc.testbed.knobs import check_knobs
from sdngcc.testbed.parameters import Parameters
from sdngcc.testbed.workload import Workload

# Where raw samples would be; nothing is there.
_NOWHERE = Path("/nonexistent/sdngcc-rehearsal")


def laws_of(work: Workload) -> Set[str]:
    """Return the laws that programs of a run give to VMs: ``--law LAW``, or the key ``shim-law``."""
    found = set()
    for program in work.programs:
        for before, word in zip(("", *program.argv), program.argv):
            if before == "--law":
                found.add(word)
            elif "shim-law=" in word:
                found.add(word.partition("shim-law=")[2])
    return found - {"none", "default"}


def made_up(parameters: Parameters) -> Run:
    """Return a result of the length that a run will have, in which every VM gets the same."""
    bins = round(parameters.duration_s / BIN_S)
    vms = parameters.vm_names
    part = round(parameters.link_mbps * 1e6 / 8 * BIN_S / len(vms))
    ends = (0, round(parameters.duration_s * 1e9))
    queue: List[Tuple[int, ...]] = [(t_ns, round(t_ns / 8e9 * parameters.link_mbps * 1e6), 0, 0, 0, 0, 0)
                                    for t_ns in ends]
    samples = Samples({"devices": {}, "start_s": 0.0}, {vm: [part] * bins for vm in vms}, queue, [], [])
    return summarise(samples, parameters)


def rehearse(experiment: Experiment, cases: Sequence[Case], seed: int) -> None:
    """Raise ParameterError if a run would have a knob that nobody obeys, or not the seconds that it is judged by."""
    runs = []
    for case in cases:
        check_knobs(case.parameters.law, laws_of(case.work(seed)), case.parameters.knobs)
        run = made_up(case.parameters)
        if experiment.measure is not None:
            run["measured"] = defaultdict(float)
            _try(experiment.measure, _NOWHERE, run)
        runs.append((case.label, run))
    _try(experiment.judge, runs)


def _try(function: object, *arguments: object) -> None:
    """Call what reads a result. Raises TooShort alone: anything else it lacks is what only a run can bring."""
    assert callable(function)
    try:
        function(*arguments)
    except TooShort:
        raise
    except Exception:  # a made-up result has not all that judges and measures read
        return
