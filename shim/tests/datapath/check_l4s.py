# SPDX-License-Identifier: Apache-2.0
"""AccECN (RFC 9768) between guests, and DualPI2 (RFC 9332) in the fabric.

AccECN's flags, as frames, cross the shim as they are. Where the kernel has AccECN (tcp_ecn=3) and DualPI2, real stacks
count the fabric's marks, between v1 and u, now a VM too:

    v1 -- s1 | br0 | f3 -- f4 | far | s3 -- u

Arguments: the traffic generator (not used), the module that the shim is part of.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Callable, Iterator, Tuple

from lab import BRIDGE, ECT_0, ECT_1, NOT_ECT, U_6, V1, V1_6, Lab, U, Wire, check, equal, main, run, settle
from segments import ACK, FORMS, SYN, SYN_OPTIONS, Segment, Talk
from stacks import MIB, RATE, TCP_INFO, Transfer, addresses, connection, marks, shape, sysctl_ecn

lab = Lab()
DATA = bytes(1000)
# The flags AE, CWR and ECE as a number from 0 to 7.
FLAGS = tuple(number << 6 for number in range(8))
OFFER = FLAGS[7]
# Answers that agree: they tell which ECN field the SYN arrived with.
ANSWERS = (FLAGS[2], FLAGS[3], FLAGS[4], FLAGS[6])
PORTS = iter(range(40000, 60000))


def cross(sender: Wire, receiver: Wire, frame: bytes) -> bytes:
    """Return what a frame arrives as; AssertionError if it does not."""
    receiver.flush()
    sender.send(frame)
    got = receiver.receive()
    assert got is not None, "nothing arrived"
    return got


def ways(talk: Talk, flip: bool) -> Tuple[Callable[..., Segment], Callable[..., Segment]]:
    """Return how the end that connects, v1 or (flip) u, sends a segment, and the other; both return what arrives."""
    def sent(**fields: int | bytes) -> Segment:
        return talk.read(cross(lab.v1, lab.u, talk.out(**fields)), True)  # type: ignore[arg-type]

    def heard(**fields: int | bytes) -> Segment:
        return talk.read(cross(lab.u, lab.v1, talk.back(**fields)), False)  # type: ignore[arg-type]

    return (heard, sent) if flip else (sent, heard)


@check
def flags() -> None:
    """A handshake that agrees on AccECN, and every count after it, pass as they are, under each law and codepoint"""
    for law in ("static", "vcc"):
        for codepoint in (1, 0):
            lab.fresh(law, codepoint=codepoint)
            for name, form in FORMS.items():
                for flip in (False, True):
                    for answer in ANSWERS:
                        connects, accepts = ways(Talk(form, next(PORTS)), flip)
                        got = [connects(flags=SYN | OFFER, seq=0, ack=0, options=SYN_OPTIONS).flags,
                               accepts(flags=SYN | ACK | answer, seq=0, options=SYN_OPTIONS).flags]
                        equal(got, [SYN | OFFER, SYN | ACK | answer], f"{law}, {codepoint}, {name}: handshake")
                        for send in (connects, accepts):
                            for payload in (b"", DATA):
                                equal([send(flags=ACK | count, payload=payload, ecn=ECT_0).flags for count in FLAGS],
                                      [ACK | count for count in FLAGS], f"{law}, {codepoint}, {name}: counts")
    lab.shim.settings_set(codepoint=1)


@check
def fields() -> None:
    """The handshake, which is Not-ECT, is so again behind the fabric; ECT(0) on what follows stays"""
    for codepoint, made in ((1, ECT_1), (0, ECT_0)):
        lab.fresh("static", codepoint=codepoint)
        for name, form in FORMS.items():
            sent, heard = ways(Talk(form, next(PORTS)), False)
            equal(sent(flags=SYN | OFFER, seq=0, ack=0, options=SYN_OPTIONS).ecn, made, f"{name}: SYN leaves")
            equal(heard(flags=SYN | ACK | ANSWERS[0], seq=0, options=SYN_OPTIONS, ecn=made).ecn, NOT_ECT,
                  f"{name}: SYN-ACK arrives")
            equal(sent(flags=ACK | FLAGS[2], ecn=ECT_0).ecn, ECT_0, f"{name}: ACK leaves")
            equal(heard(flags=ACK | FLAGS[5], payload=DATA, ecn=ECT_0).ecn, ECT_0, f"{name}: data arrive")
    lab.shim.settings_set(codepoint=1)


@dataclass(frozen=True)
class Counts:
    """What TCP_INFO tells of AccECN at one end; bytes are of payload."""

    delivered_ce: int
    """Own segments that arrived marked, as the peer's flags told."""
    received_ce: int
    """The peer's that arrived so."""
    delivered: Tuple[int, int, int]
    """Own bytes that arrived with ECT(1), ECT(0) and CE, as the peer's options told."""
    received: Tuple[int, int, int]
    """The peer's that arrived so."""
    mode: int
    """0: no ECN, 1: as in RFC 3168, 2: AccECN."""
    failed: int
    """What is found broken, bits."""

    @classmethod
    def of(cls, sock: socket.socket) -> Counts:
        """Ask a socket."""
        info = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 280)
        words = struct.unpack_from("8I", info, 248)
        return cls(struct.unpack_from("I", info, 196)[0], words[0], words[1:4], words[4:7], words[7] & 3,
                   words[7] >> 4 & 15)


