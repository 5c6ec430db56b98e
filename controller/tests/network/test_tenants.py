# SPDX-License-Identifier: Apache-2.0
"""Who belongs to which tenant, and what follows of what is set for it."""

import collections
import logging
import math
import pathlib

import pytest

from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.tenants import NAME_IN_WORDS, NAME_PATTERN, Tenants
from sdngcc.controller.rates.hierarchy import Tenant
from sdngcc_neutron import mapping

A, B, C = VmRecord((1, 1), "a", "tap-a"), VmRecord((1, 2), "b", "tap-b"), VmRecord((2, 1), "c", "tap-c")


def test_machines_of_tenants_with_a_policy_are_members():
    tenants = Tenants()
    tenants.set_names({(1, "tap-a"): "gold", (1, "tap-b"): "tin", (9, "tap-c"): "gold"})
    assert tenants.members([A, B, C]) == {}
    tenants.set_policies({"gold": {"weight": 2, "min": 8000, "max": 80_000}, "tin": {}})
    assert tenants.shares == {"gold": Tenant(2, 1000.0, 10_000.0)}
    assert tenants.members([A, B, C]) == {(1, 1): "gold"}
    assert tenants.by_tenant([A, B, C]) == {"gold": [A], "tin": [B]}
    assert tenants.name_of(C) is None


def test_a_weight_for_all_is_that_of_tenants_without_one():
    tenants = Tenants(weight=4)
    tenants.set_policies({"gold": {"max": 80_000}, "silver": {"weight": 9}})
    tenants.set_names({(1, "tap-a"): "gold", (1, "tap-b"): "tin"})
    assert tenants.shares == {"gold": Tenant(4, 0.0, 10_000.0), "silver": Tenant(9), "tin": Tenant(4, 0.0, math.inf)}


@pytest.mark.parametrize("text", ["", "a" * 65, "two words", "tab\t", "caf\u00e9", "line\n", "100%"])
def test_what_names_no_tenant_is_refused_counted_and_told_once(text, caplog):
    counters: collections.Counter[str] = collections.Counter()
    tenants = Tenants(1, counters)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tenants.set_names({(1, "tap-a"): text, (1, "tap-b"): "tin"})
    assert counters == {"tenant_names_refused": 1}
    assert tenants.name_of(A) is None and tenants.name_of(B) == "tin"
    line, = caplog.messages
    assert "port tap-a of switch 0000000000000001" in line and "1 to 64 visible ASCII characters" in line


def test_policy_that_is_stored_under_no_name_of_a_tenant_is_refused_counted_and_told_once(caplog):
    counters: collections.Counter[str] = collections.Counter()
    tenants = Tenants(None, counters)
    for weight in (2, 3):
        tenants.set_policies({"100%": {"weight": weight}, "gold": {"weight": weight}})
    assert counters == {"tenant_names_refused": 1} and set(tenants.shares) == set(tenants.policies) == {"gold"}
    line, = caplog.messages
    assert "'100%'" in line and NAME_IN_WORDS in line


def test_the_rule_is_said_the_same_wherever_a_name_can_be_set():
    top = pathlib.Path(__file__).parents[3]
    assert f"^{mapping.TENANT_NAME.pattern}$" == NAME_PATTERN
    [remark] = mapping.interface_settings([mapping.Member(project="100%")], 0).remarks
    assert NAME_IN_WORDS in remark
    patches = top / "ovs-patches/ovs"
    [manual] = (patches / "3.1").glob("0004-*")
    # What ovs-vswitchd does is tested in ofproto-shim.at, by the words it says.
    for path, text in [(path, path.read_text()) for path in (
        manual, patches / "files/vswitchd/shim-port.c", patches / "files/tests/ofproto-shim.at",
        *(top / "docs" / name for name in ("controller.md", "rest.md", "operator-guide.md")),
    )]:  # fmt: skip
        for mark, plain in (("\n+", " "), ("<code>%</code>", "%"), ("%%", "%"), ('"', ""), ("%d", "64")):
            text = text.replace(mark, plain)
        assert NAME_IN_WORDS in " ".join(text.split()), path
