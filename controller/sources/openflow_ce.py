# SPDX-License-Identifier: Apache-2.0
"""Marks of unpatched OpenFlow 1.3 switches: flows that count packets with CE, at the next hop.

OpenFlow 1.3 has no counter of marks, but a match on the ECN field.  Of every switch the pipeline is

    table 0   by input port, IPv4 or IPv6 with ip_ecn=3: counted; everything goes on to table 1
    table 1   the controller's forwarding, as it is with any source; it leaves the output port in the metadata
    table 2   by that port, IPv4 or IPv6 with ip_ecn=3: counted

Two counters and two families make 4 flows a port.  Copies of the forwarding flows for CE in their own table would
need as many as ports times destinations, for a packet's input port and its output are both wanted: CE arrived
at (s, p) less what had arrived at the switch before and left by the port to (s, p) is what that port's queue set
(upstream.py).

Switches refresh flow counters when they like: Open vSwitch every ``max-revalidator`` ms (500), hardware every
second or more.  ``refresh`` makes Open vSwitch do so at every poll: a flow-mod that changes nothing leads it to
revalidate its datapath, whose counters it reads then; the reply to the next poll shows them.

Told apart:

- first reading of a flow: a baseline, no marks;
- a flow added again (its age or its count went back): a reset, counted, a new baseline;
- flows that are missing in a reply: counted in ``flows_missing``, and added again with the next poll;
- a switch that refuses the flows: ``flows_refused``; it cannot be used with this source.
"""

import dataclasses
from typing import Optional

from sdngcc.controller.forwarding.installer import COOKIE, COOKIE_MASK, COUNTING, Tables
from sdngcc.controller.network.topology import Hop, Topology, forget_place
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.base import PREPARE_XID, MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.pace import Pace, difference, longest, scale
from sdngcc.controller.sources.upstream import Upstream
from sdngcc.controller.wire import openflow
from sdngcc.controller.wire.openflow import FlowStatistics

CE = 3
COUNT_TABLE, FORWARD_TABLE, LEAVE_TABLE = range(3)
IP_TYPES = (0x0800, 0x86DD)
PRIORITY_CE = 1

# Low bits of a counting flow's cookie: family at bit 33, table at bit 32, port below; REST has no port.
_LEAVES = 1 << 32
_IPV6 = 1 << 33
_REST = 1 << 34
_PORT_MASK = 0xFFFFFFFF


@dataclasses.dataclass
class _Port:
    """What a port's flows have told."""

    arrived: int = 0  # packets with CE that came in by it
    left: int = 0  # packets that had CE when they came, and left by it
    marks: int = 0  # attributed to its queue


@dataclasses.dataclass
class _Switch:
    pace: Pace
    flows: dict[int, FlowStatistics] = dataclasses.field(default_factory=dict)  # by cookie
    ports: dict[int, _Port] = dataclasses.field(default_factory=dict)
    seen: set[int] = dataclasses.field(default_factory=set)  # cookies in the reply so far
    moved: dict[int, int] = dataclasses.field(default_factory=dict)  # cookie -> packets, in the reply so far
    missing: bool = False  # flows must be added again


