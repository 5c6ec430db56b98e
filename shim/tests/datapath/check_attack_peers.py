# SPDX-License-Identifier: Apache-2.0
"""Attacks on a VM's table of peers: filled by the VM itself to lose a limit, and by others to push its peers out."""

from __future__ import annotations

import socket
import time
from typing import List

from control import KEY, frame, grant
from lab import V1, Lab, U, check, equal, frames, ifindex, ipv4, main, udp

from sdngcc.shim.netlink import Peer

DF = 0x4000
PEERS = 50  # most of a VM, in checks of a small table
RATE = 1_000_000  # that u grants, bytes/s
TRIED = 200  # packets of 1434 bytes in 20 ms: 14.3 MB/s of the uplink's 125
# In 20 ms a rate of 1 MB/s is 14 packets, an equal part among 50 peers 36; a bucket is two.
GRANTED, EQUAL_PART = 25, 60
lab = Lab()
lab.shim.settings_set(law="eyeq", key=KEY)


def packet(destination: str, size: int = 100) -> bytes:
    """Return a packet of v1."""
    return ipv4(V1, destination, udp(size), fragment=DF)


def talk(destination: str, count: int = 1) -> None:
    """Let v1 send packets."""
    for _ in range(count):
        lab.v1.send(packet(destination))
    time.sleep(0.0001)


def others(count: int) -> List[str]:
    """Return addresses in the fabric."""
    return [f"10.10.{number >> 8}.{number & 255}" for number in range(1, count + 1)]


def peers() -> dict[str, Peer]:
    """Return v1's peers by address."""
    return {one.address: one for one in lab.shim.peers()}


def small_table() -> None:
    """Begin anew with a table of PEERS peers, and a limiter that drops."""
    lab.fresh("eyeq", peers_max=PEERS, limiter="police", burst=3028)


def table(most: int = 4096) -> None:
    """Begin anew with a table of most peers, and the defaults."""
    lab.fresh("eyeq", peers_max=most)


def left(destination: str) -> int:
    """Let v1 send TRIED packets in 20 ms and return how many left by the uplink."""
    lab.u.flush()
    for _ in range(TRIED):
        lab.v1.send(packet(destination, 1400))
        time.sleep(0.0001)
    address = socket.inet_aton(destination)
    return sum(one[30:34] == address for one in frames(lab.u))


def told(rate: int = RATE) -> None:
    """Let u's shim grant v1 a rate, which v1's shim must accept."""
    with lab.counted("s1", reports=1, refused_peer=0):
        lab.u.send(frame(grant(rate)))
        time.sleep(0.01)


@check
def granted() -> None:
    """With room in the table a rate that a peer grants holds"""
    small_table()
    talk(U)
    told()
    count = left(U)
    assert 5 <= count <= GRANTED, f"{count} of {TRIED} left"


@check
def full_of_strangers() -> None:
    """A table full of peers that saw one packet has room for another: one of them goes, and the rate holds"""
    small_table()
    for one in others(PEERS):
        talk(one)
    equal(len(peers()), PEERS, "peers")
    with lab.counted("s1", peers_evicted=1, peers_full=0):
        talk(U)
    told()
    count = left(U)
    assert 5 <= count <= GRANTED, f"{count} of {TRIED} left"
    assert U in peers() and len(peers()) <= PEERS, f"{len(peers())} peers"


@check
def one_packet_goes_first() -> None:
    """Peers that saw one packet make room before all others"""
    small_table()
    known = others(PEERS)
    for one in known[:40]:
        talk(one, 2)
    for one in known[40:]:
        talk(one)
    for one in known[:40]:
        talk(one)
    with lab.counted("s1", peers_evicted=5):
        for number in range(5):
            talk(f"10.11.0.{number}", 2)
    gone = set(known) - set(peers())
    assert len(gone) == 5 and gone <= set(known[40:]), f"peers that made room: {gone}"


@check
def full_of_friends() -> None:
    """Where no peer can make room, what has none of its own shares a rate no looser than an equal part"""
    small_table()
    for one in others(PEERS):
        lab.shim.peer_set("s1", one, 1)
        talk(one, 2)
    before = lab.stats("s1")
    count = left(U)
    rose = lab.changes("s1", before)
    assert 1 <= count <= EQUAL_PART, f"{count} of {TRIED} left; counters {rose}"
    assert rose.get("drop_shared", 0) >= TRIED - EQUAL_PART - 5, f"counters {rose}"
    equal(set(peers()), set(others(PEERS)), "peers")


@check
def shared_by_all() -> None:
    """Packets without a peer share one rate, whatever number of addresses they go to"""
    small_table()
    for one in others(PEERS):
        lab.shim.peer_set("s1", one, 1)
        talk(one, 2)
    lab.u.flush()
    for number in range(TRIED):
        lab.v1.send(packet(f"10.12.0.{number}", 1400))
        time.sleep(0.0001)
    count = len(frames(lab.u))
    assert 1 <= count <= EQUAL_PART, f"{count} of {TRIED} left"
    # Those with a peer of their own are not held by it.
    count = left(others(1)[0])
    assert count >= TRIED - 10, f"{count} of {TRIED} left to a peer"


