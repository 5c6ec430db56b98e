# SPDX-License-Identifier: Apache-2.0
"""The devices that compute nodes give their VMs: taps with one queue and with four, as vhost writes to them, veths and
internal ports; packets of 64 KiB, UDP to be cut, checksums left to others, and what a guest can say wrongly about them.

    VM namespace v1 -- s1 |            |
                 tap t4 --|            |
    tap t5, four queues --| bridge br0 | s3 -- namespace u, "the fabric"
       internal port i6 --|            |
    namespace g: a guest's stack behind tap t7, packets carried to and fro as vhost does

s3 completes no checksums and cuts nothing, so that u sees what a wire would.

Arguments: the traffic generator and the module (not used), the folder of the kernel's drivers.
"""

from __future__ import annotations

import dataclasses
import os
import random
import select
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, Optional, Tuple, Union

from lab import (
    BRIDGE,
    CE,
    ECT_0,
    ECT_1,
    NOT_ECT,
    U_6,
    V1,
    Lab,
    U,
    check,
    ecn_of,
    equal,
    frames,
    links,
    main,
    namespace,
    run,
    settle,
    without_ipv6,
)
from offload import (
    GSO_UDP,
    OFFLOAD_USO,
    OFFLOADS,
    VNET,
    Offloaded,
    Raw,
    Tap,
    flood,
    sums_up,
    tcp,
    udp_parts,
    without_offload,
)
from stacks import MIB, transfer

from sdngcc.shim.netlink import ShimRefused

DRIVERS = sys.argv[3] if len(sys.argv) > 3 else "drivers/net"
LIMIT = 12_500_000  # 100 Mb/s
# The payload of the largest frame that a device takes whole.
WHOLE = 65535 - 54
MSS = 1448
# What a packet takes of a cable beyond its bytes: preamble, FCS, gap.
WIRE = 24
CWR, ACK, PSH, FIN = 0x80, 0x10, 0x08, 0x01
UDP_SEGMENT, SOL_UDP = 103, 17
# What a connection's packets bring in turn, and what its guest is to see: marks are its own once it showed ECT(0).
ANSWERS = ((NOT_ECT, NOT_ECT), (ECT_1, NOT_ECT), (CE, NOT_ECT), (ECT_0, ECT_0), (CE, CE), (ECT_1, NOT_ECT))


class Vhost(threading.Thread):
    """Carries packets between a host's tap and a guest's, headers and all, as vhost does."""

    def __init__(self, host: Tap, guest: Tap) -> None:
        """Begin; it ends with the program."""
        super().__init__(daemon=True)
        self.ways = {host.queues[0]: guest.queues[0], guest.queues[0]: host.queues[0]}
        self.start()

    def run(self) -> None:
        """Do it."""
        while True:
            for ready in select.select(list(self.ways), [], [])[0]:
                try:
                    os.write(self.ways[ready], os.read(ready, 1 << 17))
                except BlockingIOError:
                    pass


lab = Lab()
without_offload("s3")
run("tc qdisc replace dev s3 root fq limit 100000 flow_limit 100000; sysctl -qw net.core.wmem_max=16777216")
t4, t5, t7 = Tap("t4"), Tap("t5", queues=4), Tap("t7")
run(f"ovs-vsctl add-port {BRIDGE} i6 -- set interface i6 type=internal ofport_request=6" + "".join(
    f" -- add-port {BRIDGE} t{number} -- set interface t{number} ofport_request={number}" for number in (4, 5, 7)))
links("link set i6 up", "addr add 10.9.0.6/24 dev i6", "netns add g")
without_ipv6("g")
with namespace("g"):
    guest = Tap("g0")
    links("addr add 10.9.0.7/24 dev g0")
vhost = Vhost(t7, guest)
links(f"addr add {V1}/24 dev e1", within="v1")
links(f"addr add {U}/24 dev e3", within="u")


def mac(device: str, name: str = "") -> str:
    """Return a device's address."""
    return run(f"ip {'-n ' + name if name else ''} -br link show {device}").split()[2]


# Who has which device in which namespace, by its port's number.
HOSTS = {1: (V1, "e1", "v1"), 6: ("10.9.0.6", "i6", ""), 7: ("10.9.0.7", "g0", "g")}
for address, device, where in HOSTS.values():
    run(f"ip -n u neigh add {address} lladdr {mac(device, where)} dev e3")
    run(f"ip {'-n ' + where if where else ''} neigh add {U} lladdr {mac('e3', 'u')} dev {device}")
