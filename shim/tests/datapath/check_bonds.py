# SPDX-License-Identifier: Apache-2.0
"""Uplinks that change: cards of other speeds, bonds of Linux and of Open vSwitch, with the capacity of what is up.

    VMs: taps t1 and t2 -- bridge br1 -- card n1, or Linux bond b0 of n1 and n2, or Open vSwitch's bond ob of both
    LACP's partner is a bond of Linux in namespace u: bridge br1 -- l1 == e8, l2 == e9 -- bond peer

Cards are taps, too: what they would send is read from them, and their speed and cable are set.

Arguments: the traffic generator and the module (not used), the folder of the kernel's drivers.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Callable, Dict, List, Sequence, Tuple

from lab import Lab, U, Wire, check, equal, ifindex, links, main, run, settle
from offload import Offloaded, Tap, flood, tcp

from sdngcc.shim.netlink import ShimRefused

DRIVERS = sys.argv[3] if len(sys.argv) > 3 else "drivers/net"
MBIT = 125_000  # bytes/s
BRIDGE = "br1"
FABRIC = bytes.fromhex("02000000f001")
# What is carried out before the link's watcher, which looks once a second, told all.
TOLD_S = 2.5
# HEADERS: of Ethernet, IP and TCP, which each part of a packet has.
WHOLE, MSS, HEADERS = 65535 - 40, 1448, 14 + 20 + 20
# What a packet takes of a cable beyond its bytes: preamble, FCS, gap.
WIRE = 24
# Part of a link's speed that is divided.
LINK = 255 / 256

lab = Lab()
lab.shim.port_del("s3")
run(f"insmod {DRIVERS}/bonding/bonding.ko max_bonds=0")
run(f"ovs-vsctl add-br {BRIDGE} -- set bridge {BRIDGE} fail-mode=standalone")


def paced(*devices: str) -> None:
    """Give devices an fq; Open vSwitch deletes what it finds when it first meets a port."""
    for device in devices:
        run(f"tc qdisc replace dev {device} root fq limit 100000 flow_limit 100000")


class Card(Tap):
    """A network card: a tap whose other end is read as the wire, completed and cut by itself."""

    def __init__(self, name: str, mbps: int) -> None:
        """Create it with its cable plugged in."""
        super().__init__(name, offloads=0)
        self.mbps(mbps)

    def mbps(self, mbps: int) -> None:
        """Let its link come up again with another speed."""
        self.carrier(False)
        self.speed(mbps)
        self.carrier(True)
        time.sleep(TOLD_S)

    def plugged(self, on: bool) -> None:
        """Plug its cable in or out, and wait until all know."""
        self.carrier(on)
        time.sleep(TOLD_S)


class Vm(Tap):
    """A VM: its tap, a port of the bridge with the role, and its address."""

    def __init__(self, number: int) -> None:
        """Create it."""
        super().__init__(f"t{number}")
        self.mac = bytes.fromhex(f"02000000000{number}")
        self.packet = self.frame(tcp(WHOLE, MSS, (f"10.9.0.{number}", U)))
        run(f"ovs-vsctl add-port {BRIDGE} {self.name}")

    def frame(self, packet: Offloaded) -> Offloaded:
        """Return a packet of this VM to the fabric."""
        return dataclasses.replace(packet, frame=FABRIC + self.mac + packet.frame[12:])


one, two = Vm(1), Vm(2)
n1, n2 = Card("n1", 200), Card("n2", 100)
VMS, CARDS = (one, two), (n1, n2)


def fresh(limiter: str = "pace") -> None:
    """Begin anew under law static, with both VMs and no uplink, card or bond."""
    run("ovs-vsctl" + "".join(f" -- --if-exists del-port {BRIDGE} {port}" for port in ("n1", "b0", "ob"))
        + "; ip link del b0 2>/dev/null; ip link set n1 up; ip link set n2 up")
    n1.mbps(200)
    n2.mbps(100)
    for port in lab.shim.ports():
        lab.shim.port_del(port.name)
    lab.shim.settings_set(law="static", limiter=limiter, burst=65536)
    for vm in VMS:
        lab.shim.port_set(vm.name, role="vm")


def learned(card: Card, vms: Sequence[Vm] = VMS) -> None:
    """Let the bridge learn that the fabric is behind a card, so that nothing for it is flooded."""
    for vm in vms:
        answer = tcp(10, MSS, (U, "10.9.0.1"))
        card.send(dataclasses.replace(answer, frame=vm.mac + FABRIC + answer.frame[12:]))
        time.sleep(0.01)
        vm.received()


def wire(vms: Sequence[Vm], mbps: float, seconds: float = 0.2) -> Dict[str, List[float]]:
    """Let VMs send so fast, together; return Mb/s that each got from each card, by the cards' names.

    What full buckets let through is over when it begins to count.
    """
    got = {card.name: [0.0] * len(vms) for card in CARDS}

    def read() -> None:
        for card in CARDS:
            for packet in card.received(0):
                for number, vm in enumerate(vms):
                    if packet.frame[6:12] == vm.mac:
                        got[card.name][number] += len(packet.frame) + WIRE

    def offer(packet: Offloaded) -> None:
        for vm in vms:
            vm.send(vm.packet)

    flood(offer, one.packet, mbps * MBIT, 0.3, read)
    for counts in got.values():
        counts[:] = [0.0] * len(vms)
    took = flood(offer, one.packet, mbps * MBIT, seconds, read)
    return {name: [count / took / MBIT for count in counts] for name, counts in got.items()}


def near(got: Sequence[float], wanted: Sequence[float], what: str) -> None:
    """Check rates in Mb/s to 2%, and to 0.1 Mb/s where nothing is wanted."""
    print(f"# {what}: {[round(value, 2) for value in got]} of {list(wanted)} Mb/s", flush=True)
    for value, want in zip(got, wanted):
        assert abs(value - want) <= max(0.02 * want, 0.1), f"{what}: {list(got)}, wanted {list(wanted)} Mb/s"


def parts(*mbps: float) -> Dict[str, float]:
    """Return VMs' shares of links of so many Mb/s together, in Mb/s."""
    return {vm.name: round(part * LINK, 2) for vm, part in zip(VMS, mbps)}


