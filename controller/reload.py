# SPDX-License-Identifier: Apache-2.0
"""Settings and the files they name, read again while the controller runs: all of it comes into force, or none.

What can change without a restart is in LIVE; what else differs is named, and stays as it was.  A setting whose being
there at all decides how the controller listens, such as a certificate, may change its value only (KEPT).

Every part that has something to read prepares first, and may refuse; only when all have prepared does any change.
"""

import dataclasses
import datetime
import logging
from typing import Callable, Literal, Optional, Sequence

from sdngcc.configuration import SettingsError
from sdngcc.controller.settings import Settings
from sdngcc.controller.settings.files import check_files

KEPT = frozenset({
    "key_file", "rest_token_file", "rest_tls_cert", "rest_tls_key",
    "openflow_tls_key", "openflow_tls_cert", "openflow_tls_ca",
})  # fmt: skip
LIVE = KEPT | {
    "key_other_file", "rest_hosts", "rest_event_clients", "audit_file",
    "openflow_connections_a_peer", "openflow_silence_s", "ovsdb_connections_a_peer",
    "log_file", "log_level", "log_format", "log_file_bytes", "log_files",
}  # fmt: skip

# Reads what the settings name, raising SettingsError; what it returns puts that into force and cannot fail.
Prepare = Callable[[Settings], Callable[[], None]]

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of reading again."""

    time: str  # RFC 3339, UTC
    by: str  # who asked: SIGHUP, or the name of a token
    result: Literal["done", "failed"]
    changed: tuple[str, ...] = ()  # settings that have another value now
    error: Optional[str] = None  # when failed, what was wrong


class Reloader:
    """Reads again; ``load`` returns the settings as the files and the environment say now, or raises SettingsError."""

    def __init__(self, current: Settings, load: Callable[[], Settings], parts: Sequence[Prepare]) -> None:
        self.current = current
        self.last: Optional[Outcome] = None
        self.counts = {"done": 0, "failed": 0}
        self.restart_needed: tuple[str, ...] = ()  # settings that differ from those in force
        self._load = load
        self._parts = parts

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
        check_files(wanted)
        before = self.current
        differing = [name for name in Settings.model_fields if getattr(wanted, name) != getattr(before, name)]
        changed = tuple(name for name in differing if _is_live(name, before, wanted))
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


def _is_live(name: str, before: Settings, wanted: Settings) -> bool:
    """Tell whether a setting that differs may change now."""
    if name in KEPT:
        return getattr(before, name) is not None and getattr(wanted, name) is not None
    return name in LIVE


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
