# SPDX-License-Identifier: Apache-2.0
"""Addresses that move by an announcement (VRRP), and those that none takes: who had it is asked, and answers or not."""

from __future__ import annotations

import socket
import struct
import time
from typing import List

from control import KEY, frame, marks
from lab import U_6, V1, V2, Lab, U, Wire, check, equal, ipv4, ipv6, links, main, run, udp

VIRTUAL, VIRTUAL_6 = "10.9.0.77", "fd09::77"
CARD = bytes.fromhex("02000000000a")
lab = Lab()
lab.shim.settings_set(key=KEY)


def announcement(address: str, mac: bytes = CARD) -> bytes:
    """Return a gratuitous ARP request, or an unsolicited neighbour advertisement."""
    if ":" not in address:
        own = socket.inet_aton(address)
        return b"\xff" * 6 + mac + b"\x08\x06" + bytes.fromhex("0001080006040001") + mac + own + bytes(6) + own
    own = socket.inet_pton(socket.AF_INET6, address)
    body = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + own + b"\x02\x01" + mac
    sent = ipv6(address, "ff02::1", body, protocol=58)
    return b"\x33\x33\x00\x00\x00\x01" + mac + sent[12:]


def moves_in(wire: Wire, address: str, most_s: float = 12.0) -> float:
    """Announce an address and send from it until a packet leaves; return how long that took."""
    begun = time.monotonic()
    wire.send(announcement(address))
    while not lab.sends(wire, address):
        assert time.monotonic() - begun < most_s, f"{address} stays another's"
        time.sleep(0.02)
    return time.monotonic() - begun


@check
def virtual_address() -> None:
    """A virtual address that its new master announces leaves from there in a second, and so when it moves back"""
    for address in (VIRTUAL, VIRTUAL_6):
        for silent_s in (0.0, 3.6):
            lab.fresh("sdngcc")
            assert lab.sends(lab.v1, address), "the old master"
            time.sleep(silent_s)
            for wire in (lab.v2, lab.v1, lab.v2):
                took = moves_in(wire, address)
                print(f"# {address} after {silent_s} s: {took:.2f} s", flush=True)
                assert took < 1.4, f"{address}: {took} s"
                assert lab.sends(wire, address)


@check
def stolen() -> None:
    """An announcement takes no address that its owner uses, nor one of a guest that is idle but answers when asked"""
    lab.fresh("sdngcc")
    for _ in range(10):
        assert lab.sends(lab.v2, V2), "the owner"
        lab.v1.send(announcement(V2))
        for _ in range(3):
            time.sleep(0.25)
            equal(lab.sends(lab.v1, V2), False, "a thief sent")
    run("ip netns exec v2 sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.e2.disable_ipv6=0")
    links("addr add 10.9.0.78/24 dev e2", "addr add fd09::78/64 dev e2 nodad", within="v2")
    mac = bytes.fromhex(run("ip netns exec v2 cat /sys/class/net/e2/address").strip().replace(":", ""))
    # What v2 answers goes to where the asker is.
    with lab.flow("in_port=2,arp", "output:1,output:3"), lab.flow("in_port=2,icmp6", "output:1,output:3"):
        for address in ("10.9.0.78", "fd09::78"):
            lab.u.flush()
            one = ipv6(address, U_6, udp(100)) if ":" in address else ipv4(address, U, udp(100))
            lab.v2.send(one[:6] + mac + one[12:])
            time.sleep(0.02)
            for _ in range(25):
                lab.v1.send(announcement(address))
                time.sleep(0.2)
                equal(lab.sends(lab.v1, address), False, f"a thief sent from {address}")
    links("addr flush dev e2", within="v2")
    run("ip netns exec v2 sysctl -qw net.ipv6.conf.e2.disable_ipv6=1")


@check
def returns() -> None:
    """An owner that was idle and does not answer has its address back with its first packet"""
    lab.fresh("sdngcc")
    assert lab.sends(lab.v2, V2)
    assert moves_in(lab.v1, V2) < 1.4
    assert lab.sends(lab.v2, V2), "its owner"
    equal(lab.sends(lab.v1, V2), False, "the other one sent")


@check
def announced_and_set() -> None:
    """An announcement takes nothing that is set for another, and two cards of one guest share what is set for both"""
    lab.fresh("sdngcc")
    lab.shim.port_set("s2", addresses=[V2])
    assert lab.sends(lab.v2, V2)
    for _ in range(20):
        lab.v1.send(announcement(V2))
        time.sleep(0.1)
        equal(lab.sends(lab.v1, V2), False, "a thief sent")
    lab.shim.port_set("s1", addresses=[V1, V2])
    left: List[bool] = []
    for _ in range(100):
        left += [lab.sends(lab.v1, V2), lab.sends(lab.v2, V2)]
    equal(sum(left), 200, "packets of two cards with one address")
    for device, number in (("s1", 1), ("s2", 2)):
        with lab.flow("in_port=3", f"output:{number}"), lab.counted(device, messages=1, refused_port=0):
            lab.u.send(frame(marks(V2)))
            time.sleep(0.01)
    lab.shim.port_set("s1", addresses=[])


main()
