# SPDX-License-Identifier: Apache-2.0
"""Experiments make the runs they say, and their verdicts fail when the numbers do."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import Verdict, fair_share_mbps
from sdngcc.experiments.sdn_gcc import delay
from sdngcc.testbed.parameters import ParameterError, Parameters
from sdngcc.topologies import TOPOLOGIES
from sdngcc.topologies.shaping import Shape, tc_commands, threshold_bytes


def run_of(goodput=239.1, alone=955.0, jain=1.0, utilisation=0.95, p99=40000, **parameters):
    """Return a run as summarise() makes it, with the tagged VM's payload rate in periods 2 and 3."""
    given = Parameters(**{"law": "sdngcc", **parameters})
    vms = given.vm_names
    series = {vm: [0.0] * 100 + [goodput] * 100 + [alone if vm == "vm1" else 0.0] * 100 for vm in vms}
    bounds = [("competitors", 0, 10), ("all", 10, 20), ("tagged", 20, 30)]
    rates = [0.0, goodput, alone]
    return {
        "parameters": given.model_dump(mode="json"),
        "phases": [{"name": name, "start_s": start, "end_s": end, "settled_start_s": start + 2, "jain": [jain] * 10,
                    "settled_goodput_mbps": dict.fromkeys(vms, rate), "goodput_mbps": dict.fromkeys(vms, rate),
                    "utilisation": utilisation, "settled_utilisation": utilisation}
                   for (name, start, end), rate in zip(bounds, rates)],
        "queue": {"bytes_p99": p99, "delay_us_p99": p99 / 125},
        "series": {"goodput_mbps": series, "limit_mbps": {vm: [1000.0] * 300 for vm in vms},
                   "share_mbps": {vm: [1000.0] * 300 for vm in vms}, "queue_bytes": [p99] * 300},
    }


def failing(name, *runs):
    """Return the names of an experiment's verdicts that do not hold."""
    return [verdict.name for verdict in EXPERIMENTS[name].judge([("", run) for run in runs]) if not verdict.holds]


@pytest.mark.parametrize("name", ["divisions", "interference", "tournament", "web"])
def test_what_is_drawn_at_random_follows_the_seed(name):
    for case in EXPERIMENTS[name].cases([]):
        work = [case.work(seed).as_dict() for seed in (1, 1, 2)]
        assert work[0] == work[1] and (work[1] != work[2]) == callable(case.workload)
    assert callable(EXPERIMENTS[name].cases([])[0].workload)


def test_share_holds_when_all_is_well():
    assert failing("share", run_of()) == []


@pytest.mark.parametrize("broken, word", [
    ({"goodput": 200.0}, "tagged, period all"), ({"jain": 0.98}, "Jain"), ({"utilisation": 0.9}, "utilisation"),
    ({"alone": 800.0}, "tagged alone"), ({"p99": 61000}, "queue p99")])
def test_share_fails_when_one_thing_is_not(broken, word):
    assert any(word in name for name in failing("share", run_of(**broken)))


def test_share_with_gso_asks_for_less():
    assert failing("share", run_of(gso=True, jain=0.975, utilisation=0.89)) == []


def test_static_is_judged_by_its_rate():
    assert failing("share", run_of(law="static", alone=239.0)) == []
    assert failing("share", run_of(law="static", alone=900.0)) == ["tagged, period tagged, Mb/s"]
    assert failing("share", run_of(law="static", static_mbps=100, goodput=95.6, alone=95.6)) == []


def test_weights_are_judged_by_ratio():
    run = run_of(senders=3, weights=(1, 2, 4))
    shared = run["phases"][1]["settled_goodput_mbps"]
    shared.update(vm1=137.0, vm2=273.0, vm3=546.0)
    assert failing("share", run) == []
    shared.update(vm1=239.0, vm2=239.0)
    assert failing("share", run) == ["vm1, weight 1, period all, Mb/s", "vm2, weight 2, period all, Mb/s"]


def test_a_dead_controller_must_leave_every_vm_at_its_share():
    run = run_of(kill_controller_at_s=12, restart_controller_at_s=16)
    assert failing("share", run) == ["VMs controlled again 4 s after its return"]
    run["series"]["limit_mbps"]["vm1"][195:200] = [300.0] * 5
    assert failing("share", run) == []
    run["series"]["limit_mbps"]["vm3"][150] = 500.0
    assert failing("share", run) == ["vm3's limit two seconds after the controller's death, Mb/s"]


