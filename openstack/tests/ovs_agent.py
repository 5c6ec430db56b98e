# SPDX-License-Identifier: Apache-2.0
"""The real neutron-openvswitch-agent in one process with a server made up for it; run by Neutron's own Python.

    python ovs_agent.py AGENT-OPTIONS...

Messages pass through the in-process transport of oslo.messaging (``transport_url = fake://``): there is no broker. The
server below stands where that of Neutron would be. It keeps ports, networks, policies and trunks in memory, answers
what the agent asks with Neutron's own versioned objects, and tells it of changes as Neutron does. A test commands it by
lines of JSON on standard input, ``[method, {parameter: value}]``; each is answered by one line.
"""

# Must be imported first: it chooses the backend of oslo.service.
from neutron.cmd.agents import ovs_neutron_agent  # isort: skip

import collections
import json
import os
import sys
import threading
import time
import traceback
from unittest import mock

import netaddr
import oslo_messaging
from neutron.api.rpc.callbacks import events, resources, version_manager
from neutron.api.rpc.handlers import resources_rpc
from neutron.objects import network, ports, trunk
from neutron.objects.port.extensions import allowedaddresspairs, port_security
from neutron.objects.qos import policy, rule
from neutron.privileged import (
    conntrack_cmd,
    default,
    dhcp_release_cmd,
    namespace_cmd,
    ovs_vsctl_cmd,
)
from neutron_lib import constants, context
from neutron_lib import rpc as n_rpc
from neutron_lib.agent import constants as agent_constants
from neutron_lib.agent import topics

PROJECT = "00000000-0000-4000-8000-000000000000"
RULES = {"bandwidth_limit": rule.QosBandwidthLimitRule, "minimum_bandwidth": rule.QosMinimumBandwidthRule,
         "dscp_marking": rule.QosDscpMarkingRule}

# What Neutron's API answers to a change of a guarantee in use.
REFUSED = [501, "Cannot update QoS policies/rules backed by resources tracked in Placement"]


def guarantees(rules):
    """Return what rules guarantee, in kbit/s."""
    return [one["min_kbps"] for one in rules if one["type"] == "minimum_bandwidth"]


class Pull:
    """Answers what agents ask for by type and id."""

    target = oslo_messaging.Target(version="1.1", namespace=constants.RPC_NAMESPACE_RESOURCES)

    def __init__(self, known):
        self.known = known

    def pull(self, context, resource_type, version, resource_id):
        """Return one object; a trunk is asked for by its parent's id."""
        found = self.known[resource_type].get(resource_id)
        return found and found.obj_to_primitive(target_version=version)

    def bulk_pull(self, context, resource_type, version, filter_kwargs=None):
        """Return the objects that have the given ids."""
        ids = (filter_kwargs or {}).get("id", list(self.known[resource_type]))
        return [self.known[resource_type][one].obj_to_primitive(target_version=version)
                for one in ids if one in self.known[resource_type]]


class Plugin:
    """Answers what agents tell about devices."""

    target = oslo_messaging.Target(version="1.9")

    def __init__(self, up, vlans):
        self.up, self.vlans = up, vlans

    def update_device_list(self, context, devices_up=(), devices_down=(), **_):
        """Note which devices are up."""
        self.up |= set(devices_up)
        self.up -= set(devices_down)
        return {"devices_up": list(devices_up), "failed_devices_up": [], "failed_devices_down": [],
                "devices_down": [{"device": one, "exists": True} for one in devices_down]}

    def get_network_details(self, context, network, **_):
        """Return a network's segment."""
        return {"id": network, "provider:network_type": "vlan", "provider:physical_network": "physnet",
                "provider:segmentation_id": self.vlans.get(network)}

    def update_device_down(self, context, device, **_):
        """Note that a device is down."""
        self.up.discard(device)
        return {"device": device, "exists": True}


class Reports:
    """Answers agents' reports of their state."""

    target = oslo_messaging.Target(version="1.4", namespace=constants.RPC_NAMESPACE_STATE)

    def has_alive_neutron_server(self, context, **_):
        """Say that there is a server."""
        return True

    def report_state(self, context, **_):
        """Take a report."""
        return agent_constants.AGENT_ALIVE


class Trunks:
    """Answers what agents tell about trunks."""

    target = oslo_messaging.Target(version="1.0", namespace="trunk")

    def __init__(self, known):
        self.known = known

    def update_subport_bindings(self, context, subports):
        """Bind subports to the agent's host."""
        bound = collections.defaultdict(list)
        for subport in subports:
            port = self.known[resources.PORT][subport["port_id"] if isinstance(subport, dict) else subport.port_id]
            bound[subport["trunk_id"] if isinstance(subport, dict) else subport.trunk_id].append(
                {"id": port.id, "mac_address": str(port.mac_address)})
        return bound

    def update_trunk_status(self, context, trunk_id, status):
        """Take a trunk's status."""


