# SPDX-License-Identifier: Apache-2.0
"""Ports and uplinks come and go in any order, under traffic, changes of law, reports: nothing leaks or is used after.

Under sanitizers (test_programs.py runs this file so) a use after the end of an object's life ends the test.
"""

from typing import Any, Dict, List

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from .host import ACK, KEY, MS, SECOND, SYN, TCP, Host, address

CAPACITY = 12_500_000
LAWS = ["static", "sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc", "vcc", "elasticswitch", None]


class Hosts(RuleBasedStateMachine):
    """Hosts in which anything may happen in any order."""

    core: Any  # the engine they run

    vms = Bundle("vms")
    uplinks = Bundle("uplinks")

    def __init__(self) -> None:
        super().__init__()
        self.core.lib.shim_host_clock_ns = SECOND
        self.allocated = self.core.lib.shim_host_allocated
        self.warnings = self.core.lib.shim_host_warnings
        self.host = Host(self.core, peers_max=6, inactive_ns=20 * MS, peer_idle_ns=60 * MS)
        self.host.key(KEY)
        self.made = 0
        self.reports: List[Any] = []
        self.of: Dict[int, Any] = {}

    @rule(target=vms, weight=st.integers(1, 5), least=st.sampled_from([0, 100_000]),
          law=st.sampled_from([None, "static", "scc"]))
    def add_vm(self, weight: int, least: int, law: Any) -> Any:
        self.made += 1
        vm = self.host.vm(weight, least, 0, law)
        self.of[self.made] = vm
        return self.made

    @rule(target=uplinks, capacity=st.sampled_from([CAPACITY, CAPACITY // 10]))
    def add_uplink(self, capacity: int) -> Any:
        return self.host.uplink(capacity)

    @rule(vm=consumes(vms))
    def remove_vm(self, vm: int) -> None:
        self.host.lib.shim_lab_remove_vm(self.of.pop(vm))

    @rule(uplink=consumes(uplinks))
    def remove_uplink(self, uplink: Any) -> None:
        self.host.lib.shim_lab_remove_uplink(uplink)

    @rule(vm=vms, uplink=uplinks, remote=st.integers(1, 12), n=st.integers(1, 30), tcp=st.booleans())
    def send(self, vm: int, uplink: Any, remote: int, n: int, tcp: bool) -> None:
        words: Dict[str, Any] = {}
        if tcp:
            words = {"protocol": TCP, "is_tcp": True, "port_source": remote, "port_destination": 80}
        for number in range(n):
            if tcp:
                words["flags"] = SYN if not number else ACK
            self.host.send(self.of[vm], uplink, address(f"10.0.0.{vm % 250 + 1}"), address(f"10.1.0.{remote}"),
                           bytes=500, **words)

    @rule(vm=vms, uplink=uplinks, remote=st.integers(1, 12), n=st.integers(1, 30), tcp=st.booleans())
    def receive(self, vm: int, uplink: Any, remote: int, n: int, tcp: bool) -> None:
        words: Dict[str, Any] = {}
        if tcp:
            words = {"protocol": TCP, "is_tcp": True, "port_source": 80, "port_destination": remote, "flags": SYN}
        for number in range(n):
            self.host.receive(self.of[vm], uplink, address(f"10.1.0.{remote}"), address(f"10.0.0.{vm % 250 + 1}"),
                              bytes=500, ecn=3, id=number, **words)

    @rule(ms=st.sampled_from([1, 3, 10, 50, 200]))
    def wait(self, ms: int) -> None:
        self.host.pass_time(ms * MS)
        self.reports = (self.reports + self.host.reports())[-20:]

    @rule(law=st.sampled_from(LAWS))
    def set_law(self, law: Any) -> None:
        self.host.law(law)

    @rule(vm=vms, weight=st.integers(1, 9), most=st.sampled_from([0, 1_000_000]), law=st.sampled_from(LAWS))
    def configure(self, vm: int, weight: int, most: int, law: Any) -> None:
        self.host.configure(self.of[vm], weight, 0, most, law)

    @rule(vm=vms, remote=st.integers(1, 12), weight=st.integers(0, 3))
    def weigh(self, vm: int, remote: int, weight: int) -> None:
        self.host.lib.shim_lab_weigh_peer(self.of[vm], address(f"10.1.0.{remote}"), weight)

    @rule(vm=vms, uplink=uplinks)
    def hear(self, vm: int, uplink: Any) -> None:
        """A report reaches somebody, perhaps the wrong one."""
        for source, destination, data in self.reports:
            self.host.message(self.of[vm], uplink, destination, source, data)

    @rule(most=st.sampled_from([2, 6, 50]))
    def set_most(self, most: int) -> None:
        self.host.set(peers_max=most)

    @rule()
    def quiesce(self) -> None:
        self.host.lib.shim_host_quiesce()

    @invariant()
    def counted(self) -> None:
        assert self.core.lib.shim_host_warnings == self.warnings
        for vm in self.of.values():
            assert self.host.peers(vm) <= 50

    def teardown(self) -> None:
        self.host.close()
        assert self.core.lib.shim_host_allocated == self.allocated, "objects leaked"


def test_any_order(core: Any, effort: Any) -> None:
    run_state_machine_as_test(type("Hosts", (Hosts,), {"core": core}), settings=settings(
        effort, stateful_step_count=60, suppress_health_check=list(HealthCheck)))


def test_uplinks_go_before_and_after_their_vms(host: Host) -> None:
    for first in (True, False):
        for law in LAWS[:-1]:
            host.law(law)
            uplink, vm = host.uplink(CAPACITY), host.vm()
            for number in range(20):
                host.send(vm, uplink, address("10.0.0.1"), address(f"10.1.0.{number + 1}"))
                host.receive(vm, uplink, address(f"10.1.0.{number + 1}"), address("10.0.0.1"), ecn=3)
            host.pass_time(20 * MS)
            if first:
                host.lib.shim_lab_remove_uplink(uplink)
                host.lib.shim_host_quiesce()
                host.pass_time(50 * MS)
                assert host.limiter(vm, uplink) is None
                host.lib.shim_lab_remove_vm(vm)
            else:
                host.lib.shim_lab_remove_vm(vm)
                host.lib.shim_host_quiesce()
                host.pass_time(50 * MS)
                host.lib.shim_lab_remove_uplink(uplink)
            host.lib.shim_host_quiesce()
            host.reports()


def test_a_vm_is_freed_after_a_grace_period(host: Host) -> None:
    host.law("scc")
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.send(vm, uplink, address("10.0.0.1"), address("10.1.0.1"))
    before = host.lib.shim_host_allocated
    host.lib.shim_lab_remove_vm(vm)
    assert host.lib.shim_host_allocated == before, "a packet under way could still look at it"
    assert host.lib.shim_host_quiesce() >= 3 and host.lib.shim_host_allocated < before