NUMBERS = (1, 4, 5, 6, 7)
flows = [f"in_port={number},actions=output:3" for number in NUMBERS]
flows += [f"in_port=3,ip,nw_dst=10.9.0.{number},actions=output:{number}" for number in NUMBERS]
run(f"ovs-ofctl add-flows {BRIDGE} -", "\n".join(["delete", *flows]))
settle()
fabric = Raw("u", "e3")
with namespace("u"):
    # Nobody is told that a port is closed.
    port_9 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port_9.bind((U, 9))

Sender = Callable[[Offloaded], object]


def in_turn(tap: Tap) -> Sender:
    """Return what sends by a tap's queues, one after the other."""
    turns = iter(range(10**9))
    return lambda packet: tap.send(packet, next(turns) % len(tap.queues))


VMS: Dict[str, Tuple[str, Sender]] = {"s1": (V1, Raw("v1", "e1").send), "t4": ("10.9.0.4", t4.send),
                                      "t5": ("10.9.0.5", in_turn(t5)), "i6": ("10.9.0.6", Raw("", "i6").send)}


def both(address: str) -> Tuple[Tuple[str, str], Tuple[str, str]]:
    """Return the two ends of what a VM sends by IPv4 and by IPv6; addresses are a VM's own."""
    return (address, U), (f"fd09::{address.rpartition('.')[2]}", U_6)


def fresh(limiter: str = "pace", **settings: int) -> None:
    """Begin anew under law static with all VMs and their counters."""
    for device in ("t4", "t5", "i6", "t7"):
        try:
            lab.shim.port_del(device)
        except ShimRefused:
            pass
    lab.fresh("static", limiter=limiter, **{"horizon": 50_000_000, **settings})
    for device in ("t4", "t5", "i6", "t7"):
        lab.shim.port_set(device, role="vm")
    # The first packet of a flow visits user space, which is sent its parts.
    for address, send in VMS.values():
        for ends in both(address):
            send(tcp(10, MSS, ends))
            send(udp_parts(10, MSS, ends))
    time.sleep(0.05)
    lab.u.flush()


def sent(send: Sender, packet: Offloaded) -> List[bytes]:
    """Send a packet and return the frames that the fabric gets."""
    lab.u.flush()
    send(packet)
    return frames(lab.u)


def payloads(got: List[bytes], header: int) -> bytes:
    """Return what frames with so long headers carry."""
    return b"".join(frame[header:] for frame in got)


@check
def cut() -> None:
    """64 KiB leave as whole packets with right checksums, in order, counted by what each weighs on the wire"""
    fresh()
    for device, (address, send) in VMS.items():
        for ends in both(address):
            size = MSS - 20 * (":" in ends[0])
            for payload in (WHOLE - 20, 14_000, size + 1, size):
                packet = tcp(payload, size, ends)
                what = f"{device}, {ends[0]}, {payload} bytes"
                with lab.counted(device, tx_packets=packet.parts, tx_bytes=packet.wire_bytes, tx_ect=packet.parts):
                    got = sent(send, packet)
                equal((len(got), sum(map(len, got))), (packet.parts, packet.wire_bytes), what)
                equal({(ecn_of(frame), sums_up(frame)) for frame in got}, {(ECT_1, True)}, f"{what}: ECN, checksum")
                header = packet.start + 20 if packet.start else 0
                equal(payloads(got, header), packet.frame[header:], f"{what}: payload")


@check
def fields() -> None:
    """Each part has the ECN field that the whole had, made so, and CWR is the first one's, FIN the last one's"""
    fresh()
    for device, (address, send) in VMS.items():
        for ecn, wanted in ((NOT_ECT, ECT_1), (ECT_0, ECT_0), (ECT_1, ECT_1), (CE, ECT_0)):
            packet = tcp(5 * MSS, MSS, (address, U), ecn=ecn, flags=CWR | ACK | PSH | FIN)
            with lab.counted(device, tx_packets=5, tx_ce_cleared=5 * (ecn == CE), tx_ect=5 * (ecn == NOT_ECT)):
                got = sent(send, packet)
            equal([ecn_of(frame) for frame in got], [wanted] * 5, f"{device}, {ecn}: ECN")
            equal([frame[47] for frame in got], [CWR | ACK, ACK, ACK, ACK, ACK | PSH | FIN], f"{device}: flags")
            numbers = [int.from_bytes(frame[18:20], "big") for frame in got]
            equal(numbers, list(range(numbers[0], numbers[0] + 5)), f"{device}: identification")


