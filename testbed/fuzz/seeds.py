# SPDX-License-Identifier: Apache-2.0
"""The inputs that fuzzers begin with: lists of operations, as shim/fuzz reads them.

Numbers of 64 bits are three bytes, a shift and 16 bits (shim/fuzz/input.h), so large ones are rounded down.
"""

from typing import Callable, Dict, List

LAWS = ("static", "sdngcc", "maxmin", "scc", "vcc", "seawall", "hygenicc", "eyeq", "elasticswitch")
MS = 10**6

FIN, SYN, RST, ACK, ECE, CWR = 0x01, 0x02, 0x04, 0x10, 0x40, 0x80

#: Operations of the host, as fuzz_world_operate() counts them.
SETTING, LAW, KNOB, VM, PREFIXES, WEIGHT, NEW_VM, CAPACITY, NEW_UPLINK, KEY, FAIL, REPORTS, TIME = range(13)
#: After these, of fuzzer message: a message; a packet of a VM, and one for it.
MESSAGE, SENT, RECEIVED = 13, 17, 18
#: The same of fuzzer packet, and a message of paths.
FRAME_RECEIVED, FRAME_SENT, TELL = 14, 15, 31


def number(value: int) -> bytes:
    """Return a number of 64 bits, rounded down to what three bytes can say."""
    shift = max(value.bit_length() - 16, 0)
    return bytes([shift]) + (value >> shift).to_bytes(2, "little")


def passing(ns: int) -> bytes:
    """Return the operation that lets some time go by."""
    return bytes([TIME]) + number(ns)


def setting(place: int, value: int) -> bytes:
    """Return the operation that sets the setting at a place of world.c's table."""
    return bytes([SETTING, place]) + number(value)


def vm(which: int, weight: int, least: int, most: int, law: int = 9) -> bytes:
    """Return the operation that configures a VM; law 9 is the host's."""
    return bytes([VM, which]) + number(weight) + bytes([law]) + number(least) + number(most)


def message(kind: int, sequence: int, how: int = 1, marks: int = 9, rate: int = 10**7, packets: int = 100) -> bytes:
    """Return a signed message for VM 0 by an uplink; kind 0: marks, 1: a rate, 2: a peer's report, 3: a level."""
    numbers = (sequence, marks, 5 * MS, rate, packets, 10**6, 1)
    return bytes([MESSAGE, how, 0, 4, 0, kind, 0, 4, 3, 100]) + b"".join(map(number, numbers))


def entry(rate: int, place: int, bits: int = 128, teller: int = 1, marks: bool = False, tunnel: bool = False) -> bytes:
    """Return an entry of a message of paths, of a prefix of the place-th address of others; bits 0: of the rest."""
    kind = teller - 1 & 7 | (0x08 if tunnel else 0) | (0x10 if not bits else 0x20 if bits == 128 else 0)
    said = number(rate) + (number(5 * MS) if marks else b"") + b"\x04"
    # The message's address family is that of VM 0's peers: their first is the VM's second.
    return bytes([kind]) + said + (b"" if not bits else bytes([place]) + (b"" if bits == 128 else bytes([bits - 96])))


def paths(kind: int, sequence: int, entries: List[bytes], rate: int = 0) -> bytes:
    """Return a signed message of version 2 for VM 0; kind 0: marks, 1: rates."""
    numbers = (sequence, 0, 0, rate, 0, 0, 0)
    head = bytes([MESSAGE, 0x19 if rate else 0x11, 0, 4, 0, kind, 0, 4, 3, 100]) + b"".join(map(number, numbers))
    return head + bytes([len(entries) - 1]) + b"".join(entries)


def tell(kind: int, sequence: int, entries: List[bytes]) -> bytes:
    """Return the same for fuzzer packet."""
    return bytes([TELL, 0x81 if kind == 0 else 0, sequence - 1, 3, 0, len(entries) - 1]) + b"".join(entries)


def level(sequence: int, rate: int) -> bytes:
    """Return a signed level for VM 0, for fuzzer packet."""
    return bytes([TELL, 0x12, sequence - 1, 3, 0]) + number(rate)


def exchange(operation: int, which: int = 0, size: int = 1514, ecn: int = 2) -> bytes:
    """Return a packet between a VM and the peer that message() speaks for."""
    return bytes([operation, which, 0, ecn]) + number(size) + bytes([0, 3])


