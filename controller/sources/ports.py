# SPDX-License-Identifier: Apache-2.0
"""Ports by the names that switches have for them."""

from typing import Iterable, Optional

from sdngcc.controller.mappings import read_port
from sdngcc.controller.network.topology import Topology


class NamedPorts:
    """Finds OpenFlow numbers; ``given`` are those that a setting gives, <datapath id>/<name>=<port>."""

    def __init__(self, given: Iterable[str], topology: Topology) -> None:
        self._given = {(one.dpid, one.name): one.port for one in map(read_port, given)}
        self._topology = topology

    def number(self, dpid: int, name: str) -> Optional[int]:
        """Return the OpenFlow number of a port: as given, else of the port with that name; None: there is none."""
        number = self._given.get((dpid, name))
        if number is not None:
            return number
        ports = self._topology.ports.get(dpid, {})
        return next((number for number, port in ports.items() if port.name == name), None)
