# SPDX-License-Identifier: Apache-2.0
"""Rows of many databases: which of them are looked at when one changes, and whose count."""

import itertools
import types

import pytest

from sdngcc.controller.databases.ovsdb import Policy
from sdngcc.controller.databases.rows import PortRows, Rows, View
from sdngcc.controller.network.by_port import ByPort, by_switch, moved
from sdngcc.controller.network.tenants import Tenants

DATABASES = 1000


class Row(types.SimpleNamespace):
    """A row that counts how often any of its columns is read."""

    reads = 0

    def __getattribute__(self, name):
        if name != "reads" and not name.startswith("_"):
            Row.reads += 1
        return super().__getattribute__(name)


class Database:
    """A client whose tables are as a test says; it is run by nobody."""

    def __init__(self, dpid, names, believed=True):
        self.believed = believed
        self.health = types.SimpleNamespace(node_fault=None)
        self.seqno = itertools.count(1)
        self.dpid = dpid
        self.write(names)

    def write(self, names, tags=()):
        """Have ports with these iface-ids, tenants that are called alike, and tags by name."""
        ports = []
        for number, (name, iface_id) in enumerate(names.items(), 1):
            interface = Row(name=name, type="vxlan", ifindex=[number], options={"remote_ip": f"10.0.0.{number}"},
                            external_ids={"iface-id": iface_id}, other_config={"shim-tenant": iface_id})  # fmt: skip
            ports.append(Row(name=name, interfaces=[interface], tag=[dict(tags)[name]] if name in dict(tags) else [],
                             other_config={}))  # fmt: skip
        held = types.SimpleNamespace(values=[types.SimpleNamespace(value=number) for number in range(len(ports))])
        bridge = Row(datapath_id=[f"{self.dpid:016x}"], _data={"ports": held})
        tables = {name: types.SimpleNamespace(rows=rows) for name, rows in (
            ("Bridge", {0: bridge}), ("Port", dict(enumerate(ports))), ("Open_vSwitch", {}), ("Interface", {}),
        )}  # fmt: skip
        self.idl, self.version, self.whole = types.SimpleNamespace(tables=tables), (0, next(self.seqno)), True
        bridge._idl = self.idl

    def speaks_for(self, dpid):
        return self.believed

    def charge(self, work_ns):
        self.charged = work_ns

    def run(self):
        pass


def policy_of(databases):
    policy = Policy([], lambda _: None)
    for one in databases:
        policy.add(one)
    return policy


def look(policy):
    """Return all that is asked for again and again."""
    policy.run()
    return policy.interfaces(), policy.tunnels(), policy.vlans(), policy.tenants(), policy.devices()


def test_a_change_of_one_database_of_a_thousand_touches_its_own_rows_only():
    databases = [Database(number, {"tap0": f"vm-{number}", "tap1": "x"}) for number in range(1, DATABASES + 1)]
    policy = policy_of(databases)
    before = look(policy)
    assert len(before[0]) == 2 * DATABASES
    Row.reads = 0
    assert look(policy) == before and [one is other for one, other in zip(look(policy), before)] == [True] * 5
    assert Row.reads == 0
    databases[499].write({"tap0": "vm-500", "tap9": "new"}, {"tap9": 7})
    alone = policy_of([Database(500, {"tap0": "vm-500", "tap9": "new"})])
    Row.reads = 0
    look(alone)
    of_one = Row.reads
    Row.reads = 0
    after = look(policy)
    assert 0 < Row.reads <= of_one, "rows of databases that did not change were looked at"
    assert after[0][500, "tap9"] == "new" and (500, "tap1") not in after[0] and after[2] == {(500, "tap9"): 7}
    for one, other in zip(before, after):
        assert moved(*(getattr(each, "by_switch", each) for each in (one, other))) == [500]
    Row.reads = 0
    assert policy.read(1, "tap0") == {} and policy.guarantees(1, ()) == (0, None)
    assert Row.reads < 20


