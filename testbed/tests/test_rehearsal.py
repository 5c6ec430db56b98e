# SPDX-License-Identifier: Apache-2.0
"""What a run would not obey, or could not be judged by, is refused before anything is built for it."""

import click.testing
import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import Case, Experiment, Program, TooShort, at_least, mean_between, settled_phase, window
from sdngcc.main import main
from sdngcc.shim.knobs import laws
from sdngcc.testbed import build, rehearsal
from sdngcc.testbed.knobs import check_knobs, describe_knobs, knobs_of, law_of
from sdngcc.testbed.parameters import ParameterError, make_parameters, parse_settings
from sdngcc.testbed.simulation import fabrics
from sdngcc.testbed.simulation.scenarios import SCENARIOS
from sdngcc.testbed.workload import three_periods

LAWS = laws()


def call(*words):
    return click.testing.CliRunner().invoke(main, words, env={"COLUMNS": "200"})


@pytest.fixture(autouse=True)
def nothing_is_built(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a build began")

    monkeypatch.setattr(build, "build_part", refuse)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_each_laws_knobs_are_taken_in_their_range_alone(law):
    own = [f"law={law.name}"]
    for knob in law.knobs:
        for value in (knob.minimum, knob.maximum):
            parse_settings([*own, f"knob.{knob.name}={value}"], {})
        for value in (knob.minimum - 1, knob.maximum + 1, 10**30):
            with pytest.raises(ParameterError, match=f"knob.{knob.name}={value}: {knob.minimum} to {knob.maximum}"):
                parse_settings([*own, f"knob.{knob.name}={value}"], {})
    with pytest.raises(ParameterError, match=f"law {law.name} has no knob foo"):
        parse_settings([*own, "knob.foo=3"], {})


@pytest.mark.parametrize("settings,words", [
    (("knob.foo=3",), "law sdngcc has no knob foo"), (("knob.cut-full-ppm=99999999999",), "0 to 10000000"),
    (("knob.cut-full-ppm=-1",), "0 to 10000000"), (("knob.cut-full-ppm=x",), "valid integer"),
    (("law=static", "knob.cut-full-ppm=3"), "law static has no knob cut-full-ppm"),
    (("law=none", "knob.cut-full-ppm=3"), "needs a law"), (("knob.=3",), "has no knob"),
    (("knob.eyeq-gain-ppm=5000",), "law sdngcc has no knob eyeq-gain-ppm"),
    (("knob.eyeq-gain-ppm=1",), "1000 to"), (("phases=1,1,1",), "period all has 1 s and is judged from its third"),
    (("phases=9,2.9,9",), "period all has 2.9 s"), (("law=eyeq", "phases=0,1,0"), "period all has 1 s")])
@pytest.mark.parametrize("command", [("testbed", "run"), ("simulate", "run")], ids="-".join)
def test_the_program_says_so_and_ends_with_2(command, settings, words):
    ended = call(*command, "share", *(word for one in settings for word in ("--set", one)))
    assert ended.exit_code == 2 and words in " ".join(ended.output.split()), ended.output


def test_the_simulators_refuse_the_same():
    for scenario in ("leaf-spine",):
        with pytest.raises(ParameterError, match="has no knob foo"):
            SCENARIOS[scenario].works(["knob.foo=3"])
    with pytest.raises(ParameterError, match="0 to 10000000"):
        fabrics.parse(["law=sdngcc", "knob.cut-full-ppm=99999999999"], {})


def test_a_knob_of_a_vms_own_law_is_taken_where_a_vm_has_it():
    cases = EXPERIMENTS["mixed"].cases(["knob.hygenicc-echo=0"])
    rehearsal.rehearse(EXPERIMENTS["mixed"], cases, 1)
    assert rehearsal.laws_of(cases[0].work(1)) == {"hygenicc", "static"}
    with pytest.raises(ParameterError, match="law sdngcc has no knob eyeq-gain-ppm"):
        rehearsal.rehearse(EXPERIMENTS["mixed"], EXPERIMENTS["mixed"].cases(["knob.eyeq-gain-ppm=5000"]), 1)
    with pytest.raises(ParameterError, match="knob.hygenicc-echo=7: 0 to 1"):
        EXPERIMENTS["mixed"].cases(["knob.hygenicc-echo=7"])
    assert "hygenicc" in rehearsal.laws_of(EXPERIMENTS["churn"].cases([])[0].work(1)) | {"hygenicc"}
    check_knobs("sdngcc", ["sdngcc"], {"sdngcc-cut-full-ppm": 1})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_passes_as_it_is(name):
    rehearsal.rehearse(EXPERIMENTS[name], EXPERIMENTS[name].cases([]), 1)


# Judged by the whole of what was sent, whenever that was.
WHOLE = ("ack-gaps", "acdc", "beside", "burst-latency", "converge", "divisions", "divisions-load", "failsafe",
         "interference", "maxmin", "memcached", "schedule", "shuffle", "web", "innocent", "ways", "spare", "tenants")


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in WHOLE])
def test_periods_that_are_too_short_for_its_verdicts_are_refused(name):
    """With 0 first where a single VM sends: nobody competes there."""
    found = []
    for phases in ("1,1,1", "0,1,0"):
        with pytest.raises(ParameterError) as refused:
            cases = EXPERIMENTS[name].cases([f"phases={phases}"])
            rehearsal.rehearse(EXPERIMENTS[name], cases, 1)
            # What is judged by the bytes of the whole run alone.
            assert name in ("line-rate", "port-share", "tournament"), name
            raise ParameterError("phases: none are judged")
        found.append(str(refused.value))
    assert any("phases" in one or "on_off_ms" in one or "kill_controller" in one for one in found), found


