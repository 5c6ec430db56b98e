# SPDX-License-Identifier: Apache-2.0
"""The file of the network beneath, read by a process of its own while the controller runs.

To parse a large one takes seconds. In a thread, that would hold Python's lock for 5 ms at each turn, and for as long
as a validation takes, with everything else waiting. So a process parses it, and here come lines of JSON with a few
switches, hosts or links each, between which others run.
"""

import json
import os
import pathlib
import signal
import time
from typing import Any, Iterator, Optional

from sdngcc.configuration import SettingsError
from sdngcc.controller.child import Child
from sdngcc.controller.databases.telling import read_line, write_all
from sdngcc.controller.network import underlay
from sdngcc.controller.network.underlay import End, Link, Underlay, at_hosts

MODULE = "sdngcc.controller.network.underlay_process"
CHUNK = 64  # switches, hosts or links of a line
LINE_MAX_BYTES = 1 << 22
PATIENCE_S = 120.0  # without a line

_WAIT_S = 0.5


def _line(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


_END = _line({"end": None})


def lines_of(found: Underlay) -> Iterator[bytes]:
    """Yield the lines that tell what a file says."""
    for kind, items in (("switches", found.switches.items()), ("hosts", found.hosts.items()), ("links", found.links)):
        whole = list(items)
        for first in range(0, len(whole), CHUNK):
            yield _line({kind: whole[first : first + CHUNK]})
    yield _END


class Assembly:
    """What the lines of a file say so far."""

    def __init__(self) -> None:
        self._switches: dict[str, int] = {}
        self._hosts: dict[int, str] = {}
        self._links: list[Link] = []
        self._at: dict[str, list[Link]] = {}
        self._names: set[str] = set()  # of hosts

    def take(self, line: bytes) -> Optional[Underlay]:
        """Take a line; return the whole file after the last. Raises ValueError with the file's fault."""
        ((kind, content),) = json.loads(line).items()
        if kind == "switches":
            self._switches.update(content)
        elif kind == "hosts":
            self._hosts.update(content)
            self._names.update(name for _, name in content)
        elif kind == "links":
            links = [Link((End(*near), End(*far)), rate) for (near, far), rate in content]
            self._links += links
            at_hosts(links, self._names, self._at)
        elif kind == "fault":
            raise ValueError(content)
        else:
            return Underlay(self._switches, self._hosts, tuple(self._links), self._at)
        return None


def read(path: pathlib.Path) -> Underlay:
    """Return what a file says, while others run; raises SettingsError naming what is wrong in it."""
    return _guarded(path, True)


def check(path: pathlib.Path) -> None:
    """Try whether a file can be used, while others run; raises SettingsError naming what is wrong in it."""
    _guarded(path, False)


def _guarded(path: pathlib.Path, whole: bool) -> Underlay:
    try:
        return _read(path, whole)
    except SettingsError:
        raise
    except (ValueError, OSError) as error:
        raise SettingsError(str(error)) from None


def _read(path: pathlib.Path, whole: bool) -> Underlay:
    orders = _line({"path": os.fspath(path), "whole": whole})
    reader, assembly = Child(MODULE, orders, LINE_MAX_BYTES, {}), Assembly()
    heard_s = time.monotonic()
    try:
        while time.monotonic() - heard_s < PATIENCE_S:
            lines = reader.lines(_WAIT_S)
            if lines is None:
                raise SettingsError(f"underlay_file {path}: the process that reads it ended")
            for line in lines:
                heard_s = time.monotonic()
                found = assembly.take(line)
                if found is not None:
                    return found
                time.sleep(0)  # for others
    finally:
        reader.close()
    raise SettingsError(f"underlay_file {path}: it could not be read within {PATIENCE_S:g} s")


def main() -> int:
    """Read the file that standard input names, tell what it says if that is wanted, and return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's
    orders = json.loads(read_line(0))
    try:
        found = underlay.read(pathlib.Path(orders["path"]))
    except SettingsError as error:
        write_all(1, _line({"fault": str(error)}))
        return 0
    assert found is not None
    for line in lines_of(found) if orders["whole"] else (_END,):
        write_all(1, line)
    return 0


if __name__ == "__main__":
    status = main()
    os._exit(status)
