# SPDX-License-Identifier: Apache-2.0
"""Marks from sFlow version 5: sampled packets with CE, at the next hop.

A switch samples one packet in N as it arrives, so a sample with CE shows a mark that a queue before set, and stands
for N.  Its input interface is where CE arrived, its output where it leaves; upstream.py makes marks of the two.
Open vSwitch samples on reception too, whatever its own queues mark afterwards.

Samples of ``sflow_window_ms`` are handed on together.  An agent sends a datagram when it is full or a second old, so
samples are up to a second old.

Interfaces are known by ifIndex.  Its OpenFlow number is, in this order: as set; as the agent tells in counter
samples (record 1004, Open vSwitch has it); that of the port with the name it tells (record 1005).  A compact data
source has the lower 24 bits of an ifIndex only.  An agent may speak of the datapaths set for it only; one that has
several (Open vSwitch: a sub-agent for each bridge) tells by record 1004 which is which.

sFlow has no proof of who speaks, so a datagram is believed only as far as it can be true: it comes from the agent's
own address, or those set for it; no more packets are sampled than the agent's pool has moved by (``pool_implausible``),
and no more than pass a line of that speed (``line_rate``).

Told apart:

- datagrams that cannot be read, by kind (``malformed_...``), and parts of others that cannot (``skipped_...``);
- of agents not set (``agent_unknown``); from another address than the agent's (``sender_foreign``);
- one that came twice (``duplicate``), late (``reordered``), or never (``datagrams_lost``: their samples are missing,
  nothing is made up for them);
- an agent that restarted (sequence and uptime went back): ``restarts``, counters begin anew;
- CE by interfaces without a number (``port_unknown``), or by none that is told (``interface_untold``);
- an agent whose samples match no port (``samples_unmatched``, origin ``unmatched``);
- sub-agents and interfaces beyond the bounds (``table_full``);
- an agent silent for SILENT_NS.
"""

import dataclasses
import ipaddress
import logging
import math
import socket
import time
from typing import Any, Callable, Optional

from sdngcc.controller.mappings import Agent, Network, read_agent, read_port, read_sender, read_switch
from sdngcc.controller.network.topology import Hop, Topology, forget_place
from sdngcc.controller.settings import Settings, split_address
from sdngcc.controller.sources.base import Deliver, MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.origin import Origin
from sdngcc.controller.sources.pace import Pace, difference, longest, scale
from sdngcc.controller.sources.plausible import frames_max, told_rate
from sdngcc.controller.sources.sflow_datagram import (
    CE,
    DATAGRAM_MAX_BYTES,
    CounterSample,
    Datagram,
    DatagramError,
    FlowSample,
    Source,
    decode,
    origin,
)
from sdngcc.controller.sources.upstream import Upstream

FLUSH_NS = 1_000_000_000  # agents keep a datagram that is not full this long
SILENT_NS = 30_000_000_000
LATE_MAX = 1000  # datagrams; one further back is of another life of the agent
UPTIME_SLACK_MS = 1000
SUB_AGENTS_MAX = 64  # of one address
INTERFACES_MAX = 4096  # of one sub-agent
TURN = 128  # datagrams and samples in a row before others have their turn
POOL_SLACK = 64  # samples by which a sampler's chance may be ahead of its pool
UNMATCHED_SAMPLES = 100  # in a row without a port, of an agent that had one before
WARN_NS = 60_000_000_000  # between two warnings of a kind
_CUT = 1 << 24  # a compact data source's index has so many values

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class _Interface:
    """What an interface's counters told."""

    port: Optional[int] = None  # OpenFlow number the agent told
    name: Optional[str] = None
    out_bytes: Optional[int] = None
    packets_32: Optional[int] = None  # as told
    drops_32: Optional[int] = None
    packets: int = 0  # since the first counters, wraps undone
    drops: int = 0
    speed: int = 0  # bytes/s, as told; 0: not told
    cut: bool = False  # known by the lower 24 bits of its ifIndex


@dataclasses.dataclass
class _Sampler:
    """What a data source told of the packets it samples from."""

    sequence: int
    pool: int
    credit: int  # packets that samples to come may stand for


