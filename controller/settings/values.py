# SPDX-License-Identifier: Apache-2.0
"""What several settings hold: addresses, and files with secrets."""

import ipaddress
import pathlib
import re
from typing import Optional

from sdngcc.configuration import SettingsError


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_private(key: str, path: pathlib.Path) -> None:
    """Raise SettingsError naming the setting when everybody may read or write a file that holds a secret."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"{key} {path}: {error}") from None
    if mode & 0o007:
        raise SettingsError(f"{key} {path}: everybody may use it (mode {mode & 0o777:o}); allowed: 640")


def read_secret(key: str, path: Optional[pathlib.Path]) -> Optional[str]:
    """Return the one line of a file that a setting names, None without one; raises SettingsError."""
    if path is None:
        return None
    try:
        text = path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{key} {path}: {error}") from None
    check_private(key, path)
    if not text or "\n" in text:
        raise SettingsError(f"{key} {path}: it must hold one line and nothing else")
    return text


def split_address(text: str) -> tuple[str, int]:
    """Return (address, port) of "127.0.0.1:8080" or "[::1]:8080"; raises ValueError naming what is wrong."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]+)):([0-9]+)", text)
    if not found or not 0 <= int(found[3]) <= 65535:
        raise ValueError(f'"{text}" is no <address>:<port> with a port of 0 to 65535')
    return found[1] or found[2], int(found[3])
