# SPDX-License-Identifier: Apache-2.0
"""Fuzzes what a SONiC switch's Redis database answers: the bytes of its replies, one reading after another.

A line of one zero byte stands between the answers to two pipelines, a line of two between two readings.

``python -m sdngcc.controller.tests.sources.fuzz_sonic [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0 when
no answer raised anything or took too many steps, and no marks came but those by which a counter grew.
"""

import logging

import atheris
import redis

with atheris.instrument_imports(include=["sdngcc.controller.sources"]):
    from sdngcc.controller.sources import sonic as module

from sdngcc.controller.network.topology import Port, Topology
from sdngcc.controller.settings import Settings

from .. import fuzzing
from .test_sources_sonic import DPID, MS, PORTS, QUEUES

STATES = {"new", "fresh", "slow", "silent", "refused"}


class Connection(redis.connection.Connection):
    """A connection whose pipelines are answered one after another by what is in ``answers``."""

    answers = []
    _answer = None

    def _connect(self):
        return fuzzing.answering(self._answer)

    def send_packed_command(self, *words, **named):
        self.disconnect(nowait=True)
        self._answer = self.answers.pop(0) if self.answers else b""
        self.connect()
        super().send_packed_command(*words, **named)
        self._answer = None

    def on_connect_check_health(self, *_, **__):
        self._parser.on_connect(self)

    on_connect = on_connect_check_health


def make():
    """Return a source, and the one switch it reads."""
    topology = Topology()
    topology.add_switch(DPID, {7: Port("Ethernet4", bytes(6), True, 0)})
    settings = Settings(notify=False, mark_source="sonic", sonic_redis=("127.0.0.1:1=1001",),
                        sonic_ports=("1001/Ethernet0=3",), sonic_counter_age_ms=1000)  # fmt: skip
    source = module.SonicMarks.make(settings, topology)
    return source, source.switches[0]


def take(data):
    """Let a source read what an input says; raises AssertionError for marks of nothing."""
    source, switch = make()
    now_ns = 10**12
    for answers in data.split(b"\n\0\0\n")[:8]:
        now_ns += 500 * MS
        Connection.answers = [one[:65536] for one in answers.split(b"\n\0\n")]
        pool = redis.ConnectionPool(
            connection_class=Connection, decode_responses=True,
            encoding_errors="replace", retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0), socket_timeout=1.0,
        )  # fmt: skip
        known = {oid: queue.marked for oid, queue in switch.queues.items()}
        with fuzzing.steps(len(data), 50_000):
            fresh = source.read(switch, redis.Redis(connection_pool=pool), lambda: now_ns)  # noqa: B023
        pool.disconnect()
        grown = sum(
            (queue.marked - known[oid]) % (1 << 64)
            for oid, queue in switch.queues.items()
            if queue.marked is not None and known.get(oid) is not None
        )
        assert sum(one.marks for one in fresh) <= grown, "more marks than counters grew by"
        assert all(one.marks > 0 and one.interval_ns > 0 for one in fresh)
        assert switch.origin.state in STATES and all(count >= 0 for count in source.faults.values())
        assert all(queue.marked is None or 0 <= queue.marked < 1 << 64 for queue in switch.queues.values())
    source.origins(now_ns)
    source.readings(DPID)
    source.counted(DPID)
    source.forget(DPID)


def resp(value):
    """Return a value as Redis writes it, by version 3 of its protocol."""
    if value is None:
        return b"_\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, Exception):
        return b"-%s\r\n" % str(value).encode()
    if isinstance(value, str):
        return b"$%d\r\n%s\r\n" % (len(value.encode()), value.encode())
    if isinstance(value, dict):
        return b"%%%d\r\n" % len(value) + b"".join(resp(one) for pair in value.items() for one in pair)
    return b"*%d\r\n" % len(value) + b"".join(map(resp, value))


def counters(marked, packets="10"):
    """Return the answers for three queues and two ports."""
    return b"".join(resp([one, packets]) for one in marked) + resp([packets, "1000", None]) * 2


def reading(*answers):
    """Return the answers to the pipelines of a reading."""
    return b"\n\0\n".join(answers)


def readings(*some):
    """Return an input."""
    return b"\n\0\0\n".join(some)


MAPS = resp(PORTS) + resp(QUEUES)
SEEDS = (
    readings(reading(MAPS, counters(["5", "5", "5"])), counters(["9", "5", "7"]), counters(["3", None, str(2**64 - 1)]),
             counters(["3", "1", "1"]), counters([None, "1", "x"])),
    reading(MAPS, counters(["x", "1" * 30, "\u0663"])),
    readings(reading(MAPS, counters(["5", "5", "5"])), resp(Exception("ERR no")),
             reading(MAPS, counters(["6", "5", "5"]))),
    readings(reading(MAPS, counters(["5", "5", "5"])), b"",
             reading(resp({"Ethernet0": "oid:0x9"}) + resp(QUEUES), counters(["5", "5", "5"]))),
    resp(Exception("NOAUTH Authentication required.")), resp(7) + resp(8), resp({"a": 1}) + resp({}),
    reading(MAPS, resp(7) * 5),
    reading(MAPS, resp([1, 2]) * 5), reading(MAPS, resp([["a"], None]) * 5), reading(MAPS, resp([]) * 5),
    b"*-1\r\n" * 7,
    reading(MAPS, resp(["1"]) * 5), resp({"Ethernet0": None}) * 2, b"$5\r\nab", b"?" * 9,
    reading(resp({"Ethernet0": "a", "Ethernet9": "b"}) + resp({}), resp([]) * 3), b"$-5\r\n", b"+OK\r\n" * 7,
    resp(["Ethernet0", "oid"]) * 2, b"*99999999\r\n",
)  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    fuzzing.fuzz(take, SEEDS)
