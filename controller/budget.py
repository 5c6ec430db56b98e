# SPDX-License-Identifier: Apache-2.0
"""Budgets of work: what others may cost the one thread that serves all.

What a switch says by itself is counted in *steps*, one a message and one more each STEP_BYTES (Meter). Packets that no
flow knew have a budget of their own (forwarder.py). What a switch answers is bounded by how often it is asked: after a
long answer it rests (rest_ns()). There is no clock in here.
"""

ENTRIES_FREE = 512  # of an answer: as many as a switch or host with many ports or VMs tells in a period
PATHS_FREE = 8192  # the same of paths, which are read many at a time
POLL_FREE = 2048  # the same of a poll's ports or conversations
ENTRY_REST_NS = 100_000  # for each entry beyond; to take one costs less than a tenth of it

STEP_BYTES = 1024
# Steps a second, and at once, that each connection has for itself, and that all others share which want more.
OWN_RATE, OWN_BURST = 200, 128
SHARED_RATE, SHARED_BURST = 4000, 64
# A connection that wants more than its part for so long, s, is closed.
PATIENCE_S = 10.0
SECOND_NS = 1_000_000_000


def rest_ns(entries: int, free: int = ENTRIES_FREE) -> int:
    """Return how long after an answer of so many entries a switch is not asked the same again."""
    return max(0, entries - free) * ENTRY_REST_NS


class Bucket:
    """Steps that may be taken: ``rate`` come each second, up to ``burst``."""

    def __init__(self, rate: int, burst: int) -> None:
        self._rate = rate
        self._burst_ns = burst * SECOND_NS
        self._filled_ns = self._burst_ns  # steps times a second, which keeps them whole
        self._seen_ns = 0

    def fill(self, now_ns: int) -> None:
        """Let time pass."""
        passed_ns, self._seen_ns = max(0, now_ns - self._seen_ns), max(now_ns, self._seen_ns)
        self._filled_ns = min(self._burst_ns, self._filled_ns + passed_ns * self._rate)

    @property
    def left(self) -> bool:
        """Tell whether there are steps."""
        return self._filled_ns > 0

    def take(self, steps: int) -> None:
        """Take steps, more than there are where need be."""
        self._filled_ns -= steps * SECOND_NS

    def wait_ns(self) -> int:
        """Return how long until there are steps again."""
        return max(0, 1 - self._filled_ns // self._rate)


class Meter:
    """What one connection may cost; ``shared`` is of all connections."""

    def __init__(self, shared: Bucket) -> None:
        self._own = Bucket(OWN_RATE, OWN_BURST)
        self._shared = shared
        self._over_ns = 0
        self._pressed_ns = 0  # when it last wanted more than its part
        self.steps = 0  # taken

    @property
    def is_spent(self) -> bool:
        """Tell whether it has wanted more than its part for PATIENCE_S, with pauses of less than a second."""
        return self._over_ns >= PATIENCE_S * SECOND_NS

    def charge(self, size: int, now_ns: int) -> int:
        """Take a message of ``size`` bytes; return how long to read no more, ns."""
        steps = 1 + size // STEP_BYTES
        self.steps += steps
        self._own.fill(now_ns)
        self._shared.fill(now_ns)
        for bucket in (self._own, self._shared):
            if bucket.left:
                bucket.take(steps)
                return 0
        self._own.take(steps)
        passed_ns, self._pressed_ns = now_ns - self._pressed_ns, now_ns
        self._over_ns = self._over_ns + passed_ns if passed_ns < SECOND_NS else 0
        return self._own.wait_ns()


def shared() -> Bucket:
    """Return what connections have together beyond their own parts."""
    return Bucket(SHARED_RATE, SHARED_BURST)
