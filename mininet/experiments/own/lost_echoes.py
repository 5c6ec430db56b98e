# SPDX-License-Identifier: Apache-2.0
"""Virtual ECN beside native ECN where echoes of marks are lost, in pairs of runs with the same seed.

Law vcc's feedback are ACKs that carry ECE. Whoever loses a tenth or half of these loses ACKs, which stops any TCP now
and then, so a run under loss is judged by what TCPs that use ECN themselves make of the same: not by one run, because
TCPs stand still at other times with every seed, but by the mean difference of 20 pairs and its 95% interval. In both
runs of a pair the law is vcc, which leaves guests that negotiate ECN alone; the set-up is that of failsafe.

One more pair loses as many of the marks, and no ACK.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, at_least, at_most
from sdngcc.experiments.own import failsafe
from sdngcc.testbed.parameters import ParameterError, make_parameters, parse_settings
from sdngcc.testbed.statistics import mean, mean_and_interval

PAIRS = 20
DEFAULTS: Dict[str, Any] = {**failsafe.DEFAULTS, **failsafe.OWN["vcc"], "law": "vcc", "phases": (0, 16, 0),
                            "loss": (10, 50), "loss_at_s": (0, 8)}
VIRTUAL, NATIVE, MARKS = "virtual ECN", "native ECN", "marks alone"
# Virtual ECN is no worse when its worst share's error is larger by no more than that, and the part of the link that it
# uses smaller by no more than that, each at the unfavourable end of the interval.
ERROR_MARGIN, USE_MARGIN = 0.10, 0.05
# What is lost without an ACK may cost a share no more than that.
MARKS_BOUND = 0.05


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the pairs, and the one that loses marks alone; raises ParameterError for another law."""
    made = []
    chosen: List[Tuple[str, int, Dict[str, Any]]] = [(f", pair {number + 1}", number, {}) for number in range(PAIRS)]
    for rest, number, own in [*chosen, (f", {MARKS}", 0, {"loss_of": "marks"})]:
        for label, ecn in ((VIRTUAL, False), (NATIVE, True)):
            parameters = parse_settings(settings, {**DEFAULTS, **own, "guest_ecn": ecn})
            if parameters.law != "vcc":
                raise ParameterError(f"law={parameters.law}: lost-echoes is about vcc, whose feedback rides on ACKs")
            made.append(Case(label + rest, parameters, replica=number))
    return made


def pairs(runs: List[Tuple[str, Run]]) -> Iterator[Tuple[Run, Run]]:
    """Yield the pairs that lose echoes, virtual ECN first."""
    found = dict(runs)
    for number in range(PAIRS):
        yield found[f"{VIRTUAL}, pair {number + 1}"], found[f"{NATIVE}, pair {number + 1}"]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge mean differences of pairs by their 95% intervals, and the loss of marks alone by itself."""
    verdicts = []
    for stage in failsafe.stages(make_parameters(runs[0][1]["parameters"])):
        where = f"{stage.percent:g}% of echoes lost"
        for what, value in (("error of the worst share", failsafe.worst_error),
                            ("part of all shares that is used", lambda *of: mean(failsafe.parts_of_shares(*of)))):
            rows = [[value(run, stage) for run in pair] for pair in pairs(runs)]
            middle, half = mean_and_interval([own - native for own, native in rows])
            verdicts.append(Verdict(f"{where}: {what}, virtual, native ECN, mean difference, half of its interval",
                                    "as measured", [round(mean([row[0] for row in rows]), 3),
                                                    round(mean([row[1] for row in rows]), 3),
                                                    round(middle, 3), round(half, 3)], True))
            name = f"{where}: {what}, virtual less native ECN, {PAIRS} pairs, "
            verdicts.append(at_most(f"{name}upper end", round(middle + half, 3), ERROR_MARGIN)
                            if value is failsafe.worst_error else
                            at_least(f"{name}lower end", round(middle - half, 3), -USE_MARGIN))
        verdicts += [at_most(f"{stage.percent:g}% of marks lost, no ACK: error of the worst share, {label}",
                             failsafe.worst_error(run, stage), MARKS_BOUND)
                     for label, run in runs if label.endswith(MARKS)]
    return verdicts


EXPERIMENT = Experiment("lost-echoes", "Virtual ECN beside native ECN, with the same losses of echoes, in 20 pairs",
                        "ours", cases, judge, own_seeds=True,
                        seen="virtual ECN no worse than native ECN; fair shares where marks alone are lost")
