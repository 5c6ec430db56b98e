# SPDX-License-Identifier: Apache-2.0
"""sFlow read without inventing marks, and whatever noise comes, without a crash."""

import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.network.topology import Port, Topology
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.sources import sflow as module
from sdngcc.controller.sources.sflow import SFlowMarks
from sdngcc.controller.sources.sflow_datagram import DatagramError, decode, ecn_of

from ..processes import free_port
from .sflow_agent import ce_frame, counters, datagram, flow, part, words

MS = 1_000_000
AT = 10_000 * MS
BEFORE, HERE, AFTER = 0xA, 0xB, 0xC  # three switches in a row: BEFORE:2 - HERE:1, HERE:2 - AFTER:1


def source(*agents, ports=("b/11=1", "b/12=2", "c/11=1"), **changes):
    topology = Topology()
    topology.add_switch(BEFORE, {2: Port("a2", bytes(6), True, 0)})
    topology.add_switch(HERE, {1: Port("b1", bytes(6), True, 0), 2: Port("b2", bytes(6), True, 0)})
    topology.add_switch(AFTER, {1: Port("c1", bytes(6), True, 0)})
    topology.add_link((BEFORE, 2), (HERE, 1), 0)
    topology.add_link((HERE, 2), (AFTER, 1), 0)
    agents = agents or ("10.0.0.1=b", "10.0.0.2=c")
    chosen = Settings(notify=False, mark_source="sflow", sflow_agents=agents, sflow_ports=ports, **changes)
    return SFlowMarks(chosen, topology)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize(("vlan", "ipv6"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_sample_stands_for_as_many_as_its_rate(vlan, ipv6, expanded):
    sflow = source()
    frame = ce_frame(vlan=vlan, ipv6=ipv6)
    sflow.feed(
        datagram(flow(frame, 11, expanded=expanded), flow(ce_frame(2, vlan, ipv6), 11), flow(frame, 11, rate=7)), AT
    )
    assert sflow.close_window(AT) == [PortMarks((BEFORE, 2), 107, 100 * MS)]
    assert sflow.close_window(AT + 100 * MS) == []
    assert sflow.counted(HERE) and not sflow.counted(AFTER)
    assert sflow.readings(BEFORE)[2].marks == 107 and sflow.readings(HERE)[1].ce_arrived == 107
    assert sflow.readings(HERE)[2].marks is None  # nobody samples behind it


def test_ce_that_travels_on_is_counted_once():
    sflow = source()
    sflow.feed(datagram(flow(ce_frame(), 11, 12)), AT)
    sflow.feed(datagram(flow(ce_frame(), 11), flow(ce_frame(), 11), agent="10.0.0.2"), AT)
    assert sflow.close_window(AT) == [PortMarks((BEFORE, 2), 100, 100 * MS), PortMarks((HERE, 2), 100, 100 * MS)]


def test_samples_are_as_old_as_the_datagram_before():
    sflow = source()
    sflow.feed(datagram(flow(ce_frame(0), 11)), AT)
    for window in range(10):
        assert sflow.close_window(AT + window * 100 * MS) == []
    sflow.feed(datagram(*[flow(ce_frame(), 11)] * 9, sequence=2), AT + 1000 * MS)
    assert sflow.close_window(AT + 1000 * MS) == [PortMarks((BEFORE, 2), 900, 1000 * MS)]


def test_numbers_of_ports_by_setting_by_record_by_name():
    sflow = source("10.0.0.1=b", ports=())
    sample = flow(ce_frame(), 11)
    sflow.feed(datagram(sample), AT)
    assert sflow.faults == {"port_unknown": 1} and sflow.close_window(AT) == []
    sflow.feed(datagram(counters(11, name="b1"), sample, sequence=2), AT)
    assert sflow.close_window(AT + 100 * MS)[0].point == (BEFORE, 2)
    sflow.feed(datagram(counters(11, dpid=HERE, port=2), sample, sequence=3), AT)
    assert sflow.close_window(AT + 200 * MS)[0].point == (AFTER, 1)
    sflow.feed(datagram(counters(11, dpid=AFTER, port=1), sequence=4), AT)
    assert sflow.faults["datapath_foreign"] == 1


def test_an_agent_of_several_switches_tells_which():
    sflow = source("127.0.0.1=b", "127.0.0.1=c", ports=())
    lone = flow(ce_frame(), 11)
    sflow.feed(datagram(lone, agent="127.0.0.1", sub=4), AT)
    assert sflow.close_window(AT) == []
    for sub, dpid in ((4, HERE), (5, AFTER)):
        told = counters(11, dpid=dpid, port=1)
        sflow.feed(datagram(told, lone, agent="127.0.0.1", sub=sub, sequence=2), AT)
    assert {one.point for one in sflow.close_window(AT)} == {(BEFORE, 2), (HERE, 2)}


def test_counters_wrap_reset_and_restart():
    sflow = source()
    shown = []
    for sequence, packets, drops in ((1, 2**32 - 5, 10), (2, 5, 11), (3, 3, 11), (4, 8, 0xFFFFFFFF)):
        sflow.feed(datagram(counters(12, 99, packets, drops), sequence=sequence, uptime_ms=sequence * 1000), AT)
        shown.append(sflow.readings(HERE)[2].packets)
    assert shown == [0, 10, 10, 15] and sflow.resets == 1
    assert sflow.readings(HERE)[2].bytes == 99 and sflow.readings(HERE)[2].drops == 1
    sflow.feed(datagram(counters(12, 1, 500), sequence=1, uptime_ms=10), AT)
    assert sflow.restarts == 1 and sflow.readings(HERE)[2].packets == 0


def test_lost_doubled_and_late_datagrams():
    sflow = source()
    sample = flow(ce_frame(), 11)
    for sequence in (2**32 - 2, 2**32 - 1, 0, 4, 3, 4):
        sflow.feed(datagram(sample, sequence=sequence), AT)
    assert sflow.faults == {"datagrams_lost": 3, "reordered": 1, "duplicate": 1} and sflow.restarts == 0
    assert sflow.close_window(AT)[0].marks == 500


def test_only_agents_that_were_set_and_no_more_than_bounded(monkeypatch):
    monkeypatch.setattr(module, "SUB_AGENTS_MAX", 2)
    monkeypatch.setattr(module, "INTERFACES_MAX", 2)
    sflow = source()
    for agent in ("10.0.0.9", "2001:db8::1"):
        sflow.feed(datagram(flow(ce_frame(), 11), agent=agent), AT)
    assert sflow.faults == {"agent_unknown": 2} and sflow.origins(AT) == []
    for sub in range(4):
        sflow.feed(datagram(sub=sub), AT)
    assert sflow.faults["table_full"] == 2
    sflow.feed(datagram(*[counters(index) for index in range(11, 15)], sequence=2), AT)
    assert sflow.faults["table_full"] == 4
    only = source("10.0.0.1/3=b")
    only.feed(datagram(sub=2), AT)
    only.feed(datagram(sub=3), AT)
    assert only.faults == {"agent_unknown": 1} and len(only.origins(AT)) == 1


def test_a_silent_agent_is_said_to_be_silent():
    sflow = source()
    sflow.feed(datagram(), AT)
    sflow.close_window(AT + module.SILENT_NS)
    assert sflow.origins(AT)[0]["state"] == "fresh"
    sflow.close_window(AT + module.SILENT_NS + 1)
    assert sflow.origins(AT)[0]["state"] == "silent"
    sflow.feed(datagram(sequence=2), AT)
    assert sflow.origins(AT)[0]["state"] == "fresh"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "truncated"),
        (words(4) + bytes(40), "version"),
        (words(5, 3) + bytes(40), "address_type"),
        (datagram()[:-1], "truncated"),
        (datagram() + b"\0", "trailing"),
        (datagram(flow(ce_frame(), 1))[:-4], "truncated"),
        (datagram(part(1, bytes(5))), "length"),
        (datagram(flow(ce_frame(), 1, rate=0)), "value"),
        (datagram(part(2, words(1, 1, 65))), "count"),
        (datagram()[:-4] + words(1025), "count"),
        (datagram(part(2, words(1, 1, 0, 0))), "length"),
    ],
)
def test_malformed_is_refused_by_kind(data, kind):
    sflow = source()
    sflow.feed(data, AT)
    assert sflow.faults == {f"malformed_{kind}": 1}


