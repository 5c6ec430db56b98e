# SPDX-License-Identifier: Apache-2.0
"""Law seawall's window hint in the datapath: frame by frame, and under real TCP stacks without backpressure."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Tuple

from lab import CE, ECT_0, ECT_1, NOT_ECT, V1, Lab, U, Wire, check, ecn_of, equal, ipv4, main, run, udp
from segments import ACK, CWR, ECE, FORMS, SYN, SYN_OPTIONS, Segment, Talk
from stacks import MIB, Transfer, connection

DATA = bytes(range(240)) * 5
SCALE = 7
MS = 10**6
PORTS = iter(range(30000, 60000))

lab = Lab()
lab.shim.settings_set(law="seawall")


def through(sender: Wire, receiver: Wire, frame: bytes) -> bytes:
    """Return what a frame arrives as; AssertionError if it does not."""
    receiver.flush()
    sender.send(frame)
    got = receiver.receive()
    assert got is not None, "nothing arrived"
    return got


def sent(talk: Talk, **fields: object) -> Segment:
    """Let v1 send a segment and return it as u gets it; its checksum is right."""
    got = talk.read(through(lab.v1, lab.u, talk.out(**fields)), True)  # type: ignore[arg-type]
    assert got.right, f"checksum of {fields}"
    return got


def heard(talk: Talk, **fields: object) -> Segment:
    """Let u send a segment and return it as v1 gets it; its checksum is right."""
    got = talk.read(through(lab.u, lab.v1, talk.back(**fields)), False)  # type: ignore[arg-type]
    assert got.right, f"checksum of {fields}"
    return got


def opened(talk: Talk, asks: int = 0, answer: int = 0) -> Tuple[Segment, Segment]:
    """Let v1 open the connection; return SYN as it left and SYN-ACK as it arrived."""
    syn = sent(talk, flags=SYN | asks, seq=0, ack=0, options=SYN_OPTIONS)
    reply = heard(talk, flags=SYN | ACK | answer, seq=0, options=SYN_OPTIONS)
    sent(talk)
    return syn, reply


def exchange(talk: Talk, first: int, count: int) -> int:
    """Let v1 send packets and u acknowledge each; return the window of the last ACK in bytes."""
    window = 0
    for number in range(first, first + count):
        sent(talk, seq=1 + number * len(DATA), payload=DATA)
        window = heard(talk, ack=1 + (number + 1) * len(DATA)).window << SCALE
    return window


def rate(talk: Talk) -> int:
    """Return the rate of v1 to the talk's peer, bytes/s."""
    return next(peer.rate for peer in lab.shim.peers() if peer.address == talk.form.peer)


@check
def lowered() -> None:
    """Once a round trip is known, ACKs grant the tunnel's rate times it and the hint, with right checksums"""
    for name, form in FORMS.items():
        talk = Talk(form, next(PORTS))
        before = lab.stats("s1")["rx_windows"]
        syn, reply = opened(talk)
        equal((syn.flags, reply.flags, reply.window), (SYN, SYN | ACK, 60000), f"{name}: handshake")
        equal(exchange(talk, 0, 1), 60000 << SCALE, f"{name}: first ACK")
        for number in range(4):
            time.sleep(0.06)
            window = exchange(talk, 1 + 10 * number, 10)
        allowed = rate(talk) * MS // 10**9
        # The round trip is what virtual time passes between frames, next to nothing.
        assert 0.9 * allowed <= window <= 1.3 * allowed, f"{name}: {window} of {allowed}"
        assert lab.stats("s1")["rx_windows"] > before, f"{name}: rx_windows"


@check
def shared() -> None:
    """Four connections of a tunnel that are in use get a quarter each; those that are silent count no more"""
    talks = [Talk(FORMS["IPv4"], next(PORTS)) for _ in range(4)]
    for talk in talks:
        opened(talk)
    for number in range(6):
        time.sleep(0.06)
        for talk in talks:
            exchange(talk, 12 * number, 1)
            for more in range(1, 12):
                sent(talk, seq=1 + (12 * number + more) * len(DATA), payload=DATA)
            heard(talk, ack=1 + (12 * number + 12) * len(DATA))
    windows = [heard(talk, ack=1 + 72 * len(DATA)).window << SCALE for talk in talks]
    allowed = rate(talks[0]) * MS // 10**9
    for window in windows:
        assert 0.9 * allowed / 4 <= window <= 1.3 * allowed / 4, (windows, allowed)
    for number in range(8):
        time.sleep(0.06)
        alone = exchange(talks[0], 72 + 6 * number, 6)
    allowed = rate(talks[0]) * MS // 10**9
    assert 0.9 * allowed <= alone <= 1.3 * allowed, (alone, allowed)


@check
def least() -> None:
    """A queue of six packets at least, however low the rate"""
    lab.shim.port_set("s1", role="vm", max_rate=200_000)
    talk = Talk(FORMS["IPv4"], next(PORTS))
    opened(talk)
    time.sleep(0.3)
    for number in range(5):
        time.sleep(0.1)
        window = exchange(talk, number, 1)
    lab.shim.port_set("s1", role="vm", max_rate=0)
    equal(window, (6 * len(DATA) + 127) >> SCALE << SCALE, "window")


