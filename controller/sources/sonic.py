# SPDX-License-Identifier: Apache-2.0
"""Marks of SONiC switches, from the Redis database they keep their counters in.

SONiC's syncd copies the ASIC's counters (SAI) into COUNTERS_DB, Redis database 2, at a pace of its own for each
group of counters; the names are SONiC's ("WRED and ECN Statistics", high-level design):

    COUNTERS_PORT_NAME_MAP    hash: Ethernet0 -> oid of the port
    COUNTERS_QUEUE_NAME_MAP   hash: Ethernet0:3 -> oid of its queue 3
    COUNTERS:<oid>            hash: names of SAI counters -> decimal text, 64 bits

A port's marks are the sum over its queues of SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS: packets this switch marked
there.  A field that is not there is no counter, never zero: the platform has none, or the group is disabled.

Told apart:

- first value of a queue: a baseline; the same after its oid changed (``restarts``: the switch made its objects anew);
- a value that went back: a wrap of 64 bits when it was near the end, else a reset, and a new baseline;
- no such field, or a hash that is gone (``counter_missing``); a value that is no number (``value_malformed``);
- a port without an OpenFlow number, by setting or by name (``port_unknown``);
- a database that answers late, does not answer, or refuses (origin.py).
"""

import dataclasses
import functools
import logging
import time
from typing import Any, Callable, Optional

from sdngcc.controller.mappings import read_switch
from sdngcc.controller.network.topology import Topology
from sdngcc.controller.settings import Settings, read_secret, split_address
from sdngcc.controller.sources.base import Deliver, MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.origin import Origin
from sdngcc.controller.sources.pace import Pace, difference, scale
from sdngcc.controller.sources.ports import NamedPorts

COUNTERS_DB = 2
PORT_MAP = "COUNTERS_PORT_NAME_MAP"
QUEUE_MAP = "COUNTERS_QUEUE_NAME_MAP"
MARKED = "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"
QUEUE_FIELDS = (MARKED, "SAI_QUEUE_STAT_PACKETS")
PORT_FIELDS = (
    "SAI_PORT_STAT_IF_OUT_UCAST_PKTS",
    "SAI_PORT_STAT_IF_OUT_OCTETS",
    "SAI_PORT_STAT_IF_OUT_DISCARDS",
)
MAPS_EVERY_NS = 10_000_000_000  # names and oids are read again
TIMEOUT_S = 1.0
RETRY_S = 1.0
RETRY_MAX_S = 60.0  # after answers that cost too much, each time twice as long
ANSWER_MAX_BYTES = 2 << 20  # of one reading: the counters of some 10,000 queues
READING_S = 10.0  # for all of it
_CHUNK_BYTES = 4096  # read at once, after which others have their turn

LOG = logging.getLogger(__name__)

Hashes = list[list[Optional[str]]]


class Excess(Exception):
    """An answer that is longer, or takes longer, than a database of counters has reason to."""


class Meter:
    """What one reading may bring; begin() begins the next one."""

    def __init__(self) -> None:
        self._bytes = 0
        self._begun_s = 0.0

    def begin(self) -> None:
        """Begin a reading."""
        self._bytes, self._begun_s = 0, time.monotonic()

    def take(self, size: int) -> None:
        """Count bytes that came, and let others run; raises Excess."""
        self._bytes += size
        if self._bytes > ANSWER_MAX_BYTES:
            raise Excess(f"it answered with more than {ANSWER_MAX_BYTES} bytes")
        if time.monotonic() - self._begun_s > READING_S:
            raise Excess(f"its answer took more than {READING_S:g} s")
        time.sleep(0)


class _Metered:
    """A socket whose bytes are counted."""

    def __init__(self, sock: Any, meter: Meter) -> None:
        self._sock = sock
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        """Return what the socket itself has."""
        return getattr(self._sock, name)

    def recv(self, size: int) -> bytes:
        """Return some bytes that came; raises Excess, or what the socket does."""
        data: bytes = self._sock.recv(min(size, _CHUNK_BYTES))
        self._meter.take(len(data))
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        """Put some bytes that came into a buffer; raises Excess, or what the socket does."""
        count = int(self._sock.recv_into(buffer, min(size or len(buffer), _CHUNK_BYTES), flags))
        self._meter.take(count)
        return count


@dataclasses.dataclass
class _Queue:
    port: str
    marked: Optional[int] = None  # last value


@dataclasses.dataclass
class _Port:
    oid: str
    reading: Reading = Reading(None)


@dataclasses.dataclass
class Switch:
    """A SONiC switch and what its database said."""

    dpid: int
    address: tuple[str, int]
    pace: Pace
    origin: Origin
    maps_ns: Optional[int] = None  # when the names were read
    queues: dict[str, _Queue] = dataclasses.field(default_factory=dict)  # by oid
    ports: dict[str, _Port] = dataclasses.field(default_factory=dict)  # by name
    totals: dict[str, int] = dataclasses.field(default_factory=dict)  # marks by port's name, since the start
    last: Optional[tuple[Hashes, Hashes]] = None
    meter: Meter = dataclasses.field(default_factory=Meter)
    retry_s: float = RETRY_S  # until it is asked again after a failure


