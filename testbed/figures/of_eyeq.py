# SPDX-License-Identifier: Apache-2.0
"""Figures of EyeQ's experiments."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Tuple

from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD
from sdngcc.experiments.eyeq.converge import limit_mbps
from sdngcc.experiments.eyeq.memcached import LOADS
from sdngcc.experiments.eyeq.shuffle import CONNECTIONS, HEADROOM, JOBS, ideal_s
from sdngcc.testbed.figures import against, cumulative, tagged
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.cumulative import Cumulative, distribution
from sdngcc.testbed.figures.data import Run, Runs, dig, measured, over_seeds
from sdngcc.testbed.figures.layout import Row, chunks
from sdngcc.testbed.figures.marks import Paper
from sdngcc.testbed.figures.papers import PAPERS, paper
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.style import LOOKS, looks

# Calls of burst-latency whose distributions stand side by side.
KINDS = (("calls back to back, as in the paper", "all"), ("calls at random times: all of the time alike", "timed"))


def burst_latency(runs: Runs) -> List[Row]:
    """Fig. 2c: the distribution of latency with and without EyeQ."""
    look = looks(list(runs))
    claims = [paper("burst-latency", name) for name in ("eyeq", "none")]
    lines = [(one.value, f"paper ({one.source}): about 55 us with EyeQ, over 10 times that without") for one in claims]
    panels = [Cumulative(title, [cumulative.Curve(name, look[name], distribution(
        [dig(run, "measured", key) for run in seeds], "us")) for name, seeds in runs.items()], "latency, us", lines)
        for title, key in KINDS]
    wanted = (("median", "p50_us"), ("p99", "p99_us"), ("p99.9", "p99.9_us"))
    bars = [Bars([name for name, _ in wanted], [Series(label, look[label], [
        measured(seeds, key, field) for _, field in wanted])
        for label, seeds in runs.items()], "latency, us", log=True, form="{:.0f}", lines=lines)
        for _, key in KINDS]
    return [Row(panels, 2.6, share_y=True), Row(bars, 2.0, share_y=True)]


def spare(runs: Runs) -> List[Row]:
    """Fig. 1: rates of F1, F2 and F3 as flows come, beside what the paper's example gives."""
    times = ("alone", "beside F2", "once B1 splits")
    flows = ("F1", "F2", "F3")
    papers: Dict[Tuple[int, int], Paper] = {}
    for number, flow in enumerate(flows):
        for period, when in enumerate(("alone", "beside F2" if flow == "F1" else "beside F1", "once B1 splits")):
            if f"{flow} {when}" in PAPERS["spare"]:
                papers[period, number] = PAPERS["spare"][f"{flow} {when}"]
    names = ("F1: A1 to A2", "F2: B1 to B2", "F3: B1 to B3")
    panels = []
    for label, seeds in runs.items():
        series = [Series(name, LOOKS[number], [
            measured(seeds, flow, period)
            if period >= number else None for period in range(3)])
            for number, (flow, name) in enumerate(zip(flows, names))]
        titles = ["F1 " + times[0], "F2 comes", "F3 comes: B1 splits its line"]
        panels.append(Bars(titles, series, "goodput, Mb/s", label or f"law {seeds[0]['parameters']['law']}", papers,
                           absent=((0, 1), (0, 2), (1, 2)), form="{:.0f}", wrap=30))
    return list(chunks(panels, 1, height_in=2.7))


def converge(runs: Runs) -> List[Row]:
    """Section 3.4: the time to settle by number of senders, and what is received then."""
    counts = [str(seeds[0]["parameters"]["senders"]) for seeds in runs.values()]
    at = counts if len(set(counts)) == len(counts) else list(runs)
    settled = [measured(seeds, "settled_ms") for seeds in runs.values()]

    def received(run: Run) -> float:
        later = [sum(value or 0 for value in rates[1:]) for rates in run["series"]["goodput_mbps"].values()]
        return sum(later) / max(1, len(run["series"]["t_s"]) - 1) / 1000

    got = [over_seeds(seeds, received) for seeds in runs.values()]
    worst, first = paper("converge", "worst"), next(iter(runs.values()))[0]
    allowed = limit_mbps(first) * UDP_PAYLOAD / 1000
    return [Row([
        against.Against("time to the right rate", at, [Series("", LOOKS[0], settled)], "senders at line rate",
                        "ms", lines=[(worst.value, f"paper ({worst.source}): worst case 6 ms")], ends=(0, 7)),
        against.Against("received from then on", at, [Series("", LOOKS[0], got)], "senders at line rate",
                        "Gb/s", lines=[(allowed, "what receivers give out")], ends=(0, 11)),
    ], 2.5)]


