# SPDX-License-Identifier: Apache-2.0
"""Paths: messages of version 2 obeyed, packets held to the rate of where they go, and all of it read back."""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from typing import List

from lab import BRIDGE, ECT_0, PROTOCOL, V1, Lab, U, check, equal, ifindex, ipv4, main, run, udp
from openflow import Switch

from sdngcc.controller.wire import experimenter
from sdngcc.controller.wire.message import SCOPE_TUNNEL, TYPE_MARKS, TYPE_RATE, PathEntry, PathMessage, encode_v2
from sdngcc.shim.netlink import Path, ShimRefused

KEY = bytes(range(16))
MAPPED = bytes(10) + b"\xff\xff"
NEAR, FAR = "10.1.0.1", "10.2.0.1"
SLOW = 125_000  # bytes/s
FULL = 1000  # bytes of UDP in a packet
lab = Lab()
sequence = 0


def fresh(law: str = "maxmin") -> None:
    """Begin anew under a law, with a key, and let v1 be active."""
    lab.fresh(law, key=KEY)
    for _ in range(3):
        lab.v1.send(ipv4(V1, U, udp(1000), ecn=ECT_0))
    time.sleep(0.02)
    lab.u.flush()


def entry(prefix: str, rate: int = 0, teller: int = 1, scope: int = 0, marks: int = 0) -> PathEntry:
    """Return what a teller says of an IPv4 prefix; "" is the rest."""
    net = ipaddress.ip_network(prefix) if prefix else None
    address = MAPPED + net.network_address.packed if net else bytes(16)
    return PathEntry(teller, address, 96 + net.prefixlen if net else 0, scope, rate=rate, marks=marks)


def message(*entries: PathEntry, kind: int = TYPE_RATE) -> bytes:
    """Return a valid message for v1 with the next sequence number."""
    global sequence
    sequence += 1
    return encode_v2(PathMessage(MAPPED + socket.inet_aton(V1), entries, 0, 9, 1000, sequence, kind), KEY)


def path(prefix: str) -> Path:
    """Return v1's path to a prefix as netlink tells it."""
    return next(one for one in lab.shim.paths() if (one.vm, one.prefix) == (ifindex("s1"), prefix))


def passed(destination: str, packets: int = 100) -> int:
    """Let v1 send so many packets at once; return how many come out of the uplink at once."""
    lab.u.flush()
    for number in range(packets):
        lab.v1.send(ipv4(V1, destination, udp(FULL, 1000 + number), ecn=ECT_0))
    time.sleep(0.05)
    return len(list(iter(lambda: lab.u.receive(0.01), None)))


@check
def by_packet() -> None:
    """A message that a packet brings slows what goes to its prefix, and nothing else"""
    fresh()
    with lab.counted("s1", messages=1):
        lab.v1.flush()
        lab.u.send(ipv4(U, V1, message(entry("10.1.0.0/16", SLOW)), protocol=PROTOCOL))
        time.sleep(0.02)
    equal(lab.v1.receive(), None, "delivered to the guest")
    near, far = passed(NEAR), passed(FAR)
    assert near < 30, f"{near} of 100 packets passed at once"
    equal(far, 100, "packets elsewhere")
    found = path("10.1.0.0/16")
    equal((found.rate, found.tunnel, found.tx_packets > 0, found.held > 0), (SLOW, False, True, True), "path")
    assert lab.stats("s1")["drop_path"] > 0


