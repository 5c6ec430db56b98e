# SPDX-License-Identifier: Apache-2.0
"""Experiment tournament: traces, the work it makes, what it counts out of made samples, and verdicts that fail."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.own import tournament
from sdngcc.experiments.own.traces import TRACES, classes, draw
from sdngcc.shim import knobs
from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.runner import make_job
from sdngcc.testbed.workload import Workload

from .test_experiments import run_of
from .test_parameters import ARTIFACTS


@pytest.mark.parametrize("trace", TRACES.values(), ids=lambda trace: trace.name)
def test_a_trace_is_a_distribution(trace):
    sizes, parts = zip(*trace.points)
    assert list(sizes) == sorted(set(sizes)) and list(parts) == sorted(set(parts)) and (parts[0], parts[-1]) == (0, 1)
    assert trace.size(0) == sizes[0] and trace.size(1) == sizes[-1] and trace.source
    for (low, before), (high, after) in zip(trace.points, trace.points[1:]):
        assert trace.size(after) == pytest.approx(high)
        assert trace.size((before + after) / 2) == pytest.approx((low + high) / 2)


@pytest.mark.parametrize("trace", TRACES.values(), ids=lambda trace: trace.name)
@pytest.mark.parametrize("mbps, length_s, scale, most", [(50, 2, 0.1, 3e6), (500, 2, 1, 3e7), (20, 10, 0.01, 1e9)])
def test_a_schedule_brings_what_it_should(trace, mbps, length_s, scale, most):
    flows = draw(trace, 3, "vm1", mbps, length_s, scale, most)
    # Few quantiles stand for their parts of the distribution roughly.
    assert sum(size for _, size in flows) * 8 / 1e6 == pytest.approx(mbps * length_s, rel=0.2)
    assert all(0 <= at <= length_s * 1e9 and 1 <= size <= most for at, size in flows) and flows == sorted(flows)
    assert flows == draw(trace, 3, "vm1", mbps, length_s, scale, most)
    assert flows != draw(trace, 3, "vm2", mbps, length_s, scale, most)
    assert flows != draw(trace, 4, "vm1", mbps, length_s, scale, most)
    Workload().scheduled("vm1", "rx1", 0, length_s, flows)


def test_classes_are_up_to_their_bounds():
    assert classes([1, 100, 101, 1000, 1001], [100, 1000]) == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("schedule", [[], [(5, 1), (4, 1)], [(-1, 1)], [(0, 0)]])
def test_bad_schedules_are_refused(schedule):
    with pytest.raises(ValueError, match="schedule of vm1"):
        Workload().scheduled("vm1", "rx1", 0, 1, schedule)


def test_a_run_alone_and_one_of_every_law_for_each_load():
    names = ["alone", "none", *(law.name for law in knobs.laws())]
    assert [case.label for case in EXPERIMENTS["tournament"].cases(["load=30,60"])] == [
        f"{name}, load {load}%" for load in (30, 60) for name in names]
    bare, own = EXPERIMENTS["tournament"].cases(["law=eyeq", "knob.ecn=1"])
    assert (bare.label, bare.parameters.law, own.label) == ("alone, load 60%", "none", "eyeq, load 60%")
    assert bare.parameters.phases == (0, 7.5, 0) and own.parameters.knobs == {"ecn": 1}


def flows_of(case, name):
    return [flow for flow in case.work(1).flows if flow.get("name") == name]


def test_flows_are_the_same_alone_and_beside_the_others():
    bare, own = EXPERIMENTS["tournament"].cases(["law=maxmin", "senders=9", "weights=1,2", "load=80"])
    for number, name in enumerate(TRACES):
        alone, beside = flows_of(bare, name), flows_of(own, name)
        assert [(flow["vm"], flow["to"], flow["schedule"]) for flow in alone] == [
            (flow["vm"], flow["to"], flow["schedule"]) for flow in beside]
        assert {flow["start_s"] for flow in alone} == {2.5 * number} and {flow["start_s"] for flow in beside} == {0.5}
        assert {flow["vm"] for flow in beside} == {f"vm{index + 1}" for index in range(number, 9, 4)}
    # 4 of 13 shares of weight 2 and 5 of weight 1; 80% of that in the 2 s in which flows begin.
    vm2, = flows_of(own, "data mining")[:1]
    assert sum(size for _, size in vm2["schedule"]) * 8 / 2e6 == pytest.approx(0.8 * 1000 * 2 / 13 * 0.942, rel=0.15)


def test_the_fourth_tenant_blasts_opens_many_connections_and_fans_out():
    _, own = EXPERIMENTS["tournament"].cases(["law=none", "senders=16", "flows=9", "receivers=7", "destinations=5"])
    rivals = {vm: [flow for flow in own.work(1).flows if flow["vm"] == vm] for vm in ("vm4", "vm8", "vm12", "vm16")}
    assert [flow["rate_bps"] for flow in rivals["vm4"]] == [10**9] == [flow["rate_bps"] for flow in rivals["vm16"]]
    assert [(flow["count"], flow["proto"]) for flow in rivals["vm8"]] == [(9, "tcp")]
    assert len({flow["to"] for flow in rivals["vm12"]}) == len(rivals["vm12"]) == 5
    assert all(flow["start_s"] == 0 and flow["stop_s"] == 3 for flows in rivals.values() for flow in flows)


@pytest.mark.parametrize("settings, word", [
    (["senders=3"], "senders=4"), (["topology=racks"], "dumbbell or star"), (["phases=1,1,1"], "end with 0"),
    (["tagged=udp"], "TCP"), (["competitor=tcp,udp"], "TCP"), (["load=0"], "load"), (["destinations=31"], "receivers")])
def test_what_it_is_not_about_is_refused(settings, word):
    with pytest.raises(ParameterError, match=word):
        EXPERIMENTS["tournament"].cases(["law=none", *settings])


def leave(folder, case, took_us, lost=()):
    """Leave what a machine would whose flows all took so long by size; those due at the times in lost did not end."""
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(make_job(case.parameters, ARTIFACTS, 1, case.work(1))))
    (folder / "meta.json").write_text(json.dumps({"start_s": 7.0}))
    for flow in case.work(1).flows:
        if "schedule" in flow:
            start = round((7 + flow["start_s"]) * 1e9)
            lines = [f"{start + due} {size} {-1 if due in lost else round(took_us(size) * 1000)}"
                     for due, size in flow["schedule"]]
            (folder / f"requests-{flow['port']}.txt").write_text("\n".join(["due_ns size took_ns", *lines, ""]))


def run_for(case, folder):
    run = {**run_of(**case.parameters.model_dump()), "notifications": {"sent": 300}}
    run["measured"] = tournament.measure(folder, run)
    return run


@pytest.fixture
def pair(tmp_path):
    """Return (label, run) alone and under maxmin, where small flows take twice as long and a large one does not end."""
    bare, own = EXPERIMENTS["tournament"].cases(["law=maxmin"])
    large = max(flows_of(own, "web search")[0]["schedule"], key=lambda one: one[1])
    leave(tmp_path / "alone", bare, lambda size: 100 + size / 10)
    leave(tmp_path / "own", own, lambda size: (200 if size <= 10_000 else 100) + size / 10, {large[0]})
    return [(bare.label, run_for(bare, tmp_path / "alone")), (own.label, run_for(own, tmp_path / "own"))]


def test_flows_are_compared_by_class(pair):
    alone, own = (run["measured"]["tenants"] for _, run in pair)
    assert alone["hadoop"]["flows"] == own["hadoop"]["ended"] == 2931
    assert own["web search"]["ended"] == own["web search"]["flows"] - 1
    kinds = alone["hadoop"]["classes"]
    assert sum(kind["flows"] for kind in kinds.values()) == 2931 and kinds["large"]["flows"] == 72
    assert 100 < kinds["small"]["p50_us"] < kinds["middle"]["p50_us"] < kinds["large"]["p99_us"]
    row, = tournament.rows(pair).values()
    assert 1.2 < row["p50 small"] < 2 and row["p50 middle"] == 1 and row["p99 large"] is not None
    assert 0.9 < row["throughput"] < 1 and row["control, kB/s"] == 13.0
    assert list(row["rivals, Mb/s"]) == ["vm4", "vm8", "vm12"]


def test_a_class_of_few_flows_has_no_percentiles(tmp_path):
    bare, _ = EXPERIMENTS["tournament"].cases(["law=none", "phases=0,0.1,0", "senders=4"])
    leave(tmp_path / "alone", bare, lambda size: 100.0)
    found = run_for(bare, tmp_path / "alone")["measured"]["tenants"]["data mining"]["classes"]
    assert 0 < found["large"]["flows"] < 10 and found["large"]["p50_us"] is None is found["large"]["p99_us"]
    assert found["small"]["flows"] >= 10 and found["small"]["p50_us"] == 100


def test_a_flow_that_never_began_waited_too(pair, tmp_path):
    path = next(iter(sorted((tmp_path / "own").glob("requests-*.txt"))))
    path.write_text(path.read_text().splitlines()[0] + "\n")
    case = EXPERIMENTS["tournament"].cases(["law=maxmin"])[1]
    found = run_for(case, tmp_path / "own")["measured"]["tenants"]["web search"]
    assert found["flows"] - found["ended"] == 69
    # Due in the first 2 of 2.5 s, they waited for half a second at least.
    assert found["classes"]["small"]["p99_us"] > 500_000


def test_our_law_is_judged_against_the_best(pair):
    judge = EXPERIMENTS["tournament"].judge
    assert [one.expected for one in judge(pair)] == ["as measured"]
    (_, bare), (_, run) = pair
    better = json.loads(json.dumps(run))
    better["queue"]["bytes_p99"] = 1000
    three = [*pair, ("eyeq, load 60%", better), ("none, load 60%", better)]
    assert [one.name for one in judge(three) if not one.holds] == ["maxmin, load 60%: queue p99, kB"]
    three[-2] = ("eyeq, load 60%", run)
    assert all(one.holds for one in judge(three)) and len(judge(three)) == 3 + 9
