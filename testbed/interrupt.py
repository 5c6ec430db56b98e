# SPDX-License-Identifier: Apache-2.0
"""How a command ends that the user or the system gives up: with the signal's status, and nothing left of its run."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Iterator, Optional, Sequence


class Interrupted(KeyboardInterrupt):
    """A signal asks the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def _raise(number: int, _: Optional[FrameType]) -> None:
    raise Interrupted(number)


def clear(folder: Path, names: Sequence[str]) -> None:
    """Remove what a run that ended early left in a folder: names below it, and the folder if nothing else is there."""
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


@contextlib.contextmanager
def ending_quietly(*left: Path) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the program with status 130 and 143, without a traceback.

    left: folders of raw samples, which are removed then, and the folder of each if nothing else is in it.
    """
    former = {number: signal.signal(number, _raise) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt as error:
        for number in former:
            signal.signal(number, signal.SIG_IGN)
        for folder in left:
            clear(folder.parent, [folder.name])
        print("interrupted; nothing of this run was kept", file=sys.stderr)
        sys.exit(128 + (error.number if isinstance(error, Interrupted) else signal.SIGINT))
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
