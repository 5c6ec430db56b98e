# SPDX-License-Identifier: Apache-2.0
"""Runs one program inside the virtual machine and brings back its output and exit status.

Called on the host it boots; as the machine's main module (``python -m sdngcc.testbed.inside JOB``) it runs what
the job names. For tests and benchmarks; experiments have an agent of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Sequence

from sdngcc.testbed.build import build
from sdngcc.testbed.machine import MachineError, run_job, scratch
from sdngcc.testbed.virtual.openvswitch import OpenVSwitch

# What is run, and what becomes of it, in the machine's shared directory.
OUTPUT = "output.txt"
STATUS = "status.json"

# Where it is run: empty, in memory.
WORK = "/run/work"


@dataclass(frozen=True)
class Ended:
    """How a program inside ended."""

    status: int
    output: str
    """What it wrote to standard output and error."""


def run_inside(argv: Sequence[str], modules: Sequence[str] = (), switches: Optional[Dict[str, str]] = None,
               environment: Optional[Dict[str, str]] = None, virtual_time: bool = True, limit_s: float = 300.0,
               seed: int = 1, kernel: Optional[Path] = None) -> Ended:
    """Boot, load kernel modules in order, run argv as root in /run/work, and return how it ended.

    switches are Open vSwitch's programs by name (Artifacts.ovs): ovsdb-server and ovs-vswitchd run then, and the
    programs are found by name. The host's files are there read-only; what is written to /run and /tmp stays inside.
    Python programs find the packages of this interpreter. kernel is another one than the testbed's.

    Raises BuildError, or MachineError when the machine itself fails or takes longer than
    limit_s of wall time.
    """
    kernel = kernel or build(only=["kernel"]).kernel
    with scratch("sdngcc-inside-") as out:
        job = {"argv": list(argv), "modules": list(modules), "ovs": switches, "environment": environment or {}}
        try:
            run_job(kernel, job, out, seed, limit_s, virtual_time=virtual_time, main="sdngcc.testbed.inside")
        except MachineError as error:
            lines = [line for name in ("console.log", OUTPUT) if (out / name).exists()
                     for line in (out / name).read_text(errors="replace").splitlines()[-40:]]
            raise MachineError("\n".join([str(error), "the ends of console and output:", *lines])) from None
        status = json.loads((out / STATUS).read_text())
        return Ended(status, (out / OUTPUT).read_text(errors="replace"))


def main(path: Path) -> int:
    """Do the job described in a file; the machine's main program. Returns 0 unless a module cannot be loaded."""
    job = json.loads(path.read_text())
    folders = [str(Path(sys.executable).parent)]
    for module in job["modules"]:
        subprocess.run(["insmod", module], check=True)
    if job["ovs"]:
        OpenVSwitch(job["ovs"]).start()
        folders += sorted({str(Path(program).parent) for program in job["ovs"].values()})
    os.makedirs(WORK, exist_ok=True)
    environment = {**os.environ, **job["environment"]}
    environment["PATH"] = ":".join([*folders, environment["PATH"]])
    with open(path.with_name(OUTPUT), "wb") as output:
        done = subprocess.run(job["argv"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                              cwd=WORK, env=environment, check=False)
    path.with_name(STATUS).write_text(json.dumps(done.returncode))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