def host(law: int, fail: int = 0) -> bytes:
    """Return the beginning of a host: the allocation that fails, 0: none does; and the VMs' law."""
    return bytes([fail, law])


def messages(law: int) -> bytes:
    """Return a life of a host that hears from a controller and from a peer."""
    steps = [host(law), bytes([KEY, 2 | 5 << 2]), vm(0, 3, 10**6, 0)]
    for sequence in range(1, 7):
        steps += [exchange(SENT), exchange(RECEIVED, ecn=3), passing(5 * MS)]
        steps += [message(kind, sequence) for kind in range(3)] + [message(3, 20 + sequence)]
    steps += [
        message(0, 3),
        message(0, 9, how=0),
        bytes([REPORTS]),
        passing(2000 * MS),
        bytes([NEW_VM, 0]),
        message(0, 4),
        bytes([KEY, 0]),
        message(0, 10),
    ]
    return b"".join(steps)


def ways(law: int) -> bytes:
    """Return a life of a host that is told of paths, more than fit, and sends by them faster than they may."""
    steps = [host(law), bytes([KEY, 2 | 5 << 2]), vm(0, 3, 10**6, 0)]
    marks = law == LAWS.index("sdngcc")
    kind = 0 if marks else 1
    for sequence in range(1, 5):
        said = [entry(10**6 * sequence, 2, 120, 1, marks), entry(10**6, 2, 128, 2, marks), entry(10**5, 0, 0, 3, marks)]
        said += [entry(10**6, 5, 124, 1, marks, tunnel=True), entry(10**5, 3, 128, 1 + sequence, marks)]
        steps += [exchange(SENT), paths(kind, sequence, said, 0 if marks else 10**7)]
        steps += [exchange(SENT), exchange(SENT, size=9000), passing(MS)] * 3
        # An entry with another length, a message by a number that was there, packets into a tunnel.
        steps += [paths(kind, sequence, said), passing(5 * MS)]
        steps += [bytes([SENT, 0, 0, 0x82]) + number(1514) + bytes([5, 0, 0x29])] * 3
    # One path may have all soon, the other one stays; both uplinks are in use.
    for turn in range(16):
        said = [entry(10**6, 3, 128, 1, marks)] + [entry(125 * 10**6, 9, 128, 1, marks)] * (turn == 0)
        steps += [paths(kind, 10 + turn, said), exchange(SENT), bytes([SENT, 0, 1]) + exchange(SENT)[3:]]
        steps += [passing(20 * MS)]
    return b"".join(steps)


def narrow(law: int) -> bytes:
    """Return a life of a host that is told of more prefixes than a VM may have paths, and without memory."""
    marks = law == LAWS.index("sdngcc")
    kind = 0 if marks else 1
    steps = [host(law), bytes([KEY, 2 | 5 << 2]), exchange(SENT)]
    # For nothing, then for who sent it, and for an index without its path.
    for turn in range(3):
        steps += [bytes([FAIL, turn, 9]), paths(kind, 1 + turn, [entry(10**6, 3, 128, 1, marks)]), exchange(SENT)]
    for turn in range(5):
        # The last are shorter prefixes of the same places.
        bits = 128 if turn < 4 else 127
        said = [entry(10**6 + turn, (32 * turn + place) & 0x7F, bits, 1, marks) for place in range(32)]
        steps += [paths(kind, 4 + turn, said), exchange(SENT), bytes([FAIL, 200, 1])]
    steps += [passing(5 * MS), exchange(SENT), passing(3000 * MS), exchange(SENT), passing(5 * MS)]
    return b"".join(steps)


def held() -> bytes:
    """Return a life of a host whose VM has less by one uplink than by its path, and then sends by the other uplink."""
    steps = [host(LAWS.index("maxmin")), bytes([KEY, 2 | 5 << 2]), setting(0, 1), setting(1, 100 * MS)]
    steps += [setting(7, 3028), vm(0, 3, 0, 10**6), exchange(SENT)]
    for sequence in range(1, 5):
        steps += [paths(1, sequence, [entry(2 * 10**6, 3)])]
        # The first wait for the VM's own bucket; the second uplink's is full, so that only the path can hold them.
        steps += [exchange(SENT)] * 3 + [bytes([SENT, 0, 1]) + exchange(SENT)[3:]] * 3 + [passing(20 * MS)]
    return b"".join(steps)


