# SPDX-License-Identifier: Apache-2.0
"""What a controller that forwards nothing reads of a host, and how it speaks to its VMs: by any bridge, or netlink."""

from __future__ import annotations

import dataclasses
import re
import socket
import struct
import time
from typing import Dict, List, Tuple

from lab import CE, ECT_0, PROTOCOL, V1, V2, Lab, U, check, equal, ifindex, ipv4, main, run, udp
from openflow import ERROR, Switch

from sdngcc.controller.wire import experimenter
from sdngcc.controller.wire.message import Message, encode_v0, encode_v1
from sdngcc.shim.netlink import Peer, ShimRefused

KEY = bytes(range(16))
MAPPED = bytes(10) + b"\xff\xff"
OWN = "own0"  # a bridge without ports
lab = Lab()
run(f"ovs-vsctl add-br {OWN} -- set Bridge {OWN} protocols=OpenFlow13")
sequence = 0


def fresh(**settings: object) -> None:
    """Begin anew under law sdngcc, with a key and conversations."""
    lab.fresh("sdngcc", **{"key": KEY, "conversations": True, **settings})
    lab.v1.flush()
    lab.u.flush()


def message(**changes: object) -> bytes:
    """Return a valid control message for v1 with the next sequence number, changed."""
    global sequence
    sequence += 1
    base = Message(vm=MAPPED + socket.inet_aton(V1), peer=MAPPED + socket.inet_aton(U), marks=4,
                   interval_ns=5_000_000, weight_total=4, sender=9, epoch=1000, sequence=sequence)
    return encode_v1(dataclasses.replace(base, **changes), KEY)  # type: ignore[arg-type]


def talk() -> None:
    """Let v1 send two packets to u, and u answer with one that bears a mark."""
    for _ in range(2):
        lab.v1.send(ipv4(V1, U, udp(500), ecn=ECT_0))
    lab.u.send(ipv4(U, V1, udp(100), ecn=CE))
    time.sleep(0.05)


def peer(address: str = U, device: str = "s1") -> Peer:
    """Return what a VM exchanged with an address."""
    return next(found for found in lab.shim.peers() if (found.vm, found.address) == (ifindex(device), address))


def dump(what: str) -> List[Dict[str, str]]:
    """Return the entries that ovs-ofctl prints of the bridge without ports."""
    lines = run(f"ovs-ofctl -O OpenFlow13 {what} {OWN}").splitlines()
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines[1:]]


@check
def conversations() -> None:
    """Under a law that wants no peers, each address is counted with marks, the VM's own address and the uplink"""
    fresh()
    talk()
    found = peer()
    frame = len(ipv4(V1, U, udp(500)))
    equal((found.tx_bytes, found.tx_packets, found.rx_packets, found.rx_marks, found.rate),
          (2 * frame, 2, 1, 1, 0), "counters")
    equal((found.local, found.uplink, found.vlan, found.tunnel), (V1, ifindex("s3"), 0, None), "way")
    lab.shim.settings_set(conversations=False)
    equal(lab.shim.peers(), [], "peers that nobody reads")


@check
def vlan() -> None:
    """A peer that is reached by a VLAN is told with it"""
    fresh()
    with lab.flow("in_port=1,ip", "mod_vlan_vid:7,output:3"):
        talk()
    equal(peer().vlan, 7, "VLAN")


@check
def moved() -> None:
    """A dump since a time has what moved then or later and nothing else, also when it is longer than a message"""
    fresh()
    for number in range(700):
        lab.v1.send(ipv4(V1, f"10.7.{number >> 8}.{number & 255}", udp(10)))
    time.sleep(0.1)
    everything = lab.shim.peers(since=0)
    equal((len(everything), len({found.address for found in everything})), (700, 700), "all")
    since = time.monotonic_ns()
    time.sleep(0.1)
    equal(lab.shim.peers(since=since), [], "nothing moved")
    lab.v1.send(ipv4(V1, "10.7.0.7", udp(10)))
    time.sleep(0.05)
    equal([(found.address, found.tx_packets) for found in lab.shim.peers(since=since)], [("10.7.0.7", 2)], "one moved")


def refused(data: bytes, counter: str, device: str = "s1") -> None:
    """Hand a message to a VM: it must be refused, and counted so."""
    with lab.counted(device, messages=0, **{counter: 1}):
        try:
            lab.shim.message(device, data)
        except ShimRefused as error:
            reason = counter.replace("refused_", "refused and counted: ")
            assert reason in str(error), f"'{reason}' is not in: {error}"
        else:
            raise AssertionError(f"obeyed, {counter} expected")


