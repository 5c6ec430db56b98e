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

from lab import namespace

TCP_INFO = 11
MIB = 1 << 20

ports = iter(range(6000, 7000))


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
