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
from . import recorded
from .sflow_agent import ce_frame, counters, datagram, flow, header, part, words

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
    ],
)
def test_a_datagram_whose_head_cannot_be_read_is_refused_by_kind(data, kind):
    sflow = source()
    sflow.feed(data, AT)
    assert sflow.faults == {f"malformed_{kind}": 1}


GOOD = flow(ce_frame(), 11)
VENDOR = part(8800 << 12 | 1, bytes(50))  # of 50 bytes, as some agents have it


def of_records(*records):
    """Return a flow sample from interface 11 with records."""
    return part(1, words(1, 11, 100, 0, 0, 11, 0, len(records)) + b"".join(records))


@pytest.mark.parametrize(
    ("samples", "kind", "marks"),
    [
        ([GOOD + b"\0\0\0\0"], "trailing", 100),
        ([GOOD[:-4]], "truncated", 100),
        ([GOOD, part(1, bytes(5)) + bytes(3), GOOD], "truncated", 200),
        ([GOOD, part(1, bytes(5)), GOOD], "length", 200),
        ([GOOD, VENDOR + bytes(2), GOOD], "length", 200),
        ([GOOD, VENDOR, GOOD], "length", 200),
        ([GOOD, VENDOR], "length", 100),
        ([GOOD, part(5, bytes(8)), GOOD], "format", 200),
        ([flow(ce_frame(), 11, rate=0), GOOD], "value", 100),
        ([flow(ce_frame(), 11, rate=0xFFFFFFFF), GOOD], "value", 100),
        ([part(2, words(1, 1, 65)), GOOD], "count", 100),
        ([part(2, words(1, 1, 0, 0)), GOOD], "trailing", 100),
        ([part(1, words(1, 11, 100, 0, 0, 11, 0, 1) + header(ce_frame()) + bytes(4)), GOOD], "trailing", 200),
        ([of_records(VENDOR + bytes(2), header(ce_frame())), GOOD], "length", 200),
        ([of_records(VENDOR, header(ce_frame())), GOOD], "length", 200),
        ([of_records(part(1, words(1, 1514)), header(ce_frame()))], "truncated", 100),
        ([of_records(part(1, words(1, 1514, 4, 128) + ce_frame()))], "truncated", 100),
        ([part(2, words(1, 11, 1) + part(1005, words(99) + b"b1")), GOOD], "truncated", 100),
    ],
)
def test_what_can_be_read_is_read_and_the_rest_passed_over_by_kind(samples, kind, marks):
    sflow = source()
    sflow.feed(datagram(*samples), AT)
    assert sflow.faults[f"skipped_{kind}"] >= 1 and not any(one.startswith("malformed") for one in sflow.faults)
    assert [one.marks for one in sflow.close_window(AT)] == [marks]


def test_more_samples_than_any_agent_sends_are_counted_and_those_there_are_read():
    sflow = source()
    sflow.feed(datagram()[:-4] + words(1025) + GOOD, AT)
    assert sflow.faults == {"skipped_count": 1, "skipped_truncated": 1} and sflow.close_window(AT)[0].marks == 100


def test_an_agent_that_names_the_data_source_only_has_its_samples_taken_there():
    unknown = flow(ce_frame(), 11).replace(words(11, 0), words(0, 0))  # input and output
    for sample in (unknown, part(3, words(1, 0, 11, 100, 0, 0, 0, 0, 0, 0, 1) + header(ce_frame()))):
        sflow = source()
        sflow.feed(datagram(sample), AT)
        assert [one.point for one in sflow.close_window(AT)] == [(BEFORE, 2)]
    # A data source that is no interface says nothing of one, nor does one where the packet leaves.
    entity = part(3, words(1, 2, 11, 100, 0, 0, 0, 0, 0, 0, 1) + header(ce_frame()))
    leaves = part(3, words(1, 0, 11, 100, 0, 0, 0, 0, 0, 11, 1) + header(ce_frame()))
    sflow = source()
    sflow.feed(datagram(entity, leaves), AT)
    assert sflow.close_window(AT) == [] and sflow.faults["interface_untold"] == 2


FAR = 369098810  # an ifIndex above 24 bits


