# SPDX-License-Identifier: Apache-2.0
"""What is asked of a simulator itself, beside what is simulated."""

from __future__ import annotations

from typing import List, Literal, Sequence, Tuple

from pydantic import BaseModel, ConfigDict, Field

from sdngcc.testbed.settings import make, read_settings


class Options(BaseModel):
    """How it is simulated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Literal["packets", "fluid"] = Field(
        "packets", description="packets: on ns-3, with its TCP; fluid: of rates alone, all senders without end")
    control_delay_us: int = Field(
        100, ge=0, le=1_000_000, description="from the reading of marks to messages' arrival at shims, us")
    jitter_percent: int = Field(
        20, ge=0, le=100, description="packets: most that a frame leaves a host late, percent of its time on the link; "
        "with 0 UDP flows of one start are in step")
    min_rto_ms: float = Field(
        10, ge=1, le=10000, description="packets: shortest timeout of TCP, ms; Linux has 200, but finds most losses "
        "without one, by RACK, which ns-3 lacks")
    socket_kib: int = Field(
        1024, ge=16, le=65536, description="packets: buffers of guests' TCP sockets, KiB")
    dupacks: int = Field(3, ge=1, le=1000, description="packets: duplicate ACKs that mean a loss")
    sack: bool = Field(True, description="packets: TCP has selective acknowledgements")
    ecmp: Literal["flow", "packet"] = Field(
        "flow", description="what chooses among equal ways: a hash of the flow, or each packet takes the next one")


def split_options(settings: Sequence[str]) -> Tuple[Options, List[str]]:
    """Return the simulator's options among ``name=value`` settings, and the others.

    Raises ParameterError naming each value refused and what is allowed.
    """
    mine = [setting for setting in settings if setting.partition("=")[0] in Options.model_fields]
    others = [setting for setting in settings if setting not in mine]
    return make(Options, read_settings(mine, Options, {})), others
