# SPDX-License-Identifier: Apache-2.0
"""VXLAN, Geneve and GRE ports as uplinks: the shim inside, the fabric's ECN marks outside (RFC 6040).

    br0 port s3 -- e3, namespace u     the VMs' network without a tunnel; unused here
    br0 port tunnel, 192.0.2.1 == u0 -- u1, namespace f: the underlay, where outer packets are seen and forged
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

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
    Lab,
    U,
    Wire,
    check,
    ecn_of,
    equal,
    ipv4,
    ipv6,
    main,
    run,
    settle,
    udp,
)

from sdngcc.controller.wire.message import Message, decode_v1, encode_v1

HERE, THERE = "192.0.2.1", "192.0.2.2"


class Kind(NamedTuple):
    """A tunnel: its header with key 5, its UDP port (None: right on IP) and the device that the kernel makes."""

    header: bytes
    port: Optional[int]
    device: str

    @property
    def protocol(self) -> int:
        """Return the outer packet's IP protocol."""
        return socket.IPPROTO_GRE if self.port is None else socket.IPPROTO_UDP

    @property
    def outer_bytes(self) -> int:
        """Return the bytes of outer IPv4, UDP and tunnel headers."""
        return 20 + (0 if self.port is None else 8) + len(self.header)


KINDS: Dict[str, Kind] = {
    "vxlan": Kind(bytes.fromhex("0800000000000500"), 4789, "vxlan_sys_4789"),
    "geneve": Kind(bytes.fromhex("0000655800000500"), 6081, "genev_sys_6081"),
    # RFC 2890: the key is there; a bridged Ethernet frame follows.
    "gre": Kind(bytes.fromhex("2000655800000005"), None, "gre_sys"),
}
CAPACITY = 125_000_000
UPLINK = 9
KEY = bytes(range(16))
# Who only sends to v1, through the tunnel.
SILENT = "10.9.0.4"

