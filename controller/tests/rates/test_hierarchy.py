# SPDX-License-Identifier: Apache-2.0
"""Max-min by tenant and machine: a port against bisection, networks by the conditions that define the division."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.rates import maxmin
from sdngcc.controller.rates.hierarchy import FULL, Network, Tenant, allot
from sdngcc.controller.rates.maxmin import Claim

C = 125e6
A, B = (1, 1), (2, 1)
CLOSE = 0.005


def bisect(function, target, top):
    """Return the least x of 0 to top at which a function that never falls reaches a target; top if it does not."""
    low, high = 0.0, top
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) >= target else (middle, high)
    return high


def clamp(low, value, high):
    return max(low, min(high, value))


def one_port(claims, capacity, members, tenants, hop=A):
    """Return the rates at a single port by bisection alone: of the level of tenants, then of machines in each."""
    top = 1e16
    groups: dict = {}
    for vm, claim in claims.items():
        tenant = tenants.get(members.get(vm))
        groups.setdefault(members[vm] if tenant and tenant.weight else (vm,), []).append((vm, claim))

    def sent(those, level):
        return {vm: clamp(claim.low, claim.weight * level, max(claim.low, claim.high)) for vm, claim in those}

    def load(those, level):
        rates = sent(those, level)
        return sum(claim.routes[hop] * rates[vm] for vm, claim in those)

    def total(name, those, level):
        if isinstance(name, tuple):
            return load(those, level)
        return clamp(load(those, 0.0), tenants[name].weight * level, load(those, top))

    level = bisect(lambda y: sum(total(name, those, y) for name, those in groups.items()), capacity, top)
    rates = {}
    for name, those in groups.items():
        inner = level if isinstance(name, tuple) else bisect(
            lambda x, those=those: load(those, x), total(name, those, level), top)  # fmt: skip
        rates.update(sent(those, inner))
    return rates


@st.composite
def networks(draw, ports=5, guarantees=True):
    hops = [(number, 1) for number in range(draw(st.integers(1, ports)))]
    capacities = {hop: draw(st.floats(1e3, 1e9)) for hop in hops if draw(st.integers(0, 9))}
    tenants = {
        name: Tenant(
            draw(st.sampled_from([None, 1, 1, 3])),
            draw(st.sampled_from([0.0, 0.0, 1e6])) if guarantees else 0.0,
            draw(st.sampled_from([math.inf, math.inf, 3e6, 1e8])),
        )
        for name in draw(st.sets(st.sampled_from("tuv")))
    }
    claims, members = {}, {}
    for vm in range(draw(st.integers(0, 12))):
        routes = draw(st.dictionaries(st.sampled_from(hops), st.sampled_from([1.0, 1.0, 0.5, 0.1]), min_size=1))
        low = draw(st.sampled_from([0.0, 0.0, 1e4, 1e6]))
        high = draw(st.sampled_from([math.inf, math.inf, 0.0, 1e5, 3e8]))
        claims[vm] = Claim(routes, draw(st.integers(1, 9)), low, high)
        members[vm] = draw(st.sampled_from("tuvw"))
    return claims, capacities, members, tenants


def load(hop, claims, rates):
    return sum(claim.routes[hop] * rates[vm] for vm, claim in claims.items() if hop in claim.routes)


def near(one, other):
    return abs(one - other) <= 1e-5 * max(one, other) + 0.1


@given(networks(ports=1, guarantees=False))
def test_a_port_is_divided_as_by_bisection(network):
    claims, capacities, members, tenants = network
    tenants = {name: tenant._replace(high=math.inf) for name, tenant in tenants.items()}
    got = allot(claims, capacities, members, tenants)
    for hop, capacity in capacities.items():
        for vm, rate in one_port(claims, capacity, members, tenants, hop).items():
            if math.isfinite(got[vm].rate) or rate < 1e15:
                assert near(got[vm].rate, rate)


@given(networks())
def test_nothing_is_overloaded_and_nothing_left_over(network):
    """However the ways cross: ports and caps carry what they can, and whoever may send more is held by a full one."""
    claims, capacities, members, tenants = network
    got = allot(claims, capacities, members, tenants)
    rates = {vm: one.rate for vm, one in got.items()}
    assert list(got) == list(claims)
    for vm, claim in claims.items():
        assert claim.low <= rates[vm] <= max(claim.low, claim.high)
    full = set()  # as what bounds says
    tight = set()
    for hop, capacity in capacities.items():
        guaranteed = sum(claim.routes.get(hop, 0.0) * claim.low for claim in claims.values())
        assert load(hop, claims, rates) <= max(capacity, guaranteed) * (1 + 1e-6) + 0.1
        left = 1 - load(hop, claims, rates) / capacity
        full |= {hop} if left <= FULL * 1.01 else set()
        tight |= {hop} if left <= 1e-5 else set()
    for name, tenant in tenants.items():
        those = [vm for vm in claims if members[vm] == name]
        sent = sum(rates[vm] for vm in those)
        assert sent <= max(tenant.high, sum(claims[vm].low for vm in those)) * (1 + 1e-6) + 0.1
        full |= {name} if sent >= tenant.high * (1 - FULL) - 0.1 else set()
        tight |= {name} if sent >= tenant.high * (1 - 1e-5) - 0.1 else set()
    for vm, claim in claims.items():
        if rates[vm] < max(claim.low, claim.high) * (1 - 1e-5) - 0.1:
            ways = {*claim.routes, *([members[vm]] if members[vm] in tenants else [])}
            bounds = ways & full
            assert ways & tight and got[vm].bottleneck in {None, *bounds} and math.isfinite(got[vm].level)
            assert got[vm].bottleneck is not None or members[vm] in bounds


@given(networks(guarantees=False))
def test_conditions_of_max_min_by_tenant(network):
    """Where a machine is bounded nobody of its tenant has more by weight, and no tenant has."""
    claims, capacities, members, tenants = network
    hierarchy = Network(claims, capacities, members, tenants)
    got = hierarchy.allotments(hierarchy.solve(hierarchy.lows, hierarchy.highs))
    if not hierarchy.settled:
        return
    rates = {vm: one.rate for vm, one in got.items()}

    def whole(vm):
        tenant = tenants.get(members[vm])
        return tenant is not None and tenant.weight is not None

    def by_weight(vm, hop):
        """Return what the tenant of a machine, or itself, has at a port by weight."""
        if not whole(vm):
            return rates[vm] / claims[vm].weight
        those = [other for other in claims if members[other] == members[vm] and hop in claims[other].routes]
        return sum(claims[other].routes[hop] * rates[other] for other in those) / tenants[members[vm]].weight

    for vm, claim in claims.items():
        hop = got[vm].bottleneck
        if rates[vm] >= max(claim.low, claim.high) * (1 - 1e-5) - 0.1 or hop is None:
            continue
        for other, rival in claims.items():
            if hop not in rival.routes or rates[other] <= rival.low * (1 + 1e-5) + 0.1 or other == vm:
                continue
            if whole(vm) and whole(other) and members[vm] == members[other]:
                assert rates[other] / rival.weight <= (rates[vm] / claim.weight) * (1 + CLOSE) + 1
            elif rates[vm] > claim.low * (1 + 1e-5) + 0.1:
                assert by_weight(other, hop) <= by_weight(vm, hop) * (1 + CLOSE) + 1


@given(networks(guarantees=False), st.booleans())
def test_without_tenants_it_is_weighted_max_min(network, each):
    """Nobody has a tenant, or each tenant has one machine, all of whose bytes pass each port."""
    claims, capacities, _, _ = network
    if each:
        claims = {vm: claim._replace(routes=dict.fromkeys(claim.routes, 1.0)) for vm, claim in claims.items()}
    members = {vm: str(vm) for vm in claims} if each else {}
    tenants = {str(vm): Tenant(claim.weight) for vm, claim in claims.items()}
    flat, got = maxmin.allot(claims, capacities), allot(claims, capacities, members, tenants)
    for vm, one in flat.items():
        assert near(got[vm].rate, one.rate) or got[vm].rate == one.rate == math.inf


def crowd(first, second, routes=None, **values):
    """Return the claims of two tenants with so many machines each, and whose they are."""
    claims = {vm: Claim(routes or {A: 1.0}, **values) for vm in range(first + second)}
    return claims, {vm: "one" if vm < first else "two" for vm in claims}


def sums(got, members):
    return {name: sum(got[vm].rate for vm in members if members[vm] == name) for name in ("one", "two")}


def test_tenants_share_a_port_by_weight_whatever_their_numbers():
    claims, members = crowd(2, 14)
    got = allot(claims, {A: C}, members, {"one": Tenant(1), "two": Tenant(1)})
    assert sums(got, members) == pytest.approx({"one": C / 2, "two": C / 2})
    assert got[0].rate == pytest.approx(C / 4) and got[15].rate == pytest.approx(C / 28)
    assert got[0].bottleneck == A and got[0].level == pytest.approx(C / 4)
    got = allot(claims, {A: C}, members, {"one": Tenant(1), "two": Tenant(3)})
    assert sums(got, members) == pytest.approx({"one": C / 4, "two": C * 3 / 4})


def test_machines_of_a_tenant_share_by_weight_with_guarantees_and_ceilings_kept():
    claims = {
        "a": Claim({A: 1.0}, 1), "b": Claim({A: 1.0}, 3), "sure": Claim({A: 1.0}, 1, low=30e6),
        "small": Claim({A: 1.0}, 1, high=2e6), "other": Claim({A: 1.0}, 1),
    }  # fmt: skip
    members = dict.fromkeys(("a", "b", "sure", "small"), "one") | {"other": "two"}
    got = allot(claims, {A: 100e6}, members, {"one": Tenant(1), "two": Tenant(1)})
    rates = {vm: one.rate for vm, one in got.items()}
    assert rates == pytest.approx({"a": 4.5e6, "b": 13.5e6, "sure": 30e6, "small": 2e6, "other": 50e6})


def test_a_tenant_without_a_weight_leaves_its_machines_for_themselves():
    claims, members = crowd(2, 14)
    got = allot(claims, {A: C}, members, {"one": Tenant(4), "two": Tenant(high=C)})
    assert sums(got, members) == pytest.approx({"one": C * 4 / 18, "two": C * 14 / 18})


def test_what_a_tenant_cannot_use_is_the_others():
    claims, members = crowd(2, 14)
    claims |= {vm: claims[vm]._replace(high=1e6) for vm in (0, 1)}
    got = allot(claims, {A: C}, members, {"one": Tenant(1), "two": Tenant(1)})
    assert sums(got, members) == pytest.approx({"one": 2e6, "two": C - 2e6})
    # What each of its two machines would have, if they wanted it.
    assert got[0].level == pytest.approx((C - 2e6) / 2)


def test_a_cap_holds_over_all_ports():
    claims = {number: Claim({(number % 4, 9): 1.0}) for number in range(8)}
    got = allot(claims, {(number, 9): C for number in range(4)}, dict.fromkeys(claims, "one"), {"one": Tenant(high=C)})
    assert [one.rate for one in got.values()] == pytest.approx([C / 8] * 8)
    assert {(one.bottleneck, round(one.level)) for one in got.values()} == {(None, round(C / 8))}


def test_a_cap_leaves_to_a_machine_what_the_others_cannot_use():
    """Two machines behind a narrow port leave the third all the rest of the cap."""
    claims = {1: Claim({A: 1.0}), 2: Claim({A: 1.0}), 3: Claim({B: 1.0}), 4: Claim({B: 1.0})}
    got = allot(claims, {A: 2e6, B: C}, {1: "one", 2: "one", 3: "one"}, {"one": Tenant(None, high=50e6)})
    assert [one.rate for one in got.values()] == pytest.approx([1e6, 1e6, 48e6, C - 48e6])
    assert (got[1].bottleneck, got[3].bottleneck, got[4].bottleneck) == (A, None, B)


def test_a_port_counts_only_the_tenants_machines_there():
    """Fourteen machines elsewhere do not weigh down the one that is here."""
    claims = {0: Claim({A: 1.0}), 1: Claim({A: 1.0})} | {number: Claim({B: 1.0}) for number in range(2, 16)}
    members = {number: "two" if number == 1 else "one" for number in claims}
    got = allot(claims, {A: C, B: C}, members, {"one": Tenant(1), "two": Tenant(1)})
    assert got[0].rate == pytest.approx(C / 2) and got[5].rate == pytest.approx(C / 14)


def test_what_a_narrow_port_leaves_of_a_tenants_part_goes_to_its_machines_beside():
    claims = {0: Claim({A: 1.0, B: 1.0}), 1: Claim({A: 1.0}), 2: Claim({A: 1.0})}
    got = allot(claims, {A: C, B: 5e6}, {0: "one", 1: "one", 2: "two"}, {"one": Tenant(1), "two": Tenant(1)})
    assert [one.rate for one in got.values()] == pytest.approx([5e6, C / 2 - 5e6, C / 2])


def test_a_guarantee_is_divided_among_machines_that_can_use_it():
    claims, members = crowd(2, 8)
    claims[0] = claims[0]._replace(high=10e6)
    got = allot(claims, {A: 100e6}, members, {"one": Tenant(low=60e6), "two": Tenant(1)})
    assert got[0].rate == pytest.approx(10e6) and got[1].rate == pytest.approx(50e6)
    assert sums(got, members)["two"] == pytest.approx(40e6)


def test_guarantees_of_tenants_give_way_where_a_port_cannot_carry_them_those_of_machines_do_not():
    claims, members = crowd(2, 2)
    claims[2] = claims[2]._replace(low=20e6)
    got = allot(claims, {A: 100e6}, members, {"one": Tenant(1, low=90e6), "two": Tenant(1, low=90e6)})
    assert sums(got, members) == pytest.approx({"one": 50e6, "two": 50e6})
    assert got[2].rate == pytest.approx(25e6)
    got = allot(claims, {A: 10e6}, members, {"one": Tenant(1, low=90e6), "two": Tenant(1)})
    assert [round(one.rate) for one in got.values()] == [0, 0, 20_000_000, 0]


def test_ports_that_weigh_machines_in_opposite_ways_are_filled_all_the_same():
    claims = {"i": Claim({A: 1.0, B: 1.0}), "j": Claim({A: 1.0, B: 1.0})}
    claims |= {("i", number): Claim({A: 1.0}, high=1.0) for number in range(4)}
    claims |= {("j", number): Claim({B: 1.0}, high=1.0) for number in range(4)}
    members = {vm: "one" if "i" in vm else "two" for vm in claims}
    got = allot(claims, {A: C, B: C}, members, {"one": Tenant(1), "two": Tenant(1)})
    assert got["i"].rate + got["j"].rate == pytest.approx(C, rel=1e-4)


def test_nobody_and_nothing_full():
    assert allot({}, {A: C}, {}, {"one": Tenant(1, 5.0, 9.0)}) == {}
    free = allot({"a": Claim({A: 1.0}, high=5.0), "b": Claim({B: 1.0})}, {A: C}, {"a": "one"}, {"one": Tenant(1)})
    assert (free["a"].rate, free["a"].bottleneck, free["b"].rate) == (5.0, None, math.inf)
