# SPDX-License-Identifier: Apache-2.0
"""The netlink family: what it refuses, with which words, and that a refusal changes nothing."""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
from typing import Any, Callable

from lab import Lab, check, equal, ifindex, main, namespace, run, settle

from sdngcc.shim.netlink import ShimClient, ShimRefused

lab = Lab()
lab.shim.settings_set(law="sdngcc")


def state() -> object:
    """Return all that can be set."""
    ports = [(port.name, port.role, port.weight, port.min_rate, port.max_rate, port.capacity)
             for port in lab.shim.ports()]
    return lab.shim.settings_get(), ports


def refused(action: Callable[[], object], *words: str) -> None:
    """Check that an action is refused with these words and changes nothing."""
    before = state()
    try:
        action()
    except ShimRefused as refusal:
        for word in words:
            assert word in str(refusal), f"'{word}' is not in: {refusal}"
    else:
        raise AssertionError("accepted")
    equal(state(), before, "state after a refusal")


@check
def settings_ranges() -> None:
    """Settings out of range are refused with name, range and what stays"""
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"period": 49_999}, "period", "50000 to 10000000000"),
        ({"period": 10**10 + 1}, "period", "50000 to 10000000000"),
        ({"burst": 1513}, "burst", "1514 to 1073741824"),
        ({"quantum": 2**30 + 1}, "quantum", "1514 to 1073741824"),
        ({"horizon": 999}, "horizon", "1000 to 10000000000"),
        ({"inactive": 999_999}, "inactive", "1000000 to 3600000000000"),
        ({"protocol": 6}, "protocol", "143 to 254"),
        ({"key": bytes(15)}, "key", "16 bytes"),
        ({"key": bytes(17)}, "key", "16 bytes"),
        ({"peers_max": 0}, "peers-max", "1 to 1048576"),
        ({"peer_idle": 999_999}, "peer-idle", "1000000 to 3600000000000"),
        ({"law": "fair"}, "law", "none, static, sdngcc"),
        ({"of": "fair", "period": 0}, "law", "none, static, sdngcc"),
        ({"of": "static", "knobs": {"rmin-ppm": 1}}, "knob rmin-ppm", "law static has no such knob"),
        ({"knobs": {"nonsense": 1}}, "knob nonsense", "law sdngcc has no such knob"),
        ({"knobs": {"rmin-ppm": 1_000_001}}, "knob rmin-ppm", "0 to 1000000 ppm"),
        ({"limiter": "police", "segment": False, "burst": 60_000}, "burst", "needs 80000"),
    ]
    for values, *words in cases:
        refused(lambda given=values: lab.shim.settings_set(**given), *words, "what is in force stays")


@check
def settings_all_or_nothing() -> None:
    """One bad value among good ones changes nothing"""
    refused(lambda: lab.shim.settings_set(law="static", burst=200_000, knobs={"rate": 10**12}), "knob rate")
    refused(lambda: lab.shim.settings_set(quantum=5000, knobs={"rmin-ppm": 5, "step-max-ppm": 10**7}), "step-max-ppm")


@check
def settings_change() -> None:
    """What is accepted can be read back; each law keeps its own period and knobs"""
    lab.shim.settings_set(period=1_000_000, limiter="police", burst=99_999, quantum=2000, horizon=5_000_000,
                          segment=False, ecn=False, inactive=2_000_000_000, protocol=199, accept_v0=True,
                          key=b"0123456789abcdef", knobs={"rmin-ppm": 7})
    got = lab.shim.settings_get()
    equal((got.period, got.limiter, got.burst, got.quantum, got.horizon, got.segment, got.ecn, got.inactive,
           got.protocol, got.accept_v0, got.key_set, got.knobs["rmin-ppm"].value),
          (1_000_000, "police", 99_999, 2000, 5_000_000, False, False, 2_000_000_000, 199, True, True, 7), "settings")
    lab.shim.settings_set(period=0)
    equal(lab.shim.settings_get().period, 5_000_000, "default period")
    lab.shim.settings_set(law="static")
    equal(list(lab.shim.settings_get().knobs), ["rate"], "knobs of static")
    lab.shim.settings_set(law="sdngcc", limiter="pace", burst=2097152, quantum=3028, horizon=10_000_000, segment=True,
                          ecn=True, inactive=10**9, protocol=253, accept_v0=False, key=bytes(16))
    equal(lab.shim.settings_get().knobs["rmin-ppm"].value, 7, "knob of a law that was set aside")
    lab.shim.settings_set(knobs={"rmin-ppm": 10_000}, peers_max=77, peer_idle=5_000_000)
    got = lab.shim.settings_get()
    equal((got.peers_max, got.peer_idle), (77, 5_000_000), "peers")
    lab.shim.settings_set(peers_max=4096, peer_idle=10**10)


