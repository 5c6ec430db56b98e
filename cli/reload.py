# SPDX-License-Identifier: Apache-2.0
"""Settings and the files they name, read again while a program runs: all of it comes into force, or none.

Every part that has something to read prepares first, and may refuse; only when all have prepared does any change.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import signal
import socket
from typing import Any, Callable, Collection, Generic, Literal, Optional, Sequence, Tuple, TypeVar

import pydantic

from sdngcc.configuration import SettingsError

Chosen = TypeVar("Chosen", bound=pydantic.BaseModel)

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of reading again."""

    time: str  # RFC 3339, UTC
    by: str  # who asked: SIGHUP, or the name of a token
    result: Literal["done", "failed"]
    changed: Tuple[str, ...] = ()  # settings that have another value now
    error: Optional[str] = None  # when failed, what was wrong


class Reloader(Generic[Chosen]):
    """Reads again; ``load`` returns the settings as the files and the environment say now, or raises SettingsError.

    ``check`` raises SettingsError for files that cannot be used. Each of ``parts`` reads what the settings name,
    raising SettingsError; what it returns puts that into force and cannot fail. Settings in ``live`` may change, those
    in ``kept`` their value only: that they are there at all decides what a restart is needed for.
    """

    def __init__(
        self,
        current: Chosen,
        load: Callable[[], Chosen],
        check: Callable[[Chosen], None],
        parts: Sequence[Callable[[Chosen], Callable[[], None]]],
        live: Collection[str],
        kept: Collection[str],
    ) -> None:
        self.current = current
        self.last: Optional[Outcome] = None
        self.counts = {"done": 0, "failed": 0}
        self.restart_needed: Tuple[str, ...] = ()  # settings that differ from those in force
        self._load = load
        self._check = check
        self._parts = parts
        self._live = live
        self._kept = kept

    def run(self, by: str) -> Outcome:
        """Read again, log and return what came of it; whatever is wrong leaves everything as it was."""
        try:
            outcome = self._run(by)
        except SettingsError as error:
            outcome = Outcome(_now(), by, "failed", error=str(error))
            LOG.error("reload by %s failed, all stays as it was: %s", by, outcome.error)
        self.counts[outcome.result] += 1
        self.last = outcome
        return outcome

    def _run(self, by: str) -> Outcome:
        wanted = self._load()
        self._check(wanted)
        before = self.current
        differing = [name for name in type(before).model_fields if getattr(wanted, name) != getattr(before, name)]
        changed = tuple(name for name in differing if self._is_live(name, before, wanted))
        in_force = before.model_copy(update={name: getattr(wanted, name) for name in changed})
        commits = [prepare(in_force) for prepare in self._parts]
        for commit in commits:
            commit()
        self.current = in_force
        self.restart_needed = tuple(name for name in differing if name not in changed)
        LOG.info("reload by %s: files read again; settings that changed: %s", by, ", ".join(changed) or "none")
        if self.restart_needed:
            LOG.warning("reload: these settings change with a restart only: %s", ", ".join(self.restart_needed))
        return Outcome(_now(), by, "done", changed)

    def _is_live(self, name: str, before: Chosen, wanted: Chosen) -> bool:
        """Tell whether a setting that differs may change now."""
        if name in self._kept:
            return bool(getattr(before, name)) and bool(getattr(wanted, name))
        return name in self._live


class Hangups:
    """The signals SIGHUP of this process, as something that select() can wait for."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        for one in (self._reader, self._writer):
            one.setblocking(False)
        signal.signal(signal.SIGHUP, self._note)

    def _note(self, *_: Any) -> None:
        try:
            self._writer.send(b"\0")
        except BlockingIOError:
            pass  # as many are noted already

    def fileno(self) -> int:
        """Return the descriptor that can be read once a signal came."""
        return self._reader.fileno()

    def take(self) -> bool:
        """Tell whether any signal came since the last call."""
        try:
            return bool(self._reader.recv(4096))
        except BlockingIOError:
            return False


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
