# SPDX-License-Identifier: Apache-2.0
"""Hosts of switches that are away: one that comes back soon with the same ports has them there still.

A restart of Open vSwitch takes a second or two.  Without this memory all packets of all its machines would come to the
controller at once, and go out at every port until their destinations had said something.
"""

import collections
from typing import Mapping, NamedTuple, Optional

from sdngcc.controller.network.relations import Host

KEPT_NS = 60_000_000_000
HOSTS_MAX = 65536  # of all switches


class _Left(NamedTuple):
    """What a switch left behind."""

    left_ns: int
    hosts: list[tuple[str, Host]]  # with the names of their ports


class AbsentHosts:
    """Remembers hosts for KEPT_NS; the longest remembered switches go where there are too many."""

    def __init__(self) -> None:
        self._left: collections.OrderedDict[int, _Left] = collections.OrderedDict()
        self._count = 0

    def leave(self, dpid: int, hosts: list[tuple[str, Host]], now_ns: int) -> None:
        """Remember the hosts of a switch that went, each with the name of its port."""
        self._forget(dpid)
        if hosts and len(hosts) <= HOSTS_MAX:
            self._left[dpid] = _Left(now_ns, hosts)
            self._count += len(hosts)
        while self._left:
            oldest = next(iter(self._left))
            if self._count <= HOSTS_MAX and now_ns - self._left[oldest].left_ns < KEPT_NS:
                break
            self._forget(oldest)

    def back(self, dpid: int, numbers: Mapping[str, int], now_ns: int) -> list[Host]:
        """Return, once, the hosts of a switch that came back, whose ports are there; ``numbers`` has these by name."""
        left = self._forget(dpid)
        if left is None or now_ns - left.left_ns >= KEPT_NS:
            return []
        return [
            Host(host.mac, (dpid, numbers[name]), host.seen_ns, host.addresses)
            for name, host in left.hosts
            if name in numbers
        ]

    def _forget(self, dpid: int) -> Optional[_Left]:
        left = self._left.pop(dpid, None)
        if left is not None:
            self._count -= len(left.hosts)
        return left