def shuffle(runs: Runs) -> List[Row]:
    """Fig. 8: distributions of the transfers' completion times of each job, without EyeQ and with it."""
    words = {"P1": "P1: 1 connection a pair", "P2": "P2: 2 connections", "P4": "P4: 4 connections"}
    last = over_seeds(next(iter(runs.values())), lambda run: max(
        (value for value in (dig(run, "measured", "done_s") or {}).values() if value is not None), default=None))
    panels: List[Cumulative] = []
    longest = 0.0
    for number, (label, seeds) in enumerate(runs.items()):
        curves = [cumulative.Curve(words[job], LOOKS[place], distribution(
            [{"quantiles_s": dig(run, "measured", "quantiles_s", job),
              "p50_s": (dig(run, "requests", job, "p50_us") or float("nan")) / 1e6,
              "max_s": (dig(run, "requests", job, "max_us") or float("nan")) / 1e6} for run in seeds], "s"))
            for place, job in enumerate(JOBS)]
        factor = paper("shuffle", "last")
        lines = [(last.centre * factor.value, f"paper ({factor.source}): last end with EyeQ, 210 s / 180 s of (a)'s")
                 ] if number and last else []
        ends = [measured(seeds, "done_s", job) for job in JOBS]
        parameters = seeds[0]["parameters"]
        bare = parameters["law"] == "none"
        ideal = ideal_s(CONNECTIONS if bare else parameters["weights"][:len(JOBS)],
                        TCP_PAYLOAD * (1 if bare else HEADROOM))
        words_of = ", ".join(f"{job} {tagged.written(end, '{:.2f}')} ({best:.2f})"
                             for job, end, best in zip(JOBS, ends, ideal))
        longest = max([longest, *(end.centre + end.half for end in ends if end), *(value for value, _ in lines)])
        panels.append(Cumulative(f"({chr(97 + number)}) {label}", curves,
                                 f"completion time of a transfer, s\nthe last (ideal): {words_of}", lines, log=False))
    return list(chunks([replace(panel, span=(0, 1.05 * longest)) for panel in panels], 2, height_in=2.8))


def memcached(runs: Runs) -> List[Row]:
    """Section 5.2: throughput in the four cases at full load, and latencies at half of it."""
    # A run that names no load stands at both.
    full, half = ({label.removesuffix(f", {load}"): seeds for label, seeds in runs.items()
                   if label.endswith(load) or not label.endswith(tuple(LOADS))} for load in LOADS)
    look = looks(list(full))
    bare = measured(full["alone"], "per_s")
    kinds = {name: _kind(name, seeds[0]) for name, seeds in full.items()}
    papers = {(0, number): PAPERS["memcached"][kind] for number, kind in enumerate(kinds.values())
              if kind in PAPERS["memcached"]}
    series = [Series(name, look[name], [measured(seeds, "per_s", factor=1 / bare.centre if bare else float("nan")),
                                        measured(seeds, "in_bursts")]) for name, seeds in full.items()]
    throughput = Bars(["answered, of those when alone", "in bursts, of those due then"], series, "part of requests",
                      "throughput at full load", papers, form="{:.2f}")
    curves = [cumulative.Curve(name, look[name], distribution([run["measured"] for run in seeds], "us"))
              for name, seeds in half.items()]
    protected = paper("memcached", "p99.9 protected, us")
    times = Cumulative("latency at half load", curves, "time of a SET, us", [
        (protected.value, f"paper ({protected.source}): p99.9 with EyeQ, 750 us")])
    wanted = (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p99.9_us"))
    base = measured(half["alone"], "p99_us")
    worse = paper("memcached", "p99 unprotected / alone")
    marks = {(2, number): protected for number, kind in enumerate(kinds.values()) if kind == "protected"}
    if base:
        marks.update({(1, number): Paper(worse.value * base.centre, worse.source, worse.words)
                      for number, kind in enumerate(kinds.values()) if kind == "unprotected"})
    tails = Bars([name for name, _ in wanted], [Series(name, look[name], [
        measured(seeds, field) for _, field in wanted])
        for name, seeds in half.items()], "time of a SET, us", "latency by percentile", marks, log=True, form="{:.0f}")
    return [Row([throughput, times], 2.5, widths=(1, 1)), Row([tails], 2.3)]


def _kind(label: str, run: Run) -> str:
    """Return which of the paper's four cases a run is."""
    alone, none = "alone" in label, run["parameters"]["law"] == "none"
    return "law alone" if alone and not none else "alone" if alone else "unprotected" if none else "protected"
