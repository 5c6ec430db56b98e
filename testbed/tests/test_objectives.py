# SPDX-License-Identifier: Apache-2.0
"""The schedules of SCC's experiments, what is made of arrivals, and the experiments' cases."""

from dataclasses import replace
from pathlib import Path
from typing import Any, List, Tuple

import pytest

from sdngcc.experiments.scc import divisions, divisions_load, interference, sharing
from sdngcc.experiments.scc.objectives import DEADLINE_MS, FLOW_BYTES, TAIL_S, Group, draw, summarise
from sdngcc.testbed.parameters import ParameterError, make_parameters
from sdngcc.testbed.runner import make_job

from .test_parameters import ARTIFACTS

MS = 10**6


@pytest.mark.parametrize("objective", ["ds", "cs", "ls"])
def test_schedules_repeat_and_carry_their_load(objective: str) -> None:
    group = Group("g", objective, ("vm1", "vm2"), 400)
    flows = draw(group, "vm1", 20.0, 3)
    assert flows == draw(group, "vm1", 20.0, 3) != draw(group, "vm2", 20.0, 3)
    assert flows != draw(group, "vm1", 20.0, 4)
    assert sum(size for _, size, _ in flows) * 8 / (20 - TAIL_S) == pytest.approx(200e6, rel=0.05)
    assert flows == sorted(flows) and flows[-1][0] < (20 - TAIL_S) * 1e9
    if objective != "ls":
        assert all(FLOW_BYTES[0] <= size <= FLOW_BYTES[1] for _, size, _ in flows)
    low, high = (bound * MS for bound in DEADLINE_MS)
    assert all(low <= deadline <= high if objective == "ds" else not deadline for *_, deadline in flows)


def test_a_flow_that_never_arrived_counts_until_the_end_and_missed() -> None:
    flows = [(0, 1000, 5 * MS), (0, 1000, 5 * MS), (0, 1000, 5 * MS)]
    found = summarise(flows, {0: 4 * MS, 1: 6 * MS}, 20 * MS)
    first_half = summarise([(0, 125_000, 0)] * 2, {0: 900 * MS, 1: 1100 * MS}, 1500 * MS)
    assert first_half["mbps"] == 1.0 and first_half["unfinished"] == 0
    assert found["unfinished"] == 1 and found["mean_ms"] == 10.0 and found["missed"] == pytest.approx(2 / 3, abs=1e-4)
    assert summarise([(0, 1000, 0)], {0: MS}, 20 * MS)["missed"] is None


def test_alone_a_division_has_half_of_the_link_behind_a_whole_uplink_and_its_own_protocol() -> None:
    cases = {case.label: case for case in interference.cases([])}
    alone, both = cases["DS alone, load 80%"], cases["DS and CS, load 80%"]
    assert (alone.parameters.link_mbps, alone.parameters.uplink_mbps) == (500, 1000)
    assert (both.parameters.link_mbps, both.parameters.uplink_mbps) == (1000, None)
    used = {program.name: program.argv[program.argv.index("--cc") + 1] for program in both.work(1).programs}
    assert used == {"arrivals-vm1": "dctcp", "workload-vm1": "d2tcp", "arrivals-vm2": "dctcp", "workload-vm2": "l2dct"}
    with pytest.raises(ParameterError, match="uplink_mbps needs .* law=none; they are dumbbell, scc"):
        interference.cases(["law=scc"])


