# SPDX-License-Identifier: Apache-2.0
"""The experiments that put laws side by side: what they run, and verdicts that fail when the numbers do."""

import json
import typing

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import settling_s
from sdngcc.experiments.eyeq import shuffle
from sdngcc.experiments.sdn_gcc import laws
from sdngcc.shim import knobs
from sdngcc.testbed.parameters import Law

from .test_experiments import failing, run_of


def made(name, **rest):
    """Return a made run of an experiment's first case, each VM with 235 Mb/s all the time."""
    case = EXPERIMENTS[name].cases([])[0]
    run = run_of(**{**case.parameters.model_dump(), **rest})
    for vm in case.parameters.vm_names:
        run["series"]["goodput_mbps"][vm] = [235.3] * 400
    run["measured"] = {"control_bytes": 26000}
    return run


def test_every_law_of_the_shim_can_be_asked_for_and_is_compared():
    names = [law.name for law in knobs.laws()]
    assert {"none", *names} == set(typing.get_args(Law))
    labels = [case.label for case in EXPERIMENTS["laws"].cases([])]
    assert labels == [f"{name}, {work}" for name in ("none", *names) for work in ("share", "scale")]
    assert [case.label for case in EXPERIMENTS["laws"].cases(["law=eyeq"])] == ["share", "scale"]


def test_laws_are_one_row_each():
    run = made("laws", law="hygenicc", senders=4, phases=(10, 10, 10))
    verdict, queue = EXPERIMENTS["laws"].judge([("hygenicc, share", run)])
    assert queue.holds and queue.name == "hygenicc, share: queue p99, bytes"
    assert verdict.holds and verdict.expected == "share error <= 0.15"
    assert verdict.measured == {"share error": 0.016, "Jain": 1.0, "utilisation": 0.95, "queue p99, bytes": 40000,
                                "settled after, s": 0.0, "control, kB/s": 0.87}
    run["phases"][1]["settled_goodput_mbps"]["vm3"] = 196.0
    run["queue"]["bytes_p99"] = 61_000
    assert failing("laws", run) == ["", ": queue p99, bytes"]
    run["parameters"]["law"] = "vcc"
    assert failing("laws", run) == []


def test_settling_is_when_two_windows_in_a_row_are_fair():
    run = made("laws", law="hygenicc", senders=4, phases=(10, 10, 10))
    assert settling_s(run) == 0.0
    run["series"]["goodput_mbps"]["vm1"][100:112] = [900.0] * 12
    assert settling_s(run) == pytest.approx(1.1, abs=0.15)
    run["series"]["goodput_mbps"]["vm1"] = [900.0] * 400
    assert settling_s(run) is None


def test_share_is_judged_by_every_vm_under_other_laws():
    run = run_of(law="seawall")
    assert failing("share", run) == []
    run["phases"][1]["settled_goodput_mbps"]["vm4"] = 200.0
    assert failing("share", run) == ["vm4, period all from its third second, Mb/s"]


def test_scale_allows_other_laws_15_percent():
    assert failing("scale", run_of(goodput=200.0)) == []
    assert failing("scale", run_of(goodput=200.0, law="scc")) == ["tagged, period all, Mb/s"]


def test_churn_changes_laws_and_removes_a_port():
    case = EXPERIMENTS["churn"].cases(["law=scc"])[0]
    changes = [(one.start_s, one.argv[-1]) for one in case.workload.programs if one.name.startswith("law")]
    assert changes == [(4.0 * number, f"other_config:shim-law={law}")
                       for number, law in enumerate(("seawall", "eyeq", "scc", "scc"), 1)]
    assert [one.start_s for one in case.workload.programs if one.name in ("gone0", "back0", "gone9")] == [
        20.0, 20.2, pytest.approx(23.6)]


