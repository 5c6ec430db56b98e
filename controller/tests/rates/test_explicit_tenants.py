# SPDX-License-Identifier: Apache-2.0
"""Explicit rates of machines that belong to tenants, in the fluid model of test_explicit.py."""

import pytest

from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.rates.explicit import REFRESH_NS

from .test_explicit import FAR, NEAR, C, Network, T, settled

MBPS = 125_000  # bytes/s


def of(names, **policies):
    """Return tenants; names are those of machines in order, policies in Mb/s by tenant."""
    tenants = Tenants()
    tenants.set_names({(number, "tap"): name for number, name in enumerate(names) if name})
    tenants.set_policies({
        name: {key: value * (1 if key == "weight" else 1_000_000) for key, value in policy.items()}
        for name, policy in policies.items()
    })  # fmt: skip
    return tenants


ONE_TWO = ["one"] * 2 + ["two"] * 14


def test_two_tenants_of_2_and_14_machines_share_a_port_equally_in_five_periods():
    network = Network([C] * 16, tenants=of(ONE_TWO, one={"weight": 1}, two={"weight": 1}))
    network.step(5)
    assert settled(network, [C / 4] * 2 + [C / 28] * 14, 0.05)
    network.step(200)
    assert settled(network, [C / 4] * 2 + [C / 28] * 14, 0.02)
    assert sum(network.sent) >= 0.98 * C


def test_a_tenant_that_leaves_gives_all_to_the_other_and_has_it_back():
    network = Network([C] * 16, tenants=of(ONE_TWO, one={"weight": 1}, two={"weight": 1}))
    network.step(50)
    network.wanted[:2] = [C / 100] * 2
    network.step(6)
    assert sum(network.sent[2:]) > 0.9 * C
    network.wanted[:2] = [C] * 2
    network.step(5)
    assert settled(network, [C / 4] * 2 + [C / 28] * 14, 0.05)


def test_a_cap_holds_over_ports_of_four_hosts_and_messages_stay_few():
    routes = [(NEAR,) if number % 2 else (FAR,) for number in range(8)]
    network = Network([C] * 8, routes=routes, tenants=of(["one"] * 8, one={"max": 300}))
    network.step(5)
    for _ in range(100):
        network.step()
        assert sum(network.sent) == pytest.approx(300 * MBPS, rel=0.02)
    network.told = 0
    network.step(100)
    assert network.told == 8 * (100 * T // REFRESH_NS)


def test_what_capped_machines_leave_is_their_tenants_others():
    network = Network([C] * 4, routes=[(NEAR,), (FAR,)] * 2, tenants=of(["one"] * 4, one={"max": 400}))
    network.step(20)
    network.wanted[0] = 20 * MBPS
    network.step(10)
    assert sum(network.sent[1:]) >= 0.95 * 375 * MBPS
    assert max(network.sent[1:]) <= 1.02 * min(network.sent[1:])


def test_a_guarantee_of_a_tenant_holds_against_many_others():
    network = Network([C] * 10, tenants=of(["one"] * 2 + [""] * 8, one={"min": 600}))
    network.step(10)
    assert sum(network.limit[:2]) == pytest.approx(600 * MBPS, rel=0.02)
    assert settled(network, [300 * MBPS] * 2 + [(C * 0.99 - 600 * MBPS) / 8] * 8, 0.02)


def test_of_a_cluster_the_owner_of_the_first_port_tells_what_a_cap_leaves():
    network = Network([C] * 2, tenants=of(["one"] * 2, one={"max": 200}))
    network.owned = {0, NEAR[0]}  # the bridge of the first machine, not that of the second
    network.step(10)
    assert network.limit == [100 * MBPS, C // 10]
    network.owned = {1}
    network.step(10)
    assert network.limit == [100 * MBPS] * 2


def test_tenants_without_a_policy_change_nothing():
    plain, named = Network([C] * 16), Network([C] * 16, tenants=of(ONE_TWO))
    for network in (plain, named):
        network.step(50)
    assert plain.limit == named.limit and plain.told == named.told
