# SPDX-License-Identifier: Apache-2.0
"""Verdicts over seeds and forms: who is judged, what the page says of it, and that a run is had once and only once."""

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest
from rich.console import Console

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import Case, Experiment, Verdict, at_least
from sdngcc.testbed.build import ROOT, Artifacts, parts
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.ovs.build import version_parts
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.presets import MENDED, PRESETS, PUBLISHED
from sdngcc.testbed.reproduction import __main__ as reproduce
from sdngcc.testbed.reproduction import tasks as task_module
from sdngcc.testbed.reproduction.coverage import DRAWING, PAPERS, Item, read_coverage
from sdngcc.testbed.reproduction.forms import FORMS, PLACEBO, case_of, parameters_of
from sdngcc.testbed.reproduction.numbers import QUOTE, UNMEASURED, quoted, shown
from sdngcc.testbed.reproduction.outcomes import (
    Course,
    Judged,
    Reproduced,
    Row,
    cases_named,
    courses_of,
    rows_of,
)
from sdngcc.testbed.reproduction.page import CAUSES, UNKNOWN, cause_of, differing, page, read_causes
from sdngcc.testbed.reproduction.tasks import NotRunError, input_key, make_tasks, obtain, run_all
from sdngcc.testbed.simulation.scenarios import SCENARIOS
from sdngcc.testbed.tests.test_experiments import run_of
from sdngcc.testbed.workload import Workload

NOWHERE = Path("/nowhere")
ARTIFACTS = Artifacts(kernel=NOWHERE, modules=["/k/one.ko"], product=[], ovs={}, other_ovs={}, generator=NOWHERE,
                      loop_clock=NOWHERE, congestion=NOWHERE, kernel_source=NOWHERE, kernel_build=NOWHERE,
                      module_source=NOWHERE, beside=[], beside_source=NOWHERE, ovs_source=NOWHERE)


