# SPDX-License-Identifier: Apache-2.0
"""Attacks on law vcc by forged segments: a connection is moved by no number that cannot be, and by no flood."""

from __future__ import annotations

import time
from typing import Callable, Dict, Iterator, List, Tuple

from lab import CE, ECT_0, NOT_ECT, V1, Lab, U, Wire, check, equal, ipv4, main, udp
from segments import ACK, CWR, ECE, FIN, FORMS, RST, SYN, SYN_OPTIONS, Form, Segment, Talk

DATA = bytes(range(240)) * 5
SENT = 10  # segments of DATA in flight when an attack begins
FLOWS_MAX = 16384  # of a VM
FAR = 1 << 20  # beyond any window that these connections have, scale 7 included
# Fields of a forged segment of the peer: sequence and acknowledgement, one of them at least impossible.
NUMBERS: Dict[str, Dict[str, int]] = {
    "both far ahead": {"seq": FAR * 16, "ack": FAR},
    "both far behind": {"seq": -FAR * 16, "ack": -FAR * 16},
    "sequence on the other side": {"seq": 1 << 31, "ack": 1 + len(DATA)},
    "sequence far ahead": {"seq": FAR * 16, "ack": 1 + len(DATA)},
    "ACK of what was not sent": {"seq": 1, "ack": 1 + (SENT + 1) * len(DATA)},
    "ACK far ahead": {"seq": 1, "ack": FAR},
    "ACK on the other side": {"seq": 1, "ack": 1 << 31},
}
lab = Lab()
lab.shim.settings_set(law="vcc")
_port = 29999


def talks() -> Iterator[Tuple[str, Talk]]:
    """Return a connection of IPv4 and one of IPv6, on ports of their own."""
    global _port
    for name in ("IPv4", "IPv6"):
        _port += 1
        yield name, Talk(FORMS[name], _port)


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


def opened(talk: Talk) -> None:
    """Let v1, which uses no ECN, open the connection; the shim uses it."""
    equal(sent(talk, flags=SYN, seq=0, ack=0, options=SYN_OPTIONS).flags, SYN | ECE | CWR, "SYN")
    equal(heard(talk, flags=SYN | ACK | ECE, seq=0, options=SYN_OPTIONS).flags, SYN | ACK, "SYN-ACK")
    sent(talk)


def busy(talk: Talk) -> None:
    """Open it and let v1 send SENT segments, the first of which are acknowledged."""
    time.sleep(0.001)  # in which the VM's bucket empties
    opened(talk)
    heard(talk, seq=1, payload=b"hello")
    for number in range(SENT):
        equal(sent(talk, seq=1 + number * len(DATA), ack=6, payload=DATA).ecn, ECT_0, "data")


def ending(talk: Talk) -> List[Segment]:
    """Return what becomes of the rest of a busy connection: what v1 hears and what leaves."""
    got = [heard(talk, seq=6, ack=1 + 2 * len(DATA))]
    got.append(sent(talk, seq=1 + SENT * len(DATA), ack=6, payload=DATA))
    got.append(heard(talk, seq=6, ack=1 + 4 * len(DATA)))
    got.append(heard(talk, flags=ACK | ECE, seq=6, ack=1 + 6 * len(DATA)))
    got.append(sent(talk, seq=1 + (SENT + 1) * len(DATA), ack=6, payload=DATA))
    got.append(heard(talk, seq=6, ack=1 + (SENT + 2) * len(DATA)))
    got.append(sent(talk, seq=1 + (SENT + 2) * len(DATA), ack=6, payload=DATA))
    return got


def calm() -> List[List[Segment]]:
    """Return what becomes of busy connections that nobody attacks, one of each family."""
    got = []
    for _, talk in talks():
        busy(talk)
        got.append(ending(talk))
    return got


def unmoved(attack: Callable[[Talk], None], what: str) -> None:
    """Check that an attack on a busy connection changes nothing of it: a twin that nobody attacks ends alike."""
    twins = calm()
    equal(twins[0], twins[1], "two connections that nobody attacks")
    for name, talk in talks():
        busy(talk)
        attack(talk)
        equal(ending(talk), twins[0], f"{name}, {what}")


def forge(talk: Talk, **fields: object) -> None:
    """Let somebody who is not u send v1 a segment in u's name."""
    lab.v1.flush()
    lab.u.send(talk.back(**fields))  # type: ignore[arg-type]
    lab.v1.receive(0.01)


