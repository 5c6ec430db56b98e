# SPDX-License-Identifier: Apache-2.0
"""Which QEMU machines with several processors run on: the one installed, or a newer one that is fetched.

Before 8.1 a processor of QEMU can run into a breakpoint that another one has taken away already, where Linux changes
its own code; the machine then stands still or dies (docs/packages.md, "What the checks do"). Debian 12 has 7.2.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import subprocess
import time
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from sdngcc.testbed.build import Build, BuildError, Part, Progress, build_part, content_key
from sdngcc.testbed.fetch import apt_options, numbers

PROGRAM = "qemu-system-x86_64"

# The first version that is good enough.
LEAST = [8, 1]

# Where Debian 12 has a newer one, and what of it is used; its firmware is that of the installed one (seabios).
SUITE = "bookworm-backports"
PACKAGES = ("qemu-system-x86", "qemu-system-data")
FIRMWARE = Path("/usr/share/seabios")

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_READ_TSC = bytes.fromhex("0f3148c1e2204809d0c3")


def clock() -> Tuple[str, ...]:
    """Return the parameters by which an x86 kernel in QEMU, without -icount, has the clock that this machine has.

    Emulated processors read this machine's counter of cycles. A kernel that measures its rate beside other work may
    find a small part of it, and the machine's time runs as many times too fast.
    """
    rate = tsc_khz()
    return ("tsc=reliable", "clocksource=tsc", *([] if rate is None else [f"tsc_early_khz={rate}"]))


@functools.cache
def tsc_khz() -> Optional[int]:
    """Return the rate of this machine's counter of cycles, kHz; None where the processor is no x86-64."""
    if platform.machine() != "x86_64":
        return None
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as page:
        page.write(_READ_TSC)
        start = ctypes.c_char.from_buffer(page)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(start))
        first = _reading(read)
        time.sleep(0.5)
        last = _reading(read)
        del start
    return round((last[1] - first[1]) * 1_000_000 / (last[0] - first[0]))


def _reading(read: Callable[[], int]) -> Tuple[int, int]:
    """Return a time, ns, and the counter then: of many readings the one that took the least time."""
    tries = []
    for _ in range(1000):
        before = time.monotonic_ns()
        count = read()
        tries.append((time.monotonic_ns() - before, before, count))
    took, before, count = min(tries)
    return before + took // 2, count


def qemu_part() -> Part:
    """Return the part with a QEMU that is fetched and never installed: the newest of its suite at that time."""
    return Part("qemu", content_key([SUITE, *PACKAGES]), 25, recipe=_fetch)


def qemu(progress: Optional[Progress] = None) -> List[str]:
    """Return the command that a machine's arguments come behind; fetches it first if need be. Raises BuildError."""
    if installed_version() >= LEAST:
        return [PROGRAM]
    part = qemu_part()
    build_part(part, progress)
    root = part.folder / "root" / "usr"
    return [str(root / "bin" / PROGRAM), "-L", str(root / "share" / "qemu"), "-L", str(FIRMWARE)]


def installed_version() -> List[int]:
    """Return the numbers of the installed QEMU's version. Raises BuildError when there is none."""
    try:
        said = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise BuildError(f"{PROGRAM} does not run: install the Debian package qemu-system-x86 (`make setup` does)"
                         ) from None
    return numbers(said.partition("version ")[2].partition(" ")[0])


def _fetch(build: Build) -> None:
    options = apt_options(build, [SUITE])
    build.run(["apt-get", *options, "download", "--target-release", SUITE, *PACKAGES], "fetching a newer QEMU",
              cwd=build.folder)
    for package in sorted(build.folder.glob("*.deb")):
        build.run(["dpkg-deb", "-x", str(package), str(build.folder / "root")], "unpacking it")
        package.unlink()
