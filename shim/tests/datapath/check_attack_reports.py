# SPDX-License-Identifier: Apache-2.0
"""Reports: a guest that receives neither steers, silences nor misnames those of its own shim, and none costs others.

    VM 10.9.0.1 -- s1 |            |
    VM 10.9.0.2 -- s2 | bridge br0 | s3 -- u, 10.9.0.3, to which the shim reports
"""

from __future__ import annotations

import socket
import time
from typing import Callable, Dict, List, Tuple

from control import KEY
from lab import CE, MACS, PROTOCOL, U_6, V1, V1_6, Lab, U, check, equal, frames, ipv4, ipv6, main, udp

from sdngcc.controller.wire.message import decode_v1

DF = 0x4000
LAWS = ("scc", "hygenicc", "seawall", "elasticswitch")
HERE, THERE = MACS[6:], MACS[:6]
OTHER = bytes.fromhex("0200000000aa")
LIAR = "10.9.0.55"
CAPACITY = 2_500_000  # 20 Mb/s
lab = Lab()


def honest(source: str = V1) -> bytes:
    """Return a packet of v1 for u."""
    return ipv4(source, U, udp(100), fragment=DF)


def tagged(*tags: Tuple[int, int], data: bytes = b"") -> bytes:
    """Return v1's packet with tags, of protocol and tag each."""
    data = data or honest()
    return data[:12] + b"".join(kind.to_bytes(2, "big") + tag.to_bytes(2, "big") for kind, tag in tags) + data[12:]


LIES: Dict[str, bytes] = {
    "one tag": tagged((0x8100, 5)),
    "one tag of providers": tagged((0x88A8, 5)),
    "a tag of priority": tagged((0x8100, 0xE000)),
    "two tags": tagged((0x88A8, 5), (0x8100, 6)),
    "twice the same tag": tagged((0x8100, 5), (0x8100, 5)),
    "three tags": tagged((0x88A8, 5), (0x8100, 6), (0x8100, 7)),
    "another source": honest(LIAR),
    "another MAC address of its own": THERE + OTHER + honest()[12:],
    "another MAC address to go to": OTHER + HERE + honest()[12:],
    "everybody's MAC address": b"\xff" * 6 + HERE + honest()[12:],
    "another source in a tag": tagged((0x8100, 5), data=honest(LIAR)),
    "a fragment from another": ipv4(LIAR, U, bytes(100), fragment=0x2001),
    "another type": MACS + b"\x88\xb6" + bytes(60),
    "the other family": OTHER + HERE + ipv6(V1_6, U_6, udp(100))[12:],
}


def received(data: bytes = b"", ecn: int = CE) -> bytes:
    """Return a packet of u for v1, by the MAC addresses of v1's turned round."""
    data = data or ipv4(U, V1, udp(400), ecn=ecn)
    return HERE + THERE + data[12:]


def talk() -> None:
    """Let v1 and u exchange some packets, as they are."""
    for _ in range(5):
        lab.v1.send(honest())
        lab.u.send(received(ecn=0))
        time.sleep(0.012)


def reports(lie: List[bytes], flood: Callable[[], bytes] = received) -> List[bytes]:
    """Let v1 send frames, each in front of packets that u sends it; return the reports at u."""
    lab.u.flush()
    for number in range(40):
        if lie:
            lab.v1.send(lie[number % len(lie)])
        lab.u.send(flood())
        time.sleep(0.002)
    time.sleep(0.05)
    return [one for one in frames(lab.u) if one[12:14] == b"\x08\x00" and one[23] == PROTOCOL
            or one[12:14] in (b"\x81\x00", b"\x88\xa8") and PROTOCOL in (one[27], one[31])]


def right(found: List[bytes], what: str) -> None:
    """Check that reports leave as v1's honest packets do, and are from v1."""
    assert found, f"{what}: no report"
    wanted = (MACS, b"\x08\x00", socket.inet_aton(V1))
    for one in found:
        equal((one[:12], one[12:14], one[26:30]), wanted, f"{what}: MAC addresses, type and source of a report")
        equal(decode_v1(one[34:], KEY).peer[12:], socket.inet_aton(V1), f"{what}: who received, by a report")


@check
def lies() -> None:
    """One frame of the guest, or one before each packet it gets, changes nothing of how reports leave"""
    for law in LAWS[:2]:
        for what, lie in LIES.items():
            lab.fresh("none")
            lab.fresh(law, key=KEY)
            talk()
            with lab.counted("s1", reports_unsent=0):
                lab.v1.send(lie)
                right(reports([]), f"{law}, {what}")
                right(reports([lie]), f"{law}, {what} each time")