def streams(law: int) -> bytes:
    """Return a life of a host whose VM sends frames, cut and whole, is told of paths and levels, and has no horizon."""
    marks = law == LAWS.index("sdngcc")
    steps = [host(law), bytes([KEY, 2 | 5 << 2]), frame(FRAME_SENT)]
    for turn in range(6):
        said = [entry(10**6 * (turn + 1), 3, 128, 1, marks), entry(10**5, 0, 0, 2, marks)]
        steps += [tell(0 if marks else 1, turn + 1, said), level(11 + turn, 10**6 << turn)]
        packet = frame(FRAME_SENT, second=0x29, body=(1400).to_bytes(2, "little"))
        steps += [packet, packet[:2] + bytes([0x3C]) + packet[3:], passing(MS)] * 6
        steps += [[setting(1, 1000), setting(11, 1), setting(6, 3028), setting(12, 1), setting(0, 0), b""][turn]]
    return b"".join(steps)


def strangers() -> bytes:
    """Return a life of a host that hears from more senders than it knows at a time, and from unsigned ones."""
    steps = [host(1), bytes([KEY, 2 | 5 << 2]), exchange(SENT)]
    for sender in range(20):
        # The sender is the 9th byte of what message() says, its epoch the next.
        steps += [message(0, 5)[:8] + bytes([sender, 100 + sender]) + message(0, 5)[10:]]
    steps += [setting(10, 1), bytes([MESSAGE, 0x81, 0, 4, 0, 2, 0, 7]), message(0, 5), message(0, 1 << 20)]
    return b"".join(steps)


def frame(operation: int, first: int = 0, second: int = 0x28, body: bytes = b"", tags: int = 0) -> bytes:
    """Return a frame between VM 0 and a peer; body is what shim/fuzz/frames.c reads behind the IPv4 identification."""
    addresses = (0, 3) if operation == FRAME_SENT else (3, 0)
    return bytes([operation, 0, 0, *addresses, first | tags, second, 0]) + bytes(tags) + b"\x01\x00" + body


def segment(operation: int, flags: int, seq: int, ack: int, payload: int = 0, window: int = 30000) -> bytes:
    """Return a frame with a TCP segment between VM 0 and a peer, ECT(0) if it has payload."""
    options = 3 if flags & SYN else 0
    ports = 0x18 if operation == FRAME_SENT else 0x09
    second = 0x08 | (0x04 if options else 0) | (0x40 if payload else 0)
    body = (bytes([options]) if options else b"") + bytes([ports, flags]) + seq.to_bytes(4, "little")
    body += ack.to_bytes(4, "little") + window.to_bytes(2, "little") + payload.to_bytes(2, "little")
    return frame(operation, 0, second, body)


def frames(law: int) -> bytes:
    """Return a life of a host whose VM has a TCP connection, sends UDP and hears marks."""
    steps = [
        host(law),
        bytes([KEY, 2 | 5 << 2]),
        setting(13, 1),
        setting(9, 1 + law % 2),
        segment(FRAME_SENT, SYN, 100, 0),
        segment(FRAME_RECEIVED, SYN | ACK | ECE, 500, 101),
        segment(FRAME_SENT, ACK, 101, 501),
        passing(MS),
    ]
    for number_of in range(8):
        steps += [
            segment(FRAME_SENT, ACK, 101 + 1000 * number_of, 501, 1000),
            passing(MS),
            segment(FRAME_RECEIVED, ACK | (ECE if number_of % 3 == 0 else 0), 501, 1101 + 1000 * number_of),
        ]
        steps += [
            frame(FRAME_SENT, second=0x29, body=(1400).to_bytes(2, "little")),
            frame(FRAME_RECEIVED, second=0x69, body=(1400).to_bytes(2, "little")),
            passing(4 * MS),
        ]
    steps += [
        segment(FRAME_SENT, FIN | ACK, 8101, 501),
        segment(FRAME_RECEIVED, RST, 501, 8102),
        bytes([REPORTS]),
        passing(3000 * MS),
    ]
    return b"".join(steps)


def shapes() -> bytes:
    """Return a life of a host that sees frames of many shapes both ways."""
    steps = [host(4)]
    for first in (0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x1C, 0x20, 0x80):
        for kind in range(4):
            for tags in (0, 1, 3):
                steps += [
                    frame(FRAME_SENT, first, 0x2C | kind, bytes([3, 8, 2, 0, 0, 40, 0]), tags),
                    frame(FRAME_RECEIVED, first, 0x7C | kind, bytes([3, 8, 16, 0, 0, 40, 0]), tags),
                ]
    return b"".join(steps)


