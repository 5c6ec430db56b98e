# SPDX-License-Identifier: Apache-2.0
"""Calls that gRPC refused by itself, as far as it lets them be seen.

gRPC's core counts the calls of a server (channelz): those that started, succeeded and failed. What it refuses before
or after it asked for a handler follows from how many calls came how far here:

``calls_too_many``    refused without asking for a handler: as many as may be were under way
``message_refused``   a handler was there and never got a message: too large, compressed, or broken off

Both are lower bounds while calls are under way, and exact once none is. Connections that end before a call (TLS
handshakes, bytes that are no HTTP/2, headers that are too large) are in no count of gRPC's.
"""

import collections
import json
import threading
from typing import Any, Callable, NamedTuple

KINDS = ("calls_too_many", "message_refused")


class Core(NamedTuple):
    """What gRPC's core counted of a server's calls."""

    started: int
    ended: int  # whether they succeeded or failed


class Calls:
    """Counts how far calls come; ``core`` returns what gRPC counted so far. It may be used by several threads."""

    def __init__(self, core: Callable[[], Core]) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._begun = 0  # whose handler was asked for
        self._known = 0  # that brought a message, or whose method there is not
        self._told: collections.Counter[str] = collections.Counter()

    def begin(self) -> None:
        """Take note that gRPC asks for the handler of a call."""
        with self._lock:
            self._begun += 1

    def known(self) -> None:
        """Take note that it is known what became of a call: its message came, or there is no such method."""
        with self._lock:
            self._known += 1

    def refused(self) -> "collections.Counter[str]":
        """Return what gRPC refused since the last time, by kind."""
        begun = self._begun  # first, so that a call on its way counts as known or as under way, and never as refused
        core = self._core()
        under_way = core.started - core.ended
        with self._lock:
            found = {
                "calls_too_many": core.started - self._begun - under_way,
                "message_refused": begun - self._known - under_way,
            }
        fresh = collections.Counter({kind: found[kind] - self._told[kind] for kind in KINDS})
        fresh = +fresh
        self._told.update(fresh)
        return fresh


def read_core() -> Core:
    """Return the counts of this process' only server, which has the option ``grpc.enable_channelz``."""
    # What grpcio-channelz wraps for servers that tell others; here nobody else asks.
    from grpc._cython import cygrpc

    return parse_core(cygrpc.channelz_get_servers(0))


def parse_core(text: Any) -> Core:
    """Return the counts in channelz' document of servers; zeros while there is none."""
    servers = json.loads(text).get("server", [])
    counts = servers[0].get("data", {}) if servers else {}
    started, succeeded, failed = (
        int(counts.get(key, 0)) for key in ("callsStarted", "callsSucceeded", "callsFailed")
    )
    return Core(started, succeeded + failed)
