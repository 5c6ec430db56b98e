# SPDX-License-Identifier: Apache-2.0
"""Real machines to run experiments on: which hosts there are, how they are reached, and the switch between them.

A file in YAML. What cannot be is refused by its place in the file and what is allowed there.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sdngcc.configuration import SettingsError, read_file
from sdngcc.testbed.parameters import CONTROLLED, Parameters
from sdngcc.testbed.workload import Workload

# A device's name, as the kernel has it.
DEVICE = r"^[^/:\s]{1,15}$"
# The switch's name among machines.
SWITCH = "switch"
# Parameters that an inventory leaves as they are given; others are the machines' own, or the laboratory's.
FREE = ("law", "senders", "tagged", "competitor", "weights", "guarantees", "maximums", "divisions", "link_mbps",
        "phases", "limiter", "guest_ecn", "gso", "static_mbps", "udp_mbps", "receivers", "destinations", "flows",
        "handshake", "period_ms", "division", "fabric", "mark_source", "sample_us", "limit_sample_ms",
        "burst_us", "burst_bytes", "horizon_us", "shim_period_us", "preset", "levels", "knobs", "buffer_packets",
        "mark_percent")


class InventoryError(Exception):
    """An inventory, or an experiment on it, was refused; the text says what and what is allowed."""


class _Part(BaseModel):
    """A part of the file: no unknown keys, nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Ssh(_Part):
    """How hosts are reached by ssh."""

    user: str = Field("root", min_length=1, description="who logs in; must be root there")
    port: int = Field(22, ge=1, le=65535, description="TCP port")
    identity: Optional[str] = Field(None, description="file of the private key; none: what ssh finds itself")


class Machine(_Part):
    """A machine that is reached: a host with VMs, or the switch."""

    address: str = Field(min_length=1, max_length=253, description="where ssh finds it: a name or an address")

    @field_validator("address")
    @classmethod
    def _check_address(cls, value: str) -> str:
        # ssh would take it for an option.
        if value.startswith("-") or any(letter.isspace() for letter in value):
            raise ValueError("an address begins with no '-' and has no spaces")
        return value


class Server(Machine):
    """A host: the device to the fabric, which gets a bridge and gives VMs their way."""

    uplink: str = Field(pattern=DEVICE, description="device to the fabric; it has no address and no other bridge")


class Switch(Machine):
    """The switch with the bottleneck: a machine with Linux whose queue can be read."""

    device: str = Field(pattern=DEVICE, description="its port to the receivers, where marks are made")
    handle: int = Field(16, ge=1, le=65535, description="major number of the RED queue there, as tc shows it, decimal")