@check
def netlink_message() -> None:
    """A message by netlink is obeyed once, and refused as one that a packet brought would be"""
    fresh()
    talk()
    good = message()
    with lab.counted("s1", messages=1, message_marks=4):
        lab.shim.message("s1", good)
    assert next(one for one in lab.shim.limiters() if one.vm == ifindex("s1")).congested, "the law did not hear of it"
    refused(good, "refused_replay")
    refused(message()[:-1] + b"\0", "refused_tag")
    refused(message()[:50], "refused_short")
    refused(message(vm=MAPPED + socket.inet_aton(V2)), "refused_port")
    refused(message(type=2, rate=10**6, marks=0, interval_ns=0), "refused_law")
    refused(message(type=3, marks=0, interval_ns=0, weight_total=0), "refused_address")
    lab.shim.settings_set(accept_v0=True)
    refused(encode_v0(7), "refused_short")  # it names no VM
    for device, words in (("s3", "an uplink obeys none"), ("lo", "lo")):
        try:
            lab.shim.message(device, message())
        except ShimRefused as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{device} obeyed")
    try:
        lab.shim.message("s1", bytes(1337))
    except ShimRefused as error:
        assert "message: allowed are 1 to 1336 bytes" in str(error), error
    lab.shim.settings_set(law="none")
    refused(message(), "refused_law")


@check
def any_bridge() -> None:
    """A bridge without ports tells of all VMs of the host and of whom they talk to, by the kernel's index"""
    fresh()
    talk()
    vms = {int(row["vm"]): row for row in dump("dump-host-vms")}
    equal((vms[ifindex("s1")]["uplink"], vms[ifindex("s1")]["tx_packets"]), (str(ifindex("s3")), "2"), "VM")
    rows = [row for row in dump("dump-host-peers") if row["remote"] == U]
    equal([(int(row["vm"]), row["local"], row["tx_packets"], row["rx_marks"]) for row in rows],
          [(ifindex("s1"), V1, "2", "1")], "peers")
    equal(run(f"ovs-ofctl -O OpenFlow13 dump-flows {OWN} | grep -vc cookie=0x0 || true").strip(), "1", "flows")


def readings(switch: Switch, generation: int, boot: int) -> Tuple[int, int, List[Tuple[int, str, int]]]:
    """Return generation and boot of a HOST_PEERS reply, and (VM, address, packets) of each entry."""
    reply = switch.ask(experimenter.host_peers_request(5, generation, boot))
    return reply.generation, reply.boot, [
        (one.vm, socket.inet_ntoa(one.remote[12:]), one.tx_packets) for one in experimenter.peer_readings(reply)]


@check
def only_what_moved() -> None:
    """Who names the last generation hears of what moved since, in as many parts as it takes"""
    fresh()
    switch = Switch(OWN)
    for number in range(700):
        lab.v1.send(ipv4(V1, f"10.8.{number >> 8}.{number & 255}", udp(10)))
    time.sleep(0.1)
    generation, boot, all_of_it = readings(switch, 0, 0)
    equal(len([one for one in all_of_it if one[1].startswith("10.8.")]), 700, "all")
    generation, boot, nothing = readings(switch, generation, boot)
    equal(nothing, [], "nothing moved")
    lab.v1.send(ipv4(V1, "10.8.0.9", udp(10)))
    time.sleep(0.05)
    generation, boot, one = readings(switch, generation, boot)
    equal(one, [(ifindex("s1"), "10.8.0.9", 2)], "one moved")
    equal(readings(switch, generation, boot)[2], [], "told once")
    reply = switch.ask(experimenter.host_vms_request(6, 0, 0))
    equal([vm.tx_packets for vm in experimenter.vm_readings(reply) if vm.port == ifindex("s1")], [701], "VM")


@check
def messages_by_openflow() -> None:
    """Messages that a controller hands to any bridge reach the VMs they are for, once, and never a guest"""
    fresh()
    talk()
    lab.v1.flush()
    switch = Switch(OWN)
    good = message()
    with lab.counted("s1", messages=2, refused_replay=1, refused_form=1):
        switch.socket.sendall(experimenter.vm_messages(7, [
            (ifindex("s1"), good), (ifindex("s1"), good), (999999, message()), (ifindex("s1"), bytes(96)),
            (ifindex("s1"), message())]))
        equal(switch.ask(experimenter.host_vms_request(8, 0, 0)).exp_type, experimenter.HOST_VMS, "the next answer")
        time.sleep(0.05)
    equal(lab.v1.receive(), None, "delivered to the guest")
    whole = experimenter.vm_messages(9, [(ifindex("s1"), message())])
    switch.socket.sendall(whole[:2] + struct.pack("!H", len(whole) - 4) + whole[4:-4])
    got = switch.receive()
    while got[1] != ERROR:
        got = switch.receive()
    equal(struct.unpack_from("!HH", got, 8), (1, 6), "OFPBRC_BAD_LEN")
    with lab.counted("s1", messages=1):
        lab.u.send(ipv4(U, V1, message(), protocol=PROTOCOL))
        time.sleep(0.05)


main()
