# SPDX-License-Identifier: Apache-2.0
"""TCP connections: how many there may be, who makes room, and when they are forgotten."""

from typing import Any

import pytest

from .host import ACK, CWR, ECE, FIN, FULL, NO_SCALE, NOT_ECT, RST, SECOND, SYN, TCP, Host, Outcome, address

CAPACITY = 125_000_000
HERE, THERE = address("10.0.0.1"), address("10.1.0.1")
MOST = 16384


def out(host: Host, vm: Any, uplink: Any, port: int, flags: int, seq: int = 1000, ack: int = 0, payload: int = 0,
        **fields: Any) -> Outcome:
    return host.send(vm, uplink, HERE, THERE, protocol=TCP, is_tcp=True, port_source=port, port_destination=80,
                     flags=flags, seq=seq, ack=ack, payload=payload, size=payload, window=65535, mss=1448 * (flags & SYN
                     == SYN), scale=7 if flags & SYN else NO_SCALE, bytes=66 + payload,
                     **{"ecn": NOT_ECT, **fields})


def into(host: Host, vm: Any, uplink: Any, port: int, flags: int, seq: int = 5000, ack: int = 0, payload: int = 0,
         **fields: Any) -> Outcome:
    return host.receive(vm, uplink, THERE, HERE, protocol=TCP, is_tcp=True, port_source=80, port_destination=port,
                        flags=flags, seq=seq, ack=ack, payload=payload, size=payload, window=65535,
                        mss=1448 * (flags & SYN == SYN), scale=7 if flags & SYN else NO_SCALE, bytes=66 + payload,
                        **{"ecn": NOT_ECT, **fields})


def connect(host: Host, vm: Any, uplink: Any, port: int) -> None:
    out(host, vm, uplink, port, SYN)
    into(host, vm, uplink, port, SYN | ACK, ack=1001)
    out(host, vm, uplink, port, ACK, seq=1001, ack=5001)
    out(host, vm, uplink, port, ACK, seq=1001, ack=5001, payload=100)
    into(host, vm, uplink, port, ACK, seq=5001, ack=1101)


def has(host: Host, vm: Any, port: int) -> bool:
    return bool(host.lib.shim_lab_connected(vm, port, 80))


@pytest.fixture
def vcc(host: Host) -> Host:
    host.law("vcc")
    host.set(waiting_max=0, horizon_ns=SECOND)
    return host


