# SPDX-License-Identifier: Apache-2.0
"""A controller's connection to a bridge, for tests inside the virtual machine."""

from __future__ import annotations

import socket
import struct

from sdngcc.controller.wire import experimenter

HELLO = struct.pack("!BBHI", 4, 0, 8, 0)
ERROR, MULTIPART_REPLY = 1, 19


class Switch:
    """An OpenFlow connection to a bridge."""

    def __init__(self, bridge: str) -> None:
        """Connect, and say hello."""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5.0)
        self.socket.connect(f"/run/openvswitch/{bridge}.mgmt")
        self.socket.sendall(HELLO)
        self.assembler = experimenter.Assembler()
        self._raw = b""

    def receive(self) -> bytes:
        """Return the next message; raises socket.timeout when there is none."""
        while len(self._raw) < 8 or len(self._raw) < int.from_bytes(self._raw[2:4], "big"):
            self._raw += self.socket.recv(65536)
        length = int.from_bytes(self._raw[2:4], "big")
        got, self._raw = self._raw[:length], self._raw[length:]
        return got

    def ask(self, request: bytes) -> experimenter.Reply:
        """Return the whole reply to a request."""
        self.socket.sendall(request)
        while True:
            got = self.receive()
            assert got[1] != ERROR, f"error {got.hex()}"
            reply = self.assembler.feed(1, got) if got[1] == MULTIPART_REPLY else None
            if reply:
                return reply
