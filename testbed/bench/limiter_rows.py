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

# MTUs beside 1500 at which TCP is measured, and the limits, bit/s: from where eleven full packets take longer than the
# horizon to where a packet takes a microsecond.
MTUS, MTU_RATES = (576, 9000, 9216), (10**6, 4 * 10**6, 50 * 10**6, 10**9)

# What a packet takes of a cable beyond its bytes, which the shim's limits count and others' do not.
WIRE_BYTES = 24


class Load(NamedTuple):
    """Something to ask a limiter."""

    kind: str
    """rate, tcp or beside."""
    bits: int
    """The limit, bit/s."""
    control: str = ""
    """Congestion control of TCP."""
    mtu: int = 1500
    """Of all devices."""

    @property
    def name(self) -> str:
        """Its name in results."""
        more = [*([self.control] if self.control else []), *([f"mtu{self.mtu}"] if self.mtu != 1500 else [])]
        return "-".join([self.kind, str(self.bits), *more])


LOADS: List[Load] = [*(Load("rate", bits) for bits in RATES), *(Load("tcp", TCP_BITS, one) for one in CONTROLS),
                     *(Load("beside", bits, control) for bits, control in BESIDE),
                     *(Load("tcp", bits, one, mtu) for mtu in MTUS for bits in MTU_RATES for one in CONTROLS)]


def tcp_part(mtu: int, overhead: int) -> float:
    """Return what of a limit is payload of TCP with time stamps, where a limit counts so much more of each packet."""
    return (mtu - 52) / (mtu + 14 + overhead)


def tcp_ns(load: Load) -> Tuple[int, int]:
    """Return for how long TCP settles and is measured: some hundred packets' time at least."""
    packet_ns = (load.mtu + 14) * 8 * 10**9 // load.bits
    return max(TCP_SETTLED_NS, 200 * packet_ns // 10**8 * 10**8), max(TCP_NS, 400 * packet_ns // 10**8 * 10**8)


def rate_ns(bits: int) -> int:
    """Return how long a limit's rate is measured, ns."""
    return max(RATE_PACKETS * FRAME_BYTES * 8 * 10**9 // bits, RATE_NS)
