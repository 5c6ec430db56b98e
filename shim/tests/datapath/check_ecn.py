# SPDX-License-Identifier: Apache-2.0
"""The ECN field on its way through the shim: made ECT(1), given back, kept for guests that use ECN."""

from __future__ import annotations

import time
from typing import Callable

from lab import (
    BRIDGE,
    CE,
    ECT_0,
    ECT_1,
    MACS,
    NOT_ECT,
    U_6,
    V1,
    V1_6,
    V2,
    Lab,
    U,
    Wire,
    check,
    ecn_of,
    equal,
    ipv4,
    ipv6,
    main,
    run,
    settle,
    udp,
)

lab = Lab()
lab.shim.settings_set(law="static")


def ends(out: bool, vm: str, peer: str) -> tuple[str, str]:
    """Return source and destination of what goes out of the VM, or comes in."""
    return (vm, peer) if out else (peer, vm)


# Makers of frames by what they exercise: maker(out, ecn, port) for VM to uplink and back.
Maker = Callable[[bool, int, int], bytes]
FORMS: dict[str, Maker] = {
    "IPv4": lambda out, ecn, port: ipv4(*ends(out, V1, U), udp(200, port), ecn=ecn),
    "IPv4 in a VLAN": lambda out, ecn, port: ipv4(*ends(out, V1, U), udp(200, port), ecn=ecn, vlan=True),
    "IPv6": lambda out, ecn, port: ipv6(*ends(out, V1_6, U_6), udp(200, port), ecn=ecn),
    "IPv6 in a VLAN": lambda out, ecn, port: ipv6(*ends(out, V1_6, U_6), udp(200, port), ecn=ecn, vlan=True),
}


def through(sender: Wire, receiver: Wire, frame: bytes) -> bytes:
    """Return what a frame arrives as; AssertionError if it does not."""
    receiver.flush()
    sender.send(frame)
    got = receiver.receive()
    assert got is not None, "nothing arrived"
    return got


def same_but_ecn(sent: bytes, got: bytes, ecn: int, what: str) -> None:
    """Check that only the ECN field, and the checksum that covers it, changed."""
    equal(ecn_of(got), ecn, f"{what}: ECN field")
    ip = 18 if sent[12:14] == b"\x81\x00" else 14
    if sent[ip] >> 4 == 4:
        equal(got[ip + 1] >> 2, sent[ip + 1] >> 2, f"{what}: DSCP")
        equal(got[ip + 12:len(sent)], sent[ip + 12:], f"{what}: the rest")
    else:
        equal(got[ip + 2:len(sent)], sent[ip + 2:], f"{what}: the rest")


@check
def outward() -> None:
    """Not-ECT leaves as ECT(1), and CE, which no guest has to give, as ECT(0); ECT(0) and ECT(1) as they are"""
    for name, maker in FORMS.items():
        for sent, wanted in ((NOT_ECT, ECT_1), (ECT_0, ECT_0), (ECT_1, ECT_1), (CE, ECT_0)):
            before = lab.stats("s1")["tx_ect"]
            frame = maker(True, sent, 9)
            same_but_ecn(frame, through(lab.v1, lab.u, frame), wanted, f"{name}, {sent}")
            equal(lab.stats("s1")["tx_ect"] - before, int(sent == NOT_ECT), "tx_ect")


@check
def inward() -> None:
    """ECT(1) arrives as Not-ECT; ECT(0) and Not-ECT as they are"""
    for name, maker in FORMS.items():
        for sent, wanted in ((NOT_ECT, NOT_ECT), (ECT_0, ECT_0), (ECT_1, NOT_ECT)):
            before = lab.stats("s1")["rx_restored"]
            frame = maker(False, sent, 10)
            same_but_ecn(frame, through(lab.u, lab.v1, frame), wanted, f"{name}, {sent}")
            equal(lab.stats("s1")["rx_restored"] - before, int(sent == ECT_1), "rx_restored")


@check
def marked_without_ecn() -> None:
    """A mark on a flow that never showed ECT(0) is hidden"""
    for number, (name, maker) in enumerate(FORMS.items()):
        before = lab.stats("s1")
        through(lab.u, lab.v1, maker(False, ECT_1, 100 + number))
        frame = maker(False, CE, 100 + number)
        same_but_ecn(frame, through(lab.u, lab.v1, frame), NOT_ECT, name)
        after = lab.stats("s1")
        equal(after["rx_ce"] - before["rx_ce"], 1, "rx_ce")
        equal(after["rx_restored"] - before["rx_restored"], 2, "rx_restored")


