# SPDX-License-Identifier: Apache-2.0
"""What clouds put between hypervisors: NAT, conntrack, security groups, equal addresses of tenants, and mirrors.

    VM 10.9.0.1 -- s1 | bridge br0: ct(nat) as 198.51.100.1 | s3 -- u, 10.9.0.3, whose reports this file forges
"""

from __future__ import annotations

import ipaddress
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from control import KEY, frame, grant
from lab import BRIDGE, PROTOCOL, V1, V2, Lab, U, check, equal, frames, ifindex, ipv4, main, run, settle, udp

from sdngcc.controller.wire.message import decode_v1
from sdngcc.shim.netlink import Peer

PUBLIC = "198.51.100.1"
DF = 0x4000
LEAST = 2_000_000  # guarantee of v1, bytes/s
MORE = 20_000_000  # that u grants, bytes/s
SHARE = 125_000_000  # of a VM that is alone on the uplink
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "operator-guide.md"
# A rule of a security group for messages, as clouds make flows of one. Groups have a zone of their own: where NAT
# committed a connection, the same addresses without it are another one, which cannot be committed.
RULE = f"table=2,ct_state=+new+trk,ip,nw_proto={PROTOCOL},actions=ct(commit,zone=2),output:1"
lab = Lab()


def bridge(*flows: str) -> None:
    """Give the bridge these flows and no others."""
    run(f"ovs-ofctl del-flows {BRIDGE}")
    for flow in flows:
        run(f"ovs-ofctl add-flow {BRIDGE} '{flow}'")
    settle()