def row(name, *holds, measured=(1.23456,), paper="", expected=">= 2", **others):
    """Return a verdict that holds so in each seed; others are the verdicts of other forms."""
    values = tuple(measured) * (len(holds) // len(measured))
    return Row(name, expected, paper, ("sdngcc",), {MENDED: Judged(values, holds), **others})


OUTCOMES = [
    Reproduced("one", "First", "Paper, Fig. 1", (1,), [row("a|b", True, paper="1.2 Gb/s"), row("rate", False)],
               [Course("", "sdngcc", MENDED, ((0.9, 1.0),), ((0.95, 1.0),), (0.3,), (0.98,), (40.0,))],
               figure="figures/one.png"),
    Reproduced("two", "Second", "Paper, Fig. 2", (1,), [row("known", False), row("other", False), row("more", False)]),
    Reproduced("three", "Third", "Paper, Fig. 3", failure="the machine ended early"),
]
CAUSES_OF = {"two": {"known": "the queue is short", "*": "all else"}}


def test_the_page_lists_every_verdict_and_every_failure_with_its_cause():
    text = page(OUTCOMES, CAUSES_OF, [7])
    assert "2 of 3 experiments were run; 1 of 5 verdicts hold." in text and "with seed 7, and" in text
    assert "| [one](#one) | rate: >= 2; ours 1.235 | cause not known |" in text
    assert "| [two](#two) | known: >= 2; ours 1.235 | the queue is short |" in text
    assert "| [two](#two) | other: >= 2; ours 1.235<br>more: >= 2; ours 1.235 | all else |" in text
    assert "| [three](#three) | all: a run; none | the machine ended early |" in text
    assert "| a\\|b | sdngcc | 1.2 Gb/s | >= 2 | 1.235 | - | - | holds |" in text
    assert "| - | sdngcc, mended | 0.9 | 1 | 0.95 | 1 | 0.3 | 0.98 | 40 |" in text
    assert "![First](figures/one.png)" in text and "sdngcc testbed run two" in text
    assert f"laws.md#{PRESETS['sdngcc'].anchor}" in text
    assert text == page(OUTCOMES, CAUSES_OF, [7])


def test_seeds_stand_as_mean_and_interval_and_must_all_hold():
    some = row("rate", True, False, True, measured=(1.0, 2.0, 3.0))
    text = page([replace(OUTCOMES[0], seeds=(1, 2, 3), rows=[some, row("all", True, True, True)])], {}, range(1, 4))
    assert "| rate | sdngcc | - | >= 2 | 2 ± 2.5 | - | - | **holds in 2 of 3** |" in text
    assert "holds, 3 of 3 |" in text and "1 of 2 verdicts hold." in text and "with seeds 1 to 3, and" in text
    assert "rate: >= 2; ours 2 ± 2.5, in 2 of 3" in text and "Seeds 1, 2, 3." in text


def test_what_a_placebo_reaches_is_marked_and_counted():
    met, missed = Judged((3.0,), (True,)), Judged((0.5,), (False,))
    rows = [row("a", True, placebo=met), row("b", True, placebo=missed, published=met), row("c", True)]
    text = page([replace(OUTCOMES[0], rows=rows)], {}, [1])
    assert "Of 2 verdicts that have a placebo, 1 hold under it as well" in text
    assert "| 1.235 | - | 3 † | holds |" in text and "| 1.235 | 3 † | 0.5 | holds |" in text
    assert "| sdngcc | 1 | 3 of 3 | 1 of 1 | 1 of 2 |" in text


def test_verdicts_that_another_kernel_changes_are_told():
    others = [replace(OUTCOMES[0], rows=[row("a|b", False, measured=(1.5,)), row("rate", False)]), *OUTCOMES[1:]]
    assert differing(OUTCOMES, others) == ["one: a|b holds: 1.235, there 1.5 (>= 2)"]
    assert differing(others, OUTCOMES) == ["one: a|b does not hold: 1.5, there 1.235 (>= 2)"]
    assert differing(OUTCOMES, OUTCOMES[1:]) == []
    assert "with seed 7 and `kernel=6.12`, and writes" in page(OUTCOMES, CAUSES_OF, [7], ["kernel=6.12"])


def test_what_is_only_recorded_is_no_verdict():
    text = page([replace(OUTCOMES[0], rows=[row("a", True, expected="as measured"), row("b", True)])], {}, [1])
    assert "1 of 1 verdicts hold." in text and "| as measured | 1.235 | - | - | recorded |" in text
    assert "Every verdict holds." in text


@pytest.mark.parametrize("values, text", [
    ([0.123456], "0.1235"), ([12345.678], "12346"), ([True], "True"), ([[1.5, 2.25]], "1.5, 2.25"),
    ([{"vm1": 1.0, "vm2": 999.96}], "vm1 1, vm2 1000"), (["text"], "text"), ([None], "None"),
    ([3, 3], "3 ± 0"), ([1.0, 2.0], "1.5 ± 6.4"), ([[1, 4], [1, 6]], "1 ± 0, 5 ± 13"), (["a", "b", "a"], "a / b"),
    ([{"p50_ms": 2, "quantiles_ms": [(0, 1)]}], "p50_ms 2"),
    ([{"x": 1}, {"x": 1}], "x 1 ± 0"), ([2.0, None, 2.0], "2 ± 0 (1 without)")])
def test_numbers_are_rounded_and_seeds_summed_up(values, text):
    assert shown(values) == text


def test_causes_are_texts_and_unknown_ones_are_told(tmp_path):
    assert isinstance(read_causes(CAUSES), dict)
    assert cause_of({}, "one", "rate") == UNKNOWN
    bad = tmp_path / "causes.json"
    bad.write_text(json.dumps({"one": {"rate": 3}}))
    with pytest.raises(ValueError, match="one, rate"):
        read_causes(bad)


def test_a_placebo_does_the_same_work_and_cuts_nothing():
    for experiment in EXPERIMENTS.values():
        for case in experiment.cases([]):
            formed = {form: case_of(experiment, case, form) for form in FORMS}
            assert formed[MENDED].work(3).as_dict() == case.work(3).as_dict()
            if experiment.paper == "ours" or case.parameters.law in ("none", "static"):
                assert formed[PLACEBO] is formed[PUBLISHED] is None
            placebo, published = formed[PLACEBO], formed[PUBLISHED]
            if placebo is not None:
                assert placebo.parameters.law == "sdngcc" and not placebo.parameters.tells_levels
                assert placebo.parameters.knobs == {"cut-full-ppm": 0, "cut-mark-ppm": 0}
                assert placebo.parameters.phases == case.parameters.phases
                polls = case.parameters.law in ("sdngcc", "maxmin")
                assert placebo.parameters.period_ms == (case.parameters.period_ms if polls else 50)
                assert placebo.work(3).as_dict() == case.work(3).as_dict()
            if published is not None:
                assert (published.parameters.law, published.parameters.preset) == (case.parameters.law, PUBLISHED)
                assert published.parameters.senders == case.parameters.senders


def test_what_an_experiment_sets_stays_as_published_and_what_is_published_has_no_other_form():
    chosen = parse_settings(["law=sdngcc", "shim_period_us=7000", "knob.cut-haste=2"], {})
    published = parameters_of(chosen, PUBLISHED)
    assert published.shim_period_us == 7000 and published.knobs["cut-haste"] == 2 and published.levels is False
    assert parameters_of(published, PUBLISHED) is parameters_of(published, PLACEBO) is None
    assert parameters_of(Parameters(law="maxmin"), PUBLISHED) is None


def test_a_verdict_is_about_the_cases_that_its_name_names():
    labels = ["law=none", "law=scc", "law=scc, alone"]
    assert cases_named("p99, law=scc / alone", labels) == [1] and cases_named("p99", labels) == [0, 1, 2]
    assert cases_named("p99, law=scc, alone", labels) == [2] and cases_named("x", [""]) == [0]
    assert cases_named("law=scc / law=none", labels) == [0, 1]


def judged(value):
    return Experiment("one", "First", "Paper", lambda settings: [], lambda runs: [
        at_least(f"goodput, {label}", run["value"], value) for label, run in runs])


def test_each_form_is_judged_in_the_mended_runs_place_where_all_its_runs_are():
    def run(value, law="sdngcc"):
        return {"value": value, "parameters": {"law": law}, "knobs": {}}

    labels = ["bare", "kept"]
    seeds = [{(MENDED, 0): run(1, "none"), (MENDED, 1): run(5), (PLACEBO, 1): run(2)},
             {(MENDED, 0): run(1, "none"), (MENDED, 1): run(3), (PLACEBO, 1): run(6)},
             {(MENDED, 0): run(1, "none"), (MENDED, 1): run(4)}]
    bare, kept = rows_of(judged(4), labels, seeds, FORMS)
    assert bare.laws == () and kept.laws == ("sdngcc",) and set(bare.by_form) == {MENDED}
    assert kept.mended == Judged((5, 3, 4), (True, False, True))
    assert kept.by_form[PLACEBO] == Judged((2, 6), (False, True)) and PUBLISHED not in kept.by_form


def test_a_judge_sees_the_mended_parameters():
    seen = []
    experiment = Experiment("one", "First", "Paper", lambda settings: [],
                            lambda runs: seen.append(runs[0][1]) or [Verdict("a", "as measured", 1, True)])
    own = {"parameters": {"law": "eyeq"}, "knobs": {"ecn": 1}}
    rows_of(experiment, [""], [{(MENDED, 0): own, (PLACEBO, 0): {"parameters": {"law": "sdngcc"}, "knobs": {}}}], FORMS)
    assert [one["parameters"]["law"] for one in seen] == ["eyeq", "eyeq"] and seen[1]["knobs"] == {"ecn": 1}


def test_courses_tell_worst_mean_and_when_a_network_was_fair():
    run = {**run_of(goodput=235.37, utilisation=0.9, p99=12345), "knobs": {}}
    (course,) = courses_of([""], [{(MENDED, 0): run}], FORMS)
    assert course.whole == course.settled == ((1.0, 1.0),)
    assert (course.fair_s, course.used, course.queue_kb) == ((0.0,), (0.9,), (12.3,))
    # A result read from its file has its VMs in the order of text.
    run = {**run_of(senders=11, weights=(1, 1, 1, 1, 1, 1, 1, 1, 1, 2), goodput=80.0), "knobs": {}}
    rates = run["phases"][1]["goodput_mbps"]
    rates["vm10"] = 160.0
    run["phases"][1]["goodput_mbps"] = {vm: rates[vm] for vm in sorted(rates)}
    (course,) = courses_of([""], [{(MENDED, 0): run}], FORMS)
    assert course.whole[0][0] == pytest.approx(course.whole[0][1])


EXPERIMENT = Experiment("one", "First", "Paper", lambda settings: [
    Case(f"senders={number}", parse_settings(settings, {"law": "none", "senders": number})) for number in (2, 3)],
    lambda runs: [at_least(label, run["queue"]["bytes_p99"], 2.5) for label, run in runs])


def test_an_input_changes_the_key_and_judging_does_not(monkeypatch):
    case = EXPERIMENT.cases([])[0]

    def key(experiment=EXPERIMENT, case=case, artifacts=ARTIFACTS, seed=1):
        return input_key(experiment, case, artifacts, seed)

    work = Workload()
    work.udp("vm1", "rx1", 0, 1, 100)
    changed = [key(seed=2), key(case=EXPERIMENT.cases([])[1]), key(artifacts=replace(ARTIFACTS, modules=["/k/two.ko"])),
               key(case=replace(case, workload=work)), key(case=replace(case, workload=lambda seed: work)),
               key(experiment=replace(EXPERIMENT, measure=EXPERIMENTS["web"].measure))]
    assert key() not in changed and len(set(changed)) == len(changed) - 1 and changed[3] == changed[4]
    assert key() == key(experiment=replace(EXPERIMENT, judge=lambda runs: []))
    before = key()
    monkeypatch.setattr(task_module, "SOURCES", (*task_module.SOURCES, "controller/tests"))
    assert key() == before
    monkeypatch.setattr(task_module, "SOURCES", task_module.SOURCES[1:])
    assert key() != before


def test_the_controllers_code_is_an_input_where_one_runs(monkeypatch):
    cases = {law: EXPERIMENT.cases([f"law={law}"])[0] for law in ("none", "seawall", "sdngcc", "maxmin")}
    before = {law: input_key(EXPERIMENT, case, ARTIFACTS, 1) for law, case in cases.items()}
    monkeypatch.setattr(task_module, "CONTROLLER", "controller/rates")
    assert {law for law, case in cases.items() if input_key(EXPERIMENT, case, ARTIFACTS, 1) != before[law]} == {
        "sdngcc", "maxmin"}


def test_seeds_come_one_after_the_other_and_forms_within_them(tmp_path):
    tasks = make_tasks([replace(EXPERIMENTS["share"], name="share")], tmp_path, ["kernel=6.12"], seeds=[4, 5])
    assert {task.case.parameters.kernel for task in tasks} == {"6.12"}
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)
    assert list(dict.fromkeys((task.seed, task.form) for task in tasks)) == [
        (seed, form) for seed in (4, 5) for form in FORMS]
    assert len({task.folder for task in tasks}) == len(tasks)