class SonicMarks(MarkSource):
    """Marks of SONiC's COUNTERS_DB.  ``password`` None: none is sent."""

    name = "sonic"
    semantics = Semantics.SET_HERE
    polled = False

    def __init__(self, settings: Settings, topology: Topology, password: Optional[str]) -> None:
        super().__init__()
        self._password = password
        self._period_ns = settings.sonic_period_ms * 1_000_000
        self._age_ns = settings.sonic_counter_age_ms * 1_000_000
        self._named = NamedPorts(settings.sonic_ports, topology)
        self.switches = [
            Switch(one.dpid, split_address(one.name), Pace(self._period_ns, self._age_ns), Origin(one.name))
            for one in map(read_switch, settings.sonic_redis)
        ]

    @classmethod
    def make(cls, settings: Settings, topology: Topology) -> "SonicMarks":
        """Return a source by settings; raises SettingsError when the password's file is unusable."""
        return cls(settings, topology, read_secret("sonic_password_file", settings.sonic_password_file))

    @property
    def freshness_ns(self) -> int:
        """Return the age of SONiC's counters, and the time between two readings."""
        return self._age_ns + self._period_ns

    # What a database says

    def take_maps(self, switch: Switch, ports: dict[str, str], queues: dict[str, str], now_ns: int) -> None:
        """Take the names of ports and queues; a queue whose oid changed begins anew."""
        known = {name: port.oid for name, port in switch.ports.items()}
        if any(name in known and known[name] != oid for name, oid in ports.items()):
            self.restarts += 1
        switch.maps_ns = now_ns
        switch.last = None
        mapped = {name: oid for name, oid in ports.items() if self._named.number(switch.dpid, name) is not None}
        self.faults["port_unknown"] = len(ports) - len(mapped)
        switch.ports = {
            name: switch.ports[name] if known.get(name) == oid else _Port(oid) for name, oid in mapped.items()
        }
        switch.queues = {
            oid: switch.queues.get(oid, _Queue(name.partition(":")[0]))
            for name, oid in queues.items()
            if name.partition(":")[0] in mapped
        }

    def take_counters(self, switch: Switch, queues: Hashes, ports: Hashes, now_ns: int) -> list[PortMarks]:
        """Return the new marks in the values of QUEUE_FIELDS and PORT_FIELDS, in the order of the maps."""
        moved = switch.last is not None and switch.last != (queues, ports)
        switch.last = (queues, ports)
        elapsed, interval = switch.pace.read(now_ns, moved)
        if moved:
            self.news.heard(switch.dpid, now_ns)
        fresh: dict[str, int] = {}
        counted: set[str] = set()
        for queue, values in zip(switch.queues.values(), queues):
            marked = self._number_of(values[0])
            if marked is None:
                if queue.marked is not None:
                    self.faults["counter_missing"] += 1
                queue.marked = None
                continue
            counted.add(queue.port)
            before, queue.marked = queue.marked, marked
            if before is None:
                continue
            new = difference(before, marked)
            if new is None:
                self.resets += 1
            elif new:
                fresh[queue.port] = fresh.get(queue.port, 0) + new
        for name, new in fresh.items():
            switch.totals[name] = switch.totals.get(name, 0) + new
        for (name, port), values in zip(switch.ports.items(), ports):
            packets, size, drops = (self._number_of(value) for value in values)
            marks = switch.totals.get(name, 0) if name in counted else None
            port.reading = Reading(marks, ("wred",) if name in counted else (), packets, size, drops)
        found = []
        for name, new in sorted(fresh.items()):
            number = self._named.number(switch.dpid, name)
            if number is not None:
                found.append(PortMarks((switch.dpid, number), scale(new, elapsed, interval), interval))
        return found

    def _number_of(self, text: Optional[str]) -> Optional[int]:
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal()) or len(text) > 20 or int(text) >= 1 << 64:
            self.faults["value_malformed"] += 1
            return None
        return int(text)

    # The rim

    def collectors(self, deliver: Deliver, clock: Callable[[], int]) -> list[Callable[[], None]]:
        """Return one endless reader a switch, so that a dead one keeps no other waiting."""
        return [functools.partial(self._read_always, switch, deliver, clock) for switch in self.switches]

    def _read_always(self, switch: Switch, deliver: Deliver, clock: Callable[[], int]) -> None:
        client = self.connect(switch)
        due_ns = clock()
        while True:
            deliver(self.read(switch, client, clock))
            due_ns = max(due_ns + self._period_ns, clock())
            if switch.origin.state in ("silent", "refused"):
                due_ns = clock() + round(switch.retry_s * 1e9)
            time.sleep(max(0, due_ns - clock()) / 1e9)

    def connect(self, switch: Switch, timeout_s: float = TIMEOUT_S) -> Any:
        """Return a client; it connects when it is used."""
        import redis
        import redis.backoff
        import redis.retry

        class Connection(redis.Connection):
            """A connection whose answers are bounded."""

            def _connect(self) -> Any:
                return _Metered(super()._connect(), switch.meter)  # type: ignore[no-untyped-call]

        return redis.Redis(
            connection_pool=redis.ConnectionPool(
                connection_class=Connection,
                host=switch.address[0],
                port=switch.address[1],
                db=COUNTERS_DB,
                password=self._password,
                decode_responses=True,
                encoding_errors="replace",
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            )
        )

    def read(self, switch: Switch, client: Any, clock: Callable[[], int]) -> list[PortMarks]:
        """Read a switch once and return its new marks; a failure is noted, not raised."""
        import redis

        begun = clock()
        switch.meter.begin()
        try:
            if switch.maps_ns is None or begun - switch.maps_ns >= MAPS_EVERY_NS:
                pipe = client.pipeline(transaction=False)
                pipe.hgetall(PORT_MAP)
                pipe.hgetall(QUEUE_MAP)
                port_map, queue_map = map(_names, pipe.execute())
                self.take_maps(switch, port_map, queue_map, begun)
            pipe = client.pipeline(transaction=False)
            for oid in switch.queues:
                pipe.hmget(f"COUNTERS:{oid}", QUEUE_FIELDS)
            for port in switch.ports.values():
                pipe.hmget(f"COUNTERS:{port.oid}", PORT_FIELDS)
            values = pipe.execute()
            queues = [_values(one, QUEUE_FIELDS) for one in values[: len(switch.queues)]]
            ports = [_values(one, PORT_FIELDS) for one in values[len(switch.queues) :]]
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            refused = isinstance(error, redis.AuthenticationError)
            self._failed(switch, "refused" if refused else "silent", f"{type(error).__name__}: {error}")
            switch.retry_s = RETRY_S
            return []
        except Exception as error:  # whatever the client raises of replies that no such command has
            known = isinstance(error, (redis.RedisError, Excess))
            why = str(error) if known else "its answers are none of a SONiC switch's Redis database"
            self._failed(switch, "refused", f"{why}; what is at {switch.origin.name}?")
            switch.retry_s = min(2 * switch.retry_s, RETRY_MAX_S)
            client.connection_pool.disconnect()
            return []
        switch.retry_s = RETRY_S
        now = clock()
        switch.origin.heard(now, in_time=now - begun <= self._period_ns)
        return self.take_counters(switch, queues, ports, now)

    def _failed(self, switch: Switch, state: str, error: str) -> None:
        switch.maps_ns = None
        if switch.origin.failed(state, error):
            origin = switch.origin
            LOG.warning("sonic: database %s of switch %016x is %s: %s", origin.name, switch.dpid, state, origin.error)

    # What is known

    def counted(self, dpid: int) -> bool:
        """Tell whether any queue of a switch has a mark counter."""
        queues = [queue for one in self.switches if one.dpid == dpid for queue in one.queues.values()]
        return any(queue.marked is not None for queue in queues)

    def readings(self, dpid: int) -> dict[int, Reading]:
        """Return the last reading of each port of a switch that has an OpenFlow number."""
        shown = {}
        for switch in self.switches:
            if switch.dpid == dpid:
                for name, port in switch.ports.items():
                    number = self._named.number(dpid, name)
                    if number is not None:
                        shown[number] = port.reading
        return shown

    def origins(self, now_ns: int) -> list[dict[str, Any]]:
        """Return the databases."""
        return [
            {**one.origin.view(now_ns), "switch": f"{one.dpid:016x}", "queues": len(one.queues)}
            for one in self.switches
        ]

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Read names again: a switch's database lives on when its OpenFlow connection ends."""
        for switch in self.switches:
            if switch.dpid == dpid:
                switch.maps_ns = None


def _names(answer: Any) -> dict[str, str]:
    """Return the names and oids of a map; raises ValueError for what is none."""
    if not isinstance(answer, dict) or not all(isinstance(one, str) for pair in answer.items() for one in pair):
        raise ValueError("a map of names that is no hash of texts")
    return answer


def _values(answer: Any, fields: tuple[str, ...]) -> list[Optional[str]]:
    """Return the values of fields; raises ValueError for another number of them, or what is no text."""
    if not isinstance(answer, list) or len(answer) != len(fields):
        raise ValueError(f"no values of {len(fields)} counters")
    if not all(one is None or isinstance(one, str) for one in answer):
        raise ValueError("a counter that is no text")
    return answer
