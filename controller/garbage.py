# SPDX-License-Identifier: Apache-2.0
"""When Python looks for reference cycles: often among what is new, seldom among all there is.

What this controller keeps has no cycles and is freed by counting references; only the framework's objects have some.
Python's own collector would yet walk over everything known of a large network whenever that grew by a quarter, more
than a second at 20,000 machines. So it is switched off, and run() takes its place: once YOUNG objects are new it looks
through these, a millisecond or so, and sets what is left aside. All of it is looked through again when memory holds
half as many blocks again as the last time, which happens while a network is learned and then hardly ever.
"""

import gc
import sys

YOUNG = 1000  # objects
GROWTH = 1.5
LEAST = 2_000_000  # blocks of memory below which nothing is looked through twice
LOOK_EVERY = 64  # times that the young are looked through


class Collector:
    """Python's garbage collector under this module's terms, from the first call of run() on."""

    def __init__(self) -> None:
        self.whole = 0  # times that everything was looked through
        self._runs = 0
        self._limit = LEAST  # blocks

    def run(self) -> None:
        """Look for cycles if it is time to."""
        if gc.isenabled():
            gc.disable()
        if gc.get_count()[0] < YOUNG:
            return
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