def test_windows_are_of_the_run_or_refused():
    run = rehearsal.made_up(make_parameters({"phases": (1, 3, 0)}))
    assert settled_phase(run, "all")["settled_start_s"] == 3 and settled_phase(run, "tagged") == {}
    with pytest.raises(TooShort, match="period competitors has 1 s"):
        settled_phase(run, "competitors")
    assert mean_between(run, "vm1", 1, 4) == pytest.approx(250, rel=0.01)
    for start_s, end_s in ((1, 5), (4, 4), (5, 6)):
        with pytest.raises(TooShort, match="phases: what vm1 gets"):
            mean_between(run, "vm1", start_s, end_s)
    assert window("x", 1, 2) == slice(10, 20)


def test_what_only_a_run_can_bring_is_no_refusal():
    def judge(runs):
        at_least("rate", runs[0][1]["measured"]["rates"]["vm1"], 1)
        raise AssertionError

    experiment = Experiment("x", "", "", EXPERIMENTS["share"].cases, judge)
    rehearsal.rehearse(experiment, experiment.cases([]), 1)


def test_laws_of_programs_are_found():
    work = three_periods(make_parameters({}))
    for number, argv in enumerate((("shim", "set-port", "x", "--law", "eyeq"), ("a", "other_config:shim-law=scc"),
                                   ("b", "--law", "none"))):
        work.program(Program(f"p{number}", "vm1", argv))
    assert rehearsal.laws_of(work) == {"eyeq", "scc"}
    case = Case("", make_parameters({"knobs": {"scc-nonsense": 1}}), work)
    with pytest.raises(ParameterError, match="law scc has no knob nonsense"):
        rehearsal.rehearse(EXPERIMENTS["share"], [case], 1)


def test_knobs_are_listed_without_a_kernel():
    ended = call("testbed", "knobs", "sdngcc")
    assert ended.exit_code == 0 and "knob.cut-full-ppm" in ended.output and "0 to 10000000 ppm" in ended.output
    assert all(law.name in call("testbed", "knobs").output for law in LAWS)
    assert call("testbed", "knobs", "foo").exit_code == 2
    assert [row["name"] for row in describe_knobs(law_of("eyeq"))] == [f"knob.{name}" for name in knobs_of("eyeq", {})]


def test_an_experiments_own_defaults_are_listed():
    ended = call("testbed", "list", "scale")
    assert ended.exit_code == 0 and "senders" in ended.output and "varies" in ended.output
    assert "4.0,10.0,0.0" in ended.output or "4,10,0" in ended.output
    assert call("testbed", "list", "nothing").exit_code == 2
    assert len(call("testbed", "list").output.splitlines()) < 300
