# SPDX-License-Identifier: Apache-2.0
"""Beside an unmodified datapath: where a packet is from is known on all its ways, and what nobody knows is bound.

    br0 port i1, an internal one: a VM's, here and in namespace x    br0 port h4, without a role
    br0 port w5 == w6, both in this namespace, where marks survive between them
    br0 port o7, an internal one without a role in namespace o, of whose packets nothing but the mark is left

Arguments: the traffic generator (not used), the module that the shim is part of.
"""

from __future__ import annotations

import itertools
import re
import socket
import struct
import subprocess
import time
from contextlib import contextmanager
from typing import Dict, Iterator, Optional, Tuple

from lab import (
    BRIDGE,
    MODULE,
    NOT_ECT,
    PROTOCOL,
    V1,
    Lab,
    U,
    Wire,
    check,
    equal,
    frames,
    ifindex,
    ipv4,
    links,
    main,
    namespace,
    run,
    settle,
    udp,
    unload,
    without_ipv6,
)

from sdngcc.shim.netlink import ShimClient, ShimRefused

SO_MARK, SO_RCVMARK = 36, 75
# The fields of a mark with the module's default mask: ids begin at bit 20, what says "in a tunnel" is bit 31.
ID, TUNNELLED, FREE = 1 << 20, 1 << 31, 1 << 20
IDS = (1 << 11) - 1
INTERNAL, HOST, LOCAL, OUTSIDE = 4, 5, 6, 7
HERE = "198.51.100.1"
STRAY = "10.9.0.50"
# Packets that become strays, more than a plain fq holds, and a VM's that leave among the last of them.
STRAYS, VICTIM = 13_200, 60
SO_SNDBUFFORCE = 32

lab = Lab()
lab.shim.settings_set(law="static")
run(f"ovs-vsctl add-port {BRIDGE} i1 -- set interface i1 type=internal ofport_request={INTERNAL}")
run(f"ovs-vsctl add-port {BRIDGE} o7 -- set interface o7 type=internal ofport_request={OUTSIDE}")
links("link add h4 type veth peer name h0", "link add w5 type veth peer name w6", "netns add x", "netns add o",
      "link set o7 netns o")
without_ipv6("o")
links("link set o7 up", within="o")
links(*(f"link set {device} up" for device in ("i1", "h4", "h0", "w5", "w6")))
for name, number in (("h4", HOST), ("w5", LOCAL)):
    run(f"ovs-vsctl add-port {BRIDGE} {name} -- set interface {name} ofport_request={number}")
for number in (INTERNAL, HOST):
    run(f"ovs-ofctl add-flow {BRIDGE} priority=9,in_port={number},actions=output:3")
settle()
lab.shim.port_set("i1", role="vm")
internal, host, outside = Wire("", "i1"), Wire("", "h0"), Wire("o", "o7")
outside.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 29)


def marked(device: str, mark: int, name: str = "") -> Wire:
    """Return a wire of this namespace, or the one named, whose frames have a mark."""
    wire = Wire(name, device)
    wire.socket.setsockopt(socket.SOL_SOCKET, SO_MARK, struct.pack("I", mark))
    return wire


def sent() -> Dict[str, int]:
    """Return how many packets were charged to the VMs, and how many left by the uplink from nobody knows where."""
    return {**{device: lab.stats(device)["tx_packets"] for device in ("s1", "s2", "i1")},
            "s3": lab.stats("s3")["stray_packets"]}


@contextmanager
def charged(what: str, **wanted: int) -> Iterator[None]:
    """Check that so many packets are charged to these ports meanwhile, s3 being strays, and none to the others."""
    before = sent()
    yield
    after = sent()
    equal({name: after[name] - before[name] for name in after if after[name] != before[name]}, wanted, what)


def through(wire: Wire, frame: bytes, times: int = 1) -> None:
    """Send a frame a few times, and check that the uplink has it each time."""
    lab.u.flush()
    for number in range(times):
        wire.send(frame)
        assert lab.u.receive() is not None, f"packet {number} did not arrive"


