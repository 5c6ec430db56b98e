# SPDX-License-Identifier: Apache-2.0
"""Ticks: work for the peers and connections of some VMs leaves the others their control period."""

from typing import Any, Callable, Dict, List

import pytest

from .host import ACK, KEY, MS, NO_SCALE, SECOND, SYN, TCP, Host, address
from .link import Link

CAPACITY = 1_250_000_000
HERE = address("10.0.0.1")
THERE = address("10.1.0.1")
#: Periods of the laws with peers, ns.
PERIODS = {"eyeq": MS // 5, "hygenicc": MS // 2, "scc": MS, "seawall": 10 * MS, "elasticswitch": 15 * MS}
#: A lock takes so long, ns: a visit of a VM with one peer takes half a microsecond, as was measured.
LOCK_NS = 50
#: A tick may take this part of T, and for its last steps, a division and a VM at rest so many locks.
BUDGET, STEPS_BEYOND = 48, 150
#: Packets that come to each attacked VM, a second.
PACKETS = 60_000


class Attack:
    """VMs to which packets come from many sources in turn."""

    def __init__(self, host: Host, uplink: Any, vms: List[Any], sources: int) -> None:
        self.host, self.uplink, self.vms, self.sources = host, uplink, vms, sources
        self.sent, self.begin_ns = 0, host.now_ns
        self.packet = host.ffi.new("struct shim_lab_packet *", {
            "version": 4, "protocol": 17, "bytes": 60, "packets": 1, "scale": NO_SCALE})
        host.ffi.memmove(self.packet.source, address("10.200.0.0"), 16)
        self.all()

    def one(self) -> None:
        """Bring the next packet to each VM."""
        number = self.sent % self.sources
        self.sent += 1
        self.packet.source[13], self.packet.source[14] = 200 + (number >> 16), number >> 8 & 255
        self.packet.source[15] = number & 255
        for index, vm in enumerate(self.vms):
            self.packet.destination[15] = index + 1
            self.host.lib.shim_lab_receive(vm, self.uplink, self.packet, self.host.result)

    def all(self) -> None:
        """Bring a packet from each source."""
        self.host.ffi.memmove(self.packet.destination, address("10.0.1.0"), 16)
        for _ in range(self.sources):
            self.one()

    def go_on(self) -> None:
        """Bring what is due."""
        due = (self.host.now_ns - self.begin_ns) * PACKETS // SECOND
        while self.sources and self.sent - self.sources < due:
            self.one()


class Watch:
    """What ticks take, each lock as long as LOCK_NS, and when visits of VMs begin."""

    def __init__(self, host: Host, vms: List[Any]) -> None:
        self.host = host
        self.visited: Dict[Any, List[int]] = {vm: [] for vm in vms}
        self.longest_tick_ns = 0

    def run(self, ns: int, step_ns: int, act: Callable[[], None]) -> None:
        """Let time go by in steps, each of which ``act`` begins."""
        host = self.host
        end_ns = host.now_ns + ns
        while host.now_ns < end_ns:
            act()
            next_ns = host.now_ns + step_ns
            while 0 < host.due() <= next_ns:
                host.lib.shim_host_clock_ns = max(host.due(), host.now_ns)
                self.tick()
            host.lib.shim_host_clock_ns = max(host.now_ns, next_ns)

    def tick(self) -> None:
        """Let the clocks tick."""
        begin_ns = self.host.now_ns
        self.host.lib.shim_host_lock_ns = LOCK_NS
        self.host.tick()
        self.host.lib.shim_host_lock_ns = 0
        self.longest_tick_ns = max(self.longest_tick_ns, self.host.now_ns - begin_ns)
        self.host.reports()
        for vm, times in self.visited.items():
            time_ns = int(self.host.lib.shim_lab_visited(vm))
            if not times or times[-1] != time_ns:
                times.append(time_ns)

    def periods(self, vm: Any, since_ns: int) -> List[int]:
        """Return how long the periods of a VM were that began at since_ns or later, ns."""
        times = [one for one in self.visited[vm] if one >= since_ns]
        return [after - before for before, after in zip(times, times[1:])]


def own_period(host: Host, law: str, attacked: int, sources: int, own_peers: int = 1) -> float:
    """Return the longest period of a VM that sends to own_peers addresses beside attacked ones, in T.

    On the way it is checked that no tick takes more than its part of T, and a few steps.
    """
    period_ns = PERIODS[law]
    host.key(KEY)
    host.law(law, period=period_ns)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    attack = Attack(host, uplink, [host.vm() for _ in range(attacked)], sources)

    def act() -> None:
        for number in range(own_peers):
            host.send(vm, uplink, HERE, address(f"10.1.0.{number + 1}"))
        attack.go_on()

    watch = Watch(host, [vm])
    step_ns = max(period_ns // 2, MS // 2)
    watch.run(20 * MS, step_ns, act)
    begin_ns = host.now_ns
    watch.run(max(6 * period_ns, 20 * MS), step_ns, act)
    assert watch.longest_tick_ns <= period_ns // BUDGET + STEPS_BEYOND * LOCK_NS
    return max(watch.periods(vm, begin_ns)) / period_ns


@pytest.mark.parametrize("law,attacked", [(law, attacked) for law in PERIODS for attacked in (1, 4, 8, 16)
                                          if law == "eyeq" or attacked in (1, 16)])
def test_a_vm_beside_attacked_ones_keeps_its_period(host: Host, law: str, attacked: int) -> None:
    assert own_period(host, law, attacked, 2000) <= 2


@pytest.mark.parametrize("sources,own_peers", [(100, 1), (100, 12), (500, 60), (3000, 12)])
def test_its_period_is_its_own_whatever_peers_it_has_itself(hosts: Any, sources: int, own_peers: int) -> None:
    """Where the others have more peers, that is: nobody can tell an attack by fewer."""
    alone = own_period(hosts(), "eyeq", 0, 0, own_peers)
    assert own_period(hosts(), "eyeq", 8, sources, own_peers) <= 2 * alone + 1


def delivered(core: Any, law: str, attacked: int, sources: int) -> int:
    """Return the bytes that a sender beside attacked VMs brings to another host in its first 300 ms."""
    link = Link(core, law, 25_000_000, [1], waiting_max=0)
    try:
        host, uplink = link.senders[0], link.uplinks[0]
        attack = Attack(host, uplink, [host.vm() for _ in range(attacked)], sources)
        tick, reports = host.tick, host.reports

        def costly() -> int:
            attack.go_on()
            core.lib.shim_host_lock_ns = LOCK_NS
            ticked = tick()
            core.lib.shim_host_lock_ns = 0
            return ticked

        host.tick = costly  # type: ignore[method-assign]
        # What attackers are told leads nowhere.
        host.reports = lambda: [one for one in reports() if one[1] in link.places]  # type: ignore[method-assign]
        link.blast(0)
        link.run(300 * MS)
        return link.delivered[0]
    finally:
        link.close()


@pytest.mark.parametrize("law,attacked", [("eyeq", 1), ("eyeq", 8), ("seawall", 8), ("scc", 8), ("hygenicc", 8),
                                          ("elasticswitch", 8)])
def test_many_sources_take_no_more_of_a_neighbours_rate_than_one(core: Any, law: str, attacked: int) -> None:
    one, many = (delivered(core, law, attacked, sources) for sources in (1, 2000))
    assert many >= 0.9 * one, (one, many)


def test_an_attacked_vm_is_visited_as_well(host: Host) -> None:
    """Where light VMs alone have more work than there is time for, the heavy one has its turns."""
    host.key(KEY)
    host.law("eyeq")
    uplink, vms, heavy = host.uplink(CAPACITY), [host.vm() for _ in range(60)], host.vm()
    attack = Attack(host, uplink, [heavy], 500)
    there = address("10.1.0.1")

    def act() -> None:
        for number, vm in enumerate(vms):
            host.send(vm, uplink, address(f"10.0.0.{number + 1}"), there)
        attack.go_on()

    watch = Watch(host, [vms[0], heavy])
    watch.run(100 * MS, MS // 2, act)
    assert len(watch.visited[heavy]) >= 50 and len(watch.visited[vms[0]]) >= 20


def test_a_visit_of_connections_keeps_to_the_budget(host: Host) -> None:
    """One VM with all the connections that it may have leaves the tick its time, and another VM its period."""
    period_ns = 50 * MS
    host.law("vcc", period=period_ns)
    host.set(waiting_max=0)
    uplink, vm, other = host.uplink(CAPACITY), host.vm(), host.vm()
    most = 16384

    def segment(of: Any, port: int, flags: int, payload: int = 0) -> None:
        host.send(of, uplink, HERE if of == vm else address("10.0.0.2"), THERE, protocol=TCP, is_tcp=True,
                  port_source=port, port_destination=80, flags=flags, seq=1000, payload=payload, size=payload,
                  window=65535, mss=1448 if flags & SYN else 0, bytes=66 + payload,
                  scale=7 if flags & SYN else NO_SCALE)

    watch = Watch(host, [vm, other])
    for port in range(1, most + 1):
        segment(vm, port, ACK, 1)
    for _ in range(20):
        segment(other, 1, ACK, 1)
        for port in range(1, most + 1, 7):
            segment(vm, port, ACK, 1)
        watch.run(period_ns, period_ns, lambda: None)
    assert sum(host.connections(vm)) == most
    assert watch.longest_tick_ns <= period_ns // BUDGET + STEPS_BEYOND * LOCK_NS
    assert max(watch.periods(other, 0)) <= 2 * period_ns
    assert 4 <= len(watch.visited[vm])
