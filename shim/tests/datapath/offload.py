# SPDX-License-Identifier: Apache-2.0
"""Packets as guests and vhost hand them over: behind virtio-net headers, without checksums, to be cut by others.

Frames go in and come out by tap devices, or by packet sockets that take such headers.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence

from lab import NOT_ECT, SOL_PACKET, V1, U, checksum, ipv4, ipv6, namespace, run

TCP, UDP = 6, 17
ETHERNET = 14
PACKET_VNET_HDR = 15
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17

# struct virtio_net_hdr: flags, kind of GSO, header length, bytes a part, where the checksum starts, and stands.
VNET = struct.Struct("<BBHHHH")
NEEDS_CSUM = 1
GSO_TCPV4, GSO_UDP, GSO_TCPV6, GSO_UDP_L4, GSO_ECN = 1, 3, 4, 5, 0x80

TUNSETIFF, TUNSETOFFLOAD, TUNSETCARRIER = 0x400454CA, 0x400454D0, 0x400454E2
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x4000, 0x0100
# What a guest takes: checksums to be completed, TCP to be cut in IPv4 and IPv6, with ECN.
OFFLOADS = 0x01 | 0x02 | 0x04 | 0x08
# UDP to be cut, since Linux 6.2.
OFFLOAD_USO = 0x20 | 0x40
# Where the devices of this kernel are: the root is the host's, whose numbers may not be there.
DEVICES = "/run/dev"


@dataclass(frozen=True)
class Offloaded:
    """A frame, and what its sender left to others."""

    frame: bytes
    gso: int = 0
    """GSO_* or 0."""
    size: int = 0
    """Bytes of payload in each part."""
    start: Optional[int] = None
    """Where the sum begins that is not yet in the checksum field; None: the checksum is there."""
    offset: int = 0
    """Of the checksum field behind that."""
    header: int = 0
    """Bytes of headers that each part will have."""

    @classmethod
    def read(cls, data: bytes) -> Offloaded:
        """Take apart what a device handed over."""
        flags, gso, header, size, start, offset = VNET.unpack_from(data)
        return cls(data[VNET.size:], gso, size, start if flags & NEEDS_CSUM else None, offset, header)

    def __bytes__(self) -> bytes:
        """Return header and frame as a device takes them."""
        return VNET.pack(NEEDS_CSUM if self.start is not None else 0, self.gso, self.header, self.size, self.start or 0,
                         self.offset) + self.frame

    @property
    def parts(self) -> int:
        """Packets that it becomes."""
        return -(-(len(self.frame) - self.header) // self.size) if self.gso else 1

    @property
    def wire_bytes(self) -> int:
        """Bytes of all these packets, with their headers."""
        return len(self.frame) + (self.parts - 1) * self.header

    @property
    def right(self) -> bool:
        """Tell whether the checksum is right, or will be when the sum is put in."""
        if self.start is None:
            return sums_up(self.frame)
        place = self.start + self.offset
        length = len(self.frame) - self.start
        wanted = ~checksum(_pseudo(self.frame, length)) & 0xFFFF
        return wanted == struct.unpack_from("!H", self.frame, place)[0]


def _pseudo(frame: bytes, length: int) -> bytes:
    """Return the pseudo-header of a frame of untagged IP that carries `length` bytes of TCP or UDP."""
    if frame[12:14] == b"\x86\xdd":
        return frame[22:54] + struct.pack("!IHBB", length, 0, 0, frame[20])
    return frame[26:34] + struct.pack("!BBH", 0, frame[23], length)


def sums_up(frame: bytes) -> bool:
    """Tell whether the TCP or UDP checksum of a frame of untagged IP is right."""
    start, end = ((54, 54 + struct.unpack("!H", frame[18:20])[0]) if frame[12:14] == b"\x86\xdd" else
                  (34, ETHERNET + struct.unpack("!H", frame[16:18])[0]))
    segment = frame[start:end]
    return not checksum(_pseudo(frame, len(segment)) + segment + bytes(len(segment) % 2))


def _offloaded(head: bytes, offset: int, payload: bytes, protocol: int, gso: int, size: int, ends: Sequence[str],
               ecn: int) -> Offloaded:
    """Return headers and payload as a frame, to be cut if it has more than `size` bytes of payload."""
    v6 = ":" in ends[0]
    frame = (ipv6 if v6 else ipv4)(ends[0], ends[1], head + payload, protocol=protocol, ecn=ecn)
    start = len(frame) - len(head) - len(payload)
    partial = ~checksum(_pseudo(frame, len(head) + len(payload))) & 0xFFFF
    place = start + offset
    frame = frame[:place] + struct.pack("!H", partial) + frame[place + 2:]
    cut = len(payload) > size
    return Offloaded(frame, gso if cut else 0, size if cut else 0, start, offset, start + len(head) if cut else 0)


def tcp(payload: int, size: int, ends: Sequence[str] = (V1, U), *, ecn: int = NOT_ECT, flags: int = 0x10,
        port: int = 4000) -> Offloaded:
    """Return a TCP segment between two addresses, whose payload counts words, to be cut every `size` bytes."""
    head = struct.pack("!HHIIHHHH", port, 5001, 1, 1, 5 << 12 | flags, 500, 0, 0)
    data = b"".join(number.to_bytes(2, "big") for number in range(-(-payload // 2)))[:payload]
    kind = GSO_TCPV6 if ":" in ends[0] else GSO_TCPV4
    # CWR is the first part's alone.
    return _offloaded(head, 16, data, TCP, kind | (GSO_ECN if flags & 0x80 else 0), size, ends, ecn)


def udp_parts(payload: int, size: int, ends: Sequence[str] = (V1, U), *, ecn: int = NOT_ECT, port: int = 4000,
              gso: int = GSO_UDP_L4) -> Offloaded:
    """Return a UDP packet to be cut every `size` bytes: into packets, or into fragments with gso=GSO_UDP."""
    return _offloaded(struct.pack("!HHHH", port, 9, 8 + payload, 0), 6, bytes(payload), UDP, gso, size, ends, ecn)


class Raw:
    """A packet socket of a device in a namespace that sends frames behind virtio-net headers, and receives none."""

    def __init__(self, name: str, device: str) -> None:
        """Open it."""
        with namespace(name):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            self.socket.bind((device, 0))

    def send(self, packet: Offloaded) -> None:
        """Send a packet; OSError where the kernel knows no such GSO."""
        self.socket.send(bytes(packet))


class Tap:
    """A tap device with one or more queues: what a guest behind it would send and receive."""

    def __init__(self, name: str, queues: int = 1, offloads: int = OFFLOADS) -> None:
        """Create it in this thread's namespace, and set it up."""
        if not os.path.exists(DEVICES):
            run(f"mkdir {DEVICES}; mount -t devtmpfs dev {DEVICES}")
        self.name = name
        self.queues = [os.open(f"{DEVICES}/net/tun", os.O_RDWR | os.O_NONBLOCK) for _ in range(queues)]
        kind = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (IFF_MULTI_QUEUE if queues > 1 else 0)
        for queue in self.queues:
            fcntl.ioctl(queue, TUNSETIFF, struct.pack("16sH22x", name.encode(), kind))
        self.takes(offloads)
        run(f"ip link set {name} up")

    def takes(self, offloads: int) -> None:
        """Set what its guest takes; OSError where the kernel does not know that."""
        fcntl.ioctl(self.queues[0], TUNSETOFFLOAD, offloads)

    def carrier(self, on: bool) -> None:
        """Plug the cable in or out."""
        fcntl.ioctl(self.queues[0], TUNSETCARRIER, struct.pack("i", on))

    def speed(self, mbps: int) -> None:
        """Let it say a speed, which others look at when its cable is plugged in."""
        run(f"ethtool -s {self.name} speed {mbps} duplex full autoneg off")

    def send(self, packet: Offloaded, queue: int = 0) -> None:
        """Send a packet by a queue; OSError where the kernel knows no such GSO."""
        os.write(self.queues[queue], bytes(packet))

    def received(self, wait_s: float = 0.02) -> List[Offloaded]:
        """Return what has come for the guest by any queue, and what follows within wait_s."""
        found: List[Offloaded] = []
        while True:
            ready = select.select(self.queues, [], [], wait_s)[0]
            if not ready:
                return found
            found += [Offloaded.read(os.read(queue, 1 << 17)) for queue in ready]

    def close(self) -> None:
        """Take it away."""
        for queue in self.queues:
            os.close(queue)


def without_offload(device: str) -> None:
    """Let a device leave no checksum of what it sends to others."""
    command = array.array("B", struct.pack("II", ETHTOOL_STXCSUM, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", device.encode(), command.buffer_info()[0]))


def flood(send: Callable[[Offloaded], object], packet: Offloaded, bytes_per_s: float, seconds: float,
          meanwhile: Callable[[], object] = int) -> float:
    """Send a packet again and again, so fast on the wire and for so long; return the seconds that it took.

    meanwhile is called after every few packets.
    """
    burst = max(1, 15_000 // packet.wire_bytes)
    gap = burst * packet.wire_bytes / bytes_per_s
    started = time.monotonic()
    while time.monotonic() < started + seconds:
        for _ in range(burst):
            send(packet)
        time.sleep(gap)
        meanwhile()
    return time.monotonic() - started
