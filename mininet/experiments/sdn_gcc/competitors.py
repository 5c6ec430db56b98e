# SPDX-License-Identifier: Apache-2.0
"""The work of share, scale and delay with DCTCP and with UDP competitors: SDN-GCC's Fig. 4 to 6.

Those three have TCP competitors. The paper draws each figure with TCP, DCTCP and UDP, and 16 senders are the middle
case of its Fig. 5. Periods are shorter than the paper's: what settles does so within two seconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import Case, Experiment, Run, Verdict, given
from sdngcc.experiments.sdn_gcc import delay, scale, share
from sdngcc.testbed.parameters import parse_settings

COMPETITORS = ("dctcp", "udp")
# The work by name, as settings; Fig. 6's law has no levels.
SHARE = "share"
WORK: Dict[str, Dict[str, Any]] = {
    SHARE: {"phases": (4, 8, 4)},
    "16 senders": {"senders": 16, "phases": (2, 8, 0)},
    **{f"period_ms={period}": {"period_ms": period, "levels": False, "phases": (2, 8, 0)} for period in (1, 10, 50)},
}
# VMs share fairly so long after the tagged one has begun, seconds; without levels as in delay.
SETTLED_S = 2.0


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run of each work for each competitor, or for the competitor that the user chose."""
    runs = []
    for competitor in ("",) if given(settings, "competitor") else COMPETITORS:
        chosen = {"competitor": competitor} if competitor else {}
        for name, own in WORK.items():
            label = f"{competitor}, {name}".removeprefix(", ")
            runs.append(Case(label, parse_settings(settings, {"law": "sdngcc", **own, **chosen})))
    return runs


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the first kind of work as share does, the others as scale does, and when VMs share fairly."""
    verdicts = []
    by_period: Dict[str, List[Run]] = {}
    for label, run in runs:
        if label.endswith(SHARE):
            verdicts += [replace(one, name=f"{one.name}, {label}") for one in share.judge([("", run)])]
        else:
            verdicts += scale.judge([(label, run)])
        limit_s = SETTLED_S if run["parameters"]["levels"] is not False else delay.CLIMBED_S
        verdicts.append(delay.settles_within(label, run, limit_s))
        before, _, _ = label.partition("period_ms=")
        if before != label:
            by_period.setdefault(before.removesuffix(", "), []).append(run)
    return verdicts + [delay.settles_later(f"fair after by period, {competitor or 'as set'}, s", own)
                       for competitor, own in by_period.items() if len(own) > 1]


EXPERIMENT = Experiment("competitors", "share, scale and delay with DCTCP and UDP competitors", "SDN-GCC, Fig. 4 to 6",
                        cases, judge, share.EXPERIMENT.measure,
                        seen="the same as with TCP competitors: fair shares, a full link, whatever the others send")
