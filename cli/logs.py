# SPDX-License-Identifier: Apache-2.0
"""Settings of where a program's log goes, and how much of it."""

from __future__ import annotations

import logging
import pathlib
from typing import Callable, Literal, Optional

import pydantic

from sdngcc import log


class Logs(pydantic.BaseModel):
    """Where the log goes, and how much of it."""

    log_file: Optional[pathlib.Path] = pydantic.Field(None, description="file the log goes to; none: standard error")
    log_level: Literal["debug", "info", "warning", "error"] = pydantic.Field(
        "info", description="the least level that is written; debug has what the framework does, too"
    )
    log_format: Literal["text", "json"] = pydantic.Field("text", description="lines of text, or a JSON object a line")
    log_file_bytes: int = pydantic.Field(
        100_000_000, ge=0, le=1_000_000_000_000, description="a file this long is put aside; 0: never"
    )
    log_files: int = pydantic.Field(5, ge=1, le=1000, description="files put aside that are kept, the latest ones")


# All of them change while a program runs.
LOGS = frozenset(Logs.model_fields)


def prepare(chosen: Logs, count_lost: Callable[[], None]) -> Callable[[], None]:
    """Return what lets the log go where settings say, by a file that is opened anew; see log.configure()."""
    return lambda: log.configure(
        logging.getLevelName(chosen.log_level.upper()), chosen.log_file, chosen.log_file_bytes, chosen.log_files,
        chosen.log_format == "json", count_lost,
    )  # fmt: skip
