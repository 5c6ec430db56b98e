# SPDX-License-Identifier: Apache-2.0
"""VMs that are plugged in while they send, that migrate between hosts, and that are paused: at any time the fabric gets
what their limit says, not less for long, and never more than it and one full bucket.

    host 1, this namespace:  VM's tap m1, neighbour s1 -- br0 -- s3 == e3 |
    host 2, namespace h:     VM's tap m2, neighbour n2 -- hv2 -- x4 == e4 | namespace u, "the fabric"

Each host has an Open vSwitch with a database of its own, by which it gets its policy.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
import threading
import time
from typing import Dict, List, NamedTuple, Sequence

from lab import BRIDGE, Lab, U, Wire, check, equal, ifindex, links, main, namespace, run, settle, without_ipv6
from offload import Offloaded, Tap, flood, tcp

from sdngcc.shim.netlink import Limiter, ShimClient

SO_TIMESTAMPNS, SCM_TIMESTAMPNS = 35, 35
MBIT = 125_000  # bytes/s
LIMIT = 80 * MBIT
CAPACITY = 400 * MBIT
BURST = 65536
VM_MAC, NEIGHBOUR_MAC = bytes.fromhex("020000000091"), bytes.fromhex("020000000092")
FABRIC = bytes.fromhex("02000000f001")
LAWS = ("static", "sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc")
# Under these a VM that comes back begins below its share until it is told of a rate, or answered.
TIMID = ("maxmin", "eyeq", "seawall")
# Under these an address with a weight counts as one that answers.
PEERS = ("hygenicc", "eyeq", "seawall", "scc")
MSS = 1448


def of(mac: bytes, address: str, payload: int = MSS) -> Offloaded:
    """Return a packet of a VM to the fabric, by its Ethernet address and its IP address."""
    packet = tcp(payload, MSS, (address, U))
    return dataclasses.replace(packet, frame=FABRIC + mac + packet.frame[12:])


PACKET, NEIGHBOURS = of(VM_MAC, "10.9.0.91"), of(NEIGHBOUR_MAC, "10.9.0.92")


class Arrival(NamedTuple):
    """A frame of a VM at the fabric."""

    t_s: float
    bytes: int


class Fabric:
    """What comes to the fabric from both hosts, with its times."""

    def __init__(self, devices: Sequence[str]) -> None:
        """Listen at the ends of uplinks in namespace u."""
        self.wires = [Wire("u", device) for device in devices]
        for wire in self.wires:
            wire.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def flush(self) -> None:
        """Forget what has come."""
        for wire in self.wires:
            wire.flush()

    def arrivals(self, mac: bytes) -> List[Arrival]:
        """Return what has come from a VM, by time."""
        found = []
        for wire in self.wires:
            wire.socket.setblocking(False)
            while True:
                try:
                    frame, extra, _, _ = wire.socket.recvmsg(65536, 256)
                except BlockingIOError:
                    break
                for level, kind, data in extra:
                    if (level, kind) == (socket.SOL_SOCKET, SCM_TIMESTAMPNS) and frame[6:12] == mac:
                        seconds, ns = struct.unpack("qq", data[:16])
                        found.append(Arrival(seconds + ns / 1e9, len(frame)))
            wire.socket.setblocking(True)
        return sorted(found)


def excess(arrivals: Sequence[Arrival], rate: float) -> float:
    """Return by how many bytes any interval had more than `rate` allows: what a bucket must have held."""
    worst = level = 0.0
    before = arrivals[0].t_s if arrivals else 0.0
    for one in arrivals:
        level = max(0.0, level - rate * (one.t_s - before)) + one.bytes
        before, worst = one.t_s, max(worst, level)
    return worst


def rate(arrivals: Sequence[Arrival], start_s: float, seconds: float) -> float:
    """Return bytes/s on the wire within an interval: preamble, FCS and gap are 24 of each packet."""
    return sum(one.bytes + 24 for one in arrivals if start_s <= one.t_s < start_s + seconds) / seconds


class Host:
    """A host with an Open vSwitch of its own and a bridge; namespace and folder are empty for this one."""

    def __init__(self, name: str, bridge: str, uplink: str) -> None:
        """Its uplink is there already; start what is missing."""
        self.name, self.bridge, self.uplink = name, bridge, uplink
        self.folder = f"/run/{name}" if name else ""
        if name:
            database = f"{self.folder}/conf.db"
            schema = "$(dirname $(command -v ovs-vswitchd))/vswitch.ovsschema"
            run(f"mkdir {self.folder}; ovsdb-tool create {database} {schema}")
            self.run(f"ovsdb-server {database} --remote=punix:{self.folder}/db.sock --pidfile --detach "
                     f"--log-file={self.folder}/db.log")
            self.run("ovs-vsctl --no-wait init")
            self.run(f"ovs-vswitchd --pidfile --detach --log-file={self.folder}/vswitchd.log")
            self.run(f"ovs-vsctl add-br {bridge} -- set-fail-mode {bridge} secure -- add-port {bridge} {uplink}")
        self.run(f"ovs-ofctl del-flows {bridge}")

    def run(self, command: str) -> str:
        """Run a command there."""
        words = f"env OVS_RUNDIR={self.folder} OVS_LOGDIR={self.folder} " if self.name else ""
        with namespace(self.name or None):
            return run("; ".join(words + one for one in command.split("; ")))

    def policy(self, law: str, limiter: str) -> None:
        """Set law and limiter, in the database, and the uplink's capacity."""
        self.run(f"ovs-vsctl set Open_vSwitch . other_config:shim-law={law} other_config:shim-limiter={limiter} "
                 f"other_config:shim-burst={BURST} -- set Interface {self.uplink} other_config:shim-role=uplink "
                 f"other_config:shim-capacity={CAPACITY * 8}")

    def plug(self, device: str, *keys: str) -> None:
        """Add a VM's device to the bridge as an agent does, with its identity, its keys and a flow."""
        self.run(f"ovs-vsctl add-port {self.bridge} {device} -- set Interface {device} external_ids:iface-id=port-91 "
                 + " ".join(f"other_config:shim-{key}" for key in keys))
        self.run(f"ovs-ofctl add-flow {self.bridge} in_port={device},actions=output:{self.uplink}")

    def unplug(self, device: str) -> None:
        """Take it away."""
        self.run(f"ovs-vsctl del-port {self.bridge} {device}")

    def tap(self, device: str) -> Tap:
        """Return a new tap there."""
        with namespace(self.name or None):
            return Tap(device)


