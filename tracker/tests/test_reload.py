# SPDX-License-Identifier: Apache-2.0
"""Settings and files that a running tracker or agent reads again, and the files its log goes to."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import pytest

from sdngcc.reload import Reloader
from sdngcc.tracker.datagrams import Answer, Refused, Sums, pack, unpack
from sdngcc.tracker.service import Agent, Tracker
from sdngcc.tracker.settings import KEPT, LIVE, Settings, SettingsError, check_files, load

OLD, NEW = b"the former key of many bytes", b"the later key of many bytes"


class Files:
    """A settings file, and the key that it names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "tracker.json"
        self.chosen: Dict[str, Any] = {"divisions": {"a": {"objective": "ds"}}, "key_file": self.write("key", OLD)}
        self.save()

    def write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        path.chmod(0o640)
        return str(path)

    def save(self, **changes: Any) -> None:
        self.chosen.update(changes)
        self.path.write_text(json.dumps(self.chosen))

    def load(self) -> Settings:
        return load(self.path, {})

    def reloader(self, part: Any) -> "Reloader[Settings]":
        return Reloader(self.load(), self.load, check_files, [part.prepare], LIVE, KEPT)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def ask(address: str, key: bytes, sequence: int, sums: Dict[str, float]) -> socket.socket:
    """Send a host's sums; return the socket that the answer comes to."""
    host, port = address.rsplit(":", 1)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(30)
    sock.sendto(pack(Sums(host="h1", epoch=1, sequence=sequence, sums=sums), key), (host, int(port)))
    return sock


def serve(tracker: Tracker, key: bytes, sequence: int, sums: Dict[str, float]) -> Optional[Dict[str, float]]:
    """Return what a tracker answers; None: nothing."""
    with ask(tracker.address, key, sequence, sums) as sock:
        before = tracker.refused
        tracker.serve(1.0)
        return unpack(sock.recv(65536), key, Answer).factors if tracker.refused == before else None


def test_a_tracker_takes_another_key_and_other_divisions(files: Files) -> None:
    files.save(listen="127.0.0.1:0")
    tracker = Tracker(files.load())
    reloader = files.reloader(tracker)
    assert serve(tracker, OLD, 1, {"a": 1.0}) == {"a": 10_000.0}
    files.write("key", NEW)
    files.save(divisions={"a": {"objective": "ds"}, "b": {"objective": "cs", "weight": 3}})
    outcome = reloader.run("SIGHUP")
    assert (outcome.result, outcome.changed) == ("done", ("divisions",))
    assert serve(tracker, OLD, 2, {"a": 1.0}) is None
    assert serve(tracker, NEW, 3, {"a": 1.0, "b": 1.0}) == {"a": 2500.0, "b": 7500.0}
    files.save(divisions={"b": {"objective": "cs"}})
    assert reloader.run("SIGHUP").result == "done"
    assert serve(tracker, NEW, 4, {"b": 2.0}) == {"b": 5000.0}
    tracker.close()


@pytest.mark.parametrize("change, said", [
    ({"divisions": {}}, "divisions"),
    ({"colour": 1}, "colour: unknown key"),
    ({"key_file": "/nowhere/key"}, "key_file /nowhere/key"),
    ({"log_file": "/nowhere/log"}, "log_file /nowhere/log: there is no folder /nowhere"),
])
def test_what_cannot_be_used_leaves_all_as_it_was(files: Files, change: Dict[str, Any], said: str) -> None:
    files.save(listen="127.0.0.1:0")
    tracker = Tracker(files.load())
    reloader = files.reloader(tracker)
    files.write("key", NEW)
    files.save(**change)
    outcome = reloader.run("SIGHUP")
    assert outcome.result == "failed" and said in (outcome.error or "")
    assert serve(tracker, OLD, 1, {"a": 1.0}) == {"a": 10_000.0} and reloader.counts == {"done": 0, "failed": 1}
    tracker.close()


def test_what_needs_a_restart_is_named_and_stays(files: Files) -> None:
    files.save(listen="127.0.0.1:0")
    tracker = Tracker(files.load())
    reloader = files.reloader(tracker)
    files.save(listen="0.0.0.0:1", key_file="", period_ms=9)
    outcome = reloader.run("SIGHUP")
    assert (outcome.result, outcome.changed) == ("done", ())
    assert set(reloader.restart_needed) == {"listen", "key_file", "period_ms"}
    assert serve(tracker, OLD, 1, {"a": 1.0}) == {"a": 10_000.0}
    tracker.close()


