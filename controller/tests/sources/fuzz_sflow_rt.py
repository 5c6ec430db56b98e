# SPDX-License-Identifier: Apache-2.0
"""Fuzzes what sFlow-RT answers: documents, or whole HTTP answers, one after another by one connection a reading.

A line of one zero byte stands between two of them, a line of two between two readings.

``python -m sdngcc.controller.tests.sources.fuzz_sflow_rt [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0
when no answer raised anything or took too many steps, and rates and marks stay within their bounds.
"""

import http.client
import json
import logging

import atheris

with atheris.instrument_imports(include=["sdngcc.controller.sources"]):
    from sdngcc.controller.sources import sflow_rt as module

from .. import fuzzing
from .test_sources_sflow_rt import AFTER, BEFORE, HERE, Reader

STATES = {"new", "fresh", "slow", "silent", "refused"}
# Packets a second that one flow may have, of the most that an answer tells of.
RATE_MAX = 1e12 * module.REPORTED_MAX


class Connection(http.client.HTTPConnection):
    """A connection whose requests are answered one after another by what is in ``answers``."""

    answers = []

    def request(self, *words, **named):
        self.close()
        self.sock = fuzzing.answering(self.answers.pop(0) if self.answers else b"")
        super().request(*words, **named)


def as_http(piece):
    """Return an answer; a document alone gets a head."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(piece)
    return piece if piece.startswith(b"HTTP/") else head + piece


def take(data):
    """Let a source ask and get what an input says."""
    reader = Reader(agents=("10.0.0.1=b", "10.0.0.2/3=c"))
    module.http.client.HTTPConnection = Connection
    for number, answers in enumerate(data.split(b"\n\0\0\n")[:6]):
        Connection.answers = [as_http(one)[:65536] for one in answers.split(b"\n\0\n")]
        with fuzzing.steps(len(data), 50_000):
            fresh = reader.read(number=number % 2)
        assert all(0 < one.marks <= RATE_MAX and one.interval_ns > 0 for one in fresh)
        for agent in reader.source.agents:
            assert agent.origin.state in STATES and len(agent.origin.error) < 500
            assert all(0 <= part < 1 for part in agent.parts.values())
            assert len(agent.names) <= module.REPORTED_MAX
    assert all(count >= 0 for count in reader.source.faults.values())
    for dpid in (BEFORE, HERE, AFTER):
        assert all((one.ce_arrived or 0) >= 0 for one in reader.source.readings(dpid).values())
    reader.source.origins(reader.now_ns)
    reader.source.forget(HERE, 1)


def reading(*documents):
    """Return the answers to a reading."""
    return b"\n\0\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in documents)


KNOWN = {module.FLOW_IN: {}, module.FLOW_OUT: {}}
NAMES = [{"dataSource": "11", "metricValue": "b1"}, {"dataSource": "12", "metricValue": "b2"}]
NEW = reading([], b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
              NAMES)


def rates(value, index="11"):
    return [{"key": index, "value": value}]


SEEDS = (
    b"\n\0\0\n".join([reading(NEW, rates(1.5), rates(7)), reading([], []), reading(rates(1e3), rates(2, "12")),
                      reading(KNOWN, NAMES, [], []), reading(rates(1e3), rates(2)), reading(rates(9, "77"), [])]),
    reading(KNOWN, NAMES, rates(10**400), []), reading(KNOWN, NAMES, rates(-1), []),
    reading(KNOWN, NAMES, rates(True), []),
    reading(KNOWN, NAMES, rates(1, "1" * 40), []), reading(KNOWN, NAMES, rates(1, "x"), []), reading(KNOWN, 3),
    reading(KNOWN, NAMES, b'[{"key":"11","value":NaN}]', b"{}"), reading(KNOWN, [{"dataSource": 1}]), reading(7),
    reading(KNOWN, NAMES, [{}] * 5000, []), reading(KNOWN, NAMES, b"[" * 3000), reading(KNOWN, NAMES, b"{", b"x"),
    b"HTTP/1.1 500 " + b"x" * 900 + b"\r\n\r\n",
    b"HTTP/1.1 500 no\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 99999 \r\n", b"",
    b"\n\0\0\n".join([reading(KNOWN, NAMES, [], []), b"", reading(KNOWN, NAMES, [], []), reading([], b"x", NAMES)]),
    reading(KNOWN, [{"dataSource": "\u0661", "metricValue": "b1"}], [], []), b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 150,
    reading(KNOWN, NAMES, [], b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n[]"),
)  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    fuzzing.fuzz(take, SEEDS)
