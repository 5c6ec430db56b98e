# SPDX-License-Identifier: Apache-2.0
"""Settings of the programs that run for long, by pydantic-settings: the command line, the environment, then a file.

A file is TOML (.toml), JSON (.json), else YAML.  In the environment a key stands in capitals behind a prefix, lists
with commas, tables as JSON.  What is unknown, out of range or given twice is refused by name, and nothing starts then.

YAML is read as YAML 1.2 does where 1.1 surprises: 0000000000001001 is no octal number, 10:01 no sexagesimal one, and a
key may come once.  Both stay the text they are.
"""

from __future__ import annotations

import contextvars
import functools
import json
import os
import pathlib
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Type, TypeVar, get_origin

import pydantic
import yaml
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

try:
    import tomllib
except ImportError:  # Python before 3.11
    import tomli as tomllib  # type: ignore[no-redef]

CONFIG = "CONFIG"  # behind the prefix: names the file

Model = TypeVar("Model", bound=pydantic.BaseModel)


class SettingsError(ValueError):
    """Settings that cannot be used; the text names each key, what is wrong and what is allowed."""


class Hexadecimal:
    """Marks a setting whose values are hexadecimal: a bare number in a file would be read as a decimal one."""


class _YamlLoader(yaml.SafeLoader):
    """YAML whose scalars are numbers only where nobody doubts it."""

    yaml_implicit_resolvers: Dict[Any, Any] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Dict[Any, Any]:
        """Return a table; raises YAMLError for a key that comes twice."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is a text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'"{key.value}" is given twice; once is allowed', key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _kind, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(0|[1-9][0-9]*)?\.[0-9]+([eE][-+]?[0-9]+)?|[-+]?(0|[1-9][0-9]*)\.", "-+0123456789."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _YamlLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), list(_first))


def _once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Return a table of JSON; raises ValueError for a key that comes twice."""
    found: Dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'"{key}" is given twice; once is allowed')
        found[key] = value
    return found


def _read_yaml(text: str) -> Any:
    """Return a document of YAML; raises YAMLError or ValueError."""
    try:
        return yaml.load(text, _YamlLoader)  # a SafeLoader
    except (AttributeError, LookupError):  # what PyYAML raises of "!!bool x" and the like
        raise ValueError("a value is not what its tag (!!...) says") from None


