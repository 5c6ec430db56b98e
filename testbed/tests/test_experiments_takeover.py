# SPDX-License-Identifier: Apache-2.0
"""Experiment takeover: what it runs and reads, and verdicts that fail when a takeover is late or a VM stays cut."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import fair_share_mbps
from sdngcc.experiments.own import takeover
from sdngcc.testbed.parameters import ParameterError

from .test_experiments import run_of

TOR, HV = "0000000000001001", "0000000000000001"


def good():
    """Return a made run: switches taken over after a second, limits at their shares, shares by the turned weights."""
    parameters = takeover.cases(["law=sdngcc"])[0].parameters
    run = run_of(**parameters.model_dump())
    fair = {**run, "parameters": takeover.turned(parameters).model_dump(mode="json")}
    for index, vm in enumerate(parameters.vm_names):
        run["series"]["goodput_mbps"][vm] = [fair_share_mbps(fair, index)] * 160
        run["series"]["limit_mbps"][vm], run["series"]["share_mbps"][vm] = [500.0] * 160, [500.0] * 160
    run["measured"] = {"taken_ms": {TOR: 968.0, HV: 970.0}, "silent_ms": 990.0, "notices": 900, "foreign": 0}
    return run


def wrong(run):
    """Return which verdicts do not hold, without the law's name."""
    return [one.name.partition(" ")[2] for one in EXPERIMENTS["takeover"].judge([("", run)]) if not one.holds]


def test_each_vm_gets_the_weight_of_its_opposite_at_another_controller():
    assert [case.label for case in takeover.cases([])] == ["sdngcc", "maxmin"]
    case, = takeover.cases(["law=maxmin", "controllers=2"])
    assert (case.label, case.parameters.law) == ("", "maxmin")
    words = [(program.argv[9], *program.argv[11:]) for program in case.workload.programs]
    assert words == [(f"http://127.0.0.1:{port}", vm, "--weight", weight) for port, vm, weight in (
        (8080, "vm1", "1"), (8081, "vm2", "1"), (8080, "vm3", "2"), (8081, "vm4", "4"))]


@pytest.mark.parametrize("settings", [["controllers=1"], ["kill_controller_at_s=4"], ["kill_controller_at_s=12"],
                                      ["phases=0,11,0"]])
def test_runs_in_which_nothing_could_be_seen_are_refused(settings):
    with pytest.raises(ParameterError, match="controllers=1: .*2 to 4|kill_controller_at_s=.*later than 4 s"):
        takeover.cases(settings)


def test_it_holds_when_all_is_well():
    assert wrong(good()) == []


@pytest.mark.parametrize("measured, word", [
    ({"taken_ms": {TOR: 968.0, HV: 2001.0}}, "longest time"), ({"taken_ms": {TOR: None}}, "longest time"),
    ({"taken_ms": {}}, "longest time"), ({"silent_ms": 2001.0}, "until another"),
    ({"silent_ms": None}, "until another"),
    ({"foreign": 1}, "messages"), ({"notices": 0}, "messages")])
def test_late_and_missing_takeovers_fail(measured, word):
    run = good()
    run["measured"].update(measured)
    name, = wrong(run)
    assert name.startswith(word)


@pytest.mark.parametrize("mbps", [49.0, 510.0, None])
def test_a_limit_outside_guarantee_and_share_fails(mbps):
    run = good()
    run["series"]["limit_mbps"]["vm2"][60] = mbps  # before the kill
    assert wrong(run) == []
    run["series"]["limit_mbps"]["vm2"][75] = mbps
    assert wrong(run) == ["readings of limits outside guarantee and share since the kill"]


def test_a_vm_that_stays_cut_or_lost_its_weight_fails():
    run = good()
    run["series"]["goodput_mbps"]["vm4"][70:110] = [10.0] * 40  # while nobody acts, and a while after
    assert wrong(run) == []
    run["series"]["goodput_mbps"]["vm4"][110:] = [300.0] * 50
    assert wrong(run) == ["after it: vm4, Mb/s"]
    run["series"]["goodput_mbps"]["vm1"][40:70] = [239.0] * 30
    assert wrong(run) == ["before the kill: vm1, Mb/s", "after it: vm4, Mb/s"]


def test_times_are_read_from_the_traces_of_those_that_live(tmp_path):
    run = good()
    killed = {"controller": 2, "bottleneck": TOR, "switches": [HV, TOR], "t_s": 27.0}
    (tmp_path / "meta.json").write_text(json.dumps({"start_s": 20.0, "killed": killed}))

    def trace(number, *events):
        lines = [json.dumps({"t": t, "event": event, **({"switch": where, "generation": 2} if event == "acting" else
                                                        {"port": f"{where}:3"})}) for t, event, where in events]
        (tmp_path / f"controller{number}-trace.jsonl").write_text("\n".join(lines) + "\n")

    trace(1, (11.0, "acting", TOR), (11.5, "notice", TOR), (27.9, "acting", HV), (28.1, "acting", TOR),
          (28.2, "notice", TOR))
    trace(2, (20.2, "acting", TOR), (20.5, "notice", TOR), (26.9, "notice", TOR))
    trace(3, (28.5, "acting", HV), (28.6, "notice", HV))
    found = {"killed": 2, "notices": 4, "foreign": 0, "taken_ms": {HV: 900.0, TOR: 1100.0}, "silent_ms": 1200.0}
    assert takeover.measure(tmp_path, run) == found
    trace(3, (26.8, "notice", TOR), (28.3, "notice", TOR))
    assert takeover.measure(tmp_path, run) == {**found, "notices": 6, "foreign": 2}