def test_what_is_not_judged_against_a_paper_has_fewer_seeds(tmp_path):
    own = [EXPERIMENTS["parking-lot"], EXPERIMENTS["lost-echoes"], EXPERIMENTS["share"]]
    tasks = make_tasks(own, tmp_path, seeds=range(1, 6), forms=[MENDED, PLACEBO], beside=2)
    of = {(one.name, form): [task.seed for task in tasks if task.experiment is one and task.form == form
                             and task.number == 0] for one in own for form in (MENDED, PLACEBO)}
    assert of == {("share", MENDED): [1, 2, 3, 4, 5], ("share", PLACEBO): [1, 2], ("parking-lot", MENDED): [1, 2],
                  ("parking-lot", PLACEBO): [], ("lost-echoes", MENDED): [1], ("lost-echoes", PLACEBO): []}
    assert {task.experiment.name for task in make_tasks(own, tmp_path)} == {"share", "parking-lot"}


def result(senders):
    return {**run_of(senders=senders, p99=senders), "knobs": {}}


def test_the_code_of_laws_that_a_run_does_not_name_is_no_input(monkeypatch):
    """Its own law's, the rest of the shim and all laws that it names are: sdngcc is named by programs' paths."""
    read = Path.read_bytes
    built = {**parts(), **version_parts()}
    modules = [str(built[name].folder / "one.ko") for name in ("module", "beside")]
    artifacts = replace(ARTIFACTS, modules=modules, ovs={"vswitchd": str(built["ovs3.1"].folder / "vswitchd")})
    case = EXPERIMENT.cases(["law=seawall"])[0]

    def changed(name):
        place = ROOT / "shim" / "core" / name

        def content(path):
            return read(path) + (b"/* */" if path == place else b"")

        monkeypatch.setattr(Path, "read_bytes", content)
        task_module._builds_without.cache_clear()
        now = {**parts(), **version_parts()}
        moved = replace(artifacts, modules=[str(now[part].folder / "one.ko") for part in ("module", "beside")],
                        ovs={"vswitchd": str(now["ovs3.1"].folder / "vswitchd")})
        return input_key(EXPERIMENT, case, moved, 1)

    before = changed("")
    assert before == changed("laws/eyeq.c") == changed("laws/eyeq_receive.c") == changed("laws/vcc.c")
    assert before not in {changed(name) for name in ("laws/seawall.c", "laws/seawall_loop.c", "laws/eyeq.h", "law.c",
                                                     "engine/uplink.c", "share.c")}
    task_module._builds_without.cache_clear()


