# SPDX-License-Identifier: Apache-2.0
"""What the virtual machine needs of its host: room for its memory, leave to trace; what is told before builds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sdngcc.main import main
from sdngcc.testbed import host, machine, programs
from sdngcc.testbed.host import LEAST, ROOMY, Place, choose
from sdngcc.testbed.machine import MachineError, scratch, watch_job
from sdngcc.testbed.parameters import Parameters
from sdngcc.testbed.workload import Program, Workload

SHM, TMP, VAR = (Path(name) for name in ("/dev/shm", "/tmp", "/var/tmp"))

# Run in namespaces of its own: file systems with little room, and one that nothing runs from, where folders were.
MOUNTED = """set -eu
mount -t tmpfs -o size=64m tmpfs /dev/shm
mount -t tmpfs -o noexec,size=8g tmpfs /tmp
exec "$0" -c 'from sdngcc.testbed import host
print(*map(host.look, host.candidates()[:2]), host.memory_place().folder, sep="\\n")'
"""


@pytest.mark.parametrize("places, chosen", [
    ([Place(SHM, ROOMY, True), Place(TMP, 9 * ROOMY, True)], SHM),
    ([Place(SHM, 64 << 20, True), Place(TMP, 9 * ROOMY, True)], TMP),
    ([Place(SHM, ROOMY, False), Place(TMP, ROOMY, True)], TMP),
    ([Place(SHM, LEAST, True), Place(TMP, LEAST + 1, True), Place(VAR, 0, False)], TMP),
    ([Place(SHM, LEAST - 1, True), Place(TMP, ROOMY, False)], None),
])
def test_memory_lies_where_there_is_room_and_programs_run(places, chosen):
    found = choose(places)
    assert (found and found.folder) == chosen


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_containers_64_mb_and_a_folder_that_nothing_runs_from_are_passed_over():
    done = subprocess.run(["unshare", "--mount", "sh", "-c", MOUNTED, sys.executable], text=True, capture_output=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/root")})
    assert done.returncode == 0, done.stderr
    shm, tmp, chosen = done.stdout.splitlines()
    assert shm == "/dev/shm has 64 MB free" and tmp == "/tmp has 8192 MB free, and nothing runs from there"
    assert chosen in ("/var/tmp", str(host.cache_root()))


def test_tmpdir_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert host.candidates()[0] == tmp_path and host.candidates()[1] == SHM
    monkeypatch.delenv("TMPDIR")
    assert host.candidates()[:3] == [SHM, TMP, VAR]


def test_processes_may_be_traced_here():
    assert host.can_trace()


@pytest.mark.skipif(os.geteuid() != 0, reason="capabilities need root")
def test_a_seccomp_filter_that_forbids_ptrace_is_seen():
    """The filter of 7 instructions: ptrace (101 on x86-64) ends with EPERM, all else passes."""
    program = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
text = b"".join(struct.pack("HBBI", *one) for one in code)
memory = ctypes.create_string_buffer(text, len(text))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
filters = Program(len(code), ctypes.addressof(memory))
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(filters), 0, 0) == 0
from sdngcc.testbed import host
print(host.can_trace(), host.hindrances())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("False") and "ptrace" in done.stdout


def test_what_is_missing_is_told_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(host, "hindrances", lambda: ["no folder has room"])
    monkeypatch.setattr("sdngcc.testbed.build.build", lambda *args, **kwargs: pytest.fail("it builds"))
    for argv in (["testbed", "build"], ["testbed", "run", "share"]):
        done = CliRunner().invoke(main, argv)
        assert done.exit_code == 2 and "no folder has room" in done.output


def test_a_short_path_does_for_the_command(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert CliRunner().invoke(main, ["testbed", "list", "--json"]).exit_code == 0
    assert {"/usr/sbin", "/sbin", str(programs.folder() / "links")} < set(os.environ["PATH"].split(":"))


def test_an_experiment_whose_programs_are_missing_says_so_before_it_builds(monkeypatch):
    monkeypatch.setattr(programs, "missing", lambda names: sorted(set(names)))
    monkeypatch.setattr("sdngcc.testbed.build.build", lambda *args, **kwargs: pytest.fail("it builds"))
    for experiment, wanted in (("memcached", "memcached"), ("web", "nginx, wrk"), ("mice", "nginx")):
        done = CliRunner().invoke(main, ["testbed", "run", experiment])
        assert done.exit_code == 2 and f"runs {wanted}," in done.output, done.output
        assert "make setup" in done.output


def test_programs_of_a_run_are_those_that_it_calls():
    work = Workload()
    assert programs.needed(Parameters(), work) == []
    work.program(Program("a", "vm1", ("sh", "-c", "make files && exec nginx -c x")))
    work.program(Program("b", "vm1", ("wrk", "-t", "1")))
    assert programs.needed(Parameters(), work) == ["nginx", "wrk"]
    assert programs.needed(Parameters(generator="iperf"), Workload()) == ["iperf"]
    assert programs.missing(["sh", "no-such-program"]) == ["no-such-program"]


def test_programs_that_were_unpacked_are_found_behind_the_systems(monkeypatch, tmp_path):
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path))
    (tmp_path / "links").mkdir()
    for name in ("sh", "no-such-program"):
        (tmp_path / "links" / name).write_text("#!/bin/sh\n")
        (tmp_path / "links" / name).chmod(0o755)
    assert programs.missing(["no-such-program"]) == []
    assert programs.search_path().endswith(f":{tmp_path}/links")
    assert programs.data("no/such/file") == tmp_path / "usr/share/no/such/file"
    assert programs.data("dpkg") == Path("/usr/share/dpkg")
    assert programs.python_path() == tmp_path / "usr/lib/python3/dist-packages"
    assert programs.debians("no-such-program") == tmp_path / "links/no-such-program"
    assert programs.debians("env") == Path("/usr/bin/env")
    with pytest.raises(FileNotFoundError, match="there is no nowhere-such in "):
        programs.debians("nowhere-such")


def test_the_log_of_a_machine_that_failed_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(MachineError) as raised, scratch("kept-") as out:
        watch_job(["sh", "-c", "echo Kernel panic - not syncing: Kernel mode signal 7"], out, 60)
    (log,) = tmp_path.glob("kept-*/console.log")
    assert str(log) in str(raised.value) and machine.OUT_OF_ROOM in log.read_text()
    with scratch("gone-"):
        pass
    with pytest.raises(KeyError), scratch("gone-"):
        raise KeyError
    assert not list(tmp_path.glob("gone-*"))
