# SPDX-License-Identifier: Apache-2.0
"""The real application in its own process: a switch that speaks OpenFlow over TCP, and REST over HTTP."""

import ast
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

from sdngcc.controller.framework.launcher import FRAMEWORKS
from sdngcc.controller.wire import message

from ..fabric import arp, ipv4, port_reading, vm_reading
from ..processes import KEY, Controller, WireSwitch, free_port, wait_for


@pytest.fixture(params=sorted(FRAMEWORKS))
def framework(request):
    if not importlib.util.find_spec(FRAMEWORKS[request.param]):
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def controller(tmp_path, framework):
    running = Controller(tmp_path, framework, poll_hypervisors="true")
    yield running
    running.stop()


@pytest.fixture
def bridge(controller):
    # One bridge is the whole network: machines on ports 1 and 2, whose port 2 has a marking queue.
    switch = WireSwitch(0xA1, {1: b"tap1", 2: b"tap2"})
    switch.vms = {1: vm_reading(1, 5_000_000), 2: vm_reading(2, 0)}
    switch.marks = {2: port_reading(2)}
    switch.connect(controller.address)
    wait_for(lambda: controller.get("/v1/status")["vms"] == 2, controller.log)
    wait_for(lambda: controller.get("/v1/status")["ready"], controller.log)
    yield switch
    switch.close()


def told(switch, port):
    frames = [frame for out, frame in list(switch.packet_outs) if out == port]
    return [frame for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 253]


def test_from_handshake_to_notice(controller, bridge):
    bridge.packet_in(1, arp(1, 2))
    bridge.packet_in(2, arp(2, 1))
    bridge.packet_in(1, ipv4(1, 2))
    wait_for(lambda: (2, ipv4(1, 2)) in bridge.packet_outs, controller.log)
    assert controller.get("/v1/status")["pairs"] == 1
    seen = bridge.polls
    wait_for(lambda: bridge.polls > seen + 1, controller.log)  # the baseline has been read
    bridge.marks[2] = port_reading(2, count=12)
    wait_for(lambda: told(bridge, 1), controller.log)
    seen = bridge.polls
    wait_for(lambda: bridge.polls > seen + 2, controller.log)  # and nothing follows
    [frame] = told(bridge, 1)
    got = message.decode_v1(frame[34:], KEY)
    # After a period that a busy machine drew out, the marks are scaled down with it.
    assert 1 <= got.marks <= 12 and got.point_datapath == 0xA1 and got.point_port == 2
    assert "Traceback" not in controller.log()


def test_fabric_switch_is_polled_again_and_again_never_twice_at_once(controller):
    switch = WireSwitch(0xB1, {1: b"p1"})
    switch.marks = {1: port_reading(1)}
    switch.connect(controller.address)
    # The schedule itself is test_monitor's, in time of its own.
    wait_for(lambda: switch.polls >= 50, controller.log)
    assert switch.overlapped == 0
    [shown] = controller.get("/v1/switches")["switches"]
    assert shown["poll"]["period_ms"] == 20.0 and not shown["hypervisor"]
    switch.close()


def test_a_half_dead_switch_is_left_and_the_rest_is_served(controller, bridge):
    dead = WireSwitch(0xB2, {1: b"p1"})
    dead.marks = {1: port_reading(1)}
    dead.connect(controller.address)
    wait_for(lambda: dead.polls >= 3, controller.log)
    dead.mute = True
    wait_for(lambda: "switch 00000000000000b2 is slow" in controller.log(), controller.log)
    seen = bridge.polls
    wait_for(lambda: bridge.polls > seen + 10, controller.log)
    dead.mute = False
    wait_for(lambda: "switch 00000000000000b2 answers in time again" in controller.log(), controller.log)
    dead.close()


def test_stopped_politely_it_writes_its_trace(controller, bridge):
    controller.process.terminate()
    assert controller.process.wait(60) == 0, controller.log()
    assert controller.trace.exists()
    assert "Traceback" not in controller.log()


# Stops the application with as many events waiting as its queue holds, and one more sender waiting for room.
_FULL = """
from sdngcc.controller.framework import launcher
launcher.prepare()
from sdngcc.controller import app
from sdngcc.controller.framework import compat
one = app.SdnGcc()
one.start()
room = one.events.maxsize
for _ in range(room + 1):
    compat.hub.spawn(one._send_event, object(), None)
taken = []
one.get_handlers = lambda event, state: taken.append(event) or []
compat.hub.spawn(one.stop).wait()
print(len(taken) - room)
"""


def test_stopped_with_its_event_queue_full_it_ends(framework):
    settings = {"FRAMEWORK": framework, "NOTIFY": "false", "REST": ""}
    environment = {**os.environ, **{f"SDNGCC_CONTROLLER_{key}": text for key, text in settings.items()}}
    done = subprocess.run([sys.executable, "-c", _FULL], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1"], done.stderr


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
            [manager, "--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", str(port), "sdngcc.controller.app"],
            env=environment, stdout=stream, stderr=stream,
        )  # fmt: skip
    switch = WireSwitch(0xB1, {1: b"p1"})
    try:
        wait_for(lambda: "instantiating app sdngcc.controller.app" in log.read_text(), log.read_text)
        wait_for(lambda: _connected(switch, port), log.read_text)
        wait_for(lambda: switch.polls >= 1, log.read_text)
    finally:
        switch.close()
        process.terminate()
        process.wait(60)


def _connected(switch, port):
    try:
        return switch.connect(("127.0.0.1", port))
    except OSError:
        return None


def _start(**settings):
    environment = {**os.environ, **{f"SDNGCC_CONTROLLER_{key}": text for key, text in settings.items()}}
    return subprocess.run(
        [sys.executable, "-m", "sdngcc.main", "controller"], env=environment, capture_output=True, text=True
    )


def test_wrong_settings_stop_it_before_it_starts():
    done = _start(PERIOD="5")
    assert done.returncode == 1
    assert "period: unknown key" in done.stderr and "Traceback" not in done.stderr


# Imports everything the engine needs with both frameworks made impossible to import.
_WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("ryu", "os_ken", "eventlet"):
            raise ImportError(f"a policy module imports {name}")
sys.meta_path.insert(0, Refuse())
import importlib, pkgutil, sdngcc.controller
RIM = {"app", "framework.compat", "rest.server"}
done = []
for found in pkgutil.walk_packages(sdngcc.controller.__path__, "sdngcc.controller."):
    short = found.name.split(".", 2)[2]
    if short not in RIM and not short.startswith("tests"):
        importlib.import_module(found.name)
        done.append(short)
print(" ".join(done))
"""


def test_only_the_rim_imports_a_framework():
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert {"engine", "network.relations", "forwarding.forwarder", "rates.division", "sources.openflow"} <= imported


def test_no_module_names_a_framework_in_an_import():
    folder = pathlib.Path(__file__).parents[2]
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            tops = {name.split(".")[0] for name in names}
            assert not tops & {"ryu", "os_ken"}, path
            assert "eventlet" not in tops or path.name in ("app.py", "compat.py", "launcher.py", "server.py"), path
