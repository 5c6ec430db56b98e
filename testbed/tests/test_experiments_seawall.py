# SPDX-License-Identifier: Apache-2.0
"""Seawall's experiments make the runs they say, and their verdicts fail when the numbers do."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import TCP_PAYLOAD
from sdngcc.experiments.seawall import schedule
from sdngcc.experiments.seawall.weights import epochs
from sdngcc.testbed.parameters import ParameterError


def result(case, part, **series):
    """Return a run of a case in which the tagged VM got a part of the link."""
    mbps = part * case.parameters.link_mbps * TCP_PAYLOAD
    return case.label, {
        "parameters": case.parameters.model_dump(mode="json"),
        "phases": [{"name": "all", "start_s": 1, "settled_start_s": 3, "settled_goodput_mbps": {"vm1": mbps}}],
        "series": series}


@pytest.mark.parametrize("name, swept, values", [("udp-flood", None, [None]), ("many-flows", "flows", [1, 2, 66])])
def test_each_point_is_run_with_the_law_and_without(name, swept, values):
    cases = EXPERIMENTS[name].cases([])
    points = [(case.parameters.law, getattr(case.parameters, swept) if swept else None) for case in cases]
    assert points == [(law, value) for value in values for law in ("none", "seawall")]
    assert len({case.label for case in cases}) == len(cases)
    # On hypervisors of their own, so that no uplink's share divides the link.
    assert all(case.parameters.hypervisor(0) != case.parameters.hypervisor(1) for case in cases)


def test_many_dsts_has_both_vms_on_one_server_and_each_sink_on_another_as_the_paper_has():
    cases = EXPERIMENTS["many-dsts"].cases([])
    assert [(case.parameters.law, case.parameters.destinations) for case in cases] == [
        (law, count) for _ in range(2) for count in (1, 8, 32) for law in ("none", "seawall")]
    assert len({case.label for case in cases}) == len(cases)
    # In racks each receiver has a hypervisor of its own.
    assert [(case.parameters.topology, case.parameters.hypervisor(0) == case.parameters.hypervisor(1))
            for case in cases] == [("racks", True)] * 6 + [("dumbbell", False)] * 6
    assert all(case.parameters.receivers == case.parameters.destinations + 1 for case in cases[:6])
    assert {tuple(case.parameters.receivers_of(0)) for case in cases[:6]} == {(0,)}
    assert not any(0 in case.parameters.receivers_of(1) for case in cases[:6])


def test_what_the_user_sets_stays():
    cases = EXPERIMENTS["many-dsts"].cases(["law=eyeq", "destinations=5", "link_mbps=100", "topology=dumbbell"])
    assert [(case.parameters.law, case.parameters.destinations, case.parameters.receivers, case.parameters.link_mbps)
            for case in cases] == [("eyeq", 5, 5, 100)]
    with pytest.raises(ParameterError):
        EXPERIMENTS["many-dsts"].cases(["destinations=x"])


@pytest.mark.parametrize("name, part, holds", [
    ("udp-flood", 0.45, True), ("udp-flood", 0.449, False), ("udp-flood", 0.7, True), ("many-flows", 0.45, True),
    ("many-flows", 0.44, False), ("many-flows", 0.56, False), ("many-dsts", 0.55, True), ("many-dsts", 0.56, False)])
def test_the_victim_is_judged_under_a_law_only(name, part, holds):
    experiment = EXPERIMENTS[name]
    verdicts = experiment.judge([result(case, part) for case in experiment.cases([])])
    assert all(verdict.holds for verdict in verdicts[::2])
    assert all(verdict.holds == holds for verdict in verdicts[1::2])


def weights_run(settings, vm1, late=0.0):
    """Return a run of weights with those parts of VM 1 by epoch, which come late seconds after each change."""
    case = EXPERIMENTS["weights"].cases(settings)[0]
    starts = [start for start, _ in epochs(case.parameters)]
    part = [vm1[max(k for k, start in enumerate(starts) if k == 0 or number / 10 >= start + late)]
            for number in range(round(case.parameters.duration_s * 10))]
    return case, result(case, 0, goodput_mbps={"vm1": [900 * one for one in part],
                                               "vm2": [900 * (1 - one) for one in part]})


def test_weights_must_show_within_a_second():
    parts = (1 / 2, 1 / 4, 4 / 5, 1 / 2)
    judge = EXPERIMENTS["weights"].judge
    case, run = weights_run([], parts)
    assert all(verdict.holds for verdict in judge([run])) and len(judge([run])) == 8
    assert all(verdict.holds for verdict in judge([weights_run([], parts, late=0.9)[1]]))
    assert not all(verdict.holds for verdict in judge([weights_run([], parts, late=2.0)[1]]))
    assert not all(verdict.holds for verdict in judge([weights_run([], (1 / 2, 0.3, 4 / 5, 1 / 2))[1]]))
    assert [program.start_s for program in case.workload.programs] == [4, 8, 12]
    assert case.workload.programs[0].argv == (
        "ovs-vsctl", "--", "set", "Interface", "hv1-vm1", "other_config:shim-weight=1",
        "--", "set", "Interface", "hv2-vm2", "other_config:shim-weight=3")


def test_weights_without_a_shim_are_only_measured():
    case, run = weights_run(["law=none"], (1 / 2,) * 4)
    assert not case.workload.programs and all(verdict.holds for verdict in EXPERIMENTS["weights"].judge([run]))


def one_class(number, tcp, rest, use):
    """Return a run of classes in which the TCP and the rival have those rates, Mb/s, and the link that use."""
    case = next(one for one in EXPERIMENTS["classes"].cases([]) if one.label == f"class={number}")
    rates = {"vm1": tcp, "vm2": rest}
    return case.label, {
        "parameters": case.parameters.model_dump(mode="json"),
        "phases": [{"name": "all", "start_s": 1.0, "end_s": 16.0, "settled_start_s": 3.0,
                    "settled_goodput_mbps": rates, "settled_utilisation": use}],
        "series": {"goodput_mbps": {vm: [rate] * 160 for vm, rate in rates.items()}}}


@pytest.mark.parametrize("runs, failing", [
    (((1, 100, 800, 0.9), (2, 410, 420, 0.87), (3, 450, 450, 0.94)), []),
    (((1, 200, 700, 0.9), (2, 410, 420, 0.87), (3, 450, 450, 0.94)), ["class 1"]),
    (((1, 100, 800, 0.9), (2, 300, 530, 0.87), (3, 450, 450, 0.94)), ["class 2"]),
    (((1, 100, 800, 0.9), (2, 410, 420, 0.95), (3, 350, 550, 0.94)), ["class 3", "class 3 / class 2"]),
    (((2, 410, 420, 0.87), (3, 300, 600, 0.94)), ["class 3", "until fair, class 3"])])
def test_classes_are_judged_by_parts_and_use(runs, failing):
    verdicts = EXPERIMENTS["classes"].judge([one_class(*one) for one in runs])
    failed = [verdict.name for verdict in verdicts if not verdict.holds]
    assert len(failed) == len(failing) and all(part in name for part, name in zip(failing, failed)), failed
    assert [case.parameters.knobs["class"] for case in EXPERIMENTS["classes"].cases(["link_mbps=100"])] == [1, 2, 3]


@pytest.mark.parametrize("mbps, holds", [(930.0, True), (920.0, False)])
def test_the_line_rate_is_judged_beside_the_one_without_a_shim(mbps, holds):
    runs = [(case.label, {"parameters": case.parameters.model_dump(mode="json"),
                          "phases": [{"name": "all", "goodput_mbps": {"vm1": got}}]})
            for case, got in zip(EXPERIMENTS["line-rate"].cases([]), (956.0, mbps))]
    assert [verdict.holds for verdict in EXPERIMENTS["line-rate"].judge(runs)] == [True, True, holds]


def schedule_runs(tmp_path, *ends):
    """Return schedule's runs in which maps and the reduce end at those units of time; None: the reduce does not."""
    experiment, runs = EXPERIMENTS["schedule"], []
    for case, (of_maps, of_reduce) in zip(experiment.cases([]), ends):
        flows = case.work(1).flows
        (tmp_path / "job.json").write_text(json.dumps({"flows": flows}))
        for flow in flows:
            end = of_reduce if flow["name"] == "reduce" else of_maps
            took_ns = -1 if end is None else round((end * schedule.UNIT_S - flow["start_s"]) * 1e9)
            (tmp_path / f"requests-{flow['port']}.txt").write_text(f"due_ns size took_ns\n5 {flow['size']} {took_ns}\n")
        label, run = result(case, 0)
        runs.append((label, {**run, "measured": experiment.measure(tmp_path, run)}))
    return runs