@check
def turns() -> None:
    """Nor do honest frames and others in turn, nor all of them"""
    for law in LAWS:
        lab.fresh("none")
        lab.fresh(law, key=KEY)
        talk()
        with lab.counted("s1", reports_unsent=0):
            right(reports([honest(), *LIES.values()]), law)


@check
def lies_first() -> None:
    """A guest that begins by tags, and only then sends as others do, is reported on from then"""
    for what in ("two tags", "three tags", "another source", "another MAC address to go to"):
        lab.fresh("none")
        lab.fresh("scc", key=KEY)
        lab.v1.send(LIES[what])
        lab.u.send(received(ecn=0))
        talk()
        right(reports([LIES[what]]), what)


@check
def same_addresses() -> None:
    """Where frames come by other MAC addresses than those sent to, one frame does not steer them either"""
    for what in ("another MAC address to go to", "another MAC address of its own", "another source", "one tag"):
        lab.fresh("none")
        lab.fresh("scc", key=KEY)
        for _ in range(5):
            lab.v1.send(honest())
            lab.u.send(ipv4(U, V1, udp(400)))
            time.sleep(0.01)
        lab.v1.send(LIES[what])
        right(reports([], lambda: ipv4(U, V1, udp(400), ecn=CE)), what)


@check
def silent() -> None:
    """A VM that sends nothing has its reports go back to where the packets came from"""
    lab.fresh("none")
    lab.fresh("scc", key=KEY)
    right(reports([]), "silent")
    lab.v1.send(LIES["two tags"])
    right(reports([]), "after two tags")


@check
def set_addresses() -> None:
    """With addresses set, nothing of another source leaves, and reports bear the one that is asked"""
    lab.fresh("none")
    lab.fresh("scc", key=KEY)
    lab.shim.port_set("s1", addresses=[V1])
    with lab.counted("s1", drop_spoofed=1):
        lab.v1.send(honest(LIAR))
        time.sleep(0.01)
    right(reports([honest(LIAR)]), "addresses set")
    lab.shim.port_set("s1", addresses=[])


def on_wire(counters: Dict[str, int]) -> int:
    """Return what a VM's packets took of a cable: preamble, FCS and gap are 24 bytes of each."""
    return counters["tx_bytes"] + 24 * counters["tx_packets"]


@check
def flood() -> None:
    """A flood of 60-byte packets makes no more reports than 1/64 of the link, and a neighbour has its guarantee"""
    for law in LAWS:
        lab.fresh("none")
        lab.fresh(law, key=KEY, limiter="police", burst=6056)
        lab.shim.port_set("s3", role="uplink", capacity=CAPACITY)
        lab.shim.port_set("s2", min_rate=CAPACITY * 8 // 10)
        for host in (V1, "10.9.0.2"):
            lab.u.send(ipv4("10.9.9.9", host, udp(50)))
        small = received(ipv4(U, V1, udp(26), ecn=CE))
        before = [lab.stats(device) for device in ("s1", "s2")]
        start = time.monotonic()
        for number in range(8000):
            lab.u.send(small)
            if number % 3 == 0:
                lab.v1.send(ipv4(V1, "10.9.9.9", udp(980)))
                lab.v2.send(ipv4("10.9.0.2", "10.9.9.9", udp(980)))
            time.sleep(0.0001)
            if number % 500 == 0:
                for host in (V1, "10.9.0.2"):
                    lab.u.send(ipv4("10.9.9.9", host, udp(50)))
                lab.u.flush()
        took = time.monotonic() - start
        one, two = (lab.changes(device, old) for device, old in zip(("s1", "s2"), before))
        sent = one.get("report_bytes_sent", 0)
        assert 0 < sent <= CAPACITY / 64 * took + 9 * 160, f"{law}: {sent} bytes of reports in {took} s"
        whole = (on_wire(one) + on_wire(two) + sent) / took
        assert whole <= 1.02 * CAPACITY + 40_000 / took, f"{law}: {whole} bytes/s left; {one} {two}"
        got = on_wire(two) / took
        print(f"# {law}: {sent / took:.0f} bytes/s of reports, neighbour {got * 8 / 1e6:.2f} Mb/s", flush=True)
        assert got >= 0.98 * 0.8 * CAPACITY, f"{law}: {got} bytes/s of a guarantee of {CAPACITY * 8 // 10}"
    lab.roles()


main()
