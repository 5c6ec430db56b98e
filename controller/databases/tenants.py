# SPDX-License-Identifier: Apache-2.0
"""Where the policy of tenants is kept: in the cluster's database, or without a cluster in a file.

A tenant's machines run on many hypervisors, so none of these has the one place for what is set for all of them.
"""

import json
import os
import pathlib
from typing import Annotated, Any, Callable, Mapping, Optional, Protocol, Sequence

import pydantic

from sdngcc.configuration import SettingsError
from sdngcc.controller.databases.client import Client, PolicyError
from sdngcc.controller.databases.health import Health
from sdngcc.controller.databases.ovsdb import expect
from sdngcc.controller.network.tenants import NAME_IN_WORDS, NAME_PATTERN, Policy
from sdngcc.controller.settings import Settings

WEIGHT_MAX = 65535
RATE_MIN_BPS = 8_000
RATE_MAX_BPS = 800_000_000_000_000  # of a thousand machines, each at the most a single one may have
TENANTS_MAX = 10_000
TABLE = "Tenant"

Changes = Mapping[str, Optional[int]]


class TenantStore(Protocol):
    """Keeps weight, min and max of tenants, rates in bit/s."""

    def run(self) -> None:
        """Take in what others stored."""

    def health(self) -> list[Health]:
        """Return the state of the database it is, if it is one."""

    def read(self) -> Mapping[str, Policy]:
        """Return what is set, by tenant; an empty policy says that the tenant is known."""

    def write(self, name: str, changes: Optional[Changes], check: Callable[[Optional[Policy]], None]) -> None:
        """Change what is set for a tenant: None as a value takes a key back, as ``changes`` the whole tenant.

        ``check`` takes what is set until then, None: nothing, and raises what it likes against the change.
        Raises PolicyError when it is not stored, OutcomeUnknown when nobody knows.
        """


def changed(before: Optional[Policy], changes: Changes) -> dict[str, int]:
    """Return a policy after changes."""
    after = {**(before or {}), **changes}
    return {key: value for key, value in after.items() if value is not None}


class NoStore:
    """Takes no policy: nobody said where to keep it."""

    def run(self) -> None:
        """Do nothing."""

    def health(self) -> list[Health]:
        """Return nothing."""
        return []

    def read(self) -> Mapping[str, Policy]:
        """Return nothing."""
        return {}

    def write(self, name: str, changes: Optional[Changes], check: Callable[[Optional[Policy]], None]) -> None:
        """Raise PolicyError."""
        raise PolicyError("there is no place to keep the policy of tenants: set tenant_file, or cluster")


class _FilePolicy(pydantic.BaseModel):
    """What the file has of a tenant."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    weight: Optional[Annotated[int, pydantic.Field(ge=1, le=WEIGHT_MAX)]] = None
    min: Optional[Annotated[int, pydantic.Field(ge=0, le=RATE_MAX_BPS)]] = None
    max: Optional[Annotated[int, pydantic.Field(ge=0, le=RATE_MAX_BPS)]] = None

    @pydantic.model_validator(mode="after")
    def _check_order(self) -> "_FilePolicy":
        if self.max and (self.min or 0) > self.max:
            raise ValueError(f"min of {self.min} bit/s is above max of {self.max} bit/s")
        return self


class _File(pydantic.BaseModel):
    """The file."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    tenants: dict[Annotated[str, pydantic.Field(pattern=NAME_PATTERN)], _FilePolicy]


