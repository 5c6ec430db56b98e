# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: other network namespaces, and what is done there by system calls, not by processes."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import time
from contextlib import contextmanager
from typing import Iterator

CLONE_NEWNET = 0x40000000
# Requests of ioctl about a device, and its flag of being up.
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, IFF_UP = 0x8913, 0x8914, 0x8916, 0x891C, 1
# Types of ICMP.
ECHO_REPLY, ECHO_REQUEST = 0, 8
# How often an address is asked before it is not reached, and the wait for each answer, seconds.
ECHOES, ECHO_S = 4, 1.0


@contextmanager
def network_namespace(path: str) -> Iterator[None]:
    """Let this thread be in the network namespace of a file for a while; empty: stay. OSError when it cannot."""
    if not path:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        there = os.open(path, os.O_RDONLY)
        try:
            if libc.setns(there, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {path}")
        finally:
            os.close(there)
        try:
            yield
        finally:
            libc.setns(home, CLONE_NEWNET)
    finally:
        os.close(home)


def bring_up(device: str, address: str = "", prefix: int = 32) -> None:
    """Bring a device of this thread's network namespace up, with an IPv4 address if one is given; OSError if refused.
    """
    name = device.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if address:
            mask = struct.pack("!I", 0xFFFFFFFF << (32 - prefix) & 0xFFFFFFFF)
            for request, value in ((SIOCSIFADDR, socket.inet_aton(address)), (SIOCSIFNETMASK, mask)):
                fcntl.ioctl(control, request, struct.pack("16sHxx4s16x", name, socket.AF_INET, value))
        _, flags = struct.unpack("16sH22x", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16s24x", name)))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", name, flags | IFF_UP))


def _sum(data: bytes) -> int:
    """Return the Internet checksum of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def reaches(address: str) -> bool:
    """Return whether an address answers an ICMP echo from this thread's network namespace, asked up to ECHOES times."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        for number in range(1, ECHOES + 1):
            identity, data = struct.pack("!HH", os.getpid() & 0xFFFF, number), bytes(56)
            check = _sum(struct.pack("!BBH", ECHO_REQUEST, 0, 0) + identity + data)
            until_s = time.monotonic() + ECHO_S
            try:
                raw.sendto(struct.pack("!BBH", ECHO_REQUEST, 0, check) + identity + data, (address, 0))
                while (left := until_s - time.monotonic()) > 0:
                    raw.settimeout(left)
                    packet, (sender, _) = raw.recvfrom(2048)
                    message = packet[(packet[0] & 15) * 4:]
                    if sender == address and message[0] == ECHO_REPLY and message[4:8] == identity:
                        return True
            except OSError:  # no answer in time, or no way to it
                time.sleep(max(until_s - time.monotonic(), 0))
    return False
