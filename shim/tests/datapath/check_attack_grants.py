# SPDX-License-Identifier: Apache-2.0
"""Other names of a host that grants a rate: nobody answers for them, so they share a rate that is no looser.

    VM 10.9.0.1 -- s1 |            |
                      | bridge br0 | s3 -- u, 10.9.0.3, whose shim this file plays
"""

from __future__ import annotations

import time
from typing import Callable, Dict

from control import KEY, frame, grant
from lab import MACS, U_6, V1, V1_6, Lab, U, check, equal, frames, ipv4, ipv6, main, udp

DF = 0x4000
RATE = 1_000_000  # that u grants, bytes/s
TRIED = 200  # packets of 1434 bytes in 20 ms: 14.3 MB/s of the uplink's 125
# An eighth of the rate in 20 ms is two packets, a bucket is two.
FEW = 8
ALL = bytes.fromhex("ffffffffffff")
GROUP = bytes.fromhex("01005e010203")
STRANGER = "10.9.0.77"
lab = Lab()


def packet(destination: str, source: str = V1) -> bytes:
    """Return a packet of v1."""
    if ":" in destination:
        return ipv6(V1_6, destination, udp(1380))
    return ipv4(source, destination, udp(1400), fragment=DF)


def to(mac: bytes, data: bytes) -> bytes:
    """Return a frame with another destination."""
    return mac + data[6:]


def heard_from(address: str, mac: bytes = MACS[:6]) -> None:
    """Bring v1 a packet of an address, by a MAC address."""
    data = ipv6(address, V1_6, udp(100)) if ":" in address else ipv4(address, V1, udp(100))
    lab.u.send(data[:6] + mac + data[12:])
    time.sleep(0.001)


def granted(law: str = "eyeq", rate: int = RATE) -> None:
    """Begin anew: u's shim has granted v1 a rate, by the MAC address that v1 sends to."""
    lab.fresh("none")
    lab.fresh(law, key=KEY, limiter="police", burst=3028)
    heard_from(U)
    lab.v1.send(packet(U))
    time.sleep(0.001)
    with lab.counted("s1", reports=1):
        data = frame(grant(rate))
        lab.u.send(data[:6] + MACS[:6] + data[12:])
        time.sleep(0.01)


def left(make: Callable[[int], bytes], count: int = TRIED) -> int:
    """Let v1 send frames in 20 ms and return how many left by the uplink."""
    lab.u.flush()
    for number in range(count):
        lab.v1.send(make(number))
        time.sleep(0.0001)
    return len([one for one in frames(lab.u) if len(one) > 1000])


NAMES: Dict[str, Callable[[int], bytes]] = {
    "an address never heard": lambda number: packet(STRANGER),
    "many of them": lambda number: packet(f"10.8.0.{number}"),
    "the other family": lambda number: packet(U_6),
    "a group": lambda number: to(GROUP, packet("239.1.2.3")),
    "everybody": lambda number: to(ALL, packet("255.255.255.255")),
    "u at everybody's MAC address": lambda number: to(ALL, packet(U)),
    "a group of IPv6": lambda number: to(bytes.fromhex("333300000001"), packet("ff02::1")),
    "a fragment": lambda number: ipv4(V1, STRANGER, bytes(1400), fragment=0x2000 | number),
    "a tag of priority": lambda number: MACS + b"\x81\x00\xe0\x00" + packet(STRANGER)[12:],
}


@check
def other_names() -> None:
    """What is sent to other names of a host that grants 1 MB/s has an eighth of that, all names together"""
    for name, make in NAMES.items():
        granted()
        before = lab.stats("s1")
        count = left(make)
        rose = lab.changes("s1", before)
        assert 1 <= count <= FEW, f"{name}: {count} of {TRIED} left; {rose}"
        dropped = rose.get("drop_unanswered", 0) + rose.get("drop_peer", 0)
        assert dropped >= TRIED - FEW and rose.get("drop_unanswered"), f"{name}: {rose}"
    granted()
    makes = list(NAMES.values())
    count = left(lambda number: makes[number % len(makes)](number))
    assert 1 <= count <= 2 * FEW, f"in turn: {count} of {TRIED} left"


