# SPDX-License-Identifier: Apache-2.0
"""What guests leave to be cut: parts above the uplink's MTU are refused before they cost anything, and counted.

Also what the shim makes of headers within headers, and of uplinks that stand on other devices.
"""

from __future__ import annotations

import time
from typing import Callable, Dict

from lab import BRIDGE, U_6, V1, V1_6, Lab, U, check, equal, frames, ipv4, links, main, run, settle, udp
from offload import GSO_TCPV4, GSO_UDP, GSO_UDP_L4, OFFLOAD_USO, OFFLOADS, Offloaded, Raw, Tap, tcp, udp_parts

LIMIT = 12_500_000  # bytes/s
lab = Lab()
guest = Raw("v1", "e1")
card = Tap("t4")


def tagged(packet: Offloaded) -> Offloaded:
    """Return a packet behind a VLAN tag of the guest's own."""
    frame = packet.frame[:12] + b"\x81\x00\x00\x05" + packet.frame[12:]
    return Offloaded(frame, packet.gso, packet.size, None if packet.start is None else packet.start + 4, packet.offset,
                     packet.header + 4)


LARGE: Dict[str, Offloaded] = {
    "TCP, 20,000 bytes a part": tcp(60_000, 20_000),
    "TCP, a byte too many": tcp(60_000, 1461),
    "IPv6, 20,000": tcp(60_000, 20_000, (V1_6, U_6)),
    "IPv6, a byte too many": tcp(60_000, 1441, (V1_6, U_6)),
    "behind a tag, 9,000": tagged(tcp(60_000, 9_000)),
}
FITTING: Dict[str, Offloaded] = {
    "TCP": tcp(60_000, 1460),
    "IPv6": tcp(60_000, 1440, (V1_6, U_6)),
    "UDP in fragments": udp_parts(7000, 1480, gso=GSO_UDP),
    "behind a tag": tagged(tcp(60_000, 1460)),
    "one that claims to be larger than it is": Offloaded(tcp(1000, 1460).frame, GSO_TCPV4, 20_000, 34, 16, 54),
}
V6 = (V1_6, U_6)
LARGE_DATAGRAMS: Dict[str, Offloaded] = {
    "fragments of 9,000": udp_parts(60_000, 9_000, gso=GSO_UDP),
    "fragments, eight bytes too many": udp_parts(60_000, 1488, gso=GSO_UDP),
    "IPv6, fragments of 9,000": udp_parts(60_000, 9_000, V6, gso=GSO_UDP),
    "IPv6, fragments, eight bytes too many": udp_parts(60_000, 1456, V6, gso=GSO_UDP),
    "packets of 9,000": udp_parts(60_000, 9_000),
    "packets, a byte too many": udp_parts(60_000, 1473),
    "IPv6, packets, a byte too many": udp_parts(60_000, 1453, V6),
    "fragments of 9,000 behind a tag": tagged(udp_parts(60_000, 9_000, gso=GSO_UDP)),
}
DATAGRAMS: Dict[str, Offloaded] = {
    "fragments": udp_parts(7000, 1480, gso=GSO_UDP),
    "IPv6, fragments": udp_parts(7000, 1448, V6, gso=GSO_UDP),
    "packets": udp_parts(7000, 1472),
    "IPv6, packets": udp_parts(7000, 1452, V6),
}


def refused_if_large(send: Callable[[Offloaded], None], device: str, large: Dict[str, Offloaded],
                     fitting: Dict[str, Offloaded]) -> None:
    """Check what becomes of packets of a port, cut by the shim or not."""
    for burst_us in (0, 10_000):
        lab.fresh("static", burst_us=burst_us)
        lab.shim.port_set(device, role="vm", max_rate=LIMIT)
        for what, packet in large.items():
            # What finds no flow in the datapath yet is cut on its way to ovs-vswitchd.
            send(packet)
            time.sleep(0.1)
            lab.u.flush()
            before = lab.stats(device)
            send(packet)
            time.sleep(0.02)
            rose = lab.changes(device, before)
            equal(list(map(len, frames(lab.u))), [], f"burst_us={burst_us}, {what}: lengths of frames that left")
            equal(set(rose), {"drop_size"}, f"burst_us={burst_us}, {what}: {rose}")
        for what, packet in fitting.items():
            lab.u.flush()
            with lab.counted(device, drop_size=0, drop_segment=0):
                send(packet)
                time.sleep(0.1)
                lab.u.flush()
                before = lab.stats(device)["tx_bytes"]
                send(packet)
                time.sleep(0.3)
            left = [len(one) for one in frames(lab.u)]
            assert left, f"burst_us={burst_us}, {what}: nothing left"
            # A veth carries what is offloaded to it, but no fragments that others are to make.
            if packet.gso == GSO_UDP:
                charged = lab.stats(device)["tx_bytes"] - before
                equal((charged, max(left) <= 1514), (sum(left), True), f"{burst_us} us, {what}: bytes charged, fit")


