# SPDX-License-Identifier: Apache-2.0
"""Boots the virtual machine for one job and watches it: progress, failure, time limit, kernel complaints."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from sdngcc.testbed.host import Place, memory_place
from sdngcc.testbed.processors import own_processor
from sdngcc.testbed.programs import VARIABLE, folder

HERE = Path(__file__).resolve().parent
INIT = HERE / "boot" / "init.sh"

# Folders below the project's that programs inside import nothing from.
NO_SOURCES = r"/(\.|results/|build/|(.*/)?tests/)"

# The module that runs an experiment inside.
AGENT = "sdngcc.testbed.virtual.agent"
# Memory of the machine; pages are taken from the host only when touched. 32 senders with 270 connections, each with a
# full buffer, take more than 1.2 GB.
MEMORY = "4G"
# The wall clock a machine starts with, nanoseconds since 1970: 2026-01-01 00:00 UTC.
WALL_CLOCK_NS = 1767225600 * 10**9
# What the kernel prints when it found itself at fault.
SPLAT = re.compile(r"\bBUG:|\bWARNING: |\bINFO: possible|Kernel panic|\bOops\b|general protection fault|refcount_t:|"
                   r"suspicious RCU usage|possible circular locking|inconsistent lock state|Invalid wait context|"
                   r"possible recursive locking|UBSAN:|ODEBUG:|unregister_netdevice: waiting")
# What it prints when the file of its memory gets no further page.
OUT_OF_ROOM = "Kernel mode signal 7"
PROGRESS = re.compile(r"^sdngcc-progress ([0-9.]+) (.*)$")

Progress = Callable[[float, str], None]


class MachineError(Exception):
    """The job did not end well; the text says what happened and where the log is."""


def compile_sources(root: Path = HERE.parent) -> None:
    """Compile all Python sources below a folder whose compiled form is missing or older.

    A program inside cannot keep what it compiles, and whether it has to compile moves its start by microseconds: runs
    with one seed would differ by what another process on the host has compiled meanwhile.
    """
    compileall.compile_dir(root, quiet=2, rx=re.compile(re.escape(str(root)) + NO_SOURCES))


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Make a folder for what a machine leaves, and remove it unless a MachineError passes, which names a log in it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    except MachineError:
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


@dataclass
class Timing:
    """What a boot cost."""

    wall_s: float
    """Wall time from power-on to power-off, seconds."""
    virtual_s: float
    """Virtual time at the last progress line, seconds."""


def command_line(kernel: Path, out: Path, seed: int, virtual_time: bool = True, main: str = AGENT,
                 terminal: bool = False, memory: str = MEMORY) -> List[str]:
    """Return the kernel's command line for a job whose directory is out; main is the module that does it inside."""
    argv = [str(kernel), "rootfstype=hostfs", "ro", f"mem={memory}", f"init={INIT}", "con=null",
            f"con0={'fd:0' if terminal else 'null'},fd:1", "ssl=null", "panic=-1", "quiet", "log_buf_len=1M",
            f"SDNGCC_OUT={out}", f"SDNGCC_PYTHON={sys.executable}", f"{VARIABLE}={folder()}",
            f"SDNGCC_MAIN={main}", f"laboratory_seed={seed}"]
    if sys.version_info < (3, 12):
        argv.append("SETUPTOOLS_USE_DISTUTILS=stdlib")  # Mininet needs it; to load setuptools' takes ten times as long
    if terminal:
        argv.append("SDNGCC_TERMINAL=1")
    if virtual_time:
        argv += ["time-travel=inf-cpu", f"time-travel-start={WALL_CLOCK_NS}"]
    return argv


