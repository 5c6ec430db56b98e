# SPDX-License-Identifier: Apache-2.0
"""Attacks by control messages: flooded to ports they are not for, sent by ports that may not, replayed, mis-signed."""

from __future__ import annotations

import socket
import time
from typing import Dict, Optional

from control import KEY, OTHER_KEY, REPORTER, SENDER, frame, grant, marks, rate
from lab import (
    BRIDGE,
    PROTOCOL,
    U_6,
    V1,
    V1_6,
    V2,
    Lab,
    U,
    Wire,
    check,
    equal,
    frames,
    ifindex,
    ipv4,
    ipv6,
    main,
    run,
    settle,
    udp,
)

from sdngcc.controller.wire.message import MessageError, decode_v1, encode_v0
from sdngcc.shim.netlink import Limiter, ShimRefused

NO_KEY = bytes(16)
THIRD_KEY = bytes(range(32, 48))
CE = 3
lab = Lab()


def begin(law: str = "sdngcc") -> None:
    """Let v1 and v2 send under a law, so that each owns its address and has a limiter and a peer."""
    lab.fresh(law, key=KEY)
    speak()


def speak() -> None:
    """Let v1 and v2 send to u."""
    for wire, address in ((lab.v1, V1), (lab.v2, V2)):
        wire.send(ipv4(address, U, udp(100)))
    lab.v1.send(ipv6(V1_6, U_6, udp(100)))
    time.sleep(0.01)


def limiter(device: str) -> Limiter:
    """Return a VM's limiter."""
    found: Optional[Limiter] = next((one for one in lab.shim.limiters() if one.vm == ifindex(device)), None)
    assert found, f"{device} has no limiter"
    return found


def unmoved(device: str) -> None:
    """Check that a VM's law holds it back in no way: nobody told it of marks."""
    got = limiter(device)
    equal((got.rate, got.congested), (got.share, False), f"rate and state of {device}")


def untouched(action: str, wires: Dict[str, Wire], data: bytes, sender: Wire = lab.u) -> None:
    """Send a frame: none of these VMs may get it."""
    for wire in wires.values():
        wire.flush()
    sender.send(data)
    for name, wire in wires.items():
        equal(wire.receive(0.02), None, f"{action}: delivered to {name}")


def both(data: bytes, action: str) -> None:
    """Send a frame from the uplink: neither VM may get it."""
    untouched(action, {"v1": lab.v1, "v2": lab.v2}, data)


@check
def flooded() -> None:
    """A message that the bridge floods is obeyed by the port that owns its address, and refused at the other"""
    for vlan in (False, True):
        begin()
        if vlan:
            lab.v1.send(ipv4(V1, U, udp(100), vlan=True))
            time.sleep(0.01)
        with lab.flow("in_port=3", "output:1,output:2"), lab.counted("s1", messages=1, refused_port=0), \
                lab.counted("s2", messages=0, message_marks=0, refused_port=1):
            both(frame(marks(), vlan=vlan), f"VLAN tag {vlan}")
            assert limiter("s1").congested, "its VM did not hear it"
            unmoved("s2")


@check
def flooded_rate() -> None:
    """The same of an explicit rate, and of one for an IPv6 address"""
    begin("maxmin")
    with lab.flow("in_port=3", "output:1,output:2"):
        for vm, peer in ((V1, U), (V1_6, U_6)):
            with lab.counted("s1", messages=1), lab.counted("s2", messages=0, refused_port=1):
                both(frame(rate(1_000_000, vm, peer)), f"rate for {vm}")
            equal(limiter("s1").rate, 1_000_000, "rate told")
            assert limiter("s2").rate != 1_000_000, "the other VM obeyed, too"


@check
def flooded_report() -> None:
    """The same of a peer's report, though both VMs talk to that peer"""
    begin("eyeq")
    with lab.flow("in_port=3", "output:1,output:2"), lab.counted("s1", reports=1), \
            lab.counted("s2", reports=0, refused_port=1):
        both(frame(grant(1_000_000)), "report")
    rates = {one.vm: one.rate for one in lab.shim.peers() if one.address == U}
    equal(rates, {ifindex("s1"): 1_000_000, ifindex("s2"): 0}, "rates to the peer")


@check
def flooded_out() -> None:
    """The same of a controller's packet-out that floods"""
    begin()
    with lab.counted("s1", messages=1), lab.counted("s2", messages=0, refused_port=1):
        run(f"ovs-ofctl packet-out {BRIDGE} in_port=CONTROLLER,packet={frame(marks()).hex()},actions=output:1,output:2")
        time.sleep(0.01)