@check
def received() -> None:
    """A guest gets 64 KiB whole if it takes them, else in parts; ECN is given back, marks count once a part"""
    fresh()
    for port, (offloads, tap) in enumerate(((OFFLOADS, t4), (0, t4), (OFFLOADS, t5), (0, t5))):
        tap.takes(offloads)
        ends = (U, VMS[tap.name][0])
        fabric.send(tcp(10, MSS, ends, port=4100 + port))
        tap.received(0.05)
        for ecn, wanted in ANSWERS:
            packet = tcp(WHOLE, MSS, ends, ecn=ecn, port=4100 + port)
            with lab.counted(tap.name, rx_packets=packet.parts, rx_bytes=packet.wire_bytes,
                             rx_ce=packet.parts * (ecn == CE)):
                fabric.send(packet)
                got = tap.received()
            what = f"{tap.name}, takes {offloads}, ECN {ecn}"
            equal([one.size for one in got], [MSS] if offloads else [0] * packet.parts, f"{what}: sizes")
            equal({(ecn_of(one.frame), one.right) for one in got}, {(wanted, True)}, f"{what}: ECN, checksum")
            equal(payloads([one.frame for one in got], 54), packet.frame[54:], f"{what}: payload")
        tap.takes(OFFLOADS)


@check
def container() -> None:
    """A container behind an internal port is told the ECN field that it would have without a shim"""
    fresh()
    ends = (U, HOSTS[6][0])
    header = bytes.fromhex(mac("i6").replace(":", ""))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((ends[1], 9))
        receiver.settimeout(1)
        receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        for ecn, wanted in ANSWERS:
            packet = udp_parts(100, MSS, ends, ecn=ecn, port=4200)
            with lab.counted("i6", rx_packets=1, rx_bytes=142, rx_ce=int(ecn == CE)):
                fabric.send(dataclasses.replace(packet, frame=header + packet.frame[6:]))
                data, extra, _, _ = receiver.recvmsg(2000, 256)
            got = [value[0] & 3 for _, kind, value in extra if kind == socket.IP_TOS]
            equal((len(data), got), (100, [wanted]), f"ECN {ecn}")