def shares(uplink: str) -> Dict[str, float]:
    """Let both VMs send a little; return their shares of an uplink in Mb/s."""
    for _ in range(20):
        for vm in VMS:
            vm.send(vm.packet)
        time.sleep(0.01)
    for card in CARDS:
        card.received(0)
    names = {ifindex(vm.name): vm.name for vm in VMS}
    return {names[each.vm]: round(each.share / MBIT, 2) for each in lab.shim.limiters()
            if each.uplink == ifindex(uplink)}


def said(function: Callable[[], object]) -> str:
    """Return what a refusal says; empty if there is none."""
    try:
        function()
    except ShimRefused as error:
        return str(error)
    return ""


@check
def speeds() -> None:
    """A card's capacity is its speed, as it is now; a set one stays; guarantees above it shrink, and come back"""
    fresh()
    run(f"ovs-vsctl add-port {BRIDGE} n1")
    paced("n1")
    learned(n1)
    lab.shim.port_set("n1", role="uplink", capacity=0)
    for limiter in ("police", "pace"):
        lab.shim.settings_set(limiter=limiter)
        n1.mbps(200)
        for mbps in (200, 50, 400):
            n1.mbps(mbps)
            equal(shares("n1"), parts(mbps / 2, mbps / 2), f"shares of {mbps} Mb/s")
            near(wire(VMS, 2 * mbps)["n1"], [mbps / 2] * 2, f"{limiter}, {mbps} Mb/s")
    n1.plugged(False)
    equal(shares("n1"), parts(200, 200), "a link that is down keeps its speed")
    lab.shim.port_set("t1", min_rate=100 * MBIT)
    lab.shim.port_set("t2", min_rate=50 * MBIT)
    n1.mbps(30)
    equal(shares("n1"), parts(20, 10), "guarantees of 150 Mb/s on 30")
    n1.mbps(200)
    # The first keeps all of its guarantee, which is more than a half of what is divided.
    equal(shares("n1"), {"t1": 100, "t2": round(200 * LINK - 100, 2)}, "guarantees on 200")
    for vm in VMS:
        lab.shim.port_set(vm.name, min_rate=0)
    lab.shim.port_set("n1", role="uplink", capacity=80 * MBIT)
    for mbps in (50, 200):
        n1.mbps(mbps)
        equal(shares("n1"), {"t1": 40, "t2": 40}, f"with a capacity set, at {mbps} Mb/s")


