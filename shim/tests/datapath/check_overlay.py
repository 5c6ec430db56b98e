# SPDX-License-Identifier: Apache-2.0
"""Beside an unmodified datapath: uplinks below tunnels, where VMs are known after encapsulation.

    br0 port s1, s2: VMs    br0 ports vxlan, geneve and gre: tunnels, without a role
    192.0.2.1 == u0 -- u1, namespace f: the uplink, no port of a bridge; last that of br1, which then has the address
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from control import KEY, frame, marks
from lab import (
    CE,
    ECT_0,
    ECT_1,
    MACS,
    NOT_ECT,
    PROTOCOL,
    U_6,
    V1,
    V1_6,
    V2,
    Lab,
    U,
    Wire,
    check,
    checksum,
    ecn_of,
    equal,
    ifindex,
    ipv4,
    ipv6,
    links,
    main,
    run,
    settle,
    udp,
)
from offload import ETHERNET, Raw, sums_up, tcp, without_offload

from sdngcc.shim.netlink import ShimRefused

HERE, THERE = "192.0.2.1", "192.0.2.2"
HERE_6, THERE_6 = "2001:db8::1", "2001:db8::2"
CAPACITY = 125_000_000


class Kind(NamedTuple):
    """A tunnel: its number as a port, its header with key 5, its UDP port (None: right on IP)."""

    number: int
    header: bytes
    port: Optional[int]

    @property
    def protocol(self) -> int:
        """Return the outer packet's IP protocol."""
        return socket.IPPROTO_GRE if self.port is None else socket.IPPROTO_UDP

    @property
    def bytes(self) -> int:
        """Return the bytes in front of a VM's frame, the outer Ethernet header included, in IPv4."""
        return ETHERNET + 20 + (0 if self.port is None else 8) + len(self.header)


KINDS: Dict[str, Kind] = {
    "vxlan": Kind(11, bytes.fromhex("0800000000000500"), 4789),
    "geneve": Kind(12, bytes.fromhex("0000655800000500"), 6081),
    "gre": Kind(13, bytes.fromhex("2000655800000005"), None),
}

lab = Lab()
lab.shim.settings_set(law="static", limiter="pace")
links("netns add f", "link add u1 netns f type veth peer name u0")
run("ip netns exec f sysctl -qw net.ipv6.conf.all.disable_ipv6=0; sysctl -qw net.ipv6.conf.u0.disable_ipv6=0")
links(f"addr add {THERE}/24 dev u1", f"addr add {THERE_6}/64 dev u1 nodad", "link set u1 mtu 1700 up", within="f")
links(f"addr add {HERE}/24 dev u0", f"addr add {HERE_6}/64 dev u0 nodad", "link set u0 mtu 1700 up")
wire = Wire("f", "u1")
macs = [run(f"ip {where} -br link show {device}").split()[2] for where, device in (("", "u0"), ("-n f", "u1"))]
OUTER_MACS = b"".join(bytes.fromhex(mac.replace(":", "")) for mac in macs)
for address in (THERE, THERE_6):
    run(f"ip neigh replace {address} lladdr {macs[1]} dev u0")
for name, tunnel in KINDS.items():
    run(f"ovs-vsctl add-port br0 {name} -- set interface {name} type={name} options:remote_ip={THERE} "
        f"options:key=5 ofport_request={tunnel.number}")
    run(f"ovs-ofctl add-flow br0 in_port={tunnel.number},actions=output:1")
lab.shim.port_set("u0", role="uplink", capacity=CAPACITY)
# Nobody completes checksums behind a veth: it must not promise to.
without_offload("u0")
vm = Raw("v1", "e1")


def by(kind: str) -> None:
    """Let what VMs send go into a tunnel, and the datapath know it already."""
    for number in (1, 2):
        run(f"ovs-ofctl add-flow br0 in_port={number},actions=output:{KINDS[kind].number}")
    settle()
    for one, address in ((lab.v1, V1), (lab.v2, V2)):
        one.send(ipv4(address, U, udp(100)))
        one.send(ipv6(V1_6 if one is lab.v1 else "fd09::2", U_6, udp(100)))
    time.sleep(0.05)
    lab.v1.flush()
    wire.flush()


