# SPDX-License-Identifier: Apache-2.0
"""What ``make bench-datapath`` does inside User Mode Linux: lays a load out, switches on what a row measures, measures.

* Packets: in-kernel pktgen sends 64-byte UDP packets into a veth pair, the datapath forwards them to a second pair,
  whose far end counts and drops them. One flow, installed without vswitchd.
* Stream: one TCP connection, VM to uplink on one datapath, uplink to VM on a second, so that setting ECT, restoring it
  and the ACKs' way back are all paid for.
* VMs: datapath_vms. Whose turn it is to measure: datapath_turns.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Callable, Iterator, Sequence

from sdngcc.testbed.bench.datapath_rows import EASY_BITS, MANY, Row

PKTGEN = Path("/proc/net/pktgen")

# pktgen's packet without the frame check sequence, bytes.
PACKET_BYTES = 60

# A connection stands still until it is its machine's turn: so long it may take to run again, and then counts, s.
WARM_UP_S, SOCKET_BURST_S = 0.02, 0.05

# Payload of a full TCP segment, bytes.
SEGMENT_BYTES = 1448


def run(*command: str) -> str:
    """Run a program and return what it printed; raises RuntimeError with its output when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def meter() -> None:
    """Make the flow pass an OVS meter of EASY_BITS."""
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST, genlmsg, nla
    from pyroute2.netlink.generic import GenericNetlinkSocket

    class Band(nla):
        nla_map = (("UNSPEC", "none"), ("TYPE", "uint32"), ("RATE", "uint32"), ("BURST", "uint32"))

    class Bands(nla):
        nla_map = (("BAND", "band"),)
        band = Band

    class Message(genlmsg):
        fields = genlmsg.fields + (("dpifindex", "I"),)
        nla_map = (
            ("UNSPEC", "none"),
            ("ID", "uint32"),
            ("KBPS", "flag"),
            ("STATS", "none"),
            ("BANDS", "bands"),
        )
        bands = Bands

    with GenericNetlinkSocket() as channel:
        channel.bind("ovs_meter", Message)
        message = Message()
        message["cmd"] = 2
        message["version"] = 1
        message["dpifindex"] = int(Path("/sys/class/net/dp0/ifindex").read_text())
        kilobits = EASY_BITS // 1000
        band = {"attrs": [("TYPE", 1), ("RATE", kilobits), ("BURST", kilobits // 10)]}
        message["attrs"] = [("ID", 0), ("KBPS", True), ("BANDS", {"attrs": [("BAND", band)]})]
        channel.nlm_request(message, msg_type=channel.prid, msg_flags=NLM_F_REQUEST | NLM_F_ACK)
    run("ovs-dpctl", "mod-flow", "dp0", "in_port(1),eth(),eth_type(0x0800),ipv4()", "meter(0),2")


def police() -> None:
    """Police the ingress of the VM's port as OVS' ingress_policing_rate does."""
    run("tc", "qdisc", "add", "dev", "vm0", "handle", "ffff:", "ingress")
    run("tc", "filter", "add", "dev", "vm0", "parent", "ffff:", "protocol", "all", "prio", "49", "basic",
        "police", "rate", f"{EASY_BITS}bit", "burst", "100m", "mtu", "64kb", "conform-exceed", "drop")


def htb() -> None:
    """Shape the uplink by an HTB class."""
    run("tc", "qdisc", "add", "dev", "up0", "root", "handle", "1:", "htb", "default", "1")
    run("tc", "class", "add", "dev", "up0", "parent", "1:", "classid", "1:1", "htb", "rate",
        f"{EASY_BITS}bit", "burst", "100m", "cburst", "100m")


def shim(row: Row) -> None:
    """Make vm<number> VMs and up<number> uplinks of the shim, with the row's law, at the row's ends."""
    from sdngcc.shim.netlink import ShimClient

    with ShimClient() as client:
        client.settings_set(law=row.law, ecn=row.ecn, burst_us=row.burst_us, peers_max=2 * MANY, key=bytes(range(16)))
        for number in row.ends:
            if Path(f"/sys/class/net/up{number}").exists():
                client.port_set(f"up{number}", role="uplink", capacity=row.limit_bits // 8)
                client.port_set(f"vm{number}", role="vm")


def switch_on(row: Row) -> None:
    """Switch on what the row measures."""
    if row.switch == "shim":
        shim(row)
    elif row.switch != "nothing":
        {"meter": meter, "police": police, "htb": htb}[row.switch]()


def load(*paths: str) -> None:
    """Put the openvswitch.ko at the first path, and modules beside it, in the place of those loaded."""
    for name in ("sdngcc", "openvswitch"):
        if Path(f"/sys/module/{name}").exists():
            run("rmmod", name)
    for path in paths:
        run("insmod", path)


def bridge(number: int, peer: str) -> None:
    """Create datapath dp<number> with port 1 = vm<number>, port 2 = up<number>, forwarding IPv4 and ARP.

    The VM's end of its pair is src<number>; the uplink's far end is peer.
    """
    dp, vm, uplink = f"dp{number}", f"vm{number}", f"up{number}"
    run("ip", "link", "add", f"src{number}", "type", "veth", "peer", "name", vm)
    if not Path(f"/sys/class/net/{uplink}").exists():
        run("ip", "link", "add", uplink, "type", "veth", "peer", "name", peer)
    for device in (f"src{number}", vm, uplink, peer):
        run("ip", "link", "set", device, "up")
    run("ovs-dpctl", "add-dp", dp)
    run("ovs-dpctl", "add-if", dp, vm, uplink)
    for here, there in ((1, 2), (2, 1)):
        run("ovs-dpctl", "add-flow", dp, f"in_port({here}),eth(),eth_type(0x0800),ipv4()", str(there))
        run("ovs-dpctl", "add-flow", dp, f"in_port({here}),eth(),eth_type(0x0806),arp()", str(there))


def unbridge(count: int) -> None:
    """Remove the first count datapaths and their devices."""
    for number in range(count):
        run("ovs-dpctl", "del-dp", f"dp{number}")
    for number in range(count):
        for device in (f"vm{number}", f"up{number}"):
            if Path(f"/sys/class/net/{device}").exists():
                run("ip", "link", "del", device)


def pktgen(path: str, *commands: str) -> None:
    """Write commands to a file of pktgen."""
    for command in commands:
        (PKTGEN / path).write_text(command + "\n")


def wait_until(what: str, reached: Callable[[], bool]) -> None:
    """Wait up to 2 s for what pktgen's and the network's own threads do; RuntimeError when they did not."""
    deadline = time.monotonic() + 2
    while not reached():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited 2 s in vain: {what}")
        time.sleep(0.001)


def add_device(device: str) -> None:
    """Let pktgen send through a device that it has been told to forget, if it knew it."""
    source = PKTGEN / device
    wait_until(f"pktgen forgets {device}", lambda: not source.exists())
    pktgen("kpktgend_0", f"add_device {device}")
    wait_until(f"pktgen knows {device}", source.exists)


def packet_rate(devices: Sequence[str], count: int, row: Row, sink: str = "sink0") -> float:
    """Send count packets from the devices in turn and return packets/s; raises RuntimeError when some were lost.

    sink is the device where they end.
    """
    counter = Path(f"/sys/class/net/{sink}/statistics/rx_packets")
    before = int(counter.read_text())
    pktgen("kpktgend_0", "rem_device_all")
    for number, device in enumerate(devices):
        add_device(device)
        source = ip_address("10.0.0.1") + number  # each its own: the shim lets no port use another one's
        pktgen(device, f"count {count // len(devices)}", f"pkt_size {PACKET_BYTES}", "delay 0",
               "dst_min 10.1.0.0", f"dst_max {ip_address('10.1.0.0') + row.destinations - 1}",
               f"src_min {source}", f"src_max {source}", "dst_mac 02:00:00:00:00:02",
               f"tos {'02' if row.ect else '00'}", "udp_src_min 9", "udp_src_max 9")
    pktgen("pgctrl", "start")
    microseconds = total = 0
    for device in devices:
        result = (PKTGEN / device).read_text()
        found = re.search(r"Result: OK: (\d+)\(.*?usec, (\d+) \(", result)
        if not found:
            raise RuntimeError(f"pktgen did not finish: {result}")
        microseconds, total = max(microseconds, int(found.group(1))), total + int(found.group(2))
    pktgen("kpktgend_0", "rem_device_all")
    wait_until(f"all of {total} packets reach the sink", lambda: int(counter.read_text()) - before >= total)
    return total / (microseconds / 1e6)


@contextmanager
def packets_load(row: Row, count: int, enable: Callable[[Row], None]) -> Iterator[Callable[[], float]]:
    """Build one datapath and call enable; yield what sends count packets and returns packets/s."""
    with ExitStack() as undo:
        undo.callback(unbridge, 1)
        bridge(0, "sink0")
        enable(row)
        yield lambda: packet_rate(["src0"], count, row)


@contextmanager
def stream_load(row: Row, enable: Callable[[Row], None]) -> Iterator[Callable[[], float]]:
    """Build two datapaths joined by their uplinks, call enable and start a connection between the namespaces a and b.

    Yields what lets it run for a short time and returns its packets/s, each of a full segment.
    """
    with ExitStack() as undo:
        undo.callback(unbridge, 2)
        bridge(0, "up1")
        bridge(1, "up1")
        for number, name in ((0, "a"), (1, "b")):
            run("ip", "netns", "add", name)
            undo.callback(run, "ip", "netns", "del", name)
            run("ip", "link", "set", f"src{number}", "netns", name)
            run("ip", "-n", name, "link", "set", f"src{number}", *([] if row.gso else ["gso_max_segs", "1"]), "up")
            run("ip", "-n", name, "addr", "add", f"10.0.0.{number + 1}/24", "dev", f"src{number}")
        enable(row)
        here = str(Path(__file__).resolve())
        receiver = undo.enter_context(subprocess.Popen(
            ["ip", "netns", "exec", "b", sys.executable, here, "receive"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert receiver.stdin is not None and receiver.stdout is not None
        receiver.stdout.readline()
        sender = undo.enter_context(subprocess.Popen(["ip", "netns", "exec", "a", sys.executable, here, "send"]))
        undo.callback(sender.kill)
        undo.callback(receiver.kill)
        commands, answers = receiver.stdin, receiver.stdout

        def measure() -> float:
            commands.write("\n")
            commands.flush()
            return float(answers.readline()) / SEGMENT_BYTES

        yield measure


def receive() -> None:
    """Accept one connection; for each line of standard input let it run and print the bytes/s it came to."""
    import socket

    with socket.create_server(("", 5001)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 20)
        buffer = bytearray(1 << 21)

        def rate(seconds: float) -> float:
            total, begin = 0, time.monotonic()
            while time.monotonic() < begin + seconds:
                total += connection.recv_into(buffer, len(buffer), socket.MSG_TRUNC)
            return total / (time.monotonic() - begin)

        for _ in sys.stdin:
            rate(WARM_UP_S)
            print(rate(SOCKET_BURST_S), flush=True)


def send() -> None:
    """Send until the receiver hangs up."""
    import socket

    block = bytes(1 << 20)
    with socket.create_connection(("10.0.0.2", 5001)) as connection:
        try:
            while True:
                connection.sendall(block)
        except (BrokenPipeError, ConnectionResetError):
            return


if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]]()
