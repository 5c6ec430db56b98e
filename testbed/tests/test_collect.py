# SPDX-License-Identifier: Apache-2.0
"""A result follows from raw samples alone; figure and report can be made of it."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed import collect, plot, report, runner
from sdngcc.testbed.machine import SPLAT
from sdngcc.testbed.parameters import Parameters
from sdngcc.testbed.statistics import jain, mean, mean_and_interval, percentile
from sdngcc.testbed.workload import Workload, three_periods

START_NS = 13_000_000_000
BIN_BYTES = 312_500  # 25 Mb/s in a bin of 0.1 s

PARAMETERS = Parameters(law="sdngcc", link_mbps=100, phases=(1, 3, 1), senders=2)


def raw_samples(folder):
    """Write what a machine would leave: vm2 sends 25 Mb/s in seconds 0 to 4, vm1 in 1 to 5; 50 Mb/s on the wire."""
    bins = {5001: [0] * 10 + [BIN_BYTES] * 40, 5002: [BIN_BYTES] * 40 + [0] * 10}
    (folder / "sink-rx1.txt").write_text(
        "".join(f"{port} {' '.join(map(str, counts))}\n" for port, counts in bins.items()))
    rows = [f"{START_NS + i * 2_000_000} {i * 12500} {1514 if i % 50 else 3028} {i // 100} {i // 1000} 0 0"
            for i in range(2501)]
    (folder / "queue.txt").write_text("\n".join(["t_ns bytes backlog marks early pdrop other", *rows, ""]))
    limits = [f"{START_NS + i * 100_000_000} 7 5 3125000 12500000 0 0 1 0" for i in range(50)]
    (folder / "limiters.txt").write_text(
        "\n".join(["t_ns vm uplink rate share sent_rate drops active congested", *limits, ""]))
    counters = {"messages": 5, "message_marks": 9, "refused_tag": 2, "refused_form": 0, "drop_forged": 2,
                "drop_horizon": 4, "tx_bytes": 10}
    (folder / "meta.json").write_text(json.dumps({
        "start_s": START_NS / 1e9, "devices": {"hv1-vm1": 7, "hv1-up": 5},
        "shim": {"counters": counters, "knobs": {"rmin-ppm": 10000}}}))
    return {**three_periods(PARAMETERS).as_dict(), "duration_s": PARAMETERS.duration_s,
            "sampling": {"bin_us": 100_000}}


@pytest.fixture
def result(tmp_path):
    job = raw_samples(tmp_path)
    return collect.summarise(collect.read_samples(tmp_path, job), PARAMETERS)


def test_phases_have_goodput_jain_and_utilisation(result):
    first, both, last = result["phases"]
    assert [one["name"] for one in result["phases"]] == ["competitors", "all", "tagged"]
    assert (both["start_s"], both["end_s"]) == (1, 4)
    assert first["goodput_mbps"] == {"vm1": 0, "vm2": 25} and both["goodput_mbps"] == {"vm1": 25, "vm2": 25}
    assert list(both["goodput_mbps"])[0] == "vm1" and last["goodput_mbps"] == {"vm1": 25, "vm2": 0}
    assert both["jain"] == [1, 1, 1] and first["jain"] == [0.5]
    assert both["utilisation"] == pytest.approx(0.5, abs=1e-3)


def test_series_have_a_value_for_each_bin(result):
    series = result["series"]
    for name in ("goodput_mbps", "limit_mbps", "share_mbps"):
        assert all(len(values) == 50 for values in series[name].values())
    assert len(series["t_s"]) == len(series["queue_bytes"]) == len(series["marks"]) == 50
    assert set(series["limit_mbps"]["vm1"]) == {25.0} and set(series["limit_mbps"]["vm2"]) == {None}
    assert sum(series["marks"]) == 24 and series["queue_bytes_max"][3] == 3028


def test_counters(result):
    assert result["queue"]["bytes_p50"] == 1514 and result["queue"]["delay_us_p50"] == pytest.approx(121.1)
    assert result["queue"]["bytes_p99"] == 3028
    assert result["drops"] == {"bottleneck_early": 2, "bottleneck_full": 0, "bottleneck_other": 0, "shim_forged": 2,
                               "shim_horizon": 4}
    notifications = result["notifications"]
    assert (notifications["sent"], notifications["accepted"], notifications["refused"]) == (7, 5, 2)
    assert notifications["refused_by_reason"] == {"tag": 2, "form": 0}


def test_finer_bins_are_added_up(tmp_path):
    job = raw_samples(tmp_path)
    coarse = collect.read_samples(tmp_path, job).goodput
    lines = [line.split() for line in (tmp_path / "sink-rx1.txt").read_text().splitlines()]
    (tmp_path / "sink-rx1.txt").write_text("".join(
        f"{port} {' '.join(f'{int(count) - 7} 3 4' for count in counts)}\n" for port, *counts in lines))
    with pytest.raises(IndexError):
        collect.read_samples(tmp_path, job)
    job["sampling"]["bin_us"] = 100_000 // 3
    assert collect.read_samples(tmp_path, job).goodput == coarse


@pytest.mark.parametrize("bin_us", [0, -100, 100_001, 33_333])
def test_bins_must_divide_those_of_results(bin_us):
    with pytest.raises(ValueError, match="whole part of 100 ms"):
        Workload().count_in(bin_us)


def test_incomplete_samples_are_refused(tmp_path):
    job = raw_samples(tmp_path)
    (tmp_path / "sink-rx1.txt").unlink()
    with pytest.raises(OSError):
        collect.read_samples(tmp_path, job)


def test_result_figure_and_report_are_left_and_repeat(result, tmp_path):
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        left = runner.leave_result(EXPERIMENTS["share"], [("", result), ("again", result)], 1, tmp_path / name)
        files.append((tmp_path / name / "result.json").read_bytes())
    assert files[0] == files[1]
    loaded = json.loads(files[0])
    assert loaded["schema"] == collect.SCHEMA and loaded["seed"] == 1 and loaded["experiment"] == "share"
    assert {"parameters", "phases", "series", "queue", "drops", "notifications", "verdicts"} <= set(loaded)
    assert {"name", "expected", "measured", "holds", "paper"} == set(loaded["verdicts"][0])
    assert (tmp_path / "one" / "figure.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "one" / "report.html").read_text()
    assert "data:image/png;base64," in page and "http" not in page.split("<script")[0].replace("base64", "")
    assert len(plot.runs_of(left)) == 2


def test_report_escapes_what_it_shows(result, tmp_path):
    shown = {**result, "schema": "x", "experiment": "<b>", "seed": 1, "label": "</script>", "variants": [],
             "verdicts": []}
    figure = tmp_path / "figure.png"
    figure.write_bytes(b"png")
    report.write(shown, figure, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<b>" not in page.split("<script")[0] and page.count("</script>") == 1


def test_an_interval_is_students():
    # Critical value of t for 95% and 3 degrees of freedom: 3.182.
    values = [1.0, 2.0, 3.0, 6.0]
    assert mean_and_interval(values) == pytest.approx((3.0, 3.182 * (14 / 3) ** 0.5 / 2), rel=1e-3)
    assert mean_and_interval([2]) == (2.0, 0.0)
    with pytest.raises(ValueError, match="no values"):
        mean_and_interval([])


def test_jain():
    assert jain([1, 1, 1, 1]) == 1 and jain([1, 0, 0, 0]) == 0.25 and jain([0, 0]) == 0


def test_percentile_and_mean():
    assert percentile(range(1, 101), 99) == 99 and percentile([5], 50) == 5 and percentile([], 99) == 0
    assert percentile([1, 2, 3, 4], 50) == 2 and mean([1, 2]) == 1.5 and mean([]) == 0


@pytest.mark.parametrize("line, splat", [
    ("WARNING: CPU: 0 PID: 1 at net/openvswitch/vport.c:3", True), ("BUG: kernel NULL pointer", True),
    ("htb: class 10001 isn't work conserving ?!", False), ("DEBUG: fine", False), ("Oops: 0002", True)])
def test_kernel_complaints_are_recognised(line, splat):
    assert bool(SPLAT.search(line)) is splat


def test_requests_count_from_when_they_were_due(tmp_path):
    job = raw_samples(tmp_path)
    work = Workload()
    work.short("vm1", "rx1", 0, 5, size=1000, deadline_us=1500, name="mice")
    flow = {**work.flows[0], "port": 6001}
    rows = [(0, 1000, 1_000_000), (1_200_000_000, 1000, 2_000_000), (4_999_000_000, 1000, -1),
            (4_990_000_000, 1000, -1)]
    (tmp_path / "requests-6001.txt").write_text("\n".join(
        ["due_ns size took_ns", *(f"{START_NS + due} {size} {took}" for due, size, took in rows)]))
    job["flows"].append(flow)
    result = collect.summarise(collect.read_samples(tmp_path, job), PARAMETERS)
    mice = result["requests"]["mice"]
    assert (mice["count"], mice["unfinished"], mice["missed"]) == (2, 2, 2)
    assert (mice["mean_us"], mice["stdev_us"], mice["p50_us"], mice["p999_us"]) == (1500, 500, 1000, 2000)
    assert mice["phases"]["competitors"]["count"] == 1 and mice["phases"]["tagged"]["unfinished"] == 2
    assert result["series"]["goodput_mbps"]["vm1"][0] == 0.08