def outers(kind: str, wait_s: float = 0.05) -> Iterator[bytes]:
    """Yield the packets of such a tunnel that arrive in the underlay, until none comes."""
    while True:
        got = wire.receive(wait_s)
        if got is None:
            return
        if got[12:14] == b"\x08\x00" and got[23] == KINDS[kind].protocol:
            yield got


def split(kind: str, got: bytes) -> Tuple[int, bytes]:
    """Return an outer frame's ECN field and the frame it carries."""
    return ecn_of(got), got[KINDS[kind].bytes:]


def outer(kind: str, inner: bytes, ecn: int) -> bytes:
    """Return a frame of the underlay, from there to here, that carries inner."""
    tunnel = KINDS[kind]
    payload = tunnel.header + inner
    if tunnel.port is not None:
        payload = struct.pack("!HHHH", 50000, tunnel.port, 8 + len(payload), 0) + payload
    return OUTER_MACS + ipv4(THERE, HERE, payload, protocol=tunnel.protocol, ecn=ecn)[len(MACS):]


def changes(before: Dict[str, Dict[str, int]]) -> Dict[str, Dict[str, int]]:
    """Return what rose since at s1, s2 and u0, by port and counter."""
    return {name: rose for name, stats in before.items() if (rose := lab.changes(name, stats))}


def counts() -> Dict[str, Dict[str, int]]:
    """Return the counters of s1, s2 and u0."""
    return {name: lab.stats(name) for name in ("s1", "s2", "u0")}


def out(kind: str) -> None:
    """Check what a VM sends into a tunnel: charged with all its headers, and made ECT inside and outside."""
    by(kind)
    for make, there, here in ((ipv4, U, V1), (ipv6, U_6, V1_6)):
        for sent, wanted in ((NOT_ECT, ECT_1), (ECT_0, ECT_0), (CE, ECT_0)):
            before = counts()
            lab.v1.send(make(here, there, udp(100), ecn=sent))
            got = list(outers(kind))
            equal(len(got), 1, f"packets of {make.__name__}")
            mark, inner = split(kind, got[0])
            equal((mark, ecn_of(inner)), (wanted, wanted), f"outer and inner ECN of {make.__name__}, sent as {sent}")
            equal(inner[ETHERNET + (12 if make is ipv4 else 2):], make(here, there, udp(100), ecn=sent)[
                ETHERNET + (12 if make is ipv4 else 2):], "the rest inside")
            rose = changes(before)
            equal((rose["s1"]["tx_packets"], rose["s1"]["tx_bytes"], set(rose)), (1, len(got[0]), {"s1"}), "counted")
    before = counts()
    lab.v1.send(ipv4(V1, U, bytes(100), protocol=PROTOCOL))
    equal((list(outers(kind)), changes(before)), ([], {"s1": {"drop_forged": 1}}), "a control message from a VM")


@check
def out_by_vxlan() -> None:
    """VXLAN: what a VM sends is charged to it on the uplink below, tunnel's headers included, and made ECT"""
    out("vxlan")


@check
def out_by_geneve() -> None:
    """Geneve: the same"""
    out("geneve")


@check
def out_by_gre() -> None:
    """GRE: the same"""
    out("gre")


@check
def one_limiter() -> None:
    """Each VM has one limiter on the uplink, whatever tunnels it sends by; the second VM its own"""
    lab.roles()
    for kind in KINDS:
        by(kind)
    found = sorted((one.vm, one.uplink) for one in lab.shim.limiters())
    equal(found, sorted((ifindex(vm), ifindex("u0")) for vm in ("s1", "s2")), "VM and uplink of each limiter")


