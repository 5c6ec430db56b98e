# SPDX-License-Identifier: Apache-2.0
"""The engine in programs of its own: threads that hammer one limiter, and this whole folder under sanitizers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from sdngcc.shim import core as binding

HERE = Path(__file__).resolve().parent
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"]
#: Files that under sanitizers take longer than what they would find is worth.
SLOW = ("test_closed_loop.py", "test_programs.py")


def run(command: List[str], timeout_s: int = 500) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=timeout_s)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


@pytest.mark.parametrize("limiter", ["police", "pace"])
def test_two_threads_pass_no_more_than_one_may(tmp_path: Path, limiter: str) -> None:
    program = tmp_path / "stress"
    run(["gcc", *STRICT, "-O2", "-D_GNU_SOURCE", "-DSHIM_THREADS", "-pthread", "-o", str(program),
         str(HERE / "stress.c"), *map(str, binding.sources() + binding.host_sources())])
    print(run([str(program), limiter, "4"], 120))


def test_threads_under_the_thread_sanitizer(tmp_path: Path) -> None:
    """What the host's locks guard is guarded: data races would end the program."""
    program = tmp_path / "stress"
    run(["gcc", *STRICT, "-O1", "-g", "-fsanitize=thread", "-Wno-tsan", "-D_GNU_SOURCE", "-DSHIM_THREADS", "-pthread",
         "-o", str(program), str(HERE / "stress.c"), *map(str, binding.sources() + binding.host_sources())])
    print(run(["env", "TSAN_OPTIONS=halt_on_error=0:exitcode=66", str(program), "police", "2"], 300))


@pytest.mark.skipif("SDNGCC_CORE_PROFILE" in os.environ, reason="this is the run under sanitizers")
@pytest.mark.slow
def test_suite_under_sanitizers() -> None:
    preload = run(["gcc", "-print-file-name=libasan.so"]).strip()
    environment = {
        "LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1",
        "SDNGCC_CORE_CFLAGS": " ".join(SANITIZE), "SDNGCC_CORE_PROFILE": "core-sanitized"}
    files = sorted(str(path) for path in HERE.glob("test_*.py") if path.name not in SLOW)
    run(["env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, "-m", "pytest", "-q",
         "-s", "-p", "no:cacheprovider", f"--rootdir={HERE.parents[2]}", *files], 580)