class TenantFile:
    """Policy of tenants in a JSON file, which is exchanged whole at each change; read once, when it is made.

    Raises SettingsError naming what in the file cannot be used.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._name = f"tenant_file {path}"
        self._path = path
        self._policies: dict[str, Policy] = {}
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self._name}: {error}") from None
        try:
            held = _File.model_validate_json(text)
        except pydantic.ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(str(part) for part in fault["loc"]) or "the whole"
            raise SettingsError(
                f"{self._name}: {where}: {fault['msg']}; allowed: an object with tenants, names of {NAME_IN_WORDS}, "
                f"each with weight (1 to {WEIGHT_MAX}), min and max (0 to {RATE_MAX_BPS} bit/s)"
            ) from None
        self._policies = {
            name: policy.model_dump(exclude_none=True) for name, policy in held.tenants.items()
        }

    def run(self) -> None:
        """Do nothing: nobody else writes the file while the controller runs."""

    def health(self) -> list[Health]:
        """Return nothing: it is no database."""
        return []

    def read(self) -> Mapping[str, Policy]:
        """Return what is set, by tenant."""
        return self._policies

    def write(self, name: str, changes: Optional[Changes], check: Callable[[Optional[Policy]], None]) -> None:
        """Change what is set for a tenant; see TenantStore."""
        before = self._policies.get(name)
        check(before)
        policies = dict(self._policies)
        if changes is None:
            policies.pop(name, None)
        else:
            policies[name] = changed(before, changes)
        scratch = self._path.with_name(self._path.name + ".new")
        try:
            scratch.write_text(json.dumps({"tenants": policies}, indent=1, sort_keys=True) + "\n", "utf-8")
            os.replace(scratch, self._path)
        except OSError as error:
            raise PolicyError(f"{self._name}: {error.strerror}; nothing was stored") from None
        self._policies = policies


class TenantTable:
    """Policy of tenants in the cluster's database; ``sleep`` takes seconds and lets others run."""

    def __init__(self, remotes: Sequence[str], sleep: Callable[[float], Any]) -> None:
        remote = ",".join(remotes)
        self._client = Client(
            remote,
            _SCHEMA,
            sleep,
            kind="cluster",
            name=f"{remote} (table {TABLE})",
            consequence="tenants keep their policy, changes of it are refused; a database without this table, "
            "of an earlier schema, needs ovsdb-client convert",
            leader_only=False,
        )
        self._seen: Optional[tuple[int, int]] = None
        self._policies: dict[str, Policy] = {}

    def run(self) -> None:
        """Take in what the database sent."""
        self._client.run()

    def health(self) -> list[Health]:
        """Return the state of the database."""
        return [self._client.health]

    def _rows(self) -> dict[str, Any]:
        return {row.name: row for row in self._client.idl.tables[TABLE].rows.values()}

    def read(self) -> Mapping[str, Policy]:
        """Return what is set, by tenant."""
        if self._seen != self._client.version and self._client.whole:
            self._seen = self._client.version
            self._policies = {name: _policy(row) for name, row in self._rows().items()}
        return self._policies

    def write(self, name: str, changes: Optional[Changes], check: Callable[[Optional[Policy]], None]) -> None:
        """Change what is set for a tenant; see TenantStore."""
        wanted: list[Optional[dict[str, int]]] = [None]

        def change(transaction: Any) -> None:
            row = self._rows().get(name)
            before = None if row is None else _policy(row)
            check(before)
            if row is not None:
                for column in _KEYS:
                    expect(row, column)
            if changes is None:
                if row is not None:
                    row.delete()
                return
            wanted[0] = after = changed(before, changes)
            if row is None:
                row = transaction.insert(self._client.idl.tables[TABLE])
                row.name = name
            for column in _KEYS:
                setattr(row, column, [after[column]] if column in after else [])

        def holds() -> bool:
            row = self._rows().get(name)
            return (None if row is None else _policy(row)) == wanted[0]

        self._client.store(change, holds)


def _policy(row: Any) -> dict[str, int]:
    return {column: getattr(row, column)[0] for column in _KEYS if getattr(row, column)}


_KEYS = ("weight", "min", "max")
_NUMBER = {"type": {"key": "integer", "min": 0, "max": 1}}

# The one table used, in the terms of cluster/sdngcc.ovsschema: a client need not know more.
_SCHEMA: dict[str, Any] = {
    "name": "sdngcc",
    "version": "1.2.0",
    "tables": {
        TABLE: {"columns": {"name": {"type": "string"}, **dict.fromkeys(_KEYS, _NUMBER)}, "isRoot": True},
    },
}


def make_store(settings: Settings, sleep: Callable[[float], Any]) -> TenantStore:
    """Return the place for tenants' policy that the settings name; raises SettingsError when it cannot be used."""
    if settings.cluster:
        return TenantTable(settings.cluster, sleep)
    if settings.tenant_file is not None:
        return TenantFile(settings.tenant_file)
    return NoStore()
