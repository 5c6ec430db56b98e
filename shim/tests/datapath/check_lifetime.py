# SPDX-License-Identifier: Apache-2.0
"""Ports, limiters, namespaces and the module come and go under traffic, and leave nothing behind.

Arguments: the traffic generator (not used), the module that the shim is part of.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import List

from lab import (
    BESIDE,
    BRIDGE,
    MODULE,
    V1,
    Lab,
    U,
    Wire,
    check,
    equal,
    ipv4,
    links,
    main,
    namespace,
    run,
    settle,
    udp,
    unload,
)

from sdngcc.shim.netlink import ShimClient, ShimMissing, ShimRefused

# ovs-vswitchd, which looks at the kernel's shim every 5 s, hears of a new one long before; virtual.
SETTLED_S = 0.1
# When the database has what it says of that, at the latest; virtual.
REFRESH_S = 6.0

lab = Lab()
lab.shim.settings_set(law="sdngcc")


class Traffic:
    """A stream of packets from v1 and of answers from u, in processes of their own."""

    PROGRAM = """
import socket, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((sys.argv[1], 0))
frame = bytes.fromhex(sys.argv[2])
while True:
    try:
        wire.send(frame)
    except OSError:
        pass
    time.sleep(0.0002)
"""

    def __init__(self) -> None:
        """Start it."""
        out, back = ipv4(V1, U, udp(1000)), ipv4(U, V1, udp(1000), ecn=1)
        self.processes: List[subprocess.Popen[bytes]] = [
            subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-c", self.PROGRAM, device, frame.hex()])
            for name, device, frame in (("v1", "e1", out), ("u", "e3", back))]
        time.sleep(0.1)

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        for process in self.processes:
            process.kill()
            process.wait()


def limiters() -> List[bool]:
    """Return whether each limiter is active."""
    return [limiter.active for limiter in lab.shim.limiters()]


@check
def idle() -> None:
    """A VM is inactive a second after its last packet, and active once it sends more than a full one within a second"""
    lab.v1.send(ipv4(V1, U, udp(100)))
    time.sleep(0.9)
    equal(limiters(), [True], "after 0.9 s")
    time.sleep(0.2)
    equal(limiters(), [False], "after 1.1 s")
    for number in range(4):
        lab.u.flush()
        lab.v1.send(ipv4(V1, U, udp(1000)))
        assert lab.u.receive(), f"packet {number} of an idle VM"
        time.sleep(1.01)
        equal(limiters(), [False], f"{number + 1} packets, one a second")
    for _ in range(2):
        lab.v1.send(ipv4(V1, U, udp(1000)))
    time.sleep(0.001)
    equal(limiters(), [True], "after two packets")


@check
def redistribution() -> None:
    """A second VM halves the share, and gives it back when it falls silent"""
    with Traffic():
        equal(lab.shim.limiters()[0].share, 125_000_000, "alone")
        lab.v2.send(ipv4("10.9.0.2", U, udp(100)))
        time.sleep(0.02)
        equal([one.share for one in lab.shim.limiters()], [62_500_000] * 2, "two")
        time.sleep(1.2)
        equal(sorted(one.share for one in lab.shim.limiters() if one.active), [125_000_000], "alone again")


@check
def ports_under_traffic() -> None:
    """Roles are given and taken a hundred times under traffic"""
    with Traffic():
        for number in range(100):
            device = ("s1", "s3")[number % 2]
            lab.shim.port_del(device)
            time.sleep(0.002)
            lab.shim.port_set(device, role=("vm", "uplink")[number % 2],
                              capacity=125_000_000 if number % 2 else None)
            time.sleep(0.002)
        time.sleep(0.02)
        equal(limiters(), [True], "limiters")


@check
def counters_stay() -> None:
    """A VM's counters survive its uplink"""
    lab.roles()
    lab.v1.send(ipv4(V1, U, udp(100)))
    time.sleep(0.001)
    before = lab.stats("s1")
    equal(before["tx_packets"], 1, "tx_packets")
    lab.shim.port_del("s3")
    equal(lab.stats("s1"), before, "after the uplink has gone")
    equal(limiters(), [], "limiters")
    lab.shim.port_set("s3", role="uplink", capacity=125_000_000)


@check
def settings_under_traffic() -> None:
    """Laws, limiters and periods change under traffic"""
    with Traffic():
        for number in range(60):
            lab.shim.settings_set(law=("sdngcc", "static", "none")[number % 3], limiter=("pace", "police")[number % 2],
                                  period=(50_000, 1_000_000, 20_000_000)[number % 3], inactive=1_000_000)
            time.sleep(0.005)
    lab.shim.settings_set(law="sdngcc", limiter="pace", inactive=10**9)


@check
def datapath_port_deleted() -> None:
    """A port deleted from the bridge under traffic loses its role; added again, it has none"""
    with Traffic():
        for device, number in (("s1", 1), ("s3", 3)):
            run(f"ovs-vsctl del-port {BRIDGE} {device}")
            time.sleep(0.01)
            try:
                lab.shim.port_get(device)
                raise AssertionError(f"{device} still has a role")
            except ShimRefused:
                pass
            run(f"ovs-vsctl add-port {BRIDGE} {device} -- set interface {device} ofport_request={number}")
            settle()
        equal([port.name for port in lab.shim.ports()], ["s2"], "ports")
    lab.route()
    lab.roles()


