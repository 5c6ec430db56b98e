# SPDX-License-Identifier: Apache-2.0
"""Fuzzes sFlow: datagrams one after another, each behind its length in two bytes, and a window's end behind each.

``python -m sdngcc.controller.tests.sources.fuzz_sflow [-runs=N] [libFuzzer's options] CORPUS`` ends with status 0 when
no datagram raised anything, was taken beyond its bounds, or made marks that no sample of it stands for.
"""

import logging
import struct

import atheris

with atheris.instrument_imports(include=["sdngcc.controller.sources"]):
    from sdngcc.controller.sources import sflow as module
    from sdngcc.controller.sources.sflow_datagram import (
        CE,
        SAMPLES_MAX,
        CounterSample,
        DatagramError,
        decode,
    )

from .. import fuzzing
from . import recorded
from .sflow_agent import ce_frame, counters, datagram, flow, header, part, words
from .test_sources_sflow import AT, HERE, MS, source

# Bytes of a datagram's smallest sample.
SAMPLE_LEAST = 8


def pieces(data):
    """Yield the datagrams of an input."""
    while len(data) > 2:
        length = struct.unpack_from("!H", data)[0]
        yield data[2 : 2 + length]
        data = data[2 + length :]


def check(data):
    """Return how many packets with CE the samples of a datagram stand for; 0 for one that is refused by name."""
    try:
        with fuzzing.steps(len(data)):
            found = decode(data)
    except DatagramError as error:
        assert str(error) and str(error).isprintable() and f"malformed_{error.kind.value}".isidentifier()
        return 0
    assert len(found.agent) in (4, 16) and len(found.samples) <= min(SAMPLES_MAX, len(data) // SAMPLE_LEAST)
    packets = 0
    for sample in found.samples:
        if isinstance(sample, CounterSample):
            assert sample.out_packets is None or 0 <= sample.out_packets < 1 << 32
            assert sample.name is None or len(sample.name) <= len(data)
            continue
        assert 1 <= sample.rate < 1 << 32 and sample.ecn in (None, 0, 1, 2, 3)
        assert all(index is None or 0 < index < 1 << 32 for index in (sample.input, sample.output))
        packets += sample.rate if sample.ecn == CE else 0
    return packets


def take(data):
    """Let a source take an input's datagrams; raises nothing."""
    one = source("10.0.0.1=b", "10.0.0.2=c", "10.0.0.2=d", sflow_senders=("10.0.0.2=10.0.0.0/24",))
    now_ns, allowed = AT, 0
    for piece in pieces(data):
        allowed += check(piece)
        with fuzzing.steps(len(data)):
            assert 1 <= one.feed(piece, now_ns, "10.0.0.1") <= 1 + SAMPLES_MAX
            fresh = one.close_window(now_ns)
        assert all(marks.marks >= 0 and marks.interval_ns > 0 for marks in fresh)
        assert all((reading.ce_arrived or 0) >= 0 for reading in one.readings(HERE).values())
        now_ns += 100 * MS
    assert sum(one._ce.values()) <= allowed, "more CE than samples stand for"
    assert len(one._agents) <= 3 * module.SUB_AGENTS_MAX
    assert all(len(agent.interfaces) <= module.INTERFACES_MAX for agent in one._agents.values())
    assert all(len(agent.samplers) <= module.INTERFACES_MAX for agent in one._agents.values())
    assert all(count > 0 for count in one.faults.values())
    one.origins(now_ns)


def framed(*datagrams):
    """Return an input of datagrams."""
    return b"".join(struct.pack("!H", len(one)) + one for one in datagrams)


SEEDS = (
    framed(datagram(flow(ce_frame(), 11, 12), flow(ce_frame(vlan=True, ipv6=True), 11, expanded=True))),
    framed(
        datagram(counters(5, 9, 8, 7, dpid=HERE, port=1, name="b1"), sequence=1),
        datagram(counters(5, 10, 9, 8, expanded=True), flow(ce_frame(), 5), sequence=3),
        datagram(counters(5, 1, 1, 1), sequence=1, uptime_ms=5),
    ),
    framed(datagram(flow(ce_frame(), 11), agent="10.0.0.2", sub=3), datagram(agent="fe80::1"), b"", words(5, 1, 2)),
    framed(datagram(part(9, bytes(8)), counters(1, dpid=0xD, port=2), agent="10.0.0.2")),
    # Padding behind records and samples, lengths that are no multiple of 4 with and without padding, a sample cut off.
    framed(
        datagram(part(1, words(1, 11, 9, 0, 0, 11, 0, 2) + part(7, bytes(5)) + header(ce_frame()) + bytes(4))),
        datagram(part(8, bytes(5)), flow(ce_frame(), 11)[:-4], sequence=2) + bytes(4),
        datagram(part(8, bytes(5)) + bytes(3), flow(ce_frame(), 11, rate=0), part(2, words(1, 1, 99)), sequence=3),
    ),
    # The data source alone, by both forms; a name alone of an interface above 24 bits; pools that stand still.
    framed(
        datagram(part(1, words(1, 11, 9, 7, 0, 0, 0, 1) + header(ce_frame())),
                 part(3, words(2, 0, 11, 9, 7, 0, 0, 0, 0, 0, 1) + header(ce_frame())),
                 *[part(1, words(3, 11, 9, 7, 0, 0, 0, 1) + header(ce_frame()))] * 9),
        datagram(part(2, words(1, 5, 1) + part(1005, words(2) + b"b1")), flow(ce_frame(), 5 << 24 | 5), sequence=2),
    ),
    framed(*recorded.HSFLOWD[:2]), framed(*recorded.OPENVSWITCH[:2]),
)  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    fuzzing.fuzz(take, SEEDS)
