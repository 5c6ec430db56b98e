# SPDX-License-Identifier: Apache-2.0
"""Which VLAN a frame is in, and which ports take part in one.

A port with a tag (Open vSwitch's ``Port:tag``) is an access port: frames without an 802.1Q header are in that VLAN,
others are refused, as Open vSwitch does. At a port without a tag a frame is in the VLAN of its header, without one in
VLAN 0; the port takes part in VLAN 0, and in each VLAN it sent a frame of.
"""

from typing import Iterator, Optional

from sdngcc.controller.network.topology import Hop

VLANS_A_PORT = 64  # that an untagged port is noted to take part in


class Vlans:
    """The VLANs of all ports."""

    def __init__(self) -> None:
        self._tags: dict[int, dict[int, int]] = {}  # switch -> port -> VLAN
        self._heard: dict[int, dict[int, set[int]]] = {}  # switch -> port without a tag -> VLANs
        self._members: dict[int, dict[int, set[int]]] = {}  # VLAN -> switch -> ports

    def tag(self, place: Hop) -> Optional[int]:
        """Return the VLAN of an access port, None of any other one."""
        return self._tags.get(place[0], {}).get(place[1])

    def set_tags(self, dpid: int, tags: dict[int, int]) -> list[int]:
        """Take the tags of a switch's ports; return the ports that are in another VLAN now."""
        before = self._tags.get(dpid, {})
        moved = sorted(port for port in before.keys() | tags.keys() if before.get(port) != tags.get(port))
        for port in moved:
            self.forget(dpid, port)
            if port in tags:
                self._tags.setdefault(dpid, {})[port] = tags[port]
                self._join(tags[port], (dpid, port))
        return moved

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone, or a whole switch."""
        tags, heard = self._tags.get(dpid, {}), self._heard.get(dpid, {})
        for one in list(tags.keys() | heard.keys()) if port is None else [port]:
            vlans = heard.pop(one, set())
            tag = tags.pop(one, None)
            for vlan in vlans if tag is None else [tag]:
                self._leave(vlan, (dpid, one))

    def _join(self, vlan: int, place: Hop) -> None:
        if vlan:
            self._members.setdefault(vlan, {}).setdefault(place[0], set()).add(place[1])

    def _leave(self, vlan: int, place: Hop) -> None:
        switches = self._members.get(vlan, {})
        ports = switches.get(place[0], set())
        ports.discard(place[1])
        if not ports:
            switches.pop(place[0], None)
            if not switches:
                self._members.pop(vlan, None)

    def enter(self, place: Hop, header: int) -> Optional[int]:
        """Return the VLAN of a frame that came in by a port, ``header`` that of its 802.1Q header, 0 without one.

        None: such a frame may not come in there.
        """
        tag = self.tag(place)
        if tag is not None:
            return None if header else tag
        if header:
            heard = self._heard.setdefault(place[0], {}).setdefault(place[1], set())
            if header not in heard:
                if len(heard) >= VLANS_A_PORT:
                    return None
                heard.add(header)
                self._join(header, place)
        return header

    def carries(self, place: Hop, vlan: int) -> bool:
        """Tell whether a port takes part in a VLAN."""
        if not vlan:
            return not self.tag(place)
        return place[1] in self._members.get(vlan, {}).get(place[0], ())

    def header(self, place: Hop, vlan: int) -> int:
        """Return the VLAN in the 802.1Q header of frames of a VLAN that leave by a port; 0: they have none."""
        return 0 if self.tag(place) is not None else vlan

    def members(self, vlan: int) -> Iterator[tuple[int, list[int]]]:
        """Return the ports that take part in a VLAN other than 0, by switch."""
        for dpid, ports in list(self._members.get(vlan, {}).items()):
            yield dpid, sorted(ports)
