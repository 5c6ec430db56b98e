# SPDX-License-Identifier: Apache-2.0
"""What is asked of a simulator itself, beside what is simulated."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Sequence, Tuple, Type

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sdngcc.testbed.parameters import ParameterError


class Options(BaseModel):
    """How it is simulated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Literal["packets", "fluid"] = Field(
        "packets", description="packets: on ns-3, with its TCP; fluid: of rates alone, all senders without end")
    control_delay_us: int = Field(
        100, ge=0, le=1_000_000, description="from the reading of marks to messages' arrival at shims, us")
    jitter_percent: int = Field(
        20, ge=0, le=100, description="packets: most that a frame leaves a host late, percent of its time on the link")
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
    mine: Dict[str, Any] = {}
    others = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if equals and name in Options.model_fields:
            mine[name] = value
        else:
            others.append(setting)
    try:
        return Options(**mine), others
    except ValidationError as error:
        raise ParameterError("; ".join(f"{item['loc'][0]}={item['input']!r}: {item['msg']}"
                                       for item in error.errors())) from None


def describe_fields(model: Type[BaseModel]) -> List[Dict[str, str]]:
    """Return name, default, allowed values and meaning of each field of a model, for people."""
    rows = []
    for name, field in model.model_fields.items():
        schema = model.model_json_schema()["properties"][name]
        options = schema.get("anyOf", [schema])[0]
        options = options.get("items", options)
        if "enum" in options:
            allowed = ", ".join(str(one) for one in options["enum"])
        elif "minimum" in options:
            allowed = f"{options['minimum']:g} to {options['maximum']:g}"
        else:
            allowed = "true, false" if options.get("type") == "boolean" else "see meaning"
        default = field.default
        shown = ",".join(str(one) for one in default) if isinstance(default, tuple) else str(default).lower()
        rows.append({"name": name, "default": "" if default is None else shown, "allowed": allowed,
                     "meaning": field.description or ""})
    return rows


def describe_options() -> List[Dict[str, str]]:
    """Return the simulator's options for people."""
    return describe_fields(Options)
