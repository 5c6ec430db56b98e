# SPDX-License-Identifier: Apache-2.0
"""The schedules of SCC's experiments, what is made of arrivals, and the experiments' cases."""

from dataclasses import replace
from pathlib import Path

import pytest

from sdngcc.experiments.scc import divisions, interference
from sdngcc.experiments.scc.objectives import DEADLINE_MS, FLOW_BYTES, TAIL_S, Group, draw, summarise
from sdngcc.testbed.parameters import ParameterError
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


def test_divisions_and_weights_are_parameters() -> None:
    assert [case.label.rsplit("=")[1] for case in divisions.cases([])] == ["none", "scc"] * 3 + ["scc"]
    cases = divisions.cases(["senders=4", "divisions=1,1,2,2", "weights=5,5,1,1", "law=scc"])
    groups = divisions.groups_of(cases[0].parameters, ("ds", "cs"), 40)
    assert [(group.vms, group.weight, group.mbps) for group in groups] == [
        (("vm1", "vm2"), 5, 400.0), (("vm3", "vm4"), 1, 400.0)]


def test_the_laboratorys_congestion_controls_are_loaded_where_they_are_used_only() -> None:
    artifacts = replace(ARTIFACTS, modules=["/k/openvswitch.ko"], congestion=Path("/k/congestion.ko"))
    for experiment, more in ((interference, ["/k/congestion.ko"]), (divisions, [])):
        for case in experiment.cases([]):
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
    judged = interference.judge_pair(found, "DS and CS, load 45%", 45)
    assert [one.name.split(" alone")[0].split(" completion")[0] for one in judged if not one.holds] == wrong
