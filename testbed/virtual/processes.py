# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: programs run to their end, waiting, and other network namespaces."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from contextlib import contextmanager
from typing import Iterator, Sequence

CLONE_NEWNET = 0x40000000


def run(argv: Sequence[str]) -> str:
    """Run a program to its end and return its output; RuntimeError with all it said when it fails."""
    done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def sleep_until(at_s: float) -> None:
    """Sleep until CLOCK_MONOTONIC shows at_s."""
    while (left := at_s - time.clock_gettime(time.CLOCK_MONOTONIC)) > 0:
        time.sleep(left)


@contextmanager
def network_namespace(path: str) -> Iterator[None]:
    """Let this thread be in the network namespace of a file for a while; empty: stay. OSError when it cannot."""
    if not path:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        there = os.open(path, os.O_RDONLY)
        try:
            if libc.setns(there, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {path}")
        finally:
            os.close(there)
        try:
            yield
        finally:
            libc.setns(home, CLONE_NEWNET)
    finally:
        os.close(home)