@check
def re_injected() -> None:
    """A VM's first packets, which ovs-vswitchd re-injects, are charged to it, whatever kind of port it has"""
    for place, (name, wire) in enumerate((("s1", lab.v1), ("s2", lab.v2), ("i1", internal))):
        with charged(name, **{name: 3}):
            for number in range(3):
                run("ovs-dpctl del-flows")
                through(wire, ipv4(f"10.9.{place}.{number + 10}", U, udp(100)))
    for role, strays in (("vm", 1), ("none", 0)):
        # While a VM is behind an internal port a mark alone makes nothing free.
        lab.shim.port_set("i1", role=role)
        time.sleep(0.05)
        with lab.counted("s3", stray_packets=strays):
            run("ovs-dpctl del-flows")
            through(host, ipv4("10.9.0.30", U, udp(100)), 3)
    lab.shim.port_set("i1", role="vm")
    time.sleep(0.05)


@check
def forwarded() -> None:
    """Clones, recirculated packets and those that visit user space each time are charged to their VM"""
    frame = ipv4(V1, U, udp(100))
    for match, actions, copies in (("in_port=1,ip", "output:3,output:3", 2), ("in_port=1,ip", "ct(table=1)", 1),
                                   ("in_port=1,ip", "controller(max_len=20),output:3", 1)):
        run(f"ovs-ofctl add-flow {BRIDGE} table=1,ip,actions=output:3")
        with lab.flow(match, actions), charged(actions, s1=3 * copies):
            for _ in range(3):
                lab.v1.send(frame)
                time.sleep(0.01)


@check
def packet_outs() -> None:
    """What user space makes itself is nobody's: it leaves by an uplink, is counted there, and charged to no VM"""
    for port in ("CONTROLLER", "1", "2"):
        with charged(port, s3=1):
            lab.u.flush()
            run(f"ovs-ofctl packet-out {BRIDGE} in_port={port},packet={ipv4(V1, U, udp(100)).hex()},actions=output:3")
            assert lab.u.receive() is not None, "nothing arrived"


@check
def overwritten() -> None:
    """A flow that overwrites all of a VM's mark does not hide it, but for first packets, nor make it another's"""
    for mark in (0, 0xFFFFFFFF, FREE, *(ID * number for number in range(4, 10))):
        with lab.flow("in_port=1,ip", f"set_field:{mark}->pkt_mark,output:3"):
            through(lab.v1, ipv4(V1, U, udp(100)))
            with charged(f"mark {mark:#x}", s1=3):
                through(lab.v1, ipv4(V1, U, udp(100)), 3)


@check
def forged() -> None:
    """Marks that a guest or the host writes are not believed: each packet is charged to where it came from"""
    try:
        lab.shim.port_set("w5", role="vm")
        with lab.flow(f"in_port={LOCAL}", "output:3"):
            for mark in (0, FREE, *(ID * number for number in range(4, 10)), TUNNELLED, TUNNELLED | ID * 4, 0xFFFFFFFF):
                before = lab.stats("w5")["tx_packets"]
                with charged(f"a VM's mark {mark:#x}"):
                    # The first by way of user space, where nothing but the mark is left.
                    run("ovs-dpctl del-flows")
                    through(marked("w6", mark), ipv4("10.9.0.40", U, udp(100)), 2)
                equal(lab.stats("w5")["tx_packets"] - before, 2, f"packets of w5 with mark {mark:#x}")
                # The host may have sent it into a tunnel for a VM, if there is one with that id.
                if mark != TUNNELLED | ID * 4:
                    with charged(f"an internal port's mark {mark:#x}", i1=1):
                        through(marked("i1", mark), ipv4("10.9.0.41", U, udp(100)))
    finally:
        lab.shim.port_del("w5")
    with lab.flow(f"in_port={LOCAL}", "output:3"):
        through(marked("w6", 0), ipv4("10.9.0.42", U, udp(100)))
        for mark in (ID * 4, TUNNELLED | ID * 4):
            with charged(f"mark {mark:#x} by a port without a role"):
                through(marked("w6", mark), ipv4("10.9.0.42", U, udp(100)))


@check
def messages() -> None:
    """A VM's control message goes nowhere, by a port without a role neither; others pass there untouched"""
    for number, receiver in ((HOST, host), (INTERNAL, internal)):
        lab.shim.port_del("i1")
        with lab.flow("in_port=1,ip", f"output:{number}"):
            for protocol, drops in ((PROTOCOL, 1), (PROTOCOL + 1, 0)):
                for _ in range(2):
                    receiver.flush()
                    with lab.counted("s1", drop_forged=drops, tx_packets=0):
                        lab.v1.send(ipv4(V1, U, bytes(100), protocol=protocol))
                        got = receiver.receive()
                        # A packet socket on an internal port sees what comes before any hook does.
                        if number == HOST:
                            equal(got is None, bool(drops), f"lost protocol {protocol}")
        lab.shim.port_set("i1", role="vm")