def tenants() -> bytes:
    """Return a life of a host whose VMs have addresses, guarantees that a slow link cannot keep, and no patience."""
    steps = [
        host(0),
        bytes([PREFIXES, 0, 2, 0, 128, 1, 120]),
        bytes([PREFIXES, 1, 1, 0, 128]),
        bytes([PREFIXES, 2, 1, 31, 128]),
        bytes([PREFIXES, 1, 0]),
        setting(5, 16),
        setting(7, 1514),
        bytes([CAPACITY, 0]) + number(10**6) + b"\x00",
        vm(0, 3, 6 * 10**5, 0),
        vm(1, 1, 3 * 10**5, 5 * 10**5),
        bytes([WEIGHT, 0, 3]) + number(7),
    ]
    for which in (0, 1, 2, 0):
        packet = frame(FRAME_SENT, second=0x29, body=(1400).to_bytes(2, "little"))
        steps += [packet[:1] + bytes([which]) + packet[2:]] * 20
        steps += [passing(5 * MS)]
    steps += [
        bytes([CAPACITY, 0]) + number(10**5) + b"\xff",
        passing(5 * MS),
        setting(0, 0),
        passing(5 * MS),
        frame(FRAME_SENT),
        bytes([NEW_UPLINK, 0]),
        bytes([REPORTS]),
        bytes([NEW_VM, 1]),
    ]
    return b"".join(steps)


def crowd(law: int) -> bytes:
    """Return a life of a host whose VM sends from more addresses than are remembered, with one allocation in ten."""
    steps = [host(law)]
    for place in range(70):
        source = bytes(10) + b"\xff\xff\x0a\x01\x00" + bytes([place])
        steps += [bytes([FRAME_SENT, 0, 0, 0x80]) + source + bytes([3, 0, 0x29, 0, 1, 0, 40, 0])]
        steps += [bytes([FAIL, 1, 1])] if place % 10 == 9 else []
        steps += [passing(2000 * MS)] if place == 66 else []
    return b"".join(steps)


def told(share: int = 6 * 10**7, least: int = 10**6) -> bytes:
    """Return what a law is told, as shim/fuzz/law.c reads it."""
    numbers = (5 * MS, 125 * 10**6, share, least, 5 * 10**7, 0, 4 * 10**7, 2 * MS, 6 * 10**7, 2, 0, 3)
    return b"".join(map(number, numbers))


def law(which: int) -> bytes:
    """Return a life of a VM under a law by itself."""
    steps = [bytes([which]), number(10**9), told()]
    for sequence in range(1, 9):
        steps += [b"\x0f", bytes([4]), number(20), number(5 * MS), number(10), b"\x01", number(sequence)]
        steps += [b"\x01" + number(10**7)] if LAWS[which] == "maxmin" else []
        steps += [b"\x09\x03", number(MS), number(1514), number(1), b"\x01\x00"]
        steps += [b"\x0a\x0f", number(0), number(1514), number(1), b"\x01\x00"]
        steps += [b"\x05\x00", *map(number, (10**6 * sequence, 5 * MS, 0, 1000 * sequence, 10**7, 10 * sequence))]
    # Connections 0 to 2: the VM asks and the peer agrees to ECN, it refuses; the peer asks.
    for place, agrees in enumerate((ECE, 0)):
        steps += [
            bytes([0x0B, place, SYN]),
            b"\x00\x70\x07\xb4\x05",
            bytes([0x0C, place, SYN | ACK | agrees]),
            b"\x00\x70\x01\x00\x07\xb4\x05",
            bytes([0x0B, place, ACK]),
            b"\x00\x70",
        ]
    steps += [
        bytes([0x0C, 2, SYN | ECE | CWR]),
        b"\x00\x70\x00\x00\x07\xb4\x05",
        bytes([0x0B, 2, SYN | ACK]),
        b"\x00\x70\x07\xb4\x05",
        bytes([0x0C, 2, ACK]),
        b"\x00\x70\x01\x00",
    ]
    for turn in range(12):
        place = turn % 3
        steps += [
            bytes([0x0B, 0x60 + place, ACK]),
            b"\x00\x70",
            number(20000),
            number(1000),
            number(MS),
            b"\x00" + number(20 * MS),
            bytes([0x0C, 0x2C + place, ACK | (ECE if turn % 2 else 0)]),
            b"\x00\x70\x88\x13",
            number(500),
            number(500),
            bytes([6, place, 6, 0x10 + place]),
            b"\x0f",
        ]
    steps += [b"\x02", told(10**6, 10**6), b"\x0f", b"\x00", number(1 << 50), b"\x0f"]
    return b"".join(steps)