@check
def owner_set() -> None:
    """A port whose addresses are set obeys messages for those though it was silent, and for no others"""
    lab.fresh("sdngcc", key=KEY)
    lab.shim.port_set("s1", addresses=[V1])
    with lab.counted("s1", messages=1):
        both(frame(marks()), "for a set address")
    with lab.counted("s1", messages=0, refused_port=1):
        both(frame(marks("10.9.0.77")), "for another")
    lab.roles()
    with lab.counted("s1", messages=0, refused_port=1):
        both(frame(marks()), "for an address neither set nor seen")


@check
def no_role() -> None:
    """A message sent by a port without a role is dropped at its VM, and not obeyed"""
    begin()
    lab.shim.port_del("s2")
    with lab.flow("in_port=2", "output:1"):
        for data in (frame(marks()), frame(marks(V1_6, U_6)), frame(marks(), vlan=True), frame(marks(), bytes(16)),
                     frame(marks())[:60]):
            with lab.counted("s1", messages=0, refused_origin=1, refused_tag=0, refused_short=0):
                untouched("by a port without a role", {"v1": lab.v1}, data, lab.v2)
            unmoved("s1")


@check
def no_role_v0() -> None:
    """The same of the paper's messages where they are accepted"""
    begin()
    lab.shim.settings_set(accept_v0=True)
    lab.shim.port_del("s2")
    data = ipv4(U, V1, encode_v0(4), protocol=PROTOCOL)
    with lab.flow("in_port=2", "output:1"), lab.counted("s1", messages=0, refused_origin=1):
        untouched("by a port without a role", {"v1": lab.v1}, data, lab.v2)
    lab.shim.settings_set(accept_v0=False)


