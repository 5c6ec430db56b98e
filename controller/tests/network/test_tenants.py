# SPDX-License-Identifier: Apache-2.0
"""Who belongs to which tenant, and what follows of what is set for it."""

import collections
import logging
import math

import pytest

from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.rates.hierarchy import Tenant

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


@pytest.mark.parametrize("text", ["", "a" * 65, "two words", "tab\t", "caf\u00e9", "line\n"])
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
