# SPDX-License-Identifier: Apache-2.0
"""Experiment today: what holds VMs in which run, and verdicts that fail when the numbers do."""

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.others import today
from sdngcc.testbed.parameters import ParameterError

from .test_experiments import run_of

TODAY = EXPERIMENTS["today"]
NAMES = ["none", "htb", "borrow", "police", "static", "sdngcc", "maxmin"]
FAIR, LINK = 235.4, 941.5


def test_every_limit_does_the_same_work():
    cases = {case.label: case for case in TODAY.cases([])}
    assert list(cases) == [
        *(f"{name}, share" for name in NAMES[:4]), "police 10 ms, share", *(f"{name}, share" for name in NAMES[4:]),
        *(f"{name}, sold twice" for name in ("htb", "police", "static")),
        "alone, load 60%", *(f"{name}, load 60%" for name in NAMES)]
    for label, case in cases.items():
        name = label.partition(", ")[0]
        edge = {"police 10 ms": "police"}.get(name, name)
        assert case.parameters.edge == (edge if edge in ("htb", "borrow", "police") else "none"), label
        assert case.parameters.law == (name if name in ("static", "sdngcc", "maxmin") else "none"), label
    works = {label: case.work(1).as_dict() for label, case in cases.items()}
    for work in ("share", "load 60%"):
        assert all(works[f"{name}, {work}"] == works[f"none, {work}"] for name in NAMES)
    assert works["htb, sold twice"] == works["none, share"] != works["htb, load 60%"]
    assert cases["htb, share"].parameters.fixed_mbps(0) == 250
    assert {cases[f"{name}, sold twice"].parameters.fixed_mbps(0) for name in ("htb", "police", "static")} == {500}
    assert cases["police 10 ms, share"].parameters.burst_bytes == 312_500


def test_one_law_runs_alone_with_the_settings_given():
    labels = [case.label for case in TODAY.cases(["law=maxmin", "load=30", "link_mbps=500"])]
    assert labels == ["maxmin, share", "alone, load 30%", "maxmin, load 30%"]
    assert [case.parameters.fixed_mbps(0) for case in TODAY.cases(["link_mbps=500"])][1:2] == [125]


@pytest.mark.parametrize("settings, word", [
    (["edge=htb"], "edge"), (["static_mbps=5"], "static_mbps"), (["law=eyeq"], "law=eyeq"), (["load=30,60"], "load")])
def test_what_it_is_not_about_is_refused(settings, word):
    with pytest.raises(ParameterError, match=word):
        TODAY.cases(settings)


def made(name, work, goodput, alone, first=0.0):
    """Return a labelled run: the tagged VM has goodput beside the others, then alone; they have first before, Mb/s."""
    own = {**today.SHARE, **today.LIMITS[name.removesuffix(" 10 ms")]}
    run = run_of(goodput=goodput, alone=alone, **own)
    for vm in ("vm2", "vm3", "vm4"):
        run["series"]["goodput_mbps"][vm][:100] = [first] * 100
    return f"{name}, {work}", run


GOOD = [("none", "share", 5, 950), ("htb", "share", FAIR, FAIR), ("borrow", "share", 1, 950),
        ("police", "share", 200, FAIR, 900), ("police 10 ms", "share", 90, 60, 240), ("static", "share", FAIR, FAIR),
        ("sdngcc", "share", FAIR, 950), ("maxmin", "share", FAIR, 950), ("htb", "sold twice", 3, 480),
        ("police", "sold twice", 3, 480), ("static", "sold twice", 3, 480)]


def wrong(*rows):
    return [verdict.name for verdict in TODAY.judge([made(*row) for row in rows]) if not verdict.holds]


def test_all_holds_when_limits_do_what_theory_says():
    assert wrong(*GOOD) == []
    assert len(TODAY.judge([made(*row) for row in GOOD])) == len(GOOD) + 17


@pytest.mark.parametrize("row, names", [
    (("htb", "share", 196, FAIR), ["htb: TCP beside the others, part of the fair share"]),
    (("htb", "share", FAIR, 300), ["htb: TCP alone, part of the link"]),
    (("borrow", "share", 100, 950), ["borrow: TCP beside the others, part of the fair share"]),
    (("borrow", "share", 1, 800), ["borrow: TCP alone, part of the link"]),
    (("police", "share", 200, FAIR, 400), ["police: most of a VM in 0.1 s, part of its rate"]),
    (("police 10 ms", "share", 200, 230), ["police 10 ms: TCP alone, part of its rate"]),
    (("maxmin", "share", 196, 800), ["maxmin: TCP beside the others, part of the fair share",
                                     "maxmin: TCP alone, part of the link"]),
    (("static", "sold twice", 100, 480), ["static, sold twice: TCP beside the others, part of the fair share"])])
def test_each_verdict_can_fail(row, names):
    assert wrong(row) == names


def test_parts_are_of_the_share_and_of_the_link():
    _, run = made("htb", "share", FAIR / 2, LINK / 4, 480)
    assert (today.part_beside(run), today.part_alone(run), today.peak(run)) == (0.5, 0.25, 2.04)


@pytest.mark.parametrize("name, got, holds", [
    ("none", 0.0, True), ("htb", 0.8, True), ("htb", 0.95, False), ("static", 0.95, False), ("borrow", 0.3, True),
    ("borrow", 0.6, False), ("maxmin", 0.95, True), ("maxmin", 0.8, False), ("sdngcc", 0.8, False)])
def test_tenants_are_judged_by_the_worst(monkeypatch, name, got, holds):
    monkeypatch.setattr(today.tournament, "rows", lambda runs: {label: {"throughput": got} for label, _ in runs})
    verdicts = TODAY.judge([(f"{name}, load 60%", {})])
    assert verdicts[0].expected == "as measured" and all(one.holds for one in verdicts) == holds