@check
def cleaned() -> None:
    """The id does not leave by an uplink, a VM's port or another; the mark's other bits do"""
    mac = bytes.fromhex(run("cat /sys/class/net/w6/address").strip().replace(":", ""))
    run(f"ip addr add {HERE}/24 dev w6")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((HERE, 9))
        receiver.settimeout(1)
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVMARK, 1)
        for role in ("uplink", "vm", None):
            if role:
                lab.shim.port_set("w5", role=role, **({"capacity": 125_000_000} if role == "uplink" else {}))
            for mark, (number, wire) in itertools.product((0, 0x77), ((1, lab.v1), (3, lab.u), (HOST, host))):
                with lab.flow(f"in_port={number},ip", f"load:{mark}->NXM_NX_PKT_MARK[0..15],output:{LOCAL}"):
                    wire.send(mac + ipv4("198.51.100.9", HERE, udp(100))[6:])
                    extra = receiver.recvmsg(2000, 256)[1]
                    got = [struct.unpack("I", data)[0] for _, kind, data in extra if kind == SO_MARK]
                    equal(got, [mark], f"mark of a packet from port {number} behind a port with role {role}")
            if role:
                lab.shim.port_del("w5")
    run(f"ip addr del {HERE}/24 dev w6")


@check
def bound() -> None:
    """Strays get what a VM of weight 1 would, by drops or by departure times, and each lost one is counted"""
    for limiter, counter in (("police", "stray_drop_police"), ("pace", "stray_drop_horizon")):
        lab.fresh("static", limiter=limiter, burst=65_536)
        lab.shim.port_set("s3", role="uplink", capacity=100_000)
        # An active VM of weight 3 leaves a quarter.
        lab.shim.port_set("s1", role="vm", weight=3)
        with lab.flow(f"in_port={OUTSIDE},ip", "set_field:0->pkt_mark,output:3"):
            for number in range(1000):
                # The bucket, full at first, is empty by now.
                if number == 400:
                    before, started = lab.stats("s3"), time.monotonic()
                if not number % 5:
                    lab.v1.send(ipv4(V1, U, udp(1000)))
                outside.send(ipv4(STRAY, U, udp(966)))
                time.sleep(0.004)
            rose, took = lab.changes("s3", before), time.monotonic() - started
        rate = rose["stray_bytes"] / took
        print(f"# {limiter}: {rate:.0f} bytes/s of 25000, {rose}", flush=True)
        assert 23_500 < rate < 26_500, rate
        assert rose["stray_packets"] + rose[counter] == 600, rose
    lab.fresh("static")


@check
def at_once() -> None:
    """A full bucket lets a burst of strays through where they are dropped, two full packets where they are paced"""
    for limiter, sent_at_once, rest in (("police", 30, "stray_drop_police"), ("pace", 3, "stray_paced")):
        lab.fresh("static", limiter=limiter, burst=30_000, horizon=10**9)
        lab.shim.port_set("s3", role="uplink", capacity=100_000)
        # Packets of 976 bytes, and 24 more on the wire.
        with lab.flow(f"in_port={OUTSIDE},ip", "set_field:0->pkt_mark,output:3"):
            outside.send(ipv4(STRAY, U, udp(942)))
            time.sleep(1)
            before = lab.stats("s3")
            for _ in range(60):
                outside.send(ipv4(STRAY, U, udp(942)))
            time.sleep(0.01)
            rose = lab.changes("s3", before)
        sent = 60 if limiter == "pace" else sent_at_once
        equal(rose, {"stray_packets": sent, "stray_bytes": 976 * sent, rest: 60 - sent_at_once}, limiter)
    lab.fresh("static")