def test_churn_is_judged_after_each_change():
    run = made("churn")
    run["phases"] = [{**run["phases"][1], "start_s": 0.0, "end_s": 28.0}]
    assert failing("churn", run) == []
    run["series"]["goodput_mbps"]["vm2"][60:80] = [150.0] * 20
    assert failing("churn", run) == ["vm2, law seawall since 4 s, Mb/s"]
    run["series"]["goodput_mbps"]["vm4"][240:280] = [20.0] * 40
    assert failing("churn", run)[1:] == ["vm4, after vm4 was 10 times gone, Mb/s"]


def test_mixed_fails_when_one_law_starves_another():
    run = run_of(**EXPERIMENTS["mixed"].cases([])[0].parameters.model_dump())
    got = run["phases"][1]["settled_goodput_mbps"]
    got.update(vm1=250.0, vm2=270.0, vm3=97.2, vm4=260.0)
    assert failing("mixed", run) == []
    got["vm1"] = 100.0
    assert failing("mixed", run) == ["vm1, sdngcc: part of an equal share"]
    got.update(vm1=250.0, vm3=90.0)
    assert failing("mixed", run) == ["vm3, static with a ceiling, Mb/s"]


def silent(**rest):
    """Return a made run of failsafe under law sdngcc: all is fair, and in silence each VM is allowed its share."""
    run = made("failsafe", law="sdngcc", **rest)
    for vm in ("vm1", "vm2", "vm3", "vm4"):
        run["series"]["limit_mbps"][vm] = [500.0] * 320
        run["series"]["share_mbps"][vm] = [500.0] * 320
    run["measured"] = {"peers_mbps": dict.fromkeys(("vm1", "vm2", "vm3", "vm4"))}
    return run


def fails_safe(law, run):
    """Return which of failsafe's verdicts on a run do not hold, without the law's name."""
    return [one.name[len(law) + 2:] for one in EXPERIMENTS["failsafe"].judge([(law, run)]) if not one.holds]


def test_failsafe_runs_each_law_once_and_looks_at_peers_before_silence_ends():
    cases = EXPERIMENTS["failsafe"].cases([])
    assert [case.label for case in cases] == [law.name for law in knobs.laws() if law.name != "static"]
    assert all(case.workload.programs[0].start_s == 27.9 for case in cases)
    one, = EXPERIMENTS["failsafe"].cases(["law=hygenicc", "loss=20", "loss_at_s=0"])
    assert one.parameters.knobs == {"echo": 0} and one.workload.programs[0].start_s == 31.9


def test_failsafe_holds_when_all_is_well():
    assert fails_safe("sdngcc", silent()) == []


@pytest.mark.parametrize("start, end, mbps, wrong", [
    (20, 40, 196.0, ["1% lost: error of the worst share"]), (140, 160, 100.0, []),
    (160, 240, 170.0, ["50% lost: error of the worst share"]), (240, 280, 0.0, []),
    (300, 320, 196.0, ["feedback is back: error of the worst share"])])
def test_failsafe_judges_shares_while_there_is_feedback(start, end, mbps, wrong):
    run = silent()
    run["series"]["goodput_mbps"]["vm3"][start:end] = [mbps] * (end - start)
    assert fails_safe("sdngcc", run) == wrong


def test_failsafe_judges_what_is_allowed_in_silence():
    run = silent()
    run["series"]["limit_mbps"]["vm2"][262:] = [400.0] * 58
    assert fails_safe("sdngcc", run) == ["silence: each VM is allowed, Mb/s"]


def test_failsafe_judges_no_limit_of_who_sends_nothing():
    run = silent()
    for series in ("limit_mbps", "share_mbps"):
        run["series"][series]["vm3"][240:280] = [None] * 40
        run["series"][series]["vm1"][245:270] = [None] * 25
    assert fails_safe("sdngcc", run) == []
    for vm in ("vm1", "vm2", "vm4"):
        run["series"]["limit_mbps"][vm][240:280] = run["series"]["share_mbps"][vm][240:280] = [None] * 40
    assert fails_safe("sdngcc", run) == ["silence: each VM is allowed, Mb/s"]


