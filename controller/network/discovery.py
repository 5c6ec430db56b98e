# SPDX-License-Identifier: Apache-2.0
"""Links between switches, found by LLDP frames that one switch puts out and another one brings back."""

import collections
import logging
from typing import Iterable, Iterator, NamedTuple, Optional

from sdngcc.controller.cluster.owner import Owner
from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.topology import Hop, Topology
from sdngcc.controller.outbox import Outbox
from sdngcc.controller.timers import Timers
from sdngcc.controller.wire import openflow, packets
from sdngcc.controller.work import Backlog

SLICE_PORTS = 16  # to which frames go at a time; to make the first one of a port takes the longest
_FIRST_S = (0.02, 0.1, 0.25)  # a port that came is looked at again after each

LOG = logging.getLogger(__name__)


class Link(NamedTuple):
    """Two ports that are joined."""

    near: Hop
    far: Hop


class Discovery:
    """Sends LLDP frames under ``key`` and takes those that come back; others' switches are theirs to look at.

    Frames under ``other_key`` are taken as well: other controllers may have another key while keys change.
    """

    def __init__(
        self,
        switches: dict[int, SwitchRecord],
        topology: Topology,
        owner: Owner,
        outbox: Outbox,
        timers: Timers,
        backlog: Backlog,
        key: bytes,
        counters: "collections.Counter[str]",
    ) -> None:
        self.key = key
        self._frames: dict[int, dict[int, bytes]] = {}  # by switch and port, under the key
        self.other_key: Optional[bytes] = None
        self._switches = switches
        self._topology = topology
        self._owner = owner
        self._outbox = outbox
        self._timers = timers
        self._backlog = backlog
        self._turns: dict[int, collections.deque[int]] = {}  # switch -> ports that are to have a frame, in their turn
        self._counters = counters

    def set_key(self, key: bytes) -> None:
        """Send frames under another key from now on."""
        if key != self.key:
            self.key = key
            self._frames.clear()

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone, or a whole switch."""
        if port is None:
            self._frames.pop(dpid, None)
        else:
            self._frames.get(dpid, {}).pop(port, None)

    def look(self, dpid: int, only: Optional[int] = None) -> None:
        """Look for the links of a switch, or of one of its ports, now and some times soon."""
        self.send(dpid, only)
        for delay_s in _FIRST_S:
            self._timers.arm(delay_s, lambda: self.send(dpid, only))

    def send(self, dpid: int, only: Optional[int] = None) -> None:
        """Put a frame out at each port of a switch that may lead to another one, or at one port.

        Frames of all ports go in slices, in turn with those of other switches.
        """
        if only is not None:
            self._send(dpid, [only])
            return
        if not self._turns:
            self._backlog.add(self._take_turns())
        if dpid not in self._turns:
            self._turns[dpid] = collections.deque(sorted(self._topology.ports.get(dpid, ())))

    def _take_turns(self) -> Iterator[None]:
        while self._turns:
            dpid = next(iter(self._turns))
            waiting = self._turns[dpid]
            self._send(dpid, [waiting.popleft() for _ in range(min(SLICE_PORTS, len(waiting)))])
            del self._turns[dpid]
            if waiting:
                self._turns[dpid] = waiting  # behind the others
            yield

    def _send(self, dpid: int, numbers: Iterable[int]) -> None:
        switch, ports = self._switches.get(dpid), self._topology.ports.get(dpid, {})
        if switch is None or not self._owner.owns(dpid):
            return
        messages, frames = [], self._frames.setdefault(dpid, {})
        for number in numbers:
            port = ports.get(number)
            if port is not None and port.up and number not in switch.vms:
                if number not in frames:
                    frames[number] = packets.lldp_frame(dpid, number, self.key)
                messages.append(openflow.packet_out(frames[number], (number,)))
        if messages:
            self._outbox.put(dpid, b"".join(messages))

    def heard(self, dpid: int, in_port: int, data: bytes, now_ns: int) -> Optional[Link]:
        """Take an LLDP frame that came in; return the link it shows if that is news."""
        origin = packets.parse_lldp(data, self.key)
        if origin is None and self.other_key is not None:
            origin = packets.parse_lldp(data, self.other_key)
        switch = self._switches.get(dpid)
        far = self._switches.get(origin[0]) if origin else None
        if not origin or switch is None or far is None or in_port in switch.vms or origin[1] in far.vms:
            self._counters["lldp_foreign"] += 1
            return None
        if not self._topology.add_link(origin, (dpid, in_port), now_ns):
            return None
        LOG.info("link %016x:%d - %016x:%d", *origin, dpid, in_port)
        return Link(origin, (dpid, in_port))