@pytest.mark.parametrize("expanded", [False, True])
def test_an_interface_above_24_bits_is_known_by_its_name_alone(expanded):
    name = part(1005, words(2) + b"b1\0\0")
    head = words(1, 0, FAR) if expanded else words(1, FAR & 0xFFFFFF)
    sflow = source("10.0.0.1=b", ports=())
    sflow.feed(datagram(part(4 if expanded else 2, head + words(1) + name)), AT)
    sflow.feed(datagram(flow(ce_frame(), FAR, expanded=expanded), sequence=2), AT)
    assert [one.point for one in sflow.close_window(AT)] == [(BEFORE, 2)]


@pytest.mark.parametrize("ports", [(), (f"b/{FAR}=1",)])
def test_an_interface_above_24_bits_is_known_by_a_compact_data_source(ports):
    sflow = source("10.0.0.1=b", ports=ports)
    if not ports:
        sflow.feed(datagram(counters(FAR, name="b1", expanded=True)), AT)
    only = part(1, words(1, FAR & 0xFFFFFF, 100, 0, 0, 0, 0, 1) + header(ce_frame()))
    sflow.feed(datagram(only, sequence=2), AT)
    assert [one.point for one in sflow.close_window(AT)] == [(BEFORE, 2)]


def test_an_agent_whose_samples_match_no_port_is_told(caplog):
    sflow = source("10.0.0.1=b", ports=())
    sflow.feed(datagram(flow(ce_frame(0), 77)), AT)
    sflow.close_window(AT)
    (shown,) = sflow.origins(AT)
    assert shown["state"] == "unmatched" and "ifIndex 77" in shown["error"] and "sflow_ports" in shown["error"]
    assert sflow.faults == {"samples_unmatched": 1}
    sflow.feed(datagram(flow(ce_frame(0), 77), sequence=2), AT)
    sflow.close_window(AT)
    assert sflow.origins(AT)[0]["state"] == "unmatched" and sflow.faults == {"samples_unmatched": 2}
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    sflow.feed(datagram(counters(77, name="b1"), flow(ce_frame(0), 77), sequence=3), AT)
    sflow.close_window(AT)
    sflow.feed(datagram(sequence=4), AT)
    assert sflow.origins(AT)[0]["state"] == "fresh"


def test_an_agent_of_several_switches_that_does_not_tell_which_is_told():
    sflow = source("10.0.0.1=b", "10.0.0.1=c")
    sflow.feed(datagram(GOOD), AT)
    sflow.close_window(AT)
    assert "record 1004" in sflow.origins(AT)[0]["error"] and sflow.faults["samples_unmatched"] == 1


def test_some_samples_astray_say_nothing_of_an_agent(monkeypatch):
    monkeypatch.setattr(module, "UNMATCHED_SAMPLES", 5)
    sflow = source()
    for sequence, count in enumerate((1, 4, 1, 5), 1):
        sflow.feed(datagram(GOOD, *[flow(ce_frame(0), 77)] * count, sequence=sequence), AT)
        sflow.close_window(AT)
        assert sflow.origins(AT)[0]["state"] == ("fresh" if count < 5 else "unmatched")


def test_a_datagram_is_taken_from_the_agents_own_address_or_those_set(caplog):
    sflow = source("10.0.0.1=b", "10.0.0.2=c", "2001:db8::1=b", sflow_senders=("10.0.0.2=192.0.2.0/24",))
    taken = []
    for agent, sender in (
        ("10.0.0.1", "10.0.0.1"), ("10.0.0.1", "::ffff:10.0.0.1"), ("10.0.0.1", "10.0.0.2"), ("10.0.0.1", "192.0.2.9"),
        ("10.0.0.2", "192.0.2.9"), ("10.0.0.2", "10.0.0.2"), ("10.0.0.2", "192.0.3.9"),
        ("2001:db8::1", "2001:db8::1"), ("2001:db8::1", "fe80::1%eth0"),
    ):  # fmt: skip
        before = sum(one["samples"] for one in sflow.origins(AT))
        sflow.feed(datagram(GOOD, agent=agent, sequence=len(taken)), AT, sender)
        taken.append(sum(one["samples"] for one in sflow.origins(AT)) > before)
    assert taken == [True, True, False, False, True, True, False, True, False]
    assert sflow.faults["sender_foreign"] == 4 and caplog.text.count("which is not its address") == 1


