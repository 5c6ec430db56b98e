# SPDX-License-Identifier: Apache-2.0
"""Log lines of the programs that run for long: time, level and origin, and no more of a kind than one can read.

Lines are of one kind when they differ in numbers, addresses and ids only.  Of each kind BURST lines are written at once
and one each PERIOD_S after that; how many were left out is said, with the last of them, when it is over or
each PERIOD_S.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import re
import sys
import threading
import time
from typing import Any, List, Optional

BURST = 20
PERIOD_S = 10.0
# Kinds remembered at a time; the one that was silent longest is forgotten for another.
KINDS_MAX = 500
_TICK_S = 1.0

# Numbers and ids: hexadecimal with at least one digit, such as 00000000000000a1, 02:00:00:00:00:01, 10.0.0.1:6653.
_VARIABLE = re.compile(r"\b(?=[0-9a-fA-F:.x-]*\d)[0-9a-fA-F:.x-]+\b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


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


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """What was left out of one kind, with the last of it."""

    count: int
    during_s: float
    last: logging.LogRecord


class Limiter:
    """Decides which lines are written; times are seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        self._kinds: collections.OrderedDict[str, _Kind] = collections.OrderedDict()

    def admit(self, record: logging.LogRecord, now_s: float) -> bool:
        """Tell whether to write a line; one that is not is counted."""
        name = kind_of(record)
        kind = self._kinds.pop(name, None) or _Kind(BURST, now_s)
        self._kinds[name] = kind
        if len(self._kinds) > KINDS_MAX:
            self._kinds.popitem(last=False)
        kind.tokens = min(BURST, kind.tokens + (now_s - kind.seen_s) / PERIOD_S)
        kind.seen_s = now_s
        if kind.tokens >= 1 and not kind.left_out:
            kind.tokens -= 1
            return True
        kind.since_s = kind.since_s if kind.left_out else now_s
        kind.left_out += 1
        kind.last = record
        return False

    def due(self, now_s: float, every: bool = False) -> List[LeftOut]:
        """Return what was left out and is to be said now; all of it with ``every``."""
        found = []
        for kind in self._kinds.values():
            if kind.last is not None and (every or now_s - kind.since_s >= PERIOD_S):
                found.append(LeftOut(kind.left_out, now_s - kind.since_s, kind.last))
                kind.left_out, kind.last, kind.tokens = 0, None, max(0.0, kind.tokens - 1)
        return found


class Formatter(logging.Formatter):
    """One line a record: UTC, level, origin, message; whatever the message holds, it begins no line of its own."""

    converter = time.gmtime  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and a traceback in indented lines after it."""
        return super().format(record).replace("\n", "\n    ")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without its traceback; control characters are written as escapes."""
        record.message = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", record.message)
        return super().formatMessage(record)


class Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes what the limiter admits to standard error, and what it left out once it is due."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__(stream or sys.stderr)
        self._limiter = Limiter()
        self.setFormatter(Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        now_s = time.monotonic()
        self._say_left_out(now_s)
        if self._limiter.admit(record, now_s):
            super().emit(record)

    def tick(self) -> None:
        """Say what was left out and is due; call it about once a second."""
        with self.lock or threading.RLock():
            self._say_left_out(time.monotonic())

    def close(self) -> None:
        """Say all that was left out."""
        with self.lock or threading.RLock():
            self._say_left_out(time.monotonic(), every=True)
        super().close()

    def _say_left_out(self, now_s: float, every: bool = False) -> None:
        for one in self._limiter.due(now_s, every):
            last = one.last
            text = f"{one.count} more like this were left out in {one.during_s:.0f} s; the last: {last.getMessage()}"
            super().emit(logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, None, None))


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


def _tick(handler: Handler) -> None:
    while True:
        time.sleep(_TICK_S)
        handler.tick()
