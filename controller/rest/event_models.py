# SPDX-License-Identifier: Apache-2.0
"""What the event stream tells, as the models that the OpenAPI document is made of."""

from typing import Optional

import pydantic

from sdngcc.controller.rest import models


class VmRow(models.Answer):
    """What moves of a VM."""

    place: str = pydantic.Field(description="<switch>:<port>; a row replaces the one with the same place")
    id: str
    name: str = pydantic.Field(description="of its port at the switch")
    cloud_name: Optional[str] = pydantic.Field(
        description="of its port in the cloud, else of its server there; its tenant chose it"
    )
    network: Optional[str] = pydantic.Field(description="of its port in the cloud")
    tenant: Optional[str]
    state: models.State
    rate_bps: Optional[models.Count]
    share_bps: Optional[models.Count]
    sent_bps: Optional[models.Count]
    weight: Optional[models.Count]
    min_bps: Optional[models.Count]
    max_bps: Optional[models.Count]
    drops: Optional[models.Count]
    marks: models.Count


class PortRow(models.Answer):
    """What moves of a port."""

    place: str = pydantic.Field(description="<switch>:<port>; a row replaces the one with the same place")
    name: str
    up: bool
    congested: Optional[bool]
    marks_per_s: Optional[float]
    tx_bps: Optional[float]


class VmsEvent(models.Answer):
    """Event `vms`: the VMs that changed since the event before, all when full."""

    full: bool
    vms: list[VmRow]
    gone: list[str] = pydantic.Field(description="places")


class PortsEvent(models.Answer):
    """Event `ports`: the ports that changed since the event before, all when full."""

    full: bool
    ports: list[PortRow]
    gone: list[str] = pydantic.Field(description="places")


class SwitchEvent(models.Answer):
    """Event `switch`: one connected or is gone."""

    switch: models.DatapathId
    connected: bool


class VmNotices(models.Answer):
    """What a VM was told since the sample before."""

    place: str
    id: str
    cloud_name: Optional[str]
    messages: models.Count
    marks: models.Count


class NoticeEvent(models.Answer):
    """Event `notice`: who was told of marks in the last second."""

    notices: list[VmNotices]


class GapEvent(models.Answer):
    """Event `gap`: events after Last-Event-ID are no longer known; what follows begins anew."""

    last_event_id: str
