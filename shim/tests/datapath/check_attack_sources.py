# SPDX-License-Identifier: Apache-2.0
"""Attacks by source address: ones that no host can have, and ones that are another's."""

from __future__ import annotations

import time
from typing import Iterator, List, Tuple

from control import KEY, frame, grant
from lab import NOT_ECT, U_6, V1, V1_6, V2, Lab, U, Wire, check, equal, frames, ipv4, ipv6, main, reserved_of, udp

V2_6 = "fd09::2"
DF, RESERVED = 0x4000, 0x8000
# Sources that no host can have, to a destination that one has.
IMPOSSIBLE = ("0.0.0.0", "127.0.0.1", "127.9.9.9", "224.0.0.1", "239.255.255.250", "255.255.255.255")
IMPOSSIBLE_6 = ("::", "::1", "ff02::1", "ff0e::9", "::ffff:10.9.0.1")
# Packets of a host that has no address yet.
NEWCOMERS = (("0.0.0.0", "255.255.255.255"), ("0.0.0.0", "224.0.0.22"), ("::", "ff02::1:ff00:1"), ("::", "ff02::16"))
LAWS = ("static", "sdngcc", "hygenicc", "eyeq", "scc", "seawall", "vcc")
IDLE_S = 10  # after which an address may be another's
lab = Lab()
lab.shim.settings_set(key=KEY)


def packet(source: str, destination: str, vlan: bool = False, size: int = 100, flags: int = DF) -> bytes:
    """Return a frame with UDP, or what speaks IPv6."""
    if ":" in source:
        return ipv6(source, destination, udp(size), vlan=vlan)
    return ipv4(source, destination, udp(size), vlan=vlan, fragment=flags)


def arrives(source: str, destination: str = U, wire: Wire = lab.v1, vlan: bool = False) -> bool:
    """Let a VM send a packet and tell whether it leaves by the uplink."""
    lab.u.flush()
    wire.send(packet(source, U_6 if ":" in source and destination == U else destination, vlan))
    return lab.u.receive() is not None


def spaced(data: List[bytes], wire: Wire = lab.v1, gap_s: float = 0.0001) -> int:
    """Let a VM send frames with a gap after each and return how many left by the uplink."""
    lab.u.flush()
    for one in data:
        wire.send(one)
        time.sleep(gap_s)
    return len(frames(lab.u))


def ends() -> Iterator[Tuple[str, str]]:
    """Return each impossible source with a destination of its family."""
    for source in IMPOSSIBLE:
        yield source, U
    for source in IMPOSSIBLE_6:
        yield source, U_6


@check
def impossible() -> None:
    """A source that no host can have is dropped and counted, whatever the law, with a VLAN tag and without"""
    for law in LAWS:
        lab.fresh(law)
        assert arrives(V1), f"{law}: a packet of the VM's own"
        for source, destination in ends():
            for vlan in (False, True):
                with lab.counted("s1", drop_source=1, tx_packets=0):
                    equal(arrives(source, destination, vlan=vlan), False, f"{law}: {source} left, VLAN tag {vlan}")


@check
def impossible_peers() -> None:
    """Such a source neither passes the limit of the rate to a peer nor makes a peer"""
    lab.fresh("eyeq", limiter="police", burst=3028)
    assert arrives(V1), "a packet of the VM's own"
    with lab.counted("s1", reports=1):
        lab.u.send(frame(grant(1_000_000)))
        time.sleep(0.01)
    for source in IMPOSSIBLE:
        equal(spaced([packet(source, U, size=1400)] * 20), 0, f"packets from {source} of 20")
    equal([one.address for one in lab.shim.peers()], [U], "peers")


@check
def any_source() -> None:
    """Whatever of its possible sources a VM sends from, one destination is one peer and has one rate"""
    lab.fresh("eyeq", limiter="police", burst=3028)
    assert arrives(V1), "a packet of the VM's own"
    with lab.counted("s1", reports=1):
        lab.u.send(frame(grant(1_000_000)))
        time.sleep(0.01)
    own = [f"10.9.1.{number}" for number in range(10)]
    for source in own:
        assert arrives(source), "the first packet from there"
        lab.u.send(ipv4(U, source, udp(100)))
        time.sleep(0.01)
    # 20 ms at 1 MB/s are 14 packets, the bucket is two.
    left = spaced([packet(own[number % 10], U, size=1400) for number in range(200)])
    assert 5 <= left <= 25, f"{left} packets of 200 left"
    equal([one.address for one in lab.shim.peers()], [U], "peers")


@check
def newcomers() -> None:
    """DHCP, IGMP, MLD and duplicate address detection pass without an address"""
    for law in LAWS:
        lab.fresh(law)
        for source, destination in NEWCOMERS:
            with lab.counted("s1", drop_source=0, drop_spoofed=0, tx_packets=1):
                assert arrives(source, destination), f"{law}: {source} to {destination} did not leave"