@check
def networks() -> None:
    """VMs with one address in two tenants' networks do not take it from each other"""
    by("vxlan")
    lab.roles()
    run("ovs-ofctl add-flow br0 'in_port=1,actions=set_field:7->tun_id,output:12'")
    run("ovs-vsctl set interface geneve options:key=flow")
    run("ovs-ofctl add-flow br0 'in_port=2,actions=set_field:8->tun_id,output:12'")
    settle()
    before = counts()
    for _ in range(3):
        for one in (lab.v1, lab.v2):
            one.send(ipv4("10.9.0.77", U, udp(100)))
            time.sleep(0.01)
    equal({name: rose["tx_packets"] for name, rose in changes(before).items()}, {"s1": 3, "s2": 3}, "sent")
    run("ovs-vsctl set interface geneve options:key=5")
    settle()


@check
def received() -> None:
    """What comes out of a tunnel came by the uplink below: counted, its marks read, its ECN field given back"""
    for kind in KINDS:
        by(kind)
        for flow, (outside, inside, wanted, marked) in enumerate((
                (ECT_1, ECT_1, NOT_ECT, 0), (CE, ECT_1, NOT_ECT, 1), (ECT_0, ECT_0, ECT_0, 0))):
            before = lab.stats("s1")
            wire.send(outer(kind, ipv4(U, V1, udp(60, 100 + flow), ecn=inside), outside))
            got = lab.v1.receive()
            assert got is not None, f"{kind}: nothing arrived"
            equal(ecn_of(got), wanted, f"{kind}: ECN delivered, {outside} outside, {inside} inside")
            rose = lab.changes("s1", before)
            equal((rose["rx_packets"], rose.get("rx_ce", 0)), (1, marked), f"{kind}: counted")


@check
def obeyed() -> None:
    """A control message out of a tunnel is obeyed, by the VM's limiter on the uplink below"""
    lab.fresh("sdngcc", key=KEY)
    lab.shim.port_set("u0", role="uplink", capacity=CAPACITY)
    by("vxlan")
    before = {one.vm: one.rate for one in lab.shim.limiters()}[ifindex("s1")]
    with lab.counted("s1", messages=1):
        wire.send(outer("vxlan", frame(marks()), ECT_1))
        time.sleep(0.001)
        after = {one.vm: one.rate for one in lab.shim.limiters()}[ifindex("s1")]
        equal(lab.v1.receive(), None, "delivered to the VM")
    assert after < before, (before, after)
    lab.fresh("static")


def paced(frames: int) -> List[float]:
    """Send frames of 1000 bytes outside at once through VXLAN, 1 MB/s and fq; return the ms between their arrivals."""
    run("tc qdisc replace dev u0 root fq")
    lab.shim.port_set("s1", max_rate=1_000_000)
    by("vxlan")
    time.sleep(0.1)
    for _ in range(frames):
        lab.v1.send(ipv4(V1, U, udp(1000 - 34 - KINDS["vxlan"].bytes), ecn=ECT_0))
    times = [time.monotonic() for _ in outers("vxlan")]
    run("tc qdisc del dev u0 root")
    lab.shim.port_set("s1", max_rate=0)
    return [(later - sooner) * 1e3 for sooner, later in zip(times, times[1:])]


@check
def departures() -> None:
    """The uplink's fq obeys departure times: packets of 1000 bytes outside at 1 MB/s leave each millisecond"""
    lab.fresh("static", horizon=20_000_000)
    found = paced(8)
    print(f"# ms between packets: {[round(gap, 2) for gap in found]}", flush=True)
    assert len(found) == 7 and all(0.9 < gap < 1.1 for gap in found[3:]), found