def linux_bond(mode: str, *members: str, where: str = "", name: str = "b0") -> None:
    """Make a bond of Linux, in a namespace, and set it up."""
    links(f"link add {name} type bond mode {mode}",
          *(command for member in members for command in (f"link set {member} down",
                                                          f"link set {member} master {name}")),
          f"link set {name} up", within=where)
    time.sleep(TOLD_S)


def shared_by_the_active_card() -> None:
    """Check that VMs share n1 of a bond that prefers it, and n2 while the cable of n1 is pulled."""
    for limiter in ("police", "pace"):
        lab.shim.settings_set(limiter=limiter)
        for plugged, wanted in ((True, {"n1": [100, 100], "n2": [0, 0]}), (False, {"n1": [0, 0], "n2": [50, 50]}),
                                (True, {"n1": [100, 100], "n2": [0, 0]})):
            n1.plugged(plugged)
            got = wire(VMS, 400)
            for card in got:
                near(got[card], wanted[card], f"{limiter}, n1 {'in' if plugged else 'out'}, {card}")


@check
def linux_backup() -> None:
    """A Linux bond, active-backup, has its active card's capacity, and keeps to it when a cable is pulled"""
    fresh()
    paced("n1", "n2")
    linux_bond("active-backup miimon 10 primary_reselect always", "n1", "n2")
    run("ip link set b0 type bond primary n1")
    run(f"ovs-vsctl add-port {BRIDGE} b0")
    time.sleep(TOLD_S)
    learned(n1)
    lab.shim.port_set("b0", role="uplink", capacity=0)
    equal(lab.shim.port_get("b0").qdisc, "fit", "queuing disciplines of the cards")
    shared_by_the_active_card()
    n2.mbps(400)
    equal(shares("b0"), parts(100, 100), "shares, whatever the backup's speed")


@check
def linux_balanced() -> None:
    """A Linux bond that uses all cards has the sum of what is up, loses what goes, and is unfit if one card is"""
    fresh()
    paced("n1", "n2")
    linux_bond("balance-rr miimon 10", "n1", "n2")
    run(f"ovs-vsctl add-port {BRIDGE} b0")
    lab.shim.port_set("b0", role="uplink", capacity=0)
    equal(shares("b0"), parts(150, 150), "both up")
    n1.plugged(False)
    equal(shares("b0"), parts(50, 50), "n1 down")
    n1.plugged(True)
    n1.mbps(300)
    equal(shares("b0"), parts(200, 200), "n1 faster")
    run("ip link set n2 nomaster")
    time.sleep(TOLD_S)
    equal(shares("b0"), parts(150, 150), "n2 released")
    n1.mbps(200)
    run("ip link set n2 down; ip link set n2 master b0")
    time.sleep(TOLD_S)
    equal(shares("b0"), parts(150, 150), "n2 enslaved again")
    lab.shim.port_set("t1", max_rate=40 * MBIT)
    got = wire((one,), 160)
    near([sum(sum(rates) for rates in got.values())], [40], "a ceiling over both cards")
    assert all(sum(rates) > 15 for rates in got.values()), f"both cards carry: {got}"
    lab.shim.port_set("t1", max_rate=0)
    run("tc qdisc replace dev n2 root pfifo")
    equal(lab.shim.port_get("b0").qdisc, "unfit", "a card with pfifo")


