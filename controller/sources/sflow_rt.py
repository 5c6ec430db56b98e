# SPDX-License-Identifier: Apache-2.0
"""Marks from sFlow-RT, by its REST API (sflow-rt.com: "Reference", "Defining Flows").

sFlow-RT is a collector that keeps rates of flows one defines.  Two definitions are put there, both of packets with CE
(filter ``ipecn=11|ip6ecn=11``, in binary digits), valued in frames a second:

    sdngcc-ce-in    by inputifindex: where CE arrives
    sdngcc-ce-out   by outputifindex: where what arrived with CE leaves

    GET /flow/json                                     which definitions there are
    PUT /flow/<name>/json                              {"keys", "value", "filter", "n", "t"}
    GET /activeflows/<agent>/<name>/json               [{"key": ifIndex, "value": rate}, ...]
    GET /dump/<agent>/ifname/json                      [{"dataSource": ifIndex, "metricValue": name}, ...]

A rate times the time since the answer before is a count; fractions are carried on.  Counts become marks of the
port upstream as with sflow.  sFlow-RT keeps 5 to 20 flows a data source and smooths over 0.2 s at least, so it is
slow and, where more than 20 ports of a switch see CE, incomplete: a second opinion, not a source for 5 ms.

Each agent is asked by a reader of its own with short time-outs.  Told apart: a server that answers late, not at all, or
nonsense (origin.py); ``answer_malformed``; ``port_unknown``; definitions that were gone (``restarts``).
"""

import dataclasses
import functools
import http.client
import json
import logging
import time
import urllib.parse
from typing import Any, Callable, Optional

from sdngcc.controller.mappings import read_agent, read_port, read_switch
from sdngcc.controller.network.topology import Hop, Topology, forget_place
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.base import Deliver, MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.origin import Origin
from sdngcc.controller.sources.pace import longest
from sdngcc.controller.sources.upstream import Upstream

FLOW_IN, FLOW_OUT = "sdngcc-ce-in", "sdngcc-ce-out"
FLOWS_MAX = 20  # sFlow-RT keeps no more a data source
SMOOTHING_MIN_S = 0.2
REPORTED_MAX = 4096
ANSWER_MAX_BYTES = 1 << 20
DEFINITIONS_EVERY_NS = 10_000_000_000  # they are looked for again, and names of interfaces read
TIMEOUT_S = 1.0
RETRY_S = 1.0

LOG = logging.getLogger(__name__)


class AnswerError(ValueError):
    """An answer that is not what was asked for; the text says how."""


@dataclasses.dataclass
class Agent:
    """An agent as sFlow-RT knows it."""

    address: str
    dpid: int
    origin: Origin
    defined_ns: Optional[int] = None  # when definitions were seen last
    asked_ns: Optional[int] = None  # when rates were told last
    names: dict[int, str] = dataclasses.field(default_factory=dict)  # ifIndex -> name
    parts: dict[Hop, float] = dataclasses.field(default_factory=dict)  # fractions of packets carried on
    answered: bool = False


