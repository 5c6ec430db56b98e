# SPDX-License-Identifier: Apache-2.0
"""When Python looks for reference cycles: always among what is new, seldom among all there is.

What this controller keeps has no cycles and is freed by counting references; only the framework's objects have some.
Python's own collector would yet walk over everything known of a large network whenever that grew by a quarter, more
than half a second at 20,000 machines. So it is switched off, and run() takes its place: after each event it looks
through what came since the last, which takes as long as the event at most, and sets what is left aside. All of it is
looked through again when memory holds half as many blocks again as the last time, which happens while a network is
learned and then hardly ever.

Python counts new objects less those freed, old ones included, so there is no telling how many are new but by looking.
"""

import gc
import sys

GROWTH = 1.5
LEAST = 2_000_000  # blocks of memory below which nothing is looked through twice
LOOK_EVERY = 1024  # runs: at how much memory there is


class Collector:
    """Python's garbage collector under this module's terms, from the first call of run() on."""

    def __init__(self) -> None:
        self.whole = 0  # times that everything was looked through
        self._runs = 0
        self._limit = LEAST  # blocks

    def run(self) -> None:
        """Look for cycles among what is new, and among everything if it is time to."""
        if gc.isenabled():
            gc.disable()
        self._runs += 1
        if self._runs % LOOK_EVERY == 0 and sys.getallocatedblocks() > self._limit:
            self.run_whole()
        else:
            gc.collect(0)
            gc.freeze()

    def run_whole(self) -> None:
        """Look through everything."""
        self.whole += 1
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._limit = max(LEAST, int(GROWTH * sys.getallocatedblocks()))