def ovs_bond(mode: str, *options: str) -> None:
    """Make a bond of Open vSwitch of both cards, each an uplink, that balances nothing by itself."""
    fresh()
    run(f"ovs-vsctl add-bond {BRIDGE} ob n1 n2 bond_mode={mode} other_config:bond-rebalance-interval=0 "
        + " ".join(options))
    paced("n1", "n2")
    time.sleep(TOLD_S)
    for card in CARDS:
        lab.shim.port_set(card.name, role="uplink", capacity=0)


@check
def ovs_backup() -> None:
    """Open vSwitch's bond, active-backup: VMs share the active card, at once on the other one when a cable is pulled"""
    ovs_bond("active-backup", "other_config:bond-primary=n1")
    learned(n1)
    shared_by_the_active_card()


def migrate(vm: Vm, card: Card) -> None:
    """Let a VM's packets leave by a card of the bond."""
    mac = ":".join(f"{byte:02x}" for byte in vm.mac)
    number = run(f"ovs-appctl bond/hash {mac}").strip()
    run(f"ovs-appctl bond/migrate ob {number} {card.name}")
    settle()
    # What it sent by the other card is forgotten.
    time.sleep(1.5)


@check
def ovs_slb() -> None:
    """Open vSwitch's bond, balance-slb: a VM has the card that it was given, its share when it is given another's"""
    ovs_bond("balance-slb")
    learned(n1)
    for vm, card in ((one, n1), (two, n2)):
        vm.send(vm.packet)
        settle()
        migrate(vm, card)
    got = wire(VMS, 400)
    near(got["n1"] + got["n2"], [200, 0, 0, 100], "a card each")
    migrate(two, n1)
    got = wire(VMS, 400)
    near(got["n1"] + got["n2"], [100, 100, 0, 0], "both on n1")
    n1.plugged(False)
    got = wire(VMS, 400)
    near(got["n1"] + got["n2"], [0, 0, 50, 50], "n1 down")


def partner() -> None:
    """Make LACP's partner: two cables to a bond of Linux."""
    links(*(f"link add l{number} type veth peer name e{number + 7} netns u" for number in (1, 2)),
          "link set l1 up", "link set l2 up")
    links("link set e8 up", "link set e9 up", within="u")
    linux_bond("802.3ad miimon 10 lacp_rate fast", "e8", "e9", where="u", name="peer")


