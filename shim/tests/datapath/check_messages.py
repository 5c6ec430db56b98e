# SPDX-License-Identifier: Apache-2.0
"""Control messages in the datapath: obeyed, refused, counted, and never delivered to a VM."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import time
from typing import Optional

from lab import (
    BRIDGE,
    ECT_0,
    PROTOCOL,
    U_6,
    V1,
    V1_6,
    Lab,
    U,
    check,
    equal,
    ifindex,
    ipv4,
    ipv6,
    main,
    run,
    settle,
    udp,
)

from sdngcc.controller.wire.message import Message, encode_v0, encode_v1
from sdngcc.shim.netlink import Limiter, ShimRefused

KEY = bytes(range(16))
MAPPED = bytes(10) + b"\xff\xff"
TRACING = "/sys/kernel/tracing"
lab = Lab()
sequence = 0


def message(**changes: object) -> Message:
    """Return a valid message for v1 with the next sequence number, changed."""
    global sequence
    sequence += 1
    base = Message(vm=MAPPED + socket.inet_aton(V1), peer=MAPPED + socket.inet_aton(U), marks=4,
                   interval_ns=5_000_000, weight_total=4, sender=1, epoch=1000, sequence=sequence)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def frame(payload: bytes, **options: object) -> bytes:
    """Return a control packet for v1."""
    return ipv4(U, V1, payload, protocol=PROTOCOL, **options)  # type: ignore[arg-type]


def deliver(data: bytes, counter: str, times: int = 1) -> None:
    """Send a frame from the uplink to v1: it must not arrive, and exactly one counter must count it."""
    lab.v1.flush()
    before = lab.stats("s1")
    lab.u.send(data)
    equal(lab.v1.receive(), None, "delivered to the VM")
    after = lab.stats("s1")
    changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    changed.pop("message_marks", None)
    equal(changed, {counter: times}, "counters")


def activate() -> Limiter:
    """Let v1 send more than a full packet and return its limiter."""
    for _ in range(2):
        lab.v1.send(ipv4(V1, U, udp(1000)))
    time.sleep(0.001)
    limiter: Optional[Limiter] = next((one for one in lab.shim.limiters() if one.active), None)
    assert limiter, "no limiter became active"
    return limiter


@check
def accepted_from_uplink() -> None:
    """A v1 message from the uplink cuts the VM's rate"""
    lab.shim.settings_set(law="sdngcc", key=KEY, knobs={"step-slow-ppm": 0})
    before = activate()
    marks = lab.stats("s1")["message_marks"]
    deliver(frame(encode_v1(message(marks=100), KEY)), "messages")
    after = lab.shim.limiters()[0]
    assert after.rate < before.rate and after.congested, f"{before} then {after}"
    equal(lab.stats("s1")["message_marks"] - marks, 100, "marks counted")


@check
def recovers() -> None:
    """After a second of silence the rate is the share again"""
    for _ in range(10):
        activate()
        time.sleep(0.1)
    limiter = activate()
    equal(limiter.rate, limiter.share, "rate")
    equal(limiter.congested, False, "congested")


def traced() -> None:
    """Tracepoints tell of a drop and its reason, the kernel's own too, of messages, and of the rate's change"""
    run(f"mountpoint -q {TRACING} || mount -t tracefs none {TRACING}")
    activate()
    lab.u.flush()
    run(f"cd {TRACING}; echo 1 > events/ovs_shim/enable; echo 1 > events/skb/kfree_skb/enable; echo > trace")
    lab.v1.send(ipv4(V1, U, bytes(96), protocol=PROTOCOL))
    equal(lab.u.receive(), None, "a VM's message")
    told = message(marks=100)
    deliver(frame(encode_v1(told, KEY)), "messages")
    deliver(frame(encode_v1(told, KEY)), "refused_replay")
    run(f"cd {TRACING}; echo 0 > events/ovs_shim/enable; echo 0 > events/skb/kfree_skb/enable")
    deliver(frame(encode_v1(message(), KEY)), "messages")
    text = run(f"cat {TRACING}/trace")
    # By name; reasons of openvswitch, of which the shim's are a part from 6.6 on, are numbers there.
    assert re.search(r"kfree_skb: .*reason: (UNHANDLED_PROTO|0x3[0-9a-f]{4})$", text, re.MULTILINE), text
    lines = [line.split(": ", 1)[1] for line in text.splitlines() if " ovs_shim_" in line]
    vm, uplink = ifindex("s1"), ifindex("s3")
    about = f"vm={vm} type=1 sender=1 sequence={told.sequence} marks=100 rate=0"
    for wanted in (f"ovs_shim_drop: vm={vm} bytes=130 reason=forged", f"ovs_shim_message: {about} verdict=obeyed",
                   f"ovs_shim_message: {about} verdict=replay"):
        equal(lines.count(wanted), 1, f"'{wanted}' in {lines}")
    equal(sum(line.startswith("ovs_shim_message") for line in lines), 2, "messages traced, none after the end")
    rates = [line for line in lines if line.startswith(f"ovs_shim_rate: vm={vm} uplink={uplink} old=")]
    old, rate = (int(word.split("=")[1]) for word in rates[0].split()[3:5])
    assert rate < old, rates[0]


