# SPDX-License-Identifier: Apache-2.0
"""Control messages and reports for v1 and v2 as whole frames, for tests inside the virtual machine."""

from __future__ import annotations

import dataclasses
import socket
from typing import Dict

from lab import PROTOCOL, V1, U, ipv4, ipv6

from sdngcc.controller.wire.message import TYPE_RATE, TYPE_REPORT, Message, encode_v1

KEY = bytes(range(16))
OTHER_KEY = bytes(range(16, 32))
SENDER, REPORTER = 1, 7
MAPPED = bytes(10) + b"\xff\xff"

# Last sequence used, by sender: one sequence over all VMs.
_last: Dict[int, int] = {}


def packed(address: str) -> bytes:
    """Return an address in 16 bytes, IPv4 as ::ffff:a.b.c.d."""
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address)
    return MAPPED + socket.inet_aton(address)


def _next(base: Message, changes: Dict[str, object]) -> Message:
    """Return a message, changed, with the next sequence of its sender."""
    changed = dataclasses.replace(base, **changes)  # type: ignore[arg-type]
    if "sequence" in changes:
        return changed
    _last[changed.sender] = _last.get(changed.sender, 0) + 1
    return dataclasses.replace(changed, sequence=_last[changed.sender])


def marks(vm: str = V1, peer: str = U, **changes: object) -> Message:
    """Return a controller's message with 100 marks, which cuts a VM's rate under law sdngcc."""
    return _next(Message(vm=packed(vm), peer=packed(peer), marks=100, interval_ns=5_000_000, weight_total=4,
                         sender=SENDER, epoch=1000), changes)


def rate(bytes_per_s: int, vm: str = V1, peer: str = U, **changes: object) -> Message:
    """Return a controller's message with an explicit rate, which law maxmin obeys."""
    return _next(Message(vm=packed(vm), peer=packed(peer), marks=0, type=TYPE_RATE, rate=bytes_per_s, sender=SENDER,
                         epoch=1000), changes)


def grant(bytes_per_s: int, vm: str = V1, peer: str = U, **changes: object) -> Message:
    """Return a report of a peer's shim that grants a rate, which law eyeq obeys."""
    return _next(Message(vm=packed(vm), peer=packed(peer), marks=0, type=TYPE_REPORT, rate=bytes_per_s,
                         point_datapath=1514, weight_total=1, interval_ns=500_000, sender=REPORTER, epoch=1000),
                 changes)


def frame(message: Message, key: bytes = KEY, vlan: bool = False) -> bytes:
    """Return a frame with a message, from its peer to its VM."""
    data = encode_v1(message, key)
    if message.vm.startswith(MAPPED):
        ends = [socket.inet_ntoa(address[12:]) for address in (message.peer, message.vm)]
        return ipv4(ends[0], ends[1], data, protocol=PROTOCOL, vlan=vlan)
    ends = [socket.inet_ntop(socket.AF_INET6, address) for address in (message.peer, message.vm)]
    return ipv6(ends[0], ends[1], data, protocol=PROTOCOL, vlan=vlan)
