# SPDX-License-Identifier: Apache-2.0
"""The half of ``make bench-destinations`` that runs inside User Mode Linux, in real time.

Each way to limit a VM's destinations has a datapath of its own, with pktgen in front of it and a counter behind. All
send to as many destinations in turn as there are limiters, one burst after the other, in an order that rotates.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from ipaddress import IPv4Address
from pathlib import Path
from typing import Callable, Dict, List

from sdngcc.testbed.bench.datapath_guest import bridge, load, packet_rate, run, unbridge, wait_until
from sdngcc.testbed.bench.datapath_rows import PACKETS, Row
from sdngcc.testbed.virtual.entropy import seed_entropy

# What all limiters of one way let pass together, bit/s: more than a sender reaches, so that each packet is judged and
# none is lost.
TOTAL_BITS = 4 * 10**9

# The key of reports, their type and IP protocol, and longest times for knobs: a rate that a receiver told stays.
KEY, REPORT, PROTOCOL = bytes(range(16)), 3, 253
STAYS, IDLE_NS = {"feedback-timeout": 10**11, "idle-timeout": 10**12}, 3600 * 10**9

# Destinations begin here, as pktgen has them; the VM of the first datapath.
FIRST, VM = IPv4Address("10.1.0.0"), IPv4Address("10.0.0.1")

# HTB's classes: the number of a destination's is the low half of its address and 1, by a classifier that reads it.
CLASSIFIER = "3,40 0 0 32,4 0 0 65537,22 0 0 0"
ROOT_CLASS = "1:fffe"

# Most packets of each flow and of all in fq, and hash buckets for its flows, as a power of two.
FQ = "limit 1000000 flow_limit 1000000"
FQ_BUCKETS, FQ_FLOWS = 14, 65535


def mapped(address: IPv4Address) -> bytes:
    """Return an IPv4 address as messages have it."""
    return bytes(10) + b"\xff\xff" + address.packed


def batch(program: str, lines: List[str]) -> None:
    """Give tc or ip many lines at once; RuntimeError with what it said when it fails."""
    done = subprocess.run([program, "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"{program} -batch: {done.stderr.strip()[-400:]}")


def shim(number: int, count: int) -> None:
    """Let law eyeq limit each of count destinations; all of them must have been told a rate."""
    from sdngcc.shim import core
    from sdngcc.shim.netlink import ShimClient

    run("tc", "qdisc", "add", "dev", f"up{number}", "root", "fq", *FQ.split())
    with ShimClient() as client:
        client.settings_set(law="eyeq", peers_max=2 * count + 16, peer_idle=IDLE_NS, key=KEY, knobs=STAYS)
        client.port_set(f"up{number}", role="uplink", capacity=TOTAL_BITS // 8)
        client.port_set(f"vm{number}", role="vm")
        packet_rate([f"src{number}"], max(count, 1000), sent_to(count), f"sink{number}")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as line:
        line.bind((f"sink{number}", 0))
        for one in range(count):
            line.send(report(FIRST + one, core.encode({
                "type": REPORT, "epoch": 1, "sequence": 1, "sender": 1, "vm": mapped(VM), "peer": mapped(FIRST + one),
                "rate": TOTAL_BITS // 8 // count}, KEY)))
    require_limiters(count)


def report(source: IPv4Address, message: bytes) -> bytes:
    """Return the frame by which a destination's shim tells the VM a message."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(message), 0, 0x4000, 64, PROTOCOL, 0, source.packed,
                       VM.packed)
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    head = head[:10] + struct.pack("!H", total ^ 0xffff) + head[12:]
    return bytes.fromhex("0200000000010200000000020800") + head + message


def require_limiters(count: int) -> None:
    """Check that so many destinations have a rate of their own; RuntimeError when they have not."""
    from sdngcc.shim.netlink import ShimClient

    def stand() -> bool:
        with ShimClient() as client:
            return sum(1 for peer in client.peers() if peer.rate) == count

    wait_until(f"{count} destinations have a limiter", stand)


def htb(number: int, count: int) -> None:
    """Give each of count destinations a class of HTB below one for all."""
    device, burst = f"up{number}", "burst 15k cburst 15k quantum 1514"
    batch("tc", [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid {ROOT_CLASS} htb rate {TOTAL_BITS}bit burst 1m cburst 1m",
        *(f"class add dev {device} parent {ROOT_CLASS} classid 1:{one + 1:x} htb rate {TOTAL_BITS // count}bit {burst}"
          for one in range(count)),
        f"filter add dev {device} parent 1: bpf bytecode '{CLASSIFIER}'"])


def fq(number: int, count: int) -> None:
    """Give each flow the same part of all, as sch_fq does by itself."""
    batch("tc", [f"qdisc add dev up{number} root fq {FQ} maxrate {TOTAL_BITS // count}bit orphan_mask {FQ_FLOWS} "
                 f"buckets {1 << FQ_BUCKETS}"])


def nothing(number: int, count: int) -> None:
    """Limit nothing."""


# What is measured, by name; the first is what others are compared to.
WAYS: Dict[str, Callable[[int, int], None]] = {"none": nothing, "eyeq": shim, "htb": htb, "fq": fq}


def sent_to(count: int) -> Row:
    """Return the load: packets to so many destinations in turn."""
    return Row("destinations", PACKETS, "", destinations=count)


def measure(count: int, rounds: int, packets: int) -> Dict[str, List[float]]:
    """Return packets/s of each way with so many limiters, a number each round."""
    with ExitStack() as undo:
        undo.callback(unbridge, len(WAYS))
        for number in range(len(WAYS)):
            bridge(number, f"sink{number}")
        for number, limit in enumerate(WAYS.values()):
            limit(number, count)
        names, rates = list(WAYS), {name: [0.0] * rounds for name in WAYS}
        for index in range(rounds):
            turn = index % len(names)
            for name in [*names[turn:], *names[:turn]]:
                number = names.index(name)
                rates[name][index] = packet_rate([f"src{number}"], packets, sent_to(count), f"sink{number}")
        require_limiters(count)
        return rates


def main(path: Path) -> None:
    """Do the job: settings in path, result.json ({limiters: {way: [packets/s, ..]}}) beside it."""
    seed_entropy()
    job = json.loads(path.read_text())
    for module in job["preload"]:
        run("insmod", module)
    found: Dict[int, Dict[str, List[float]]] = {}
    for count in job["counts"]:
        # Anew: no peer of those before may stay.
        load(job["module"])
        found[count] = measure(count, job["rounds"], job["packets"])
        print(f"sdngcc-progress {time.monotonic():.3f} {count} limiters", flush=True)
        path.with_name("result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
