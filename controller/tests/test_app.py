# SPDX-License-Identifier: Apache-2.0
"""The real application in its own process: a switch that speaks OpenFlow over TCP, and REST over HTTP."""

import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import sysconfig
import time
import urllib.request
from typing import NamedTuple

import pytest

from sdngcc.controller import experimenter, message, openflow

from .fabric import arp, ipv4, port_reading, vm_reading

KEY = bytes(range(16))


class Running(NamedTuple):
    address: tuple[str, int]
    url: str
    log: pathlib.Path
    process: subprocess.Popen


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def await_port(port, log):
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


class WireSwitch:
    """An OpenFlow 1.3 switch with ports and counters, and no more."""

    def __init__(self, address, dpid, ports):
        self.dpid, self.ports = dpid, ports
        self.marks, self.vms = {}, {}
        self.generation = 1
        self.polls = []
        self.packet_outs = []
        self._buffer = b""
        self._sock = socket.create_connection(address, timeout=5)
        self._sock.settimeout(0.05)
        self._send(0, 1, b"")

    def _send(self, kind, xid, body):
        self._sock.sendall(struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body)

    def packet_in(self, port, frame):
        fields = struct.pack("!HHIH", 1, 12, 0x80000004, port >> 16) + struct.pack("!H", port & 0xFFFF) + bytes(4)
        body = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 0, 0, 0) + fields + bytes(2) + frame
        self._send(10, 0, body)

    def serve(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self._buffer += self._sock.recv(65536)
            except socket.timeout:
                continue
            while len(self._buffer) >= 8:
                length = struct.unpack_from("!H", self._buffer, 2)[0]
                if len(self._buffer) < length:
                    break
                data, self._buffer = self._buffer[:length], self._buffer[length:]
                self._take(data)

    def _take(self, data):
        kind, xid = data[1], struct.unpack_from("!I", data, 4)[0]
        if kind == 2:
            self._send(3, xid, data[8:])
        elif kind == 5:
            self._send(6, xid, struct.pack("!QIBB2xII", self.dpid, 0, 1, 0, 0x47, 0))
        elif kind == openflow.OFPT_PACKET_OUT:
            length = struct.unpack_from("!H", data, 16)[0]
            self.packet_outs.append((struct.unpack_from("!I", data, 28)[0], data[24 + length :]))
        elif kind == openflow.OFPT_MULTIPART_REQUEST:
            part = struct.unpack_from("!H", data, 8)[0]
            if part == 13:
                body = b"".join(
                    struct.pack("!I4x6s2x16sIIIIIIII", port, bytes([2, 0, 0, 0, 9, port]), name, *[0] * 8)
                    for port, name in self.ports.items()
                )
                self._send(19, xid, struct.pack("!HH4x", 13, 0) + body)
            elif part == openflow.OFPMP_EXPERIMENTER:
                self._experimenter(data)

    def _experimenter(self, data):
        xid, kind, *_ = experimenter.decode_request(data)
        if kind == experimenter.PORT_MARKS:
            self.polls.append(time.monotonic())
            entries = [experimenter.encode_port_marks(reading) for reading in self.marks.values()]
        else:
            entries = [experimenter.encode_vm_state(reading) for reading in self.vms.values()]
        now = time.monotonic_ns()
        self._sock.sendall(experimenter.encode_reply(xid, kind, self.generation, 9, now, entries))


@pytest.fixture
def controller(tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text(KEY.hex())
    openflow_port, rest_port = free_port(), free_port()
    settings = {
        "KEY_FILE": key_file,
        "OPENFLOW": f"127.0.0.1:{openflow_port}",
        "REST": f"127.0.0.1:{rest_port}",
        "SETTLE_MS": "50",
        "PERIOD_US": "20000",
        "TRACE_FILE": tmp_path / "trace",
        "POLL_HYPERVISORS": "true",
    }
    environment = {**os.environ, **{f"SDNGCC_CONTROLLER_{key}": str(text) for key, text in settings.items()}}
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sdngcc.main", "controller"], env=environment, stdout=log, stderr=log
        )
        try:
            await_port(openflow_port, tmp_path / "log")
            yield Running(("127.0.0.1", openflow_port), f"http://127.0.0.1:{rest_port}", tmp_path / "log", process)
        finally:
            process.terminate()
            process.wait(10)


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def test_from_handshake_to_notice(controller):
    address, url, log, _ = controller
    # One bridge is the whole network: machines on ports 1 and 2, whose port 2 has a marking queue.
    switch = WireSwitch(address, 0xA1, {1: b"tap1", 2: b"tap2"})
    switch.vms = {1: vm_reading(1, 5_000_000), 2: vm_reading(2, 0)}
    switch.marks = {2: port_reading(2)}
    switch.serve(1.5)
    switch.packet_in(1, arp(1, 2))
    switch.packet_in(2, arp(2, 1))
    switch.packet_in(1, ipv4(1, 2))
    switch.serve(0.3)
    assert (2, ipv4(1, 2)) in switch.packet_outs
    status = get(url + "/v1/status")
    assert status["ready"] and status["vms"] == 2 and status["pairs"] == 1, log.read_text()
    switch.marks[2] = port_reading(2, count=12)
    switch.serve(0.5)
    told = [
        frame for port, frame in switch.packet_outs if port == 1 and frame[12:14] == b"\x08\x00" and frame[23] == 253
    ]
    assert len(told) == 1, log.read_text()
    got = message.decode_v1(told[0][34:], KEY)
    assert got.marks == 12 and got.point_datapath == 0xA1 and got.point_port == 2
    assert "Traceback" not in log.read_text()


def test_fabric_switch_is_polled_every_period(controller):
    address, url, log, _ = controller
    switch = WireSwitch(address, 0xB1, {1: b"p1"})
    switch.marks = {1: port_reading(1)}
    switch.serve(1.3)
    switch.polls.clear()
    switch.serve(1.0)
    assert 45 <= len(switch.polls) <= 51, log.read_text()  # 50 at 20 ms; the machine may be busy
    [shown] = get(url + "/v1/switches")["switches"]
    assert shown["poll"]["period_ms"] == 20.0 and not shown["hypervisor"]


def test_stopped_politely_it_writes_its_trace(controller, tmp_path):
    address, url, log, _ = controller
    switch = WireSwitch(address, 0xA1, {1: b"tap1", 2: b"tap2"})
    switch.vms = {1: vm_reading(1, 5_000_000), 2: vm_reading(2, 0)}
    switch.serve(0.5)
    controller.process.terminate()
    assert controller.process.wait(10) == 0, log.read_text()
    assert (tmp_path / "trace").exists()
    assert "Traceback" not in log.read_text()


def test_ryu_manager_itself_starts_it(tmp_path):
    manager = pathlib.Path(sys.executable).with_name("ryu-manager")
    mended = pathlib.Path(sysconfig.get_path("purelib")) / "ryu-manager.pth"
    if not (manager.exists() and mended.exists()):
        pytest.skip("Ryu, or the .pth file that mends it, is not installed beside this Python")
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false", "SDNGCC_CONTROLLER_REST": ""}
    log = tmp_path / "log"
    port = free_port()
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [manager, "--ofp-tcp-listen-port", str(port), "sdngcc.controller.app"],
            env=environment, stdout=stream, stderr=stream,
        )  # fmt: skip
    try:
        await_port(port, log)
    finally:
        process.terminate()
        process.wait(10)
    assert "instantiating app sdngcc.controller.app" in log.read_text()


def test_wrong_settings_stop_it_before_it_starts(tmp_path):
    environment = {**os.environ, "SDNGCC_CONTROLLER_PERIOD": "5"}
    done = subprocess.run(
        [sys.executable, "-m", "sdngcc.main", "controller"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "period: unknown key" in done.stderr and "Traceback" not in done.stderr
