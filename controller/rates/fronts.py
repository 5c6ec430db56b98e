# SPDX-License-Identifier: Apache-2.0
"""What goes in front of control messages to each machine: addresses, and the packet-out with its frame's headers.

All of it stands in arrays until one of the machine's hosts is heard with an address, comes or goes.
"""

from typing import Optional, Sequence

import numpy as np

from sdngcc.controller.native import NOTICE
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths.index import Slots, roomy
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import openflow, packets

ROOM = 96  # bytes of a front: packet-out and action 40, Ethernet 14, IPv6 40 at most


class Fronts:
    """Fronts of machines, by place; ``blob`` has the bytes, ROOM of each by its number."""

    def __init__(self, settings: Settings, relations: Relations) -> None:
        self.blob = np.zeros(0, np.dtype((np.void, ROOM)))
        self._settings = settings
        self._relations = relations
        self._templates = np.zeros(0, NOTICE)
        self._slots: Slots[Pair] = Slots()
        self._of: dict[Hop, int] = {}
        self._places: dict[bytes, set[Hop]] = {}  # by Ethernet address of a host that a front was made of

    def find(self, places: Sequence[Hop], pairs: Sequence[Pair]) -> list[int]:
        """Return the numbers of the fronts of machines, each with one of its pairs; -1 for one that has no address."""
        self._forget()
        known, fronts = self._slots.things, self._of
        found = [fronts.get(place, -1) for place in places]
        for row, number in enumerate(found):
            if number < 0 or known[number] != pairs[row]:
                found[row] = self._make(places[row], pairs[row])
        return found

    def fill(self, rows: "np.ndarray[tuple[int], np.dtype[np.void]]", numbers: Sequence[int]) -> None:
        """Write addresses and fronts into notices."""
        some = self._templates[numbers]
        for name in ("front", "front_bytes", "vm", "peer"):
            rows[name] = some[name]

    def _forget(self) -> None:
        """Drop the fronts that hosts were part of who are others now."""
        renewed = self._relations.renewed
        while renewed:
            mac, _ = renewed.popitem()
            self._relations.watched.discard(mac)
            for place in self._places.pop(mac, ()):
                self._drop(place)

    def _drop(self, place: Hop) -> None:
        number = self._of.pop(place, None)
        if number is not None:
            self._slots.give_back(number)

    def _make(self, place: Hop, pair: Pair) -> int:
        """Return the number of a front that is made now; -1 for a machine without an address."""
        self._drop(place)
        addresses = self._addresses(pair)
        if addresses is None:
            return -1
        number = self._of[place] = self._slots.take(pair)
        self._slots.fresh.clear()
        self.blob, self._templates = roomy(self.blob, number + 1), roomy(self._templates, number + 1)
        front = b""
        if self._settings.forwarding != "none":
            frame = packets.message_frame(*pair, *addresses, self._settings.protocol, b"")
            front = openflow.packet_out(frame, (place[1],))
        self.blob[number] = front.ljust(ROOM, b"\0")
        template = self._templates[number : number + 1]
        template["front"], template["front_bytes"] = number * ROOM, len(front)
        # The switch knows the port that it puts the message out at, and the host its device, better than any address
        # that a machine claims; the paper's form has no room to say so.
        told = addresses[0] if self._settings.message_version == "v0" else packets.UNSPECIFIED
        template["vm"], template["peer"] = np.void(told), np.void(addresses[1])
        for mac in pair:
            self._places.setdefault(mac, set()).add(place)
            self._relations.watched.add(mac)
        return number

    def _addresses(self, pair: Pair) -> Optional[tuple[bytes, bytes]]:
        """Return the addresses of a machine and of its peer, of one family; None when it has none to be told at."""
        host, other = self._relations.hosts.get(pair[0]), self._relations.hosts.get(pair[1])
        if host is None:
            return None
        version, address = self._settings.message_version, host.address(True)
        ipv4 = address is not None
        if address is None:
            address = host.address(False)
        if version == "v0" and not ipv4:
            return None
        if address is None:
            # Known from flows only (cluster/adopt.py); the message reaches its port whatever the address.
            address = packets.link_local(host.mac) if len(host.mac) == 6 else packets.UNSPECIFIED
        return address, (other.address(ipv4) if other else None) or address
