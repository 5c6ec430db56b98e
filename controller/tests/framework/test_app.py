# SPDX-License-Identifier: Apache-2.0
"""The real application in its own process: a switch that speaks OpenFlow over TCP, and REST over HTTP."""

import ast
import os
import pathlib
import socket
import subprocess
import sys
import sysconfig

import pytest

from sdngcc.controller.wire import message

from ..fabric import arp, ipv4, port_reading, vm_reading
from ..processes import KEY, Controller, WireSwitch, free_port, wait_for


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
from sdngcc.controller.framework import names
one = app.SdnGcc()
one.start()
room = one.events.maxsize
for _ in range(room + 1):
    names.hub.spawn(one._send_event, object(), None)
taken = []
one.get_handlers = lambda event, state: taken.append(event) or []
names.hub.spawn(one.stop).wait()
print(len(taken) - room)
"""


def test_stopped_with_its_event_queue_full_it_ends(framework):
    settings = {"FRAMEWORK": framework, "NOTIFY": "false", "REST": "", "OPENFLOW": "127.0.0.1:0"}
    environment = {**os.environ, **{f"SDNGCC_CONTROLLER_{key}": text for key, text in settings.items()}}
    done = subprocess.run([sys.executable, "-c", _FULL], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1"], done.stderr


@pytest.fixture
def manager():
    found = pathlib.Path(sys.executable).with_name("ryu-manager")
    mended = pathlib.Path(sysconfig.get_path("purelib")) / "ryu-manager.pth"
    if not (found.exists() and mended.exists()):
        pytest.skip("Ryu, or the .pth file that mends it, is not installed beside this Python")
    return found


def test_ryu_manager_itself_starts_it_and_it_listens_where_the_setting_says(tmp_path, manager):
    port = free_port()
    environment = {
        **os.environ,
        "SDNGCC_CONTROLLER_NOTIFY": "false",
        "SDNGCC_CONTROLLER_REST": "",
        "SDNGCC_CONTROLLER_OPENFLOW": f"127.0.0.1:{port}",
    }
    log = tmp_path / "log"
    with open(log, "wb") as stream:
        process = subprocess.Popen([manager, "sdngcc.controller.app"], env=environment, stdout=stream, stderr=stream)
    switch = WireSwitch(0xB1, {1: b"p1"})
    try:
        wait_for(lambda: "instantiating app sdngcc.controller.app" in log.read_text(), log.read_text)
        wait_for(lambda: _connected(switch, port), log.read_text)
        wait_for(lambda: switch.polls >= 1, log.read_text)
        # And nowhere else, as Ryu itself would: at its ports, on all addresses.
        assert _listens_at(process.pid) == {("127.0.0.1", port)}
    finally:
        switch.close()
        process.terminate()
        process.wait(60)


def _listens_at(pid):
    """Return the TCP addresses (IPv4) and ports that a process listens at."""
    sockets = {os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    mine = [row[1].split(":") for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return {(socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)) for host, port in mine}


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
RIM = {
    "app", "framework.connections", "framework.handshakes", "framework.hub", "framework.listening",
    "framework.managers", "framework.names", "rest.server",
}
done = []
for found in pkgutil.walk_packages(sdngcc.controller.__path__, "sdngcc.controller."):
    short = found.name.split(".", 2)[2]
    # _native is a library of C functions, which Python cannot import.
    if short not in RIM and not short.startswith("tests") and not short.endswith("._native"):
        importlib.import_module(found.name)
        done.append(short)
print(" ".join(done))
"""


def test_only_the_rim_imports_a_framework():
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert {"engine", "network.relations", "forwarding.forwarder", "rates.division", "sources.openflow"} <= imported


EVENTLET = ("app.py", "connections.py", "handshakes.py", "hub.py", "launcher.py", "listening.py", "server.py")


def test_no_module_names_a_framework_in_an_import():
    folder = pathlib.Path(__file__).parents[2]
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            tops = {name.split(".")[0] for name in names}
            assert not tops & {"ryu", "os_ken"}, path
            assert "eventlet" not in tops or path.name in EVENTLET, path


# What the older controller did: a socket that shares its port with all who ask for that.
@pytest.fixture
def taken():
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", free_port()))
    sock.listen()
    yield f"127.0.0.1:{sock.getsockname()[1]}"
    sock.close()


@pytest.mark.parametrize("key", ["OPENFLOW", "REST"])
def test_an_address_that_is_taken_stops_it_at_its_start(framework, taken, key):
    settings = {"NOTIFY": "false", "FRAMEWORK": framework, "OPENFLOW": f"127.0.0.1:{free_port()}", "REST": ""}
    done = _start(**{**settings, key: taken})
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    told = f"{key.lower()} {taken}: cannot listen (Address already in use)"
    assert told in done.stderr and f"stop that process, or set another {key.lower()}" in done.stderr


def test_an_address_of_another_machine_stops_it_at_its_start(framework):
    done = _start(NOTIFY="false", FRAMEWORK=framework, OPENFLOW="192.0.2.1:6653", REST="")
    assert done.returncode == 1 and "openflow 192.0.2.1:6653: cannot listen (Cannot assign" in done.stderr


def test_ryu_manager_refuses_an_address_that_is_taken(manager, taken):
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false", "SDNGCC_CONTROLLER_OPENFLOW": taken}
    done = subprocess.run([manager, "sdngcc.controller.app"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert f"sdngcc: openflow {taken}: cannot listen (Address already in use)" in done.stderr


def test_ryu_manager_refuses_options_that_the_settings_have(manager):
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false", "SDNGCC_CONTROLLER_REST": ""}
    options = ["--ofp-listen-host", "127.0.0.2", "--ofp-tcp-listen-port", str(free_port())]
    done = subprocess.run(
        [manager, *options, "sdngcc.controller.app"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "sdngcc: --ofp-listen-host, --ofp-tcp-listen-port: not obeyed; switches connect where" in done.stderr


def test_ryu_is_not_taken_where_python_lacks_what_it_imports(monkeypatch):
    from sdngcc.controller.framework import launcher
    from sdngcc.controller.settings import SettingsError

    assert launcher.find_framework("auto") == "ryu"
    monkeypatch.setattr(launcher, "RYU_NEEDS", "no_such_module")
    assert launcher.find_framework("auto") == "os_ken"
    with pytest.raises(SettingsError, match="ryu cannot be used; there is os-ken"):
        launcher.find_framework("ryu")
