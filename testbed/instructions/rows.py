# SPDX-License-Identifier: Apache-2.0
"""The rows of ``make bench-instructions``: what each measures, beside what, and what it may cost.

Host and virtual machine both read this, so it imports nothing but the standard library and the other bench's rows.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

from sdngcc.testbed.bench.datapath_rows import MANY, Row

PACKETS, STREAM = "packets", "stream"

# Variants of the datapath: the distribution's own, the patched one, sdngcc.ko beside the distribution's own.
STOCK, PATCHED, BESIDE = "stock", "patched", "beside"

# How what a base measures begins.
UNPATCHED = "unpatched Open vSwitch, "

# Period of laws whose clock ticks each period, ns: so rare that ticks are no part of a packet's figure.
TICK_NS = 5_000_000


class Packet(NamedTuple):
    """What pktgen sends."""

    bytes: int = 60
    """Without the frame check sequence."""
    version: int = 4
    """Of IP."""
    tagged: bool = False
    """With an 802.1Q tag."""
    received: bool = False
    """From the uplink to the VM."""
    tunnel: bool = False
    """Leaves in VXLAN."""
    ecn: int = 2
    """ECN field: ECT(0), so that what is sent stays as it is."""


class Case(NamedTuple):
    """One row."""

    name: str
    what: str
    """What a reader of the table is told."""
    load: str
    """PACKETS or STREAM."""
    base: str
    """The row of unpatched Open vSwitch under the same load; "" for such a row itself."""
    variant: str
    """STOCK, PATCHED or BESIDE."""
    row: Row
    """What is switched on."""
    packet: Packet = Packet()
    period_ns: int = 0
    """The law's period; 0: its default."""
    budget: Optional[float] = None
    """PACKETS: instructions a packet above the base, at most. STREAM: part of the base's speed, at least."""


def _row(switch: str, law: str = "sdngcc", destinations: int = 1, gso: bool = False) -> Row:
    """Return what is switched on."""
    return Row("", "", "", switch=switch, law=law, destinations=destinations, gso=gso)


def _bases() -> List[Case]:
    """Return the rows of unpatched Open vSwitch."""
    nothing = _row("nothing")
    packets = {"stock": ("60-byte packets", Packet()), "stock-1514": ("1,514-byte packets", Packet(bytes=1514)),
               "stock-received": ("60-byte packets to the VM", Packet(received=True, ecn=0)),
               "stock-received-ecn": ("packets of a guest with ECN to the VM", Packet(received=True)),
               "stock-ipv6": ("IPv6, 80 bytes", Packet(bytes=80, version=6)),
               "stock-tagged": ("with an 802.1Q tag", Packet(bytes=64, tagged=True)),
               "stock-vxlan": ("in VXLAN", Packet(tunnel=True)),
               "stock-received-ipv6": ("IPv6 to the VM", Packet(bytes=80, version=6, received=True, ecn=0))}
    found = [Case(name, f"{UNPATCHED}{what}", PACKETS, "", STOCK, nothing, packet)
             for name, (what, packet) in packets.items()]
    found.append(Case(f"stock-{MANY}", f"{UNPATCHED}{MANY:,} destinations in turn", PACKETS, "", STOCK,
                      _row("nothing", destinations=MANY)))
    found += [Case(f"stock-stream{name}", f"unpatched Open vSwitch, TCP in {what}", STREAM, "", STOCK,
                   _row("nothing", gso=gso))
              for name, what, gso in (("", "single segments", False), ("-gso", "64 KiB packets", True))]
    return found


def _laws() -> List[Case]:
    """Return the rows of laws."""
    found: List[Case] = []
    for law, budget in (("sdngcc", 120), ("eyeq", 200), ("scc", 200), ("hygenicc", 200), ("seawall", 200)):
        period = 0 if law == "sdngcc" else TICK_NS
        found.append(Case(law, f"law {law}, one destination", PACKETS, "stock", PATCHED, _row("shim", law),
                          period_ns=period, budget=budget))
        if law != "sdngcc":
            found.append(Case(f"{law}-{MANY}", f"law {law}, {MANY:,} destinations in turn", PACKETS, f"stock-{MANY}",
                              PATCHED, _row("shim", law, MANY), period_ns=period, budget=700))
        found += [Case(f"{law}-received", f"law {law}, packets to the VM", PACKETS, "stock-received", PATCHED,
                       _row("shim", law), Packet(received=True, ecn=0), period, 150 if law == "sdngcc" else 200),
                  Case(f"{law}-received-ecn", f"law {law}, packets of a guest with ECN to the VM", PACKETS,
                       "stock-received-ecn", PATCHED, _row("shim", law), Packet(received=True), period)]
    for law, kinds, budget in (("sdngcc", ("1514", "ipv6", "tagged", "vxlan", "received-ipv6"), 120),
                               ("eyeq", ("ipv6", "tagged"), 200)):
        for kind in kinds:
            base = next(case for case in _bases() if case.name == f"stock-{kind}")
            found.append(Case(f"{law}-{kind}", f"law {law}, {base.what.removeprefix(UNPATCHED)}", PACKETS, base.name,
                              PATCHED, _row("shim", law), base.packet, TICK_NS if law == "eyeq" else 0,
                              150 if base.packet.received else budget))
    return found


def _cases() -> List[Case]:
    """Return all rows."""
    found = _bases()
    found += [Case(name, what, PACKETS, "stock", STOCK, _row(name)) for name, what in (
        ("meter", "an OVS meter of 100 Gb/s"), ("police", "tc police of 100 Gb/s"), ("htb", "HTB of 100 Gb/s"))]
    found.append(Case("idle", "patched, nothing configured", PACKETS, "stock", PATCHED, _row("nothing"), budget=10))
    found += _laws()
    found += [Case("beside-roles", "sdngcc.ko, no law in force", PACKETS, "stock", BESIDE, _row("shim", "none"),
                   budget=40),
              Case("beside-sdngcc", "sdngcc.ko, law sdngcc", PACKETS, "stock", BESIDE, _row("shim"), budget=200)]
    for law in ("sdngcc", "eyeq", "scc", "hygenicc", "seawall", "vcc"):
        found += [Case(f"{law}-stream{name}", f"law {law}, TCP in {what}", STREAM, f"stock-stream{name}", PATCHED,
                       _row("shim", law, gso=gso), budget=budget)
                  for name, what, gso, budget in (("", "single segments", False, 0.97),
                                                  ("-gso", "64 KiB packets", True, 0.95))]
    return found


CASES: Dict[str, Case] = {case.name: case for case in _cases()}

# Rows that every change is held against, with the instructions above the base that they may not exceed: what they cost
# when this was last written, and 3%, or of streams some 2% of what a segment costs. Lower them with what makes a packet
# cheaper.
CEILINGS: Dict[str, int] = {"idle": 10, "sdngcc": 142, "eyeq": 153, "sdngcc-received": 118, "eyeq-received": 156,
                            "beside-roles": 10, "beside-sdngcc": 395, "sdngcc-stream-gso": 90, "eyeq-stream-gso": 245}


def choose(names: Sequence[str]) -> List[Case]:
    """Return the rows of those names behind their bases, all without any. Raises KeyError with the unknown ones."""
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise KeyError(", ".join(unknown))
    wanted = set(names or CASES)
    wanted |= {CASES[name].base for name in wanted}
    return sorted((case for case in CASES.values() if case.name in wanted), key=lambda case: case.base != "")