lab = Lab()
for port in ("s1", "s2", "s3"):
    lab.shim.port_del(port)
links("netns add h", "link add x4 netns h type veth peer name e4 netns u")
without_ipv6("h")
for device, where in (("x4", "h"), ("e4", "u")):
    links("link set lo up", f"link set {device} up", within=where)
one, two = Host("", BRIDGE, "s3"), Host("h", "hv2", "x4")
FQ = "root fq limit 100000 flow_limit 100000"
run(f"tc qdisc replace dev s3 {FQ}; ip netns exec h tc qdisc replace dev x4 {FQ}")
fabric = Fabric(("e3", "e4"))
taps: Dict[str, Tap] = {"m1": one.tap("m1"), "m2": two.tap("m2"), "n1": one.tap("n1"), "n2": two.tap("n2")}


def policy(law: str = "static", limiter: str = "pace") -> None:
    """Put a law in force on both hosts; neighbours n1 and n2 are there, and no VM is."""
    for host, neighbour, vm in ((one, "n1", "m1"), (two, "n2", "m2")):
        host.run(f"ovs-vsctl --if-exists del-port {host.bridge} {vm} -- --if-exists del-port {host.bridge} {neighbour}")
        host.policy(law, limiter)
        host.plug(neighbour)
    time.sleep(1.5)
    fabric.flush()


def limiters(host: Host, device: str) -> List[Limiter]:
    """Return a VM's limiters on a host."""
    with namespace(host.name or None), ShimClient() as client:
        index = ifindex(device)
        return [each for each in client.limiters() if each.vm == index]


def offer(device: str, packet: Offloaded = PACKET, seconds: float = 0.2, times: float = 4.0) -> None:
    """Let a VM send some times its limit for a while."""
    flood(taps[device].send, packet, times * LIMIT, seconds)


@check
def plugged() -> None:
    """A VM that sends while it is plugged in is limited as soon as its port carries, and so each time"""
    for limiter in ("police", "pace"):
        policy(limiter=limiter)
        # Whatever comes leaves: no packet waits for a flow of its port.
        one.run(f"ovs-ofctl add-flow {BRIDGE} priority=1,actions=output:s3")
        for number in range(3):
            fabric.flush()
            sending = threading.Thread(target=offer, args=("m1",), kwargs={"seconds": 0.5})
            sending.start()
            time.sleep(0.02)
            one.run(f"ovs-vsctl add-port {BRIDGE} m1 -- set Interface m1 external_ids:iface-id=port-91 "
                    f"other_config:shim-max-rate={LIMIT * 8}")
            sending.join()
            got = fabric.arrivals(VM_MAC)
            last = got[-1].t_s
            part = rate(got, last - 0.2, 0.2) / LIMIT
            print(f"# {limiter}, {number}: bucket {excess(got, LIMIT):.0f}, {part:.3f} of the limit, "
                  f"{last - got[0].t_s:.3f} s", flush=True)
            assert excess(got, LIMIT) <= BURST + 3 * 1514, f"{excess(got, LIMIT):.0f} bytes at once"
            assert 0.98 <= part <= 1.02, f"{part:.3f} of the limit"
            equal(len(limiters(one, "m1")), 1, "limiters")
            one.unplug("m1")
            # What waits for its departure is on the uplink already.
            time.sleep(0.05)
            fabric.flush()
            offer("m1", seconds=0.02)
            equal(fabric.arrivals(VM_MAC), [], "unplugged")
        one.run(f"ovs-ofctl --strict del-flows {BRIDGE} priority=1")


