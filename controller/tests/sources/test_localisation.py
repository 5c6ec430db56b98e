# SPDX-License-Identifier: Apache-2.0
"""Which port set the marks: on networks of leaves and spines whose full ports are known."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.network.conversations import Arrived
from sdngcc.controller.sources.localisation import FORGET_NS, PAIRS_MAX, RECENT_MAX, Localiser

PERIOD_NS = 5_000_000
LEAVES, HOSTS = 3, 3  # hosts a leaf
CORE = 100


def host(number: int) -> bytes:
    return bytes((number,))


def way(pair):
    """Return the fabric's ports from one host to another: leaf, spine, leaf."""
    source, target = pair[0][0], pair[1][0]
    near, far = source // HOSTS, target // HOSTS
    last = {(far, target): 1.0}
    return last if near == far else {(near, CORE): 1.0, (CORE, far): 1.0, **last}


def feed(localiser, rates, packets, rng, periods=30):
    """Let packets of each pair come, marked by the ports with their probabilities; return marks found by port."""
    found, whole, now = {}, 0, 10**12
    for _ in range(periods):
        arrived = {}
        for pair, count in packets.items():
            clear = math.prod(1 - rates.get(hop, 0) for hop in way(pair))
            marks = sum(rng.random() > clear for _ in range(count)) if clear < 1 else 0
            arrived[pair] = Arrived(count, marks, count * 1500)
            whole += marks
        now += PERIOD_NS
        for hop, marks in localiser.locate(arrived, now).items():
            found[hop] = found.get(hop, 0) + marks
    return found, whole


PAIRS = [(host(a), host(b)) for a in range(LEAVES * HOSTS) for b in range(LEAVES * HOSTS) if a != b]
PORTS = sorted({hop for pair in PAIRS for hop in way(pair)})


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(PORTS), st.floats(0.05, 0.6))
def test_one_full_port_among_many_pairs_is_found(seed, port, rate):
    rng = random.Random(seed)
    packets = {pair: rng.randint(15, 40) for pair in PAIRS}
    found, whole = feed(Localiser(way, lambda hop: float("inf")), {port: rate}, packets, rng)
    assert sum(found.values()) == pytest.approx(whole, abs=len(PORTS))
    assert found[port] >= (0.9 if rate >= 0.15 else 0.7) * whole


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(PORTS), st.sampled_from(PORTS))
def test_two_full_ports_have_their_parts(seed, one, other):
    rng = random.Random(seed)
    packets = {pair: rng.randint(15, 40) for pair in PAIRS}
    rates = {one: 0.2, other: 0.1}
    found, whole = feed(Localiser(way, lambda hop: float("inf")), rates, packets, rng)
    assert found.get(one, 0) + found.get(other, 0) >= 0.85 * whole
    if one != other:
        crossing = {hop: sum(count for pair, count in packets.items() if hop in way(pair)) for hop in (one, other)}
        truth = 0.2 * crossing[one] / (0.2 * crossing[one] + 0.1 * crossing[other])
        assert found.get(one, 0) / whole == pytest.approx(truth, abs=0.15)


def test_of_ports_that_all_cross_the_fuller_is_taken():
    pairs = {(host(0), host(4)): 40, (host(1), host(4)): 40}
    shared = [(CORE, 1), (1, 4)]
    for full in shared:
        localiser = Localiser(way, lambda hop, full=full: 10**8 if hop == full else 10**10)
        found, whole = feed(localiser, {full: 0.3}, pairs, random.Random(1))
        assert found[full] >= 0.95 * whole


def test_without_capacities_the_last_of_them_is_taken():
    pairs = {(host(0), host(4)): 40, (host(1), host(4)): 40}
    found, whole = feed(Localiser(way, lambda hop: float("inf")), {(1, 4): 0.3}, pairs, random.Random(1))
    assert found[(1, 4)] >= 0.95 * whole


def test_marks_of_pairs_without_a_way_go_nowhere():
    localiser = Localiser(lambda pair: {}, lambda hop: float("inf"))
    assert localiser.locate({(b"a", b"b"): Arrived(10, 5, 15000)}, 1) == {}


def test_an_explanation_looks_at_no_more_pairs_than_its_bound():
    asked = []

    def counted(pair):
        asked.append(pair)
        return {(1, 4): 1.0}

    localiser = Localiser(counted, lambda hop: float("inf"))
    localiser.locate({(number.to_bytes(3, "big"), host(4)): Arrived(9, 0, 60) for number in range(20_000)}, 1)
    aged = [talk for talk in localiser._talks.values() if talk.time_ns == 1]
    localiser.locate({(host(0), host(4)): Arrived(9, 3, 60)}, 10**9)
    assert sum(talk.time_ns == 10**9 for talk in localiser._talks.values()) <= RECENT_MAX < len(aged)
    assert len(asked) <= PAIRS_MAX + 1


def test_what_is_silent_is_forgotten_and_tables_are_bounded():
    localiser = Localiser(way, lambda hop: float("inf"))
    pair = (host(0), host(1))
    localiser.locate({pair: Arrived(10, 0, 15000)}, 1)
    for step in range(1, 5):
        localiser.locate({(host(3), host(4)): Arrived(10, 1, 15000)}, 1 + step * FORGET_NS // 2)
    assert list(localiser._talks) == [(host(3), host(4))]
    many = {(number.to_bytes(3, "big"), host(4)): Arrived(1, 1, 60) for number in range(70_000)}
    flat = Localiser(lambda pair: {(1, 4): 1.0}, lambda hop: float("inf"))
    assert flat.locate(many, 1) == {(1, 4): 70_000}
    assert len(flat._talks) == 65_536 > PAIRS_MAX
