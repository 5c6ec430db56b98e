# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames: what forwarding needs to know of one, the LLDP frames of discovery, control messages.

Addresses of hosts are 16 bytes everywhere, IPv4 as ::ffff:a.b.c.d.
"""

import struct
from typing import NamedTuple, Optional

from sdngcc.controller.wire.siphash import siphash24

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
ETH_IPV6 = 0x86DD
ETH_LLDP = 0x88CC
ETH_VLAN = 0x8100
VLAN_MAX = 0xFFF
_ETH_VLANS = (0x8100, 0x88A8)
_MAPPED = bytes(10) + b"\xff\xff"
UNSPECIFIED = bytes(16)  # ::, the address of no host; in a control message, whoever is behind its port
_LLDP_MAC = b"\x01\x80\xc2\x00\x00\x0e"
_LLDP_OUI = b"\x02\x53\x47"

_IPPROTO_ICMPV6 = 58
_IPPROTO_FRAGMENT = 44
_IPPROTO_AH = 51
# Extension headers that give their own length in units of 8 bytes, without the first.
_IPV6_OPTIONS = (0, 43, 60, 135, 139, 140)
_ND_SOLICITATION = 135
_ND_ADVERTISEMENT = 136


class Frame(NamedTuple):
    """What forwarding needs to know of a frame."""

    dst: bytes  # 6 bytes
    src: bytes  # 6 bytes
    ethertype: int  # behind any VLAN tags
    source: Optional[bytes] = None  # address the sender claims, 16 bytes
    target: Optional[bytes] = None  # address asked for by ARP or ND, or IP destination
    resolving: bool = False  # an ARP request or neighbour solicitation
    control: bool = False  # a control message, or an IP packet too broken to tell
    ip: bool = False  # an IP packet
    vlan: int = 0  # in its outermost 802.1Q header; 0: it has none, or one for its priority only

    @property
    def multicast(self) -> bool:
        """Whether the destination is a group, broadcast included."""
        return bool(self.dst[0] & 1)


def mapped(address: bytes) -> bytes:
    """Return a 4-byte address as the 16 bytes of its IPv4-mapped form."""
    return _MAPPED + address


def link_local(mac: bytes) -> bytes:
    """Return the IPv6 address that an Ethernet address gives a host on its link (RFC 4291, appendix A)."""
    return b"\xfe\x80" + bytes(6) + bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]


def is_ipv4(address: bytes) -> bool:
    """Tell whether 16 bytes are an IPv4-mapped address."""
    return address.startswith(_MAPPED)


def _usable(address: bytes) -> Optional[bytes]:
    """Return an address that can belong to a host, or None for unspecified, multicast and broadcast ones."""
    if is_ipv4(address):
        return None if address[12] in (0, 127) or address[12] >= 224 else address
    return None if address[0] == 0xFF or not any(address[:15]) else address


def parse_frame(data: bytes, protocol: int) -> Optional[Frame]:
    """Return what matters of a frame, or None when it is too short to have a header.

    ``protocol`` is the IP protocol of control messages.  An IP packet whose headers cannot be followed
    to the transport protocol counts as a control message: nobody loses by its not being forwarded.
    """
    frame = _parse(data, protocol)
    if frame is not None and data[12:14] == b"\x81\x00":
        frame = frame._replace(vlan=struct.unpack_from("!H", data, 14)[0] & VLAN_MAX)
    return frame


def _parse(data: bytes, protocol: int) -> Optional[Frame]:
    if len(data) < 14:
        return None
    dst, src = data[0:6], data[6:12]
    ethertype, offset = struct.unpack_from("!H", data, 12)[0], 14
    while ethertype in _ETH_VLANS:
        if len(data) < offset + 4:
            return None
        ethertype = struct.unpack_from("!H", data, offset + 2)[0]
        offset += 4
    if ethertype == ETH_ARP:
        return _parse_arp(data, offset, dst, src)
    if ethertype == ETH_IPV4:
        return _parse_ipv4(data, offset, dst, src, protocol)
    if ethertype == ETH_IPV6:
        return _parse_ipv6(data, offset, dst, src, protocol)
    return Frame(dst, src, ethertype)


def _parse_arp(data: bytes, offset: int, dst: bytes, src: bytes) -> Frame:
    if len(data) < offset + 28 or data[offset : offset + 6] != b"\x00\x01\x08\x00\x06\x04":
        return Frame(dst, src, ETH_ARP)
    operation = struct.unpack_from("!H", data, offset + 6)[0]
    source = _usable(mapped(data[offset + 14 : offset + 18]))
    if data[offset + 8 : offset + 14] != src:
        source = None
    target = _usable(mapped(data[offset + 24 : offset + 28]))
    return Frame(dst, src, ETH_ARP, source, target, resolving=operation == 1)


def _parse_ipv4(data: bytes, offset: int, dst: bytes, src: bytes, protocol: int) -> Frame:
    if len(data) < offset + 20 or data[offset] >> 4 != 4:
        return Frame(dst, src, ETH_IPV4, control=True, ip=True)
    source = _usable(mapped(data[offset + 12 : offset + 16]))
    target = _usable(mapped(data[offset + 16 : offset + 20]))
    return Frame(dst, src, ETH_IPV4, source, target, control=data[offset + 9] == protocol, ip=True)


def _parse_ipv6(data: bytes, offset: int, dst: bytes, src: bytes, protocol: int) -> Frame:
    if len(data) < offset + 40 or data[offset] >> 4 != 6:
        return Frame(dst, src, ETH_IPV6, control=True, ip=True)
    source = _usable(data[offset + 8 : offset + 24])
    target = _usable(data[offset + 24 : offset + 40])
    following, place = data[offset + 6], offset + 40
    while following != protocol and (following in _IPV6_OPTIONS or following in (_IPPROTO_FRAGMENT, _IPPROTO_AH)):
        if len(data) < place + 8:
            return Frame(dst, src, ETH_IPV6, source, target, control=True, ip=True)
        later_fragment = following == _IPPROTO_FRAGMENT and struct.unpack_from("!H", data, place + 2)[0] & 0xFFF8
        step = 8
        if following == _IPPROTO_AH:
            step = (data[place + 1] + 2) * 4
        elif following != _IPPROTO_FRAGMENT:
            step = (data[place + 1] + 1) * 8
        following, place = data[place], place + step
        if later_fragment:
            break
    if following == protocol:
        return Frame(dst, src, ETH_IPV6, source, target, control=True, ip=True)
    if following == _IPPROTO_ICMPV6 and len(data) >= place + 24:
        if data[place] == _ND_SOLICITATION:
            asked = _usable(data[place + 8 : place + 24])
            return Frame(dst, src, ETH_IPV6, source, asked, resolving=True)
        if data[place] == _ND_ADVERTISEMENT:
            return Frame(dst, src, ETH_IPV6, _usable(data[place + 8 : place + 24]), target)
    return Frame(dst, src, ETH_IPV6, source, target, ip=True)


def retagged(data: bytes, vlan: int) -> bytes:
    """Return a frame with a VLAN in an 802.1Q header in place of the one it has; 0: without one."""
    inner = data[16:] if data[12:14] == b"\x81\x00" else data[12:]
    return data[:12] + (struct.pack("!HH", ETH_VLAN, vlan) if vlan else b"") + inner


def _tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def lldp_frame(datapath: int, port: int, key: bytes) -> bytes:
    """Return the LLDP frame that tells a neighbour which switch and port it came from."""
    place = struct.pack("!QI", datapath, port)
    tag = struct.pack("!Q", siphash24(key, place))
    return (
        _LLDP_MAC + b"\x02\x53" + struct.pack("!HH", datapath >> 16 & 0xFFFF, datapath & 0xFFFF)
        + struct.pack("!H", ETH_LLDP)
        + _tlv(1, b"\x07dpid:%016x" % datapath)
        + _tlv(2, b"\x07%d" % port)
        + _tlv(3, struct.pack("!H", 120))
        + _tlv(127, _LLDP_OUI + b"\x01" + place + tag)
        + _tlv(0, b"")
    )  # fmt: skip


def parse_lldp(data: bytes, key: bytes) -> Optional[tuple[int, int]]:
    """Return (datapath, port) of an LLDP frame of ours; None for anything else, forged ones included."""
    offset = 14
    while len(data) >= offset + 2:
        head = struct.unpack_from("!H", data, offset)[0]
        kind, length = head >> 9, head & 0x1FF
        value = data[offset + 2 : offset + 2 + length]
        offset += 2 + length
        if kind == 0:
            break
        if kind == 127 and len(value) == 24 and value[:4] == _LLDP_OUI + b"\x01":
            if struct.unpack("!Q", value[16:])[0] != siphash24(key, value[4:16]):
                return None
            datapath, port = struct.unpack("!QI", value[4:16])
            return datapath, port
    return None


def arp_request(eth_src: bytes, source: bytes, target: bytes) -> bytes:
    """Return the broadcast by which ``source`` asks for ``target``, both IPv4 in 16 bytes."""
    body = b"\x00\x01\x08\x00\x06\x04\x00\x01" + eth_src + source[12:] + bytes(6) + target[12:]
    return b"\xff" * 6 + eth_src + b"\x08\x06" + body + bytes(18)


def _checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def message_frame(eth_dst: bytes, eth_src: bytes, vm: bytes, peer: bytes, protocol: int, payload: bytes) -> bytes:
    """Return the frame that carries a control message from ``peer`` to ``vm``, both of one family."""
    if is_ipv4(vm):
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0, peer[12:], vm[12:])
        head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
        return eth_dst + eth_src + b"\x08\x00" + head + payload
    head = struct.pack("!IHBB16s16s", 6 << 28, len(payload), protocol, 64, peer, vm)
    return eth_dst + eth_src + b"\x86\xdd" + head + payload
