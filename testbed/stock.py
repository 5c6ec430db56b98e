# SPDX-License-Identifier: Apache-2.0
"""The unpatched openvswitch.ko of the same kernel, for tests and benchmarks that compare with it."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

# Where Debian's linux-source-6.1 package leaves the pristine source, and the folder we need of it.
ARCHIVE = Path("/usr/src/linux-source-6.1.tar.xz")
FOLDER = "linux-source-6.1/net/openvswitch"


class StockError(Exception):
    """The unpatched module could not be built; the text says why."""


def extract(archive: Path, folder: str, target: Path) -> None:
    """Extract one folder of a kernel source archive to target; raises StockError when it is not there."""
    found = False
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name.startswith(folder + "/"):
                found = True
                member.name = member.name[len(folder) + 1:]
                tar.extract(member, target)
            elif found:
                return  # a folder's members follow each other; the rest need not be decompressed
    if not found:
        raise StockError(f"{archive} holds no {folder}")


def stock_module(source: Path, objects: Path, work: Path) -> Path:
    """Build the unpatched openvswitch.ko against a built UML kernel and return its path; quick when there.

    source is the kernel's (patched) source, objects its build directory, work a directory of our own that
    lives and dies with objects. Raises StockError with the compiler's output when it does not build.
    """
    module = work / "openvswitch.ko"
    if module.exists():
        return module
    shutil.rmtree(work, ignore_errors=True)
    extract(ARCHIVE, FOLDER, work)
    argv = ["make", "-s", "-C", str(source), "ARCH=um", f"O={objects}", f"M={work}", "modules"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        module.unlink(missing_ok=True)
        raise StockError(f"building the unpatched openvswitch.ko in {work} failed:\n{done.stdout[-3000:]}")
    return module
