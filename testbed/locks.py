# SPDX-License-Identifier: Apache-2.0
"""Locks that processes of one machine share, each a file that says who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path
from typing import Callable, Iterator

# How much of a holder's command is told, characters.
COMMAND_MAX = 80


def holder_of(lock: Path) -> str:
    """Return who holds a lock, as its file says: process and command."""
    try:
        pid = int(lock.read_text(encoding="ascii").split()[0])
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (OSError, ValueError, IndexError):
        return "another process"
    command = "".join(one if one.isprintable() else "?" for one in " ".join(words).strip())
    return f"process {pid} ({command[:COMMAND_MAX]})"


def say(text: str) -> None:
    """Tell a text on standard error."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(lock: Path, tell: Callable[[str], None] = say) -> Iterator[None]:
    """Hold a lock, which is a file. Who has to wait is told so first, with the file and who holds it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    # What the holder wrote stays until the lock is ours.
    with open(lock, "a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for {lock}, which {holder_of(lock)} holds")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