@check
def migrates() -> None:
    """A VM that migrates: its port is there before it is gone here; neither more nor less than its limit leaves"""
    for limiter in ("police", "pace"):
        for _ in range(2):
            policy(limiter=limiter)
            key = f"max-rate={LIMIT * 8}"
            one.plug("m1", key)
            settle()
            offer("m1", seconds=0.3)
            # Its memory is copied: the port there is up, and silent.
            two.plug("m2", key)
            before = time.time()
            offer("m1", seconds=0.3)
            # It stops here and goes on there, 20 ms later, while its port is still here.
            stopped = time.time()
            time.sleep(0.02)
            began = time.time()
            offer("m2", seconds=0.2)
            one.unplug("m1")
            offer("m2", seconds=0.2)
            got = fabric.arrivals(VM_MAC)
            parts = [rate(got, start, seconds) / LIMIT for start, seconds in (
                (before, stopped - before), (began, 0.1), (began + 0.1, 0.1), (began + 0.2, 0.15))]
            print(f"# {limiter}: bucket {excess(got, LIMIT):.0f}, {[round(part, 3) for part in parts]} of the limit",
                  flush=True)
            # Each host has a bucket of its own, which is full when the VM comes.
            assert excess(got, LIMIT) <= 2 * (BURST + 3 * 1514), f"{excess(got, LIMIT):.0f} bytes at once"
            assert all(part >= 0.98 for part in parts) and parts[0] <= 1.02 and parts[3] <= 1.02, parts
            equal((len(limiters(one, "n1")), len(limiters(two, "m2"))), (0, 1), "limiters")
            two.unplug("m2")


def share(host: Host, device: str) -> float:
    """Return the share of a VM on a host, Mb/s; 0 without a limiter."""
    return sum(each.share for each in limiters(host, device)) / MBIT


@check
def neighbours() -> None:
    """A VM that migrates frees its share where it was, and takes its weight's where it comes, at once"""
    policy()
    one.plug("m1", "weight=3")
    for _ in range(20):
        for device in ("m1", "n1", "n2"):
            taps[device].send(PACKET if device == "m1" else NEIGHBOURS)
        time.sleep(0.01)
    equal([share(one, "m1"), share(one, "n1"), share(two, "n2")], [300, 100, 400], "before")
    two.plug("m2", "weight=3")
    time.sleep(0.1)
    taps["n2"].send(NEIGHBOURS)
    time.sleep(0.05)
    equal(share(two, "n2"), 400, "beside a VM that has not come yet")
    one.unplug("m1")
    for _ in range(5):
        for device in ("m2", "n1", "n2"):
            taps[device].send(PACKET if device == "m2" else NEIGHBOURS)
        time.sleep(0.01)
    equal([share(one, "n1"), share(two, "m2"), share(two, "n2")], [400, 300, 100], "after")
    two.unplug("m2")


@check
def paused() -> None:
    """A VM that was paused for seconds and then sends all at once gets its bucket and its rate, under every law"""
    for law in LAWS:
        for limiter in ("police", "pace"):
            policy(law, limiter)
            one.plug("m1", f"max-rate={LIMIT * 8}")
            settle()
            if law in PEERS:
                # The fabric answers nobody.
                lab.shim.peer_set("m1", U, 1)
            offer("m1", seconds=0.3)
            for pause in (0.5, 5.0):
                time.sleep(pause)
                fabric.flush()
                began = time.time()
                offer("m1", seconds=0.3, times=8)
                got = fabric.arrivals(VM_MAC)
                part = rate(got, began + 0.1, 0.2) / LIMIT
                print(f"# {law}, {limiter}, {pause} s: bucket {excess(got, LIMIT):.0f}, {part:.3f} of the limit",
                      flush=True)
                assert excess(got, LIMIT) <= BURST + 3 * 1514, f"{law}: {excess(got, LIMIT):.0f} bytes at once"
                assert part <= 1.02 and (law in TIMID or part >= 0.98), f"{law}: {part:.3f} of the limit"
            one.unplug("m1")


main()
