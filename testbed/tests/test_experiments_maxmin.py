# SPDX-License-Identifier: Apache-2.0
"""Experiments maxmin and parking-lot: the runs they make, how settling is read, and verdicts that fail."""

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import fair_share_mbps
from sdngcc.experiments.own.maxmin import settling_ms
from sdngcc.testbed.parameters import ParameterError, parse_settings
from sdngcc.testbed.runner import make_job
from sdngcc.topologies import TOPOLOGIES

from .test_experiments import failing, run_of
from .test_parameters import ARTIFACTS


def made(label="maxmin, share", p99=3000, **measured):
    """Return a run in which every VM has its fair share."""
    case = next(case for case in EXPERIMENTS["maxmin"].cases([]) if case.label == label)
    run = run_of(**{**case.parameters.model_dump(), "phases": (10, 10, 10)}, utilisation=0.98, p99=p99)
    for index, vm in enumerate(case.parameters.vm_names):
        run["series"]["goodput_mbps"][vm] = [0.99 * fair_share_mbps(run, index)] * 300
    run["measured"] = {"join_ms": 10.0, "leave_ms": 20.0, **measured}
    return run


def test_both_laws_do_the_same_work():
    labels = [case.label for case in EXPERIMENTS["maxmin"].cases([])]
    assert labels == [f"{law}, {work}" for work in ("share", "scale", "weights", "parking-lot")
                      for law in ("maxmin", "sdngcc")]
    assert [case.label for case in EXPERIMENTS["maxmin"].cases(["law=maxmin"])] == [
        "share", "scale", "weights", "parking-lot"]
    for law, decision in (("maxmin", "maxmin"), ("sdngcc", None)):
        job = make_job(parse_settings([f"law={law}", "link_mbps=500"], {}), ARTIFACTS, 1)
        assert job["controller"]["environment"].get("SDNGCC_CONTROLLER_DECISION") == decision
    assert make_job(parse_settings(["law=maxmin", "link_mbps=500"], {}), ARTIFACTS, 1)["controller"]["environment"][
        "SDNGCC_CONTROLLER_CAPACITY_MBPS"] == "500"


def test_small_packets_go_ahead_where_that_is_set():
    for ahead, shown in (("true", "true"), ("false", None)):
        job = make_job(parse_settings([f"ahead={ahead}"], {}), ARTIFACTS, 1)
        assert job["shim"]["settings"].get("shim-ahead") == shown


@pytest.mark.parametrize("label", ["maxmin, share", "maxmin, weights", "maxmin, parking-lot"])
def test_maxmin_holds_when_all_is_well(label):
    assert failing("maxmin", made(label)) == []


def test_maxmin_fails_when_one_thing_is_not():
    run = made()
    run["series"]["goodput_mbps"]["vm2"] = [0.9 * 239.1] * 300
    assert failing("maxmin", run) == [": largest error of a share"]
    run = made()
    run["series"]["goodput_mbps"]["vm2"][150] = 0.0
    assert failing("maxmin", run) == [": Jain, worst 100 ms"]
    run = made()
    run["phases"][1]["utilisation"] = 0.96
    assert failing("maxmin", run) == [": utilisation"]
    assert failing("maxmin", made(join_ms=25.1)) == [": settled after a join, ms"]
    assert failing("maxmin", made(leave_ms=None)) == [": settled after a leave, ms"]


def test_queues_are_compared_with_sdngcc_s_on_the_same_work():
    judge = EXPERIMENTS["maxmin"].judge
    rival = made("sdngcc, share", p99=2999)
    names = [one.name for one in judge([("maxmin, share", made()), ("sdngcc, share", rival)]) if not one.holds]
    assert names == ["maxmin, share: queue p99, bytes, against sdngcc's"]
    rival["queue"]["bytes_p99"] = 3000
    assert all(one.holds for one in judge([("maxmin, share", made()), ("sdngcc, share", rival)]))


def test_settling_is_the_last_time_a_limit_came_near():
    steady = [(at / 100, 250.0) for at in range(100, 160)]
    late = [(at / 100, 100.0 if at < 103 else 255.0) for at in range(100, 160)]
    again = [(at / 100, 300.0 if at in (101, 103) else 250.0) for at in range(100, 160)]
    fair = {"a": 250.0, "b": 250.0}
    assert settling_ms({"a": steady, "b": steady}, fair, 1.0) == 0.0
    assert settling_ms({"a": steady, "b": late}, fair, 1.0) == 30.0
    assert settling_ms({"a": steady, "b": again}, fair, 1.0) == 40.0
    assert settling_ms({"a": steady, "b": [(at, 300.0) for at, _ in steady]}, fair, 1.0) is None
    assert settling_ms({"a": steady, "b": []}, fair, 1.0) is None
    assert settling_ms({"a": steady, "b": steady[5:]}, fair, 1.0) == 50.0


def test_parking_lot_is_built_as_its_shares_count():
    settings = parse_settings(["senders=5"], EXPERIMENTS["parking-lot"].cases([])[0].parameters.model_dump())
    topo = TOPOLOGIES["parking-lot"](senders=5, receivers=3)
    ends = {frozenset(pair) for pair in topo.links()}
    for hypervisor, tor in (("hv1", "tor1"), ("hv2", "tor1"), ("hv3", "tor2"), ("hv5", "tor1"), ("hvr1", "tor3"),
                            ("hvr2", "tor2"), ("hvr3", "tor3"), ("tor1", "tor2"), ("tor2", "tor3")):
        assert frozenset((hypervisor, tor)) in ends
    assert {"tor1-tor2", "tor2-tor3"} <= set(topo.marking) and topo.bottleneck == "tor1-tor2"
    run = {"parameters": settings.model_dump()}
    payload = 1448 / 1538
    # Link A carries vm1, vm2, vm4, vm5; what vm1 and vm4 leave of B is vm3's, which sends DCTCP.
    assert [fair_share_mbps(run, index) for index in (0, 1, 2)] == pytest.approx(
        [250 * payload, 250 * payload, 500 * payload])


def test_parking_lot_is_judged_by_every_vm():
    case = EXPERIMENTS["parking-lot"].cases([])[0]
    run = run_of(**{**case.parameters.model_dump(), "phases": (10, 10, 10)}, utilisation=0.98)
    assert failing("parking-lot", run) == []
    run["phases"][1]["settled_goodput_mbps"]["vm5"] = 220.0
    run["phases"][1]["utilisation"] = 0.96
    assert failing("parking-lot", run) == ["vm5, period all from its third second, Mb/s",
                                           "utilisation of the first link, period all"]


@pytest.mark.parametrize("setting", ["vms_per_hypervisor=2", "hosts=2", "receivers=2", "destinations=2"])
def test_what_a_parking_lot_has_not_is_refused(setting):
    with pytest.raises(ParameterError, match="topology=parking-lot"):
        parse_settings(["topology=parking-lot", "senders=6", "receivers=3", setting], {})