# The kernel of experiments has no tracepoints; that of `make sanitize` has.
if os.path.isdir(TRACING):
    check(traced)


@check
def accepted_from_controller() -> None:
    """A packet-out at the VM's own bridge is obeyed"""
    before = lab.stats("s1")["messages"]
    rate = activate().rate
    data = frame(encode_v1(message(marks=100), KEY))
    run(f"ovs-ofctl packet-out {BRIDGE} in_port=CONTROLLER,packet={data.hex()},actions=output:1")
    equal(lab.stats("s1")["messages"] - before, 1, "messages")
    assert lab.shim.limiters()[0].rate < rate, "rate not cut"
    equal(lab.v1.receive(), None, "delivered to the VM")


@check
def accepted_ipv6() -> None:
    """A v1 message over IPv6 is obeyed"""
    lab.v1.send(ipv6(V1_6, U_6, udp(100)))
    time.sleep(0.001)
    data = encode_v1(message(vm=socket.inet_pton(socket.AF_INET6, V1_6)), KEY)
    deliver(ipv6(U_6, V1_6, data, protocol=PROTOCOL), "messages")


@check
def accepted_vlan() -> None:
    """A v1 message in a VLAN is obeyed"""
    lab.v1.send(ipv4(V1, U, udp(100), vlan=True))
    time.sleep(0.001)
    deliver(frame(encode_v1(message(), KEY), vlan=True), "messages")


@check
def padded() -> None:
    """Ethernet padding behind a message is no part of it"""
    deliver(frame(encode_v1(message(), KEY), total=116) + bytes(30), "messages")


@check
def refused_tag() -> None:
    """A wrong tag is refused"""
    deliver(frame(encode_v1(message(), bytes(15) + b"\x01")), "refused_tag")
    data = bytearray(encode_v1(message(), KEY))
    data[60] ^= 1
    deliver(frame(bytes(data)), "refused_tag")


@check
def refused_replay() -> None:
    """A message seen before is refused"""
    data = frame(encode_v1(message(), KEY))
    deliver(data, "messages")
    deliver(data, "refused_replay")


@check
def refused_address() -> None:
    """A message for another VM is refused"""
    other = message(vm=MAPPED + socket.inet_aton("10.9.0.77"))
    deliver(frame(encode_v1(other, KEY)), "refused_address")


@check
def refused_short() -> None:
    """Truncated messages are refused"""
    data = encode_v1(message(), KEY)
    deliver(frame(data[:95]), "refused_short")
    deliver(frame(b""), "refused_short")
    deliver(frame(data[:40], total=116), "refused_short")
    deliver(frame(data, total=10), "refused_short")


@check
def refused_form() -> None:
    """Malformed, fragmented and over-long messages are refused, and v0 while it is not accepted"""
    data = encode_v1(message(), KEY)
    deliver(frame(b"\x00" + data[1:]), "refused_form")
    deliver(frame(data + b"\x00"), "refused_form")
    deliver(frame(data, fragment=0x2000), "refused_form")
    deliver(frame(data, fragment=0x0010), "refused_form")
    deliver(frame(encode_v0(4)), "refused_form")
    deliver(ipv6(U_6, V1_6, data, protocol=PROTOCOL, extension=True), "refused_form")


@check
def accepted_v0() -> None:
    """v0 is obeyed once the operator accepts it"""
    lab.shim.settings_set(accept_v0=True)
    deliver(frame(encode_v0(4)), "messages")
    lab.shim.settings_set(accept_v0=False)


