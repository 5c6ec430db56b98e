# SPDX-License-Identifier: Apache-2.0
"""Experiments ``innocent`` and ``ways``: their runs, what they read and how they judge."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD
from sdngcc.experiments.own import ways
from sdngcc.experiments.sdn_gcc import innocent
from sdngcc.testbed.parameters import ParameterError


def run_of(case, rates):
    return case.label, {"parameters": case.parameters.model_dump(), "measured": rates}


def test_innocent_compares_two_divisions_unless_told():
    assert [case.parameters.division for case in EXPERIMENTS["innocent"].cases([])] == ["bytes", "sent"]
    cases = innocent.cases(["division=equal", "link_mbps=500"])
    assert [case.parameters.division for case in cases] == ["equal"]
    flows = cases[0].workload.flows
    assert [f"{flow['vm']}>{flow['to']} {flow['proto']}" for flow in flows][:2] == ["vm1>rx2 udp", "vm1>rx1 udp"]
    assert flows[0]["rate_bps"] == 300_000_000
    with pytest.raises(ParameterError):
        innocent.cases(["division=fair"])


def test_a_cut_innocent_fails_where_bytes_through_the_port_divide():
    link = 200 * UDP_PAYLOAD
    good = {"vm1>rx2": 0.6 * link, "vm1>rx1": 0.02 * link, "vm2>rx1": 0.02 * link, "vm3>rx1": 0.3 * link,
            "vm4>rx1": 0.3 * link, "vm5>rx1": 0.3 * link, "vm5>rx2": 0.2 * link}  # fmt: skip
    ours, sent = innocent.cases([])
    assert all(verdict.holds for verdict in innocent.judge([run_of(ours, good), run_of(sent, good)]))
    cut = {**good, "vm1>rx2": 0.3 * link}
    failed = [verdict.name for verdict in innocent.judge([run_of(ours, cut), run_of(sent, cut)]) if not verdict.holds]
    assert failed == ["vm1>rx2: part of what it sends that arrives, division=bytes"]


def test_sinks_are_read_by_flow_and_time(tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"sampling": {"bin_us": 100000}}))
    bins = " ".join(["7"] * 20 + ["125000"] * 20)
    (tmp_path / "sink-rx1.txt").write_text("".join(f"{5001 + n} {bins}\n" for n in (1, 2, 3, 4, 5)))
    (tmp_path / "sink-rx2.txt").write_text("".join(f"{5001 + n} {bins}\n" for n in (0, 6)))
    _, run = run_of(innocent.cases([])[0], {})
    assert innocent.measure(tmp_path, run) == dict.fromkeys(innocent.FLOWS, 10.0)
    _, run = run_of(ways.cases([])[0], {})
    assert ways.measure(tmp_path, run)["vm1"] == 10.0


def test_connections_of_ways_have_what_limiters_and_switches_leave_them():
    """Not what TCP lets wait below itself, which is the whole fabric in one kernel: a tagged VM has one connection."""
    assert not any(case.parameters.backpressure for case in ways.cases([]))


def test_ways_are_judged_by_who_takes_them():
    cases = EXPERIMENTS["ways"].cases([])
    assert [case.parameters.multipath for case in cases] == ["destination", "pair", "flow"]
    line = 200 * TCP_PAYLOAD
    for case in cases[:2]:
        taken = [ways.way_of(index, case.parameters.multipath) for index in range(5)]
        assert set(taken) == {0, 1}, "a hash that leaves one way empty shows nothing"
        fair = {f"vm{index + 1}": line / taken.count(way) for index, way in enumerate(taken)}
        assert all(verdict.holds for verdict in ways.judge([run_of(case, fair)]))
        alike = dict.fromkeys(fair, line / 3)
        others = sum(taken.count(way) != 3 for way in taken)
        assert others and sum(not verdict.holds for verdict in ways.judge([run_of(case, alike)])) == others
    spread = [run_of(cases[2], dict.fromkeys(fair, line * 0.4))]
    assert all(verdict.holds for verdict in ways.judge(spread))
    assert not all(verdict.holds for verdict in ways.judge([run_of(cases[2], dict.fromkeys(fair, line * 0.2))]))
