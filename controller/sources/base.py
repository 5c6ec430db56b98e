# SPDX-License-Identifier: Apache-2.0
"""What every mark source is: it turns what switches say into new marks of ports.

A source is *polled* (``request`` goes to each switch every T_i over OpenFlow, ``take`` or ``take_flows`` get the
answer) or *collected* (something outside OpenFlow tells it, and what collectors.py runs for it hands on what it
finds).  Either way:

- ``semantics`` says what a mark counted means.  What a source returns are always marks of the port whose queue
  set them: one that only sees CE arrive attributes it upstream itself (upstream.py).
- ``freshness_ns`` says how old a count may be when it is read, by configuration; an interval is never reported
  longer than twice that or T_i (pace.py).
- ``news`` says how often counters were really heard of, by switch (news.py).
- a counter's first value, and the first after a reset, is a baseline: no marks.  A counter that is not there
  is no counter, never zero.
"""

import abc
import collections
import enum
from typing import Any, Callable, Iterator, NamedTuple, Optional

from sdngcc.controller.forwarding.installer import Tables
from sdngcc.controller.network.topology import Hop, Topology
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.news import News
from sdngcc.controller.wire.experimenter import Reply
from sdngcc.controller.wire.openflow import FlowStatistics

PREPARE_XID = 0x80000001  # no request has it: those count from 1 to 0x7fffffff


class Semantics(enum.Enum):
    """What a mark counted at a port means."""

    SET_HERE = "the port's own queue set it"
    ARRIVED = "a packet came in with CE, set by a switch before"


class PortMarks(NamedTuple):
    """New marks of a port."""

    point: Hop  # the port whose queue set them
    marks: int  # more than 0
    interval_ns: int  # over which they were counted
    carried: float = 0.0  # bytes/s that the port sent meanwhile, if a queue stood there all the time; 0: not known


Deliver = Callable[[list[PortMarks]], None]


class Reading(NamedTuple):
    """What has been counted at a port; None: no such counter."""

    marks: Optional[int]
    queues: tuple[str, ...] = ()  # kinds of queue that count them, where the source tells
    packets: Optional[int] = None  # sent
    bytes: Optional[int] = None  # sent
    drops: Optional[int] = None
    backlog_bytes: Optional[int] = None
    backlog_packets: Optional[int] = None
    ce_arrived: Optional[int] = None  # packets that came in with CE


class MarkSource(abc.ABC):
    """One way to learn of marks."""

    name: str
    semantics: Semantics
    polled = True  # asks the switches themselves, over OpenFlow
    asks_for: Optional[int] = None  # the experimenter reply that answers its request
    tables = Tables()
    everywhere = False  # hypervisors are asked as often as fabric switches: they see what the fabric marked

    def __init__(self) -> None:
        self.news = News()
        self.resets = 0
        self.restarts = 0
        self.faults: collections.Counter[str] = collections.Counter()  # what was refused or missing, by kind

    @classmethod
    @abc.abstractmethod
    def make(cls, settings: Settings, topology: Topology) -> "MarkSource":
        """Return a source by settings; raises SettingsError when a file they name is unusable."""

    @property
    @abc.abstractmethod
    def freshness_ns(self) -> int:
        """Return how old a count may be when it is read."""

    def prepare(self, dpid: int, ports: list[int]) -> bytes:
        """Return the OpenFlow messages, all of transaction id PREPARE_XID, that ``ports`` of a switch need."""
        return b""

    def request(self, dpid: int, xid: int) -> bytes:
        """Return the OpenFlow message that asks a switch for its marks; empty if none is to be sent."""
        return b""

    def answered(self, dpid: int, now_ns: int) -> None:
        """Take note that a switch whose marks matter answered a request."""
        self.news.heard(dpid, now_ns)

    def take(self, dpid: int, reply: Reply) -> list[PortMarks]:
        """Return the new marks in an experimenter reply."""
        return [one for fresh in self.take_in_steps(dpid, reply) for one in fresh]

    def take_in_steps(self, dpid: int, reply: Reply) -> Iterator[list[PortMarks]]:
        """Yield the new marks in an experimenter reply, some entries at a time; others run in between."""
        yield from ()

    def take_flows(self, dpid: int, counts: list[FlowStatistics], last: bool, now_ns: int) -> list[PortMarks]:
        """Return the new marks in one part of a flow statistics reply."""
        return []

    def collectors(self, deliver: Deliver, clock: Callable[[], int]) -> list[Callable[[], None]]:
        """Return functions that run side by side for ever and hand fresh marks on; none for a polled source.

        They may sleep and wait for sockets: each runs in a greenlet of its own, with the standard library patched.
        """
        return []

    @abc.abstractmethod
    def counted(self, dpid: int) -> bool:
        """Tell whether a switch has any mark counter."""

    @abc.abstractmethod
    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return the last reading of each port of a switch."""

    def reading(self, dpid: int, port: int) -> Optional[Reading]:
        """Return the last reading of a port, None where there is none."""
        return self.readings(dpid).get(port)

    def origins(self, now_ns: int) -> list[dict[str, Any]]:
        """Return what feeds a collected source, for people: name, state, age of the last news, counters."""
        return []

    @abc.abstractmethod
    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone, or a whole switch."""

    def view(self, now_ns: int) -> dict[str, Any]:
        """Return what the source is and how it goes, for people."""
        return {
            "name": self.name,
            "semantics": self.semantics.value,
            "freshness_ms": self.freshness_ns / 1e6,
            "resets": self.resets,
            "restarts": self.restarts,
            "faults": dict(sorted(self.faults.items())),
            "origins": self.origins(now_ns),
        }