def test_a_run_is_not_repeated_until_an_input_changes(tmp_path, monkeypatch):
    ran = []

    def fake(case, artifacts, seed, raw, measure, progress):
        ran.append(case.parameters.senders)
        raw.mkdir(parents=True)
        if case.parameters.senders == 3 and len(ran) == 2:
            raise MachineError("the machine ended early; its log is /somewhere")
        return result(case.parameters.senders), {}

    monkeypatch.setattr(task_module, "run_case", fake)
    tasks = make_tasks([EXPERIMENT], tmp_path)

    def go(judge_only=False, of=None):
        return run_all(of or tasks, ARTIFACTS, 1, judge_only, Console(quiet=True))

    results, failures = go()
    assert ran == [2, 3] and list(failures) == tasks[1:] and results == {tasks[0]: tasks[0].result}
    told = reproduce.outcome(EXPERIMENT, tasks, results, failures, tmp_path, None)
    assert told.failure == "one, senders=3, seed 1: the machine ended early"
    assert (tasks[1].folder / "raw").exists() and not (tasks[0].folder / "raw").exists()
    (tasks[1].folder / "raw").rmdir()
    assert go()[1] == {} and ran == [2, 3, 3]
    results, failures = go()
    assert set(results) == set(tasks) and ran == [2, 3, 3]
    left = []
    monkeypatch.setattr(reproduce, "leave_result", lambda experiment, runs, seed, folder: left.append(
        (folder.relative_to(tmp_path), folder.is_dir(), [label for label, _ in runs])))
    monkeypatch.setattr(reproduce, "draw", lambda name, results, path: path.write_text(f"{name} {len(results)}"))
    told = reproduce.outcome(EXPERIMENT, tasks, results, failures, tmp_path, tmp_path)
    assert left == [(Path("one/seed-1"), True, ["senders=2", "senders=3"])]
    assert (tmp_path / "one.png").read_text() == "one 1" and told.figure == "figures/reproduction/one.png"
    assert told.seeds == (1,) and [(one.name, one.mended.always) for one in told.rows] == [
        ("senders=2", False), ("senders=3", True)]
    other = make_tasks([EXPERIMENT], tmp_path, seeds=[2])
    assert go(judge_only=True, of=other) == ({}, {}) and ran == [2, 3, 3]
    assert reproduce.outcome(EXPERIMENT, other, {}, {}, tmp_path, None).failure == "no seed has all of its runs yet"
    with pytest.raises(NotRunError):
        obtain("key", other[:1], ARTIFACTS, True, None)


