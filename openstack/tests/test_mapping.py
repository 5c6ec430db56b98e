# SPDX-License-Identifier: Apache-2.0
"""What Neutron says about ports, as keys of interfaces: without Neutron."""

import ipaddress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc_neutron import mapping
from sdngcc_neutron.mapping import Limits, Member

UNIT = 100_000
MAC = "fa:16:3e:00:00:05"
LINK_LOCAL = "fe80::f816:3eff:fe00:5"


def rule(rule_type, direction=None, **values):
    names = {"id": "rule", "rule_type": rule_type, **values}
    return SimpleNamespace(**names, **({"direction": direction} if direction else {}))


def keys(*members, unit=UNIT):
    return dict(mapping.interface_settings(members, unit).keys)


def rates(*members, unit=UNIT):
    return {key: value for key, value in keys(*members, unit=unit).items() if key != mapping.ADDRESSES}


def test_limits_are_those_of_what_a_port_sends():
    rules = [rule("bandwidth_limit", "ingress", max_kbps=1, max_burst_kbps=1),
             rule("bandwidth_limit", "egress", max_kbps=500_000, max_burst_kbps=400_000),
             rule("minimum_bandwidth", "ingress", min_kbps=2), rule("minimum_bandwidth", "egress", min_kbps=200_000),
             rule("dscp_marking", dscp_mark=26), rule("packet_rate_limit", "egress", max_kpps=3, max_burst_kpps=0),
             rule("minimum_packet_rate", "any", min_kpps=4)]
    assert mapping.limits_of(rules) == Limits(min_kbps=200_000, max_kbps=500_000)


@pytest.mark.parametrize("nothing", [0, None])
def test_a_rate_of_nothing_is_no_rule(nothing):
    rules = [rule("bandwidth_limit", "egress", max_kbps=nothing), rule("minimum_bandwidth", "egress", min_kbps=nothing)]
    assert mapping.limits_of(rules) == Limits()
    assert rates(Member(mapping.limits_of(rules))) == {}


def test_kilobits_become_bits_and_the_guarantee_a_weight():
    assert rates(Member(Limits(200_000, 500_000))) == {
        "shim-min-rate": "200000000", "shim-max-rate": "500000000", "shim-weight": "2"}


@pytest.mark.parametrize(
    ("min_kbps", "unit", "weight"),
    [(1, UNIT, "1"), (149_999, UNIT, "1"), (150_000, UNIT, "2"), (1_000_000, UNIT, "10"), (1_000_000, 1, "65535"),
     (1_000_000, 0, None), (0, UNIT, None)],
)
def test_weights_are_in_proportion_to_guarantees(min_kbps, unit, weight):
    assert rates(Member(Limits(min_kbps)), unit=unit).get("shim-weight") == weight


def test_what_the_shim_cannot_limit_is_said():
    settings = mapping.interface_settings([Member(Limits(max_kbps=800_000_001))], UNIT)
    assert "shim-max-rate" not in settings.keys and "above what the shim can limit" in settings.remarks[0]
    settings = mapping.interface_settings([Member(Limits(min_kbps=900_000_000))], UNIT)
    assert settings.keys["shim-min-rate"] == "800000000000" and "lowered to 800000000 kbit/s" in settings.remarks[0]
    settings = mapping.interface_settings([Member(Limits(300, 200))], UNIT)
    assert settings.keys["shim-min-rate"] == settings.keys["shim-max-rate"] == "200000"
    assert settings.remarks == ("the guarantee of 300 kbit/s is above the ceiling and is lowered to 200",)


def test_a_trunk_is_limited_as_a_whole():
    parent, subport = Member(Limits(100_000, 200_000)), Member(Limits(300_000, 400_000))
    assert rates(parent, subport) == {"shim-min-rate": "400000000", "shim-max-rate": "600000000", "shim-weight": "4"}
    settings = mapping.interface_settings([parent, Member(Limits(300_000))], UNIT)
    assert "shim-max-rate" not in settings.keys and settings.keys["shim-min-rate"] == "400000000"
    assert settings.remarks == (
        "1 of the trunk's 2 ports have no ceiling, so the interface that carries them has none",)


PROJECT = "9c1d0a3e5b7f42f6a8e0c2d4b6f80135"


def test_the_project_is_the_tenant():
    assert keys(Member(project=PROJECT))["shim-tenant"] == PROJECT
    assert keys(Member(project=PROJECT), Member(Limits(1), project=PROJECT))["shim-tenant"] == PROJECT
    assert "shim-tenant" not in keys(Member())
    assert keys(Member(project=PROJECT, infrastructure=True)) == {"shim-role": "none"}


