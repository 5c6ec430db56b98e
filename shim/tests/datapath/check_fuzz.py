# SPDX-License-Identifier: Apache-2.0
"""Random requests to the netlink family: each attribute as it is declared, and broken in one way or several.

Attributes are those of sdngcc.shim.attributes, nests and all. Three processes ask at once while a VM sends. The same
seeds give the same requests; under the sanitizers of ``make sanitize`` ten times as many are sent. What the kernel
then says of itself fails the last test of the file.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import time
import traceback
from typing import Any, List, Tuple

from control import KEY, MAPPED, packed
from lab import ECT_0, KMEMLEAK, V1, V2, Lab, U, check, equal, ifindex, ipv4, main, udp

from sdngcc.controller.wire.message import (
    TYPE_MARKS,
    TYPE_RATE,
    Message,
    PathEntry,
    PathMessage,
    encode_v1,
    encode_v2,
)
from sdngcc.shim.attributes import LimiterMessage, PeerMessage, PortMessage, SettingsMessage
from sdngcc.shim.attributes import PathMessage as PathAttributes
from sdngcc.shim.netlink import (
    LIMITER_GET,
    MESSAGE,
    PATH_GET,
    PEER_DEL,
    PEER_GET,
    PEER_SET,
    PORT_DEL,
    PORT_GET,
    PORT_SET,
    SETTINGS_GET,
    SETTINGS_SET,
)

SEEDS = (1, 2, 3)  # of the processes
REQUESTS = 30_000 if os.path.exists(KMEMLEAK) else 3_000  # of each
REQUEST, ACK, DUMP = 1, 4, 0x300  # flags of requests
ERROR, DONE = 2, 3  # types of the last answer to one
NESTED, NET_ORDER = 0x8000, 0x4000  # flags of attributes
LONGEST = 16_000  # bytes of attributes of one request
SENSIBLE = 0.9  # part of attributes that are chosen with sense, and of values

# How attributes end that the kernel tells and does not take.
TOLD = ("UNSPEC", "_PAD", "KEY_SET", "OTHER_SET", "_LAWS", "_SENDERS", "_STATS", "_QDISC", "PEER_RATE", "_BYTES",
        "_PACKETS", "_DROPS", "_MARKS", "_TIME", "_LOCAL", "_UPLINK", "_VLAN", "_TUNNEL", "_TUNNEL_ID", "_DEFAULT",
        "KNOB_MIN", "_MAX_VALUE", "_UNIT", "_HELP", "_SOURCE")

# What each command is asked with, how often, and how attributes end without which it is refused at once.
COMMANDS: Tuple[Tuple[int, Any, int, Tuple[str, ...]], ...] = (
    (SETTINGS_GET, SettingsMessage, 2, ()), (SETTINGS_SET, SettingsMessage, 9, ()),
    (SETTINGS_SET, SettingsMessage, 5, ("_OF", "_KNOBS")),
    (PORT_GET, PortMessage, 2, ("IFINDEX",)), (PORT_SET, PortMessage, 9, ("IFINDEX", "ROLE")),
    (PORT_SET, PortMessage, 5, ("PORT_NAME",)), (PORT_DEL, PortMessage, 1, ("IFINDEX",)),
    (LIMITER_GET, LimiterMessage, 1, ()), (PEER_GET, PeerMessage, 2, ()),
    (PEER_SET, PeerMessage, 6, ("PEER_VM", "ADDRESS", "WEIGHT")), (PEER_DEL, PeerMessage, 2, ("VM_NAME", "ADDRESS")),
    (MESSAGE, PortMessage, 9, ("IFINDEX", "_MESSAGE")), (PATH_GET, PathAttributes, 2, ()),
    (PATH_GET + 1, PortMessage, 1, ()), (0, SettingsMessage, 1, ()), (255, PeerMessage, 1, ()))

lab = Lab()
lab.fresh("maxmin", key=KEY)
laws = lab.shim.settings_get().laws
words = [b"s1", b"s2", b"s3", b"lo", b"", *(law.encode() for law in laws), b"nobody"]
knobs = {law: list(lab.shim.settings_get(of=law).knobs.values()) for law in laws if law != "none"}
words += [knob.name.encode() for law in knobs for knob in knobs[law]]
numbers = [0, 1, 2, 15, 16, 125, 143, 253, 254, 255, 1514, 50_000, 65_536, 1_000_000, 5_000_000, 125_000_000, 10**9,
           10**10, 1 << 20, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 10**11, 1 << 62, (1 << 63) - 1,
           (1 << 64) - 1]
indexes = {name: ifindex(name) for name in ("s1", "s2", "s3")}


class Requests:
    """Requests of one seed."""

    def __init__(self, seed: int) -> None:
        """Begin with the first."""
        self.chance = random.Random(seed)
        self.sender, self.sequence = seed, 0
        # What knobs belong to that are changed, and the last one named.
        self.law, self.knob = "maxmin", knobs["maxmin"][0]

    def told(self) -> bytes:
        """Return a control message for v1 or v2, signed with the key that is mostly in force."""
        chance = self.chance
        vm, kind = packed(chance.choice((V1, V2))), chance.choice((TYPE_MARKS, TYPE_RATE))
        self.sequence += 1
        if chance.random() < 0.3:
            return encode_v1(Message(vm=vm, peer=packed(U), marks=9, sender=self.sender, epoch=1000, type=kind,
                                     sequence=self.sequence, rate=10**6 if kind == TYPE_RATE else 0), KEY)
        entries = []
        for _ in range(chance.randrange(1, 33)):
            bits = chance.choice((0, 128, 120, 124))
            prefix = MAPPED + bytes((10, 9, 0, chance.randrange(256) & 0xFF << 128 - bits)) if bits else bytes(16)
            entries.append(PathEntry(chance.randrange(1, 5), prefix, bits, 0,
                                     rate=chance.randrange(125, 10**8) if kind == TYPE_RATE else 0,
                                     marks=3 if kind == TYPE_MARKS else 0))
        return encode_v2(PathMessage(vm, tuple(entries), 0, self.sender, 1000, self.sequence, kind), KEY)

    def value(self, kind: str, name: str) -> bytes:
        """Return what an attribute of a kind that pyroute2 knows may hold, mostly."""
        chance = self.chance
        sense = chance.random() < SENSIBLE
        if sense and name.endswith(("IFINDEX", "_VM")):
            return struct.pack("=I", indexes[chance.choice(("s1", "s1", "s2", "s3"))])
        if sense and name.endswith("_ROLE"):
            return struct.pack("=I", chance.choice((0, 1, 1, 1, 2)))
        if sense and name.endswith(("PORT_NAME", "VM_NAME")):
            return chance.choice((b"s1\0", b"s1\0", b"s2\0", b"s3\0"))
        if sense and name.endswith(("_LAW", "_OF")):
            self.law = chance.choice((*knobs, "maxmin", "maxmin", "sdngcc"))
            return self.law.encode() + b"\0"
        if sense and name.endswith("KNOB_NAME") and knobs[self.law]:
            self.knob = chance.choice(knobs[self.law])
            return self.knob.name.encode() + b"\0"
        if sense and name.endswith("KNOB_VALUE"):
            edge = chance.choice((self.knob.minimum, self.knob.maximum, self.knob.default))
            return struct.pack("=Q", edge + chance.choice((-1, 0, 0, 1)) & (1 << 64) - 1)
        if sense and name.endswith("_KEY"):
            return KEY
        if sense and name.endswith(("_ADDRESS", "ADDRESS_VALUE")):
            return packed(chance.choice((V1, V2, U, "fd09::1")))
        if sense and name.endswith("_WEIGHT"):
            return struct.pack("=I", chance.choice((1, 2, 7, 65_535)))
        if kind.startswith("uint"):
            size = int(kind[4:]) // 8
            return int(chance.choice(numbers) & (1 << 8 * size) - 1).to_bytes(size, "little")
        if kind == "asciiz":
            return chance.choice(words) + chance.choice((b"\0", b"\0", b"\0", b"", b"\0\0", b"x" * 40 + b"\0"))
        if name.endswith("MESSAGE"):
            return self.told()
        if kind == "cdata":
            return chance.choice((KEY, packed(V1), packed(U), packed("fd09::1"), bytes(16), bytes(15), bytes(17)))
        return bytes(chance.choice((0, 4, 8)))

    def attribute(self, number: int, kind: str, owner: Any, name: str, depth: int) -> bytes:
        """Return an attribute, one in twenty of them broken."""
        chance = self.chance
        # Not what a message inherits: pyroute2's own types.
        nest = vars(owner).get(kind.split("|")[0])
        if nest is not None and depth < 4:
            value, number = self.attributes(nest, depth + 1), number | NESTED
        else:
            value = self.value(kind, name)
        length = 4 + len(value)
        if chance.random() < 0.05:
            how = chance.randrange(8)
            if how == 0:
                value = value[: chance.randrange(len(value) + 1)]
                length = 4 + len(value)
            elif how == 1:
                value += chance.randbytes(chance.choice((1, 4, 100)))
                length = 4 + len(value)
            elif how == 2:
                length = chance.choice((0, 1, 3, 4, length - 1, length + 1, length + 400, 0xFFFF))
            elif how == 3:
                number ^= chance.choice((NESTED, NET_ORDER, NESTED | NET_ORDER))
            elif how == 4:
                number = chance.choice((0, 31, 255, 0x3FFF))
            elif how == 5:
                value = chance.randbytes(len(value))
            elif how == 6:
                for _ in range(chance.choice((2, 40, 1000))):
                    value = struct.pack("=HH", min(4 + len(value), 0xFFFF), NESTED | number & 0xFF) + value
                length = 4 + len(value)
            else:
                value, length = value[:chance.randrange(4)], 4 + len(value)
        return struct.pack("=HH", length & 0xFFFF, number & 0xFFFF) + value + bytes(-len(value) % 4)

    def attributes(self, owner: Any, depth: int = 0, needed: Tuple[str, ...] = ()) -> bytes:
        """Return some attributes of a message or of a nest; needed: how those end that come first, mostly."""
        chance = self.chance
        known = list(enumerate(owner.nla_map))
        if chance.random() < SENSIBLE:
            known = [one for one in known if not one[1][0].endswith(TOLD)]
        if depth:
            # A nest has few members, often many of one kind.
            chosen = known * chance.choice((1, 1, 1, 3, 30))
        else:
            # In the order of `needed`: the law before its knobs.
            chosen = [one for end in needed for one in known if one[1][0].endswith(end)]
            chosen = chosen if chance.random() < SENSIBLE else []
            rest = [one for one in known if one not in chosen]
            if chosen and chance.random() < SENSIBLE:
                # Either of them tells which port or VM is meant.
                rest = [one for one in rest if not one[1][0].endswith(("IFINDEX", "_NAME", "PEER_VM"))]
            chosen += chance.sample(rest, min(len(rest), chance.choice((0, 0, 1, 1, 2, 3, 8))))
        return b"".join(self.attribute(number, kind, owner, name, depth) for number, (name, kind) in chosen)[:LONGEST]

    def next(self) -> Tuple[int, int, bytes]:
        """Return the next request: its command, flags and attributes."""
        chance = self.chance
        command, owner, _, needed = chance.choices(COMMANDS, [one[2] for one in COMMANDS])[0]
        dump = command in (PORT_GET, LIMITER_GET, PEER_GET, PATH_GET) and chance.random() < 0.5
        attributes = self.attributes(owner, needed=needed)
        if chance.random() < 0.02:
            attributes = attributes[: chance.randrange(len(attributes) + 1)]
        return command, REQUEST | ACK | (DUMP if dump else 0), attributes


def ask(raw: socket.socket, number: int, request: Tuple[int, int, bytes]) -> int:
    """Send a request and read all its answers; returns the error number, 0: it was obeyed."""
    command, flags, attributes = request
    body = struct.pack("=BBH", command, 1, 0) + attributes
    raw.send(struct.pack("=IHHII", 16 + len(body), lab.shim._socket.prid, flags, number, 0) + body)
    while True:
        data = raw.recv(1 << 20)
        while len(data) >= 16:
            length, kind, _, sequence, _ = struct.unpack("=IHHII", data[:16])
            if sequence == number and kind in (ERROR, DONE):
                return -int(struct.unpack("=i", data[16:20])[0])
            data = data[max(16, length + 3 & ~3):]


def life(seed: int) -> None:
    """Send one seed's requests; AssertionError with the one that got no answer, or if too few were obeyed."""
    requests, obeyed = Requests(seed), 0
    raw = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)  # type: ignore[attr-defined]
    raw.bind((0, 0))
    raw.settimeout(5)
    for number in range(1, REQUESTS + 1):
        request = requests.next()
        try:
            obeyed += not ask(raw, number, request)
        except OSError as error:
            raise AssertionError(f"seed {seed}, request {number}: {error}: {request[0]} {request[2].hex()}") from error
        if number % 8 == 0:
            lab.v1.send(ipv4(V1, f"10.9.0.{number % 250}", udp(8 + number % 1400), ecn=ECT_0))
        if number % 200 == 0:
            # Ticks, and the others.
            time.sleep(0.006)
    raw.close()
    # Else these requests are refused for one thing, and nothing behind it is reached.
    assert REQUESTS // 10 < obeyed < REQUESTS, f"seed {seed}: {obeyed} of {REQUESTS} were obeyed"
    print(f"# seed {seed}: {obeyed} of {REQUESTS} requests were obeyed", flush=True)


