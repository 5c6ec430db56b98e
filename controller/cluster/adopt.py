# SPDX-License-Identifier: Apache-2.0
"""Relations read back from the flows that carry them.

A pair's flow at a machine's port says who talks to whom, and a flow's output port that leads to no other
switch says where its destination is. So a controller that comes late, or lost a connection for a while, asks
each switch for the flows of this project and knows what the others learned from packets it never saw.
"""

import dataclasses

from sdngcc.controller.forwarding.forwarder import Forwarder
from sdngcc.controller.forwarding.installer import COOKIE, COOKIE_MASK, LEARNED, PAIR, Installer
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.routes import Ports
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.wire import openflow


@dataclasses.dataclass
class _Asked:
    """A request not answered yet."""

    xid: int
    flows: list[openflow.Flow] = dataclasses.field(default_factory=list)


class Adoption:
    """Questions for flows, one a switch."""

    def __init__(self, relations: Relations, forwarder: Forwarder, installer: Installer) -> None:
        self.adopted = 0  # pairs
        self._relations = relations
        self._forwarder = forwarder
        self._installer = installer
        self._asked: dict[int, _Asked] = {}

    def request(self, dpid: int, xid: int) -> bytes:
        """Return the message that asks a switch for what was learned from it."""
        self._asked[dpid] = _Asked(xid)
        return openflow.flow_statistics_request(xid, COOKIE | LEARNED, COOKIE_MASK | LEARNED)

    def forget(self, dpid: int) -> None:
        """Await no answer of a switch that is gone."""
        self._asked.pop(dpid, None)

    def feed(self, dpid: int, data: bytes, now_ns: int) -> bool:
        """Take one part of a flow statistics reply; return whether it was an answer to a question of ours.

        Raises openflow.MessageError for one that cannot be read.
        """
        asked = self._asked.get(dpid)
        if asked is None or asked.xid != int.from_bytes(data[4:8], "big"):
            return False
        asked.flows += openflow.flows(data)
        if not openflow.more_parts(data):
            del self._asked[dpid]
            self._take(dpid, asked.flows, now_ns)
        return True

    def _take(self, dpid: int, flows: list[openflow.Flow], now_ns: int) -> None:
        for flow in flows:
            target, out = flow.eth_dst, flow.out_port
            if target is None:
                continue
            if out is not None and self._forwarder.is_host_port((dpid, out), now_ns):
                self._find_host(target, (dpid, out), now_ns)
            ports = () if out is None else (out,)
            if not flow.cookie & PAIR:
                self._installer.note_onward(dpid, flow.in_port or 0, flow.eth_src or b"", target, ports)
            elif flow.eth_src is not None and flow.in_port:
                self._take_pair((dpid, flow.in_port), (flow.eth_src, target), ports, flow, now_ns)

    def _take_pair(self, place: Hop, pair: Pair, ports: Ports, flow: openflow.Flow, now_ns: int) -> None:
        self._find_host(pair[0], place, now_ns)
        host = self._relations.hosts.get(pair[0])
        if host is not None and host.place == place and self._relations.learn_pair(*pair, now_ns):
            self._installer.note_edge(place, pair, ports, flow.vlan, None, now_ns)
            self.adopted += 1

    def _find_host(self, mac: bytes, place: Hop, now_ns: int) -> None:
        """Take a host's place from a flow, unless the host itself was heard."""
        if mac not in self._relations.hosts:
            self._relations.learn_host(mac, place, None, now_ns)
