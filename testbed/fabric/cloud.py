# SPDX-License-Identifier: Apache-2.0
"""Who owns the hypervisors' bridges: nobody, or a cloud's agents, to which alone their flows belong."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

from sdngcc.testbed.virtual.network import Network
from sdngcc.topologies.fabric import FabricTopo

if TYPE_CHECKING:
    from sdngcc.testbed.fabric.linux import Hypervisor

# Bridges by the names that clouds give them: of VMs, and of the physical network.
INTEGRATION, PHYSICAL = "br-int", "br-phys"
PHYSNET = "physnet"
# The first tenant's VLAN; the others' follow.
FIRST_VLAN = 100
# Longest wait for agents to have bound all ports, seconds.
BOUND_S = 240.0
# What the dumps of ovs-ofctl are asked by; only what the switch is told, no counters.
DUMPS = {"flows": ("dump-flows", "--no-stats", "--no-names"), "groups": ("dump-groups", "--no-names"),
         "meters": ("dump-meters",)}


class Cloud(ABC):
    """What is true of all clouds. job is the run's, out the folder of raw samples, where logs are kept."""

    keys_column = "external_ids"
    """Column of Interface where the VMs' keys of the shim are written; agents leave them alone there."""

    def __init__(self, job: Dict[str, Any], out: Path) -> None:
        self.job, self.out = job, out
        self.tunnels: bool = job["cloud"]["network"] == "geneve"
        """VMs' packets are in tunnels between the hypervisors' own addresses, and tunnels are the uplinks."""

    @abstractmethod
    def bridge_words(self, host: Hypervisor) -> List[str]:
        """Return ovs-vsctl's words that make a host's bridges with their ports."""

    @abstractmethod
    def start(self, network: Network, hosts: Sequence[Hypervisor]) -> None:
        """Start what owns the bridges, and wait until all VMs are connected; TimeoutError when that takes too long."""

    @abstractmethod
    def address(self, topo: FabricTopo) -> None:
        """Give the VMs of a topology, of which nothing stands yet, the addresses that the cloud wants."""

    def port_id(self, vm: str) -> str:
        """Return the cloud's name of a VM's port."""
        return vm

    def tunnel_address(self, host: Hypervisor) -> str:
        """Return a hypervisor's address in the underlay, where tunnels end."""
        return f"172.30.0.{host.number}"

    def bridges(self, hosts: Sequence[Hypervisor]) -> Dict[str, Dict[str, Dict[str, List[str]]]]:
        """Return what all bridges hold now, by host and bridge: flows, groups and meters, a text each, in order."""
        state: Dict[str, Dict[str, Dict[str, List[str]]]] = {}
        for host in hosts:
            for bridge in host.switch.vsctl("list-br").split():
                dumps = {}
                for kind, words in DUMPS.items():
                    lines = host.switch.ofctl("-O", "OpenFlow13", *words, bridge).splitlines()
                    # A line may tell of the reply, with the number of the request.
                    dumps[kind] = sorted(line.strip() for line in lines if line.strip() and "(xid=" not in line)
                state.setdefault(host.name, {})[bridge] = dumps
        return state


class NoCloud(Cloud):
    """A bridge on each hypervisor with its VMs and its uplink, which forwards as any switch does (NORMAL)."""

    keys_column = "other_config"

    def bridge_words(self, host: Hypervisor) -> List[str]:
        """Return ovs-vsctl's words that make the host's one bridge."""
        return add_bridge(host.name, [*(f"{host.name}-{vm}" for vm in host.vms), f"{host.name}-up"], "standalone")

    def start(self, network: Network, hosts: Sequence[Hypervisor]) -> None:
        """Start nothing."""

    def address(self, topo: FabricTopo) -> None:
        """Leave all addresses as they are."""


class Agents(Cloud):
    """What is true of clouds with agents: a receiver and who sends to it are a tenant's, in a network of their own.

    Receivers, and senders, go round the tenants.
    """

    def address(self, topo: FabricTopo) -> None:
        """Let all tenants use the same addresses, so that only their networks tell their VMs apart."""
        for kind, vms in enumerate((topo.vms, topo.receivers)):
            for number, vm in enumerate(vms):
                topo.nodeInfo(vm)["ip"] = f"10.0.{kind}.{number // len(topo.receivers) + 1}/16"

    def tenant(self, topo: FabricTopo, vm: str) -> int:
        """Return the number of a VM's tenant, from 0."""
        return (topo.receivers if vm in topo.receivers else topo.vms).index(vm) % len(topo.receivers)

    def port_id(self, vm: str) -> str:
        """Return the cloud's name of a VM's port."""
        number = int("".join(filter(str.isdigit, vm))) + (0x1000 if vm.startswith("rx") else 0)
        # Neutron names its parts by the first digits.
        return str(uuid.UUID(int=number << 96 | number))

    def bridge_words(self, host: Hypervisor) -> List[str]:
        """Return ovs-vsctl's words that plug VMs into br-int, and the uplink into br-phys unless there are tunnels."""
        words = add_bridge(INTEGRATION, [f"{host.name}-{vm}" for vm in host.vms], "secure")
        return words if self.tunnels else [*words, *add_bridge(PHYSICAL, [f"{host.name}-up"], "standalone")]


def network_id(tenant: int) -> str:
    """Return the cloud's name of a tenant's network."""
    return str(uuid.UUID(int=0xA000 + tenant))


def add_bridge(name: str, ports: Sequence[str], fail_mode: str) -> List[str]:
    """Return ovs-vsctl's words that make a bridge with ports."""
    words = ["--", "add-br", name, "--", "set", "Bridge", name, f"fail_mode={fail_mode}",
             "other_config:disable-in-band=true"]
    for port in ports:
        words += ["--", "add-port", name, port]
    return words


def make_cloud(job: Dict[str, Any], out: Path) -> Cloud:
    """Return the cloud that a job asks for."""
    agent = job["cloud"]["agent"]
    if agent == "neutron":
        from sdngcc.testbed.fabric.neutron import NeutronCloud

        return NeutronCloud(job, out)
    if agent == "ovn":
        from sdngcc.testbed.fabric.ovn import OvnCloud

        return OvnCloud(job, out)
    return NoCloud(job, out)
