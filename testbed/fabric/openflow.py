# SPDX-License-Identifier: Apache-2.0
"""The fabric whose switches are bridges that the controller forwards on; one Open vSwitch has them all."""

from __future__ import annotations

import functools
import subprocess
from typing import Any, Dict, List, Sequence

from mininet.node import OVSSwitch

from sdngcc.testbed.fabric.base import Fabric, Installation, controller_words
from sdngcc.testbed.virtual.network import Network, build_network, make_topology
from sdngcc.testbed.virtual.openvswitch import OpenVSwitch
from sdngcc.testbed.virtual.processes import run


class Bridge(OVSSwitch):
    """An Open vSwitch bridge without the shell Mininet keeps for every switch."""

    def __init__(self, name: str, kind: str = "", userspace: bool = False, **params: Any) -> None:
        """kind is hypervisor or fabric; userspace: the datapath of a hypervisor's bridge is ovs-vswitchd's own."""
        self.kind = kind
        datapath = "user" if userspace and kind == "hypervisor" else "kernel"
        self.made = False
        super().__init__(name, **{**params, "batch": True, "failMode": "standalone", "datapath": datapath})
        self.made = True

    @classmethod
    def setup(cls) -> None:
        """Look for no programs, nor for Open vSwitch's version: the testbed has built them."""
        cls.OVSVersion = "3.1"

    def startShell(self, mnopts: Any = None) -> None:
        """Start none: commands run where the agent runs."""
        self.pid = 1

    def cmd(self, *args: Any, **params: Any) -> str:
        """Run a command and return what it said, errors too; none before all is made: Mininet would bring up lo."""
        if not self.made:
            return ""
        argv = " ".join(str(arg) for arg in args).split()
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        return done.stdout

    def terminate(self) -> None:
        """Nothing to end."""


class OpenFlowFabric(Fabric):
    """Hypervisors and fabric switches alike are bridges of one Open vSwitch."""

    def build(self) -> Network:
        """Start Open vSwitch, build the network and return it."""
        switch = OpenVSwitch(self.job["ovs"], preload=self.job["loop_clock"])
        switch.start()
        bridge = functools.partial(Bridge, userspace=self.job["userspace"])
        self.network = build_network(self.job, make_topology(self.job), bridge)
        self.installations = [Installation("", switch, tuple(self.network.topo.hypervisors))]
        return self.network

    def uplinks(self, installation: Installation) -> List[str]:
        """Return the uplink devices of all hypervisors."""
        return list(self.network.topo.hypervisors.values())

    def connect(self, targets: Sequence[str]) -> None:
        """Point every bridge to all controllers; without any it forwards what it knows and nothing else."""
        words = [word for name in self.network.topo.switches() for word in controller_words(name, targets)]
        self.installations[0].switch.vsctl(*words)

    def datapaths(self) -> List[str]:
        """Return the datapath ids of all bridges."""
        return [self.network.topo.nodeInfo(name)["dpid"] for name in self.network.topo.switches()]

    def controller_settings(self) -> Dict[str, str]:
        """Return which bridges are what, and where their database is."""
        topo = self.network.topo
        kinds = {kind: ",".join(topo.nodeInfo(name)["dpid"] for name in topo.switches()
                                if topo.nodeInfo(name)["kind"] == kind) for kind in ("hypervisor", "fabric")}
        return {"SDNGCC_CONTROLLER_HYPERVISORS": kinds["hypervisor"], "SDNGCC_CONTROLLER_FABRIC": kinds["fabric"],
                "SDNGCC_CONTROLLER_OVSDB": "unix:/run/openvswitch/db.sock", **self._export_samples()}

    def _export_samples(self) -> Dict[str, str]:
        """Let every bridge export one packet in so many by sFlow where the job says so; return who they are."""
        topo, sampling = self.network.topo, self.job["controller"]["sflow_sampling"]
        if not sampling:
            return {}
        run(["ip", "link", "set", "lo", "up"])
        words = ["--", "--id=@samples", "create", "sflow", "agent=lo", "target=\"127.0.0.1:6343\"", "header=64",
                 f"sampling={sampling}", "polling=1"]
        for name in topo.switches():
            words += ["--", "set", "Bridge", name, "sflow=@samples"]
        self.installations[0].switch.vsctl(*words)
        agents = ",".join(f"127.0.0.1={topo.nodeInfo(name)['dpid']}" for name in topo.switches())
        return {"SDNGCC_CONTROLLER_SFLOW_AGENTS": agents}