@check
def device_deleted() -> None:
    """A device that goes takes its port along"""
    run(f"ip link add t1 type veth peer name t2; ovs-vsctl add-port {BRIDGE} t1")
    lab.shim.port_set("t1", role="vm")
    run("ip link del t1")
    settle()
    equal([port.name for port in lab.shim.ports()], ["s1", "s2", "s3"], "ports")
    run(f"ovs-vsctl del-port {BRIDGE} t1")


@check
def namespace_deleted() -> None:
    """A namespace with a datapath, ports and an active law can be deleted, twenty times"""
    for _ in range(20):
        links("netns add gone")
        links("link add x0 type veth peer name x1", "link set x0 up", "link set x1 up", "link add x2 type dummy",
              "link set x2 up", within="gone")
        with namespace("gone"), ShimClient() as client:
            run("ovs-dpctl add-dp dpx; ovs-dpctl add-if dpx x0 x2; "
                "ovs-dpctl add-flow dpx 'in_port(1),eth(),eth_type(0x0800),ipv4(frag=no)' 2")
            client.settings_set(law="static")
            client.port_set("x0", role="vm")
            client.port_set("x2", role="uplink", capacity=10**6)
            Wire("gone", "x1").send(ipv4(V1, U, udp(100)))
            time.sleep(0.002)
            equal([limiter.active for limiter in client.limiters()], [True], "limiters there")
        run("ip netns del gone")
    time.sleep(1)


@check
def module_reloaded() -> None:
    """The module is unloaded under traffic, five times, and loaded again"""
    lab.shim.close()
    for _ in range(5):
        with Traffic():
            run("ovs-appctl exit")
            time.sleep(1)
            unload()
            time.sleep(0.1)
            try:
                ShimClient()
                raise AssertionError("the family is still there")
            except ShimMissing:
                pass
            run(f"insmod {MODULE}")
            run("ovs-vswitchd --pidfile --detach --log-file=/run/vswitchd.log")
            lab.route()
            with ShimClient() as lab.shim:
                equal(lab.shim.settings_get().law, "none", "law")
                lab.shim.settings_set(law="sdngcc")
                lab.roles()
                time.sleep(0.05)
                equal(limiters(), [True], "limiters")


def module_exchanged() -> None:
    """A module that is exchanged under ovs-vswitchd and traffic is set up at once"""
    lab.shim.close()
    run("ovs-vsctl set Open_vSwitch . other_config:shim-law=sdngcc other_config:shim-period-us=3000"
        + "".join(f" -- set Interface {device} other_config:shim-role={role}"
                  for device, role in (("s1", "vm"), ("s2", "vm"), ("s3", "uplink"))))
    for pause_s in (0.0, 0.3):
        with Traffic():
            run(f"rmmod sdngcc; sleep {pause_s}; insmod {MODULE}")
            time.sleep(SETTLED_S)
            with ShimClient() as client:
                got = client.settings_get()
                equal((got.law, got.period), ("sdngcc", 3_000_000), "settings")
                equal([port.name for port in client.ports()], ["s1", "s2", "s3"], "ports")
                equal([limiter.active for limiter in client.limiters()], [True], "limiters")
    run("ovs-vsctl clear Open_vSwitch . other_config"
        + "".join(f" -- clear Interface {device} other_config" for device in ("s1", "s2", "s3")))
    lab.shim = ShimClient()


def complaints() -> List[str]:
    """Return shim-error of the settings and of the Interfaces s1, s2 (VMs) and s3 (the uplink)."""
    rows = ["Open_vSwitch . statistics", *(f"Interface s{number} status" for number in (1, 2, 3))]
    return [run(f"ovs-vsctl --if-exists get {row}:shim-error").strip().strip('"') for row in rows]


def module_absent() -> None:
    """A law without the module is an error of the settings and of each port, until it is loaded"""
    lab.shim.close()
    run("rmmod sdngcc; ovs-vsctl set Open_vSwitch . other_config:shim-law=sdngcc"
        + "".join(f" -- set Interface {device} other_config:shim-role={role}"
                  for device, role in (("s1", "vm"), ("s2", "vm"), ("s3", "uplink"))))
    time.sleep(REFRESH_S)
    told = complaints()
    equal(["no ovs_shim family" in one for one in told], [True] * 4, f"what is told: {told}")
    shown = run("ovs-appctl shim/show")
    equal("nothing is limited" in shown, True, f"shim/show: {shown}")
    # Without a law nobody expects limits.
    run("ovs-vsctl set Open_vSwitch . other_config:shim-law=none")
    time.sleep(REFRESH_S)
    equal(complaints(), [""] * 4, "without a law")
    # A law of one VM is one.
    run("ovs-vsctl set Interface s1 other_config:shim-law=static")
    time.sleep(REFRESH_S)
    equal([bool(one) for one in complaints()], [True] * 4, "with a law of one VM")
    run(f"insmod {MODULE}")
    time.sleep(REFRESH_S)
    # The uplink here has a queuing discipline that is told of instead.
    equal(["ovs_shim" in one for one in complaints()], [False] * 4, "with the module")
    run("ovs-vsctl clear Open_vSwitch . other_config"
        + "".join(f" -- clear Interface {device} other_config" for device in ("s1", "s2", "s3")))
    lab.shim = ShimClient()


if BESIDE:
    check(module_exchanged)
    check(module_absent)

main()