def test_headers_without_ecn():
    assert ecn_of(1, ce_frame()[:15]) is None and ecn_of(1, ce_frame()[:16]) == 3
    assert ecn_of(1, b"\xff" * 60) is None
    assert ecn_of(11, ce_frame()[14:]) == 3 and ecn_of(12, ce_frame()[14:]) is None
    assert ecn_of(7, ce_frame()) is None
    assert ecn_of(1, ce_frame()[:12] + b"\x81\x00\x00\x01" * 5 + ce_frame()[12:]) is None


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300))
def test_noise_is_refused_or_read(data):
    try:
        decode(data)
    except DatagramError:
        pass


WHOLE = datagram(
    flow(ce_frame(), 11, 12), counters(11, dpid=HERE, port=1, name="b1"), flow(ce_frame(), 11, expanded=True)
)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(WHOLE)))
def test_damage_is_refused_or_read(changes, cut):
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    sflow = source()
    sflow.feed(bytes(data[:cut]), AT)
    sflow.feed(bytes(data), AT)
    sflow.close_window(AT)
    sflow.readings(HERE)
    assert sum(sflow.faults.values()) or len(sflow.origins(AT)) == 1


def test_over_a_socket():
    port = free_port()
    sflow = source(sflow_listen=f"127.0.0.1:{port}", sflow_window_ms=5)
    found = []

    class Stop(Exception):
        pass

    def deliver(fresh):
        found.extend(fresh)
        if found:
            raise Stop

    collect = sflow.collectors(deliver, time.monotonic_ns)[0]
    thread = threading.Thread(target=lambda: pytest.raises(Stop, collect), daemon=True)
    thread.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sequence = 0
        while thread.is_alive():
            sequence += 1
            sock.sendto(datagram(flow(ce_frame(), 11), sequence=sequence), ("127.0.0.1", port))
            thread.join(0.05)
            assert sequence < 1000
    assert found[0].point == (BEFORE, 2)
