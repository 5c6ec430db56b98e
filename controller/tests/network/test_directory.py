# SPDX-License-Identifier: Apache-2.0
"""What databases of the cloud say of ports, put together."""

import collections

import pytest

from sdngcc.controller.network import directory as module
from sdngcc.controller.network.directory import (
    Allowed,
    CloudPort,
    Directory,
    Trunk,
    address_of,
    allowed_of,
    clean_text,
    mac_of,
)
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.rates.hierarchy import Tenant


def test_of_two_databases_the_first_that_has_a_value_counts():
    directory = Directory()
    directory.take("neutron", CloudPort("p", "name-n", "server", "net-n", tenant="t-n"))
    assert directory.find("p").name == "name-n"
    directory.take("ovn", CloudPort("p", "", "", "net-o", segments=((0, 5),), tenant="t-o"))
    assert directory.find("p") == CloudPort("p", "name-n", "server", "net-o", segments=((0, 5),), tenant="t-o")
    directory.drop("ovn", "p")
    assert directory.find("p").network == "net-n"
    directory.drop("neutron", "p")
    assert directory.find("p") is None and directory.find(None) is None


def test_tenants_are_counted_by_ports():
    directory = Directory()
    directory.take("ovn", CloudPort("p", tenant="a"))
    directory.take("ovn", CloudPort("q", tenant="a"))
    directory.take("ovn", CloudPort("q", tenant="b"))
    assert directory.tenants == {"a": 1, "b": 1}
    directory.drop("ovn", "p")
    assert directory.tenants == {"b": 1}


def test_what_a_reader_that_begins_anew_does_not_mention_is_told_once_it_is_through():
    directory = Directory()
    for name in "pqr":
        directory.take("ovn", CloudPort(name))
    directory.take("neutron", CloudPort("n"))
    version = directory.version
    directory.begin("ovn")
    directory.take("ovn", CloudPort("q"))
    directory.drop("ovn", "r")
    assert directory.unmentioned("ovn") == ["p"] and directory.unmentioned("ovn") == []
    assert directory.find("p") is not None and directory.version == version + 1


def test_there_is_a_bound_on_ports(monkeypatch):
    monkeypatch.setattr(module, "PORTS_MAX", 2)
    directory = Directory()
    assert directory.take("ovn", CloudPort("p")) and directory.take("ovn", CloudPort("q"))
    assert not directory.take("ovn", CloudPort("r"))
    assert directory.take("ovn", CloudPort("p", "new")) and directory.take("neutron", CloudPort("r"))
    assert directory.count("ovn") == 2


def ids(directory, port_id):
    return [one.id for one in directory.behind(port_id)]


def test_subports_stand_behind_the_parent_port_of_their_trunk():
    directory = Directory()
    assert directory.behind(None) == directory.behind("p") == ()
    first, second = CloudPort("s", trunk=Trunk("p", 7)), CloudPort("t", trunk=Trunk("p", 8))
    directory.take("neutron", first)
    assert directory.behind("p") == (first,) and directory.find("p") is None
    directory.take("ovn", second)
    directory.take("ovn", CloudPort("p", "parent"))
    assert directory.behind("p") == (CloudPort("p", "parent"), first, second) and directory.behind("s") == (first,)
    directory.take("ovn", CloudPort("t", trunk=Trunk("q", 8)))
    assert ids(directory, "q") == ["t"] and ids(directory, "p") == ["p", "s"]
    directory.drop("neutron", "s")
    directory.drop("ovn", "t")
    assert ids(directory, "p") == ["p"] and ids(directory, "q") == []


def test_there_is_a_bound_on_subports(monkeypatch):
    monkeypatch.setattr(module, "SUBPORTS_MAX", 2)
    directory = Directory()
    for name in "st":
        assert directory.take("ovn", CloudPort(name, trunk=Trunk("p", 7)))
    assert not directory.take("ovn", CloudPort("u", trunk=Trunk("p", 7)))
    assert directory.take("ovn", CloudPort("s", "new", trunk=Trunk("p", 7))) and directory.find("u") is None


def test_ranges_of_addresses_are_read():
    assert allowed_of("10.0.0.7/24") == Allowed(bytes(10) + b"\xff\xff\x0a\0\0\0", 120)
    assert allowed_of("10.0.0.7", b"abcdef") == Allowed(bytes(10) + b"\xff\xff\x0a\0\0\x07", 128, b"abcdef")
    assert allowed_of("fd00::/64") == Allowed(b"\xfd" + bytes(15), 64)
    assert allowed_of("VRRPv3") is allowed_of("fa:16:3e:00:00:01") is allowed_of("10.0.0.0/33") is None


def test_nothing_of_a_name_is_obeyed_by_a_terminal():
    assert clean_text("a\x1b[2Jb\u202ec\nd") == "a\ufffd[2Jb\ufffdc\ufffdd"
    assert clean_text("x" * 1000) == "x" * 255
    for wrong in (None, 3, ["a"]):
        with pytest.raises(ValueError):
            clean_text(wrong)


def test_addresses_are_read_and_what_is_none_is_not():
    assert mac_of("fa:16:3E:00:00:01") == bytes.fromhex("fa163e000001")
    for text in ("unknown", "fa:16:3e:00:00", "fa:16:3e:00:00:+1", "fa:16:3e:00:00:zz"):
        assert mac_of(text) is None
    assert address_of("10.0.0.1/24") == bytes(10) + b"\xff\xff\x0a\0\0\x01"
    assert address_of("fd00::1")[-1] == 1 and address_of("10.0.0.256") is None


# Tenants

A, B = VmRecord((1, 1), "port-a", "tap-a"), VmRecord((1, 2), "port-b", "tap-b")


def test_the_cloud_names_the_tenant_where_ovsdb_says_nothing():
    directory, counters = Directory(), collections.Counter()
    tenants = Tenants(None, counters, directory)
    directory.take("ovn", CloudPort("port-a", tenant="project-1"))
    directory.take("ovn", CloudPort("port-b", tenant="project-1"))
    tenants.set_policies({"project-1": {"max": 80_000}})
    assert tenants.members([A, B]) == {(1, 1): "project-1", (1, 2): "project-1"}
    tenants.set_names({(1, "tap-a"): "gold"})
    assert [tenants.name_of(vm) for vm in (A, B)] == ["gold", "project-1"]
    tenants.set_names({(1, "tap-a"): "two words"})
    assert tenants.name_of(A) is None


def test_tenants_that_the_cloud_names_have_the_weight_for_all():
    directory = Directory()
    tenants = Tenants(3, None, directory)
    directory.take("ovn", CloudPort("port-a", tenant="project-1"))
    tenants.directory_changed()
    assert tenants.shares == {"project-1": Tenant(3)}
    tenants.set_policies({"gold": {"weight": 2}})
    assert tenants.shares == {"project-1": Tenant(3), "gold": Tenant(2)}