def test_samples_stand_for_no_more_packets_than_the_pool_moved_by():
    sflow = source()

    def sample(sequence, pool, rate=100):
        return part(1, words(sequence, 11, rate, pool, 0, 11, 0, 1) + header(ce_frame()))

    fair = [sample(number, 1000 + 100 * number) for number in range(1, 501)]
    sflow.feed(datagram(*fair), AT)
    assert sflow.faults == {} and sflow.close_window(AT)[0].marks == 50_000
    # A pool that stands still explains no more samples than chance does.
    sflow.feed(datagram(*[sample(501, 51_000)] * 500, sequence=2), AT + 100 * MS)
    assert sflow.faults["pool_implausible"] == 500 - (module.POOL_SLACK - 1)
    assert sflow.close_window(AT + 100 * MS)[0].marks == (module.POOL_SLACK - 1) * 100
    # One that begins anew, or wraps, is no fault.
    sflow.feed(datagram(sample(1, 100), sample(2, 200), sample(3, 4), sample(4, 104), sequence=3), AT + 200 * MS)
    assert sflow.close_window(AT + 200 * MS)[0].marks == 400


def test_a_port_carries_no_more_than_its_line():
    sflow = source()
    sflow.feed(datagram(*[flow(ce_frame(), 11, 12, rate=1 << 24)] * 9), AT)
    assert sflow.close_window(AT) == [] and sflow.faults["line_rate"] == 2
    assert sflow.readings(HERE)[1].ce_arrived == 0
    sflow.feed(datagram(counters(11), flow(ce_frame(), 11, rate=200_000), sequence=2), AT)  # tells 1 Gb/s
    assert sflow.close_window(AT + 100 * MS) == [] and sflow.faults["line_rate"] == 3


def test_the_work_of_a_datagram_is_told_and_a_foreign_one_is_not_decoded(monkeypatch):
    sflow = source()
    assert sflow.feed(datagram(*[GOOD] * 9), AT, "10.0.0.1") == 10
    monkeypatch.setattr(module, "decode", lambda data: pytest.fail("decoded"))
    assert sflow.feed(datagram(*[GOOD] * 1000, sequence=2), AT, "10.0.0.9") == 1
    assert sflow.feed(datagram(*[GOOD] * 1000, agent="10.0.0.9"), AT, "10.0.0.9") == 1


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
    sflow = source(sflow_listen=f"127.0.0.1:{port}", sflow_window_ms=5, sflow_senders=("10.0.0.1=127.0.0.1",))
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


def test_recorded_datagrams_of_an_agent_that_names_the_data_source_only():
    sflow = source("10.9.9.1=b", ports=("b/4=1",))
    for data in recorded.HSFLOWD:
        sflow.feed(data, AT, "10.9.9.1")
    marks = sum(one.marks for one in sflow.close_window(AT))
    (shown,) = sflow.origins(AT)
    # One in 10,000 was sampled until the agent had read what it was set to: one in 10.
    assert marks == 10_000 + 10 * (shown["ce_samples"] - 1) and shown["state"] == "fresh"
    assert not any(kind.startswith(("skipped", "malformed", "pool", "interface")) for kind in sflow.faults)


def test_recorded_datagrams_of_an_open_vswitch_with_two_bridges():
    sflow = source("127.0.0.1=1", "127.0.0.1=2", ports=())
    sflow._topology.add_switch(1, {1: Port("l1", bytes(6), True, 0), 2: Port("p1", bytes(6), True, 0)})
    sflow._topology.add_switch(2, {1: Port("p2", bytes(6), True, 0), 2: Port("l2", bytes(6), True, 0)})
    sflow._topology.add_link((1, 1), (2, 2), 0)
    for data in recorded.OPENVSWITCH:
        sflow.feed(data, AT, "127.0.0.1")
    marks = {one.point: one.marks for one in sflow.close_window(AT)}
    first, second = sorted(sflow.origins(AT), key=lambda one: one["name"])
    assert marks == {(1, 1): 10 * second["ce_samples"]} and first["ce_samples"] == 0 < second["ce_samples"]
    assert {first["state"], second["state"]} == {"fresh"}
    assert not any(kind.startswith(("skipped", "malformed", "pool")) for kind in sflow.faults)
