# SPDX-License-Identifier: Apache-2.0
"""Relations read back from the flows that carry them.

A pair's flow at a machine's port says who talks to whom, and a flow's output port that leads to no other
switch says where its destination is. So a controller that comes late, or lost a connection for a while, asks
each switch for the flows of this project and knows what the others learned from packets it never saw.
"""

import dataclasses
from typing import Iterator

from sdngcc.controller.forwarding.forwarder import Forwarder
from sdngcc.controller.forwarding.installer import COOKIE, COOKIE_MASK, LEARNED, PAIR, Installer
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.routes import Ports
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.wire import openflow
from sdngcc.controller.work import Backlog

FLOWS_MAX = 1 << 18  # of a switch
TOGETHER = 64  # flows taken at a time


@dataclasses.dataclass
class _Asked:
    """A request not answered yet."""

    xid: int
    flows: list[openflow.Flow] = dataclasses.field(default_factory=list)


class Adoption:
    """Questions for flows, one a switch."""

    def __init__(self, relations: Relations, forwarder: Forwarder, installer: Installer, backlog: Backlog) -> None:
        self.adopted = 0  # pairs
        self._relations = relations
        self._forwarder = forwarder
        self._installer = installer
        self._backlog = backlog
        self._taking: set[int] = set()  # switches whose flows are taken
        self._asked: dict[int, _Asked] = {}

    def request(self, dpid: int, xid: int) -> bytes:
        """Return the message that asks a switch for what was learned from it."""
        self._asked[dpid] = _Asked(xid)
        return openflow.flow_statistics_request(xid, COOKIE | LEARNED, COOKIE_MASK | LEARNED)

    def forget(self, dpid: int) -> None:
        """Await no answer of a switch that is gone."""
        self._asked.pop(dpid, None)
        self._taking.discard(dpid)

    def feed(self, dpid: int, data: bytes, now_ns: int) -> bool:
        """Take one part of a flow statistics reply; return whether it was an answer to a question of ours.

        Raises openflow.MessageError for one that cannot be read.
        """
        asked = self._asked.get(dpid)
        if asked is None or asked.xid != int.from_bytes(data[4:8], "big"):
            return False
        more = openflow.more_parts(data)
        if more and len(data) <= openflow.MULTIPART_BYTES:
            raise openflow.MessageError("a part without flows says that more follow; forgotten")
        asked.flows += openflow.flows(data)
        if len(asked.flows) > FLOWS_MAX:
            raise openflow.MessageError(f"more than {FLOWS_MAX} flows; forgotten")
        if not more:
            del self._asked[dpid]
            self._taking.add(dpid)
            self._backlog.add(self._take(dpid, asked.flows, now_ns))
        return True

    def refuse(self, dpid: int, xid: int) -> None:
        """Await no more of an answer that cannot be read."""
        if dpid in self._asked and self._asked[dpid].xid == xid:
            del self._asked[dpid]

    def _take(self, dpid: int, flows: list[openflow.Flow], now_ns: int) -> Iterator[None]:
        for number, flow in enumerate(flows):
            if not number % TOGETHER:
                yield
                if dpid not in self._taking:
                    return
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
