# SPDX-License-Identifier: Apache-2.0
"""When packets arrived, to the nanosecond, and what that says of the limiter before: rate, burst, jitter.

A limiter of R bytes/s and depth B lets pass at most B + R * t bytes in any time t. ``burst`` is the least B for which
that held, where R is the limit or the rate that was seen, whichever is more: so an error of the rate is not counted
twice. ``gap`` is the time between two packets in the time that the second one takes at the limit: 1 where a limiter
sends each packet the moment it may.
"""

from __future__ import annotations

import mmap
import socket
import struct
from typing import Dict, List, Tuple

from sdngcc.testbed.statistics import percentile

# Options of packet sockets, and their numbers, from linux/if_packet.h.
SOL_PACKET, PACKET_RX_RING, PACKET_VERSION, TPACKET_V2 = 263, 5, 10, 1
# Packets to this host and others, of a packet socket's address.
PACKET_OUTGOING = 4

# A place in the ring: header, address, first bytes of the packet.  Blocks of the ring, and all of it, bytes.
PLACE_BYTES, BLOCK_BYTES = 256, 1 << 18
# struct tpacket2_hdr: status, len, snaplen, mac, net, sec, nsec.
HEADER = struct.Struct("=IIIHHII")

# Of what arrives, the first fifth is let go by: there a bucket was full.
SETTLED = 0.2

Arrival = Tuple[int, int]
"""Time in nanoseconds and bytes, link-layer header included."""


class Ring:
    """A packet socket that notes what arrives by a device, without a system call for each packet."""

    def __init__(self, device: str, most: int) -> None:
        """Open it for IPv4 and up to `most` packets, in this thread's network namespace."""
        blocks = -(-most * PLACE_BYTES // BLOCK_BYTES)
        self.places = blocks * BLOCK_BYTES // PLACE_BYTES
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING,
                               struct.pack("=IIII", BLOCK_BYTES, blocks, PLACE_BYTES, self.places))
        self.memory = mmap.mmap(self.socket.fileno(), blocks * BLOCK_BYTES)
        self.socket.bind((device, 0x0800))

    def arrivals(self) -> List[Arrival]:
        """Return what has arrived since it was opened, and close it; ValueError when there was no room for all."""
        found: List[Arrival] = []
        for place in range(self.places):
            status, length, _, _, _, seconds, nanoseconds = HEADER.unpack_from(self.memory, place * PLACE_BYTES)
            if not status & 1:
                break
            found.append((seconds * 10**9 + nanoseconds, length))
        self.memory.close()
        self.socket.close()
        if len(found) == self.places:
            raise ValueError(f"more than {self.places} packets arrived")
        return found


def rate_of(arrivals: List[Arrival]) -> float:
    """Return bytes/s of packets in order of time, the first one's bytes left out; 0 for fewer than two."""
    if len(arrivals) < 2:
        return 0.0
    return sum(length for _, length in arrivals[1:]) * 1e9 / max(arrivals[-1][0] - arrivals[0][0], 1)


def burst_of(arrivals: List[Arrival], rate: float) -> float:
    """Return the least depth of a bucket of `rate` bytes/s that would have let these packets pass as they came."""
    depth, above, least = 0.0, 0.0, 0.0
    for time_ns, length in arrivals:
        drained = rate * (time_ns - arrivals[0][0]) / 1e9
        least = min(least, above - drained)
        above += length
        depth = max(depth, above - drained - least)
    return depth


def judge(arrivals: List[Arrival], limit: float) -> Dict[str, float]:
    """Return what arrivals say of a limiter of `limit` bytes/s; ValueError for fewer than ten.

    error_percent of the rate, burst_bytes, gap_p50, gap_p99 and gap_max (in packets' own times).
    """
    if len(arrivals) < 10:
        raise ValueError(f"only {len(arrivals)} packets arrived")
    begin, end = arrivals[0][0], arrivals[-1][0]
    settled = [one for one in arrivals if one[0] >= begin + (end - begin) * SETTLED]
    rate = rate_of(settled)
    gaps = [(after[0] - before[0]) * limit / 1e9 / after[1] for before, after in zip(settled, settled[1:])]
    return {"error_percent": round(100 * (rate / limit - 1), 4),
            "burst_bytes": round(burst_of(arrivals, max(rate, limit))),
            "gap_p50": round(percentile(gaps, 50), 3), "gap_p99": round(percentile(gaps, 99), 3),
            "gap_max": round(max(gaps), 3)}
