# SPDX-License-Identifier: Apache-2.0
"""What leaves through an interface and how: lists of ``tc`` arguments, without Mininet.

Three kinds of port make up the laboratory's network:

* ``uplink``, a hypervisor's port to its ToR: line rate by HTB; under it sch_fq, which holds each packet until the
  departure time the shim gave it. fq's own pacing is off: a guest's sockets must not see the hypervisor.
* ``marking``, a congestion point of the fabric: line rate by HTB; under it RED as a threshold: from
  ``mark_percent`` of the buffer on every packet is marked (ECT) or dropped (Not-ECT), or RED as given.
* ``delay``, a ToR's port to a sender's hypervisor: the whole round-trip time by netem. Only ACKs pass here, so netem
  never meets a departure time.

A line rate counts bytes as they take a cable: each packet has 24 more of preamble, FCS and gap, and 84 at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence, Tuple

# Bytes of a full frame as the qdiscs count them, and the unit of buffer_packets.
PACKET_BYTES = 1500
# What a packet takes of a cable beyond its bytes (preamble, FCS, gap), and the least that it takes with that.
WIRE_OVERHEAD_BYTES, WIRE_LEAST_BYTES = 24, 84
# What HTB lets leave back to back: two full frames.
HTB_BURST_BYTES = 3000
# An uplink's leaf: its own pacing is off.
FQ = ["fq", "nopacing", "limit", "100000", "flow_limit", "100000"]
# Handle (major number) of the leaf qdisc on every shaped port.
LEAF_HANDLE = 0x10


@dataclass(frozen=True)
class Shape:
    """How one port sends. Which of the numbers matter depends on ``kind``."""

    kind: str
    """``uplink``, ``marking`` or ``delay``."""
    rate_mbps: int = 0
    """Line rate in Mb/s (uplink, marking)."""
    buffer_packets: int = 0
    """Queue limit in full packets (marking)."""
    mark_percent: int = 20
    """Marking threshold in percent of the buffer (marking)."""
    red: Tuple[float, ...] = ()
    """Limit, min and max in bytes, burst in packets and probability (marking); empty: buffer and threshold."""
    delay_us: int = 0
    """Delay in microseconds (delay)."""


def _leaf(device: str) -> List[str]:
    return ["qdisc", "replace", "dev", device, "parent", "1:1", "handle", f"{LEAF_HANDLE:x}:"]


def _line_rate(device: str, rate_mbps: int, parent: Sequence[str] = ("root",)) -> List[List[str]]:
    rate, burst = f"{rate_mbps}mbit", str(HTB_BURST_BYTES)
    return [
        ["qdisc", "replace", "dev", device, *parent, "handle", "1:", "htb", "default", "1"],
        ["class", "replace", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "ceil", rate,
         "burst", burst, "cburst", burst, "quantum", "60000", "overhead", str(WIRE_OVERHEAD_BYTES),
         "mpu", str(WIRE_LEAST_BYTES)],
    ]


def threshold_bytes(buffer_packets: int, mark_percent: int) -> int:
    """Return the marking threshold in bytes: mark_percent of the buffer, at least one packet."""
    return max(buffer_packets * mark_percent // 100, 1) * PACKET_BYTES


def covered_uplink(device: str, rate_mbps: int) -> List[List[str]]:
    """Return the argument lists of the ``tc`` calls that make an uplink whose HTB nobody takes for his own.

    ovn-controller deletes an HTB at the root of the device that its tunnels leave by, as a queue of its own that is no
    longer wanted. Here a prio with all packets in one band is the root.
    """
    root = ["qdisc", "replace", "dev", device, "root", "handle", "2:", "prio", "bands", "2", "priomap", *["0"] * 16]
    return [root, *_line_rate(device, rate_mbps, ("parent", "2:1")), _leaf(device) + FQ]


def tc_commands(device: str, shape: Shape) -> List[List[str]]:
    """Return the argument lists of the ``tc`` calls that give device that shape.

    Raises ValueError for a kind it does not know.
    """
    if shape.kind == "uplink":
        return [*_line_rate(device, shape.rate_mbps), _leaf(device) + FQ]
    if shape.kind == "marking":
        low = threshold_bytes(shape.buffer_packets, shape.mark_percent)
        # max must exceed min; with burst = min / avpkt tc chooses the weight that makes the average the
        # instantaneous queue (nearly).
        limit, least, most, burst, probability = shape.red or (
            shape.buffer_packets * PACKET_BYTES, low, low + PACKET_BYTES, low // PACKET_BYTES, 1.0)
        queue = ["red", "limit", f"{limit:.0f}", "min", f"{least:.0f}", "max", f"{most:.0f}",
                 "avpkt", str(PACKET_BYTES), "burst", f"{burst:.0f}", "probability", str(probability),
                 "bandwidth", f"{shape.rate_mbps}mbit", "ecn"]
        return [*_line_rate(device, shape.rate_mbps), _leaf(device) + queue]
    if shape.kind == "delay":
        return [["qdisc", "replace", "dev", device, "root", "handle", f"{LEAF_HANDLE:x}:",
                 "netem", "delay", f"{shape.delay_us}us", "limit", "100000"]]
    raise ValueError(f"shape '{shape.kind}' of {device}: allowed are uplink, marking, delay")
