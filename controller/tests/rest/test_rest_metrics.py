# SPDX-License-Identifier: Apache-2.0
"""Prometheus' metrics, judged by Prometheus' own tool."""

import gc
import shutil
import subprocess
import sys
import threading
import time

import falcon
import falcon.testing
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sdngcc.controller.network.topology import Port
from sdngcc.controller.rest import metrics as metrics_module
from sdngcc.controller.rest.metrics import TEXTS_MAX, Metrics

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


def wide(bench, count):
    """Give a bench's controller so many ports more."""
    ports = bench.engine.topology.ports[T2]
    for number in range(1000, 1000 + count):
        ports[number] = Port(f"more{number}", bytes(6), True, 0)


def test_no_step_of_a_scrape_is_longer_the_more_there_is(bench):
    longest = {}
    for count in (100, 2000):
        wide(bench, count)
        steps, lines = [0], [0]

        def pause(steps=steps, lines=lines):
            steps.append(lines[0])

        bench.context.pause = pause

        def trace(frame, event, argument, lines=lines):
            lines[0] += event == "line"
            return lambda *one: trace(*one)

        metrics = Metrics(bench.context, bench.reporter)
        sys.settrace(trace)
        try:
            text = metrics._write()
            pieces = list(metrics._send(text))
        finally:
            sys.settrace(None)
        assert f"more{999 + count}" in b"".join(pieces).decode()
        longest[count] = max(after - before for before, after in zip(steps, steps[1:]))
    assert longest[2000] <= 1.1 * longest[100] and longest[2000] < 5000, longest


def test_one_text_is_written_at_a_time_for_all_who_asked_before_it_was_begun(bench):
    written, asked, texts = [], threading.Event(), []
    metrics = Metrics(bench.context, bench.reporter)
    write = metrics._write

    def slow():
        written.append(1)
        if len(written) == 1:
            assert asked.wait(60)
        return write()

    metrics._write = slow

    def scrape():
        response = falcon.Response()
        metrics.on_get(falcon.Request(falcon.testing.create_environ("/metrics")), response)
        texts.append(b"".join(response.stream))

    first = threading.Thread(target=scrape)
    first.start()
    while not written:
        time.sleep(0.001)
    others = [threading.Thread(target=scrape) for _ in range(10)]
    for one in others:
        one.start()
    time.sleep(0.2)  # each of them waits by now; one that came later would be given another text
    asked.set()
    for one in (first, *others):
        one.join(60)
    assert len(texts) == 11 and len(written) <= 3


def test_texts_that_nobody_takes_are_bounded(bench):
    held = []
    for number in range(TEXTS_MAX + 1):
        response = falcon.Response()
        request = falcon.Request(falcon.testing.create_environ("/metrics"))
        metrics = held[0][0] if held else Metrics(bench.context, bench.reporter)
        if number < TEXTS_MAX:
            metrics.on_get(request, response)
            next(response.stream)
            held.append((metrics, response.stream))
        else:
            with pytest.raises(falcon.HTTPStatus, match="503") as refused:
                metrics.on_get(request, response)
            assert "earlier answers are still being read" in refused.value.text
    metrics = held[0][0]
    held.clear()
    gc.collect()
    metrics.on_get(request, falcon.Response())


def test_more_samples_than_can_be_told_are_left_out_and_that_is_told(bench, monkeypatch):
    assert samples(bench.get("/metrics").text)["sdngcc_metrics_left_out"] == [({}, 0)]
    monkeypatch.setattr(metrics_module, "SAMPLES_MAX", 10)
    found = samples(bench.get("/metrics").text)
    assert found["sdngcc_metrics_left_out"][0][1] > 10 and "sdngcc_vm_weight_ratio" not in found
    assert "sdngcc_port_up" not in found and found["sdngcc_ready"]