def test_every_scenario_runs_in_each_order_with_the_same_flows_and_protocols_with_and_without_the_law() -> None:
    cases = {case.label: case for case in divisions.cases([])}
    for scenario, *_ in divisions.SCENARIOS:
        for order in divisions.ORDERS[:1] if scenario == divisions.ALONE else divisions.ORDERS:
            bare, own = (cases[f"{scenario}, law={law}, {order}"].work(1).programs for law in ("none", "scc"))
            sends = [{program.name: program for program in programs if "workload" in program.argv}
                     for programs in (bare, own)]
            assert list(sends[0]) == list(sends[1])
            for one, other in zip(sends[0].values(), sends[1].values()):
                registers = order == "ordered"
                assert one.files == other.files and one.argv == other.argv[:-2 if registers else None]
                assert (other.argv[-2] == "--register") == registers
                plain = order == "unordered" or "--connections" in one.argv
                assert ("--order" in one.argv) != plain and one.argv[one.argv.index("--cc") + 1] != "cubic"
    used = {program.argv[program.argv.index("--cc") + 1]
            for program in cases["DS, CS and LS, law=scc, ordered"].work(1).programs if "workload" in program.argv}
    assert used == {"d2tcp", "l2dct", "dctcp"}


def test_the_law_runs_without_its_floor_where_that_is_felt_and_where_more_is_brought_than_is_due() -> None:
    off = {case.label: case for case in divisions.cases([]) if case.parameters.knobs == {"due-ppm": 0}}
    assert list(off) == ["DS and CS, law=scc due-ppm=0, unordered", "DS, CS and LS, law=scc due-ppm=0, unordered",
                         "two DS tenants, law=scc due-ppm=0, ordered"]
    more = []
    for case, (_, objectives, percent, _) in zip(off.values(), (divisions.SCENARIOS[at] for at in (1, 2, 4))):
        groups = divisions.groups_of(case.parameters, objectives, percent)
        whole = sum(group.weight for group in groups)
        more.append(any(group.mbps > 0.95 * 1000 * group.weight / whole for group in groups))
    assert more == [False, True, True]
    assert not [case for case in divisions.cases(["law=seawall"]) if case.parameters.knobs]


def test_divisions_and_weights_are_parameters() -> None:
    cases = divisions.cases(["senders=4", "divisions=1,1,2,2", "weights=5,5,1,1", "law=scc"])
    groups = divisions.groups_of(cases[0].parameters, ("ds", "cs"), 40)
    assert [(group.vms, group.weight, group.mbps) for group in groups] == [
        (("vm1", "vm2"), 5, 400.0), (("vm3", "vm4"), 1, 400.0)]


def test_loads_are_percent_of_half_of_the_link_and_a_parameter() -> None:
    cases = {case.label: case for case in divisions_load.cases(["load=50", "phases=0,2.5,0"])}
    assert list(cases) == [f"load 50%, law={law}, {order}" for order in divisions.ORDERS for law in ("none", "scc")]
    assert brought_mbps(cases["load 50%, law=none, ordered"]) == [pytest.approx(250, rel=0.15)] * 2
    # The high load is a run of divisions, so that it need not be run twice.
    same = next(case for case in divisions.cases([]) if case.label == "DS and CS, law=scc, ordered")
    again = {case.label: case for case in divisions_load.cases([])}["load 80%, law=scc, ordered"]
    assert again.parameters == same.parameters and again.work(1).as_dict() == same.work(1).as_dict()


def flows_of(missed: float, mean_ms: float) -> dict:
    return {"mean_ms": mean_ms, "p99_ms": 9.0, "missed": missed, "unfinished": 0, "mbps": 400.0}


@pytest.mark.parametrize("order, misses, mean_ms, wrong", [
    ("unordered", 0.05, 8.2, []), ("unordered", 0.06, 8.2, ["DS misses"]), ("unordered", 0.05, 8.4, ["CS mean"]),
    ("ordered", 0.1, 10.0, []), ("ordered", 0.11, 10.0, ["DS misses"]), ("ordered", 0.1, 10.1, ["CS mean"])])
def test_the_law_is_judged_against_the_same_order_without_it(order, misses, mean_ms, wrong) -> None:
    runs = [(f"DS and CS, law={law}, {own}", {"measured": {"rx1": flows_of(*values), "rx2": flows_of(*values)}})
            for own in divisions.ORDERS for law, values in (
                ("none", (0.1, 10.0) if own == order else (9.0, 90.0)),
                ("scc", (misses, mean_ms) if own == order else (0.0, 1.0)))]
    assert [one.name[:len(word)] for one, word in zip(
        [one for one in divisions.judge(runs) if not one.holds], wrong)] == wrong
    assert sum(not one.holds for one in divisions.judge(runs)) == len(wrong)


