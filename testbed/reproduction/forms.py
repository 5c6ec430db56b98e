# SPDX-License-Identifier: Apache-2.0
"""The forms in which a run under a law is repeated, so that a verdict can be told from what would hold anyway.

* mended: the law as it is by default;
* as published: its paper's own algorithm (sdngcc.testbed.presets);
* placebo: the shim stands, makes packets ECT and limits nobody below his share of the uplink, but marks cut nothing
  (law sdngcc with ``cut-full-ppm=0`` and ``cut-mark-ppm=0``, no levels). The work is the same, so what a placebo
  reaches is not the law's doing. In place of a law without a controller it polls each 50 ms: nothing follows from what
  is read, and ten times as many polls can cost more than all else of a run.

The last two are run for what is judged against a paper.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Optional

from sdngcc.experiments.base import Case, Experiment, Run
from sdngcc.testbed.parameters import CONTROLLED, Parameters, make_parameters
from sdngcc.testbed.presets import MENDED, PRESETS, PUBLISHED

PLACEBO = "placebo"
FORMS = (MENDED, PUBLISHED, PLACEBO)
OURS = "ours"

# What makes law sdngcc a placebo, and what is another law's alone and stays out of it.
_CUTS_NOTHING: Dict[str, Any] = {"law": "sdngcc", "levels": False,
                                 "knobs": {"cut-full-ppm": 0, "cut-mark-ppm": 0}}
_OF_THE_LAW = frozenset({"law", "preset", "levels", "knobs", "by_path", "shim_period_us"})
# T_i of a placebo in place of a law without a controller, ms: the longest of the paper's Fig. 6.
_PERIOD_MS = 50.0
# Not limited by what a network has to say, so there is nothing to take away from them.
_WITHOUT_SIGNAL = frozenset({"none", "static"})


def _given(parameters: Parameters) -> Dict[str, Any]:
    return parameters.model_dump(exclude_unset=True)


def parameters_of(parameters: Parameters, form: str) -> Optional[Parameters]:
    """Return the parameters of a run in another form, or None where the form would be the same run or there is none.

    Raises ParameterError for a run that law sdngcc cannot have.
    """
    if form == MENDED:
        return parameters
    if parameters.law in _WITHOUT_SIGNAL or parameters.preset != MENDED:
        return None
    if form == PUBLISHED:
        preset = PRESETS.get(parameters.law)
        if preset is None or not (preset.choices or preset.settings):
            return None
        return make_parameters({**_given(parameters), "preset": PUBLISHED})
    kept = {name: value for name, value in _given(parameters).items() if name not in _OF_THE_LAW}
    seldom = {} if parameters.law in CONTROLLED else {"period_ms": _PERIOD_MS}
    return make_parameters({**kept, **seldom, **_CUTS_NOTHING})


def case_of(experiment: Experiment, case: Case, form: str) -> Optional[Case]:
    """Return a case in another form with the same work, or None where there is none."""
    if form != MENDED and experiment.paper == OURS:
        return None
    parameters = parameters_of(case.parameters, form)
    return None if parameters is None else replace(case, parameters=parameters, workload=case.work)


def in_place_of(mended: Run, other: Run) -> Run:
    """Return another form's run as the mended one's judge takes it: the same parameters and knobs, its own numbers."""
    return {**other, "parameters": mended["parameters"], "knobs": mended["knobs"]}