@check
def parts() -> None:
    """GSO packets whose parts exceed the MTU are refused and not charged, cut by the shim or not; others leave"""
    refused_if_large(guest.send, "s1", LARGE, FITTING)


@check
def parts_of_datagrams() -> None:
    """The same of datagrams that a virtual machine's card leaves to be cut, into fragments or packets"""
    run(f"ovs-vsctl add-port {BRIDGE} t4 -- set interface t4 ofport_request=4")
    kinds = {GSO_UDP, GSO_UDP_L4}
    try:
        card.takes(OFFLOADS | OFFLOAD_USO)
    except OSError:
        kinds.remove(GSO_UDP_L4)
        print("# this kernel's taps do not know USO", flush=True)
    with lab.flow("in_port=4", "output:3"):
        refused_if_large(card.send, "t4", *({what: packet for what, packet in some.items() if packet.gso in kinds}
                                            for some in (LARGE_DATAGRAMS, DATAGRAMS)))
    run(f"ovs-vsctl del-port {BRIDGE} t4")


@check
def refused_costs_nothing() -> None:
    """Between two refused packets others leave at once: nothing was charged"""
    lab.fresh("static", limiter="police", burst=70_000)
    lab.shim.port_set("s1", max_rate=125_000)
    with lab.counted("s1", drop_police=0, tx_packets=20):
        for _ in range(20):
            guest.send(LARGE["TCP, 20,000 bytes a part"])
            lab.v1.send(ipv4(V1, U, udp(1000)))
        time.sleep(0.05)
    lab.roles()


@check
def mtu_follows() -> None:
    """It is the MTU that the uplink has by now"""
    lab.fresh("static", burst_us=10_000)
    run("ip link set s3 mtu 9000; ip -n u link set e3 mtu 9000")
    with lab.counted("s1", drop_size=0):
        guest.send(tcp(60_000, 8_948))
        time.sleep(0.1)
    run("ip link set s3 mtu 1500; ip -n u link set e3 mtu 1500")
    with lab.counted("s1", tx_packets=0):
        guest.send(tcp(60_000, 8_948))
        time.sleep(0.1)


@check
def nested() -> None:
    """A guest's own VXLAN is charged for each header that its parts have, cut by the shim or not"""
    for burst_us in (0, 10_000):
        lab.fresh("static", burst_us=burst_us)
        links("link add vx type vxlan id 7 remote 10.9.0.3 local 10.9.0.1 dstport 4789 dev e1",
              "addr add 10.9.0.1/24 dev e1", "neigh replace 10.9.0.3 lladdr 02:00:00:00:00:02 dev e1",
              "link set vx up", "addr add 10.77.0.1/24 dev vx",
              "neigh replace 10.77.0.3 lladdr 02:00:00:00:00:02 dev vx", within="v1")
        try:
            inner = Raw("v1", "vx")
            lab.u.flush()
            before = lab.stats("s1")["tx_bytes"]
            inner.send(tcp(40_000, 1400, ("10.77.0.1", "10.77.0.3")))
            time.sleep(0.1)
            charged = lab.stats("s1")["tx_bytes"] - before
            left = [one for one in frames(lab.u) if one[12:14] == b"\x08\x00" and one[23] == 17]
            # What was not cut before the receiver's end of the veth is so many packets on a wire.
            wire = sum(len(one) if len(one) < 1600 else
                       len(one) + (-(-(len(one) - 104) // 1400) - 1) * 104 for one in left)
            equal(charged, wire, f"burst_us={burst_us}: bytes charged, of {len(left)} frames")
        finally:
            links("link del vx", "addr del 10.9.0.1/24 dev e1", within="v1")


@check
def stacked() -> None:
    """An uplink that stands on other devices obeys departure times if all of these do"""
    links("link add s8 type veth peer name e8", "link set s8 up", "link set e8 up",
          "link add link s8 name s8.100 type vlan id 100", "link set s8.100 up",
          "link add link s8.100 name s8.100.5 type vlan id 5", "link set s8.100.5 up")
    run("ovs-vsctl add-port br0 s8.100 -- add-port br0 s8.100.5")
    settle()
    for lower, wanted in (("fq", "fit"), ("pfifo", "unfit"), ("fq", "fit")):
        run(f"tc qdisc replace dev s8 root {lower}")
        for device in ("s8.100", "s8.100.5"):
            lab.shim.port_set(device, role="uplink", capacity=LIMIT)
            equal(lab.shim.port_get(device).qdisc, wanted, f"{device} over {lower}")
    run("tc qdisc replace dev s8.100 root pfifo")
    for device in ("s8.100", "s8.100.5"):
        lab.shim.port_set(device, role="uplink", capacity=LIMIT)
        equal(lab.shim.port_get(device).qdisc, "unfit", f"{device}, pfifo in between")
    run("ovs-vsctl del-port br0 s8.100 -- del-port br0 s8.100.5; ip link del s8")


main()
