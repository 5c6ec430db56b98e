# SPDX-License-Identifier: Apache-2.0
"""What REST answers about compute nodes whose databases connect, as the models that the OpenAPI document is made of."""

from typing import Optional

import pydantic

from sdngcc.controller.databases.health import State
from sdngcc.controller.rest import models


class NodeSwitch(models.Answer):
    """A bridge of a node."""

    switch: models.DatapathId
    connected: bool = pydantic.Field(description="by OpenFlow")


class NodeRefusal(models.Answer):
    """A bridge about which a node's database is not believed."""

    switch: models.DatapathId
    why: str


class Node(models.Answer):
    """A compute node whose database connects to the controller."""

    node: str = pydantic.Field(description="external_ids:system-id of its Open_vSwitch row, else that row's UUID")
    certificate: Optional[str] = pydantic.Field(description="name of the certificate it came by; null: without TLS")
    address: str = pydantic.Field(description="of its last connection")
    state: State
    since_s: float = pydantic.Field(description="how long it has been so")
    connections: models.Count = pydantic.Field(description="made so far")
    switches: list[NodeSwitch] = pydantic.Field(description="bridges about which its database is believed")
    refused: list[NodeRefusal] = pydantic.Field(description="bridges about which it is not")
    vms: models.Count


class Nodes(models.Answer):
    """All nodes, by name."""

    nodes: list[Node]


class Forgotten(models.Answer):
    """A node that is known no more."""

    node: str
