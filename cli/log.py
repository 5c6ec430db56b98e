# SPDX-License-Identifier: Apache-2.0
"""Log lines of the programs that run for long: time, level and origin, and no more of a kind than one can read.

Lines are of one kind when they differ in numbers, addresses and ids only.  Of each kind BURST lines are written at once
and one each PERIOD_S after that; how many were left out is said, with the last of them, when it is over or
each PERIOD_S.  Lines that one place of a program writes may hold words of others and be of ever new kinds, so of those
together no more than PLACE_BURST are written at once, and PLACE_BURST / BURST each PERIOD_S.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import logging
import logging.handlers
import os
import pathlib
import re
import sys
import threading
import time
from typing import Any, Callable, List, Optional

from sdngcc.text import shown

BURST = 20
PERIOD_S = 10.0
PLACE_BURST = 10 * BURST
# Kinds remembered at a time; the one that was silent longest is forgotten for another.
KINDS_MAX = 500
_TICK_S = 1.0

# Numbers and ids: hexadecimal with at least one digit, such as 00000000000000a1, 02:00:00:00:00:01, 10.0.0.1:6653.
_VARIABLE = re.compile(r"\b(?=[0-9a-fA-F:.x-]*\d)[0-9a-fA-F:.x-]+\b")


def kind_of(record: logging.LogRecord) -> str:
    """Return what lines of one kind have in common."""
    raised = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
    return f"{record.name} {record.levelname} {raised} {_VARIABLE.sub('#', record.getMessage())[:200]}"


@dataclasses.dataclass
class _Kind:
    """How lines of one kind fare."""

    tokens: float
    seen_s: float
    left_out: int = 0
    since_s: float = 0.0  # of the first that was left out
    last: Optional[logging.LogRecord] = None

    @property
    def is_open(self) -> bool:
        """Tell whether a line may be written."""
        return self.tokens >= 1 and not self.left_out

    def leave_out(self, record: logging.LogRecord, now_s: float) -> None:
        """Count a line that is not written."""
        self.since_s = self.since_s if self.left_out else now_s
        self.left_out += 1
        self.last = record


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """What was left out of one kind, with the last of it."""

    count: int
    during_s: float
    last: logging.LogRecord


class _Kinds:
    """Kinds of lines that have ``burst`` tokens each, of which burst / BURST come back each PERIOD_S."""

    def __init__(self, burst: int) -> None:
        self._burst = burst
        self._by_name: collections.OrderedDict[str, _Kind] = collections.OrderedDict()

    def __len__(self) -> int:
        """Return how many kinds are remembered."""
        return len(self._by_name)

    def find(self, name: str, now_s: float) -> _Kind:
        """Return a kind as it is now."""
        kind = self._by_name.pop(name, None) or _Kind(self._burst, now_s)
        self._by_name[name] = kind
        if len(self._by_name) > KINDS_MAX:
            self._by_name.popitem(last=False)
        kind.tokens = min(self._burst, kind.tokens + (now_s - kind.seen_s) / PERIOD_S * self._burst / BURST)
        kind.seen_s = now_s
        return kind

    def due(self, now_s: float, every: bool) -> List[LeftOut]:
        """Return what was left out and is to be said now; all of it with ``every``."""
        found = []
        for kind in self._by_name.values():
            if kind.last is not None and (every or now_s - kind.since_s >= PERIOD_S):
                found.append(LeftOut(kind.left_out, now_s - kind.since_s, kind.last))
                kind.left_out, kind.last, kind.tokens = 0, None, max(0.0, kind.tokens - 1)
        return found


class Limiter:
    """Decides which lines are written; times are seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        self._places = _Kinds(PLACE_BURST)
        self._kinds = _Kinds(BURST)

    def admit(self, record: logging.LogRecord, now_s: float) -> bool:
        """Tell whether to write a line; one that is not is counted."""
        place = self._places.find(f"{record.name} {record.levelname} {record.pathname}:{record.lineno}", now_s)
        if not place.is_open:  # what it says is no kind of its own
            place.leave_out(record, now_s)
            return False
        kind = self._kinds.find(kind_of(record), now_s)
        if not kind.is_open:
            kind.leave_out(record, now_s)
            return False
        place.tokens -= 1
        kind.tokens -= 1
        return True

    def due(self, now_s: float, every: bool = False) -> List[LeftOut]:
        """Return what was left out and is to be said now; all of it with ``every``."""
        return self._places.due(now_s, every) + self._kinds.due(now_s, every)


class Formatter(logging.Formatter):
    """One line a record: UTC, level, origin, message; whatever the message holds, it begins no line of its own."""

    converter = time.gmtime  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and a traceback in indented lines after it."""
        return super().format(record).replace("\n", "\n    ")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without its traceback; what is not to be seen in it is written as escapes."""
        record.message = shown(record.message)
        return super().formatMessage(record)


