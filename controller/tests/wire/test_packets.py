# SPDX-License-Identifier: Apache-2.0
"""Reading frames: whatever a machine sends, a control message is recognised and nothing raises."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.wire import packets

from ..fabric import arp, ip, ipv4, mac

V6 = b"\xfd" + bytes(14) + b"\x01", b"\xfd" + bytes(14) + b"\x02"
ETH = mac(2) + mac(1)


def parse(data, protocol=253):
    frame = packets.parse_frame(data, protocol)
    assert frame is not None
    return frame


def ipv6(following, payload):
    return ETH + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(payload), following, 64) + V6[0] + V6[1] + payload


def test_arp_request():
    frame = parse(arp(1, 2), 253)
    assert frame.resolving and frame.multicast
    assert frame.source == packets.mapped(ip(1)) and frame.target == packets.mapped(ip(2))


def test_arp_for_another_teaches_nothing():
    data = bytearray(arp(1, 2))
    data[22:28] = mac(9)
    assert parse(bytes(data), 253).source is None


def test_ipv4_udp_is_no_control_message():
    frame = parse(ipv4(1, 2), 253)
    assert frame.ip and not frame.control


@pytest.mark.parametrize(
    "data",
    [
        ipv4(1, 2, protocol=253),
        ETH + b"\x81\x00\x00\x05" + ipv4(1, 2, protocol=253)[12:],
        ETH + b"\x88\xa8\x00\x05\x81\x00\x00\x06" + ipv4(1, 2, protocol=253)[12:],
        ipv6(253, bytes(96)),
        ipv6(0, b"\xfd\x00" + bytes(6) + bytes(96)),
        ipv6(60, b"\x2b\x01" + bytes(14) + b"\xfd\x00" + bytes(6) + bytes(96)),
        ipv6(44, b"\xfd\x00\x00\x01" + bytes(4) + bytes(96)),
        ipv6(44, b"\xfd\x00\x00\x09" + bytes(4) + bytes(96)),
        ipv6(51, b"\xfd\x04" + bytes(22) + bytes(96)),
        ipv6(0, b"\x3c"),
        ETH + b"\x08\x00\x45",
        ETH + b"\x86\xdd\x60",
    ],
    ids=[
        "ipv4", "vlan", "double-vlan", "ipv6", "hop-by-hop", "two-options", "first-fragment", "later-fragment",
        "authentication", "cut-option", "cut-ipv4", "cut-ipv6",
    ],
)  # fmt: skip
def test_control_messages_are_recognised(data):
    assert parse(data, 253).control


def test_other_protocol_number():
    assert parse(ipv4(1, 2, protocol=143), 143).control
    assert not parse(ipv4(1, 2, protocol=253), 143).control


def test_neighbour_solicitation():
    frame = parse(ipv6(58, b"\x87" + bytes(7) + V6[1]), 253)
    assert frame.resolving and frame.source == V6[0] and frame.target == V6[1]


@given(st.binary(max_size=200), st.sampled_from([b"\x08\x00", b"\x86\xdd", b"\x08\x06", b"\x81\x00", b"\x88\xcc"]))
def test_any_bytes_are_read_without_a_fault(data, ethertype):
    packets.parse_frame(data, 253)
    packets.parse_frame(ETH + ethertype + data, 253)
    packets.parse_lldp(ETH + ethertype + data, bytes(16))


def test_lldp_round_trip_and_forgery():
    frame = packets.lldp_frame(0x1122334455667788, 7, b"k" * 16)
    assert packets.parse_lldp(frame, b"k" * 16) == (0x1122334455667788, 7)
    assert packets.parse_lldp(frame, b"x" * 16) is None
    assert frame[12:14] == b"\x88\xcc" and frame[:6] == b"\x01\x80\xc2\x00\x00\x0e"
