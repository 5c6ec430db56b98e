# SPDX-License-Identifier: Apache-2.0
"""Peers and reports in the datapath: made, bounded, collected, believed only with proof, and gone without trace."""

from __future__ import annotations

import dataclasses
import socket
import time
from typing import Dict, Optional

from lab import (
    CE,
    ECT_0,
    ECT_1,
    NOT_ECT,
    PROTOCOL,
    U_6,
    V1,
    V1_6,
    Lab,
    U,
    Wire,
    check,
    checksum,
    ecn_of,
    equal,
    ipv4,
    ipv6,
    links,
    main,
    namespace,
    run,
    udp,
    unload,
)

from sdngcc.controller.wire.message import Message, decode_v1, encode_v1
from sdngcc.shim.netlink import Peer, ShimClient, ShimRefused

KEY = bytes(range(16))
MAPPED = bytes(10) + b"\xff\xff"
REPORT = 3
DF = 0x4000
lab = Lab()
sequence = 0


def report(**changes: object) -> Message:
    """Return a valid report from u for v1 with the next sequence number, changed."""
    global sequence
    sequence += 1
    base = Message(type=REPORT, vm=MAPPED + socket.inet_aton(V1), peer=MAPPED + socket.inet_aton(U), marks=1,
                   point_datapath=1514, weight_total=1, interval_ns=500_000, sender=7, epoch=1000, sequence=sequence)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def frame(message: Message, key: bytes = KEY, source: str = U) -> bytes:
    """Return a packet with a message for v1."""
    return ipv4(source, V1, encode_v1(message, key), protocol=PROTOCOL)


def changes(before: Dict[str, int]) -> Dict[str, int]:
    """Return what changed in s1's counters since, but for those of reports sent."""
    after = lab.stats("s1")
    return {name: after[name] - before[name] for name in after
            if after[name] != before[name] and "_sent" not in name}


def deliver(data: bytes, counter: str) -> None:
    """Send a frame from the uplink to v1: it must not arrive, and exactly one counter must count it."""
    lab.v1.flush()
    before = lab.stats("s1")
    lab.u.send(data)
    equal(lab.v1.receive(), None, "delivered to the VM")
    got = changes(before)
    if counter == "reports":
        equal(got.pop("report_bytes", 0), len(data), "bytes of reports")
    equal(got, {counter: 1}, "counters")


def peer(address: str = U) -> Optional[Peer]:
    """Return v1's peer of an address."""
    return next((one for one in lab.shim.peers() if one.address == address), None)


def talk(source: str = V1, destination: str = U) -> None:
    """Let v1 send a packet."""
    lab.v1.send(ipv4(source, destination, udp(100), fragment=DF))
    time.sleep(0.001)


def next_report(wait_s: float = 0.1) -> Optional[bytes]:
    """Return the next frame at the uplink that carries a control message."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        data = lab.u.receive(deadline - time.monotonic())
        if data and data[12:14] == b"\x08\x00" and data[23] == PROTOCOL:
            return data
        if data and data[12:14] == b"\x86\xdd" and data[20] == PROTOCOL:
            return data
    return None


@check
def made_by_sending() -> None:
    """A peer is made by the first packet sent, and counts what follows"""
    lab.shim.settings_set(law="hygenicc", key=KEY)
    equal(lab.shim.peers(), [], "peers before")
    talk()
    talk()
    one = peer()
    assert one, "no peer"
    equal((one.tx_packets, one.tx_bytes, one.rx_packets, one.weight), (2, 2 * 134, 0, 0), "peer")


@check
def made_by_receiving() -> None:
    """A peer is made by a packet received, and counts marks"""
    lab.u.send(ipv4("10.9.0.4", V1, udp(100), ecn=CE))
    time.sleep(0.001)
    one = peer("10.9.0.4")
    assert one, "no peer"
    equal((one.rx_packets, one.rx_bytes, one.rx_marks, one.tx_packets), (1, 134, 1, 0), "peer")


@check
def six() -> None:
    """IPv6 addresses are peers, and groups are none"""
    lab.v1.send(ipv6(V1_6, U_6, udp(100)))
    lab.v1.send(ipv6(V1_6, "ff02::1", udp(100)))
    talk(destination="224.0.0.1")
    talk(destination="255.255.255.255")
    addresses = {one.address for one in lab.shim.peers()}
    assert U_6 in addresses, addresses
    assert not addresses & {"ff02::1", "224.0.0.1", "255.255.255.255"}, addresses


@check
def report_sent() -> None:
    """Marks that no packet echoes are reported, signed, to the peer's address"""
    lab.u.flush()
    before = lab.stats("s1")
    lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
    data = next_report()
    assert data, "no report"
    equal(data[:12], bytes.fromhex("020000000002020000000001"), "MAC addresses, as the VM sends")
    equal(checksum(data[14:34]), 0, "IPv4 header checksum")
    equal((data[26:30], data[30:34]), (socket.inet_aton(V1), socket.inet_aton(U)), "addresses")
    message = decode_v1(data[34:], KEY)
    equal((message.type, message.marks, message.vm, message.peer),
          (REPORT, 1, MAPPED + socket.inet_aton(U), MAPPED + socket.inet_aton(V1)), "report")
    after = lab.stats("s1")
    sent = after["reports_sent"] - before["reports_sent"]
    assert sent >= 1, "not counted"
    equal(after["report_bytes_sent"] - before["report_bytes_sent"], sent * len(data), "bytes")