def test_failsafe_knows_what_each_law_does_in_silence():
    run = silent()
    assert fails_safe("eyeq", run) == ["silence: each VM is allowed, Mb/s"]
    run["measured"]["peers_mbps"] = dict.fromkeys(("vm1", "vm2", "vm3", "vm4"), 50.0)
    assert fails_safe("eyeq", run) == []
    assert fails_safe("scc", run) == ["silence: each VM is allowed, Mb/s"]
    run["measured"]["peers_mbps"]["vm4"] = 1.0
    assert fails_safe("eyeq", run) == ["silence: each VM is allowed, Mb/s"]


def test_failsafe_reads_peers_by_name_of_the_vm(tmp_path):
    (tmp_path / "meta.json").write_text(json.dumps({"devices": {"hv1-vm1": 7, "hv2-vm2": 8, "hvr-rx1": 9}}))
    (tmp_path / "program-peers.log").write_text(json.dumps([{"vm": 7, "rate": 6250000}, {"vm": 8, "rate": 0},
                                                            {"vm": 9, "rate": 5}]))
    found = EXPERIMENTS["failsafe"].measure(tmp_path, silent())
    assert found == {"peers_mbps": {"vm1": 50.0, "vm2": None, "vm3": None, "vm4": None}}


def test_shares_are_judged_by_name():
    """A result read from its file has its VMs in the order of text: vm10 before vm2, and each its own protocol."""
    run = made("laws", law="scc", senders=16, competitor=("tcp", "dctcp", "udp"), phases=(10, 10, 10))
    rates = run["phases"][1]["settled_goodput_mbps"]
    for index, vm in enumerate(list(rates)):
        rates[vm] = laws.fair_share_mbps(run, index)
    run["phases"][1]["settled_goodput_mbps"] = {vm: rates[vm] for vm in sorted(rates)}
    assert laws.share_error(run) == 0


def test_converge_takes_no_rate_from_a_window_that_a_late_sample_made_short(tmp_path):
    """In 0.2 ms 9 Gb/s are 225,000 bytes; then 0.5 ms at line rate between a late sample and those in time again."""
    run = {"parameters": {"link_mbps": 10000, "sample_us": 200}, "knobs": {}}
    times = [number * 200_000 for number in range(60)]
    bytes_at = [0] + [225_000 * number for number in range(1, 60)]

    def settled():
        rows = [f"{time_ns} {count} 0" for time_ns, count in zip(times, bytes_at)]
        (tmp_path / "queue.txt").write_text("\n".join(["time bytes backlog", *rows]))
        return EXPERIMENTS["converge"].measure(tmp_path, run)["settled_ms"]

    assert settled() == 0.0
    times[40] += 190_000
    assert settled() == 0.0
    times[40] -= 190_000
    bytes_at[40:] = [count + 150_000 for count in bytes_at[40:]]
    assert settled() == pytest.approx(7.8)


def test_a_shuffle_is_judged_by_the_time_of_each_job():
    assert shuffle.ideal_s((4, 2, 1), 0.9) == pytest.approx([0.583, 0.833, 1.0], abs=1e-3)
    assert shuffle.ideal_s((1, 1, 1), 1.0) == pytest.approx([0.9] * 3)
    best = shuffle.ideal_s((4, 2, 1), 0.9 * shuffle.TCP_PAYLOAD)
    run = run_of(law="eyeq", topology="star", senders=9, vms_per_hypervisor=3, receivers=3, weights=(4, 2, 1))
    run["measured"] = {"done_s": dict(zip(shuffle.JOBS, (1.14 * time for time in best)))}
    assert failing("shuffle", run) == []
    run["measured"]["done_s"]["P2"] = 1.16 * best[1]
    assert [name[:2] for name in failing("shuffle", run)] == ["P2"]
    run["measured"]["done_s"]["P2"] = None
    assert [name[:2] for name in failing("shuffle", run)] == ["P2"]
