# SPDX-License-Identifier: Apache-2.0
"""Addresses: a VM sends from its own ones alone, and what is not used is anybody's again."""

from typing import Any

import pytest

from .host import MS, SECOND, Host, address

CAPACITY = 125_000_000
THERE = address("10.9.0.1")
ONE, TWO = address("10.0.0.1"), address("10.0.0.2")


@pytest.fixture
def ruled(host: Host) -> Host:
    host.law("static")
    host.set(peer_idle_ns=10 * SECOND)
    return host


def test_anothers_address_is_refused_and_counted(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    assert ruled.send(one, uplink, ONE, THERE).passed
    assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed"
    assert ruled.send(two, uplink, TWO, THERE).passed
    assert ruled.send(one, uplink, TWO, THERE).drop == "spoofed"
    assert ruled.counter(one, "drop_spoofed") == ruled.counter(two, "drop_spoofed") == 1
    assert ruled.send(one, uplink, ONE, THERE).passed and ruled.limiter(two, uplink).packets == 1


@pytest.mark.parametrize("text", ["224.0.0.1", "255.255.255.255", "127.0.0.1", "0.0.0.0", "ff02::1", "::1", "::"])
def test_no_host_has_such_an_address(ruled: Host, text: str) -> None:
    uplink, vm = ruled.uplink(CAPACITY), ruled.vm()
    source = address(text)
    version = 4 if source[:12] == bytes(10) + b"\xff\xff" else 6
    assert ruled.send(vm, uplink, source, THERE, version=version).drop == "source"
    assert ruled.counter(vm, "drop_source") == 1


@pytest.mark.parametrize("text, group", [("0.0.0.0", "255.255.255.255"), ("::", "ff02::1")])
def test_who_has_no_address_yet_may_ask_everybody_for_one(ruled: Host, text: str, group: str) -> None:
    uplink, vm = ruled.uplink(CAPACITY), ruled.vm()
    assert ruled.send(vm, uplink, address(text), address(group), version=4 if "." in text else 6).passed


@pytest.mark.parametrize("fields", [{"tunnel_id": 7}, {"vlan": 0x8100 << 16 | 5}])
def test_tenants_may_use_the_same_address(ruled: Host, fields: Any) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    assert ruled.send(one, uplink, ONE, THERE).passed
    assert ruled.send(two, uplink, ONE, THERE, **fields).passed
    assert ruled.send(one, uplink, ONE, THERE, **fields).drop == "spoofed"


def test_an_address_lapses_after_silence(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    ruled.send(one, uplink, ONE, THERE)
    ruled.pass_time(8 * SECOND)
    ruled.send(one, uplink, ONE, THERE)
    ruled.pass_time(8 * SECOND)
    assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed", "it was used 8 s ago"
    ruled.pass_time(4 * SECOND)
    assert ruled.send(two, uplink, ONE, THERE).passed
    assert ruled.send(one, uplink, ONE, THERE).drop == "spoofed"


def test_an_address_is_free_when_its_vm_goes(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    ruled.send(one, uplink, ONE, THERE)
    ruled.lib.shim_lab_remove_vm(one)
    ruled.lib.shim_host_quiesce()
    assert ruled.send(two, uplink, ONE, THERE).passed


def prefixes(host: Host, vm: Any, *texts: str) -> None:
    words = [text.split("/") for text in texts]
    lengths = bytes(int(bits) + (96 if "." in name else 0) for name, bits in words)
    assert host.lib.shim_lab_set_prefixes(vm, b"".join(address(name) for name, _ in words), lengths, len(texts)) == 0


def test_prefixes_bind_and_take_addresses_from_others(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    assert ruled.send(two, uplink, ONE, THERE).passed
    prefixes(ruled, one, "10.0.0.0/31", "2001:db8::/64")
    assert ruled.send(one, uplink, ONE, THERE).passed and ruled.send(one, uplink, address("10.0.0.0"), THERE).passed
    assert ruled.send(one, uplink, TWO, THERE).drop == "spoofed"
    assert ruled.send(one, uplink, address("2001:db8::5"), address("2001:db8:1::1"), version=6).passed
    assert ruled.send(one, uplink, address("2001:db8:1::5"), address("2001:db8:1::1"), version=6).drop == "spoofed"
    assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed", "it was set for the other"
    prefixes(ruled, one)
    assert ruled.send(one, uplink, TWO, THERE).passed


def test_a_vm_that_routes_is_not_held_up(ruled: Host) -> None:
    """More addresses than are remembered pass; memory for them is bounded."""
    uplink, vm = ruled.uplink(CAPACITY), ruled.vm()
    before = ruled.lib.shim_host_allocated
    for number in range(2000):
        assert ruled.send(vm, uplink, address(f"10.7.{number >> 8}.{number & 255}"), THERE, bytes=100).passed
        ruled.pass_time(10_000)
    assert ruled.lib.shim_host_allocated - before <= 20


def test_taking_turns_with_an_address_costs_the_owner_nothing(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    ruled.send(one, uplink, ONE, THERE)
    for _ in range(200):
        assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed"
        assert ruled.send(one, uplink, ONE, THERE).passed
        ruled.pass_time(100 * MS)


def test_two_cards_of_one_guest_share_what_is_set_for_both(ruled: Host) -> None:
    uplink, one, two, thief = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm(), ruled.vm()
    for card in (one, two):
        prefixes(ruled, card, "10.0.0.1/32")
    allocated = ruled.lib.shim_host_allocated
    for _ in range(200):
        for card in (one, two):
            assert ruled.send(card, uplink, ONE, THERE).passed
        assert ruled.send(thief, uplink, ONE, THERE).drop == "spoofed"
        ruled.pass_time(MS)
    assert ruled.lib.shim_host_allocated - allocated <= 4, "neither takes it from the other"


@pytest.mark.parametrize("network", [{}, {"vlan": 0x8100 << 16 | 5}, {"tunnel_id": 7}])
@pytest.mark.parametrize("silent_ms", [0, 3600])
def test_a_virtual_address_moves_within_a_second_of_its_announcement(ruled: Host, silent_ms: int, network: Any) -> None:
    """The old master is dead, or has released it: it neither sends from it nor answers for it."""
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    assert ruled.send(one, uplink, ONE, THERE, **network).passed
    ruled.pass_time(silent_ms * MS)
    ruled.announce(two, uplink, ONE, **network)
    begin_ns = ruled.now_ns
    while not ruled.send(two, uplink, ONE, THERE, **network).passed:
        ruled.pass_time(10 * MS)
    assert SECOND <= ruled.now_ns - begin_ns <= SECOND + 260 * MS
    for _ in range(1000):
        assert ruled.send(two, uplink, ONE, THERE, **network).passed
        ruled.pass_time(100 * MS)
    assert ruled.send(one, uplink, ONE, THERE, **network).drop == "spoofed"


@pytest.mark.parametrize("defence", ["packets", "answers", "answers to another port"])
def test_an_announcement_takes_no_address_of_an_owner_who_is_alive(ruled: Host, defence: str) -> None:
    """Neither of one who sends, be it once in 0.9 s, nor of one who only answers when he is asked."""
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    ruled.send(one, uplink, ONE, THERE)
    asked = 0
    for step in range(90):
        ruled.announce(two, uplink, ONE)
        assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed", step
        if defence == "packets" and step % 9 == 8:
            assert ruled.send(one, uplink, ONE, THERE).passed
        elif defence != "packets" and ruled.lib.shim_host_asked != asked:
            ruled.announce(one, uplink if defence == "answers" else None, ONE)
        asked = ruled.lib.shim_host_asked
        ruled.pass_time(100 * MS)


def test_an_owner_who_was_silent_and_did_not_answer_returns_at_once(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    ruled.send(one, uplink, ONE, THERE)
    for _ in range(20):
        ruled.announce(two, uplink, ONE)
        ruled.send(two, uplink, ONE, THERE)
        ruled.pass_time(100 * MS)
    assert ruled.send(two, uplink, ONE, THERE).passed
    assert ruled.send(one, uplink, ONE, THERE).passed, "within ten seconds of its last packet"
    assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed"


def test_packets_alone_are_no_announcement(ruled: Host) -> None:
    uplink, one, two, three = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm(), ruled.vm()
    ruled.send(one, uplink, ONE, THERE)
    ruled.announce(three, uplink, ONE)
    ruled.announce(two, None, ONE)
    ruled.announce(two, uplink, ONE, vlan=0x8100 << 16 | 5)
    for _ in range(80):
        assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed"
        ruled.pass_time(100 * MS)


def test_an_announcement_takes_nothing_that_is_set_for_another(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    prefixes(ruled, one, "10.0.0.1/32")
    ruled.send(one, uplink, ONE, THERE)
    for _ in range(150):
        ruled.announce(two, uplink, ONE)
        assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed"
        ruled.pass_time(100 * MS)


def test_a_host_that_cannot_ask_hands_nothing_over(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    ruled.send(one, uplink, ONE, THERE)
    ruled.lib.shim_host_mute = True
    try:
        for _ in range(80):
            ruled.announce(two, uplink, ONE)
            assert ruled.send(two, uplink, ONE, THERE).drop == "spoofed"
            ruled.pass_time(100 * MS)
    finally:
        ruled.lib.shim_host_mute = False


def test_announcements_ask_an_owner_no_more_than_four_times_a_second(ruled: Host) -> None:
    uplink, one, two = ruled.uplink(CAPACITY), ruled.vm(), ruled.vm()
    asked = ruled.lib.shim_host_asked
    for _ in range(5000):
        ruled.send(one, uplink, ONE, THERE)
        ruled.announce(two, uplink, ONE)
        ruled.pass_time(MS)
    assert ruled.lib.shim_host_asked - asked <= 21
