# SPDX-License-Identifier: Apache-2.0
"""Attacks by the ECN field: a guest that marks its own packets; and which code point the shim itself uses."""

from __future__ import annotations

import time
from typing import Callable, Dict

from control import KEY
from lab import (
    CE,
    ECT_0,
    ECT_1,
    NOT_ECT,
    PROTOCOL,
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
    frames,
    ipv4,
    ipv6,
    main,
    udp,
)
from segments import ACK, CWR, ECE, FORMS, SYN, SYN_OPTIONS, Talk

LAWS = ("static", "sdngcc", "hygenicc", "eyeq", "scc", "seawall", "vcc")
# Makers of packets of v1 with UDP by form.
MAKERS: Dict[str, Callable[[int], bytes]] = {
    "IPv4": lambda ecn: ipv4(V1, U, udp(200), ecn=ecn),
    "IPv4 fragment": lambda ecn: ipv4(V1, U, udp(200), ecn=ecn, fragment=0x2000),
    "IPv4 in a VLAN": lambda ecn: ipv4(V1, U, udp(200), ecn=ecn, vlan=True),
    "IPv6": lambda ecn: ipv6(V1_6, U_6, udp(200), ecn=ecn),
    "IPv6 with options": lambda ecn: ipv6(V1_6, U_6, udp(200), ecn=ecn, extension=True),
    "IPv6 in a VLAN": lambda ecn: ipv6(V1_6, U_6, udp(200), ecn=ecn, vlan=True),
}
DATA = bytes(1000)
lab = Lab()
lab.shim.settings_set(key=KEY)


def through(sender: Wire, receiver: Wire, frame: bytes) -> bytes:
    """Return what a frame arrives as; AssertionError if it does not."""
    receiver.flush()
    sender.send(frame)
    got = receiver.receive()
    assert got is not None, "nothing arrived"
    return got


def out(frame: bytes) -> int:
    """Return the ECN field with which a frame of v1 leaves by the uplink."""
    return ecn_of(through(lab.v1, lab.u, frame))


def told(frame: bytes) -> int:
    """Return the ECN field with which a frame from the uplink reaches v1."""
    return ecn_of(through(lab.u, lab.v1, frame))


@check
def cleared() -> None:
    """A guest's CE leaves as ECT(0) and is counted, whatever the law and whether ecn is on or off"""
    for law in LAWS:
        for ecn in (True, False):
            lab.fresh(law, ecn=ecn)
            for name, make in MAKERS.items():
                with lab.counted("s1", tx_ce_cleared=1, tx_packets=1, tx_ect=0):
                    equal(out(make(CE)), ECT_0, f"{law}, ecn {ecn}, {name}")


@check
def cleared_behind_data() -> None:
    """It is cleared where a packet before it left slack in the bucket, too"""
    lab.fresh("static")
    for make in (MAKERS["IPv4"], MAKERS["IPv6"]):
        lab.u.flush()
        with lab.counted("s1", tx_ce_cleared=2):
            for ecn in (ECT_0, CE, ECT_0, CE):
                lab.v1.send(make(ecn))
            equal([ecn_of(one) for one in frames(lab.u)], [ECT_0] * 4, "what left")


@check
def cleared_of_tcp() -> None:
    """A guest's CE on TCP is cleared under vcc, of its own ECN connection and of one whose ECN is the shim's"""
    lab.fresh("vcc")
    port = 20000
    for name, form in FORMS.items():
        for asks in (0, ECE | CWR):
            port += 1
            talk = Talk(form, port)
            out(talk.out(flags=SYN | asks, seq=0, ack=0, options=SYN_OPTIONS))
            told(talk.back(flags=SYN | ACK | ECE, seq=0, options=SYN_OPTIONS))
            with lab.counted("s1", tx_ce_cleared=1):
                equal(out(talk.out(payload=DATA, ecn=CE)), ECT_0, f"{name}, SYN with {asks:#x}")


@check
def nobody_is_told() -> None:
    """A receiver's shim finds no mark on what a guest marked, so it tells nobody of one"""
    lab.fresh("hygenicc")
    lab.v1.send(ipv4(V1, U, udp(200)))
    time.sleep(0.01)
    left = through(lab.v1, lab.u, ipv4(V1, U, udp(200), ecn=CE))
    # What left comes back as from a host that v1 sends to: the same packet, addresses exchanged.
    back = left[:14] + left[14:26] + left[30:34] + left[26:30] + left[34:]
    lab.u.flush()
    with lab.counted("s1", rx_ce=0, rx_packets=1):
        lab.u.send(back)
        equal([one for one in frames(lab.u, 0.1) if one[23] == PROTOCOL], [], "reports")


