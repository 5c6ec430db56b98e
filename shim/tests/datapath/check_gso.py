# SPDX-License-Identifier: Apache-2.0
"""GSO packets that are cut by time: what arrives is, byte for byte, what the kernel makes of the uncut packet.

    v1 -- s1 | br0 | s3 -- e3, namespace u, redirected to x0 -- x1: the frames as they are on a wire

x0 offloads nothing, so that what is a GSO packet still is cut there; s3 offloads all or nothing.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Callable, Dict, Iterator, List, Tuple

from lab import U_6, V1, V1_6, Lab, U, Wire, check, checksum, equal, frames, links, main, namespace, run
from offload import ETHERNET, Offloaded, Raw, sums_up, tcp

LIMIT = 125_000_000  # bytes/s
FIN, PSH, ACK, CWR = 0x01, 0x08, 0x10, 0x80
UDP_SEGMENT, SOL_UDP, IP_MTU_DISCOVER = 103, 17, 10
#: us in which the limit sends more than any packet has.
WHOLE = 10_000
#: us, and the most bytes of a part at the limit: of 8 full segments, of 2, and of 1.
TIMES = {100: 12_500, 30: 3_750, 0: 1_514}
OFFLOADS = ("tx", "sg", "tso", "gso", "tx-udp-segmentation")

Sender = Callable[[], object]

lab = Lab()
links("link add x0 type veth peer name x1", "link set x0 up", "link set x1 up", "link set e3 gso_max_size 400000",
      within="u")
links("link set s1 gso_max_size 400000", "link set s3 gso_max_size 400000")
links("link set e1 gso_max_size 400000", "addr add 10.9.0.1/24 dev e1",
      "neigh replace 10.9.0.3 lladdr 02:00:00:00:00:02 dev e1", within="v1")
run("ip netns exec u ethtool -K x0 tx off sg off tso off gso off; tc -n u qdisc add dev e3 ingress; "
    "tc -n u filter add dev e3 ingress matchall action mirred egress redirect dev x0")
guest, there, between = Raw("v1", "e1"), Wire("u", "x1"), Wire("u", "e3")


def tagged(packet: Offloaded, tags: int = 1) -> Offloaded:
    """Return a packet behind VLAN tags of the guest's own."""
    more = b"\x81\x00\x00\x05" * tags
    start = None if packet.start is None else packet.start + len(more)
    return Offloaded(packet.frame[:12] + more + packet.frame[12:], packet.gso, packet.size, start, packet.offset,
                     packet.header + len(more))


def with_options(packet: Offloaded) -> Offloaded:
    """Return a TCP packet of IPv4 with options, as time stamps have."""
    options = bytes.fromhex("0101080a0000000200000001")
    head = bytearray(packet.frame[:54])
    length = len(packet.frame) + len(options) - ETHERNET
    head[46] = 8 << 4
    head[16:18] = struct.pack("!H", length)
    head[24:26] = bytes(2)
    head[24:26] = struct.pack("!H", checksum(bytes(head[14:34])))
    head[50:52] = struct.pack("!H", ~checksum(bytes(head[26:34]) + struct.pack("!HH", 6, length - 20)) & 0xFFFF)
    return replace(packet, frame=bytes(head) + options + packet.frame[54:], header=packet.header + len(options))