@check
def port_ranges() -> None:
    """Port values out of range, of the wrong role or for no port are refused"""
    port_set = lab.shim.port_set
    refused(lambda: port_set("s1", weight=0), "weight", "1 to 65535", "what is in force stays")
    refused(lambda: port_set("s1", weight=65536), "weight", "1 to 65535")
    refused(lambda: port_set("s1", min_rate=124), "min-rate", "125 to 100000000000")
    refused(lambda: port_set("s1", max_rate=10**11 + 1), "max-rate", "125 to 100000000000")
    refused(lambda: port_set("s3", capacity=1), "capacity", "125 to 100000000000")
    refused(lambda: port_set("s1", min_rate=2000, max_rate=1000), "max-rate", "1000", "2000")
    refused(lambda: port_set("s3", weight=2), "only for a vm")
    refused(lambda: port_set("s3", law="static"), "only for a vm")
    refused(lambda: port_set("s1", law="fair"), "law", "none, static, sdngcc")
    refused(lambda: port_set("s1", capacity=10**6), "only for an uplink")
    refused(lambda: port_set("lo", role="vm"), "lo", "no port of a datapath")
    refused(lambda: port_set(9999, role="vm"), "9999", "no port of a datapath")
    lab.shim.port_del("s2")
    refused(lambda: port_set("s2", weight=2), "role")
    refused(lambda: lab.shim.port_del("s2"), "s2 has no role")
    lab.shim.port_set(ifindex("s2"), role="vm")
    equal(lab.shim.port_get("s2").weight, 1, "default weight")


@check
def guarantees() -> None:
    """Guarantees that sum above an uplink's capacity are refused with both numbers"""
    lab.shim.port_set("s1", min_rate=75_000_000)
    refused(lambda: lab.shim.port_set("s2", min_rate=50_000_001), "125000001", "125000000", "s3")
    lab.shim.port_set("s2", min_rate=50_000_000)
    refused(lambda: lab.shim.port_set("s3", capacity=124_999_999), "125000000", "124999999", "s3")
    lab.shim.port_set("s3", capacity=0)
    equal(lab.shim.port_get("s3").capacity, 0, "capacity by link speed")
    lab.roles()


@check
def roles_change() -> None:
    """A port can change its role, and lose it in both ways"""
    lab.shim.port_set("s2", role="uplink", capacity=10**7)
    equal(lab.shim.port_get("s2").role, "uplink", "role")
    lab.shim.port_set("s2", role="none")
    equal([port.name for port in lab.shim.ports()], ["s1", "s3"], "ports")
    lab.roles()


@check
def privilege() -> None:
    """Without CAP_NET_ADMIN settings can be read and not set"""
    pid = os.fork()
    if not pid:
        os.setuid(65534)
        with ShimClient() as client:
            client.settings_get()
            try:
                client.settings_set(law="none")
            except ShimRefused as refusal:
                os._exit(refusal.code)
        os._exit(0)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), errno.EPERM, "exit status")


@check
def other_namespace() -> None:
    """Another namespace has its own settings and cannot see these ports"""
    with namespace("u"), ShimClient() as client:
        equal(client.settings_get().law, "none", "law there")
        equal(client.ports(), [], "ports there")
        client.settings_set(law="static")
        try:
            client.port_set("e3", role="vm")
            raise AssertionError("accepted a device that is no port there")
        except ShimRefused:
            pass
    equal(lab.shim.settings_get().law, "sdngcc", "law here")


@check
def fuzz() -> None:
    """Ten thousand random requests break nothing"""
    chance = random.Random(1)
    raw = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)  # type: ignore[attr-defined]
    raw.bind((0, 0))
    raw.settimeout(1)
    family = lab.shim._socket.prid
    known = [(kind, size) for kind in range(1, 18) for size in (0, 1, 4, 8, 16)]
    for number in range(10_000):
        attrs = b""
        for _ in range(chance.randrange(4)):
            kind, size = chance.choice(known)
            value = chance.choice([bytes(size), chance.randbytes(size), b"s1\0", b"static\0",
                                   struct.pack("=HHI", 8, 1, chance.randrange(9))])
            length = 4 + len(value) if chance.random() < 0.9 else chance.randrange(40)
            attrs += struct.pack("=HH", length, kind | chance.choice((0, 0, 0x8000))) + value + bytes(-len(value) % 4)
        body = struct.pack("=BBH", chance.choice((2, 4, 5)), 1, 0) + attrs
        raw.send(struct.pack("=IHHII", 16 + len(body), family, 5, number, 0) + body)
        raw.recv(65536)
    raw.close()
    lab.shim.settings_set(law="none")
    lab.shim.settings_get()
    lab.roles()


@check
def dump_many() -> None:
    """A dump longer than one message has every port once"""
    names = [f"m{number}" for number in range(100)]
    for name in names:
        run(f"ip link add {name} type dummy")
    run("ovs-vsctl" + "".join(f" -- add-port br0 {name}" for name in names))
    for name in names:
        lab.shim.port_set(name, role="vm", weight=3)
    got = [port.name for port in lab.shim.ports()]
    equal(sorted(got), sorted([*names, "s1", "s2", "s3"]), "names")
    for name in names:
        run(f"ip link del {name}")
    settle()
    equal(len(lab.shim.ports()), 3, "ports after their devices went")


main()