def allow(here: str) -> None:
    """Let messages for v1 as that address in by the operator guide's command, with the names of this bridge."""
    found = re.findall(r"^ovs-ofctl add-flow br-int .*nw_proto=253.*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    equal(len(found), 1, "commands of the guide that let messages in")
    for theirs, ours in (("br-int", BRIDGE), ("10.0.0.5", here), ("tap0", "s1")):
        assert theirs in found[0], f"'{theirs}' is not in: {found[0]}"
        found[0] = found[0].replace(theirs, ours)
    run(found[0])
    settle()


def source_nat() -> None:
    """Let v1 appear as PUBLIC to the fabric, by conntrack, and what it is answered find back."""
    bridge(f"priority=5,in_port=1,ip,actions=ct(commit,zone=1,nat(src={PUBLIC}),table=1)",
           f"priority=5,in_port=3,ip,nw_dst={PUBLIC},actions=ct(zone=1,nat,table=2)",
           "table=1,actions=output:3", "table=2,ct_state=+est+trk,actions=output:1")


def floating_ip() -> None:
    """Let PUBLIC be v1 both ways, whoever begins, with every packet tracked: so messages are as well."""
    bridge(f"priority=5,in_port=1,ip,actions=ct(commit,zone=1,nat(src={PUBLIC}),table=1)",
           f"priority=5,in_port=3,ip,nw_dst={PUBLIC},actions=ct(commit,zone=1,nat(dst={V1}),table=2)",
           "table=1,actions=output:3", "table=2,actions=output:1")


def security_group(*more: str) -> None:
    """Let nothing in but answers to what v1 sent, as a security group without rules does."""
    bridge("priority=5,in_port=1,ip,actions=ct(commit,zone=2,table=1)",
           "priority=5,in_port=3,ip,actions=ct(zone=2,table=2)",
           "table=1,actions=output:3", "table=2,ct_state=+est+trk,actions=output:1", *more)


def fresh(law: str, min_rate: int = 0) -> None:
    """Begin anew under a law, with a guarantee for v1."""
    lab.fresh("none")
    lab.fresh(law, key=KEY)
    lab.shim.port_set("s1", min_rate=min_rate)
    for wire in (lab.v1, lab.v2, lab.u):
        wire.flush()


def peers(device: str = "s1") -> Dict[str, Peer]:
    """Return a VM's peers by address."""
    return {one.address: one for one in lab.shim.peers() if one.vm == ifindex(device)}


def limit() -> int:
    """Return what v1 may send to u, bytes/s: by its own rate, and by that to u where there is one."""
    own = [one.rate for one in lab.shim.limiters() if one.vm == ifindex("s1")]
    to_u = peers()[U].rate
    return min(*own, to_u) if to_u else min(own)


def send(seconds: float, here: str = U) -> None:
    """Let v1 send 20 packets of 1434 bytes in each 10 ms, 2.9 MB/s."""
    for _ in range(int(seconds * 100)):
        for _ in range(20):
            lab.v1.send(ipv4(V1, here, udp(1400), fragment=DF))
        time.sleep(0.01)


def address(data: bytes) -> str:
    """Return 4 bytes as an address."""
    return str(ipaddress.ip_address(data))


def reports(found: List[bytes]) -> List[Tuple[str, str]]:
    """Return of each report among frames the source in its header and the address it says it is from."""
    got = []
    for one in found:
        if one[12:14] == b"\x08\x00" and one[23] == PROTOCOL:
            got.append((address(one[26:30]), address(decode_v1(one[34:], KEY).peer[12:])))
    return got


def exchange(times: int, to: str = PUBLIC) -> List[Tuple[str, str]]:
    """Let v1 and u send to each other, u last, and return v1's shim's reports."""
    lab.u.flush()
    for _ in range(times):
        lab.v1.send(ipv4(V1, U, udp(400), fragment=DF))
        time.sleep(0.002)
        lab.u.send(ipv4(U, to, udp(400), fragment=DF))
        time.sleep(0.020)
    return reports(frames(lab.u))


@check
def translated() -> None:
    """Behind NAT at the bridge every report bears the address that the peer knows, in its header and in itself"""
    for law in ("seawall", "scc"):
        fresh(law)
        source_nat()
        lab.v1.flush()
        got = exchange(24)
        arrived = [address(one[30:34]) for one in frames(lab.v1)]
        equal(set(arrived), {V1}, f"{law}: addresses that u's packets have for v1")
        assert len(got) >= 20, f"{law}: {len(got)} reports"
        equal(set(got), {(PUBLIC, PUBLIC)}, f"{law}: addresses of {len(got)} reports")


@check
def obeyed() -> None:
    """Messages for that address are obeyed: let past conntrack as the guide says, and translated for the guest"""
    for way in ("past", "translated"):
        fresh("eyeq")
        if way == "past":
            source_nat()
            allow(PUBLIC)
        else:
            floating_ip()
        lab.v1.send(ipv4(V1, U, udp(400), fragment=DF))
        time.sleep(0.01)
        with lab.counted("s1", reports=1, refused_address=0, refused_port=0):
            lab.u.send(frame(grant(MORE, vm=PUBLIC)))
            time.sleep(0.01)
        equal(peers()[U].rate, MORE, f"{way}: rate to u")


@check
def strangers() -> None:
    """A message for an address that is neither the packet's nor the VM's is refused, whatever was translated"""
    fresh("eyeq")
    floating_ip()
    lab.v1.send(ipv4(V1, U, udp(400), fragment=DF))
    time.sleep(0.01)
    stolen = frame(grant(MORE, vm="198.51.100.77"))
    to_v1 = ipv4(U, PUBLIC, stolen[34:], protocol=PROTOCOL)
    with lab.counted("s1", reports=0, refused_address=1):
        lab.u.send(to_v1)
        time.sleep(0.01)


@check
def shared_address() -> None:
    """Of two VMs behind one address the second is refused, counted, until the address is set for both"""
    fresh("eyeq")
    bridge(*(f"in_port={port},ip,actions=ct(commit,zone={port},nat(src={PUBLIC}),table=1)" for port in (1, 2)),
           "table=1,actions=output:3")
    lab.v1.send(ipv4(V1, U, udp(400)))
    time.sleep(0.01)
    with lab.counted("s2", drop_spoofed=1, tx_packets=0):
        lab.v2.send(ipv4(V2, U, udp(400, port=10)))
        time.sleep(0.01)
    for device in ("s1", "s2"):
        lab.shim.port_set(device, addresses=[PUBLIC])
    for device, wire, host in (("s2", lab.v2, V2), ("s1", lab.v1, V1), ("s2", lab.v2, V2)):
        with lab.counted(device, drop_spoofed=0, tx_packets=1):
            wire.send(ipv4(host, U, udp(400)))
            time.sleep(0.01)


@check
def dropped_in() -> None:
    """Where a security group drops messages, a law that was told a rate ends at the guarantee, counted"""
    for law in ("eyeq", "seawall"):
        fresh(law, min_rate=LEAST)
        security_group()
        allow(V1)
        send(0.02)
        with lab.counted("s1", reports=5, reports_overdue=0):
            for number in range(1, 6):
                send(0.02)
                lab.u.send(frame(grant(MORE, point_datapath=number * 28_000, weight_total=number * 20)))
                time.sleep(0.001)
        assert limit() > 2 * LEAST, f"{law}: {limit()} bytes/s while reports come"
        security_group()
        before = lab.stats("s1")
        send(4)
        lab.u.send(frame(grant(MORE)))
        time.sleep(0.01)
        rose = lab.changes("s1", before)
        print(f"# {law}: {limit()} bytes/s after 4 s of silence, {rose}", flush=True)
        equal(limit(), LEAST, f"{law}: bytes/s in silence")
        equal(rose.get("reports", 0), 0, f"{law}: reports")
        assert rose.get("reports_overdue", 0) in (3, 4), f"{law}: {rose}"
        # It is a matter of one rule of the group, too.
        security_group(RULE)
        with lab.counted("s1", reports=1):
            lab.u.send(frame(grant(MORE, point_datapath=500_000, weight_total=400)))
            time.sleep(0.1)


@check
def never_heard() -> None:
    """Where no message ever came, E bounds the VM as if the other had no shim; seawall and scc count it"""
    for law, counted in (("eyeq", 0), ("hygenicc", 0), ("seawall", 2), ("scc", 2)):
        fresh(law, min_rate=LEAST)
        security_group()
        before = lab.stats("s1")
        send(2.5)
        rose = lab.changes("s1", before)
        print(f"# {law}: {limit()} bytes/s, {rose.get('reports_overdue', 0)} seconds overdue", flush=True)
        assert LEAST <= limit() <= SHARE, f"{law}: {limit()} bytes/s"
        equal(rose.get("reports_overdue", 0), counted, f"{law}: reports_overdue")


@check
def answered() -> None:
    """A peer that answers late, or is sent nothing, is not overdue"""
    fresh("seawall", min_rate=LEAST)
    security_group()
    allow(V1)
    with lab.counted("s1", reports_overdue=0):
        for number in range(1, 8):
            send(0.5)
            lab.u.send(frame(grant(MORE, point_datapath=number * 1_000_000, weight_total=number * 1000)))
            time.sleep(0.001)
        time.sleep(5)


@contextmanager
def tenants() -> Iterator[None]:
    """Put v1 and v2 into VLANs 5 and 6 behind the uplink."""
    bridge("in_port=1,actions=mod_vlan_vid:5,output:3", "in_port=2,actions=mod_vlan_vid:6,output:3",
           "in_port=3,dl_vlan=5,actions=strip_vlan,output:1", "in_port=3,dl_vlan=6,actions=strip_vlan,output:2")
    yield
    lab.route()


def tagged(data: bytes, vlan: int) -> bytes:
    """Return a frame with a VLAN tag."""
    return data[:12] + b"\x81\x00" + vlan.to_bytes(2, "big") + data[12:]


@check
def overlapping() -> None:
    """Two VMs with one address in two networks, and a peer of each with one address, are told apart in all"""
    fresh("eyeq")
    with tenants():
        for wire, count in ((lab.v1, 3), (lab.v2, 5)):
            for _ in range(count):
                wire.send(ipv4(V1, U, udp(400), fragment=DF))
        time.sleep(0.01)
        equal([lab.stats(device)["drop_spoofed"] for device in ("s1", "s2")], [0, 0], "refused as spoofed")
        equal([peers(device)[U].tx_packets for device in ("s1", "s2")], [3, 5], "packets to the peer")
        lab.u.send(tagged(frame(grant(MORE, sender=21)), 5))
        lab.u.send(tagged(frame(grant(2 * MORE, sender=22)), 6))
        time.sleep(0.01)
        equal([peers(device)[U].rate for device in ("s1", "s2")], [MORE, 2 * MORE], "rates that were granted")
        lab.v1.flush()
        lab.v2.flush()
        lab.u.send(tagged(ipv4(U, V1, udp(400)), 6))
        time.sleep(0.01)
        equal([len(frames(lab.v1)), len(frames(lab.v2))], [0, 1], "packets for VLAN 6")
        equal([peers(device)[U].rx_packets for device in ("s1", "s2")], [0, 1], "packets from the peer")


@check
def one_vm_in_two_networks() -> None:
    """One VM in two networks has one peer for an address that is in both: the last one's rate holds for the sum"""
    fresh("eyeq")
    bridge("in_port=1,actions=output:3", "in_port=3,actions=output:1")
    for vlan in (5, 6):
        lab.v1.send(tagged(ipv4(V1, U, udp(400), fragment=DF), vlan))
    time.sleep(0.01)
    equal({one: peer.tx_packets for one, peer in peers().items()}, {U: 2}, "peers")
    lab.u.send(tagged(frame(grant(MORE, sender=23)), 5))
    time.sleep(0.01)
    equal(peers()[U].rate, MORE, "rate")
    lab.route()


def copies(actions: str) -> Tuple[int, int]:
    """Let v1 send ten packets of 1034 bytes through a flow, and return bytes charged and copies seen at u."""
    lab.fresh("static")
    lab.u.flush()
    with lab.flow("in_port=1", actions):
        before = lab.stats("s1")["tx_bytes"]
        for _ in range(10):
            lab.v1.send(ipv4(V1, U, udp(1000)))
        time.sleep(0.01)
        return lab.stats("s1")["tx_bytes"] - before, len(frames(lab.u))


@contextmanager
def mirror(what: str) -> Iterator[None]:
    """Let the bridge mirror what v1 sends to s2 for a while."""
    run(f"ovs-vsctl -- --id=@from get Port s1 -- --id=@to get Port s2 -- --id=@m create Mirror name=m {what} "
        f"output_port=@to -- set Bridge {BRIDGE} mirrors=@m")
    # A flow that is in the datapath already has no mirror.
    run("ovs-appctl revalidator/purge")
    yield
    run(f"ovs-vsctl clear Bridge {BRIDGE} mirrors; ovs-appctl revalidator/purge")


@check
def mirrored() -> None:
    """A copy that is mirrored to an uplink is charged to the VM, one to a port without a role is not"""
    lab.route()
    equal(copies("output:3"), (10_340, 10), "no mirror: bytes charged, and frames at u")
    equal(copies("output:3,output:3"), (20_680, 20), "a second copy on the uplink")
    lab.fresh("static")
    for role, charged, ways in (("none", 1, ("select_src_port=@from", "select_all=true")),
                                ("uplink", 2, ("select_src_port=@from",))):
        lab.shim.port_set("s2", role="none")
        if role == "uplink":
            lab.shim.port_set("s2", role="uplink", capacity=SHARE)
        for way in ways:
            with mirror(way):
                lab.v2.flush()
                with lab.counted("s1", tx_packets=10 * charged, tx_bytes=10_340 * charged):
                    for _ in range(10):
                        lab.v1.send(ipv4(V1, U, udp(1000)))
                    time.sleep(0.01)
                equal(len(frames(lab.v2)), 10, f"role {role}, {way}: copies at the mirror's port")


main()
