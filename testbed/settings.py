# SPDX-License-Identifier: Apache-2.0
"""The reading of ``name=value`` settings into a model of parameters, and what such a model says of itself."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Type, TypeVar

from pydantic import BaseModel, ValidationError

# The field of a model that has the knobs of a law; a setting knob.<name> gives one.
KNOBS, KNOB = "knobs", "knob."

Model = TypeVar("Model", bound=BaseModel)


class ParameterError(ValueError):
    """A setting was refused; the text names it, its value and what is allowed."""


def read_settings(settings: Sequence[str], model: Type[BaseModel], defaults: Mapping[str, Any],
                  others: Sequence[str] = ()) -> Dict[str, Any]:
    """Return values for a model: those of settings over the defaults; the last of equal names counts.

    others are names that are read elsewhere, to be told with the model's own. Raises ParameterError naming a setting
    that the model has not.
    """
    values: Dict[str, Any] = dict(defaults)
    knows = KNOBS in model.model_fields
    knobs: Dict[str, Any] = dict(values.pop(KNOBS, {}))
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise ParameterError(f"setting '{setting}': want name=value")
        if knows and name.startswith(KNOB):
            knobs[name[len(KNOB):]] = value
        elif name in model.model_fields and name != KNOBS:
            values[name] = value
        else:
            known = sorted({*model.model_fields, *others} - {KNOBS}) + ([f"{KNOB}<name>"] if knows else [])
            raise ParameterError(f"setting '{name}' is unknown; there are: {', '.join(known)}")
    return {**values, KNOBS: knobs} if knows else values


def make(model: Type[Model], values: Mapping[str, Any]) -> Model:
    """Return a validated model; raises ParameterError naming each value refused and why."""
    try:
        return model(**values)
    except ValidationError as error:
        reasons = []
        for item in error.errors():
            place = ".".join(str(part) for part in item["loc"]) or "settings"
            given = f"={item['input']!r}" if item["loc"] else ""
            reasons.append(f"{place}{given}: {item['msg']}")
        raise ParameterError("; ".join(reasons)) from None


def describe(model: Type[BaseModel]) -> List[Dict[str, str]]:
    """Return name, default, allowed values and meaning of each field of a model, for people."""
    rows = []
    schemas = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        if name == KNOBS:
            rows.append({"name": f"{KNOB}<name>", "default": "the law's", "allowed": "see `sdngcc testbed knobs LAW`",
                         "meaning": "a knob of the law"})
            continue
        options = schemas[name].get("anyOf", [schemas[name]])[0]
        options = options.get("items", options)
        low = options.get("minimum", options.get("exclusiveMinimum"))
        if "enum" in options:
            allowed = ", ".join(options["enum"])
        elif low is not None:
            above = f" to {options['maximum']:g}" if "maximum" in options else " or more"
            allowed = f"{'above ' if 'exclusiveMinimum' in options else ''}{low:g}{above}"
        else:
            allowed = "true, false" if options.get("type") == "boolean" else "numbers with commas"
        default = field.default
        shown = ",".join(str(item) for item in default) if isinstance(default, tuple) else str(default).lower()
        rows.append({"name": name, "default": "" if default is None else shown, "allowed": allowed,
                     "meaning": field.description or ""})
    return rows
