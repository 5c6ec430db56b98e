# SPDX-License-Identifier: Apache-2.0
"""What ``make bench-instructions`` does inside its machine, whose nanoseconds are instructions.

Packets: pktgen sends COUNT packets, then three times as many; the difference of both times, by that of the numbers, is
a packet's figure, so what a run costs once drops out. Stream: the time of a number of bytes once TCP is at its pace.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Dict

from sdngcc.testbed.bench.datapath_guest import (
    PKTGEN,
    add_device,
    bridge,
    load,
    pktgen,
    run,
    switch_on,
    unbridge,
    wait_until,
)
from sdngcc.testbed.bench.datapath_guest import send as send_stream
from sdngcc.testbed.instructions.rows import CASES, PACKETS, Case
from sdngcc.testbed.programs import search_path

# Packets of the shorter run: each destination has its turn at least once.
COUNT = 4096

# Payload of a full TCP segment, and what is received before and while it is measured, bytes.
SEGMENT_BYTES = 1448
WARM_BYTES, SINGLE_BYTES, GSO_BYTES = 2 << 20, 16 << 20, 64 << 20

# Source and first destination by the version of IP.
SOURCES = {4: ip_address("10.0.0.1"), 6: ip_address("fd00::1")}
DESTINATIONS = {4: ip_address("10.1.0.0"), 6: ip_address("fd00::1:0")}

# Number of the VLAN.
VLAN = 5

# Device of VXLAN tunnels and the one below, the numbers of the port and the network, and both ends of the tunnel.
TUNNEL, BELOW, TUNNEL_PORT, NETWORK, NEAR, FAR = "vxlan_sys_4789", "wire0", 3, 7, "172.16.0.1", "172.16.0.2"


def flows(packet_version: int, tagged: bool) -> None:
    """Let the first datapath forward what bridge() has no flow for."""
    kind = "eth_type(0x86dd),ipv6()" if packet_version == 6 else "eth_type(0x0800),ipv4()"
    if tagged:
        kind = f"eth_type(0x8100),vlan(vid={VLAN},pcp=0),encap({kind})"
    if tagged or packet_version == 6:
        for here, there in ((1, 2), (2, 1)):
            run("ovs-dpctl", "add-flow", "dp0", f"in_port({here}),eth(),{kind}", str(there))


def tunnel() -> None:
    """Let the first datapath send what comes from the VM through a tunnel over the uplink's device."""
    run("ovs-dpctl", "del-if", "dp0", "up0")
    run("ip", "link", "set", "up0", "down")
    run("ip", "link", "set", "up0", "name", BELOW, "up")
    run("ip", "link", "add", TUNNEL, "type", "vxlan", "external", "dstport", "4789", "nolearning")
    run("ip", "link", "set", TUNNEL, "up")
    run("ip", "addr", "add", f"{NEAR}/24", "dev", BELOW)
    run("ip", "neigh", "add", FAR, "lladdr", "02:00:00:00:00:02", "nud", "permanent", "dev", BELOW)
    run("ovs-dpctl", "add-if", "dp0", f"{TUNNEL},port_no={TUNNEL_PORT}")
    run("ovs-dpctl", "mod-flow", "dp0", "in_port(1),eth(),eth_type(0x0800),ipv4()",
        f"set(tunnel(tun_id={NETWORK},dst={FAR},ttl=64,tp_dst=4789,flags(key))),{TUNNEL_PORT}")


def send(case: Case, count: int) -> int:
    """Send count packets and return how long it took, ns. Raises RuntimeError when some were lost."""
    packet, device = case.packet, "sink0" if case.packet.received else "src0"
    counter = Path(f"/sys/class/net/{'src0' if packet.received else 'sink0'}/statistics/rx_packets")
    before = int(counter.read_text())
    pktgen("kpktgend_0", "rem_device_all")
    add_device(device)
    six = "6" if packet.version == 6 else ""
    here, there = SOURCES[packet.version], DESTINATIONS[packet.version]
    if packet.received:
        here, there = there, here
    last = there if packet.received else there + case.row.destinations - 1
    addresses = ([f"dst6 {there}", f"src6 {here}"] if six else
                 [f"dst_min {there}", f"dst_max {last}", f"src_min {here}", f"src_max {here}"])
    pktgen(device, f"count {count}", f"pkt_size {packet.bytes}", "delay 0", *addresses, "dst_mac 02:00:00:00:00:02",
           *([f"vlan_id {VLAN}"] if packet.tagged else []),
           f"{'traffic_class' if six else 'tos'} {packet.ecn:02}", "udp_src_min 9", "udp_src_max 9")
    pktgen("pgctrl", "start")
    found = re.search(r"Result: OK: (\d+)\(.*?usec, (\d+) \(", (PKTGEN / device).read_text())
    if not found:
        raise RuntimeError(f"pktgen did not finish: {(PKTGEN / device).read_text()}")
    wait_until(f"all of {count} packets arrive", lambda: int(counter.read_text()) - before >= count)
    return int(found[1]) * 1000