class OpenFlowCe(MarkSource):
    """CE counted by flows at the next hop.

    ``period_ns`` is T_i, ``age_ns`` how old a switch's flow counters may be, ``refresh`` whether Open vSwitch is made
    to bring them up to date at each poll.
    """

    name = "openflow-ce"
    semantics = Semantics.ARRIVED
    tables = Tables(FORWARD_TABLE, LEAVE_TABLE)
    everywhere = True

    def __init__(self, topology: Topology, period_ns: int, age_ns: int, refresh: bool) -> None:
        super().__init__()
        self._period_ns = period_ns
        self._age_ns = period_ns if refresh else age_ns
        self._refresh = refresh
        self._upstream = Upstream(topology.peer, longest(period_ns, self._age_ns))
        self._topology = topology
        self._switches: dict[int, _Switch] = {}
        self._marks: dict[Hop, int] = {}

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "OpenFlowCe":
        """Return a source by settings."""
        return cls(topology, settings.period_us * 1000, settings.ce_counter_age_ms * 1_000_000, settings.ce_refresh)

    @property
    def freshness_ns(self) -> int:
        """Return how old flow counters may be."""
        return self._age_ns

    def prepare(self, dpid: int, ports: list[int]) -> bytes:
        """Return the counting flows of ports, and what takes all else past them."""
        switch = self._switches.setdefault(dpid, _Switch(Pace(self._period_ns, self._age_ns)))
        cookie = COOKIE | COUNTING
        messages = [self._pass_on()]
        for port in ports:
            switch.ports.setdefault(port, _Port())
            for family, eth_type in zip((0, _IPV6), IP_TYPES):
                messages.append(openflow.flow_add(
                    openflow.match(in_port=port, eth_type=eth_type, ip_ecn=CE),
                    (), PRIORITY_CE, cookie | family | port,
                    table=COUNT_TABLE, goto=FORWARD_TABLE, xid=PREPARE_XID,
                ))  # fmt: skip
                messages.append(openflow.flow_add(
                    openflow.match(metadata=port, eth_type=eth_type, ip_ecn=CE),
                    (), PRIORITY_CE, cookie | _LEAVES | family | port, table=LEAVE_TABLE, xid=PREPARE_XID,
                ))  # fmt: skip
        return b"".join(messages)

    @staticmethod
    def _pass_on() -> bytes:
        return openflow.flow_add(
            openflow.match(), (), 0, COOKIE | COUNTING | _REST,
            table=COUNT_TABLE, goto=FORWARD_TABLE, xid=PREPARE_XID,
        )  # fmt: skip

    @staticmethod
    def _nudge() -> bytes:
        """Return a flow-mod that changes nothing: the end of the pipeline drops what it gets, as without it."""
        return openflow.flow_add(openflow.match(), (), 0, COOKIE, table=LEAVE_TABLE, xid=PREPARE_XID)

    def request(self, dpid: int, xid: int) -> bytes:
        """Return a request for the counting flows, after what is missing of them."""
        switch = self._switches.get(dpid)
        data = b""
        if switch is not None and switch.missing:
            switch.missing = False
            data = self.prepare(dpid, sorted(switch.ports))
        data += openflow.flow_statistics_request(xid, COOKIE | COUNTING, COOKIE_MASK | COUNTING)
        return data + self._nudge() if self._refresh else data

    def take_flows(self, dpid: int, counts: list[FlowStatistics], last: bool, now_ns: int) -> list[PortMarks]:
        """Return the marks that CE counted since the last reply stands for, once the reply is whole."""
        switch = self._switches.get(dpid)
        if switch is None:
            return []
        for count in counts:
            ours = count.cookie & (COOKIE_MASK | COUNTING) == COOKIE | COUNTING
            if ours and (count.cookie & _REST or count.cookie & _PORT_MASK in switch.ports):
                self._compare(switch, count)
        return self._attribute(dpid, switch, now_ns) if last else []

    def _compare(self, switch: _Switch, count: FlowStatistics) -> None:
        before = switch.flows.get(count.cookie)
        switch.flows[count.cookie] = count
        switch.seen.add(count.cookie)
        if before is None:
            return
        moved = difference(before.packets, count.packets) if count.age_ns >= before.age_ns else None
        if moved is None:
            self.resets += 1
        elif moved:
            switch.moved[count.cookie] = moved

    def _attribute(self, dpid: int, switch: _Switch, now_ns: int) -> list[PortMarks]:
        seen, moved = switch.seen, switch.moved
        switch.seen, switch.moved = set(), {}
        absent = 4 * len(switch.ports) + 1 - len(seen)
        if absent > 0:
            self.faults["flows_missing"] += absent
            switch.missing = True
            switch.flows = {cookie: count for cookie, count in switch.flows.items() if cookie in seen}
        elapsed, interval = switch.pace.read(now_ns, bool(moved))
        arrivals: dict[int, int] = {}
        for cookie, packets in moved.items():
            if cookie & _REST:
                continue
            port = switch.ports[cookie & _PORT_MASK]
            if cookie & _LEAVES:
                port.left += packets
                self._upstream.left((dpid, cookie & _PORT_MASK), packets, now_ns)
            else:
                port.arrived += packets
                arrivals[cookie & _PORT_MASK] = arrivals.get(cookie & _PORT_MASK, 0) + packets
        fresh = []
        for number, packets in sorted(arrivals.items()):
            found = self._upstream.arrived((dpid, number), packets, now_ns)
            if found is None:
                continue
            point, marks = found
            self._marks[point] = self._marks.get(point, 0) + marks
            fresh.append(PortMarks(point, scale(marks, elapsed, interval), interval))
        return fresh

    def counted(self, dpid: int) -> bool:
        """Tell whether a switch showed its counting flows."""
        switch = self._switches.get(dpid)
        return switch is not None and any(not cookie & _REST for cookie in switch.flows)

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return each port's counts; marks are known only of ports with a switch behind them."""
        switch = self._switches.get(dpid)
        shown = {}
        for number, port in switch.ports.items() if switch else ():
            behind = self._topology.peer(dpid, number)
            known = behind is not None and self.counted(behind[0])
            shown[number] = Reading(
                marks=self._marks.get((dpid, number), 0) if known else None, ce_arrived=port.arrived
            )
        return shown

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port, or a switch: its next reading is a baseline."""
        self._upstream.forget(dpid, port)
        forget_place(self._marks, dpid, port)
        if port is None:
            self._switches.pop(dpid, None)
            return
        switch = self._switches.get(dpid)
        if switch is not None:
            switch.ports.pop(port, None)
            for part in (0, _LEAVES, _IPV6, _LEAVES | _IPV6):
                switch.flows.pop(COOKIE | COUNTING | part | port, None)