@check
def others_stay() -> None:
    """Not-ECT, ECT(0) and ECT(1) leave as before, and are not counted"""
    lab.fresh("static")
    with lab.counted("s1", tx_ce_cleared=0, tx_ect=len(MAKERS)):
        for name, make in MAKERS.items():
            equal([out(make(ecn)) for ecn in (NOT_ECT, ECT_0, ECT_1)], [ECT_1, ECT_0, ECT_1], name)


@check
def codepoint_zero() -> None:
    """With codepoint 0 packets made ECT leave as ECT(0), whatever the law"""
    lab.fresh("static")
    equal(lab.shim.settings_get().codepoint, 1, "codepoint by default")
    for law in LAWS:
        lab.fresh(law, codepoint=0)
        equal(lab.shim.settings_get().codepoint, 0, "codepoint")
        if law != "vcc":
            with lab.counted("s1", tx_ect=len(MAKERS)):
                equal({name: out(make(NOT_ECT)) for name, make in MAKERS.items()}, dict.fromkeys(MAKERS, ECT_0), law)
        for name, form in FORMS.items():
            talk = Talk(form, 21000)
            equal(out(talk.out(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS)), ECT_0, f"{law}, {name}: SYN")
    lab.shim.settings_set(codepoint=1)
    equal(lab.shim.settings_get().codepoint, 1, "codepoint set back")


@check
def codepoint_zero_received() -> None:
    """With codepoint 0 a receiver gives a SYN back as Not-ECT, and leaves ECT(1) and data with ECT(0) alone"""
    for law in ("static", "sdngcc", "hygenicc", "vcc"):
        lab.fresh(law, codepoint=0)
        for number, (name, form) in enumerate(FORMS.items()):
            what = f"{law}, {name}"
            talk = Talk(form, 22000 + number)
            with lab.counted("s1", rx_restored=1):
                equal(told(talk.back(flags=SYN | ECE | CWR, seq=0, ack=0, options=SYN_OPTIONS, ecn=ECT_0)), NOT_ECT,
                      f"{what}: SYN")
            # A guest with ECN: what the peer's guest itself made ECT(0) is data.
            out(talk.out(flags=SYN | ACK | ECE, seq=0, options=SYN_OPTIONS))
            equal(told(talk.back(payload=DATA, ecn=ECT_0)), ECT_0, f"{what}: data")
            equal(told(talk.back(seq=1 + len(DATA), payload=DATA, ecn=ECT_1)), ECT_1, f"{what}: ECT(1)")
    lab.shim.settings_set(codepoint=1)


@check
def codepoint_refused() -> None:
    """Another code point than 0 and 1 is refused"""
    from sdngcc.shim.netlink import ShimRefused

    try:
        lab.shim.settings_set(codepoint=2)
    except ShimRefused as refusal:
        assert "codepoint: allowed are 0 and 1, for ECT(0) and ECT(1)" in str(refusal), refusal
    else:
        raise AssertionError("accepted")


def flow_to(destination: str, number: int, ecn: int) -> bytes:
    """Return a packet of flow `number` from the fabric."""
    return ipv4(f"10.{40 + (number >> 16)}.{number >> 8 & 255}.{number & 255}", destination, udp(20), ecn=ecn)


@check
def marks_of_another() -> None:
    """16,000 flows with ECN at one VM take no CE mark of another's 100"""
    lab.fresh("static")
    for number in range(100):
        equal(told(flow_to(V1, number, ECT_0)), ECT_0, "ECT(0)")
    # The bridge floods what it knows no place of, and then they are the first VM's flows as well.
    with lab.flow(f"ip,nw_dst={V2}", "output:s2"):
        for number in range(16_000):
            lab.u.send(flow_to(V2, 1000 + number, ECT_0))
            if number % 500 == 499:
                lab.v2.flush()
    with lab.counted("s1", rx_ce=100, rx_ce_lost=0):
        equal([told(flow_to(V1, number, CE)) for number in range(100)], [CE] * 100, "marks")


@check
def marks_lost_are_counted() -> None:
    """Of 40,000 flows at one VM some are lost; each mark that is hidden for that is counted"""
    lab.fresh("static")
    for number in range(40_000):
        lab.u.send(flow_to(V1, number, ECT_0))
        if number % 500 == 499:
            lab.v1.flush()
    before = lab.stats("s1")["rx_ce_lost"]
    hidden = sum(told(flow_to(V1, number, CE)) == NOT_ECT for number in range(500))
    assert hidden >= 50, f"{hidden} of 500 hidden"
    equal(lab.stats("s1")["rx_ce_lost"] - before, hidden, "rx_ce_lost")


main()
