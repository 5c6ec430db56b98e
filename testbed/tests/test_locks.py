# SPDX-License-Identifier: Apache-2.0
"""Who waits for another's build is told so, and a command that is given up leaves nothing and no traceback."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from sdngcc.testbed import build
from sdngcc.testbed.build import Build, Part, build_part
from sdngcc.testbed.locks import locked

HOLD = "import sys, time, pathlib\nfrom sdngcc.testbed.locks import locked\n" \
       "with locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"


@pytest.fixture
def holder(tmp_path):
    """A process that holds a lock of the cache."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "part-key.lock")], stdout=subprocess.PIPE,
                               text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("quiet", [False, True])
def test_waiting_for_a_build_tells_the_lock_and_who_holds_it(tmp_path, monkeypatch, holder, capsys, quiet):
    monkeypatch.setenv("SDNGCC_CACHE", str(tmp_path))
    told = []

    def progress(part, done, total, what):
        told.append(what)
        holder.kill()

    if quiet:
        monkeypatch.setattr(build, "say", lambda text: progress("", 0, 0, text))
    build_part(Part("part", "key", 1, recipe=lambda one: None), None if quiet else progress)
    assert "part-key.lock" in told[0] and "waiting for" in told[0], told
    assert re.search(rf"process {holder.pid} \(.*python", told[0]), told
    assert (tmp_path / "part-key" / ".complete").exists()


def test_who_need_not_wait_is_told_nothing(tmp_path):
    told = []
    for _ in range(2):
        with locked(tmp_path / "a.lock", told.append):
            assert (tmp_path / "a.lock").read_text() == f"{os.getpid()}\n"
    assert told == [] and (tmp_path / "a.lock").read_text() == ""


def test_a_build_that_is_given_up_ends_its_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("SDNGCC_CACHE", str(tmp_path))
    part = Part("part", "key", 1)
    part.folder.mkdir(parents=True)

    def stop(*_):
        raise KeyboardInterrupt

    child = "import subprocess, time; p = subprocess.Popen(['sleep', '77']); print(p.pid, flush=True); time.sleep(77)"
    with pytest.raises(KeyboardInterrupt):
        Build(part, stop).run([sys.executable, "-c", child], "sleeping")
    pid = int((part.folder / "build.log").read_text().split()[-1])
    for _ in range(100):
        if not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split()[2]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("a child still runs")


RUN = """
import sys, time, pathlib
from sdngcc.testbed.interrupt import ending_quietly
raw = pathlib.Path(sys.argv[1]) / "out" / "raw"
with ending_quietly(raw):
    raw.mkdir(parents=True)
    (raw / "console.log").write_text("x")
    (raw.parent / "kept").write_text("x") if len(sys.argv) > 2 else None
    print("begun", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number,status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("kept", [False, True])
def test_a_signal_ends_it_with_its_status_and_nothing_left(tmp_path, number, status, kept):
    process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path), *(["kept"] if kept else [])],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == status and "Traceback" not in said and "interrupted" in said
    assert not (tmp_path / "out" / "raw").exists() and (tmp_path / "out").exists() == kept


@pytest.mark.slow
def test_simulate_ends_with_its_workers(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "sdngcc.main", "simulate", "run", "share", "--set", "model=fluid", "--seeds", "4",
         "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("out/seed-*/raw")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130 and "Traceback" not in said, said
    assert not list(tmp_path.glob("out/seed-*/raw"))