def test_runs_of_equal_inputs_are_had_once(tmp_path, monkeypatch):
    ran = []

    def fake(case, artifacts, seed, raw, measure, progress):
        ran.append(case.label)
        raw.mkdir(parents=True)
        return result(2), {}

    monkeypatch.setattr(task_module, "run_case", fake)
    twice = replace(EXPERIMENT, cases=lambda settings: [Case("a", Parameters()), Case("b", Parameters())])
    tasks = make_tasks([twice], tmp_path, forms=[MENDED])
    results, _ = run_all(tasks, ARTIFACTS, 2, False, Console(quiet=True))
    assert ran == ["a"] and [results[task] for task in tasks] == [task.result for task in tasks]
    tasks[0].result.unlink()
    results, _ = run_all(tasks, ARTIFACTS, 2, False, Console(quiet=True))
    assert ran == ["a"] and len({results[task].read_text() for task in tasks}) == 1


def test_another_folders_results_are_judged_as_they_stand(tmp_path):
    with pytest.raises(click.UsageError, match="no results of `make reproduce` there"):
        reproduce.read_outcomes(tmp_path, [1])
    for task in make_tasks([EXPERIMENTS["udp-flood"]], tmp_path, forms=[MENDED]):
        task.folder.mkdir(parents=True)
        run = {**run_of(**task.case.parameters.model_dump(mode="json")), "knobs": {}}
        task.result.write_text(json.dumps({"inputs": "of another kernel", "run": run}))
    (found,) = reproduce.read_outcomes(tmp_path, [1])
    assert found.name == "udp-flood" and found.judged


