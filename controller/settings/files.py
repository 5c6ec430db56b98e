# SPDX-License-Identifier: Apache-2.0
"""What settings name on this machine, tried before anything starts: files to be read, folders to be written in."""

import os
import pathlib
from typing import Any, Callable, Optional

from sdngcc.configuration import check_writable
from sdngcc.controller.databases.tenants import TenantFile
from sdngcc.controller.framework import allowlist, tls
from sdngcc.controller.network import underlay
from sdngcc.controller.settings import Settings, SettingsError, read_secret


def check_files(chosen: Settings) -> None:
    """Raise SettingsError naming each setting whose file or folder cannot be used as it must be, a line each."""
    tries: list[Callable[[], Any]] = [
        chosen.read_key,
        chosen.read_other_key,
        chosen.read_tokens,
        chosen.read_tls,
        lambda: tls.server_context(chosen),
        lambda: underlay.read(chosen.underlay_file),
        lambda: tls.server_context(chosen, "otlp_tls"),
        lambda: allowlist.AllowFile(chosen.admit_file),
        lambda: read_secret("sonic_password_file", chosen.sonic_password_file),
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
    if faults:
        raise SettingsError("\n".join(faults))


def _check_exchangeable(key: str, path: Optional[pathlib.Path]) -> None:
    """Raise SettingsError when a file of tenants cannot be read, or a new one cannot be put in its place."""
    if path is None:
        return
    check_writable(key, path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise SettingsError(f"{key} {path}: folder {path.parent} cannot be written in by this user")
    TenantFile(path)
