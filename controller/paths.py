# SPDX-License-Identifier: Apache-2.0
"""Which ports the frames of a pair leave by."""

from sdngcc.controller.relations import Pair, Relations
from sdngcc.controller.topology import Hop, Topology


class Paths:
    """The way of every pair that talks.  ``version`` changes with every change that can move one."""

    def __init__(self, relations: Relations, topology: Topology) -> None:
        self._relations = relations
        self._topology = topology

    @property
    def version(self) -> tuple[int, int]:
        """Return what the ways depend on, as numbers that grow."""
        return self._relations.version, self._topology.version

    def hops(self, pair: Pair) -> dict[Hop, float]:
        """Return the (switch, output port) hops of a pair, each with the part of its bytes that leave there.

        {} while an end is unknown or there is no way.
        """
        source, target = (self._relations.hosts.get(mac) for mac in pair)
        if source is None or target is None:
            return {}
        return dict.fromkeys(self._topology.path(source.place[0], target.place, target.mac), 1.0)
