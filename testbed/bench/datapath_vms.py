# SPDX-License-Identifier: Apache-2.0
"""Rows with many VMs of ``make bench-datapath``, inside User Mode Linux.

VMs are internal ports of Open vSwitch, the cheapest device it has; pktgen sends through the first SENDERS of them in
turn, the others are there. Setting up 100,000 takes minutes, so each row keeps the VMs of the one before.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator, List, Sequence, Tuple

from sdngcc.testbed.bench.datapath_guest import packet_rate, run
from sdngcc.testbed.bench.datapath_rows import Row

# VMs that pktgen sends through; it looks at all of its devices for each packet, so these are few.
SENDERS = 8

# A datapath takes 65,535 ports.
VMS_A_DATAPATH = 60_000

# Requests that go to the kernel in one system call.
BATCH = 500

# Netlink: its protocol of generic families; a request, acknowledged if it is a batch's last one; an answer.
GENERIC, REQUEST, ACK, ERROR = 16, 1, 4, 2

# Generic netlink of Open vSwitch's ports: make one, of type internal.
PORT_NEW, PORT_VERSION, INTERNAL = 1, 1, 2

# Progress is told so often, in VMs.
TOLD = 5_000


def attribute(kind: int, value: bytes) -> bytes:
    """Return a netlink attribute with its padding."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


class Batches:
    """Sends requests of one generic netlink family, BATCH in a system call."""

    def __init__(self, family: str) -> None:
        """Look the family up. OSError or NetlinkError when there is none."""
        from pyroute2.netlink import genlmsg
        from pyroute2.netlink.generic import GenericNetlinkSocket

        with GenericNetlinkSocket() as channel:
            channel.bind(family, genlmsg)
            self.kind = channel.prid
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
        self.socket.bind((0, 0))

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send one batch of bodies (generic header and what follows). OSError with the first refusal."""
        last = len(bodies) - 1
        self.socket.send(b"".join(
            struct.pack("=IHHII", 16 + len(body), self.kind, REQUEST | ACK * (number == last), number, 0) + body
            for number, body in enumerate(bodies)))
        while True:
            answer = self.socket.recv(65536)
            _, kind, _, number, _ = struct.unpack_from("=IHHII", answer)
            code = struct.unpack_from("=i", answer, 16)[0] if kind == ERROR else 0
            if code:
                raise OSError(-code, f"request {number} of {len(bodies)}: {os.strerror(-code)}")
            if kind == ERROR and number == last:
                return


def places(first: int, end: int) -> Iterator[Tuple[str, int, int]]:
    """Yield name, datapath and port number of VMs first to end - 1."""
    for vm in range(first, end):
        # Port 1 of the first datapath is the uplink.
        yield f"t{vm}", vm // VMS_A_DATAPATH, vm % VMS_A_DATAPATH + 2


def port_body(name: str, datapath_index: int, number: int) -> bytes:
    """Return the request for an internal port of the datapath with that ifindex."""
    return (struct.pack("=BBHi", PORT_NEW, PORT_VERSION, 0, datapath_index) + attribute(1, struct.pack("=I", number))
            + attribute(2, struct.pack("=I", INTERNAL)) + attribute(3, name.encode() + b"\0")
            + attribute(5, struct.pack("=I", 0)))


def role_body(name: str) -> bytes:
    """Return the request that makes a device a VM of the shim, with default values."""
    from sdngcc.shim.netlink import PORT_SET, ROLES, VERSION

    return (struct.pack("=BBH", PORT_SET, VERSION, 0) + attribute(3, name.encode() + b"\0")
            + attribute(4, struct.pack("=I", ROLES.index("vm"))))


def in_batches(what: str, family: str, bodies: List[bytes]) -> None:
    """Send all bodies, telling how far it is."""
    batches, begin = Batches(family), time.monotonic()
    for first in range(0, len(bodies), BATCH):
        batches.send(bodies[first:first + BATCH])
        if (first + BATCH) % TOLD == 0:
            print(f"sdngcc-progress {time.monotonic():.3f} {what}: {first + BATCH:,} of {len(bodies):,} after "
                  f"{time.monotonic() - begin:.0f} s", flush=True)


def lay_out() -> None:
    """Make the first datapath with its uplink, whose far end counts."""
    run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "sink0")
    for device in ("up0", "sink0"):
        run("ip", "link", "set", device, "up")
    run("ovs-dpctl", "add-dp", "dp0")
    run("ovs-dpctl", "add-if", "dp0", "up0,port_no=1")


def populate(first: int, row: Row, patched: bool) -> None:
    """Add VMs from the first-th to the row's last one; with our module give all of them their roles and the law."""
    wanted = list(places(first, row.vms))
    indexes = []
    for number in range(wanted[-1][1] + 1):
        if not Path(f"/sys/class/net/dp{number}").exists():
            run("ovs-dpctl", "add-dp", f"dp{number}")
        indexes.append(socket.if_nametoindex(f"dp{number}"))
    ports = [port_body(name, indexes[place], number) for name, place, number in wanted]
    # ovs-dpctl asks for all ports whenever it adds a flow, so senders are there before the others.
    senders = max(SENDERS - first, 0)
    in_batches("ports", "ovs_vport", ports[:senders])
    for name, _, number in wanted[:senders]:
        run("ip", "link", "set", name, "up")
        run("ovs-dpctl", "add-flow", "dp0", f"in_port({number}),eth(),eth_type(0x0800),ipv4()", "1")
    in_batches("ports", "ovs_vport", ports[senders:])
    if patched:
        from sdngcc.shim.netlink import ShimClient

        with ShimClient() as client:
            # No law while VMs come: what a law does with each of them is done once.
            client.settings_set(law="none")
            client.port_set("up0", role="uplink", capacity=row.limit_bits // 8)
            in_batches("roles", "ovs_shim", [role_body(name) for name, _, _ in wanted])
            client.settings_set(law=row.law)


@contextmanager
def crowd_load(there: int, row: Row, packets: int, patched: bool) -> Iterator[Callable[[], float]]:
    """Add VMs to those that are there until the row has its own; yield what sends packets and returns packets/s."""
    if not there:
        lay_out()
    populate(there, row, patched)
    senders = [f"t{number}" for number in range(min(row.vms, SENDERS))]
    yield lambda: packet_rate(senders, packets, row)
