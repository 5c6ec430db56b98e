# SPDX-License-Identifier: Apache-2.0
"""Extension ``sdngcc`` of neutron-ovn-agent, as the agent sees it: nothing that fails behind it gets out.

What it does is in ``ovn_ports``. The agent is asked for events of this host's Open vSwitch alone: it would wait for the
northbound database without end, so the extension has a connection of its own.
"""

from __future__ import annotations

import time
from typing import Any, List

from neutron.agent.ovn.extensions import extension_manager

from sdngcc_neutron.guard import guarded

NOTHING = "The agent goes on without it; no port gets keys for the shim"

# Neutron 22's and 23's agent does not tell its extensions when it has started: its Open vSwitch is looked for this
# often, s.
LOOK_S = 1.0


class ShimOvnExtension(extension_manager.OVNAgentExtension):
    """Writes weight, guarantee, ceiling, addresses and project of each port to its interface's external_ids."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._agent: Any = None
        self._ports: Any = None
        """What follows ports; None: it could not be loaded."""
        self._load()

    @guarded("load", NOTHING)
    def _load(self) -> None:
        from sdngcc_neutron import ovn_ports

        self._ports = ovn_ports.Ports()

    @property
    def name(self) -> str:
        """What the extension is called in the log."""
        return "sdn-gcc's shim"

    @property
    def ovs_idl_events(self) -> List[Any]:
        """Events of this host's Open vSwitch."""
        return self._events()

    @guarded("ovs_idl_events", NOTHING, list)
    def _events(self) -> List[Any]:
        return [] if self._ports is None else self._ports.interface_events()

    @property
    def nb_idl_tables(self) -> List[str]:
        """Tables of the northbound database that the agent reads for it: none."""
        return []

    @property
    def nb_idl_events(self) -> List[Any]:
        """Events of the agent's northbound database: none."""
        return []

    @property
    def sb_idl_tables(self) -> List[str]:
        """Tables of the southbound database that are read: none."""
        return []

    @property
    def sb_idl_events(self) -> List[Any]:
        """Events of the southbound database: none."""
        return []

    def consume_api(self, agent_api: Any) -> None:
        """Take what the agent offers to its extensions."""
        super().consume_api(agent_api)
        self._agent = agent_api

    def initialize(self, *args: Any) -> None:
        """Make the options known."""
        super().initialize(*args)
        self._initialize()

    @guarded("initialize", NOTHING)
    def _initialize(self) -> None:
        if self._ports is None:
            return
        self._ports.initialize()
        if not hasattr(super(), "start"):
            self._ports.later("start", self._look)

    def _look(self) -> None:
        while self._agent.ovs_idl is None:
            time.sleep(LOOK_S)
        self._ports.connect(self._agent.ovs_idl)

    def start(self) -> None:
        """Look at every port that is here; from now on events are followed."""
        super().start()
        self._start()

    @guarded("start", NOTHING)
    def _start(self) -> None:
        if self._ports is not None:
            ovs_idl = self._agent.ovs_idl
            self._ports.later("start", lambda: self._ports.connect(ovs_idl))
