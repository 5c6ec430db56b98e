# SPDX-License-Identifier: Apache-2.0
"""How many packets can have passed a port: what a source counts is held against that before it is believed."""

import math

FRAME_LEAST_BYTES = 84  # the shortest Ethernet frame on the wire, with preamble and gap
LINE_RATE_MAX = 100_000_000_000  # bytes/s: 800 Gb/s, the fastest port there is
# Speeds that drivers tell of virtual devices are nominal (a tap tells 10 Mb/s), so a lower one is no bound, bytes/s.
TOLD_RATE_LEAST = 125_000_000
BURST_FRAMES = 1000  # a queue's worth, which one reading may show at once


def frames_max(interval_ns: int, rate: float = math.inf) -> int:
    """Return how many frames can pass a port of ``rate`` bytes/s (infinite: not known) within an interval."""
    return int(min(rate, LINE_RATE_MAX) * interval_ns / 1e9 / FRAME_LEAST_BYTES) + BURST_FRAMES


def told_rate(rate: float) -> float:
    """Return what a rate that a device tells of itself bounds, bytes/s."""
    return max(rate, TOLD_RATE_LEAST)


class PassedPackets:
    """Holds a port's marks against the packets that it counts itself; readings are not taken at one instant."""

    CREDIT_MAX = 1024  # packets without a mark that later marks may belong to

    def __init__(self) -> None:
        self._credit = 0

    def explain(self, marks: int, passed: int) -> bool:
        """Take what both counters moved by; return whether so many packets can have been marked."""
        left = self._credit + passed - marks
        if left < 0:
            return False
        self._credit = min(left, self.CREDIT_MAX)
        return True