def rate(send: Sender, packet: Offloaded, times: float = 4.0) -> float:
    """Send packets at some times the limit; return bytes/s that the fabric got, as soon as full buckets are empty."""
    flood(send, packet, times * LIMIT, 0.05)
    lab.u.flush()
    took = flood(send, packet, times * LIMIT, 0.2)
    got = 0
    while select.select([lab.u.socket], [], [], 0)[0]:
        received = len(lab.u.socket.recv(65536))
        got += received + WIRE * -(-received // (MSS + 66))
    return got / took


@check
def rates() -> None:
    """A VM gets its limit on the wire, by drops and by departure times, whatever it sends; what is lost is counted"""
    for limiter, counter in (("police", "drop_police"), ("pace", "drop_horizon")):
        fresh(limiter, burst=65536, horizon=2_000_000)
        for device, (address, send) in VMS.items():
            lab.shim.port_set(device, max_rate=LIMIT)
            for name, packet in (("64 KiB", tcp(WHOLE, MSS, (address, U))),
                                 ("64 KiB of IPv6", tcp(WHOLE - 20, MSS - 20, both(address)[1])),
                                 ("single packets", tcp(MSS, MSS, (address, U)))):
                before = lab.stats(device)
                got = rate(send, packet)
                rose = lab.changes(device, before)
                print(f"# {limiter}, {device}, {name}: {got / LIMIT:.4f} of the limit", flush=True)
                assert 0.98 <= got / LIMIT <= 1.02, f"{limiter}, {device}, {name}: {got / LIMIT:.4f} of the limit"
                lost = rose.pop(counter)
                assert lost and (rose["tx_packets"] + lost) % packet.parts == 0, rose
                equal([one for one in rose if one.startswith("drop")], [], f"{limiter}, {device}: other drops")


@check
def queues() -> None:
    """Queues of a tap share one limit: four that send at once get no more than one does"""
    # Four times 64 KiB at once are not to meet a full bucket.
    fresh("police", burst=262_144)
    lab.shim.port_set("t5", max_rate=LIMIT)
    packet = tcp(WHOLE, MSS, ("10.9.0.5", U))
    alone = rate(lambda one: t5.send(one, 2), packet)
    together = rate(lambda one: [t5.send(one, queue) for queue in range(4)], packet, times=1.0)
    print(f"# one queue {alone / LIMIT:.4f}, four {together / LIMIT:.4f} of the limit", flush=True)
    assert abs(alone / together - 1) < 0.02 and 0.98 < together / LIMIT < 1.02, (alone, together)


@check
def guests() -> None:
    """TCP of a guest behind vhost, and of a container on an internal port: 98% of the limit, data as they were sent"""
    fresh()
    for device, where in (("t7", "g"), ("i6", "")):
        lab.shim.port_set(device, max_rate=LIMIT)
        transfer(where, U, MIB)
        before, started = lab.stats(device), time.monotonic()
        transfer(where, U, 8 * MIB)
        part = 8 * MIB / (time.monotonic() - started) / (LIMIT * MSS / (1514 + WIRE))
        rose = lab.changes(device, before)
        print(f"# {device}: {part:.3f} of what headers leave, {rose}", flush=True)
        assert 0.98 <= part <= 1.02, f"{device}: {part:.3f} of what headers leave"
        assert 1400 < rose["tx_bytes"] / rose["tx_packets"] <= 1514, f"{device}: {rose}"
        for name in (where, "u"):
            with namespace(name or None), open("/proc/net/snmp", encoding="ascii") as file:
                names, values = [line.split() for line in file if line.startswith("Tcp:")]
            equal(dict(zip(names, values))["InCsumErrors"], "0", f"wrong checksums in namespace {name}")


@contextmanager
def uso_sender(where: str, size: int) -> Iterator[Sender]:
    """Yield what sends a packet's payload to U by a UDP socket of a namespace, whose kernel is to cut it."""
    with namespace(where or None):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender:
        sender.setsockopt(SOL_UDP, UDP_SEGMENT, size)
        sender.connect((U, 9))
        yield lambda packet: sender.send(packet.frame[42:])


@check
def uso() -> None:
    """UDP that the kernel is to cut is charged for each packet, leaves with right checksums, and keeps to the limit"""
    for limiter in ("police", "pace"):
        fresh(limiter, burst=65536)
        for device, where in (("s1", "v1"), ("i6", "")):
            lab.shim.port_set(device, max_rate=LIMIT)
            with uso_sender(where, 1400) as send:
                packet = udp_parts(43 * 1400 + 7, 1400)
                send(udp_parts(10, 1400))
                time.sleep(0.3)
                with lab.counted(device, tx_packets=44, tx_bytes=packet.wire_bytes, tx_ect=44):
                    got = sent(send, packet)
                equal((len(got), sum(map(len, got))), (44, packet.wire_bytes), f"{device}: packets, bytes")
                equal({(ecn_of(frame), sums_up(frame)) for frame in got}, {(ECT_1, True)}, f"{device}: ECN, checksum")
                part = rate(send, packet) / LIMIT
            print(f"# {limiter}, {device}: {part:.4f} of the limit", flush=True)
            assert 0.98 <= part <= 1.02, f"{limiter}, {device}: {part:.4f} of the limit"


@check
def guests_uso() -> None:
    """UDP that a guest leaves to be cut: into packets where the kernel knows that, into fragments everywhere"""
    fresh()
    kinds = [(GSO_UDP, 1480)]
    try:
        t4.takes(OFFLOADS | OFFLOAD_USO)
        kinds.append((5, MSS))
    except OSError:
        print("# this kernel's taps do not know USO", flush=True)
    for kind, size in kinds:
        before = lab.stats("t4")
        got = sent(t4.send, udp_parts(7000, size, ("10.9.0.4", U), gso=kind))
        equal((len(got), {ecn_of(frame) for frame in got}), (5, {ECT_1}), f"kind {kind}: packets, ECN")
        rose = lab.changes("t4", before)
        equal((rose["tx_packets"], rose["tx_bytes"]), (5, sum(map(len, got))), f"kind {kind}: counted")
        if kind != GSO_UDP:
            equal({sums_up(frame) for frame in got}, {True}, f"kind {kind}: checksums")
    t4.takes(OFFLOADS)


@check
def tiny() -> None:
    """A guest that asks for a packet of each byte gets none; one of the smallest segments that TCP has gets all"""
    fresh("police")
    # Linux takes no less than 8 bytes.
    for size in (8, 47):
        packet = tcp(WHOLE, size, ("10.9.0.4", U))
        with lab.counted("t4", drop_segment=packet.parts, tx_packets=0):
            equal(sent(t4.send, packet), [], f"parts of {size} bytes")
    packet = tcp(WHOLE, 48, ("10.9.0.4", U))
    with lab.counted("t4", drop_segment=0, tx_packets=packet.parts, tx_bytes=packet.wire_bytes):
        equal(len(sent(t4.send, packet)), packet.parts, "parts of 48 bytes")


@check
def lies() -> None:
    """What virtio-net headers say wrongly is refused, dropped or sent on, counted, and harms nobody else"""
    fresh()
    chance = random.Random(20261123)
    frame = tcp(8000, MSS, ("10.9.0.4", U)).frame
    written: Counter[Union[str, int]] = Counter()
    for _ in range(2000):
        head = VNET.pack(chance.choice((0, 1, 2, 3, 255)), chance.choice((0, 1, 3, 4, 5, 0x81, 0x84, 255)),
                         chance.choice((0, 14, 34, 54, 1500, 65535)), chance.choice((0, 1, 48, 1448, 9000, 65535)),
                         chance.choice((0, 14, 34, 54, 8054, 65535)), chance.choice((0, 6, 16, 8000, 65535)))
        cut_off = chance.choice((14, 30, 34, 40, 54, 1514, len(frame)))
        try:
            os.write(t4.queues[0], head + frame[:cut_off])
            written["taken"] += 1
        except OSError as error:
            written[os.strerror(error.errno or 0)] += 1
        if chance.random() < 0.02:
            time.sleep(0.001)
    time.sleep(0.05)
    lab.u.flush()
    print(f"# {dict(written)}, {lab.changes('t4', dict.fromkeys(lab.stats('t4'), 0))}", flush=True)
    # Linux 7.3 refuses half of what 6.1 lets through.
    assert written["taken"] > 100 and len(written) > 1, written
    for device, (address, send) in VMS.items():
        equal(len(sent(send, tcp(14_000, MSS, (address, U)))), 10, f"packets of {device}")


def refusal(device: str) -> Optional[str]:
    """Return what is said when a device is to be a VM, None if it becomes one."""
    try:
        lab.shim.port_set(device, role="vm")
    except ShimRefused as error:
        return str(error)
    lab.shim.port_del(device)
    return None


def simulated() -> Dict[str, str]:
    """Return the simulated network card's devices by the name that it gives their ports."""
    folder = "/sys/bus/netdevsim/devices/netdevsim1/net"
    found = {}
    for device in os.listdir(folder):
        with open(f"{folder}/{device}/phys_port_name", encoding="ascii") as file:
            found[file.read().strip()] = device
    return found


@check
def switched() -> None:
    """A representor of SR-IOV is refused as a VM by name, in the database, too; the card's port may be an uplink"""
    run(f"insmod {DRIVERS}/netdevsim/netdevsim.ko; echo '1 1' >/sys/bus/netdevsim/new_device")
    run("echo 2 >/sys/bus/netdevsim/devices/netdevsim1/sriov_numvfs; "
        "devlink dev eswitch set netdevsim/netdevsim1 mode switchdev")
    cards = simulated()
    equal(sorted(cards), ["p1", "pf0vf0", "pf0vf1"], "ports of the card")
    run(f"ovs-vsctl add-port {BRIDGE} {cards['pf0vf1']} -- add-port {BRIDGE} {cards['p1']} "
        f"-- set Interface {cards['pf0vf1']} external_ids:iface-id=seven other_config:shim-role=vm")
    time.sleep(6)
    said = refusal(cards["pf0vf1"])
    wanted = f"role: {cards['pf0vf1']} is a port of a NIC's switch (SR-IOV)"
    assert said and wanted in said, said
    told = run(f"ovs-vsctl get Interface {cards['pf0vf1']} status:shim-error")
    assert wanted in told, told
    lab.shim.port_set(cards["p1"], role="uplink", capacity=LIMIT)
    lab.shim.port_del(cards["p1"])
    equal(refusal("t4"), None, "a tap")
    run("".join(f"ovs-vsctl del-port {BRIDGE} {cards[name]};" for name in ("pf0vf1", "p1"))
        + "echo 1 >/sys/bus/netdevsim/del_device")
    lab.shim.port_set("t4", role="vm")


main()