def test_late_marks_are_judged_when_they_had_time():
    run = run_of(mark_delay_ms=100)
    assert failing("share", run) == []
    run["series"]["goodput_mbps"]["vm2"][100:150] = [0.0] * 50  # the first half of period all
    assert failing("share", run) == []
    run["series"]["goodput_mbps"]["vm2"][150:200] = [180.0] * 50
    assert failing("share", run) == ["error of the worst share, second half of period all"]
    for vm in run["series"]["goodput_mbps"]:
        run["series"]["goodput_mbps"][vm][150:200] = [201.8] * 50
    assert failing("share", run) == []
    for vm in run["series"]["goodput_mbps"]:
        run["series"]["goodput_mbps"][vm][150:200] = [196.9] * 50
    assert failing("share", run) == ["error of the worst share, second half of period all", "utilisation there"]


def test_unfair_has_six_runs_and_fewer_when_the_user_chooses():
    choices = [[], ["competitor=udp"], ["guest_ecn=true"], ["competitor=udp", "guest_ecn=false"]]
    assert [len(EXPERIMENTS["unfair"].cases(settings)) for settings in choices] == [6, 2, 3, 1]


@pytest.mark.parametrize("competitor, ecn, goodput, holds", [
    ("udp", False, 5, True), ("udp", False, 20, False), ("dctcp", False, 20, True), ("dctcp", False, 30, False),
    ("tcp", False, 250, True), ("tcp", False, 150, False), ("udp", True, 62, True), ("udp", True, 200, False),
    ("dctcp", True, 238, True)])
def test_unfair(competitor, ecn, goodput, holds):
    run = run_of(law="none", competitor=(competitor,), guest_ecn=ecn, goodput=goodput)
    assert (failing("unfair", run) == []) is holds


def test_scale_and_delay_sweep_unless_told():
    assert [case.parameters.senders for case in EXPERIMENTS["scale"].cases([])] == [8, 16, 32]
    assert [case.parameters.senders for case in EXPERIMENTS["scale"].cases(["senders=5"])] == [5]
    assert [case.parameters.period_ms for case in EXPERIMENTS["delay"].cases([])] == [1, 10, 50]
    with pytest.raises(ParameterError):
        EXPERIMENTS["scale"].cases(["senders=none"])


def test_scale_judges_by_the_fair_part():
    assert failing("scale", run_of(senders=8, goodput=119.6)) == []
    assert len(failing("scale", run_of(senders=8, goodput=80.0, jain=0.9))) == 2


def swinging(*deviations):
    """Return runs of the delay experiment whose limits deviate by that, in Mb/s."""
    return [{**run_of(), "measured": {"limit_deviation_mbps": deviation}} for deviation in deviations]


def test_delay_wants_oscillation_to_grow(monkeypatch):
    monkeypatch.setattr(delay, "settles_later", lambda name, runs: Verdict(name, "", None, True))
    growing = ["oscillation of the tagged VM's limit by period, Mb/s"]
    assert failing("delay", *swinging(3.0, 5.0, 9.0)) == []
    assert failing("delay", *swinging(5.0, 3.0, 9.0)) == growing
    assert failing("delay", *swinging(3.0, 9.0, 9.0)) == growing
    assert failing("delay", *swinging(None, None, None)) == []
    runs = swinging(3.0, 5.0, 9.0)
    runs[2]["queue"]["delay_us_p99"] = 1.0
    assert failing("delay", *runs) == ["queueing delay p99 by period, us"]


def test_delay_wants_fair_shares_the_later_the_longer_the_period():
    runs = swinging(3.0, 5.0, 9.0)
    for run, bins in zip(runs, (0, 10, 30)):
        run["series"]["goodput_mbps"]["vm1"][100:100 + bins] = [0.0] * bins
    names = ["fair after, period_ms=1, s", "fair after, period_ms=10, s", "fair after, period_ms=50, s"]

    def judged():
        labelled = zip(("period_ms=1", "period_ms=10", "period_ms=50"), runs)
        found = EXPERIMENTS["delay"].judge(list(labelled))
        return [one for one in found if one.name.startswith("fair after")]

    *each, order = judged()
    assert [one.name for one in each] == names and all(one.holds for one in (*each, order))
    assert order.measured == [one.measured for one in each] and order.measured[0] == 0.0 and order.paper
    runs[1]["series"]["goodput_mbps"]["vm1"][100:110] = [239.1] * 10
    assert not judged()[-1].holds
    runs[0]["series"]["goodput_mbps"]["vm1"][100:200] = [0.0] * 100
    assert [one.holds for one in judged()] == [False, True, True, False] and judged()[-1].measured[0] is None