def at_once(seeds: Tuple[int, ...]) -> List[str]:
    """Let each seed have a process of its own; return what went wrong in them."""
    children = []
    for seed in seeds:
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                life(seed)
                text = ""
            except BaseException:
                text = traceback.format_exc()[-3000:]
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        children.append((pid, reader))
    said = []
    for pid, reader in children:
        with os.fdopen(reader, "rb") as pipe:
            said.append(pipe.read().decode())
        os.waitpid(pid, 0)
    return [text for text in said if text]


@check
def fuzz() -> None:
    """Random and broken requests of three processes are answered, each of them, while VMs send"""
    equal(at_once(SEEDS), [], "what went wrong")


@check
def afterwards() -> None:
    """What is in force is within its ranges, and the shim can be set and used as before"""
    got = lab.shim.settings_get()
    for name, least, most in (("burst", 1514, 1 << 30), ("burst_us", 0, 10_000), ("horizon", 1000, 10**10),
                              ("inactive", 10**6, 3600 * 10**9), ("protocol", 143, 254), ("peers_max", 1, 1 << 20)):
        assert least <= getattr(got, name) <= most, f"{name}: {getattr(got, name)}"
    for law in laws:
        if law != "none":
            for name, knob in lab.shim.settings_get(of=law).knobs.items():
                assert knob.minimum <= knob.value <= knob.maximum, f"{law}: knob {name}: {knob.value}"
    for port in lab.shim.ports():
        assert port.role != "vm" or 1 <= (port.weight or 0) <= 65_536, f"{port}"
    lab.shim.settings_set(protocol=253, inactive=10**9, waiting_max=0, conversations=False)
    lab.fresh("static", key=KEY)
    lab.u.flush()
    with lab.counted("s1", tx_packets=1):
        lab.v1.send(ipv4(V1, U, udp(100)))
        assert lab.u.receive(), "nothing comes out of the uplink"


main()
