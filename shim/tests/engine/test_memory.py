# SPDX-License-Identifier: Apache-2.0
"""No memory: each allocation of a host's life fails once; nothing leaks, and a VM under a law stays bound."""

from typing import Any, Tuple

import pytest

from .host import ACK, FULL, KEY, MS, NOT_ECT, SECOND, SYN, TCP, Host, address

CAPACITY = 12_500_000
HERE, THERE = address("10.0.0.1"), address("10.1.0.1")
SEVERAL = 2**40


class Life:
    """What an operator and a VM do to a host, each step of which may be refused for want of memory."""

    def __init__(self, core: Any, law: str) -> None:
        self.core, self.law = core, law
        self.passed = self.begin_ns = 0

    def run(self) -> None:
        host = Host.try_new(self.core)
        if not host:
            return
        try:
            self.configure(host)
        finally:
            host.close()

    def configure(self, host: Host) -> None:
        lib, ffi = host.lib, host.ffi
        ruled = lib.shim_lab_set_law(host.lab, self.law.encode()) == 0
        lib.shim_lab_set_key(host.lab, KEY, False)
        uplink, vm = lib.shim_lab_add_uplink(host.lab, CAPACITY), lib.shim_lab_add_vm(host.lab)
        if ffi.NULL in (uplink, vm):
            return
        assert lib.shim_lab_set_prefixes(vm, HERE, b"\x80", 1) in (0, -12)
        assert lib.shim_lab_weigh_peer(vm, THERE, 3) in (0, -2)
        self.begin_ns = host.now_ns
        for number in range(300):
            self.passed += host.send(vm, uplink, HERE, address(f"10.1.0.{number % 40 + 1}"), ecn=NOT_ECT).passed
            host.receive(vm, uplink, address(f"10.1.1.{number % 40 + 1}"), HERE, ecn=3, id=number)
            port = 1000 + number
            words = {"protocol": TCP, "is_tcp": True, "port_source": port, "port_destination": 80, "mss": 1448,
                     "scale": 7, "window": 9999, "bytes": 74}
            self.passed += host.send(vm, uplink, HERE, THERE, flags=SYN, seq=1, **words).passed
            self.passed += host.send(vm, uplink, HERE, THERE, flags=ACK, seq=2, ack=1, payload=10, size=10,
                                     **words).passed
            host.pass_time(MS // 4)
            if number == 150:
                lib.shim_lab_set(host.lab, b"inactive_ns", 20 * MS)
                extra = lib.shim_lab_add_vm(host.lab)
                if extra != ffi.NULL:
                    host.send(extra, uplink, address("10.0.0.7"), THERE)
        host.pass_time(SECOND)
        host.reports()
        found = host.limiter(vm, uplink)
        if ruled and found:
            assert self.passed <= CAPACITY * (host.now_ns - self.begin_ns) / SECOND + 3 * FULL + CAPACITY * 0.002


def life(core: Any, law: str, fail_at: int, count: int = 1) -> Tuple[int, int]:
    """Live once; return how many allocations there were and how many objects are left."""
    lib = core.lib
    lib.shim_host_clock_ns = SECOND
    before, allocated = lib.shim_host_allocations, lib.shim_host_allocated
    lib.shim_host_fail_at = before + fail_at if fail_at else 0
    lib.shim_host_fail_count = count
    Life(core, law).run()
    lib.shim_host_fail_at = 0
    lib.shim_host_quiesce()
    return lib.shim_host_allocations - before, lib.shim_host_allocated - allocated


@pytest.mark.parametrize("law", ["static", "vcc", "hygenicc", "seawall", "eyeq"])
def test_each_allocation_fails_once(core: Any, law: str) -> None:
    total, left = life(core, law, 0)
    assert left == 0 and total > (10 if law == "static" else 90)
    # Each of the first ones, which are all different, and a sample of those that recur.
    for fail_at in [*range(1, 40), *range(40, total + 1, max(total // 40, 1))]:
        assert life(core, law, fail_at)[1] == 0, f"allocation {fail_at} failed, and something leaked"


@pytest.mark.parametrize("law", ["static", "vcc", "hygenicc", "seawall"])
def test_from_some_time_on_there_is_none(core: Any, law: str) -> None:
    total, _ = life(core, law, 0)
    for fail_at in [*range(1, 30), total // 4, total // 2]:
        assert life(core, law, fail_at, SEVERAL)[1] == 0


def press(host: Host) -> None:
    """Let all allocations fail from now on."""
    host.lib.shim_host_fail_at = host.lib.shim_host_allocations + 1
    host.lib.shim_host_fail_count = SEVERAL


def test_a_limiter_that_cannot_be_had_is_a_drop(host: Host) -> None:
    host.law("static")
    uplink, vm = host.uplink(CAPACITY), host.vm()
    press(host)
    for _ in range(10):
        assert host.send(vm, uplink, HERE, THERE).drop == "memory"
    assert host.counter(vm, "drop_memory") == 10
    host.lib.shim_host_fail_at = 0
    assert host.send(vm, uplink, HERE, THERE).passed


@pytest.mark.parametrize("law", ["hygenicc", "scc", "seawall", "eyeq"])
def test_a_peer_that_cannot_be_had_leaves_the_shared_bucket(host: Host, law: str) -> None:
    host.law(law)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.send(vm, uplink, HERE, THERE)
    host.pass_time(20 * MS)
    press(host)
    passed, begin_ns = 0, host.now_ns
    for number in range(2000):
        passed += host.send(vm, uplink, HERE, address(f"10.4.{number >> 8}.{number & 255}")).passed
        host.pass_time(50_000)
    bound = CAPACITY >> 6
    assert passed <= bound * (host.now_ns - begin_ns) / SECOND + 3028 + 11 * FULL + bound * 0.002
    assert host.counter(vm, "peers_no_memory") >= 2000 - 100


def test_a_connection_that_cannot_be_had_passes(host: Host) -> None:
    host.law("vcc")
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.send(vm, uplink, HERE, THERE, bytes=60)
    press(host)
    outcome = host.send(vm, uplink, HERE, THERE, protocol=TCP, is_tcp=True, port_source=1, port_destination=80,
                        flags=SYN, seq=1, bytes=74)
    assert outcome.passed and outcome.flags == SYN and host.counter(vm, "flows_no_memory") == 1
