# SPDX-License-Identifier: Apache-2.0
"""What systemd is told, and its units."""

import os
import pathlib
import shutil
import socket
import subprocess

import pytest

from sdngcc import controller
from sdngcc.supervisor import Supervisor

UNITS = sorted((pathlib.Path(controller.__file__).parent / "systemd").glob("*.service"))


@pytest.fixture(params=["path", "abstract"])
def listener(request, tmp_path):
    """Return a socket and its name as systemd gives it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        name = str(tmp_path / "notify") if request.param == "path" else f"@sdngcc-test-{os.getpid()}"
        sock.bind(name.replace("@", "\0", 1))
        sock.settimeout(60)
        yield sock, name


def test_systemd_is_told(listener):
    sock, name = listener
    one = Supervisor({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())})
    assert one.watchdog_s == 30
    one.ready("3 switches\nMAINPID=1")
    assert sock.recv(999) == b"READY=1\nSTATUS=3 switches MAINPID=1"
    one.reloading()
    first, second = sock.recv(999).decode().split("\n")
    assert first == "RELOADING=1" and second.startswith("MONOTONIC_USEC=") and second[15:].isdecimal()
    one.alive("well")
    one.stopping()
    assert [sock.recv(999), sock.recv(999)] == [b"WATCHDOG=1\nSTATUS=well", b"STOPPING=1"]


@pytest.mark.parametrize("environment", [
    {}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "0"},
    {"WATCHDOG_USEC": "5000000"}, {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"},
])
def test_nobody_who_listens_is_no_fault(environment):
    one = Supervisor(environment)
    assert one.watchdog_s is None
    one.ready("well")


def test_a_full_socket_is_not_waited_for(listener):
    _, name = listener
    one = Supervisor({"NOTIFY_SOCKET": name})
    for _ in range(2000):  # more than wait in any socket's queue
        one.alive("well")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_what_systemd_takes_and_hardened(unit, tmp_path):
    text = unit.read_text()
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    copy = tmp_path / unit.name
    # The packages bring sdngcc, and depend on procps, which has kill.
    copy.write_text(text.replace("ExecStart=/usr/bin/sdngcc", f"ExecStart={shutil.which('true')}")
                    .replace("ExecReload=/bin/kill", f"ExecReload={shutil.which('kill')}"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=20", copy], timeout=60,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    once = unit.stem == "sdngcc-underlay"
    assert command.startswith("ExecStart=/usr/bin/sdngcc ") and f"Type={'oneshot' if once else 'notify'}" in text
    assert len(UNITS) == 3


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_that_start_another_one_are_what_systemd_takes(tmp_path):
    folder = UNITS[0].parent
    service = (folder / "sdngcc-underlay.service").read_text()
    (tmp_path / "sdngcc-underlay.service").write_text(service.replace("/usr/bin/sdngcc", shutil.which("true")))
    for kind in ("timer", "path"):
        copy = shutil.copy(folder / f"sdngcc-underlay.{kind}", tmp_path)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0 and not done.stderr, done.stderr