def divisions() -> bytes:
    """Return products, divisions of a capacity, and packets that pass a bucket."""
    claims = ((0, 0, 0, 1), (10**6, 0, 10**5, 3), (0, 2 * 10**6, 0, 65535))
    steps = [b"\x00", *map(number, (10**9, 10**9, 10**7)), b"\x00", *map(number, (1 << 63, 1 << 63, 3))]
    for capacity in (10**5, 10**8, 1 << 62, (1 << 64) - 1):
        steps += [
            b"\x01\x03",
            number(capacity) if capacity < 1 << 63 else b"\x40\x00\x00",
            *(number(value) for claim in claims for value in claim),
        ]
    steps += [b"\x02", number(10**9), b"\x14", number(10**8), number(3028)]
    steps += [b"\x28" + number(10**4) + number(1514)] * 8 + [b"\x68", number(10**6), number(1514)]
    steps += [number(10**6), number(30280), number(2 * MS)] + [b"\x28" + number(10**4) + number(1514)] * 8
    return b"".join(steps)


_SEEDS: Dict[str, Callable[[], Dict[str, bytes]]] = {
    "message": lambda: {
        "strangers": strangers(),
        "ways-sdngcc": ways(1),
        "ways-maxmin": ways(2),
        "narrow-sdngcc": narrow(1),
        "narrow-maxmin": narrow(2),
        "held-maxmin": held(),
        **{name: messages(place) for place, name in enumerate(LAWS)},
    },
    "packet": lambda: {
        "shapes": shapes(),
        "tenants": tenants(),
        "crowd": crowd(0),
        "crowd-peers": crowd(5),
        "streams-sdngcc": streams(1),
        "streams-maxmin": streams(2),
        **{name: frames(place) for place, name in enumerate(LAWS)},
    },
    "law": lambda: {name: law(place) for place, name in enumerate(LAWS)},
    "divide": lambda: {"all": divisions()},
}

_WORDS: Dict[str, List[bytes]] = {
    "message": [
        passing(5 * MS),
        passing(1000 * MS),
        message(0, 1),
        message(1, 2),
        message(2, 3),
        paths(1, 4, [entry(10**6, 3), entry(10**5, 0, 0, 2)]),
        paths(0, 5, [entry(10**6, 3, marks=True)]),
        entry(10**6, 3),
        exchange(SENT),
        exchange(RECEIVED),
        bytes([KEY, 22]),
        bytes([KEY, 23]),
        bytes([NEW_VM, 0]),
    ],
    "packet": [
        passing(5 * MS),
        passing(1000 * MS),
        segment(FRAME_SENT, SYN, 100, 0),
        segment(FRAME_RECEIVED, SYN | ACK, 500, 101),
        segment(FRAME_SENT, ACK, 101, 501, 1000),
        frame(FRAME_SENT, second=0x29, body=b"\x78\x05"),
        tell(1, 4, [entry(10**6, 3), entry(10**5, 0, 0, 2)]),
        bytes([PREFIXES, 0, 1, 0, 128]),
        setting(0, 0),
        setting(12, 1),
        setting(9, 2),
    ],
    "divide": [number(10**9), number(1 << 63), b"\x40\x00\x00"],
    "law": [b"\x0f", told(), number(5 * MS), number(10**9), b"\x0b\x00\x02", b"\x0c\x00\x12"],
}


def of(fuzzer: str) -> Dict[str, bytes]:
    """Return the seeds of a fuzzer by their names."""
    return _SEEDS[fuzzer]()


def dictionary(fuzzer: str) -> str:
    """Return libFuzzer's dictionary of a fuzzer: operations that inputs are likely to need."""
    quoted = ("".join(f"\\x{byte:02x}" for byte in word) for word in _WORDS[fuzzer])
    return "".join(f'"{word}"\n' for word in quoted)