@check
def refused_without_key() -> None:
    """Without a key every v1 message is refused, even one under the all-zero key"""
    lab.shim.settings_set(key=bytes(16))
    equal(lab.shim.settings_get().key_set, False, "key_set")
    deliver(frame(encode_v1(message(), bytes(16))), "refused_tag")
    lab.shim.settings_set(key=KEY)


@check
def forged() -> None:
    """A VM's control message is dropped, to the uplink and to another VM"""
    lab.u.flush()
    data = encode_v1(message(), KEY)
    before = lab.stats("s1")["drop_forged"]
    frames = [ipv4(V1, U, data, protocol=PROTOCOL), ipv4(V1, U, data, protocol=PROTOCOL, vlan=True),
              ipv4(V1, U, data, protocol=PROTOCOL, fragment=0x2000),
              ipv6(V1_6, U_6, data, protocol=PROTOCOL), ipv6(V1_6, U_6, data, protocol=PROTOCOL, extension=True)]
    for one in frames:
        lab.v1.send(one)
    equal(lab.u.receive(), None, "reached the uplink")
    run(f"ovs-ofctl add-flow {BRIDGE} priority=99,in_port=1,actions=output:2")
    settle()
    lab.v2.flush()
    for one in frames:
        lab.v1.send(one)
    equal(lab.v2.receive(), None, "reached the other VM")
    equal(lab.stats("s1")["drop_forged"] - before, 2 * len(frames), "drop_forged")
    lab.route()


@check
def forged_behind_data() -> None:
    """A VM's control message that is ECT is dropped where a packet before it left slack in the bucket"""
    lab.u.flush()
    before = lab.stats("s1")["drop_forged"]
    control = ipv4(V1, U, encode_v1(message(), KEY), protocol=PROTOCOL, ecn=ECT_0)
    for _ in range(3):
        lab.v1.send(ipv4(V1, U, udp(100), ecn=ECT_0))
        lab.v1.send(control)
        assert lab.u.receive(), "data did not reach the uplink"
        equal(lab.u.receive(), None, "reached the uplink")
    equal(lab.stats("s1")["drop_forged"] - before, 3, "drop_forged")


@check
def explicit_rate() -> None:
    """A rate is obeyed under law maxmin, within guarantee and maximum, and refused under sdngcc or out of range"""
    deliver(frame(encode_v1(message(type=2, rate=1_000_000), KEY)), "refused_law")
    lab.shim.settings_set(law="maxmin")
    started = activate()
    equal(started.rate, started.share // 10, "rate at the start")
    deliver(frame(encode_v1(message(type=2, rate=1_000_000), KEY)), "messages")
    equal(lab.shim.limiters()[0].rate, 1_000_000, "rate told")
    lab.shim.port_set("s1", min_rate=2_000_000, max_rate=3_000_000)
    for told, wanted in ((1_000_000, 2_000_000), (2_500_000, 2_500_000), (10**11, 3_000_000)):
        deliver(frame(encode_v1(message(type=2, rate=told), KEY)), "messages")
        equal(lab.shim.limiters()[0].rate, wanted, f"rate when told {told}")
    lab.shim.port_set("s1", min_rate=0, max_rate=0)
    for rate in (0, 124, 10**11 + 1):
        deliver(frame(encode_v1(message(type=2, rate=rate), KEY)), "refused_form")
    deliver(frame(encode_v1(message(type=2, rate=1_000_000), KEY)), "messages")
    for _ in range(30):
        time.sleep(0.1)
        lab.v1.send(ipv4(V1, U, udp(400)))
    limiter = lab.shim.limiters()[0]
    equal(limiter.rate, limiter.share, "rate after three silent seconds")
    lab.shim.settings_set(law="sdngcc")


@check
def other_protocol() -> None:
    """Another protocol number moves the messages, and 253 passes as data"""
    lab.shim.settings_set(protocol=200)
    lab.v1.flush()
    lab.u.send(frame(b"data"))
    assert lab.v1.receive(), "253 not delivered"
    deliver(ipv4(U, V1, encode_v1(message(), KEY), protocol=200), "messages")
    lab.shim.settings_set(protocol=PROTOCOL)


@check
def key_unreadable() -> None:
    """The key cannot be read back"""
    assert KEY.hex() not in repr(lab.shim.settings_get())
    try:
        lab.shim.settings_set(key=b"short")
        raise AssertionError("a short key was accepted")
    except ShimRefused as refusal:
        assert "16 bytes" in str(refusal) or "32 hexadecimal digits" in str(refusal), refusal


main()
