# SPDX-License-Identifier: Apache-2.0
"""Which bridges a period needs answers of.

A port tells nothing while it is not *pressed*: nobody is held there, it carries less than NEAR of what it may, and it
does not mark (ports.py).  What leaves by such ports alone changes no decision until one of them is pressed.  So a
bridge is asked in every period if some of what its machines could send leaves by a pressed port, whether they send now
or rest; if a pair of its machines came, went or goes another way, or the machines themselves are others; and all others
once in SELDOM periods, half of them in each.  So whoever begins to send is seen within SELDOM periods, wherever that
leaves, and in the next one where it matters.  When a port marks, the bridges behind it are asked at once.
"""

import itertools
from typing import Collection, Iterable

from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths.entries import CAPS

SELDOM = 2  # periods
KEPT = 200  # periods for which it is remembered who is behind a port: pairs that went are still counted so long
_SPREAD = 0x9E3779B97F4A7C15  # numbers of switches times that differ in any of the upper bits


class Asking:
    """Which bridges to ask; ``attribution`` knows who is behind a port."""

    def __init__(self, attribution: Attribution) -> None:
        self._attribution = attribution
        self._turn = 0
        self._behind: dict[Hop, set[int]] = {}  # bridges by port, of those asked for since they were forgotten
        self._needed: set[int] = set()
        self._all = True  # nothing is known yet, or who sends is bounded by no port

    def behind(self, port: Hop) -> set[int]:
        """Return the bridges whose machines' frames leave by a port."""
        found = self._behind.get(port)
        if found is None:
            places = (self._attribution.place(pair) for pair in self._attribution.using(port))
            found = self._behind[port] = {dpid for dpid, _ in places}
        return found

    def decided(self, pressed: Iterable[Hop], moved: Collection[Hop], renewed: Iterable[int]) -> None:
        """Take which ports are pressed by now, which machines' pairs moved, and which bridges' machines are others."""
        self._turn += 1
        if self._turn % KEPT == 0:
            self._behind.clear()
        for place in moved:
            for hop in set(itertools.chain.from_iterable(self._attribution.ways(place).values())):
                if hop in self._behind:
                    self._behind[hop].add(place[0])
        ports = list(pressed)
        self._all = any(hop[0] == CAPS for hop in ports)
        self._needed = set().union(*map(self.behind, ports), renewed, (place[0] for place in moved))
        # All that a machine sends leaves by its own bridge's ports, whatever pairs are known.
        self._needed.update(hop[0] for hop in ports)

    def needs(self, dpid: int) -> bool:
        """Tell whether a bridge is to be asked in the next period."""
        return self._all or dpid in self._needed or ((dpid * _SPREAD >> 32) + self._turn) % SELDOM == 0