@pytest.mark.parametrize("ends, failing", [
    (((15, 15), (6, 15), (6.4, 15.9), (15, 15)), []), (((15, 15), (6, 15), (7.0, 15.9), (15, 15)), ["last map"]),
    (((15, 15), (6, 15), (6.4, 17.5), (15, 15)), ["reduce"]),
    (((12, 12), (6, 15), (6.4, 15.9), (15, 15)), ["activity"]),
    (((15, 15), (6, 15), (6.4, None), (15, 15)), ["reduce", "activity"])])
def test_schedule_is_judged_where_weights_go_by_fan_in(tmp_path, ends, failing):
    runs = schedule_runs(tmp_path, *ends)
    failed = [verdict.name for verdict in EXPERIMENTS["schedule"].judge(runs) if not verdict.holds]
    assert len(failed) == len(failing) and all(name.startswith(part) for part, name in zip(failing, failed))
    # Times are from the start of the run, also those of what begins later.
    assert runs[1][1]["measured"]["end"] == {**{f"map{number}": 6 for number in range(1, 6)}, "reduce": 15}
    assert runs[2][1]["measured"]["unfinished"] == (schedule.FAN_IN if ends[2][1] is None else 0)


def test_schedule_gives_maps_the_weight_of_the_reduces_fan_in():
    cases = {case.label: case for case in EXPERIMENTS["schedule"].cases(["link_mbps=100"])}
    fair = cases["law=seawall, weights by fan-in"].parameters
    assert [fair.weight(index) for index in range(15)] == [10] * 5 + [1] * 10
    assert sum(flow["size"] for flow in cases["law=none"].work(1).flows) == pytest.approx(
        15 * schedule.UNIT_S * 100e6 / 8 * TCP_PAYLOAD, rel=1e-6)
    starts = [flow["start_s"] for flow in cases["law=none, shortest first"].work(1).flows]
    assert starts == [round(min(number, 5) * schedule.UNIT_S, 6) for number in range(15)]