class Host:
    """An agent, the weights it set, and a tracker that it obeys."""

    def __init__(self, files: Files) -> None:
        files.save(listen="127.0.0.1:0", host="h1")
        self.tracker = Tracker(files.load())
        files.save(trackers=[self.tracker.address], vms={"tap0": self.vm(files, "tap0")})
        self.weights: Dict[Tuple[str, str], int] = {}
        self.agent = Agent(files.load(), self.set_weight)
        self.now_s = 1.0

    @staticmethod
    def vm(files: Files, name: str) -> Dict[str, str]:
        return {"division": "a", "register_path": str(files.folder / name)}

    def set_weight(self, device: str, address: str, weight: int) -> bool:
        self.weights[device, address] = weight
        return True

    def register(self, path: str) -> bool:
        """Register a flow; return whether somebody listens."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            try:
                sock.sendto(b'{"peer": "10.0.1.1", "flows": [[1000, 10000]]}', path)
            except OSError:
                return False
        for _ in range(2):
            self.now_s += 0.005
            self.agent.hear_trackers(self.now_s)
            self.agent.tell_trackers(self.now_s)
            self.tracker.serve(self.now_s)
        self.agent.hear_trackers(self.now_s)
        return True

    def set(self) -> Dict[Tuple[str, str], int]:
        """Return the weights that are set."""
        return {tunnel: weight for tunnel, weight in self.weights.items() if weight}


@pytest.fixture
def host(files: Files) -> Iterator[Host]:
    made = Host(files)
    yield made
    made.agent.close()
    made.tracker.close()


def test_an_agents_vms_come_and_go(files: Files, host: Host) -> None:
    reloader = files.reloader(host.agent)
    first, second = (str(files.folder / name) for name in ("tap0", "tap1"))
    assert host.register(first) and host.set() == {("tap0", "10.0.1.1"): 10_000}
    files.save(vms={"tap0": host.vm(files, "tap0"), "tap1": host.vm(files, "tap1")})
    assert reloader.run("SIGHUP").changed == ("vms",)
    assert host.register(second) and host.register(first)
    assert host.set() == {("tap0", "10.0.1.1"): 5000, ("tap1", "10.0.1.1"): 5000}
    files.save(vms={"tap1": host.vm(files, "tap1")})
    reloader.run("SIGHUP")
    assert not host.register(first) and not os.path.exists(first)
    assert host.register(second) and host.set() == {("tap1", "10.0.1.1"): 10_000}
    files.save(vms={"tap2": host.vm(files, "tap1")})  # another VM takes the socket's place
    reloader.run("SIGHUP")
    assert host.register(second) and host.set() == {("tap2", "10.0.1.1"): 10_000}


def test_a_socket_that_cannot_be_opened_leaves_an_agent_as_it_was(files: Files, host: Host) -> None:
    reloader = files.reloader(host.agent)
    files.save(vms={"tap1": host.vm(files, "tap1"), "tap2": host.vm(files, "nowhere/tap2")})
    outcome = reloader.run("SIGHUP")
    assert outcome.result == "failed" and "vms.tap2.register_path" in (outcome.error or "")
    assert host.register(str(files.folder / "tap0")) and host.set() == {("tap0", "10.0.1.1"): 10_000}
    assert sorted(path.name for path in files.folder.iterdir() if path.is_socket()) == ["tap0"]


def wait_for(condition: Callable[[], bool], said: Callable[[], str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


def test_the_programs_log_goes_to_a_file_that_a_hangup_opens_anew(files: Files) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = files.folder / "tracker.log"
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(files.folder / "notify"))
    told.settimeout(120)
    files.save(listen=address, log_file=str(log), log_level="warning", log_format="json")
    process = subprocess.Popen(
        [sys.executable, "-m", "sdngcc.main", "tracker", "serve", "--config", files.path], stderr=subprocess.PIPE,
        env={**os.environ, "NOTIFY_SOCKET": str(files.folder / "notify")},
    )
    try:
        assert told.recv(4096).startswith(b"READY=1")
        ask(address, NEW, 1, {"a": 1.0}).close()
        wait_for(lambda: log.exists() and "the tag is wrong" in log.read_text(), lambda: "nothing is in the log file")
        assert json.loads(log.read_text().splitlines()[0])["level"] == "WARNING"
        log.rename(files.folder / "tracker.log.1")
        files.write("key", NEW)
        files.save(log_level="info", log_format="text")
        process.send_signal(signal.SIGHUP)
        assert told.recv(4096).startswith(b"RELOADING=1") and b"done" in told.recv(4096)
        assert "reload by SIGHUP: files read again; settings that changed: log_level, log_format" in log.read_text()
        with ask(address, NEW, 2, {"a": 1.0}) as sock:
            assert unpack(sock.recv(65536), NEW, Answer).factors == {"a": 10_000.0}
        files.save(colour="red")
        process.send_signal(signal.SIGHUP)
        assert told.recv(4096).startswith(b"RELOADING=1") and b"colour" in told.recv(4096)
        assert "reload by SIGHUP failed, all stays as it was: colour: unknown key" in log.read_text()
    finally:
        process.terminate()
        assert process.stderr is not None
        said = process.stderr.read()
        process.wait(60)
        told.close()
    assert process.returncode == 0 and said == b""


def test_a_key_that_is_no_key_does_not_come_into_force(files: Files) -> None:
    files.save(listen="127.0.0.1:0")
    tracker = Tracker(files.load())
    files.write("key", b"short")
    with pytest.raises(SettingsError, match="it holds 5 bytes"):
        tracker.prepare(files.load())
    with pytest.raises(Refused):
        unpack(pack(Answer(epoch=1, sequence=1, factors={}), OLD), NEW, Answer)
    tracker.close()