def test_a_connection_is_followed_from_its_first_segment(vcc: Host) -> None:
    uplink, vm = vcc.uplink(CAPACITY), vcc.vm()
    assert out(vcc, vm, uplink, 1, SYN).flags == SYN | ECE | CWR, "the law does not ask for the guest"
    assert vcc.connections(vm) == (1, 0, 0)
    into(vcc, vm, uplink, 1, SYN | ACK | ECE, ack=1001)
    out(vcc, vm, uplink, 1, ACK, seq=1001, ack=5001)
    data = out(vcc, vm, uplink, 1, ACK, seq=1001, ack=5001, payload=1448)
    assert data.ecn == 2
    assert into(vcc, vm, uplink, 1, ACK | ECE, seq=5001, ack=2449).flags == ACK
    vcc.pass_time(SECOND // 10)
    assert vcc.connections(vm) == (0, 0, 1)


@pytest.mark.parametrize("flags", [FIN | ACK, RST])
def test_silence_ends_each_by_its_state(vcc: Host, flags: int) -> None:
    uplink, vm = vcc.uplink(CAPACITY), vcc.vm()
    out(vcc, vm, uplink, 1, SYN)
    connect(vcc, vm, uplink, 2)
    connect(vcc, vm, uplink, 3)
    out(vcc, vm, uplink, 3, flags, seq=1101, ack=5001)
    vcc.pass_time(SECOND // 10)
    assert vcc.connections(vm) == (1, 1, 1)
    vcc.pass_time(6 * SECOND)
    assert vcc.connections(vm) == (1, 0, 1)
    vcc.pass_time(6 * SECOND)
    assert vcc.connections(vm) == (0, 0, 1)
    vcc.pass_time(30 * 60 * SECOND)
    assert vcc.connections(vm) == (0, 0, 1)
    vcc.pass_time(31 * 60 * SECOND)
    assert vcc.connections(vm) == (0, 0, 0) and vcc.counter(vm, "flows_collected") == 3 and vcc.due() == 0


def test_half_open_ones_make_room_first_then_closed_ones_and_open_ones_never(vcc: Host) -> None:
    uplink, vm = vcc.uplink(CAPACITY), vcc.vm()
    still_open, closed = 200, 100
    for port in range(1, still_open + 1):
        connect(vcc, vm, uplink, port)
    for port in range(1001, 1001 + closed):
        connect(vcc, vm, uplink, port)
        out(vcc, vm, uplink, port, RST, seq=1101)
    vcc.pass_time(SECOND // 10)
    half = MOST - still_open - closed
    for port in range(2001, 2001 + half):
        out(vcc, vm, uplink, port, SYN)
    assert sum(vcc.connections(vm)) == MOST
    for port in range(30001, 30001 + 100):
        connect(vcc, vm, uplink, port)
        assert has(vcc, vm, port)
    assert sum(vcc.connections(vm)) == MOST and vcc.counter(vm, "flows_evicted") == 100
    assert not has(vcc, vm, 2001) and not has(vcc, vm, 2100) and has(vcc, vm, 2101), "the oldest goes first"
    assert all(has(vcc, vm, port) for port in (1, still_open, 1001, 1000 + closed))


def test_a_flood_of_syns_leaves_open_connections_and_the_guest_alone(vcc: Host) -> None:
    uplink, vm = vcc.uplink(CAPACITY), vcc.vm()
    for port in range(1, 11):
        connect(vcc, vm, uplink, port)
    for number in range(3 * MOST):
        into(vcc, vm, uplink, 11 + number % 60000, SYN, seq=number)
    assert all(has(vcc, vm, port) for port in range(1, 11))
    assert sum(vcc.connections(vm)) <= MOST
    assert out(vcc, vm, uplink, 65001, SYN).passed and has(vcc, vm, 65001)


def test_without_room_segments_pass_untouched(vcc: Host) -> None:
    uplink, vm = vcc.uplink(CAPACITY), vcc.vm()
    for port in range(1, MOST + 1):
        connect(vcc, vm, uplink, port)
        if port % 1000 == 0:
            vcc.pass_time(2_000_000)
    vcc.pass_time(SECOND)
    assert vcc.connections(vm)[2] == MOST
    fresh = out(vcc, vm, uplink, 40000, SYN)
    assert fresh.passed and fresh.flags == SYN and vcc.counter(vm, "flows_full") == 1
    assert not has(vcc, vm, 40000) and vcc.counter(vm, "flows_evicted") == 0


def test_a_law_that_follows_none_forgets_them(vcc: Host) -> None:
    uplink, vm = vcc.uplink(CAPACITY), vcc.vm()
    for port in range(1, 20):
        connect(vcc, vm, uplink, port)
    vcc.law("static")
    assert vcc.connections(vm) == (0, 0, 0)
    assert out(vcc, vm, uplink, 30, SYN).flags == SYN and vcc.connections(vm) == (0, 0, 0)


def test_a_window_never_grows_and_data_in_flight_is_kept(vcc: Host) -> None:
    uplink, vm = vcc.uplink(CAPACITY), vcc.vm()
    connect(vcc, vm, uplink, 1)
    for number in range(10):
        assert out(vcc, vm, uplink, 1, ACK, seq=1101 + number * 1448, ack=5001, payload=1448).passed <= FULL
    answer = into(vcc, vm, uplink, 1, ACK, seq=5001, ack=1101 + 1448)
    assert 9 * 1448 <= answer.window << 7 <= 65535 << 7
    assert (answer.window < 65535) == (vcc.counter(vm, "rx_windows") > 0)