def ends(sender: str, address: str, size: int) -> Tuple[Counts, Counts]:
    """Send size bytes and return what the sender and the receiver count when all is acknowledged."""
    with connection(sender, address) as (client, server):
        Transfer(client, server, size).end()
        time.sleep(0.1)
        return Counts.of(client), Counts.of(server)


# Senders, addresses to send to and the devices of the fabric that mark.
WAYS = (("v1", U, "f3"), ("v1", U_6, "f3"), ("u", V1, "f4"), ("u", V1_6, "f4"))


def settings() -> Iterator[str]:
    """Put law static, both codepoints and packets of one segment and of many in force; yield what is."""
    for codepoint in (1, 0):
        lab.shim.settings_set(law="static", codepoint=codepoint)
        for segments in (1, 65535):
            for device, name in (("e1", "v1"), ("e3", "u")):
                run(f"ip -n {name} link set {device} gso_max_segs {segments}")
            yield f"codepoint {codepoint}, {segments} segments"
    lab.shim.settings_set(codepoint=1)


def two_hosts() -> None:
    """Make u a VM of another bridge, behind a fabric of two queues that mark."""
    lab.shim.port_del("s3")
    run("ip link add f3 type veth peer name f4 && ip link set f3 up && ip link set f4 up")
    run(f"ovs-vsctl del-port {BRIDGE} s3 -- add-port {BRIDGE} f3 -- add-br far -- add-port far s3 -- add-port far f4")
    run(f"ovs-ofctl add-flows {BRIDGE} -", "delete\nin_port=s1,actions=output:f3\nin_port=f3,actions=output:s1\n")
    settle()
    lab.shim.port_set("s3", role="vm")
    for device in ("f3", "f4"):
        lab.shim.port_set(device, role="uplink", capacity=125_000_000)
        shape(device, "")
    addresses()
    sysctl_ecn(3, 3)


def counted() -> None:
    """Both ends count the fabric's marks, no more and no less, and never see what the shim made ECT"""
    size = 4 * MIB
    for what in settings():
        for sender, address, device in WAYS:
            told = f"{what}, {sender} to {address}"
            before = marks(device, "")
            client, server = ends(sender, address, size)
            equal([(end.mode, end.failed) for end in (client, server)], [(2, 0)] * 2, f"{told}: mode, failed")
            equal(client.delivered_ce, server.received_ce, f"{told}: segments marked, {client}")
            equal(client.delivered, server.received, f"{told}: bytes by field")
            equal((server.received[0], sum(server.received)), (0, size), f"{told}: bytes with ECT(1), with any")
            marked = marks(device, "") - before
            assert marked > 0, f"{told}: no marks"
            if "1 segments" in what:
                equal(server.received_ce, marked, f"{told}: marks of the queue")


def marked_handshake() -> None:
    """A fabric that marks every packet that it can, SYN and SYN-ACK too, breaks nothing

    With codepoint 1 a mark is told to flows that showed ECT(0), and here none can.
    """
    size = 64 << 10
    for device in ("f3", "f4"):
        run(f"tc qdisc replace dev {device} root netem loss 100% ecn limit 1000")
    try:
        for what in settings():
            for sender, address, _ in WAYS:
                client, server = ends(sender, address, size)
                equal([(end.mode, end.failed) for end in (client, server)], [(2, 0)] * 2,
                      f"{what}, {sender} to {address}: mode, failed")
                equal(server.received, (0, 0, 0 if "codepoint 1" in what else size),
                      f"{what}, {sender} to {address}: bytes by field")
    finally:
        for device in ("f3", "f4"):
            run(f"tc qdisc del dev {device} root")
            shape(device, "")


def with_others() -> None:
    """With a peer of classic ECN it is classic, with one that refuses ECN there is none, and no mark is told

    With codepoint 0 who refused it, and does not look, may be shown ECT(0) and marks.
    """
    try:
        for other, mode in ((1, 1), (0, 0)):
            for mine, peers in ((3, other), (other, 3)):
                sysctl_ecn(mine, peers)
                for what in settings():
                    for sender, address, _ in WAYS:
                        client, server = ends(sender, address, MIB)
                        equal((client.mode, server.mode), (mode, mode), f"{what}, {sender} to {address}: mode")
                        told = f"{what}, {sender} to {address}: {client}, {server}"
                        assert mode or not client.delivered_ce, told
                        assert bool(server.received_ce) == bool(mode) or "codepoint 0" in what and not mode, told
    finally:
        sysctl_ecn(3, 3)