def read_file(path: pathlib.Path) -> Dict[str, Any]:
    """Return the keys and values of a file of settings; raises SettingsError."""
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".toml":
            values: Any = tomllib.loads(text)
        elif path.suffix == ".json":
            values = json.loads(text, object_pairs_hook=_once)
        else:
            values = _read_yaml(text)
    except RecursionError:
        raise SettingsError(f"settings file {path}: it is nested too deeply") from None
    except (OSError, ValueError, yaml.YAMLError) as error:  # TOML's, JSON's and Unicode's errors are ValueErrors
        raise SettingsError(f"settings file {path}: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"settings file {path}: it must hold keys and values, not a {type(values).__name__}")
    return {str(key): value for key, value in values.items()}


class _Source(PydanticBaseSettingsSource):
    """Values that were read already, as one of pydantic-settings' sources."""

    def __init__(self, kind: Type[BaseSettings], values: Dict[str, Any]) -> None:
        super().__init__(kind)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> Tuple[Any, str, bool]:
        """Return the value of a field."""
        return self._values.get(field_name), field_name, False

    def __call__(self) -> Dict[str, Any]:
        """Return all values."""
        return self._values


def _numbers(value: Any) -> Iterator[Any]:
    """Yield the bare numbers in a value."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, (int, float)):
        yield value


def _check_quoted(model: Type[pydantic.BaseModel], values: Mapping[str, Any]) -> None:
    """Raise SettingsError for a number where a file should have hexadecimal text."""
    for name, field in model.model_fields.items():
        if any(isinstance(one, Hexadecimal) for one in field.metadata):
            for number in _numbers(values.get(name)):
                raise SettingsError(
                    f"{name}: {number} is a bare number; allowed is hexadecimal text, so quote it: \"{number}\""
                )


def _read_environment(
    model: Type[pydantic.BaseModel], prefix: str, environment: Mapping[str, str]
) -> Dict[str, Any]:
    """Return the values of all variables with the prefix, known or not; raises SettingsError."""
    values: Dict[str, Any] = {}
    for name in sorted(environment):
        if not name.startswith(prefix) or name == prefix + CONFIG:
            continue
        key, text = name[len(prefix) :].lower(), environment[name]
        field = model.model_fields.get(key)
        kind = get_origin(field.annotation) if field is not None else None
        if kind in (tuple, list):
            values[key] = [one.strip() for one in text.split(",") if one.strip()]
        elif kind is dict:
            try:
                values[key] = json.loads(text, object_pairs_hook=_once)
            except (ValueError, RecursionError) as error:
                raise SettingsError(f"{name}: no JSON: {error}") from None
        else:
            values[key] = text
    return values


_layers: contextvars.ContextVar[Tuple[Dict[str, Any], ...]] = contextvars.ContextVar("layers")


@functools.cache
def _loadable(model: Type[Model]) -> Type[Model]:
    """Return a model that takes its values from the layers; to make it costs more than all else of load()."""

    class Loaded(model, BaseSettings):  # type: ignore[valid-type, misc]
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: Type[BaseSettings], *_: Any, **__: Any
        ) -> Tuple[PydanticBaseSettingsSource, ...]:
            return tuple(_Source(settings_cls, layer) for layer in _layers.get())

    Loaded.__name__ = Loaded.__qualname__ = model.__name__
    return Loaded


def load(
    model: Type[Model],
    prefix: str,
    path: Optional[pathlib.Path] = None,
    environment: Mapping[str, str] = os.environ,
    chosen: Optional[Mapping[str, Any]] = None,
    retired: Optional[Mapping[str, str]] = None,
) -> Model:
    """Return settings from ``chosen`` (the command line), the environment, then a file; what is named first wins.

    ``retired`` says of keys that are no more what became of them. Raises SettingsError naming every key that is
    unknown, out of range or given twice.
    """
    if path is None and environment.get(prefix + CONFIG):
        path = pathlib.Path(environment[prefix + CONFIG])
    from_file = read_file(path) if path else {}
    _check_quoted(model, from_file)
    token = _layers.set((dict(chosen or {}), _read_environment(model, prefix, environment), from_file))
    try:
        loaded: Model = _loadable(model)()
    except pydantic.ValidationError as error:
        raise SettingsError(explain(error, model, retired or {})) from None
    finally:
        _layers.reset(token)
    return loaded


def explain(error: pydantic.ValidationError, model: Type[pydantic.BaseModel], retired: Mapping[str, str]) -> str:
    """Return what is wrong with settings, a line a key."""
    lines, unknown = [], False
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"]) or "settings"
        if fault["type"] == "extra_forbidden":
            unknown = unknown or key not in retired
            lines.append(f"{key}: {retired.get(key, 'unknown key')}")
        else:
            shown = "" if fault["type"] == "value_error" else f" (got {fault['input']!r})"
            lines.append(f"{key}: {fault['msg']}{shown}")
    if unknown:
        lines.append(f"known keys: {', '.join(sorted(model.model_fields))}")
    return "\n".join(lines)


def stamp(path: pathlib.Path) -> Optional[Tuple[int, int, int]]:
    """Return what tells a file from what it was before; None when it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def check_writable(key: str, path: Optional[pathlib.Path]) -> None:
    """Raise SettingsError when a file cannot be appended to, or made where it is not there yet."""
    if path is None:
        return
    if path.exists():
        if not path.is_file():
            raise SettingsError(f"{key} {path}: it is no file")
        if not os.access(path, os.W_OK):
            raise SettingsError(f"{key} {path}: it cannot be written by this user")
    elif not path.parent.is_dir():
        raise SettingsError(f"{key} {path}: there is no folder {path.parent}")
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        raise SettingsError(f"{key} {path}: folder {path.parent} cannot be written in by this user")
