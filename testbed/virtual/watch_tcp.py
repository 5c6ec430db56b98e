# SPDX-License-Identifier: Apache-2.0
"""Watches TCP from within a VM: the windows of its sockets, or the ACKs that leave it.

``python -m sdngcc.testbed.virtual.watch_tcp windows OUT START_NS END_NS INTERVAL_NS``: at each interval a line
``t_ns port mss cwnd snd_wnd`` for each connection, by the port it goes to; segments and windows in
bytes, cwnd in segments.

``python -m sdngcc.testbed.virtual.watch_tcp acks OUT START_NS END_NS DEVICE PORT...``: a line ``t_ns port`` for each
TCP segment that leaves device from one of the ports.

Times are of CLOCK_MONOTONIC. Uses the standard library alone, for each import costs wall time in User Mode Linux.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

# Of linux/netlink.h, sock_diag.h and inet_diag.h.
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLM_F_REQUEST_DUMP, INET_DIAG_INFO = 4, 20, 3, 0x301, 2
# Connections that are open: TCP_ESTABLISHED.
OPEN = 1 << 1
# Bytes of struct nlmsghdr, of inet_diag_msg.
HEADER_BYTES, MESSAGE_BYTES = 16, 72
# Places in struct tcp_info, bytes.
SND_MSS_AT, SND_CWND_AT, SND_WND_AT = 16, 80, 228
# Of linux/if_ether.h, socket.h and filter.h; SO_ATTACH_FILTER is not in Python's socket.
ETH_P_ALL, SO_ATTACH_FILTER, PACKET_OUTGOING = 3, 26, 4
SKF_AD_PKTTYPE = 0xFFFFF000 + 4
# What is kept of a segment: Ethernet, IPv4 and TCP headers without options.
HEADERS_BYTES = 54


def open_windows(client: socket.socket) -> Iterator[Tuple[int, int, int, int]]:
    """Yield port, segment size, congestion window in segments and send window of each open connection over IPv4."""
    body = struct.pack("=BBBBI48x", socket.AF_INET, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0, OPEN)
    client.send(struct.pack("=IHHII", HEADER_BYTES + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 0, 0) + body)
    while True:
        for kind, payload in _messages(client.recv(1 << 20)):
            if kind == NLMSG_DONE:
                return
            (port,) = struct.unpack_from("!H", payload, 6)
            info = _attributes(payload[MESSAGE_BYTES:])[INET_DIAG_INFO]
            yield port, *(struct.unpack_from("=I", info, at)[0] for at in (SND_MSS_AT, SND_CWND_AT, SND_WND_AT))


def _messages(data: bytes) -> Iterator[Tuple[int, bytes]]:
    while data:
        length, kind = struct.unpack_from("=IH", data)
        yield kind, data[HEADER_BYTES:length]
        data = data[(length + 3) & ~3:]


def _attributes(data: bytes) -> Dict[int, bytes]:
    found = {}
    while data:
        length, kind = struct.unpack_from("=HH", data)
        found[kind] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


def watch_windows(start_ns: int, end_ns: int, interval_ns: int) -> List[str]:
    """Return the lines of ``windows``."""
    lines = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as client:
        for due_ns in range(start_ns, end_ns, interval_ns):
            time.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
            lines += [" ".join(map(str, (due_ns, *row))) for row in open_windows(client)]
    return lines


def filter_of(ports: Sequence[int]) -> List[Tuple[int, int, int, int]]:
    """Return classic BPF that keeps the headers of TCP segments over IPv4 that leave from one of the ports."""
    program = [(0x20, SKF_AD_PKTTYPE, PACKET_OUTGOING), (0x28, 12, 0x0800), (0x30, 23, socket.IPPROTO_TCP)]
    lines: List[Tuple[int, int, int, int]] = []
    drop = 2 * len(program) + 1 + len(ports)
    for load, place, wanted in program:
        lines += [(load, 0, 0, place), (0x15, 0, drop - len(lines) - 2, wanted)]
    lines.append((0x28, 0, 0, 34))
    lines += [(0x15, len(ports) - number, 0, port) for number, port in enumerate(ports)]
    return [*lines, (0x06, 0, 0, 0), (0x06, 0, 0, HEADERS_BYTES)]


def watch_acks(start_ns: int, end_ns: int, device: str, ports: Sequence[int]) -> List[str]:
    """Return the lines of ``acks``."""
    code = b"".join(struct.pack("=HBBI", *line) for line in filter_of(ports))
    buffer = ctypes.create_string_buffer(code, len(code))
    lines = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                       struct.pack("HP", len(code) // 8, ctypes.addressof(buffer)))
        tap.bind((device, ETH_P_ALL))
        while (left := end_ns - time.monotonic_ns()) > 0:
            tap.settimeout(left / 1e9)
            try:
                segment = tap.recv(HEADERS_BYTES)
            except TimeoutError:
                break
            at_ns = time.monotonic_ns()
            if at_ns >= start_ns:
                lines.append(f"{at_ns} {int.from_bytes(segment[34:36], 'big')}")
    return lines


def main() -> int:
    """Do what the arguments say."""
    what, out, start, end, *rest = sys.argv[1:]
    if what == "windows":
        lines = watch_windows(int(start), int(end), int(rest[0]))
    else:
        lines = watch_acks(int(start), int(end), rest[0], list(map(int, rest[1:])))
    Path(out).write_text("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
