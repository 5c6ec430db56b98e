# SPDX-License-Identifier: Apache-2.0
"""A cloud of neutron-openvswitch-agent: one on each hypervisor, the real one, beside a server made up for it.

The server is openstack/tests/ovs_agent.py, which runs in the agent's process and speaks Neutron's own objects over
the in-process transport of oslo.messaging. Each knows the ports of its hypervisor.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any, List, Sequence

from sdngcc.testbed.fabric.cloud import BOUND_S, FIRST_VLAN, PHYSICAL, PHYSNET, Agents, network_id
from sdngcc.testbed.virtual.network import Network
from sdngcc.testbed.virtual.openvswitch import FOLDER

if TYPE_CHECKING:
    from sdngcc.testbed.fabric.linux import Hypervisor


class NeutronAgent:
    """The process of one hypervisor's agent; python is Neutron's interpreter, program ovs_agent.py, log a file."""

    def __init__(self, host: Hypervisor, python: str, program: str, log: str) -> None:
        self.host, self.log = host, log
        folder = host.folder / "neutron"
        folder.mkdir()
        settings = {
            "DEFAULT": {"transport_url": "fake://", "host": host.name, "state_path": folder,
                        "rpc_response_timeout": 120},
            "oslo_concurrency": {"lock_path": folder / "locks"},
            "AGENT": {"polling_interval": 1, "root_helper": "", "minimize_polling": "true"},
            "OVS": {"ovsdb_connection": f"unix:{FOLDER}/db.sock", "bridge_mappings": f"{PHYSNET}:{PHYSICAL}",
                    "datapath_type": "system", "of_connect_timeout": 120},
            "SECURITYGROUP": {"firewall_driver": "noop"},
        }
        (folder / "agent.conf").write_text("".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
            for group, options in settings.items()))
        with open(f"{log}.err", "wb") as errors:
            self.process = subprocess.Popen(
                [*host.switch.within, python, program, "--config-file", str(folder / "agent.conf"), "--log-file",
                 f"{log}.log"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder,
                env={**os.environ, "HOME": str(folder)})

    def call(self, method: str, **values: Any) -> Any:
        """Command the made-up server and return its answer; RuntimeError when the agent ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([method, values]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"neutron-openvswitch-agent of {self.host.name} ended; see {self.log}.err")
        return json.loads(line)


class NeutronCloud(Agents):
    """Tenants' networks are VLANs of a provider network."""

    def start(self, network: Network, hosts: Sequence[Hypervisor]) -> None:
        """Start the agents, and wait until each says that all of its ports are up."""
        # Neutron will not be imported on a machine without a name.
        socket.sethostname("laboratory")
        neutron = self.job["cloud"]["neutron"]
        agents = [NeutronAgent(host, neutron["python"], neutron["program"], str(self.out / f"neutron-{host.name}"))
                  for host in hosts]
        wanted: List[List[str]] = []
        for agent in agents:
            for vm in agent.host.vms:
                tenant = self.tenant(network.topo, vm)
                agent.call("network", id=network_id(tenant))
                agent.call("port", id=self.port_id(vm), network_id=network_id(tenant), host=agent.host.name,
                           mac=network.topo.nodeInfo(vm)["mac"], addresses=[network.ip(vm)], vlan=FIRST_VLAN + tenant)
            wanted.append(sorted(self.port_id(vm) for vm in agent.host.vms))
            agent.call("serve")
        deadline = time.monotonic() + BOUND_S
        while [agent.call("devices_up") for agent in agents] != wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"neutron-openvswitch-agents bound not all ports within {BOUND_S:.0f} s; their logs "
                                   "are kept")
            time.sleep(0.5)
