# SPDX-License-Identifier: Apache-2.0
"""The page follows from results and causes, and a run is repeated when, and only when, an input changed."""

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest
from rich.console import Console

from sdngcc.experiments.base import Case, Experiment, at_least
from sdngcc.testbed import reproduce
from sdngcc.testbed.build import Artifacts
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.reproduction import CAUSES, UNKNOWN, Reproduced, cause_of, page, read_causes, shown
from sdngcc.testbed.workload import Workload

NOWHERE = Path("/nowhere")
ARTIFACTS = Artifacts(kernel=NOWHERE, modules=["/k/one.ko"], ovs={}, other_ovs={}, generator=NOWHERE,
                      congestion=NOWHERE, kernel_source=NOWHERE, kernel_build=NOWHERE, module_source=NOWHERE,
                      beside=[], beside_source=NOWHERE, ovs_source=NOWHERE)


def verdict(name, holds, measured=1.23456, paper=""):
    return {"name": name, "expected": ">= 2", "measured": measured, "holds": holds, "paper": paper}


OUTCOMES = [
    Reproduced("one", "First", "Paper, Fig. 1", [verdict("a|b", True, paper="1.2 Gb/s"), verdict("rate", False)],
               figure="figures/one.png"),
    Reproduced("two", "Second", "Paper, Fig. 2", [verdict("known", False), verdict("other", False)]),
    Reproduced("three", "Third", "Paper, Fig. 3", [], failure="the machine ended early"),
]
CAUSES_OF = {"two": {"known": "the queue is short", "*": "all else"}}


def test_the_page_lists_every_verdict_and_every_failure_with_its_cause():
    text = page(OUTCOMES, CAUSES_OF, 7)
    assert "2 of 3 experiments were run; 1 of 4 verdicts hold." in text and "seed 7" in text
    assert "| [one](#one) | rate | >= 2 | 1.235 | cause not known |" in text
    assert "| [two](#two) | known | >= 2 | 1.235 | the queue is short |" in text
    assert "| [two](#two) | other | >= 2 | 1.235 | all else |" in text
    assert "| [three](#three) | all | a run | none | the machine ended early |" in text
    assert "| a\\|b | 1.2 Gb/s | >= 2 | 1.235 | holds |" in text
    assert "![First](figures/one.png)" in text and "sdngcc testbed run two" in text
    assert text == page(OUTCOMES, CAUSES_OF, 7)


def test_verdicts_that_another_kernel_changes_are_told():
    others = [replace(OUTCOMES[0], verdicts=[verdict("a|b", False, 1.5), verdict("rate", False)]), *OUTCOMES[1:]]
    assert reproduce.differing(OUTCOMES, others) == ["one: a|b holds: 1.235, there 1.5 (>= 2)"]
    assert reproduce.differing(others, OUTCOMES) == ["one: a|b does not hold: 1.5, there 1.235 (>= 2)"]
    assert reproduce.differing(OUTCOMES, OUTCOMES[1:]) == []
    assert "with seed 7 and `kernel=6.12`, and writes" in page(OUTCOMES, CAUSES_OF, 7, ["kernel=6.12"])


def test_settings_are_those_of_every_run(tmp_path):
    one = replace(EXPERIMENT, cases=lambda settings: [Case("", parse_settings(settings, {"law": "sdngcc"}))])
    assert [task.case.parameters.kernel for task in reproduce.make_tasks([one], tmp_path, ["kernel=6.12"])] == ["6.12"]
    (tmp_path / "share").mkdir()
    with pytest.raises(click.UsageError, match="no results of `make reproduce` there"):
        reproduce.read_outcomes(tmp_path)
    (tmp_path / "share" / "result.json").write_text(json.dumps({"verdicts": [verdict("a", True)]}))
    assert [(found.name, found.held) for found in reproduce.read_outcomes(tmp_path)] == [("share", 1)]


