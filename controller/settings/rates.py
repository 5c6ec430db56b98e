# SPDX-License-Identifier: Apache-2.0
"""What machines are told, how often, and how it is divided."""

from typing import Literal, Optional

import pydantic

from sdngcc.controller.mappings import read_capacity


class Rates(pydantic.BaseModel):
    """What machines are told, how often, and how it is divided."""

    period_us: int = pydantic.Field(
        5000, ge=500, le=1_000_000, description="T_i, microseconds between two polls of a switch"
    )
    division: Literal["bytes", "sent", "equal"] = pydantic.Field(
        "bytes",
        description="how a port's marks are divided: by what each source sent through the port, by all it sent, "
        "or equally (the paper)",
    )
    pair_period_ms: int = pydantic.Field(
        100,
        ge=10,
        le=60_000,
        description="time between two readings of where machines send to, while their hypervisor's matter",
    )
    decision: Literal["marks", "maxmin"] = pydantic.Field(
        "marks",
        description="what machines are told: their part of the marks, or weighted max-min rates (law maxmin)",
    )
    levels: Optional[bool] = pydantic.Field(
        None,
        description="with marks machines are told what they have by weight at a port (law sdngcc); "
        "default: where they can be",
    )
    by_path: bool = pydantic.Field(
        False, description="machines are told by path, not as a whole, where their bridge tells what goes by each"
    )
    capacity_mbps: Optional[float] = pydantic.Field(
        None, ge=0.001, le=800_000, description="Mb/s a fabric port carries; default: what its switch says"
    )
    capacities: tuple[str, ...] = pydantic.Field(
        (), description="the same of single ports, each <datapath id>/<port>=<Mb/s>"
    )
    headroom_percent: float = pydantic.Field(
        1.0, ge=0, le=50, description="part of a fabric port's capacity that explicit rates leave free"
    )
    standby_percent: float = pydantic.Field(
        50.0, ge=0, le=100, description="part of what it would have that a machine which uses less is told all the same"
    )
    tenant_weight: Optional[int] = pydantic.Field(
        None, ge=1, le=65535, description="weight of a tenant that has none of its own; none: its machines have theirs"
    )
    round_deadline_us: int = pydantic.Field(
        800, ge=0, le=100_000, description="longest wait for the rates of hypervisors after marks were seen"
    )

    @pydantic.field_validator("capacities")
    @classmethod
    def _check_capacities(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            read_capacity(text)
        return value
