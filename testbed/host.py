# SPDX-License-Identifier: Apache-2.0
"""What the virtual machine needs of its host, asked before anything is built: room in memory, room on disk, ptrace.

User Mode Linux keeps the machine's memory in a file that is mapped and run from, of which it takes pages when they are
touched first. It dies by SIGBUS where the file's folder has no room for one, and does not start where nothing may be
run from it. Containers give 64 MB of /dev/shm, so the folder is chosen here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence

from sdngcc.testbed.build import cache_root, parts

# Room for the memory of one machine, bytes: as much as most experiments touch, and as little as any of them needs.
ROOMY, LEAST = 2 << 30, 512 << 20
# Room for the builds that there are none of yet, bytes.
BUILDS = 3 << 30

# Requests of ptrace: what User Mode Linux asks of its host.
_TRACEME, _SYSEMU = 0, 31


@dataclass(frozen=True)
class Place:
    """A folder that the memory of a machine may lie in."""

    folder: Path
    free: int
    """Bytes; 0 if nothing can be written."""
    runs: bool
    """Whether files there can be mapped and run."""

    def __str__(self) -> str:
        """Return what it has."""
        return f"{self.folder} has {self.free >> 20} MB free" + ("" if self.runs else ", and nothing runs from there")


def candidates() -> List[Path]:
    """Return the folders that memory may lie in, the best first: what TMPDIR names, memory, disks."""
    given = os.environ.get("TMPDIR")
    return [*([Path(given)] if given else []), Path("/dev/shm"), Path("/tmp"), Path("/var/tmp"), cache_root()]


def look(folder: Path) -> Place:
    """Return what a folder has."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = os.statvfs(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(mmap.PAGESIZE)
            runs = _can_run(file.fileno())
        return Place(folder, found.f_bavail * found.f_frsize, runs)
    except OSError:
        return Place(folder, 0, False)


def _can_run(descriptor: int) -> bool:
    """Return whether the kernel maps a file to be run, which it refuses on a file system mounted noexec."""
    try:
        mmap.mmap(descriptor, mmap.PAGESIZE, flags=mmap.MAP_SHARED,
                  prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError:
        return False
    return True


def choose(places: Sequence[Place]) -> Optional[Place]:
    """Return the first place with room for most experiments, else the one with the most if it is enough for any."""
    usable = [place for place in places if place.runs and place.free >= LEAST]
    return next((place for place in usable if place.free >= ROOMY), max(usable, key=lambda one: one.free, default=None))


def memory_place() -> Place:
    """Return where the memory of a machine that starts now is to lie. Raises OSError with what each folder has."""
    places = [look(folder) for folder in candidates()]
    chosen = choose(places)
    if chosen is None:
        raise OSError(f"no folder has {LEAST >> 20} MB for the virtual machine's memory: "
                      f"{'; '.join(map(str, places))} (TMPDIR names another one)")
    return chosen


def can_trace() -> bool:
    """Return whether a process may trace another one's system calls, which seccomp or ptrace_scope may forbid."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    child = os.fork()
    if not child:
        if libc.ptrace(_TRACEME, 0, None, None) == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(1)
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        return False
    allowed = libc.ptrace(_SYSEMU, child, None, None) == 0
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return allowed


def hindrances() -> List[str]:
    """Return what keeps the testbed from working here, a sentence each."""
    found = []
    try:
        memory_place()
    except OSError as error:
        found.append(str(error))
    if not can_trace():
        found.append("processes may not be traced here (ptrace), by which User Mode Linux runs programs: a container's "
                     "seccomp profile, or kernel.yama.ptrace_scope, forbids it")
    cache = look(cache_root())
    if not cache.runs:
        found.append(f"what is built in {cache.folder} could not be run from there (SDNGCC_CACHE names another folder)")
    elif cache.free < BUILDS and not _is_built():
        found.append(f"the builds need {BUILDS >> 20} MB: {cache} (SDNGCC_CACHE names another folder)")
    return found


def _is_built() -> bool:
    """Return whether the largest part, the kernel, is built; False too where there is no compiler to tell by."""
    try:
        return parts()["kernel"].built
    except OSError:
        return False
