# SPDX-License-Identifier: Apache-2.0
"""Keys of an interface that carries a trunk, while its ports become known one by one and others write to it."""

import importlib
import ipaddress
import types

import pytest

from . import standins

BEFORE = {"shim-addresses": "10.0.0.1 10.0.0.2 10.0.0.3", "shim-max-rate": "9000000"}


@pytest.fixture(autouse=True)
def neutron(monkeypatch):
    standins.install(monkeypatch)
    load("config").register()


def load(name):
    return importlib.import_module(f"sdngcc_neutron.{name}")


def member(number, max_kbps=1000):
    mapping = load("mapping")
    return mapping.Member(mapping.Limits(0, max_kbps), frozenset([ipaddress.ip_network(f"10.0.0.{number}")]))


class Trunk:
    """A VM's interface "tap" on a trunk's bridge, with the patch ports that Neutron 21 to 29 make."""

    def __init__(self, *subports, noted):
        self.database = standins.OldOvsdb(
            {"tap": {"iface-id": "parent", "subport_ids": noted, **BEFORE}},
            bridges={"tbr": ["tap"], "br-int": ["int-br-phys"]})
        self.wire("t", "parent")
        for name in subports:
            self.wire("s", name)
        self.interfaces = load("interfaces").Interfaces(self.database)

    def wire(self, kind, port):
        """Make the two patch ports of a port."""
        inner, outer = f"{kind}pi-{port}", f"{kind}pt-{port}"
        for name, peer, bridge in ((inner, outer, "br-int"), (outer, inner, "tbr")):
            self.database.interfaces[name] = {"iface-id": port}
            self.database.peers[name] = peer
            self.database.bridges[bridge].append(name)

    def unwire(self, port):
        """Remove them."""
        for name, bridge in ((f"spi-{port}", "br-int"), (f"spt-{port}", "tbr")):
            del self.database.interfaces[name]
            self.database.bridges[bridge].remove(name)

    def update(self, kind, port, number, **more):
        """Take what the agent tells of a port."""
        self.interfaces.update(port, f"{kind}pi-{port}", member(number, **more))

    @property
    def keys(self):
        return {key: value for key, value in self.database.interfaces["tap"].items() if key.startswith("shim-")}


def test_what_a_trunk_has_stays_until_every_port_that_is_wired_is_known():
    trunk = Trunk("first", "second", noted='["first", "second"]')
    trunk.update("t", "parent", 1)
    trunk.update("s", "second", 2)
    assert trunk.keys == BEFORE
    trunk.update("s", "first", 3)
    assert trunk.keys == {"shim-addresses": "10.0.0.1 10.0.0.2 10.0.0.3", "shim-max-rate": "3000000"}


def test_a_subport_that_was_removed_while_no_agent_ran_is_not_waited_for():
    # The agent unwires it when it has asked the server, and leaves it in what it has noted.
    trunk = Trunk("first", "second", noted='["first", "second"]')
    trunk.update("t", "parent", 1)
    trunk.update("s", "second", 2)
    trunk.unwire("first")
    trunk.interfaces.refresh_waiting()
    assert trunk.keys == {"shim-addresses": "10.0.0.1 10.0.0.2", "shim-max-rate": "2000000"}


def test_a_subport_that_never_becomes_known_is_waited_for_until_it_is_deleted():
    trunk = Trunk("first", noted='["first"]')
    trunk.update("t", "parent", 1)
    trunk.unwire("first")
    trunk.interfaces.remove("first")
    assert trunk.keys == {"shim-addresses": "10.0.0.1", "shim-max-rate": "1000000"}


def test_a_subport_that_was_added_while_no_agent_ran_is_taken():
    trunk = Trunk(noted="[]")
    trunk.update("t", "parent", 1)
    assert trunk.keys == {"shim-addresses": "10.0.0.1", "shim-max-rate": "1000000"}
    trunk.wire("s", "first")
    trunk.update("s", "first", 2, max_kbps=0)
    assert trunk.keys == {"shim-addresses": "10.0.0.1 10.0.0.2"}


def test_keys_that_somebody_writes_back_are_mended():
    trunk = Trunk(noted="[]")
    trunk.update("t", "parent", 1)
    assert trunk.interfaces.carries("tap") and not trunk.interfaces.carries("spi-first")
    trunk.database.interfaces["tap"].update(BEFORE, other="kept")
    trunk.interfaces.refresh("tap")
    assert trunk.keys == {"shim-addresses": "10.0.0.1", "shim-max-rate": "1000000"}
    assert trunk.database.interfaces["tap"]["other"] == "kept"
    trunk.interfaces.remove("parent")
    assert trunk.keys == {} and not trunk.interfaces.carries("tap")


def test_what_the_agent_sees_of_interfaces_is_looked_at_again(monkeypatch):
    policies = load("l2_policies")
    database = standins.OldOvsdb({"tap": {"iface-id": "port"}})
    follower = policies.PolicyFollower()
    follower.consume_api(types.SimpleNamespace(request_int_br=lambda: types.SimpleNamespace(ovsdb=database)))
    jobs = {}
    monkeypatch.setattr(load("worker").Worker, "put", lambda self, key, run, after_s=0.0: jobs.__setitem__(key, run))
    follower.initialize("connection", "sdngcc")
    from neutron_lib.callbacks import registry

    (called,) = [one[0] for one in registry.subscribed if one[1:] == ("ovsdb", "after_read")]
    follower.handle_port("context", {
        "port_id": "port", "mac_address": "02:00:00:00:00:01", "device_owner": "compute:nova", "fixed_ips": [],
        "vif_port": types.SimpleNamespace(port_name="tap")})
    written = dict(database.interfaces["tap"])
    jobs.clear()

    def saw(**events):
        called("ovsdb", "after_read", None, types.SimpleNamespace(
            latest_state={"added": [], "modified": [], "removed": [], **events}))

    saw(added=[{"name": "tap"}], modified=[{"name": "other"}])
    assert jobs == {}
    saw(removed=[{"name": "other"}])
    assert jobs.keys() == {"waiting"}
    saw(modified=[{"name": "tap"}, {"name": "other"}])
    assert jobs.keys() == {"waiting", ("interface", "tap")}
    del database.interfaces["tap"]["shim-addresses"]
    for run in jobs.values():
        run()
    assert database.interfaces["tap"] == written


def test_with_ovn_a_trunk_keeps_what_it_has_until_all_its_ports_are_known():
    database = standins.NewOvsdb({"tap": {"iface-id": "parent", **BEFORE}})
    subports = ["first", "second"]
    made = load("interfaces").Interfaces(database, {"parent": subports}.__getitem__)
    for number, port in enumerate(("parent", "first"), 1):
        made.update(port, "tap", member(number))
        assert database.interfaces["tap"] == {"iface-id": "parent", **BEFORE}
    subports.remove("second")
    made.remove("second")
    assert database.interfaces["tap"] == {"iface-id": "parent", "shim-addresses": "10.0.0.1 10.0.0.2",
                                          "shim-max-rate": "2000000"}
    made.remove("parent")
    made.remove("first")
    assert database.interfaces["tap"] == {"iface-id": "parent"}