lab = Lab()
lab.shim.settings_set(law="static", limiter="pace")
run("ip netns add f; ip link add u1 netns f type veth peer name u0")
run("ip netns exec f sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
run(f"ip addr add {HERE}/24 dev u0; ip link set u0 mtu 1600 up")
run(f"ip -n f addr add {THERE}/24 dev u1; ip -n f link set u1 mtu 1600 up; ip -n f link set lo up")
wire = Wire("f", "u1")
macs = [run(f"ip {where} -br link show {device}").split()[2] for where, device in (("", "u0"), ("-n f", "u1"))]
OUTER_MACS = b"".join(bytes.fromhex(mac.replace(":", "")) for mac in macs)
run(f"ip neigh replace {THERE} lladdr {macs[1]} dev u0")


def set_up(kind: str) -> None:
    """Make br0's way out a tunnel of that kind, with the role uplink."""
    run("ovs-vsctl --if-exists del-port br0 tunnel")
    run(f"ovs-vsctl add-port br0 tunnel -- set interface tunnel type={kind} options:remote_ip={THERE} "
        f"options:key=5 ofport_request={UPLINK}")
    run("ovs-ofctl del-flows br0")
    for before, after in ((1, UPLINK), (UPLINK, 1)):
        run(f"ovs-ofctl add-flow br0 in_port={before},actions=output:{after}")
    settle()
    lab.roles()
    lab.shim.port_set(KINDS[kind].device, role="uplink", capacity=CAPACITY)
    # Preamble, FCS and gap, and in the tunnel Ethernet, IPv4, UDP and its own header, or GRE with a key.
    equal(lab.shim.port_get(KINDS[kind].device).overhead, 66 if kind == "gre" else 74, f"{kind}: overhead")
    for one in (wire, lab.v1):
        one.flush()


def outer(kind: str, inner: bytes, ecn: int) -> bytes:
    """Return a frame of the underlay, from there to here, that carries inner."""
    tunnel = KINDS[kind]
    payload = tunnel.header + inner
    if tunnel.port is not None:
        payload = struct.pack("!HHHH", 50000, tunnel.port, 8 + len(payload), 0) + payload
    return OUTER_MACS + ipv4(THERE, HERE, payload, protocol=tunnel.protocol, ecn=ecn)[len(MACS):]


def split(kind: str, frame: Optional[bytes]) -> Tuple[int, bytes]:
    """Return an outer frame's ECN field and the frame it carries."""
    assert frame is not None, "nothing came out of the tunnel"
    return ecn_of(frame), frame[14 + KINDS[kind].outer_bytes:]


def next_outer(kind: str, wait_s: float = 0.05) -> Optional[bytes]:
    """Return the next packet of such a tunnel seen in the underlay."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        frame = wire.receive(wait_s)
        if frame is None or frame[23] == KINDS[kind].protocol:
            return frame
    return None


def out(kind: str) -> None:
    """Check packets from a VM into a tunnel."""
    set_up(kind)
    for make, there, here in ((ipv4, U, V1), (ipv6, U_6, V1_6)):
        for sent, wanted in ((NOT_ECT, ECT_1), (ECT_0, ECT_0)):
            lab.v1.send(make(here, there, udp(100), ecn=sent))
            mark, inner = split(kind, next_outer(kind))
            equal((mark, ecn_of(inner)), (wanted, wanted), f"outer and inner ECN of {make.__name__}, sent as {sent}")
    lab.v1.send(ipv4(V1, U, bytes(100), protocol=PROTOCOL))
    equal(next_outer(kind), None, "a control message from a VM")
    stats = lab.stats("s1")
    equal((stats["tx_packets"], stats["tx_ect"], stats["drop_forged"]), (4, 2, 1), "sent, made ECT, forged")


def back(kind: str) -> None:
    """Check packets out of a tunnel to a VM."""
    set_up(kind)
    for make, there, here in ((ipv4, U, V1), (ipv6, U_6, V1_6)):
        # Outer and inner mark as the fabric leaves them, what the guest gets, and whether CE is counted.
        for outside, inside, wanted, counted in (
                (ECT_1, ECT_1, NOT_ECT, 0), (CE, ECT_1, NOT_ECT, 1), (ECT_0, ECT_0, ECT_0, 0), (CE, ECT_0, CE, 1),
                (NOT_ECT, NOT_ECT, NOT_ECT, 0)):
            # What a flow meant is remembered from its packets without CE: each case has a flow of its own.
            flow = 100 + 10 * outside + inside
            if outside == CE:
                wire.send(outer(kind, make(there, here, udp(60, flow), ecn=inside), inside))
                lab.v1.receive()
            before = lab.stats("s1")["rx_ce"]
            wire.send(outer(kind, make(there, here, udp(60, flow), ecn=inside), outside))
            got = lab.v1.receive()
            what = f"{make.__name__}, outer {outside}, inner {inside}"
            assert got is not None, f"{what}: not delivered"
            equal(ecn_of(got), wanted, f"{what}: ECN delivered")
            equal(lab.stats("s1")["rx_ce"] - before, counted, f"{what}: CE counted")
    wire.send(outer(kind, ipv4(U, V1, udp(60), ecn=NOT_ECT), CE))
    equal(lab.v1.receive(), None, "CE outside, Not-ECT inside: from a hypervisor without shim, dropped by RFC 6040")


def gaps(kind: str) -> List[float]:
    """Return the ms between seven packets of 1000 bytes that a VM limited to 1 MB/s sends at once, fq behind it."""
    run("tc qdisc replace dev u0 root fq")
    lab.shim.port_set("s1", max_rate=1_000_000)
    wire.flush()
    before = lab.stats("s1")["tx_bytes"]
    frame = ipv4(V1, U, udp(1000 - 34), ecn=ECT_0)
    for _ in range(8):
        lab.v1.send(frame)
    times: List[float] = []
    while next_outer(kind):
        times.append(time.monotonic())
    run("tc qdisc del dev u0 root")
    equal(lab.stats("s1")["tx_bytes"] - before, 8000, "bytes counted: inner frames, without the tunnel's headers")
    found = [(later - sooner) * 1e3 for sooner, later in zip(times, times[1:])]
    print(f"# {kind}: ms between packets of 1000 bytes at 1 MB/s: {[round(gap, 2) for gap in found]}", flush=True)
    return found


def evenly(found: List[float]) -> None:
    """Check the gaps of seven packets at 1 MB/s; the bucket holds three packets."""
    assert len(found) == 7 and all(0.9 < gap < 1.1 for gap in found[2:]), found


def paced(kind: str) -> None:
    """Check that departure times survive encapsulation."""
    set_up(kind)
    evenly(gaps(kind))


def next_report(kind: str) -> Message:
    """Return the next report seen in the underlay, whose tunnel leads to the other end and has the key."""
    tunnel = KINDS[kind]
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        frame = next_outer(kind)
        if frame is None:
            continue
        begin = 14 + tunnel.outer_bytes
        inner = frame[begin:]
        place = {b"\x08\x00": (23, 34), b"\x86\xdd": (20, 54)}[inner[12:14]]
        if inner[place[0]] != PROTOCOL:
            continue
        equal((frame[26:30], frame[30:34]), (socket.inet_aton(HERE), socket.inet_aton(THERE)), "outer addresses")
        if tunnel.port is not None:
            equal(struct.unpack("!H", frame[36:38])[0], tunnel.port, "outer port")
        equal(frame[begin - len(tunnel.header):begin], tunnel.header, "tunnel header")
        equal((ecn_of(frame), ecn_of(inner)), (ECT_1, ECT_1), "outer and inner ECN of a report")
        equal(inner[:6], MACS[:6] if inner[30:34] != socket.inet_aton(SILENT) else MACS[6:], "destination MAC")
        return decode_v1(inner[place[1]:], KEY)
    raise AssertionError("no report came out of the tunnel")


def reports(kind: str) -> None:
    """Check reports into a tunnel: to who was sent to, and to who only sent; and one out of it."""
    set_up(kind)
    lab.shim.settings_set(law="hygenicc", key=KEY, knobs={"echo": 0})
    try:
        for make, there, here in ((ipv4, U, V1), (ipv6, U_6, V1_6), (ipv4, SILENT, V1)):
            if there != SILENT:
                lab.v1.send(make(here, there, udp(100)))
                time.sleep(0.002)
            wire.flush()
            for _ in range(3):
                wire.send(outer(kind, make(there, here, udp(1000), ecn=ECT_1), CE))
            told = next_report(kind)
            equal((told.type, address(told.vm), address(told.peer)), (3, there, here), "report")
            assert 1 <= told.marks <= 3, told
        before = lab.stats("s1")
        equal(before["reports_unsent"], 0, "reports not sent")
        message = Message(type=3, vm=mapped(V1), peer=mapped(U), marks=1, point_datapath=1514, weight_total=1,
                          interval_ns=500_000, sender=7, epoch=1000, sequence=1)
        wire.send(outer(kind, ipv4(U, V1, encode_v1(message, KEY), protocol=PROTOCOL, ecn=ECT_1), ECT_1))
        time.sleep(0.002)
        equal(lab.stats("s1")["reports"] - before["reports"], 1, "reports accepted out of the tunnel")
    finally:
        lab.shim.settings_set(knobs={"echo": 1})
        lab.shim.settings_set(law="static", key=bytes(16))


def mapped(text: str) -> bytes:
    """Return an IPv4 address as messages carry it."""
    return bytes(10) + b"\xff\xff" + socket.inet_aton(text)


def address(packed: bytes) -> str:
    """Return an address of a message as text."""
    parsed = ipaddress.IPv6Address(packed)
    return str(parsed.ipv4_mapped or parsed)


@check
def vxlan_out() -> None:
    """Into VXLAN: the shim acts first, the outer header inherits the ECT it made"""
    out("vxlan")


@check
def vxlan_back() -> None:
    """Out of VXLAN: CE on the outer header reaches the shim, which counts it and gives the guest back what it meant"""
    back("vxlan")


@check
def vxlan_paced() -> None:
    """A departure time set before VXLAN is obeyed by fq behind it"""
    paced("vxlan")


@check
def geneve_out() -> None:
    """Into Geneve: the shim acts first, the outer header inherits the ECT it made"""
    out("geneve")


@check
def geneve_back() -> None:
    """Out of Geneve: CE on the outer header reaches the shim, which counts it and gives the guest back what it meant"""
    back("geneve")


@check
def vxlan_reports() -> None:
    """Reports go into VXLAN as the VM's packets do, or back to where the peer's come from; and come out of it"""
    reports("vxlan")


@check
def geneve_reports() -> None:
    """Reports go into Geneve, and come out of it"""
    reports("geneve")


@check
def gre_out() -> None:
    """Into GRE: the shim acts first, the outer header inherits the ECT it made"""
    out("gre")


@check
def gre_back() -> None:
    """Out of GRE: CE on the outer header reaches the shim, which counts it and gives the guest back what it meant"""
    back("gre")


@check
def gre_reports() -> None:
    """Reports go into GRE, and come out of it"""
    reports("gre")


@check
def reports_of_a_tunnel_that_went() -> None:
    """When the tunnel's port goes, so do its reports; what led there is let go with the peers"""
    set_up("vxlan")
    lab.shim.settings_set(law="hygenicc", key=KEY)
    lab.v1.send(ipv4(V1, U, udp(100)))
    wire.send(outer("vxlan", ipv4(U, V1, udp(1000), ecn=ECT_1), CE))
    run("ovs-vsctl del-port br0 tunnel")
    wire.flush()
    time.sleep(0.1)
    equal(next_outer("vxlan"), None, "packets into a tunnel that is not there")
    lab.shim.settings_set(law="static", key=bytes(16))
    equal(lab.shim.peers(), [], "peers")


@check
def underlay_behind_a_bridge() -> None:
    """Where the underlay's address is on another bridge, ECN and departure times pass that bridge, too"""
    set_up("vxlan")
    run(f"ovs-vsctl add-br phys; ip addr del {HERE}/24 dev u0; ovs-vsctl add-port phys u0")
    run(f"ip addr add {HERE}/24 dev phys; ip link set phys address {macs[0]} mtu 1600 up")
    run(f"ip neigh replace {THERE} lladdr {macs[1]} dev phys")
    settle()
    try:
        lab.v1.send(ipv4(V1, U, udp(100)))
        mark, inner = split("vxlan", next_outer("vxlan"))
        equal((mark, ecn_of(inner)), (ECT_1, ECT_1), "outer and inner ECN")
        evenly(gaps("vxlan"))
    finally:
        run("ovs-vsctl del-br phys")
        run(f"ip addr add {HERE}/24 dev u0; ip link set u0 up; ip neigh replace {THERE} lladdr {macs[1]} dev u0")


@check
def geneve_paced() -> None:
    """A departure time set before Geneve is obeyed by fq behind it"""
    paced("geneve")


@check
def gre_paced() -> None:
    """A departure time set before GRE is obeyed by fq behind it"""
    paced("gre")


main()
