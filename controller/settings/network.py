# SPDX-License-Identifier: Apache-2.0
"""Switches, and what is learned of the network."""

import pathlib
from typing import Annotated, Any, Literal, Optional

import pydantic

from sdngcc.configuration import Hexadecimal
from sdngcc.controller.mappings import datapath_id


class NetworkSettings(pydantic.BaseModel):
    """Switches, and what is learned of the network."""

    forwarding: Literal["own", "none"] = pydantic.Field(
        "own",
        description="own: the controller forwards, by flows of its own; none: others do, and it writes no flow, group "
        "or meter, takes no packets and asks each host's shim who talks to whom",
    )
    underlay_file: Optional[pathlib.Path] = pydantic.Field(
        None,
        description="forwarding none: YAML file with the switches, hosts and links of the network beneath; without it "
        "all hosts are taken to be linked by one switch",
    )
    multipath: Literal["destination", "pair", "flow"] = pydantic.Field(
        "destination",
        description="what chooses among equally short ways: a hash of the destination, of source and destination, "
        "or the switch's own of each flow (select groups)",
    )
    relation_idle_s: int = pydantic.Field(10, ge=1, le=3600, description="a pair silent for this long is forgotten")
    host_idle_s: int = pydantic.Field(300, ge=1, le=86400, description="a host without pairs this long is forgotten")
    lldp_period_ms: int = pydantic.Field(5000, ge=100, le=60_000, description="link discovery; three missed end a link")
    settle_ms: int = pydantic.Field(
        300, ge=0, le=10_000, description="a new port is taken for a host's after this long without LLDP"
    )
    packet_ins_a_second: int = pydantic.Field(
        1000,
        ge=1,
        le=1_000_000,
        description="packet-ins served a port and second; the rest is dropped and counted",
    )
    switch_packet_ins_a_second: int = pydantic.Field(
        20_000, ge=1, le=1_000_000, description="the same for all ports of a switch together, links included"
    )
    hypervisors: Annotated[tuple[int, ...], Hexadecimal()] = pydantic.Field(
        (), description="datapath ids of hypervisor bridges; others are recognised by their virtual machines"
    )
    fabric: Annotated[tuple[int, ...], Hexadecimal()] = pydantic.Field(
        (), description="datapath ids that are never hypervisors"
    )
    poll_hypervisors: bool = pydantic.Field(
        False, description="poll hypervisors' own ports every period too, and act on their marks"
    )

    @pydantic.field_validator("hypervisors", "fabric", mode="before")
    @classmethod
    def _read_datapath_ids(cls, value: Any) -> Any:
        return tuple(datapath_id(one) for one in value) if isinstance(value, (list, tuple)) else value
