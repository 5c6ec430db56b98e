# SPDX-License-Identifier: Apache-2.0
"""The rows of ``make bench-datapath``: what each measures, and the least it may keep of unpatched OVS' rate.

Host and virtual machine both read this, so it imports nothing but the standard library.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

# A limit far above what one core forwards, so that a limiter decides on each packet and holds none back, bit/s.
EASY_BITS = 100 * 10**9

# Destinations of rows that have many.
MANY = 4096

# Least part of unpatched OVS' rate that our rows must keep.
NOTHING, EASY, AT_WORK, ANY_LAW, CROWD, SOCKETS = 0.99, 0.98, 0.95, 0.92, 0.90, 0.97

# Loads: 64-byte packets of pktgen through one VM; the same from eight of many VMs; one TCP connection.
PACKETS, VMS, STREAM = "packets", "vms", "stream"


class Row(NamedTuple):
    """One thing to measure, beside unpatched Open vSwitch under the same load."""

    name: str
    load: str
    what: str
    """What a reader of the table is told."""
    budget: Optional[float] = None
    """Least ratio to unpatched Open vSwitch; None: a peer or a piece for comparison, not judged."""
    switch: str = "shim"
    """What is switched on: nothing, shim, meter, police or htb."""
    law: str = "sdngcc"
    limit_bits: int = EASY_BITS
    """Capacity of the uplink, hence the one VM's limit, bit/s."""
    ect: bool = True
    """Packets of pktgen are ECT(0) already; TCP's never are."""
    destinations: int = 1
    vms: int = 1
    gso: bool = False
    """The sender's TCP builds packets of up to 64 KiB."""
    ecn: bool = True
    """The shim makes Not-ECT packets ECT and gives them back."""
    burst_us: int = 100
    """What a rate sends in it, us, the shim lets leave in one go; 0: it cuts GSO packets into single segments."""
    ends: Tuple[int, ...] = (0, 1)
    """Datapaths on which the shim is: 0 sends, 1, which loads of sockets have, receives."""

    @property
    def patched(self) -> bool:
        """Whether it is measured with our module; the others with the distribution's."""
        return self.switch in ("nothing", "shim")


def _rows() -> List[Row]:
    rows = [
        Row("idle", PACKETS, "patched, nothing configured", NOTHING, switch="nothing"),
        Row("roles", PACKETS, "ports have roles, no law is in force", law="none"),
        Row("limiter-100g", PACKETS, "one limiter of 100 Gb/s", EASY),
        Row("limiter-2g", PACKETS, "one limiter of 2 Gb/s", AT_WORK, limit_bits=2 * 10**9),
        Row("limiter-1.4g", PACKETS, "one limiter of 1.4 Gb/s", AT_WORK, limit_bits=14 * 10**8),
        Row("limiter-not-ect", PACKETS, "one limiter of 100 Gb/s, packets Not-ECT", AT_WORK, ect=False),
    ]
    for law in ("hygenicc", "eyeq", "seawall", "scc"):
        rows += [Row(law, PACKETS, f"law {law}, one destination", ANY_LAW, law=law),
                 Row(f"{law}-{MANY}", PACKETS, f"law {law}, {MANY:,} destinations", ANY_LAW, law=law,
                     destinations=MANY)]
    rows += [
        Row("vcc", PACKETS, "law vcc, packets that are no TCP", ANY_LAW, law="vcc"),
        Row("meter", PACKETS, "OVS meter of 100 Gb/s", switch="meter"),
        Row("police", PACKETS, "tc police of 100 Gb/s at the VM's port", switch="police"),
        Row("htb", PACKETS, "HTB of 100 Gb/s at the uplink", switch="htb"),
        Row("stream-no-ecn", STREAM, "single segments, shim leaves ECN alone", ecn=False),
        Row("stream", STREAM, "single segments, Not-ECT", SOCKETS),
        Row("stream-gso", STREAM, "64 KiB GSO packets, Not-ECT", SOCKETS, gso=True),
        Row("stream-gso-cut", STREAM, "64 KiB GSO packets, Not-ECT, cut to single segments", gso=True, burst_us=0),
        Row("stream-vcc", STREAM, "single segments, law vcc", ANY_LAW, law="vcc"),
        Row("stream-vcc-gso", STREAM, "64 KiB GSO packets, law vcc", ANY_LAW, law="vcc", gso=True),
    ]
    return rows + [Row(f"vms-{count}", VMS, f"{count:,} VM{'s' * (count > 1)}", budget, vms=count)
                   for count, budget in ((1, ANY_LAW), (1000, ANY_LAW), (100_000, CROWD))]


ROWS: Dict[str, Row] = {row.name: row for row in _rows()}


def choose(names: Sequence[str]) -> List[Row]:
    """Return the rows of those names in the table's order, all without any. Raises KeyError with the unknown ones."""
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise KeyError(", ".join(unknown))
    return [row for row in ROWS.values() if not names or row.name in names]