class _Console:
    """Reads the machine's console: keeps it in a log, reports progress, remembers complaints."""

    def __init__(self, stream: Any, log: Path, progress: Optional[Progress]) -> None:
        self.failure = ""
        self.splat = ""
        self.exit: Optional[int] = None
        self.virtual_s = 0.0
        self._stream, self._log, self._progress = stream, log, progress
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with open(self._log, "w", encoding="utf-8") as log:
            for raw in self._stream:
                line = raw.decode("utf-8", "replace").rstrip()
                log.write(line + "\n")
                log.flush()
                self._see(line)

    def _see(self, line: str) -> None:
        match = PROGRESS.match(line)
        if match:
            self.virtual_s = float(match[1])
            if self._progress is not None:
                self._progress(self.virtual_s, match[2])
        elif line.startswith("sdngcc-failure "):
            self.failure = line.split(" ", 1)[1]
        elif line.startswith("sdngcc-exit "):
            self.exit = int(line.split()[1])
        elif SPLAT.search(line) and not self.splat:
            self.splat = line


def run_job(kernel: Path, job: Dict[str, Any], out: Path, seed: int, limit_s: float,
            progress: Optional[Progress] = None, virtual_time: bool = True, main: str = AGENT,
            memory: str = MEMORY) -> Timing:
    """Run a job in a machine of its own; raw samples and console.log are left in out.

    progress is called with the virtual time in seconds and a text. main is the Python module that gets job.json's
    path inside; virtual_time=False lets the machine's clock follow the host's; memory is Linux' notation of the
    machine's. Raises MachineError when the job fails, the kernel complains, or limit_s of wall time pass.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "job.json").write_text(json.dumps(job, indent=1, sort_keys=True))
    argv = command_line(kernel, out.resolve(), seed, virtual_time, main, memory=memory)
    compile_sources()
    place = _place()
    with own_processor() as processor:
        try:
            return watch_job(["taskset", "--cpu-list", str(processor), *argv], out, limit_s, progress,
                             environment={"TMPDIR": str(place.folder)})
        except MachineError as error:
            if OUT_OF_ROOM in str(error):
                raise MachineError(f"{error}; the machine's memory lay in {place.folder}, which had {place.free >> 20} "
                                   "MB free before (TMPDIR names another folder)") from None
            raise


def _place() -> Place:
    """Return where a machine's memory is to lie; raises MachineError when nothing has room."""
    try:
        return memory_place()
    except OSError as error:
        raise MachineError(str(error)) from None


def watch_job(argv: List[str], out: Path, limit_s: float, progress: Optional[Progress] = None,
              leave_s: float = 0.0, environment: Optional[Mapping[str, str]] = None) -> Timing:
    """Run the program that does a job to its end; its output is left in out as console.log.

    If it is given up it may clean up for leave_s seconds before it is killed; environment is added to the program's.
    Raises MachineError as run_job() does.
    """
    log = out / "console.log"
    started = time.monotonic()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, env={**os.environ, **(environment or {})})
    console = _Console(process.stdout, log, progress)
    try:
        process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise MachineError(f"the machine did not end within {limit_s:.0f} s of wall time (virtual time "
                           f"{console.virtual_s:.1f} s); its log is {log}") from None
    finally:
        if leave_s and process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=leave_s)
        # The machine is a family of host processes in a session of its own.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    console.thread.join(timeout=10)
    if console.splat:
        raise MachineError(f"the kernel complained: {console.splat}; the log is {log}")
    if console.failure:
        raise MachineError(f"{console.failure}; the log is {log}")
    if console.exit != 0:
        raise MachineError(f"the machine ended early (exit {console.exit}); its log is {log}")
    return Timing(wall_s=time.monotonic() - started, virtual_s=console.virtual_s)


def run_shell(kernel: Path, job: Dict[str, Any], out: Path, seed: int) -> None:
    """Boot with this process's terminal as console and the host's clock, until the user leaves.

    Raises MachineError when the machine ends on its own account.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "job.json").write_text(json.dumps(job, indent=1, sort_keys=True))
    argv = command_line(kernel, out.resolve(), seed, virtual_time=False, main="sdngcc.testbed.virtual.shell",
                        terminal=True)
    code = subprocess.run(argv, check=False, env={**os.environ, "TMPDIR": str(_place().folder)}).returncode
    if code:
        raise MachineError(f"the machine ended with {code}")
