# SPDX-License-Identifier: Apache-2.0
"""The core without Python: unit tests in C, the whole suite under sanitizers, and what the core may not need."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from sdngcc.shim import core as binding

HERE = Path(__file__).resolve().parent
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"]


def run(command: List[str], timeout_s: int = 400) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=timeout_s)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


def test_c_unit_tests_under_sanitizers(tmp_path: Path) -> None:
    program = tmp_path / "test_core"
    run(["gcc", *STRICT, *SANITIZE, binding.LABORATORY, "-o", str(program), str(HERE / "test_core.c"),
         *map(str, binding.sources() + binding.host_sources())])
    assert ", 0 failed" in run([str(program)])


@pytest.mark.parametrize("build", [binding.LABORATORY, binding.PRODUCT])
def test_core_needs_no_library(tmp_path: Path, build: str) -> None:
    """Freestanding: the only foreign symbols are what a compiler may always call, and what the engine's host gives."""
    for source in binding.sources():
        run(["gcc", *STRICT, "-O2", build, "-ffreestanding", "-fno-builtin", "-mgeneral-regs-only", "-c",
             "-o", str(tmp_path / f"{source.stem}.o"), str(source)])
    together = tmp_path / "core.o"
    run(["ld", "-r", "-o", str(together), *map(str, sorted(tmp_path.glob("*.o")))])
    undefined = set(run(["nm", "-u", str(together)]).split()) - {"U"}
    host = run(["nm", "-g", "--defined-only", "-j", *_host_objects(tmp_path)]).split()
    assert undefined <= {"memcmp", "memcpy", "memset", *host}


def _host_objects(folder: Path) -> List[str]:
    """Compile user space as the engine's host; return the object files."""
    objects = []
    for source in binding.host_sources():
        objects.append(str(folder / f"host-{source.stem}.o"))
        run(["gcc", *STRICT, "-O2", "-c", "-o", objects[-1], str(source)])
    return objects


def test_build_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDNGCC_CACHE", str(tmp_path))
    with pytest.raises(binding.CoreBuildError, match="gcc .*--no-such-flag"):
        binding.build("--no-such-flag")
    assert not list(tmp_path.glob("**/*.so"))


@pytest.mark.skipif("SDNGCC_CORE_PROFILE" in os.environ, reason="this is the run under sanitizers")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("which", [
    # Whatever input Hypothesis finds.
    "hypothesis",
    # The rest: simulations, most of the time of all. Their input is the same each time.
    pytest.param("not hypothesis", marks=pytest.mark.release)])
def test_suite_under_sanitizers(which: str) -> None:
    """Every other test here once more, with the address and undefined-behaviour sanitizers in the core."""
    preload = run(["gcc", "-print-file-name=libasan.so"]).strip()
    environment = {
        "LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1",
        "SDNGCC_CORE_CFLAGS": " ".join(SANITIZE), "SDNGCC_CORE_PROFILE": "core-sanitized"}
    files = sorted(str(path) for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)
    told = run(["env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, "-m", "pytest",
                "-q", "-s", "-p", "no:cacheprovider", f"--rootdir={HERE.parents[2]}", "-m", which, *files], 3500)
    assert re.search(r"^[1-9]\d* passed", told, re.MULTILINE), told