@check
def control() -> None:
    """What these checks look at moves when the numbers are right"""
    quiet = calm()[0]
    for number, (_, talk) in enumerate(talks()):
        busy(talk)
        forge(talk, flags=(ACK | ECE, ACK | RST)[number], seq=6, ack=1 + len(DATA))
        if number:
            time.sleep(7)
            lab.v1.send(ipv4(V1, U, udp(100)))
            time.sleep(0.1)
        assert ending(talk) != quiet, "a valid ECE or RST changed nothing"


@check
def echoes() -> None:
    """ECE with numbers that cannot be cuts no window"""
    for what, numbers in NUMBERS.items():
        unmoved(lambda talk, given=numbers: forge(talk, flags=ACK | ECE, **given), what)  # type: ignore[misc]


@check
def acknowledgements() -> None:
    """ACKs with numbers that cannot be acknowledge nothing, and leave the scale of windows alone"""
    for what, numbers in NUMBERS.items():
        unmoved(lambda talk, given=numbers: forge(talk, window=1, **given), what)  # type: ignore[misc]


@check
def resets() -> None:
    """RST and FIN with a sequence that cannot be end nothing"""

    def attack(talk: Talk, flags: int, numbers: Dict[str, int]) -> None:
        forge(talk, flags=flags, options=b"", **numbers)  # type: ignore[arg-type]
        # A connection that ended is forgotten after five seconds.
        for _ in range(7):
            time.sleep(1)
            lab.v1.send(ipv4(V1, U, udp(100)))

    for what, numbers in NUMBERS.items():
        if numbers["seq"] == 1:
            continue
        for flags in (RST, RST | ACK, FIN | ACK):
            unmoved(lambda talk, f=flags, n=numbers: attack(talk, f, n), f"{what}, flags {flags:#x}")  # type: ignore[misc]


@check
def openings() -> None:
    """A SYN or SYN-ACK into an open connection changes nothing, whatever its options"""
    options = bytes.fromhex("02040020" "03030e00")
    for flags in (SYN, SYN | ECE | CWR, SYN | ACK, SYN | ACK | ECE):
        for what, numbers in (*NUMBERS.items(), ("as they were", {"seq": 0, "ack": 1})):
            unmoved(lambda talk, f=flags, n=numbers: forge(talk, flags=f, options=options, **n),  # type: ignore[misc]
                    f"{what}, flags {flags:#x}")


@check
def answers() -> None:
    """A SYN-ACK that answers no SYN of the VM decides nothing: the one that does, does"""
    options = bytes.fromhex("02040020" "03030e00")
    for ack in (0, 2, FAR, -FAR, 1 << 31):
        for flags in (SYN | ACK, SYN | ACK | ECE, SYN | ACK | RST, RST | ACK):
            seen = []
            for attacked in (False, True):
                for _, talk in talks():
                    time.sleep(0.001)
                    sent(talk, flags=SYN, seq=0, ack=0, options=SYN_OPTIONS)
                    if attacked:
                        forge(talk, flags=flags, seq=77, ack=ack, options=options)
                    got = [heard(talk, flags=SYN | ACK | ECE, seq=0, options=SYN_OPTIONS), sent(talk)]
                    got += [sent(talk, seq=1 + number * len(DATA), payload=DATA) for number in range(SENT)]
                    got.append(heard(talk, flags=ACK | ECE, ack=1 + len(DATA)))
                    seen.append(got)
            for name, got in zip(("IPv4", "IPv6"), seen[2:]):
                equal(got, seen[0], f"{name}, flags {flags:#x}, ACK {ack}")


@check
def marks() -> None:
    """CE and CWR on data with a sequence that cannot be owe no echo, and end none"""
    for name, talk in talks():
        heard(talk, flags=SYN | ECE | CWR, seq=0, ack=0, options=SYN_OPTIONS)
        equal(sent(talk, flags=SYN | ACK, seq=0, options=SYN_OPTIONS).flags, SYN | ACK | ECE, f"{name}: SYN-ACK")
        heard(talk)
        for seq in (FAR * 16, -FAR * 16, 1 << 31):
            forge(talk, seq=seq, payload=DATA, ecn=CE)
            equal(sent(talk).flags, ACK, f"{name}: ACK after CE at {seq}")
        equal(heard(talk, payload=DATA, ecn=CE).ecn, NOT_ECT, f"{name}: data marked by the fabric")
        for seq in (FAR * 16, -FAR * 16, 1 << 31):
            forge(talk, flags=ACK | CWR, seq=seq, payload=DATA)
            equal(sent(talk, ack=1 + len(DATA)).flags, ACK | ECE, f"{name}: ACK after CWR at {seq}")
        heard(talk, flags=ACK | CWR, seq=1 + len(DATA), payload=DATA)
        equal(sent(talk, ack=1 + 2 * len(DATA)).flags, ACK, f"{name}: ACK after the peer's CWR")