def test_delay_measures_the_second_half_of_the_shared_period(tmp_path):
    (tmp_path / "meta.json").write_text(json.dumps({"start_s": 5.0, "devices": {"hv1-vm1": 7, "hv1-vm2": 8}}))
    rows = [f"{round((5 + at_s) * 1e9)} {device} 1 {rate} 0 0 0 {active} 0"
            for at_s, device, rate, active in [(10.5, 7, 500000, 1), (14, 7, 9, 1), (15, 7, 1000000, 1), (16, 8, 9, 1),
                                               (17, 7, 9, 0), (19, 7, 1250000, 1), (20, 7, 9, 1)]]
    limiters = tmp_path / "limiters.txt"
    limiters.write_text("\n".join(["t_ns vm uplink rate share sent_rate drops active congested", *rows, ""]))
    assert delay.measure(tmp_path, run_of()) == {"limit_deviation_mbps": 1.0, "limit_mbps": [(10.5, 4.0)]}
    limiters.unlink()
    assert delay.measure(tmp_path, run_of()) == {"limit_deviation_mbps": None, "limit_mbps": []}


def test_fair_share_counts_headers_and_weights():
    assert fair_share_mbps(run_of()) == pytest.approx(235.4, abs=0.05)
    assert fair_share_mbps(run_of(tagged="udp")) == pytest.approx(239.3, abs=0.05)
    assert fair_share_mbps(run_of(weights=(1, 2, 1, 1))) == pytest.approx(188.3, abs=0.05)


def test_fair_share_counts_who_shares_the_port():
    assert fair_share_mbps(run_of(topology="racks", receivers=2)) == pytest.approx(470.7, abs=0.05)
    both = run_of(topology="racks", receivers=2, destinations=2)
    assert fair_share_mbps(both) == pytest.approx(235.4, abs=0.05)
    assert fair_share_mbps(both, 1) == pytest.approx(941.5 * (1 / 4 + 1 / 3), abs=0.05)
    assert fair_share_mbps(run_of(topology="racks", receivers=4, hosts=2)) == pytest.approx(470.7, abs=0.05)
    assert fair_share_mbps(run_of(receivers=2)) == pytest.approx(235.4, abs=0.05)


def test_a_marking_port_has_the_papers_queue():
    commands = [" ".join(command) for command in tc_commands("p0", Shape("marking", 1000, 100, 20))]
    assert "htb rate 1000mbit" in commands[1]
    assert "red limit 150000 min 30000 max 31500 avpkt 1500 burst 20 probability 1.0" in commands[2]
    assert commands[2].endswith("bandwidth 1000mbit ecn")
    assert threshold_bytes(100, 20) == 30000


def test_a_marking_port_has_the_red_that_is_asked_for():
    topo = TOPOLOGIES["dumbbell"](senders=1, link_mbps=10, red=[400000, 30000, 90000, 55, 0.02])
    shape = next(info["shape2"] for _, _, info in topo.links(withInfo=True) if info["intfName2"] == topo.bottleneck)
    assert ("red limit 400000 min 30000 max 90000 avpkt 1500 burst 55 probability 0.02 bandwidth 10mbit ecn"
            in " ".join(tc_commands("p0", shape)[2]))


def test_shapes_of_uplink_and_delay():
    assert "fq nopacing" in " ".join(tc_commands("up", Shape("uplink", 500))[-1])
    assert "netem delay 70us" in " ".join(tc_commands("down", Shape("delay", delay_us=70))[0])
    with pytest.raises(ValueError, match="'x' of d: allowed are uplink, marking, delay"):
        tc_commands("d", Shape("x"))


def test_constants_judges_ours_and_records_the_authors():
    labels = [case.label for case in EXPERIMENTS["constants"].cases(["phases=1,5,1"])]
    assert len(labels) == 5
    poor = run_of(jain=0.5, utilisation=0.6)
    verdicts = EXPERIMENTS["constants"].judge([(label, run_of() if index == 0 else poor)
                                               for index, label in enumerate(labels)])
    assert all(verdict.holds for verdict in verdicts) and len(verdicts) == 10
    assert not all(verdict.holds for verdict in EXPERIMENTS["constants"].judge([(labels[0], poor)]))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_says_what_must_be_seen(name):
    one = EXPERIMENTS[name]
    assert one.name == name and one.summary and one.paper and one.seen