def by_cable(vm: Vm, mbps: float, wires: Sequence[Wire], flows: int = 16) -> List[float]:
    """Let a VM send so fast by so many connections; return Mb/s on each cable."""
    packets = [vm.frame(tcp(4 * MSS, MSS, ("10.9.0.1", U), port=4000 + number)) for number in range(flows)]
    turns = iter(range(10**9))

    def offer(packet: Offloaded) -> None:
        vm.send(packets[next(turns) % flows])

    marks: List[Tuple[float, List[int]]] = []
    counts = [0] * len(wires)

    def count() -> None:
        for place, one_wire in enumerate(wires):
            while (frame := one_wire.receive(0)) is not None:
                if frame[6:12] == vm.mac:
                    # Such a cable does not cut what stands for several packets.
                    payload = len(frame) - HEADERS
                    counts[place] += payload + (HEADERS + WIRE) * -(-payload // MSS)
        marks.append((time.monotonic(), list(counts)))

    flood(offer, packets[0], mbps * MBIT, 0.5, count)
    # Between two moments of one flood the bucket neither fills nor empties.
    (began, before), (ended, after) = next(mark for mark in marks if mark[0] > marks[0][0] + 0.3), marks[-1]
    return [(last - first) / (ended - began) / MBIT for first, last in zip(before, after)]


def bundled(wanted: int, what: str) -> None:
    """Wait until Open vSwitch's bond uses so many cables."""
    for _ in range(40):
        if run("ovs-appctl bond/show ob").count(": enabled") == wanted:
            return
        time.sleep(0.5)
    raise AssertionError(f"{what}: {run('ovs-appctl bond/show ob; ovs-appctl lacp/show ob')}")


@check
def ovs_lacp() -> None:
    """Open vSwitch's bond, LACP and balance-tcp: a ceiling holds over both cables; LACP goes on while VMs fill them"""
    fresh()
    partner()
    wires = [Wire("u", "e8"), Wire("u", "e9")]
    run(f"ovs-vsctl add-bond {BRIDGE} ob l1 l2 bond_mode=balance-tcp lacp=active other_config:lacp-time=fast "
        "other_config:bond-rebalance-interval=0")
    paced("l1", "l2")
    bundled(2, "at first")
    for device in ("l1", "l2"):
        lab.shim.port_set(device, role="uplink", capacity=100 * MBIT)
    for limiter in ("police", "pace"):
        lab.shim.settings_set(limiter=limiter)
        lab.shim.port_set("t1", max_rate=30 * MBIT)
        got = by_cable(one, 400, wires)
        near([sum(got)], [30], f"{limiter}, a ceiling over both cables")
        assert min(got) > 10, f"both cables carry: {got}"
        lab.shim.port_set("t1", max_rate=0)
        flood(one.send, one.packet, 200 * MBIT, 5.0)
        bundled(2, "after cables were full")
        near(by_cable(one, 800, wires), [100, 100], f"{limiter}, all of both")
    links("link set e8 down", within="u")
    bundled(1, "with a cable pulled")
    near(by_cable(one, 800, wires[1:]), [100], "a cable pulled")
    links("link set e8 up", within="u")
    bundled(2, "with the cable in again")


@check
def linux_lacp() -> None:
    """A Linux bond with LACP has the sum of what its partner takes, and a VM one limit over both cables"""
    fresh()
    wires = [Wire("u", "e8"), Wire("u", "e9")]
    linux_bond("802.3ad miimon 10 lacp_rate fast xmit_hash_policy layer3+4", "l1", "l2")
    paced("l1", "l2")
    run(f"ovs-vsctl add-port {BRIDGE} b0")
    time.sleep(5)
    lab.shim.port_set("b0", role="uplink", capacity=0)
    equal(shares("b0"), parts(10_000, 10_000), "shares of two cables of 10 Gb/s")
    for limiter in ("police", "pace"):
        lab.shim.settings_set(limiter=limiter)
        lab.shim.port_set("t1", max_rate=60 * MBIT)
        got = by_cable(one, 400, wires)
        near([sum(got)], [60], f"{limiter}, a ceiling over both cables")
        assert min(got) > 15, f"both cables carry: {got}"
    links("link set e8 down", within="u")
    time.sleep(5)
    equal(shares("b0"), {"t1": 60, "t2": round(10_000 * LINK - 60, 2)}, "shares with a cable pulled")
    near(by_cable(one, 400, wires[1:]), [60], "a cable pulled")
    links("link set e8 up", within="u")
    time.sleep(5)
    equal(shares("b0")["t2"], round(20_000 * LINK - 60, 2), "share with the cable in again")


@check
def late() -> None:
    """An uplink without a speed is refused, told in the database, and becomes one when it has got a link"""
    fresh()
    run(f"ip link add b0 type bond mode active-backup miimon 10; ip link set b0 up; ovs-vsctl add-port {BRIDGE} b0 "
        "-- set Interface b0 other_config:shim-role=uplink")
    time.sleep(0.2)
    told = run("ovs-vsctl get Interface b0 status:shim-error")
    assert "b0 tells no link speed" in told, told
    links("link set n1 down", "link set n1 master b0")
    time.sleep(6)
    equal(run("ovs-vsctl --if-exists get Interface b0 status:shim-error").strip(), "", "complaint")
    equal(lab.shim.port_get("b0").role, "uplink", "role")


main()
