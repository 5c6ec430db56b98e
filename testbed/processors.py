# SPDX-License-Identifier: Apache-2.0
"""Gives each virtual machine a processor of its own while there are enough.

User Mode Linux is one kernel process and one host process an address space, of which one runs at a time: each page
fault and system call inside passes the turn from one to another. On one processor that is a change of context; on two
it is an interrupt and a sleeping processor that must wake. A run took 24 s of a processor and 25 s of wall time on one,
37 s and 41 to 88 s on two of a machine whose host was busy.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from contextlib import contextmanager
from typing import Iterator

# What the names of processors in use begin with, among the host's abstract sockets.
NAME = "sdngcc-processor"


@contextmanager
def own_processor() -> Iterator[int]:
    """Hold the number of the least used of the processors that this process may run on.

    Who holds one is known to the whole host by a name among its abstract sockets, which the kernel takes back however
    the holder ends. With more machines than processors each is used by as few as can be.
    """
    allowed = sorted(os.sched_getaffinity(0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as name:
        for users, processor in ((users, processor) for users in itertools.count() for processor in allowed):
            try:
                name.bind(f"\0{NAME}-{processor}-{users}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            yield processor
            return
