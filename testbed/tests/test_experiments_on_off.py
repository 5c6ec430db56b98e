# SPDX-License-Identifier: Apache-2.0
"""Experiment on-off: the runs it makes, what it counts out of made samples, and verdicts that fail."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD
from sdngcc.experiments.own import on_off
from sdngcc.shim import knobs
from sdngcc.testbed.parameters import ParameterError, Parameters
from sdngcc.testbed.runner import make_job

from .test_experiments import run_of
from .test_parameters import ARTIFACTS

BIN_S = on_off.BIN_US / 1e6


def bytes_of(mbps, bin_s=BIN_S):
    return round(mbps * 1e6 / 8 * bin_s)


def made(law="maxmin", *settings):
    case, = EXPERIMENTS["on-off"].cases([f"law={law}", *settings])
    return case, run_of(**case.parameters.model_dump())


def test_a_run_of_no_shim_and_of_every_law():
    assert [case.label for case in EXPERIMENTS["on-off"].cases([])] == [
        f"law={name}" for name in ("none", *(law.name for law in knobs.laws()))]
    assert [case.label for case in EXPERIMENTS["on-off"].cases(["law=eyeq"])] == [""]


def test_periods_come_one_after_the_other():
    case, _ = made()
    assert case.parameters.phases == (0.5, 3.9, 0)
    tcp, *udp = case.workload.flows
    assert (tcp["start_s"], tcp["stop_s"], tcp["vm"]) == (0, 4.4, "vm1")
    assert [(flow["start_s"], flow["stop_s"], flow["on_ms"], flow["off_ms"]) for flow in udp] == [
        (0.5, 0.8, 0.5, 0.5), (0.8, 1.1, 5, 5), (1.1, 1.4, 50, 50), (1.4, 4.4, 500, 500)]
    assert make_job(case.parameters, ARTIFACTS, 1, case.workload)["sampling"]["bin_us"] == on_off.BIN_US


def test_other_periods_lengths_and_numbers_are_taken():
    case, _ = made("eyeq", "on_off_ms=7,70", "phases=0.2,1.2,0", "senders=3", "weights=1,2,1", "udp_mbps=300")
    assert on_off.stretches(case.parameters) == [
        (7.0, 0.2, pytest.approx(0.795)), (70.0, pytest.approx(0.8), pytest.approx(1.36))]
    assert [(flow["vm"], flow["rate_bps"], flow["stop_s"]) for flow in case.workload.flows[1:]] == [
        ("vm2", 300_000_000, 0.795), ("vm3", 300_000_000, 0.795),
        ("vm2", 300_000_000, 1.36), ("vm3", 300_000_000, 1.36)]


@pytest.mark.parametrize("settings, word", [
    (["on_off_ms=0.9"], "1 to 10000"), (["on_off_ms=1000", "phases=0,1.9,0"], "does not fit twice"),
    (["senders=1", "phases=0,2,0"], "senders=2"), (["competitor=tcp"], "competitor=udp"), (["tagged=udp"], "TCP"),
    (["topology=star"], "topology=dumbbell"), (["generator=iperf"], "generator=own")])
def test_what_it_is_not_about_is_refused(settings, word):
    with pytest.raises(ParameterError, match=word):
        EXPERIMENTS["on-off"].cases(["law=none", *settings])


def test_parts_are_by_weight_and_no_more_than_what_is_sent():
    line = 1000
    rest, beside, udp = on_off.due_mbps(made("eyeq", "senders=3", "weights=1,2,1")[1])
    assert (rest, beside) == (pytest.approx(line * TCP_PAYLOAD), pytest.approx(line * TCP_PAYLOAD / 4))
    assert udp == [pytest.approx(line / 2 * UDP_PAYLOAD), pytest.approx(line / 4 * UDP_PAYLOAD)]
    _, beside, udp = on_off.due_mbps(made("eyeq", "senders=3", "weights=1,2,1", "udp_mbps=300")[1])
    assert udp == [pytest.approx(300 * UDP_PAYLOAD), pytest.approx(300 * UDP_PAYLOAD)]
    assert beside == pytest.approx(400 * TCP_PAYLOAD)


def stretch(period_ms, wait_ms, due, repeats=4):
    """Return bytes by bins of a VM that has its part wait_ms after each return, and a tenth of it before."""
    on, wait = round(period_ms / 2000 / BIN_S), round(wait_ms / 1000 / BIN_S)
    one = [bytes_of(due / 10)] * wait + [bytes_of(due)] * (on - wait)
    return (one + [0] * on) * repeats


@pytest.mark.parametrize("wait_ms", [0, 2, 12.4, 30])
def test_waits_are_until_the_first_window_with_the_part(wait_ms):
    found = on_off.waits_ms(stretch(100, wait_ms, 486.0), BIN_S, 100, 486.0)
    # A window that begins a tenth of its length early has nine tenths already.
    assert len(found) == 4 and found == [pytest.approx(wait_ms, abs=0.21)] * 4


def test_a_part_that_never_comes_is_said():
    assert on_off.waits_ms(stretch(10, 5, 486.0), BIN_S, 10, 486.0) == [None] * 4
    # Ten packets at that part are a window: 12 ms at 10 Mb/s.
    assert on_off.waits_ms(stretch(100, 0, 10.0), BIN_S, 100, 10.0) == [0.0] * 4
    two_packets = ([1472] * 2 + [0] * 98 + [bytes_of(10.0)] * 150 + [0] * 250) * 2
    assert on_off.waits_ms(two_packets, BIN_S, 100, 10.0) == [pytest.approx(20, abs=3)] * 2


def test_rows_are_parts_of_what_was_due():
    _, run = made()
    rest, beside, due = on_off.due_mbps(run)
    on = round(0.05 / BIN_S)
    tcp = ([bytes_of(beside / 2)] * on + [bytes_of(rest / 2)] * on) * 4
    row = on_off.row(run, tcp, [stretch(100, 0, due[0])], BIN_S, 100)
    assert row["tcp"] == pytest.approx(0.5, abs=0.001) and row["udp"] == pytest.approx(1, abs=0.001)
    assert row["free"] == pytest.approx(0.5, abs=0.001) and row["never"] == 0 and row["wait_ms_p50"] == 0
    idle = on_off.row(run, tcp, [[0] * len(tcp)], BIN_S, 100)
    assert (idle["udp"], idle["never"], idle["wait_ms_p50"]) == (0, 1, None)
    assert idle["free"] == pytest.approx(0.375, abs=0.001)


def test_measure_finds_each_stretch_in_the_sinks(tmp_path):
    case, run = made("maxmin", "receivers=2")
    job = make_job(case.parameters, ARTIFACTS, 1, case.workload)
    (tmp_path / "job.json").write_text(json.dumps(job))
    bins = round(case.parameters.duration_s / BIN_S)
    for receiver in ("rx1", "rx2"):
        lines = []
        for flow in job["flows"]:
            if flow["to"] != receiver:
                continue
            counts = [bytes_of(478.5)] * bins
            if flow["proto"] == "udp":
                start = round(flow["start_s"] / BIN_S)
                part = stretch(2 * flow["on_ms"], flow["on_ms"] / 5, 478.5, 300)
                counts = ([0] * start + part)[:round(flow["stop_s"] / BIN_S)]
                counts += [0] * (bins - len(counts))
            lines.append(f"{flow['port']} {' '.join(map(str, counts))}\n")
        (tmp_path / f"sink-{receiver}.txt").write_text("".join(lines))
    found = on_off.measure(tmp_path, run)
    assert list(found) == ["1", "10", "100", "1000"]
    assert found["100"]["wait_ms_p50"] == pytest.approx(10, abs=0.21)
    assert found["1000"]["wait_ms_p50"] == pytest.approx(100, abs=0.21)
    assert all(row["tcp"] == pytest.approx(2 / 3, abs=0.02) for row in found.values())


def test_maxmin_is_judged_by_its_waits_where_it_has_time():
    row = {"tcp": 1.0, "free": 1.0, "udp": 1.0, "wait_ms_p50": 3.0, "wait_ms_p99": 3.0, "never": 0.0}
    run = {"parameters": Parameters(law="maxmin").model_dump(), "measured": {"40": row, "100": row}}
    verdicts = EXPERIMENTS["on-off"].judge([("", run)])
    assert [one.name for one in verdicts] == ["period 40 ms", "period 100 ms: wait, ms", "period 100 ms"]
    assert all(one.holds for one in verdicts)
    for slow in (26.0, None):
        run["measured"]["100"] = {**row, "wait_ms_p50": slow}
        assert [one.name for one in EXPERIMENTS["on-off"].judge([("", run)]) if not one.holds] == [
            "period 100 ms: wait, ms"]
    run["parameters"]["law"] = "eyeq"
    assert all(one.holds for one in EXPERIMENTS["on-off"].judge([("", run)]))