@check
def newcomers_bound() -> None:
    """What passes without an address has the rate of what nobody answers"""
    lab.fresh("hygenicc", limiter="police", burst=3028)
    lab.shim.port_set("s1", max_rate=1_000_000)
    for source, destination in NEWCOMERS[::2]:
        lab.v1.send(packet(V1, U))
        time.sleep(0.1)
        # 50 ms at 125 kB/s are 6 packets of 1034 bytes, the bucket is three.
        left = spaced([packet(source, destination, size=1000)] * 50, gap_s=0.001)
        assert 4 <= left <= 11, f"{source}: {left} of 50 left"


@check
def newcomers_silent() -> None:
    """What passes without an address, or to a group, carries no reserved bit of the guest's making"""
    for law in ("hygenicc", "scc", "seawall"):
        lab.fresh(law)
        for source, destination in (("0.0.0.0", "255.255.255.255"), (V1, "255.255.255.255"), (V1, "224.0.0.1")):
            lab.u.flush()
            lab.v1.send(packet(source, destination, flags=DF | RESERVED))
            got = lab.u.receive()
            assert got, f"{law}: {source} to {destination} did not leave"
            equal(reserved_of(got), 0, f"{law}: reserved bit, {source} to {destination}")


@check
def silent_at_the_receiver() -> None:
    """The reserved bit of a packet from a source that no host can have reaches no VM"""
    for law in ("hygenicc", "scc", "seawall"):
        lab.fresh(law)
        assert arrives(V1), "a packet of the VM's own"
        for source, destination in (*((one, V1) for one in IMPOSSIBLE), ("0.0.0.0", "255.255.255.255"),
                                    (U, "255.255.255.255"), (U, "224.0.0.1")):
            lab.v1.flush()
            lab.u.send(packet(source, destination, flags=DF | RESERVED))
            got = lab.v1.receive()
            assert got or source in IMPOSSIBLE and destination == V1, f"{law}: {source} to {destination} was lost"
            equal(reserved_of(got) if got else 0, 0, f"{law}: reserved bit, {source} to {destination}")


def begin(law: str = "sdngcc") -> None:
    """Let v2 own its addresses by sending from them, under a law."""
    lab.fresh(law)
    for source in (V2, V2_6):
        assert arrives(source, wire=lab.v2), f"{source} by its owner"


def refused(source: str, device: str = "s1", wire: Wire = lab.v1) -> None:
    """Check that a VM's packet from a source is dropped and counted, and changes no ECN field or peer."""
    with lab.counted(device, drop_spoofed=1, tx_packets=0, drop_source=0):
        equal(arrives(source, wire=wire), False, f"from {source} left")


@check
def owned() -> None:
    """What another port was seen to own is dropped and counted; the owner goes on, and so does who owns another"""
    for law in ("static", "sdngcc", "hygenicc", "vcc"):
        begin(law)
        for source, own in ((V2, V1), (V2_6, V1_6)):
            assert arrives(own), f"{law}: {own}"
            refused(source)
            assert arrives(source, wire=lab.v2), f"{law}: {source} by its owner"
            assert arrives(own), f"{law}: {own} after it"


@check
def owned_quickly() -> None:
    """It is dropped where a packet before it left slack in the bucket, too, and is ECT already"""
    begin("static")
    for source, own in ((V2, V1), (V2, V1), (V2_6, V1_6)):
        make, to = (ipv6, U_6) if ":" in source else (ipv4, U)
        lab.u.flush()
        with lab.counted("s1", drop_spoofed=1, tx_packets=2):
            for one in (own, source, own):
                lab.v1.send(make(one, to, udp(100), ecn=2))
            equal(len(frames(lab.u)), 2, "frames that left of three")


@check
def owned_there() -> None:
    """The same address in another VLAN is another's"""
    begin()
    assert arrives(V2, vlan=True), "v2's address in a VLAN"
    with lab.counted("s2", drop_spoofed=1):
        equal(arrives(V2, wire=lab.v2, vlan=True), False, "v2 in that VLAN left")
    refused(V2)


@check
def lapses() -> None:
    """An address is owned for ten seconds after its owner's last packet, and not by those who try meanwhile"""
    begin()
    for _ in range(3):
        time.sleep(IDLE_S / 3 - 0.2)
        refused(V2)
    time.sleep(2)
    assert arrives(V2), "ten seconds after the owner's last packet"
    with lab.counted("s2", drop_spoofed=1):
        equal(arrives(V2, wire=lab.v2), False, "the owner before left")


@check
def lives() -> None:
    """An address whose owner sends stays owned"""
    begin()
    for _ in range(6):
        time.sleep(IDLE_S / 3)
        assert arrives(V2, wire=lab.v2), "the owner"
        refused(V2)


@check
def freed() -> None:
    """A port that goes frees its addresses at once"""
    begin()
    refused(V2)
    lab.shim.port_del("s2")
    assert arrives(V2), "after the owner's port was taken back"
    lab.shim.port_set("s2", role="vm")
    with lab.counted("s2", drop_spoofed=1):
        equal(arrives(V2, wire=lab.v2), False, "the owner before left")
    lab.roles()