@pytest.mark.parametrize(("members", "remark"), [
    ([Member(project=PROJECT), Member(project="other")], "belong to several projects"),
    ([Member(project=PROJECT), Member()], "belong to several projects"),
    ([Member(project="two words")], "'two words' names no tenant"),
    ([Member(project="x" * 65)], "1 to 64 visible ASCII characters"),
])
def test_what_cannot_be_the_tenant_is_said(members, remark):
    settings = mapping.interface_settings(members, UNIT)
    assert "shim-tenant" not in settings.keys and remark in settings.remarks[-1]


def test_ports_of_the_cloud_itself_are_left_alone():
    for owner in ("network:router_interface", "network:dhcp", "neutron:whatever"):
        assert mapping.is_infrastructure(owner)
        assert keys(Member(Limits(1, 2), infrastructure=mapping.is_infrastructure(owner))) == {"shim-role": "none"}
    for owner in ("compute:nova", "trunk:subport", "", None):
        assert not mapping.is_infrastructure(owner)


def test_addresses_are_fixed_ones_pairs_and_link_local_ones():
    addresses = mapping.sources([MAC], ["10.0.0.5", "2001:db8::5", "10.1.0.9/24"], port_security=True)
    assert keys(Member(addresses=addresses))["shim-addresses"] == f"10.0.0.5 10.1.0.0/24 2001:db8::5 {LINK_LOCAL}"


def test_neighbouring_addresses_stay_single_and_contained_ones_go():
    addresses = mapping.sources([], ["10.0.0.5", "10.0.0.4", "10.0.1.7", "10.0.1.0/24", "10.0.1.0/25"], True)
    assert keys(Member(addresses=addresses))["shim-addresses"] == "10.0.0.4 10.0.0.5 10.0.1.0/24"


def test_without_port_security_any_address_is_allowed():
    anything = mapping.sources([MAC], ["10.0.0.5"], port_security=False)
    assert keys(Member(addresses=anything))["shim-addresses"] == "0.0.0.0/0 ::/0"
    one = mapping.sources([MAC], ["10.0.0.5"], port_security=True)
    assert keys(Member(addresses=anything), Member(addresses=one))["shim-addresses"] == "0.0.0.0/0 ::/0"


def test_too_many_addresses_are_none_and_said():
    most = [f"10.0.{number // 128}.{number % 128 * 2}" for number in range(256)]
    full = mapping.interface_settings([Member(addresses=mapping.sources([], most, True))], UNIT)
    assert len(full.keys["shim-addresses"].split()) == 256 and not full.remarks
    more = mapping.interface_settings([Member(addresses=mapping.sources([], [*most, "10.9.0.0"], True))], UNIT)
    assert "shim-addresses" not in more.keys and "257 networks are too many" in more.remarks[0]


def test_nonsense_is_refused():
    with pytest.raises(ValueError):
        mapping.sources([], ["10.0.0.300"], True)


def test_a_change_touches_our_keys_only():
    external_ids = {"iface-id": "a", "shim-weight": "2", "shim-max-rate": "5000", "shim-law": "eyeq"}
    change = mapping.change(external_ids, {"shim-max-rate": "6000", "shim-min-rate": "1000"})
    assert dict(change.put) == {"shim-max-rate": "6000", "shim-min-rate": "1000"}
    assert change.remove == ("shim-weight",)
    assert not mapping.change(external_ids, {"shim-weight": "2", "shim-max-rate": "5000"})


KBPS = st.integers(0, 2**31 - 1)
NETWORKS = st.lists(st.builds(
    lambda value, length: ipaddress.ip_network((value, length), strict=False), st.integers(0, 2**32 - 1),
    st.integers(0, 32)), max_size=300)


@given(st.lists(st.builds(Limits, KBPS, KBPS), min_size=1, max_size=5), st.integers(0, 10**6), NETWORKS)
def test_what_is_written_is_what_vswitchd_takes(limits, unit, networks):
    members = [Member(one, frozenset(networks)) for one in limits]
    written = keys(*members, unit=unit)
    low, high = int(written.get("shim-min-rate", 0)), int(written.get("shim-max-rate", 0))
    for rate in (low, high):
        assert rate == 0 or 1000 <= rate <= 800_000_000_000
    assert not high or low <= high
    assert 1 <= int(written.get("shim-weight", 1)) <= 65535
    listed = [ipaddress.ip_network(one) for one in written.get("shim-addresses", "").split()]
    assert len(listed) <= 256
    if "shim-addresses" in written:
        assert all(any(network.subnet_of(one) for one in listed) for network in networks)
