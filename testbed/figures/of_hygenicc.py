# SPDX-License-Identifier: Apache-2.0
"""Figures of HyGenICC's experiments."""

from __future__ import annotations

from typing import Any, Callable, List

from sdngcc.experiments.hygenicc import admission as of_admission
from sdngcc.experiments.hygenicc import echo as of_echo
from sdngcc.testbed.figures import of_sdn_gcc, tagged
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.data import Run, Runs, dig, over_seeds
from sdngcc.testbed.figures.layout import Panel, Row, chunks
from sdngcc.testbed.figures.papers import PAPERS
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.style import looks


def echo(runs: Runs) -> List[Row]:
    """Fig. 4a: the tagged flow in three periods against each kind of competitors, its mean, and the time until fair."""
    names = list(runs)
    plain = looks(["all"])["all"]
    mean = Bars(names, [Series("", plain, [over_seeds(seeds, of_echo.tagged_mbps) for seeds in runs.values()])],
                "goodput, Mb/s", "tagged TCP, mean over all periods",
                {(number, 0): PAPERS["echo"]["mean"] for number in range(len(names))}, form="{:.0f}", wrap=22)
    return [*chunks(tagged.overlay(runs, PAPERS["echo"]), 1, height_in=2.9),
            Row([mean, of_sdn_gcc.settled(runs)], 2.1)]


def admission(runs: Runs) -> List[Row]:
    """No figure of the paper: who gets in by kind of admission control, the time that it refuses, UDP and the queue."""
    names = list(runs)
    look = looks(["none", *names])

    def panel(title: str, unit: str, value: Callable[[Run], Any], form: str, **rest: Any) -> Panel:
        bars = [over_seeds(seeds, value) for seeds in runs.values()]
        return Bars(names, [Series("", look[names[-1]], bars)], unit, title, form=form, wrap=13, **rest)

    return [Row([panel("connections that open at once", "part", lambda run: dig(run, "measured", "at_once"), "{:.2f}",
                       lines=[(1, "all")]),
                 panel("time in which they are refused", "part", lambda run: dig(run, "measured", "refused_part"),
                       "{:.2f}")], 2.2),
            Row([panel("UDP that comes meanwhile", "part of an even share", of_admission.udp_part, "{:.2f}",
                       lines=[(1, "all")]),
                 panel("queue, p99", "kB", lambda run: run["queue"]["bytes_p99"] / 1000, "{:.0f}")], 2.2)]