@check
def report_sent_six() -> None:
    """Reports go by IPv6 too"""
    lab.u.flush()
    lab.u.send(ipv6(U_6, V1_6, udp(1000), ecn=CE))
    data = next_report()
    assert data, "no report"
    message = decode_v1(data[54:], KEY)
    equal((message.type, message.vm), (REPORT, socket.inet_pton(socket.AF_INET6, U_6)), "report")


@check
def sequences_rise() -> None:
    """Each report has a later sequence than the one before, of one sender and epoch"""
    messages = []
    for _ in range(3):
        lab.u.flush()
        lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
        data = next_report()
        assert data, "no report"
        messages.append(decode_v1(data[34:], KEY))
    assert messages[0].sequence < messages[1].sequence < messages[2].sequence, messages
    equal(len({(one.sender, one.epoch) for one in messages}), 1, "senders")


@check
def echoed() -> None:
    """A mark is echoed in the reserved bit of a packet to the peer, and the checksum stays right"""
    lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
    time.sleep(0.0001)
    lab.u.flush()
    talk()
    data = lab.u.receive()
    assert data, "nothing sent"
    equal(data[20] & 0x80, 0x80, "reserved bit")
    equal(checksum(data[14:34]), 0, "IPv4 header checksum")


@check
def echo_hidden() -> None:
    """The VM never sees the reserved bit"""
    lab.v1.flush()
    lab.u.send(ipv4(U, V1, udp(100), fragment=0xC000))
    data = lab.v1.receive()
    assert data, "not delivered"
    equal(data[20] & 0x80, 0, "reserved bit")
    equal(checksum(data[14:34]), 0, "IPv4 header checksum")


@check
def report_obeyed() -> None:
    """A report of a peer is consumed and cuts the VM's rate"""
    for _ in range(20):
        talk()
    lab.shim.settings_set(knobs={"step-slow-ppm": 0})
    before = max(one.rate for one in lab.shim.limiters() if one.active)
    deliver(frame(report(marks=20, weight_total=20)), "reports")
    after = max(one.rate for one in lab.shim.limiters() if one.active)
    assert after < before, f"rate {before} not cut: {after}"


@check
def report_refused() -> None:
    """Forged, replayed, misaddressed and unknown reports are refused, each with its counter"""
    talk()
    deliver(frame(report(), bytes(15) + b"\x01"), "refused_tag")
    again = frame(report())
    deliver(again, "reports")
    deliver(again, "refused_replay")
    deliver(frame(report(epoch=999)), "refused_replay")
    deliver(frame(report(vm=MAPPED + socket.inet_aton("10.9.0.77"))), "refused_address")
    deliver(frame(report(), source="10.9.0.9"), "refused_address")
    unknown = report(peer=MAPPED + socket.inet_aton("10.9.0.9"))
    deliver(frame(unknown, source="10.9.0.9"), "refused_peer")
    deliver(frame(report(marks=2, weight_total=1)), "refused_form")


@check
def report_other_law() -> None:
    """A report for a VM whose law knows no peers is refused"""
    lab.shim.port_set("s1", law="sdngcc")
    equal(lab.shim.peers(), [], "peers of a law that wants none")
    talk()
    deliver(frame(report()), "refused_law")
    lab.shim.port_set("s1", law="default")


@check
def without_key() -> None:
    """Without a key no report is sent, and that is counted"""
    lab.shim.settings_set(key=bytes(16))
    talk()
    lab.u.flush()
    before = lab.stats("s1")["reports_no_key"]
    lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
    equal(next_report(), None, "report")
    assert lab.stats("s1")["reports_no_key"] > before, "not counted"
    lab.shim.settings_set(key=KEY)


@check
def bounded() -> None:
    """A VM has no more peers than set; packets to others pass, and those that found the table full are counted"""
    lab.roles()
    lab.shim.settings_set(peers_max=50)
    lab.u.flush()
    for number in range(60):
        talk(destination=f"10.10.0.{number + 1}")
    equal(len(lab.shim.peers()), 50, "peers")
    stats = lab.stats("s1")
    equal(stats["peers_full"] + stats.get("peers_evicted", 0), 10, "peers_full and peers_evicted")
    equal(sum(1 for _ in range(70) if lab.u.receive(0.001)), 60, "packets sent")
    lab.shim.settings_set(peers_max=4096)