@pytest.mark.parametrize("load, order, misses, mean_ms, wrong", [
    (80, "unordered", 0.025, 2.0, []), (80, "unordered", 0.026, 2.0, ["DS misses"]),
    (80, "unordered", 0.025, 2.1, ["CS mean"]), (50, "unordered", 0.11, 10.5, []),
    (50, "unordered", 0.111, 10.0, ["DS misses"]), (50, "unordered", 0.1, 10.6, ["CS mean"]),
    (80, "ordered", 0.02, 2.1, []), (80, "ordered", 0.021, 1.9, ["DS misses"]),
    (80, "ordered", 0.02, 2.2, ["CS mean"])])
def test_by_load_the_law_is_judged_by_the_paper_at_the_high_load_and_the_order_against_none(
        load, order, misses, mean_ms, wrong) -> None:
    values = {("none", "unordered"): (0.1, 10.0), ("none", "ordered"): (0.1, 10.0), ("scc", "unordered"): (0.02, 2.0),
              ("scc", "ordered"): (0.01, 1.0), ("scc", order): (misses, mean_ms)}
    runs = [(f"load {load}%, law={law}, {own}", {"measured": {"rx1": flows_of(*one), "rx2": flows_of(*one)}})
            for (law, own), one in values.items() if own in ("unordered", order)]
    failed = [one.name for one in divisions_load.judge(runs) if not one.holds]
    assert [name[:len(word)] for name, word in zip(failed, wrong)] == wrong and len(failed) == len(wrong)


def test_what_a_simulators_tcp_has_is_set_in_every_vm() -> None:
    parameters = make_parameters({"law": "none", "senders": 1, "phases": (0, 1, 0), "handshake": "early",
                                  "initial_window": 2, "rto_min_ms": 10})
    work = interference.workload(parameters, [Group("ds", "ds", ("vm1",), 100.0)], 1, ordered=False)
    by_name = {program.name: program for program in work.programs}
    assert by_name["route-vm1-rx1"].argv == ("ip", "route", "add", "{ip:rx1}/32", "dev", "vm1-eth0", "initcwnd", "2",
                                             "rto_min", "10ms")
    assert by_name["route-rx1-vm1"].argv[-2:] == ("quickack", "1") and by_name["route-rx1-vm1"].vm == "rx1"
    assert "--early" in by_name["workload-vm1"].argv
    plain = interference.workload(make_parameters({"law": "none"}), [Group("ds", "ds", ("vm1",), 9.0)], 1, False)
    assert [program.name for program in plain.programs] == ["arrivals-vm1", "workload-vm1"]
    assert not any("--early" in program.argv for program in plain.programs)


def test_as_simulated_runs_are_not_repeated_where_the_user_asks_for_one_of_their_settings() -> None:
    labels = [case.label for case in interference.cases([])]
    asked = interference.cases(["rto_min_ms=5"])
    assert [label for label in labels if not label.endswith(interference.AS_SIMULATED)] == [
        case.label for case in asked]
    assert {case.parameters.rto_min_ms for case in asked} == {5}


def test_the_laboratorys_congestion_controls_are_loaded_where_they_are_used_only() -> None:
    artifacts = replace(ARTIFACTS, modules=["/k/openvswitch.ko"], congestion=Path("/k/congestion.ko"))
    for experiment in (interference, divisions, divisions_load):
        for case in experiment.cases([]):
            more = [] if case.label.startswith(divisions.STEADY) else ["/k/congestion.ko"]
            assert make_job(case.parameters, artifacts, 1, case.work(1))["modules"] == ["/k/openvswitch.ko", *more]


