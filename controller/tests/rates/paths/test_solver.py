# SPDX-License-Identifier: Apache-2.0
"""Rates by path of whole networks: against the definition as a programme for HiGHS, and what must hold in any case."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.rates import maxmin
from sdngcc.controller.rates.hierarchy import Tenant
from sdngcc.controller.rates.paths import solver
from sdngcc.controller.rates.paths.solver import MOST, Machine, Pair, allot, number, solve
from sdngcc.controller.tests.rates.paths.networks import floors, leaf_spine, small
from sdngcc.controller.tests.rates.paths.oracle import Programme

A, B, D = (1, 1), (2, 1), (3, 1)
NETWORKS = 1000 if os.environ.get("SDNGCC_RELEASE") else 100


def rates(machines, pairs, capacities, tenants=None):
    return {name: round(share.rate, 2) for name, share in allot(machines, pairs, capacities, tenants or {}).items()}


def test_forty_destinations_behind_a_port_are_worth_no_more_than_one():
    pairs = {("many", number): Pair({A: 1.0}) for number in range(40)}
    pairs["one", 0] = Pair({A: 1.0})
    found = rates({"many": Machine(), "one": Machine()}, pairs, {A: 80.0})
    assert found["one", 0] == 40
    assert {rate for (vm, _), rate in found.items() if vm == "many"} == {1.0}


def test_what_a_machine_sends_elsewhere_costs_it_nothing_here():
    pairs = {("x", "a"): Pair({A: 1.0}), ("x", "b"): Pair({B: 1.0}), ("y", "a"): Pair({A: 1.0})}
    found = rates({"x": Machine(), "y": Machine()}, pairs, {A: 10.0, B: 50.0})
    assert found == {("x", "a"): 5.0, ("x", "b"): 50.0, ("y", "a"): 5.0}


def test_a_full_port_is_shared_by_weight_and_what_one_cannot_use_is_the_others():
    machines = {"x": Machine(weight=3), "y": Machine(), "z": Machine()}
    pairs = {("x", 0): Pair({A: 1.0}), ("y", 0): Pair({A: 1.0}), ("z", 0): Pair({A: 1.0, B: 1.0})}
    assert rates(machines, pairs, {A: 10.0, B: 2.0}) == {("x", 0): 6.0, ("y", 0): 2.0, ("z", 0): 2.0}
    assert rates(machines, pairs, {A: 10.0, B: 1.0}) == {("x", 0): 6.75, ("y", 0): 2.25, ("z", 0): 1.0}


def test_a_ceiling_bounds_the_sum_and_a_guarantee_holds_where_a_port_is_too_small_for_it():
    machines = {"x": Machine(high=6.0), "y": Machine(low=8.0)}
    pairs = {("x", "a"): Pair({A: 1.0}), ("x", "b"): Pair({B: 1.0}), ("y", "a"): Pair({A: 1.0})}
    capacities = {A: 10.0, B: 100.0}
    assert rates(machines, pairs, capacities) == {("x", "a"): 2.0, ("x", "b"): 4.0, ("y", "a"): 8.0}
    found = allot(machines, pairs, capacities, {})
    assert found["x", "a"].bottleneck == A and found["x", "b"].bottleneck is None
    assert rates(machines, pairs, {A: 7.0, B: 100.0})["y", "a"] == 8.0


def test_a_guarantee_is_divided_evenly_among_destinations_to_none_more_than_it_can_use():
    machines = {"x": Machine(low=9.0), **{number: Machine() for number in range(99)}}
    pairs = {("x", "a"): Pair({A: 1.0}), ("x", "b"): Pair({A: 1.0}, demand=1.0)}
    pairs.update({(number, 0): Pair({A: 1.0}) for number in range(99)})
    found = rates(machines, pairs, {A: 20.0})
    assert (found["x", "a"], found["x", "b"]) == (8.0, 1.0)
    assert found[7, 0] == pytest.approx(11 / 99, abs=0.01)


def test_tenants_share_first_then_their_machines_then_destinations():
    machines = {"x": Machine(tenant="t"), "y": Machine(tenant="t", weight=3), "z": Machine(tenant="u"), "w": Machine()}
    pairs = {(vm, number): Pair({A: 1.0}) for vm in machines for number in range(2)}
    tenants = {"t": Tenant(weight=2), "u": Tenant(weight=1)}
    assert rates(machines, pairs, {A: 32.0}, tenants) == {
        (vm, number): {"x": 2.0, "y": 6.0, "z": 4.0, "w": 4.0}[vm] for vm in machines for number in range(2)
    }


def test_a_tenants_cap_holds_wherever_its_machines_send_and_its_guarantee_is_set_aside():
    machines = {"x": Machine(tenant="t"), "y": Machine(tenant="t"), "z": Machine(tenant="u", weight=9)}
    pairs = {("x", 0): Pair({A: 1.0}), ("y", 0): Pair({B: 1.0}), ("z", 0): Pair({A: 1.0})}
    found = rates(machines, pairs, {A: 10.0, B: 10.0}, {"t": Tenant(high=5.0)})
    assert found == {("x", 0): 1.0, ("y", 0): 4.0, ("z", 0): 9.0}
    found = rates(machines, pairs, {A: 10.0, B: 10.0}, {"t": Tenant(low=8.0)})
    assert found == {("x", 0): 4.0, ("y", 0): 10.0, ("z", 0): 6.0}


def test_who_meets_no_port_has_its_demand():
    assert rates({"x": Machine()}, {("x", 0): Pair({A: 1.0}, 7.0)}, {}) == {("x", 0): 7.0}
    assert allot({"x": Machine()}, {("x", 0): Pair({A: 1.0})}, {}, {})["x", 0].rate == MOST
    assert allot({}, {}, {}, {}) == {}
    assert rates({"x": Machine(high=0.0)}, {("x", 0): Pair({A: 1.0})}, {A: 5.0}) == {("x", 0): 0.0}


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_with_one_destination_each_it_is_weighted_max_min(seed, count):
    chance = np.random.default_rng(seed)
    hops = [(number, 1) for number in range(4)]
    capacities = {hop: float(chance.uniform(1e6, 1e9)) for hop in hops}
    claims = {
        vm: maxmin.Claim(
            {hops[at]: 1.0 for at in chance.choice(4, chance.integers(1, 5), False)},
            int(chance.integers(1, 9)),
            0.0,
            float(chance.choice([np.inf, 1e7])),
        )
        for vm in range(count)
    }
    wanted = maxmin.allot(claims, capacities)
    machines = {vm: Machine(weight=claim.weight, high=claim.high) for vm, claim in claims.items()}
    found = allot(machines, {(vm, 0): Pair(claim.routes) for vm, claim in claims.items()}, capacities, {})
    for vm in claims:
        assert found[vm, 0].rate == pytest.approx(wanted[vm].rate, rel=0.005)


@pytest.mark.parametrize("first", range(0, NETWORKS, 50))
def test_rates_are_within_a_hundredth_of_a_division_as_defined(first):
    for seed in range(first, first + 50):
        network = small(seed)
        found = solve(network)
        assert found.settled, seed
        programme = Programme(network, floors(network))
        none = np.zeros(len(found.rates))
        assert programme.solve(none, 0.99 * found.rates, 1.01 * found.rates + 1e-6) is not None, seed


@pytest.mark.parametrize("sweeps", [1, 2, 3])
def test_no_port_is_overloaded_whenever_it_ends(monkeypatch, sweeps):
    monkeypatch.setattr(solver, "SWEEPS", sweeps)
    for seed in range(40):
        network = small(seed, guarantees=False)
        rates = solve(network).rates
        load = np.bincount(network.ports, network.parts * rates[network.pairs])
        assert (load <= network.capacities[: len(load)] * (1 + 1e-9)).all(), seed


def test_a_large_network_settles_and_is_divided_as_defined():
    network = leaf_spine(racks=8, hosts=8, machines=400, count=2000)
    found = solve(network)
    assert found.settled and found.sweeps < 60
    rates, of, held = found.rates, network.of, found.bottlenecks
    load = np.bincount(network.ports, network.parts * rates[network.pairs], len(network.capacities))
    assert (load <= network.capacities * 1.001).all()
    through = np.zeros((len(network.members.weights), len(network.capacities)))
    np.add.at(through, (of[network.pairs], network.ports), network.parts * rates[network.pairs])
    levels = through / network.members.weights[:, None]
    assert (held >= 0).sum() > 500
    for pair in range(len(rates)):
        port = held[pair]
        if port < 0:
            assert rates[pair] == pytest.approx(network.demands[pair])
            continue
        assert load[port] >= network.capacities[port] * 0.99
        assert levels[of[pair], port] >= levels[:, port].max() * 0.99
        own = network.pairs[(network.ports == port) & (of[network.pairs] == of[pair])]
        assert rates[pair] >= rates[own].max() * 0.99


def three_divisions():
    """Return the network of docs/laws.md that has three divisions: a port beside three others."""
    q, ports = (9, 1), [(at, 1) for at in range(3)]
    pairs = {("a", "all"): Pair({q: 1.0, **dict.fromkeys(ports, 1.0)})}
    pairs.update({("a", small): Pair({q: 1.0}, 0.5) for small in range(2)})
    for at, port in enumerate(ports):
        pairs[f"b{at}", "both"] = Pair({q: 1.0, port: 1.0})
        pairs.update({(f"b{at}", small): Pair({port: 1.0}, 0.5) for small in range(2)})
    machines = {vm: Machine() for vm, _ in pairs}
    return machines, pairs, {q: 7.0, **dict.fromkeys(ports, 4.0)}


@pytest.mark.parametrize("a, b, is_one", [(2, 1, True), (1.5, 1.5, True), (0.75, 1.75, True), (1.75, 1.25, False)])
def test_there_can_be_several_divisions(a, b, is_one):
    machines, pairs, capacities = three_divisions()
    network, _ = number(machines, pairs, capacities, {})
    aim = np.array([a if peer == "all" else b if peer == "both" else 0.5 for _, peer in pairs])
    assert (Programme(network, floors(network)).solve(aim, aim - 1e-4, aim + 1e-4) is not None) == is_one


def test_one_of_several_divisions_is_found():
    found = rates(*three_divisions())
    both = {rate for (_, peer), rate in found.items() if peer == "both"}
    assert (found["a", "all"], both) in ((2.0, {1.0}), (1.5, {1.5}), (0.75, {1.75}))


def test_bounds_that_hold_no_division_are_refused_by_the_programme():
    refused = 0
    for seed in range(20):
        network = small(seed)
        found = solve(network).rates
        wrong = np.where(np.arange(len(found)) == 0, 0.9 * found, found)
        programme = Programme(network, floors(network))
        refused += programme.solve(np.zeros(len(found)), 0.99 * wrong, 1.01 * wrong + 1e-6) is None
    assert refused >= 18