@pytest.mark.parametrize("setting", ["levels=false", "knob.level-periods=4", "by_path=true"])
@pytest.mark.parametrize("name", ["mice", "memcached", "burst-latency", "web", "tournament", "divisions", "shuffle"])
def test_what_is_for_a_law_alone_leaves_the_runs_without_one(name, setting):
    found = EXPERIMENTS[name].cases(["law=sdngcc", setting])
    assert {case.parameters.law for case in found} <= {"none", "sdngcc"}
    for one in (case.parameters for case in found):
        chosen = (one.levels, one.by_path, one.knobs)
        assert (chosen == (None, False, {})) == (one.law == "none"), chosen


MICE = {"mean_ms": 100.0, "stdev_ms": 200.0, "p50_ms": 1.0, "p99_ms": 1.0, "max_ms": 1.0, "unfinished": 0}


@pytest.mark.parametrize("law, tcp, least, mean_ms, stdev_ms, wrong", [
    ("sdngcc", 22.0, None, 50.0, 100.0, []), ("sdngcc", 19.0, None, 50.0, 100.0, ["TCP elephants' mean"]),
    ("sdngcc", 22.0, 17.7, 50.0, 100.0, ["TCP elephant with the least"]),
    ("sdngcc", 22.0, None, 51.0, 100.0, ["mice's mean"]), ("seawall", 22.0, None, 50.0, 101.0, ["mice's deviation"])])
def test_mice_are_judged_against_the_unprotected_run(law, tcp, least, mean_ms, stdev_ms, wrong):
    racks = {"topology": "racks", "racks": 3, "senders": 63, "hosts": 21}
    bare = {**run_of(law="none", goodput=1.0, **racks), "measured": MICE}
    least = tcp if least is None else least
    own = {**run_of(law=law, goodput=tcp, **racks), "measured": {**MICE, "mean_ms": mean_ms, "stdev_ms": stdev_ms}}
    own["phases"][1]["settled_goodput_mbps"]["vm21"] = least
    failed = [one.name for one in EXPERIMENTS["mice"].judge([("law=none", bare), (f"law={law}", own)]) if not one.holds]
    assert [name[:len(start)] for name, start in zip(failed, wrong)] == wrong and len(failed) == len(wrong)


def test_mice_that_did_not_end_count_with_what_they_waited(tmp_path):
    # Apache Benchmark takes the time of index n * percent / 100, rounded.
    rows = "".join(f"{percent},{1.5 + int(0.5 + percent / 10)}\n" for percent in range(95))
    rows += "".join(f"{percent},10.5\n" for percent in range(95, 100))
    (tmp_path / "ab-vm3-1.csv").write_text("Percentage served,Time in ms\n" + rows)
    (tmp_path / "program-ab-vm3-1.log").write_text("Complete requests:      10\n")
    (tmp_path / "program-ab-vm3-2.log").write_text("nothing\n")
    found = EXPERIMENTS["mice"].measure(tmp_path, {"phases": [{"end_s": 6}]})
    assert found["unfinished"] == 10 and found["max_ms"] == 2500 and found["p50_ms"] == 6.5
    assert found["mean_ms"] == pytest.approx((sum(1.5 + k for k in range(10)) + 2500) / 11, abs=0.001)


def test_competitors_are_judged_by_each_kind_of_work_and_by_when_they_share_fairly():
    labels = [case.label for case in EXPERIMENTS["competitors"].cases([])]
    assert labels[:2] == ["dctcp, share", "dctcp, 16 senders"] and len(labels) == 10
    one, *_ = EXPERIMENTS["competitors"].cases(["competitor=udp"])
    assert one.label == "share" and one.parameters.competitor == ("udp",)
    run = run_of()

    def failed(label):
        return [one.name for one in EXPERIMENTS["competitors"].judge([(label, run)]) if not one.holds]

    assert failed("udp, share") == [] == failed("udp, period_ms=1")
    judged = EXPERIMENTS["competitors"].judge([(label, run) for label in labels])
    assert [one.name for one in judged if not one.holds] == ["fair after by period, dctcp, s",
                                                             "fair after by period, udp, s"]
    run["series"]["goodput_mbps"]["vm1"][100:125] = [0.0] * 25
    assert failed("udp, share") == ["fair after, udp, share, s"]
    run["parameters"]["levels"] = False
    assert failed("udp, share") == []
    run["series"]["goodput_mbps"]["vm1"][100:200] = [0.0] * 100
    assert failed("udp, share") == ["fair after, udp, share, s"]
    run["phases"][1]["settled_goodput_mbps"]["vm1"] = 100.0
    assert "tagged, udp, 16 senders, Mb/s" in failed("udp, 16 senders")