def brought_mbps(case) -> list:
    """Return what each program of a run brings in the mean, Mb/s."""
    schedules = [text for program in case.work(3).programs for text in program.files.values()]
    return [sum(int(line.split()[1]) for line in text.splitlines()) * 8 / 2e6 for text in schedules]


def test_read_as_percent_of_the_shared_link_each_division_brings_as_much_as_it_says() -> None:
    cases = {case.label: case for case in interference.cases([])}
    assert brought_mbps(cases["DS alone, load 45%"]) == [pytest.approx(225, rel=0.15)]
    assert brought_mbps(cases["DS and CS, each of the shared link, load 45%"]) == [pytest.approx(450, rel=0.15)] * 2
    assert brought_mbps(cases["DS and CS, load 80%"]) == [pytest.approx(400, rel=0.15)] * 2


@pytest.mark.parametrize("misses, mean_ms, wrong", [
    ((0.01, 0.02), (2.0, 3.0), []), ((0.01, 0.01), (2.0, 3.0), ["DS misses"]), ((0.01, 0.02), (2.0, 2.0), ["CS mean"])])
def test_harm_is_more_misses_and_longer_flows(misses, mean_ms, wrong) -> None:
    found = {"DS alone, load 45%": {"rx1": {"missed": misses[0]}},
             "CS alone, load 45%": {"rx1": {"mean_ms": mean_ms[0]}},
             "DS and CS, load 45%": {"rx1": {"missed": misses[1]}, "rx2": {"mean_ms": mean_ms[1]}}}
    judged = interference.judge_pair(found, "DS and CS", "load 45%")
    assert [one.name.split(" alone")[0].split(" completion")[0] for one in judged if not one.holds] == wrong


@pytest.mark.parametrize("apart, ordered, wanted", [
    # 1 Mb/s: of three flows of 125,000 bytes one division has two; the second of them is due 1 s later.
    (False, False, [[2.5, 2.0], [2.5]]), (True, False, [[2.5, 2.0], [2.0]]),
    (False, True, [[1.75, 2.0], [2.25]])])
def test_a_fluid_link_is_shared_by_all_flows_or_by_divisions(apart, ordered, wanted) -> None:
    found = sharing.completions([[(0, 125_000, 0), (10**9, 125_000, 0)], [(0, 125_000, 0)]], 1e6, apart, ordered)
    assert found == [pytest.approx(one, abs=1e-6) for one in wanted], found


def test_in_order_the_flow_goes_first_whose_deadline_is_next_and_one_that_cannot_be_met_last() -> None:
    ms = 10**6
    flows = [(0, 125_000, 4000 * ms), (0, 125_000, 1100 * ms), (0, 125_000, 500 * ms)]
    assert sharing.completions([flows], 1e6, True, True) == [pytest.approx([2.0, 1.0, 3.0])]
    assert sharing.completions([[(0, 250_000, 0), (0, 125_000, 0)]], 1e6, True, True) == [pytest.approx([3.0, 1.0])]
    assert [line.partition(":")[0] for line in sharing.rows(20, 1)] == [
        f"{order}, {who} share" for order in divisions.ORDERS for who in ("all flows", "divisions")]


def test_cs_alone_and_beside_ds_has_the_flows_of_interference(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: List[Tuple[Any, float]] = []
    monkeypatch.setattr(sharing, "completions", lambda flows, link, *_: seen.append((flows, link)) or [[1.0], [0.5]])
    assert sharing.row_alone(80, 3) == "CS alone 500.00 ms, beside DS 500.00: 1.000"
    for (flows, link), label in zip(seen, ("CS alone, load 80%", "DS and CS, load 80%")):
        case = next(case for case in interference.cases([]) if case.label == label)
        files = [text for program in case.work(3).programs for text in program.files.values()]
        assert files == ["".join(f"{due} {size} {deadline}\n" for due, size, deadline in own) for own in flows]
        assert link == pytest.approx(case.parameters.link_mbps * 1e6, rel=0.06)