def starve(waiting_max: int) -> Tuple[int, int, Dict[str, int]]:
    """Let more strays, small and of many flows, wait in a plain fq than it has room for, at a VM's side.

    Returns how many packets the VM lost, how many wait at the end, and the strays' counters.
    """
    run("tc qdisc replace dev s3 root fq")
    lab.fresh("static", horizon=10**10, burst=3028, waiting_max=waiting_max)
    # 1 MB/s for strays, and all the VM needs.
    lab.shim.port_set("s1", role="vm", weight=124)
    before = lab.stats("s3")
    with lab.flow(f"in_port={OUTSIDE},ip", "set_field:0->pkt_mark,output:3"):
        for wire, address in ((lab.v1, V1), (outside, STRAY)):
            wire.send(ipv4(address, U, udp(100)))
            time.sleep(0.02)
        lab.u.flush()
        for number in range(STRAYS):
            outside.send(ipv4(STRAY, U, udp(26, port=1024 + number % 4096)))
            if number % 20 == 19 and number >= STRAYS - 20 * VICTIM:
                lab.v1.send(ipv4(V1, U, udp(1000)))
                time.sleep(0.0001)
        waiting = int(re.findall(r"backlog \S+ (\d+)p", run("tc -s qdisc show dev s3"))[0])
        own = socket.inet_aton(V1)
        arrived = sum(one[26:30] == own and len(one) > 1000 for one in frames(lab.u, 0.005))
    run("tc qdisc del dev s3 root")
    # What waited is gone, but who comes next stands behind it until it would have left: 60 bytes each at 1 MB/s.
    time.sleep(1.5 * STRAYS * 60 / 1e6)
    return VICTIM - arrived, waiting, lab.changes("s3", before)


@check
def bound_in_number() -> None:
    """No more strays wait than a VM's packets may, the rest is counted: they cost a VM none, and all without a bound"""
    most = lab.shim.settings_get().waiting_max
    try:
        lost, waiting, rose = starve(most)
        print(f"# {lost} of {VICTIM} lost, {waiting} wait, {rose}", flush=True)
        equal(lost, 0, "packets lost by the VM")
        # One in sixteen is counted; the VM's own may be there.
        assert most / 2 <= waiting <= most + VICTIM, f"{waiting} wait"
        equal(rose["stray_packets"] + rose["stray_drop_waiting"], STRAYS + 1, "strays")
        lost, _, rose = starve(0)
        equal(lost, VICTIM, "packets lost by the VM without a bound")
        equal(rose["stray_packets"], STRAYS + 1, "strays without a bound")
    finally:
        lab.shim.settings_set(waiting_max=most)
        lab.fresh("static")


@check
def kept() -> None:
    """What an uplink counted of strays it goes on counting when its role, or every role, was set again"""
    before = lab.stats("s3")
    assert before["stray_packets"], before
    lab.shim.port_del("s3")
    lab.shim.port_set("s3", role="uplink", capacity=125_000_000)
    equal(lab.stats("s3"), before, "after its role was set again")
    lab.shim.port_del("i1")
    for device in ("s1", "s2", "s3"):
        lab.shim.port_del(device)
    equal(lab.shim.ports(), [], "ports")
    lab.roles()
    lab.shim.port_set("i1", role="vm")
    equal(lab.stats("s3"), before, "after all roles were set again")
    with lab.flow(f"in_port={OUTSIDE},ip", "set_field:0->pkt_mark,output:3"), charged("strays", s3=1):
        through(outside, ipv4(STRAY, U, udp(100)))


@check
def no_law() -> None:
    """Where no VM has a law strays are free, and nobody counts them, also while one of another namespace has"""
    lab.shim.settings_set(law="none")
    links("netns add z")
    links("link add k1 type veth peer name k2", within="z")
    with namespace("z"), ShimClient() as other:
        run("ovs-dpctl add-dp other; ovs-dpctl add-if other k1")
        for law in ("none", "static"):
            other.settings_set(law=law)
            other.port_set("k1", role="vm")
            with lab.flow(f"in_port={OUTSIDE},ip", "set_field:0->pkt_mark,output:3"), charged(f"{law} elsewhere"):
                through(outside, ipv4("10.9.0.60", U, udp(100)), 3)
        run("ovs-dpctl del-dp other")
    run("ip netns del z")
    lab.shim.settings_set(law="static")


@check
def moved() -> None:
    """An internal port that moves to another namespace stays its VM's, and can get its role there, by its name"""
    run("ip link set i1 netns x; ip -n x link set i1 up")
    wire = Wire("x", "i1")
    with charged("moved with its role", i1=3):
        through(wire, ipv4("10.9.0.70", U, udp(100)), 3)
    # A guest's own namespace is not the host's, and no tunnel's.
    with charged("marks written there", i1=6):
        for number in range(4, 10):
            through(marked("i1", TUNNELLED | ID * number, "x"), ipv4("10.9.0.70", U, udp(100)))
    lab.shim.port_del("i1")
    wire.send(ipv4("10.9.0.70", U, udp(100)))
    lab.shim.port_set("i1", role="vm")
    with charged("given its role there", i1=3):
        through(wire, ipv4("10.9.0.70", U, udp(100)), 3)
    with charged("first packets from there", i1=2):
        for _ in range(2):
            run("ovs-dpctl del-flows")
            through(wire, ipv4("10.9.0.70", U, udp(100)))
    lab.u.send(ipv4(U, V1, udp(100), ecn=NOT_ECT))
    run("ip -n x link set i1 netns 1; ip link set i1 up")
    with charged("and back", i1=3):
        through(Wire("", "i1"), ipv4("10.9.0.70", U, udp(100)), 3)
    with ShimClient() as client:
        run("ip netns add y; ip netns exec y true")
        equal(client.port_get("i1").stats["tx_packets"] > 0, True, "counted")
    run("ip netns del y")