@check
def marked_with_ecn() -> None:
    """A guest that uses ECN keeps its marks, its Not-ECT packets between them notwithstanding"""
    for number, (name, maker) in enumerate(FORMS.items()):
        through(lab.u, lab.v1, maker(False, ECT_0, 200 + number))
        for _ in range(3):
            equal(ecn_of(through(lab.u, lab.v1, maker(False, CE, 200 + number))), CE, name)
            equal(ecn_of(through(lab.u, lab.v1, maker(False, ECT_1, 200 + number))), NOT_ECT, name)
        equal(ecn_of(through(lab.u, lab.v1, maker(False, CE, 300 + number))), NOT_ECT, f"{name}, another flow")


@check
def memory_ends() -> None:
    """ECT(0) is forgotten after ten seconds, unless marks kept the memory fresh"""
    frame = FORMS["IPv4"](False, CE, 400)
    through(lab.u, lab.v1, FORMS["IPv4"](False, ECT_0, 400))
    for _ in range(4):
        time.sleep(5)
        equal(ecn_of(through(lab.u, lab.v1, frame)), CE, "renewed by marks")
    time.sleep(10)
    equal(ecn_of(through(lab.u, lab.v1, frame)), NOT_ECT, "forgotten")


@check
def between_vms() -> None:
    """Packets between VMs of one host are untouched"""
    before = lab.stats("s1")
    for ecn in range(4):
        frame = ipv4(V1, V2, udp(200)[:2] + b"\x00\x07" + udp(200)[4:], ecn=ecn)
        equal(through(lab.v1, lab.v2, frame), frame, f"field {ecn}")
    equal(lab.stats("s1"), before, "counters")


@check
def not_ip() -> None:
    """Malformed and other packets keep every byte and still pay the bucket"""
    good = ipv4(V1, U, udp(200))
    cases = {
        "no IP": MACS + b"\x12\x34" + bytes(80),
        "IPv4 with version 5": good[:14] + b"\x55" + good[15:],
        "IPv4 with a 16-byte header": good[:14] + b"\x44" + good[15:],
        "IPv4 truncated": good[:30],
        "IPv6 truncated": ipv6(V1_6, U_6, b"")[:40],
        "four VLAN tags": MACS + b"\x81\x00\x00\x01" * 4 + good[12:],
        "Ethernet header only": MACS + b"\x08\x00",
    }
    run(f"ovs-ofctl add-flow {BRIDGE} priority=99,in_port=1,actions=output:3")
    settle()
    for name, frame in cases.items():
        before = lab.stats("s1")
        got = through(lab.v1, lab.u, frame)
        equal(got[:len(frame)], frame, name)
        after = lab.stats("s1")
        equal(after["tx_packets"] - before["tx_packets"], 1, f"{name}: tx_packets")
        equal(after["tx_ect"], before["tx_ect"], f"{name}: tx_ect")
    lab.route()


@check
def fragments() -> None:
    """Fragments are made ECT and pay the bucket"""
    for fragment in (0x2000, 0x0010, 0xA000, 0x8010):
        before = lab.stats("s1")["tx_packets"]
        frame = ipv4(V1, U, udp(200), fragment=fragment)
        same_but_ecn(frame, through(lab.v1, lab.u, frame), ECT_1, f"fragment {fragment:#x}")
        equal(lab.stats("s1")["tx_packets"] - before, 1, "tx_packets")


@check
def switched_off() -> None:
    """With ecn off the field is nobody's business but for a guest's CE, and marks are still counted"""
    lab.shim.settings_set(ecn=False)
    for ecn in range(4):
        frame = FORMS["IPv4"](True, ecn, 11)
        same_but_ecn(frame, through(lab.v1, lab.u, frame), ECT_0 if ecn == CE else ecn, f"out, field {ecn}")
        before = lab.stats("s1")["rx_ce"]
        frame = FORMS["IPv4"](False, ecn, 11)
        equal(through(lab.u, lab.v1, frame), frame, f"in, field {ecn}")
        equal(lab.stats("s1")["rx_ce"] - before, int(ecn == CE), "rx_ce")
    lab.shim.settings_set(ecn=True)


@check
def law_none() -> None:
    """With law none nothing is touched or counted"""
    lab.shim.settings_set(law="none")
    before = lab.stats("s1")
    for ecn in range(4):
        frame = FORMS["IPv4"](True, ecn, 12)
        equal(through(lab.v1, lab.u, frame), frame, f"out, field {ecn}")
    equal(lab.stats("s1"), before, "counters")


main()
