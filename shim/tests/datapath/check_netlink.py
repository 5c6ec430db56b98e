# SPDX-License-Identifier: Apache-2.0
"""The netlink family: what it refuses, with which words, and that a refusal changes nothing."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import traceback
from functools import partial
from typing import Any, Callable, Type

from lab import Lab, check, equal, ifindex, links, main, namespace, run, settle
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg

from sdngcc.shim.attributes import PeerMessage, PortMessage, SettingsMessage
from sdngcc.shim.netlink import MESSAGE, PEER_GET, PORT_SET, SETTINGS_SET, ShimClient, ShimRefused, _packed
from sdngcc.testbed.virtual.namespaces import CLONE_NEWNET

CLONE_NEWUSER = 0x10000000

lab = Lab()
lab.shim.settings_set(law="sdngcc")


def state() -> object:
    """Return all that can be set."""
    ports = [(port.name, port.role, port.weight, port.min_rate, port.max_rate, port.capacity, port.overhead)
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
        ({"burst_us": 10_001}, "burst-us", "0 to 10000 us"),
        ({"horizon": 999}, "horizon", "1000 to 10000000000"),
        ({"inactive": 999_999}, "inactive", "1000000 to 3600000000000"),
        ({"protocol": 6}, "protocol", "143 to 254"),
        ({"key": bytes(15)}, "key", "16 bytes"),
        ({"key": bytes(17)}, "key", "16 bytes"),
        ({"peers_max": 0}, "peers-max", "1 to 1048576"),
        ({"peer_idle": 999_999}, "peer-idle", "1000000 to 3600000000000"),
        ({"key_other": bytes(15)}, "key-other", "16 bytes"),
        ({"codepoint": 2}, "codepoint", "0 and 1, for ECT(0) and ECT(1)"),
        ({"waiting_max": 15}, "waiting-max", "16 to 1048576 packets, or 0 for any number"),
        ({"waiting_max": 2**20 + 1}, "waiting-max", "16 to 1048576"),
        ({"law": "fair"}, "law", "none, static, sdngcc"),
        ({"of": "fair", "period": 0}, "law", "none, static, sdngcc"),
        ({"of": "static", "knobs": {"rmin-ppm": 1}}, "knob rmin-ppm", "law static has no such knob"),
        ({"knobs": {"nonsense": 1}}, "knob nonsense", "law sdngcc has no such knob"),
        ({"knobs": {"rmin-ppm": 1_000_001}}, "knob rmin-ppm", "0 to 1000000 ppm"),
    ]
    for values, *words in cases:
        refused(lambda given=values: lab.shim.settings_set(**given), *words, "what is in force stays")


@check
def settings_all_or_nothing() -> None:
    """One bad value among good ones changes nothing"""
    refused(lambda: lab.shim.settings_set(law="static", burst=200_000, knobs={"rate": 10**12}), "knob rate")
    refused(lambda: lab.shim.settings_set(burst_us=5000, knobs={"rmin-ppm": 5, "step-max-ppm": 10**7}), "step-max-ppm")


def grown(message: Type[genlmsg]) -> Type[genlmsg]:
    """Return a message of the next version: of a known one's attributes the plain ones, and one more, NEXT.

    It is not derived from that, for pyroute2 takes the attributes of what it has encoded before.
    """
    plain = ((name, kind if kind in ("asciiz", "uint32") else "none") for name, kind in message.nla_map)
    return type("Next", (genlmsg,), {"prefix": message.prefix,
                                     "nla_map": (*plain, (f"{message.prefix}NEXT", "uint32"))})


@check
def next_version() -> None:
    """What a newer user space asks for and this module does not know is refused as a whole, as is a new command"""
    settings = [("OVS_SHIM_SETTINGS_LAW", "static"), ("OVS_SHIM_SETTINGS_NEXT", 1)]
    port = [("OVS_SHIM_PORT_IFINDEX", ifindex("s1")), ("OVS_SHIM_PORT_WEIGHT", 9), ("OVS_SHIM_PORT_NEXT", 1)]
    refused(lambda: lab.shim._request(grown(SettingsMessage), SETTINGS_SET, settings), "Unknown attribute type")
    refused(lambda: lab.shim._request(grown(PortMessage), PORT_SET, port), "Unknown attribute type")
    try:
        lab.shim._request(SettingsMessage, MESSAGE + 1, [])
    except ShimRefused as refusal:
        equal(refusal.code, errno.EOPNOTSUPP, "error of an unknown command")
    else:
        raise AssertionError("an unknown command was accepted")


@check
def replaced() -> None:
    """A setting of earlier versions is refused by name, and by the name of what does its work"""
    for name, kind, value, successor in (("early", "uint64", 500_000, "ahead"), ("quantum", "uint32", 3028, "burst-us"),
                                         ("segment", "uint8", 1, "burst-us")):
        attribute = f"OVS_SHIM_SETTINGS_{name.upper()}"
        message = type("Old", (genlmsg,), {"prefix": SettingsMessage.prefix, "nla_map": tuple(
            (one, kind if one == attribute else "none") for one, _ in SettingsMessage.nla_map)})
        refused(partial(lab.shim._request, message, SETTINGS_SET, [(attribute, value)]),
                f"{name}: there is no such setting, {successor} does its work", "what is in force stays")


@check
def settings_change() -> None:
    """What is accepted can be read back; each law keeps its own period and knobs"""
    lab.shim.settings_set(period=1_000_000, limiter="police", burst=99_999, burst_us=2000, horizon=5_000_000,
                          ecn=False, inactive=2_000_000_000, protocol=199, accept_v0=True,
                          key=b"0123456789abcdef", knobs={"rmin-ppm": 7})
    got = lab.shim.settings_get()
    equal((got.period, got.limiter, got.burst, got.burst_us, got.horizon, got.ecn, got.inactive,
           got.protocol, got.accept_v0, got.key_set, got.knobs["rmin-ppm"].value),
          (1_000_000, "police", 99_999, 2000, 5_000_000, False, 2_000_000_000, 199, True, True, 7), "settings")
    lab.shim.settings_set(period=0)
    equal(lab.shim.settings_get().period, 5_000_000, "default period")
    lab.shim.settings_set(law="static")
    equal(list(lab.shim.settings_get().knobs), ["rate"], "knobs of static")
    lab.shim.settings_set(law="sdngcc", limiter="pace", burst=2097152, burst_us=100, horizon=10_000_000,
                          ecn=True, inactive=10**9, protocol=253, accept_v0=False, key=bytes(16))
    equal(lab.shim.settings_get().knobs["rmin-ppm"].value, 7, "knob of a law that was set aside")
    lab.shim.settings_set(knobs={"rmin-ppm": 10_000}, peers_max=77, peer_idle=5_000_000)
    got = lab.shim.settings_get()
    equal((got.peers_max, got.peer_idle), (77, 5_000_000), "peers")
    lab.shim.settings_set(peers_max=4096, peer_idle=10**10)
    lab.shim.settings_set(codepoint=0, waiting_max=16, ahead=True, key_other=b"fedcba9876543210")
    got = lab.shim.settings_get()
    equal((got.codepoint, got.waiting_max, got.ahead, got.key_other_set, got.other_key_senders),
          (0, 16, True, True, {}), "new settings")
    lab.shim.settings_set(codepoint=1, waiting_max=0, ahead=False, key_other=bytes(16))
    got = lab.shim.settings_get()
    equal((got.codepoint, got.waiting_max, got.ahead, got.key_other_set), (1, 0, False, False),
          "new settings taken back")
    lab.shim.settings_set(waiting_max=1024)


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
    refused(lambda: port_set("s3", overhead=1001), "overhead", "1 to 1000")
    refused(lambda: port_set("s1", overhead=24), "only for an uplink")
    refused(lambda: port_set("lo", role="vm"), "lo", "no port of a datapath")
    refused(lambda: port_set(9999, role="vm"), "9999", "no port of a datapath")
    lab.shim.port_del("s2")
    refused(lambda: port_set("s2", weight=2), "role")
    refused(lambda: lab.shim.port_del("s2"), "s2 has no role")
    lab.shim.port_set(ifindex("s2"), role="vm")
    equal(lab.shim.port_get("s2").weight, 1, "default weight")
    equal(lab.shim.port_get("s3").overhead, 24, "overhead of Ethernet")
    for overhead, in_force in ((94, 94), (None, 94), (0, 24)):
        port_set("s3", overhead=overhead, capacity=125_000_000)
        equal(lab.shim.port_get("s3").overhead, in_force, f"overhead set to {overhead}")


@check
def addresses() -> None:
    """Addresses can be set, read and taken back; what is no range of addresses is refused"""
    some = ("10.0.0.0/8", "10.9.0.1", "fd00::/64", "fd09::1", "::/0", "0.0.0.0/0")
    lab.shim.port_set("s1", addresses=some)
    equal(lab.shim.port_get("s1").addresses, some, "addresses")
    lab.shim.port_set("s1", weight=2)
    equal(lab.shim.port_get("s1").addresses, some, "addresses after another change")
    refused(lambda: lab.shim.port_set("s3", addresses=["10.0.0.1"]), "addresses", "only for a vm")

    def raw(*nests: list[tuple[str, object]]) -> Callable[[], object]:
        """Return a request whose addresses are these nests."""
        value = {"attrs": [("OVS_SHIM_ADDRESSES_ADDRESS", {"attrs": nest}) for nest in nests]}
        return lambda: lab.shim._request(PortMessage, PORT_SET, [("OVS_SHIM_PORT_NAME", "s1"),
                                                                 ("OVS_SHIM_PORT_ADDRESSES", value)])

    whole, mapped = bytes(15) + b"\1", bytes(10) + b"\xff\xff" + bytes(4)
    refused(raw([("OVS_SHIM_ADDRESS_VALUE", whole), ("OVS_SHIM_ADDRESS_PREFIX", 127)]), "::1", "first 127", "stays")
    refused(raw([("OVS_SHIM_ADDRESS_VALUE", mapped), ("OVS_SHIM_ADDRESS_PREFIX", 95)]), "first 95")
    refused(raw([("OVS_SHIM_ADDRESS_VALUE", whole), ("OVS_SHIM_ADDRESS_PREFIX", 129)]), "addresses", "0 to 128 bits")
    refused(raw([("OVS_SHIM_ADDRESS_VALUE", bytes(4)), ("OVS_SHIM_ADDRESS_PREFIX", 32)]), "exactly 16 bytes")
    refused(raw([("OVS_SHIM_ADDRESS_VALUE", whole)]), "addresses", "a value and a prefix")
    many = tuple(f"10.1.{number // 200}.{number % 200 + 1}" for number in range(257))
    refused(lambda: lab.shim.port_set("s1", addresses=many), "257", "0 to 256")
    lab.shim.port_set("s1", addresses=many[:256])
    equal([port.addresses for port in lab.shim.ports()], [many[:256], (), ()], "addresses in a dump")
    lab.shim.port_set("s1", addresses=())
    equal(lab.shim.port_get("s1").addresses, (), "addresses taken back")
    lab.roles()


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
    """Without CAP_NET_ADMIN settings cannot be set"""
    pid = os.fork()
    if not pid:
        os.setuid(65534)
        with ShimClient() as client:
            try:
                client.settings_set(law="none")
            except ShimRefused as refusal:
                os._exit(refusal.code)
        os._exit(0)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), errno.EPERM, "exit status")


@check
def privilege_to_read() -> None:
    """Without CAP_NET_ADMIN nothing can be read either, be it asked for or dumped"""
    pid = os.fork()
    if not pid:
        os.setuid(65534)
        allowed = 0
        with ShimClient() as client:
            for number, ask in enumerate((client.settings_get, lambda: client.port_get("s1"), client.ports,
                                          client.limiters, client.peers)):
                try:
                    ask()
                    allowed |= 1 << number
                except ShimRefused as refusal:
                    allowed |= (refusal.code != errno.EPERM) << number
        os._exit(allowed)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "what was not refused, one bit each")


@check
def user_namespace() -> None:
    """Who owns but a user namespace may not ask the host for short periods or many peers"""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "unshare")
            with ShimClient() as client:
                client.settings_set(law="sdngcc", period=1_000_000, peers_max=65_536)
                for values, *words in (({"period": 999_999}, "period", "1000000 to 10000000000 ns"),
                                       ({"peers_max": 65_537}, "peers-max", "1 to 65536 peers")):
                    try:
                        client.settings_set(**values)
                        raise AssertionError(f"accepted {values}")
                    except ShimRefused as refusal:
                        for word in (*words, "outside the initial user namespace", "what is in force stays"):
                            assert word in str(refusal), f"'{word}' is not in: {refusal}"
                got = client.settings_get()
                equal((got.period, got.peers_max), (1_000_000, 65_536), "what is in force there")
                equal(client.settings_get(of="eyeq").period, 1_000_000, "period of a law whose own one is shorter")
                client.settings_set(of="eyeq", period=0)
                equal(client.settings_get(of="eyeq").period, 1_000_000, "the same by default")
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        os._exit(status)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "exit status")


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
def dump_many() -> None:
    """A dump longer than one message has every port once"""
    names = [f"m{number}" for number in range(100)]
    links(*(f"link add {name} type dummy" for name in names))
    run("ovs-vsctl" + "".join(f" -- add-port br0 {name}" for name in names))
    for name in names:
        lab.shim.port_set(name, role="vm", weight=3)
    got = [port.name for port in lab.shim.ports()]
    equal(sorted(got), sorted([*names, "s1", "s2", "s3"]), "names")
    links(*(f"link del {name}" for name in names))
    settle()
    equal(len(lab.shim.ports()), 3, "ports after their devices went")


@check
def dump_peers() -> None:
    """A dump of peers longer than one message has every peer once, and those of one VM alone if it is named"""
    lab.shim.settings_set(law="hygenicc")
    wanted = {device: {f"10.{1 + (device == 's2')}.{number // 250}.{number % 250 + 1}" for number in range(700)}
              for device in ("s1", "s2")}
    for device, remotes in wanted.items():
        for address in remotes:
            lab.shim.peer_set(device, address, 5)
    got = [(peer.vm, peer.address, peer.weight) for peer in lab.shim.peers()]
    equal(len(got), 1400, "number of peers")
    every = {(ifindex(device), address, 5) for device, remotes in wanted.items() for address in remotes}
    equal(set(got) ^ every, set(), "peers missing or wrong")
    for name in (("OVS_SHIM_PEER_VM", ifindex("s2")), ("OVS_SHIM_PEER_VM_NAME", "s2")):
        dumped = lab.shim._request(PeerMessage, PEER_GET, [name], NLM_F_REQUEST | NLM_F_DUMP)
        equal(len(dumped), 700, f"number of peers by {name[0]}")
        told = {message.get_attr("OVS_SHIM_PEER_ADDRESS") for message in dumped}
        equal(told ^ set(map(_packed, wanted["s2"])), set(), f"peers of s2 missing or wrong by {name[0]}")
    for address in wanted["s2"]:
        lab.shim.peer_del("s2", address)
    equal({peer.vm for peer in lab.shim.peers()}, {ifindex("s1")}, "VMs with peers")
    lab.roles()
    equal(lab.shim.peers(), [], "peers of VMs that are no more")


main()
