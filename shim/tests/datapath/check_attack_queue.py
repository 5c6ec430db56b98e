# SPDX-License-Identifier: Apache-2.0
"""The queue that VMs share at an uplink: nobody fills it for all, and the operator guide's commands make one that fits.

    v1 and v2 -- br0 -- s3, where fq holds what waits for its departure
"""

from __future__ import annotations

import itertools
import re
import socket
import time
from pathlib import Path
from typing import Tuple

from lab import BRIDGE, V1, V2, Lab, U, check, equal, frames, ipv4, main, run, udp

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "operator-guide.md"
# The kernel's own fq has room for 10,000 packets, 100 a flow.
PLAIN = "fq"
REFRESH_S = 6.0  # after which ovs-vswitchd has looked at queuing disciplines; virtual
VICTIM = 60  # packets of v1
SO_SNDBUFFORCE = 32
MEMORY = 1 << 29  # bytes that packets sent may take until they left, or the sender would be held back
SMALL = 60  # bytes of a packet of v2, link-layer header included
PACED = 1_000_000  # of v2, bytes/s: its packets wait
BURST = 3028  # bytes that need not wait
HORIZON = 10**10  # ns, so that the bound on their number is the only one
lab = Lab()
DEFAULT = lab.shim.settings_get().waiting_max
lab.v2.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, MEMORY)