def test_of_databases_with_one_port_the_one_added_first_counts():
    first, second = Database(1, {"tap0": "first"}), Database(1, {"tap0": "second", "tap1": "of second"})
    policy = policy_of([first, second])
    assert look(policy)[0] == {(1, "tap0"): "first", (1, "tap1"): "of second"}
    second.write({"tap0": "changed", "tap1": "of second"})
    assert look(policy)[0] == {(1, "tap0"): "first", (1, "tap1"): "of second"}
    first.write({"tap2": "first"})
    assert look(policy)[0] == {(1, "tap0"): "changed", (1, "tap1"): "of second", (1, "tap2"): "first"}
    first.write({"tap0": "back"})
    assert look(policy)[0][1, "tap0"] == "back"
    policy.remove(first)
    assert look(policy)[0] == {(1, "tap0"): "changed", (1, "tap1"): "of second"}
    policy.add(first)  # it comes last now
    assert look(policy)[0][1, "tap0"] == "changed"
    policy.remove(second)
    policy.remove(first)
    assert look(policy)[0] == {} and policy.read(1, "tap0") is None


def test_what_is_believed_of_a_database_is_looked_at_again_when_asked_for():
    one = Database(1, {"tap0": "a"})
    policy = policy_of([one])
    assert look(policy)[0] == {(1, "tap0"): "a"}
    one.believed = False
    assert look(policy)[0] == {(1, "tap0"): "a"}
    policy.reread(one)
    assert policy.read(1, "tap0") is None and look(policy)[0] == {}


def test_another_replica_of_the_same_database_is_read_anew():
    one = Database(1, {"tap0": "a"})
    policy = policy_of([one])
    look(policy)
    one.write({"tap0": "b"})
    one.version = (1, 0)
    assert look(policy)[0] == {(1, "tap0"): "b"}


def test_rows_that_are_being_taken_in_are_not_looked_at():
    one = Database(1, {"tap0": "a"})
    policy = policy_of([one])
    look(policy)
    one.write({})
    one.whole = False
    assert look(policy)[0] == {(1, "tap0"): "a"}
    policy.reread(one)
    assert look(policy)[0] == {(1, "tap0"): "a"}
    one.whole = True
    assert look(policy)[0] == {}


def test_with_whole_hosts_each_bridge_stands_for_all_ports():
    one = Database(1, {"tap0": "a"})
    two = Database(2, {"tap1": "b"})
    one.idl.tables["Bridge"].rows[1] = two.idl.tables["Bridge"].rows[0]
    rows = Rows(whole_hosts=True)
    rows.add(one)
    rows.refresh()
    assert sorted(rows.of(1)) == sorted(rows.of(2)) == ["tap0", "tap1"]
    assert isinstance(rows.of(1)["tap0"], PortRows)


def test_a_view_leaves_out_what_its_reader_does_not_know():
    rows = Rows(whole_hosts=False)
    rows.add(Database(1, {"tap0": "a", "tap1": "b"}))
    view = View(rows, lambda found: found.interface.external_ids["iface-id"] if found.port.name == "tap1" else None)
    assert view.values() == {(1, "tap1"): "b"}


@pytest.mark.parametrize("flat", [False, True])
def test_tenants_look_at_the_names_of_switches_that_changed_only(monkeypatch, flat):
    tenants, asked = Tenants(weight=1), []
    monkeypatch.setattr("sdngcc.controller.network.tenants.is_name", lambda text: asked.append(text) or text != "%")
    make = dict if flat else lambda names: ByPort(by_switch(names))
    names = {(number, "tap0"): f"tenant-{number % 7}" for number in range(100)}
    tenants.set_names(make(names))
    assert set(tenants.shares) == {f"tenant-{number}" for number in range(7)}
    asked.clear()
    tenants.set_names(make({**names, (5, "tap0"): "other", (5, "tap1"): "%"}))
    assert set(asked) == {"other", "%"} and "other" in tenants.shares
    tenants.set_names(make({(1, "tap0"): "tenant-1"}))
    assert set(tenants.shares) == {"tenant-1"}
