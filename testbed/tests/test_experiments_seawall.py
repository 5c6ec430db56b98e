# SPDX-License-Identifier: Apache-2.0
"""Seawall's experiments make the runs they say, and their verdicts fail when the numbers do."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import TCP_PAYLOAD
from sdngcc.experiments.seawall.weights import epochs
from sdngcc.testbed.parameters import ParameterError


def result(case, part, **series):
    """Return a run of a case in which the tagged VM got a part of the link."""
    mbps = part * case.parameters.link_mbps * TCP_PAYLOAD
    return case.label, {
        "parameters": case.parameters.model_dump(mode="json"),
        "phases": [{"name": "all", "settled_goodput_mbps": {"vm1": mbps}}], "series": series}


@pytest.mark.parametrize("name, swept, values", [
    ("udp-flood", None, [None]), ("many-flows", "flows", [1, 2, 66]), ("many-dsts", "destinations", [1, 8, 32])])
def test_each_point_is_run_with_the_law_and_without(name, swept, values):
    cases = EXPERIMENTS[name].cases([])
    points = [(case.parameters.law, getattr(case.parameters, swept) if swept else None) for case in cases]
    assert points == [(law, value) for value in values for law in ("none", "seawall")]
    assert len({case.label for case in cases}) == len(cases)
    # On hypervisors of their own, so that no uplink's share divides the link.
    assert all(case.parameters.hypervisor(0) != case.parameters.hypervisor(1) for case in cases)


def test_what_the_user_sets_stays():
    cases = EXPERIMENTS["many-dsts"].cases(["law=eyeq", "destinations=5", "link_mbps=100"])
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


def web_runs(tmp_path, *measured):
    """Return web's runs in which wrk reported those mean latencies and rates, and p50 and p99 (1 us if not given)."""
    runs = []
    for case, (mean_us, mbps, p50_us, p99_us) in zip(EXPERIMENTS["web"].cases([]),
                                                     [(*one, 1, 1)[:4] for one in measured]):
        (tmp_path / "program-wrk.log").write_text("Running 4s test\nRESULT " + json.dumps({
            "requests": 100, "bytes": round(mbps * 1e6 / 8), "us": 10**6, "errors": 0, "mean_us": mean_us, "sd_us": 1,
            "p50_us": p50_us, "p99_us": p99_us}) + "\n")
        label, run = result(case, 0)
        runs.append((label, {**run, "measured": EXPERIMENTS["web"].measure(tmp_path, run)}))
    return runs


@pytest.mark.parametrize("measured, holds", [
    (((300, 250), (1000, 200), (600, 200)), True), (((300, 250), (1000, 200), (610, 200)), False),
    (((300, 250), (1000, 200), (500, 180)), False)])
def test_web_compares_latency_and_throughput(tmp_path, measured, holds):
    verdicts = EXPERIMENTS["web"].judge(web_runs(tmp_path, *measured))
    assert len(verdicts) == 5 and all(verdict.holds for verdict in verdicts) == holds


@pytest.mark.parametrize("p50_us, p99_us, holds", [(200, 8000, True), (201, 8000, False), (200, 8001, False)])
def test_web_holds_maxmin_to_latencies_without_the_flood(tmp_path, p50_us, p99_us, holds):
    measured = ((300, 250, 160, 4000), (1000, 200, 900, 90_000), (500, 200, 900, 90_000), (500, 200, 900, 90_000),
                (500, 200, p50_us, p99_us))
    verdicts = EXPERIMENTS["web"].judge(web_runs(tmp_path, *measured))
    assert len(verdicts) == 13 and all(verdict.holds for verdict in verdicts) == holds


def test_web_needs_wrks_report(tmp_path):
    (tmp_path / "program-wrk.log").write_text("unable to connect\n")
    with pytest.raises(ValueError, match="wrk"):
        EXPERIMENTS["web"].measure(tmp_path, {})


def test_web_shows_maxmin_with_and_without_what_goes_ahead():
    cases = {case.label: case.parameters.ahead for case in EXPERIMENTS["web"].cases(["horizon_us=5000"])}
    assert cases == {"no flood": False, "law=none": False, "law=seawall": False, "law=maxmin": False,
                     "law=maxmin, ahead": True}
    assert [case.label for case in EXPERIMENTS["web"].cases(["law=maxmin", "ahead=true"])] == [
        "no flood", "law=maxmin, ahead"]


def test_web_floods_only_where_it_says():
    cases = EXPERIMENTS["web"].cases(["law=none", "udp_mbps=500"])
    assert [(case.label, [flow["rate_bps"] for flow in case.work(1).flows]) for case in cases] == [
        ("no flood", []), ("law=none", [500_000_000])]