def packets(case: Case) -> float:
    """Return the instructions of a packet from pktgen to where it ends."""
    with ExitStack() as undo:
        undo.callback(unbridge, 1)
        bridge(0, "sink0")
        flows(case.packet.version, case.packet.tagged)
        if case.packet.tunnel:
            for device in (BELOW, TUNNEL):
                undo.callback(run, "ip", "link", "del", device)
            tunnel()
        enable(case)
        send(case, COUNT // 4 + case.row.destinations)
        short, long = send(case, COUNT), send(case, 3 * COUNT)
    return (long - short) / (2 * COUNT)


def stream(case: Case) -> float:
    """Return the instructions of a full segment's payload, from sender to receiver."""
    with ExitStack() as undo:
        undo.callback(unbridge, 2)
        bridge(0, "up1")
        bridge(1, "up1")
        for number, name in ((0, "a"), (1, "b")):
            run("ip", "netns", "add", name)
            undo.callback(run, "ip", "netns", "del", name)
            run("ip", "link", "set", f"src{number}", "netns", name)
            run("ip", "-n", name, "link", "set", f"src{number}", *([] if case.row.gso else ["gso_max_segs", "1"]), "up")
            run("ip", "-n", name, "addr", "add", f"10.0.0.{number + 1}/24", "dev", f"src{number}")
        enable(case)
        this = (sys.executable, "-m", __spec__.name if __spec__ else __name__)
        receiver = undo.enter_context(subprocess.Popen(
            ["ip", "netns", "exec", "b", *this, "receive", str(GSO_BYTES if case.row.gso else SINGLE_BYTES)],
            stdout=subprocess.PIPE, text=True))
        assert receiver.stdout is not None
        receiver.stdout.readline()
        sender = undo.enter_context(subprocess.Popen(["ip", "netns", "exec", "a", *this, "send"]))
        undo.callback(sender.kill)
        return float(receiver.stdout.readline())


def enable(case: Case) -> None:
    """Switch on what the row measures."""
    switch_on(case.row)
    if case.row.switch != "shim":
        return
    from sdngcc.shim.netlink import ShimClient

    with ShimClient() as client:
        if case.period_ns:
            client.settings_set(period=case.period_ns)
        if case.packet.tunnel:
            client.port_set(TUNNEL, role="uplink", capacity=case.row.limit_bits // 8)
            client.port_set("vm0", role="vm")
        if case.period_ns and case.load == PACKETS and not case.packet.received:
            # No shim is behind the uplink: a weight has the law take the destinations for ones that answer.
            for number in range(case.row.destinations):
                client.peer_set("vm0", str(DESTINATIONS[case.packet.version] + number), 1)


def receive(size: int) -> None:
    """Accept one connection and print the ns of a full segment's payload over size bytes."""
    with socket.create_server(("", 5001)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 20)
        buffer = bytearray(1 << 21)

        def take(least: int) -> int:
            total = 0
            while total < least:
                total += connection.recv_into(buffer, len(buffer), socket.MSG_TRUNC)
            return total

        take(WARM_BYTES)
        begin = time.monotonic_ns()
        total = take(size)
        print((time.monotonic_ns() - begin) * SEGMENT_BYTES / total, flush=True)


def main(path: Path) -> None:
    """Measure the rows of a job, a line of JSON each; what fails is told in place of a number."""
    job: Dict[str, Any] = json.loads(path.read_text())
    os.environ["PATH"] = search_path()
    for module in job["loads"]:
        run("insmod", module)
    run("ip", "link", "set", "lo", "up")
    Path("/run/netns").mkdir()
    for name in job["rows"]:
        case, told = CASES[name], {"row": name}
        try:
            load(*job["modules"][case.variant])
            told["instructions"] = (packets if case.load == PACKETS else stream)(case)
        except (OSError, RuntimeError, ValueError) as error:
            told["error"] = str(error)
        print(json.dumps(told), flush=True)
    print(json.dumps({"end": True}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    elif sys.argv[1] == "send":
        send_stream()
    else:
        main(Path(sys.argv[1]))