@check
def wrapped() -> None:
    """Numbers that are right are believed where they wrap around, lost and late packets included"""
    global _port
    for base in (-1005 - 3 * len(DATA), -5005 - 2, -1001, -5001):
        _port += 1
        talk = Shifted(FORMS["IPv4"], _port, base)
        busy(talk)
        heard(talk, seq=6, ack=1 + 2 * len(DATA))
        # A retransmission, and an ACK that comes late.
        sent(talk, seq=1 + 2 * len(DATA), ack=6, payload=DATA)
        heard(talk, seq=6, ack=1 + 5 * len(DATA))
        late = heard(talk, seq=6, ack=1 + 3 * len(DATA))
        equal(late.flags, ACK, "a late ACK")
        got = heard(talk, flags=ACK | ECE, seq=6, ack=1 + 6 * len(DATA))
        equal((got.flags, got.window < 60000), (ACK, True), f"ECE at {base}: consumed, window made smaller")
        equal(sent(talk, seq=1 + SENT * len(DATA), ack=6, payload=DATA).flags, ACK | CWR, f"CWR at {base}")


class Shifted(Talk):
    """A connection whose sequence numbers, both ways, begin elsewhere."""

    def __init__(self, form: Form, port: int, base: int) -> None:
        """Both initial numbers are moved by base, modulo 2^32."""
        super().__init__(form, port)
        self.base = base

    def _frame(self, out: bool, flags: int, seq: int, ack: int, *rest: object) -> bytes:
        return super()._frame(out, flags, seq + self.base, ack + self.base, *rest)  # type: ignore[arg-type]


def stranger(number: int, port: int = 5001) -> Talk:
    """Return a connection of v1's with one of many addresses of the fabric."""
    peer = f"11.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    return Talk(Form(V1, peer, FORMS["IPv4"].wrap), port)


def established(talk: Talk) -> None:
    """Let v1 open it, and u acknowledge that."""
    time.sleep(0.001)
    opened(talk)
    sent(talk, payload=b"hello")
    heard(talk, ack=6)


def working(talk: Talk, what: str) -> None:
    """Check that the shim follows an open connection of a guest without ECN."""
    equal(sent(talk, seq=6, payload=DATA).ecn, ECT_0, f"{what}: data")
    got = heard(talk, flags=ACK | ECE, ack=6 + len(DATA))
    equal((got.flags, got.window < 60000), (ACK, True), f"{what}: ECE is consumed, the window made smaller")


@check
def flooded() -> None:
    """20,000 spoofed SYNs end no open connection and keep no new one from being followed"""
    kept = [talk for _, talk in talks()]
    for talk in kept:
        established(talk)
    with lab.counted("s1", flows_full=0):
        before = lab.stats("s1")
        for number in range(20_000):
            lab.u.send(stranger(number).back(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS))
            if number % 1000 == 0:
                time.sleep(0.01)
        rose = lab.changes("s1", before)
        assert rose.get("flows_evicted", 0) >= 20_000 - FLOWS_MAX, f"counters {rose}"
        for number, talk in enumerate(kept):
            working(talk, f"connection {number} from before")
        for name, talk in talks():
            established(talk)
            working(talk, f"{name}: a connection from after it")


@check
def flooded_meanwhile() -> None:
    """A handshake that takes a round trip of 100 SYNs of a flood is followed to its end"""
    for number in range(FLOWS_MAX):
        lab.u.send(stranger(number).back(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS))
    for name, talk in talks():
        sent(talk, flags=SYN, seq=0, ack=0, options=SYN_OPTIONS)
        for number in range(100):
            lab.u.send(stranger(100_000 + number).back(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS))
        heard(talk, flags=SYN | ACK | ECE, seq=0, options=SYN_OPTIONS)
        for number in range(100):
            lab.u.send(stranger(200_000 + number).back(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS))
        sent(talk, payload=b"hello")
        working(talk, name)


@check
def flooded_by_the_guest() -> None:
    """SYNs of the guest itself evict its half-open connections, not its open ones"""
    kept = next(talk for _, talk in talks())
    established(kept)
    for number in range(20_000):
        lab.v1.send(stranger(number).out(flags=SYN, seq=0, ack=0, options=SYN_OPTIONS))
    time.sleep(0.1)
    working(kept, "the connection from before")


main()
