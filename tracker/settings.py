# SPDX-License-Identifier: Apache-2.0
"""Settings of tracker and agents: divisions, trackers, and the VMs of a host."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Dict, Literal, Mapping, Optional, Tuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sdngcc import configuration
from sdngcc.configuration import SettingsError, check_writable
from sdngcc.logs import LOGS, Logs
from sdngcc.tracker import decision

PREFIX = "SDNGCC_TRACKER_"

KEY_MIN_BYTES, KEY_MAX_BYTES = 16, 1024

# Settings that change while a tracker or an agent runs; a key may change, but not come or go.
KEPT = frozenset({"key_file"})
LIVE = KEPT | LOGS | {"divisions", "vms"}


class Division(BaseModel):
    """A division."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: int = Field(1, ge=1, le=decision.WEIGHT_MAX, description="W_d")
    objective: Literal["ds", "cs", "ls"] = Field(description="deadline-, completion- or latency-sensitive")

    def decision(self) -> decision.Division:
        """Return it as decisions know it."""
        return decision.Division(self.weight, self.objective)


class Vm(BaseModel):
    """A VM of a host, by its port's device."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    division: str
    register_path: str = Field("", description="Unix datagram socket its workload registers flows at; empty: none")
    peers: Dict[str, Annotated[float, Field(ge=0, le=1e20, allow_inf_nan=False)]] = Field(
        default_factory=dict, description="addresses it sends to with fixed reference weights, for VMs that register "
                                          "nothing")


class Settings(Logs):
    """All settings; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    divisions: Dict[str, Division] = Field(min_length=1)
    listen: str = Field("127.0.0.1:7700", description="HOST:PORT that a tracker listens at")
    host: str = Field("", description="name of this host, unique among all; a tracker needs none")
    trackers: Tuple[str, ...] = Field((), description="HOST:PORT of each tracker; the first that answers is obeyed")
    vms: Dict[str, Vm] = Field(default_factory=dict, description="VMs of this host by device")
    period_ms: float = Field(5, ge=1, le=1000, description="an agent tells the trackers this often, ms")
    takeover_ms: float = Field(
        50, ge=2, le=10000, description="a tracker silent for so long is passed over for the next, ms")
    key_file: str = Field("", description="file with the key of datagrams; empty: none, trackers on this host only")

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        split_address(value)
        return value

    @model_validator(mode="after")
    def _check(self) -> Settings:
        for device, vm in self.vms.items():
            if vm.division not in self.divisions:
                raise ValueError(f"vms.{device}.division={vm.division}: there are {', '.join(sorted(self.divisions))}")
        for tracker in self.trackers:
            try:
                host, port = split_address(tracker)
            except ValueError as error:
                raise ValueError(f"trackers: {error}") from None
            if port == 0:
                raise ValueError(f"trackers: '{tracker}' has no port")
            if not self.key_file and not is_loopback(host):
                raise ValueError(f"trackers: '{tracker}' needs key_file; without a key only 127.0.0.1 and [::1] do")
        if self.takeover_ms < 2 * self.period_ms:
            raise ValueError("takeover_ms: at least two periods")
        return self

    def read_key(self) -> bytes:
        """Return the key of datagrams, empty when there is no key_file; raises SettingsError when that is unusable."""
        if not self.key_file:
            return b""
        try:
            key, mode = Path(self.key_file).read_bytes().strip(), Path(self.key_file).stat().st_mode
        except OSError as error:
            raise SettingsError(f"key_file {self.key_file}: {error.strerror}") from None
        if mode & 0o007:
            raise SettingsError(f"key_file {self.key_file}: everybody may use it (mode {mode & 0o777:o}); allowed: 640")
        if not KEY_MIN_BYTES <= len(key) <= KEY_MAX_BYTES:
            raise SettingsError(
                f"key_file {self.key_file}: it holds {len(key)} bytes; allowed: {KEY_MIN_BYTES} to {KEY_MAX_BYTES}"
            )
        return key

    def decisions(self) -> Dict[str, decision.Division]:
        """Return the divisions as decisions know them."""
        return {name: one.decision() for name, one in self.divisions.items()}


def check_files(chosen: Settings) -> None:
    """Raise SettingsError naming a setting whose file cannot be used."""
    chosen.read_key()
    check_writable("log_file", chosen.log_file)


def split_address(text: str) -> Tuple[str, int]:
    """Return (host, port) of "10.0.0.1:7700" or "[::1]:7700"; raises ValueError naming what is wrong."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]\s]+)):([0-9]{1,5})", text)
    if not found or int(found[3]) > 65535:
        raise ValueError(f"'{text}' is not HOST:PORT")
    return found[1] or found[2], int(found[3])


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address; a name may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(
    path: Optional[Path] = None,
    environment: Mapping[str, str] = os.environ,
    chosen: Optional[Mapping[str, Any]] = None,
) -> Settings:
    """Return the settings of a file (TOML, JSON, YAML), overridden by the environment, and that by ``chosen``.

    Raises SettingsError naming each key that is unknown, out of range or given twice.
    """
    return configuration.load(Settings, PREFIX, path, environment, chosen)
