# SPDX-License-Identifier: Apache-2.0
"""The rows of ``make bench-limiter``: limiters, and what each is asked. Host and virtual machine both read this.

It imports nothing but the standard library.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple


class Limiter(NamedTuple):
    """A limiter of one VM."""

    name: str
    what: str
    """What a reader of the table is told."""
    kind: str
    """shim, meter, police, htb, departures or cake."""
    options: Tuple[Tuple[str, Any], ...] = ()
    """Settings of the shim, or of departures."""


LIMITERS: Dict[str, Limiter] = {one.name: one for one in (
    Limiter("shim", "ours, default settings", "shim"),
    Limiter("shim-ahead", "ours, small packets ahead", "shim", (("ahead", True),)),
    Limiter("meter", "OVS meter, burst of 10 ms", "meter"),
    Limiter("police", "OVS ingress policing, burst of 10 ms", "police"),
    Limiter("htb", "HTB at the uplink, 1,000 packets of queue", "htb"),
    Limiter("edt", "departure times by BPF, sch_fq", "departures", (("mark", False),)),
    Limiter("edt-ecn", "the same with CE from 1 ms of wait on", "departures", (("mark", True),)),
    Limiter("cake", "cake at the uplink", "cake"),
)}

# Limits under which rate, burst and jitter are measured, bit/s, and how long each: so many full packets, at least so
# many ns. UDP is offered at OFFERED times the limit.
RATES = (10**6, 10**7, 10**8, 10**9, 10**10, 10**11)
RATE_PACKETS, RATE_NS, OFFERED = 2_000, 10_000_000, 2

# The limit of TCP, bit/s, its round-trip time without a queue, and how long it is measured, after how long.
TCP_BITS, RTT_US, TCP_NS, TCP_SETTLED_NS = 250 * 10**6, 100, 10**9, 5 * 10**8
CONTROLS = ("reno", "cubic", "bbr", "dctcp")

# Bulk flows beside which a ping and a small request are sent each so often; their limits and congestion controls.
BULK, SMALL_NS = 128, 5_000_000
BESIDE = ((TCP_BITS, "cubic"), (TCP_BITS, "dctcp"))

# Of a full frame without its check sequence so many bytes are payload of TCP with time stamps.
FRAME_BYTES, TCP_PAYLOAD, UDP_PAYLOAD = 1514, 1448, 1472


class Load(NamedTuple):
    """Something to ask a limiter."""

    kind: str
    """rate, tcp or beside."""
    bits: int
    """The limit, bit/s."""
    control: str = ""
    """Congestion control of TCP."""

    @property
    def name(self) -> str:
        """Its name in results."""
        return "-".join([self.kind, str(self.bits), *([self.control] if self.control else [])])


LOADS: List[Load] = [*(Load("rate", bits) for bits in RATES), *(Load("tcp", TCP_BITS, one) for one in CONTROLS),
                     *(Load("beside", bits, control) for bits, control in BESIDE)]


def rate_ns(bits: int) -> int:
    """Return how long a limit's rate is measured, ns."""
    return max(RATE_PACKETS * FRAME_BYTES * 8 * 10**9 // bits, RATE_NS)
