# SPDX-License-Identifier: Apache-2.0
"""Modules that stand where those of Neutron, oslo and ovsdbapp would be, so far as the extensions use them."""

import contextlib
import logging
import sys
import types


class Configuration(types.SimpleNamespace):
    """oslo.config's CONF: groups of options."""

    def __getitem__(self, group):
        return getattr(self, group)

    def register_opts(self, options, group):
        """Know options by their defaults."""
        known = self.__dict__.setdefault(group, types.SimpleNamespace())
        for name, default in options:
            known.__dict__.setdefault(name, default)


class QosAgentExtension:
    """Neutron's extension qos; what it was asked is in ``asked``."""

    def consume_api(self, agent_api):
        """Take what the agent offers."""
        self.agent_api = agent_api

    def initialize(self, connection, driver_type):
        """Start."""
        self.asked = []
        self.driver_type = driver_type
        self.policy_map = PolicyMap()
        self.resource_rpc = types.SimpleNamespace(bulk_pull=lambda context, kind, filter_kwargs: [
            types.SimpleNamespace(id=one) for one in filter_kwargs["id"] if one in self.agent_api.known])

    def handle_port(self, context, port):
        """Take a port."""
        self.asked.append(("handle_port", port["port_id"]))

    def delete_port(self, context, port):
        """Forget a port."""
        self.asked.append(("delete_port", port["port_id"]))

    def _process_update_policy(self, qos_policy):
        self.asked.append(("policy", qos_policy.id))


class PolicyMap:
    """Which port has which policy."""

    def __init__(self):
        self.policies, self.ports = {}, {}

    def get_port_policy(self, port):
        """Return a port's policy."""
        return self.policies.get(self.ports.get(port["port_id"]))

    def get_policy(self, policy_id):
        """Return a policy."""
        return self.policies.get(policy_id)

    def get_ports(self, policy):
        """Return the ports that have a policy."""
        return [{"port_id": port} for port, one in self.ports.items() if one == policy.id]


class Nothing:
    """A base class that asks nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def initialize(self, *args):
        """Start."""

    def consume_api(self, agent_api):
        """Take what the agent offers."""
        self.agent_api = agent_api


class StartedExtension(Nothing):
    """Neutron 24's base class of the OVN agent's extensions; that of 22 and 23 has no start()."""

    def start(self):
        """Note that the agent has started."""


class RowEvent:
    """ovsdbapp's event."""

    ROW_CREATE, ROW_UPDATE, ROW_DELETE = "create", "update", "delete"

    def __init__(self, events, table, conditions):
        self.events, self.table = events, table


class BaseCommand:
    """ovsdbapp's command."""

    def __init__(self, api):
        self.api = api


class RowNotFound(Exception):
    """ovsdbapp's."""


def modules():
    """Return the modules by name."""
    unlocked = types.SimpleNamespace(synchronized=lambda name: lambda function: function)
    subscribed = []
    contents = {
        "neutron.agent.l2.extensions": {"qos": types.SimpleNamespace(QosAgentExtension=QosAgentExtension)},
        "neutron.agent.ovn.extensions.extension_manager": {"OVNAgentExtension": StartedExtension},
        "neutron.api.rpc.callbacks": {"resources": types.SimpleNamespace(PORT="Port")},
        "neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb.extensions": {
            "qos": types.SimpleNamespace(OVNClientQosExtension=Nothing)},
        "neutron_lib.agent.l2_extension": {"L2AgentExtension": Nothing},
        "neutron_lib.callbacks": {
            "events": types.SimpleNamespace(AFTER_UPDATE="after_update", AFTER_READ="after_read"),
            "registry": types.SimpleNamespace(subscribe=lambda *what: subscribed.append(what), subscribed=subscribed)},
        "neutron_lib.context": {"get_admin_context_without_session": lambda: "admin",
                                "get_admin_context": lambda: "admin"},
        "neutron_lib.plugins.ml2": {"ovs_constants": types.SimpleNamespace(OVSDB_RESOURCE="ovsdb")},
        "neutron_lib.plugins.ml2.api": {"ExtensionDriver": Nothing},
        "oslo_concurrency": {"lockutils": unlocked},
        "oslo_config": {"cfg": types.SimpleNamespace(
            CONF=Configuration(host="here", agent=types.SimpleNamespace(extensions=["sdngcc"])),
            IntOpt=lambda name, default, **_: (name, default))},
        "oslo_log": {"log": types.SimpleNamespace(getLogger=logging.getLogger)},
        "ovsdbapp.backend.ovs_idl": {
            "event": types.SimpleNamespace(RowEvent=RowEvent),
            "command": types.SimpleNamespace(BaseCommand=BaseCommand),
            "idlutils": types.SimpleNamespace(RowNotFound=RowNotFound)},
    }
    made = {}
    for name, values in contents.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            module = made.setdefault(path, types.ModuleType(path))
            module.__path__ = []
            if end > 1:
                setattr(made[".".join(parts[:end - 1])], parts[end - 1], module)
        made[name].__dict__.update(values)
    return made


def install(monkeypatch):
    """Have the extensions import these modules, and be imported anew, until the test ends."""
    for name in [name for name in sys.modules if name.startswith("sdngcc_neutron")]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)


class Command:
    """ovsdbapp's command: done when it is executed."""

    def __init__(self, run):
        self.run = run

    def execute(self, **_):
        """Do it and return what it gives."""
        return self.run()


class Ovsdb:
    """ovsdbapp's interface to a database with the given interfaces, by name: their external_ids.

    peers: of patch ports. bridges: names of interfaces by bridge, where that matters.
    """

    def __init__(self, interfaces, peers=None, bridges=None):
        self.interfaces, self.peers, self.bridges = interfaces, peers or {}, bridges or {}

    def _row(self, name):
        peer = self.peers.get(name)
        return {"name": name, "type": "patch" if peer else "", "options": {"peer": peer} if peer else {},
                "external_ids": dict(self.interfaces[name])}

    def iface_to_br(self, name):
        """Return the bridge of an interface."""
        return Command(lambda: next((bridge for bridge, names in self.bridges.items() if name in names), None))

    def list_ifaces(self, bridge):
        """Return the interfaces of a bridge."""
        return Command(lambda: list(self.bridges[bridge]))

    def db_list(self, table, records=None, columns=None, if_exists=False):
        """Return rows."""
        return Command(lambda: [self._row(one) for one in (records or self.interfaces) if one in self.interfaces])

    def db_remove(self, table, record, column, *keys, if_exists=False):
        """Remove keys."""
        return Command(lambda: [self.interfaces[record].pop(key) for key in keys])

    @contextlib.contextmanager
    def transaction(self, check_error=False, log_errors=True, nested=True, **kwargs):
        """Do commands at the end."""
        commands = []
        yield types.SimpleNamespace(add=commands.append)
        for command in commands:
            command.execute()


class OldOvsdb(Ovsdb):
    """Of ovsdbapp 2.1 and 2.2: a row that is gone is an error."""

    def db_set(self, table, record, *col_values):
        """Set keys."""
        return Command(lambda: [self._update(record, values) for _, values in col_values])

    def _update(self, record, values):
        if record not in self.interfaces:
            raise RowNotFound(record)
        self.interfaces[record].update(values)


class NewOvsdb(Ovsdb):
    """Of ovsdbapp from 2.3 on: a row that is gone is passed by."""

    def db_set(self, table, record, *col_values, if_exists=True, **columns):
        """Set keys."""
        return Command(lambda: [self.interfaces.get(record, {}).update(values) for _, values in col_values])
