# SPDX-License-Identifier: Apache-2.0
"""Who changed which policy, when, from what to what, and what came of it.

Records are JSON lines in ``audit_file``.  The file is opened for each record, so moving it away (logrotate, no signal
needed) begins a new one; when it cannot be opened, or its disk is full, no change is made.  What somebody else stored
in OVSDB (ovs-vsctl, another controller) is recorded when it is seen, by "ovsdb".
"""

import collections
import datetime
import errno
import logging
import os
import pathlib
from typing import Callable, Counter, Optional

import pydantic

from sdngcc.controller.rest import models
from sdngcc.controller.settings import Settings

KEPT = 1000
_TAIL_BYTES = 1 << 20
# Bytes that a file system must have left for a change to be made: many records, of those asked for at once.
_ROOM_BYTES = 1 << 16

LOG = logging.getLogger(__name__)


class AuditError(RuntimeError):
    """An audit file that cannot be written; the text says why."""


class AuditLog:
    """The last records, and the file all of them go to; without a path only the last ones are kept."""

    def __init__(self, path: Optional[pathlib.Path], counters: "Counter[str]") -> None:
        self.records: collections.deque[models.AuditRecord] = collections.deque(maxlen=KEPT)
        self._path = path
        self._counters = counters
        if path is not None:
            self._load(path)

    def _load(self, path: pathlib.Path) -> None:
        """Take in the last records of a file that is there already."""
        try:
            with open(path, "rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
                lines = stream.read().splitlines()[-KEPT:]
        except FileNotFoundError:
            return
        except OSError as error:
            LOG.error("audit_file %s: %s", path, error)
            return
        for line in lines:
            try:
                self.records.append(models.AuditRecord.model_validate_json(line))
            except pydantic.ValidationError:
                LOG.warning("audit_file %s: a line that is no record is left out", path)

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Return what lets records go to the file that settings name."""

        def commit() -> None:
            self._path = settings.audit_file

        return commit

    def check(self) -> None:
        """Raise AuditError when a record could not be written now."""
        if self._path is None:
            return
        descriptor = self._open(self._path)
        try:
            room = os.fstatvfs(descriptor)
        finally:
            os.close(descriptor)
        if room.f_blocks and room.f_bavail * room.f_frsize < _ROOM_BYTES:
            raise AuditError(
                f"audit_file {self._path}: its file system has less than {_ROOM_BYTES} bytes left;"
                " no policy is changed without room for a record"
            )

    def _open(self, path: pathlib.Path) -> int:
        try:
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise AuditError(f"audit_file {path}: {error.strerror}; no policy is changed without it") from None

    def add(self, record: models.AuditRecord) -> None:
        """Keep a record; one that the file does not take is counted as audit_lost and goes to the log."""
        self.records.append(record)
        if self._path is None:
            return
        line = record.model_dump_json() + "\n"
        try:
            self._append(self._path, line.encode())
        except (OSError, AuditError) as error:
            self._counters["audit_lost"] += 1
            LOG.error("audit_file %s: %s; lost: %s", self._path, error, line.strip())

    def _append(self, path: pathlib.Path, line: bytes) -> None:
        """Write a line, all of it or nothing: the next record would else be a part of it, and no record."""
        descriptor = self._open(path)
        try:
            written = os.write(descriptor, line)
            if written < len(line):
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)


def now_text() -> str:
    """Return the time as records have it: RFC 3339, UTC, milliseconds."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