@check
def no_ip() -> None:
    """Frames that are no IP have the grant together"""
    granted()
    count = left(lambda number: MACS + b"\x88\xb6" + bytes(1400))
    assert 1 <= count <= 25, f"{count} of {TRIED} left"


@check
def another_mac() -> None:
    """An address that answers gives nothing at the MAC address of the host that grants, and all at its own"""
    other = bytes.fromhex("020000000044")
    granted()
    heard_from("10.9.0.44", other)
    count = left(lambda number: to(other, packet("10.9.0.44")))
    assert count >= TRIED - 20, f"{count} of {TRIED} left by its own MAC address"
    count = left(lambda number: packet("10.9.0.44"))
    assert count <= FEW, f"{count} of {TRIED} left by u's"


@check
def anothers_name() -> None:
    """From an address where u has not answered v1 has an eighth of the grant; where it has, or v1's are set, all"""
    other = "10.9.0.66"
    granted()
    count = left(lambda number: packet(U, other))
    assert count <= FEW, f"{count} of {TRIED} left in another's name"
    lab.u.send(ipv4(U, other, udp(100)))
    time.sleep(0.001)
    with lab.counted("s1", drop_unanswered=0):
        left(lambda number: packet(U, other))
    granted()
    lab.shim.port_set("s1", addresses=["0.0.0.0/0"])
    with lab.counted("s1", drop_unanswered=0):
        left(lambda number: packet(U, f"10.9.1.{number}"))
    lab.shim.port_set("s1", addresses=[])


@check
def behind_a_router() -> None:
    """Behind the MAC address by which a grant comes, who answers without a shim is bound by nothing of that"""
    granted()
    heard_from("192.0.2.1")
    count = left(lambda number: packet("192.0.2.1"))
    assert count >= TRIED - 20, f"{count} of {TRIED} left"


@check
def without_a_grant() -> None:
    """Where nobody ever answered, an eighth of what the VM may send leaves, or its guarantee"""
    for least, wanted in ((0, 125_000_000 // 8), (80_000_000, 80_000_000)):
        lab.fresh("none")
        lab.fresh("eyeq", key=KEY, limiter="police", burst=3028)
        lab.shim.port_set("s1", min_rate=least)
        start = time.monotonic()
        lab.u.flush()
        for _ in range(4000):
            lab.v1.send(packet(STRANGER))
            time.sleep(0.00001)
        took = time.monotonic() - start
        count = len([one for one in frames(lab.u) if len(one) > 1000])
        most = wanted * took / 1434 + 20
        assert 10 < count <= most, f"guarantee {least}: {count} of 4000 left in {took} s, {most} may"


@check
def first_packets() -> None:
    """While a grant is filled ARP, DHCP and the first packets to others pass, and who answers is free"""
    granted(rate=200_000)
    for _ in range(100):
        lab.v1.send(packet(U))
        time.sleep(0.0002)
    arp = ALL + MACS[6:] + b"\x08\x06" + bytes(46)
    dhcp = to(ALL, ipv4("0.0.0.0", "255.255.255.255", udp(300)))
    syn = ipv4(V1, STRANGER, bytes(40), protocol=6)
    lab.u.flush()
    for data in (arp, dhcp, syn):
        lab.v1.send(data)
        time.sleep(0.001)
    found = frames(lab.u)
    equal([one[:14] for one in found if one[30:34] != packet(U)[30:34]], [one[:14] for one in (arp, dhcp, syn)],
          "frames that left")
    heard_from(STRANGER)
    count = left(lambda number: packet(STRANGER))
    assert count >= TRIED - 20, f"{count} of {TRIED} left to who answered"


@check
def shim_answers() -> None:
    """A VM's own shim says to who sends to it that it is there, where its law has nothing to report"""
    for law in ("eyeq", "hygenicc"):
        lab.fresh("none")
        lab.fresh(law, key=KEY)
        lab.v1.send(packet("10.9.9.9"))
        time.sleep(0.001)
        with lab.counted("s1", reports_sent=1):
            for _ in range(5):
                lab.u.send(ipv4(U, V1, udp(1000)))
                time.sleep(0.02)


main()
