# SPDX-License-Identifier: Apache-2.0
"""Collected mark sources in the real application: their news reach machines, their troubles nobody else."""

import importlib.util
import os
import pathlib
import signal
import socket
import time

import grpc
import pytest

from sdngcc.controller.framework.launcher import FRAMEWORKS
from sdngcc.controller.otlp.receiver import EXPORT
from sdngcc.controller.sources.sonic import MARKED
from sdngcc.controller.wire import message

from ..fabric import arp, ipv4, vm_reading
from ..framework.test_app import told
from ..otlp.exporter import Exporter
from ..processes import KEY, PATIENCE_S, Controller, WireSwitch, free_port, wait_for
from .sflow_agent import ce_frame, counters, datagram, flow
from .test_sources_sonic import Q03, Database

DPID = 0xA1


@pytest.fixture(params=sorted(FRAMEWORKS))
def framework(request):
    if not importlib.util.find_spec(FRAMEWORKS[request.param]):
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def start(tmp_path, framework):
    """Start the controller with settings, and a bridge that is the whole network."""
    running = []

    def begin(**settings):
        controller = Controller(tmp_path, framework, poll_hypervisors="true", **settings)
        running.append(controller)
        bridge = WireSwitch(DPID, {1: b"tap1", 2: b"tap2"})
        running.append(bridge)
        bridge.vms = {1: vm_reading(1, 5_000_000), 2: vm_reading(2, 0)}
        bridge.connect(controller.address)
        wait_for(lambda: controller.get("/v1/status")["vms"] == 2, controller.log)
        wait_for(lambda: controller.get("/v1/status")["ready"], controller.log)
        return controller, bridge

    yield begin
    for one in running:
        one.stop() if isinstance(one, Controller) else one.close()


def talk(controller, bridge):
    bridge.packet_in(1, arp(1, 2))
    bridge.packet_in(2, arp(2, 1))
    bridge.packet_in(1, ipv4(1, 2))
    wait_for(lambda: (2, ipv4(1, 2)) in bridge.packet_outs, controller.log)


def origin(controller):
    [one] = controller.get("/v1/status")["mark_source"]["origins"] or [{"state": None}]
    return one


def test_marks_of_a_database_reach_the_machine(start, tmp_path):
    database = Database(tmp_path)
    try:
        database.fill()
        controller, bridge = start(
            mark_source="sonic",
            sonic_redis=f"127.0.0.1:{database.port}=a1",
            sonic_ports="a1/Ethernet0=2",
            sonic_period_ms=20,
            sonic_counter_age_ms=0,
        )
        talk(controller, bridge)
        seen = wait_for(lambda: origin(controller).get("answers"), controller.log)
        wait_for(lambda: origin(controller)["answers"] > seen + 2, controller.log)
        database.set(Q03, **{MARKED: 5 + 12})
        wait_for(lambda: told(bridge, 1), controller.log)
        got = message.decode_v1(told(bridge, 1)[0][34:], KEY)
        assert 1 <= got.marks <= 12 and (got.point_datapath, got.point_port) == (DPID, 2)
        shown = {one["port"]: one for one in controller.get("/v1/ports")["ports"]}
        assert shown[2]["marks"] == 12 and shown[1]["marks"] is None
        assert controller.get("/v1/status")["mark_source"]["freshness_ms"] == 20
        assert bridge.polls == 0  # nothing is asked over OpenFlow
    finally:
        database.end()
    wait_for(lambda: origin(controller)["state"] == "silent", controller.log)
    assert "Traceback" not in controller.log()


def test_marks_of_exports_reach_the_machine(start):
    address = f"127.0.0.1:{free_port()}"
    controller, bridge = start(
        mark_source="otlp", otlp_listen=address, otlp_switches="leaf1=a1", otlp_ports="a1/Ethernet0=2"
    )
    talk(controller, bridge)
    marks = 5

    def export(data):
        with grpc.insecure_channel(address) as channel:
            channel.unary_unary(EXPORT)(data, timeout=PATIENCE_S, wait_for_ready=True)

    def source():
        return controller.get("/v1/status")["mark_source"]

    def moved():
        nonlocal marks
        marks += 12
        export(Exporter().gauges([("Ethernet0|3", marks, time.time_ns()), ("Ethernet8|3", 1, time.time_ns())]).bytes())
        return told(bridge, 1)

    wait_for(moved, controller.log)
    got = message.decode_v1(told(bridge, 1)[0][34:], KEY)
    assert 1 <= got.marks and (got.point_datapath, got.point_port) == (DPID, 2) and got.interval_ns > 0
    wait_for(lambda: source()["measured_ms"], controller.log)
    shown = {one["port"]: one for one in controller.get("/v1/ports")["ports"]}
    assert shown[2]["marks"] >= 12 and shown[1]["marks"] is None and bridge.polls == 0
    with pytest.raises(grpc.RpcError):
        export(b"\xff" * 20)
    wait_for(lambda: source()["faults"].get("malformed"), controller.log)
    assert source()["faults"]["port_unknown"] >= 1 and source()["origins"][1]["switch"] == f"{DPID:016x}"
    assert 'sdngcc_mark_source_faults_total{kind="malformed",source="otlp"} 1.0' in controller.metrics()
    # Exports cease: that is seen, and said once.
    wait_for(lambda: [one["silent"] for one in source()["stale"]] == [True], controller.log)
    wait_for(lambda: "have ceased" in controller.log(), controller.log)
    assert "Traceback" not in controller.log()
    # The receiver dies: another one takes its place.
    [child] = [int(pid) for pid in children(controller.process.pid)]
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: source()["faults"].get("receiver_ended") and source()["origins"][0]["state"] == "fresh",
             controller.log)  # fmt: skip
    wait_for(moved, controller.log)
    # The controller ends: so does the receiver.
    [child] = [int(pid) for pid in children(controller.process.pid)]
    controller.stop()
    wait_for(lambda: not pathlib.Path(f"/proc/{child}").exists(), controller.log)
    assert "Traceback" not in controller.log()


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_samples_are_heard_beside_noise(start):
    port = free_port()
    controller, _ = start(mark_source="sflow", sflow_listen=f"127.0.0.1:{port}", sflow_agents="10.0.0.1=a1",
                          sflow_senders="10.0.0.1=127.0.0.0/8")  # fmt: skip
    sequence = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:

        def arrived():
            nonlocal sequence
            sequence += 1
            sample = datagram(counters(11, name="tap2"), flow(ce_frame(), 11, rate=8), sequence=sequence)
            for data in (b"\0" * 100, sample):
                sock.sendto(data, ("127.0.0.1", port))
            shown = {one["port"]: one for one in controller.get("/v1/ports")["ports"]}
            return shown[2]["ce_arrived"]

        wait_for(arrived, controller.log)
    status = controller.get("/v1/status")["mark_source"]
    assert status["faults"]["malformed_version"] >= 1 and status["origins"][0]["switch"] == f"{DPID:016x}"
    assert "Traceback" not in controller.log()


def test_a_server_that_accepts_and_says_nothing_delays_nobody(start):
    with socket.create_server(("127.0.0.1", 0)) as stalled:
        url = f"http://127.0.0.1:{stalled.getsockname()[1]}"
        controller, bridge = start(mark_source="sflow-rt", sflow_rt_url=url, sflow_agents="10.0.0.1=a1")
        talk(controller, bridge)
        wait_for(lambda: origin(controller)["state"] == "silent", controller.log)
        assert "internal_errors" not in controller.get("/v1/status")["counters"]
    assert "Traceback" not in controller.log()
