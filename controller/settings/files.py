# SPDX-License-Identifier: Apache-2.0
"""What settings name on this machine, tried before anything starts: files to be read, folders to be written in."""

import importlib.metadata
import os
import pathlib
from typing import Any, Callable, Optional

import yaml

from sdngcc.configuration import check_writable
from sdngcc.controller.databases.tenants import TenantFile
from sdngcc.controller.framework import allowlist, tls
from sdngcc.controller.network import underlay
from sdngcc.controller.settings import Settings, SettingsError, check_private, read_secret


def check_files(
    chosen: Settings,
    read_underlay: Callable[[pathlib.Path], Any] = underlay.read,
    pause: Callable[[], Any] = lambda: None,
) -> None:
    """Raise SettingsError naming each setting whose file or folder cannot be used as it must be, a line each.

    ``read_underlay`` tries the file of the network beneath, which takes long; ``pause``, between two files, may let
    others run.
    """
    tries: list[Callable[[], Any]] = [
        chosen.read_key,
        chosen.read_other_key,
        chosen.read_tokens,
        chosen.read_tls,
        lambda: tls.server_context(chosen),
        lambda: chosen.underlay_file and read_underlay(chosen.underlay_file),
        lambda: tls.server_context(chosen, "otlp_tls"),
        lambda: allowlist.AllowFile(chosen.admit_file),
        lambda: read_secret("sonic_password_file", chosen.sonic_password_file),
        lambda: _check_neutron(chosen),
        lambda: check_writable("audit_file", chosen.audit_file),
        lambda: check_writable("trace_file", chosen.trace_file),
        lambda: check_writable("log_file", chosen.log_file),
        lambda: _check_exchangeable("tenant_file", chosen.tenant_file),
    ]
    faults = []
    for attempt in tries:
        try:
            attempt()
        except SettingsError as error:
            faults.append(str(error))
        pause()
    if faults:
        raise SettingsError("\n".join(faults))


def _check_neutron(chosen: Settings) -> None:
    """Raise SettingsError when Neutron cannot be asked as the settings say."""
    key = "neutron_cloud" if chosen.neutron_cloud else "neutron_endpoint"
    if getattr(chosen, key):
        try:
            importlib.metadata.version("openstacksdk")
        except importlib.metadata.PackageNotFoundError:
            text = f"{key}: openstacksdk is not installed; pip install sdn-gcc[openstack] brings it"
            raise SettingsError(text) from None
    if not chosen.neutron_cloud:
        return
    path = chosen.neutron_clouds_file
    try:
        held = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"neutron_clouds_file {path}: {' '.join(str(error).split())}") from None
    check_private("neutron_clouds_file", path)
    clouds = held.get("clouds") if isinstance(held, dict) else None
    if not isinstance(clouds, dict) or chosen.neutron_cloud not in clouds:
        known = ", ".join(sorted(map(str, clouds))) if isinstance(clouds, dict) else "none, for it has no `clouds`"
        raise SettingsError(f"neutron_cloud {chosen.neutron_cloud}: no cloud of {path}; allowed: {known}")


def _check_exchangeable(key: str, path: Optional[pathlib.Path]) -> None:
    """Raise SettingsError when a file of tenants cannot be read, or a new one cannot be put in its place."""
    if path is None:
        return
    check_writable(key, path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise SettingsError(f"{key} {path}: folder {path.parent} cannot be written in by this user")
    TenantFile(path)
