# SPDX-License-Identifier: Apache-2.0
"""Bytes on the wire: a rate is one of the cable, whatever the size of packets; counters stay those of devices."""

from typing import Any, List

import pytest

from .host import FULL, MS, SECOND, Host, address

LINE = 1_250_000_000  # 10 Gb/s
ETHERNET, VXLAN4, VXLAN6 = 24, 74, 94  # bytes a packet on the wire beyond its own
HERE, OTHER, THERE = address("10.0.0.1"), address("10.0.0.2"), address("10.9.9.9")


def uplink_of(host: Host, capacity: int, overhead: int) -> Any:
    uplink = host.uplink(capacity)
    host.lib.shim_lab_set_overhead(uplink, overhead)
    return uplink


def on_wire(size: int, overhead: int) -> int:
    return max(size, 60) + overhead if overhead else size


def blast(host: Host, vms: List[Any], uplink: Any, sizes: List[int], ns: int, gap_ns: int, **fields: Any) -> List[int]:
    """Let each VM offer packets of its size, as many as it can; return how many left in the second half."""
    left = [0] * len(vms)
    begin = host.now_ns
    while host.now_ns < begin + ns:
        for number, (vm, source, size) in enumerate(zip(vms, (HERE, OTHER), sizes)):
            for _ in range(4):
                if not host.send(vm, uplink, source, THERE, bytes=size, **fields).passed:
                    break
                left[number] += host.now_ns >= begin + ns // 2
        host.pass_time(gap_ns)
    return left


@pytest.mark.parametrize("overhead", [0, ETHERNET, VXLAN4, VXLAN6])
@pytest.mark.parametrize("size", [42, 60, 128, 590, FULL, 9014])
def test_a_limit_is_one_of_the_wire(host: Host, size: int, overhead: int) -> None:
    host.law("static")
    host.set(waiting_max=0)
    rate = 12_500_000
    uplink, vm = uplink_of(host, LINE, overhead), host.vm(most=rate)
    ns = 1000 * on_wire(size, overhead) * SECOND // rate
    count = blast(host, [vm], uplink, [size], ns, ns // 1000)[0]
    assert count * on_wire(size, overhead) * SECOND / (ns / 2) == pytest.approx(rate, rel=0.02)
    found = host.limiter(vm, uplink)
    assert found.bytes == size * found.packets, "counters count bytes of packets"


def test_small_packets_take_nothing_of_a_neighbours_guarantee(host: Host) -> None:
    """Half of a line is half of a cable: before, one with 60-byte packets had 7 of 10 Gb/s."""
    host.law("static")
    host.set(waiting_max=0)
    line = 125_000_000
    uplink = uplink_of(host, line, ETHERNET)
    vms = [host.vm(), host.vm()]
    left = blast(host, vms, uplink, [60, FULL], 40 * MS, 1000)
    taken = [count * on_wire(size, ETHERNET) for count, size in zip(left, (60, FULL))]
    assert taken[0] == pytest.approx(taken[1], rel=0.05)
    assert sum(taken) <= 1.02 * line * 0.02


@pytest.mark.parametrize("burst_us", [0, 100, 10_000])
def test_gso_counts_each_segment(host: Host, burst_us: int) -> None:
    host.law("static")
    host.set(burst_us=burst_us, waiting_max=0, horizon_ns=20 * MS)
    rate, parts = 12_500_000, 40
    uplink, vm = uplink_of(host, LINE, ETHERNET), host.vm(most=rate)
    ns = 40 * parts * (FULL + ETHERNET) * SECOND // rate
    before = host.now_ns
    passed = 0
    while host.now_ns < before + ns:
        passed += host.send(vm, uplink, HERE, THERE, bytes=parts * FULL, packets=parts).passed
        host.pass_time(ns // 200)
    wire = passed // FULL * (FULL + ETHERNET)
    assert 0.97 * rate * ns <= wire * SECOND <= rate * ns + (20 * MS * rate + 3 * parts * FULL * SECOND)


def test_another_overhead_holds_from_the_next_period_on(host: Host) -> None:
    host.law("static")
    host.set(waiting_max=0)
    rate = 12_500_000
    uplink, vm = uplink_of(host, LINE, ETHERNET), host.vm(most=rate)
    for overhead in (ETHERNET, VXLAN6, 0, VXLAN4):
        host.lib.shim_lab_set_overhead(uplink, overhead)
        host.pass_time(20 * MS)
        count = blast(host, [vm], uplink, [200], 100 * MS, 50_000)[0]
        assert count * on_wire(200, overhead) / 0.05 == pytest.approx(rate, rel=0.03)


@pytest.mark.parametrize("law", ["eyeq", "seawall", "scc", "hygenicc", "sdngcc", "maxmin"])
def test_rates_to_peers_are_of_the_wire_too(host: Host, law: str) -> None:
    host.law(law)
    host.set(waiting_max=0)
    line = 12_500_000
    uplink, vm = uplink_of(host, line, ETHERNET), host.vm()
    count = blast(host, [vm], uplink, [60], 40 * MS, 10_000)[0]
    assert count * on_wire(60, ETHERNET) / 0.02 <= 1.05 * line


def test_what_is_received_counts_so_too(host: Host) -> None:
    """A receiver's meter reads the cable: with small packets it finds its part full as early as with large ones."""
    host.key(bytes(16))
    host.law("eyeq")
    line = 125_000_000
    grants = []
    for size in (60, FULL):
        uplink, vm = uplink_of(host, line, ETHERNET), host.vm()
        host.send(vm, uplink, HERE, THERE)
        gap_ns = on_wire(size, ETHERNET) * SECOND // line
        for _ in range(20 * MS // gap_ns):
            host.receive(vm, uplink, THERE, HERE, bytes=size)
            host.pass_time(gap_ns)
        rate = host.lib.shim_lab_rx_rate(vm)
        grants.append(rate)
        host.lib.shim_lab_remove_vm(vm)
    assert grants[0] == pytest.approx(line, rel=0.1) and grants[1] == pytest.approx(line, rel=0.1)