class SFlowRtMarks(MarkSource):
    """CE as sFlow-RT sees it."""

    name = "sflow-rt"
    semantics = Semantics.ARRIVED
    polled = False

    def __init__(self, settings: Settings, topology: Topology) -> None:
        super().__init__()
        self._topology = topology
        self._server = urllib.parse.urlsplit(settings.sflow_rt_url)
        self._period_ns = settings.sflow_rt_period_ms * 1_000_000
        self._smoothing_s = max(SMOOTHING_MIN_S, settings.sflow_rt_period_ms / 1000)
        self._longest_ns = longest(self._period_ns, round(self._smoothing_s * 1e9))
        self._upstream = Upstream(topology.peer, self._longest_ns)
        self._numbers = {(one.dpid, int(one.name)): one.port for one in map(read_port, settings.sflow_ports)}
        self._marks: dict[Hop, int] = {}
        self._ce: dict[Hop, int] = {}
        self.agents = []
        for one in map(read_switch, settings.sflow_agents):
            address = one.name.partition("/")[0]
            read_agent(address)
            self.agents.append(Agent(address, one.dpid, Origin(address)))

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "SFlowRtMarks":
        """Return a source by settings."""
        return cls(settings, topology)

    @property
    def freshness_ns(self) -> int:
        """Return the time between two requests, the smoothing, and a second an agent may keep samples."""
        return self._period_ns + round(self._smoothing_s * 1e9) + 1_000_000_000

    # What the server says

    def definition(self, key: str) -> dict[str, Any]:
        """Return the definition of a flow of packets with CE by a key."""
        return {
            "keys": key,
            "value": "frames",
            "filter": "ipecn=11|ip6ecn=11",
            "n": FLOWS_MAX,
            "t": self._smoothing_s,
        }

    def take_names(self, agent: Agent, answer: Any) -> None:
        """Take the names of an agent's interfaces; raises AnswerError."""
        names = {}
        for one in _records(answer):
            if not (isinstance(one.get("dataSource"), str) and isinstance(one.get("metricValue"), str)):
                raise AnswerError("a name of an interface without dataSource or metricValue")
            if one["dataSource"].isdecimal():
                names[int(one["dataSource"][:10])] = one["metricValue"]
        agent.names = names

    def take_rates(self, agent: Agent, arriving: Any, leaving: Any, now_ns: int) -> list[PortMarks]:
        """Return the marks that rates of CE since the last answer stand for; raises AnswerError."""
        rates = [self._rates(agent, answer) for answer in (leaving, arriving)]
        before, agent.asked_ns, agent.answered = agent.asked_ns, now_ns, True
        if before is None:
            return []
        interval = max(1, min(now_ns - before, self._longest_ns))
        for port, packets in self._packets(agent, 1, rates[0], interval):
            self._upstream.left((agent.dpid, port), packets, now_ns)
        fresh = []
        for port, packets in self._packets(agent, 0, rates[1], interval):
            place = (agent.dpid, port)
            self._ce[place] = self._ce.get(place, 0) + packets
            found = self._upstream.arrived(place, packets, now_ns)
            if found is not None:
                self._marks[found[0]] = self._marks.get(found[0], 0) + found[1]
                fresh.append(PortMarks(*found, interval))
        return fresh

    def _rates(self, agent: Agent, answer: Any) -> dict[int, float]:
        """Return packets a second by port."""
        rates: dict[int, float] = {}
        for one in _records(answer):
            key, value = one.get("key"), one.get("value")
            if not isinstance(key, str) or isinstance(value, bool) or not isinstance(value, (int, float)):
                raise AnswerError("a flow without key or value")
            if not (0 <= value < 1e12 and key.isascii() and key.isdecimal()):
                raise AnswerError(f"a flow with key {key[:20]!r} and value {value}")
            port = self._port(agent, int(key[:10]))
            if port is None:
                self.faults["port_unknown"] += 1
            else:
                rates[port] = rates.get(port, 0.0) + value
        return rates

    def _packets(self, agent: Agent, way: int, rates: dict[int, float], interval_ns: int) -> list[tuple[int, int]]:
        """Return whole packets by port; what rounding took is carried on."""
        whole = []
        for port, rate in sorted(rates.items()):
            exact = rate * interval_ns / 1e9 + agent.parts.get((way, port), 0.0)
            agent.parts[(way, port)] = exact - int(exact)
            if exact >= 1:
                whole.append((port, int(exact)))
        return whole

    def _port(self, agent: Agent, index: int) -> Optional[int]:
        number = self._numbers.get((agent.dpid, index))
        name = agent.names.get(index)
        if number is not None or name is None:
            return number
        ports = self._topology.ports.get(agent.dpid, {})
        return next((number for number, port in ports.items() if port.name == name), None)

    # The rim

    def collectors(self, deliver: Deliver, clock: Callable[[], int]) -> list[Callable[[], None]]:
        """Return one endless reader an agent."""
        return [functools.partial(self._read_always, agent, deliver, clock) for agent in self.agents]

    def _read_always(self, agent: Agent, deliver: Deliver, clock: Callable[[], int]) -> None:
        due_ns = clock()
        while True:
            deliver(self.read(agent, clock))
            due_ns = max(due_ns + self._period_ns, clock())
            if agent.origin.state in ("silent", "refused"):
                due_ns = clock() + round(RETRY_S * 1e9)
            time.sleep(max(0, due_ns - clock()) / 1e9)

    def read(self, agent: Agent, clock: Callable[[], int], timeout_s: float = TIMEOUT_S) -> list[PortMarks]:
        """Ask for an agent once and return its new marks; a failure is noted, not raised."""
        begun = clock()
        server = http.client.HTTPConnection(self._server.hostname or "", self._server.port or 80, timeout=timeout_s)
        try:
            if agent.defined_ns is None or begun - agent.defined_ns >= DEFINITIONS_EVERY_NS:
                self._define(agent, server, begun)
            query = f"json?aggMode=sum&maxFlows={REPORTED_MAX}"
            arriving, leaving = (
                _ask(server, "GET", f"/activeflows/{agent.address}/{name}/{query}") for name in (FLOW_IN, FLOW_OUT)
            )
            now = clock()
            fresh = self.take_rates(agent, arriving, leaving, now)
        except AnswerError as error:
            self.faults["answer_malformed"] += 1
            self._failed(agent, "refused", error)
            return []
        except (OSError, http.client.HTTPException) as error:
            self._failed(agent, "silent", error)
            return []
        finally:
            server.close()
        agent.origin.heard(now, in_time=now - begun <= self._period_ns)
        self.news.heard(agent.dpid, now)
        return fresh

    def _define(self, agent: Agent, server: http.client.HTTPConnection, now_ns: int) -> None:
        """Put the definitions there if they are not, and read the names of interfaces."""
        known = _ask(server, "GET", "/flow/json")
        if not isinstance(known, (dict, list)):
            raise AnswerError("no list of flow definitions")
        missing = [name for name in (FLOW_IN, FLOW_OUT) if name not in known]
        if missing and agent.answered:
            self.restarts += 1
        for name in missing:
            key = "inputifindex" if name == FLOW_IN else "outputifindex"
            _ask(server, "PUT", f"/flow/{name}/json", self.definition(key))
        self.take_names(agent, _ask(server, "GET", f"/dump/{agent.address}/ifname/json"))
        agent.defined_ns = now_ns

    def _failed(self, agent: Agent, state: str, error: Exception) -> None:
        agent.defined_ns = None
        if agent.origin.failed(state, f"{type(error).__name__}: {error}"):
            LOG.warning("sflow-rt: server is %s when asked for agent %s: %s", state, agent.address, agent.origin.error)

    # What is known

    def counted(self, dpid: int) -> bool:
        """Tell whether the server answered for a switch."""
        return any(agent.dpid == dpid and agent.answered for agent in self.agents)

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return each port's counts; marks are known of ports whose other end is sampled."""
        shown = {}
        for number in self._topology.ports.get(dpid, {}):
            behind = self._topology.peer(dpid, number)
            shown[number] = Reading(
                marks=self._marks.get((dpid, number), 0) if behind and self.counted(behind[0]) else None,
                ce_arrived=self._ce.get((dpid, number), 0) if self.counted(dpid) else None,
            )
        return shown

    def origins(self, now_ns: int) -> list[dict[str, Any]]:
        """Return the agents and how the server answers for them."""
        return [{**one.origin.view(now_ns), "switch": f"{one.dpid:016x}"} for one in self.agents]

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget what was counted at a port, or at a switch."""
        self._upstream.forget(dpid, port)
        forget_place(self._marks, dpid, port)
        forget_place(self._ce, dpid, port)


def _records(answer: Any) -> list[dict[str, Any]]:
    """Return an answer's records; raises AnswerError."""
    if not isinstance(answer, list) or not all(isinstance(one, dict) for one in answer):
        raise AnswerError("no list of records")
    if len(answer) > REPORTED_MAX:
        raise AnswerError(f"{len(answer)} records; {REPORTED_MAX} at most")
    return answer


def _ask(server: http.client.HTTPConnection, method: str, path: str, content: Any = None) -> Any:
    """Return the JSON of an answer, None of one to a PUT; raises AnswerError, OSError or HTTPException."""
    body = None if content is None else json.dumps(content)
    server.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = server.getresponse()
    text = answer.read(ANSWER_MAX_BYTES + 1)
    if answer.status // 100 != 2:
        raise AnswerError(f"{method} {path}: {answer.status} {answer.reason}")
    if len(text) > ANSWER_MAX_BYTES:
        raise AnswerError(f"{path}: more than {ANSWER_MAX_BYTES} bytes")
    if method == "PUT":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise AnswerError(f"{path}: no JSON") from None
