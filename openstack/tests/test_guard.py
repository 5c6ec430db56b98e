# SPDX-License-Identifier: Apache-2.0
"""Faults of the extensions stay away from Neutron, and what differs by its version is asked of its objects."""

import importlib
import inspect
import logging
import sys
import threading
import time
import types

import pytest

from . import standins

PATIENCE_S = 60.0
HINT = "What to do: /usr/share/doc/python3-sdn-gcc-neutron"


@pytest.fixture(autouse=True)
def neutron(monkeypatch):
    standins.install(monkeypatch)
    made = []
    begin = load("worker").Worker.__init__

    def recorded(self, entry):
        made.append(self)
        begin(self, entry)

    monkeypatch.setattr(load("worker").Worker, "__init__", recorded)
    yield
    for worker in made:
        worker._jobs.clear()


def load(name):
    return importlib.import_module(f"sdngcc_neutron.{name}")


def fail(*args, **kwargs):
    raise RuntimeError("injected by a test")


def wait_for(condition):
    """Wait for what another thread does; fail when patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# The guard and the worker.


def test_a_fault_is_counted_and_logged_with_a_hint_and_its_traceback_once(caplog):
    guard = load("guard")
    guarded = guard.guarded("entry", "Nothing holds", list)(fail)
    with caplog.at_level(logging.ERROR):
        assert [guarded(), guarded()] == [[], []]
    assert guard.faults() == {"entry": 2}
    assert [bool(record.exc_info) for record in caplog.records] == [True, False]
    assert all(HINT in record.getMessage() and "injected by a test" in record.getMessage()
               for record in caplog.records)
    assert "2 times since this process started" in caplog.messages[1]


def test_what_ends_a_process_is_no_fault():
    def end():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        load("guard").guarded("entry", "Nothing holds")(end)()


def test_a_job_that_fails_is_done_again(monkeypatch):
    worker = load("worker")
    monkeypatch.setattr(worker, "RETRY_S", 0.001)
    tries, done = [], threading.Event()

    def job():
        tries.append(1)
        if len(tries) < 3:
            fail()
        done.set()

    worker.Worker("test").put("key", job)
    assert done.wait(PATIENCE_S)
    assert len(tries) == 3
    assert load("guard").faults() == {"test": 2}


def test_a_job_is_replaced_and_dropped():
    made = load("worker").Worker("test")
    done, seen = threading.Event(), []
    made.put("replaced", lambda: seen.append("first"), after_s=3600)
    made.put("replaced", lambda: seen.append("second"))
    made.put("dropped", lambda: seen.append("dropped"), after_s=3600)
    made.drop("dropped")
    wait_for(lambda: seen)
    made.put("last", done.set)
    assert done.wait(PATIENCE_S)
    assert seen == ["second"]


# Open vSwitch's database, by versions of ovsdbapp.


@pytest.mark.parametrize("kind", [standins.OldOvsdb, standins.NewOvsdb])
def test_keys_are_written_by_every_ovsdbapp(kind):
    interfaces, mapping = load("interfaces"), load("mapping")
    load("config").register()
    database = kind({"tap": {"iface-id": "port", "shim-weight": "9"}})
    made = interfaces.Interfaces(database)
    made.update("port", "tap", mapping.Member(mapping.Limits(0, 1000)))
    assert database.interfaces["tap"] == {"iface-id": "port", "shim-max-rate": "1000000",
                                          "shim-addresses": "0.0.0.0/0 ::/0"}
    assert made.keyed() == {"tap": "port"}
    made.remove("port")
    assert database.interfaces["tap"] == {"iface-id": "port"}


@pytest.mark.parametrize("kind", [standins.OldOvsdb, standins.NewOvsdb])
def test_an_interface_that_goes_while_it_is_written_is_no_fault(kind, monkeypatch):
    interfaces, mapping = load("interfaces"), load("mapping")
    load("config").register()
    database = kind({"tap": {"iface-id": "port"}})
    made = interfaces.Interfaces(database)
    change = mapping.change

    def unplugged(*given):
        database.interfaces.clear()
        return change(*given)

    monkeypatch.setattr(mapping, "change", unplugged)
    made.update("port", "tap", mapping.Member(mapping.Limits(0, 1000)))


# The OVS agent.


class Bridge:
    """br-int."""

    def __init__(self, database):
        self.ovsdb = database

    def get_vif_port_by_id(self, port_id):
        """Return the interface of a port."""
        for name, keys in self.ovsdb.interfaces.items():
            if keys.get("iface-id") == port_id:
                return types.SimpleNamespace(port_name=name)
        return None


class Agent:
    """What the agent offers; known: the ports that Neutron has."""

    def __init__(self, interfaces):
        self.database = standins.OldOvsdb(interfaces)
        self.known = {}
        self.plugin_rpc = types.SimpleNamespace(
            remote_resource_cache=types.SimpleNamespace(get_resource_by_id=lambda kind, id: self.known.get(id)),
            get_device_details=lambda context, id, agent, host: port_of(id))

    def request_int_br(self):
        """Return br-int."""
        return Bridge(self.database)


def port_of(port_id, **more):
    return {"port_id": port_id, "mac_address": "02:00:00:00:00:01", "device_owner": "compute:nova",
            "fixed_ips": [{"ip_address": "10.0.0.1"}], **more}


def started(agent):
    made = load("l2_extension").ShimAgentExtension()
    made.consume_api(agent)
    made.initialize("connection", "ovs")
    return made


def binding(host, status):
    return types.SimpleNamespace(host=host, status=status)


BROKEN = [("l2_policies", "PolicyFollower.consume_api"), ("l2_policies", "PolicyFollower.initialize"),
          ("l2_policies", "PolicyFollower.handle_port"), ("l2_policies", "PolicyFollower._write"),
          ("l2_policies", "PolicyFollower.delete_port"), ("l2_policies", "PolicyFollower._member"),
          ("interfaces", "Interfaces.__init__"), ("interfaces", "Interfaces._row"), ("interfaces", "Interfaces._apply"),
          ("interfaces", "Interfaces.remove"), ("interfaces", "Interfaces.keyed"), ("mapping", "interface_settings"),
          ("mapping", "sources"), ("config", "register"), ("config", "weight_unit_kbps"), ("worker", "Worker.__init__")]


@pytest.mark.parametrize("module, name", BROKEN)
def test_the_ovs_agent_goes_on_whatever_fails(module, name, monkeypatch, caplog):
    *path, last = name.split(".")
    holder = load(module)
    for step in path:
        holder = getattr(holder, step)
    monkeypatch.setattr(holder, last, fail)
    made = started(Agent({"tap": {"iface-id": "port", "shim-weight": "2"}}))
    vif_port = types.SimpleNamespace(port_name="tap")
    made.handle_port("context", port_of("port", vif_port=vif_port))
    made.delete_port("context", {"port_id": "port"})
    made.handle_switch_restart()
    wait_for(lambda: load("guard").faults())
    assert HINT in caplog.text


@pytest.mark.parametrize("module", ["l2_policies", "mapping", "interfaces", "worker", "config"])
def test_what_cannot_be_imported_leaves_policies_to_neutron(module, monkeypatch):
    monkeypatch.setitem(sys.modules, f"sdngcc_neutron.{module}", None)
    made = started(Agent({}))
    made.handle_port("context", port_of("port"))
    assert made._running.driver_type == "ovs"
    assert made._running.asked == [("handle_port", "port")]


def test_if_neutrons_extension_fails_too_ports_are_wired_without_policies(monkeypatch):
    monkeypatch.setattr(standins.QosAgentExtension, "initialize", fail)
    made = started(Agent({}))
    made.handle_port("context", port_of("port"))
    made.delete_port("context", port_of("port"))
    assert load("guard").faults() == {"initialize": 2}


def test_beside_neutrons_extension_nothing_is_started(caplog):
    from oslo_config import cfg

    cfg.CONF.agent.extensions = ["qos", "sdngcc"]
    agent = Agent({"tap": {"iface-id": "port"}})
    made = started(agent)
    made.handle_port("context", port_of("port", vif_port=types.SimpleNamespace(port_name="tap")))
    assert agent.database.interfaces == {"tap": {"iface-id": "port"}}
    assert "sdngcc does nothing until qos is taken out of the list" in caplog.text


def test_a_port_that_fails_is_taken_again(monkeypatch):
    monkeypatch.setattr(load("worker"), "RETRY_S", 0.001)
    monkeypatch.setattr(load("l2_policies"), "RETRY_S", 0.001)
    agent = Agent({"tap": {"iface-id": "port"}})
    made = started(agent)
    write = load("interfaces").Interfaces._apply
    failures = iter([fail, fail])
    monkeypatch.setattr(load("interfaces").Interfaces, "_apply", lambda *given: next(failures, write)(*given))
    made.handle_port("context", port_of("port", vif_port=types.SimpleNamespace(port_name="tap")))
    wait_for(lambda: "shim-addresses" in agent.database.interfaces["tap"])


def test_keys_of_ports_that_neutron_has_no_more_go():
    agent = Agent({"gone": {"iface-id": "deleted", "shim-weight": "2", "other": "kept"},
                   "here": {"iface-id": "port", "shim-weight": "2"}, "uplink": {"shim-role": "uplink"}})
    agent.known["port"] = types.SimpleNamespace(id="port", project_id="", bindings=[])
    started(agent)
    wait_for(lambda: agent.database.interfaces["gone"] == {"iface-id": "deleted", "other": "kept"})
    assert agent.database.interfaces["here"]["shim-weight"] == "2"
    assert agent.database.interfaces["uplink"] == {"shim-role": "uplink"}


@pytest.mark.parametrize("bindings, expected", [
    ([binding("here", "ACTIVE"), binding("there", "INACTIVE")], True),
    ([binding("there", "ACTIVE"), binding("here", "INACTIVE")], False),
    ([binding("here", "ACTIVE")], False),
])
def test_a_vm_that_migrated_here_has_its_keys_when_its_binding_is_activated(bindings, expected):
    agent = Agent({"tap": {"iface-id": "port"}})
    made = started(agent)
    port = agent.known["port"] = types.SimpleNamespace(id="port", project_id="", bindings=bindings)
    from neutron_lib.callbacks import registry

    (called,) = [one[0] for one in registry.subscribed if one[1:] == ("Port", "after_update")]
    called("Port", "after_update", None, types.SimpleNamespace(latest_state=port, resource_id="port"))
    done = threading.Event()
    made._running._worker.put("last", done.set)
    assert done.wait(PATIENCE_S)
    assert ("shim-addresses" in agent.database.interfaces["tap"]) is expected


# The OVN agent.


def new_agent_events(events):
    """As Neutron 29 makes its list of events."""
    return [one("agent") if isinstance(one, type) else one for one in set(events)]


def old_agent_events(events):
    """As Neutron up to 28 does."""
    return [one("agent") for one in set(events)]


@pytest.mark.parametrize("make", [old_agent_events, new_agent_events])
def test_every_ovn_agent_makes_its_events(make):
    made = load("ovn_extension").ShimOvnExtension()
    (event,) = make(made.ovs_idl_events)
    seen = []
    event.ports.is_started = True
    event.ports.plugged = lambda *what: seen.append(what)
    row = types.SimpleNamespace(name="tap", external_ids={"iface-id": "port"})
    assert event.match_fn("create", row, None) is True
    event.run("create", row, None)
    event.run("delete", row, None)
    assert seen == [("tap", "port"), ("tap", None)]


@pytest.mark.parametrize("name", ["__init__", "initialize", "interface_events", "later", "connect"])
def test_the_ovn_agent_goes_on_whatever_fails(name, monkeypatch, caplog):
    monkeypatch.setattr(load("ovn_ports").Ports, name, fail)
    made = load("ovn_extension").ShimOvnExtension()
    made.consume_api(types.SimpleNamespace(ovs_idl=standins.OldOvsdb({})))
    made.initialize(None, "ovn")
    assert isinstance(made.ovs_idl_events, list)
    assert (made.nb_idl_tables, made.nb_idl_events, made.sb_idl_tables, made.sb_idl_events) == ([], [], [], [])
    made.start()
    wait_for(lambda: load("guard").faults())
    assert HINT in caplog.text


@pytest.mark.parametrize("module", ["ovn_ports", "ovn_rows", "mapping", "interfaces", "worker"])
def test_the_ovn_agent_goes_on_when_something_cannot_be_imported(module, monkeypatch):
    monkeypatch.setitem(sys.modules, f"sdngcc_neutron.{module}", None)
    made = load("ovn_extension").ShimOvnExtension()
    made.consume_api("agent")
    made.initialize(None, "ovn")
    made.start()
    assert made.ovs_idl_events == []
    assert load("guard").faults() == {"load": 1}


def test_an_ovn_agent_that_tells_no_start_is_watched(monkeypatch):
    from neutron.agent.ovn.extensions import extension_manager

    monkeypatch.setattr(extension_manager, "OVNAgentExtension", standins.Nothing)
    connected = threading.Event()
    monkeypatch.setattr(load("ovn_ports").Ports, "connect", lambda self, ovs_idl: connected.set())
    monkeypatch.setattr(load("ovn_extension"), "LOOK_S", 0.001)
    made = load("ovn_extension").ShimOvnExtension()
    agent = types.SimpleNamespace(ovs_idl=None)
    made.consume_api(agent)
    made.initialize(None, "ovn")
    agent.ovs_idl = "database"
    assert connected.wait(PATIENCE_S)


def test_a_port_that_fails_keeps_no_other_waiting(monkeypatch):
    ports = load("ovn_ports").Ports()
    monkeypatch.setattr(ports, "_northbound_idl", lambda: "northbound")
    seen = []

    def refresh(port_id):
        seen.append(port_id)
        fail()

    monkeypatch.setattr(ports, "_refresh", refresh)
    ports.connect(standins.OldOvsdb({"tap-1": {"iface-id": "one"}, "eth0": {}, "tap-2": {"iface-id": "two"}}))
    assert seen == ["one", "two"]
    assert load("guard").faults() == {"port": 2}


def test_events_that_fail_are_no_matter(monkeypatch):
    ports = load("ovn_ports").Ports()
    ports.is_started = True
    event = load("ovn_ports").PortEvent(ports, "Logical_Switch_Port")
    monkeypatch.setattr(ports, "is_here", fail)
    monkeypatch.setattr(ports, "refresh", fail)
    row = types.SimpleNamespace(name="port", parent_name=[])
    assert event.match_fn("update", row, types.SimpleNamespace()) is False
    assert event.run("update", row, types.SimpleNamespace()) is None


# Neutron's server with ML2/OVN: how its class for QoS is called, by versions.


class Base:
    """What all versions have in common."""

    nb_idl = "northbound"

    def update_port(self, context, txn, port, original_port, reset=False, delete=False, qos_rules=None, lsp=None):
        self.done = txn, port, original_port, list(txn)

    def _qos_rules(self, context, policy_id):
        return {"egress": {"bandwidth_limit": {"max_kbps": 1000}, "dscp_marking": {"dscp_mark": 26}},
                "ingress": {"bandwidth_limit": {"max_kbps": 7000}}}


class Neutron21(Base):
    def update_port(self, txn, port, original_port, reset=False, delete=False, qos_rules=None, lsp=None):
        self.done = txn, port, original_port, list(txn)

    def _add_port_qos_rules(self, txn, port_id, network_id, qos_policy_id, qos_rules, lsp=None):
        self.done = txn, port_id, lsp, qos_rules

    def _delete_port_qos_rules(self, txn, port_id, network_id, lsp=None, port_deleted=False):
        self.done = txn, port_id, lsp, port_deleted


class Neutron26(Base):
    def _add_port_qos_rules(self, txn, port_id, network_id, network_type, qos_policy_id, qos_rules, lsp=None):
        self.done = txn, port_id, lsp, qos_rules

    def _delete_port_qos_rules(self, txn, port_id, network_id, network_type, lsp=None):
        self.done = txn, port_id, lsp, network_type


class Neutron28(Neutron26):
    def _add_port_qos_rules(self, context, txn, port_id, network_id, network_type, qos_policy_id, qos_rules, lsp=None):
        self.done = txn, port_id, lsp, qos_rules


class Unborn(Base):
    def _add_port_qos_rules(self, txn, *, lsp=None, port_id, qos_policy_id, qos_rules, more="default"):
        self.done = txn, port_id, lsp, qos_rules

    def _delete_port_qos_rules(self, port_id, txn, *, lsp, **others):
        self.done = txn, port_id, lsp, others


class Transaction(list):
    """Commands of a transaction."""

    add = list.append


def client_of(version, monkeypatch):
    from neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb import extensions

    monkeypatch.setattr(extensions.qos, "OVNClientQosExtension", version)
    ovn_qos = load("ovn_qos")
    assert ovn_qos.unlike(version) is None
    return ovn_qos.ShimQosClient()


def arguments(method, **values):
    """Return values for the parameters that a method has."""
    known = inspect.signature(method).parameters
    return {name: value for name, value in values.items() if name in known}


VERSIONS = [Neutron21, Neutron26, Neutron28, Unborn]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rules", [None, {"egress": {"bandwidth_limit": {"max_kbps": 5},
                                                     "minimum_bandwidth": {"min_kbps": 2}}, "ingress": {}}])
def test_every_servers_rules_are_divided(version, rules, monkeypatch):
    client, txn = client_of(version, monkeypatch), Transaction()
    client._add_port_qos_rules(**arguments(
        version._add_port_qos_rules, context=types.SimpleNamespace(elevated=lambda: "admin"), txn=txn, port_id="port",
        network_id="net", network_type="vlan", qos_policy_id="policy", qos_rules=rules, lsp="row"))
    left = {"egress": {}, "ingress": {}} if rules else {
        "egress": {"dscp_marking": {"dscp_mark": 26}}, "ingress": {"bandwidth_limit": {"max_kbps": 7000}}}
    assert client.done == (txn, "port", "row", left)
    assert [(one.port, one.keys) for one in txn] == [
        ("row", {"sdngcc:max_kbps": "5", "sdngcc:min_kbps": "2"} if rules else {"sdngcc:max_kbps": "1000"})]
    client._delete_port_qos_rules(**arguments(
        version._delete_port_qos_rules, txn=txn, port_id="port", network_id="net", network_type="vlan", lsp=None))
    assert client.done[:3] == (txn, "port", None)
    assert [(one.port, one.keys) for one in txn[1:]] == [("port", {})]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("broken", ["without_shim", "SetLimitsCommand", "ShimQosClient._split"])
def test_what_fails_in_the_server_is_left_to_ovn(version, broken, monkeypatch):
    client, txn = client_of(version, monkeypatch), Transaction()
    ovn_qos = load("ovn_qos")
    holder, _, name = broken.rpartition(".")
    monkeypatch.setattr(getattr(ovn_qos, holder) if holder else ovn_qos, name, fail)
    client._add_port_qos_rules(**arguments(
        version._add_port_qos_rules, context=None, txn=txn, port_id="port", network_id="net", network_type="vlan",
        qos_policy_id="policy", qos_rules={"as": "given"}, lsp=None))
    assert client.done == (txn, "port", None, {"as": "given"})
    assert txn == []
    client._delete_port_qos_rules(**arguments(
        version._delete_port_qos_rules, txn=txn, port_id="port", network_id="net", network_type="vlan", lsp=None))
    assert client.done[:3] == (txn, "port", None)


class LogicalPort:
    """A row whose external_ids a transaction is to write; committed: what others have written meanwhile."""

    def __init__(self, committed, pending):
        self._data = {"external_ids": types.SimpleNamespace(to_python=lambda convert: {
            convert(key, "string"): convert(value, "string") for key, value in committed.items()})}
        self.__dict__["external_ids"] = pending
        self.written = []

    def __setattr__(self, name, value):
        if name == "external_ids":
            self.written.append(value)
        self.__dict__[name] = value


@pytest.mark.parametrize("committed, pending, written", [
    ({"sdngcc:max_kbps": "2", "a": "b"}, {"sdngcc:max_kbps": "1", "a": "c"}, [{"sdngcc:max_kbps": "2", "a": "c"}]),
    ({}, {"sdngcc:max_kbps": "1", "sdngcc:min_kbps": "1", "a": "b"}, [{"a": "b"}]),
    ({"sdngcc:min_kbps": "3"}, {}, [{"sdngcc:min_kbps": "3"}]),
    ({"sdngcc:min_kbps": "3"}, {"sdngcc:min_kbps": "3", "a": "b"}, []),
])
@pytest.mark.parametrize("version", [Neutron21, Neutron28])
def test_a_change_of_a_port_takes_no_policys_change_back(version, committed, pending, written, monkeypatch):
    client, txn = client_of(version, monkeypatch), Transaction()
    client.update_port(**arguments(version.update_port, context="context", txn=txn, port={"id": "port"},
                                   original_port="before"))
    assert client.done == (txn, {"id": "port"}, "before", txn)
    (command,) = txn
    row = LogicalPort(committed, pending)
    command.api = types.SimpleNamespace(lookup=lambda table, name: row if name == "port" else fail())
    command.run_idl("txn")
    assert row.written == written


@pytest.mark.parametrize("more", [{"delete": True}, {"lsp": "command"}])
def test_a_port_that_is_made_or_deleted_has_nothing_to_keep(more, monkeypatch):
    client, txn = client_of(Neutron28, monkeypatch), Transaction()
    client.update_port("context", txn, {"id": "port"}, None, **more)
    assert client.done == (txn, {"id": "port"}, None, []) and txn == []


def test_a_port_that_cannot_be_kept_is_written(monkeypatch):
    client, txn = client_of(Neutron28, monkeypatch), Transaction()
    monkeypatch.setattr(load("ovn_qos"), "KeepLimitsCommand", fail)
    client.update_port("context", txn, {"id": "port"}, None)
    assert client.done == (txn, {"id": "port"}, None, [])
    assert load("guard").faults() == {"update_port": 1}


def test_a_command_that_fails_ends_no_transaction_of_neutrons():
    ovn_qos, mapping = load("ovn_qos"), load("mapping")
    database = types.SimpleNamespace(lookup=fail)
    for command in (ovn_qos.SetLimitsCommand(database, "port", mapping.Limits(1, 2)),
                    ovn_qos.KeepLimitsCommand(database, "port")):
        assert command.run_idl("txn") is None
    assert load("guard").faults() == {"run_idl": 2}


@pytest.mark.parametrize("version, why", [
    (type("Unlike", (Base,), {}), "Unlike has no _add_port_qos_rules"),
    (type("Unlike", (Neutron26,), {"_delete_port_qos_rules": lambda self, txn, port: None}),
     "Unlike._delete_port_qos_rules takes no lsp, port_id"),
])
def test_the_server_starts_with_a_class_that_is_not_known(version, why, monkeypatch, caplog):
    from neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb import extensions

    monkeypatch.setattr(extensions.qos, "OVNClientQosExtension", version)
    monkeypatch.setattr(load("ovn_qos"), "_has_reader", lambda: True)
    load("ovn_server").ShimExtensionDriver().initialize()
    assert extensions.qos.OVNClientQosExtension is version
    assert why in caplog.text and "OVN's meters and HTB queues go on limiting" in caplog.text


def test_the_servers_part_waits_for_an_agent_that_could_limit(monkeypatch, caplog):
    from neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb import extensions

    monkeypatch.setattr(extensions.qos, "OVNClientQosExtension", Neutron21)
    monkeypatch.delitem(sys.modules, "neutron.agent.ovn.extensions.extension_manager")
    load("ovn_server").ShimExtensionDriver().initialize()
    assert extensions.qos.OVNClientQosExtension is Neutron21
    assert "has no agent for OVN that takes extensions" in caplog.text


def test_a_server_without_ovn_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "sdngcc_neutron.ovn_qos", None)
    load("ovn_server").ShimExtensionDriver().initialize()
    assert load("guard").faults() == {"initialize": 1}
