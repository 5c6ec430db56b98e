# SPDX-License-Identifier: Apache-2.0
"""Runs the datapath's tests in a kernel that looks for mistakes: ``make sanitize``.

KASAN and UBSAN, lockdep with RCU and atomic sleep, object debugging and kmemleak (folder sanitize). Each file
of shim/tests/datapath has a machine of its own and fails on any complaint in the kernel's log and on any leak.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import List, Optional, Sequence

from sdngcc.testbed.build import ROOT, Artifacts, BuildError, build
from sdngcc.testbed.inside import run_inside
from sdngcc.testbed.machine import MachineError

FOLDER = ROOT / "shim" / "tests" / "datapath"

# Files about hooks that the patched datapath does not have.
BESIDE_ONLY = ("check_origin.py", "check_overlay.py")

# Wall time one file may take, seconds: everything is some ten times slower than usual, and check_limits.py, which sends
# TCP for two minutes, takes half an hour of a processor.
LIMIT_S = 5400.0


def arguments_of(artifacts: Artifacts, modules: Sequence[str]) -> List[str]:
    """Return what a file is called with: the generator, the shim's module, the folder of the kernel's drivers."""
    return [str(artifacts.generator), modules[-1], str(artifacts.kernel_build / "drivers" / "net")]


def run_file(script: Path, artifacts: Artifacts, datapath: str) -> List[str]:
    """Run one file of tests on a variant of the datapath and return what failed; its output goes to standard output."""
    modules = artifacts.datapath(datapath)
    try:
        ended = run_inside(["python3", str(script), *arguments_of(artifacts, modules)], modules,
                           artifacts.ovs, limit_s=LIMIT_S, kernel=artifacts.kernel)
    except MachineError as error:
        print(error, flush=True)
        return [f"{script.name}: the machine failed"]
    print(ended.output, flush=True)
    failed = [f"{script.name}: {line}" for line in ended.output.splitlines() if line.startswith("not ok")]
    if (ended.status or "\nok " not in ended.output) and not failed:
        failed.append(f"{script.name}: exit {ended.status}")
    return failed


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the files named, all if none is; returns 0 if nothing failed, 1 else, 2 if a build fails."""
    parser = argparse.ArgumentParser(prog="make sanitize", description="the datapath's tests under sanitizers")
    parser.add_argument("name", nargs="*", help="file in shim/tests/datapath, without check_ and .py; default: all")
    parser.add_argument("--beside", action="store_true",
                        help="on sdngcc.ko beside an unmodified openvswitch.ko, not on the patched one")
    given = parser.parse_args(arguments)
    names, datapath = given.name, "beside" if given.beside else "patched"
    scripts = [FOLDER / f"check_{name}.py" for name in names] or [
        script for script in sorted(FOLDER.glob("check_*.py")) if given.beside or script.name not in BESIDE_ONLY]
    for script in scripts:
        if not script.exists():
            parser.error(f"there is no {script}")
    print("building; the kernel takes some minutes", flush=True)
    try:
        artifacts = build(sanitize=True)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    failed: List[str] = []
    for script in scripts:
        started = time.monotonic()
        print(f"== {script.name}", flush=True)
        failed += run_file(script, artifacts, datapath)
        print(f"== {script.name}: {time.monotonic() - started:.0f} s", flush=True)
    print("\n".join(failed) if failed else "nothing failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