@check
def cut() -> None:
    """GSO packets are cut in their tunnel, each part whole, charged with all headers; so are packets left to offload"""
    for kind in ("vxlan", "geneve"):
        by(kind)
        for ends in ((V1, U), (V1_6, U_6)):
            for payload in (14_000, 1000):
                before = counts()
                vm.send(tcp(payload, 1400, ends))
                got = list(outers(kind))
                what = f"{kind}, {ends[0]}, {payload} bytes"
                equal(len(got), -(-payload // 1400), f"{what}: packets")
                for one in got:
                    mark, inner = split(kind, one)
                    equal((mark, ecn_of(inner)), (ECT_1, ECT_1), f"{what}: ECN outside and inside")
                    assert sums_up(inner), f"{what}: TCP checksum"
                rose = changes(before)
                equal((rose["s1"]["tx_packets"], rose["s1"]["tx_bytes"], set(rose)),
                      (len(got), sum(len(one) for one in got), {"s1"}), what)


@check
def checksummed() -> None:
    """With an outer checksum, over IPv6, what the shim writes inside keeps it right"""
    run(f"ovs-vsctl add-port br0 six -- set interface six type=vxlan options:remote_ip='\"{THERE_6}\"' "
        "options:key=6 options:csum=true ofport_request=14")
    run("ovs-ofctl add-flow br0 in_port=1,actions=output:14")
    settle()
    for number, sent in enumerate((tcp(1000, 1400, (V1_6, U_6)), tcp(1000, 1400), tcp(7000, 1400, (V1_6, U_6)))):
        wire.flush()
        vm.send(sent)
        time.sleep(0.05)
        wire.flush()
        vm.send(sent)
        got = [one for one in iter(lambda: wire.receive(0.05), None) if one[12:14] == b"\x86\xdd" and one[20] == 17]
        equal(len(got), 5 if number == 2 else 1, f"packets of case {number}")
        for one in got:
            length = struct.unpack("!H", one[18:20])[0]
            data = one[54:54 + length]
            assert data[6:8] != b"\x00\x00", "there is no outer checksum"
            equal(checksum(one[22:54] + struct.pack("!IHBB", length, 0, 0, 17) + data + bytes(length % 2)), 0,
                  f"outer checksum of case {number}")
            equal((one[14] << 8 | one[15]) >> 4 & 3, ECT_1, "outer ECN")
            assert sums_up(one[70:]), "inner checksum"
    run("ovs-vsctl del-port br0 six")


@check
def the_hosts_own() -> None:
    """What the host sends itself by the uplink is free, and no stray"""
    before = counts()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(5):
            sender.sendto(bytes(100), (THERE, 9))
    time.sleep(0.01)
    equal(changes(before), {}, "what rose")


def one_stray() -> None:
    """Check that a packet of unknown origin, in VXLAN, is counted at the uplink below."""
    by("vxlan")
    wire.flush()
    before = counts()
    run(f"ovs-ofctl packet-out br0 in_port=CONTROLLER,packet={ipv4(V1, U, udp(100)).hex()},"
        f"actions=output:{KINDS['vxlan'].number}")
    got = list(outers("vxlan"))
    equal(len(got), 1, "packets")
    equal(changes(before), {"u0": {"stray_packets": 1, "stray_bytes": len(got[0])}}, "counted")


@check
def strays() -> None:
    """What goes into a tunnel from nobody knows where is bound on the uplink below, and counted there"""
    one_stray()
    counted = lab.stats("u0")
    lab.shim.port_del("u0")
    lab.shim.port_set("u0", role="uplink", capacity=CAPACITY)
    equal(lab.stats("u0"), counted, "counters of u0 after its role was set again")


@check
def roles() -> None:
    """A device that is no port can be an uplink, no VM; without an address it is nothing; the role goes with it"""
    try:
        lab.shim.port_set("u0", role="vm")
        raise AssertionError("u0 became a VM")
    except ShimRefused as error:
        assert "u0 is no port of a bridge, so it can be an uplink only" in str(error), error
    links("link add bare type dummy", "link set bare up")
    for device in ("bare", "lo"):
        try:
            lab.shim.port_set(device, role="uplink", capacity=CAPACITY)
            raise AssertionError(f"{device} became an uplink")
        except ShimRefused as error:
            assert f"{device} is no port of a datapath in this namespace" in str(error), error
    links("addr add 203.0.113.1/24 dev bare")
    lab.shim.port_set("bare", role="uplink", capacity=CAPACITY)
    equal("bare" in [port.name for port in lab.shim.ports()], True, "bare is there")
    links("link del bare")
    equal("bare" in [port.name for port in lab.shim.ports()], False, "bare is there")


@check
def tunnel_first() -> None:
    """A tunnel with the role uplink judges as ever, inside; the uplink below lets that pass"""
    device = "vxlan_sys_4789"
    lab.shim.port_set(device, role="uplink", capacity=CAPACITY)
    by("vxlan")
    before = counts()
    lab.v1.send(ipv4(V1, U, udp(100)))
    equal(len(list(outers("vxlan"))), 1, "packets")
    rose = changes(before)
    equal((set(rose), rose["s1"]["tx_packets"], rose["s1"]["tx_bytes"]), ({"s1"}, 1, 134), "counted")
    lab.shim.port_del(device)
    time.sleep(1.1)


@check
def below_a_bridge() -> None:
    """The same where the uplink is the port of a bridge whose internal port has the tunnels' address"""
    links(f"addr del {HERE}/24 dev u0")
    # What the host sent by u0 itself, and not by the bridge, would be strays.
    run("sysctl -qw net.ipv6.conf.u0.disable_ipv6=1")
    run("ovs-vsctl add-br br1 -- add-port br1 u0 -- set bridge br1 "
        f"other-config:hwaddr={macs[0].replace(':', chr(92) + ':')}")
    equal("u0" in [port.name for port in lab.shim.ports()], False, "u0 has the role it had without a bridge")
    links("link set br1 mtu 1700 up", f"addr add {HERE}/24 dev br1", f"neigh replace {THERE} lladdr {macs[1]} dev br1")
    lab.shim.port_set("u0", role="uplink", capacity=CAPACITY)
    for kind in ("vxlan", "geneve"):
        by(kind)
        by(kind)
        before = counts()
        lab.v1.send(ipv4(V1, U, udp(100)))
        got = list(outers(kind))
        equal(len(got), 1, "packets")
        equal(split(kind, got[0])[0], ECT_1, "outer ECN")
        rose = changes(before)
        equal((set(rose), rose["s1"]["tx_packets"], rose["s1"]["tx_bytes"]), ({"s1"}, 1, len(got[0])), "counted")
        with lab.counted("s1", rx_packets=1):
            wire.send(outer(kind, ipv4(U, V1, udp(60)), NOT_ECT))
            assert lab.v1.receive() is not None, "nothing came out of the tunnel"
    one_stray()
    # In IPv6 a packet in a tunnel still bears the device that it came by.
    run("sysctl -qw net.ipv6.conf.br1.disable_ipv6=0")
    links(f"addr add {HERE_6}/64 dev br1 nodad", f"neigh replace {THERE_6} lladdr {macs[1]} dev br1")
    run(f"ovs-vsctl add-port br0 six -- set interface six type=vxlan options:remote_ip='\"{THERE_6}\"' options:key=6 "
        "ofport_request=14")
    run("ovs-ofctl add-flow br0 in_port=1,actions=output:14")
    settle()
    for _ in range(2):
        before = counts()
        lab.v1.send(ipv4(V1, U, udp(100)))
        got = [one for one in iter(lambda: wire.receive(0.05), None) if one[12:14] == b"\x86\xdd" and one[20] == 17]
        equal(len(got), 1, "packets in IPv6")
        rose = changes(before)
    equal((set(rose), rose["s1"]["tx_packets"], rose["s1"]["tx_bytes"]), ({"s1"}, 1, len(got[0])), "counted in IPv6")
    before = counts()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(3):
            sender.sendto(bytes(100), (THERE, 9))
    time.sleep(0.01)
    equal(changes(before), {}, "what rose by what the host sent itself")


main()
