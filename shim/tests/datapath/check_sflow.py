# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's own sFlow export, as the controller's mark source sflow reads it.

The fabric u is a switch of which the bridge knows nothing but its packets: (FAR, 1) is the other end of port 3.
"""

from __future__ import annotations

import socket
import time
from typing import Dict

from lab import BRIDGE, CE, ECT_0, U_6, V1, V1_6, Lab, U, check, equal, ipv4, ipv6, main, run, udp

from sdngcc.controller.network.topology import Hop, Port, Topology
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources.sflow import SFlowMarks

COLLECTOR = ("127.0.0.1", 6343)
FAR = 0xF

run("ip link set lo up")
LAB = Lab()
DPID = int(run(f"ovs-vsctl get bridge {BRIDGE} datapath_id").strip().strip('"'), 16)
SOCKET = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SOCKET.bind(COLLECTOR)


def source() -> SFlowMarks:
    """Return a source that knows the bridge and the switch behind its uplink."""
    topology = Topology()
    topology.add_switch(DPID, {number: Port(f"s{number}", bytes(6), True, 0) for number in (1, 2, 3)})
    topology.add_link((FAR, 1), (DPID, 3), 0)
    settings = Settings(notify=False, mark_source="sflow", sflow_agents=(f"127.0.0.1={DPID:x}",))
    return SFlowMarks(settings, topology)


def sample(rate: int) -> None:
    """Let the bridge sample one packet in ``rate``, anew."""
    run(f"ovs-vsctl clear bridge {BRIDGE} sflow")
    run(f"ovs-vsctl -- --id=@s create sflow agent=lo target='\"{COLLECTOR[0]}:{COLLECTOR[1]}\"' header=128 "
        f"sampling={rate} polling=1 -- set bridge {BRIDGE} sflow=@s")


def listen(sflow: SFlowMarks, seconds: float) -> Dict[Hop, int]:
    """Take in what the bridge exports for so long, in windows of 0.1 s, and return the marks by port."""
    marks: Dict[Hop, int] = {}
    for _ in range(round(seconds * 10)):
        end = time.monotonic() + 0.1
        while (left := end - time.monotonic()) > 0:
            SOCKET.settimeout(left)
            try:
                sflow.feed(SOCKET.recv(65535), time.monotonic_ns())
            except socket.timeout:
                break
        for one in sflow.close_window(time.monotonic_ns()):
            marks[one.point] = marks.get(one.point, 0) + one.marks
    return marks


@check
def whole() -> None:
    """One in one: IPv4, IPv6 and tagged packets with CE are counted to the last, those without are not"""
    sample(1)
    sflow = source()
    listen(sflow, 3)  # counter samples tell the ports' numbers
    for vlan in (False, True):
        for ecn, count in ((CE, 10), (ECT_0, 7)):
            for _ in range(count):
                LAB.u.send(ipv4(U, V1, udp(100), ecn=ecn, vlan=vlan))
                LAB.u.send(ipv6(U_6, V1_6, udp(100), ecn=ecn, vlan=vlan))
    equal(listen(sflow, 3), {(FAR, 1): 40}, f"marks, with faults {dict(sflow.faults)}")
    equal(sflow.readings(DPID)[3].ce_arrived, 40, "packets with CE at the uplink")
    sent = sflow.readings(DPID)[1].packets
    if not sent:
        raise AssertionError(f"counter samples show {sent} packets sent by port 1")
    # Until counter samples tell numbers of ports no sample has one.
    early = ("port_unknown", "samples_unmatched")
    unread = {kind: count for kind, count in sflow.faults.items() if kind not in early}
    equal(unread, {}, "faults")


@check
def sampled() -> None:
    """One in ten: the estimate lies within four standard deviations of the truth"""
    sample(10)
    sflow = source()
    listen(sflow, 3)
    for _ in range(1000):
        LAB.u.send(ipv4(U, V1, udp(100), ecn=CE))
    marks = listen(sflow, 3).get((FAR, 1), 0)
    # Each packet is sampled with 1/10 and counts 10: variance 1000 * 0.1 * 0.9 * 100.
    if not 1000 - 4 * 95 <= marks <= 1000 + 4 * 95:
        raise AssertionError(f"estimated {marks} of 1000 marks")


@check
def begun_anew() -> None:
    """An agent made anew is a restart, not a loss, and invents no marks"""
    sflow = source()
    sample(1)
    listen(sflow, 4)
    sample(1)
    equal(listen(sflow, 3), {}, "marks")
    equal((sflow.restarts, sflow.faults["datagrams_lost"]), (1, 0), "restarts, datagrams lost")


if __name__ == "__main__":
    main()