class Server:
    """What the test commands; methods take what the line says and return what is answered."""

    def __init__(self):
        self.known = collections.defaultdict(dict)
        self.up = set()
        self.vlans = {}
        self.revision = 0
        self.context = context.get_admin_context_without_session()

    def serve(self):
        """Begin to answer the agent, which waits for that when it starts."""
        connection = n_rpc.Connection()
        connection.create_consumer(topics.PLUGIN, [Plugin(self.up, self.vlans), Pull(self.known)], fanout=False)
        connection.create_consumer(topics.REPORTS, [Reports()], fanout=False)
        connection.create_consumer("trunk", [Trunks(self.known)], fanout=False)
        connection.consume_in_threads()

    def _tell(self, kind, made, event=events.UPDATED):
        self.known[kind][made.id] = made
        self._push(made, event)

    def _push(self, made, event):
        resources_rpc.ResourcesPushRpcApi().push(self.context, [made], event)

    def policy(self, id, rules):
        """Make or change a QoS policy; return the refusal's status and text, or nothing."""
        before = self.known[resources.QOS_POLICY].get(id)
        if before is not None and self._is_in_use(id) and guarantees(rules) != [
                one.min_kbps for one in before.rules if one.rule_type == "minimum_bandwidth"]:
            return REFUSED
        made = [RULES[one.pop("type")](id=one.pop("id"), qos_policy_id=id, **one) for one in rules]
        self._tell(resources.QOS_POLICY, policy.QosPolicy(
            id=id, project_id=PROJECT, name="policy", shared=False, is_default=False, rules=made))
        return None

    def _is_in_use(self, policy_id):
        """Tell whether a VM's port has a policy, its own or its network's."""
        networks = {one.id for one in self.known[resources.NETWORK].values() if one.qos_policy_id == policy_id}
        return any(port.device_owner.startswith("compute:") and (
            port.qos_policy_id == policy_id or port.qos_policy_id is None and port.network_id in networks)
            for port in self.known[resources.PORT].values())

    def network(self, id, qos_policy_id=None):
        """Make or change a network."""
        self.revision += 1
        self._tell(resources.NETWORK, network.Network(
            id=id, project_id=PROJECT, name="network", status="ACTIVE", admin_state_up=True, mtu=1500,
            qos_policy_id=qos_policy_id, revision_number=self.revision, segments=[]))

    def port(self, id, network_id, mac, addresses, host, vlan=100, pairs=(), security=True, owner="compute:nova",
             qos_policy_id=None, inactive_host=None):
        """Make or change a port; inactive_host: where it is to migrate to."""
        self.revision += 1
        self.vlans[network_id] = vlan
        segment = network.NetworkSegment(id=network_id, network_id=network_id, network_type="vlan",
                                         physical_network="physnet", segmentation_id=vlan)
        bindings = [ports.PortBinding(port_id=id, host=where, status=status, vif_type="ovs", vnic_type="normal",
                                      profile={}, vif_details={})
                    for where, status in ((host, "ACTIVE"), (inactive_host, "INACTIVE")) if where]
        self._tell(resources.PORT, ports.Port(
            id=id, project_id=PROJECT, name="port", network_id=network_id, mac_address=netaddr.EUI(mac),
            admin_state_up=True, device_id="vm", device_owner=owner, status="DOWN", revision_number=self.revision,
            bindings=bindings, hints=None, security_group_ids=set(), qos_policy_id=qos_policy_id,
            binding_levels=[ports.PortBindingLevel(port_id=id, host=host, level=0, segment=segment)],
            security=port_security.PortSecurity(id=id, port_security_enabled=security),
            fixed_ips=[ports.IPAllocation(port_id=id, network_id=network_id, subnet_id=network_id,
                                          ip_address=netaddr.IPAddress(one)) for one in addresses],
            allowed_address_pairs=[allowedaddresspairs.AllowedAddressPair(
                port_id=id, mac_address=netaddr.EUI(other), ip_address=netaddr.IPNetwork(one))
                for other, one in pairs]))

    def delete_port(self, id):
        """Delete a port."""
        self._push(self.known[resources.PORT].pop(id), events.DELETED)

    def trunk(self, id, port_id, subports):
        """Make a trunk; subports: pairs of port id and VLAN."""
        self.known[resources.TRUNK][port_id] = trunk.Trunk(
            id=id, project_id=PROJECT, name="trunk", admin_state_up=True, port_id=port_id, status="ACTIVE",
            sub_ports=[self._subport(id, *one) for one in subports])

    def _subport(self, id, port_id, vlan):
        return trunk.SubPort(port_id=port_id, trunk_id=id, segmentation_type="vlan", segmentation_id=vlan)

    def subport(self, trunk_id, port_id, vlan, gone=False):
        """Add a subport to a trunk, or take it away."""
        self._push(self._subport(trunk_id, port_id, vlan), events.DELETED if gone else events.CREATED)

    def devices_up(self):
        """Return the devices that the agent says are up."""
        return sorted(self.up)


def main():
    """Run the agent until it is killed."""
    for privileged in (default, conntrack_cmd, dhcp_release_cmd, namespace_cmd, ovs_vsctl_cmd):
        privileged.set_client_mode(False)

    # The server would learn from its database which versions of objects its agents know.
    mock.patch.object(version_manager, "get_resource_versions",
                      lambda kind: {resources.get_resource_cls(kind).VERSION}).start()

    def obey():
        # The agent reads its configuration first.
        while n_rpc.TRANSPORT is None:
            time.sleep(0.01)
        try:
            server = Server()
            for line in sys.stdin:
                method, values = json.loads(line)
                print(json.dumps(getattr(server, method)(**values)), flush=True)
        except Exception:
            traceback.print_exc()
            os._exit(1)

    threading.Thread(target=obey, daemon=True).start()
    ovs_neutron_agent.main()


if __name__ == "__main__":
    main()