@check
def off() -> None:
    """hint=0: windows stay at once, and what was followed is forgotten"""
    talk = Talk(FORMS["IPv4"], next(PORTS))
    opened(talk)
    for number in range(4):
        time.sleep(0.06)
        exchange(talk, number, 1)
    lab.shim.settings_set(knobs={"hint": 0})
    equal(exchange(talk, 4, 1), 60000 << SCALE, "without the hint")
    time.sleep(0.2)
    equal(exchange(talk, 5, 1), 60000 << SCALE, "and later")
    lab.shim.settings_set(knobs={"hint": MS})
    for number in range(6, 11):
        window = exchange(talk, number, 1)
        time.sleep(0.06)
    # The scale is not known any more, so the bytes stand in the header as they are.
    assert window >> SCALE >= 0.9 * rate(talk) * MS // 10**9, f"with it again: {window}"


@check
def marks() -> None:
    """ECN is as under laws that follow no flows: all leaves ECT, comes back as it was, flags stay"""
    for name, form in FORMS.items():
        talk = Talk(form, next(PORTS))
        syn, _ = opened(talk)
        equal((syn.ecn, sent(talk, payload=DATA).ecn, sent(talk, seq=1 + len(DATA)).ecn), (ECT_1,) * 3, f"{name}: out")
        equal(heard(talk, payload=DATA, ecn=ECT_1).ecn, NOT_ECT, f"{name}: ECT(1) in")
        equal(heard(talk, seq=1 + len(DATA), payload=DATA, ecn=CE).ecn, NOT_ECT, f"{name}: CE of a guest without ECN")
        talk = Talk(form, next(PORTS))
        syn, reply = opened(talk, asks=ECE | CWR, answer=ECE)
        equal((syn.flags, reply.flags), (SYN | ECE | CWR, SYN | ACK | ECE), f"{name}: handshake with ECN")
        got = sent(talk, payload=DATA, ecn=ECT_0, flags=ACK | CWR)
        equal((got.flags, got.ecn), (ACK | CWR, ECT_0), f"{name}: data with ECN")
        equal(heard(talk, payload=DATA, ecn=ECT_0).ecn, ECT_0, f"{name}: ECT(0) in")
        got = heard(talk, seq=1 + len(DATA), payload=DATA, ecn=CE, flags=ACK | ECE)
        equal((got.flags, got.ecn), (ACK | ECE, CE), f"{name}: CE and ECE in")
    equal(ecn_of(through(lab.v1, lab.u, ipv4(V1, U, udp(200)))), ECT_1, "UDP out")
    equal(ecn_of(through(lab.u, lab.v1, ipv4(U, V1, udp(200), ecn=ECT_1))), NOT_ECT, "UDP in")
    lab.shim.settings_set(ecn=False)
    talk = Talk(FORMS["IPv4"], next(PORTS))
    equal((opened(talk)[0].ecn, sent(talk, payload=DATA).ecn), (NOT_ECT, NOT_ECT), "with ecn off")
    lab.shim.settings_set(ecn=True)


def bulk(hint: int) -> Tuple[int, int, float]:
    """
    Send over 8 connections at once; return packets dropped after 0.2 s, windows lowered, and the seconds it took.

    All are open before one sends: what they begin with fills the queue before any hint, and a last ACK of a handshake
    that is dropped there costs a second.
    """
    lab.shim.settings_set(law="static")
    lab.shim.settings_set(law="seawall", knobs={"hint": hint})
    with ExitStack() as stack:
        ends = [stack.enter_context(connection("v1", U)) for _ in range(8)]
        begin = time.monotonic()
        moving = [Transfer(*end, 8 * MIB) for end in ends]
        time.sleep(0.2)
        before = lab.stats("s1")
        for one in moving:
            one.end()
    after = lab.stats("s1")
    drops, windows = (after[name] - before[name] for name in ("drop_peer", "rx_windows"))
    return drops, windows, time.monotonic() - begin


@check
def stacks() -> None:
    """Eight TCPs that do not wait for their device lose a tenth of the packets, or less, in no more time"""
    for name, device, address in (("v1", "e1", V1), ("u", "e3", U)):
        run(f"ip netns exec {name} sysctl -qw net.ipv4.tcp_no_metrics_save=1 net.ipv4.tcp_ecn=0")
        run(f"ip -n {name} addr add {address}/24 dev {device}")
    # A packet that netem delays no longer counts for its socket, like one that a guest's driver has sent.
    run("ip netns exec v1 tc qdisc replace dev e1 root netem delay 1us limit 100000")
    run("tc qdisc replace dev s3 root fq limit 100000 flow_limit 100000")
    run("ip netns exec u tc qdisc replace dev e3 root netem delay 200us limit 100000")
    without, none, took_without = bulk(0)
    print(f"# {without} drops in {took_without:.3f} s without", flush=True)
    equal(none, 0, "windows lowered without the hint")
    assert without > 100, without
    for pause in (0.0, 0.017):  # the law's periods are 50 ms
        time.sleep(pause)
        drops, windows, took = bulk(MS)
        print(f"# {drops} in {took:.3f} s with {windows} windows, {pause} s later", flush=True)
        assert windows > 1000, windows
        assert drops * 10 <= without, (drops, without)
        assert took <= 1.1 * took_without, (took, took_without)


main()
