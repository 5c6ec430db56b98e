# SPDX-License-Identifier: Apache-2.0
"""Which certificate may speak for which switches: the lines of the file that setting ``admit_file`` names.

A line is ``<name> <datapath id>...`` or ``<name> any``; ``*`` in a name stands for any characters.  A certificate may
do what all the lines that fit one of its names say together.  ``any`` stands for the datapath ids that no line names.
Without a file every certificate that the authority signed may speak for any switch.
"""

import logging
import pathlib
import re
from typing import NamedTuple, Optional

from sdngcc.configuration import SettingsError, stamp
from sdngcc.controller.framework.certificates import Identity
from sdngcc.controller.mappings import datapath_id

ANY = "any"
_SHOWN_MAX = 8

LOG = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A line of the list."""

    name: "re.Pattern[str]"
    text: str  # the name as it stands there
    dpids: frozenset[int]
    any: bool


class AllowList:
    """The lines of a list; ``version`` grows with each change."""

    def __init__(self, entries: Optional[list[Entry]] = None) -> None:
        """``entries`` None stands for no list."""
        self.version = 0
        self.fault: Optional[str] = None  # why the list as it is written now is not in force
        self._replace(entries)

    def _replace(self, entries: Optional[list[Entry]]) -> None:
        self._entries = entries
        self._named = frozenset(dpid for entry in entries or () for dpid in entry.dpids)
        self.version += 1

    def _fitting(self, who: Identity) -> list[Entry]:
        return [entry for entry in self._entries or () if any(entry.name.fullmatch(name) for name in who)]

    def refuses(self, who: Optional[Identity]) -> Optional[str]:
        """Return why a certificate is not admitted at all, None when it is; ``who`` None stands for one without name.

        Connections without TLS are not asked about.
        """
        if who is None:
            return "its certificate has no name; a common name or an alternative name is needed"
        if self._entries is None or self._fitting(who):
            return None
        return f'no line of admit_file fits its certificate "{who.name}"; allowed: {self._names()}'

    def refuses_switch(self, who: Identity, dpid: int) -> Optional[str]:
        """Return why a certificate may not speak for a switch, None when it may."""
        if self._entries is None:
            return None
        fitting = self._fitting(who)
        allowed = {one for entry in fitting for one in entry.dpids}
        free = any(entry.any for entry in fitting)
        if dpid in allowed or (free and dpid not in self._named):
            return None
        shown = [f"{one:016x}" for one in sorted(allowed)[:_SHOWN_MAX]]
        if len(allowed) > _SHOWN_MAX:
            shown.append(f"{len(allowed) - _SHOWN_MAX} more")
        if free:
            shown.append("any that admit_file does not name")
        return (
            f'its certificate "{who.name}" may not speak for switch {dpid:016x}; '
            f"admit_file allows it: {', '.join(shown) or 'none'}"
        )

    def _names(self) -> str:
        names = [entry.text for entry in self._entries or ()]
        more = [f"{len(names) - _SHOWN_MAX} more"] if len(names) > _SHOWN_MAX else []
        return ", ".join(names[:_SHOWN_MAX] + more) or "none"


class AllowFile(AllowList):
    """The list in a file, which is read again when the file changes; raises SettingsError naming the line at fault."""

    def __init__(self, path: Optional[pathlib.Path]) -> None:
        self._path = path
        self._seen = None if path is None else stamp(path)
        super().__init__(None if path is None else read(path))

    def follow(self) -> bool:
        """Read the file again if it changed; return whether the list did. One that is wrong leaves the former one."""
        if self._path is None:
            return False
        seen = stamp(self._path)
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            entries = read(self._path)
        except SettingsError as error:
            self.fault = str(error)
            LOG.error("%s; the lines read before stay in force", error)
            return False
        self.fault = None
        self._replace(entries)
        LOG.info("admit_file %s: %d lines are in force now", self._path, len(entries))
        return True


def read(path: pathlib.Path) -> list[Entry]:
    """Return the lines of a list; raises SettingsError naming the file, and the line at fault."""
    try:
        lines = path.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"admit_file {path}: {error}") from None
    entries = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            entries.append(_entry(words[0], words[1:]))
        except ValueError as error:
            raise SettingsError(
                f"admit_file {path}, line {number}: {error}; allowed is <certificate's name> followed by datapath ids "
                f"or {ANY}"
            ) from None
    return entries


def _entry(name: str, allowed: list[str]) -> Entry:
    """Return what a line says; raises ValueError."""
    if not allowed:
        raise ValueError(f'"{name}" has no datapath id')
    dpids = frozenset(datapath_id(one) for one in allowed if one != ANY)
    pattern = ".*".join(re.escape(part) for part in name.split("*"))
    return Entry(re.compile(pattern), name, dpids, ANY in allowed)