@check
def squatted() -> None:
    """A VM that sends from 20,000 addresses takes none that is owned, and owns no more than it may"""
    begin()
    for number in range(20_000):
        lab.v1.send(packet(f"10.9.{number >> 8}.{number & 255}", U))
    time.sleep(0.1)
    assert arrives(V2, wire=lab.v2), "the owner"
    refused(V2)
    others = [f"10.9.{number}.77" for number in range(0, 78, 8)]
    left = sum(arrives(source, wire=lab.v2) for source in others)
    assert left >= len(others) // 2, f"of {len(others)} addresses that v1 sent from once v2 may use {left}"


@check
def set_only() -> None:
    """A port with addresses set sends from those only, at once; they can be read, replaced and taken back"""
    lab.fresh("sdngcc")
    assert arrives("10.9.3.3"), "nothing set"
    lab.shim.port_set("s1", addresses=[V1, "10.9.1.0/24", "fd09::/64"])
    equal(lab.shim.port_get("s1").addresses, (V1, "10.9.1.0/24", "fd09::/64"), "addresses")
    for source in (V1, "10.9.1.0", "10.9.1.255", V1_6, "fd09::ffff:ffff:ffff:ffff"):
        assert arrives(source), f"{source} is set"
    for source in ("10.9.3.3", V2, "10.9.2.0", "10.9.0.255", "fd09:0:0:1::1", "fe80::1"):
        refused(source)
    for source, destination in NEWCOMERS:
        assert arrives(source, destination), f"{source} to {destination}"
    lab.shim.port_set("s1", weight=2)
    refused("10.9.3.3")
    lab.shim.port_set("s1", addresses=["10.9.3.3"])
    assert arrives("10.9.3.3"), "set now"
    refused(V1)
    lab.shim.port_set("s1", addresses=[])
    equal(lab.shim.port_get("s1").addresses, (), "addresses, none set")
    assert arrives(V1), "none is set"


@check
def set_owned() -> None:
    """An address that is set is owned by its port in silence, and taken from whoever was seen with it"""
    lab.fresh("sdngcc")
    assert arrives(V2), "v1 with an address that nobody owns"
    lab.shim.port_set("s2", addresses=[V2])
    refused(V2)
    assert arrives(V2, wire=lab.v2), "the owner"
    time.sleep(2 * IDLE_S)
    refused(V2)
    lab.shim.port_set("s2", addresses=[])
    time.sleep(2 * IDLE_S)
    assert arrives(V2), "no longer set"


@check
def set_refused() -> None:
    """Addresses are refused of an uplink and with bits beyond the prefix, and then nothing changes"""
    from sdngcc.shim.attributes import PortMessage
    from sdngcc.shim.netlink import PORT_SET, ShimRefused

    lab.fresh("sdngcc")
    lab.shim.port_set("s1", addresses=[V1])
    value = bytes(10) + b"\xff\xff" + bytes([10, 9, 0, 1])

    def ask(device: str, *address: Tuple[str, object]) -> None:
        nests = [("OVS_SHIM_ADDRESSES_ADDRESS", {"attrs": list(address)})]
        lab.shim._request(PortMessage, PORT_SET, [("OVS_SHIM_PORT_NAME", device),
                                                  ("OVS_SHIM_PORT_ADDRESSES", {"attrs": nests})])

    whole = ("OVS_SHIM_ADDRESS_VALUE", value)
    cases = {
        "only for a vm": ("s3", (whole, ("OVS_SHIM_ADDRESS_PREFIX", 128))),
        "prefix": ("s1", (whole, ("OVS_SHIM_ADDRESS_PREFIX", 129))),
        "address": ("s1", (("OVS_SHIM_ADDRESS_VALUE", value[:15]), ("OVS_SHIM_ADDRESS_PREFIX", 120))),
        "addresses": ("s1", (whole, ("OVS_SHIM_ADDRESS_PREFIX", 120))),
    }
    for word, (device, address) in cases.items():
        try:
            ask(device, *address)
        except ShimRefused as refusal:
            assert word in str(refusal) and "what is in force stays" in str(refusal), f"'{word}' in: {refusal}"
        else:
            raise AssertionError(f"accepted: {word}")
    equal(lab.shim.port_get("s1").addresses, (V1,), "addresses")


@check
def other_traffic() -> None:
    """What is no IP has no source address, and passes a port with addresses set"""
    lab.fresh("sdngcc")
    lab.shim.port_set("s1", addresses=[V1])
    arp = ipv4(V1, U, udp(100), ecn=NOT_ECT)[:12] + b"\x08\x06" + bytes.fromhex("0001080006040001") + bytes(20)
    lab.u.flush()
    lab.v1.send(arp)
    equal(lab.u.receive(), arp, "ARP")


main()