@check
def collected() -> None:
    """Idle peers are forgotten and counted, busy ones and those with a weight are not"""
    lab.roles()
    lab.shim.settings_set(peer_idle=2_000_000_000)
    talk(destination="10.10.0.1")
    talk(destination="10.10.0.2")
    lab.shim.peer_set("s1", "10.10.0.2", 5)
    for _ in range(6):
        time.sleep(0.5)
        talk()
    equal({one.address: one.weight for one in lab.shim.peers()}, {U: 0, "10.10.0.2": 5}, "peers")
    equal(lab.stats("s1")["peers_collected"], 2, "peers_collected")
    lab.shim.settings_set(peer_idle=10_000_000_000)


@check
def weights() -> None:
    """Weights of peers are set, kept over a change of law, read, taken back and refused by name"""
    lab.shim.peer_set("s1", "fd09::9", 7)
    lab.shim.settings_set(law="sdngcc")
    equal({one.address: one.weight for one in lab.shim.peers()}, {"10.10.0.2": 5, "fd09::9": 7}, "peers")
    lab.shim.settings_set(law="hygenicc")
    lab.shim.peer_del("s1", "fd09::9")
    lab.shim.peer_del("s1", "10.10.0.2")
    equal(lab.shim.peers(), [], "peers")
    for action, word in ((lambda: lab.shim.peer_set("s1", U, 65536), "1 to 65535"),
                         (lambda: lab.shim.peer_set("s3", U, 1), "uplink"),
                         (lambda: lab.shim.peer_del("s1", "10.1.1.1"), "none of that address")):
        try:
            action()
        except ShimRefused as refusal:
            assert word in str(refusal), refusal
        else:
            raise AssertionError(f"accepted: {word}")


@check
def mixed() -> None:
    """Each VM has its own law: peers for one, none for the other"""
    lab.shim.settings_set(law="sdngcc")
    lab.shim.port_set("s1", law="hygenicc")
    talk()
    lab.v2.send(ipv4("10.9.0.2", U, udp(100)))
    time.sleep(0.001)
    equal([lab.shim.port_get(name).law for name in ("s1", "s2")], ["hygenicc", "default"], "laws")
    equal({one.vm for one in lab.shim.peers()}, {socket.if_nametoindex("s1")}, "VMs with peers")
    equal(sum(one.active for one in lab.shim.limiters()), 2, "active limiters")
    lab.shim.port_set("s2", law="none")
    time.sleep(0.001)
    equal(sum(one.active for one in lab.shim.limiters()), 1, "active limiters with one law none")
    lab.shim.port_set("s2", law="default")
    try:
        lab.shim.port_set("s1", law="fair")
        raise AssertionError("an unknown law was accepted")
    except ShimRefused as refusal:
        assert "none, static, sdngcc" in str(refusal), refusal


@check
def knobs_kept() -> None:
    """Each law keeps its own period and knobs"""
    lab.shim.settings_set(of="hygenicc", period=700_000, knobs={"echo": 0})
    got = lab.shim.settings_get(of="hygenicc")
    equal((got.law, got.of, got.period, got.knobs["echo"].value), ("sdngcc", "hygenicc", 700_000, 0), "hygenicc")
    equal(lab.shim.settings_get().period, 5_000_000, "period of sdngcc")
    lab.shim.settings_set(of="hygenicc", period=0, knobs={"echo": 1})


def told(ecn: int, port: int, reserved: bool = False) -> int:
    """Return the ECN field in which a packet of a flow reaches v1, which never sees the reserved bit."""
    lab.v1.flush()
    lab.u.send(ipv4(U, V1, udp(100, port), ecn=ecn, fragment=DF | 0x8000 * reserved))
    data = lab.v1.receive()
    assert data, "not delivered"
    equal(data[20] & 0x80, 0, "reserved bit")
    return ecn_of(data)


