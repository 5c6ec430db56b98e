# SPDX-License-Identifier: Apache-2.0
"""Prometheus' metrics, judged by Prometheus' own tool."""

import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ..fabric import port_reading, vm_reading
from ..test_engine import H1, T2, talk
from .rest_bench import Bench


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    talk(bench.fabric, 11, 31)
    bench.fabric.switches[H1].vms[2] = vm_reading(2, 1_000_000, weight=2, flags=3)._replace(drops=5, max_rate=9000)
    bench.fabric.switches[T2].add_marks(1, 42)
    bench.fabric.switches[T2].marks[9] = port_reading(9, kinds=0)
    bench.fabric.run(1.0)
    return bench


def samples(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_values(bench):
    found = samples(bench.get("/metrics").text)
    labels = {"vm": "neutron-1", "switch": f"{H1:016x}", "port": "vm1a"}

    def of(name):
        return next(value for seen, value in found[name] if seen == labels)

    assert of("sdngcc_vm_sent_bytes_per_second") == 1_000_000
    assert of("sdngcc_vm_share_bytes_per_second") == 100_000_000
    assert of("sdngcc_vm_ceiling_bytes_per_second") == 9000
    assert of("sdngcc_vm_dropped_packets_total") == 5
    assert of("sdngcc_vm_weight_ratio") == 2 and of("sdngcc_vm_congested") == 1
    assert of("sdngcc_vm_messages_sent_total") == 1 and of("sdngcc_vm_marks_sent_total") == 42
    marks = {(one["switch"], one["port"]): value for one, value in found["sdngcc_port_marks_total"]}
    assert marks[f"{T2:016x}", "1"] == 42
    assert (f"{T2:016x}", "9") not in marks  # no mark counter is no zero
    events = {one["event"]: value for one, value in found["sdngcc_controller_events_total"]}
    assert events["notices"] == 1 and events["internal_errors"] == 0
    buckets = {one["le"]: value for one, value in found["sdngcc_notification_latency_seconds_bucket"]}
    assert buckets["+Inf"] == 1 and buckets["0.0001"] <= buckets["0.001"] <= 1
    assert found["sdngcc_switch_connected"] and len(found["sdngcc_switch_poll_period_seconds"]) == 6
    assert found["process_resident_memory_bytes"][0][1] > 0


def test_names_from_outside_are_labels_that_no_terminal_obeys(bench):
    bench.engine.set_interfaces({(H1, "vm1a"): "\x1b[2Jneutron\n"})
    text = bench.get("/metrics").text
    assert "\x1b" not in text
    assert "\\x1b[2Jneutron\\x0a" in {labels.get("vm") for labels, _ in samples(text)["sdngcc_vm_weight_ratio"]}


def test_a_scrape_lets_other_work_go_on(bench):
    bench.pauses.clear()
    bench.get("/metrics")
    assert len(bench.pauses) > 30


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_no_fault(bench):
    text = bench.get("/metrics").text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