def test_experiments_are_judged_side_by_side_in_their_order(tmp_path, monkeypatch, capsys):
    """Cases hold functions, which could not be sent to a worker."""
    monkeypatch.setattr(reproduce, "TOLD", 2)
    experiments = [replace(EXPERIMENT, name=name, cases=lambda settings: [Case("", Parameters())])
                   for name in ("one", "two", "three", "four", "five")]
    tasks = make_tasks(experiments, tmp_path, forms=[MENDED])
    failures = {task: f"/a/b/{task.experiment.name} ended" for task in tasks}
    found = reproduce.judge_all(experiments, tasks, {}, failures, tmp_path, None, 2, Console())
    assert [one.name for one in found] == ["one", "two", "three", "four", "five"]
    assert [one.failure for one in found] == [reproduce.outcome(one, own, {}, failures, tmp_path, None).failure
                                              for one, own in zip(experiments, ([task] for task in tasks))]
    assert capsys.readouterr().out.splitlines() == [f"{number} of 5 experiments judged and drawn" for number in (2, 4)]


def test_every_paper_has_its_figures_and_what_they_name_exists():
    items = read_coverage()
    assert {one.paper for one in items} == set(PAPERS)
    assert len({(one.paper, one.item) for one in items}) == len(items)
    known = {*EXPERIMENTS, *(f"simulate {name}" for name in SCENARIOS),
             *(f"make {name}" for name in re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))}
    assert not {name for one in items for name in one.where} - known
    papers = {one.name for one in EXPERIMENTS.values() if one.paper.startswith(PAPERS) and "Fig." in one.paper}
    assert not papers - {name for one in items for name in one.where}


@pytest.mark.parametrize("change, told", [
    ({"paper": "Another"}, "Another.*the paper is none of SDN-GCC, HyGenICC"),
    ({"status": "done"}, "'done' is none of reproduced, partly"),
    ({"status": "partly", "note": ""}, "says too little"),
    ({"where": []}, "'where' must name what shows it"),
    ({"page": 3}, "page"),
])
def test_what_a_paper_has_is_refused_by_name_where_it_is_said_wrongly(tmp_path, change, told):
    entry = {"paper": "EyeQ", "item": "Fig. 1", "what": "w", "status": "reproduced", "where": ["spare"], "note": ""}
    file = tmp_path / "coverage.json"
    file.write_text(json.dumps([entry]))
    assert read_coverage(file)[0].where == ("spare",)
    file.write_text(json.dumps([{**entry, **change}]))
    with pytest.raises(ValueError, match=told):
        read_coverage(file)


def test_the_page_has_every_figure_of_the_papers():
    items = [Item("EyeQ", "Fig. 1", "a", "reproduced", ("one", "simulate ecmp"), ""),
             Item("EyeQ", "Fig. 3", "b", "impossible", (), "no data"), Item("vCC", "Fig. 5", "c", DRAWING, (), "")]
    text = page(OUTCOMES, CAUSES_OF, [7], coverage=items)
    assert "that show measurements: 1 reproduced, 0 partly, 0 refuted, 0 not seen, 1 impossible." in text
    assert "| EyeQ | Fig. 1 | a | reproduced | [one](#one), [simulate ecmp](simulation.md#scenarios) | - |" in text
    assert "| EyeQ | Fig. 3 | b | impossible | - | no data |" in text


def test_texts_quote_what_was_measured():
    placebo = Judged((3.0, 5.0), (True, True))
    rows = [row("rate, of (all)", True, True, measured=(1.0, 2.0), placebo=placebo),
            row("parts", True, measured=([1.5, 2.25],))]
    outcomes = [replace(OUTCOMES[0], rows=rows)]
    said = "{one: rate, of (all)} for {one: parts[1]} and {one: parts}; {one: rate, of (all)@placebo}"
    assert quoted(said, outcomes) == "1.5 ± 6.4 for 2.25 and 1.5, 2.25; 4 ± 13"
    for name in ("{two: parts}", "{one: part}", "{one: parts[2]}", "{one: parts@placebo}", "{one: rate, of (all)[0]}"):
        assert quoted(f"a {name}", outcomes) == f"a {UNMEASURED}"
    items = [Item("EyeQ", "Fig. 1", "a", "partly", ("one",), "half: {one: parts[0]}")]
    text = page([*outcomes, OUTCOMES[1]], {"two": {"*": "as {one: parts[1]} says"}}, [1, 2], coverage=items)
    assert "| half: 1.5 |" in text and "| as 2.25 says |" in text


def test_the_page_has_all_numbers_that_its_texts_quote():
    assert UNMEASURED not in (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    texts = [*(one.note for one in read_coverage()), *(one for own in read_causes().values() for one in own.values())]
    quotes = [found for text in texts for found in QUOTE.finditer(text)]
    assert not {found[1] for found in quotes} - set(EXPERIMENTS)
    assert not [text for text in texts if "{" in QUOTE.sub("", text)]
