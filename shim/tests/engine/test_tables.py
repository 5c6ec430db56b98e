# SPDX-License-Identifier: Apache-2.0
"""Tables: no addresses that anybody can choose share a chain."""

from typing import Iterator, List

import pytest

from .host import Host, address

CAPACITY = 125_000_000
HERE = address("10.0.0.1")
PEERS = 4096
MASK = 2**64 - 1
#: Of an honest hash: with as many chains as peers a chain of 8 comes once in twenty such tables.
LONGEST = 12


def words(source: bytes, vm: int) -> List[int]:
    """Return the key of a peer as words of eight bytes."""
    return [vm, *(int.from_bytes(source[at:at + 8], "little") for at in (0, 8))]


def known_hash(key: List[int]) -> int:
    """Hash a key by a function without a secret, as anybody could compute it."""
    hashed = 24 * 0x9e3779b97f4a7c15 & MASK
    for word in key:
        hashed = (hashed ^ word) * 0xff51afd7ed558ccd & MASK
        hashed ^= hashed >> 32
    return hashed


def neighbours(vm: int) -> Iterator[bytes]:
    """Yield addresses one after another."""
    for number in range(PEERS):
        yield address(f"10.77.{number >> 8}.{number & 255}")


def hosts_of_networks(vm: int) -> Iterator[bytes]:
    """Yield addresses that end alike."""
    for number in range(PEERS):
        yield address(f"{16 + (number >> 8)}.{number & 255}.0.1")


def chosen(vm: int) -> Iterator[bytes]:
    """Yield IPv6 addresses whose known hashes end alike: the low word makes up for the high one."""
    inverse = pow(0xff51afd7ed558ccd, -1, 2**64)
    for number in range(PEERS):
        high = int.from_bytes(address(f"2001:db8:0:{number:x}::")[:8], "little")
        hashed = known_hash([vm, high])
        target = (number << 32 | 0x12345) & MASK
        target ^= target >> 32
        low = (target * inverse ^ hashed) & MASK
        yield high.to_bytes(8, "little") + low.to_bytes(8, "little")


def test_the_chosen_addresses_do_collide_by_the_known_hash() -> None:
    ends = {known_hash(words(source, 1)) & 0xfff for source in chosen(1)}
    assert len(ends) <= 2


@pytest.mark.parametrize("make", [neighbours, hosts_of_networks, chosen])
def test_no_chain_of_the_table_of_peers_is_long(host: Host, make: object) -> None:
    host.law("eyeq")
    host.set(peers_max=2 * PEERS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    at = int(host.ffi.cast("uintptr_t", vm))
    for source in make(at):  # type: ignore[operator]
        host.receive(vm, uplink, source, HERE, version=6 if make is chosen else 4, bytes=100)
    assert host.peers(vm) >= PEERS // 2
    assert int(host.lib.shim_lab_longest_chain(host.lab)) <= LONGEST


def test_two_tables_have_two_keys(host: Host) -> None:
    """Chains tell nothing of those of another start: the secret comes from the host anew each time."""
    seed = int(host.lib.shim_host_seed)
    other = Host(host.core)
    try:
        assert int(host.lib.shim_host_seed) != seed
    finally:
        other.close()
