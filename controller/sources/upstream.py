# SPDX-License-Identifier: Apache-2.0
"""From CE seen arriving to the port that set it.

A packet with CE that comes in by port p of switch s was marked by the queue of the port at the other end of that
link, or had CE when it came to that switch, for CE once set travels on.  So of a link from port q of switch u to
port p of s:

    marks set at (u, q)  =  CE arrived at (s, p)  -  CE that had arrived at u and left by q

The two counts are read at different times, so the second can be ahead: what it is ahead by is *owed* and taken off
later arrivals, until it is so old that those packets must have been lost in the queue of q.  If the first is ahead,
some marks are reported that were not set here, once, until the second has caught up.

Nothing is attributed where CE arrives by a port without a known link: a host set it, or a switch unknown here.
"""

import collections
from typing import Callable, Optional

from sdngcc.controller.network.topology import Hop, forget_place

Peer = Callable[[int, int], Optional[Hop]]


class Upstream:
    """What is owed at each port; ``peer`` tells the other end of a link, ``patience_ns`` how long owing lasts."""

    def __init__(self, peer: Peer, patience_ns: int) -> None:
        self._peer = peer
        self._patience_ns = patience_ns
        self._owed: dict[Hop, collections.deque[tuple[int, int]]] = {}  # port -> (when, packets), oldest first

    def left(self, point: Hop, packets: int, now_ns: int) -> None:
        """Note that packets which had CE on arrival left by a port."""
        if packets > 0 and self._peer(*point) is not None:
            owed = self._owed.setdefault(point, collections.deque())
            while owed and now_ns - owed[0][0] > self._patience_ns:
                owed.popleft()
            owed.append((now_ns, packets))

    def arrived(self, place: Hop, packets: int, now_ns: int) -> Optional[tuple[Hop, int]]:
        """Take CE that arrived at a port; return the port that set it and how often, None if nothing is left."""
        point = self._peer(*place)
        if point is None:
            return None
        owed = self._owed.get(point)
        while owed and packets > 0:
            when, count = owed.popleft()
            if now_ns - when > self._patience_ns:
                continue
            if count > packets:
                owed.appendleft((when, count - packets))
            packets -= min(count, packets)
        return (point, packets) if packets > 0 else None

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget what is owed at a port that is gone, or at a whole switch."""
        forget_place(self._owed, dpid, port)
