# SPDX-License-Identifier: Apache-2.0
"""HyGenICC's experiments: what they run, who is refused and when, and verdicts that fail when the numbers do."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.hygenicc import admission, echo, gate
from sdngcc.shim.netlink import Peer
from sdngcc.testbed.parameters import ParameterError

from .test_experiments import run_of


def three_periods(**rest):
    """Return a run of echo in which all is as due."""
    return run_of(law="hygenicc", **rest)


def failing(name, *runs):
    """Return the names of verdicts that do not hold, of labelled runs."""
    return [one.name for one in EXPERIMENTS[name].judge(list(runs)) if not one.holds]


def test_echo_has_the_papers_periods_and_each_kind_of_competitors():
    cases = EXPERIMENTS["echo"].cases([])
    assert [case.label for case in cases] == ["competitor=tcp", "competitor=dctcp", "competitor=udp"]
    assert {(case.parameters.law, case.parameters.phases) for case in cases} == {("hygenicc", (10, 10, 10))}
    assert [case.label for case in EXPERIMENTS["echo"].cases(["competitor=bbr", "kernel=7.3"])] == [""]


def test_echo_holds_when_all_is_well_and_says_the_papers_numbers():
    run = three_periods()
    verdicts = EXPERIMENTS["echo"].judge([("competitor=udp", run)])
    assert all(one.holds and one.name.endswith(", competitor=udp") for one in verdicts)
    assert {one.paper for one in verdicts} >= {"250 Mb/s, headers counted", "1000 Mb/s, headers counted",
                                               "416 Mb/s, headers counted"}
    assert echo.tagged_mbps(run) == pytest.approx((239.1 + 955) / 3, abs=0.01)


@pytest.mark.parametrize("broken, wrong", [
    ({"goodput": 200.0}, ["tagged, period all from its third second, Mb/s"]),
    ({"jain": 0.98}, ["Jain in the worst second from the third on"]),
    ({"utilisation": 0.9}, ["link used, period competitors", "link used, period all"]),
    ({"alone": 850.0}, ["tagged alone, second second, Mb/s", "tagged alone, worst later second, Mb/s"]),
    ({"alone": 800.0}, ["tagged alone, second second, Mb/s", "tagged alone, worst later second, Mb/s",
                        "tagged, all periods, Mb/s"]),
    ({"p99": 61000}, ["queue p99, bytes"])])
def test_echo_fails_when_one_thing_is_not(broken, wrong):
    assert failing("echo", ("", three_periods(**broken))) == wrong


def test_echo_wants_fair_shares_within_two_seconds():
    run = three_periods()
    run["series"]["goodput_mbps"]["vm1"][100:125] = [0.0] * 25
    assert failing("echo", ("", run)) == ["fair after, s"]


def test_admission_has_a_gate_in_all_runs_but_one():
    bare, *gated = EXPERIMENTS["admission"].cases([])
    assert bare.work(1).programs == [] and bare.label == "no admission control"
    for case, threshold in zip(gated, ("0.0", "0.5")):
        program, = case.work(1).programs
        assert program.serves and program.argv[-4:] == (
            threshold, "{ip:rx1}", "hv1={ip:vm1},{ip:vm2}", "hv2={ip:vm3},{ip:vm4}")
        assert "class Gate" in program.files[program.argv[-5]]
    flows = bare.work(1).flows
    assert [(flow["vm"], flow["start_s"], flow["stop_s"]) for flow in flows] == [
        ("vm2", 0, 5), ("vm3", 2, 5), ("vm4", 0, 5), ("vm1", 1, 7)]
    for setting in ("receivers=2", "phases=1,1,1"):
        with pytest.raises(ParameterError):
            EXPERIMENTS["admission"].cases([setting])


def peer(local, address, packets, marks):
    """Return a reading of what came to local from an address."""
    return Peer(1, address, 0, 0, 0, 0, 0, 0, packets, marks, 0, local)


def test_a_gate_closes_on_marks_and_opens_when_they_have_ceased():
    one = gate.Gate(0.5, "10.0.0.9", {"hv1": ["10.0.0.1", "10.0.0.2"], "hv2": ["10.0.0.3"]})
    ms = 1_000_000
    assert one.look([peer("10.0.0.9", "10.0.0.1", 1000, 900), peer("10.0.0.9", "10.0.0.3", 0, 0)], 0) == []
    # Half is not more than half; of two VMs the sum counts; what goes elsewhere does not.
    assert one.look([peer("10.0.0.9", "10.0.0.1", 1010, 905), peer("10.0.0.8", "10.0.0.3", 99, 99)], 10 * ms) == []
    assert one.look([peer("10.0.0.9", "10.0.0.1", 1020, 910), peer("10.0.0.9", "10.0.0.2", 10, 9)],
                    20 * ms) == [("hv1", True)]
    busy = [peer("10.0.0.9", "10.0.0.1", 1030, 910), peer("10.0.0.9", "10.0.0.2", 10, 9)]
    assert one.look(busy, 69 * ms) == [] and one.closed == {"hv1": True, "hv2": False}
    assert one.look(busy, 70 * ms) == [("hv1", False)]
    # Three packets tell nothing.
    assert one.look([peer("10.0.0.9", "10.0.0.3", 3, 3)], 80 * ms) == []


def test_any_mark_closes_a_gate_without_a_threshold():
    one = gate.Gate(0.0, "10.0.0.9", {"hv1": ["10.0.0.1"]})
    assert one.look([peer("10.0.0.9", "10.0.0.1", 0, 0)], 0) == []
    assert one.look([peer("10.0.0.9", "10.0.0.1", 100, 0)], 1) == []
    assert one.look([peer("10.0.0.9", "10.0.0.1", 200, 1)], 2) == [("hv1", True)]


def test_a_gate_puts_a_flow_into_the_bridge_and_takes_it_out(monkeypatch):
    ran = []
    monkeypatch.setattr(gate.subprocess, "run", lambda words, check: ran.append(words))
    one = gate.Gate(0.0, "10.0.0.9", {"hv1": ["10.0.0.1"]})
    one.switch("hv1", True)
    one.switch("hv1", False)
    assert [words[-3:] for words in ran] == [
        ["add-flow", "hv1", "priority=60000,tcp,nw_dst=10.0.0.9,tcp_flags=+syn-ack,actions=drop"],
        ["del-flows", "hv1", "priority=60000,tcp,nw_dst=10.0.0.9,tcp_flags=+syn-ack"]]


def test_admission_measures_who_opened_at_once_and_how_long_vm1_was_refused(tmp_path):
    (tmp_path / "meta.json").write_text(json.dumps({"start_s": 100.0}))
    rows = [(101.5, 2), (104.0, -1), (104.5, 1000), (104.9, 3), (105.5, 950), (106.0, 2)]
    lines = [f"{round(due * 1e9)} 11776 {took * 1_000_000 if took >= 0 else -1}" for due, took in rows]
    (tmp_path / "requests-5004.txt").write_text("\n".join(["due_ns size took_ns", *lines, ""]))
    run = {"phases": [{"name": "all", "start_s": 1, "end_s": 5}]}
    assert admission.measure(tmp_path, run) == {"at_once": 0.5, "connections": 4, "at_once_after": 0.5,
                                                "refused_part": 0.0}
    # From before the period, through a hole, to behind the period; another hypervisor is not looked at.
    changes = [(0.5, "hv1 closed"), (2, "hv1 open"), (2.5, "hv2 closed"), (3, "hv1 closed"),
               (4, "hv2 open"), (6, "hv1 open")]
    (tmp_path / "program-gate.log").write_text(
        "".join(f"{round((100 + at_s) * 1e9)} {what}\n" for at_s, what in changes))
    assert admission.measure(tmp_path, run)["refused_part"] == 0.75
    (tmp_path / "program-gate.log").write_text(f"{round(101 * 1e9)} hv1 closed\n")
    assert admission.measure(tmp_path, run)["refused_part"] == 1.0


def admitted(at_once=1.0, refused=0.0, udp=100.0, p99=40000):
    """Return a run of admission; udp is VM 3's goodput, of 324 Mb/s."""
    run = run_of(p99=p99, **EXPERIMENTS["admission"].cases([])[0].parameters.model_dump())
    run["phases"] = [{"name": "all", "start_s": 1, "end_s": 5}]
    run["series"]["goodput_mbps"]["vm3"] = [udp] * 70
    run["measured"] = {"at_once": at_once, "connections": 200, "at_once_after": 1.0, "refused_part": refused}
    return run


def test_admission_is_judged_by_who_gets_in_and_by_the_queue():
    bare, any_mark, half = admission.GATES
    short = admitted(p99=30000)
    assert failing("admission", (bare, admitted()), (any_mark, short), (half, short)) == []
    assert failing("admission", (bare, admitted(at_once=0.9)), (any_mark, short)) == [
        f"connections that open at once beside elephants, {bare}"]
    wrong = [f"connections that open at once beside elephants, {any_mark}",
             f"queue p99, part of that without, {any_mark}"]
    assert failing("admission", (bare, admitted()), (any_mark, admitted(0.1, 0.9, 300.0))) == wrong
    recorded = {one.name.split()[0]: one for one in EXPERIMENTS["admission"].judge(
        [(any_mark, admitted(refused=0.9, udp=162.0))])}
    assert recorded["time"].measured == 0.9 and recorded["time"].holds
    assert recorded["UDP"].measured == pytest.approx(0.5, abs=0.02) and recorded["UDP"].holds