@check
def kept_full() -> None:
    """4,096 addresses kept alive by 500 packets/s do not loosen the rate to another"""
    table()
    lab.shim.settings_set(limiter="police", burst=3028)
    known = others(4096)
    for _ in range(2):
        for number, one in enumerate(known):
            lab.v1.send(packet(one))
            if number % 5 == 4:
                time.sleep(0.01)
    talk(U)
    before = lab.stats("s1")
    lab.u.send(frame(grant(RATE)))
    time.sleep(0.01)
    # Without a peer of its own: an equal part of 125 MB/s among 4,096 is less than a packet in 20 ms.
    most = GRANTED if "reports" in lab.changes("s1", before) else 5
    count = left(U)
    assert count <= most, f"{count} of {TRIED} left, {most} may"


@check
def weighted_stay() -> None:
    """Peers with a weight never make room"""
    small_table()
    for one in others(10):
        lab.shim.peer_set("s1", one, 3)
    for number in range(2 * PEERS):
        talk(f"10.11.0.{number}")
    assert set(others(10)) <= set(peers()), "a peer with a weight is gone"
    equal(len(peers()), PEERS, "peers")


def flood(count: int, between: List[str], apart: int) -> None:
    """Send v1 packets from that many sources of the fabric; every `apart` of them v1 sends to each of `between`."""
    data = bytearray(ipv4("11.0.0.0", V1, udp(30), fragment=DF))
    for number in range(count):
        data[26:30] = (0x0B000000 + number).to_bytes(4, "big")
        lab.u.send(bytes(data))
        if number % apart == apart - 1:
            time.sleep(0.01)
            for one in between:
                talk(one)


@check
def flooded() -> None:
    """100,000 sources push out no peer that the VM sends to, and their number is bounded"""
    table()
    mine = others(20)
    for one in mine:
        talk(one)
    talk(U)
    before = peers()
    flood(100_000, [U], 10_000)
    after = peers()
    equal([one for one in (*mine, U) if one not in after], [], "peers pushed out")
    equal({one: after[one].tx_packets for one in mine}, {one: before[one].tx_packets for one in mine}, "packets sent")
    equal(after[U].tx_packets, before[U].tx_packets + 10, "packets sent to u")
    assert len(after) <= 4096, f"{len(after)} peers"
    told()


@check
def flooded_before() -> None:
    """After them the VM's own peers find room, at once, and are told rates that hold"""
    table(512)
    talk(others(1)[0])
    flood(5_000, [], 1000)
    with lab.counted("s1", peers_full=0):
        for one in (U, *others(300)):
            talk(one)
    got = peers()
    equal([one for one in (U, *others(300)) if one not in got], [], "peers without room")
    told()
    lab.shim.settings_set(limiter="police", burst=3028)
    count = left(U)
    assert 5 <= count <= GRANTED, f"{count} of {TRIED} left"


@check
def flooded_others() -> None:
    """A flood at one VM pushes out no peer of another VM"""
    table(512)
    lab.v2.send(ipv4("10.9.0.2", U, udp(100)))
    time.sleep(0.001)
    equal([one.address for one in lab.shim.peers()], [U], "peers before")
    flood(5_000, [], 1000)
    equal([one.address for one in lab.shim.peers() if one.vm == ifindex("s2")], [U], "peers of v2")


def asked(sources: List[str], rounds: int, apart: int) -> None:
    """Let v1 answer a packet from each source, some times; every `apart` sources there is a pause."""
    for _ in range(rounds):
        for number, source in enumerate(sources):
            lab.u.send(ipv4(source, V1, udp(30), fragment=DF))
            time.sleep(0.00005)
            lab.v1.send(ipv4(V1, source, udp(30), fragment=DF))
            if number % apart == apart - 1:
                time.sleep(0.01)


@check
def askers() -> None:
    """Spoofed sources that the VM answers, each twice or six times, keep no new client out; peers it began with stay"""
    for rounds in (2, 6):
        table(512)
        mine = others(20)
        for one in mine:
            talk(one, 3)
        asked([f"11.0.{number >> 8}.{number & 255}" for number in range(512)], rounds, 100)
        for one in mine:
            talk(one)
        clients = [f"10.20.0.{number}" for number in range(1, 21)]
        with lab.counted("s1", peers_full=0, drop_shared=0):
            asked(clients, 10, 20)
        got = peers()
        equal([one for one in (*clients, *mine) if one not in got], [], f"pushed out, {rounds} rounds")
        assert all(got[one].tx_packets >= 8 for one in clients), "clients that were made anew"
        assert len(got) <= 512, f"{len(got)} peers"


@check
def dropped_makes_none() -> None:
    """A VM at a low rate that sprays new addresses makes peers for what passes alone"""
    table(4096)
    lab.shim.settings_set(limiter="police", burst=3028)
    lab.shim.port_set("s1", max_rate=125_000)
    time.sleep(0.02)
    before = lab.stats("s1")
    for number in range(1000):
        lab.v1.send(packet(f"10.30.{number >> 8}.{number & 255}", 1000))
    rose = lab.changes("s1", before)
    assert rose.get("tx_packets", 0) <= 200, f"counters {rose}"
    made = len(peers()) + rose.get("peers_evicted", 0) + rose.get("peers_collected", 0)
    assert made <= rose.get("tx_packets", 0) + 5, f"{made} peers; counters {rose}"
    lab.shim.port_set("s1", max_rate=0)


main()
