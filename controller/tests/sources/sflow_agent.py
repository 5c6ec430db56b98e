# SPDX-License-Identifier: Apache-2.0
"""sFlow version 5 as an agent writes it."""

import socket
import struct

from ..fabric import ipv4

CE = 3


def words(*values):
    return b"".join(struct.pack("!I", value) for value in values)


def part(kind, body):
    return words(kind, len(body)) + body


def ce_frame(ecn=CE, vlan=False, ipv6=False):
    """Return an Ethernet frame with an ECN field."""
    frame = ipv4(1, 2)
    body = frame[14:15] + bytes((frame[15] | ecn,)) + frame[16:]
    kind = b"\x08\x00"
    if ipv6:
        body, kind = struct.pack("!IHBB", 6 << 28 | ecn << 20, 8, 17, 64) + bytes(40), b"\x86\xdd"
    return frame[:12] + (b"\x81\x00\x00\x05\x88\xa8\x00\x06" if vlan else b"") + kind + body


def header(frame, protocol=1):
    return part(1, words(protocol, 1514, 4, len(frame)) + frame + bytes(-len(frame) % 4))


def flow(frame, came, went=0, rate=100, sequence=1, expanded=False):
    """Return a flow sample; ``came`` and ``went`` are ifIndexes."""
    records = words(1) + header(frame)
    if expanded:
        return part(3, words(sequence, 0, came, rate, 0, 0, 0, came, 0, went) + records)
    return part(1, words(sequence, came, rate, 0, 0, came, went) + records)


def counters(index, octets=0, packets=0, drops=0, dpid=None, port=None, name=None, expanded=False, sequence=1):
    """Return a counter sample with what is given."""
    records = [
        part(
            1, struct.pack("!IIQIIQIIIIIIQIIIIII", index, 6, 10**9, 1, 3, *[0] * 7, octets, packets, 0, 0, drops, 0, 0)
        )
    ]
    if dpid is not None:
        records.append(part(1004, struct.pack("!QI", dpid, port)))
    if name is not None:
        records.append(part(1005, words(len(name)) + name.encode() + bytes(-len(name) % 4)))
    records.append(part(2 << 12 | 7, bytes(8)))  # of another enterprise
    head = words(sequence, 0, index) if expanded else words(sequence, index)
    return part(4 if expanded else 2, head + words(len(records)) + b"".join(records))


def datagram(*samples, agent="10.0.0.1", sub=0, sequence=1, uptime_ms=1000):
    """Return a datagram of samples."""
    family = socket.AF_INET6 if ":" in agent else socket.AF_INET
    head = words(5, 2 if family == socket.AF_INET6 else 1) + socket.inet_pton(family, agent)
    return head + words(sub, sequence & 0xFFFFFFFF, uptime_ms, len(samples)) + b"".join(samples)