def web_runs(tmp_path, **measured):
    """Return web's runs in which wrk reported those mean, median and p99 latencies, us, and rates, Mb/s."""
    runs = []
    for case in EXPERIMENTS["web"].cases([]):
        mean_us, mbps, p50_us, p99_us = measured.get(NAMES[case.label], GOOD[case.label])
        (tmp_path / "program-wrk.log").write_text("Running 4s test\nRESULT " + json.dumps({
            "requests": 100, "bytes": round(mbps * 1e6 / 8), "us": 10**6, "errors": 0, "mean_us": mean_us, "sd_us": 1,
            "p50_us": p50_us, "p99_us": p99_us}) + "\n")
        label, run = result(case, 0)
        runs.append((label, {**run, "measured": EXPERIMENTS["web"].measure(tmp_path, run)}))
    return runs


#: Runs of web in which all holds, and what the tests call them.
GOOD = {"no flood": (300, 250, 160, 4000), "law=none": (1000, 200, 300, 90_000), "law=seawall": (500, 200, 300, 4000),
        "law=seawall, ahead": (500, 200, 200, 4000), "law=maxmin": (500, 200, 900, 90_000),
        "law=maxmin, ahead": (500, 200, 200, 8000), "full rate, law=none": (90_000, 20, 90_000, 90_000),
        "full rate, law=seawall": (370, 240, 300, 4000)}
NAMES = {"no flood": "alone", "law=none": "bare", "law=seawall": "seawall", "law=seawall, ahead": "seawall_ahead",
         "law=maxmin": "maxmin", "law=maxmin, ahead": "maxmin_ahead", "full rate, law=none": "full_bare",
         "full rate, law=seawall": "full_seawall"}


@pytest.mark.parametrize("changed, failing", [
    ({}, []), ({"seawall": (610, 200, 300, 4000)}, ["mean latency, law=seawall / unprotected"]),
    ({"seawall": (500, 180, 300, 4000)}, ["throughput, law=seawall / unprotected"]),
    ({"seawall": (500, 200, 301, 4000)}, ["median latency, law=seawall / unprotected"]),
    ({"maxmin_ahead": (500, 200, 201, 8000)}, ["p50, law=maxmin, ahead / no flood"]),
    ({"maxmin_ahead": (500, 200, 200, 8001)}, ["p99, law=maxmin, ahead / no flood"]),
    ({"full_bare": (90_000, 26, 90_000, 90_000)}, ["throughput, full rate, law=none / no flood"]),
    ({"full_seawall": (376, 240, 300, 4000)}, ["mean latency, full rate, law=seawall / no flood"]),
    ({"full_seawall": (370, 230, 300, 4000)}, ["throughput, full rate, law=seawall / no flood"])])
def test_web_compares_latency_and_throughput(tmp_path, changed, failing):
    verdicts = EXPERIMENTS["web"].judge(web_runs(tmp_path, **changed))
    assert [verdict.name for verdict in verdicts if not verdict.holds] == failing


def test_web_needs_wrks_report(tmp_path):
    (tmp_path / "program-wrk.log").write_text("unable to connect\n")
    with pytest.raises(ValueError, match="wrk"):
        EXPERIMENTS["web"].measure(tmp_path, {})


def test_web_shows_maxmin_with_and_without_what_goes_ahead():
    cases = {case.label: case.parameters.ahead for case in EXPERIMENTS["web"].cases(["horizon_us=5000"])}
    assert cases == {label: label.endswith("ahead") for label in GOOD}
    assert [case.label for case in EXPERIMENTS["web"].cases(["law=maxmin", "ahead=true"])] == [
        "no flood", "law=maxmin, ahead", "full rate, law=maxmin, ahead"]


def test_web_floods_only_where_it_says():
    cases = EXPERIMENTS["web"].cases(["law=none", "udp_mbps=500"])
    assert [(case.label, [flow["rate_bps"] for flow in case.work(1).flows]) for case in cases] == [
        ("no flood", []), ("law=none", [500_000_000])]
    rates = {case.label: [flow["rate_bps"] for flow in case.work(1).flows] for case in EXPERIMENTS["web"].cases([])}
    assert rates == {label: [] if label == "no flood" else [10**9 if label.startswith("full") else 7 * 10**8]
                     for label in GOOD}