def guide(words: str) -> str:
    """Return the commands of the one code block of the guide with these words; AssertionError without."""
    blocks = re.findall(r"^```\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = [block for block in blocks if words in block]
    equal(len(found), 1, f"blocks of the guide with '{words}'")
    return found[0]


def recommended() -> str:
    """Return the options of fq that the guide has for a device with one queue."""
    found = re.search(r"`tc qdisc replace dev eth0 root (fq [^`]*)`", GUIDE.read_text(encoding="utf-8"))
    assert found, "the guide has no command for a device with one queue"
    return found.group(1)


def fill(most: int) -> Tuple[int, int]:
    """Let v2 send `most` small packets of many flows, and go on; return how many of v1's left, and how many wait."""
    ports = itertools.cycle(range(1024, 5120))
    for _ in range(most):
        lab.v2.send(ipv4(V2, U, udp(SMALL - 34, port=next(ports))))
    lab.u.flush()
    for _ in range(VICTIM):
        for _ in range(20):
            lab.v2.send(ipv4(V2, U, udp(SMALL - 34, port=next(ports))))
        lab.v1.send(ipv4(V1, U, udp(1000)))
        time.sleep(0.0001)
    waiting = int(re.findall(r"backlog \S+ (\d+)p", run("tc -s qdisc show dev s3"))[0])
    own = socket.inet_aton(V1)
    return sum(one[26:30] == own for one in frames(lab.u, 0.005)), waiting


def starve(qdisc: str, most: int, **settings: int) -> Tuple[int, int]:
    """Fill such a queue of the uplink; return how many packets v1 lost, and how many of v2 waited at the end."""
    run(f"tc qdisc replace dev s3 root {qdisc}")
    lab.fresh("static", horizon=HORIZON, burst=BURST, **settings)
    lab.shim.port_set("s2", max_rate=PACED)
    # The datapath learns the flows, or its queue towards ovs-vswitchd is what would be full.
    for wire, host in ((lab.v1, V1), (lab.v2, V2)):
        wire.send(ipv4(host, U, udp(100)))
        time.sleep(0.02)
    arrived, waiting = fill(most)
    rose = lab.stats("s2")
    print(f"# {qdisc}, {settings}: {arrived} of {VICTIM} arrived, {waiting} wait, "
          f"{rose['drop_waiting']} dropped before", flush=True)
    equal(lab.stats("s1")["tx_packets"], 1 + VICTIM, "packets of v1 that the shim let pass")
    run("tc qdisc del dev s3 root")
    return VICTIM - arrived, waiting


@check
def bounded() -> None:
    """A VM with small packets in many flows within its share costs another none, in a plain fq and in the guide's"""
    equal(DEFAULT, 1024, "waiting-max by default")
    for qdisc, most in ((PLAIN, 12_000), (recommended(), 110_000)):
        lost, waiting = starve(qdisc, most)
        equal(lost, 0, f"{qdisc}: packets lost by the other")
        # One in sixteen is counted.
        assert DEFAULT / 2 <= waiting <= DEFAULT + VICTIM, f"{qdisc}: {waiting} wait"


@check
def unbounded() -> None:
    """It is the bound that does it: without one the other loses all"""
    for qdisc, most in ((PLAIN, 12_000), (recommended(), 110_000)):
        lost, _ = starve(qdisc, most, waiting_max=0)
        equal(lost, VICTIM, f"{qdisc}: packets lost by the other")
    lab.shim.settings_set(waiting_max=DEFAULT)


@check
def one_flow() -> None:
    """What waits of one connection finds room with the guide's flow_limit; fq's own limit drops of it unseen"""
    for qdisc, lossless in ((recommended(), True), (PLAIN, False)):
        run(f"tc qdisc replace dev s3 root {qdisc}")
        lab.fresh("static", horizon=HORIZON, burst=BURST)
        lab.shim.port_set("s2", max_rate=PACED)
        for _ in range(2000):
            lab.v2.send(ipv4(V2, U, udp(SMALL - 34)))
        text = run("tc -s qdisc show dev s3")
        dropped = int(re.findall(r"dropped (\d+)", text)[0])
        assert lab.stats("s2")["drop_waiting"] > 0, "the bound was not reached"
        assert (dropped == 0) == lossless, f"{qdisc}: {text}"
        run("tc qdisc del dev s3 root")


def fitness(device: str) -> Tuple[str, str]:
    """Return what the kernel says of an uplink's queuing discipline, and what Interface:status does."""
    time.sleep(REFRESH_S)
    told = run(f"ovs-vsctl --if-exists get Interface {device} status:shim_qdisc").strip()
    return lab.shim.port_get(device).qdisc or "", told


@check
def many_queues() -> None:
    """The guide's commands make a device with four queues fit, literally; one queue without fq makes it unfit"""
    run("ip link add eth0 numtxqueues 4 numrxqueues 4 type veth peer name eth0peer numtxqueues 4 numrxqueues 4")
    run("ip link set eth0 up; ip link set eth0peer up")
    run(f"ovs-vsctl add-port {BRIDGE} eth0 -- set Interface eth0 other_config:shim-role=uplink "
        "other_config:shim-capacity=1000000000 -- set Interface s1 other_config:shim-role=vm")
    run("ovs-vsctl set Open_vSwitch . other_config:shim-law=static")
    run(guide("create QoS type=linux-noop"))
    run("tc qdisc replace dev eth0 root pfifo")
    equal(fitness("eth0"), ("unfit", "unfit"), "pfifo")
    run(guide("root handle 1: mq"))
    text = run("tc qdisc show dev eth0")
    options = recommended().split()[1:]
    wanted = " ".join(f"{name} {value}p" if name.endswith("limit") else f"{name} {value}"
                      for name, value in zip(options[::2], options[1::2]))
    equal(len(re.findall(rf"^qdisc fq \S+ parent 1:[1-4] {wanted} ", text, re.MULTILINE)), 4, f"fq below mq in {text}")
    equal(fitness("eth0"), ("fit", ""), "mq and fq, as the guide has it")
    assert re.search(r"eth0 +uplink .* fit ", run("ovs-appctl shim/show"))
    run("tc qdisc replace dev eth0 parent 1:3 pfifo")
    equal(fitness("eth0"), ("unfit", "unfit"), "one queue without fq")
    run(guide("root handle 1: mq"))
    equal(fitness("eth0"), ("fit", ""), "the guide's commands once more")


@check
def survives_restart() -> None:
    """What the guide says keeps mq and fq over a restart of Open vSwitch does"""
    before = run("tc qdisc show dev eth0")
    run("ovs-appctl exit")
    time.sleep(0.5)
    run("ovs-vswitchd --pidfile --detach --log-file=/run/openvswitch/again.log 2>&1")
    time.sleep(0.5)
    equal(fitness("eth0"), ("fit", ""), "after the restart")
    equal(run("tc qdisc show dev eth0"), before, "queuing disciplines")


main()