@check
def tunnel_told() -> None:
    """A guest with ECN sees the fabric's marks until the peer reports, then the tunnel's only"""
    for number, law in enumerate(("scc", "seawall")):
        lab.shim.port_set("s1", law=law)
        talk()
        flow, other = 500 + number, 600 + number
        equal([told(ecn, flow) for ecn in (ECT_0, CE)], [ECT_0, CE], f"{law}, before a report")
        deliver(frame(report()), "reports")
        equal([told(ecn, flow) for ecn in (ECT_0, CE)], [ECT_0, ECT_0], f"{law}, marked by the fabric")
        equal([told(ecn, flow, True) for ecn in (ECT_0, CE)], [CE, CE], f"{law}, marked by the tunnel")
        equal([told(ecn, other, True) for ecn in (ECT_1, CE)], [NOT_ECT, NOT_ECT], f"{law}, guest without ECN")
        lab.u.send(ipv6(U_6, V1_6, udp(100, flow), ecn=ECT_0))
        lab.v1.flush()
        lab.u.send(ipv6(U_6, V1_6, udp(100, flow), ecn=CE))
        data = lab.v1.receive()
        assert data, "IPv6: not delivered"
        equal(ecn_of(data), CE, f"{law}, IPv6")


@check
def tunnel_marks() -> None:
    """Packets that wait behind 100 KB (scc) or 30 KB (seawall) carry the tunnel's mark, earlier ones do not"""
    for law, least, most in (("scc", 60, 85), ("seawall", 15, 30)):
        lab.shim.port_set("s1", law=law, max_rate=1_000_000)
        lab.shim.settings_set(horizon=1_000_000_000)
        talk()
        # What nobody answers waits elsewhere.
        lab.u.send(ipv4(U, V1, udp(100)))
        time.sleep(0.05)
        lab.u.flush()
        for _ in range(most + 10):
            lab.v1.send(ipv4(V1, U, udp(1400), fragment=DF, ecn=ECT_0))
        got = [data for data in (lab.u.receive(0.2) for _ in range(most + 30)) if data and data[23] != PROTOCOL]
        bits = [data[20] >> 7 for data in got]
        equal({checksum(data[14:34]) for data in got}, {0}, f"{law}, IPv4 header checksums")
        assert bits == sorted(bits) and least <= bits.count(0) <= most and bits.count(1) >= 10, f"{law}: {bits}"
    lab.shim.settings_set(horizon=2_000_000)
    lab.shim.port_set("s1", law="hygenicc", max_rate=0)


@check
def law_changes() -> None:
    """A law can change fifty times while packets flow; peers and limiters begin anew each time"""
    lab.shim.port_set("s1", law="default")
    laws = ("hygenicc", "sdngcc", "none", "static")
    for number in range(50):
        lab.shim.settings_set(law=laws[number % 4])
        for _ in range(3):
            lab.v1.send(ipv4(V1, U, udp(1000), fragment=DF))
            lab.u.send(ipv4(U, V1, udp(1000), ecn=CE, fragment=0xC000))
        lab.shim.port_set("s1", law=laws[(number + 1) % 4])
        lab.v1.send(ipv4(V1, U, udp(1000), fragment=DF))
        time.sleep(0.001)
    lab.shim.port_set("s1", law="default")
    lab.shim.settings_set(law="hygenicc")
    talk()
    assert peer(), "no peer after all that"


@check
def churn() -> None:
    """VMs come and go a hundred times while packets flow, and leave no peer"""
    for _ in range(100):
        lab.shim.port_del("s1")
        lab.shim.port_set("s1", role="vm")
        lab.v1.send(ipv4(V1, U, udp(100), fragment=DF))
        lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
    lab.shim.port_del("s1")
    equal(lab.shim.peers(), [], "peers")
    lab.shim.port_set("s1", role="vm")


@check
def namespace_deleted() -> None:
    """A namespace with a datapath, peers and reports can be deleted, ten times"""
    for _ in range(10):
        links("netns add gone")
        links("link add x0 type veth peer name x1", "link add x2 type veth peer name x3",
              *(f"link set x{number} up" for number in range(4)), within="gone")
        with namespace("gone"), ShimClient() as client:
            run("ovs-dpctl add-dp dpx; ovs-dpctl add-if dpx x0 x2" + "".join(
                f"; ovs-dpctl add-flow dpx 'in_port({before}),eth(),eth_type(0x0800),ipv4(frag=no)' {after}"
                for before, after in ((1, 2), (2, 1))))
            client.settings_set(law="hygenicc", key=KEY)
            client.port_set("x0", role="vm")
            client.port_set("x2", role="uplink", capacity=10**6)
            Wire("gone", "x1").send(ipv4(V1, U, udp(100)))
            Wire("gone", "x3").send(ipv4(U, V1, udp(100), ecn=CE))
            time.sleep(0.002)
            equal(len(client.peers()), 1, "peers there")
        run("ip netns del gone")
    time.sleep(1)


@check
def nothing_left() -> None:
    """The module unloads under traffic with peers, and leaves no cache of them"""
    talk()
    lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
    lab.shim.close()
    run("ovs-appctl exit")
    time.sleep(1)
    lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
    unload()
    slabs = run("cat /proc/slabinfo 2>/dev/null || true")
    assert "ovs_shim_peer" not in slabs, "the cache of peers is still there"


main()
