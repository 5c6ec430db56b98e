# SPDX-License-Identifier: Apache-2.0
"""By what prefixes a machine is told of where it sends: its destinations one by one, aggregates where these are many.

A shim keeps no more than 127 paths of a machine (docs/laws.md, "Paths").  Where there are more destinations than NAMED,
those that lie together and are reached by the same ports have one name: the longest prefix that they have in common,
cut to whole bytes as far as it takes in no other destination.  Of more such prefixes those with the fewest destinations
are the rest, which is bound by every port on any of their ways.
"""

import bisect
from typing import Hashable, Mapping, NamedTuple

NAMED = 96  # of 127: what was told before may be there for two seconds more
ADDRESS_BITS = 128


class Prefix(NamedTuple):
    """Addresses that begin alike."""

    first: bytes  # 16, IPv4 as ::ffff:a.b.c.d; bits that do not count are 0
    bits: int  # that count

    def covers(self, address: bytes) -> bool:
        """Tell whether an address begins so."""
        return _cut(int.from_bytes(address, "big"), self.bits) == int.from_bytes(self.first, "big")


REST = Prefix(bytes(16), 0)  # what has no other name


def _cut(address: int, bits: int) -> int:
    """Return an address with only its first bits."""
    return address >> (ADDRESS_BITS - bits) << (ADDRESS_BITS - bits)


def _common(one: int, other: int) -> int:
    """Return how many bits addresses have in common."""
    return ADDRESS_BITS - (one ^ other).bit_length()


def names(destinations: Mapping[bytes, Hashable], most: int = NAMED) -> dict[bytes, Prefix]:
    """Return the name of each destination; ``destinations`` has by address what tells ways apart."""
    if len(destinations) <= most:
        return {address: Prefix(address, ADDRESS_BITS) for address in destinations}
    ordered = sorted(destinations)
    numbers = [int.from_bytes(address, "big") for address in ordered]
    groups = _groups(numbers, [destinations[address] for address in ordered])
    groups.sort(key=lambda group: (group[0] - group[1], group[0]))  # the largest first
    found = dict.fromkeys(destinations, REST)
    for first, end in groups[:most]:
        name = _name(numbers, first, end)
        found.update(dict.fromkeys(ordered[first:end], name))
    return found


def _groups(numbers: list[int], ways: list[Hashable]) -> list[tuple[int, int]]:
    """Return the largest runs [first, end) of addresses of one way that a prefix can have without others."""
    alike = list(range(1, len(ways) + 1))  # end of the run of equal ways that each is in
    for place in range(len(ways) - 2, -1, -1):
        if ways[place] == ways[place + 1]:
            alike[place] = alike[place + 1]
    found, left = [], [(0, len(numbers))]
    while left:
        first, end = left.pop()
        bits = _common(numbers[first], numbers[end - 1])
        if bits and alike[first] >= end:
            found.append((first, end))
            continue
        turn = _cut(numbers[end - 1], bits + 1)
        middle = bisect.bisect_left(numbers, turn, first, end)
        left += [(first, middle), (middle, end)]
    return found


def _name(numbers: list[int], first: int, end: int) -> Prefix:
    """Return the prefix of the addresses [first, end), cut to whole bytes if that takes in no others."""
    bits = _common(numbers[first], numbers[end - 1])
    neighbours = [numbers[place] for place in (first - 1, end) if 0 <= place < len(numbers)]
    whole = bits // 8 * 8
    if whole and all(_common(numbers[first], other) < whole for other in neighbours):
        bits = whole
    return Prefix(_cut(numbers[first], bits).to_bytes(16, "big"), bits)
