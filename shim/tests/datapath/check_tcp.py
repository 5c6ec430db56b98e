# SPDX-License-Identifier: Apache-2.0
"""Law vcc in the datapath, frame by frame: handshakes translated, ECN used and hidden, windows, what is left alone."""

from __future__ import annotations

import time
from typing import Dict, Iterator, Sequence, Tuple

from lab import BRIDGE, CE, ECT_0, ECT_1, NOT_ECT, V1, Lab, U, Wire, check, equal, ipv4, main, run, settle, udp
from segments import ACK, CWR, ECE, FIN, FORMS, OPTIONS, RST, SYN, SYN_OPTIONS, Segment, Talk

lab = Lab()
lab.shim.settings_set(law="vcc")
DATA = bytes(range(240)) * 5
PORTS = iter(range(30000, 60000))


def through(sender: Wire, receiver: Wire, frame: bytes) -> bytes:
    """Return what a frame arrives as; AssertionError if it does not."""
    receiver.flush()
    sender.send(frame)
    got = receiver.receive()
    assert got is not None, "nothing arrived"
    return got


def all_through(sender: Wire, receiver: Wire, frames: Sequence[bytes]) -> None:
    """Send frames, and wait until each has arrived; AssertionError if one does not."""
    receiver.flush()
    for frame in frames:
        sender.send(frame)
    for _ in frames:
        assert receiver.receive() is not None, "nothing arrived"


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


def talks() -> Iterator[Tuple[str, Talk]]:
    """Return a connection of each form, on ports of its own."""
    for name, form in FORMS.items():
        yield name, Talk(form, next(PORTS))


def opened(talk: Talk, asks: int = 0, answer: int = ECE) -> Tuple[Segment, Segment]:
    """Let v1 open the connection; return SYN as it left and SYN-ACK as it arrived."""
    syn = sent(talk, flags=SYN | asks, seq=0, ack=0, options=SYN_OPTIONS)
    reply = heard(talk, flags=SYN | ACK | answer, seq=0, options=SYN_OPTIONS)
    sent(talk)
    return syn, reply


def served(talk: Talk, asks: int = ECE | CWR, answer: int = 0) -> Tuple[Segment, Segment]:
    """Let u open it; return SYN as it arrived and SYN-ACK as it left."""
    syn = heard(talk, flags=SYN | asks, seq=0, ack=0, options=SYN_OPTIONS, ecn=ECT_1)
    reply = sent(talk, flags=SYN | ACK | answer, seq=0, options=SYN_OPTIONS)
    heard(talk)
    return syn, reply