class JsonFormatter(Formatter):
    """One JSON object a line: time, level, logger, message, and exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class LogFile(logging.handlers.RotatingFileHandler):
    """A log file that is put aside when it is long, and opened anew for the next line after reopen().

    A line that cannot be written, as on a full disk, is handed to ``otherwise``; the next one is tried again.
    """

    def __init__(
        self, path: pathlib.Path, longest: int, kept: int, otherwise: Callable[[logging.LogRecord], None]
    ) -> None:
        """``longest`` is in bytes, 0: never put aside; ``kept`` are how many files put aside there may be."""
        super().__init__(path, maxBytes=longest, backupCount=kept, delay=True)
        self._otherwise = otherwise

    def _open(self) -> Any:
        return open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=_open_private)

    def doRollover(self) -> None:
        """Put the file aside; where that fails it grows on."""
        try:
            super().doRollover()
        except OSError:
            self.reopen()

    def reopen(self) -> None:
        """Let go of the file, which may have been moved away."""
        stream, self.stream = self.stream, None  # type: ignore[assignment]
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass  # what it still held cannot be written

    def handleError(self, record: logging.LogRecord) -> None:
        """Give a line that was not written to whoever takes it."""
        self.reopen()
        self._otherwise(record)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o640)


class Handler(logging.Handler):
    """Writes what the limiter admits, and what it left out once it is due: to a file if one is set, or a stream."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__()
        self._limiter = Limiter()
        self._stream = logging.StreamHandler(stream or sys.stderr)
        self._file: Optional[LogFile] = None
        self._count_lost: Callable[[], None] = lambda: None
        self.setFormatter(Formatter())

    def setFormatter(self, fmt: Optional[logging.Formatter]) -> None:
        """Write lines in another form from now on."""
        super().setFormatter(fmt)
        for one in (self._stream, self._file):
            if one is not None:
                one.setFormatter(fmt)

    def use(self, path: Optional[pathlib.Path], longest: int, kept: int, count_lost: Callable[[], None]) -> None:
        """Write to a file from now on, None: the stream; ``count_lost`` is called for each line it does not take."""
        with self.lock or threading.RLock():
            before, self._count_lost = self._file, count_lost
            self._file = None if path is None else LogFile(path, longest, kept, self._write_otherwise)
            if self._file is not None:
                self._file.setFormatter(self.formatter)
            if before is not None:
                before.reopen()
                before.close()

    def _write(self, record: logging.LogRecord) -> None:
        (self._file or self._stream).emit(record)

    def _write_otherwise(self, record: logging.LogRecord) -> None:
        self._count_lost()
        self._stream.emit(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        now_s = time.monotonic()
        self._say_left_out(now_s)
        if self._limiter.admit(record, now_s):
            self._write(record)

    def tick(self) -> None:
        """Say what was left out and is due; call it about once a second."""
        with self.lock or threading.RLock():
            self._say_left_out(time.monotonic())

    def close(self) -> None:
        """Say all that was left out."""
        with self.lock or threading.RLock():
            self._say_left_out(time.monotonic(), every=True)
            if self._file is not None:
                self._file.close()
        super().close()

    def _say_left_out(self, now_s: float, every: bool = False) -> None:
        for one in self._limiter.due(now_s, every):
            last = one.last
            text = f"{one.count} more like this were left out in {one.during_s:.0f} s; the last: {last.getMessage()}"
            self._write(logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, None, None))


_installed: Optional[Handler] = None


def install(level: Optional[int] = None) -> None:
    """Write this process' log in this form; other handlers of standard error are taken away, files and syslog stay.

    Call it again after a framework set up its own; ``level`` is that of the root logger, None leaves it.
    """
    global _installed
    root = logging.getLogger()
    for handler in list(root.handlers):
        if type(handler) is logging.StreamHandler and handler.stream is sys.stderr:
            root.removeHandler(handler)
    if level is not None:
        root.setLevel(level)
    if _installed is None:
        _installed = Handler()
        root.addHandler(_installed)
        threading.Thread(target=_tick, args=(_installed,), name="log", daemon=True).start()


def configure(
    level: int,
    path: Optional[pathlib.Path],
    longest: int,
    kept: int,
    as_json: bool,
    count_lost: Callable[[], None],
) -> None:
    """Set level, file and form of this process' log, which install() set up; again opens the file anew.

    ``longest`` is in bytes, after which the file is put aside, 0: never; ``kept`` are how many such files there may
    be. A line that the file does not take goes to standard error, and ``count_lost`` is called.
    """
    assert _installed is not None
    logging.getLogger().setLevel(level)
    _installed.setFormatter(JsonFormatter() if as_json else Formatter())
    _installed.use(path, longest, kept, count_lost)


def _tick(handler: Handler) -> None:
    while True:
        time.sleep(_TICK_S)
        handler.tick()