def test_what_is_only_recorded_is_no_verdict():
    recorded = {**verdict("a", True), "expected": "as measured"}
    text = page([replace(OUTCOMES[0], verdicts=[recorded, verdict("b", True)])], {}, 1)
    assert "1 of 1 verdicts hold." in text and "| a | - | as measured | 1.235 | recorded |" in text


def test_a_page_without_failures_says_so():
    assert "Every verdict holds." in page([replace(OUTCOMES[0], verdicts=[verdict("a", True)])], {}, 1)


@pytest.mark.parametrize("value, text", [
    (0.123456, "0.1235"), (12345.678, "12346"), (3, "3"), (True, "True"), ([1.5, 2.25], "1.5, 2.25"),
    ({"vm1": 1.0, "vm2": 999.96}, "vm1 1, vm2 1000"), ("text", "text"), (None, "None")])
def test_numbers_are_rounded(value, text):
    assert shown(value) == text


def test_causes_are_texts_and_unknown_ones_are_told(tmp_path):
    assert isinstance(read_causes(CAUSES), dict)
    assert cause_of({}, "one", "rate") == UNKNOWN
    bad = tmp_path / "causes.json"
    bad.write_text(json.dumps({"one": {"rate": 3}}))
    with pytest.raises(ValueError, match="one, rate"):
        read_causes(bad)


EXPERIMENT = Experiment("one", "First", "Paper", lambda settings: [
    Case(f"senders={number}", Parameters(senders=number)) for number in (2, 3)],
    lambda runs: [at_least(label, run["value"], 2.5) for label, run in runs])


def test_an_input_changes_the_key_and_judging_does_not(monkeypatch):
    case = EXPERIMENT.cases([])[0]

    def key(experiment=EXPERIMENT, case=case, artifacts=ARTIFACTS, seed=1):
        return reproduce.input_key(experiment, case, artifacts, seed)

    work = Workload()
    work.udp("vm1", "rx1", 0, 1, 100)
    changed = [key(seed=2), key(case=EXPERIMENT.cases([])[1]), key(artifacts=replace(ARTIFACTS, modules=["/k/two.ko"])),
               key(case=replace(case, workload=work)), key(experiment=replace(EXPERIMENT, measure=verdict))]
    assert key() not in changed and len(set(changed)) == len(changed)
    assert key() == key(experiment=replace(EXPERIMENT, judge=lambda runs: []))
    monkeypatch.setattr(reproduce, "SOURCES", reproduce.SOURCES[1:])
    assert key() != changed[0]


def test_a_run_is_not_repeated_until_an_input_changes(tmp_path, monkeypatch):
    ran = []

    def fake(case, artifacts, seed, raw, measure, progress):
        ran.append(case.parameters.senders)
        raw.mkdir(parents=True)
        if case.parameters.senders == 3 and len(ran) == 2:
            raise MachineError("the machine ended early; its log is /somewhere")
        return {"value": case.parameters.senders}, {}

    monkeypatch.setattr(reproduce, "run_case", fake)
    tasks = reproduce.make_tasks([EXPERIMENT], tmp_path)

    def go(seed=1, judge_only=False):
        return reproduce.run_all(tasks, ARTIFACTS, seed, 1, judge_only, Console(quiet=True))

    results, failures = go()
    assert ran == [2, 3] and list(failures) == tasks[1:] and results == {tasks[0]: {"value": 2}}
    told = reproduce.outcome(EXPERIMENT, tasks, results, failures, 1, tmp_path, tmp_path)
    assert told.failure == "senders=3: the machine ended early"
    (tasks[1].folder / "raw").rmdir()
    assert go()[1] == {} and ran == [2, 3, 3]
    assert go()[0] == {tasks[0]: {"value": 2}, tasks[1]: {"value": 3}} and ran == [2, 3, 3]
    results, failures = go(seed=2, judge_only=True)
    assert results == {} and set(failures) == set(tasks) and ran == [2, 3, 3]