@check
def left_out() -> None:
    """Who writes marks and has tc leave the hook of an internal port out sends nothing that is free and uncounted

    What tc redirects or mirrors from one device to another meets no hook of the other's (nf_skip_egress).
    """
    without_ipv6("x")
    for name in ("", "x"):
        within = f"ip netns exec {name} " if name else ""
        if name:
            run(f"ip link set i1 netns {name}; ip -n {name} link set i1 up")
        # In a namespace of its own the sender chooses the device's index: that of a port without a role, or of a VM.
        for index in (ifindex("h4"), ifindex("s2")) if name else (0,):
            links(f"link add {f'index {index} ' if index else ''}name d8 type dummy", "link set d8 up", within=name)
            run(f"{within}tc qdisc add dev d8 clsact")
            for kind, mark in itertools.product(("redirect", "mirror"), (*range(0, 40 * ID, ID), TUNNELLED | FREE)):
                if not mark:
                    run(f"{within}tc filter del dev d8 egress; "
                        f"{within}tc filter add dev d8 egress matchall action mirred egress {kind} dev i1")
                before = sent()
                through(marked("d8", mark, name), ipv4(f"10.9.5.{mark // ID % 64}", U, udp(100)))
                rose = {port: count - before[port] for port, count in sent().items() if count != before[port]}
                equal(sum(rose.values()), 1, f"{kind} with mark {mark:#x}, index {index}, namespace {name!r}: {rose}")
            links("link del d8", within=name)
    run("ip -n x link set i1 netns 1; ip link set i1 up")


def insert(mask: Optional[str] = None) -> str:
    """Load the module with a mask; return what the kernel says about it."""
    run("dmesg -C")
    subprocess.run(["insmod", MODULE, *([f"mark_mask={mask}"] if mask else [])], check=False, capture_output=True)
    return run("dmesg")


@check
def masks() -> None:
    """A mask with too few or too many bits, or with a gap, is refused by name; another one works as the default does"""
    unload()
    for mask, bits in (("0x7f", 7), ("0", 0), ("0xff0f0000", 12), ("0xffffffff", 32)):
        said = insert(mask)
        assert re.search(rf"mark_mask: {int(mask, 16):#x} has {bits} bits, allowed are 8 to 16 in a row", said), said
        assert "sdngcc" not in run("cut -d' ' -f1 /proc/modules").split(), f"mask {mask} was taken"
    insert("0x00ff0000")
    lab.shim.close()
    with ShimClient() as lab.shim:
        lab.shim.settings_set(law="static")
        lab.roles()
        lab.shim.port_set("i1", role="vm")
        run("ovs-dpctl del-flows")
        with charged("a known one", s1=2):
            through(lab.v1, ipv4(V1, U, udp(100)), 2)
        with lab.flow("in_port=2,ip", "set_field:0xff00ffff->pkt_mark,output:3"):
            through(lab.v2, ipv4("10.9.0.2", U, udp(100)))
            with charged("an overwritten one", s2=2):
                through(lab.v2, ipv4("10.9.0.2", U, udp(100)), 2)
        # 7 bits of ids, four of which mean something else: more ports than that cannot have a role.
        links(*(f"link add m{number} type dummy" for number in range(130)))
        adding = " ".join(f"-- add-port {BRIDGE} m{number}" for number in range(130))
        run(f"ovs-vsctl {adding}")
        refused = 0
        for number in range(130):
            try:
                lab.shim.port_set(f"m{number}", role="vm")
            except ShimRefused as error:
                refused += 1
                assert "mark_mask 0xff0000 of the module has no id left" in str(error), error
        equal(refused, 130 - (128 - 4 - 4), "ports refused")
    unload()
    insert()
    lab.shim = ShimClient()


main()
