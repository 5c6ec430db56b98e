# SPDX-License-Identifier: Apache-2.0
"""Names of destinations: one by one while they are few, prefixes of one way each where they are many."""

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.rates.paths.naming import REST, Prefix, names
from sdngcc.controller.wire.packets import mapped


def v4(text):
    return mapped(ipaddress.IPv4Address(text).packed)


def test_few_have_names_of_their_own():
    assert names({v4("10.0.0.1"): 1, v4("10.0.0.2"): 2}, 2) == {
        v4("10.0.0.1"): Prefix(v4("10.0.0.1"), 128),
        v4("10.0.0.2"): Prefix(v4("10.0.0.2"), 128),
    }


def test_many_of_one_way_have_one_name_of_whole_bytes():
    found = names({v4(f"10.0.0.{number}"): "way" for number in range(100, 120)}, 4)
    assert set(found.values()) == {Prefix(v4("10.0.0.0"), 96 + 24)}


def test_a_name_takes_in_nobody_of_another_way():
    there = {v4(f"10.0.0.{number}"): "way" for number in range(100, 110)}
    found = names({**there, v4("10.0.0.120"): "other"}, 8)
    assert found[v4("10.0.0.120")] == Prefix(v4("10.0.0.120"), 128)
    assert {found[address] for address in there} == {Prefix(v4("10.0.0.96"), 96 + 28)}


def test_of_too_many_names_the_smallest_are_the_rest():
    ways = {v4(f"10.0.{number}.{host}"): number for number in range(4) for host in range(4 - number)}
    found = names(ways, 2)
    assert {found[v4(f"10.0.{number}.0")] for number in (2, 3)} == {REST}
    assert found[v4("10.0.0.3")] == Prefix(v4("10.0.0.0"), 96 + 24)


ADDRESSES = st.integers(0, 40).map(lambda number: v4(f"10.0.0.{number * 5}")) | st.integers(0, 9).map(
    lambda number: bytes([0x20, 1] + [0] * 13 + [number])
)


@given(st.dictionaries(ADDRESSES, st.integers(0, 2), min_size=1), st.integers(1, 12))
def test_each_has_the_longest_name_around_it_and_names_are_few_and_of_one_way(ways, most):
    found = names(ways, most)
    assert set(found) == set(ways) and len(set(found.values()) - {REST}) <= most
    for address, name in found.items():
        assert name.covers(address) and (name.bits > 0) == (name != REST)
        longest = max((other for other in set(found.values()) if other.covers(address)), key=lambda one: one.bits)
        assert longest == name
        if name != REST:
            assert len({ways[other] for other, known in found.items() if known == name}) == 1
