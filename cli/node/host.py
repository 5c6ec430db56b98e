# SPDX-License-Identifier: Apache-2.0
"""The machine itself: its programs and its files."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

# How long a program may take, s. ovs-vsctl waits until ovs-vswitchd has done what it was told.
TIMEOUT_S = 60
# How long ovs-vsctl waits, s.
OVS_TIMEOUT_S = 30
# Where programs of an administrator are, which a service's PATH may leave out.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class HostError(Exception):
    """A program failed or a file could not be written; the text says which and why."""


class Host:
    """This machine. Files are below root, which tests choose."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        path = os.environ.get("PATH", "")
        self._environment = {**os.environ, "PATH": f"{path}:{_PATH}" if path else _PATH, "LC_ALL": "C.UTF-8"}

    def path(self, name: str) -> Path:
        """Return where the file of an absolute name is."""
        return self._root / name.lstrip("/")

    def program(self, name: str) -> Optional[str]:
        """Return the place of a program, None if it is not installed."""
        return shutil.which(name, path=self._environment["PATH"])

    def run(self, argv: Sequence[str]) -> str:
        """Run a program and return its output. Raises HostError with its complaint when it fails."""
        try:
            done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="replace", timeout=TIMEOUT_S, env=self._environment)
        except FileNotFoundError:
            raise HostError(f"`{shlex.join(argv)}`: the program {argv[0]} is not installed") from None
        except subprocess.TimeoutExpired:
            raise HostError(f"`{shlex.join(argv)}` did not end within {TIMEOUT_S} s") from None
        except OSError as error:
            raise HostError(f"`{shlex.join(argv)}`: {error}") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise HostError(f"`{shlex.join(argv)}` failed (exit status {done.returncode}): "
                            f"{said[-1] if said else 'it said nothing'}")
        return done.stdout

    def output(self, argv: Sequence[str]) -> Optional[str]:
        """Run a program and return its output, None when it fails or is not installed."""
        try:
            return self.run(argv)
        except HostError:
            return None

    def read(self, name: str) -> Optional[str]:
        """Return the text of a file, None when there is none or it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def names(self, folder: str, pattern: str = "*") -> List[str]:
        """Return the names in a folder that fit a pattern, sorted; none without the folder."""
        try:
            return sorted(one.name for one in self.path(folder).glob(pattern))
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""
        return self.path(name).exists()

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        """Put a file in place as a whole; missing folders are made. Raises HostError."""
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            try:
                with open(descriptor, "w", encoding="utf-8") as out:
                    os.fchmod(descriptor, mode)
                    out.write(text)
                    out.flush()
                    os.fsync(descriptor)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            raise HostError(f"{path} cannot be written: {error.strerror}") from None

    def remove(self, name: str) -> None:
        """Remove a file that may be gone already. Raises HostError."""
        try:
            self.path(name).unlink(missing_ok=True)
        except OSError as error:
            raise HostError(f"{self.path(name)} cannot be removed: {error.strerror}") from None

    def remove_if_empty(self, folder: str) -> None:
        """Remove a folder with nothing in it; another one, or none, is left as it is."""
        with contextlib.suppress(OSError):
            self.path(folder).rmdir()

    def ovs(self, *words: str) -> str:
        """Run ovs-vsctl and return its output. Raises HostError."""
        return self.run(["ovs-vsctl", f"--timeout={OVS_TIMEOUT_S}", *words])

    def table(self, name: str, *columns: str) -> List[Dict[str, Any]]:
        """Return the rows of a table of Open vSwitch's database by column. Raises HostError."""
        text = self.ovs("--no-wait", "--format=json", f"--columns={','.join(columns)}", "list", name)
        try:
            document = json.loads(text)
            return [{head: _plain(cell) for head, cell in zip(document["headings"], row)} for row in document["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(f"ovs-vsctl's answer about table {name} is not understood: {error}") from None


def _plain(cell: Any) -> Any:
    """Return a value of OVSDB's JSON: maps as dictionaries, sets as lists, ids as texts."""
    if isinstance(cell, list) and len(cell) == 2 and cell[0] in ("map", "set", "uuid"):
        kind, value = cell
        if kind == "map":
            return {str(key): str(_plain(one)) for key, one in value}
        return [_plain(one) for one in value] if kind == "set" else value
    return cell


def as_list(value: Any) -> List[Any]:
    """Return a column's value as a list: OVSDB shows a set of one as that one."""
    return value if isinstance(value, list) else [value]