@check
def by_netlink() -> None:
    """Messages by netlink make paths that are read back: destinations, tunnels' far ends, the rest"""
    fresh()
    lab.shim.message("s1", message(entry("10.1.0.0/16", SLOW), entry("192.0.2.0/24", 2 * SLOW, 2, SCOPE_TUNNEL),
                                   entry("", 3 * SLOW, 3)))
    found = {(one.prefix, one.tunnel): one.rate for one in lab.shim.paths()}
    equal(found, {("10.1.0.0/16", False): SLOW, ("192.0.2.0/24", True): 2 * SLOW, ("", False): 3 * SLOW}, "paths")
    shown = run("ovs-appctl shim/show")
    assert "10.1.0.0/16" in shown and "tunnels to 192.0.2.0/24" in shown and "the rest" in shown, shown
    for line in run("ovs-appctl shim/show --json").splitlines():
        json.loads(line)
    time.sleep(3.0)
    for _ in range(3):
        lab.v1.send(ipv4(V1, U, udp(1000), ecn=ECT_0))
    time.sleep(0.02)
    equal(lab.shim.paths(), [], "paths that nobody tells of any more")


@check
def refusals() -> None:
    """A malformed message is refused by name, and so is one under a law without paths"""
    fresh()
    good = message(entry("10.1.0.0/16", SLOW))
    short = message(entry("10.1.0.0/16", marks=1), kind=TYPE_MARKS)[:60]
    for data, reason in ((good[:-1] + b"\0", "tag"), (good[:40] + b"\1" + good[41:], "form"),
                         (good + bytes(40), "form"), (short, "short")):
        with lab.counted("s1", messages=0, **{f"refused_{reason}": 1}):
            try:
                lab.shim.message("s1", data)
            except ShimRefused as error:
                assert f"refused and counted: {reason}" in str(error), error
    lab.fresh("static", key=KEY)
    with lab.counted("s1", refused_law=1):
        try:
            lab.shim.message("s1", message(entry("10.1.0.0/16", SLOW)))
        except ShimRefused:
            pass
    equal(lab.shim.paths(), [], "paths")


@check
def marks_by_path() -> None:
    """Under sdngcc marks of a port cut what goes through it alone"""
    fresh("sdngcc")
    before = next(one.rate for one in lab.shim.limiters() if one.vm == ifindex("s1"))
    for _ in range(5):
        lab.shim.message("s1", message(entry("10.1.0.0/16", marks=2000), kind=TYPE_MARKS))
    equal(next(one.rate for one in lab.shim.limiters() if one.vm == ifindex("s1")), before, "the VM's rate")
    assert path("10.1.0.0/16").rate < before


def readings(switch: Switch, generation: int = 0, boot: int = 0) -> List[experimenter.PathReading]:
    """Return the entries of a HOST_PATHS reply about v1."""
    reply = switch.ask(experimenter.host_paths_request(5, generation, boot))
    return [one for one in experimenter.path_readings(b"".join(reply.entries)) if one.vm == ifindex("s1")]


@check
def by_openflow() -> None:
    """A controller hands messages to any bridge of the host, and reads its VMs' paths there"""
    fresh()
    switch = Switch(BRIDGE)
    with lab.counted("s1", messages=2, refused_replay=1):
        good = message(entry("10.1.0.0/16", SLOW), entry("", 4 * SLOW))
        switch.socket.sendall(experimenter.path_messages(7, [
            (ifindex("s1"), good), (ifindex("s1"), good), (999999, good),
            (ifindex("s1"), message(entry("10.2.0.0/16", 2 * SLOW)))]))
        found = readings(switch)
        time.sleep(0.05)
    prefixes = [MAPPED + socket.inet_aton("10.1.0.0"), MAPPED + socket.inet_aton("10.2.0.0"), bytes(16)]
    equal({one.prefix: one.rate for one in found}, dict(zip(prefixes, (SLOW, 2 * SLOW, 4 * SLOW))), "rates")
    near = passed(NEAR)
    time.sleep(0.01)
    held = next(one for one in readings(switch) if one.prefix == prefixes[0])
    assert held.tx_packets >= near and held.held > 0, held
    state = switch.ask(experimenter.vm_state_request(6))
    assert held.port in [one.port for one in experimenter.vm_readings(state)], held
    text = run(f"ovs-ofctl -O OpenFlow13 dump-host-paths {BRIDGE}")
    assert "prefix=10.1.0.0 bits=112" in text and " rest" in text, text


main()
