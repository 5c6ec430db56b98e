# SPDX-License-Identifier: Apache-2.0
"""Connections of real TCP stacks between namespaces, and data that must arrive as they were sent."""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator, List, Tuple

from lab import U_6, V1, V1_6, U, namespace, run

TCP_INFO = 11
MIB = 1 << 20

# Queues that mark send so fast, and mark or drop from so many bytes on.
RATE, THRESHOLD = "100mbit", 20000

ports = iter(range(6000, 7000))


def shape(device: str, name: str) -> None:
    """Let a device in a namespace (empty: the machine's) send at RATE through a queue that marks."""
    tc = f"ip netns exec {name} tc" if name else "tc"
    run(f"{tc} qdisc replace dev {device} root handle 1: htb default 1")
    run(f"{tc} class replace dev {device} parent 1: classid 1:1 htb rate {RATE} burst 3000 cburst 3000")
    run(f"{tc} qdisc replace dev {device} parent 1:1 handle 10: red limit 400000 min {THRESHOLD} max "
        f"{THRESHOLD + 1500} avpkt 1500 burst 14 probability 1.0 bandwidth {RATE} ecn")


def marks(device: str, name: str) -> int:
    """Return how many packets a device's queue has marked."""
    tc = f"ip netns exec {name} tc" if name else "tc"
    words = run(f"{tc} -s qdisc show dev {device}").replace("\n", " ").split()
    return int(words[words.index("marked") + 1])


def addresses() -> None:
    """Give the ends v1 and u addresses, and TCP as it is by default."""
    for name, device, address, address6 in (("v1", "e1", V1, V1_6), ("u", "e3", U, U_6)):
        run(f"ip netns exec {name} sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv4.tcp_no_metrics_save=1 "
            "net.ipv4.tcp_congestion_control=reno")
        run(f"ip -n {name} addr add {address}/24 dev {device}; ip -n {name} addr add {address6}/64 dev {device} nodad")


def sysctl_ecn(vm: int, peer: int) -> None:
    """Set net.ipv4.tcp_ecn of v1 and u: 0 never, 1 asks, 2 accepts."""
    run(f"ip netns exec v1 sysctl -qw net.ipv4.tcp_ecn={vm}; ip netns exec u sysctl -qw net.ipv4.tcp_ecn={peer}")


@dataclass(frozen=True)
class End:
    """What TCP_INFO says of one end."""

    options: int
    retransmitted: int

    @classmethod
    def of(cls, sock: socket.socket) -> End:
        """Ask a socket."""
        info = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 192)
        return cls(info[5], struct.unpack_from("I", info, 8 + 23 * 4)[0])


@contextmanager
def connection(sender: str, address: str) -> Iterator[Tuple[socket.socket, socket.socket]]:
    """Connect from a namespace to an address of the other; yield the sender's and the receiver's socket."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    port = next(ports)
    with namespace("v1" if sender == "u" else "u"):
        listener = socket.socket(family, socket.SOCK_STREAM)
    with namespace(sender):
        client = socket.socket(family, socket.SOCK_STREAM)
    with listener, client:
        listener.bind((address, port))
        listener.listen(1)
        client.settimeout(60)
        client.connect((address, port))
        server, _ = listener.accept()
        with server:
            server.settimeout(60)
            yield client, server


class Transfer:
    """Sends size bytes over a connection while it is entered; they must arrive as they are."""

    def __init__(self, client: socket.socket, server: socket.socket, size: int) -> None:
        """Begin."""
        self.client, self.server = client, server
        self.data = hashlib.sha256(str(size).encode()).digest() * (size // 32)
        self.got: List[bytes] = []
        self.threads = [threading.Thread(target=self.client.sendall, args=(self.data,)),
                        threading.Thread(target=self._receive)]
        for thread in self.threads:
            thread.start()

    def _receive(self) -> None:
        missing = len(self.data)
        while missing:
            part = self.server.recv(min(missing, MIB))
            if not part:
                break
            self.got.append(part)
            missing -= len(part)

    def end(self) -> None:
        """Wait for the end and compare."""
        for thread in self.threads:
            thread.join()
        assert b"".join(self.got) == self.data, "data arrived changed"


def transfer(sender: str, address: str, size: int = 4 * MIB) -> Tuple[End, End]:
    """Send size bytes and return what both ends say of the connection."""
    with connection(sender, address) as (client, server):
        Transfer(client, server, size).end()
        return End.of(client), End.of(server)