def big(payload: int, size: int, head: int = 82) -> Offloaded:
    """Return BIG TCP: a TCP packet of IPv6 whose length an option has, for it is more than 64 KiB.

    So many bytes of it stand in one piece: a packet has room for 68 kB of others.
    """
    packet = tcp(1000, 500, (V1_6, U_6))
    frame, segment = packet.frame, packet.frame[54:74] + bytes(range(256)) * (payload // 256)
    partial = ~checksum(frame[22:54] + struct.pack("!II", len(segment), 6)) & 0xFFFF
    segment = segment[:16] + struct.pack("!H", partial) + segment[18:]
    option = struct.pack("!BBBBI", 6, 0, 0xC2, 4, len(segment) + 8)
    return Offloaded(frame[:18] + bytes(3) + frame[21:54] + option + segment, packet.gso, size, 62, 16, head)


@contextmanager
def downstream(offloads: bool) -> Iterator[None]:
    """Let the uplink's device offload all that it can, or nothing, for a while."""
    if not offloads:
        run("ethtool -K s3 " + " ".join(f"{name} off" for name in OFFLOADS))
    yield
    run("ethtool -K s3 " + " ".join(f"{name} on" for name in OFFLOADS))


def relative(frame: bytes, first: bytes) -> bytes:
    """Return a frame with its IPv4 identification counted from that of the first one; the sum must be right.

    Sockets and tunnels number what they send, so two packets have not the same.
    """
    if frame[12:14] != b"\x08\x00":
        return frame
    equal(checksum(frame[14:34]), 0, "sum of an IPv4 header")
    number = (int.from_bytes(frame[18:20], "big") - int.from_bytes(first[18:20], "big")) % 65536
    return frame[:18] + struct.pack("!H", number) + frame[20:24] + bytes(2) + frame[26:]


def sent(send: Sender, burst_us: int) -> Tuple[List[bytes], List[int]]:
    """Return the frames that a packet becomes, and the lengths of what leaves the uplink's device."""
    lab.shim.settings_set(burst_us=burst_us)
    there.flush()
    between.flush()
    send()
    time.sleep(0.02)
    found = frames(there)
    return [relative(frame, found[0]) for frame in found], [len(frame) for frame in frames(between, 0)]


def same(what: str, send: Sender, least: int = 3) -> None:
    """Check that a packet becomes the same frames however it is cut, and that it is."""
    # What finds no flow in the datapath yet is cut on its way to ovs-vswitchd.
    send()
    time.sleep(0.1)
    for offloads in (True, False):
        with downstream(offloads):
            wanted, lengths = sent(send, WHOLE)
            assert len(wanted) >= least, f"{what}: {len(wanted)} frames of the uncut packet"
            assert not offloads or max(lengths) > 2 * 1514, f"{what}: it was cut: {lengths}"
            for burst_us, most in TIMES.items():
                got, lengths = sent(send, burst_us)
                name = f"{what}, {burst_us} us, offloads {offloads}"
                equal(len(got), len(wanted), f"{name}: frames")
                for number, (one, other) in enumerate(zip(got, wanted)):
                    equal(one.hex(), other.hex(), f"{name}: frame {number} of {len(wanted)}")
                # Each segment but the first of a part weighs its headers, too, which are not in the part.
                assert max(lengths) <= max(most, 1600), f"{name}: {lengths}"
                if offloads and burst_us:
                    assert max(lengths) > 1600, f"{name}: parts are single segments: {lengths}"


RAW: Dict[str, Offloaded] = {
    "TCP": tcp(60_000, 1448),
    "TCP, the last segment is full": tcp(16 * 1448, 1448),
    "TCP, a byte more": tcp(16 * 1448 + 1, 1448),
    "TCP with options": with_options(tcp(60_000, 1448)),
    "TCP of 64 KiB": tcp(65_000, 1400),
    "TCP in small segments": tcp(40_000, 500),
    "TCP, two segments more than a part": tcp(5 * 1448, 1448),
    "CWR, PSH, FIN": tcp(60_000, 1448, flags=ACK | CWR | PSH | FIN),
    "PSH, ECT(0)": tcp(60_000, 1448, flags=ACK | PSH, ecn=2),
    "IPv6": tcp(60_000, 1428, (V1_6, U_6)),
    "IPv6, CWR, PSH, FIN, ECT(1)": tcp(60_000, 1428, (V1_6, U_6), flags=ACK | CWR | PSH | FIN, ecn=1),
    "in a VLAN": tagged(tcp(60_000, 1448)),
    "IPv6 in a VLAN": tagged(tcp(60_000, 1428, (V1_6, U_6))),
    "in two VLANs": tagged(tcp(60_000, 1448), 2),
}


@check
def tcp_parts() -> None:
    """TCP of IPv4 and IPv6, tagged or not, with CWR, PSH and FIN, becomes the frames of the uncut packet"""
    for what, packet in RAW.items():
        same(what, partial(guest.send, packet))


@check
def flags() -> None:
    """CWR is the first segment's, PSH and FIN the last one's, and checksums and sequence numbers are right"""
    guest.send(RAW["CWR, PSH, FIN"])
    time.sleep(0.1)
    got, _ = sent(lambda: guest.send(RAW["CWR, PSH, FIN"]), 30)
    equal([frame[47] for frame in got], [ACK | CWR] + [ACK] * (len(got) - 2) + [ACK | PSH | FIN], "flags")
    equal([int.from_bytes(frame[38:42], "big") for frame in got], [1 + 1448 * number for number in range(len(got))],
          "sequence numbers")
    equal([int.from_bytes(frame[18:20], "big") for frame in got], list(range(len(got))), "identification")
    assert all(sums_up(frame) for frame in got), "a checksum is wrong"


@check
def big_tcp() -> None:
    """BIG TCP, of more than 64 KiB, becomes the frames of the uncut packet"""
    for payload, head in ((68_096, 82), (120_064, 60_000)):
        same(f"BIG TCP of {payload} bytes", partial(guest.send, big(payload, 1400, head)), payload // 1400)


@check
def charged() -> None:
    """A part is charged for the headers of all its segments, as single segments are"""
    for burst_us in (WHOLE, *TIMES):
        before = lab.stats("s1")
        got, _ = sent(lambda: guest.send(RAW["TCP with options"]), burst_us)
        rose = lab.changes("s1", before)
        equal((rose["tx_bytes"], rose["tx_packets"]), (sum(map(len, got)), len(got)), f"{burst_us} us: charged")


def datagrams(socket_: socket.socket, to: Tuple[str, int], size: int) -> Sender:
    """Return what sends datagrams of one size in one packet that is to be cut."""
    socket_.setsockopt(SOL_UDP, UDP_SEGMENT, size)
    payload = bytes(range(256)) * 4
    return lambda: socket_.sendto((payload * 60)[:size * 40 + 7], to)


TUNNELS: Dict[str, str] = {
    "VXLAN": "vxlan id 7 remote 10.9.0.3 local 10.9.0.1 dstport 4789 dev e1 noudpcsum",
    "VXLAN with checksums": "vxlan id 7 remote 10.9.0.3 local 10.9.0.1 dstport 4789 dev e1 udpcsum",
    "Geneve": "geneve id 7 remote 10.9.0.3 noudpcsum",
    "Geneve with checksums": "geneve id 7 remote 10.9.0.3 udpcsum",
    "GRE": "gretap remote 10.9.0.3 local 10.9.0.1 key 7",
}
INNER_4, INNER_6 = ("10.77.0.1", "10.77.0.3"), ("fd77::1", "fd77::3")
INNER: Dict[str, Offloaded] = {
    "TCP": tcp(40_000, 1348, INNER_4),
    "IPv6": tcp(40_000, 1348, INNER_6),
    "CWR, FIN": tcp(40_000, 1348, INNER_4, flags=ACK | CWR | FIN),
}


@check
def in_tunnels() -> None:
    """A guest's own VXLAN, Geneve and GRE with TCP inside becomes the frames of the uncut packet"""
    for what, kind in TUNNELS.items():
        links(f"link add vx type {kind}", "link set vx up", within="v1")
        try:
            inner = Raw("v1", "vx")
            for name, packet in INNER.items():
                same(f"{what}, {name}", partial(inner.send, packet))
        finally:
            links("link del vx", within="v1")


@check
def as_the_kernel_does() -> None:
    """What cannot be kept whole is cut to single segments: GRE with checksums"""
    links("link add vx type gretap remote 10.9.0.3 local 10.9.0.1 key 7 csum", "link set vx up", within="v1")
    try:
        inner = Raw("v1", "vx")
        wanted, _ = sent(lambda: inner.send(tcp(40_000, 1348, INNER_4)), WHOLE)
        got, lengths = sent(lambda: inner.send(tcp(40_000, 1348, INNER_4)), 100)
        equal([one.hex() for one in got], [one.hex() for one in wanted], "frames")
        assert max(lengths) <= 1514, lengths
    finally:
        links("link del vx", within="v1")


@check
def udp_parts() -> None:
    """UDP that a socket leaves to be cut (UDP_SEGMENT) becomes the frames of the uncut packet"""
    run("ip netns exec v1 sysctl -qw net.ipv6.conf.e1.disable_ipv6=0")
    links(f"addr add {V1_6}/64 dev e1 nodad", f"neigh replace {U_6} lladdr 02:00:00:00:00:02 dev e1", within="v1")
    # What the guest's IPv6 says of itself comes first.
    time.sleep(10)
    for family, source, to in ((socket.AF_INET, V1, U), (socket.AF_INET6, V1_6, U_6)):
        with namespace("v1"):
            one = socket.socket(family, socket.SOCK_DGRAM)
        with one:
            one.bind((source, 4001))
            for size in (1400, 300):
                same(f"UDP of {size} bytes to {to}", datagrams(one, (to, 9), size), 40)


lab.fresh("static", burst_us=WHOLE)
lab.shim.port_set("s1", max_rate=LIMIT)
main()
