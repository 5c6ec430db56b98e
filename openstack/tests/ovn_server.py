# SPDX-License-Identifier: Apache-2.0
"""What Neutron's server writes into OVN's northbound database, by Neutron's own classes; run by Neutron's own Python.

    python ovn_server.py NORTHBOUND [sdngcc]

With "sdngcc" our ML2 extension driver is loaded as the server would. Policies are kept in memory, where the server has
its database; what becomes of them in OVN is decided by ML2/OVN's class for QoS, or ours in its place. A test commands
it by lines of JSON on standard input, ``[method, {parameter: value}]``; each is answered by one line.
"""

import json
import sys
import threading
from unittest import mock

from neutron.agent.ovn.agent import ovsdb
from neutron.common.ovn import constants
from neutron.conf.plugins.ml2.drivers.ovn import ovn_conf
from neutron.objects.qos import rule
from neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb.extensions import qos
from neutron_lib import context
from oslo_config import cfg

PROJECT = "00000000000040008000000000000000"
RULES = {"bandwidth_limit": rule.QosBandwidthLimitRule, "minimum_bandwidth": rule.QosMinimumBandwidthRule,
         "dscp_marking": rule.QosDscpMarkingRule}

# What Neutron's API answers to a change of a guarantee in use.
REFUSED = [501, "Cannot update QoS policies/rules backed by resources tracked in Placement"]


class Server:
    """What the test commands."""

    def __init__(self, northbound):
        cfg.CONF([], project="neutron")
        ovn_conf.register_opts()
        cfg.CONF.set_override("ovn_nb_connection", [northbound], "ovn")
        self.nb = ovsdb.MonitorAgentOvnNbIdl({"Logical_Switch", "Logical_Switch_Port", "QoS", "NB_Global"}, []).start()
        self.context = context.get_admin_context_without_session()
        self.policies, self.ports, self.kinds = {}, {}, {}
        mock.patch.object(rule, "get_rules", lambda _, context, policy_id: self.policies[policy_id]).start()

    @property
    def qos(self):
        """Neutron's class for QoS, as its client of OVN gets it when the server has started."""
        return qos.OVNClientQosExtension(nb_idl=self.nb)

    def network(self, id, kind):
        """Make a network."""
        self.kinds[id] = kind
        self.nb.ls_add(f"neutron-{id}", external_ids={constants.OVN_NETTYPE_EXT_ID_KEY: kind}).execute(check_error=True)
        if kind == "vlan":
            self.nb.create_lswitch_port(f"provnet-{id}", f"neutron-{id}", True, type="localnet", tag=100,
                                        addresses=["unknown"], options={"network_name": "physnet"}
                                        ).execute(check_error=True)

    def policy(self, id, rules):
        """Make or change a policy, with what it means to ports that have it.

        Returns the refusal's status and text, or nothing.
        """
        guarantees = [one["min_kbps"] for one in rules if one["type"] == "minimum_bandwidth"]
        before = [one.min_kbps for one in self.policies.get(id, []) if one.rule_type == "minimum_bandwidth"]
        if guarantees != before and any(port["qos_policy_id"] == id and port["device_owner"].startswith("compute:")
                                        for port in self.ports.values()):
            return REFUSED
        self.policies[id] = [RULES[one.pop("type")](id=one.pop("id"), qos_policy_id=id, **one) for one in rules]
        with self.nb.transaction(check_error=True) as txn:
            for port in [port for port in self.ports.values() if port["qos_policy_id"] == id]:
                self.qos.update_port(self.context, txn, port, None, reset=True)
        return None

    def port(self, id, network_id, mac, addresses, qos_policy_id=None, security=True, pairs=(), owner="compute:nova",
             parent=None, tag=None, meanwhile=None):
        """Make or change a port; meanwhile: a policy's id and rules, which another thread changes at the same time."""
        port = {"id": id, "network_id": network_id, "qos_policy_id": qos_policy_id, "device_owner": owner}
        allowed = [" ".join([mac, *addresses]), *(" ".join(pair) for pair in pairs)]
        external_ids = {constants.OVN_DEVICE_OWNER_EXT_ID_KEY: owner, constants.OVN_PROJID_EXT_ID_KEY: PROJECT,
                        constants.OVN_NETWORK_NAME_EXT_ID_KEY: f"neutron-{network_id}"}
        columns = {"addresses": [" ".join([mac, *addresses])], "port_security": allowed if security else [],
                   "enabled": True}
        old = self.ports.get(id)
        self.ports[id] = port
        with self.nb.transaction(check_error=True) as txn:
            if old is None:
                made = txn.add(self.nb.create_lswitch_port(
                    id, f"neutron-{network_id}", True, external_ids=external_ids, parent_name=parent or [],
                    tag=tag or [], type="", options={}, **columns))
                self.qos.create_port(self.context, txn, port, made)
            else:
                # As Neutron's client of OVN does: keys that it does not know stay, options for QoS do.
                kept = dict(self.nb.lookup("Logical_Switch_Port", id).external_ids)
                if meanwhile:
                    other = threading.Thread(target=self.policy, args=meanwhile)
                    other.start()
                    other.join()
                txn.add(self.nb.set_lswitch_port(id, external_ids={**kept, **external_ids},
                                                 options=self.qos.get_lsp_options_qos(id), if_exists=False, **columns))
                self.qos.update_port(self.context, txn, port, old)

    def delete_port(self, id):
        """Delete a port."""
        port = self.ports.pop(id)
        with self.nb.transaction(check_error=True) as txn:
            txn.add(self.nb.delete_lswitch_port(lport_name=id, lswitch_name=f"neutron-{port['network_id']}"))
            self.qos.delete_port(self.context, txn, port)

    def give(self):
        """Return what is known of ports, for another server to take."""
        return {"ports": self.ports}

    def take(self, ports):
        """Know what another server knew of ports."""
        self.ports = ports

    def repair(self):
        """Write the policies of all ports, as neutron-ovn-db-sync-util does to repair the database."""
        with self.nb.transaction(check_error=True) as txn:
            for port in self.ports.values():
                self.qos.create_port(self.context, txn, port, None)


def main():
    """Obey until standard input ends."""
    if sys.argv[2:] == ["sdngcc"]:
        from sdngcc_neutron.ovn_server import ShimExtensionDriver

        ShimExtensionDriver().initialize()
    server = Server(sys.argv[1])
    for line in sys.stdin:
        method, values = json.loads(line)
        print(json.dumps(getattr(server, method)(**values)), flush=True)


if __name__ == "__main__":
    main()
