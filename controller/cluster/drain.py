# SPDX-License-Identifier: Apache-2.0
"""Taking a controller out of service without a gap: it hands its switches over and stays, until it is ended or resumes.

In a cluster each switch goes to the next controller that is connected to it, by the way a lost connection goes.  One
that nobody else is connected to is acted for until the end.  A controller that is alone has nobody to hand over to: it
tells machines nothing more, and their shims return to their share by themselves; it forwards until it ends.
"""

import logging
from typing import Callable, NamedTuple, Optional, Protocol

LOG = logging.getLogger(__name__)


class Cluster(Protocol):
    """What of a cluster is needed; runner.Cluster is one."""

    def drain(self, wanted: bool) -> None:
        """Hand all switches over and take none, or be as always."""

    def held(self) -> list[int]:
        """Return the switches it acts for."""

    def others_connected(self, dpid: int) -> bool:
        """Tell whether another living controller is connected to a switch."""


class State(NamedTuple):
    """How far a drain is."""

    draining: bool
    since_ns: int  # when that was asked for
    held: list[int]  # switches still to be handed over
    unclaimed: list[int]  # those of them that nobody else is connected to

    @property
    def done(self) -> bool:
        """Whether nothing is left that could be handed over."""
        return self.draining and self.held == self.unclaimed


class Drain:
    """Drains a controller; ``steer`` lets it tell machines, or keeps it from that; ``clock`` counts ns."""

    def __init__(
        self, cluster: Optional[Cluster], steer: Callable[[bool], None], clock: Callable[[], int]
    ) -> None:
        self.alone = cluster is None
        self._cluster = cluster
        self._steer = steer
        self._clock = clock
        self.draining = False
        self._since_ns = clock()

    def set(self, wanted: bool, by: str) -> None:
        """Begin to drain, or resume, as somebody asks; again is no harm."""
        if wanted == self.draining:
            return
        LOG.info("%s, asked for by %s", "draining" if wanted else "resuming", by)
        self.draining, self._since_ns = wanted, self._clock()
        if self._cluster is None:
            self._steer(not wanted)
        else:
            self._cluster.drain(wanted)

    def state(self) -> State:
        """Return how far it is."""
        cluster = self._cluster
        held = [] if cluster is None or not self.draining else cluster.held()
        unclaimed = [dpid for dpid in held if cluster is not None and not cluster.others_connected(dpid)]
        return State(self.draining, self._since_ns, held, unclaimed)