@dataclasses.dataclass
class _SubAgent:
    origin: Origin
    pace: Pace
    dpid: Optional[int]
    sequence: Optional[int] = None
    uptime_ms: int = 0
    interfaces: dict[int, _Interface] = dataclasses.field(default_factory=dict)  # by ifIndex
    whole: dict[int, int] = dataclasses.field(default_factory=dict)  # ifIndexes above 24 bits by their lower 24
    arrived: dict[int, int] = dataclasses.field(default_factory=dict)  # OpenFlow port -> packets in this window
    left: dict[int, int] = dataclasses.field(default_factory=dict)
    speeds: dict[int, int] = dataclasses.field(default_factory=dict)  # of these ports, bytes/s; 0: not told
    samplers: dict[Source, _Sampler] = dataclasses.field(default_factory=dict)
    sampled: bool = False  # flow samples came in this window
    matched: bool = False  # a sample was of a known port, ever
    astray: int = 0  # samples in a row that were not
    last_index: Optional[int] = None  # ifIndex of the last of these; None: not told
    unmatched: str = ""  # why, while that is told
    samples: int = 0
    ce_samples: int = 0


class SFlowMarks(MarkSource):
    """CE in sampled packets."""

    name = "sflow"
    semantics = Semantics.ARRIVED
    polled = False

    def __init__(self, settings: Settings, topology: Topology) -> None:
        super().__init__()
        self._topology = topology
        self._listen = split_address(settings.sflow_listen)
        self._window_ns = settings.sflow_window_ms * 1_000_000
        self._upstream = Upstream(topology.peer, longest(self._window_ns, FLUSH_NS))
        self._numbers = {(one.dpid, int(one.name)): one.port for one in map(read_port, settings.sflow_ports)}
        self._numbers_cut = {
            (dpid, index % _CUT): port for (dpid, index), port in self._numbers.items() if index >= _CUT
        }
        self._allowed: dict[Agent, set[int]] = {}
        for one in map(read_switch, settings.sflow_agents):
            self._allowed.setdefault(read_agent(one.name), set()).add(one.dpid)
        self._senders: dict[bytes, list[Network]] = {}
        for sender in map(read_sender, settings.sflow_senders):
            self._senders.setdefault(sender.agent, []).append(sender.network)
        self._agents: dict[tuple[bytes, int], _SubAgent] = {}
        self._named: dict[int, dict[str, int]] = {}  # numbers of ports by name, as of this window, by switch
        self._warned_ns: dict[str, int] = {}  # by kind of fault
        self._marks: dict[Hop, int] = {}
        self._ce: dict[Hop, int] = {}

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "SFlowMarks":
        """Return a source by settings."""
        return cls(settings, topology)

    @property
    def freshness_ns(self) -> int:
        """Return how long an agent may keep a sample, and the window."""
        return FLUSH_NS + self._window_ns

    # What agents say

    def feed(self, data: bytes, now_ns: int, sender: Optional[str] = None) -> int:
        """Take a datagram that came from ``sender``, an IP address (None: it is not known); return the work it was."""
        try:
            key = origin(data)
            if not self._may_send(key, sender, now_ns):
                return 1
            datagram = decode(data)
        except DatagramError as error:
            self.faults[f"malformed_{error.kind.value}"] += 1
            return 1
        for kind, count in datagram.skipped.items():
            self.faults[f"skipped_{kind.value}"] += count
        work = 1 + len(datagram.samples)
        agent = self._find(datagram)
        if agent is None or not self._in_order(agent, datagram):
            return work
        agent.origin.heard(now_ns, in_time=True)
        if agent.unmatched:
            agent.origin.state, agent.origin.error = "unmatched", agent.unmatched
        for sample in datagram.samples:
            if isinstance(sample, CounterSample):
                self._take_counters(agent, datagram, sample)
            else:
                self._take_flow(agent, sample)
        return work

    def _may_send(self, key: tuple[bytes, int], sender: Optional[str], now_ns: int) -> bool:
        """Tell whether to read a datagram of an agent from an address."""
        agent = key[0]
        if not self._dpids(*key):
            self._refuse("agent_unknown", now_ns, "agent %s is not in sflow_agents", ipaddress.ip_address(agent))
            return False
        if sender is None:
            return True
        came = ipaddress.ip_address(sender.partition("%")[0])
        came = getattr(came, "ipv4_mapped", None) or came
        if came.packed == agent or any(came in network for network in self._senders.get(agent, ())):
            return True
        self._refuse(
            "sender_foreign", now_ns,
            "datagrams of agent %s come from %s, which is not its address; sflow_senders can allow that",
            ipaddress.ip_address(agent), came,
        )  # fmt: skip
        return False

    def _refuse(self, kind: str, now_ns: int, text: str, *words: object) -> None:
        """Count what is refused, and tell the log now and then."""
        self.faults[kind] += 1
        if now_ns - self._warned_ns.get(kind, -WARN_NS) >= WARN_NS:
            self._warned_ns[kind] = now_ns
            LOG.warning("sflow: " + text, *words)

    def _find(self, datagram: Datagram) -> Optional[_SubAgent]:
        key = (datagram.agent, datagram.sub)
        known = self._agents.get(key)
        if known is not None:
            return known
        if sum(address == datagram.agent for address, _ in self._agents) >= SUB_AGENTS_MAX:
            self.faults["table_full"] += 1
            return None
        allowed = self._dpids(*key)
        name = f"{ipaddress.ip_address(datagram.agent)}/{datagram.sub}"
        dpid = next(iter(allowed)) if len(allowed) == 1 else None
        made = self._agents[key] = _SubAgent(Origin(name), Pace(self._window_ns, FLUSH_NS), dpid)
        LOG.info("sflow: agent %s reports", name)
        return made

    def _dpids(self, address: bytes, sub: int) -> set[int]:
        return self._allowed.get(Agent(address, sub)) or self._allowed.get(Agent(address, None), set())

    def _in_order(self, agent: _SubAgent, datagram: Datagram) -> bool:
        """Tell whether to read a datagram, by its sequence number; notes what is missing."""
        before, agent_uptime = agent.sequence, agent.uptime_ms
        if before is None:
            agent.sequence, agent.uptime_ms = datagram.sequence, datagram.uptime_ms
            return True
        ahead = (datagram.sequence - before) & 0xFFFFFFFF
        if ahead == 0 and datagram.uptime_ms == agent_uptime:
            self.faults["duplicate"] += 1
            return False
        behind = -ahead & 0xFFFFFFFF
        uptime_back = (agent_uptime - datagram.uptime_ms) & 0xFFFFFFFF
        if 0 < behind <= LATE_MAX and not UPTIME_SLACK_MS < uptime_back < 1 << 31:
            self.faults["reordered"] += 1
            return True
        if ahead == 0 or ahead >= 1 << 31 or UPTIME_SLACK_MS < uptime_back < 1 << 31:
            self.restarts += 1
            agent.interfaces.clear()
            agent.whole.clear()
            agent.samplers.clear()
        elif ahead > 1:
            self.faults["datagrams_lost"] += ahead - 1
        agent.sequence, agent.uptime_ms = datagram.sequence, datagram.uptime_ms
        return True

    def _take_counters(self, agent: _SubAgent, datagram: Datagram, sample: CounterSample) -> None:
        index = sample.if_index if sample.if_index is not None else sample.source.number
        if sample.dpid is not None:
            if sample.dpid not in self._dpids(datagram.agent, datagram.sub):
                self.faults["datapath_foreign"] += 1
                return
            agent.dpid = sample.dpid
        known = agent.interfaces.get(index)
        if known is None:
            if len(agent.interfaces) >= INTERFACES_MAX:
                self.faults["table_full"] += 1
                return
            known = agent.interfaces[index] = _Interface()
            if index >= _CUT:
                agent.whole[index % _CUT] = index
        known.port = known.port if sample.port is None else sample.port
        known.name = known.name if sample.name is None else sample.name
        known.speed = sample.speed or known.speed
        known.cut = sample.compact and sample.if_index is None
        known.out_bytes = known.out_bytes if sample.out_bytes is None else sample.out_bytes
        known.packets += self._moved(known.packets_32, sample.out_packets)
        known.drops += self._moved(known.drops_32, sample.out_drops)
        known.packets_32, known.drops_32 = sample.out_packets, sample.out_drops

    def _moved(self, before: Optional[int], after: Optional[int]) -> int:
        """Return how far a counter of 32 bits moved; 0 for a baseline."""
        if before is None or after is None:
            return 0
        moved = difference(before, after, bits=32)
        if moved is None:
            self.resets += 1
        return moved or 0

    def _take_flow(self, agent: _SubAgent, sample: FlowSample) -> None:
        agent.sampled = True
        agent.samples += 1
        if not self._in_pool(agent, sample):
            return
        arrived = None if sample.input is None else self._port(agent, sample.input)
        if arrived is None:
            agent.astray += 1
            if agent.unmatched:
                self.faults["samples_unmatched"] += 1
            agent.last_index = sample.input
        else:
            agent.matched, agent.astray = True, 0
        if sample.ecn != CE:
            return
        agent.ce_samples += 1
        left = None if sample.output is None else self._port(agent, sample.output)
        if sample.input is None:
            self.faults["interface_untold"] += 1
        for index, port, counts in ((sample.input, arrived, agent.arrived), (sample.output, left, agent.left)):
            if port is not None and index is not None:
                counts[port] = counts.get(port, 0) + sample.rate
                agent.speeds[port] = agent.interfaces[index].speed if index in agent.interfaces else 0
            elif index is not None:
                self.faults["port_unknown"] += 1

    def _in_pool(self, agent: _SubAgent, sample: FlowSample) -> bool:
        """Tell whether so many packets were there to be sampled; an agent that tells no pool has 0 there."""
        slack = POOL_SLACK * sample.rate
        known = agent.samplers.get(sample.source)
        if known is None:
            if len(agent.samplers) >= INTERFACES_MAX:
                self.faults["table_full"] += 1
            else:
                agent.samplers[sample.source] = _Sampler(sample.sequence, sample.pool, slack)
            return True
        moved = (sample.pool - known.pool) & 0xFFFFFFFF
        begun = (sample.sequence - known.sequence) & 0xFFFFFFFF >= 1 << 31 or moved >= 1 << 31
        known.sequence, known.pool = sample.sequence, sample.pool
        if begun or not sample.pool:
            return True
        known.credit = min(known.credit + 2 * moved, slack) - sample.rate
        if known.credit >= 0:
            return True
        known.credit = 0
        self.faults["pool_implausible"] += 1
        return False

    def _port(self, agent: _SubAgent, index: int) -> Optional[int]:
        """Return the OpenFlow number of an interface."""
        if agent.dpid is None:
            return None
        number = self._numbers.get((agent.dpid, index))
        if number is None and index < _CUT:
            number = self._numbers_cut.get((agent.dpid, index))
        known = agent.interfaces.get(index)
        if known is None and index >= _CUT:
            known = agent.interfaces.get(index % _CUT)
            known = known if known is not None and known.cut else None
        elif known is None:
            known = agent.interfaces.get(agent.whole.get(index, index))
        if number is not None or known is None:
            return number
        if known.port is not None:
            return known.port
        return None if known.name is None else self._numbers_by_name(agent.dpid).get(known.name)

    def _numbers_by_name(self, dpid: int) -> dict[str, int]:
        """Return the numbers of a switch's ports by name; of several with one name, that of the first."""
        named = self._named.get(dpid)
        if named is None:
            ports = self._topology.ports.get(dpid, {})
            named = self._named[dpid] = {port.name: number for number, port in reversed(ports.items())}
        return named

    def _tell_matching(self, agent: _SubAgent) -> None:
        """Tell of an agent whose samples match no port, once, and when they do again."""
        if agent.unmatched and not agent.astray:
            agent.unmatched = ""
            LOG.info("sflow: samples of agent %s match ports", agent.origin.name)
        elif not agent.unmatched and agent.astray >= (UNMATCHED_SAMPLES if agent.matched else 1):
            index = "none" if agent.last_index is None else f"ifIndex {agent.last_index}"
            agent.unmatched = (
                "no counter sample says of which datapath it is (record 1004)" if agent.dpid is None else
                f"samples match no port of the switch, the last one's input is {index}: set sflow_ports, or let the "
                "agent send counter samples with names of ports"
            )  # fmt: skip
            agent.origin.failed("unmatched", agent.unmatched)
            self.faults["samples_unmatched"] += agent.astray
            LOG.warning("sflow: agent %s: %s", agent.origin.name, agent.unmatched)

    def close_window(self, now_ns: int) -> list[PortMarks]:
        """Return the marks of the window that ends now."""
        fresh: dict[Hop, tuple[int, int, int]] = {}
        agents = [agent for agent in self._agents.values() if agent.dpid is not None]
        self._named.clear()
        paces = [agent.pace.read(now_ns, agent.sampled) for agent in agents]
        for agent, (elapsed, _) in zip(agents, paces):
            for port, packets in self._possible(agent, agent.left, elapsed):
                self._upstream.left((agent.dpid or 0, port), packets, now_ns)
        for agent, (elapsed, interval) in zip(agents, paces):
            if agent.sampled and agent.dpid is not None:
                self.news.heard(agent.dpid, now_ns)
            for port, packets in self._possible(agent, agent.arrived, elapsed):
                place = (agent.dpid or 0, port)
                self._ce[place] = self._ce.get(place, 0) + packets
                found = self._upstream.arrived(place, packets, now_ns)
                if found is not None:
                    fresh[found[0]] = (found[1], elapsed, interval)
            agent.arrived, agent.left, agent.speeds, agent.sampled = {}, {}, {}, False
        for agent in self._agents.values():
            self._tell_matching(agent)
            if agent.origin.state != "silent" and now_ns - agent.origin.heard_ns > SILENT_NS:
                agent.origin.failed("silent", f"no datagram for {SILENT_NS // 1_000_000_000} s")
                LOG.warning("sflow: agent %s is silent", agent.origin.name)
        for point, (marks, _, _) in fresh.items():
            self._marks[point] = self._marks.get(point, 0) + marks
        return [
            PortMarks(point, scale(marks, elapsed, interval), interval)
            for point, (marks, elapsed, interval) in sorted(fresh.items())
        ]

    def _possible(self, agent: _SubAgent, counts: dict[int, int], elapsed_ns: int) -> list[tuple[int, int]]:
        """Return the packets of a window by port, without those of ports that cannot carry so many."""
        found = []
        for port, packets in sorted(counts.items()):
            speed = agent.speeds.get(port)
            if packets <= frames_max(elapsed_ns, told_rate(speed) if speed else math.inf):
                found.append((port, packets))
            else:
                self.faults["line_rate"] += 1
        return found

    # The rim

    def collectors(self, deliver: Deliver, clock: Callable[[], int]) -> list[Callable[[], None]]:
        """Return the one reader of the socket."""
        return [lambda: self._receive_always(deliver, clock)]

    def _receive_always(self, deliver: Deliver, clock: Callable[[], int]) -> None:
        family = socket.AF_INET6 if ":" in self._listen[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind(self._listen)
            LOG.info("sflow: listening at %s port %d", *self._listen)
            end_ns = clock() + self._window_ns
            turn = 0
            while True:
                left_ns = end_ns - clock()
                if left_ns <= 0:
                    deliver(self.close_window(clock()))
                    end_ns = max(end_ns + self._window_ns, clock())
                    continue
                sock.settimeout(left_ns / 1e9)
                try:
                    data, sender = sock.recvfrom(DATAGRAM_MAX_BYTES)
                except (socket.timeout, ConnectionError):
                    continue
                turn += self.feed(data, clock(), sender[0])
                if turn >= TURN:
                    turn = 0
                    time.sleep(0)

    # What is known

    def counted(self, dpid: int) -> bool:
        """Tell whether an agent sends samples of a switch."""
        return any(agent.dpid == dpid and agent.samples for agent in self._agents.values())

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return each port's counts; marks are known of ports whose other end is sampled."""
        shown = {}
        told = {}
        for agent in self._agents.values():
            if agent.dpid == dpid:
                told.update({self._port(agent, index): known for index, known in agent.interfaces.items()})
        for number in self._topology.ports.get(dpid, {}):
            behind = self._topology.peer(dpid, number)
            known = told.get(number)
            shown[number] = Reading(
                marks=self._marks.get((dpid, number), 0) if behind and self.counted(behind[0]) else None,
                packets=known.packets if known else None,
                bytes=known.out_bytes if known else None,
                drops=known.drops if known else None,
                ce_arrived=self._ce.get((dpid, number), 0) if self.counted(dpid) else None,
            )
        return shown

    def origins(self, now_ns: int) -> list[dict[str, Any]]:
        """Return the agents."""
        return [
            {
                **agent.origin.view(now_ns),
                "switch": None if agent.dpid is None else f"{agent.dpid:016x}",
                "samples": agent.samples,
                "ce_samples": agent.ce_samples,
                "interfaces": len(agent.interfaces),
            }
            for agent in self._agents.values()
        ]

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget what was counted at a port, or at a switch; its agent lives on."""
        self._named.pop(dpid, None)
        self._upstream.forget(dpid, port)
        forget_place(self._marks, dpid, port)
        forget_place(self._ce, dpid, port)