@check
def no_law() -> None:
    """A message sent by a VM under law none is dropped, and not obeyed"""
    begin()
    lab.shim.port_set("s2", law="none")
    rose: Dict[str, int] = {}
    stats = {device: lab.stats(device) for device in ("s1", "s2")}
    with lab.flow("in_port=2", "output:1"):
        untouched("by a VM under law none", {"v1": lab.v1}, frame(marks()), lab.v2)
        unmoved("s1")
    for device, counters in stats.items():
        rose.update(lab.changes(device, counters))
    rose = {name: rose[name] for name in rose if name not in ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes")}
    assert rose in ({"drop_forged": 1}, {"refused_origin": 1}), f"counters: {rose}"


@check
def internal() -> None:
    """A message sent by an internal port without a role is dropped at its VM"""
    begin()
    run(f"ovs-vsctl add-port {BRIDGE} int9 -- set interface int9 type=internal ofport_request=9; ip link set int9 up")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as inside:
        inside.bind(("int9", 0))
        with lab.flow("in_port=9", "output:1"), lab.counted("s1", messages=0, refused_origin=1):
            lab.v1.flush()
            inside.send(frame(marks()))
            equal(lab.v1.receive(), None, "delivered to v1")
    run(f"ovs-vsctl del-port {BRIDGE} int9")
    settle()


@check
def replayed_by_reboot() -> None:
    """A message heard before is refused after the VM's port lost its role, by either way, and got it again"""
    begin()
    said = frame(marks())
    with lab.counted("s1", messages=1):
        both(said, "first")
    for way in ("port-del", "role none"):
        if way == "port-del":
            lab.shim.port_del("s1")
        else:
            lab.shim.port_set("s1", role="none")
        lab.shim.port_set("s1", role="vm")
        speak()
        with lab.counted("s1", messages=0, refused_replay=1):
            both(said, f"after {way}")
            unmoved("s1")
        said = frame(marks())
        with lab.counted("s1", messages=1):
            both(said, f"new, after {way}")


@check
def replayed_by_device() -> None:
    """The same when the port itself was taken from the bridge and added again"""
    begin()
    said = frame(marks())
    with lab.counted("s1", messages=1):
        both(said, "first")
    run(f"ovs-vsctl del-port {BRIDGE} s1")
    settle()
    run(f"ovs-vsctl add-port {BRIDGE} s1 -- set interface s1 ofport_request=1")
    settle()
    lab.shim.port_set("s1", role="vm")
    speak()
    with lab.counted("s1", messages=0, refused_replay=1):
        both(said, "again")
    with lab.counted("s1", messages=1):
        both(frame(marks()), "new")


@check
def replayed_elsewhere() -> None:
    """The same when another port of the host has the address by then"""
    begin()
    said = frame(marks())
    with lab.counted("s1", messages=1):
        both(said, "first")
    lab.shim.port_del("s1")
    lab.v2.send(ipv4(V1, U, udp(100)))
    time.sleep(0.01)
    with lab.flow("in_port=3", "output:2"), lab.counted("s2", messages=0, refused_replay=1):
        both(said, "again")


@check
def replayed_by_law() -> None:
    """The same when the VM's law changed, was none, and is what it was"""
    begin()
    said = frame(marks())
    with lab.counted("s1", messages=1):
        both(said, "first")
    for law in ("hygenicc", "none", "default"):
        lab.shim.port_set("s1", law=law)
        speak()
        with lab.counted("s1", messages=0, refused_replay=int(law != "none")):
            lab.u.send(said)
            time.sleep(0.01)


def signed(message_key: bytes, **wanted: int) -> None:
    """Send v1 a message under a key and check which counters it raises."""
    with lab.counted("s1", **wanted):
        both(frame(marks(), message_key), "message")


@check
def two_keys() -> None:
    """While two keys are set, messages under either are obeyed, and those under the second are counted and told"""
    begin()
    lab.shim.settings_set(key=KEY, key_other=OTHER_KEY)
    got = lab.shim.settings_get()
    equal((got.key_set, got.key_other_set, got.other_key_senders), (True, True, {}), "keys, and who uses the second")
    signed(KEY, messages=1, messages_other_key=0)
    equal(lab.shim.settings_get().other_key_senders, {}, "senders under the second key")
    signed(OTHER_KEY, messages=1, messages_other_key=1, refused_tag=0)
    equal(lab.shim.settings_get().other_key_senders, {SENDER: 0}, "senders under the second key")
    signed(THIRD_KEY, messages=0, refused_tag=1)
    time.sleep(3.2)
    speak()
    signed(KEY, messages=1, messages_other_key=0)
    equal(lab.shim.settings_get().other_key_senders, {SENDER: 3}, "senders under the second key")
    for name in ("key", "key_other"):
        assert KEY.hex() not in repr(got) and OTHER_KEY.hex() not in repr(got), f"{name} can be read"


@check
def keys_exchanged() -> None:
    """Keys are exchanged without a message refused: second key everywhere, then signing with it, then alone"""
    begin()
    lab.shim.settings_set(key=KEY, key_other=NO_KEY)
    signed(OTHER_KEY, messages=0, refused_tag=1)
    lab.shim.settings_set(key_other=OTHER_KEY)
    signed(KEY, messages=1)
    signed(OTHER_KEY, messages=1, messages_other_key=1)
    lab.shim.settings_set(key=OTHER_KEY, key_other=KEY)
    signed(KEY, messages=1, messages_other_key=1)
    signed(OTHER_KEY, messages=1, messages_other_key=0)
    lab.shim.settings_set(key_other=NO_KEY)
    equal(lab.shim.settings_get().key_other_set, False, "second key")
    signed(KEY, messages=0, refused_tag=1)
    signed(OTHER_KEY, messages=1, messages_other_key=0)


@check
def other_key_alone() -> None:
    """Without a first key the second's messages are refused or obeyed, never those under the key of zeros"""
    begin()
    for key, other in ((NO_KEY, NO_KEY), (KEY, NO_KEY), (NO_KEY, OTHER_KEY)):
        lab.shim.settings_set(key=key, key_other=other)
        signed(NO_KEY, messages=0, refused_tag=1)
    lab.shim.settings_set(key=KEY, key_other=NO_KEY)


@check
def replayed_under_the_other() -> None:
    """What was said under one key is a replay under the other"""
    begin()
    lab.shim.settings_set(key=KEY, key_other=OTHER_KEY)
    one = marks()
    with lab.counted("s1", messages=1, refused_replay=1):
        both(frame(one, KEY), "first")
        both(frame(one, OTHER_KEY), "again")
    lab.shim.settings_set(key_other=NO_KEY)


@check
def reports_under_two_keys() -> None:
    """Reports are accepted under either key, and signed with the first"""
    begin("hygenicc")
    lab.shim.settings_set(key=KEY, key_other=OTHER_KEY)
    with lab.counted("s1", reports=2, messages_other_key=1):
        for key in (KEY, OTHER_KEY):
            both(frame(grant(1_000_000), key), "report")
    assert REPORTER in lab.shim.settings_get().other_key_senders, "its sender is not told"
    lab.u.flush()
    lab.u.send(ipv4(U, V1, udp(1000), ecn=CE))
    sent = [one for one in frames(lab.u, 0.1) if one[12:14] == b"\x08\x00" and one[23] == PROTOCOL]
    assert sent, "no report"
    decode_v1(sent[0][34:], KEY)
    try:
        decode_v1(sent[0][34:], OTHER_KEY)
        raise AssertionError("signed with the second key")
    except MessageError:
        pass
    lab.shim.settings_set(key_other=NO_KEY)


@check
def key_length() -> None:
    """A second key of another length than 16 bytes is refused"""
    for length in (15, 17):
        try:
            lab.shim.settings_set(key_other=bytes(length))
        except ShimRefused as refusal:
            assert "key-other" in str(refusal) and "16 bytes" in str(refusal), refusal
        else:
            raise AssertionError(f"{length} bytes were accepted")


main()