def parts(data: bytes, head: str) -> Iterator[Tuple[int, bytes]]:
    """Take messages or attributes of netlink apart: yield each one's type and content; head: its header's format."""
    size = struct.calcsize(head)
    while len(data) >= size:
        length, kind = struct.unpack_from(head, data)[:2]
        yield kind, data[size:length]
        data = data[(length + 3) & ~3:]


@dataclass(frozen=True)
class DualPi2:
    """What DualPI2 counts: packets for either queue, and marks of the classic one."""

    classic: int
    low_latency: int
    marked: int

    @classmethod
    def of(cls, device: str) -> DualPi2:
        """Ask the kernel for the device's, which tc of Debian 12 and 13 do not know."""
        link = socket.if_nametoindex(device)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as sock:
            # RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP; struct tcmsg.
            sock.send(struct.pack("=IHHIIBxxxiIII", 36, 38, 0x301, 1, 0, 0, link, 0, 0, 0))
            for _, message in parts(sock.recv(65536), "=IHHII"):
                found = dict(parts(message[20:], "=HH"))
                # Its ifindex; TCA_KIND; TCA_STATS2, in it TCA_STATS_APP.
                if struct.unpack_from("=i", message, 4)[0] == link and found[1] == b"dualpi2\0":
                    words = struct.unpack_from("=12I", dict(parts(found[7], "=HH"))[4])
                    return cls(words[3], words[4], words[6])
        raise AssertionError(f"{device} has no dualpi2")


def has_accecn() -> bool:
    """Return whether the kernel's TCP has AccECN."""
    try:
        run("ip netns exec u sysctl -qw net.ipv4.tcp_ecn=3")
    except RuntimeError:
        return False
    return True


def queues() -> None:
    """DualPI2 has what the shim made ECT in its low-latency queue with codepoint 1, in the classic one with 0"""
    run("tc qdisc replace dev f3 root dualpi2")
    try:
        for codepoint, low_latency in ((1, (1, 0, 1)), (0, (0, 0, 1))):
            lab.shim.settings_set(law="static", codepoint=codepoint)
            for ecn, low in zip((NOT_ECT, ECT_0, ECT_1), low_latency):
                before = DualPi2.of("f3")
                lab.v1.send(Talk(FORMS["IPv4"], next(PORTS)).out(payload=DATA, ecn=ecn))
                time.sleep(0.01)
                after = DualPi2.of("f3")
                equal((after.classic - before.classic, after.low_latency - before.low_latency), (1 - low, low),
                      f"codepoint {codepoint}, field {ecn}: packets in classic, low-latency queue")
    finally:
        lab.shim.settings_set(codepoint=1)
        run("tc qdisc del dev f3 root")
        shape("f3", "")


def marked_by_dualpi2() -> None:
    """With codepoint 0 guests' classic traffic is marked in DualPI2's classic queue, and AccECN counts each mark"""
    lab.shim.settings_set(law="static", codepoint=0)
    for device, name in (("e1", "v1"), ("e3", "u")):
        run(f"ip -n {name} link set {device} gso_max_segs 1")
    # v1's socket would wait for packets in the fabric, and keep its queue short.
    run("ip netns exec v1 tc qdisc replace dev e1 root netem delay 1us limit 100000")
    run("tc qdisc del dev f3 root; tc qdisc replace dev f3 root handle 1: htb default 1")
    run(f"tc class replace dev f3 parent 1: classid 1:1 htb rate {RATE} burst 3000 cburst 3000")
    run("tc qdisc replace dev f3 parent 1:1 handle 10: dualpi2")
    try:
        for address in (U, U_6):
            before = DualPi2.of("f3")
            client, server = ends("v1", address, 16 * MIB)
            after = DualPi2.of("f3")
            equal((client.mode, client.failed, server.failed), (2, 0, 0), f"{address}: mode, failed")
            assert after.marked > before.marked, f"{address}: no marks"
            equal((client.delivered_ce, server.received_ce), (after.marked - before.marked,) * 2, f"{address}: marks")
            equal(after.low_latency, before.low_latency, f"{address}: packets in the low-latency queue")
    finally:
        lab.shim.settings_set(codepoint=1)
        run("tc qdisc del dev f3 root; ip netns exec v1 tc qdisc del dev e1 root")
        shape("f3", "")


if has_accecn():
    for one in (two_hosts, counted, marked_handshake, with_others, queues, marked_by_dualpi2):
        check(one)
else:
    print("# this kernel has no AccECN", flush=True)
main()
