# SPDX-License-Identifier: Apache-2.0
"""The trace: JSON lines of what was decided, for experiments and for whoever asks why."""

import collections
import json
import logging
import pathlib
from typing import Any, Optional

SECOND_NS = 1_000_000_000

LOG = logging.getLogger(__name__)


class Trace:
    """Lines gathered in memory and appended to a file by flush(); without a path nothing is gathered."""

    def __init__(self, path: Optional[pathlib.Path], counters: "collections.Counter[str]") -> None:
        self._path = path
        self._counters = counters
        self._lines: list[str] = []

    @property
    def on(self) -> bool:
        """Tell whether anything is gathered."""
        return self._path is not None

    def add(self, now_ns: int, event: str, **details: Any) -> None:
        """Note an event."""
        if self.on:
            self._lines.append(json.dumps({"t": now_ns / SECOND_NS, "event": event, **details}))

    def flush(self) -> None:
        """Write what was gathered; lines a file does not take are counted as trace_lost and reported."""
        if self._path is None or not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            with open(self._path, "a", encoding="ascii") as stream:
                stream.write("\n".join(lines) + "\n")
        except OSError as error:
            self._counters["trace_lost"] += len(lines)
            LOG.error("trace_file %s: %s; %d lines lost", self._path, error, len(lines))
