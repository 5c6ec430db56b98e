# SPDX-License-Identifier: Apache-2.0
"""A cloud of OVN: ovn-controller on each hypervisor, ovn-northd and both databases in the machine's own namespace.

The programs are Debian's (packages ovn-central, ovn-host); their ovsdb-servers are the testbed's.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, List, Sequence

from sdngcc.testbed.fabric.base import set_words
from sdngcc.testbed.fabric.cloud import BOUND_S, FIRST_VLAN, PHYSICAL, PHYSNET, Agents
from sdngcc.testbed.programs import data
from sdngcc.testbed.virtual.network import Network
from sdngcc.testbed.virtual.processes import run

if TYPE_CHECKING:
    from sdngcc.testbed.fabric.linux import Hypervisor

FOLDER = Path("/run/ovn")
SCHEMAS = data("ovn")
NORTH, SOUTH = (f"unix:{FOLDER}/{name}.sock" for name in ("nb", "sb"))


class OvnCloud(Agents):
    """Tenants' networks are logical switches: in Geneve tunnels, or on VLANs of a provider network."""

    def start(self, network: Network, hosts: Sequence[Hypervisor]) -> None:
        """Start OVN, tell it of the VMs, and wait until it says that all their flows are installed."""
        self._start_central()
        for host in hosts:
            self._start_controller(host)
        receivers = len(network.topo.receivers)
        words: List[str] = []
        for tenant in range(receivers):
            words += self._logical_switch(network, tenant)
        run(["ovn-nbctl", f"--db={NORTH}", *words])
        run(["ovn-nbctl", f"--db={NORTH}", f"--timeout={BOUND_S:.0f}", "--wait=hv", "sync"])
        deadline = time.monotonic() + BOUND_S
        while not all(self._installed(host) for host in hosts):
            if time.monotonic() > deadline:
                raise TimeoutError(f"ovn-controllers installed not all ports within {BOUND_S:.0f} s; their logs are "
                                   "kept")
            time.sleep(0.5)
        if self.tunnels:
            for host in hosts:
                self._set_uplinks(host)

    def _start_central(self) -> None:
        FOLDER.mkdir(parents=True)
        files = self.job["ovs"]
        for name in ("nb", "sb"):
            run([files["ovsdb-tool"], "create", f"{FOLDER}/{name}.db", f"{SCHEMAS}/ovn-{name}.ovsschema"])
            run([files["ovsdb-server"], f"{FOLDER}/{name}.db", f"--remote=punix:{FOLDER}/{name}.sock", "--detach",
                 f"--unixctl={FOLDER}/{name}.ctl", f"--pidfile={FOLDER}/{name}.pid",
                 f"--log-file={self.out}/ovn-{name}.log"])
        run(["ovn-northd", f"--ovnnb-db={NORTH}", f"--ovnsb-db={SOUTH}", "--detach", f"--pidfile={FOLDER}/northd.pid",
             f"--unixctl={FOLDER}/northd.ctl", f"--log-file={self.out}/ovn-northd.log"])

    def _start_controller(self, host: Hypervisor) -> None:
        identity = {"system-id": host.name, "hostname": host.name, "ovn-remote": f"\"{SOUTH}\"",
                    "ovn-encap-type": "geneve", "ovn-encap-ip": self.tunnel_address(host)}
        if not self.tunnels:
            identity["ovn-bridge-mappings"] = f"{PHYSNET}:{PHYSICAL}"
        host.switch.vsctl(*set_words("Open_vSwitch", ".", "external_ids", identity))
        # With --monitor, as ovn-ctl runs it.
        subprocess.run([*host.switch.within, "ovn-controller", "unix:/run/openvswitch/db.sock", "--detach", "--monitor",
                        f"--pidfile={host.folder}/ovn-controller.pid",
                        f"--log-file={self.out}/ovn-controller-{host.name}.log"], stdin=subprocess.DEVNULL,
                       env={**os.environ, "OVN_RUNDIR": str(host.folder)}, check=True)

    def _logical_switch(self, network: Network, tenant: int) -> List[str]:
        """Return ovn-nbctl's words that make a tenant's network with its VMs."""
        name, topo = f"tenant{tenant + 1}", network.topo
        words = ["--", "ls-add", name]
        if not self.tunnels:
            local = f"{name}-physnet"
            words += ["--", "lsp-add", name, local, "--", "lsp-set-type", local, "localnet", "--", "lsp-set-addresses",
                      local, "unknown", "--", "lsp-set-options", local, f"network_name={PHYSNET}",
                      "--", "set", "Logical_Switch_Port", local, f"tag={FIRST_VLAN + tenant}"]
        for vm in [*topo.vms, *topo.receivers]:
            if self.tenant(network.topo, vm) == tenant:
                port, addresses = self.port_id(vm), f"{topo.nodeInfo(vm)['mac']} {network.ip(vm)}"
                words += ["--", "lsp-add", name, port, "--", "lsp-set-addresses", port, addresses,
                          "--", "lsp-set-port-security", port, addresses]
        return words

    def _installed(self, host: Hypervisor) -> bool:
        """Return whether ovn-controller has installed the flows of all VMs of a host."""
        shown = host.switch.vsctl("--bare", "--columns=name", "find", "Interface", "external_ids:ovn-installed=true")
        return set(shown.split()) == {f"{host.name}-{vm}" for vm in host.vms}

    def _set_uplinks(self, host: Hypervisor) -> None:
        """Make a host's tunnels uplinks of the shim, which counts their headers; they tell no link speed."""
        words: List[str] = []
        uplink = self.job["shim"]["uplink"]
        for name in host.switch.vsctl("--bare", "--columns=name", "find", "Interface", "type=geneve").split():
            words += set_words("Interface", name, "other_config", uplink)
        host.switch.vsctl(*words)