class Inventory(_Part):
    """All machines."""

    ssh: Ssh = Field(default_factory=Ssh, description="how hosts are reached")
    reach: Tuple[str, ...] = Field(
        (), description="words before a command that is to run on a machine, {name} and {address} stand for its; "
        "instead of ssh")
    folder: str = Field("/var/tmp/sdngcc", pattern=r"^/[\w./-]+$",
                        description="folder on all machines for what is needed there, each in one of its name")
    network: str = Field("10.200.0.0/16", description="addresses of VMs; an IPv4 network of 256 or more")
    link_mbps: int = Field(ge=10, le=100000, description="rate of all hosts' links and of the bottleneck, Mb/s")
    shape: bool = Field(False, description="uplinks get their rate by HTB, where links have none of their own")
    hosts: Dict[str, Server] = Field(min_length=2, description="hosts by name")
    controller: Optional[str] = Field(
        None, min_length=1, description="this machine's address, by which hosts reach a controller, on a network apart "
        "from the fabric; laws with a controller need it")
    database: str = Field("/run/openvswitch/db.sock", pattern=r"^/[\w./{}-]+$",
                          description="socket of a host's database; with reach as this machine sees it")
    senders: Tuple[str, ...] = Field(min_length=1, description="hosts of sending VMs, which go round them")
    receivers: Tuple[str, ...] = Field(min_length=1, description="hosts of receiving VMs, behind the bottleneck")
    switch: Switch = Field(description="the switch with the bottleneck")

    @field_validator("hosts")
    @classmethod
    def _check_names(cls, value: Dict[str, Server]) -> Dict[str, Server]:
        for name in value:
            if name == SWITCH:
                raise ValueError(f"host '{name}': the name is the switch's")
            if not name.isascii() or not name.replace("-", "").isalnum() or not 1 <= len(name) <= 10 or name[0] == "-":
                raise ValueError(f"host '{name}': a name is 1 to 10 letters, digits and '-', which is not the first")
        addresses = [server.address for server in value.values()]
        twice = sorted({address for address in addresses if addresses.count(address) > 1})
        if twice:
            raise ValueError(f"address {twice[0]} is that of two hosts")
        return value

    @field_validator("network")
    @classmethod
    def _check_network(cls, value: str) -> str:
        if ipaddress.IPv4Network(value).num_addresses < 256:
            raise ValueError(f"{value} has fewer than 256 addresses")
        return value

    @model_validator(mode="after")
    def _check_whole(self) -> Inventory:
        for role in ("senders", "receivers"):
            names = getattr(self, role)
            unknown = [name for name in names if name not in self.hosts]
            if unknown:
                raise ValueError(f"{role}: there is no host '{unknown[0]}'; there are {', '.join(self.hosts)}")
            if len(set(names)) < len(names):
                raise ValueError(f"{role}: a host is named twice")
        both = sorted(set(self.senders) & set(self.receivers))
        if both:
            raise ValueError(f"host '{both[0]}' sends and receives; the bottleneck is between the two")
        if self.reach and not any("{name}" in word or "{address}" in word for word in self.reach):
            raise ValueError("reach: no word has {name} or {address}, so all machines would be one")
        return self

    def machine(self, name: str) -> Machine:
        """Return a host by its name, the switch by ``switch``."""
        return self.switch if name == SWITCH else self.hosts[name]

    def folder_of(self, name: str) -> str:
        """Return a machine's folder there."""
        return f"{self.folder}/{name}"

    def sender_of(self, index: int) -> str:
        """Return the host of the index-th sending VM."""
        return self.senders[index % len(self.senders)]

    def receiver_of(self, index: int) -> str:
        """Return the host of the index-th receiving VM."""
        return self.receivers[index % len(self.receivers)]

    def address_of(self, number: int) -> str:
        """Return the address of a VM, counted from 1, with the length of its network's prefix."""
        network = ipaddress.IPv4Network(self.network)
        return f"{network[number]}/{network.prefixlen}"


def read_inventory(path: Path) -> Inventory:
    """Return the inventory of a file; InventoryError names the file, the place in it and what is allowed there."""
    try:
        return Inventory.model_validate(read_file(path))
    except SettingsError as error:
        raise InventoryError(str(error)) from None
    except ValidationError as error:
        raise InventoryError(f"{path}: {_reasons(error)}") from None


def _reasons(error: ValidationError) -> str:
    """Return what a validation says, each place with its value."""
    reasons = []
    for item in error.errors():
        place = ".".join(str(part) for part in item["loc"])
        shown = f"={item['input']!r}" if place and not isinstance(item["input"], (dict, list)) else ""
        reasons.append(f"{place}{shown}: {item['msg']}" if place else item["msg"])
    return "; ".join(reasons)


def settings_for(inventory: Inventory, settings: Sequence[str]) -> List[str]:
    """Return the settings of an experiment on an inventory's links, with hosts of their own.

    Raises InventoryError if settings say otherwise.
    """
    wanted = [f"link_mbps={inventory.link_mbps}", "fabric=linux"]
    for one in wanted:
        other = [setting for setting in settings if setting.startswith(one.partition("=")[0] + "=") and setting != one]
        if other:
            raise InventoryError(f"{other[-1]}: with this inventory it is {one}")
    return [*settings, *wanted]


def check_run(inventory: Inventory, parameters: Parameters, workload: Optional[Workload]) -> None:
    """Raise InventoryError, naming the parameter, if that run is none for real machines."""
    fixed = parameters.model_fields_set - set(FREE)
    defaults: Dict[str, Any] = {name: field.default for name, field in Parameters.model_fields.items()}
    changed = sorted(name for name in fixed if getattr(parameters, name) != defaults[name])
    if changed:
        raise InventoryError(f"{changed[0]}={getattr(parameters, changed[0])}: with an inventory these can be set: "
                             f"{', '.join(sorted(FREE))}")
    if parameters.law in CONTROLLED and inventory.controller is None:
        raise InventoryError(f"law={parameters.law}: the inventory must have 'controller', the address by which hosts "
                             "reach this machine")
    if workload is not None and workload.programs:
        raise InventoryError(f"the experiment has programs of its own in VMs ({workload.programs[0].name}); with an "
                             "inventory VMs have the generator alone")