@check
def translated() -> None:
    """A guest without ECN: the shim asks, uses it, consumes ECE, answers CWR, and lowers the window"""
    for name, talk in talks():
        before = lab.stats("s1")["rx_windows"]
        syn, reply = opened(talk)
        equal((syn.flags, syn.ecn, syn.window), (SYN | ECE | CWR, ECT_1, 500), f"{name}: SYN")
        equal((reply.flags, reply.window), (SYN | ACK, 60000), f"{name}: SYN-ACK")
        for number in range(10):
            got = sent(talk, seq=1 + number * len(DATA), payload=DATA)
            equal((got.flags, got.ecn), (ACK, ECT_0), f"{name}: data")
        equal(sent(talk, seq=1 + 10 * len(DATA)).ecn, ECT_1, f"{name}: ACK alone")
        got = heard(talk, flags=ACK | ECE, ack=1 + len(DATA))
        equal((got.flags, got.window), (ACK, -(-10 * len(DATA) // 128)), f"{name}: ACK with ECE")
        equal(sent(talk, seq=1 + 10 * len(DATA), payload=DATA).flags, ACK | CWR, f"{name}: data after it")
        equal(sent(talk, seq=1 + 11 * len(DATA), payload=DATA).flags, ACK, f"{name}: data after that")
        assert lab.stats("s1")["rx_windows"] > before, "rx_windows"


@check
def answered() -> None:
    """A guest without ECN that is asked: the shim accepts, hides CE, and echoes it until CWR"""
    for name, talk in talks():
        syn, reply = served(talk)
        equal((syn.flags, syn.ecn), (SYN | ECE | CWR, NOT_ECT), f"{name}: SYN")
        equal(reply.flags, SYN | ACK | ECE, f"{name}: SYN-ACK")
        got = heard(talk, payload=DATA, ecn=CE)
        equal((got.flags, got.ecn), (ACK, NOT_ECT), f"{name}: marked data")
        for _ in range(2):
            equal(sent(talk, ack=1 + len(DATA)).flags, ACK | ECE, f"{name}: ACK")
        got = heard(talk, flags=ACK | CWR, seq=1 + len(DATA), payload=DATA, ecn=ECT_0)
        equal((got.flags, got.ecn), (ACK, NOT_ECT), f"{name}: CWR")
        equal(sent(talk, ack=1 + 2 * len(DATA)).flags, ACK, f"{name}: ACK after it")


@check
def left_alone() -> None:
    """Guests that use ECN, and peers that refuse it: nothing but the shim's own ECT(1) comes and goes"""
    for name, talk in talks():
        syn, reply = opened(talk, asks=ECE | CWR)
        equal((syn.flags, reply.flags), (SYN | ECE | CWR, SYN | ACK | ECE), f"{name}: handshake")
        equal(sent(talk, payload=DATA, ecn=ECT_0, flags=ACK | CWR).flags, ACK | CWR, f"{name}: CWR")
        got = heard(talk, flags=ACK | ECE, ack=1 + len(DATA), payload=DATA, ecn=CE)
        equal((got.flags, got.window, got.ecn), (ACK | ECE, 60000, CE), f"{name}: ECE and CE")
        equal(heard(talk, seq=1 + len(DATA), payload=DATA, ecn=ECT_1).ecn, NOT_ECT, f"{name}: ECT(1)")
    for name, talk in talks():
        syn, reply = served(talk, answer=ECE)
        equal((syn.flags, reply.flags), (SYN | ECE | CWR, SYN | ACK | ECE), f"{name}: its own answer")
        equal(heard(talk, payload=DATA, ecn=CE).ecn, CE, f"{name}: CE")
    for name, talk in talks():
        opened(talk, answer=0)
        equal(sent(talk, payload=DATA).ecn, NOT_ECT, f"{name}: data to a peer that refused")
        got = heard(talk, flags=ACK | ECE, ack=1 + len(DATA), window=7)
        equal((got.flags, got.window), (ACK | ECE, 7), f"{name}: its ACK")


@check
def late() -> None:
    """A connection that was there before the shim keeps flags and windows"""
    for name, talk in talks():
        got = sent(talk, payload=DATA)
        equal((got.flags, got.ecn), (ACK, NOT_ECT), f"{name}: data")
        got = heard(talk, flags=ACK | ECE, ack=1 + len(DATA))
        equal((got.flags, got.window), (ACK | ECE, 60000), f"{name}: ACK")


@check
def without_ect() -> None:
    """With ecn off data is ECT(0) all the same, SYNs and ACKs are not ECT, and ECT(1) is nobody's business"""
    lab.shim.settings_set(ecn=False)
    for name, talk in talks():
        syn, _ = opened(talk)
        equal((syn.flags, syn.ecn), (SYN | ECE | CWR, NOT_ECT), f"{name}: SYN")
        equal((sent(talk, payload=DATA).ecn, sent(talk, seq=1 + len(DATA)).ecn), (ECT_0, NOT_ECT), f"{name}: data, ACK")
    for name, talk in talks():
        opened(talk, asks=ECE | CWR)
        equal(heard(talk, payload=DATA, ecn=ECT_1).ecn, ECT_1, f"{name}: ECT(1)")
    lab.shim.settings_set(ecn=True)


@check
def other_traffic() -> None:
    """What does not answer to marks stays Not-ECT; ECT(1) is still given back"""
    frame = ipv4(V1, U, udp(200))
    equal(through(lab.v1, lab.u, frame), frame, "UDP out")
    got = through(lab.u, lab.v1, ipv4(U, V1, udp(200), ecn=ECT_1))
    equal(got, ipv4(U, V1, udp(200)), "UDP in")


@check
def malformed() -> None:
    """What is no whole TCP header keeps every byte, both ways"""
    run(f"ovs-ofctl add-flow {BRIDGE} priority=99,in_port=1,actions=output:3")
    run(f"ovs-ofctl add-flow {BRIDGE} priority=99,in_port=3,actions=output:1")
    settle()
    for name, talk in talks():
        cases: Dict[str, Dict[str, object]] = {
            "data offset 4": {"offset": 4}, "data offset 1": {"offset": 1},
            "data offset past the end": {"offset": 15, "options": b""},
        }
        for what, fields in cases.items():
            for flags in (SYN, ACK):
                frame = talk.out(flags=flags, **fields)  # type: ignore[arg-type]
                equal(through(lab.v1, lab.u, frame)[:len(frame)], frame, f"{name}, {what}, out")
                frame = talk.back(flags=flags, **fields)  # type: ignore[arg-type]
                equal(through(lab.u, lab.v1, frame)[:len(frame)], frame, f"{name}, {what}, in")
        for cut in (1, 12, 19):
            frame = talk.out(options=b"")[:-cut]
            equal(through(lab.v1, lab.u, frame)[:len(frame)], frame, f"{name}, {cut} bytes missing")
    lab.route()


@check
def malformed_options() -> None:
    """Options that lie are not believed, and the SYN passes"""
    lies = {"length 0": "0300", "length 1": "0301", "past the end": "0328070101", "kind only": "03",
            "MSS of 3 bytes": "020305", "scale of 4": "03040707", "40 NOPs": "01" * 40, "end first": "00030307"}
    for what, text in lies.items():
        options = bytes.fromhex(text)
        options += bytes(-len(options) % 4)
        for name, talk in talks():
            frame = talk.out(flags=SYN, seq=0, ack=0, options=options)
            got = through(lab.v1, lab.u, frame)
            equal(talk.read(got, True).flags, SYN | ECE | CWR, f"{name}, {what}: SYN")
            heard(talk, flags=SYN | ACK | ECE, seq=0, options=SYN_OPTIONS)
            sent(talk, payload=DATA)
            # No scale was agreed on: the window is written as bytes.
            equal(heard(talk, ack=1 + len(DATA)).window, 10 * 536, f"{name}, {what}")


@check
def wrong_checksums() -> None:
    """A wrong checksum stays wrong by as much"""
    for name, talk in talks():
        opened(talk)
        frame = talk.out(payload=DATA, damage=0x1234)
        got = talk.read(through(lab.v1, lab.u, frame), True)
        equal((got.right, got.ecn), (False, ECT_0), f"{name}: data")
        got = talk.read(through(lab.u, lab.v1, talk.back(flags=ACK | ECE, ack=1 + len(DATA), damage=0x1234)), False)
        equal((got.right, got.flags), (False, ACK), f"{name}: ACK")


@check
def fragments() -> None:
    """Fragments are nobody's segments"""
    talk = Talk(FORMS["IPv4"], next(PORTS))
    data = talk.out(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS)[34:]
    for fragment in (0x2000, 0x0010):
        frame = ipv4(V1, U, data, protocol=6, fragment=fragment)
        equal(through(lab.v1, lab.u, frame), frame, f"fragment {fragment:#x}")


@check
def floods() -> None:
    """16,484 open connections: those past the VM's most pass untouched and are counted, and all go with the law"""
    together = 52  # no more than a port's queue holds; one side's segments do not wait for the other's
    for first in range(1, 16485, together):
        opening = [Talk(FORMS["IPv4"], port) for port in range(first, first + together)]
        all_through(lab.v1, lab.u, [talk.out(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS) for talk in opening])
        all_through(lab.u, lab.v1, [talk.back(flags=SYN | ACK | ECE, seq=0, options=SYN_OPTIONS) for talk in opening])
        all_through(lab.v1, lab.u, [talk.out() for talk in opening])
    talk = opening[-1]
    assert lab.stats("s1")["flows_full"] >= 100, lab.stats("s1")
    lab.u.flush()
    equal(sent(talk, flags=SYN, seq=0, ack=0, options=SYN_OPTIONS).flags, SYN, "SYN past the most")
    lab.shim.settings_set(law="static")
    lab.shim.settings_set(law="vcc")
    equal(sent(talk, flags=SYN, seq=0, ack=0, options=SYN_OPTIONS).flags, SYN | ECE | CWR, "SYN after it")


@check
def collected() -> None:
    """Closed connections are forgotten after five seconds, open ones are not"""
    closed, still = (Talk(FORMS["IPv4"], next(PORTS)) for _ in range(2))
    for talk in (closed, still):
        opened(talk)
    sent(closed, flags=FIN | ACK)
    before = lab.stats("s1")["flows_collected"]
    for wait, count in ((4, 0), (2, 1)):
        for _ in range(wait):
            time.sleep(1)
            lab.v1.send(ipv4(V1, U, udp(100)))
        time.sleep(0.1)
        equal(lab.stats("s1")["flows_collected"] - before, count, f"after {wait} s more")
    equal(sent(closed, seq=2, payload=DATA).ecn, NOT_ECT, "data of the closed one")
    equal(sent(still, payload=DATA).ecn, ECT_0, "data of the open one")


@check
def wild() -> None:
    """Random segments of one connection pass, with checksums as right as they were"""
    import random

    random.seed(1)
    for name, talk in talks():
        opened(talk)
        for _ in range(300):
            fields = {"flags": random.randrange(512) & ~RST, "seq": random.choice((1, random.randrange(2**32))),
                      "ack": random.choice((1, random.randrange(2**32))), "window": random.randrange(65536),
                      "payload": DATA[:random.choice((0, 1, 1200))], "ecn": random.randrange(4),
                      "options": random.choice((OPTIONS, SYN_OPTIONS, random.randbytes(4 * random.randrange(11))))}
            if random.random() < 0.5:
                sent(talk, **fields)
            else:
                assert heard(talk, **fields).window <= fields["window"], f"{name}: window"  # type: ignore[operator]


main()
